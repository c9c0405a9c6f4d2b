"""Retrieval data: conversations of dated messages ("units"), and questions with the units that hold the answer.

One JSON object per line: {"id", "units": [{"id", "speaker", "date", "text"}], "questions": [{"id", "text", "category",
"evidence": [unit ids]}]}. A unit becomes a memory: its speaker and date are fields, and the two preceding units of the
same date are its context.

Real data has gaps. Harmless ones are accepted: a missing speaker, an unreadable date, no evidence, a numeric category.
A question without words is counted, but not asked. Data that would falsify the figures is rejected with its line
number.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import cofio
from cofio import bootstrap
from cofio.core import Keeper
from cofio.errors import InvalidInput
from cofio.evaluation.jsonl import clean, numbered
from cofio.models.memory import MAX_LABEL, MAX_TEXT, to_utc_iso
from cofio.ports import Embedder, Judge, LateInteractionModel
from cofio.settings import Settings

LEFT_OUT = ("adversarial", "abstention")  # categories of questions without an answer
_SHAPE = (
    'Give one JSON object a line: {"id", "units": [{"id", "speaker", "date", "text"}], "questions": [{"id", "text",'
    ' "category", "evidence": [unit ids]}]}.'
)
_BEFORE = 2  # preceding units, as context
_BEFORE_CHARACTERS = 300
_BATCH = 256  # units stored at a time
_SECONDS = 9  # minimum digits of a Unix time
_FORMATS = (
    "%I:%M %p on %d %B, %Y", "%d %B, %Y", "%d %B %Y", "%d %b %Y", "%B %d, %Y", "%b %d, %Y", "%B-%d-%Y",
    "%Y/%m/%d (%a) %H:%M", "%Y/%m/%d %H:%M:%S", "%Y/%m/%d %H:%M", "%Y/%m/%d", "%Y-%m", "%d.%m.%Y, %H:%M:%S",
    "%d.%m.%Y %H:%M", "%d.%m.%Y", "%a, %d %b %Y %H:%M:%S %z",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Question:
    """Question with the ids of the units that should be found."""

    id: str
    text: str
    category: str
    evidence: frozenset[str]

    @property
    def has_answer(self) -> bool:
        """Return whether the question has evidence and a category with an answer."""
        return bool(self.evidence) and self.category.casefold() not in LEFT_OUT


@dataclass(frozen=True, slots=True)
class Conversation:
    """Units as facts, with the questions about them."""

    id: str
    facts: tuple[cofio.Fact, ...]
    questions: tuple[Question, ...]
    without_words: int = 0  # questions that cannot be asked

    @property
    def units(self) -> frozenset[str]:
        """Return the ids of the units. Several units may share one; then finding any of them counts."""
        return frozenset(str(fact.metadata["unit"]) for fact in self.facts)


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def read(path: Path) -> list[Conversation]:
    """Return all conversations of the file. Raise NotFound if it is missing, InvalidInput if it is malformed.

    Repeated ids of conversations, and of questions within one, get a number: "q1", "q1 (2)".
    """
    name = _UniqueNames()
    found = [_line(line, number, path) for number, line in numbered(path, _SHAPE)]
    return [replace(each, id=name(each.id)) for each in found]


class _BadLine(Exception):
    """Problem in a line."""


def _line(line: str, number: int, path: Path) -> Conversation:
    try:
        return _conversation(json.loads(line), number)
    except json.JSONDecodeError as error:
        said = f"Line {number} of {path} is not JSON: {error.msg}, at character {error.pos + 1}."
        raise InvalidInput(said, f"An object may not be broken into lines. {_SHAPE}") from error
    except (_BadLine, InvalidInput, ValueError, RecursionError) as error:
        said = getattr(error, "message", str(error)).rstrip(".")
        raise InvalidInput(f"Line {number} of {path} is not a conversation: {said}.", _SHAPE) from error


def _conversation(plain: Any, number: int) -> Conversation:
    if not isinstance(plain, dict):
        raise _BadLine(f"it is {_kind(plain)}, not an object")
    units, asked, name = _objects(plain, "units"), _objects(plain, "questions"), _UniqueNames()
    questions = [_question(each, place, name) for place, each in enumerate(asked)]
    worded = tuple(question for question in questions if question.text)
    given = plain.get("id")
    return Conversation(
        clean(number if given is None else given), tuple(_facts(units)), worded, len(questions) - len(worded)
    )


def _objects(plain: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the list with this name. Raise _Wrong unless it holds objects with a text."""
    if name not in plain:
        raise _BadLine(f"it has no {name}")
    rows = plain[name] or []
    if not isinstance(rows, list):
        raise _BadLine(f"{name} is {_kind(rows)}, not a list")
    for place, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise _BadLine(f"number {place} of its {name} is {_kind(row)}, not an object")
        if "text" not in row:
            raise _BadLine(f"number {place} of its {name} has no text")
        if name == "units" and (row.get("id") in (None, "") or isinstance(row["id"], list | dict)):
            raise _BadLine(f"number {place} of its units has no id by which evidence could name it")
    return rows


