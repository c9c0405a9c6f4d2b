"""The learning pipeline: turns an exchange into memories, end to end.

    Exchange ─ gate or judge ─▶ GateVerdict ─ language model ─▶ _Reading ─ reconcile ─▶ [FactOutcome]
             ─ rows of domain knowledge, of an analysis ─▶ store.apply ─▶ LearningResult

The steps return decisions; this module runs them in order and writes once per exchange, in one transaction that also
settles the inbox item. So an exchange is learned completely or not at all, and never twice. Several exchanges of one
session share their language-model calls: one to extract facts, one to reconcile them.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from cofio.domain_knowledge.from_text import extraction
from cofio.errors import (
    CofioError,
    Misconfigured,
    NotConfigured,
    RefusedError,
    TooLarge,
    Unavailable,
    Unreadable,
)
from cofio.ingest import gate, voices
from cofio.ingest.domain_knowledge import (
    KnowledgeWriter,
    change_summary,
    denies_live_row,
    echo_reason,
    readings_of,
    reasons_left_out,
    shown_rows,
)
from cofio.ingest.exchange_facts import ExchangeFacts, list_actions
from cofio.ingest.extract import by_judgement, patterns
from cofio.ingest.extract import by_llm as extract_by_llm
from cofio.ingest.reconcile import by_llm as reconcile_by_llm
from cofio.ingest.reconcile import decide
from cofio.ingest.reconcile.compare import Comparer
from cofio.ingest.review import REASON, hold_candidate
from cofio.ingest.voices import SPEAKER, SeparatedExchange
from cofio.judgement.labels import RETRACTION
from cofio.models.exchange import (
    AGENT_TEXT,
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
    Sentence,
    State,
    Task,
    TokenUsage,
)
from cofio.models.memory import Add, Change, Changeset, Decision, Delete, Fact, Noop, Update
from cofio.models.provenance import least_trusted, role_provenance
from cofio.ports import LLM, Basis, Clock, Judge, Matrix, Store, Vector
from cofio.stores.scoped import scope_to_owner
from cofio.text.tokens import embedding_text, search_terms, tail_of

#: Scope of the language model: everything that may hold a fact, or only what the judgement model is unsure about.
Reads = Literal["all", "doubtful"]
_THOROUGH = "pre_compact"  # the transcript is lost afterwards: the model is asked even where the gate finds little
_NUMBERED = re.compile(r"\bmemory \d+")
_REPORTED = ("threshold", "correlation", "pattern")
SUMMARY = "A compaction summary is kept and not learned from"
MOST_FACTS = 50  # per exchange; more than this is not a normal exchange
_COVERED = 0.8  # share of a pattern fact's words in a model fact from which the model fact replaces it
_LOOKED_BACK, _EARLIER = 20, 2  # captures searched before an exchange; turns of its session that are shown
_REVIEWED_BACK = 1_000  # captures before a review searched for turns of its session
_RELATED, _RELATED_EACH, _RELATED_TEXT = 5, 2, 200  # memories shown with an exchange, with each of several; characters
_ASKED_ABOUT = 1_000  # characters of the user's words used to look up related memories
_NO_TURNS = (COMPACT_SUMMARY, REVIEW)  # contexts that are not turns of a conversation


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """Facts found in one exchange, and how they were found."""

    facts: tuple[ExtractedFact, ...] = ()
    method: str = "none"
    sentences: tuple[Sentence, ...] = ()
    missed: int = 0
    usage: TokenUsage = TokenUsage()
    reason: str = ""
    unfinished: CofioError | None = None  # why the model has not read it yet


@dataclass(slots=True, kw_only=True)
class _LearningJob:
    """Work on one exchange, from its reading to the decisions about its facts."""

    exchange: Exchange
    separated: SeparatedExchange
    item: Item | None
    task: Task
    by: str
    verdict: GateVerdict = GateVerdict(())  # of a reading without a language model
    reading: _Reading = _Reading()
    earlier: LearningResult = LearningResult()  # learned from it in an earlier attempt
    learned: LearningResult = LearningResult()
    batch: ExchangeFacts | None = None  # None: nothing is to be written
    held: dict[int, str] = field(default_factory=dict)  # reasons by place: facts that a person has to approve
    news: Sequence[int] = ()  # places of the facts to decide about
    is_reconciled: bool = False  # a language model has decided

    @property
    def is_halfway(self) -> bool:
        """Return whether the facts found without a language model are stored already."""
        return bool(self.item and self.item.result)

    def resolve(self, item: Item, learned: LearningResult) -> ItemResolution:
        """Return the resolution of the inbox item; it stays pending until the model has read it."""
        state: State = "pending" if self.reading.unfinished else learned.state
        return ItemResolution(item=item.id, state=state, reason=learned.reason, result=learned.as_dict(), read=item)


class _NothingToWrite(Exception):
    """Every fact of the exchange is known or rejected."""


class _WritePlan:
    """Decisions about the facts of an exchange: about memories, which are in the batch, and about rows of knowledge."""

    def __init__(self, batch: ExchangeFacts, rows: KnowledgeWriter) -> None:
        self.batch, self.rows = batch, rows
        self.steps: list[tuple[int, Decision]] = []  # decisions about memories, each with the place of its fact

    def choose_steps(self, add_anchors: Callable[[Fact, Exchange], Fact]) -> None:
        """List the decisions about memories."""
        self.batch.drop_repeated_retirements()
        for place, outcome in enumerate(self.batch.settled):
            for decision in outcome.decisions:
                if (
                    isinstance(decision, Add | Update) and decision.fact.text != self.batch.facts[place].text
                ):  # reworded
                    decision = replace(decision, fact=add_anchors(decision.fact, self.batch.exchange))
                self.steps.append((place, decision))

    def list_decisions(self) -> tuple[list[Decision], dict[int, Vector]]:
        """Return all decisions, and the vectors of new texts by the index of their decision."""
        decisions = [decision for _, decision in self.steps]
        first = {place: number for number, (place, _) in reversed(list(enumerate(self.steps)))}
        vectors = {
            number: self.batch.vector_for(place, decision)
            for number, (place, decision) in enumerate(self.steps)
            if isinstance(decision, Add | Update)
        }
        return [*decisions, *self.rows.decisions(first, decisions)], vectors

    def list_actions(self, changes: Sequence[tuple[int, Change]] = ()) -> tuple[dict[str, Any], ...]:
        """Return the actions for each fact, given the changes with the places of their facts."""
        return tuple(
            action
            for place, outcome in enumerate(self.batch.settled)
            for action in list_actions(outcome, [change for at, change in changes if at == place])
        )

    def build_result(self, learned: LearningResult, changeset: Changeset) -> LearningResult:
        """Return the result with the actions of a changeset."""
        changes = decide.changes_by_decision([decision for _, decision in self.steps], changeset.changes)
        actions = self.list_actions([(place, change) for (place, _), change in zip(self.steps, changes, strict=True)])
        knowledge = tuple(
            change_summary(change.action, change.ref, change.after or change.before) for change in changeset.knowledge
        )
        return replace(
            learned,
            actions=learned.actions + actions,
            knowledge=learned.knowledge + self.rows.unchanged_rows + knowledge,
            changeset=changeset.id,
        )


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
        clock: Clock,
    ) -> None:
        self._store = store
        self._reads = reads  # scope of the language model when there is a judge
        self._judge = judge  # None: use patterns
        self._comparer = comparer
        self._clock = clock
        self._embed = embed
        self._floor = floor  # the cosine of unrelated texts: lower scores are not similar
        self.llm = llm
        self._deciding = deciding
        self._anchored = anchored  # adds anchors into the project's source tree to a fact
        self._taken_back = taken_back  # called when a memory was replaced or archived
        self.on_learned: Callable[[LearningResult], None] = lambda _: None  # called after each exchange

    def learn(
        self, exchange: Exchange, task: Task, *, by: str, dry_run: bool = False, item: Item | None = None
    ) -> LearningResult:
        """Learn from an exchange and return the outcome. An inbox item is settled in the same transaction.

        If the model is down or its reply is unusable, the facts that patterns found in an item are stored anyway; the
        raised error then means that the rest is still pending.
        """
        (outcome,) = self._learn([self._start_job(exchange, item, task, by)], dry_run=dry_run)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def learn_items(self, items: Sequence[Item], *, by: str) -> list[LearningResult | Exception]:
        """Learn from inbox items of one session and one task, and return the outcome of each, in order.

        Every item must still have its text. Each is settled in its own transaction; a failing item does not affect the
        others.
        """
        task = items[0].task
        return self._learn([self._start_job(item.exchange, item, task, by) for item in items if item.exchange])

    def _start_job(self, exchange: Exchange, item: Item | None, task: Task, by: str) -> _LearningJob:
        is_read = exchange.context != COMPACT_SUMMARY
        separated = voices.separate(exchange, self._judge) if is_read else SeparatedExchange(exchange, exchange)
        return _LearningJob(exchange=exchange, separated=separated, item=item, task=task, by=by)

    def _learn(self, jobs: Sequence[_LearningJob], *, dry_run: bool = False) -> list[LearningResult | Exception]:
        began = time.perf_counter()
        if all(job.exchange.context == COMPACT_SUMMARY for job in jobs):
            for job in jobs:
                job.reading = _Reading(reason=SUMMARY)
        elif jobs[0].task == "extract":
            self._extract(jobs)
        else:
            self._read(jobs)
        for job in jobs:
            self._prepare_facts(job, dry_run=dry_run)
        since = self._store.newest_changeset()  # before the model is asked
        self._reconcile(jobs)
        outcomes: list[LearningResult | Exception] = []
        for job in jobs:
            outcome = self._finish(job, since)
            if isinstance(outcome, LearningResult):
                outcome = replace(outcome, seconds=(time.perf_counter() - began) / len(jobs))
                self.on_learned(replace(outcome, actions=outcome.actions[len(job.earlier.actions) :]))
            outcomes.append(outcome if isinstance(outcome, Exception) else job.reading.unfinished or outcome)
        return outcomes

    # ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _read(self, jobs: Sequence[_LearningJob]) -> None:
        """Read without a language model first, then with it where it is configured and more may be found."""
        for job in jobs:
            self._read_without_model(job)
        open_jobs = [job for job in jobs if self._needs_model(job)]
        if self.llm is not None and open_jobs:
            self._read_by_model(open_jobs)

    def _read_without_model(self, job: _LearningJob) -> None:
        """Read with the judgement model, or by rules if it is missing; keep the facts that are not stored yet."""
        own = job.separated.own
        if self._judge is None:
            sentences = gate.judge(own, patterns.find).sentences
        else:
            sentences = tuple(by_judgement.read_exchange(own, self._judge))
        job.verdict = GateVerdict((*sentences, *job.separated.skipped))
        found = (*job.verdict.found, *_find_domain_facts(own), *job.separated.adopted)
        facts = () if job.is_halfway else tuple(fact for fact in found if not job.separated.is_others(fact))
        reason = ""
        if len(facts) > MOST_FACTS:
            reason = f"Kept the first {MOST_FACTS} of {len(facts)} facts"
        elif not facts:
            unread = job.verdict.reason == gate.UNREAD
            reason = "Looks like a fact, but only a model can read it" if unread else job.verdict.reason
        job.reading = _Reading(
            facts=facts[:MOST_FACTS],
            method="pattern" if facts else "none",
            reason=reason,
            sentences=job.verdict.sentences,
            missed=sum(sentence.way == "model" for sentence in job.verdict.sentences),
        )

    def _needs_model(self, job: _LearningJob) -> bool:
        """Return whether the model reads an exchange: it may hold a fact or, if so configured, is in doubt."""
        exchange, verdict = job.separated.own, job.verdict
        if any(sentence.way == "model" for sentence in verdict.sentences):
            return True
        if exchange.context == OBSERVATION:  # without pattern matches, and more than a greeting or a question
            is_open = not verdict.found and any(sentence.reason == gate.NOTHING for sentence in verdict.sentences)
        else:
            is_open = exchange.context == _THOROUGH and bool(exchange.messages)
        if is_open or self._judge is None or verdict.way == "skip":
            return is_open
        return self._reads == "all" or any(fact.tentative for fact in verdict.found)

    def _read_by_model(self, jobs: Sequence[_LearningJob]) -> None:
        """Let the model read exchanges in one call; split the batch in halves if it is too large or was refused."""
        try:
            replies = self._extract_by_model(jobs)
        except (RefusedError, TooLarge) as error:  # a retry would not help: continue as if there were no model
            if len(jobs) > 1:
                self._read_by_model(jobs[: len(jobs) // 2])
                self._read_by_model(jobs[len(jobs) // 2 :])
            else:
                jobs[0].reading = replace(jobs[0].reading, reason=error.message)
        except (Unavailable, Misconfigured) as outage:  # retried when this is resolved
            for job in jobs:
                facts = job.reading.facts if job.item else ()
                job.reading = replace(job.reading, facts=facts, unfinished=outage)
        else:
            for job, reply in zip(jobs, replies, strict=True):
                self._combine_facts(job, reply)

    def _extract_by_model(self, jobs: Sequence[_LearningJob]) -> list[extract_by_llm.LLMExtraction]:
        """Let the model read exchanges of one session; return its facts for each. The first one carries the usage."""
        assert self.llm is not None  # checked by the callers
        background = self._collect_background(jobs)
        reply = extract_by_llm.facts(self.llm, [job.separated.marked for job in jobs], background)
        is_usable = reply.complete and (any(reply.found) or not reply.problem)
        found = [
            tuple(fact for fact in facts if not job.separated.is_others(fact))
            for job, facts in zip(jobs, reply.found, strict=True)
        ]
        return [
            replace(
                reply,
                found=(facts,),
                usage=TokenUsage() if place else reply.usage,
                problem=reply.problem if facts or not is_usable else "",
            )
            for place, facts in enumerate(found)
        ]

    def _combine_facts(self, job: _LearningJob, reply: extract_by_llm.LLMExtraction) -> None:
        """Keep the facts of the model, plus certain facts that it left out."""
        known_facts = _list_learned(job.item) if job.item else []
        if job.is_halfway:
            reading = _select_new_facts(reply, (), known_facts)
        else:
            reported = (*_find_domain_facts(job.separated.own), *job.separated.adopted)
            local_facts = job.verdict.found + reported
            fallback = local_facts if reply.problem else reported  # a complete answer of the model decides
            reading = _select_new_facts(reply, local_facts, known_facts, fallback)
        if reading.unfinished and job.item is None:
            reading = replace(reading, facts=())  # the caller gets an error and retries: keep nothing until then
        job.reading = replace(reading, sentences=job.reading.sentences, missed=job.reading.missed)

    def _collect_background(self, jobs: Sequence[_LearningJob]) -> extract_by_llm.Background:
        """Return the model's context for exchanges: earlier turns, and memories similar to the user's words."""
        exchange, item = jobs[0].exchange, jobs[0].item
        turns: list[Exchange] = []
        if item is not None and exchange.session and exchange.context != REVIEW:
            items = self._store.inbox.items(limit=_LOOKED_BACK, after=item.id)
            same_session = (
                earlier.exchange
                for earlier in items
                if earlier.exchange and session_of(earlier.exchange) == session_of(exchange)
            )
            turns = [turn for turn in same_session if turn.context not in _NO_TURNS][:_EARLIER]

        queries: list[Fact] = []
        for job in jobs:
            spoken = " ".join(message.text for message in job.separated.own.messages if message.role == "user")
            if (text := tail_of(spoken, _ASKED_ABOUT)).strip():
                queries.append(_build_fact(ExtractedFact(text=text), job.exchange))
        vectors = self._embed([embedding_text(fact.text, fact.speaker) for fact in queries]) if queries else ()
        most = max(_RELATED_EACH, _RELATED // len(jobs))
        memories: dict[int, str] = {}
        for fact, vector in zip(queries, vectors, strict=True):
            near = decide.candidates(fact, vector, scope_to_owner(self._store, exchange))
            memories.update((memory.id, f"- {memory.text[:_RELATED_TEXT]}") for memory, _ in near[:most])
        return extract_by_llm.Background(
            earlier=tuple(message for turn in reversed(turns) for message in turn.messages),
            memories=tuple(memories.values()),
        )

    def _extract(self, jobs: Sequence[_LearningJob]) -> None:
        """Send everything to the model, as the explicit extract task requires."""
        if self.llm is None and not all(job.exchange.context == REVIEW for job in jobs):
            raise NotConfigured(  # the setting was removed while the job was waiting
                "No language model is configured for extraction.",
                "Set EXTRACT_PROVIDER to anthropic, openai or ollama.",
            )
        for job in jobs:
            if self.llm is None:
                job.reading = _Reading(reason="No language model is configured any more")
            elif not job.separated.own.messages:
                job.reading = _Reading(reason="Nothing was said")
            else:
                (reply,) = self._extract_by_model([job])
                known_facts: list[ExtractedFact] = []
                if job.exchange.context == REVIEW and job.item is not None:  # also those undone or removed since
                    items = self._store.inbox.items(limit=_REVIEWED_BACK, after=job.item.id)
                    turns = [turn for turn in items if session_of(turn.exchange) == session_of(job.exchange)]
                    known_facts = [fact for turn in turns for fact in _list_learned(turn)]
                job.reading = _select_new_facts(reply, known_facts=known_facts)

    # ── deciding ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _prepare_facts(self, job: _LearningJob, *, dry_run: bool) -> None:
        """Give the facts of an exchange their owner, anchors and vectors, and start its result."""
        exchange, reading = job.exchange, job.reading
        if job.item and job.item.result:
            job.earlier = LearningResult.from_dict(job.item.result)
        job.learned = LearningResult(
            actions=job.earlier.actions,
            knowledge=job.earlier.knowledge,
            method=reading.method,
            reason="" if job.earlier.actions and not reading.unfinished else reading.reason,
            missed=reading.missed,
            sentences=reading.sentences,
            usage=reading.usage,
            changeset=job.earlier.changeset,
            dry_run=dry_run,
        )
        if reading.facts or not reading.unfinished:
            facts = [self._add_anchors(_build_fact(extracted, exchange), exchange) for extracted in reading.facts]
            vectors = self._embed([embedding_text(fact.text, fact.speaker) for fact in facts]) if facts else None
            store = scope_to_owner(self._store, exchange)
            rows = readings_of(reading.facts, exchange, store) if exchange.context == ANALYSIS else {}
            job.batch = ExchangeFacts(exchange, reading.facts, facts, vectors, store, rows)
            job.news = self._select_news(job, job.batch)

    def _select_news(self, job: _LearningJob, batch: ExchangeFacts) -> list[int]:
        """Return the places of the facts to decide about; settle echoes of context and what is held for review."""
        new_places = []
        suspects = job.separated.find_suspects() if batch.facts else []
        left_out = reasons_left_out(batch.readings)
        injected = shown_rows(batch.exchange) if batch.readings else []
        for place, (extracted, fact) in enumerate(zip(batch.extracted, batch.facts, strict=True)):
            why = ""
            if extracted.role == "assistant":  # a user may repeat a statement on purpose
                row = batch.readings.get(place)
                against = None if denies_live_row(row, batch.store) else batch.store  # it repeats an overruled row
                why = decide.echo_reason(fact, batch.vector(place), against, batch.exchange.injected, self._comparer)
                why = why or echo_reason(row, injected, batch.store)
            if not why and (reason := voices.find_review_reason(extracted, suspects)):
                job.held[place] = reason
                why = REASON.format(reason)
            if why := why or left_out.get(place, ""):
                batch.settled[place] = FactOutcome(fact=fact, reason=why)
            else:
                new_places.append(place)
        return new_places

    def _reconcile(self, jobs: Sequence[_LearningJob]) -> None:
        """Let the model decide about the facts it found: one call for all jobs, made before any lock is taken."""
        open_jobs = [(job, job.batch) for job in jobs if job.batch and job.news and job.learned.method == "llm"]
        if self.llm is None or not open_jobs or not self.llm.supports_audn:
            return
        store, now = open_jobs[0][1].store, self._clock()

        def novel(fact: Fact, vector: Vector) -> FactOutcome:
            return decide.decide_outcomes([fact], vector.reshape(1, -1), store, self._comparer, now=now)[0]

        facts = [batch.facts[place] for job, batch in open_jobs for place in job.news]
        vectors = [batch.vector(place) for job, batch in open_jobs for place in job.news]
        decided, usage, problem = reconcile_by_llm.decide_by_llm(
            self.llm, facts, vectors, store, novel=novel, now=now, floor=self._floor()
        )
        outcomes = iter(decided)
        for job, batch in open_jobs:
            batch.take(job.news, [next(outcomes) for _ in job.news])
            batch.embed_reworded(self._embed)
            job.is_reconciled = True
            job.learned = replace(job.learned, reason=job.learned.reason or problem)
        first = open_jobs[0][0]
        first.learned = replace(first.learned, usage=first.learned.usage + usage)

    def _redecide_changed(self, batch: ExchangeFacts, places: Sequence[int], since: int) -> None:
        """Re-decide facts if memories changed while the model was running.

        This covers decisions about memories that are gone, and additions that are known by now. A deletion of a memory
        that is gone becomes an error.
        """
        targets = {
            outcome.decision.id for outcome in batch.settled if isinstance(outcome.decision, Update | Delete | Noop)
        }
        edited = self._store.usage.touched(sorted(targets), since, sightings=False)
        memories = batch.store.get(sorted(targets))
        still = {memory.id for memory in memories if not memory.archived and not memory.pinned} - edited
        taken_ids: set[int] = set()
        for place in places:
            outcome = batch.settled[place]
            (again,) = decide.decide_outcomes(
                [outcome.fact], batch.matrix([place]), batch.store, self._comparer, now=self._clock()
            )
            if isinstance(again.decision, Update) and again.decision.id in taken_ids | targets:
                again = FactOutcome(fact=outcome.fact, decision=Add(outcome.fact, "new", unless_known=True))
            # Written after the model was asked, e.g. by an earlier exchange of the batch.
            unseen = isinstance(again.decision, Update) and bool(
                self._store.usage.touched([again.decision.id], since, sightings=False)
            )
            is_gone = isinstance(outcome.decision, Update | Delete | Noop) and outcome.decision.id not in still
            if is_gone and isinstance(outcome.decision, Delete):
                reason = f"error: memory {outcome.decision.id} is gone, pinned or changed by now"
                batch.settled[place] = FactOutcome(fact=outcome.fact, reason=reason)
            elif is_gone or (isinstance(outcome.decision, Add) and (unseen or isinstance(again.decision, Noop))):
                batch.take([place], [again])
            decision = batch.settled[place].decision
            taken_ids |= {decision.id} if isinstance(decision, Update | Delete) else set()

    # ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _finish(self, job: _LearningJob, since: int) -> LearningResult | Exception:
        """Write the decisions. Return the error if that fails, or if the model has not read the exchange yet."""
        batch = job.batch
        if batch is None:
            self.on_learned(replace(job.learned, actions=(), dry_run=True))  # the call was billed, nothing was learned
            assert job.reading.unfinished
            return job.reading.unfinished
        settled = list(batch.settled)

        def decide_facts() -> _WritePlan:
            batch.settled = list(settled)
            if not job.is_reconciled and job.news:
                facts, vectors = [batch.facts[place] for place in job.news], batch.matrix(job.news)
                batch.take(
                    job.news, decide.decide_outcomes(facts, vectors, batch.store, self._comparer, now=self._clock())
                )
            elif job.is_reconciled and self._store.newest_changeset() != since:
                self._redecide_changed(batch, job.news, since)
            rows = KnowledgeWriter(batch, self._clock())
            rows.decide()
            return _WritePlan(batch, rows)

        try:
            self._hold_for_review(job, batch)
            with self._deciding:
                return self._write(job, decide_facts)
        except CofioError as error:  # the other exchanges of the session continue; the caller gets the error
            return error

    def _hold_for_review(self, job: _LearningJob, batch: ExchangeFacts) -> None:
        """Park the facts that a person has to approve; a candidate that is parked already stays so."""
        inbox = self._store.inbox
        for place, reason in job.held.items() if not job.learned.dry_run else ():
            hold_candidate(inbox, batch.facts[place], reason, exchange=job.exchange, parking=inbox)

    def _write(self, job: _LearningJob, decide_facts: Callable[[], _WritePlan]) -> LearningResult:
        """Write everything in one transaction, including the settlement of the inbox item."""
        learned, item, as_of = job.learned, job.item, self._store.newest_changeset()
        plan = decide_facts()
        if learned.dry_run:
            return replace(learned, actions=plan.list_actions(), knowledge=tuple(plan.rows.preview()))

        def build_decisions() -> tuple[list[Decision], dict[int, Vector]]:
            plan.choose_steps(self._add_anchors)
            return plan.list_decisions()

        def decide_again() -> tuple[list[Decision], dict[int, Vector]]:
            nonlocal plan
            plan = decide_facts()
            decisions, vectors = build_decisions()
            if not plan.steps:
                raise _NothingToWrite
            return decisions, vectors

        with suppress(_NothingToWrite):
            decisions, vectors = build_decisions()
            if not plan.steps:
                raise _NothingToWrite
            changeset = plan.batch.store.apply(
                decisions,
                vectors,
                by=job.by,
                why=f"{job.task}: {job.exchange.context}",
                part_of=job.exchange.series or None,
                settles=(lambda changeset: job.resolve(item, plan.build_result(learned, changeset))) if item else None,
                basis=Basis(as_of, decide_again),
            )
            if changeset.takes_back:
                self._taken_back()
            return plan.build_result(learned, changeset)
        # The audit log groups by reason, so ids are left out: the action holds the memory id.
        reason = _NUMBERED.sub("a memory", next((outcome.reason for outcome in plan.batch.settled), ""))
        result = replace(learned, actions=learned.actions + plan.list_actions(), reason=learned.reason or reason)
        if item is not None and not job.reading.unfinished:
            self._store.inbox.settle(job.resolve(item, result))
        return result

    def _add_anchors(self, fact: Fact, exchange: Exchange) -> Fact:
        """Return the fact with anchors into its project's source tree, unless it came in by an API key."""
        return fact if exchange.by_key else self._anchored(fact)


