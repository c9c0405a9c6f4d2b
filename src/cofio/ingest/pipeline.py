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

from cofio.domain_knowledge.extract import extraction
from cofio.domain_knowledge.reconcile_rows import SentenceReading
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
from cofio.ingest.domain_knowledge import (
    KnowledgeWriter,
    change_summary,
    denies_live_row,
    echo_reason,
    readings_of,
    reasons_left_out,
    shown_rows,
)
from cofio.ingest.extract import by_judgement, patterns
from cofio.ingest.extract import by_llm as by_model
from cofio.ingest.reconcile import by_llm as reconcile_by_model
from cofio.ingest.reconcile import decide
from cofio.ingest.reconcile.compare import Comparer
from cofio.judgement.labels import RETRACTION
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
from cofio.ports import LLM, Judge, Matrix, MemoryQueries, Store, Vector
from cofio.stores.scoped import scope_to_owner
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
        if all(source.exchange.context == COMPACT_SUMMARY for source in sources):
            reader = self._skip_summaries
        else:
            reader = self._extract if task == "extract" else self._read
        jobs = [
            self._build_job(source, reading, task, by, dry_run)
            for source, reading in zip(sources, reader(sources), strict=True)
        ]
        since = self._get_last_changeset()  # before the model is asked
        self._reconcile(jobs)
        outcomes: list[LearningResult | Exception] = []
        for job in jobs:
            outcome = self._finish(job, since)
            if isinstance(outcome, LearningResult):
                outcome = replace(outcome, seconds=(time.perf_counter() - began) / len(jobs))
                self.told(replace(outcome, actions=outcome.actions[len(job.earlier.actions) :]))
            outcomes.append(outcome if isinstance(outcome, Exception) else job.reading.unfinished or outcome)
        return outcomes

    def _build_job(self, source: _Source, reading: _Extracted, task: Task, by: str, dry_run: bool) -> _LearningJob:
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
            job.batch = self._build_batch(source.exchange, reading.found)
            job.news = self._drop_echoes(job.batch)
        return job

    def _reconcile(self, jobs: Sequence[_LearningJob]) -> None:
        """Let the model decide about the facts it found: one call for all jobs, made before any lock is taken."""
        open_jobs = [job for job in jobs if job.batch and job.news and job.learned.method == "llm"]
        if self.llm is None or not open_jobs or not self.llm.supports_audn:
            return
        usage, problem = self._decide_by_model(self.llm, [(job.batch, job.news) for job in open_jobs if job.batch])
        for job in open_jobs:
            job.is_reconciled = True
            job.learned = replace(job.learned, reason=job.learned.reason or problem)
        open_jobs[0].learned = replace(open_jobs[0].learned, usage=open_jobs[0].learned.usage + usage)

    def _finish(self, job: _LearningJob, since: tuple[int, str]) -> LearningResult | Exception:
        """Write the decisions. Return the error if that fails, or if the model has not read the exchange yet."""
        if job.batch is None:
            self.told(replace(job.learned, actions=(), dry_run=True))  # the call was billed, nothing was learned
            assert job.reading.unfinished
            return job.reading.unfinished
        try:
            with self._deciding:
                if not job.is_reconciled:
                    self._decide_by_rules(job.batch, job.news)
                elif self._get_last_changeset() != since:
                    self._redecide_changed(job.batch, job.news, since[1])
                return self._write(job.batch, job.learned, job.work)
        except CofioError as error:  # the other exchanges of the session continue; the caller gets the error
            return error

    def _build_batch(self, exchange: Exchange, extracted: Sequence[ExtractedFact]) -> _ExchangeFacts:
        facts = [self._add_anchors(_build_fact(fact, exchange), exchange) for fact in extracted]
        vectors = self._embed([embedding_text(fact.text, fact.speaker) for fact in facts]) if facts else None
        store = scope_to_owner(self._store, exchange)
        return _ExchangeFacts(
            exchange,
            extracted,
            facts,
            vectors,
            store,
            readings_of(extracted, exchange, store) if exchange.context == ANALYSIS else {},
        )

    # ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _read(self, sources: Sequence[_Source]) -> list[_Extracted]:
        """Read without a language model first, then with it where it is configured and more may be found."""
        verdicts = [self._read_locally(source.exchange) for source in sources]
        readings = [self._read_without_model(*pair) for pair in zip(sources, verdicts, strict=True)]
        places = [place for place, source in enumerate(sources) if self._needs_model(source.exchange, verdicts[place])]
        if self.llm is not None and places:
            cases = [(sources[place], verdicts[place], readings[place]) for place in places]
            for place, reading in zip(places, self._read_by_model(cases), strict=True):
                readings[place] = reading
        return readings

    def _read_by_model(self, cases: Sequence[tuple[_Source, GateVerdict, _Extracted]]) -> list[_Extracted]:
        """Let the model read exchanges in one call; split the batch in halves if it is too large or was refused."""
        try:
            replies = self._extract_by_model([source for source, _, _ in cases])
        except (RefusedError, TooLarge) as error:  # a retry would not help: continue as if there were no model
            if len(cases) == 1:
                return [replace(cases[0][2], reason=error.message)]
            half = len(cases) // 2
            return self._read_by_model(cases[:half]) + self._read_by_model(cases[half:])
        except (Unavailable, Misconfigured) as outage:  # retried when this is resolved
            return [
                replace(reading, found=reading.found if source.item else (), unfinished=outage)
                for source, _, reading in cases
            ]
        return [
            self._combine_facts(source, verdict, reply, reading)
            for (source, verdict, reading), reply in zip(cases, replies, strict=True)
        ]

    def _needs_model(self, exchange: Exchange, verdict: GateVerdict) -> bool:
        """Return whether the model reads an exchange: it may hold a fact or, if so configured, only if that is in
        doubt.
        """
        if any(sentence.way == "model" for sentence in verdict.sentences) or _is_worth_a_look(exchange, verdict):
            return True
        if self._judge is None or verdict.way == "skip":
            return False
        return self._reads == "all" or any(fact.tentative for fact in verdict.found)

    def _read_without_model(self, source: _Source, verdict: GateVerdict) -> _Extracted:
        """Return the facts found without a language model; none if they are stored already."""
        unread = [sentence for sentence in verdict.sentences if sentence.way == "model"]
        facts = () if source.is_halfway else verdict.found + self._find_domain_facts(source.exchange)
        return _build_reading(facts, sentences=verdict.sentences, missed=len(unread), otherwise=_explain_skip(verdict))

    def _extract_by_model(self, sources: Sequence[_Source]) -> list[by_model.LLMExtraction]:
        """Let the model read exchanges of one session; return its facts for each. The first one carries the usage."""
        assert self.llm is not None  # checked by the callers
        reply = by_model.facts(self.llm, [source.exchange for source in sources], self._collect_background(sources))
        whole = reply.complete and (any(reply.found) or not reply.problem)
        empty = replace(reply, found=(), usage=TokenUsage(), problem="" if whole else reply.problem)
        parts = [
            replace(empty, found=(facts,), problem=reply.problem if facts else empty.problem) for facts in reply.found
        ]
        return [replace(parts[0], usage=reply.usage), *parts[1:]]

    def _combine_facts(
        self, source: _Source, verdict: GateVerdict, reply: by_model.LLMExtraction, local: _Extracted
    ) -> _Extracted:
        """Return the facts of the model, plus certain facts that it left out."""
        item, halfway = source.item, source.is_halfway
        reported = self._find_domain_facts(source.exchange)
        local_facts = () if halfway else verdict.found + reported
        fallback = local_facts if reply.problem else reported  # a complete answer of the model decides
        known_facts = [ExtractedFact(text=action["text"]) for action in item.result.get("actions", ())] if item else []
        extracted = _select_new_facts(reply, local_facts, known_facts, () if halfway else fallback)
        if extracted.unfinished and item is None:
            extracted = replace(extracted, found=())  # the caller gets an error and retries: keep nothing until then
        return replace(extracted, sentences=local.sentences, missed=local.missed)

    def _find_earlier(self, exchange: Exchange, item: Item | None) -> tuple[Message, ...]:
        """Return the messages of the last turns of the session before an item, as far as recent captures reach."""
        if item is None or not exchange.session or exchange.context == REVIEW:
            return ()
        whose = session_of(exchange)
        items = self._store.inbox.items(limit=_LOOKED_BACK, after=item.id)
        exchanges = [prior.exchange for prior in items if prior.exchange and session_of(prior.exchange) == whose]
        turns = [turn for turn in exchanges if turn.context not in _NO_TURNS][:_EARLIER]
        return tuple(message for turn in reversed(turns) for message in turn.messages)

    def _collect_background(self, sources: Sequence[_Source]) -> by_model.Background:
        """Return the model's context for exchanges: earlier turns, and memories similar to the user's words."""
        earlier = self._find_earlier(sources[0].exchange, sources[0].item)
        texts = [
            (
                source.exchange,
                tail_of(
                    " ".join(message.text for message in source.exchange.messages if message.role == "user"),
                    _ASKED_ABOUT,
                ),
            )
            for source in sources
        ]
        queries = [_build_fact(ExtractedFact(text=text), exchange) for exchange, text in texts if text.strip()]
        vectors = self._embed([embedding_text(fact.text, fact.speaker) for fact in queries]) if queries else ()
        most = max(_RELATED_EACH, _RELATED // len(sources))
        memories: dict[int, str] = {}
        for fact, vector in zip(queries, vectors, strict=True):
            near = decide.candidates(fact, vector, scope_to_owner(self._store, sources[0].exchange))
            memories.update((memory.id, f"- {memory.text[:_RELATED_TEXT]}") for memory, _ in near[:most])
        return by_model.Background(earlier=earlier, memories=tuple(memories.values()))

    def _read_locally(self, exchange: Exchange) -> GateVerdict:
        """Return the sentences with their facts, read by the judgement model, or by rules if it is missing."""
        if self._judge is None:
            return gate.judge(exchange, patterns.find)
        return GateVerdict(tuple(by_judgement.read_exchange(exchange, self._judge)))

    def _find_domain_facts(self, exchange: Exchange) -> tuple[ExtractedFact, ...]:
        """Return the facts that a domain agent reports; only for exchanges marked as analyses."""
        if exchange.context != ANALYSIS:
            return ()
        return tuple(
            extraction.facts("\n".join(message.text for message in exchange.messages if message.role == "assistant"))
        )

    def _skip_summaries(self, sources: Sequence[_Source]) -> list[_Extracted]:
        """Return empty readings: a compaction summary is stored, but not learned from."""
        return [_Extracted(found=(), method="none", reason=SUMMARY) for _ in sources]

    def _extract(self, sources: Sequence[_Source]) -> list[_Extracted]:
        """Send everything to the model, as the explicit extract task requires."""
        if self.llm is None and all(source.exchange.context == REVIEW for source in sources):
            return [
                _Extracted(found=(), method="none", reason="No language model is configured any more") for _ in sources
            ]
        if self.llm is None:  # the setting was removed while the job was waiting
            raise NotConfigured("Extraction by a model is not configured.", "Set EXTRACT_PROVIDER.")
        silent = _Extracted(found=(), method="none", reason="Nothing was said")
        return [
            _select_new_facts(self._extract_by_model([source])[0], known=self._find_learned_before(source))
            if source.exchange.messages
            else silent
            for source in sources
        ]

    def _find_learned_before(self, source: _Source) -> list[ExtractedFact]:
        """Return the facts that the turns of a reviewed session led to, including those undone or removed since."""
        if source.exchange.context != REVIEW or source.item is None:
            return []
        items = self._store.inbox.items(limit=_REVIEWED_BACK, after=source.item.id)
        turns = [item for item in items if session_of(item.exchange) == session_of(source.exchange)]
        return [ExtractedFact(text=action["text"]) for item in turns for action in item.result.get("actions", ())]

    # ── deciding and doing ────────────────────────────────────────────────────────────────────────────────────────────

    def _write(self, batch: _ExchangeFacts, learned: LearningResult, work: _Work) -> LearningResult:
        """Write the decisions with the resulting domain knowledge; decide again if another process was faster."""
        settled = list(batch.settled)
        for tries_left in reversed(range(_TRIES)):
            batch.settled = list(settled)
            rows = KnowledgeWriter(batch)
            rows.decide()
            if learned.dry_run:
                actions = tuple(action for outcome in batch.settled for action in _list_actions(outcome, []))
                return replace(learned, actions=actions, knowledge=tuple(rows.told))
            try:
                return self._apply(batch, rows, learned, work)
            except Conflict:
                if not tries_left or not rows.puts:
                    raise
        raise AssertionError("unreachable")

    def _drop_echoes(self, batch: _ExchangeFacts) -> list[int]:
        """Return the places of the facts that are no echoes of shown context; settle the others as echoes."""
        new_places = []
        left_out = reasons_left_out(batch.heard)
        injected = shown_rows(batch.exchange) if batch.heard else []
        for place, (extracted, fact) in enumerate(zip(batch.found, batch.facts, strict=True)):
            by_agent = extracted.role == "assistant"  # a user may repeat a statement on purpose
            why = ""
            if by_agent:
                row = batch.heard.get(place)
                against = None if denies_live_row(row, batch.store) else batch.store  # it repeats an overruled row
                why = decide.echo_reason(fact, batch.vector(place), against, batch.exchange.injected, self._comparer)
                why = why or echo_reason(row, injected, batch.store)
            if why := why or left_out.get(place, ""):
                batch.settled[place] = FactOutcome(fact=fact, reason=why)
            else:
                new_places.append(place)
        return new_places

    def _decide_by_rules(self, batch: _ExchangeFacts, places: Sequence[int]) -> None:
        if places:
            facts = [batch.facts[place] for place in places]
            batch.take(places, self._decide_locally(facts, batch.matrix(places), batch.store))

    def _decide_locally(self, facts: Sequence[Fact], vectors: Matrix, store: Store) -> list[FactOutcome]:
        return decide.decide_outcomes(facts, vectors, store, self._comparer)

    def _decide_by_model(
        self, llm: LLM, batches: Sequence[tuple[_ExchangeFacts, Sequence[int]]]
    ) -> tuple[TokenUsage, str]:
        """Let the model decide about the facts at these places; all batches are of one session."""
        store = batches[0][0].store

        def novel(fact: Fact, vector: Vector) -> FactOutcome:
            return self._decide_locally([fact], vector.reshape(1, -1), store)[0]

        facts = [batch.facts[place] for batch, places in batches for place in places]
        vectors = [batch.vector(place) for batch, places in batches for place in places]
        outcomes, usage, problem = reconcile_by_model.decide_by_llm(
            llm, facts, vectors, store, novel=novel, floor=self._floor()
        )
        rest = iter(outcomes)
        for batch, places in batches:
            batch.take(places, [next(rest) for _ in places])
            batch.embed_reworded(self._embed)
        return usage, problem

    def _get_last_changeset(self) -> tuple[int, str]:
        """Return the id and time of the last changeset, to detect concurrent writes."""
        newest = self._store.changesets(1)
        return (newest[0].id, newest[0].at) if newest else (0, "")

    def _redecide_changed(self, batch: _ExchangeFacts, places: Sequence[int], since: str) -> None:
        """Re-decide facts if memories changed while the model was running.

        This covers decisions about memories that are gone, and additions that are known by now. A deletion of a memory
        that is gone becomes an error.
        """
        targets = {
            outcome.decision.id for outcome in batch.settled if isinstance(outcome.decision, Update | Delete | Noop)
        }
        memories = batch.store.get(sorted(targets))
        still = {
            memory.id for memory in memories if not memory.archived and not memory.pinned and memory.updated_at <= since
        }
        taken_ids: set[int] = set()
        for place in places:
            outcome = batch.settled[place]
            again = self._decide_locally([outcome.fact], batch.matrix([place]), batch.store)[0]
            if isinstance(again.decision, Update) and again.decision.id in taken_ids | targets:
                again = FactOutcome(fact=outcome.fact, decision=Add(outcome.fact, "new", unless_known=True))
            unseen = isinstance(again.decision, Update) and self._is_unseen(again.decision.id, since, batch.store)
            is_gone = isinstance(outcome.decision, Update | Delete | Noop) and outcome.decision.id not in still
            if is_gone and isinstance(outcome.decision, Delete):
                reason = f"error: memory {outcome.decision.id} is gone, pinned or changed by now"
                batch.settled[place] = FactOutcome(fact=outcome.fact, reason=reason)
            elif is_gone or (isinstance(outcome.decision, Add) and (unseen or isinstance(again.decision, Noop))):
                batch.take([place], [again])
            decision = batch.settled[place].decision
            taken_ids |= {decision.id} if isinstance(decision, Update | Delete) else set()

    def _is_unseen(self, memory_id: int, since: str, store: MemoryQueries) -> bool:
        """Return whether a memory was written after the model was asked, e.g. by an earlier exchange of the batch."""
        return any(memory.updated_at > since for memory in store.get([memory_id]))

    def _apply(
        self, batch: _ExchangeFacts, rows: KnowledgeWriter, learned: LearningResult, work: _Work
    ) -> LearningResult:
        """Apply everything in one transaction, including the settlement of the inbox item."""
        batch.retire_each_once()
        plan = [
            (place, self._update_anchors(decision, batch.facts[place], batch.exchange))
            for place, outcome in enumerate(batch.settled)
            for decision in outcome.decisions
        ]
        if not plan:
            actions = tuple(action for outcome in batch.settled for action in _list_actions(outcome, []))
            # The audit log groups by reason, so ids are left out: the action holds the memory id.
            reason = learned.reason or _NUMBERED.sub(
                "a memory", next((outcome.reason for outcome in batch.settled), "")
            )
            result = replace(learned, actions=learned.actions + actions, reason=reason)
            if work.item is not None and not work.unfinished:
                self._store.inbox.settle(work.settlement(result))
            return result

        def build_result(done: Changeset) -> LearningResult:
            changes = decide.changes_by_decision([decision for _, decision in plan], done.changes)
            mine = [(place, change) for (place, _), change in zip(plan, changes, strict=True)]
            actions = tuple(
                action
                for place, outcome in enumerate(batch.settled)
                for action in _list_actions(outcome, [change for at, change in mine if at == place])
            )
            knowledge = learned.knowledge + rows.said_again
            knowledge += tuple(
                change_summary(change.action, change.ref, change.after or change.before) for change in done.knowledge
            )
            return replace(learned, actions=learned.actions + actions, knowledge=knowledge, changeset=done.id)

        settles = (lambda done: work.settlement(build_result(done))) if work.item is not None else None
        vectors = {
            number: batch.vector_for(place, decision)
            for number, (place, decision) in enumerate(plan)
            if isinstance(decision, Add | Update)
        }
        decisions = [decision for _, decision in plan]
        first = {place: number for number, (place, _) in reversed(list(enumerate(plan)))}
        row_decisions = rows.decisions(first, decisions)
        series = batch.exchange.series or None
        done = batch.store.apply(
            decisions, vectors, by=work.by, why=work.why, part_of=series, settles=settles, knowledge=row_decisions
        )
        if done.takes_back:
            self._taken_back()
        return build_result(done)

    def _update_anchors(self, decision: Decision, fact: Fact, exchange: Exchange) -> Decision:
        """Return the decision; if it rewords the fact, with the anchors of the new text."""
        if isinstance(decision, Add | Update) and decision.fact.text != fact.text:
            return replace(decision, fact=self._add_anchors(decision.fact, exchange))
        return decision

    def _add_anchors(self, fact: Fact, exchange: Exchange) -> Fact:
        """Return the fact with anchors into its project's source tree, unless it came in by an API key."""
        return fact if exchange.by_key else self._anchored(fact)


class _ExchangeFacts:
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
        self.exchange, self.found, self.facts, self.store = exchange, extracted, facts, store
        self.heard = readings  # domain-knowledge rows in the facts, by place
        self._vectors = vectors
        self._reworded: dict[str, Vector] = {}
        self.settled: list[FactOutcome] = [FactOutcome(fact=fact) for fact in facts]

    def take(self, places: Sequence[int], outcomes: Sequence[FactOutcome]) -> None:
        """Set the decisions of these places.

        An agent's statement changes no memory, except in analyses and observations.
        """
        counts = self.exchange.context in (ANALYSIS, OBSERVATION)
        for place, outcome in zip(places, outcomes, strict=True):
            extracted = self.found[place]
            allowed = outcome if counts or extracted.role == "user" else _restrict_agent(outcome)
            self.settled[place] = _drop_tentative(allowed, extracted)

    def retire_each_once(self) -> None:
        """Drop duplicate retirements: memories that another fact of the exchange already decides about or retires."""
        decided = [outcome.decision for outcome in self.settled]
        spoken_for = {decision.id for decision in decided if isinstance(decision, Update | Delete | Noop)}
        for place, outcome in enumerate(self.settled):
            also = tuple(gone for gone in outcome.also if gone.id not in spoken_for)
            spoken_for |= {gone.id for gone in also}
            self.settled[place] = replace(outcome, also=also)

    @property
    def spoken_for(self) -> set[int]:
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


def _build_reading(facts: tuple[ExtractedFact, ...], *, otherwise: str, **about: Any) -> _Extracted:
    """Return a reading of the pattern facts, limited to `MOST_FACTS`."""
    reason = "" if facts else otherwise
    if len(facts) > MOST_FACTS:
        reason = f"Kept the first {MOST_FACTS} of {len(facts)} facts"
    method = "pattern" if facts else "none"
    return _Extracted(found=facts[:MOST_FACTS], method=method, reason=reason, **about)


def session_of(exchange: Exchange | None) -> tuple[object, ...]:
    """Return the key that turns must share to be shown to the model together."""
    if exchange is None:
        return ()
    session = exchange.client, exchange.session, exchange.source, exchange.project, exchange.series
    whose = exchange.agent, exchange.user, exchange.team, exchange.visibility, exchange.reach, exchange.by_key
    return session + whose


def _select_new_facts(
    reply: by_model.LLMExtraction,
    local_facts: Sequence[ExtractedFact] = (),
    known: Sequence[ExtractedFact] = (),
    fallback: Sequence[ExtractedFact] = (),
) -> _Extracted:
    """Return the model's facts that are not known yet, and the fallback facts that it left out.

    `local_facts` were found without it: if the model rewords one, its original sentence is kept.
    """
    (from_model,) = reply.found
    facts = tuple(_add_sentence(fact, local_facts) for fact in from_model if not _is_covered(fact, known))
    facts += tuple(fact for fact in fallback if not _is_covered(fact, from_model))
    unread = Unreadable(f"{reply.problem[:1].upper()}{reply.problem[1:]}.", _UNREAD) if reply.problem else None
    return _Extracted(
        found=facts[:MOST_FACTS],
        method="llm",
        reason=reply.problem or ("" if facts else NOTHING_FOUND),
        usage=reply.usage,
        unfinished=None if from_model else unread,
    )


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
    )


