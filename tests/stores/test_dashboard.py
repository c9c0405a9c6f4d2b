"""Dashboard queries of every store."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cofio.models.memory import Add, Fact, Scope
from cofio.ports import Store
from cofio.stores.filters import condition
from cofio.stores.postgres import PostgresStore
from cofio.stores.sql_loader import queries
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock
from tests.stores.contract import add
from tests.stores.dashboard_contract import EARLIEST, DashboardContract, injection

DOT_COUNT = 10_000


class TestSqliteStore(DashboardContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        store = SqliteStore(tmp_path / "cofio.db", FixedClock())
        yield store
        store.close()


class TestPostgresStore(DashboardContract):
    @pytest.fixture
    def store(self, tenant_url: str) -> Iterator[Store]:
        store = PostgresStore(tenant_url, FixedClock())
        yield store
        store.close()


def test_changes_by_another_process_are_visible_at_once(tmp_path: Path) -> None:
    store, beside = (SqliteStore(tmp_path / "cofio.db", FixedClock()) for _ in range(2))
    assert store.dashboard.dots(Scope(), 9, 9).total == 0
    before = store.dashboard.pulse()
    memory = add(beside, "red green blue")
    beside.dashboard.inject([injection("2026-01-01T10:00:00")])
    assert list(store.dashboard.dots(Scope(), 9, 9).ids) == [memory.id]
    assert store.dashboard.pulse().moved(before) == ["memories", "recalls"]
    assert [item.tokens for item in store.dashboard.injected(EARLIEST)] == [50]
    store.close()
    beside.close()


def test_ten_thousand_dots_are_returned_quickly(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "cofio.db", FixedClock())
    vectors = np.random.default_rng(0).standard_normal((DOT_COUNT, 384)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    facts = [Add(Fact(text=f"What number {number} says. " * 8, project="/srv/web")) for number in range(DOT_COUNT)]
    store.apply(facts, dict(enumerate(vectors)), by="test", why="many")
    store.dashboard.dots(Scope(), 1, 1)  # the first call loads the vectors
    start_time = time.perf_counter()
    dots = store.dashboard.dots(Scope(), 20_000, 120)
    assert time.perf_counter() - start_time < 2.0  # about 50 ms
    assert len(dots.ids) == dots.total == DOT_COUNT
    np.testing.assert_array_equal(dots.vectors, vectors[::-1])
    store.close()


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("arrived", "USING COVERING INDEX memories_by_day"),
        ("injection_counts", "USING COVERING INDEX injections_by_time"),
        ("done", "SEARCH s USING COVERING INDEX changesets_by_time"),
        ("pulse", "SEARCH inbox USING COVERING INDEX inbox_by_state"),
        ("askers", "USING COVERING INDEX retrievals_by_caller"),
    ],
)
def test_frequent_queries_use_an_index(tmp_path: Path, name: str, index: str) -> None:
    SqliteStore(tmp_path / "cofio.db", FixedClock()).close()
    connection = sqlite3.connect(tmp_path / "cofio.db")
    text = queries("sqlite")[name].format(where=condition(Scope())[0])
    plan = [
        row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", dict.fromkeys(("first", "since"), EARLIEST))
    ]
    connection.close()
    assert any(index in step for step in plan), plan
    scanned = [step for step in plan if step.startswith("SCAN") and "INDEX" not in step]
    assert [step for step in scanned if "CONSTANT" not in step and "(subquery" not in step] == [], plan


def test_other_tenant_data_is_invisible(postgres_url: str) -> None:
    ours, theirs = (PostgresStore(f"{postgres_url}?tenant={name}", FixedClock()) for name in ("ours", "theirs"))
    try:
        before = theirs.dashboard.pulse()
        add(ours, "red", source="claude-code/web")
        ours.dashboard.inject([injection("2026-01-01T10:00:00")])
        assert theirs.dashboard.pulse() == before
        assert (theirs.dashboard.arrived(EARLIEST, Scope()), theirs.dashboard.done(EARLIEST)) == ([], {})
        assert (theirs.dashboard.injected(EARLIEST), theirs.dashboard.agents(9)) == ([], [])
        assert theirs.dashboard.dots(Scope(), 9, 9).total == 0
        assert theirs.dashboard.forget_injected("2030-01-01") == 0
        assert len(ours.dashboard.injected(EARLIEST)) == 1
    finally:
        ours.close()
        theirs.close()
