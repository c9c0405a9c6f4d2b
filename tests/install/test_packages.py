"""The packages under integrations/: they agree with the code, and the real clients take them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cofio.hooks import launcher
from cofio.install import claude_code, codex, cursor, openclaw
from cofio.install.provider import CHOICES
from cofio.version import __version__

from .conftest import Machine

ROOT = Path(__file__).parents[2]
INTEGRATIONS = ROOT / "integrations"
#: Nothing goes out: a proxy that nobody listens at.
NOWHERE = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"), "http://127.0.0.1:9")


def read(path: str) -> Any:
    return json.loads((ROOT / path).read_text(encoding="utf-8"))


@pytest.mark.parametrize("folder", ["claude-code/hooks", "codex/hooks", "cursor/hooks/memory"])
def test_the_scripts_of_every_package_are_the_same_bytes(folder: str) -> None:
    for name in launcher.NAMES:
        path = INTEGRATIONS / folder / name
        assert path.read_bytes() == (launcher.SHIMS / name).read_bytes(), f"cp {launcher.SHIMS / name} {path}"
        assert os.access(path, os.X_OK)


def test_every_package_is_of_this_version() -> None:
    told = [
        read(".claude-plugin/marketplace.json")["plugins"][0]["version"],
        read("integrations/claude-code/.claude-plugin/plugin.json")["version"],
        read("integrations/codex/.codex-plugin/plugin.json")["version"],
    ]
    assert told == [__version__] * 3


def test_the_skills_are_the_same_in_both_plugins() -> None:
    for name in ("remember", "recall"):
        one, other = (INTEGRATIONS / client / "skills" / name / "SKILL.md" for client in ("claude-code", "codex"))
        assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize(
    ("path", "events", "grouped"),
    [
        ("integrations/claude-code/hooks/hooks.json", claude_code.EVENTS, True),
        ("integrations/codex/hooks/hooks.json", codex.EVENTS, True),
        ("integrations/cursor/hooks.json", cursor.EVENTS, False),
    ],
)
def test_a_package_has_the_hooks_that_the_installer_writes(path: str, events: Any, grouped: bool) -> None:
    told = read(path)["hooks"]
    found = {event: entries[0]["hooks"][0] if grouped else entries[0] for event, entries in told.items()}
    assert all("matcher" not in entries[0] and "async" not in found[event] for event, entries in told.items())
    words = {event: " ".join((each["command"], *each.get("args", ()))) for event, each in found.items()}
    assert {event: (words[event], each["timeout"]) for event, each in found.items()} == {
        event: (words[event], seconds) for event, (_, seconds) in events.items()
    }
    assert all(f"/{name}" in words[event] for event, (name, _) in events.items())


def test_the_wheel_carries_the_plugin_for_openclaw_to_where_it_is_looked_for() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    [(source, place)] = build["targets"]["wheel"]["force-include"].items()
    package = Path(openclaw.__file__).parents[1]
    assert openclaw.plugin_source() == ROOT / source
    assert package.parent / place in openclaw.SOURCES


@pytest.mark.parametrize("page", sorted(INTEGRATIONS.rglob("*.md")), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        assert "://" in target or (page.parent / target).exists(), target


def test_the_quickstart_for_models_names_what_there_is() -> None:
    text = (INTEGRATIONS / "QUICKSTART-LLM.md").read_text(encoding="utf-8")
    for provider in CHOICES:
        assert f"--provider {provider}" in text
    assert f"cofio {__version__}" in text


# ── install.sh ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("given", "called"),
    [
        ([], "install claude-code"),
        (["--yes", "--provider", "skip"], "install claude-code --yes --provider skip"),
        (["--codex", "-y"], "install --codex -y"),
    ],
)
def test_the_script_calls_the_installer(tmp_path: Path, given: list[str], called: str) -> None:
    program = tmp_path / "bin" / "cofio"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)
    script = INTEGRATIONS / "claude-code" / "install.sh"
    said = subprocess.check_output(["sh", script, *given], env={"PATH": f"{program.parent}:/usr/bin:/bin"}, text=True)
    assert said.strip() == called


def test_the_script_says_what_to_do_where_cofio_is_missing(tmp_path: Path) -> None:
    script = tmp_path / "a" / "b c" / "install.sh"
    script.parent.mkdir(parents=True)
    script.write_bytes((INTEGRATIONS / "claude-code" / "install.sh").read_bytes())
    done = subprocess.run(["sh", script], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "make setup" in done.stderr


# ── the real clients ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", [ROOT, INTEGRATIONS / "claude-code"], ids=["marketplace", "plugin"])
def test_the_real_claude_code_finds_no_fault_with_the_plugin(real_clients: Path, tmp_path: Path, path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "DISABLE_TELEMETRY": "1", **NOWHERE}
    done = subprocess.run(
        [real_clients / "claude", "plugin", "validate", path, "--strict"],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def hooks_of(program: Path, machine: Machine, around: dict[str, str]) -> Iterator[dict[str, Any]]:
    """What the real Codex knows of its hooks, asked over its own protocol; it finds no fault with any file."""
    env = {"PATH": os.environ["PATH"], "HOME": str(machine.user), **around, **NOWHERE}
    with subprocess.Popen(
        [program, "app-server"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as server:
        assert server.stdin
        assert server.stdout
        about = {"clientInfo": {"name": "test", "version": "1"}}
        asked = {"cwds": [str(machine.user)]}
        for number, (method, given) in enumerate((("initialize", about), ("hooks/list", asked))):
            server.stdin.write(json.dumps({"id": number, "method": method, "params": given}).encode() + b"\n")
            server.stdin.flush()
            told = next(told for line in server.stdout if (told := json.loads(line)).get("id") == number)
        server.terminate()
    [found] = told["result"]["data"]
    assert (found["warnings"], found["errors"]) == ([], [])
    yield from found["hooks"]


def test_the_real_codex_trusts_exactly_the_hooks_that_we_say_it_does(real_clients: Path, machine: Machine) -> None:
    folder = machine.has("codex")
    theirs = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "theirs"}]}]}}
    (folder / "hooks.json").write_text(json.dumps(theirs, indent=2))
    (folder / "config.toml").write_text("check_for_update_on_startup = false\n")
    around = {"CODEX_HOME": str(folder)}
    machine.install("codex")
    for trusted in (False, True):
        machine.install("codex", trust=trusted)
        found = {each["key"]: each for each in hooks_of(real_clients / "codex", machine, around)}
        ours = {key: each for key, each in found.items() if each["command"] != "theirs"}
        assert len(ours) == len(codex.EVENTS)
        assert {each["trustStatus"] for each in ours.values()} == {"trusted" if trusted else "untrusted"}
        assert set(codex.untrusted_events(machine.settings)) == (set() if trusted else set(codex.EVENTS))
        [other] = [each for each in found.values() if each["command"] == "theirs"]
        assert other["trustStatus"] == "untrusted"


def test_the_real_codex_hashes_whatever_somebody_made_of_a_hook_as_we_do(real_clients: Path, machine: Machine) -> None:
    def one(matcher: str | None, **about: Any) -> dict[str, Any]:
        hooks = {"hooks": [{"type": "command", "command": "it's é", **about}]}
        return hooks if matcher is None else {"matcher": matcher, **hooks}

    told = {
        "SessionStart": [one("startup|resume", timeout=0, statusMessage="x"), one(""), one("*"), one(None)],
        "UserPromptSubmit": [one("z", timeout=5, statusMessage="")],
        "Stop": [one("q", **{"async": True}), one(None, timeout=7)],
        "PreCompact": [one("manual", timeout=10)],
        "SessionEnd": [one("other", timeout=0), one(None), one(None, timeout=3)],
    }
    folder = machine.has("codex")
    (folder / "hooks.json").write_text(json.dumps({"description": "mine", "hooks": told}))
    events = {label: event for event, label in codex.LABELS.items()}
    for each in hooks_of(real_clients / "codex", machine, {"CODEX_HOME": str(folder)}):
        _, label, group, number = each["key"].rsplit(":", 3)
        held = told[events[label]][int(group)]
        expected = codex.trusted_hash(events[label], held["hooks"][int(number)], held.get("matcher"))
        assert (each["key"], each["currentHash"]) == (each["key"], expected)


def test_the_real_codex_keys_hooks_by_the_folder_as_we_do(real_clients: Path, machine: Machine) -> None:
    """A linked folder counts by where it leads when a variable names it, and by its own path in the user's folder."""
    real = machine.user / "elsewhere"
    real.mkdir()
    (machine.user / ".codex").symlink_to(real)
    machine.install("codex", trust=True)
    around = {"CODEX_HOME": str(machine.user / ".codex")}
    assert {each["trustStatus"] for each in hooks_of(real_clients / "codex", machine, around)} == {"trusted"}
    machine.uninstall("codex")
    done = machine("install", "codex", "--yes", "--no-start", "--trust-hooks")
    assert done.exit_code == 0, done.output
    assert {each["trustStatus"] for each in hooks_of(real_clients / "codex", machine, {})} == {"trusted"}


def test_the_real_codex_takes_the_plugin_and_hashes_its_hooks_as_we_do(real_clients: Path, machine: Machine) -> None:
    folder = machine.has("codex")
    around = {"CODEX_HOME": str(folder), "PATH": os.environ["PATH"], "HOME": str(machine.user), **NOWHERE}
    for command in (["marketplace", "add", str(ROOT)], ["add", "cofio@cofio"]):
        done = subprocess.run(
            [real_clients / "codex", "plugin", *command], env=around, capture_output=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
    found = {each["key"]: each for each in hooks_of(real_clients / "codex", machine, around)}
    assert {each["pluginId"] for each in found.values()} == {"cofio@cofio"}
    assert len(found) == len(codex.EVENTS)
    assert codex.untrusted_events(machine.settings) == list(codex.EVENTS)
    with (folder / "config.toml").open("a") as config:
        for key, each in found.items():
            config.write(f'\n[hooks.state."{key}"]\ntrusted_hash = "{each["currentHash"]}"\n')
    assert codex.untrusted_events(machine.settings) == []
