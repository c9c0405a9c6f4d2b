"""Results for repetitions, changes, denials and "forget …": a short script, with the same words for every side.

Each part has a collection of its own. Every side uses its interface for a person's statements, without anyone deciding
for it; no side has a language model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.peers import child
from bench.peers.sides import Side

K = 5
#: Facts unrelated to the parts, so that a search has to select.
_BESIDE = (
    "Ada reviews every change to the billing service.",
    "The nightly backup runs at two in the morning.",
    "Our office is on the third floor.",
    "The mobile app is written in Kotlin.",
    "Invoices are sent on the first of the month.",
    "The test suite has to finish within ten minutes.",
)


@dataclass(frozen=True, slots=True)
class Part:
    """Statements in order, the final question, and the words that distinguish the outdated fact from the valid one."""

    name: str
    heading: str
    told: Sequence[str]
    asks: str
    stale: str = ""  # words of the outdated fact
    fresh: str = ""  # words of the valid fact only


PARTS = (
    Part(
        "repeat",
        "said twice",
        ("The staging database listens on port 5433.",) * 2,
        "Which port does the staging database use?",
    ),
    Part(
        "spaced",
        "in other case and spaces",
        ("The staging database listens on port 5433.", "  the STAGING database   listens on port 5433. "),
        "Which port does the staging database use?",
    ),
    Part(
        "paraphrase",
        "in other words",
        ("The staging database listens on port 5433.", "Staging's database is listening on port 5433."),
        "Which port does the staging database use?",
    ),
    Part(
        "changed",
        "a changed value",
        ("We use PostgreSQL 15.", "We upgraded to PostgreSQL 16."),
        "Which version of PostgreSQL do we use?",
        stale="PostgreSQL 15",
        fresh="PostgreSQL 16",
    ),
    Part(
        "denied",
        "a denial",
        ("We deploy on Fridays.", "We don't deploy on Fridays any more."),
        "Do we deploy on Fridays?",
        stale="deploy on Fridays",
        fresh="don't deploy on Fridays",
    ),
    Part(
        "forgotten",
        "“forget …”",
        ("We deploy with Jenkins.", "Forget that we deploy with Jenkins."),
        "What do we deploy with?",
        stale="deploy with Jenkins",
        fresh="forget that we deploy with Jenkins",
    ),
)


def measured(side: Side, folder: Path, url: str) -> dict[str, Any]:
    """Return, for each part, the memories left, the first hit, and whether the outdated fact is still found."""
    with child.opened(side, folder, vectors=None, url=url) as open_side:
        parts = {part.name: _played(open_side, part) for part in PARTS}
        return {"version": open_side.opening["about"]["version"], "parts": parts}


def _played(open_side: child.Child, part: Part) -> dict[str, Any]:
    for place, text in enumerate(_BESIDE):
        open_side.ask("add", collection=part.name, item={"id": f"beside-{place}", "text": text})
    before = open_side.ask("count", collection=part.name)["count"]
    for text in part.told:
        open_side.ask("said", collection=part.name, text=text)
    found = open_side.ask("search", collection=part.name, text=part.asks, k=K)["found"]
    fresh = _place(found, lambda text: bool(part.fresh) and part.fresh.lower() in text)
    stale = _place(found, lambda text: bool(part.stale) and part.stale.lower() in text.replace(part.fresh.lower(), ""))
    return {
        "told": len(part.told),
        "left": open_side.ask("count", collection=part.name)["count"] - before,
        "first": found[0].strip() if found else "",
        "stale_found": stale is not None,
        "fresh_found": fresh is not None,
        "stale_first": stale is not None and (fresh is None or stale < fresh),
    }


def _place(texts: Sequence[str], says: Callable[[str], bool]) -> int | None:
    """Return the position of the first matching text, compared in lower case; None if there is none."""
    return next((at for at, text in enumerate(texts) if says(text.lower())), None)
