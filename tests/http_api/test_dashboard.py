"""What people look at, over HTTP: the overview, the agents, and the stream of what moves."""

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
from cofio.server.http import events
from cofio.server.http.events import EventBroadcaster, EventStream
from cofio.server.http.server import HttpServer
from cofio.server.http.streaming import WATCHERS
from cofio.settings import Settings
from cofio.testing import ScriptedLLM
from tests.http_api.caller import Caller
from tests.http_api.conftest import Serve, serving

LONG = 30.0  # seconds after which something is not coming any more


class Reader:
    """Somebody who reads events, line by line."""

    def __init__(self, service: Caller, **headers: str) -> None:
        self._wire = HTTPConnection(service.host, service.port, timeout=LONG)
        self._wire.request("GET", "/events", headers=headers)
        self.response: HTTPResponse = self._wire.getresponse()
        assert self.response.status == 200

    def next(self) -> tuple[str, Any]:
        """The next event and what it says; a comment's name is ""."""
        lines = []
        while line := self.response.readline().decode().rstrip("\n"):
            lines.append(line)
        if not lines:
            raise EOFError
        if lines[0].startswith(":"):
            return "", lines[0][1:].strip()
        fields = dict(line.split(": ", 1) for line in lines)
        return fields["event"], json.loads(fields["data"])

    def moves(self, *wanted: str) -> None:
        """Wait until all of these have moved."""
        missing = set(wanted)
        while missing:
            event, said = self.next()
            missing -= set(said["what"]) if event == "moved" else set()

    def close(self) -> None:
        if self._wire.sock:  # a stream is hung up on, not read to its end
            self._wire.sock.shutdown(socket.SHUT_RDWR)
        self.response.close()
        self._wire.close()


@pytest.fixture
def reading() -> Iterator[Callable[..., Reader]]:
    with ExitStack() as readers:

        def begin(service: Caller, **headers: str) -> Reader:
            reader = Reader(service, **headers)
            readers.callback(reader.close)
            assert reader.next() == ("here", {})
            return reader

        yield begin


