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
from typing import Any

import cofio
from cofio.errors import InvalidInput, NotFound
from cofio.keeper import Keeper
from cofio.model import MAX_TEXT

LEFT_OUT = ("adversarial", "abstention")  # questions whose answer is that there is none
_SHAPE = (
    'Give one JSON object a line: {"id", "units": [{"id", "speaker", "date", "text"}], "questions": [{"id", "text",'
    ' "category", "evidence": [unit ids]}]}.'
)
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
    """Every conversation of the file. NotFound where there is none, InvalidInput where it holds something else."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise NotFound(f"{path} cannot be read: {error}.", _SHAPE) from error
    found = [_line(line, number, path) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    if not found:
        raise InvalidInput(f"{path} is empty.", _SHAPE)
    return found


def _line(line: str, number: int, path: Path) -> Conversation:
    try:
        return _conversation(json.loads(line), number)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInput(f"Line {number} of {path} is no conversation: {error!r}.", _SHAPE) from error


def _conversation(plain: dict[str, Any], number: int) -> Conversation:
    asked = tuple(
        Question(
            str(each.get("id", place)),
            str(each["text"]),
            str(each.get("category") or ""),
            frozenset(map(str, each.get("evidence") or ())),
        )
        for place, each in enumerate(plain["questions"])
    )
    return Conversation(str(plain.get("id", number)), tuple(_facts(plain["units"])), asked)


def _facts(units: list[dict[str, Any]]) -> Iterator[cofio.Fact]:
    for place, unit in enumerate(units):
        earlier = [each for each in units[max(0, place - _BEFORE) : place] if each.get("date") == unit.get("date")]
        yield cofio.Fact(
            text=str(unit["text"]).strip()[:MAX_TEXT].replace("\x00", "") or "…",
            speaker=str(unit.get("speaker") or ""),
            created_at=when(str(unit.get("date") or "")),
            context="\n".join(str(each["text"])[:_BEFORE_CHARACTERS] for each in earlier),
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
