"""The learning pipeline: turns an exchange into memories, end to end.

    Exchange ─ gate ─▶ Verdict ─ patterns, model ─▶ [Found] ─ reconcile ─▶ [Settled] ─ store.apply ─▶ Learned
                      of an analysis: [Found] ─ read ─▶ rows of domain knowledge ────────▲

The steps return decisions; this module runs them in order and writes once per exchange, in one transaction that also
settles the inbox item. So an exchange is learned completely or not at all, and never twice. Several exchanges of one
session share their language-model calls: one to extract facts, one to reconcile them.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

from cofio.errors import (
    CofioError,
    Conflict,
    Misconfigured,
    NotConfigured,
    RefusedError,
    TooLarge,
    Unavailable,
    Unreadable,
)
from cofio.ingest import gate
from cofio.ingest.extract import by_judgement, patterns
from cofio.ingest.extract import by_llm as by_model
from cofio.ingest.knowledge import (
    KnowledgeWriter,
    change_summary,
    denies_live_row,
    echo_reason,
    readings_of,
    reasons_left_out,
    shown_rows,
)
from cofio.ingest.reconcile import by_llm as reconcile_by_model
from cofio.ingest.reconcile import decide
from cofio.ingest.reconcile.compare import Comparer
from cofio.judgement.labels import RETRACTION
from cofio.knowledge.extract import extraction
from cofio.knowledge.reconcile import SentenceReading
from cofio.models.exchange import (
    ANALYSIS,
    COMPACT_SUMMARY,
    NOTHING_FOUND,
    OBSERVATION,
    REVIEW,
    Exchange,
    ExtractedFact,
    FactOutcome,
    GateVerdict,
    Item,
    ItemResolution,
    LearningResult,
    Message,
    Sentence,
    State,
    Task,
    TokenUsage,
)
from cofio.models.memory import Add, Change, Changeset, Decision, Delete, Fact, Noop, Update
from cofio.ports import LLM, Judge, Matrix, Store, Vector
from cofio.stores.scoped import of_teller
from cofio.text.tokens import embedding_text, search_terms, tail_of

#: Scope of the language model: everything that may hold a fact, or only what the judgement model is unsure about.
Reads = Literal["all", "doubtful"]
READS: tuple[Reads, ...] = ("all", "doubtful")
_THOROUGH = "pre_compact"  # the transcript is lost afterwards: the model is asked even where the gate finds little
_NUMBERED = re.compile(r"\bmemory \d+")
_REPORTED = ("threshold", "correlation", "pattern")
_BRIEF = 30  # maximum words of a message that only ends a memory
NOT_WORTH_KEEPING = "Nothing that will matter in a month"  # of a tentative fact that changes no memory
SUMMARY = "A compaction summary is kept and not learned from"
MOST_FACTS = 50  # per exchange; more than this is not a normal exchange
_UNREAD = "Try it again, or choose another model with EXTRACT_MODEL."
_COVERED = 0.8  # share of a pattern fact's words in a model fact from which the model fact replaces it
_LOOKED_BACK, _EARLIER = 20, 2  # captures searched before an exchange; turns of its session that are shown
_REVIEWED_BACK = 1_000  # captures before a review searched for turns of its session
_RELATED, _RELATED_EACH, _RELATED_TEXT = 5, 2, 200  # memories shown with an exchange, with each of several; characters
_ASKED_ABOUT = 1_000  # characters of the user's words used to look up related memories
_NO_TURNS = (COMPACT_SUMMARY, REVIEW)  # contexts that are not turns of a conversation
_TRIES = 3  # attempts to write while other processes change the same rows


@dataclass(frozen=True, slots=True, kw_only=True)
class _Extracted:
    """Facts found in one exchange, and how they were found."""

    found: tuple[ExtractedFact, ...]
    method: str
    sentences: tuple[Sentence, ...] = ()
    missed: int = 0
    usage: TokenUsage = TokenUsage()
    reason: str = ""
    unfinished: CofioError | None = None  # why the model has not read it yet


class Learner:
    """Learner of facts from exchanges. It uses the language model where one is configured and needed."""

    def __init__(
        self,
        store: Store,
        embed: Callable[[Sequence[str]], Matrix],
        floor: Callable[[], float],
        llm: LLM | None,
        deciding: threading.RLock,
        anchored: Callable[[Fact], Fact] = lambda fact: fact,
        taken_back: Callable[[], None] = lambda: None,
        *,
        judge: Judge | None = None,
        reads: Reads = "all",
        comparer: Comparer,
    ) -> None:
        self._store = store
        self._reads = reads  # scope of the language model when there is a judge
        self._judge = judge  # None: use patterns
        self._comparer = comparer
        self._embed = embed
        self._floor = floor  # the cosine of unrelated texts: lower scores are not similar
        self.llm = llm
        self._deciding = deciding
        self._anchored = anchored  # adds anchors into the project's source tree to a fact
        self._taken_back = taken_back  # called when a memory was replaced or archived
        self.told: Callable[[LearningResult], None] = lambda _: None  # called for every exchange that was learned from

    def learn(
        self, exchange: Exchange, task: Task, *, by: str, dry_run: bool = False, item: Item | None = None
    ) -> LearningResult:
        """Learn from an exchange and return the outcome. An inbox item is settled in the same transaction.

        If the model is down or its reply is unusable, the facts that patterns found in an item are stored anyway; the
        raised error then means that the rest is still pending.
        """
        (outcome,) = self._learn([_Source(exchange, item)], task, by, dry_run=dry_run)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def learn_items(self, items: Sequence[Item], *, by: str) -> list[LearningResult | Exception]:
        """Learn from inbox items of one session and one task, and return the outcome of each, in order.

        Every item must still have its text. Each is settled in its own transaction; a failing item does not affect the
        others.
        """
        sources = [_Source(item.exchange, item) for item in items if item.exchange]
        return self._learn(sources, items[0].task, by)

    def _learn(
        self, sources: Sequence[_Source], task: Task, by: str, *, dry_run: bool = False
    ) -> list[LearningResult | Exception]:
        began = time.perf_counter()
        if all(each.exchange.context == COMPACT_SUMMARY for each in sources):
            read = self._unread
        else:
            read = self._extracted if task == "extract" else self._read
        jobs = [
            self._job(source, reading, task, by, dry_run)
            for source, reading in zip(sources, read(sources), strict=True)
        ]
        since = self._newest()  # before the model is asked
        self._reconcile(jobs)
        outcomes: list[LearningResult | Exception] = []
        for job in jobs:
            outcome = self._finished(job, since)
            if isinstance(outcome, LearningResult):
                outcome = replace(outcome, seconds=(time.perf_counter() - began) / len(jobs))
                self.told(replace(outcome, actions=outcome.actions[len(job.earlier.actions) :]))
            outcomes.append(outcome if isinstance(outcome, Exception) else job.reading.unfinished or outcome)
        return outcomes

    def _job(self, source: _Source, reading: _Extracted, task: Task, by: str, dry_run: bool) -> _LearningJob:
        earlier = (
            LearningResult.from_dict(source.item.result) if source.item and source.item.result else LearningResult()
        )
        learned = LearningResult(
            actions=earlier.actions,
            knowledge=earlier.knowledge,
            method=reading.method,
            reason="" if earlier.actions and not reading.unfinished else reading.reason,
            missed=reading.missed,
            sentences=reading.sentences,
            usage=reading.usage,
            changeset=earlier.changeset,
            dry_run=dry_run,
        )
        work = _Work(by, f"{task}: {source.exchange.context}", source.item, reading.unfinished is not None)
        job = _LearningJob(reading=reading, earlier=earlier, learned=learned, work=work)
        if reading.found or not reading.unfinished:
            job.batch = self._batch(source.exchange, reading.found)
            job.news = self._without_echoes(job.batch)
        return job

    def _reconcile(self, jobs: Sequence[_LearningJob]) -> None:
        """Let the model decide about the facts it found: one call for all jobs, made before any lock is taken."""
        asked = [job for job in jobs if job.batch and job.news and job.learned.method == "llm"]
        if self.llm is None or not asked or not self.llm.supports_audn:
            return
        usage, problem = self._by_model(self.llm, [(job.batch, job.news) for job in asked if job.batch])
        for job in asked:
            job.is_reconciled = True
            job.learned = replace(job.learned, reason=job.learned.reason or problem)
        asked[0].learned = replace(asked[0].learned, usage=asked[0].learned.usage + usage)

    def _finished(self, job: _LearningJob, since: tuple[int, str]) -> LearningResult | Exception:
        """Write the decisions. Return the error if that fails, or if the model has not read the exchange yet."""
        if job.batch is None:
            self.told(replace(job.learned, actions=(), dry_run=True))  # the call was billed, nothing was learned
            assert job.reading.unfinished
            return job.reading.unfinished
        try:
            with self._deciding:
                if not job.is_reconciled:
                    self._by_rules(job.batch, job.news)
                elif self._newest() != since:
                    self._settle_again_what_has_moved(job.batch, job.news, since[1])
                return self._done(job.batch, job.learned, job.work)
        except CofioError as error:  # the other exchanges of the session continue; the caller gets the error
            return error

    def _batch(self, exchange: Exchange, found: Sequence[ExtractedFact]) -> _ExchangeFacts:
        facts = [self._placed(_fact(each, exchange), exchange) for each in found]
        vectors = self._embed([embedding_text(fact.text, fact.speaker) for fact in facts]) if facts else None
        store = of_teller(self._store, exchange)
        return _ExchangeFacts(
            exchange,
            found,
            facts,
            vectors,
            store,
            readings_of(found, exchange, store) if exchange.context == ANALYSIS else {},
        )

    # ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _read(self, sources: Sequence[_Source]) -> list[_Extracted]:
        """Read without a language model first, then with it where it is configured and more may be found."""
        verdicts = [self._read_locally(source.exchange) for source in sources]
        readings = [self._without_model(*each) for each in zip(sources, verdicts, strict=True)]
        places = [place for place, source in enumerate(sources) if self._asks(source.exchange, verdicts[place])]
        if self.llm is not None and places:
            asked = [(sources[place], verdicts[place], readings[place]) for place in places]
            for place, reading in zip(places, self._read_by_model(asked), strict=True):
                readings[place] = reading
        return readings

    def _read_by_model(self, asked: Sequence[tuple[_Source, GateVerdict, _Extracted]]) -> list[_Extracted]:
        """Let the model read exchanges in one call; split the batch in halves if it is too large or was refused."""
        try:
            told = self._told([source for source, _, _ in asked])
        except (RefusedError, TooLarge) as error:  # a retry would not help: continue as if there were no model
            if len(asked) == 1:
                return [replace(asked[0][2], reason=error.message)]
            half = len(asked) // 2
            return self._read_by_model(asked[:half]) + self._read_by_model(asked[half:])
        except (Unavailable, Misconfigured) as outage:  # retried when this is resolved
            return [
                replace(reading, found=reading.found if source.item else (), unfinished=outage)
                for source, _, reading in asked
            ]
        return [
            self._by_both(source, verdict, found, reading)
            for (source, verdict, reading), found in zip(asked, told, strict=True)
        ]

    def _asks(self, exchange: Exchange, verdict: GateVerdict) -> bool:
        """Return whether the model reads an exchange: it may hold a fact or, if so configured, only if that is in
        doubt.
        """
        if any(sentence.way == "model" for sentence in verdict.sentences) or _is_worth_a_look(exchange, verdict):
            return True
        if self._judge is None or verdict.way == "skip":
            return False
        return self._reads == "all" or any(each.tentative for each in verdict.found)

    def _without_model(self, source: _Source, verdict: GateVerdict) -> _Extracted:
        """Return the facts found without a language model; none if they are stored already."""
        unread = [sentence for sentence in verdict.sentences if sentence.way == "model"]
        read = () if source.is_halfway else verdict.found + self._known_of_domain(source.exchange)
        return _reading(read, sentences=verdict.sentences, missed=len(unread), otherwise=_why_not(verdict))

    def _told(self, sources: Sequence[_Source]) -> list[by_model.LLMExtraction]:
        """Let the model read exchanges of one session; return its facts for each. The first one carries the usage."""
        assert self.llm is not None  # checked by the callers
        told = by_model.facts(self.llm, [source.exchange for source in sources], self._background(sources))
        whole = told.complete and (any(told.found) or not told.problem)
        empty = replace(told, found=(), usage=TokenUsage(), problem="" if whole else told.problem)
        each = [
            replace(empty, found=(found,), problem=told.problem if found else empty.problem) for found in told.found
        ]
        return [replace(each[0], usage=told.usage), *each[1:]]

    def _by_both(
        self, source: _Source, verdict: GateVerdict, told: by_model.LLMExtraction, plainly: _Extracted
    ) -> _Extracted:
        """Return the facts of the model, plus certain facts that it left out."""
        item, halfway = source.item, source.is_halfway
        reported = self._known_of_domain(source.exchange)
        read = () if halfway else verdict.found + reported
        kept = read if told.problem else reported  # a complete answer of the model decides
        known = [ExtractedFact(text=each["text"]) for each in item.result.get("actions", ())] if item else []
        asked = _told_by_model(told, read, known, () if halfway else kept)
        if asked.unfinished and item is None:
            asked = replace(asked, found=())  # the caller gets an error and retries: keep nothing until then
        return replace(asked, sentences=plainly.sentences, missed=plainly.missed)

    def _earlier(self, exchange: Exchange, item: Item | None) -> tuple[Message, ...]:
        """Return the messages of the last turns of the session before an item, as far as recent captures reach."""
        if item is None or not exchange.session or exchange.context == REVIEW:
            return ()
        whose = session_of(exchange)
        items = self._store.inbox.items(limit=_LOOKED_BACK, after=item.id)
        told = [each.exchange for each in items if each.exchange and session_of(each.exchange) == whose]
        turns = [each for each in told if each.context not in _NO_TURNS][:_EARLIER]
        return tuple(message for turn in reversed(turns) for message in turn.messages)

    def _background(self, sources: Sequence[_Source]) -> by_model.Background:
        """Return the model's context for exchanges: earlier turns, and memories similar to the user's words."""
        earlier = self._earlier(sources[0].exchange, sources[0].item)
        said = [
            (
                source.exchange,
                tail_of(
                    " ".join(message.text for message in source.exchange.messages if message.role == "user"),
                    _ASKED_ABOUT,
                ),
            )
            for source in sources
        ]
        asked = [_fact(ExtractedFact(text=text), exchange) for exchange, text in said if text.strip()]
        vectors = self._embed([embedding_text(fact.text, fact.speaker) for fact in asked]) if asked else ()
        most = max(_RELATED_EACH, _RELATED // len(sources))
        memories: dict[int, str] = {}
        for fact, vector in zip(asked, vectors, strict=True):
            near = decide.candidates(fact, vector, of_teller(self._store, sources[0].exchange))
            memories.update((memory.id, f"- {memory.text[:_RELATED_TEXT]}") for memory, _ in near[:most])
        return by_model.Background(earlier=earlier, memories=tuple(memories.values()))

    def _read_locally(self, exchange: Exchange) -> GateVerdict:
        """Return the sentences with their facts, read by the judgement model, or by rules if it is missing."""
        if self._judge is None:
            return gate.judge(exchange, patterns.find)
        return GateVerdict(tuple(by_judgement.read_exchange(exchange, self._judge)))

    def _known_of_domain(self, exchange: Exchange) -> tuple[ExtractedFact, ...]:
        """Return the facts that a domain agent reports; only for exchanges marked as analyses."""
        if exchange.context != ANALYSIS:
            return ()
        return tuple(
            extraction.facts("\n".join(message.text for message in exchange.messages if message.role == "assistant"))
        )

    def _unread(self, sources: Sequence[_Source]) -> list[_Extracted]:
        """Return empty readings: a compaction summary is stored, but not learned from."""
        return [_Extracted(found=(), method="none", reason=SUMMARY) for _ in sources]

    def _extracted(self, sources: Sequence[_Source]) -> list[_Extracted]:
        """Send everything to the model, as the explicit extract task requires."""
        if self.llm is None and all(each.exchange.context == REVIEW for each in sources):
            return [
                _Extracted(found=(), method="none", reason="No language model is configured any more") for _ in sources
            ]
        if self.llm is None:  # the setting was removed while the job was waiting
            raise NotConfigured("Extraction by a model is not configured.", "Set EXTRACT_PROVIDER.")
        silent = _Extracted(found=(), method="none", reason="Nothing was said")
        return [
            _told_by_model(self._told([source])[0], known=self._learned_before(source))
            if source.exchange.messages
            else silent
            for source in sources
        ]

    def _learned_before(self, source: _Source) -> list[ExtractedFact]:
        """Return the facts that the turns of a reviewed session led to, including those undone or removed since."""
        if source.exchange.context != REVIEW or source.item is None:
            return []
        items = self._store.inbox.items(limit=_REVIEWED_BACK, after=source.item.id)
        turns = [item for item in items if session_of(item.exchange) == session_of(source.exchange)]
        return [ExtractedFact(text=action["text"]) for item in turns for action in item.result.get("actions", ())]

    # ── deciding and doing ────────────────────────────────────────────────────────────────────────────────────────────

    def _done(self, batch: _ExchangeFacts, learned: LearningResult, work: _Work) -> LearningResult:
        """Write the decisions with the resulting domain knowledge; decide again if another process was faster."""
        settled = list(batch.settled)
        for left in reversed(range(_TRIES)):
            batch.settled = list(settled)
            rows = KnowledgeWriter(batch)
            rows.decide()
            if learned.dry_run:
                actions = tuple(action for one in batch.settled for action in _actions(one, []))
                return replace(learned, actions=actions, knowledge=tuple(rows.told))
            try:
                return self._applied(batch, rows, learned, work)
            except Conflict:
                if not left or not rows.puts:
                    raise
        raise AssertionError("unreachable")

    def _without_echoes(self, batch: _ExchangeFacts) -> list[int]:
        """Return the places of the facts that are no echoes of shown context; settle the others as echoes."""
        news = []
        left_out = reasons_left_out(batch.heard)
        shown = shown_rows(batch.exchange) if batch.heard else []
        for place, (found, fact) in enumerate(zip(batch.found, batch.facts, strict=True)):
            heard = found.role == "assistant"  # a user may repeat a statement on purpose
            why = ""
            if heard:
                row = batch.heard.get(place)
                against = None if denies_live_row(row, batch.store) else batch.store  # it repeats an overruled row
                why = decide.echo_reason(fact, batch.vector(place), against, batch.exchange.injected, self._comparer)
                why = why or echo_reason(row, shown, batch.store)
            if why := why or left_out.get(place, ""):
                batch.settled[place] = FactOutcome(fact=fact, reason=why)
            else:
                news.append(place)
        return news

    def _by_rules(self, batch: _ExchangeFacts, places: Sequence[int]) -> None:
        if places:
            facts = [batch.facts[place] for place in places]
            batch.take(places, self._settled_locally(facts, batch.matrix(places), batch.store))

    def _settled_locally(self, facts: Sequence[Fact], vectors: Matrix, store: Store) -> list[FactOutcome]:
        return decide.decide_outcomes(facts, vectors, store, self._comparer)

    def _by_model(self, llm: LLM, asked: Sequence[tuple[_ExchangeFacts, Sequence[int]]]) -> tuple[TokenUsage, str]:
        """Let the model decide about the facts at these places; all batches are of one session."""
        store = asked[0][0].store

        def novel(fact: Fact, vector: Vector) -> FactOutcome:
            return self._settled_locally([fact], vector.reshape(1, -1), store)[0]

        facts = [batch.facts[place] for batch, places in asked for place in places]
        vectors = [batch.vector(place) for batch, places in asked for place in places]
        settled, usage, problem = reconcile_by_model.decide_by_llm(
            llm, facts, vectors, store, novel=novel, floor=self._floor()
        )
        rest = iter(settled)
        for batch, places in asked:
            batch.take(places, [next(rest) for _ in places])
            batch.embed_reworded(self._embed)
        return usage, problem

    def _newest(self) -> tuple[int, str]:
        """Return the id and time of the last changeset, to detect concurrent writes."""
        newest = self._store.changesets(1)
        return (newest[0].id, newest[0].at) if newest else (0, "")

    def _settle_again_what_has_moved(self, batch: _ExchangeFacts, places: Sequence[int], since: str) -> None:
        """Re-decide facts if memories changed while the model was running.

        This covers decisions about memories that are gone, and additions that are known by now. A deletion of a memory
        that is gone becomes an error.
        """
        targets = {each.decision.id for each in batch.settled if isinstance(each.decision, Update | Delete | Noop)}
        there = batch.store.get(sorted(targets))
        still = {each.id for each in there if not each.archived and not each.pinned and each.updated_at <= since}
        taken: set[int] = set()
        for place in places:
            each = batch.settled[place]
            again = self._settled_locally([each.fact], batch.matrix([place]), batch.store)[0]
            if isinstance(again.decision, Update) and again.decision.id in taken | targets:
                again = FactOutcome(fact=each.fact, decision=Add(each.fact, "new", unless_known=True))
            unseen = isinstance(again.decision, Update) and self._is_unseen(again.decision.id, since, batch.store)
            went = isinstance(each.decision, Update | Delete | Noop) and each.decision.id not in still
            if went and isinstance(each.decision, Delete):
                gone = f"error: memory {each.decision.id} is gone, pinned or changed by now"
                batch.settled[place] = FactOutcome(fact=each.fact, reason=gone)
            elif went or (isinstance(each.decision, Add) and (unseen or isinstance(again.decision, Noop))):
                batch.take([place], [again])
            decision = batch.settled[place].decision
            taken |= {decision.id} if isinstance(decision, Update | Delete) else set()

    def _is_unseen(self, memory_id: int, since: str, store: Store) -> bool:
        """Return whether a memory was written after the model was asked, e.g. by an earlier exchange of the batch."""
        return any(each.updated_at > since for each in store.get([memory_id]))

    def _applied(
        self, batch: _ExchangeFacts, rows: KnowledgeWriter, learned: LearningResult, work: _Work
    ) -> LearningResult:
        """Apply everything in one transaction, including the settlement of the inbox item."""
        batch.retire_each_once()
        plan = [
            (place, self._reanchored(decision, batch.facts[place], batch.exchange))
            for place, one in enumerate(batch.settled)
            for decision in one.decisions
        ]
        if not plan:
            actions = tuple(action for one in batch.settled for action in _actions(one, []))
            # The audit log groups by reason, so ids are left out: the action holds the memory id.
            reason = learned.reason or _NUMBERED.sub("a memory", next((each.reason for each in batch.settled), ""))
            left = replace(learned, actions=learned.actions + actions, reason=reason)
            if work.item is not None and not work.unfinished:
                self._store.inbox.settle(work.settlement(left))
            return left

        def outcome(done: Changeset) -> LearningResult:
            changes = decide.changes_by_decision([each for _, each in plan], done.changes)
            mine = [(place, change) for (place, _), change in zip(plan, changes, strict=True)]
            actions = tuple(
                action
                for place, one in enumerate(batch.settled)
                for action in _actions(one, [change for at, change in mine if at == place])
            )
            known = learned.knowledge + rows.said_again
            known += tuple(change_summary(each.action, each.ref, each.after or each.before) for each in done.knowledge)
            return replace(learned, actions=learned.actions + actions, knowledge=known, changeset=done.id)

        settles = (lambda done: work.settlement(outcome(done))) if work.item is not None else None
        vectors = {
            number: batch.vector_for(place, each)
            for number, (place, each) in enumerate(plan)
            if isinstance(each, Add | Update)
        }
        decisions = [each for _, each in plan]
        first = {place: number for number, (place, _) in reversed(list(enumerate(plan)))}
        known = rows.decisions(first, decisions)
        series = batch.exchange.series or None
        done = batch.store.apply(
            decisions, vectors, by=work.by, why=work.why, part_of=series, settles=settles, knowledge=known
        )
        if done.takes_back:
            self._taken_back()
        return outcome(done)

    def _reanchored(self, decision: Decision, fact: Fact, exchange: Exchange) -> Decision:
        """Return the decision; if it rewords the fact, with the anchors of the new text."""
        if isinstance(decision, Add | Update) and decision.fact.text != fact.text:
            return replace(decision, fact=self._placed(decision.fact, exchange))
        return decision

    def _placed(self, fact: Fact, exchange: Exchange) -> Fact:
        """Return the fact with anchors into its project's source tree, unless it came in by an API key."""
        return fact if exchange.by_key else self._anchored(fact)


