"""Exports over HTTP: lines as they are read, of what the caller may see."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path

import pytest

from cofio.client import Client
from cofio.core import Keeper
from cofio.errors import WrongKey
from cofio.models.auth import Grant
from cofio.models.memory import Fact
from cofio.server.http import streaming
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder
from tests.http_api.caller import Caller
from tests.http_api.conftest import serving


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    clock = FixedClock()
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock) as opened:
        yield opened


def test_what_is_exported_over_the_wire_is_what_the_keeper_exports(keeper: Keeper) -> None:
    odd = "Lines\u2028may\x85hold\x1canything \U0001f30a"
    keeper.add_all([odd, *(f"Fact number {each} about the vault" for each in range(1_500))], dedup=False)
    keeper.delete(2)
    with serving(keeper) as url, Client(url) as client:
        assert list(client.export_lines()) == list(keeper.export_lines())
        assert list(client.export_lines(vectors=True)) == list(keeper.export_lines(vectors=True))
        answer = Caller(url).get("/export")
        assert answer.headers["content-type"].startswith("application/x-ndjson")
        assert Caller(url).get("/export", vectors="perhaps").status == 400


def test_a_key_exports_what_its_holder_may_see(keeper: Keeper) -> None:
    keeper.add_all([Fact(text="Ada's", user="ada"), Fact(text="Eve's", user="eve")], dedup=False)
    secrets = {name: keeper.create_key(Grant(name=name, role="read", user=name))[1] for name in ("ada", "eve")}
    with serving(keeper) as url:
        for name, secret in secrets.items():
            with Client(url, secret) as client:
                header, line = client.export_lines()
            assert json.loads(header)["memories"] == 1
            assert json.loads(line)["user"] == name
        with Client(url, "cofio_wrong") as stranger, pytest.raises(WrongKey):
            stranger.export_lines()


def test_a_reader_who_hangs_up_holds_nothing_up(keeper: Keeper) -> None:
    keeper.add_all([f"Fact number {each} " + "about the vault " * 200 for each in range(2_000)], dedup=False)
    with serving(keeper) as url:
        service = Caller(url)
        for _ in range(3):
            wire = HTTPConnection(service.host, service.port, timeout=60)
            wire.request("GET", "/export")
            assert wire.getresponse().read(1_000)
            wire.close()
        assert service.post("/memory/add", {"text": "The cellar is dry"}).status == 201
        assert service.get("/health").json["memories"] == 2_001


def test_readers_who_do_not_read_keep_nobody_from_the_store(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each holds a moment of the store, and on a server a connection to it: few may, and none for ever."""
    monkeypatch.setattr(streaming, "PATIENCE", 5.0)
    keeper.add_all([Fact(text=f"Fact {each}", metadata={"x": "y" * 9_000}) for each in range(2_000)], dedup=False)
    with serving(keeper) as url, ExitStack() as held:
        service = Caller(url)
        for _ in range(streaming.EXPORTS):
            deaf = held.enter_context(socket.socket())
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            deaf.connect((service.host, service.port))
            deaf.sendall(f"GET /export HTTP/1.1\r\nHost: {service.host}\r\n\r\n".encode())
            assert deaf.recv(12) == b"HTTP/1.1 200"
        refused = service.get("/export")
        assert (refused.status, "exports are already running" in refused.error["message"]) == (429, True)
        assert service.post("/search", {"query": "fact"}).status == 200
        deadline = time.monotonic() + 30
        while service.get("/export").status != 200:
            assert time.monotonic() < deadline
            time.sleep(0.1)
