"""Dashboard endpoints over HTTP: overview, agents and the event stream."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

import pytest

from cofio.core import Keeper
from cofio.errors import StoreBusy, Unavailable
from cofio.models.auth import Grant
from cofio.models.dashboard import ChangeCounters
from cofio.ports import Health
from cofio.server.http import event_stream
from cofio.server.http.event_stream import EventBroadcaster, EventStream
from cofio.server.http.server import HttpServer
from cofio.server.http.streaming import WATCHERS
from cofio.settings import Settings
from cofio.testing import ScriptedLLM
from tests.http_api.caller import Caller
from tests.http_api.conftest import Serve, serving

TIMEOUT_S = 30.0  # seconds to wait for an event


class EventReader:
    """Reads server-sent events line by line."""

    def __init__(self, service: Caller, **headers: str) -> None:
        self._wire = HTTPConnection(service.host, service.port, timeout=TIMEOUT_S)
        self._wire.request("GET", "/events", headers=headers)
        self.response: HTTPResponse = self._wire.getresponse()
        assert self.response.status == 200

    def next(self) -> tuple[str, Any]:
        """Return the next event's name and data. The name of a comment is ""."""
        lines = []
        while line := self.response.readline().decode().rstrip("\n"):
            lines.append(line)
        if not lines:
            raise EOFError
        if lines[0].startswith(":"):
            return "", lines[0][1:].strip()
        fields = dict(line.split(": ", 1) for line in lines)
        return fields["event"], json.loads(fields["data"])

    def wait_for_topics(self, *topics: str) -> None:
        """Wait until events for all these topics arrived."""
        missing = set(topics)
        while missing:
            event, data = self.next()
            missing -= set(data["what"]) if event == "moved" else set()

    def close(self) -> None:
        if self._wire.sock:  # close a stream without reading it to the end
            self._wire.sock.shutdown(socket.SHUT_RDWR)
        self.response.close()
        self._wire.close()


@pytest.fixture
def open_reader() -> Iterator[Callable[..., EventReader]]:
    with ExitStack() as readers:

        def open_stream(service: Caller, **headers: str) -> EventReader:
            new_reader = EventReader(service, **headers)
            readers.callback(new_reader.close)
            assert new_reader.next() == ("here", {})
            return new_reader

        yield open_stream


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# ── overview ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_overview_returns_counts_days_and_ledger(service: Caller) -> None:
    service.post("/memory/add", {"text": "We decided on Drizzle.", "kind": "decision", "source": "codex/web"})
    service.post("/recall", {"prompt": "did we decide on Drizzle?"}, {"X-Cofio-Client": "codex"})
    service.post("/capture", {"messages": "User: I prefer tabs over spaces.", "wait": True})
    body = service.get("/overview", days=7).json
    assert (body["live"], body["archived"], len(body["days"])) == (2, 0, 7)
    assert [(item["day"], item["count"]) for item in body["arrived"]] == [(body["days"][-1], 2)]
    assert body["done_today"] == {"add": 2}
    assert body["injected"] == [
        {"day": body["days"][-1], "prompts": 1, "answered": 1, "starts": 0, "memories": 1}
        | {"tokens": body["injected"][0]["tokens"]}
    ]
    assert (body["inbox"]["captured"], body["inbox"]["balanced"]) == (1, True)
    assert (body["store"]["name"], body["store"]["vectors"], body["store"]["waiting"]) == ("sqlite", 2, 0)
    assert body["extraction"] == {"enabled": False}
    assert body["uptime_seconds"] >= 0


@pytest.mark.parametrize("query", ["days=0", "days=367", "days=x", "day=1"])
def test_invalid_overview_query_is_rejected(service: Caller, query: str) -> None:
    assert service.get(f"/overview?{query}").status == 400


def test_overview_for_restricted_key_contains_only_visible_data(keeper: Keeper) -> None:
    keeper.add("Bob looks for another job.", user="bob")
    with serving(keeper) as url:
        _, secret = keeper.create_key(Grant(name="ada", user="ada", role="read"))
        ada = Caller(url).with_key(secret)
        body = ada.get("/overview").json
        assert (body["live"], body["arrived"]) == (0, [])
        assert [body[name] for name in ("done_today", "injected", "store", "inbox")] == [None] * 4
        assert ada.get("/agents").status == 403
        assert Caller(url).get("/overview").status == Caller(url).get("/events").status == 401


