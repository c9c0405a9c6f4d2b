"""Retrieval data: conversations of dated messages ("units"), and questions with the units that hold the answer.

One JSON object per line: {"id", "units": [{"id", "speaker", "date", "text"}], "questions": [{"id", "text", "category",
"evidence": [unit ids]}]}. A unit becomes a memory: its speaker and date are fields, and the two preceding units of the
same date are its context.

Real data has gaps. Harmless ones are accepted: a missing speaker, an unreadable date, no evidence, a numeric category.
A question without words is counted, but not asked. Data that would falsify the figures is rejected with its line
number.
"""

from __future__ import annotations

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
from cofio.models.memory import MAX_LABEL, MAX_TEXT, to_utc_iso
from cofio.ports import Embedder, Judge, LateInteractionModel
from cofio.settings import Settings
from cofio_eval.jsonl import clean, describe_type, read_rows

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
    conversations = read_rows(path, _parse_conversation, "conversation", _SHAPE)
    return [replace(conversation, id=name(conversation.id)) for conversation in conversations]


def _parse_conversation(plain: dict[str, Any], number: int) -> Conversation:
    units, rows, name = _get_objects(plain, "units"), _get_objects(plain, "questions"), _UniqueNames()
    questions = [_parse_question(row, place, name) for place, row in enumerate(rows)]
    worded = tuple(question for question in questions if question.text)
    return Conversation(_get_id(plain, number), tuple(_make_facts(units)), worded, len(questions) - len(worded))


def _get_id(plain: Mapping[str, Any], place: int) -> str:
    return clean(place if plain.get("id") is None else plain["id"])


def _get_objects(plain: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the list with this name. Raise ValueError unless it holds objects with a text."""
    if name not in plain:
        raise ValueError(f"it has no {name}")
    rows = plain[name] or []
    if not isinstance(rows, list):
        raise ValueError(f"{name} is {describe_type(rows)}, not a list")
    for place, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise ValueError(f"number {place} of its {name} is {describe_type(row)}, not an object")
        if "text" not in row:
            raise ValueError(f"number {place} of its {name} has no text")
        if name == "units" and (row.get("id") in (None, "") or isinstance(row["id"], list | dict)):
            raise ValueError(f"number {place} of its units has no id by which evidence could name it")
    return rows


def _parse_question(plain: Mapping[str, Any], place: int, name: _UniqueNames) -> Question:
    evidence = plain.get("evidence")
    units = evidence if isinstance(evidence, list) else [] if evidence in (None, "") else [evidence]
    if any(isinstance(unit, list | dict) for unit in units):
        raise ValueError(f"the evidence of question {place + 1} is not a list of unit ids")
    category = clean(plain.get("category")).strip()
    return Question(
        name(_get_id(plain, place)),
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


class _UniqueNames:
    """Generator of unique names: a repeated name gets a number."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def __call__(self, name: str) -> str:
        while (times := self._counts.get(name, 0)) > 0:
            self._counts[name] = times + 1
            name = f"{name} ({times + 1})"
        self._counts[name] = 1
        return name


# ── storing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def remembered(
    conversation: Conversation,
    settings: Settings | None = None,
    *,
    embedder: Embedder | None = None,
    reader: LateInteractionModel | None = None,
    judge: Judge | None = None,
    advance: Callable[[int], None] = lambda _steps: None,
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