class _ExchangeFacts:
    """Facts of one exchange with their vectors, the store scoped to their author, and the decisions so far."""

    def __init__(
        self,
        exchange: Exchange,
        found: Sequence[ExtractedFact],
        facts: Sequence[Fact],
        vectors: Matrix | None,
        store: Store,
        heard: Mapping[int, SentenceReading] = MappingProxyType({}),
    ) -> None:
        self.exchange, self.found, self.facts, self.store = exchange, found, facts, store
        self.heard = heard  # domain-knowledge rows in the facts, by place
        self._vectors = vectors
        self._reworded: dict[str, Vector] = {}
        self.settled: list[FactOutcome] = [FactOutcome(fact=fact) for fact in facts]

    def take(self, places: Sequence[int], settled: Sequence[FactOutcome]) -> None:
        """Set the decisions of these places.

        An agent's statement changes no memory, except in analyses and observations.
        """
        counts = self.exchange.context in (ANALYSIS, OBSERVATION)
        for place, each in zip(places, settled, strict=True):
            found = self.found[place]
            allowed = each if counts or found.role == "user" else _as_agents_word(each)
            self.settled[place] = _if_worth_keeping(allowed, found)

    def retire_each_once(self) -> None:
        """Drop duplicate retirements: memories that another fact of the exchange already decides about or retires."""
        decided = [each.decision for each in self.settled]
        spoken_for = {each.id for each in decided if isinstance(each, Update | Delete | Noop)}
        for place, each in enumerate(self.settled):
            also = tuple(gone for gone in each.also if gone.id not in spoken_for)
            spoken_for |= {gone.id for gone in also}
            self.settled[place] = replace(each, also=also)

    @property
    def spoken_for(self) -> set[int]:
        """Return the ids of the memories that have a decision."""
        decided = [decision for one in self.settled for decision in one.decisions]
        return {each.id for each in decided if isinstance(each, Update | Delete | Noop)}

    def vector(self, place: int) -> Vector:
        one: Vector = self.matrix([place])[0]
        return one

    def matrix(self, places: Sequence[int]) -> Matrix:
        assert self._vectors is not None  # facts always come with vectors
        chosen: Matrix = self._vectors[list(places)]
        return chosen

    def embed_reworded(self, embed: Callable[[Sequence[str]], Matrix]) -> None:
        """Compute the vectors of texts that the model reworded."""
        texts = [
            embedding_text(each.decision.fact.text, each.decision.fact.speaker)
            for each in self.settled
            if isinstance(each.decision, Add | Update) and each.decision.fact.text != each.fact.text
        ]
        if texts:
            self._reworded.update(zip(texts, embed(texts), strict=True))

    def vector_for(self, place: int, decision: Add | Update) -> Vector:
        """Return the vector of the decision's text."""
        if decision.fact.text == self.facts[place].text:
            return self.vector(place)
        return self._reworded[embedding_text(decision.fact.text, decision.fact.speaker)]