def test_unresponsive_llm_does_not_block_overview(serve: Serve) -> None:
    started, finish = threading.Event(), threading.Event()

    class Silent(ScriptedLLM):
        def health_check(self) -> Health:
            started.set()
            finish.wait(TIMEOUT_S)
            return Health(healthy=False, problem="It is slow.")

    service = serve(llm=Silent([]))
    start_time = time.monotonic()
    body = service.get("/overview").json["extraction"]
    assert time.monotonic() - start_time < 4  # 0.2 seconds, not the 6 seconds of /extract/status
    assert started.is_set()
    assert "status" not in body
    finish.set()
    wait_until(lambda: service.get("/overview").json["extraction"].get("problem") == "It is slow.")


def test_agents_endpoint_lists_agents_for_admin(service: Caller) -> None:
    service.post("/memory/add", {"text": "We decided on Drizzle.", "source": "codex/web"})
    service.post("/search", {"query": "Drizzle"}, {"X-Cofio-Client": "cursor"})
    agents = {agent["name"]: agent for agent in service.get("/agents").json["agents"]}
    assert (agents["codex"]["memories"], agents["cursor"]["recalls"]) == (1, 1)
    assert len(service.get("/agents", limit=1).json["agents"]) == 1
    assert service.get("/agents", limit=0).status == 400


def test_injected_tokens_are_counted_in_metrics(service: Caller) -> None:
    service.post("/memory/add", {"text": "We decided on Drizzle."})
    tokens = service.post("/recall", {"prompt": "did we decide on Drizzle?"}).json["tokens"]
    service.post("/recall", {"prompt": "who paints the bicycle shed?"})
    service.post("/recall", {})
    response = service.get("/metrics").body.decode()
    assert f'cofio_injected_tokens_sum{{occasion="prompt"}} {float(tokens)}' in response
    assert 'cofio_injected_tokens_count{occasion="prompt"} 2.0' in response
    assert 'cofio_injected_tokens_bucket{le="0.0",occasion="prompt"} 1.0' in response
    assert 'cofio_injected_tokens_count{occasion="start"} 1.0' in response


# ── event stream ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_event_stream_reports_changed_topics(service: Caller, open_reader: Callable[..., EventReader]) -> None:
    reader = open_reader(service)
    assert reader.response.headers["content-type"].startswith("text/event-stream")
    assert reader.response.headers["cache-control"] == "no-store"
    service.post("/memory/add", {"text": "We decided on Drizzle."})
    assert reader.next() == ("moved", {"what": ["memories"]})
    service.post("/recall", {"prompt": "who paints the bicycle shed?"})
    assert reader.next() == ("moved", {"what": ["recalls"]})
    service.post("/capture", {"messages": "User: I prefer tabs over spaces.", "wait": True})
    reader.wait_for_topics("inbox", "memories")


def test_broadcaster_polls_in_one_thread_only_while_there_are_readers(keeper: Keeper) -> None:
    polling_threads: list[str] = []

    def pulse() -> ChangeCounters:
        polling_threads.append(threading.current_thread().name)
        return keeper.dashboard.pulse()

    broadcaster = EventBroadcaster(pulse, every=0.01)
    relays = [EventStream(broadcaster) for _ in range(3)]
    for relay in relays:
        relay.head()
        relay.part()
    keeper.add("We decided on Drizzle.")
    assert [relay.part() for relay in relays] == [b'event: moved\ndata: {"what": ["memories"]}\n\n'] * 3
    assert {look for look in polling_threads if look.startswith("cofio-")} == {"cofio-news"}
    for relay in relays:
        relay.stop()
        assert relay.part() == b""
        relay.done()
    wait_until(lambda: not broadcaster.looks)
    assert broadcaster.watchers == 0
    before = len(polling_threads)
    repeated = EventStream(broadcaster)
    repeated.head()
    assert len(polling_threads) > before
    repeated.done()
    broadcaster.close()


