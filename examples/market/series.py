"""Generator of prices.csv: a year of three fictional shares, with hidden regularities for a watcher to find.

    news       on some days a share has news: the price jumps, the volume is three to five times the usual
    month end  on the last Friday of a month funds rebalance: the volume is two to three times the usual, and it means
               nothing
    a lead     news about ACME is followed by news about BOLT one day later, with less than twice the usual volume

The last column is the evening's judgement of a reader of the news. `python examples/market/series.py` writes the file
again, with identical digits.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

FIELDS = ("date", "share", "close", "volume", "news")
_USUAL = {"ACME": 2_400_000, "BOLT": 900_000, "COVE": 5_200_000}  # shares traded on an ordinary day
_FIRST, _DAYS = date(2025, 1, 2), 365
_NEWS = 0.05  # share of the days, for each share that has news of its own


def rows() -> Iterator[dict[str, str]]:
    """Yield one row per share and trading day."""
    chance = random.Random(20250102)
    close = {"ACME": 84.0, "BOLT": 31.5, "COVE": 142.0}
    acme_had_news = False
    for day in _trading_days():
        happened = {share: chance.random() < _NEWS for share in ("ACME", "COVE")}
        happened["BOLT"] = acme_had_news and chance.random() < 0.9
        acme_had_news = happened["ACME"]
        for share in sorted(_USUAL):
            news = happened[share]
            close[share] *= 1 + chance.gauss(0, 0.009) + (chance.choice((-1, 1)) * 0.05 if news else 0)
            volume = _USUAL[share] * chance.lognormvariate(0, 0.13) * _times(day, share, news, chance)
            told = (day.isoformat(), share, f"{close[share]:.2f}", f"{round(volume, -3):.0f}", "yes" if news else "no")
            yield dict(zip(FIELDS, told, strict=True))


def _times(day: date, share: str, news: bool, chance: random.Random) -> float:
    """Return the volume as a multiple of the usual."""
    quiet = chance.uniform(1.5, 1.9) if share == "BOLT" else chance.uniform(3.0, 5.0)
    month_end = chance.uniform(2.0, 3.0)
    return (quiet if news else 1.0) * (month_end if _is_last_friday(day) else 1.0)


def _trading_days() -> Iterator[date]:
    for offset in range(_DAYS):
        day = _FIRST + timedelta(days=offset)
        if day.weekday() < 5:
            yield day


def _is_last_friday(day: date) -> bool:
    return day.weekday() == 4 and (day + timedelta(days=7)).month != day.month


def main() -> None:
    """Write the file."""
    with (Path(__file__).parent / "prices.csv").open("w", encoding="utf-8", newline="") as file:
        lines = csv.DictWriter(file, FIELDS, lineterminator="\n")
        lines.writeheader()
        lines.writerows(rows())


if __name__ == "__main__":
    main()
