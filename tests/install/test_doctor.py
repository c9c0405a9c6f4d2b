"""`cofio doctor`: smoke tests with the installed hooks in real processes, and a hint for every problem."""

from __future__ import annotations

import json
import os
import shlex
import socket
import sqlite3
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
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
from cofio.server import service_key
from cofio.settings import Settings
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder, ScriptedLLM

from ..hooks.conftest import hold_lock
from .conftest import Machine, hanging


@pytest.fixture
def at(machine: Machine, service: str) -> Machine:
    """Return a machine with Claude Code set up, and a service."""
    machine.env |= {"COFIO_URL": service, "COFIO_API_KEY": "the service's key"}
    install_client(machine, "claude-code")
    return machine


def install_client(machine: Machine, client: str) -> None:
    machine.has(client)
    assert machine("install", client, "--yes", "--trust-hooks").exit_code == 0


def run_doctor(machine: Machine, **how: Any) -> dict[str, list[dict[str, str]]]:
    """Return the checks by name. Check that the exit code matches the result."""
    result = machine("doctor", "--json", **how)
    payload = json.loads(result.stdout)
    assert (
        payload["healthy"] == (result.exit_code == 0) == all(check["state"] != "wrong" for check in payload["checks"])
    )
    results: dict[str, list[dict[str, str]]] = {}
    for check in payload["checks"]:
        results.setdefault(check["name"], []).append(check)
    return results


def problem_text(machine: Machine, name: str, **how: Any) -> str:
    """Return message and remedy of the failed check."""
    return " ".join(
        f"{item['says']} {item['remedy']}" for item in run_doctor(machine, **how)[name] if item["state"] == "wrong"
    )


def test_healthy_setup_passes_and_smoke_test_leaves_no_trace(at: Machine) -> None:
    install_client(at, "codex")
    install_client(at, "cursor")
    results = run_doctor(at)
    for client in ("claude-code", "codex", "cursor"):
        assert [item["state"] for name in ("", ", recall", ", capture") for item in results[client + name]] == [
            "ok"
        ] * 3
        assert "service" in results[f"{client}, recall"][0]["says"]
        assert "the turn was captured" in results[f"{client}, capture"][0]["says"]
    with Client(at.env["COFIO_URL"], "the service's key") as client_:
        assert client_.list(include_archived=True).memories == ()
        assert [item.exchange for item in client_.items()] == [None] * 3  # counted and then forgotten
    assert not list((at.home / "spool").glob("*.hook"))
    assert run_log.summary(at.home)["last"] is None  # not included in the statistics
    result = at("doctor")
    assert result.exit_code == 0
    assert "✓ claude-code, recall: a memory reached the prompt (service, " in result.stdout
    assert "No problems found." in result.stderr
    assert "the service's key" not in result.output


def test_unavailable_service_is_reported_and_hooks_still_exit(at: Machine) -> None:
    deleted = {"COFIO_URL": "http://127.0.0.1:9"}
    results = run_doctor(at, env=deleted)
    assert results["service"][0]["state"] == "wrong"
    assert "No service answers" in results["service"][0]["says"]
    [proof] = results["claude-code, proof"]
    assert proof["state"] == "warning"
    assert "no service is there" in proof["says"]
    assert "spool" not in results
    assert not list((at.home / "spool").glob("*.hook"))


def test_stopped_local_service_is_reported(machine: Machine) -> None:
    machine.has("claude-code")
    assert (
        problem_text(machine, "service", env={"COFIO_PORT": "0"}) == "The service does not run. `cofio up` starts it."
    )


