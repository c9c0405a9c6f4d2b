"""Effect of a captured sentence on the domain tables: which row it states, and which existing rows it changes.

    table, fields ─ heard ─▶ Heard ─ known ─▶ existing rows ─▶ replaced, kept, dropped

A repeated row is kept with its verdicts; a row that is stated differently is changed in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from cofio.errors import InvalidInput
from cofio.knowledge import confidence, recurrence
from cofio.knowledge.lookup import matches
from cofio.models.knowledge import (
    ANY,
    Claim,
    Correlation,
    Seasonal,
    Table,
    Threshold,
    audience_of,
    fold,
    make_row,
    words_of,
)
from cofio.ports import KnowledgeTables

_Claim = TypeVar("_Claim", bound=Claim)


class SentenceReading(NamedTuple):
    """Content of one sentence: the row it states or, for a denial, the fields that identify the denied rows."""

    table: Table
    eyes: tuple[str, ...]  # audience; rows of other audiences are not affected
    row: Claim | None = None
    denies: Mapping[str, Any] = MappingProxyType({})


def to_reading(
    table: Table, told: Mapping[str, Any], *, denied: bool, about: Mapping[str, Any]
) -> SentenceReading | None:
    """Build the row to store, or None if it is invalid. `about` holds owner, visibility and confidence."""
    try:
        if denied:
            return SentenceReading(table, audience_of(_example(about)), denies=told)
        row = make_row(table, {**told, **about})
        if isinstance(row, Seasonal):
            recurrence.check(row)
    except InvalidInput:
        return None
    return SentenceReading(table, audience_of(row), row) if isinstance(row, Claim) else None


def matching_rows(heard: SentenceReading, domain: KnowledgeTables) -> list[Claim]:
    """Return the existing rows that it concerns."""
    found = _named_as(heard.row, domain) if heard.row else _denied(heard, domain)
    return [each for each in found if audience_of(each) == heard.eyes]


def is_denial_of(heard: SentenceReading, row: Claim) -> bool:
    """Return whether it says that the row no longer holds."""
    if heard.row is not None or heard.table != row.TABLE or audience_of(row) != heard.eyes:
        return False
    if isinstance(row, Threshold):
        return _is_denied_threshold(row, heard.denies)
    return isinstance(row, Correlation) and _is_denied_correlation(row, heard.denies)


def is_same_claim(one: Claim, other: Claim) -> bool:
    """Return whether two rows make the same claim, in any wording."""
    return one.TABLE == other.TABLE and _claimed(one) == _claimed(other)


def updated_row(old: _Claim, new: _Claim) -> _Claim:
    """Return the old row with the new content: same confidence, no verdicts."""
    return replace(
        confidence.carry_confidence(old, new, stated=False), id=old.id, created_at=old.created_at, memory=old.memory
    )


# ── parts ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _named_as(row: Claim, domain: KnowledgeTables) -> Iterator[Claim]:
    """Yield the row with this id; for a symmetric correlation, also with its sides swapped."""
    ids = [row.id]
    if isinstance(row, Correlation) and row.relation == "with":
        ids.append(replace(row, id="", source_a=row.source_b, source_b=row.source_a).id)
    yield from (each for each in domain.get(row.TABLE, ids) if isinstance(each, Claim))


def _denied(heard: SentenceReading, domain: KnowledgeTables) -> Iterator[Claim]:
    source = str(heard.denies.get("source_a") or heard.denies.get("source") or "")
    name = str(heard.denies.get("metric", "")) if source == ANY else source
    for each in domain.naming(words_of(name)) if name else ():
        if isinstance(each, Claim) and is_denial_of(heard, each):
            yield each


def _is_denied_threshold(row: Threshold, told: Mapping[str, Any]) -> bool:
    texts = ("source", "metric", "direction")
    if any(name in told and fold(str(told[name])) != fold(getattr(row, name)) for name in texts):
        return False
    return "value" not in told or row.value == told["value"]


def _is_denied_correlation(row: Correlation, told: Mapping[str, Any]) -> bool:
    if row.relation != told["relation"]:
        return False
    one, other = told["source_a"], told["source_b"]
    if matches(one, row.source_a) and matches(other, row.source_b):
        return True
    return row.relation == "with" and matches(other, row.source_a) and matches(one, row.source_b)


def _claimed(row: Claim) -> tuple[Any, ...]:
    """Return the claim itself, without wording, owner, confidence and times."""
    if isinstance(row, Correlation):
        sides = (fold(row.source_a), fold(row.source_b))
        return (sides if row.relation == "leads" else tuple(sorted(sides)), row.relation, row.inverse)
    told = [getattr(row, field.name) for field in fields(row) if field.name not in _BESIDE]
    return tuple(fold(each) if isinstance(each, str) else each for each in told)


def _example(about: Mapping[str, Any]) -> Claim:
    """Return an arbitrary row with this audience."""
    return Threshold(source=ANY, metric="any", value=0, direction="above", **about)


_BESIDE = frozenset(field.name for field in fields(Claim))


def ids_of_tellers(rows: Sequence[Claim]) -> list[int]:
    """Return the memories that state these rows in words."""
    return list(dict.fromkeys(row.memory for row in rows if row.memory is not None))
