"""Retrieval data: conversations of dated, spoken units, and questions with the units that hold the answer.

One JSON object a line: {"id", "units": [{"id", "speaker", "date", "text"}], "questions": [{"id", "text", "category",
"evidence": [unit ids]}]}. A unit becomes a memory: its speaker and date are fields, and the two units said before it
on the same date are its context.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import cofio
from cofio.keeper import Keeper

LEFT_OUT = ("adversarial", "abstention")  # questions whose answer is that there is none
_BEFORE = 2  # units said before, as context
_BEFORE_CHARACTERS = 300
_FORMATS = ("%I:%M %p on %d %B, %Y", "%d %B, %Y", "%d %B %Y", "%Y/%m/%d (%a) %H:%M", "%Y/%m/%d", "%B %d, %Y")


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and the ids of the units that should be found."""

    id: str
    text: str
    category: str
    evidence: frozenset[str]


@dataclass(frozen=True, slots=True)
class Conversation:
    """Units as facts, and the questions about them."""

    id: str
    facts: tuple[cofio.Fact, ...]
    questions: tuple[Question, ...]


def read(path: Path) -> list[Conversation]:
    """Every conversation of the file."""
    with path.open(encoding="utf-8") as lines:
        return [_conversation(json.loads(line)) for line in lines if line.strip()]


def _conversation(plain: dict[str, object]) -> Conversation:
    units: list[dict[str, str]] = plain["units"]  # type: ignore[assignment]
    questions: list[dict[str, object]] = plain["questions"]  # type: ignore[assignment]
    asked = (
        Question(str(q.get("id", "")), str(q["text"]), str(q.get("category", "")), frozenset(map(str, q["evidence"])))  # type: ignore[call-overload]
        for q in questions
    )
    return Conversation(str(plain["id"]), tuple(_facts(units)), tuple(asked))


def _facts(units: list[dict[str, str]]) -> Iterator[cofio.Fact]:
    for place, unit in enumerate(units):
        earlier = [each for each in units[max(0, place - _BEFORE) : place] if each.get("date") == unit.get("date")]
        yield cofio.Fact(
            text=unit["text"].strip() or "…",
            speaker=unit.get("speaker") or "",
            created_at=when(unit.get("date") or ""),
            context="\n".join(each["text"][:_BEFORE_CHARACTERS] for each in earlier),
            metadata={"unit": str(unit["id"])},
        )


def when(written: str) -> str:
    """The date as ISO text; "" for one that cannot be read."""
    try:
        return datetime.fromisoformat(written).isoformat()
    except ValueError:
        pass
    for each in _FORMATS:
        try:
            return datetime.strptime(written, each).replace(tzinfo=UTC).isoformat()
        except ValueError:
            continue
    return ""


@contextmanager
def remembered(conversation: Conversation, **settings: str) -> Iterator[Keeper]:
    """A keeper on a store of its own that holds the conversation."""
    with TemporaryDirectory() as folder, cofio.open(f"sqlite://{folder}/eval.db", **settings) as keeper:
        for start in range(0, len(conversation.facts), 256):
            keeper.add_all(conversation.facts[start : start + 256], dedup=False)
        yield keeper
