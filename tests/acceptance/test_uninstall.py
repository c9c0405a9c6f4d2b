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
    """Return a laptop whose user has her own hooks and has used both clients."""
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
    """Return all files of the home except cofio's own."""
    return {name: content for name, content in files(laptop.home).items() if not name.startswith(".cofio/")}


def test_install_and_uninstall_restore_all_files(laptop: Laptop) -> None:
    before = of_ann(laptop)
    laptop.install("--no-start")
    assert of_ann(laptop) != before
    laptop.uninstall()
    assert of_ann(laptop) == before


def test_uninstall_after_use_restores_all_files(laptop: Laptop) -> None:
    web = laptop.home / "web"
    before = of_ann(laptop)
    laptop.install()
    for client in CLIENTS:
        assert laptop.prompt(client, "We use Vitest for unit tests.", at=web).code == 0
    for own in ("anns-own-hook", "anns-codex-hook", "anns-notify"):
        assert (laptop.home / own).exists()  # her own hooks ran next to cofio's
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
    # Files that the clients wrote for their own runs remain: transcripts, logs, databases, backups of their state.
    theirs = (".claude/projects/", ".claude/backups/", ".cache/", ".codex/sessions/", ".codex/thread_history",
              ".codex/logs", ".codex/state")  # fmt: skip
    new = [name for name in after if name not in before and not name.startswith(theirs)]
    assert not [name for name in new if "cofio" in name.lower() or "memory-" in name]
    assert not [name for name in new if b"cofio" in after[name].lower()]
    for client in CLIENTS:
        run = laptop.prompt(client, "Which unit tests do we have?", at=web)
        assert (run.code, "cofio" in run.read) == (0, False)


def test_codex_reports_all_hooks_as_approved(laptop: Laptop) -> None:
    laptop.install("--no-start")
    with AppServer(laptop) as codex:
        (place,) = codex.ask("hooks/list", cwds=[str(laptop.home)])["data"]
    assert place["errors"] == []
    assert len(place["hooks"]) == 6
    assert {hook["trustStatus"] for hook in place["hooks"]} == {"trusted"}


def test_unapproved_hooks_do_not_run_in_codex_and_notify_still_captures(laptop: Laptop) -> None:
    laptop.cofio("install", "codex", "--yes", "--provider", "skip", "--notify")
    laptop.notifies = True
    web = laptop.home / "web"
    run = laptop.codex("We use Vitest for unit tests.", at=web)
    assert run.code == 0
    assert "cofio-memory" not in run.read
    laptop.settled()
    assert ["Vitest" in memory["text"] for memory in laptop.of(web)] == [True]


def test_doctor_passes_after_install_and_names_broken_files(laptop: Laptop) -> None:
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
        assert any(words in item for item in broken(laptop, path, content)), (path, words)
    assert complaints(laptop.cofio("doctor", ok=False).stdout) == []
    laptop.down()
    text = laptop.cofio("doctor", ok=False)
    assert text.returncode != 0
    assert [complaint for complaint in complaints(text.stdout) if "service: " in complaint]
    assert "cofio up" in text.stdout


def broken(laptop: Laptop, name: str, content: str | None) -> list[str]:
    """Return doctor's complaints when this file is missing or has this content."""
    path = laptop.home / name
    kept, mode = path.read_bytes(), path.stat().st_mode
    path.unlink() if content is None else path.write_text(content, encoding="utf-8")
    text = laptop.cofio("doctor", ok=False)
    path.write_bytes(kept)
    path.chmod(mode)
    assert text.returncode != 0, text.stdout
    return complaints(text.stdout)


def complaints(said: str) -> list[str]:
    return [line for line in said.splitlines() if line.startswith("✗")]
