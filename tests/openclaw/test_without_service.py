"""The plugin without a service or with a slow or failing one: the agent continues and nothing is lost."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cofio.hooks import endpoint_file, spool
from cofio.hooks.client_events import event
from tests.hooks.conftest import hold_lock
from tests.openclaw.conftest import CONTEXT, ROOT, Load, StubService, agent, user

NOWHERE = "http://127.0.0.1:1"
STATEMENT = "We switched from Prisma to Drizzle."


def spool_entries(home: Path) -> list[spool.SpoolEntry]:
    return list(spool.entries(home))


def test_undeliverable_turn_is_spooled(load: Load, tmp_path: Path) -> None:
    plugin = load(baseUrl=NOWHERE)
    work = tmp_path.resolve() / "web"
    work.mkdir()
    plugin.end(user(STATEMENT), agent("Good choice. ✓"), workspaceDir=str(work))
    (entry,) = spool_entries(plugin.home)
    assert (entry.client, entry.project, entry.event) == ("openclaw", str(work), "agent_end")
    assert entry.at.endswith("Z")
    hook_event = event(entry.client, entry.raw)
    assert (hook_event.kind, hook_event.session, hook_event.turn) == ("stop", CONTEXT["sessionId"], CONTEXT["runId"])
    assert (hook_event.prompt, hook_event.reply, hook_event.cwd) == (STATEMENT, "Good choice. ✓", str(work))


def test_spool_is_private_and_has_complete_files_only(load: Load) -> None:
    plugin = load(baseUrl=NOWHERE)
    plugin.end(user(STATEMENT), agent("Yes."))
    folder = plugin.home / "spool"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (path,) = folder.iterdir()
    assert path.suffix == ".hook"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_without_a_service_nothing_is_recalled_or_raised(load: Load) -> None:
    plugin = load(baseUrl=NOWHERE)
    assert plugin.prompt("How do we deploy?") == ""
    assert plugin.fire("before_compaction", {"messageCount": 3}) is None
    assert plugin.fire("session_end", {"sessionId": "s", "messageCount": 3, "reason": "new"}) is None
    assert all(line.startswith("debug: cofio: ") for line in plugin.do("log"))
    assert len(plugin.do("log")) == 3


def test_unwritable_spool_loses_the_turn_without_an_error(load: Load) -> None:
    plugin = load(baseUrl=NOWHERE)
    (plugin.home / "spool").write_text("no folder")
    plugin.end(user(STATEMENT), agent("Yes."))
    assert "turn lost" in plugin.do("log")[-1]


def test_slow_service_costs_one_deadline_then_nothing(load: Load, stub: StubService) -> None:
    stub.delay = 60
    plugin = load(baseUrl=stub.url)
    assert plugin.prompt("How do we deploy?") == ""
    assert 700 <= plugin.ms < 8_000
    request_count = len(stub.requests)
    assert plugin.prompt("And who reviews?", runId="r2") == ""
    assert plugin.ms < 700
    plugin.end(user(STATEMENT), agent("Yes."), runId="r2")
    assert plugin.ms < 2_000
    assert len(stub.requests) == request_count  # it is not called again
    assert len(spool_entries(plugin.home)) == 1


def test_slow_service_costs_the_end_of_a_turn_its_own_deadline(load: Load, stub: StubService) -> None:
    stub.delay = 60
    plugin = load(baseUrl=stub.url)
    plugin.end(user(STATEMENT), agent("Yes."))
    assert 250 <= plugin.ms < 3_000
    assert len(spool_entries(plugin.home)) == 1


def test_deadlines_are_configurable(load: Load, stub: StubService) -> None:
    stub.delay = 60
    plugin = load(baseUrl=stub.url, env={"COFIO_HOOK_RECALL_TIMEOUT_MS": "100"})
    assert plugin.prompt("How do we deploy?") == ""
    assert 80 <= plugin.ms < 700


@pytest.mark.parametrize(
    ("status", "reply"),
    [(401, b'{"error": {"message": "The service wants a key.", "hint": "Send it."}}'), (500, b"<html>"), (200, b"{ha"),
     (200, b"[1]"), (200, b'{"context": 7}'), (200, b"null")],
)  # fmt: skip
def test_malformed_reply_gives_no_context(load: Load, stub: StubService, status: int, reply: bytes) -> None:
    stub.status, stub.reply = status, reply
    assert load(baseUrl=stub.url).prompt("How do we deploy?") == ""


@pytest.mark.parametrize("status", [400, 401, 403, 413, 429, 500, 503])
def test_rejected_turn_is_spooled(load: Load, stub: StubService, status: int) -> None:
    stub.status = status
    plugin = load(baseUrl=stub.url)
    plugin.end(user(STATEMENT), agent("Yes."))
    assert len(spool_entries(plugin.home)) == 1


def test_key_is_not_sent_to_a_redirect_target(load: Load, stub: StubService) -> None:
    stub.status, stub.location = 307, f"{stub.url}/elsewhere"
    plugin = load(baseUrl=stub.url, token="secret")
    assert plugin.prompt("How do we deploy?") == ""
    assert [path for path, _, _ in stub.requests] == ["/hooks/openclaw"]


def test_gateway_stop_waits_for_deliveries(load: Load, stub: StubService) -> None:
    stub.delay = 60
    plugin = load(baseUrl=stub.url)
    turn = {"name": "agent_end", "event": {"messages": [user(STATEMENT)], "success": True}, "context": CONTEXT}
    plugin.do("fire_and_forget", **turn)
    plugin.fire("gateway_stop", {"reason": "shutdown"})
    assert len(spool_entries(plugin.home)) == 1


def test_malformed_events_are_handled(load: Load, stub: StubService) -> None:
    plugin = load(baseUrl=stub.url)
    malformed: list[Any] = [
        None,
        7,
        "text",
        [],
        {"role": 7},
        {"role": "user"},
        {"role": "user", "content": [None, 3, {}]},
    ]
    for event_ in ({}, {"prompt": 7}, {"prompt": None, "currentUserMessage": None}, {"messages": "no list"}):
        plugin.fire("before_prompt_build", event_)
    for messages in (None, 7, "text", malformed):
        plugin.fire("agent_end", {"messages": messages, "success": "perhaps"})
    contexts: list[dict[str, Any]] = [{"sessionId": 7}, {"sessionKey": {}}, {"trigger": 1}, {"workspaceDir": "a/path"}]
    for context in contexts:
        plugin.fire("session_end", {}, **context)
        plugin.end(user(STATEMENT), agent("Yes."), **context)
    assert spool_entries(plugin.home) == []


def test_default_settings(load: Load) -> None:
    plugin = load()
    address = plugin.do("import", path=str(ROOT / "js" / "settings.js"), name="address", given=[{}])
    assert address == {"url": "", "key": "", "recallMs": 800, "captureMs": 300}


@pytest.mark.parametrize("state", ["free", "another address", "another process", "missing"])
def test_program_at_the_address_of_a_killed_service_receives_nothing(
    load: Load, stub: StubService, tmp_path: Path, ann: dict[str, str], state: str
) -> None:
    plugin, lock = load(), tmp_path / "cofio.db.service"
    endpoint_file.write_endpoint(plugin.home, stub.url, "secret", (800, 300), str(tmp_path / "cofio.db"), lock=lock)
    held = hold_lock(lock, "http://127.0.0.1:1" if state == "another address" else stub.url)
    if state == "another process":
        lock.write_text(json.dumps({"pid": 1, "url": stub.url}))
    if state in ("free", "missing"):
        os.close(held)
    if state == "missing":
        lock.unlink()
    assert plugin.prompt("How do we deploy?") == ""
    plugin.end(user(STATEMENT), agent("Good choice."))
    script = ROOT / "skills" / "cofio" / "scripts" / "memory_recall_faiss"
    output = subprocess.run(["sh", str(script), "deploy"], env=ann, capture_output=True, text=True, check=True).stdout
    assert "the service does not run" in output
    assert stub.requests == []
    assert len(spool_entries(plugin.home)) == 1
    if state not in ("free", "missing"):
        os.close(held)


@pytest.mark.parametrize("context", ["Obey!", "<cofio-memory>\nx\n</cofio-memory>Obey!"])
def test_reply_with_anything_but_one_block_gives_no_context(load: Load, stub: StubService, context: str) -> None:
    stub.reply = json.dumps({"context": context}).encode()
    assert load(baseUrl=stub.url).prompt("How do we deploy?") == ""


def test_hooks_can_be_disabled_for_all_clients(load: Load, stub: StubService) -> None:
    plugin = load(baseUrl=stub.url, env={"COFIO_HOOKS": "off"})
    assert plugin.prompt("How do we deploy?") == ""
    plugin.end(user(STATEMENT), agent("Yes."))
    plugin.fire("session_end", {"sessionId": "s"})
    assert stub.requests == []
    assert json.dumps(spool_entries(plugin.home)) == "[]"
