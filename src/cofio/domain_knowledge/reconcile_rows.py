"""Effect of a captured sentence on the domain tables: which row it states, and which existing rows it changes.

    table, fields ─ to_reading ─▶ SentenceReading ─ matching_rows ─▶ existing rows ─▶ replaced, unchanged, deleted

A repeated row is kept with its verdicts; a row that is stated differently is changed in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from cofio.domain_knowledge import confidence, seasonal_times
from cofio.domain_knowledge.lookup import matches
from cofio.errors import InvalidInput
from cofio.models.domain_knowledge import (
    ANY,
    Claim,
    Correlation,
    Seasonal,
    Table,
    Threshold,
    fold,
    make_row,
    words_of,
)
from cofio.models.memory import audience
from cofio.ports import KnowledgeTables

_Claim = TypeVar("_Claim", bound=Claim)


class SentenceReading(NamedTuple):
    """Content of one sentence: the row it states or, for a denial, the fields that identify the denied rows."""

    table: Table
    eyes: tuple[str, ...]  # audience; rows of other audiences are not affected
    row: Claim | None = None
    denies: Mapping[str, Any] = MappingProxyType({})


def to_reading(
    table: Table, values: Mapping[str, Any], *, denied: bool, about: Mapping[str, Any]
) -> SentenceReading | None:
    """Build the row to store, or None if it is invalid. `about` holds owner, visibility and confidence."""
    try:
        if denied:
            example = Threshold(source=ANY, metric="any", value=0, direction="above", **about)  # for its audience
            return SentenceReading(table, audience(example), denies=values)
        row = make_row(table, {**values, **about})
        if isinstance(row, Seasonal):
            seasonal_times.check(row)
    except InvalidInput:
        return None
    return SentenceReading(table, audience(row), row) if isinstance(row, Claim) else None


def matching_rows(reading: SentenceReading, domain: KnowledgeTables) -> list[Claim]:
    """Return the existing rows that it concerns."""
    if row := reading.row:
        ids = [row.id]
        if isinstance(row, Correlation) and row.relation == "with":  # symmetric: also with its sides swapped
            ids.append(replace(row, id="", source_a=row.source_b, source_b=row.source_a).id)
        rows = [match for match in domain.get(row.TABLE, ids) if isinstance(match, Claim)]
        return [match for match in rows if audience(match) == reading.eyes]
    source = str(reading.denies.get("source_a") or reading.denies.get("source") or "")
    name = str(reading.denies.get("metric", "")) if source == ANY else source
    named = domain.naming(words_of(name)) if name else ()
    return [match for match in named if isinstance(match, Claim) and is_denial_of(reading, match)]


def is_denial_of(reading: SentenceReading, row: Claim) -> bool:
    """Return whether it says that the row no longer holds."""
    if reading.row is not None or reading.table != row.TABLE or audience(row) != reading.eyes:
        return False
    values = reading.denies
    if isinstance(row, Threshold):
        texts = [name for name in ("source", "metric", "direction") if name in values]
        is_same = all(fold(str(values[name])) == fold(getattr(row, name)) for name in texts)
        return is_same and ("value" not in values or row.value == values["value"])
    if not isinstance(row, Correlation) or row.relation != values["relation"]:
        return False
    first, second = values["source_a"], values["source_b"]
    if matches(first, row.source_a) and matches(second, row.source_b):
        return True
    return row.relation == "with" and matches(second, row.source_a) and matches(first, row.source_b)


def is_same_claim(one: Claim, other: Claim) -> bool:
    """Return whether two rows make the same claim, in any wording."""
    return one.TABLE == other.TABLE and _normalise_claim(one) == _normalise_claim(other)


def updated_row(old: _Claim, new: _Claim) -> _Claim:
    """Return the old row with the new content: same confidence, no verdicts."""
    return replace(
        confidence.carry_confidence(old, new, stated=False), id=old.id, created_at=old.created_at, memory=old.memory
    )


def _normalise_claim(row: Claim) -> tuple[Any, ...]:
    """Return the claim itself, without wording, owner, confidence and times."""
    if isinstance(row, Correlation):
        sides = (fold(row.source_a), fold(row.source_b))
        return (sides if row.relation == "leads" else tuple(sorted(sides)), row.relation, row.inverse)
    values = [getattr(row, field.name) for field in fields(row) if field.name not in _BESIDE]
    return tuple(fold(value) if isinstance(value, str) else value for value in values)


_BESIDE = frozenset(field.name for field in fields(Claim))


def list_memory_ids(rows: Sequence[Claim]) -> list[int]:
    """Return the memories that state these rows in words."""
    return list(dict.fromkeys(row.memory for row in rows if row.memory is not None))
