"""Exports over HTTP: streaming and access control."""

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


def test_http_export_equals_library_export(keeper: Keeper) -> None:
    unusual_text = "Lines\u2028may\x85hold\x1canything \U0001f30a"
    keeper.add_all([unusual_text, *(f"Fact number {index} about the vault" for index in range(1_500))], dedup=False)
    keeper.delete(2)
    with serving(keeper) as url, Client(url) as client:
        assert list(client.export_lines()) == list(keeper.export_lines())
        assert list(client.export_lines(vectors=True)) == list(keeper.export_lines(vectors=True))
        answer = Caller(url).get("/export")
        assert answer.headers["content-type"].startswith("application/x-ndjson")
        assert Caller(url).get("/export", vectors="perhaps").status == 400


def test_export_contains_only_data_visible_to_the_key(keeper: Keeper) -> None:
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


def test_disconnect_during_export_does_not_block_the_service(keeper: Keeper) -> None:
    keeper.add_all([f"Fact number {index} " + "about the vault " * 200 for index in range(2_000)], dedup=False)
    with serving(keeper) as url:
        service = Caller(url)
        for _ in range(3):
            wire = HTTPConnection(service.host, service.port, timeout=60)
            wire.request("GET", "/export")
            assert wire.getresponse().read(1_000)
            wire.close()
        assert service.post("/memory/add", {"text": "The cellar is dry"}).status == 201
        assert service.get("/health").json["memories"] == 2_001


def test_stalled_export_readers_do_not_block_the_store(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every export holds a store snapshot, and with PostgreSQL a connection. Their number and duration are limited."""
    monkeypatch.setattr(streaming, "PATIENCE", 5.0)
    keeper.add_all([Fact(text=f"Fact {index}", metadata={"x": "y" * 9_000}) for index in range(2_000)], dedup=False)
    with serving(keeper) as url, ExitStack() as stack:
        service = Caller(url)
        for _ in range(streaming.EXPORTS):
            stalled_reader = stack.enter_context(socket.socket())
            stalled_reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            stalled_reader.connect((service.host, service.port))
            stalled_reader.sendall(f"GET /export HTTP/1.1\r\nHost: {service.host}\r\n\r\n".encode())
            assert stalled_reader.recv(12) == b"HTTP/1.1 200"
        refused = service.get("/export")
        assert (refused.status, "exports are already running" in refused.error["message"]) == (429, True)
        assert service.post("/search", {"query": "fact"}).status == 200
        deadline = time.monotonic() + 30
        while service.get("/export").status != 200:
            assert time.monotonic() < deadline
            time.sleep(0.1)
