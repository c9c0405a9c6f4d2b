"""API keys and the audit log of every store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cofio.errors import InvalidInput
from cofio.models.auth import Grant, digest
from cofio.ports import Store
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock
from tests.stores.keys_contract import NOW, KeysContract, audit_entry, create_key


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(NOW)


class TestSqliteStore(KeysContract):
    @pytest.fixture
    def store(self, tmp_path: Path, clock: FixedClock) -> Iterator[Store]:
        store = SqliteStore(tmp_path / "cofio.db", clock)
        yield store
        store.close()


def test_file_contains_the_digest_and_not_the_key(tmp_path: Path, clock: FixedClock) -> None:
    store = SqliteStore(tmp_path / "cofio.db", clock)
    key, secret = create_key(store)
    store.keys.log([audit_entry("POST /memory/add", key=key.id)])
    store.keys.used({key.id: clock()})
    store.close()
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert digest(secret).encode() in stored
    assert secret[:12].encode() in stored  # the hint, so that people recognize the key
    assert secret.encode() not in stored
    assert secret[12:].encode() not in stored
    assert secret[:13].encode() not in stored


def test_keys_are_visible_to_other_processes_and_persistent(tmp_path: Path, clock: FixedClock) -> None:
    store, beside = (SqliteStore(tmp_path / "cofio.db", clock) for _ in range(2))
    key, secret = create_key(store)
    assert beside.keys.find(digest(secret)) == key
    deleted = beside.keys.revoke(key.id)
    assert store.keys.find(digest(secret)) == deleted
    store.close()
    beside.close()
    reopened = SqliteStore(tmp_path / "cofio.db", clock)
    assert reopened.keys.all() == [deleted]
    reopened.close()


@pytest.mark.parametrize("restriction", [{"agent": "bot"}, {"user": "ada"}, {"team": "web"}, {"prefixes": ("work",)}])
def test_admin_key_cannot_be_restricted(restriction: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="everything"):
        Grant(name="owner", role="admin", **restriction)