@dataclass(frozen=True, slots=True)
class _Source:
    """Exchange to learn from, with its inbox item if it has one."""

    exchange: Exchange
    item: Item | None = None

    @property
    def is_halfway(self) -> bool:
        """Return whether the facts found without a language model are stored already."""
        return bool(self.item and self.item.result)


@dataclass(slots=True, kw_only=True)
class _LearningJob:
    """Work on one exchange: its reading, and the decisions so far."""

    reading: _Extracted
    earlier: LearningResult  # learned from it earlier
    learned: LearningResult
    work: _Work
    batch: _ExchangeFacts | None = None  # None: nothing is to be written
    news: Sequence[int] = ()  # places of the facts to decide about
    is_reconciled: bool = False  # a language model has decided


@dataclass(frozen=True, slots=True)
class _Work:
    """Author and reason of a change, with the inbox item it belongs to."""

    by: str
    why: str
    item: Item | None
    unfinished: bool  # the model has not read it yet: the item stays pending

    def settlement(self, learned: LearningResult) -> ItemResolution:
        assert self.item is not None
        state: State = "pending" if self.unfinished else learned.state
        result = learned.as_dict()
        return ItemResolution(item=self.item.id, state=state, reason=learned.reason, result=result, read=self.item)


def _reading(found: tuple[ExtractedFact, ...], *, otherwise: str, **about: Any) -> _Extracted:
    """Return a reading of the pattern facts, limited to `MOST_FACTS`."""
    reason = "" if found else otherwise
    if len(found) > MOST_FACTS:
        reason = f"Kept the first {MOST_FACTS} of {len(found)} facts"
    method = "pattern" if found else "none"
    return _Extracted(found=found[:MOST_FACTS], method=method, reason=reason, **about)


