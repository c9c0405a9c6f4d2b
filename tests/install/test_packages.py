"""The packages in integrations/: they match the code, and the real clients accept them."""

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
from cofio.install.llm_provider import CHOICES
from cofio.version import __version__

from .conftest import Machine

ROOT = Path(__file__).parents[2]
INTEGRATIONS = ROOT / "integrations"
#: Blocks network access: a proxy without listener.
BLOCKED_PROXIES = dict.fromkeys(
    ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"), "http://127.0.0.1:9"
)


def read(path: str) -> Any:
    return json.loads((ROOT / path).read_text(encoding="utf-8"))


@pytest.mark.parametrize("folder", ["claude-code/hooks", "codex/hooks", "cursor/hooks/memory"])
def test_scripts_of_all_packages_are_identical(folder: str) -> None:
    for name in launcher.NAMES:
        path = INTEGRATIONS / folder / name
        assert path.read_bytes() == (launcher.SHIMS / name).read_bytes(), f"cp {launcher.SHIMS / name} {path}"
        assert os.access(path, os.X_OK)


def test_every_package_has_this_version() -> None:
    result = [
        read(".claude-plugin/marketplace.json")["plugins"][0]["version"],
        read("integrations/claude-code/.claude-plugin/plugin.json")["version"],
        read("integrations/codex/.codex-plugin/plugin.json")["version"],
    ]
    assert result == [__version__] * 3


def test_skills_are_identical_in_both_plugins() -> None:
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
def test_package_has_the_hooks_that_the_installer_writes(path: str, events: Any, grouped: bool) -> None:
    result = read(path)["hooks"]
    results = {event: entries[0]["hooks"][0] if grouped else entries[0] for event, entries in result.items()}
    assert all("matcher" not in entries[0] and "async" not in results[event] for event, entries in result.items())
    words = {event: " ".join((each["command"], *each.get("args", ()))) for event, each in results.items()}
    assert {event: (words[event], each["timeout"]) for event, each in results.items()} == {
        event: (words[event], seconds) for event, (_, seconds) in events.items()
    }
    assert all(f"/{name}" in words[event] for event, (name, _) in events.items())


def test_wheel_contains_the_openclaw_plugin() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    [(source, place)] = build["targets"]["wheel"]["force-include"].items()
    package = Path(openclaw.__file__).parents[1]
    assert openclaw.plugin_source() == ROOT / source
    assert package.parent / place in openclaw.SOURCES


@pytest.mark.parametrize("page", sorted(INTEGRATIONS.rglob("*.md")), ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_of_page_resolve(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        assert "://" in target or (page.parent / target).exists(), target


def test_quickstart_names_existing_commands_and_files() -> None:
    text = (INTEGRATIONS / "QUICKSTART-LLM.md").read_text(encoding="utf-8")
    for provider in CHOICES:
        assert f"--provider {provider}" in text
    assert f"cofio {__version__}" in text


# ── install.sh ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("arguments", "expected_call"),
    [
        ([], "install claude-code"),
        (["--yes", "--provider", "skip"], "install claude-code --yes --provider skip"),
        (["--codex", "-y"], "install --codex -y"),
    ],
)
def test_script_calls_the_installer(tmp_path: Path, arguments: list[str], expected_call: str) -> None:
    program = tmp_path / "bin" / "cofio"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)
    script = INTEGRATIONS / "claude-code" / "install.sh"
    text = subprocess.check_output(
        ["sh", script, *arguments], env={"PATH": f"{program.parent}:/usr/bin:/bin"}, text=True
    )
    assert text.strip() == expected_call