def session_of(exchange: Exchange | None) -> tuple[object, ...]:
    """Return the key that turns must share to be shown to the model together."""
    if exchange is None:
        return ()
    session = exchange.client, exchange.session, exchange.source, exchange.project, exchange.series
    whose = exchange.agent, exchange.user, exchange.team, exchange.visibility, exchange.reach, exchange.by_key
    return session + whose


def _list_learned(item: Item) -> list[ExtractedFact]:
    return [ExtractedFact(text=action["text"]) for action in item.result.get("actions", ())]


def _find_domain_facts(exchange: Exchange) -> tuple[ExtractedFact, ...]:
    """Return the facts that a domain agent reports; only for exchanges marked as analyses."""
    if exchange.context != ANALYSIS:
        return ()
    report = "\n".join(message.text for message in exchange.messages if message.role == "assistant")
    return tuple(extraction.facts(report))


def _select_new_facts(
    reply: extract_by_llm.LLMExtraction,
    local_facts: Sequence[ExtractedFact] = (),
    known_facts: Sequence[ExtractedFact] = (),
    fallback: Sequence[ExtractedFact] = (),
) -> _Reading:
    """Return the model's new facts, with the sentences that they reword, and the fallback facts that it left out."""
    (from_model,) = reply.found
    reported = [fact for fact in local_facts if fact.kind in _REPORTED and fact.said]
    facts = []
    for fact in from_model:
        if not _is_covered(fact, known_facts):
            said = fact.said or next((local.said for local in reported if _is_covered(local, [fact])), "")
            facts.append(replace(fact, said=said))
    facts += [fact for fact in fallback if not _is_covered(fact, from_model)]
    unread = None
    if reply.problem and not from_model:
        message = f"{reply.problem[:1].upper()}{reply.problem[1:]}."
        unread = Unreadable(message, "Try again, or choose another model with EXTRACT_MODEL.")
    return _Reading(
        facts=tuple(facts[:MOST_FACTS]),
        method="llm",
        reason=reply.problem or ("" if facts else NOTHING_FOUND),
        usage=reply.usage,
        unfinished=unread,
    )


