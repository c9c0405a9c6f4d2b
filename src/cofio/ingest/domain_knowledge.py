"""Effect of an exchange's facts on domain knowledge, after the decisions about their memories.

    [ExtractedFact] ─ readings_of ─▶ {place: SentenceReading} ─ KnowledgeWriter ─▶ PutRow, DeleteRow
                                      └ reasons_left_out, echo_reason ─▶ dropped facts

These are in the changeset of the memories that state the rows. A memory and its row are kept in step: a fact
whose row replaces another also replaces the memory of that row, and rows of an archived memory are dropped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cofio.domain_knowledge import cascade, reconcile_rows
from cofio.domain_knowledge.from_text import extraction
from cofio.domain_knowledge.reconcile_rows import SentenceReading
from cofio.errors import Forbidden
from cofio.ingest.exchange_facts import ExchangeFacts
from cofio.ingest.reconcile.decide import is_older_than
from cofio.models.domain_knowledge import Claim, Knowledge, parse_ref
from cofio.models.exchange import Exchange, ExtractedFact, FactOutcome
from cofio.models.memory import Add, Decision, Delete, DeleteRow, Memory, Noop, PutRow, RowDecision, Update
from cofio.models.merge import inherit_tags
from cofio.ports import Store
from cofio.stores.scoped import ScopedStore

_DENIED = "stated to be no longer valid"
_MOST_SHOWN = 1_000  # injected lines that are parsed for rows
_MARKED = re.compile(
    r"^\s*(?:[-*•]\s*)?(?:\[[^\]]*\]\s*)*|\s*\((?:fires|until|daily|weekly|monthly|yearly)\b[^()]*\)\s*$"
)


class KnowledgeWriter:
    """Decisions about domain knowledge rows for the facts of an exchange."""

    def __init__(self, batch: ExchangeFacts, now: str) -> None:
        self._batch, self._now = batch, now
        self.puts: dict[str, tuple[Claim, int, Claim | None]] = {}  # by ref: new row, index of its fact, old row
        self._drops: dict[str, Claim] = {}
        self._unchanged: dict[str, Claim] = {}

    def decide(self) -> None:
        """Decide about every row; a fact whose row replaces another also replaces that row's memory."""
        for place, reading in self._batch.readings.items():
            decision = self._batch.settled[place].decision
            if decision is None or (reading.row and isinstance(decision, Delete)):
                continue
            rows = reconcile_rows.matching_rows(reading, self._batch.store.domain)
            if reading.row is None:
                denied = [row for row in rows if not self._is_pinned(row) and not self._find_newer(row, place)]
                self._drops.update((row.ref, row) for row in denied)
                self._outdate(denied, place, _DENIED)
            elif not self._is_stated_already(reading.row, decision):
                self._state(reading.row, rows[0] if rows else None, place)

    def _is_stated_already(self, row: Claim, decision: Decision) -> bool:
        """Return whether the memory of a noop already states a row of that table, in other words."""
        if not isinstance(decision, Noop):
            return False
        stated = [other for other in self._batch.store.domain.stated_by([decision.id]) if other.TABLE == row.TABLE]
        if any(isinstance(other, Claim) and other.id == row.id for other in stated):
            return False
        self._unchanged.update((other.ref, other) for other in stated if isinstance(other, Claim))
        return bool(stated)

    def _state(self, row: Claim, old: Claim | None, place: int) -> None:
        if old is None:
            self.puts[row.ref] = (row, place, None)
        elif reconcile_rows.is_same_claim(old, row):
            decision = self._batch.settled[place].decision
            taken_over = isinstance(decision, Update) and decision.id == old.memory
            if taken_over or all(memory.archived for memory in self._load_memories([old])):
                self.puts[old.ref] = (old, place, old)  # this fact takes over from that memory
            else:
                self._unchanged[old.ref] = old
        elif self._is_pinned(old):
            self._unchanged[old.ref] = old
        elif newer := self._find_newer(old, place):
            reason = f"memory {newer} is newer and says otherwise"
            self._batch.settled[place] = FactOutcome(fact=self._batch.facts[place], reason=reason)
        else:
            self.puts[old.ref] = (reconcile_rows.updated_row(old, row), place, old)
            self._outdate([old], place, "out of date: its row was restated with other values")

    def _outdate(self, rows: Sequence[Claim], place: int, reason: str) -> None:
        """Retire the memories of these rows; the fact replaces the first one if it is new."""
        for memory in self._load_memories(rows):
            if memory.archived or memory.pinned or memory.id in self._batch.decided_ids:
                continue
            settled = self._batch.settled[place]
            if isinstance(settled.decision, Add):
                update = Update(memory.id, inherit_tags(settled.decision.fact, memory), reason)
                self._batch.settled[place] = replace(settled, decision=update)
            else:
                self._batch.settled[place] = replace(settled, also=(*settled.also, Delete(memory.id, reason)))

    def _load_memories(self, rows: Sequence[Claim]) -> list[Memory]:
        ids = reconcile_rows.list_memory_ids(rows)
        return self._batch.store.get(ids) if ids else []

    def _is_pinned(self, row: Claim) -> bool:
        return any(memory.pinned and not memory.archived for memory in self._load_memories([row]))

    def _find_newer(self, row: Claim, place: int) -> int | None:
        """Return a memory that stated the row after the fact was said."""
        fact, store = self._batch.facts[place], self._batch.store
        live = [memory for memory in self._load_memories([row]) if not memory.archived]
        return next((memory.id for memory in live if is_older_than(fact, memory, store, self._now)), None)

    def decisions(self, first: Mapping[int, int], memories: Sequence[Decision]) -> list[RowDecision]:
        """Return all decisions about the tables. `first` maps each fact to the index of its memory decision."""
        viewer = self._batch.store.viewer if isinstance(self._batch.store, ScopedStore) else None
        removed = cascade.removed_rows(memories, self._batch.store, viewer)
        reasons = {f"{drop.table}/{drop.id}": drop.reason for drop in removed if isinstance(drop, DeleteRow)}
        reasons.update(dict.fromkeys(self._drops, _DENIED))
        drops = [DeleteRow(*parse_ref(ref), reason) for ref, reason in reasons.items() if ref not in self.puts]
        puts = [
            PutRow(row, stated_by=first[place], as_of=old.updated_at if old else "")
            for row, place, old in self.puts.values()
        ]
        return [*drops, *puts]

    @property
    def unchanged_rows(self) -> tuple[dict[str, Any], ...]:
        rows = {ref: row for ref, row in self._unchanged.items() if ref not in self.puts and ref not in self._drops}
        return tuple(change_summary("noop", ref, row) for ref, row in rows.items())

    def preview(self) -> list[dict[str, Any]]:
        """Return the changes for a dry run."""
        memories = [decision for outcome in self._batch.settled for decision in outcome.decisions]
        rows: dict[str, Knowledge] = {}
        for decision in self.decisions(dict.fromkeys(self._batch.readings, 0), memories):
            if isinstance(decision, DeleteRow):
                rows.update((row.ref, row) for row in self._batch.store.domain.get(decision.table, [decision.id]))
        changes = [change_summary("delete", ref, row) for ref, row in rows.items()]
        changes += [change_summary("update" if old else "add", ref, row) for ref, (row, _, old) in self.puts.items()]
        return [*self.unchanged_rows, *changes]


