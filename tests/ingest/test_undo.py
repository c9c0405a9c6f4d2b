"""Undoing what was learned restores the store byte for byte, whatever was decided."""

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
    opened: Store
    if request.param == "sqlite":
        opened = SqliteStore(tmp_path / "cofio.db", clock)
    else:
        opened = PostgresStore(request.getfixturevalue("tenant_url"), clock)
    yield opened
    opened.close()


@pytest.fixture
def keeper(store: Store) -> Keeper:
    keeper = Keeper(store, HashEmbedder(), FixedClock(), judge=ValueJudge())
    for text in KNOWN:
        keeper.add(text, dedup=False, source="test/shop", tags=["ops"])
    return keeper


def everything(store: Store) -> str:
    return "".join(export.export_lines(store, vectors=True))


@pytest.mark.parametrize(
    ("said", "actions"),
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
def test_undo_restores_the_export(keeper: Keeper, store: Store, said: str, actions: list[str]) -> None:
    before = everything(store)
    learned = keeper.learn(f"User: {said}", source="test/shop")
    assert [action["action"] for action in learned.actions] == actions
    assert everything(store) != before
    assert learned.changeset is not None
    keeper.undo(learned.changeset)
    assert everything(store) == before


@pytest.mark.parametrize("text", ["The staging port is 9090", "The linter is Ruff", "The formatter is Black"])
def test_undo_of_a_typed_fact_restores_the_export(keeper: Keeper, store: Store, text: str) -> None:
    before = everything(store)
    change = keeper.add(text, source="test/shop")
    assert everything(store) != before
    keeper.undo(change.changeset)
    assert everything(store) == before
