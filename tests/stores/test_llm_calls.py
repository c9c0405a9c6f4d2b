"""The LLM call log of every store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cofio.ports import Store
from cofio.stores.postgres import PostgresStore
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock
from tests.stores.llm_calls_contract import LLMCallsContract, call


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock("2026-01-07T12:00:00Z")


class TestSqliteStore(LLMCallsContract):
    @pytest.fixture
    def store(self, tmp_path: Path, clock: FixedClock) -> Iterator[Store]:
        store = SqliteStore(tmp_path / "cofio.db", clock)
        yield store
        store.close()


class TestPostgresStore(LLMCallsContract):
    @pytest.fixture
    def store(self, postgres_url: str, clock: FixedClock) -> Iterator[Store]:
        store = PostgresStore(postgres_url, clock)
        yield store
        store.close()


def test_forgotten_texts_are_removed_from_the_file(tmp_path: Path, clock: FixedClock) -> None:
    store = SqliteStore(tmp_path / "cofio.db", clock)
    call(store, "quixoticsecret " * 1_000)
    assert store.llm_calls.forget("2027-01-01") == 1
    assert b"quixoticsecret" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
    store.close()
