"""An agent that watches a market, forgets everything overnight, and gets better all the same.

python examples/market/watch.py [--show 2025-11-28]

Every day it recalls before it looks, says in the evening what it found (cofio captures it), and somebody who reads the
news tells it which of its alarms were right. It starts with bad guesses. Beside it runs the same agent, without memory.

It is a few rules instead of a model, so that every run is the same; `--show` prints what a model would be given that
day. What the series hides, and the agent has to find out, is told in `series.py`.
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
from cofio.keeper import Keeper
from cofio.knowledge.lane import Firing

#: What it believes on the first day. The first is about right, the others are not.
GUESSES = {"ACME": 3_600_000.0, "BOLT": 2_000_000.0, "COVE": 5_800_000.0}
LED = 0.6  # of a threshold: where the share that leads this one had news yesterday, less is worth a look
IN_SEASON = 3.0  # times a threshold: where much is usual, only more is
DOUBTED = 0.6  # a threshold that is believed less than this is said anew
BELIEVED = 0.5  # a season or a correlation that is believed less than this is not acted on

BOLD, DIM, OFF = ("\033[1m", "\033[2m", "\033[0m") if sys.stdout.isatty() else ("", "", "")


class Tick(NamedTuple):
    """One share on one day."""

    day: date
    share: str
    volume: float
    news: bool  # what is known in the evening

    @property
    def name(self) -> str:
        """What an alarm about it is called."""
        return f"{self.share}.{self.day}"


class Look(NamedTuple):
    """What it makes of a share on a day: the claims behind an alarm, or the seasons that spared it one."""

    claims: list[str]
    spared_by: list[str] = []  # noqa: RUF012 - never changed


@dataclass
class Score:
    """How its alarms turned out."""

    right: int = 0
    false: int = 0
    missed: int = 0

    def count(self, alarm: bool, news: bool) -> None:
        self.right += alarm and news
        self.false += alarm and not news
        self.missed += news and not alarm

    @property
    def quality(self) -> float:
        """F1: 1 for every alarm right and none missed."""
        return 2 * self.right / (2 * self.right + self.false + self.missed or 1)


@dataclass
class Forgetful:
    """The agent without a memory: its guesses, for ever."""

    scores: dict[str, Score] = field(default_factory=dict)

    def live(self, ticks: list[Tick]) -> None:
        for tick in ticks:
            _score(self.scores, tick).count(tick.volume > GUESSES[tick.share], tick.news)


@dataclass
class Watcher:
    """The agent with a memory. It keeps nothing itself from one day to the next but its keeper."""

    keeper: Keeper
    scores: dict[str, Score] = field(default_factory=dict)

    def begin(self) -> None:
        """Say what it guesses."""
        self._report(*(f"Threshold recommendation: flag {share} if volume exceeds {value:.0f}."
                       for share, value in GUESSES.items()), day="the first day")  # fmt: skip

    def live(self, ticks: list[Tick]) -> None:
        """A day: look at every share, hear in the evening what was right, and say what follows from it."""
        found: list[str] = []
        for tick in ticks:
            look = self._look(tick)
            _score(self.scores, tick).count(bool(look.claims), tick.news)
            self._hear(tick, look)
            found += self._conclusions(tick, alarm=bool(look.claims))
        if found:
            self._report(*found, day=str(ticks[0].day))

    def context(self, ticks: list[Tick]) -> str:
        """What a model would be given before it looks."""
        told = ", ".join(f"{tick.share} volume is {tick.volume:.0f}" for tick in ticks)
        return self.keeper.recall_context(f"{told}. What is unusual?", at=_noon(ticks[0].day))

    # ── before ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _look(self, tick: Tick) -> Look:
        """Whether the day is worth an alarm, and by which claims."""
        seasons, led_by = self._seasons(tick), self._led_by(tick)
        usual = (IN_SEASON if seasons else 1.0) * (LED if led_by else 1.0)
        fires = [each.threshold.ref for each in self._evaluate(tick, usual)]
        plainly = [each.threshold.ref for each in self._evaluate(tick)]
        if fires:
            return Look(fires + ([] if plainly else led_by))
        return Look([], spared_by=seasons if plainly else [])

    def _evaluate(self, tick: Tick, usual: float = 1.0) -> list[Firing]:
        """The thresholds that are crossed, where so many times the plain value is usual."""
        return self.keeper.knowledge.evaluate(tick.share, "volume", tick.volume / usual)

    def _seasons(self, tick: Tick) -> list[str]:
        active = self.keeper.knowledge.active(_noon(tick.day))
        return [each.seasonal.ref for each in active if each.seasonal.confidence >= BELIEVED]

    def _led_by(self, tick: Tick) -> list[str]:
        """The correlations by which this share follows one that had news yesterday."""
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
        """Somebody who reads the news judges the alarm; silence too, where it was wrong or took some knowledge."""
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
        """What it says in the evening. cofio reads it: nobody has to remember to store anything."""
        said = [{"role": "user", "content": f"Report of {day}, please."},
                {"role": "assistant", "content": "\n".join(sentences)}]  # fmt: skip
        self.keeper.capture(said, context="analysis", source="market", session="watch", turn=day, wait=True)


def _score(scores: dict[str, Score], tick: Tick) -> Score:
    return scores.setdefault(f"Q{(tick.day.month + 2) // 3}", Score())


def _first(side: str) -> str:
    """The share of a side such as "ACME volume"."""
    return side.split()[0]


def _noon(day: date) -> str:
    return f"{day}T12:00:00+00:00"


def _before(day: date) -> date:
    """The trading day before."""
    return day - timedelta(days=3 if day.weekday() == 0 else 1)


def _is_last_friday(day: date) -> bool:
    return day.weekday() == 4 and (day + timedelta(days=7)).month != day.month


# ── the run ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def days() -> list[list[Tick]]:
    """The series, by day."""
    with (Path(__file__).parent / "prices.csv").open(encoding="utf-8", newline="") as file:
        ticks = [
            Tick(date.fromisoformat(row["date"]), row["share"], float(row["volume"]), row["news"] == "yes")
            for row in csv.DictReader(file)
        ]
    return [list(of_a_day) for _, of_a_day in groupby(ticks, lambda tick: tick.day)]


def run(keeper: Keeper, show: str = "") -> tuple[Mapping[str, Score], Mapping[str, Score]]:
    """The scores by quarter of the agent without a memory, and of the one with the keeper's."""
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
    parser.add_argument("--show", default="", metavar="DATE", help="print what is recalled on that day")
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
