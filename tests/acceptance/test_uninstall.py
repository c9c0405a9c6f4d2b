"""Coming and going: what is installed works, what others wrote stays, and what is uninstalled was never there."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable

import pytest

from tests.acceptance.laptop import CLIENTS, AppServer, Laptop, files

SETTINGS = """{
    "model":   "opus",
    "hooks": {
        "Stop": [ { "hooks": [ {"type": "command", "command": "touch $HOME/anns-own-hook"} ] } ]
    }
}
"""
HOOKS = (
    '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "touch $HOME/anns-codex-hook", "timeout": 5}]}]}}\n'
)
NOTIFY = 'notify = ["sh", "-c", "printf %s \\"$1\\" > $HOME/anns-notify", "notify"] # mine\n'


@pytest.fixture
def laptop(new_laptop: Callable[[], Laptop]) -> Laptop:
    """Of somebody who has hooks of her own, and has used both clients already."""
    laptop = new_laptop()
    (laptop.home / ".claude").mkdir()
    (laptop.home / ".claude/settings.json").write_text(SETTINGS, encoding="utf-8")
    (laptop.home / ".codex/hooks.json").write_text(HOOKS, encoding="utf-8")
    config = laptop.home / ".codex/config.toml"
    config.write_text(NOTIFY + config.read_text(encoding="utf-8"), encoding="utf-8")
    laptop.trust()
    web = laptop.project("web")
    for client in CLIENTS:
        assert laptop.prompt(client, "Hello.", at=web).code == 0
    return laptop


def of_ann(laptop: Laptop) -> dict[str, bytes]:
    """All files of her home but cofio's own."""
    return {name: content for name, content in files(laptop.home).items() if not name.startswith(".cofio/")}


def test_what_is_installed_and_uninstalled_at_once_was_never_there(laptop: Laptop) -> None:
    before = of_ann(laptop)
    laptop.install("--no-start")
    assert of_ann(laptop) != before
    laptop.uninstall()
    assert of_ann(laptop) == before


def test_what_was_used_between_leaves_no_trace_either(laptop: Laptop) -> None:
    web = laptop.home / "web"
    before = of_ann(laptop)
    laptop.install()
    for client in CLIENTS:
        assert laptop.prompt(client, "We use Vitest for unit tests.", at=web).code == 0
    for own in ("anns-own-hook", "anns-codex-hook", "anns-notify"):
        assert (laptop.home / own).exists()  # her own hooks ran beside ours
    laptop.settled()
    laptop.uninstall()

    after = of_ann(laptop)
    for name in (".claude/settings.json", ".codex/hooks.json"):
        assert after[name] == before[name]
    for name, parsed in ((".codex/config.toml", tomllib.loads), (".claude.json", json.loads)):
        assert "cofio" not in after[name].decode().lower()
        now, then = parsed(after[name].decode()), parsed(before[name].decode())
        assert {key: now.get(key) for key in ("hooks", "notify", "mcp_servers", "mcpServers", "model")} == {
            key: then.get(key) for key in ("hooks", "notify", "mcp_servers", "mcpServers", "model")
        }
    # What the clients noted of their own runs is theirs: transcripts, logs, databases, copies of their own state.
    theirs = (".claude/projects/", ".claude/backups/", ".cache/", ".codex/sessions/", ".codex/thread_history",
              ".codex/logs", ".codex/state")  # fmt: skip
    new = [name for name in after if name not in before and not name.startswith(theirs)]
    assert not [name for name in new if "cofio" in name.lower() or "memory-" in name]
    assert not [name for name in new if b"cofio" in after[name].lower()]
    for client in CLIENTS:
        ran = laptop.prompt(client, "Which unit tests do we have?", at=web)
        assert (ran.code, "cofio" in ran.read) == (0, False)


def test_codex_agrees_that_the_hooks_are_approved_and_her_own_still_are(laptop: Laptop) -> None:
    laptop.install("--no-start")
    with AppServer(laptop) as codex:
        (place,) = codex.ask("hooks/list", cwds=[str(laptop.home)])["data"]
    assert place["errors"] == []
    assert len(place["hooks"]) == 6
    assert {each["trustStatus"] for each in place["hooks"]} == {"trusted"}


def test_without_approval_codex_runs_none_of_our_hooks_and_notify_still_lets_it_learn(laptop: Laptop) -> None:
    laptop.cofio("install", "codex", "--yes", "--provider", "skip", "--notify")
    laptop.notifies = True
    web = laptop.home / "web"
    ran = laptop.codex("We use Vitest for unit tests.", at=web)
    assert ran.code == 0
    assert "cofio-memory" not in ran.read
    laptop.settled()
    assert ["Vitest" in memory["text"] for memory in laptop.of(web)] == [True]


def test_doctor_is_content_after_an_installation_and_names_what_is_broken(laptop: Laptop) -> None:
    laptop.install()
    well = laptop.cofio("doctor", ok=False)
    assert (well.returncode, complaints(well.stdout)) == (0, [])
    config = (laptop.home / ".codex/config.toml").read_text(encoding="utf-8")
    for path, content, words in (
        (".claude/settings.json", "{}", "claude-code: "),
        (".claude/settings.json", '{"hooks": ', "claude-code: "),
        (".codex/config.toml", config.replace("sha256:", "sha256:0"), "codex: "),
        (".cofio/hook", None, "launcher: "),
    ):
        assert any(words in each for each in broken(laptop, path, content)), (path, words)
    assert complaints(laptop.cofio("doctor", ok=False).stdout) == []
    laptop.down()
    said = laptop.cofio("doctor", ok=False)
    assert said.returncode != 0
    assert [complaint for complaint in complaints(said.stdout) if "service: " in complaint]
    assert "cofio up" in said.stdout


def broken(laptop: Laptop, name: str, content: str | None) -> list[str]:
    """What doctor complains of when this file is gone, or holds this."""
    path = laptop.home / name
    kept, mode = path.read_bytes(), path.stat().st_mode
    path.unlink() if content is None else path.write_text(content, encoding="utf-8")
    said = laptop.cofio("doctor", ok=False)
    path.write_bytes(kept)
    path.chmod(mode)
    assert said.returncode != 0, said.stdout
    return complaints(said.stdout)


def complaints(said: str) -> list[str]:
    return [line for line in said.splitlines() if line.startswith("✗")]
