"""The examples run, and show what they say they show."""

from __future__ import annotations

import importlib.util
import io
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType

import pytest

import cofio

EXAMPLES = Path(__file__).parent.parent / "examples"


def loaded(path: Path) -> ModuleType:
    """The example as a module."""
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    assert spec and spec.loader
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def market() -> Iterator[ModuleType]:
    module = loaded(EXAMPLES / "market" / "watch.py")
    yield module
    del sys.modules[module.__name__]


def test_the_series_is_what_its_maker_makes() -> None:
    series = loaded(EXAMPLES / "market" / "series.py")
    lines = [",".join(series.FIELDS), *(",".join(row.values()) for row in series.rows())]
    assert (EXAMPLES / "market" / "prices.csv").read_text(encoding="utf-8").splitlines() == lines


def test_the_watcher_gets_better_and_leaves_the_one_without_a_memory_behind(market: ModuleType, tmp_path: Path) -> None:
    with cofio.open(f"sqlite://{tmp_path}/market.db") as keeper:
        without, watcher = market.run(keeper)
        thresholds = {each.source: each for each in keeper.knowledge.list("thresholds")}
        (season,) = keeper.knowledge.list("seasonal")
        correlations = keeper.knowledge.list("correlations", min_confidence=0.6)

    quarters = list(watcher)
    assert quarters == ["Q1", "Q2", "Q3", "Q4"]
    assert all(watcher[later].quality > watcher["Q1"].quality for later in quarters[1:])
    assert all(watcher[each].quality > without[each].quality for each in quarters)
    assert sum(watcher[each].false for each in quarters[1:]) < sum(without[each].false for each in quarters[1:]) / 5

    assert (season.period, season.during) == ("monthly", "last fri")
    assert season.confidence > 0.8  # it was judged, month by month
    assert [(each.source_a, each.source_b, each.relation) for each in correlations] == [
        ("ACME volume", "BOLT volume", "leads")
    ]
    assert thresholds["COVE"].value > market.GUESSES["COVE"]  # the guess was too low, and was said anew
    assert thresholds["ACME"].value == market.GUESSES["ACME"]
    assert thresholds["COVE"].created_at < thresholds["COVE"].updated_at


def test_a_year_of_watching_is_the_same_twice(market: ModuleType, tmp_path: Path) -> None:
    told = []
    for name in ("one", "two"):
        with cofio.open(f"sqlite://{tmp_path}/{name}.db") as keeper:
            scores = market.run(keeper)
            claims = [
                each for table in ("thresholds", "seasonal", "correlations") for each in keeper.knowledge.list(table)
            ]
            told.append((scores, [(each.ref, each.confidence, each.confirmed, each.refuted) for each in claims]))
    assert told[0] == told[1]


def test_what_is_recalled_on_a_day_can_be_looked_at(market: ModuleType, tmp_path: Path) -> None:
    with cofio.open(f"sqlite://{tmp_path}/market.db") as keeper, redirect_stdout(io.StringIO()) as printed:
        market.run(keeper, show="2025-11-28")
    shown = printed.getvalue()
    assert "- ACME/volume: above 3600000 (fires: 4904000)" in shown
    assert "volume is typically high on the last Friday of every month" in shown


def test_the_demo_runs() -> None:
    with redirect_stdout(io.StringIO()) as printed:
        loaded(EXAMPLES / "demo.py").main()
    assert "can I ship this on friday afternoon?" in printed.getvalue()
