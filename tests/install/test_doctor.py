"""`cofio doctor`: a proof with the hooks that are installed, in real processes; a word for everything that is wrong."""

from __future__ import annotations

import json
import os
import shlex
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from cofio.client import Client
from cofio.core import Keeper
from cofio.errors import Misconfigured
from cofio.hooks import endpoint_file, run_log, spool
from cofio.install import checks
from cofio.models.auth import Grant
from cofio.models.exchange import Item
from cofio.settings import Settings
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder, ScriptedLLM

from .conftest import Machine, hanging


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
        assert "the turn was captured" in found[f"{client}, capture"][0]["says"]
    with Client(at.env["COFIO_URL"], "the service's key") as client_:
        assert client_.list(include_archived=True).memories == ()
        assert [item.exchange for item in client_.items()] == [None] * 3  # counted, and forgotten
    assert not list((at.home / "spool").glob("*.hook"))
    assert run_log.summary(at.home)["last"] is None  # nobody's work: it counts for nothing in the figures
    done = at("doctor")
    assert done.exit_code == 0
    assert "✓ claude-code, recall: a memory reached the prompt (service, " in done.stdout
    assert "No problems found." in done.stderr
    assert "the service's key" not in done.output


def test_a_service_that_is_down_is_told_and_hooks_still_end(at: Machine) -> None:
    gone = {"COFIO_URL": "http://127.0.0.1:9"}
    found = examined(at, env=gone)
    assert found["service"][0]["state"] == "wrong"
    assert "No service answers" in found["service"][0]["says"]
    [proof] = found["claude-code, proof"]
    assert proof["state"] == "warning"
    assert "no service is there" in proof["says"]
    assert "spool" not in found
    assert not list((at.home / "spool").glob("*.hook"))


def test_a_local_service_that_does_not_run_is_told(machine: Machine) -> None:
    machine.has("claude-code")
    assert wrong(machine, "service", env={"COFIO_PORT": "0"}) == "The service does not run. `cofio up` starts it."


def test_a_service_that_hangs_is_told_and_nothing_is_brought_to_it(machine: Machine) -> None:
    machine.has("claude-code")
    assert machine("install", "claude-code", "--yes", "--no-start").exit_code == 0
    with hanging(machine) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        endpoint_file.write_endpoint(machine.home, url, "", (800, 300), str(machine.home / "cofio.db"))
        found = examined(machine)
        assert f"The service runs (pid {os.getpid()}) and does not answer." in found["service"][0]["says"]
        assert found["service"][0]["remedy"] == "`cofio down --force`, then `cofio up`."
        assert not [name for name in found if "proof" in name or "recall" in name]
        assert not (machine.home / "spool").exists()
        assert [each for each in heard(listening) if b"/hooks/" in each] == []


def heard(listening: socket.socket) -> Iterator[bytes]:
    """What was said on each connection that nobody has taken yet."""
    listening.settimeout(0.2)
    with suppress(TimeoutError):
        while True:
            connection, _ = listening.accept()
            with connection:
                connection.settimeout(0.2)
                yield connection.recv(65_536)


