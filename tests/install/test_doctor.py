"""`cofio doctor`: a proof with the hooks that are installed, in real processes; a word for everything that is wrong."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from cofio.client import Client

from .conftest import Machine


@pytest.fixture
def at(machine: Machine, service: str) -> Machine:
    """A machine with Claude Code on it, set up, and a service."""
    machine.env |= {"COFIO_URL": service, "COFIO_API_KEY": "the service's key"}
    set_up(machine, "claude-code")
    return machine


def set_up(machine: Machine, client: str) -> None:
    machine.has(client)
    assert machine("install", client, "--yes", "--trust-hooks").exit_code == 0


def examined(machine: Machine, **how: Any) -> dict[str, list[dict[str, str]]]:
    """The checks by name; whether all is well is told by the exit code too."""
    done = machine("doctor", "--json", **how)
    told = json.loads(done.stdout)
    assert told["healthy"] == (done.exit_code == 0) == all(each["state"] != "wrong" for each in told["checks"])
    found: dict[str, list[dict[str, str]]] = {}
    for each in told["checks"]:
        found.setdefault(each["name"], []).append(each)
    return found


def wrong(machine: Machine, name: str, **how: Any) -> str:
    """What is wrong about this, with what to do."""
    return " ".join(
        f"{each['says']} {each['remedy']}" for each in examined(machine, **how)[name] if each["state"] == "wrong"
    )


def test_all_is_well_and_the_proof_leaves_no_trace(at: Machine) -> None:
    set_up(at, "codex")
    set_up(at, "cursor")
    found = examined(at)
    for client in ("claude-code", "codex", "cursor"):
        assert [each["state"] for name in ("", ", recall", ", capture") for each in found[client + name]] == ["ok"] * 3
        assert "service" in found[f"{client}, recall"][0]["says"]
        assert "was learned" in found[f"{client}, capture"][0]["says"]
    with Client(at.env["COFIO_URL"], "the service's key") as client_:
        assert client_.list(include_archived=True).memories == ()
        assert [each.exchange for each in client_.items()] == [None] * 3  # counted, and forgotten
    done = at("doctor")
    assert done.exit_code == 0
    assert "✓ claude-code, recall: a memory reached the prompt (service, " in done.stdout
    assert "All is well." in done.stderr
    assert "the service's key" not in done.output


def test_a_service_that_is_down_is_told_and_hooks_still_end(at: Machine) -> None:
    gone = {"COFIO_URL": "http://127.0.0.1:9"}
    found = examined(at, env=gone)
    assert found["service"][0]["state"] == "wrong"
    assert "No service answers" in found["service"][0]["says"]
    [proof] = found["claude-code, proof"]
    assert proof["state"] == "warning"
    assert "spool" not in found
    assert not list((at.home / "spool").glob("*.hook"))


def test_a_local_service_that_does_not_run_is_told(machine: Machine) -> None:
    machine.has("claude-code")
    assert "`cofio up` starts it." in wrong(machine, "service")


def test_a_wrong_key_is_told_from_silence(at: Machine) -> None:
    assert "ours is wrong" in wrong(at, "service", env={"COFIO_API_KEY": "another"})


def test_hooks_that_are_missing_are_named(at: Machine) -> None:
    path = at.user / ".claude" / "settings.json"
    told = json.loads(path.read_text())
    del told["hooks"]["Stop"]
    path.write_text(json.dumps(told))
    said = wrong(at, "claude-code")
    assert "missing" in said
    assert "Stop." in said
    assert "cofio install claude-code" in said


def test_hooks_that_stand_twice_or_beside_the_plugin_are_told(at: Machine) -> None:
    path = at.user / ".claude" / "settings.json"
    told = json.loads(path.read_text())
    path.write_text(json.dumps({**told, "enabledPlugins": {"cofio@cofio": True}}))
    assert "twice" in wrong(at, "claude-code")
    told["hooks"]["Stop"] *= 2
    path.write_text(json.dumps(told))
    assert "stand twice" in wrong(at, "claude-code")


def test_a_plugin_without_hooks_in_the_settings_is_proven_too(at: Machine) -> None:
    assert at("uninstall").exit_code == 0
    (at.user / ".claude" / "settings.json").write_text('{"enabledPlugins": {"cofio@cofio": true}}')
    found = examined(at)
    assert found["claude-code"] == [
        {"name": "claude-code", "state": "ok", "says": "the plugin cofio@cofio", "remedy": ""}
    ]
    assert found["claude-code, recall"][0]["state"] == found["claude-code, capture"][0]["state"] == "ok"


def test_hooks_that_lead_nowhere_are_told(at: Machine) -> None:
    set_up(at, "cursor")
    (at.user / ".cursor" / "hooks" / "memory" / "memory-query").unlink()
    assert "memory-query" in wrong(at, "cursor")
    assert "printed nothing" in wrong(at, "cursor, recall")


def test_hooks_that_codex_does_not_trust_are_named(at: Machine) -> None:
    set_up(at, "codex")
    assert wrong(at, "codex") == ""
    path = at.user / ".codex" / "hooks.json"
    path.write_text(path.read_text().replace('"timeout": 5', '"timeout": 6'))
    path = at.user / ".codex" / "config.toml"
    config = path.read_text().splitlines()
    stop = next(number for number, line in enumerate(config) if ":stop:" in line)
    path.write_text("\n".join([*config[:stop], *config[stop + 2 :]]) + "\n")
    said = wrong(at, "codex")
    assert "approved them: UserPromptSubmit, Stop." in said  # one is changed since, one was never approved
    assert "/hooks" in said
    path.write_text(path.read_text() + "\n[features]\nhooks = false\n")
    assert "hooks = false" in wrong(at, "codex")


def test_hooks_that_are_switched_off_are_told(at: Machine) -> None:
    path = at.user / ".claude" / "settings.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "disableAllHooks": True}))
    assert "disableAllHooks" in wrong(at, "claude-code")
    assert "COFIO_HOOKS" in wrong(at, "claude-code, recall", env={"COFIO_HOOKS": "off"})


def test_settings_that_nobody_can_read_are_told(at: Machine) -> None:
    (at.user / ".claude" / "settings.json").write_text("{")
    set_up(at, "codex")
    (at.user / ".codex" / "config.toml").write_text("a = ")
    found = examined(at)
    assert "cannot be understood" in found["claude-code"][0]["says"]
    assert "cannot be understood" in found["codex"][0]["says"]


def test_a_model_that_does_not_answer_is_told_with_the_service_and_without(at: Machine) -> None:
    around = {"EXTRACT_PROVIDER": "ollama", "OLLAMA_URL": "http://127.0.0.1:9"}
    assert "which is set" in examined(at, env=around)["model"][0]["says"]
    assert "Ollama" in wrong(at, "model", env={**around, "COFIO_URL": "http://127.0.0.1:9"})


def test_our_own_file_is_looked_after(at: Machine) -> None:
    path = at.home / "config.toml"
    path.write_text('anthropic_key = "a-secret"\n')
    path.chmod(0o644)
    said = wrong(at, "config")
    assert "chmod 600" in said
    assert "a-secret" not in said
    path.write_text("port = [")
    assert "cannot be read" in wrong(at, "config")


def test_a_launcher_that_is_gone_is_told(at: Machine) -> None:
    (at.home / "hook").unlink()
    assert "missing" in wrong(at, "launcher")
    (at.home / "hook").write_text("#!/bin/sh\nexit 0\n")
    (at.home / "hook").chmod(0o755)
    assert examined(at)["launcher"][0]["state"] == "warning"


def test_what_waits_and_what_rests_is_told(at: Machine) -> None:
    (at.home / "spool" / "bad").mkdir(parents=True)
    (at.home / "spool" / "bad" / "x.hook").write_text("x")
    (at.home / "hook.rest").write_text(f"{time.time() + 60:.0f} 1\n")
    found = examined(at)
    assert "could not be read" in found["spool"][0]["says"]
    assert "leave the service alone" in found["hooks"][0]["says"]


def test_a_client_that_is_there_without_cofio_is_no_fault(machine: Machine, service: str) -> None:
    machine.env |= {"COFIO_URL": service, "COFIO_API_KEY": "the service's key"}
    for client in ("claude-code", "openclaw"):
        machine.has(client)
    found = examined(machine)
    assert {found[client][0]["state"] for client in ("claude-code", "openclaw")} == {"warning"}
    assert machine("install", "openclaw", "--yes").exit_code == 0
    assert examined(machine)["openclaw"][0]["state"] == "ok"
    path = machine.user / ".openclaw" / "openclaw.json"
    path.write_text(path.read_text().replace('"memory": "cofio"', '"memory": "memory-core"'))
    assert "memory-core" in wrong(machine, "openclaw")


def test_the_proof_is_in_a_project_of_its_own_wherever_it_is_asked_for(at: Machine, tmp_path: Path) -> None:
    found = examined(at, env={"CLAUDE_PROJECT_DIR": str(tmp_path), "COFIO_PROJECT": "elsewhere"})
    assert found["claude-code, recall"][0]["state"] == "ok"
