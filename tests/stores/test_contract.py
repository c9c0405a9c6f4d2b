"""Store contract suites for SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cofio.ports import Store
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock
from tests.stores.contract import StoreContract
from tests.stores.inbox_contract import InboxContract
from tests.stores.maintenance_contract import MaintenanceContract
from tests.stores.project_contract import ProjectContract
from tests.stores.snapshots_contract import SnapshotsContract
from tests.stores.turn_merge_contract import AmendContract


class TestSqliteStore(
    StoreContract, ProjectContract, MaintenanceContract, SnapshotsContract, InboxContract, AmendContract
):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        store = SqliteStore(tmp_path / "cofio.db", FixedClock())
        yield store
        store.close()