def _is_covered(fact: ExtractedFact, others: Sequence[ExtractedFact]) -> bool:
    terms = set(search_terms(fact.text)) - {"user", "team", "policy"}
    return any(len(terms & set(search_terms(other.text))) >= _COVERED * len(terms) for other in others)


def _build_fact(extracted: ExtractedFact, exchange: Exchange) -> Fact:
    """Return the fact with its owner and origin; the original sentence becomes its context and helps recall.

    A fact about the person belongs to no project; the project is recorded as `said_in`. A retraction is never stored.
    """
    personal = extracted.about == "person" and extracted.kind != RETRACTION and not exchange.by_key
    metadata: dict[str, Any] = {"about": "person", "said_in": exchange.project} if personal else {}
    if extracted.kind == RETRACTION:
        metadata["retracts"] = True
    return Fact(
        text=extracted.text,
        source=exchange.source,
        project="" if personal else exchange.project,
        metadata=metadata,
        kind="other" if extracted.kind == RETRACTION else extracted.kind,
        category=extracted.category,
        confidence=extracted.confidence,
        method=extracted.method,
        entities=extracted.entities,
        session=exchange.session,
        agent=exchange.agent,
        user=exchange.user,
        team=exchange.team,
        visibility=exchange.visibility,
        context=extracted.said if extracted.said != extracted.text else "",
        created_at=exchange.at,
        provenance=least_trusted(
            extracted.provenance or role_provenance(extracted.role),
            "assistant" if exchange.context == AGENT_TEXT else "user",
        ),
        author=extracted.author,
        speaker=(extracted.author or SPEAKER) if extracted.provenance == voices.PASTED else "",
    )
