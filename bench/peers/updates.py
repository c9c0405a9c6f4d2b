"""Handling of duplicates, changed values, negations and "forget …": the same short scenarios for every system.

Each scenario has a collection of its own. Every system gets the statements through its interface for user statements;
no system has a language model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.peers import child
from bench.peers.systems import System

K = 5
#: Facts unrelated to the scenarios, so that a search has to select.
_UNRELATED = (
    "Ada reviews every change to the billing service.",
    "The nightly backup runs at two in the morning.",
    "Our office is on the third floor.",
    "The mobile app is written in Kotlin.",
    "Invoices are sent on the first of the month.",
    "The test suite has to finish within ten minutes.",
)


@dataclass(frozen=True, slots=True)
class Scenario:
    """Statements in order, the final question, and the words that distinguish the outdated fact from the valid one."""

    name: str
    heading: str
    statements: Sequence[str]
    question: str
    outdated: str = ""  # words of the outdated fact
    current: str = ""  # words of the valid fact only


SCENARIOS = (
    Scenario(
        "repeat",
        "repeated",
        ("The staging database listens on port 5433.",) * 2,
        "Which port does the staging database use?",
    ),
    Scenario(
        "spaced",
        "other case and spaces",
        ("The staging database listens on port 5433.", "  the STAGING database   listens on port 5433. "),
        "Which port does the staging database use?",
    ),
    Scenario(
        "paraphrase",
        "paraphrase",
        ("The staging database listens on port 5433.", "Staging's database is listening on port 5433."),
        "Which port does the staging database use?",
    ),
    Scenario(
        "changed",
        "changed value",
        ("We use PostgreSQL 15.", "We upgraded to PostgreSQL 16."),
        "Which version of PostgreSQL do we use?",
        outdated="PostgreSQL 15",
        current="PostgreSQL 16",
    ),
    Scenario(
        "denied",
        "negation",
        ("We deploy on Fridays.", "We don't deploy on Fridays any more."),
        "Do we deploy on Fridays?",
        outdated="deploy on Fridays",
        current="don't deploy on Fridays",
    ),
    Scenario(
        "forgotten",
        "“forget …”",
        ("We deploy with Jenkins.", "Forget that we deploy with Jenkins."),
        "What do we deploy with?",
        outdated="deploy with Jenkins",
        current="forget that we deploy with Jenkins",
    ),
)


def measure_system(system: System, folder: Path, url: str) -> dict[str, Any]:
    """Return, for each scenario, the memories left, the first hit, and whether the outdated fact is still found."""
    with child.open_adapter(system, folder, vectors=None, url=url) as adapter:
        scenarios = {scenario.name: _run_scenario(adapter, scenario) for scenario in SCENARIOS}
        return {"version": adapter.opening["about"]["version"], "parts": scenarios}


def _run_scenario(adapter: child.Child, scenario: Scenario) -> dict[str, Any]:
    for number, text in enumerate(_UNRELATED):
        adapter.ask("add", collection=scenario.name, item={"id": f"beside-{number}", "text": text})
    count_before = adapter.ask("count", collection=scenario.name)["count"]
    for text in scenario.statements:
        adapter.ask("said", collection=scenario.name, text=text)
    hits = adapter.ask("search", collection=scenario.name, text=scenario.question, k=K)["found"]
    current_position = _find_position(hits, lambda text: bool(scenario.current) and scenario.current.lower() in text)
    outdated_position = _find_position(
        hits,
        lambda text: (
            bool(scenario.outdated) and scenario.outdated.lower() in text.replace(scenario.current.lower(), "")
        ),
    )
    return {
        "told": len(scenario.statements),
        "left": adapter.ask("count", collection=scenario.name)["count"] - count_before,
        "first": hits[0].strip() if hits else "",
        "stale_found": outdated_position is not None,
        "fresh_found": current_position is not None,
        "stale_first": outdated_position is not None
        and (current_position is None or outdated_position < current_position),
    }


def _find_position(texts: Sequence[str], matches: Callable[[str], bool]) -> int | None:
    """Return the position of the first matching text, compared in lower case; None if there is none."""
    return next((position for position, text in enumerate(texts) if matches(text.lower())), None)