def session_of(exchange: Exchange | None) -> tuple[object, ...]:
    """Return the key that turns must share to be shown to the model together."""
    if exchange is None:
        return ()
    session = exchange.client, exchange.session, exchange.source, exchange.project, exchange.series
    whose = exchange.agent, exchange.user, exchange.team, exchange.visibility, exchange.reach, exchange.by_key
    return session + whose


def _told_by_model(
    told: by_model.LLMExtraction,
    read: Sequence[ExtractedFact] = (),
    known: Sequence[ExtractedFact] = (),
    kept: Sequence[ExtractedFact] = (),
) -> _Extracted:
    """Return the model's facts that are not known yet, and the kept facts that it left out.

    `read` holds the facts that were found without it: if the model rewords one, its original sentence is kept.
    """
    (from_model,) = told.found
    found = tuple(_with_sentence(each, read) for each in from_model if not _is_covered(each, known))
    found += tuple(each for each in kept if not _is_covered(each, from_model))
    unread = Unreadable(f"{told.problem[:1].upper()}{told.problem[1:]}.", _UNREAD) if told.problem else None
    return _Extracted(
        found=found[:MOST_FACTS],
        method="llm",
        reason=told.problem or ("" if found else NOTHING_FOUND),
        usage=told.usage,
        unfinished=None if from_model else unread,
    )


