"""/mcp of the service: the SDK's own client at the other end, and whatever else may come along an HTTP connection."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cofio.access import Grant
from cofio.errors import StoreBusy
from cofio.keeper import Keeper
from cofio.mcp import SDK
from cofio.stores.sqlite import SqliteStore
from cofio.testing import FixedClock, HashEmbedder
from tests.api.caller import Answer, Caller
from tests.api.conftest import Uneventful, serving
from tests.mcp.agent import Calling, around
from tests.mcp.contract import TOOLS, Contract

JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
MODERN = "2026-07-28"
WRITING = {
    "memory_add": {"text": "We use pnpm"},
    "memory_update": {"id": 1, "text": "We use pnpm"},
    "memory_forget": {"id": 1},
    "memory_extract": {"text": "We decided to use pnpm."},
}


def new_keeper(path: Path) -> Keeper:
    clock = FixedClock()
    return Keeper(SqliteStore(path / "cofio.db", clock), HashEmbedder(), clock)


class TestContract(Contract):
    """What every agent is promised, of one that calls the service."""

    @pytest.fixture(scope="class")
    def where(self, tmp_path_factory: pytest.TempPathFactory) -> str:
        return str(tmp_path_factory.mktemp("at work") / "web")

    @pytest.fixture(scope="class")
    def agent(self, tmp_path_factory: pytest.TempPathFactory, where: str) -> Iterator[Calling]:
        headers = {"X-Cofio-Project": quote(where)}
        with new_keeper(tmp_path_factory.mktemp("served")) as keeper, serving(keeper) as url, Calling(url, headers) as it:
            yield it


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    with new_keeper(tmp_path) as keeper:
        yield keeper


@pytest.fixture
def url(keeper: Keeper) -> Iterator[str]:
    with serving(keeper) as url:
        yield url


def says(url: str, message: Any, headers: Mapping[str, str] | None = None) -> Answer:
    """What is said to this, whatever it is."""
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return Raw(url).send("POST", "/mcp", body, {**JSON, **(headers or {})})


class Raw(Caller):
    """A caller that takes what the protocol says of an error: a number for a code, and no hint."""

    def send(self, method: str, path: str, body: Any = None, headers: Any = None, connection: Any = None) -> Answer:
        try:
            return super().send(method, path, body, headers, connection)
        except Told as told:
            return told.answer


class Told(Exception):
    """An error of the protocol."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
