"""Undo of a learned changeset restores the exported store byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cofio.core import Keeper
from cofio.ports import Store
from cofio.stores.postgres import PostgresStore
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder
from cofio.transfer import export
from tests.judges import ValueJudge

KNOWN = ("The staging port is 8080", "Port of staging is 7070", "The linter is Ruff", "The gateway is public")


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    clock = FixedClock()
    opened_store: Store
    if request.param == "sqlite":
        opened_store = SqliteStore(tmp_path / "cofio.db", clock)
    else:
        opened_store = PostgresStore(request.getfixturevalue("tenant_url"), clock)
    yield opened_store
    opened_store.close()


@pytest.fixture
def keeper(store: Store) -> Keeper:
    keeper = Keeper(store, HashEmbedder(), FixedClock(), judge=ValueJudge())
    for text in KNOWN:
        keeper.add(text, dedup=False, source="test/shop", tags=["ops"])
    return keeper


def export_store(store: Store) -> str:
    return "".join(export.export_lines(store, vectors=True))


@pytest.mark.parametrize(
    ("text", "actions"),
    [
        ("The staging port is 9090.", ["update", "delete"]),
        ("The gateway is no longer public.", ["update"]),
        ("Cancelled: the gateway is public.", ["delete"]),
        ("The linter is Ruff.", ["noop"]),
        ("The staging port is 7070.", ["noop", "delete"]),
        ("The formatter is Black.", ["add"]),
        (
            "The staging port is 9090. The linter is Ruff. The formatter is Black. Cancelled: the gateway is public.",
            ["update", "delete", "noop", "add", "delete"],
        ),
    ],
)
def test_undo_restores_the_export(keeper: Keeper, store: Store, text: str, actions: list[str]) -> None:
    exported = export_store(store)
    learned = keeper.learn(f"User: {text}", source="test/shop")
    assert [action["action"] for action in learned.actions] == actions
    assert export_store(store) != exported
    assert learned.changeset is not None
    keeper.undo(learned.changeset)
    assert export_store(store) == exported


@pytest.mark.parametrize("text", ["The staging port is 9090", "The linter is Ruff", "The formatter is Black"])
def test_undo_of_a_typed_fact_restores_the_export(keeper: Keeper, store: Store, text: str) -> None:
    exported = export_store(store)
    change = keeper.add(text, source="test/shop")
    assert export_store(store) != exported
    keeper.undo(change.changeset)
    assert export_store(store) == exported
