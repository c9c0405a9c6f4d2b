"""Effect of a captured sentence on the domain tables: which row it states, and which existing rows it changes.

    table, fields ─ to_reading ─▶ SentenceReading ─ matching_rows ─▶ existing rows ─▶ replaced, unchanged, deleted

A repeated row is kept with its verdicts; a row that is stated differently is changed in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    table: Table, values: Mapping[str, Any], *, denied: bool, about: Mapping[str, Any]
) -> SentenceReading | None:
    """Build the row to store, or None if it is invalid. `about` holds owner, visibility and confidence."""
    try:
        if denied:
            return SentenceReading(table, audience_of(_build_example(about)), denies=values)
        row = make_row(table, {**values, **about})
        if isinstance(row, Seasonal):
            seasonal_times.check(row)
    except InvalidInput:
        return None
    return SentenceReading(table, audience_of(row), row) if isinstance(row, Claim) else None


def matching_rows(reading: SentenceReading, domain: KnowledgeTables) -> list[Claim]:
    """Return the existing rows that it concerns."""
    rows = _get_same_id(reading.row, domain) if reading.row else _find_denied(reading, domain)
    return [row for row in rows if audience_of(row) == reading.eyes]


def is_denial_of(reading: SentenceReading, row: Claim) -> bool:
    """Return whether it says that the row no longer holds."""
    if reading.row is not None or reading.table != row.TABLE or audience_of(row) != reading.eyes:
        return False
    if isinstance(row, Threshold):
        return _is_denied_threshold(row, reading.denies)
    return isinstance(row, Correlation) and _is_denied_correlation(row, reading.denies)


def is_same_claim(one: Claim, other: Claim) -> bool:
    """Return whether two rows make the same claim, in any wording."""
    return one.TABLE == other.TABLE and _normalise_claim(one) == _normalise_claim(other)


def updated_row(old: _Claim, new: _Claim) -> _Claim:
    """Return the old row with the new content: same confidence, no verdicts."""
    return replace(
        confidence.carry_confidence(old, new, stated=False), id=old.id, created_at=old.created_at, memory=old.memory
    )


# ── parts ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _get_same_id(row: Claim, domain: KnowledgeTables) -> Iterator[Claim]:
    """Yield the row with this id; for a symmetric correlation, also with its sides swapped."""
    ids = [row.id]
    if isinstance(row, Correlation) and row.relation == "with":
        ids.append(replace(row, id="", source_a=row.source_b, source_b=row.source_a).id)
    yield from (match for match in domain.get(row.TABLE, ids) if isinstance(match, Claim))


def _find_denied(reading: SentenceReading, domain: KnowledgeTables) -> Iterator[Claim]:
    source = str(reading.denies.get("source_a") or reading.denies.get("source") or "")
    name = str(reading.denies.get("metric", "")) if source == ANY else source
    for row in domain.naming(words_of(name)) if name else ():
        if isinstance(row, Claim) and is_denial_of(reading, row):
            yield row


def _is_denied_threshold(row: Threshold, values: Mapping[str, Any]) -> bool:
    texts = ("source", "metric", "direction")
    if any(name in values and fold(str(values[name])) != fold(getattr(row, name)) for name in texts):
        return False
    return "value" not in values or row.value == values["value"]


def _is_denied_correlation(row: Correlation, values: Mapping[str, Any]) -> bool:
    if row.relation != values["relation"]:
        return False
    first, second = values["source_a"], values["source_b"]
    if matches(first, row.source_a) and matches(second, row.source_b):
        return True
    return row.relation == "with" and matches(second, row.source_a) and matches(first, row.source_b)


def _normalise_claim(row: Claim) -> tuple[Any, ...]:
    """Return the claim itself, without wording, owner, confidence and times."""
    if isinstance(row, Correlation):
        sides = (fold(row.source_a), fold(row.source_b))
        return (sides if row.relation == "leads" else tuple(sorted(sides)), row.relation, row.inverse)
    values = [getattr(row, field.name) for field in fields(row) if field.name not in _BESIDE]
    return tuple(fold(value) if isinstance(value, str) else value for value in values)


def _build_example(about: Mapping[str, Any]) -> Claim:
    """Return an arbitrary row with this audience."""
    return Threshold(source=ANY, metric="any", value=0, direction="above", **about)


_BESIDE = frozenset(field.name for field in fields(Claim))


def list_memory_ids(rows: Sequence[Claim]) -> list[int]:
    """Return the memories that state these rows in words."""
    return list(dict.fromkeys(row.memory for row in rows if row.memory is not None))
