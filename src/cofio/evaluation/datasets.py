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
    conversations = [_parse_line(line, number, path) for number, line in numbered(path, _SHAPE)]
    return [replace(conversation, id=name(conversation.id)) for conversation in conversations]


class _BadLine(Exception):
    """Problem in a line."""


def _parse_line(line: str, number: int, path: Path) -> Conversation:
    try:
        return _parse_conversation(json.loads(line), number)
    except json.JSONDecodeError as error:
        message = f"Line {number} of {path} is not JSON: {error.msg}, at character {error.pos + 1}."
        raise InvalidInput(message, f"Write each object on one line. {_SHAPE}") from error
    except (_BadLine, InvalidInput, ValueError, RecursionError) as error:
        message = getattr(error, "message", str(error)).rstrip(".")
        raise InvalidInput(f"Line {number} of {path} is not a conversation: {message}.", _SHAPE) from error


def _parse_conversation(plain: Any, number: int) -> Conversation:
    if not isinstance(plain, dict):
        raise _BadLine(f"it is {_describe_type(plain)}, not an object")
    units, rows, name = _get_objects(plain, "units"), _get_objects(plain, "questions"), _UniqueNames()
    questions = [_parse_question(row, place, name) for place, row in enumerate(rows)]
    worded = tuple(question for question in questions if question.text)
    own_id = plain.get("id")
    return Conversation(
        clean(number if own_id is None else own_id), tuple(_make_facts(units)), worded, len(questions) - len(worded)
    )


def _get_objects(plain: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the list with this name. Raise _Wrong unless it holds objects with a text."""
    if name not in plain:
        raise _BadLine(f"it has no {name}")
    rows = plain[name] or []
    if not isinstance(rows, list):
        raise _BadLine(f"{name} is {_describe_type(rows)}, not a list")
    for place, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise _BadLine(f"number {place} of its {name} is {_describe_type(row)}, not an object")
        if "text" not in row:
            raise _BadLine(f"number {place} of its {name} has no text")
        if name == "units" and (row.get("id") in (None, "") or isinstance(row["id"], list | dict)):
            raise _BadLine(f"number {place} of its units has no id by which evidence could name it")
    return rows


def _parse_question(plain: Mapping[str, Any], place: int, name: _UniqueNames) -> Question:
    own_id, evidence = plain.get("id"), plain.get("evidence")
    units = evidence if isinstance(evidence, list) else [] if evidence in (None, "") else [evidence]
    if any(isinstance(unit, list | dict) for unit in units):
        raise _BadLine(f"the evidence of question {place + 1} is not a list of unit ids")
    category = clean(plain.get("category")).strip()
    return Question(
        name(clean(place if own_id is None else own_id)),
        clean(plain["text"]).strip()[:MAX_TEXT],
        category or "none",
        frozenset(clean(unit) for unit in units if unit is not None),
    )


def _make_facts(units: Sequence[Mapping[str, Any]]) -> Iterator[cofio.Fact]:
    for place, unit in enumerate(units):
        earlier = [
            previous for previous in units[max(0, place - _BEFORE) : place] if previous.get("date") == unit.get("date")
        ]
        yield cofio.Fact(
            text=clean(unit["text"]).strip()[:MAX_TEXT] or "…",
            speaker=clean(unit.get("speaker")).strip()[:MAX_LABEL],
            created_at=when(unit.get("date")),
            context="\n".join(clean(previous["text"])[:_BEFORE_CHARACTERS] for previous in earlier),
            metadata={"unit": clean(unit["id"])},
        )


def when(written: Any) -> str:
    """Return a date as ISO text, from a text or a Unix time in seconds or milliseconds; "" if it cannot be parsed."""
    text = clean(written).strip()
    try:
        if isinstance(written, int | float) or (text.isdecimal() and len(text) >= _SECONDS):
            return to_utc_iso(float(text))
        return to_utc_iso(datetime.fromisoformat(text))
    except (ValueError, InvalidInput):
        pass
    for date_format in _FORMATS:
        try:
            parsed = datetime.strptime(text, date_format)  # noqa: DTZ007
            return to_utc_iso(parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC))
        except (ValueError, InvalidInput):
            continue
    return ""


def _describe_type(value: Any) -> str:
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


def _ignore_progress(_remembered: int) -> None:
    """Ignore the progress."""


@contextmanager
def remembered(
    conversation: Conversation,
    settings: Settings | None = None,
    *,
    embedder: Embedder | None = None,
    reader: LateInteractionModel | None = None,
    judge: Judge | None = None,
    advance: Callable[[int], None] = _ignore_progress,
) -> Iterator[Keeper]:
    """Yield a keeper on a temporary store that holds the conversation. The store of the settings is not touched."""
    base = settings or Settings.load()
    with TemporaryDirectory() as folder:
        # as if set by a flag, so that hook data of the configured store is not imported
        origins = {**base.origins, "store": "flag"}
        temporary = replace(base, store=f"sqlite://{folder}/eval.db", origins=origins, extract_provider="")
        with bootstrap.keeper(temporary, embedder=embedder, reader=reader, judge=judge) as keeper:
            for start in range(0, len(conversation.facts), _BATCH):
                batch = conversation.facts[start : start + _BATCH]
                keeper.add_all(batch, dedup=False)
                advance(len(batch))
            keeper.services.embeddings.build_token_embeddings()  # as a service does in the background
            yield keeper
