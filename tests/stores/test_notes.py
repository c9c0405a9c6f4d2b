"""Records of indexed Markdown files in every store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cofio.models.markdown_notes import FiledPart
from cofio.ports import Store
from cofio.stores.postgres import PostgresStore
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock
from tests.stores.notes_contract import NotesContract, file_state


class TestSqliteStore(NotesContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        store = SqliteStore(tmp_path / "cofio.db", FixedClock())
        yield store
        store.close()


class TestPostgresStore(NotesContract):
    @pytest.fixture
    def store(self, tenant_url: str) -> Iterator[Store]:
        store = PostgresStore(tenant_url, FixedClock())
        yield store
        store.close()


def test_file_records_are_persistent(tmp_path: Path) -> None:
    store, beside = (SqliteStore(tmp_path / "cofio.db", FixedClock()) for _ in range(2))
    store.notes.put("f", [file_state("a.md", FiledPart(1))])
    assert beside.notes.files("f") == store.notes.files("f")
    store.close()
    beside.close()
    reopened = SqliteStore(tmp_path / "cofio.db", FixedClock())
    assert reopened.notes.folders() == ["f"]
    reopened.close()


def test_file_records_of_tenants_are_separate(postgres_url: str) -> None:
    ours, theirs = (PostgresStore(f"{postgres_url}?tenant={name}", FixedClock()) for name in ("ours", "theirs"))
    try:
        ours.notes.put("f", [file_state("a.md", FiledPart(1))])
        assert theirs.notes.folders() == []
        theirs.notes.put("f", [file_state("a.md", FiledPart(2))])
        theirs.notes.drop("f", ["a.md"])
        assert ours.notes.files("f")["a.md"].parts == (FiledPart(1),)
    finally:
        ours.close()
        theirs.close()
