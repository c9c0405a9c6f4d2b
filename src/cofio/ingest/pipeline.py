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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from cofio.domain_knowledge.extract import extraction
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
from cofio.ingest.actions import list_actions
from cofio.ingest.domain_knowledge import (
    KnowledgeWriter,
    change_summary,
    denies_live_row,
    echo_reason,
    readings_of,
    reasons_left_out,
    shown_rows,
)
from cofio.ingest.exchange_facts import ExchangeFacts
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
from cofio.models.memory import Add, Changeset, Decision, Delete, Fact, Noop, Update
from cofio.ports import LLM, Judge, Matrix, MemoryQueries, Store, Vector
from cofio.stores.scoped import scope_to_owner
from cofio.text.tokens import embedding_text, search_terms, tail_of

#: Scope of the language model: everything that may hold a fact, or only what the judgement model is unsure about.
Reads = Literal["all", "doubtful"]
_THOROUGH = "pre_compact"  # the transcript is lost afterwards: the model is asked even where the gate finds little
_NUMBERED = re.compile(r"\bmemory \d+")
_REPORTED = ("threshold", "correlation", "pattern")
SUMMARY = "A compaction summary is kept and not learned from"
MOST_FACTS = 50  # per exchange; more than this is not a normal exchange
_UNREAD = "Try again, or choose another model with EXTRACT_MODEL."
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
        self.on_learned: Callable[[LearningResult], None] = lambda _: (
            None
        )  # called for every exchange that was learned from

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
                self.on_learned(replace(outcome, actions=outcome.actions[len(job.earlier.actions) :]))
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
        why = f"{task}: {source.exchange.context}"
        job = _LearningJob(reading=reading, earlier=earlier, learned=learned, by=by, why=why, item=source.item)
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
            self.on_learned(replace(job.learned, actions=(), dry_run=True))  # the call was billed, nothing was learned
            assert job.reading.unfinished
            return job.reading.unfinished
        try:
            with self._deciding:
                if not job.is_reconciled:
                    self._decide_by_rules(job.batch, job.news)
                elif self._get_last_changeset() != since:
                    self._redecide_changed(job.batch, job.news, since[1])
                return self._write(job, job.batch)
        except CofioError as error:  # the other exchanges of the session continue; the caller gets the error
            return error

    def _build_batch(self, exchange: Exchange, extracted: Sequence[ExtractedFact]) -> ExchangeFacts:
        facts = [self._add_anchors(_build_fact(fact, exchange), exchange) for fact in extracted]
        vectors = self._embed([embedding_text(fact.text, fact.speaker) for fact in facts]) if facts else None
        store = scope_to_owner(self._store, exchange)
        return ExchangeFacts(
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
        is_usable = reply.complete and (any(reply.found) or not reply.problem)
        empty = replace(reply, found=(), usage=TokenUsage(), problem="" if is_usable else reply.problem)
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
            raise NotConfigured(
                "No language model is configured for extraction.",
                "Set EXTRACT_PROVIDER to anthropic, openai or ollama.",
            )
        silent = _Extracted(found=(), method="none", reason="Nothing was said")
        return [
            _select_new_facts(self._extract_by_model([source])[0], known_facts=self._find_learned_before(source))
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

    def _write(self, job: _LearningJob, batch: ExchangeFacts) -> LearningResult:
        """Write the decisions with the resulting domain knowledge; decide again if another process was faster."""
        learned = job.learned
        settled = list(batch.settled)
        for tries_left in reversed(range(_TRIES)):
            batch.settled = list(settled)
            rows = KnowledgeWriter(batch)
            rows.decide()
            if learned.dry_run:
                actions = tuple(action for outcome in batch.settled for action in list_actions(outcome, []))
                return replace(learned, actions=actions, knowledge=tuple(rows.preview()))
            try:
                return self._apply(job, batch, rows)
            except Conflict:
                if not tries_left or not rows.puts:
                    raise
        raise AssertionError("unreachable")

    def _drop_echoes(self, batch: ExchangeFacts) -> list[int]:
        """Return the places of the facts that are no echoes of shown context; settle the others as echoes."""
        new_places = []
        left_out = reasons_left_out(batch.readings)
        injected = shown_rows(batch.exchange) if batch.readings else []
        for place, (extracted, fact) in enumerate(zip(batch.extracted, batch.facts, strict=True)):
            by_agent = extracted.role == "assistant"  # a user may repeat a statement on purpose
            why = ""
            if by_agent:
                row = batch.readings.get(place)
                against = None if denies_live_row(row, batch.store) else batch.store  # it repeats an overruled row
                why = decide.echo_reason(fact, batch.vector(place), against, batch.exchange.injected, self._comparer)
                why = why or echo_reason(row, injected, batch.store)
            if why := why or left_out.get(place, ""):
                batch.settled[place] = FactOutcome(fact=fact, reason=why)
            else:
                new_places.append(place)
        return new_places

    def _decide_by_rules(self, batch: ExchangeFacts, places: Sequence[int]) -> None:
        if places:
            facts = [batch.facts[place] for place in places]
            batch.take(places, self._decide_locally(facts, batch.matrix(places), batch.store))

    def _decide_locally(self, facts: Sequence[Fact], vectors: Matrix, store: Store) -> list[FactOutcome]:
        return decide.decide_outcomes(facts, vectors, store, self._comparer)

    def _decide_by_model(
        self, llm: LLM, batches: Sequence[tuple[ExchangeFacts, Sequence[int]]]
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

    def _redecide_changed(self, batch: ExchangeFacts, places: Sequence[int], since: str) -> None:
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

    def _apply(self, job: _LearningJob, batch: ExchangeFacts, rows: KnowledgeWriter) -> LearningResult:
        """Apply everything in one transaction, including the settlement of the inbox item."""
        learned, item = job.learned, job.item
        batch.drop_repeated_retirements()
        plan = [
            (place, self._update_anchors(decision, batch.facts[place], batch.exchange))
            for place, outcome in enumerate(batch.settled)
            for decision in outcome.decisions
        ]
        if not plan:
            actions = tuple(action for outcome in batch.settled for action in list_actions(outcome, []))
            # The audit log groups by reason, so ids are left out: the action holds the memory id.
            reason = learned.reason or _NUMBERED.sub(
                "a memory", next((outcome.reason for outcome in batch.settled), "")
            )
            result = replace(learned, actions=learned.actions + actions, reason=reason)
            if item is not None and not job.reading.unfinished:
                self._store.inbox.settle(job.resolve(item, result))
            return result

        def build_result(changeset: Changeset) -> LearningResult:
            changes = decide.changes_by_decision([decision for _, decision in plan], changeset.changes)
            mine = [(place, change) for (place, _), change in zip(plan, changes, strict=True)]
            actions = tuple(
                action
                for place, outcome in enumerate(batch.settled)
                for action in list_actions(outcome, [change for at, change in mine if at == place])
            )
            knowledge = learned.knowledge + rows.unchanged_rows
            knowledge += tuple(
                change_summary(change.action, change.ref, change.after or change.before)
                for change in changeset.knowledge
            )
            return replace(learned, actions=learned.actions + actions, knowledge=knowledge, changeset=changeset.id)

        settles = (lambda changeset: job.resolve(item, build_result(changeset))) if item is not None else None
        vectors = {
            number: batch.vector_for(place, decision)
            for number, (place, decision) in enumerate(plan)
            if isinstance(decision, Add | Update)
        }
        decisions = [decision for _, decision in plan]
        first = {place: number for number, (place, _) in reversed(list(enumerate(plan)))}
        row_decisions = rows.decisions(first, decisions)
        series = batch.exchange.series or None
        changeset = batch.store.apply(
            decisions, vectors, by=job.by, why=job.why, part_of=series, settles=settles, knowledge=row_decisions
        )
        if changeset.takes_back:
            self._taken_back()
        return build_result(changeset)

    def _update_anchors(self, decision: Decision, fact: Fact, exchange: Exchange) -> Decision:
        """Return the decision; if it rewords the fact, with the anchors of the new text."""
        if isinstance(decision, Add | Update) and decision.fact.text != fact.text:
            return replace(decision, fact=self._add_anchors(decision.fact, exchange))
        return decision

    def _add_anchors(self, fact: Fact, exchange: Exchange) -> Fact:
        """Return the fact with anchors into its project's source tree, unless it came in by an API key."""
        return fact if exchange.by_key else self._anchored(fact)


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
    by: str
    why: str
    item: Item | None
    batch: ExchangeFacts | None = None  # None: nothing is to be written
    news: Sequence[int] = ()  # places of the facts to decide about
    is_reconciled: bool = False  # a language model has decided

    def resolve(self, item: Item, learned: LearningResult) -> ItemResolution:
        """Return the resolution of the inbox item; it stays pending until the model has read it."""
        state: State = "pending" if self.reading.unfinished else learned.state
        return ItemResolution(item=item.id, state=state, reason=learned.reason, result=learned.as_dict(), read=item)


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
    known_facts: Sequence[ExtractedFact] = (),
    fallback: Sequence[ExtractedFact] = (),
) -> _Extracted:
    """Return the model's facts that are not known yet, and the fallback facts that it left out.

    `local_facts` were found without it: if the model rewords one, its original sentence is kept.
    """
    (from_model,) = reply.found
    facts = tuple(_add_sentence(fact, local_facts) for fact in from_model if not _is_covered(fact, known_facts))
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
