"""How an exchange becomes memories: the way in, from end to end.

    Exchange ─ gate ─▶ Verdict ─ patterns, model ─▶ [Found] ─ reconcile ─▶ [Settled] ─ store.apply ─▶ Learned

The steps decide; this strings them together and writes once, in one transaction that also settles the item of the
inbox. So an exchange is learned whole or not at all, and never twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cofio import gate
from cofio.conversation import Exchange, Found, Learned, Sentence, Settled, Settlement, Task, Usage, Verdict
from cofio.errors import NotConfigured, Refused, Unreadable
from cofio.extract import knowledge, patterns
from cofio.extract import llm as by_model
from cofio.model import Add, Change, Changeset, Decision, Delete, Fact, Noop, Update
from cofio.ports import LLM, Matrix, Store, Vector
from cofio.reconcile import model as reconcile_by_model
from cofio.reconcile import rules
from cofio.wording import passage, telling

_THOROUGH = (
    "pre_compact"  # the event after which the words are gone: the model is asked even where the gate sees little
)
_ANALYSIS = "analysis"  # the report of an agent that watches a domain
_COVERED = 0.8  # of a pattern's words: so many in a fact of the model's, and that fact says it better


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """What was found in an exchange, and how."""

    found: tuple[Found, ...]
    method: str
    sentences: tuple[Sentence, ...] = ()
    missed: int = 0
    usage: Usage = Usage()
    reason: str = ""
    unreadable: bool = False  # the model answered, and nothing could be made of it


class Learner:
    """Learns from exchanges, with the model where there is one and it is needed, and without it otherwise."""

    def __init__(
        self,
        store: Store,
        embed: Callable[[Sequence[str]], Matrix],
        floor: Callable[[], float],
        llm: LLM | None,
        deciding: threading.RLock,
    ) -> None:
        self._store = store
        self._embed = embed
        self._floor = floor  # the cosine of unrelated texts: nothing below it is similar
        self.llm = llm
        self._deciding = deciding
        self.told: Callable[[Learned], None] = lambda _: None  # hears of every exchange that was learned from

    def learn(
        self, exchange: Exchange, task: Task, *, by: str, dry_run: bool = False, item: int | None = None
    ) -> Learned:
        """What became of the exchange. With an item of the inbox, that is settled in the same transaction."""
        began = time.perf_counter()
        reading = self._extracted(exchange) if task == "extract" else self._read(exchange)
        if reading.unreadable and not reading.found and item is not None:
            raise Unreadable(f"Nothing could be learned: {reading.reason}.", "Retry it, or choose another model.")
        facts = [_fact(each, exchange) for each in reading.found]
        vectors = self._embed([passage(fact.text, fact.speaker) for fact in facts]) if facts else None
        learned = Learned(
            method=reading.method,
            reason=reading.reason,
            missed=reading.missed,
            sentences=reading.sentences,
            usage=reading.usage,
            dry_run=dry_run,
        )
        batch = _Batch(exchange, reading.found, facts, vectors)
        learned = self._settle(batch, learned, task, by=by, item=item)
        learned = replace(learned, seconds=time.perf_counter() - began)
        if not dry_run:
            self.told(learned)
        return learned

    # ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _read(self, exchange: Exchange) -> _Reading:
        """The automatic way: what patterns find, and the model where the gate asks for it."""
        verdict = gate.judge(exchange, patterns.find)
        unread = [each for each in verdict.sentences if each.way == "model"]
        thorough = exchange.context == _THOROUGH and bool(exchange.messages)
        about: dict[str, Any] = {"sentences": verdict.sentences, "missed": len(unread)}
        if self.llm and (unread or thorough):
            return self._asked(self.llm, exchange, verdict, about)
        found = verdict.found + tuple(said for each in unread if (said := patterns.as_said(each)))
        found += self._known_of_domain(exchange)
        return _Reading(found=found, method="pattern" if found else "none", reason=_why_not(verdict, found), **about)

    def _known_of_domain(self, exchange: Exchange) -> tuple[Found, ...]:
        """What an agent that watches a domain reports; only where the exchange is said to be such a report."""
        if exchange.context != _ANALYSIS:
            return ()
        return tuple(knowledge.facts("\n".join(each.text for each in exchange.messages if each.role == "assistant")))

    def _asked(self, llm: LLM, exchange: Exchange, verdict: Verdict, about: Mapping[str, Any]) -> _Reading:
        try:
            told = by_model.facts(llm, exchange)
        except Refused as refusal:  # it would refuse again; what the patterns found stands
            method = "pattern" if verdict.found else "none"
            return _Reading(found=verdict.found, method=method, reason=refusal.message, **about)
        found = told.found + tuple(each for each in verdict.found if not _is_covered(each, told.found))
        reason = told.problem or ("" if found else "The model found nothing worth keeping")
        unreadable = bool(told.problem) and not told.found
        return _Reading(found=found, method="llm", reason=reason, usage=told.usage, unreadable=unreadable, **about)

    def _extracted(self, exchange: Exchange) -> _Reading:
        """The explicit way: all of it to the model."""
        if self.llm is None:  # the setting went while the job was waiting
            raise NotConfigured("Extraction by a model is not configured.", "Set EXTRACT_PROVIDER.")
        if not exchange.messages:
            return _Reading(found=(), method="none", reason="Nothing was said")
        told = by_model.facts(self.llm, exchange)
        reason = told.problem or ("" if told.found else "The model found nothing worth keeping")
        unreadable = bool(told.problem) and not told.found
        return _Reading(found=told.found, method="llm", reason=reason, usage=told.usage, unreadable=unreadable)

    # ── deciding and doing ────────────────────────────────────────────────────────────────────────────────────────────

    def _settle(self, batch: _Batch, learned: Learned, task: Task, *, by: str, item: int | None) -> Learned:
        """Decide about every fact and do it. A model takes too long to be asked under the lock."""
        news = self._without_echoes(batch)
        if self.llm and learned.method == "llm" and news:
            settled, usage, problem = self._by_model(self.llm, batch, news)
            learned = replace(learned, usage=learned.usage + usage, reason=learned.reason or problem)
        else:
            settled = None
        with self._deciding:
            for place, each in (settled or self._by_rules(batch, news)).items():
                batch.settled[place] = each
            if learned.dry_run:
                return replace(learned, actions=tuple(_action(each, None) for each in batch.settled))
            return self._applied(batch, learned, by=by, why=f"{task}: {batch.exchange.context}", item=item)

    def _without_echoes(self, batch: _Batch) -> list[int]:
        """The places of the facts that are no echo of what the agent was shown; the others are settled as such."""
        news = []
        for place, (found, fact) in enumerate(zip(batch.found, batch.facts, strict=True)):
            store = self._store if found.role == "assistant" else None
            why = rules.echoes(fact, batch.vector(place), store, batch.exchange.injected)
            if why:
                batch.settled[place] = Settled(fact=fact, reason=why)
            else:
                news.append(place)
        return news

    def _by_rules(self, batch: _Batch, places: Sequence[int]) -> dict[int, Settled]:
        if not places:
            return {}
        facts = [batch.facts[place] for place in places]
        settled = rules.settle(facts, batch.matrix(places), self._store)
        return dict(zip(places, settled, strict=True))

    def _by_model(self, llm: LLM, batch: _Batch, places: Sequence[int]) -> tuple[dict[int, Settled], Usage, str]:
        def novel(fact: Fact, vector: Vector) -> Settled:
            return rules.settle([fact], vector.reshape(1, -1), self._store)[0]

        facts = [batch.facts[place] for place in places]
        settled, usage, problem = reconcile_by_model.settle(
            llm, facts, batch.matrix(places), self._store, novel=novel, floor=self._floor()
        )
        return dict(zip(places, settled, strict=True)), usage, problem

    def _applied(self, batch: _Batch, learned: Learned, *, by: str, why: str, item: int | None) -> Learned:
        self._settle_again_what_has_moved(batch)
        places = [place for place, each in enumerate(batch.settled) if each.decision is not None]
        decisions = [decision for each in batch.settled if (decision := each.decision) is not None]
        if not decisions:
            actions = tuple(_action(each, None) for each in batch.settled)
            reason = learned.reason or next((each.reason for each in batch.settled), "")
            left = replace(learned, actions=actions, reason=reason)
            if item is not None:
                self._store.inbox.settle(_settlement(item, left))
            return left

        def outcome(done: Changeset) -> Learned:
            changes = dict(zip(places, _first_changes(decisions, done.changes), strict=True))
            actions = tuple(_action(each, changes.get(place)) for place, each in enumerate(batch.settled))
            return replace(learned, actions=actions, changeset=done.id)

        settles = (lambda done: _settlement(item, outcome(done))) if item is not None else None
        vectors = self._vectors(batch, decisions, places)
        return outcome(self._store.apply(decisions, vectors, by=by, why=why, settles=settles))

    def _settle_again_what_has_moved(self, batch: _Batch) -> None:
        """What was decided about a memory that is gone or archived by now is decided anew; a deletion is an error."""
        targets = {each.decision.id for each in batch.settled if isinstance(each.decision, Update | Delete | Noop)}
        live = {memory.id for memory in self._store.get(sorted(targets)) if not memory.archived}
        for place, each in enumerate(batch.settled):
            if isinstance(each.decision, Delete) and each.decision.id not in live:
                gone = f"error: memory {each.decision.id} is archived already or gone"
                batch.settled[place] = Settled(fact=each.fact, reason=gone)
            elif isinstance(each.decision, Update | Noop) and each.decision.id not in live:
                batch.settled[place] = rules.settle([each.fact], batch.matrix([place]), self._store)[0]

    def _vectors(self, batch: _Batch, decisions: Sequence[Decision], places: Sequence[int]) -> dict[int, Vector]:
        """By the place of a decision, the vector of the text that it brings; embedded where the model reworded it."""
        vectors: dict[int, Vector] = {}
        reworded: dict[int, str] = {}
        for number, (decision, place) in enumerate(zip(decisions, places, strict=True)):
            if isinstance(decision, Add | Update):
                if decision.fact.text == batch.facts[place].text:
                    vectors[number] = batch.vector(place)
                else:
                    reworded[number] = passage(decision.fact.text, decision.fact.speaker)
        if reworded:
            vectors.update(zip(reworded, self._embed(list(reworded.values())), strict=True))
        return vectors


class _Batch:
    """The facts of one exchange with their vectors, and what is settled of them so far."""

    def __init__(
        self, exchange: Exchange, found: Sequence[Found], facts: Sequence[Fact], vectors: Matrix | None
    ) -> None:
        self.exchange, self.found, self.facts = exchange, found, facts
        self._vectors = vectors
        self.settled: list[Settled] = [Settled(fact=fact) for fact in facts]

    def vector(self, place: int) -> Vector:
        one: Vector = self.matrix([place])[0]
        return one

    def matrix(self, places: Sequence[int]) -> Matrix:
        assert self._vectors is not None  # there are vectors as soon as there are facts
        chosen: Matrix = self._vectors[list(places)]
        return chosen


def _fact(found: Found, exchange: Exchange) -> Fact:
    """The found fact, with whose it is and from where; the sentence that says it helps to find it again."""
    return Fact(
        text=found.text,
        source=exchange.source,
        kind=found.kind,
        category=found.category,
        confidence=found.confidence,
        method=found.method,
        entities=found.entities,
        session=exchange.session,
        agent=exchange.agent,
        visibility=exchange.visibility,
        context=found.said if found.said != found.text else "",
        created_at=exchange.at,
    )


def _is_covered(found: Found, told: Sequence[Found]) -> bool:
    wanted = set(telling(found.text)) - {"user", "team", "policy"}
    return any(len(wanted & set(telling(each.text))) >= _COVERED * len(wanted) for each in told)


def _why_not(verdict: Verdict, found: Sequence[Found]) -> str:
    if found:
        return ""
    return "Looks like a fact, but it takes a model to read it" if verdict.way == "model" else verdict.reason


def _settlement(item: int, learned: Learned) -> Settlement:
    return Settlement(item=item, state=learned.state, reason=learned.reason, result=learned.as_dict())


def _first_changes(decisions: Sequence[Decision], changes: Sequence[Change]) -> list[Change]:
    """The first change of each decision. An update brings two, an addition one more for each further sighting."""
    firsts, place = [], 0
    for decision in decisions:
        firsts.append(changes[place])
        if isinstance(decision, Add):
            place += 1 + len(decision.again)
        else:
            place += 2 if isinstance(decision, Update) or (isinstance(decision, Delete) and decision.into) else 1
    return firsts


def _action(settled: Settled, change: Change | None) -> dict[str, Any]:
    """What was done, or would be, in the shape that clients read."""
    decision, text = settled.decision, settled.fact.text
    told: dict[str, Any] = {"text": text, "kind": settled.fact.kind, "category": settled.fact.category}
    told["reason"] = settled.reason or getattr(decision, "reason", "")
    match decision:
        case Add() if change is not None and change.action == "noop":  # another process was faster
            return {"action": "noop", **told, "existing_id": change.memory_id}
        case Add():
            return {"action": "add", **told, "id": change.memory_id if change else None}
        case Update():
            new_id = change.memory_id if change else None
            return {"action": "update", **told, "text": decision.fact.text, "old_id": decision.id, "new_id": new_id}
        case Delete():
            return {"action": "delete", **told, "old_id": decision.id}
        case Noop():
            return {"action": "noop", **told, "existing_id": decision.id}
    if settled.reason.startswith("error: "):
        return {"action": "error", **told, "error": settled.reason.removeprefix("error: ")}
    return {"action": "rejected", **told}