def _fact(found: ExtractedFact, exchange: Exchange) -> Fact:
    """Return the fact with its owner and origin; the original sentence becomes its context and helps recall.

    A fact about the person belongs to no project; the project is recorded as `said_in`. A retraction is never stored.
    """
    personal = found.about == "person" and found.kind != RETRACTION and not exchange.by_key
    metadata: dict[str, Any] = {"about": "person", "said_in": exchange.project} if personal else {}
    if found.kind == RETRACTION:
        metadata["retracts"] = True
    return Fact(
        text=found.text,
        source=exchange.source,
        project="" if personal else exchange.project,
        metadata=metadata,
        kind="other" if found.kind == RETRACTION else found.kind,
        category=found.category,
        confidence=found.confidence,
        method=found.method,
        entities=found.entities,
        session=exchange.session,
        agent=exchange.agent,
        user=exchange.user,
        team=exchange.team,
        visibility=exchange.visibility,
        context=found.said if found.said != found.text else "",
        created_at=exchange.at,
    )


def _with_sentence(found: ExtractedFact, read: Sequence[ExtractedFact]) -> ExtractedFact:
    """Return the model's fact with the sentence of the report that it rephrases."""
    reported = (each.said for each in read if each.kind in _REPORTED and each.said and _is_covered(each, [found]))
    return replace(found, said=found.said or next(reported, ""))