def _add_sentence(fact: ExtractedFact, local_facts: Sequence[ExtractedFact]) -> ExtractedFact:
    """Return the model's fact with the sentence of the report that it rephrases."""
    reported = (
        local_fact.said
        for local_fact in local_facts
        if local_fact.kind in _REPORTED and local_fact.said and _is_covered(local_fact, [fact])
    )
    return replace(fact, said=fact.said or next(reported, ""))


def _drop_tentative(outcome: FactOutcome, extracted: ExtractedFact) -> FactOutcome:
    """Return the decision; drop a tentative fact unless it changes a memory or probably does.

    A short message that only ends a memory is not stored itself.
    """
    changes = isinstance(outcome.decision, Update | Delete)
    if extracted.tentative and not changes and (extracted.is_message or outcome.chance < decide.PROBABLE):
        return FactOutcome(fact=outcome.fact, reason=NOT_WORTH_KEEPING)
    if extracted.is_message and outcome.ends and isinstance(outcome.decision, Update) and _is_brief(extracted.text):
        ended = Delete(outcome.decision.id, outcome.decision.reason)
        return FactOutcome(fact=outcome.fact, decision=ended, also=outcome.also)
    return outcome


def _restrict_agent(outcome: FactOutcome) -> FactOutcome:
    """Return the decision about an agent's statement: it changes no memory."""
    if isinstance(outcome.decision, Add | Noop):
        return replace(outcome, also=())
    if isinstance(outcome.decision, Update):
        addition = Add(outcome.fact, f"new; it may replace memory {outcome.decision.id}", unless_known=True)
        return FactOutcome(fact=outcome.fact, decision=addition)
    return FactOutcome(fact=outcome.fact, reason=outcome.reason or "an agent's statement ends no memory")


