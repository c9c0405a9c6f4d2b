"""The plugin where there is no service, or a slow, sick or strange one: the agent's work goes on, nothing is lost."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from cofio.hooks import spool
from cofio.hooks.client_events import event
from tests.openclaw.conftest import CONTEXT, ROOT, Load, Stand, agent, user

NOWHERE = "http://127.0.0.1:1"
SAID = "We switched from Prisma to Drizzle."


def spooled(home: Path) -> list[spool.SpoolEntry]:
    return list(spool.entries(home))


def test_a_turn_that_cannot_be_delivered_is_spooled_as_the_service_reads_it(load: Load, tmp_path: Path) -> None:
    plugin = load(baseUrl=NOWHERE)
    work = tmp_path.resolve() / "web"
    work.mkdir()
    plugin.end(user(SAID), agent("Good choice. ✓"), workspaceDir=str(work))
    (entry,) = spooled(plugin.home)
    assert (entry.client, entry.project, entry.event) == ("openclaw", str(work), "agent_end")
    assert entry.at.endswith("Z")
    told = event(entry.client, entry.raw)
    assert (told.kind, told.session, told.turn) == ("stop", CONTEXT["sessionId"], CONTEXT["runId"])
    assert (told.prompt, told.reply, told.cwd) == (SAID, "Good choice. ✓", str(work))


def test_the_spool_is_for_its_owner_alone_and_has_whole_files_only(load: Load) -> None:
    plugin = load(baseUrl=NOWHERE)
    plugin.end(user(SAID), agent("Yes."))
    folder = plugin.home / "spool"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (path,) = folder.iterdir()
    assert path.suffix == ".hook"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_without_a_service_nothing_is_recalled_and_nothing_thrown(load: Load) -> None:
    plugin = load(baseUrl=NOWHERE)
    assert plugin.prompt("How do we deploy?") == ""
    assert plugin.fire("before_compaction", {"messageCount": 3}) is None
    assert plugin.fire("session_end", {"sessionId": "s", "messageCount": 3, "reason": "new"}) is None
    assert all(line.startswith("debug: cofio: ") for line in plugin.do("log"))
    assert len(plugin.do("log")) == 3


def test_nothing_but_a_home_that_cannot_be_written_loses_a_turn_and_even_that_does_not_throw(load: Load) -> None:
    plugin = load(baseUrl=NOWHERE)
    (plugin.home / "spool").write_text("no folder")
    plugin.end(user(SAID), agent("Yes."))
    assert "a turn is lost" in plugin.do("log")[-1]


def test_a_slow_service_costs_a_prompt_its_deadline_once_and_then_nothing(load: Load, stand: Stand) -> None:
    stand.delay = 60
    plugin = load(baseUrl=stand.url)
    assert plugin.prompt("How do we deploy?") == ""
    assert 700 <= plugin.ms < 8_000
    asked = len(stand.requests)
    assert plugin.prompt("And who reviews?", runId="r2") == ""
    assert plugin.ms < 700
    plugin.end(user(SAID), agent("Yes."), runId="r2")
    assert plugin.ms < 2_000
    assert len(stand.requests) == asked  # it is left in peace
    assert len(spooled(plugin.home)) == 1


def test_a_slow_service_costs_the_end_of_a_turn_its_own_deadline(load: Load, stand: Stand) -> None:
    stand.delay = 60
    plugin = load(baseUrl=stand.url)
    plugin.end(user(SAID), agent("Yes."))
    assert 250 <= plugin.ms < 3_000
    assert len(spooled(plugin.home)) == 1


def test_the_deadlines_can_be_set(load: Load, stand: Stand) -> None:
    stand.delay = 60
    plugin = load(baseUrl=stand.url, env={"COFIO_HOOK_RECALL_TIMEOUT_MS": "100"})
    assert plugin.prompt("How do we deploy?") == ""
    assert 80 <= plugin.ms < 700


@pytest.mark.parametrize(
    ("status", "reply"),
    [(401, b'{"error": {"message": "The service wants a key.", "hint": "Send it."}}'), (500, b"<html>"), (200, b"{ha"),
     (200, b"[1]"), (200, b'{"context": 7}'), (200, b"null")],
)  # fmt: skip
def test_a_strange_answer_is_no_context(load: Load, stand: Stand, status: int, reply: bytes) -> None:
    stand.status, stand.reply = status, reply
    assert load(baseUrl=stand.url).prompt("How do we deploy?") == ""


@pytest.mark.parametrize("status", [400, 401, 403, 413, 429, 500, 503])
def test_a_turn_that_is_refused_is_kept(load: Load, stand: Stand, status: int) -> None:
    stand.status = status
    plugin = load(baseUrl=stand.url)
    plugin.end(user(SAID), agent("Yes."))
    assert len(spooled(plugin.home)) == 1


def test_a_key_is_not_carried_to_where_an_answer_points(load: Load, stand: Stand) -> None:
    stand.status, stand.location = 307, f"{stand.url}/elsewhere"
    plugin = load(baseUrl=stand.url, token="secret")
    assert plugin.prompt("How do we deploy?") == ""
    assert [path for path, _, _ in stand.requests] == ["/hooks/openclaw"]


def test_the_gateway_waits_for_what_is_on_its_way_when_it_stops(load: Load, stand: Stand) -> None:
    stand.delay = 60
    plugin = load(baseUrl=stand.url)
    turn = {"name": "agent_end", "event": {"messages": [user(SAID)], "success": True}, "context": CONTEXT}
    plugin.do("fire_and_forget", **turn)
    plugin.fire("gateway_stop", {"reason": "shutdown"})
    assert len(spooled(plugin.home)) == 1


def test_events_of_no_known_shape_are_borne(load: Load, stand: Stand) -> None:
    plugin = load(baseUrl=stand.url)
    odd: list[Any] = [None, 7, "text", [], {"role": 7}, {"role": "user"}, {"role": "user", "content": [None, 3, {}]}]
    for event_ in ({}, {"prompt": 7}, {"prompt": None, "currentUserMessage": None}, {"messages": "no list"}):
        plugin.fire("before_prompt_build", event_)
    for messages in (None, 7, "text", odd):
        plugin.fire("agent_end", {"messages": messages, "success": "perhaps"})
    contexts: list[dict[str, Any]] = [{"sessionId": 7}, {"sessionKey": {}}, {"trigger": 1}, {"workspaceDir": "a/path"}]
    for context in contexts:
        plugin.fire("session_end", {}, **context)
        plugin.end(user(SAID), agent("Yes."), **context)
    assert spooled(plugin.home) == []


def test_without_a_word_about_it_the_service_is_where_it_usually_is(load: Load) -> None:
    plugin = load()
    told = plugin.do("import", path=str(ROOT / "js" / "settings.js"), name="address", given=[{}])
    assert told == {"url": "http://127.0.0.1:8900", "key": "", "recallMs": 800, "captureMs": 300}


def test_hooks_can_be_turned_off_for_all_clients(load: Load, stand: Stand) -> None:
    plugin = load(baseUrl=stand.url, env={"COFIO_HOOKS": "off"})
    assert plugin.prompt("How do we deploy?") == ""
    plugin.end(user(SAID), agent("Yes."))
    plugin.fire("session_end", {"sessionId": "s"})
    assert stand.requests == []
    assert json.dumps(spooled(plugin.home)) == "[]"