def _if_worth_keeping(settled: FactOutcome, found: ExtractedFact) -> FactOutcome:
    """Return the decision; drop a tentative fact unless it changes a memory or probably does.

    A short message that only ends a memory is not stored itself.
    """
    changes = isinstance(settled.decision, Update | Delete)
    if found.tentative and not changes and (found.is_message or settled.chance < decide.PROBABLE):
        return FactOutcome(fact=settled.fact, reason=NOT_WORTH_KEEPING)
    if found.is_message and settled.ends and isinstance(settled.decision, Update) and _is_brief(found.text):
        ended = Delete(settled.decision.id, settled.decision.reason)
        return FactOutcome(fact=settled.fact, decision=ended, also=settled.also)
    return settled


def _as_agents_word(settled: FactOutcome) -> FactOutcome:
    """Return the decision about an agent's statement: it changes no memory."""
    if isinstance(settled.decision, Add | Noop):
        return replace(settled, also=())
    if isinstance(settled.decision, Update):
        kept = Add(settled.fact, f"new; it may replace memory {settled.decision.id}", unless_known=True)
        return FactOutcome(fact=settled.fact, decision=kept)
    return FactOutcome(fact=settled.fact, reason=settled.reason or "an agent's statement ends no memory")


def _is_brief(text: str) -> bool:
    return len(text.split()) <= _BRIEF