def change_summary(action: str, ref: str, row: Knowledge | None) -> dict[str, Any]:
    """Return a change of a row in the format for clients."""
    return {"action": action, "ref": ref, "says": row.says if row else ""}


def readings_of(facts: Sequence[ExtractedFact], exchange: Exchange, store: Store) -> dict[int, SentenceReading]:
    """Return the domain knowledge in the facts of an exchange, by index."""
    readings = {}
    for place, fact in enumerate(facts):
        knowledge = extraction.read_sentence(fact)
        if knowledge is None and fact.method == "llm" and fact.said:  # the model reworded the original sentence
            knowledge = extraction.read_sentence(fact.said)
        if reading := _build_reading(knowledge, exchange, fact.confidence, store):
            readings[place] = reading
    return readings


def _build_reading(
    knowledge: extraction.ReadKnowledge | None, exchange: Exchange, confidence: float, store: Store | None = None
) -> SentenceReading | None:
    if knowledge is None:
        return None
    about = {name: getattr(exchange, name) for name in ("agent", "user", "team", "visibility")}
    about.update(place=exchange.source, confidence=confidence)
    reading = reconcile_rows.to_reading(knowledge.table, knowledge.fields, denied=knowledge.denied, about=about)
    if reading is None or reading.row is None or not isinstance(store, ScopedStore):
        return reading
    try:
        row = store.row(reading.row)  # with the id for this viewer
    except Forbidden:
        return None
    return reading._replace(row=row) if isinstance(row, Claim) else None


def reasons_left_out(readings: Mapping[int, SentenceReading]) -> dict[int, str]:
    """Return reasons to drop facts whose row is repeated, changed or denied later in the same exchange."""
    reasons: dict[int, str] = {}
    standing: dict[str, tuple[int, Claim]] = {}  # by ref: index of the fact, and its row
    for place, reading in readings.items():
        if reading.row is None:
            denied = {ref for ref, (_, row) in standing.items() if reconcile_rows.is_denial_of(reading, row)}
            reasons.update({standing.pop(ref)[0]: "corrected in the same exchange" for ref in denied})
            continue
        at, before = standing.get(reading.row.ref, (place, None))
        if before is not None and reconcile_rows.is_same_claim(before, reading.row):
            reasons[place] = "said before in the same exchange"
            continue
        if before is not None:
            reasons[at] = "corrected in the same exchange"
        standing[reading.row.ref] = place, reading.row
    return reasons


def shown_rows(exchange: Exchange) -> list[Claim]:
    """Return the rows that were injected into the agent's context."""
    lines = [line for text in exchange.injected for line in text.splitlines() if line.strip()][:_MOST_SHOWN]
    readings = (_build_reading(extraction.read_sentence(_MARKED.sub("", line)), exchange, 0.5) for line in lines)
    return [reading.row for reading in readings if reading and reading.row]


def echo_reason(reading: SentenceReading | None, claims: Sequence[Claim], store: Store) -> str:
    """Return the reason why a row is only an echo of an injected or known row; "" if it is new."""
    if reading is None or reading.row is None:
        return ""
    if any(reconcile_rows.is_same_claim(row, reading.row) for row in claims):
        return "it was put before the agent in this conversation"
    rows = reconcile_rows.matching_rows(reading, store.domain)
    same = next((row for row in rows if reconcile_rows.is_same_claim(row, reading.row)), None)
    return f"the agent repeats {same.ref}" if same else ""


def denies_live_row(reading: SentenceReading | None, store: Store) -> bool:
    """Return whether it denies an existing row."""
    return reading is not None and reading.row is None and bool(reconcile_rows.matching_rows(reading, store.domain))