def _is_brief(text: str) -> bool:
    return len(text.split()) <= _BRIEF


def _is_covered(fact: ExtractedFact, others: Sequence[ExtractedFact]) -> bool:
    terms = set(search_terms(fact.text)) - {"user", "team", "policy"}
    return any(len(terms & set(search_terms(other.text))) >= _COVERED * len(terms) for other in others)


def _is_worth_a_look(exchange: Exchange, verdict: GateVerdict) -> bool:
    """Return whether to ask the model although no sentence calls for it.

    This holds before compaction, when the transcript is lost afterwards, and for an observation without pattern matches
    that is more than a greeting or a question.
    """
    if exchange.context == OBSERVATION:
        return not verdict.found and any(sentence.reason == gate.NOTHING for sentence in verdict.sentences)
    return exchange.context == _THOROUGH and bool(exchange.messages)


def _explain_skip(verdict: GateVerdict) -> str:
    return "Looks like a fact, but only a model can read it" if verdict.reason == gate.UNREAD else verdict.reason


def _list_actions(outcome: FactOutcome, changes: Sequence[Change]) -> Iterator[dict[str, Any]]:
    """Yield the actions done for a fact, or planned in a dry run, in the API format."""
    if outcome.reason == NOT_WORTH_KEEPING:
        return
    yield _build_action(outcome, changes[0] if changes else None)
    for gone in outcome.also:
        fields = {"text": outcome.fact.text, "kind": outcome.fact.kind, "category": outcome.fact.category}
        yield {"action": "delete", **fields, "reason": gone.reason, "old_id": gone.id}


def _build_action(outcome: FactOutcome, change: Change | None) -> dict[str, Any]:
    """Return the action done, or planned in a dry run, in the API format."""
    decision, text = outcome.decision, outcome.fact.text
    fields: dict[str, Any] = {"text": text, "kind": outcome.fact.kind, "category": outcome.fact.category}
    fields["reason"] = outcome.reason or getattr(decision, "reason", "")
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