def _is_covered(found: ExtractedFact, told: Sequence[ExtractedFact]) -> bool:
    wanted = set(search_terms(found.text)) - {"user", "team", "policy"}
    return any(len(wanted & set(search_terms(each.text))) >= _COVERED * len(wanted) for each in told)


def _is_worth_a_look(exchange: Exchange, verdict: GateVerdict) -> bool:
    """Return whether to ask the model although no sentence calls for it.

    This holds before compaction, when the transcript is lost afterwards, and for an observation without pattern matches
    that is more than a greeting or a question.
    """
    if exchange.context == OBSERVATION:
        return not verdict.found and any(sentence.reason == gate.NOTHING for sentence in verdict.sentences)
    return exchange.context == _THOROUGH and bool(exchange.messages)


def _why_not(verdict: GateVerdict) -> str:
    return "Looks like a fact, but only a model can read it" if verdict.reason == gate.UNREAD else verdict.reason


def _actions(settled: FactOutcome, changes: Sequence[Change]) -> Iterator[dict[str, Any]]:
    """Yield the actions done for a fact, or planned in a dry run, in the API format."""
    if settled.reason == NOT_WORTH_KEEPING:
        return
    yield _action(settled, changes[0] if changes else None)
    for gone in settled.also:
        told = {"text": settled.fact.text, "kind": settled.fact.kind, "category": settled.fact.category}
        yield {"action": "delete", **told, "reason": gone.reason, "old_id": gone.id}


def _action(settled: FactOutcome, change: Change | None) -> dict[str, Any]:
    """Return the action done, or planned in a dry run, in the API format."""
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