def test_idle_stream_sends_keepalive_comments(
    service: Caller, open_reader: Callable[..., EventReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "STILL", 0.05)
    reader = open_reader(service)
    assert [reader.next() for _ in range(3)] == [("", "still here")] * 3
    service.post("/memory/add", {"text": "We decided on Drizzle."})
    reader.wait_for_topics("memories")


def test_stream_ends_after_maximum_duration(keeper: Keeper) -> None:
    broadcaster = EventBroadcaster(keeper.dashboard.pulse)
    stream = EventStream(broadcaster, still=0.01, longest=0.05)
    stream.head()
    parts = []
    while part := stream.part():
        parts.append(part)
    assert parts[0] == b"event: here\ndata: {}\n\n"
    assert set(parts[1:]) == {b": still here\n\n"}
    stream.done()
    broadcaster.close()


def test_store_errors_do_not_end_event_streams(keeper: Keeper, caplog: pytest.LogCaptureFixture) -> None:
    faults = [StoreBusy("It is busy.", "Wait."), StoreBusy("It is busy.", "Wait.")]
    begun = threading.Event()

    def pulse() -> ChangeCounters:
        if begun.is_set() and faults:
            raise faults.pop()
        return keeper.dashboard.pulse()

    broadcaster = EventBroadcaster(pulse, every=0.01)
    stream = EventStream(broadcaster)
    stream.head()
    stream.part()
    begun.set()
    keeper.add("We decided on Drizzle.")
    assert b"memories" in stream.part()
    assert "It is busy" in caplog.text
    stream.done()
    broadcaster.close()
    with pytest.raises(Unavailable, match="stopping"):
        EventStream(broadcaster).head()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_polling_resumes_after_unexpected_error(keeper: Keeper) -> None:
    faults = [RuntimeError("a bug")]

    def pulse() -> ChangeCounters:
        if faults and threading.current_thread().name == "cofio-news":
            raise faults.pop()
        return keeper.dashboard.pulse()

    broadcaster = EventBroadcaster(pulse, every=0.01)
    EventStream(broadcaster).head()
    wait_until(lambda: not any(item.name == "cofio-news" for item in threading.enumerate()))
    stream = EventStream(broadcaster)
    stream.head()
    stream.part()
    keeper.add("We decided on Drizzle.")
    assert b"memories" in stream.part()
    broadcaster.close()


def test_number_of_event_streams_is_limited_and_disconnect_frees_a_slot(
    service: Caller, open_reader: Callable[..., EventReader]
) -> None:
    readers = [open_reader(service) for _ in range(WATCHERS)]
    refused = service.get("/events")
    assert (refused.status, refused.error["code"]) == (429, "too_busy")
    assert f"{WATCHERS} event streams" in refused.error["message"]
    assert service.get("/health").status == 200  # other requests are not blocked
    assert service.get("/export").status == 200
    readers[0].close()
    wait_until(lambda: service.get("/events").status == 200)


def test_head_request_does_not_occupy_a_stream_slot(service: Caller) -> None:
    for _ in range(WATCHERS + 1):
        response = service.send("HEAD", "/events")
        assert (response.status, response.body) == (200, b"")


def test_open_event_streams_do_not_delay_shutdown(keeper: Keeper, tmp_path: Path) -> None:
    server = HttpServer(keeper, Settings(port=0, home=tmp_path))
    ready = threading.Event()
    thread = threading.Thread(target=server.run, args=(lambda _url: ready.set(),))
    thread.start()
    assert ready.wait(TIMEOUT_S)
    readers = [EventReader(Caller(server.url)) for _ in range(3)]
    try:
        assert all(reader.next() == ("here", {}) for reader in readers)
        start_time = time.monotonic()
        server.stop()
        for reader in readers:
            with pytest.raises(EOFError):
                reader.next()
        thread.join(TIMEOUT_S)
        assert not thread.is_alive()
        assert time.monotonic() - start_time < 4.0  # well under the 5 seconds granted to unfinished requests
    finally:
        for reader in readers:
            reader.close()


def test_event_stream_requires_the_api_key(serve: Serve, open_reader: Callable[..., EventReader]) -> None:
    service = serve(api_key="secret")
    assert service.get("/events").status == 401
    assert service.with_key("wrong").get("/events").status == 401
    reader = open_reader(service, **{"X-API-Key": "secret"})
    service.with_key("secret").post("/memory/add", {"text": "We decided on Drizzle."})
    reader.wait_for_topics("memories")


def test_event_stream_tells_a_viewer_nothing_about_private_changes_of_others(
    serve: Serve, keeper: Keeper, open_reader: Callable[..., EventReader]
) -> None:
    grants = [Grant(name=name, role="write", user=name, team="shop") for name in ("ada", "bob")]
    keys = [keeper.create_key(grant)[1] for grant in grants]
    service = serve(api_key="secret")
    ada, bob = map(service.with_key, keys)
    reader = open_reader(ada, **{"X-API-Key": keys[0]})
    said = {"messages": "User: I prefer tabs over spaces.", "session": "s", "turn": "1", "wait": True}
    bob.post("/memory/add", {"text": "My bank is in Zurich"})
    bob.post("/recall", {"prompt": "which bank is mine?"})
    bob.post("/capture", said)
    bob.post("/memory/add", {"text": "The team meets on Mondays", "visibility": "team"})
    ada.post("/capture", said)
    topics: set[str] = set()
    while "inbox" not in topics:
        topics |= set(reader.next()[1]["what"])
    assert "recalls" not in topics
