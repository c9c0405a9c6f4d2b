"""An agent that watches a market with no memory of its own between days, and improves with cofio.

python examples/market/watch.py [--show 2025-11-28]

Every day it recalls its knowledge first, reports its findings in the evening (cofio captures them), and a reader of the
news tells it which of its alarms were right. It starts with bad guesses. The same agent without memory runs for
comparison.

It consists of a few rules instead of a model, so that every run is the same; `--show` prints the context that a model
would get that day. `series.py` describes the regularities hidden in the series.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import groupby
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import cofio
from cofio.core import Keeper
from cofio.domain_knowledge.lookup import FiringThreshold

#: Initial guesses. The first is about right, the others are not.
GUESSES = {"ACME": 3_600_000.0, "BOLT": 2_000_000.0, "COVE": 5_800_000.0}
LED = 0.6  # of a threshold: if the leading share had news yesterday, a lower volume is suspicious
IN_SEASON = 3.0  # multiple of a threshold: in a season of high volume, only more is suspicious
DOUBTED = 0.6  # confidence below which a threshold is replaced
BELIEVED = 0.5  # confidence below which a season or a correlation is ignored

BOLD, DIM, OFF = ("\033[1m", "\033[2m", "\033[0m") if sys.stdout.isatty() else ("", "", "")


class Tick(NamedTuple):
    """One share on one day."""

    day: date
    share: str
    volume: float
    news: bool  # known in the evening

    @property
    def name(self) -> str:
        """Return the name of an alarm about it."""
        return f"{self.share}.{self.day}"


class Look(NamedTuple):
    """Judgement of a share on a day: the claims behind an alarm, or the seasons that prevented one."""

    claims: list[str]
    spared_by: list[str] = []  # noqa: RUF012 - never changed


@dataclass
class Score:
    """Counts of right, false and missed alarms."""

    right: int = 0
    false: int = 0
    missed: int = 0

    def count(self, alarm: bool, news: bool) -> None:
        self.right += alarm and news
        self.false += alarm and not news
        self.missed += news and not alarm

    @property
    def quality(self) -> float:
        """Return F1: 1 if every alarm is right and none is missed."""
        return 2 * self.right / (2 * self.right + self.false + self.missed or 1)


@dataclass
class Forgetful:
    """Agent without a memory, which always uses its guesses."""

    scores: dict[str, Score] = field(default_factory=dict)

    def live(self, ticks: list[Tick]) -> None:
        for tick in ticks:
            _score(self.scores, tick).count(tick.volume > GUESSES[tick.share], tick.news)


@dataclass
class Watcher:
    """Agent with a memory, whose only state between days is its keeper."""

    keeper: Keeper
    scores: dict[str, Score] = field(default_factory=dict)

    def begin(self) -> None:
        """Report the initial guesses."""
        self._report(*(f"Threshold recommendation: flag {share} if volume exceeds {value:.0f}."
                       for share, value in GUESSES.items()), day="the first day")  # fmt: skip

    def live(self, ticks: list[Tick]) -> None:
        """Process a day: judge every share, get feedback in the evening, and report the conclusions."""
        found: list[str] = []
        for tick in ticks:
            look = self._look(tick)
            _score(self.scores, tick).count(bool(look.claims), tick.news)
            self._hear(tick, look)
            found += self._conclusions(tick, alarm=bool(look.claims))
        if found:
            self._report(*found, day=str(ticks[0].day))

    def context(self, ticks: list[Tick]) -> str:
        """Return the context that a model would get before it decides."""
        told = ", ".join(f"{tick.share} volume is {tick.volume:.0f}" for tick in ticks)
        return self.keeper.recall_context(f"{told}. What is unusual?", at=_noon(ticks[0].day))

    # ── before ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _look(self, tick: Tick) -> Look:
        """Return the claims for an alarm, or the seasons that prevent one."""
        seasons, led_by = self._seasons(tick), self._led_by(tick)
        usual = (IN_SEASON if seasons else 1.0) * (LED if led_by else 1.0)
        fires = [each.threshold.ref for each in self._evaluate(tick, usual)]
        plainly = [each.threshold.ref for each in self._evaluate(tick)]
        if fires:
            return Look(fires + ([] if plainly else led_by))
        return Look([], spared_by=seasons if plainly else [])

    def _evaluate(self, tick: Tick, usual: float = 1.0) -> list[FiringThreshold]:
        """Return the crossed thresholds, with the volume divided by the usual multiple."""
        return self.keeper.knowledge.evaluate(tick.share, "volume", tick.volume / usual)

    def _seasons(self, tick: Tick) -> list[str]:
        active = self.keeper.knowledge.active(_noon(tick.day))
        return [each.seasonal.ref for each in active if each.seasonal.confidence >= BELIEVED]

    def _led_by(self, tick: Tick) -> list[str]:
        """Return the correlations by which this share follows one that had news yesterday."""
        return [
            step.correlation.ref
            for step in self.keeper.knowledge.related(tick.share)
            if not step.forward
            and step.confidence >= BELIEVED
            and self._had_news(_first(step.there), _before(tick.day))
        ]

    def _had_news(self, share: str, day: date) -> bool:
        name = f"{share}.{day}"
        return any(each.verdict == "confirmed" for each in self.keeper.knowledge.list("feedback", anomaly=name))

    # ── after ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _hear(self, tick: Tick, look: Look) -> None:
        """Record the feedback on an alarm, and on silence that was wrong or relied on a season."""
        told = self.keeper.knowledge.feedback
        note = f"volume {tick.volume:.0f}"
        if look.claims or tick.news:
            verdict = "confirmed" if tick.news else "false_alarm"
            told(tick.name, verdict, about=look.claims, note=note, by="reader")
        if look.spared_by:
            verdict = "false_alarm" if tick.news else "confirmed"
            told(f"silence.{tick.name}", verdict, about=look.spared_by, note=note, by="reader")

    def _conclusions(self, tick: Tick, *, alarm: bool) -> Iterator[str]:
        if alarm and not tick.news:
            yield from self._of_a_false_alarm(tick)
        elif tick.news and not alarm:
            yield from self._of_a_miss(tick)

    def _of_a_false_alarm(self, tick: Tick) -> Iterator[str]:
        judged = self.keeper.knowledge.list("feedback", verdict="false_alarm", limit=500)
        days = {date.fromisoformat(each.anomaly.rpartition(".")[2]) for each in judged}
        if _is_last_friday(tick.day) and len([day for day in days if _is_last_friday(day)]) > 1:
            yield "Observation: volume is typically high on the last Friday of every month."
        elif not _is_last_friday(tick.day):
            yield from self._said_anew(tick, 1.05)

    def _of_a_miss(self, tick: Tick) -> Iterator[str]:
        leaders = [share for share in GUESSES if share != tick.share and self._had_news(share, _before(tick.day))]
        for leader in leaders:
            yield f"Correlation: {leader} volume leads {tick.share} volume."

    def _said_anew(self, tick: Tick, times: float) -> Iterator[str]:
        for known in self.keeper.knowledge.list("thresholds", source=tick.share, metric="volume"):
            if known.confidence < DOUBTED:
                yield f"Threshold recommendation: flag {tick.share} if volume exceeds {times * tick.volume:.0f}."

    def _report(self, *sentences: str, day: str) -> None:
        """Capture the evening report, from which cofio extracts the knowledge."""
        said = [{"role": "user", "content": f"Report of {day}, please."},
                {"role": "assistant", "content": "\n".join(sentences)}]  # fmt: skip
        self.keeper.capture(said, context="analysis", source="market", session="watch", turn=day, wait=True)


def _score(scores: dict[str, Score], tick: Tick) -> Score:
    return scores.setdefault(f"Q{(tick.day.month + 2) // 3}", Score())


def _first(side: str) -> str:
    """Return the share of a side such as "ACME volume"."""
    return side.split()[0]


def _noon(day: date) -> str:
    return f"{day}T12:00:00+00:00"


def _before(day: date) -> date:
    """Return the previous trading day."""
    return day - timedelta(days=3 if day.weekday() == 0 else 1)


def _is_last_friday(day: date) -> bool:
    return day.weekday() == 4 and (day + timedelta(days=7)).month != day.month


# ── the run ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def days() -> list[list[Tick]]:
    """Return the series, by day."""
    with (Path(__file__).parent / "prices.csv").open(encoding="utf-8", newline="") as file:
        ticks = [
            Tick(date.fromisoformat(row["date"]), row["share"], float(row["volume"]), row["news"] == "yes")
            for row in csv.DictReader(file)
        ]
    return [list(of_a_day) for _, of_a_day in groupby(ticks, lambda tick: tick.day)]


def run(keeper: Keeper, show: str = "") -> tuple[Mapping[str, Score], Mapping[str, Score]]:
    """Return the scores by quarter of the agents without and with a memory."""
    without, watcher = Forgetful(), Watcher(keeper)
    watcher.begin()
    for ticks in days():
        if show == str(ticks[0].day):
            say(f"{DIM}{watcher.context(ticks)}{OFF}\n")
        without.live(ticks)
        watcher.live(ticks)
    return without.scores, watcher.scores


def say(text: str = "") -> None:
    sys.stdout.write(text + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="A market, watched with and without a memory.")
    parser.add_argument("--show", default="", metavar="DATE", help="print the recalled context of that day")
    with tempfile.TemporaryDirectory() as folder, cofio.open(f"sqlite://{folder}/market.db") as keeper:
        without, with_memory = run(keeper, parser.parse_args().show)
        say(f"{BOLD}           without a memory          with cofio{OFF}")
        say("           right false missed  F1    right false missed  F1")
        for quarter in without:
            parts = (without[quarter], with_memory[quarter])
            told = "   ".join(f"{s.right:5} {s.false:5} {s.missed:6} {s.quality:4.2f}" for s in parts)
            say(f"  {quarter}     {told}")
        say(f"\n{BOLD}What it knows by now{OFF}")
        for table in ("thresholds", "seasonal", "correlations"):
            for known in keeper.knowledge.list(table):
                say(f"  {known.confidence:.2f}  {known.says}  {DIM}{known.confirmed} for, {known.refuted} against{OFF}")
        gained = mean(s.quality for s in with_memory.values()) - mean(s.quality for s in without.values())
        say(f"\n  {DIM}F1 by the quarter, on average {gained:+.2f} with a memory{OFF}")


if __name__ == "__main__":
    main()
