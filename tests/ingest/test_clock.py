"""A clock that goes back: captures do not wait until it is that late again, and corrections are accepted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cofio.core import Keeper
from cofio.judgement.onnx_classifier import LocalJudge
from cofio.stores.postgres import PostgresStore
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder

DAY = 86_400


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock("2026-03-10T12:00:00Z")


@pytest.fixture(params=["sqlite", "postgres"])
def keeper(request: pytest.FixtureRequest, tmp_path: Path, clock: FixedClock, judge: LocalJudge) -> Iterator[Keeper]:
    if request.param == "sqlite":
        store: SqliteStore | PostgresStore = SqliteStore(tmp_path / "cofio.db", clock)
    else:
        store = PostgresStore(request.getfixturevalue("tenant_url"), clock)
    with Keeper(store, HashEmbedder(), clock, judge=judge) as keeper:
        yield keeper


def process_due(keeper: Keeper) -> int:
    captures = keeper.services.captures
    items = captures.claim()
    for batch in captures.batches(items):
        captures.process(*batch)
    return len(items)


def test_waiting_captures_are_processed_after_the_clock_went_back(keeper: Keeper, clock: FixedClock) -> None:
    keeper.capture("We use Kafka for the billing queue.")
    clock.advance(-DAY)
    assert process_due(keeper) == 1
    assert keeper.inbox_status().stored == 1


def test_postponed_captures_wait_again_after_the_clock_went_back(keeper: Keeper, clock: FixedClock) -> None:
    item = keeper.capture("We use Kafka for the billing queue.").id
    clock.advance(-DAY)
    inbox = keeper.services.access.store.inbox
    assert len(inbox.claim(10)) == 1
    inbox.postpone(item, 600.0, "the provider is down")
    assert inbox.claim(10) == []  # not tried over and over
    clock.advance(700)
    assert len(inbox.claim(10)) == 1


def test_capture_postponed_by_a_clock_far_ahead_is_processed(keeper: Keeper, clock: FixedClock) -> None:
    item = keeper.capture("We use Kafka for the billing queue.").id
    clock.advance(400 * DAY)
    inbox = keeper.services.access.store.inbox
    assert len(inbox.claim(10)) == 1
    inbox.postpone(item, 5.0, "the provider is down")
    clock.advance(-400 * DAY)
    assert process_due(keeper) == 1


def test_held_captures_still_wait(keeper: Keeper, clock: FixedClock) -> None:
    inbox = keeper.services.access.store.inbox
    item = keeper.capture("We use Kafka for the billing queue.").id
    inbox.postpone(item, 24 * 3600.0, "the daily limit is reached", attempt=False)
    assert process_due(keeper) == 0
    clock.advance(24 * 3600)
    assert process_due(keeper) == 1


@pytest.mark.parametrize("seconds", [60, DAY, 3 * DAY])
def test_correction_is_accepted_after_the_clock_went_back(keeper: Keeper, clock: FixedClock, seconds: int) -> None:
    keeper.learn("We use Fly.io for hosting the shop.", source="test/shop")
    clock.advance(-seconds)
    (action,) = keeper.learn("We switched from Fly.io to Render for hosting the shop.", source="test/shop").actions
    assert action["action"] == "update"
    (memory,) = keeper.list().memories
    assert "Render" in memory.text


def test_older_statement_that_arrives_late_is_still_rejected(keeper: Keeper) -> None:
    keeper.learn("We use Render for hosting the shop.", source="test/shop")
    said = "We switched from Render to Fly.io for hosting the shop."
    late = keeper.learn(said, source="test/shop", at="2026-03-01T00:00:00Z")
    assert [action["action"] for action in late.actions] == ["rejected"]