def until(so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONG
    while not so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# ── the overview ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_overview_tells_all_that_a_first_page_shows(service: Caller) -> None:
    service.post("/memory/add", {"text": "We decided on Drizzle.", "kind": "decision", "source": "codex/web"})
    service.post("/recall", {"prompt": "did we decide on Drizzle?"}, {"X-Cofio-Client": "codex"})
    service.post("/capture", {"messages": "User: I prefer tabs over spaces.", "wait": True})
    told = service.get("/overview", days=7).json
    assert (told["live"], told["archived"], len(told["days"])) == (2, 0, 7)
    assert [(each["day"], each["count"]) for each in told["arrived"]] == [(told["days"][-1], 2)]
    assert told["done_today"] == {"add": 2}
    assert told["injected"] == [
        {"day": told["days"][-1], "prompts": 1, "answered": 1, "starts": 0, "memories": 1}
        | {"tokens": told["injected"][0]["tokens"]}
    ]
    assert (told["inbox"]["captured"], told["inbox"]["balanced"]) == (1, True)
    assert (told["store"]["name"], told["store"]["vectors"], told["store"]["waiting"]) == ("sqlite", 2, 0)
    assert told["extraction"] == {"enabled": False}
    assert told["uptime_seconds"] >= 0


@pytest.mark.parametrize("query", ["days=0", "days=367", "days=x", "day=1"])
def test_an_overview_of_what_cannot_be_is_refused(service: Caller, query: str) -> None:
    assert service.get(f"/overview?{query}").status == 400


def test_a_key_is_told_of_what_it_may_see(keeper: Keeper) -> None:
    keeper.add("Bob looks for another job.", user="bob")
    with serving(keeper) as url:
        _, secret = keeper.create_key(Grant(name="ada", user="ada", role="read"))
        ada = Caller(url).having(secret)
        told = ada.get("/overview").json
        assert (told["live"], told["arrived"]) == (0, [])
        assert [told[name] for name in ("done_today", "injected", "store", "inbox")] == [None] * 4
        assert ada.get("/agents").status == 403
        assert Caller(url).get("/overview").status == Caller(url).get("/events").status == 401


def test_a_model_that_does_not_answer_holds_up_no_overview(serve: Serve) -> None:
    asked, answers = threading.Event(), threading.Event()

    class Silent(ScriptedLLM):
        def health_check(self) -> Health:
            asked.set()
            answers.wait(LONG)
            return Health(healthy=False, problem="It is slow.")

    service = serve(llm=Silent([]))
    began = time.monotonic()
    told = service.get("/overview").json["extraction"]
    assert time.monotonic() - began < 4  # a fifth of a second, and not the six that /extract/status waits
    assert asked.is_set()
    assert "status" not in told
    answers.set()
    until(lambda: service.get("/overview").json["extraction"].get("problem") == "It is slow.")


def test_agents_are_listed_for_an_admin(service: Caller) -> None:
    service.post("/memory/add", {"text": "We decided on Drizzle.", "source": "codex/web"})
    service.post("/search", {"query": "Drizzle"}, {"X-Cofio-Client": "cursor"})
    agents = {each["name"]: each for each in service.get("/agents").json["agents"]}
    assert (agents["codex"]["memories"], agents["cursor"]["recalls"]) == (1, 1)
    assert len(service.get("/agents", limit=1).json["agents"]) == 1
    assert service.get("/agents", limit=0).status == 400


def test_tokens_that_were_injected_are_counted_for_prometheus(service: Caller) -> None:
    service.post("/memory/add", {"text": "We decided on Drizzle."})
    tokens = service.post("/recall", {"prompt": "did we decide on Drizzle?"}).json["tokens"]
    service.post("/recall", {"prompt": "who paints the bicycle shed?"})
    service.post("/recall", {})
    told = service.get("/metrics").body.decode()
    assert f'cofio_injected_tokens_sum{{occasion="prompt"}} {float(tokens)}' in told
    assert 'cofio_injected_tokens_count{occasion="prompt"} 2.0' in told
    assert 'cofio_injected_tokens_bucket{le="0.0",occasion="prompt"} 1.0' in told
    assert 'cofio_injected_tokens_count{occasion="start"} 1.0' in told


# ── what moves ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_reader_is_told_what_has_moved(service: Caller, reading: Callable[..., Reader]) -> None:
    reader = reading(service)
    assert reader.response.headers["content-type"].startswith("text/event-stream")
    assert reader.response.headers["cache-control"] == "no-store"
    service.post("/memory/add", {"text": "We decided on Drizzle."})
    assert reader.next() == ("moved", {"what": ["memories"]})
    service.post("/recall", {"prompt": "who paints the bicycle shed?"})
    assert reader.next() == ("moved", {"what": ["recalls"]})
    service.post("/capture", {"messages": "User: I prefer tabs over spaces.", "wait": True})
    reader.moves("inbox", "memories")


def test_one_looks_for_all_and_nobody_when_nobody_reads(keeper: Keeper) -> None:
    looks: list[str] = []

    def pulse() -> ChangeCounters:
        looks.append(threading.current_thread().name)
        return keeper.dashboard.pulse()

    told = EventBroadcaster(pulse, every=0.01)
    relays = [EventStream(told) for _ in range(3)]
    for relay in relays:
        relay.head()
        relay.part()
    keeper.add("We decided on Drizzle.")
    assert [relay.part() for relay in relays] == [b'event: moved\ndata: {"what": ["memories"]}\n\n'] * 3
    assert {look for look in looks if look.startswith("cofio-")} == {"cofio-news"}
    for relay in relays:
        relay.stop()
        assert relay.part() == b""
        relay.done()
    until(lambda: not told.looks)
    assert told.watchers == 0
    before = len(looks)
    again = EventStream(told)
    again.head()
    assert len(looks) > before
    again.done()
    told.close()


def test_who_is_told_nothing_for_long_hears_that_we_are_here(
    service: Caller, reading: Callable[..., Reader], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "STILL", 0.05)
    reader = reading(service)
    assert [reader.next() for _ in range(3)] == [("", "still here")] * 3
    service.post("/memory/add", {"text": "We decided on Drizzle."})
    reader.moves("memories")


def test_a_reader_comes_again_after_a_while(keeper: Keeper) -> None:
    told = EventBroadcaster(keeper.dashboard.pulse)
    relay = EventStream(told, still=0.01, longest=0.05)
    relay.head()
    parts = []
    while part := relay.part():
        parts.append(part)
    assert parts[0] == b"event: here\ndata: {}\n\n"
    assert set(parts[1:]) == {b": still here\n\n"}
    relay.done()
    told.close()


def test_a_store_that_does_not_answer_silences_nobody(keeper: Keeper, caplog: pytest.LogCaptureFixture) -> None:
    faults = [StoreBusy("It is busy.", "Wait."), StoreBusy("It is busy.", "Wait.")]
    begun = threading.Event()

    def pulse() -> ChangeCounters:
        if begun.is_set() and faults:
            raise faults.pop()
        return keeper.dashboard.pulse()

    told = EventBroadcaster(pulse, every=0.01)
    relay = EventStream(told)
    relay.head()
    relay.part()
    begun.set()
    keeper.add("We decided on Drizzle.")
    assert b"memories" in relay.part()
    assert "It is busy" in caplog.text
    relay.done()
    told.close()
    with pytest.raises(Unavailable, match="stopping"):
        EventStream(told).head()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_after_a_look_that_failed_badly_the_next_reader_is_told_again(keeper: Keeper) -> None:
    faults = [RuntimeError("a bug")]

    def pulse() -> ChangeCounters:
        if faults and threading.current_thread().name == "cofio-news":
            raise faults.pop()
        return keeper.dashboard.pulse()

    told = EventBroadcaster(pulse, every=0.01)
    EventStream(told).head()
    until(lambda: not any(each.name == "cofio-news" for each in threading.enumerate()))
    relay = EventStream(told)
    relay.head()
    relay.part()
    keeper.add("We decided on Drizzle.")
    assert b"memories" in relay.part()
    told.close()


def test_there_are_only_so_many_readers_and_who_hangs_up_makes_room(
    service: Caller, reading: Callable[..., Reader]
) -> None:
    readers = [reading(service) for _ in range(WATCHERS)]
    refused = service.get("/events")
    assert (refused.status, refused.error["code"]) == (429, "too_busy")
    assert f"{WATCHERS} event streams" in refused.error["message"]
    assert service.get("/health").status == 200  # nobody else waits for them
    assert service.get("/export").status == 200
    readers[0].close()
    until(lambda: service.get("/events").status == 200)


def test_only_its_head_is_no_reader(service: Caller) -> None:
    for _ in range(WATCHERS + 1):
        answer = service.send("HEAD", "/events")
        assert (answer.status, answer.body) == (200, b"")


def test_who_reads_holds_up_no_stop(keeper: Keeper, tmp_path: Path) -> None:
    running = HttpServer(keeper, Settings(port=0, home=tmp_path))
    ready = threading.Event()
    thread = threading.Thread(target=running.run, args=(lambda _url: ready.set(),))
    thread.start()
    assert ready.wait(LONG)
    readers = [Reader(Caller(running.url)) for _ in range(3)]
    try:
        assert all(reader.next() == ("here", {}) for reader in readers)
        began = time.monotonic()
        running.stop()
        for reader in readers:
            with pytest.raises(EOFError):
                reader.next()
        thread.join(LONG)
        assert not thread.is_alive()
        assert time.monotonic() - began < 4.0  # some tenths of a second; a request that does not end has five
    finally:
        for reader in readers:
            reader.close()


def test_a_stream_wants_a_key_where_the_service_does(serve: Serve, reading: Callable[..., Reader]) -> None:
    service = serve(api_key="secret")
    assert service.get("/events").status == 401
    assert service.having("wrong").get("/events").status == 401
    reader = reading(service, **{"X-API-Key": "secret"})
    service.having("secret").post("/memory/add", {"text": "We decided on Drizzle."})
    reader.moves("memories")