def test_program_on_the_port_of_a_stopped_service_is_reported(machine: Machine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as foreign:
        port = foreign.getsockname()[1]
        text = problem_text(machine, "service", env={"COFIO_PORT": str(port)})
        assert list(received_requests(foreign)) == [b""]
    assert f"another program listens on port {port}." in text


def test_key_that_others_can_read_and_stale_endpoint_are_reported(machine: Machine) -> None:
    service_key.load_or_create(machine.home)
    store, lock = machine.home / "cofio.db", machine.home / "cofio.db.service"
    endpoint_file.write_endpoint(machine.home, "http://127.0.0.1:9", "", (800, 300), str(store), lock=lock)
    held = hold_lock(lock, "http://127.0.0.1:9")
    results = run_doctor(machine, env={"COFIO_PORT": "0"})
    assert "key" not in results
    assert "hooks" not in results
    os.close(held)
    (machine.home / "service.key").chmod(0o644)
    results = run_doctor(machine, env={"COFIO_PORT": "0"})
    assert "service.key can be read by others." in results["key"][0]["says"]
    assert "hook.at names a service that does not run" in results["hooks"][0]["says"]


def test_hanging_service_is_reported_without_smoke_test(machine: Machine) -> None:
    machine.has("claude-code")
    assert machine("install", "claude-code", "--yes", "--no-start").exit_code == 0
    with hanging(machine) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        endpoint_file.write_endpoint(machine.home, url, "", (800, 300), str(machine.home / "cofio.db"))
        results = run_doctor(machine)
        assert f"The service runs (pid {os.getpid()}) and does not answer." in results["service"][0]["says"]
        assert results["service"][0]["remedy"] == "`cofio down --force`, then `cofio up`."
        assert not [name for name in results if "proof" in name or "recall" in name]
        assert not (machine.home / "spool").exists()
        assert [
            received_request for received_request in received_requests(listening) if b"/hooks/" in received_request
        ] == []


def received_requests(listening: socket.socket) -> Iterator[bytes]:
    """Yield what was sent on each connection that is not accepted yet."""
    listening.settimeout(0.2)
    with suppress(TimeoutError):
        while True:
            connection, _ = listening.accept()
            with connection:
                connection.settimeout(0.2)
                yield connection.recv(65_536)


def test_smoke_test_events_in_the_spool_are_not_learned(at: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cofio.install.smoke_test._PATIENCE", 5.0)
    path = at.user / ".claude" / "settings.json"
    payload = json.loads(path.read_text())
    for event in ("Stop", "SessionEnd"):
        del payload["hooks"][event]
    path.write_text(json.dumps(payload))
    assert "No hook is installed for the end of a turn" in problem_text(at, "claude-code, capture")
    with Client(at.env["COFIO_URL"], "the service's key") as client:
        [item] = client.items()
        assert item.state == "pending"
        assert item.exchange is not None
        assert "".join(message.text for message in item.exchange.messages).strip() == ""
        assert item.exchange.injected == ()
        end = {"hook_event_name": "SessionEnd", "session_id": item.exchange.session, "cwd": "/"}
        post_event(at, "claude-code", end)
        assert wait_until_processed(client, item.id).state == "rejected"
        assert client.list(include_archived=True).memories == ()


def test_traces_of_an_earlier_smoke_test_are_erased(at: Machine) -> None:
    request = {"session_id": "cofio-doctor-0123", "prompt_id": "1", "cwd": "/tmp/cofio-doctor-x"}
    prompt = "In this project we always deploy the zofuba service with the lirope tool."
    post_event(at, "claude-code", {**request, "hook_event_name": "UserPromptSubmit", "prompt": prompt})
    with Client(at.env["COFIO_URL"], "the service's key") as client:
        post_event(at, "claude-code", {**request, "hook_event_name": "SessionEnd"})
        assert wait_until_processed(client, client.items()[0].id).state == "stored"
        run_doctor(at)
        assert client.list(include_archived=True).memories == ()
        assert {item.exchange for item in client.items()} == {None}


def test_spooled_smoke_test_events_are_removed(at: Machine) -> None:
    url, key = at.env.pop("COFIO_URL"), at.env.pop("COFIO_API_KEY")
    endpoint_file.write_endpoint(at.home, "http://127.0.0.1:9", key, (800, 300), "")
    text = problem_text(at, "claude-code, recall")
    assert "(nothing was found; no service is there, " in text
    assert not list((at.home / "spool").glob("*.hook"))
    with Client(url, key) as client:
        assert client.list(include_archived=True).memories == ()


def post_event(machine: Machine, client: str, told: dict[str, str]) -> None:
    headers = {"X-API-Key": "the service's key", "Content-Type": "application/json"}
    url = f"{machine.env['COFIO_URL']}/hooks/{client}"
    with urlopen(Request(url, json.dumps(told).encode(), headers), timeout=30):
        pass


def wait_until_processed(client: Client, item_id: int) -> Item:
    deadline = time.monotonic() + 30
    while (item := client.item(item_id)).state == "pending" and time.monotonic() < deadline:
        time.sleep(0.05)
    return item


def test_smoke_test_reads_its_own_log_lines(at: Machine) -> None:
    path = at.user / ".claude" / "settings.json"
    payload = json.loads(path.read_text())
    hook = payload["hooks"]["UserPromptSubmit"][0]["hooks"][0]
    line = f"{run_log.format_time(time.time())} codex Stop failed 7ms full"
    hook["command"] += f"; echo {line} >> {shlex.quote(str(at.home / 'hooks.log'))}"
    path.write_text(json.dumps(payload))
    results = run_doctor(at)
    assert results["claude-code"][0]["state"] == "ok"
    assert "(service, " in results["claude-code, recall"][0]["says"]
    [failures] = run_doctor(at)["hooks"]
    assert failures["state"] == "warning"
    assert "1 of the hooks' runs failed in the last 24 hours" in failures["says"]
    assert "hooks.log" in failures["remedy"]


def env_with_key(at: Machine, **about: Any) -> dict[str, str]:
    """Return environment variables with a new key of the store."""
    with Client(at.env["COFIO_URL"], "the service's key") as client:
        return {"COFIO_API_KEY": client.create_key(Grant(name="theirs", **about))[1]}


def test_write_key_passes_and_smoke_test_leaves_no_trace(at: Machine) -> None:
    at.env |= env_with_key(at, user="ada", team="web")
    results = run_doctor(at)
    names = ("service", "claude-code", "claude-code, recall", "claude-code, capture")
    assert [item["state"] for name in names for item in results[name]] == ["ok"] * 4, results
    with Client(at.env["COFIO_URL"], "the service's key") as owner:
        assert owner.list(include_archived=True).memories == ()
        assert [item.exchange for item in owner.items()] == [None]


def test_read_key_is_reported_with_hint(at: Machine) -> None:
    text = problem_text(at, "service", env=env_with_key(at, user="ada", role="read"))
    assert "role read" in text
    assert "cofio keys create" in text


def test_revoked_key_is_reported(at: Machine) -> None:
    theirs = env_with_key(at, user="ada")
    with Client(at.env["COFIO_URL"], "the service's key") as owner:
        owner.revoke_key(1)
    text = problem_text(at, "service", env=theirs)
    assert "the configured one is wrong. The API key (theirs) was revoked on" in text


def test_wrong_key_is_distinguished_from_an_unavailable_service(at: Machine) -> None:
    assert "the configured one is wrong" in problem_text(at, "service", env={"COFIO_API_KEY": "another"})


def test_degraded_service_is_reported_by_doctor_and_status(at: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _path: SimpleNamespace(f_bavail=1, f_frsize=4_096))
    assert "is full" in problem_text(at, "store")
    assert json.loads(at("status", "--json").stdout)["health"] == "degraded"
    lines = at("status").output.splitlines()
    assert any(line.startswith("problem") and line.endswith("is full. Free some space.") for line in lines)


def test_missing_hooks_are_named(at: Machine) -> None:
    path = at.user / ".claude" / "settings.json"
    payload = json.loads(path.read_text())
    del payload["hooks"]["Stop"]
    path.write_text(json.dumps(payload))
    text = problem_text(at, "claude-code")
    assert "missing" in text
    assert "Stop." in text
    assert "cofio install claude-code" in text


def test_duplicate_hooks_are_reported(at: Machine) -> None:
    path = at.user / ".claude" / "settings.json"
    payload = json.loads(path.read_text())
    path.write_text(json.dumps({**payload, "enabledPlugins": {"cofio@cofio": True}}))
    assert "twice" in problem_text(at, "claude-code")
    payload["hooks"]["Stop"] *= 2
    path.write_text(json.dumps(payload))
    text = problem_text(at, "claude-code")
    assert "Hooks are duplicated" in text
    assert "`cofio install claude-code` leaves one of each." in text


def test_plugin_without_hooks_in_settings_is_tested(at: Machine) -> None:
    assert at("uninstall").exit_code == 0
    (at.user / ".claude" / "settings.json").write_text('{"enabledPlugins": {"cofio@cofio": true}}')
    results = run_doctor(at)
    assert results["claude-code"] == [
        {"name": "claude-code", "state": "ok", "says": "the plugin cofio@cofio", "remedy": ""}
    ]
    assert results["claude-code, recall"][0]["state"] == results["claude-code, capture"][0]["state"] == "ok"


def test_hooks_with_missing_programs_are_reported(at: Machine) -> None:
    install_client(at, "cursor")
    (at.user / ".cursor" / "hooks" / "memory" / "memory-query").unlink()
    assert "memory-query" in problem_text(at, "cursor")
    assert "printed nothing (it left no line in hooks.log, " in problem_text(at, "cursor, recall")


def test_non_executable_script_is_distinguished_from_missing_one(at: Machine) -> None:
    (at.user / ".claude" / "hooks" / "memory" / "memory-query").chmod(0o644)
    text = problem_text(at, "claude-code")
    assert "not executable" in text
    assert "missing" not in text
    assert at("install", "claude-code", "--yes").exit_code == 0
    assert problem_text(at, "claude-code") == ""


def test_wrapped_hook_is_recognized_and_tested(at: Machine) -> None:
    path = at.user / ".claude" / "settings.json"
    payload = json.loads(path.read_text())
    hook = payload["hooks"]["UserPromptSubmit"][0]["hooks"][0]
    hook["command"] = f"bash {hook['command']}"
    path.write_text(json.dumps(payload))
    results = run_doctor(at)
    assert [item["state"] for item in (*results["claude-code"], *results["claude-code, recall"])] == ["ok", "ok"]


def test_untrusted_codex_hooks_are_named(at: Machine) -> None:
    install_client(at, "codex")
    assert problem_text(at, "codex") == ""
    path = at.user / ".codex" / "hooks.json"
    path.write_text(path.read_text().replace('"timeout": 5', '"timeout": 6'))
    path = at.user / ".codex" / "config.toml"
    config = path.read_text().splitlines()
    stop = next(number for number, line in enumerate(config) if ":stop:" in line)
    path.write_text("\n".join([*config[:stop], *config[stop + 2 :]]) + "\n")
    text = problem_text(at, "codex")
    assert "they are not approved: UserPromptSubmit, Stop." in text  # one was changed, one was never approved
    assert "/hooks" in text
    path.write_text(path.read_text() + "\n[features]\nhooks = false\n")
    assert "hooks = false" in problem_text(at, "codex")


def test_disabled_hooks_are_reported(at: Machine) -> None:
    path = at.user / ".claude" / "settings.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "disableAllHooks": True}))
    assert "disableAllHooks" in problem_text(at, "claude-code")
    assert "COFIO_HOOKS is off" in problem_text(at, "hooks", env={"COFIO_HOOKS": "off"})
    assert "claude-code, recall" not in run_doctor(at, env={"COFIO_HOOKS": "off"})


def test_disabled_hooks_are_ignored_without_cofio(at: Machine) -> None:
    assert at("uninstall").exit_code == 0
    (at.user / ".claude" / "settings.json").write_text('{"disableAllHooks": true}')
    [check] = run_doctor(at)["claude-code"]
    assert (check["state"], check["remedy"]) == ("warning", "`cofio install claude-code` sets it up.")


def test_unreadable_settings_are_reported(at: Machine) -> None:
    (at.user / ".claude" / "settings.json").write_text("{")
    install_client(at, "codex")
    (at.user / ".codex" / "config.toml").write_text("a = ")
    results = run_doctor(at)
    assert f"{at.user / '.claude' / 'settings.json'} cannot be parsed: it ends" in results["claude-code"][0]["says"]
    assert f"{at.user / '.codex' / 'config.toml'} cannot be parsed: " in results["codex"][0]["says"]


def test_unavailable_llm_is_reported_with_and_without_service(at: Machine) -> None:
    env = {"EXTRACT_PROVIDER": "ollama", "OLLAMA_URL": "http://127.0.0.1:9"}
    assert "is set, but the service runs without it" in run_doctor(at, env=env)["model"][0]["says"]
    assert "Ollama" in problem_text(at, "model", env={**env, "COFIO_URL": "http://127.0.0.1:9"})


class Service:
    """A service whose daily LLM budget is exhausted."""

    def extraction(self) -> dict[str, Any]:
        until = "2026-01-08T00:00:00.000000+00:00"
        return {"enabled": True, "status": "healthy", "provider": "openai", "model": "small", "spent_until": until}


def test_exhausted_budget_is_reported(tmp_path: Path) -> None:
    check = checks.model(Settings(home=tmp_path), Service())  # type: ignore[arg-type]
    assert check.state == "warning"
    assert "captures wait until 2026-01-08T00:00 UTC" in check.says


def test_disabled_llm_is_not_a_problem(tmp_path: Path) -> None:
    check = checks.model(Settings(home=tmp_path, extract_provider="openai", llm=False), None)
    assert (check.state, check.says) == ("ok", "openai is switched off by COFIO_LLM")


def test_config_file_permissions_and_content_are_checked(at: Machine) -> None:
    path = at.home / "config.toml"
    path.write_text('anthropic_key = "a-secret"\n')
    path.chmod(0o644)
    text = problem_text(at, "config")
    assert "chmod 600" in text
    assert "a-secret" not in text
    path.write_text("port = [")
    assert "cannot be read" in problem_text(at, "config")


def test_missing_launcher_is_reported(at: Machine) -> None:
    (at.home / "hook").unlink()
    assert "missing" in problem_text(at, "launcher")
    (at.home / "hook").write_text("#!/bin/sh\nexit 0\n")
    (at.home / "hook").chmod(0o755)
    assert run_doctor(at)["launcher"][0]["state"] == "warning"


def test_spool_and_circuit_breaker_are_reported(at: Machine) -> None:
    (at.home / "spool" / "bad").mkdir(parents=True)
    (at.home / "spool" / "bad" / "x.hook").write_text("x")
    (at.home / "hook.rest").write_text(f"{time.time() + 60:.0f} 1\n")
    results = run_doctor(at)
    assert "could not be read" in results["spool"][0]["says"]
    assert "do not ask the service" in results["hooks"][0]["says"]
    spool.store_delivery(at.home, "claude-code", b"{}", at="", project="", event="Stop")
    [waits] = [item for item in run_doctor(at, env={"COFIO_HOOKS": "off"})["spool"] if "wait" in item["says"]]
    assert "Hooks deliver them" in waits["remedy"]  # a remote service does not see them


def test_captures_that_wait_after_a_failed_attempt_are_reported(tmp_path: Path) -> None:
    clock = FixedClock()
    llm = ScriptedLLM([Misconfigured("The key is refused.", "Set ANTHROPIC_API_KEY.")])
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock, llm=llm) as keeper:
        keeper.capture("Our team decided to adopt microservices.", wait=True)
        keeper.capture("Not tried yet.")
        [check] = checks.check_waiting(Settings.load({"home": tmp_path}, {}), keeper)
    assert (check.name, check.state) == ("inbox", "warning")
    assert check.says == "1 captures wait after a failed attempt: The key is refused."


def test_client_without_cofio_is_not_a_problem(machine: Machine, service: str) -> None:
    machine.env |= {"COFIO_URL": service, "COFIO_API_KEY": "the service's key"}
    for client in ("claude-code", "openclaw"):
        machine.has(client)
    results = run_doctor(machine)
    assert {results[client][0]["state"] for client in ("claude-code", "openclaw")} == {"warning"}
    assert machine("install", "openclaw", "--yes").exit_code == 0
    assert run_doctor(machine)["openclaw"][0]["state"] == "ok"
    path = machine.user / ".openclaw" / "openclaw.json"
    path.write_text(path.read_text().replace('"memory": "cofio"', '"memory": "memory-core"'))
    assert "memory-core" in problem_text(machine, "openclaw")


def test_smoke_test_uses_its_own_project(at: Machine, tmp_path: Path) -> None:
    results = run_doctor(at, env={"CLAUDE_PROJECT_DIR": str(tmp_path), "COFIO_PROJECT": "elsewhere"})
    assert results["claude-code, recall"][0]["state"] == "ok"


def test_deep_check_names_damaged_rows_and_vectors(machine: Machine) -> None:
    path = machine.home / "cofio.db"
    with Keeper(SqliteStore(path, FixedClock()), HashEmbedder(), FixedClock()) as keeper:
        keeper.add_all(["We deploy with Fly.io", "The team lead is Ada", "Invoices go out on Fridays"])

    def find_integrity() -> list[tuple[str, str]]:
        checks_ = json.loads(machine("doctor", "--deep", "--json").stdout)["checks"]
        return [(check["state"], check["says"]) for check in checks_ if check["name"] == "integrity"]

    assert find_integrity() == [("ok", "the store's files, rows and vectors are sound")]
    with sqlite3.connect(path) as file:
        file.execute("UPDATE memories SET text = replace(text, 'Ada', 'Adb') WHERE id = 2")
        file.execute("UPDATE vectors SET vector = zeroblob(12) WHERE memory_id = 3")
    file.close()
    (content, vectors) = find_integrity()
    assert content == ("wrong", "The content of memories 2 is damaged.")
    assert vectors == ("warning", "The vectors of memories 3 are damaged.")