def _question(plain: Mapping[str, Any], place: int, name: _UniqueNames) -> Question:
    given, evidence = plain.get("id"), plain.get("evidence")
    named = evidence if isinstance(evidence, list) else [] if evidence in (None, "") else [evidence]
    if any(isinstance(each, list | dict) for each in named):
        raise _BadLine(f"the evidence of question {place + 1} is not a list of unit ids")
    category = clean(plain.get("category")).strip()
    return Question(
        name(clean(place if given is None else given)),
        clean(plain["text"]).strip()[:MAX_TEXT],
        category or "none",
        frozenset(clean(each) for each in named if each is not None),
    )


def _facts(units: Sequence[Mapping[str, Any]]) -> Iterator[cofio.Fact]:
    for place, unit in enumerate(units):
        earlier = [each for each in units[max(0, place - _BEFORE) : place] if each.get("date") == unit.get("date")]
        yield cofio.Fact(
            text=clean(unit["text"]).strip()[:MAX_TEXT] or "…",
            speaker=clean(unit.get("speaker")).strip()[:MAX_LABEL],
            created_at=when(unit.get("date")),
            context="\n".join(clean(each["text"])[:_BEFORE_CHARACTERS] for each in earlier),
            metadata={"unit": clean(unit["id"])},
        )


def when(written: Any) -> str:
    """Return a date as ISO text, from a text or a Unix time in seconds or milliseconds; "" if it cannot be parsed."""
    given = clean(written).strip()
    try:
        if isinstance(written, int | float) or (given.isdecimal() and len(given) >= _SECONDS):
            return to_utc_iso(float(given))
        return to_utc_iso(datetime.fromisoformat(given))
    except (ValueError, InvalidInput):
        pass
    for each in _FORMATS:
        try:
            read = datetime.strptime(given, each)  # noqa: DTZ007
            return to_utc_iso(read if read.tzinfo else read.replace(tzinfo=UTC))
        except (ValueError, InvalidInput):
            continue
    return ""


def _kind(value: Any) -> str:
    """Return the JSON type of a value."""
    kinds = {str: "a text", list: "a list", dict: "an object", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")


class _UniqueNames:
    """Generator of unique names: a repeated name gets a number."""

    def __init__(self) -> None:
        self._given: dict[str, int] = {}

    def __call__(self, name: str) -> str:
        while (times := self._given.get(name, 0)) > 0:
            self._given[name] = times + 1
            name = f"{name} ({times + 1})"
        self._given[name] = 1
        return name


# ── storing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _silent(_remembered: int) -> None:
    """Ignore the progress."""


@contextmanager
def remembered(
    conversation: Conversation,
    settings: Settings | None = None,
    *,
    embedder: Embedder | None = None,
    reader: LateInteractionModel | None = None,
    judge: Judge | None = None,
    advance: Callable[[int], None] = _silent,
) -> Iterator[Keeper]:
    """Yield a keeper on a temporary store that holds the conversation. The store of the settings is not touched."""
    usual = settings or Settings.load()
    with TemporaryDirectory() as folder:
        # as if set by a flag, so that hook data of the usual store is not imported
        named = {**usual.origins, "store": "flag"}
        own = replace(usual, store=f"sqlite://{folder}/eval.db", origins=named, extract_provider="")
        with bootstrap.keeper(own, embedder=embedder, reader=reader, judge=judge) as keeper:
            for start in range(0, len(conversation.facts), _BATCH):
                batch = conversation.facts[start : start + _BATCH]
                keeper.add_all(batch, dedup=False)
                advance(len(batch))
            keeper.read_missing()  # as a service does in the background
            yield keeper
