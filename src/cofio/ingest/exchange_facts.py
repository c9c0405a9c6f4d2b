"""Facts of one exchange with their vectors, the decisions about them, and the resulting actions in the API format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from cofio.domain_knowledge.reconcile_rows import SentenceReading
from cofio.ingest.reconcile.decide import PROBABLE
from cofio.ingest.voices import PASTED
from cofio.models.exchange import ANALYSIS, Exchange, ExtractedFact, FactOutcome
from cofio.models.memory import Add, Change, Delete, Fact, Noop, Update
from cofio.ports import Matrix, Store, Vector
from cofio.text.tokens import embedding_text

NOT_WORTH_KEEPING = "Nothing that will matter in a month"  # of a tentative fact that changes no memory
_BRIEF = 30  # maximum words of a message that only ends a memory


class ExchangeFacts:
    """Facts of one exchange with their vectors, the store scoped to their author, and the decisions so far."""

    def __init__(
        self,
        exchange: Exchange,
        extracted: Sequence[ExtractedFact],
        facts: Sequence[Fact],
        vectors: Matrix | None,
        store: Store,
        readings: Mapping[int, SentenceReading] = MappingProxyType({}),
    ) -> None:
        self.exchange, self.extracted, self.facts, self.store = exchange, extracted, facts, store
        self.readings = readings  # domain-knowledge rows in the facts, by place
        self._vectors = vectors
        self._reworded: dict[str, Vector] = {}
        self.settled: list[FactOutcome] = [FactOutcome(fact=fact) for fact in facts]

    def take(self, places: Sequence[int], outcomes: Sequence[FactOutcome]) -> None:
        """Set the decisions of these places.

        Neither an agent's statement, except in an analysis, nor pasted text changes a memory.
        """
        is_analysis = self.exchange.context == ANALYSIS
        for place, outcome in zip(places, outcomes, strict=True):
            extracted = self.extracted[place]
            if (extracted.role != "user" and not is_analysis) or extracted.provenance == PASTED:
                outcome = _forbid_changes(outcome)
            self.settled[place] = _drop_tentative(outcome, extracted)

    def drop_repeated_retirements(self) -> None:
        """Drop duplicate retirements: memories that another fact of the exchange already decides about or retires."""
        decided = [outcome.decision for outcome in self.settled]
        decided_ids = {decision.id for decision in decided if isinstance(decision, Update | Delete | Noop)}
        for place, outcome in enumerate(self.settled):
            also = tuple(deletion for deletion in outcome.also if deletion.id not in decided_ids)
            decided_ids |= {deletion.id for deletion in also}
            self.settled[place] = replace(outcome, also=also)

    @property
    def decided_ids(self) -> set[int]:
        """Return the ids of the memories that have a decision."""
        decided = [decision for outcome in self.settled for decision in outcome.decisions]
        return {decision.id for decision in decided if isinstance(decision, Update | Delete | Noop)}

    def vector(self, place: int) -> Vector:
        row: Vector = self.matrix([place])[0]
        return row

    def matrix(self, places: Sequence[int]) -> Matrix:
        assert self._vectors is not None  # facts always come with vectors
        rows: Matrix = self._vectors[list(places)]
        return rows

    def embed_reworded(self, embed: Callable[[Sequence[str]], Matrix]) -> None:
        """Compute the vectors of texts that the model reworded."""
        texts = [
            embedding_text(outcome.decision.fact.text, outcome.decision.fact.speaker)
            for outcome in self.settled
            if isinstance(outcome.decision, Add | Update) and outcome.decision.fact.text != outcome.fact.text
        ]
        if texts:
            self._reworded.update(zip(texts, embed(texts), strict=True))

    def vector_for(self, place: int, decision: Add | Update) -> Vector:
        """Return the vector of the decision's text."""
        if decision.fact.text == self.facts[place].text:
            return self.vector(place)
        return self._reworded[embedding_text(decision.fact.text, decision.fact.speaker)]


def _drop_tentative(outcome: FactOutcome, extracted: ExtractedFact) -> FactOutcome:
    """Drop a tentative fact that changes no memory, and store no short message that only ends one."""
    changes = isinstance(outcome.decision, Update | Delete)
    if extracted.tentative and not changes and (extracted.is_message or outcome.chance < PROBABLE):
        return FactOutcome(fact=outcome.fact, reason=NOT_WORTH_KEEPING)
    if (
        extracted.is_message
        and outcome.ends
        and isinstance(outcome.decision, Update)
        and len(extracted.text.split()) <= _BRIEF
    ):
        ended = Delete(outcome.decision.id, outcome.decision.reason)
        return FactOutcome(fact=outcome.fact, decision=ended, also=outcome.also)
    return outcome


def _forbid_changes(outcome: FactOutcome) -> FactOutcome:
    if isinstance(outcome.decision, Add | Noop):
        return replace(outcome, also=())
    if isinstance(outcome.decision, Update):
        addition = Add(outcome.fact, f"new; it may replace memory {outcome.decision.id}", unless_known=True)
        return FactOutcome(fact=outcome.fact, decision=addition)
    return FactOutcome(fact=outcome.fact, reason=outcome.reason or "only the user's own words end a memory")


def list_actions(outcome: FactOutcome, changes: Sequence[Change]) -> Iterator[dict[str, Any]]:
    """Yield the actions done for a fact, or planned in a dry run, in the API format."""
    if outcome.reason == NOT_WORTH_KEEPING:
        return
    fields = {"text": outcome.fact.text, "kind": outcome.fact.kind, "category": outcome.fact.category}
    yield _build_action(outcome, fields, changes[0] if changes else None)
    for deletion in outcome.also:
        yield {"action": "delete", **fields, "reason": deletion.reason, "old_id": deletion.id}


def _build_action(outcome: FactOutcome, fact: Mapping[str, str], change: Change | None) -> dict[str, Any]:
    decision = outcome.decision
    fields = {**fact, "reason": outcome.reason or getattr(decision, "reason", "")}
    match decision:
        case Add() if change is not None and change.action == "noop":  # another process was faster
            return {"action": "noop", **fields, "existing_id": change.memory_id}
        case Add():
            return {"action": "add", **fields, "id": change.memory_id if change else None}
        case Update():
            new_id = change.memory_id if change else None
            return {"action": "update", **fields, "text": decision.fact.text, "old_id": decision.id, "new_id": new_id}
        case Delete():
            return {"action": "delete", **fields, "old_id": decision.id}
        case Noop():
            return {"action": "noop", **fields, "existing_id": decision.id}
    if outcome.reason.startswith("error: "):
        return {"action": "error", **fields, "error": outcome.reason.removeprefix("error: ")}
    return {"action": "rejected", **fields}
