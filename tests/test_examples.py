"""The examples run, and show what they say they show."""

from __future__ import annotations

import importlib.util
import io
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

import cofio
from cofio.models.domain_knowledge import Correlation, Seasonal, Threshold

EXAMPLES = Path(__file__).parent.parent / "examples"


def loaded(path: Path) -> ModuleType:
    """The example as a module."""
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    assert spec
    assert spec.loader
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Year(NamedTuple):
    """What came of a year of watching."""

    without: Mapping[str, Any]
    watcher: Mapping[str, Any]
    claims: list[Any]
    printed: str


@pytest.fixture(scope="module")
def market() -> Iterator[ModuleType]:
    module = loaded(EXAMPLES / "market" / "watch.py")
    yield module
    del sys.modules[module.__name__]


@pytest.fixture(scope="module")
def year(market: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Year:
    return watched(market, tmp_path_factory.mktemp("market"))


def watched(market: ModuleType, folder: Path) -> Year:
    with cofio.open(f"sqlite://{folder}/market.db") as keeper, redirect_stdout(io.StringIO()) as printed:
        without, watcher = market.run(keeper, show="2025-11-28")
        claims = [each for table in ("thresholds", "seasonal", "correlations") for each in keeper.knowledge.list(table)]
    return Year(without, watcher, claims, printed.getvalue())


def test_the_series_is_what_its_maker_makes() -> None:
    series = loaded(EXAMPLES / "market" / "series.py")
    lines = [",".join(series.FIELDS), *(",".join(row.values()) for row in series.rows())]
    assert (EXAMPLES / "market" / "prices.csv").read_text(encoding="utf-8").splitlines() == lines


def test_the_watcher_gets_better_and_leaves_the_one_without_a_memory_behind(year: Year) -> None:
    quarters = list(year.watcher)
    assert quarters == ["Q1", "Q2", "Q3", "Q4"]
    assert all(year.watcher[later].quality > year.watcher["Q1"].quality for later in quarters[1:])
    assert all(year.watcher[quarter].quality > year.without[quarter].quality for quarter in quarters)
    learned = quarters[1:]
    assert 5 * sum(year.watcher[each].false for each in learned) < sum(year.without[each].false for each in learned)


def test_what_the_series_hides_is_found(year: Year, market: ModuleType) -> None:
    thresholds = {claim.source: claim for claim in year.claims if isinstance(claim, Threshold)}
    (season,) = (claim for claim in year.claims if isinstance(claim, Seasonal))
    (lead,) = (claim for claim in year.claims if isinstance(claim, Correlation) and claim.confidence > 0.6)
    assert (season.period, season.during) == ("monthly", "last fri")
    assert season.confidence > 0.8  # it was judged, month by month
    assert (lead.source_a, lead.relation, lead.source_b) == ("ACME volume", "leads", "BOLT volume")
    assert thresholds["COVE"].value > market.GUESSES["COVE"]  # the guess was too low, and was said anew
    assert thresholds["COVE"].created_at < thresholds["COVE"].updated_at
    assert thresholds["ACME"].value == market.GUESSES["ACME"]


def test_a_year_of_watching_is_the_same_twice(year: Year, market: ModuleType, tmp_path: Path) -> None:
    again = watched(market, tmp_path)
    assert (again.without, again.watcher, again.printed) == (year.without, year.watcher, year.printed)
    one, other = ([(claim.ref, claim.confidence, claim.confirmed, claim.refuted) for claim in told.claims]
                  for told in (again, year))  # fmt: skip
    assert one == other


def test_what_is_recalled_on_a_day_can_be_looked_at_and_is_what_the_page_shows(year: Year) -> None:
    page = (EXAMPLES.parent / "docs" / "how-to" / "watch.md").read_text(encoding="utf-8")
    assert "- ACME/volume: above 3600000 (fires: 4904000)" in year.printed
    assert year.printed.strip() in page


def test_the_demo_runs() -> None:
    with redirect_stdout(io.StringIO()) as printed:
        loaded(EXAMPLES / "demo.py").main()
    assert "can I ship this on friday afternoon?" in printed.getvalue()


# ── the showcase ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_showcase_is_lived_the_usual_way(tmp_path: Path) -> None:
    script = (
        f"from pathlib import Path; import showcase;print(showcase.fill(Path({str(tmp_path)!r}), days=3, further=20))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=EXAMPLES, capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr
    with cofio.open(f"sqlite://{tmp_path}/cofio.db") as keeper:
        assert keeper.count() == int(done.stdout)
        told = keeper.dashboard.overview(days=90)
        assert {each.day for each in told.arrived if each.day} == set(told.days[-3:])
        assert told.injected
        assert keeper.inbox_status().captured > 0