def test_what_the_proof_said_is_not_learned_later_though_it_waits(at: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cofio.install.smoke_test._PATIENCE", 5.0)
    path = at.user / ".claude" / "settings.json"
    told = json.loads(path.read_text())
    for event in ("Stop", "SessionEnd"):
        del told["hooks"][event]
    path.write_text(json.dumps(told))
    assert "No hook is installed for the end of a turn" in wrong(at, "claude-code, capture")
    with Client(at.env["COFIO_URL"], "the service's key") as client:
        [item] = client.items()
        assert item.state == "pending"
        assert item.exchange is not None
        assert "".join(message.text for message in item.exchange.messages).strip() == ""
        assert item.exchange.injected == ()
        end = {"hook_event_name": "SessionEnd", "session_id": item.exchange.session, "cwd": "/"}
        deliver(at, "claude-code", end)
        assert settled(client, item.id).state == "rejected"
        assert client.list(include_archived=True).memories == ()


def test_what_an_earlier_proof_left_is_erased(at: Machine) -> None:
    said = {"session_id": "cofio-doctor-0123", "prompt_id": "1", "cwd": "/tmp/cofio-doctor-x"}
    prompt = "In this project we always deploy the zofuba service with the lirope tool."
    deliver(at, "claude-code", {**said, "hook_event_name": "UserPromptSubmit", "prompt": prompt})
    with Client(at.env["COFIO_URL"], "the service's key") as client:
        deliver(at, "claude-code", {**said, "hook_event_name": "SessionEnd"})
        assert settled(client, client.items()[0].id).state == "stored"
        examined(at)
        assert client.list(include_archived=True).memories == ()
        assert {item.exchange for item in client.items()} == {None}


def test_what_the_proof_spooled_is_taken_back(at: Machine) -> None:
    url, key = at.env.pop("COFIO_URL"), at.env.pop("COFIO_API_KEY")
    endpoint_file.write_endpoint(at.home, "http://127.0.0.1:9", key, (800, 300), "")
    said = wrong(at, "claude-code, recall")
    assert "(nothing was found; no service is there, " in said
    assert not list((at.home / "spool").glob("*.hook"))
    with Client(url, key) as client:
        assert client.list(include_archived=True).memories == ()


def deliver(machine: Machine, client: str, told: dict[str, str]) -> None:
    headers = {"X-API-Key": "the service's key", "Content-Type": "application/json"}
    url = f"{machine.env['COFIO_URL']}/hooks/{client}"
    with urlopen(Request(url, json.dumps(told).encode(), headers), timeout=30):
        pass


def settled(client: Client, item_id: int) -> Item:
    deadline = time.monotonic() + 30
    while (item := client.item(item_id)).state == "pending" and time.monotonic() < deadline:
        time.sleep(0.05)
    return item


def test_the_proof_tells_of_its_own_run_whoever_writes_to_the_log_meanwhile(at: Machine) -> None:
    path = at.user / ".claude" / "settings.json"
    told = json.loads(path.read_text())
    hook = told["hooks"]["UserPromptSubmit"][0]["hooks"][0]
    line = f"{run_log.format_time(time.time())} codex Stop failed 7ms full"
    hook["command"] += f"; echo {line} >> {shlex.quote(str(at.home / 'hooks.log'))}"
    path.write_text(json.dumps(told))
    found = examined(at)
    assert found["claude-code"][0]["state"] == "ok"
    assert "(service, " in found["claude-code, recall"][0]["says"]
    [failures] = examined(at)["hooks"]
    assert failures["state"] == "warning"
    assert "1 of the hooks' runs failed in the last 24 hours" in failures["says"]
    assert "hooks.log" in failures["remedy"]


def with_key(at: Machine, **about: Any) -> dict[str, str]:
    """The environment of one who has this key of the store."""
    with Client(at.env["COFIO_URL"], "the service's key") as client:
        return {"COFIO_API_KEY": client.create_key(Grant(name="theirs", **about))[1]}


def test_all_is_well_with_a_key_that_may_write_and_the_proof_leaves_no_trace(at: Machine) -> None:
    at.env |= with_key(at, user="ada", team="web")
    found = examined(at)
    names = ("service", "claude-code", "claude-code, recall", "claude-code, capture")
    assert [each["state"] for name in names for each in found[name]] == ["ok"] * 4, found
    with Client(at.env["COFIO_URL"], "the service's key") as owner:
        assert owner.list(include_archived=True).memories == ()
        assert [item.exchange for item in owner.items()] == [None]


def test_a_key_that_may_only_read_is_told_with_what_to_do(at: Machine) -> None:
    said = wrong(at, "service", env=with_key(at, user="ada", role="read"))
    assert "role read" in said
    assert "cofio keys create" in said


def test_a_revoked_key_is_told_as_one(at: Machine) -> None:
    theirs = with_key(at, user="ada")
    with Client(at.env["COFIO_URL"], "the service's key") as owner:
        owner.revoke_key(1)
    said = wrong(at, "service", env=theirs)
    assert "ours is wrong. The API key (theirs) was revoked on" in said


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
    said = wrong(at, "claude-code")
    assert "Hooks are duplicated" in said
    assert "`cofio install claude-code` leaves one of each." in said


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
    assert "printed nothing (it left no line in hooks.log, " in wrong(at, "cursor, recall")


def test_a_script_that_may_not_be_executed_is_told_from_one_that_is_missing(at: Machine) -> None:
    (at.user / ".claude" / "hooks" / "memory" / "memory-query").chmod(0o644)
    said = wrong(at, "claude-code")
    assert "not executable" in said
    assert "missing" not in said
    assert at("install", "claude-code", "--yes").exit_code == 0
    assert wrong(at, "claude-code") == ""


def test_a_hook_that_its_owner_wraps_is_there_and_is_proven(at: Machine) -> None:
    path = at.user / ".claude" / "settings.json"
    told = json.loads(path.read_text())
    hook = told["hooks"]["UserPromptSubmit"][0]["hooks"][0]
    hook["command"] = f"bash {hook['command']}"
    path.write_text(json.dumps(told))
    found = examined(at)
    assert [each["state"] for each in (*found["claude-code"], *found["claude-code, recall"])] == ["ok", "ok"]


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
    assert "they are not approved: UserPromptSubmit, Stop." in said  # one is changed since, one was never approved
    assert "/hooks" in said
    path.write_text(path.read_text() + "\n[features]\nhooks = false\n")
    assert "hooks = false" in wrong(at, "codex")


def test_hooks_that_are_switched_off_are_told(at: Machine) -> None:
    path = at.user / ".claude" / "settings.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "disableAllHooks": True}))
    assert "disableAllHooks" in wrong(at, "claude-code")
    assert "COFIO_HOOKS is off" in wrong(at, "hooks", env={"COFIO_HOOKS": "off"})
    assert "claude-code, recall" not in examined(at, env={"COFIO_HOOKS": "off"})


def test_hooks_that_are_switched_off_are_nobodys_fault_where_cofio_is_not(at: Machine) -> None:
    assert at("uninstall").exit_code == 0
    (at.user / ".claude" / "settings.json").write_text('{"disableAllHooks": true}')
    [check] = examined(at)["claude-code"]
    assert (check["state"], check["remedy"]) == ("warning", "`cofio install claude-code` sets it up.")


def test_settings_that_nobody_can_read_are_told(at: Machine) -> None:
    (at.user / ".claude" / "settings.json").write_text("{")
    set_up(at, "codex")
    (at.user / ".codex" / "config.toml").write_text("a = ")
    found = examined(at)
    assert f"{at.user / '.claude' / 'settings.json'} cannot be parsed: it ends" in found["claude-code"][0]["says"]
    assert f"{at.user / '.codex' / 'config.toml'} cannot be parsed: " in found["codex"][0]["says"]


def test_a_model_that_does_not_answer_is_told_with_the_service_and_without(at: Machine) -> None:
    around = {"EXTRACT_PROVIDER": "ollama", "OLLAMA_URL": "http://127.0.0.1:9"}
    assert "is set, but the service runs without it" in examined(at, env=around)["model"][0]["says"]
    assert "Ollama" in wrong(at, "model", env={**around, "COFIO_URL": "http://127.0.0.1:9"})


class Service:
    """A service whose model's daily limit is reached."""

    def extraction(self) -> dict[str, Any]:
        until = "2026-01-08T00:00:00.000000+00:00"
        return {"enabled": True, "status": "healthy", "provider": "openai", "model": "small", "spent_until": until}


def test_a_spent_budget_is_told(tmp_path: Path) -> None:
    check = checks.model(Settings(home=tmp_path), Service())  # type: ignore[arg-type]
    assert check.state == "warning"
    assert "captures wait until 2026-01-08T00:00 UTC" in check.says


def test_a_model_that_is_switched_off_is_no_fault(tmp_path: Path) -> None:
    check = checks.model(Settings(home=tmp_path, extract_provider="openai", llm=False), None)
    assert (check.state, check.says) == ("ok", "openai is switched off by COFIO_LLM")


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
    assert "do not ask the service" in found["hooks"][0]["says"]
    spool.store_delivery(at.home, "claude-code", b"{}", at="", project="", event="Stop")
    [waits] = [each for each in examined(at, env={"COFIO_HOOKS": "off"})["spool"] if "wait" in each["says"]]
    assert "Hooks deliver them" in waits["remedy"]  # a service elsewhere does not see them


def test_captures_that_wait_after_a_failed_attempt_are_reported(tmp_path: Path) -> None:
    clock = FixedClock()
    llm = ScriptedLLM([Misconfigured("The key is refused.", "Set ANTHROPIC_API_KEY.")])
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock, llm=llm) as keeper:
        keeper.capture("Our team decided to adopt microservices.", wait=True)
        keeper.capture("Not tried yet.")
        [check] = checks.check_waiting(Settings.load({"home": tmp_path}, {}), keeper)
    assert (check.name, check.state) == ("inbox", "warning")
    assert check.says == "1 captures wait after a failed attempt: The key is refused."


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