def test_script_without_cofio_prints_instructions(tmp_path: Path) -> None:
    script = tmp_path / "a" / "b c" / "install.sh"
    script.parent.mkdir(parents=True)
    script.write_bytes((INTEGRATIONS / "claude-code" / "install.sh").read_bytes())
    result = subprocess.run(["sh", script], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "make setup" in result.stderr


# ── real clients ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", [ROOT, INTEGRATIONS / "claude-code"], ids=["marketplace", "plugin"])
def test_claude_code_validates_the_plugin(client_programs: Path, tmp_path: Path, path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "DISABLE_TELEMETRY": "1", **BLOCKED_PROXIES}
    result = subprocess.run(
        [client_programs / "claude", "plugin", "validate", path, "--strict"],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def listed_hooks(program: Path, machine: Machine, around: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Return the hooks that the real Codex lists through its own protocol, without warnings."""
    env = {"PATH": os.environ["PATH"], "HOME": str(machine.user), **around, **BLOCKED_PROXIES}
    with subprocess.Popen(
        [program, "app-server"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as server:
        assert server.stdin
        assert server.stdout
        about = {"clientInfo": {"name": "test", "version": "1"}}
        request = {"cwds": [str(machine.user)]}
        for number, (method, given) in enumerate((("initialize", about), ("hooks/list", request))):
            server.stdin.write(json.dumps({"id": number, "method": method, "params": given}).encode() + b"\n")
            server.stdin.flush()
            told = next(told for line in server.stdout if (told := json.loads(line)).get("id") == number)
        server.terminate()
    [found] = told["result"]["data"]
    assert (found["warnings"], found["errors"]) == ([], [])
    yield from found["hooks"]


def test_codex_trusts_exactly_the_approved_hooks(client_programs: Path, machine: Machine) -> None:
    folder = machine.has("codex")
    theirs = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "theirs"}]}]}}
    (folder / "hooks.json").write_text(json.dumps(theirs, indent=2))
    (folder / "config.toml").write_text("check_for_update_on_startup = false\n")
    env = {"CODEX_HOME": str(folder)}
    machine.install("codex")
    for trusted in (False, True):
        machine.install("codex", trust=trusted)
        results = {
            listed_hook["key"]: listed_hook for listed_hook in listed_hooks(client_programs / "codex", machine, env)
        }
        ours = {key: each for key, each in results.items() if each["command"] != "theirs"}
        assert len(ours) == len(codex.EVENTS)
        assert {our["trustStatus"] for our in ours.values()} == {"trusted" if trusted else "untrusted"}
        assert set(codex.untrusted_events(machine.settings)) == (set() if trusted else set(codex.EVENTS))
        [other] = [item for item in results.values() if item["command"] == "theirs"]
        assert other["trustStatus"] == "untrusted"


def test_hook_hashes_equal_those_of_codex(client_programs: Path, machine: Machine) -> None:
    def one(matcher: str | None, **about: Any) -> dict[str, Any]:
        hooks = {"hooks": [{"type": "command", "command": "it's é", **about}]}
        return hooks if matcher is None else {"matcher": matcher, **hooks}

    result = {
        "SessionStart": [one("startup|resume", timeout=0, statusMessage="x"), one(""), one("*"), one(None)],
        "UserPromptSubmit": [one("z", timeout=5, statusMessage="")],
        "Stop": [one("q", **{"async": True}), one(None, timeout=7)],
        "PreCompact": [one("manual", timeout=10)],
        "SessionEnd": [one("other", timeout=0), one(None), one(None, timeout=3)],
    }
    folder = machine.has("codex")
    (folder / "hooks.json").write_text(json.dumps({"description": "mine", "hooks": result}))
    events = {label: event for event, label in codex.LABELS.items()}
    for listed_hook in listed_hooks(client_programs / "codex", machine, {"CODEX_HOME": str(folder)}):
        _, label, group, number = listed_hook["key"].rsplit(":", 3)
        held = result[events[label]][int(group)]
        expected = codex.trusted_hash(events[label], held["hooks"][int(number)], held.get("matcher"))
        assert (listed_hook["key"], listed_hook["currentHash"]) == (listed_hook["key"], expected)


def test_hook_keys_equal_those_of_codex(client_programs: Path, machine: Machine) -> None:
    """A linked folder is resolved if a variable names it, and keeps its path below the user's home."""
    real = machine.user / "elsewhere"
    real.mkdir()
    (machine.user / ".codex").symlink_to(real)
    machine.install("codex", trust=True)
    env = {"CODEX_HOME": str(machine.user / ".codex")}
    assert {listed_hook["trustStatus"] for listed_hook in listed_hooks(client_programs / "codex", machine, env)} == {
        "trusted"
    }
    machine.uninstall("codex")
    result = machine("install", "codex", "--yes", "--no-start", "--trust-hooks")
    assert result.exit_code == 0, result.output
    assert {listed_hook["trustStatus"] for listed_hook in listed_hooks(client_programs / "codex", machine, {})} == {
        "trusted"
    }


def test_codex_accepts_the_plugin_with_equal_hook_hashes(client_programs: Path, machine: Machine) -> None:
    folder = machine.has("codex")
    env = {"CODEX_HOME": str(folder), "PATH": os.environ["PATH"], "HOME": str(machine.user), **BLOCKED_PROXIES}
    for command in (["marketplace", "add", str(ROOT)], ["add", "cofio@cofio"]):
        result = subprocess.run(
            [client_programs / "codex", "plugin", *command], env=env, capture_output=True, timeout=120, check=False
        )
        assert result.returncode == 0, result.stderr.decode()
    results = {listed_hook["key"]: listed_hook for listed_hook in listed_hooks(client_programs / "codex", machine, env)}
    assert {item["pluginId"] for item in results.values()} == {"cofio@cofio"}
    assert len(results) == len(codex.EVENTS)
    assert codex.untrusted_events(machine.settings) == list(codex.EVENTS)
    with (folder / "config.toml").open("a") as config:
        for key, each in results.items():
            config.write(f'\n[hooks.state."{key}"]\ntrusted_hash = "{each["currentHash"]}"\n')
    assert codex.untrusted_events(machine.settings) == []
