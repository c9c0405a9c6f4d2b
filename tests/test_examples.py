"""Run the examples and check their results."""

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


def load_example(path: Path) -> ModuleType:
    """Load the example as a module."""
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    assert spec
    assert spec.loader
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class YearResult(NamedTuple):
    """Results of the market example for one simulated year."""

    without: Mapping[str, Any]
    watcher: Mapping[str, Any]
    claims: list[Any]
    output: str


@pytest.fixture(scope="module")
def market() -> Iterator[ModuleType]:
    module = load_example(EXAMPLES / "market" / "watch.py")
    yield module
    del sys.modules[module.__name__]


@pytest.fixture(scope="module")
def year(market: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> YearResult:
    return run_market(market, tmp_path_factory.mktemp("market"))


def run_market(market: ModuleType, folder: Path) -> YearResult:
    with cofio.open(f"sqlite://{folder}/market.db") as keeper, redirect_stdout(io.StringIO()) as printed:
        without, watcher = market.run(keeper, show="2025-11-28")
        claims = [
            claim for table in ("thresholds", "seasonal", "correlations") for claim in keeper.knowledge.list(table)
        ]
    return YearResult(without, watcher, claims, printed.getvalue())


def test_price_series_matches_its_generator() -> None:
    series = load_example(EXAMPLES / "market" / "series.py")
    lines = [",".join(series.FIELDS), *(",".join(row.values()) for row in series.rows())]
    assert (EXAMPLES / "market" / "prices.csv").read_text(encoding="utf-8").splitlines() == lines


def test_watcher_with_memory_improves_and_outperforms_watcher_without(year: YearResult) -> None:
    quarters = list(year.watcher)
    assert quarters == ["Q1", "Q2", "Q3", "Q4"]
    assert all(year.watcher[later].quality > year.watcher["Q1"].quality for later in quarters[1:])
    assert all(year.watcher[quarter].quality > year.without[quarter].quality for quarter in quarters)
    learned = quarters[1:]
    assert 5 * sum(year.watcher[quarter].false for quarter in learned) < sum(
        year.without[quarter].false for quarter in learned
    )


def test_watcher_learns_the_patterns_hidden_in_the_series(year: YearResult, market: ModuleType) -> None:
    thresholds = {claim.source: claim for claim in year.claims if isinstance(claim, Threshold)}
    (season,) = (claim for claim in year.claims if isinstance(claim, Seasonal))
    (lead,) = (claim for claim in year.claims if isinstance(claim, Correlation) and claim.confidence > 0.6)
    assert (season.period, season.during) == ("monthly", "last fri")
    assert season.confidence > 0.8  # reinforced by monthly outcomes
    assert (lead.source_a, lead.relation, lead.source_b) == ("ACME volume", "leads", "BOLT volume")
    assert thresholds["COVE"].value > market.GUESSES["COVE"]  # the first guess was too low and was corrected
    assert thresholds["COVE"].created_at < thresholds["COVE"].updated_at
    assert thresholds["ACME"].value == market.GUESSES["ACME"]


def test_simulation_is_deterministic(year: YearResult, market: ModuleType, tmp_path: Path) -> None:
    second_run = run_market(market, tmp_path)
    assert (second_run.without, second_run.watcher, second_run.output) == (year.without, year.watcher, year.output)
    first, second = ([(claim.ref, claim.confidence, claim.confirmed, claim.refuted) for claim in run.claims]
                  for run in (second_run, year))  # fmt: skip
    assert first == second


def test_recall_output_matches_the_docs_page(year: YearResult) -> None:
    page = (EXAMPLES.parent / "docs" / "how-to" / "watch.md").read_text(encoding="utf-8")
    assert "- ACME/volume: above 3600000 (fires: 4904000)" in year.output
    assert year.output.strip() in page


def test_demo_runs() -> None:
    with redirect_stdout(io.StringIO()) as printed:
        load_example(EXAMPLES / "demo.py").main()
    assert "can I ship this on friday afternoon?" in printed.getvalue()


# ── showcase ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_showcase_creates_memories(tmp_path: Path) -> None:
    script = (
        f"from pathlib import Path; import showcase;print(showcase.fill(Path({str(tmp_path)!r}), days=3, further=20))"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=EXAMPLES, capture_output=True, text=True, check=False, timeout=240
    )
    assert result.returncode == 0, result.stderr
    with cofio.open(f"sqlite://{tmp_path}/cofio.db") as keeper:
        assert keeper.count() == int(result.stdout)
        outcome = keeper.dashboard.overview(days=90)
        assert {item.day for item in outcome.arrived if item.day} == set(outcome.days[-3:])
        assert outcome.injected
        assert keeper.inbox_status().captured > 0
