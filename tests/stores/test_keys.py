"""Keys and the audit log, over every adapter and the fake; and what is found of a key in the file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cofio.errors import InvalidInput
from cofio.models.auth import Grant, digest
from cofio.ports import Store
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, MemoryStore
from tests.stores.keys_contract import NOW, KeysContract, done, make


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(NOW)


class TestMemoryStore(KeysContract):
    @pytest.fixture
    def store(self, clock: FixedClock) -> Iterator[Store]:
        store = MemoryStore(clock)
        yield store
        store.close()


class TestSqliteStore(KeysContract):
    @pytest.fixture
    def store(self, tmp_path: Path, clock: FixedClock) -> Iterator[Store]:
        store = SqliteStore(tmp_path / "cofio.db", clock)
        yield store
        store.close()


def test_a_key_is_nowhere_in_the_file_but_its_digest_is(tmp_path: Path, clock: FixedClock) -> None:
    store = SqliteStore(tmp_path / "cofio.db", clock)
    key, secret = make(store)
    store.keys.log([done("POST /memory/add", key=key.id)])
    store.keys.used({key.id: clock()})
    store.close()
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert digest(secret).encode() in kept
    assert secret[:12].encode() in kept  # what it begins with, so that people know it again
    assert secret.encode() not in kept
    assert secret[12:].encode() not in kept
    assert secret[:13].encode() not in kept


def test_keys_are_there_after_the_file_was_closed_and_in_another_process_meanwhile(
    tmp_path: Path, clock: FixedClock
) -> None:
    store, beside = (SqliteStore(tmp_path / "cofio.db", clock) for _ in range(2))
    key, secret = make(store)
    assert beside.keys.find(digest(secret)) == key
    gone = beside.keys.revoke(key.id)
    assert store.keys.find(digest(secret)) == gone
    store.close()
    beside.close()
    again = SqliteStore(tmp_path / "cofio.db", clock)
    assert again.keys.all() == [gone]
    again.close()


@pytest.mark.parametrize("bound", [{"agent": "bot"}, {"user": "ada"}, {"team": "web"}, {"prefixes": ("work",)}])
def test_an_admin_key_is_bound_to_nobody(bound: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="everything"):
        Grant(name="owner", role="admin", **bound)
