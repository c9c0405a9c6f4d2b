"""Public façade of the memory store: chains the ingestion, search, recall and maintenance steps.

messages ─ hygiene ─▶ exchange ─ inbox ─▶ gate ─ extract ─ reconcile ─▶ decisions ─ apply ─▶ changes
fact ─ reconcile ─▶ decisions ─ apply ─▶ changes          query ─ search ─▶ hits ─ logged as retrievals
                                                          prompt ─ search ─▶ hits ─ recall ─▶ briefing
"""

from __future__ import annotations

import builtins
import copy
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType, TracebackType
from typing import Any, Literal

from cofio.dashboard import service
from cofio.dashboard.projection import MapCache
from cofio.dashboard.service import DashboardService
from cofio.domain_knowledge import cascade, context, mentions
from cofio.domain_knowledge.extract.quantities import quantities
from cofio.domain_knowledge.service import KnowledgeBase, KnowledgeCallbacks
from cofio.errors import CofioError, Conflict, InvalidInput, NotConfigured, NotFound, StoreError, Unavailable
from cofio.ingest import sanitize
from cofio.ingest.extract import by_judgement
from cofio.ingest.inbox import InboxProcessor
from cofio.ingest.pipeline import Learner, Reads
from cofio.ingest.reconcile import decide
from cofio.ingest.reconcile.compare import JudgedComparer, WordComparer
from cofio.maintenance import bulk, duplicates
from cofio.maintenance.service import MaintenanceOptions, MaintenanceService
from cofio.models import auth
from cofio.models.auth import AuditEntry, Grant, Key
from cofio.models.dashboard import Injection
from cofio.models.domain_knowledge import Knowledge, KnowledgeDecision, Put, Withdraw
from cofio.models.episodes import Episode, EpisodeHit
from cofio.models.exchange import (
    AT_ONCE,
    OBSERVATION,
    STATES,
    Batching,
    CaptureStatus,
    Exchange,
    Item,
    LearningResult,
    Ledger,
    Messages,
    State,
    Task,
    dialogue,
)
from cofio.models.llm_calls import (
    PERIODS,
    Limits,
    LLMCall,
    LLMUsage,
    day_of,
    exchange_occasion,
    longest_call,
    periods_of,
    reset_after,
)
from cofio.models.maintenance import (
    BACKFILL,
    CHORES,
    VIEWS,
    Audit,
    Contradictions,
    MaintenancePlan,
    MaintenanceRun,
    View,
)
from cofio.models.memory import (
    CATEGORIES,
    KINDS,
    MAX_LABEL,
    MAX_PAGE,
    MAX_TEXT,
    Add,
    Briefing,
    Change,
    Changeset,
    Decision,
    Delete,
    Edit,
    Fact,
    FreshnessResult,
    Hit,
    Memory,
    Merge,
    Novelty,
    Occurrence,
    Page,
    Project,
    Purge,
    Query,
    RepeatedFact,
    Restore,
    Retrieval,
    Revert,
    Scope,
    Update,
    Viewer,
    apply_edit,
    as_fact,
    as_query,
    as_scope,
    check_bool,
    check_fraction,
    check_int,
    check_text,
    days_before,
    fact_of,
    known_fields,
    to_utc_iso,
)
from cofio.models.sessions import RESUME_TOKENS, RESUMED, AgentSession, ResumeReport, SessionDetail
from cofio.notes.service import NotesOptions, NotesService
from cofio.ports import LLM, Clock, Embedder, Judge, LateInteractionModel, Matrix, Store, TokenEmbeddings, Vector
from cofio.retrieval import enrich, hybrid, recall
from cofio.retrieval.episodes import EpisodeService
from cofio.retrieval.hybrid import TokenQuery
from cofio.retrieval.log import RetrievalLog
from cofio.retrieval.recall import CurrentSession
from cofio.retrieval.sessions import SessionService
from cofio.staleness import StalenessChecker
from cofio.stores.audit_log import AuditLog
from cofio.stores.scoped import ScopedStore, refuse
from cofio.text import briefing, lazy_re
from cofio.text.briefing import digest
from cofio.text.tokens import embedding_text, read_in_context
from cofio.transfer import export
from cofio.transfer.importer import ImportResult, ImportRun
from cofio.transfer.importers.base import SkippedEntry

_BATCH = 256  # texts embedded and written per batch in bulk work
_USUAL = MaintenanceOptions()
_NO_NOTES = NotesOptions()
_NO_LIMITS = Limits()
_log = logging.getLogger(__name__)
_LATE_DAYS = 90  # maximum age in days of a recall that another process reports later
_LOGGED = 1_000  # prompt characters checked for secrets; the log keeps fewer


class Keeper:
    """Store of facts with search. Thread-safe; call `close`, or use it in a `with` statement."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        clock: Clock,
        *,
        reader: LateInteractionModel | None = None,
        judge: Judge | None = None,
        llm: LLM | None = None,
        llm_problem: str = "",
        llm_limits: Limits = _NO_LIMITS,
        llm_seconds: float = longest_call(60.0),
        dedup_at: float = 0.90,
        novel_below: float = 0.88,
        recall_at: float = 0.0,
        start_tokens: int = briefing.START_TOKENS,
        llm_reads: Reads = "all",
        batching: Batching = AT_ONCE,
        inbox_limit: int = 10_000,
        taken_back: Callable[[], None] = lambda: None,
        elsewhere: Callable[[Callable[[Any], None]], None] = lambda _: None,
        freshness: StalenessChecker | None = None,
        care: MaintenanceOptions = _USUAL,
        notebook: NotesOptions = _NO_NOTES,
        episodes: bool = True,
    ) -> None:
        self._store = self._whole = store
        self._notebook = notebook
        self._seen: ScopedStore | None = None  # wraps the store for a viewer with limited access
        self._clock = clock
        self._embedder = embedder
        self._reading = _Reranker(reader, store.readings)  # shared by all viewers
        self._log = RetrievalLog(store, clock, sanitize.redact)
        self._deeds = AuditLog(store)
        self._atlas = MapCache()
        self.key_changes = 0  # incremented when a key is created or revoked here, so that cached keys are dropped
        self._deciding = threading.RLock()  # held from decision to write, so that decisions still hold when applied
        self._freshness = freshness or StalenessChecker(reads=False)
        self._judge = judge  # None: patterns and words decide
        self._comparer = JudgedComparer(judge) if judge else WordComparer(dedup_at)
        self._learner = Learner(
            store,
            self._embed,
            lambda: embedder.floor,
            llm,
            self._deciding,
            anchored=self._freshness.anchored,
            taken_back=taken_back,
            judge=judge,
            reads=llm_reads,
            comparer=self._comparer,
        )
        self._batching = batching
        self._llm_limits = llm_limits
        self._llm_seconds = llm_seconds  # after which an unfinished call counts as dead
        self._llm_problem = llm_problem  # reason why a requested model is unavailable
        self._inbox_limit = inbox_limit
        self._episodes = EpisodeService(store.episodes, self._embed, lambda: embedder.floor, enabled=episodes)
        self._intake = InboxProcessor(
            store.inbox,
            self._learner,
            clock,
            inbox_limit,
            batching=batching,
            attempted=self._episodes.index_capture,
        )
        self._dedup_at = dedup_at
        self._novel_below = novel_below
        self._start_tokens = start_tokens
        self._relevance = recall.Relevance(judge, recall_at)
        self._taken_back = taken_back  # called when a memory's text is corrected or removed: copies must go
        self._elsewhere = elsewhere  # yields recalls made without this keeper
        self._signed = False
        self._house = MaintenanceService(
            store,
            _MaintenanceCallbacks(self),
            clock,
            self._deciding,
            llm=llm,
            comparer=self._comparer,
            freshness=self._freshness,
            care=care,
        )

    def seen_by(self, viewer: Viewer | None) -> Keeper:
        """Return this keeper as seen by a viewer: it finds what they may see, and they own what it stores.

        Maintenance, which reads everything, raises Forbidden. Only the original keeper closes the store.
        """
        if viewer is None:
            return self
        if self._seen is not None:
            refuse("Switching the viewer")
        keeper = copy.copy(self)
        keeper._store = keeper._seen = scoped = ScopedStore(self._store, viewer)
        keeper._freshness = StalenessChecker(reads=False)  # files of this machine belong to its owner
        keeper._episodes = EpisodeService(scoped.episodes, self._embed, lambda: self._embedder.floor)
        keeper._intake = InboxProcessor(
            scoped.inbox,
            self._learner,
            self._clock,
            self._inbox_limit,
            worked_on=self._store.inbox,
            batching=self._batching,
            attempted=self._episodes.index_capture,
        )
        keeper._elsewhere = lambda _: self._elsewhere(self.note_recalled)
        return keeper

    @property
    def viewer(self) -> Viewer | None:
        """The viewer; None for the owner, who sees everything."""
        return self._seen.viewer if self._seen else None

    @property
    def knowledge(self) -> KnowledgeBase:
        """Structured domain knowledge: patterns, correlations, thresholds, seasonal patterns, feedback."""
        return KnowledgeBase(
            KnowledgeCallbacks(
                self._store.domain, self.apply, self._set_row_owner, self._clock, self._deciding, self.viewer
            )
        )

    @property
    def notes(self) -> NotesService:
        """Markdown files synced with memories."""
        return NotesService(_CoreNotesCallbacks(self), self._whole, self._clock, self._notebook)

    @property
    def outlook(self) -> DashboardService:
        """Dashboard views of the store: activity over time, agents, the memory map."""
        return DashboardService(
            service.DashboardCallbacks(self._store, self._clock, self._log.flush_or_tell, self.viewer, self._atlas)
        )

    def _refuse_viewer(self, action: str) -> None:
        """Raise Forbidden for everyone but the owner."""
        if self._seen:
            refuse(action)

    def _set_owner(self, fact: Fact) -> Fact:
        """Return the fact with the ownership that the viewer may set."""
        return self._seen.fact(fact) if self._seen else fact

    def _set_row_owner(self, row: Knowledge) -> Knowledge:
        """Return the row with the viewer's ownership, and with the id that follows from it."""
        return self._seen.row(row) if self._seen else row

    def _clean_exchange(self, messages: Messages, about: Mapping[str, Any]) -> Exchange:
        """Return the cleaned exchange with the viewer's ownership."""
        exchange = sanitize.clean(messages, **about)
        if exchange.series:
            self._refuse_viewer("Backfilling")
            self.changeset(exchange.series)  # raises NotFound if it does not exist
        return self._seen.exchange(exchange) if self._seen else exchange

    # ── the way in ────────────────────────────────────────────────────────────────────────────────────────────────────

    def add(self, fact: str | Fact, *, dedup: bool = True, by: str = "library", why: str = "", **about: Any) -> Change:
        """Store a fact. The change is "add", "update" (it replaced a memory) or "noop" (a memory already says it)."""
        return self.add_all([as_fact(fact, about)], dedup=dedup, by=by, why=why)[0]

    def add_all(
        self, facts: Sequence[str | Fact], *, dedup: bool = True, by: str = "library", why: str = ""
    ) -> builtins.list[Change]:
        """Store many facts in one changeset; one change per fact, in order."""
        if isinstance(facts, str):
            raise InvalidInput("facts is a string.", "Give a list of facts; `add` takes one.")
        checked = [self._add_anchors(self._set_owner(as_fact(fact, {}))) for fact in facts]
        if not checked:
            return []
        _check_who(by, why)
        vectors = self._embed([embedding_text(fact.text, fact.speaker) for fact in checked])
        with self._deciding:
            if not dedup:
                decisions: builtins.list[Decision] = [Add(fact) for fact in checked]
                return list(self._store.apply(decisions, dict(enumerate(vectors)), by=by, why=why or "add").changes)
            return self._reconcile_and_add([self._detect_kind(fact) for fact in checked], vectors, by, why or "add")

    def _detect_kind(self, fact: Fact) -> Fact:
        """Return a typed-in fact with the kind detected from its text, if none was given."""
        if fact.kind != "other" or fact.category != "detail" or self._judge is None:
            return fact
        kind, _ = by_judgement.kind_of(fact.text, self._judge)
        return fact if kind == "other" else replace(fact, kind=kind, category="")

    def _reconcile_and_add(self, facts: Sequence[Fact], vectors: Matrix, by: str, why: str) -> builtins.list[Change]:
        """Add typed-in facts: repeats are logged as sightings, clearly replaced memories are archived."""
        typed = decide.decide_typed(facts, vectors, self._store, self._comparer)
        needed = {
            place: vectors[fact]
            for place, (fact, decision) in enumerate(zip(typed.facts, typed.decisions, strict=True))
            if isinstance(decision, Add | Update)
        }
        knowledge = self.read_from(typed.decisions)
        changeset = self._store.apply(typed.decisions, needed, by=by, why=why, knowledge=knowledge)
        if changeset.takes_back:
            self._taken_back()
        return typed.changes(changeset.changes)

    def update(self, memory_id: int, *, by: str = "library", why: str = "", **changes: Any) -> Change:
        """Change fields of a memory in place. A new text drops the domain knowledge read from the old text."""
        return self._apply_correction(Edit(memory_id, changes, why), by=by, why=why or "edit").changes[0]

    def supersede(
        self, old_id: int, new: str | Fact, *, by: str = "library", why: str = "", **about: Any
    ) -> tuple[Change, Change]:
        """Replace a memory by a new one. Return the change that wrote it and the one that archived the old memory.

        The domain knowledge read from the old memory is removed.
        """
        fact = as_fact(new, about) if isinstance(new, Fact) else _renew(self.get(old_id), new, about)
        written, archived = self._apply_correction(Update(old_id, fact, why), by=by, why=why or "supersede").changes
        return written, archived

    def delete(self, memory_id: int, *, by: str = "library", why: str = "") -> Change:
        """Archive a memory and drop the domain knowledge read from it; `restore` or `undo` brings both back."""
        return self._apply_correction(Delete(memory_id, why), by=by, why=why or "delete").changes[0]

    def restore(self, memory_id: int, *, by: str = "library", why: str = "") -> Change:
        """Restore an archived memory with the domain knowledge that was dropped with it."""
        with self._deciding:
            rows = cascade.restored_rows(memory_id, self._store, self.viewer)
            return self.apply([Restore(memory_id, why)], by=by, why=why or "restore", knowledge=rows).changes[0]

    def confirm(self, memory_id: int, *, by: str = "library", why: str = "") -> Change:
        """Mark a memory as still valid: fingerprint its references again. InvalidInput if none of them exists."""
        memory = self.get(memory_id)
        anchors = self._freshness.anchors(memory.text, memory.project)
        if not anchors:
            hint = "If it no longer holds, `cofio supersede` corrects it and `cofio forget` archives it."
            raise InvalidInput(f"Memory {memory_id} references nothing in a project tree on this machine.", hint)
        return self.apply([Edit(memory_id, {"anchors": anchors}, why)], by=by, why=why or "confirm").changes[0]

    def bulk(
        self,
        ids: Sequence[int],
        action: str,
        *,
        changes: Mapping[str, Any] = MappingProxyType({}),
        tags: Sequence[str] = (),
        by: str = "library",
        why: str = "",
    ) -> Changeset:
        """Archive, restore, pin, unpin, edit, tag or untag many memories in one changeset.

        `changes` are the fields of an edit, `tags` are added or removed. Memories already in the wanted state are
        skipped; Conflict if all are. Domain knowledge is dropped and restored with the memories, as in `delete` and
        `restore`.
        """
        with self._deciding:
            decisions = bulk.decide(self._get_all(ids), action, changes, tags, why)
            drops, restores = self.read_from(decisions), self._restore_rows(decisions)
            return self.apply(decisions, by=by, why=why or action, knowledge=[*drops, *restores])

    def _get_all(self, ids: Sequence[int]) -> builtins.list[Memory]:
        """Return these memories, each once. Raise NotFound if one does not exist."""
        unique_ids = list(dict.fromkeys(check_int(memory_id, "id") for memory_id in ids))
        check_int(len(unique_ids), "The number of ids", least=1, most=bulk.MOST)
        memories = self._store.get(unique_ids)
        if missing := sorted(set(unique_ids) - {memory.id for memory in memories}):
            listed = ", ".join(map(str, missing[:5])) + (" …" if len(missing) > 5 else "")
            raise NotFound(f"There is no memory {listed}.", "It may have been purged; nothing was changed.")
        return memories

    def _restore_rows(self, decisions: Sequence[Decision]) -> builtins.list[KnowledgeDecision]:
        """Return decisions that restore the rows dropped with these memories; each row once."""
        restored_ids = [decision.id for decision in decisions if isinstance(decision, Restore)]
        rows = [row for memory_id in restored_ids for row in cascade.restored_rows(memory_id, self._store, self.viewer)]
        return list({row.known.ref: row for row in rows if isinstance(row, Put)}.values())

    def purge(self, memory_id: int, *, by: str = "library", why: str = "") -> Change:
        """Erase a memory permanently, from the journal too, with the domain knowledge read from it."""
        return self._apply_correction(Purge(memory_id, why), by=by, why=why or "purge").changes[0]

    def apply(
        self,
        decisions: Sequence[Decision],
        *,
        by: str,
        why: str,
        undoes: int | None = None,
        part_of: int | None = None,
        knowledge: Sequence[KnowledgeDecision] = (),
    ) -> Changeset:
        """Apply decisions in one transaction. Every write above ends here.

        `knowledge` holds decisions about domain knowledge; they are applied last.
        """
        _check_decisions(decisions, knowledge)
        _check_who(by, why)
        decisions = [self._anchor_decision(decision) for decision in decisions]
        vectors = self._embed_decisions(decisions)
        with self._deciding:
            changeset = self._store.apply(
                decisions, vectors, by=by, why=why, undoes=undoes, part_of=part_of, knowledge=knowledge
            )
        if changeset.takes_back:
            self._taken_back()
        return changeset

    def _apply_anyway(
        self, decisions: Sequence[Decision], *, by: str, why: str, part_of: int | None
    ) -> tuple[Changeset, int]:
        """Apply as `apply` does, but leave vectors to `embed_missing` if the embedder fails; also return how many."""
        _check_decisions(decisions, ())
        _check_who(by, why)
        decisions = [self._anchor_decision(decision) for decision in decisions]
        waiting = 0
        try:
            vectors = self._embed_decisions(decisions)
        except Unavailable as error:
            _log.warning("memories left without vectors for now: %s", error)
            vectors, waiting = {}, sum(_has_text(decision) for decision in decisions)
        with self._deciding:
            changeset = self._store.apply(
                decisions, vectors, by=by, why=why, part_of=part_of, knowledge=self.read_from(decisions)
            )
        if changeset.takes_back:
            self._taken_back()
        return changeset, waiting

    def _apply_correction(self, decision: Decision, *, by: str, why: str) -> Changeset:
        """Apply a person's decision about a memory and drop what was read from its text, in one changeset."""
        with self._deciding:
            return self.apply([decision], by=by, why=why, knowledge=self.read_from([decision]))

    def read_from(self, decisions: Sequence[Decision]) -> builtins.list[KnowledgeDecision]:
        """Return decisions that remove domain knowledge read from memories that these archive, correct or erase."""
        return cascade.removed_rows(decisions, self._store, self.viewer)

    # ── learning from conversations ───────────────────────────────────────────────────────────────────────────────────

    @property
    def llm(self) -> LLM | None:
        """The language model that reads conversations, if configured."""
        return self._learner.llm

    def listen(self, told: Callable[[LearningResult], None]) -> None:
        """Register a callback for every exchange learned from, with the method and duration."""
        self._learner.told = told

    def listen_to_recall(self, told: Callable[[Injection], None]) -> None:
        """Register a callback for every injected briefing: time, recipient, number of memories and tokens."""
        self._log.told = told

    def extraction(self) -> dict[str, Any]:
        """Return the configured extraction model, or why a requested one is unavailable."""
        if self.llm is None:
            return {"enabled": False, **({"problem": self._llm_problem} if self._llm_problem else {})}
        model_info = {"provider": self.llm.provider_name, "model": self.llm.model, "audn": self.llm.supports_audn}
        model_info["audn_known"] = self.llm.profile.reconciles_known
        until = self._budget_spent_until()
        return {"enabled": True, **model_info, **({"spent_until": until} if until else {})}

    def llm_usage(self, *, limit: int = 20) -> LLMUsage:
        """Return model calls of today and the last 7 and 30 days, by model and session, and the newest calls."""
        check_int(limit, "limit", least=1, most=MAX_PAGE)
        self._close_interrupted()
        calls, now = self._store.llm_calls, self._clock()
        sums = calls.sums(days_before(day_of(now), max(PERIODS) - 1))
        return LLMUsage(
            limits=self._llm_limits,
            today=calls.spent(),
            resets_at=reset_after(now),
            periods=periods_of(sums, now),
            calls=tuple(calls.newest(limit)),
        )

    def llm_call(self, call_id: int) -> LLMCall:
        """Return one call of the language model, with redacted texts."""
        self._close_interrupted()
        return self._store.llm_calls.get(check_int(call_id, "id"))

    def _close_interrupted(self) -> None:
        """Close the calls of processes that died. Readers of the log do not wait for a busy store."""
        with suppress(StoreError):
            self._store.llm_calls.interrupt(days_before(self._clock(), self._llm_seconds / 86_400))

    def _budget_spent_until(self) -> str:
        """Return the time when the model's daily limits reset; "" if none is reached."""
        if not any(self._llm_limits) or not self._whole.llm_calls.spent().reaches(self._llm_limits):
            return ""
        return reset_after(self._clock())

    def capture(self, messages: Messages, *, wait: bool = False, by: str = "library", **about: Any) -> CaptureStatus:
        """Store an exchange durably and learn from it later; with `wait`, now.

        `about` takes the fields of Exchange; the same client, session and turn is captured once.
        """
        exchange = self._clean_exchange(messages, about)
        return self._intake.take_in(exchange, "learn", by) if wait else self._intake.receive([exchange])[0]

    def observe(
        self, validated_intent: str, response: str, *, wait: bool = False, by: str = "library", **about: Any
    ) -> CaptureStatus:
        """Store an observed dialogue and learn from it later; with `wait`, now.

        The response counts like the user's own words. Memories are visible to the team unless `visibility` says
        otherwise; `session` names the observed activity, `turn` the dialogue in it. Other arguments as for `capture`.
        """
        exchange_fields = {"visibility": "team", **about, "context": OBSERVATION}
        return self.capture(dialogue(validated_intent, response), wait=wait, by=by, **exchange_fields)

    def amend(self, messages: Messages, *, hold: float = 0.0, by: str = "library", **about: Any) -> CaptureStatus:
        """Add new content to a turn that may have been captured before; learn from it after `hold` seconds.

        Parts of a turn may arrive in any order and more than once: every word is learned from once.
        """
        _check_who(by, "")
        return self._intake.amend(self._clean_exchange(messages, about), hold)

    def release(self, client: str, session: str) -> int:
        """Make the held captures of a session due now; return their number."""
        return self._store.inbox.release(client, session)

    def go_on(self, client: str, session: str) -> None:
        """Signal that a session continues: its turns wait, so that the language model reads several at once."""
        self._intake.go_on(client, session)

    def turns(self, client: str, session: str, *, any_key: bool = False) -> set[str]:
        """Return every turn captured in this session; with `any_key` also in other keys' sessions of this name."""
        return self._store.inbox.turns(client, session, any_key=any_key)

    def purged_turns(self, client: str, session: str) -> set[str]:
        """Return the turns of this session with purged or forgotten words."""
        return self._store.inbox.purged_turns(client, session)

    def begin_backfill(self, *, by: str = "library") -> int:
        """Return the changeset that begins a backfill series: captures name it as their `series`.

        An unfinished backfill is resumed. Undoing that changeset reverts everything learned in the series.
        """
        self._refuse_viewer("Backfilling")
        _check_who(by, "")
        last = self._find_last_backfill()
        if last and last.changeset and last.outcome == "began" and not self._is_taken_back(last.changeset):
            return last.changeset
        series = self._store.apply([], {}, by=by, why=BACKFILL).id
        self._note_backfill(series, "began", by)
        return series

    def end_backfill(self, series: int, *, by: str = "library") -> None:
        """Mark a backfill as done: the next one begins its own series."""
        self._refuse_viewer("Backfilling")
        _check_who(by, "")
        last = self._find_last_backfill()
        if last and last.outcome == "began" and last.changeset == check_int(series, "series"):
            self._note_backfill(series, "done", by)

    def _find_last_backfill(self) -> MaintenanceRun | None:
        return next(iter(self._store.runs.newest(1, BACKFILL)), None)

    def _note_backfill(self, series: int, outcome: str, by: str) -> None:
        if run := self._store.runs.claim(BACKFILL, "", by):
            self._store.runs.finish(run.id, outcome, {}, series)

    def _is_taken_back(self, series: int) -> bool:
        """Return whether a series was undone: its oldest part is undone last."""
        return any(self.changeset(part).undone_by for part in self._store.carrying.parts(series)[1:2])

    def learn(self, messages: Messages, *, dry_run: bool = False, by: str = "library", **about: Any) -> LearningResult:
        """Learn from messages without the inbox; a dry run returns what would be learned, sentence by sentence."""
        return self._learn(self._clean_exchange(messages, about), "learn", by, dry_run=dry_run)

    def extract(
        self, messages: Messages, *, dry_run: bool = False, by: str = "library", **about: Any
    ) -> LearningResult:
        """Learn with the language model reading everything. NotConfigured without a model."""
        self._refuse_without_model()
        return self._learn(self._clean_exchange(messages, about), "extract", by, dry_run=dry_run)

    def _learn(self, exchange: Exchange, task: Task, by: str, *, dry_run: bool) -> LearningResult:
        with exchange_occasion(task, exchange):
            return self._learner.learn(exchange, task, by=by, dry_run=dry_run)

    def submit(self, messages: Messages, **about: Any) -> CaptureStatus:
        """Queue messages for the language model to read in full; the inbox item gets the result when done."""
        self._refuse_without_model()
        return self._intake.receive([self._clean_exchange(messages, about)], "extract")[0]

    def attempt(self, *items: Item, by: str = "worker") -> None:
        """Learn from inbox items of one session; each ends up settled, postponed or parked."""
        self._refuse_viewer("Working on the inbox")
        self._intake.attempt(items, by)

    def batches(self, items: Sequence[Item]) -> Iterator[builtins.list[Item]]:
        """Group items as `attempt` should receive them."""
        return self._intake.batches(items)

    def due(self, limit: int = 32) -> builtins.list[Item]:
        """Return the items that are due, oldest first."""
        return self._store.inbox.due(limit)

    def claim(self, limit: int = 32) -> builtins.list[Item]:
        """Claim due items for this process; other processes on the same store skip them meanwhile."""
        self._refuse_viewer("Working on the inbox")
        return self._intake.claim(limit)

    def give_back(self, items: Sequence[Item]) -> None:
        """Release claimed items that are not settled."""
        self._store.inbox.give_back(items)

    def ledger(self) -> Ledger:
        """Return counts of all captures ever: stored, merged, rejected or pending."""
        return self._store.inbox.ledger()

    def items(self, state: State | None = None, *, limit: int = 50, after: int | None = None) -> builtins.list[Item]:
        """Return the newest inbox items, optionally of one state."""
        if state is not None and state not in STATES:
            raise InvalidInput(f"state is {state!r}.", f"It is one of: {', '.join(STATES)}.")
        check_int(limit, "limit", least=1, most=MAX_PAGE)
        return self._store.inbox.items(state, limit=limit, after=after if after is None else check_int(after, "after"))

    def item(self, item_id: int) -> Item:
        """Return one inbox item."""
        return self._store.inbox.item(check_int(item_id, "id"))

    def retry(self, item_id: int) -> Item:
        """Queue a parked or rejected item again."""
        return self._store.inbox.retry(check_int(item_id, "id"))

    def forget_captures(self, before: str) -> int:
        """Forget the texts of captures settled before this time; the ledger still counts them.

        The record of memories given to sessions before then is forgotten too.
        """
        self._store.forget_given_before(to_utc_iso(before))
        return self._store.inbox.forget(to_utc_iso(before))

    # ── what a session was given ──────────────────────────────────────────────────────────────────────────────────────

    def now(self) -> str:
        """Return the time of this keeper's clock."""
        return self._clock()

    def given(self, client: str, session: str) -> dict[int, str]:
        """Return the memories injected into this session, each with a digest of its text."""
        return self._store.given(client, session)

    def give(self, client: str, session: str, given: Mapping[int, str]) -> None:
        """Record that these memories were injected into this session."""
        self._store.give(client, session, given)

    def forget_given(self, client: str, session: str) -> None:
        """Forget what was injected into this session: its context no longer holds it."""
        self._store.forget_given(client, session)

    # ── the way out ───────────────────────────────────────────────────────────────────────────────────────────────────

    def search(self, query: str | Query, *, by: str = "library", **how: Any) -> builtins.list[Hit]:
        """Return matching memories, best first. `how` takes the fields of Query and of Scope."""
        return self.search_all([as_query(query, how)], by=by)[0]

    def search_all(self, queries: Sequence[str | Query], *, by: str = "library") -> builtins.list[builtins.list[Hit]]:
        """Return one list of hits per query, in order."""
        _check_who(by, "")
        checked = [as_query(query, {}) for query in queries]
        hit_lists = self._run_queries(checked)
        for query, hits in zip(checked, hit_lists, strict=True):
            if query.noted:
                self._log.note(hits, query.text, by)
        return [[self._add_freshness(hit) for hit in hits] for hits in hit_lists]

    def search_episodes(
        self,
        query: str,
        *,
        k: int = 5,
        skip: int = 0,
        min_score: float = 0.0,
        source: str | None = None,
        source_prefix: str = "",
        project: str | None = None,
        seen_from: str | None = None,
        session: str = "",
        agent: str = "",
        since: str = "",
        until: str = "",
    ) -> builtins.list[EpisodeHit]:
        """Search conversations by turn: matching episodes, best first, each with its best passage.

        Scores use the scale of `search`. The fields from `source` on filter as those of a Scope do.
        """
        scope = Scope(
            source=source,
            source_prefix=source_prefix,
            project=project,
            seen_from=seen_from,
            session=session,
            agent=agent,
            since=since,
            until=until,
        )
        return self._episodes.search(Query(text=query, k=k, skip=skip, min_score=min_score, scope=scope))

    def episode(self, episode_id: int) -> Episode:
        """Return one episode: the conversation of one turn."""
        return self._episodes.get(check_int(episode_id, "id"))

    def episode_of(self, memory_id: int) -> int | None:
        """Return the id of the episode that a memory was learned from; None if it has none."""
        return self._episodes.of_memory(self.get(memory_id).id)

    def purge_episode(self, episode_id: int) -> None:
        """Erase an episode permanently, with the text of its capture. Memories learned from it stay."""
        self._episodes.purge(check_int(episode_id, "id"))

    def sessions(
        self, *, limit: int = 20, client: str = "", project: str | None = None, since: str = ""
    ) -> builtins.list[AgentSession]:
        """Return agent sessions by their last turn, newest first, optionally of one client or project.

        Sessions are known as long as their episodes are kept. A project is a path or a folder name; "" selects sessions
        without a project.
        """
        return self._sessions.newest(
            check_int(limit, "limit", least=1, most=MAX_PAGE),
            client=check_text(client, "client", MAX_LABEL),
            project=None if project is None else check_text(project, "project", MAX_LABEL),
            since=to_utc_iso(since) if since else "",
        )

    def session(self, session: str, *, client: str = "", owner: str | None = None) -> SessionDetail:
        """Return one session by its id or a unique prefix of it: its turns, recalls, memories learned and changes.

        `owner` is a user or an agent, to tell sessions of the same name apart; "" selects sessions without an owner.
        """
        return self._sessions.show(
            check_text(session, "session", MAX_LABEL).strip(),
            client=check_text(client, "client", MAX_LABEL),
            owner=None if owner is None else check_text(owner, "owner", MAX_LABEL),
        )

    def resume(
        self, project: str | None = None, *, limit: int = RESUMED, max_tokens: int = RESUME_TOKENS
    ) -> ResumeReport:
        """Return where work on a project stopped: its last sessions, with a text of limited size. No model is called.

        None covers all projects; "" selects sessions without a project.
        """
        return self._sessions.resume(
            None if project is None else check_text(project, "project", MAX_LABEL),
            check_int(limit, "limit", least=1, most=20),
            check_int(max_tokens, "max_tokens", least=100, most=20_000),
        )

    @property
    def _sessions(self) -> SessionService:
        return SessionService(self._store, self.viewer)

    def recall(
        self,
        prompt: str = "",
        *,
        project: str = "",
        given: Mapping[int, str] = MappingProxyType({}),
        by: str = "library",
        k: int | None = None,
        client: str = "",
        session: str = "",
        since: str = "",
    ) -> Briefing:
        """Return the context block for a session start (no prompt) or for a prompt. An empty briefing is falsy.

        `given` is what the session already received (`Briefing.given` of earlier calls) and is left out. So are
        memories learned in this `session` of this `client` from `since` on: the agent still has those words in its
        context.
        """
        _check_who(by, "")
        current = CurrentSession(client, session, since)
        if not prompt:
            return self._brief_start(project, given, current, k, by)
        most = check_int(recall.AT_PROMPT if k is None else k, "k", least=1, most=recall.MOST)
        exactly, in_words = self._match_knowledge(prompt, given)
        questions, spare = recall.questions(prompt), sum(memory_id > 0 for memory_id in given) + len(in_words)

        def is_known(memory: Memory) -> bool:
            return memory.id in in_words or current.has(memory) or digest(memory.text) in texts

        texts = set(given.values())
        queries = self._relevance.queries(questions, Scope(seen_from=project), most, spare)
        hits = self._select_relevant(questions, self._run_queries(queries), most, is_known)
        memories = recall.not_yet_given([hit.memory for hit in hits], given)
        block = recall.build_briefing(
            recall.take_first(memories, most, self._freshness.check), briefing.PROMPT, exactly=exactly
        )
        block = block or self._brief_episodes(questions, project, given, current)
        self._log.note(
            [memory for memory in memories if memory.id in block.given], sanitize.redact(prompt[:_LOGGED]), by
        )
        if not briefing.is_trivial(prompt):  # trivial prompts such as "yes" trigger no search
            self._log.inject(block, "prompt", by)
        return block

    def _brief_episodes(
        self, questions: Sequence[str], project: str, given: Mapping[int, str], current: CurrentSession
    ) -> Briefing:
        """Return passages of earlier sessions, if no memory matches and a passage clearly does."""
        scope, least = Scope(seen_from=project), recall.SAID_SCORE
        hits = [
            hit
            for question in questions
            for hit in self._episodes.search(Query(text=question, k=recall.SAID + 3, min_score=least, scope=scope))
            if not current.session or hit.passage.session != current.session
        ]
        return recall.build_episode_briefing(hits, given)

    def _brief_start(
        self, project: str, given: Mapping[int, str], current: CurrentSession, k: int | None, by: str
    ) -> Briefing:
        """Return the block for a session start. Its memories do not count as retrievals: no query was made."""
        most = None if k is None else check_int(k, "k", least=1, most=recall.MOST)
        rule = recall.start_rule(self._start_tokens, self._clock(), most)
        digests = set(given.values())
        entries = [
            (memory, freshly)
            for memory, freshly in recall.at_start(self._store, project, rule, self._freshness.check)
            if digest(memory.text) not in digests and not current.has(memory)
        ]
        block = recall.build_briefing(entries, briefing.START)
        self._log.inject(block, "start", by)
        return block

    def _select_relevant(
        self,
        questions: Sequence[str],
        answers: Sequence[Sequence[Hit]],
        most: int,
        is_known: Callable[[Memory], bool] = lambda _: False,
    ) -> builtins.list[Hit]:
        """Return the hits relevant to the questions, best first, without known memories."""
        candidates = [hit for hit in recall.merge(answers) if not is_known(hit.memory)]
        hits = {hit.id: hit for hit in self._relevance.relevant(questions, candidates, most)}
        order = hybrid.newer_first({memory_id: hit.score for memory_id, hit in hits.items()}, self._store)
        return [hits[memory_id] for memory_id in order]

    def _match_knowledge(
        self, prompt: str, given: Mapping[int, str]
    ) -> tuple[builtins.list[briefing.BriefingLine], set[int]]:
        """Return new domain knowledge lines for what a prompt names, and the memories that would only repeat them."""
        if briefing.is_trivial(prompt):
            return [], set()
        matches = mentions.find_mentions(prompt, self._store.domain, self.viewer, quantities)
        sure = [match for match in matches if match.known.confidence >= recall.LEAST_SURE]
        return recall.new_exact_lines(context.briefing_lines(sure, self._clock), given)

    def recall_context(
        self,
        query: str,
        *,
        max_memories: int = 3,
        max_patterns: int = 5,
        max_thresholds: int = 5,
        at: str = "",
        by: str = "library",
    ) -> str:
        """Return background knowledge for a monitoring agent, as text inside `<relevant-context>`.

        Holds matching memories; patterns and thresholds, those named in the query first, then by confidence, and which
        of them trigger at a value in it; correlations of what it names; and the seasons active at a time (default:
        now). "No prior context found." if there is nothing.
        """
        check_text(query, "query", MAX_TEXT)
        check_int(max_memories, "max_memories", least=0, most=context.MOST)
        _check_who(by, "")
        caps = {"max_patterns": max_patterns, "max_thresholds": max_thresholds}
        config = context.AutoRecallConfig(max_memory_results=max_memories, **caps)
        matches = mentions.find_mentions(query, self._store.domain, self.viewer, quantities)
        when = to_utc_iso(at) if at else self._clock()
        rows = context.shown_rows(matches, self._store.domain, when, config, self.viewer)
        questions = recall.questions(query) if max_memories else []
        spare = max_memories + len(rows.memories)
        answers = self._run_queries(self._relevance.queries(questions, Scope(), max_memories, spare))
        relevant = self._select_relevant(questions, answers, max_memories, lambda memory: memory.id in rows.memories)
        hits = recall.distinct(relevant, max_memories)
        self._log.note(hits, sanitize.redact(query[:_LOGGED]), by)
        labelled = [self._add_freshness(hit) for hit in hits]
        return context.build_recall_context(query, rows.beside(lambda _: labelled), config)

    def enrich_prompt(
        self,
        query: str,
        session: str = "",
        include_team: bool = False,
        max_facts: int = enrich.USUAL,
        *,
        by: str = "library",
    ) -> str:
        """Return memories that answer a question, as text to append to a system message; "" if none do.

        "## Relevant Personal Context:" holds what was said in the session; without a session, what is private to the
        caller or global. "## Relevant Team Context:", on request, holds what the team knows. Each lists up to
        `max_facts`, best first, each fact once, and only those relevant enough for `recall`.
        """
        check_text(query, "query", MAX_TEXT)
        check_text(session, "session", MAX_LABEL)
        check_bool(include_team, "include_team")
        check_int(max_facts, "max_facts", least=1, most=enrich.MOST)
        _check_who(by, "")
        questions = recall.questions(query)
        own, of_team = self._search_scopes(questions, session, include_team, max_facts)
        self._log.note([*own, *of_team], sanitize.redact(query[:_LOGGED]), by)
        return enrich.render(own, of_team, self._freshness.check)

    def _search_scopes(
        self, questions: Sequence[str], session: str, include_team: bool, most: int
    ) -> tuple[builtins.list[Memory], builtins.list[Memory]]:
        """Return the relevant memories: the caller's own, and those of the team."""
        scopes = [enrich.personal_memories(session), *([enrich.team_memories()] if include_team else [])]
        queries = [query for scope in scopes for query in self._relevance.queries(questions, scope, most, most)]
        answers = self._run_queries(queries)
        own = enrich.first_hits(self._select_relevant(questions, answers[: len(questions)], most), most)
        return own, enrich.first_hits(self._select_relevant(questions, answers[len(questions) :], most), most, own)

    def is_novel(self, fact: str | Fact, *, threshold: float | None = None, **within: Any) -> Novelty:
        """Return whether no memory of the scope says this yet. Does not count as a retrieval."""
        checked, scope = as_fact(fact, {}), as_scope(within)
        vector = self._embed([embedding_text(checked.text, checked.speaker)])[0]
        least = 0.0 if threshold is None else check_fraction(threshold, "threshold")
        comparer = self._comparer if self._judge else WordComparer(least or self._novel_below)
        return decide.novelty(checked, vector, self._store, scope, comparer, least)

    def get(self, memory_id: int) -> Memory:
        """Return a memory, archived or not."""
        self._log.flush_or_tell()
        memories = self._store.get([check_int(memory_id, "id")])
        if not memories:
            raise NotFound(
                f"There is no memory {memory_id}.", "It may have been purged; cofio list shows what there is."
            )
        return memories[0]

    def freshness(self, memory_id: int) -> FreshnessResult:
        """Return whether the code that a memory references has changed."""
        return self._freshness.check(self.get(memory_id))

    def texts(self, ids: Sequence[int]) -> builtins.list[str]:
        """Return the texts of these memories, in order; deleted ones are skipped."""
        return [memory.text for memory in self._store.get(ids)]

    def list(self, *, limit: int = 50, after: int | None = None, skip: int = 0, **within: Any) -> Page:
        """Return a page of the scope's memories, newest first, after skipping the first `skip`."""
        check_int(limit, "limit", least=1, most=MAX_PAGE)
        check_int(skip, "skip", least=0)
        below = after if after is None else check_int(after, "after")
        scope = as_scope(within)
        self._log.flush_or_tell()
        memories, total = self._store.page(scope, limit=limit + 1, after=below, skip=skip)
        page = memories[:limit]
        return Page(tuple(page), page[-1].id if len(memories) > limit else None, total)

    def projects(self, *, limit: int = 100, after: str = "") -> builtins.list[Project]:
        """Return the projects of live memories by name, starting after `after`."""
        check_int(limit, "limit", least=1, most=MAX_PAGE)
        check_text(after, "after", MAX_LABEL)
        return [Project(*project) for project in self._store.projects(Scope(), limit, after)]

    def count(self) -> int:
        """Return the number of live memories."""
        return self._store.page(Scope(), limit=1)[1]

    def stats(self) -> dict[str, Any]:
        """Return counts of memories, changes and retrievals, and the size on disk."""
        self._log.flush_or_tell()
        return self._store.stats()

    def detect_cross_agent_patterns(
        self, *, min_occurrences: int = 2, limit: int = 20, category: str = "", team: str | None = None
    ) -> builtins.list[RepeatedFact]:
        """Return facts that agents repeatedly stated to the team, most frequent first; optionally of one category."""
        check_int(min_occurrences, "min_occurrences", least=1)
        check_int(limit, "limit", least=1, most=MAX_PAGE)
        repeats = self._store.repeated(min_occurrences, limit, _team_scope(category, team))
        memories = {memory.id: memory for memory in self._store.get([repeat[1] for repeat in repeats])}
        return [
            RepeatedFact(agent, memories[memory_id], times)
            for agent, memory_id, times in repeats
            if memory_id in memories
        ]

    def get_team_facts(self, *, limit: int = 50, category: str = "", team: str | None = None) -> builtins.list[Memory]:
        """Return team memories, most recently stated first; optionally of a category or kind.

        A viewer with several teams may select one.
        """
        check_int(limit, "limit", least=1, most=MAX_PAGE)
        self._log.flush_or_tell()
        return self._store.latest(_team_scope(category, team), limit)

    # ── history ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def history(self, memory_id: int) -> builtins.list[Change]:
        """Return every change of a memory and of those merged with it, oldest first."""
        return self._store.history(check_int(memory_id, "id"))

    def occurrences(self, memory_id: int) -> builtins.list[Occurrence]:
        """Return every sighting (who stated it, where and when), including those of merged memories."""
        return self._store.occurrences(self.get(memory_id).id)

    def learned_from(self, memory_id: int) -> Item | None:
        """Return the capture that the memory was learned from; None if it has none or its text is forgotten."""
        first = next(change for change in self._store.history(self.get(memory_id).id) if change.memory_id == memory_id)
        return self._store.inbox.settled_by(first.changeset)

    def changes(self, *, limit: int = 20) -> builtins.list[Changeset]:
        """Return the newest changesets."""
        return self._store.changesets(check_int(limit, "limit", least=1, most=MAX_PAGE))

    def changeset(self, changeset_id: int) -> Changeset:
        """Return one changeset with all its changes."""
        return self._store.changeset(check_int(changeset_id, "changeset"))

    def undo(self, changeset_id: int, *, by: str = "library", why: str = "") -> Changeset:
        """Revert a whole changeset by a new changeset, which can be undone in turn.

        Undoing the first changeset of a series, such as an import, undoes the whole series, newest first; the undo is a
        series too. If a conflict stops it, the parts undone so far stay undone, and calling it again continues. In a
        backfill, turns with memories changed since are skipped.
        """
        parts = self._store.carrying.parts(check_int(changeset_id, "changeset"))
        if len(parts) < 2:
            reversal = self._undo_one(self.changeset(changeset_id), None, by, why)
        else:
            reversal = self._undo_series(parts, by, why)
        with suppress(CofioError):  # the undo holds; missing vectors are embedded when the model is back
            self._embed_again([change.memory_id for change in reversal.changes])
        return reversal

    def _undo_one(self, changeset: Changeset, part_of: int | None, by: str, why: str) -> Changeset:
        self._refuse_undone(changeset)
        if not changeset.changes and not changeset.knowledge:
            raise Conflict(f"Changeset {changeset.id} changed nothing.", "There is nothing to undo.")
        reason = f"undo of changeset {changeset.id}"
        decisions = [Revert(change.id, reason) for change in reversed(changeset.changes)]
        rows = [Withdraw(change.id, reason) for change in reversed(changeset.knowledge)]
        why = why or f"undo {changeset.id}"
        return self.apply(decisions, by=by, why=why, undoes=changeset.id, part_of=part_of, knowledge=rows)

    def _undo_series(self, parts: Sequence[int], by: str, why: str) -> Changeset:
        """Return the first changeset that undid a part. Parts undone by an earlier attempt are in the same series."""
        head: int | None = None
        fresh = False
        leaves = self.changeset(parts[0]).why == BACKFILL
        for number, changeset_id in enumerate(reversed(parts)):
            part = self.changeset(changeset_id)
            if part.undone_by and not (earlier := self.changeset(part.undone_by)).undone_by:
                head = head or earlier.part_of or earlier.id
                continue
            if not part.changes and not part.knowledge:
                continue
            try:
                reversal = self._undo_one(part, head, by, why or f"undo {parts[0]}")
            except Conflict as error:
                if leaves:
                    continue
                so_far = f"{number} of the {len(parts)} changesets are undone. {error.message}"
                raise Conflict(so_far, f"{error.hint} Then undo {parts[0]} again: it continues from here.") from error
            head, fresh = head or reversal.id, True
        if not fresh:
            self._refuse_undone(self.changeset(parts[1] if leaves else parts[0]))
            if head is None:
                raise Conflict("Every memory of it was changed since.", "`cofio history` shows what was changed.")
        return self.changeset(head or parts[0])

    def _refuse_undone(self, changeset: Changeset) -> None:
        """Raise Conflict if it was undone, with its current state and the changeset to undo instead."""
        last, is_undone = changeset, False
        while last.undone_by:
            last, is_undone = self.changeset(last.undone_by), not is_undone
        if last is changeset:
            return
        number = last.part_of or last.id
        if is_undone:
            raise Conflict(f"Changeset {changeset.id} is undone already.", f"To restore it, undo changeset {number}.")
        hint = f"To revert it again, undo changeset {number}."
        raise Conflict(f"Changeset {changeset.id} was undone and then restored.", hint)

    def _embed_again(self, ids: Sequence[int]) -> None:
        """Embed those of these memories that lost their vector; if there are many, leave them to `embed_missing`."""
        missing = self._store.unembedded(_BATCH, among=ids)
        if missing and len(missing) < _BATCH:
            vectors = self._embed([embedding_text(memory.text, memory.speaker) for memory in missing])
            self._store.put_vectors({memory.id: vector for memory, vector in zip(missing, vectors, strict=True)})

    # ── upkeep ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def find_duplicates(self, *, threshold: float | None = None, **within: Any) -> builtins.list[Delete]:
        """Return decisions that would merge duplicates, with reasons. Changes nothing."""
        at = self._dedup_at if threshold is None else check_fraction(threshold, "threshold", least=0.5)
        return duplicates.decide(self._store, as_scope(within), at, self._comparer if self._judge else WordComparer(at))

    def merge_duplicates(
        self, *, threshold: float | None = None, by: str = "library", why: str = "", **within: Any
    ) -> Changeset | None:
        """Merge duplicates in one changeset; return None if there are none."""
        with self._deciding:
            decisions = self.find_duplicates(threshold=threshold, **within)
            return self.apply(decisions, by=by, why=why or "merge duplicates") if decisions else None

    def find_all(self, why: str = "", **within: Any) -> builtins.list[Delete]:
        """Return decisions that would archive every live memory of the scope. Changes nothing."""
        scope, after, decisions = as_scope(within), None, []
        while memories := self._store.page(scope, limit=MAX_PAGE, after=after)[0]:
            decisions += [Delete(memory.id, why) for memory in memories if not memory.archived]
            after = memories[-1].id
        return decisions

    def embed_missing(self, progress: Callable[[int], None] | None = None, *, most: int | None = None) -> int:
        """Embed memories without a vector, all or at most `most`; return their number."""
        total = 0
        while memories := self._store.unembedded(_BATCH if most is None else min(_BATCH, most - total)):
            vectors = self._embed([embedding_text(memory.text, memory.speaker) for memory in memories])
            self._store.put_vectors({memory.id: vector for memory, vector in zip(memories, vectors, strict=True)})
            total += len(memories)
            if progress:
                progress(total)
        return total

    def unread(self) -> int:
        """Return the number of memories without token embeddings; 0 if re-ranking is off."""
        self._refuse_viewer("Computing token embeddings")
        return self._store.readings.counts()[1] if self._reading.bound() else 0

    def read_missing(self, progress: Callable[[int], None] | None = None, *, most: int | None = None) -> int:
        """Compute missing token embeddings of all or `most` memories; return their number, 0 if re-ranking is off."""
        self._refuse_viewer("Computing token embeddings")
        total = 0
        while (reader := self._reading.bound()) and (most is None or total < most):
            memories = self._store.readings.unread(_BATCH if most is None else min(_BATCH, most - total))
            if not memories:
                break
            words = self._reading.documents(memories)
            if not words or not self._store.readings.put(list(zip(memories, words, strict=True)), reader.signature):
                break
            total += len(memories)
            if progress:
                progress(total)
        return total

    def index_episodes(self, *, most: int | None = None) -> int:
        """Index captures that have no episode yet, all or at most `most`; return their number."""
        self._refuse_viewer("Indexing episodes")
        return self._episodes.index_missing(most)

    def embed_episodes(self, *, most: int | None = None) -> int:
        """Embed episode passages that have no vector yet, all or at most `most`; return their number."""
        self._refuse_viewer("Embedding every episode")
        return self._episodes.embed_missing(most)

    def forget_episodes(self, before: str, megabytes: int) -> int:
        """Remove episodes from before this time, and the oldest ones over `megabytes` in total; return their number."""
        self._refuse_viewer("Removing episodes")
        return self._episodes.forget(to_utc_iso(before), check_int(megabytes, "megabytes", least=0))

    def reembed(self, progress: Callable[[int], None] | None = None) -> int:
        """Embed every memory and episode again with the current embedder; return the number of memories."""
        self._refuse_viewer("Re-embedding every memory")
        self._embedder.embed(["test text: fail before any vector is dropped"], "document")
        self._store.set_signature(self._embedder.signature, reset=True)
        self._signed = True
        total = self.embed_missing(progress)
        self.embed_episodes()
        return total

    def consolidate(
        self, *, dry_run: bool = True, source_prefix: str = "", by: str = "library", why: str = ""
    ) -> MaintenancePlan:
        """Merge duplicates in one changeset, and report refused merges with reasons. A dry run only previews."""
        self._refuse_viewer("Upkeep")
        _check_who(by, why)
        check_bool(dry_run, "dry_run")
        scope = Scope(source_prefix=source_prefix)
        return self._house.consolidate(scope) if dry_run else self._house.do("consolidate", by=by, why=why, scope=scope)

    def prune(self, *, dry_run: bool = True, by: str = "library", why: str = "") -> MaintenancePlan:
        """Archive memories that were not recalled for long, in one changeset. A dry run only previews."""
        self._refuse_viewer("Upkeep")
        _check_who(by, why)
        check_bool(dry_run, "dry_run")
        return self._house.prune() if dry_run else self._house.do("prune", by=by, why=why)

    def chore(
        self, chore: str, *, slot: str, by: str = "schedule", halted: Callable[[], bool] | None = None
    ) -> MaintenanceRun | None:
        """Run a chore for a cron slot; return the finished run, or None if another process claimed the slot."""
        self._refuse_viewer("Upkeep")
        return self._house.scheduled(chore, to_utc_iso(slot), by=by, halted=halted or (lambda: False))

    def begin_schedule(self, chore: str, slot: str) -> None:
        """Record that the schedule of a chore starts after this slot, if it has never run."""
        run = self._store.runs.claim(chore, to_utc_iso(slot), "schedule")
        if run is not None:
            self._store.runs.finish(run.id, "began", {"note": "the schedule begins"})

    def last_run(self, chore: str) -> MaintenanceRun | None:
        """Return the newest run of a cron slot."""
        return self._store.runs.last(chore)

    def runs(self, *, limit: int = 20, chore: str = "") -> builtins.list[MaintenanceRun]:
        """Return the newest chore runs, optionally of one chore."""
        check_int(limit, "limit", least=1, most=MAX_PAGE)
        if chore and chore not in CHORES:
            raise InvalidInput(f"There is no chore {chore!r}.", f"There are: {', '.join(CHORES)}.")
        return self._store.runs.newest(limit, chore)

    def usage(self, view: View = "most", *, limit: int = 50, days: int = 90, **within: Any) -> builtins.list[Memory]:
        """Return memories "never" recalled (oldest first), recalled "most", or "stale" (not for `days` days)."""
        if view not in VIEWS:
            raise InvalidInput(f"There is no view {view!r}.", f"There are: {', '.join(VIEWS)}.")
        check_int(limit, "limit", least=1, most=MAX_PAGE)
        before = days_before(self._clock(), check_int(days, "days", least=0, most=36_500))
        self._count_recalled()
        return self._store.uses.view(view, as_scope(within), limit, before)

    def audit(self, *, examples: int = 5, progress: Callable[[int, int], None] | None = None) -> Audit:
        """Return the profile of the store: duplicates, echoes, secrets, unused, stale or contradicted memories."""
        self._refuse_viewer("Upkeep")
        return self._house.audit(check_int(examples, "examples", least=0, most=100), progress)

    def contradictions(self, *, limit: int = 50) -> Contradictions:
        """Return pairs of memories that contradict each other, newest first, and the total number of pairs."""
        self._refuse_viewer("Upkeep")
        return self._house.contradictions(check_int(limit, "limit", least=1, most=MAX_PAGE))

    def approve(
        self, chore: str, decisions: Sequence[Decision], *, as_of: int, by: str = "library", why: str = ""
    ) -> Changeset:
        """Apply some of the decisions that `consolidate`, `prune` or `contradictions` showed, in one changeset.

        `as_of` comes from the plan: Conflict if one of its memories was changed since.
        """
        self._refuse_viewer("Upkeep")
        _check_who(by, why)
        return self._house.approve(chore, decisions, as_of, by=by, why=why)

    def agree(self, ids: Sequence[int], *, by: str = "library", why: str = "") -> Changeset:
        """Mark two memories as compatible: they no longer count as a contradiction until one of them changes."""
        self._refuse_viewer("Upkeep")
        _check_who(by, why)
        return self._house.agree(ids, by=by, why=why)

    def note_recalled(self, given: Sequence[tuple[str, str, Sequence[int]]]) -> None:
        """Count recalls made without this keeper: time, recipient, memories. An impossible time is replaced by now."""
        self._refuse_viewer("Counting recalled memories")
        now = self._clock()
        earliest = days_before(now, _LATE_DAYS)
        retrievals = []
        for at, by, ids in given:
            when = _parse_time(at, now)
            retrievals += [
                Retrieval(memory_id, "", by[:MAX_LABEL], when if earliest < when < now else now) for memory_id in ids
            ]
        self._store.note(retrievals)

    def forget_retrievals(self, before: str) -> int:
        """Forget the queries of retrievals before this time; the counts stay."""
        return self._store.uses.forget(to_utc_iso(before))

    def tidy(
        self,
        *,
        captures: int,
        retrievals: int,
        deeds: int = 365,
        episodes: int = 180,
        episode_mb: int = 500,
        llm_texts: int = 7,
    ) -> None:
        """Apply the retention periods, in days: captures, retrievals, audit log, episodes and language model texts.

        `episode_mb` also limits the total size of episodes in megabytes; the oldest are removed first.
        """
        now = self._clock()  # the clock that set their times
        self.forget_captures(days_before(now, captures))
        self.forget_retrievals(days_before(now, retrievals))
        self._store.pictures.forget_injected(days_before(now, retrievals))
        self.forget_deeds(days_before(now, deeds))
        self.forget_episodes(days_before(now, episodes), episode_mb)
        self._store.llm_calls.forget(days_before(now, llm_texts))
        self._close_interrupted()

    # ── who may ask ───────────────────────────────────────────────────────────────────────────────────────────────────

    def create_key(self, grant: Grant, *, by: str = "library", deed: AuditEntry | None = None) -> tuple[Key, str]:
        """Create a key; return it with its secret, which is not stored and cannot be shown again.

        `deed` describes the actor for the audit log, if more than a name is known.
        """
        _check_who(by, "")
        if grant.expires_at is not None and grant.expires_at <= self._clock():
            raise InvalidInput(f"expires_at is in the past: {grant.expires_at}.", "Give a future time.")
        secret = auth.new_secret()
        key = self._store.keys.create(grant, auth.digest(secret), auth.hint(secret), by)
        self._note_key_change("key created", f"key {key.id} ({key.grant.name}), {key.grant.role}", by, deed)
        return key, secret

    def revoke_key(self, key_id: int, *, by: str = "library", deed: AuditEntry | None = None) -> Key:
        """Revoke a key: it no longer grants access."""
        _check_who(by, "")
        key = self._store.keys.revoke(check_int(key_id, "id"))
        self._note_key_change("key revoked", f"key {key.id} ({key.grant.name})", by, deed)
        return key

    def _note_key_change(self, act: str, subject: str, by: str, deed: AuditEntry | None) -> None:
        self.key_changes += 1
        who = deed or AuditEntry(at="", act="", outcome="done", name=by)
        self._deeds.note(replace(who, at=self._clock(), act=act, what=subject))

    def keys(self) -> builtins.list[Key]:
        """Return every key ever created, newest first."""
        self._deeds.flush_or_tell()
        return self._store.keys.all()

    def key_of(self, digest: str) -> Key | None:
        """Return the key with this digest, even if revoked or expired."""
        return self._store.keys.find(digest)

    def wants_key(self) -> bool:
        """Return whether a valid key exists, so that the service requires one."""
        return self._store.keys.any_valid()

    def note_deed(self, deed: AuditEntry) -> None:
        """Queue an audit log entry, dated now unless it has a time; does not wait for the write."""
        self._deeds.note(deed if deed.at else replace(deed, at=self._clock()))

    def note_used(self, key: Key, at: str) -> None:
        """Record when a key was used."""
        self._deeds.used(key.id, at)

    def deeds(self, *, limit: int = 50, after: int | None = None, key: int | None = None) -> builtins.list[AuditEntry]:
        """Return the newest audit log entries, optionally of one key."""
        check_int(limit, "limit", least=1, most=MAX_PAGE)
        below, of = (
            value if value is None else check_int(value, name) for value, name in ((after, "after"), (key, "key"))
        )
        self._deeds.flush_or_tell()
        return self._store.keys.deeds(limit, after=below, key=of)

    def forget_deeds(self, before: str) -> int:
        """Delete audit log entries from before this time; return their number."""
        return self._store.keys.forget(to_utc_iso(before))

    # ── moving ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def export_lines(self, *, vectors: bool = False) -> Iterator[str]:
        """Yield a header, then every memory as a line of JSON; archived ones included, with vectors on request."""
        self._log.flush_or_tell()
        return export.export_lines(self._store, vectors=vectors)

    def import_lines(
        self, lines: Iterable[str | bytes], *, name: str, embed: bool = True, by: str = "library", **how: Any
    ) -> ImportResult:
        """Import an export, or lines of plain facts; `how` takes the fields of `transfer.importing.Import`."""
        return self._import(name, embed, by, how).lines(lines)

    def import_facts(
        self, facts: Iterable[Fact | SkippedEntry], *, name: str, embed: bool = True, by: str = "library", **how: Any
    ) -> ImportResult:
        """Import facts that name their source, such as another tool's memories; `how` as for `import_lines`."""
        return self._import(name, embed, by, how).facts(facts)

    def _import(self, name: str, embed: bool, by: str, how: Mapping[str, Any]) -> ImportRun:
        _check_who(by, f"import {name}")
        return ImportRun(
            store=self._store,
            name=name,
            by=by,
            embed=self._embed if embed else None,
            signature=self._embedder.signature,
            redact=sanitize.redact,
            own=self._set_owner,
            repeats=self._is_repeated if self._judge else None,
            **how,
        )

    def _is_repeated(self, fact: Fact, vector: Vector) -> bool:
        """Return whether a memory of the same scope already says this fact."""
        near = decide.related(fact, vector, self._store, self._comparer)
        return any(verdict.kind == "same" for _, verdict in near)

    # ── life ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def warm(self) -> None:
        """Load models and vectors and compile patterns now, so that the first request is fast."""
        vector = self._embed(["ready"], "query")[0]
        self._reading.questions(["ready"])()
        if self._judge:
            self._judge.relevance("ready", ["ready"])
        self._store.nearest(vector, 1, Scope())
        lazy_re.compile_all()

    def close(self) -> None:
        """Flush pending writes and close the store."""
        if self._seen:
            return
        self._reading.close()
        self._log.close()
        self._deeds.close()
        self._store.close()

    def __enter__(self) -> Keeper:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Memory]:
        """Yield every live memory, newest first."""
        after = None
        while memories := self._store.page(Scope(), limit=MAX_PAGE, after=after)[0]:
            yield from memories
            after = memories[-1].id

    def _count_recalled(self) -> None:
        """Count all recalls so far, by this process and others, if the store accepts the write."""
        try:
            self._elsewhere(self.note_recalled)
        except (OSError, CofioError) as error:
            _log.warning("recalls by other processes not counted yet: %s", error)
        self._log.flush_or_tell()

    def _refuse_without_model(self) -> None:
        if self.llm is None:
            hint = "Set EXTRACT_PROVIDER to anthropic, openai or ollama; `capture` learns without a model too."
            raise NotConfigured("No language model is configured for extraction.", self._llm_problem or hint)

    def _run_queries(self, queries: Sequence[Query]) -> builtins.list[builtins.list[Hit]]:
        texts = list(dict.fromkeys(query.text for query in queries))
        closely = [query.text for query in queries if query.hybrid and query.rerank]
        get_questions = self._reading.questions(closely)  # runs on another core while the query vectors are computed
        vectors = dict(zip(texts, self._embed(texts, "query"), strict=True)) if texts else {}
        floor, questions = self._embedder.floor, get_questions()
        return [
            hybrid.hits(query, vectors[query.text], self._store, floor, questions.get(query.text)) for query in queries
        ]

    def _add_freshness(self, hit: Hit) -> Hit:
        freshness = self._freshness.check(hit.memory) if hit.memory.anchors else FreshnessResult()
        return replace(hit, freshness=freshness.state, stale=freshness.notes) if freshness.state else hit

    def _add_anchors(self, fact: Fact) -> Fact:
        """Return the fact with the anchors of its text, unless it has anchors."""
        return fact if fact.anchors else self._freshness.anchored(fact)

    def _anchor_decision(self, decision: Decision) -> Decision:
        """Return the decision with the anchors of its new text."""
        if isinstance(decision, Add | Update | Merge):
            return replace(decision, fact=self._add_anchors(decision.fact))
        if not isinstance(decision, Edit) or "anchors" in decision.fields:
            return decision
        for memory in self._store.get([decision.id]) if decision.fields.keys() & {"text", "project"} else ():
            anchors = self._freshness.anchored(fact_of(apply_edit(memory, decision.fields))).anchors
            if anchors != memory.anchors:
                return replace(decision, fields={**decision.fields, "anchors": anchors})
        return decision

    def _embed(self, texts: Sequence[str], kind: Literal["query", "document"] = "document") -> Matrix:
        vectors = self._embedder.embed(texts, kind)
        if not self._signed:
            self._store.set_signature(self._embedder.signature)
            self._signed = True
        return vectors

    def _embed_decisions(self, decisions: Sequence[Decision]) -> dict[int, Vector]:
        texts: dict[int, str] = {}
        for place, decision in enumerate(decisions):
            if isinstance(decision, Add | Update | Merge):
                texts[place] = embedding_text(decision.fact.text, decision.fact.speaker)
            elif isinstance(decision, Edit) and _has_text(decision):
                memory = apply_edit(self.get(decision.id), decision.fields)
                texts[place] = embedding_text(memory.text, memory.speaker)
        return dict(zip(texts, self._embed(list(texts.values())), strict=True)) if texts else {}


class _Reranker:
    """Holder of the re-ranker, shared by a keeper and its viewers; disabled after the first failure."""

    def __init__(self, reader: LateInteractionModel | None, readings: TokenEmbeddings) -> None:
        self._reader = reader
        self._readings = readings
        self._bound = False
        self._pool = ThreadPoolExecutor(2, "cofio-reading")  # threads start with the first query

    def bound(self) -> LateInteractionModel | None:
        """Return the re-ranker after binding the store to its model. Search skips this: it may wait for writers."""
        if self._reader and not self._bound:
            self._readings.set_signature(self._reader.signature)
            self._bound = True
        return self._reader

    def questions(self, texts: Sequence[str]) -> Callable[[], Mapping[str, TokenQuery]]:
        """Start encoding the queries; return a function that waits for the result, empty without a re-ranker."""
        reader = self._reader
        if reader is None or not texts:
            return dict
        try:
            reading = self._pool.submit(reader.read, texts, "query")
        except RuntimeError:  # closed meanwhile, or the process exits
            return dict
        return lambda: self._collect_encoded(reader, texts, reading)

    def documents(self, memories: Sequence[Memory]) -> builtins.list[bytes]:
        """Return the token embeddings of each memory; empty on failure."""
        try:
            texts = [read_in_context(memory.text, memory.speaker, memory.context) for memory in memories]
            return self._reader.read(texts, "document") if self._reader else []
        except Exception as error:  # noqa: BLE001 - a model may raise anything
            _log.warning("Re-ranking disabled: %s", error)
            self._reader = None
            return []

    def close(self) -> None:
        self._reader = None
        self._pool.shutdown(wait=False)

    def _collect_encoded(
        self, reader: LateInteractionModel, texts: Sequence[str], reading: Future[builtins.list[bytes]]
    ) -> Mapping[str, TokenQuery]:
        """Return the encoded queries. A failing re-ranker costs the re-ranking, not the answer."""
        try:
            encoded = reading.result()
        except Exception as error:  # noqa: BLE001 - a model may raise anything
            _log.warning("Re-ranking disabled: %s", error)
            self._reader = None
            return {}
        return {text: TokenQuery(reader, tokens) for text, tokens in zip(texts, encoded, strict=True) if tokens}


class _CoreNotesCallbacks:
    """Operations of the keeper that the notes sync needs."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self.refuse_viewer = keeper._refuse_viewer
        self.own = keeper._set_owner
        self.undo = keeper.undo

    def apply(self, decisions: Sequence[Decision], *, by: str, why: str, part_of: int | None) -> tuple[Changeset, int]:
        return self._keeper._apply_anyway(decisions, by=by, why=why, part_of=part_of)


class _MaintenanceCallbacks:
    """Operations of the keeper that the housekeeper needs."""

    def __init__(self, keeper: Keeper) -> None:
        self.apply = keeper.apply
        self.read_from = keeper.read_from
        self.flush = keeper._count_recalled
        self.documents = keeper._embed
        self._embedder = keeper._embedder
        self._embed = keeper._embed

    def question(self, text: str) -> Vector:
        vector: Vector = self._embed([text], "query")[0]
        return vector

    def floor(self) -> float:
        return self._embedder.floor


def _has_text(decision: Decision) -> bool:
    """Return whether the decision brings text to embed."""
    if isinstance(decision, Edit):
        return bool(decision.fields.keys() & {"text", "speaker"})
    return isinstance(decision, Add | Update | Merge)


def _parse_time(text: str, otherwise: str) -> str:
    try:
        return to_utc_iso(text)
    except InvalidInput:
        return otherwise


def _check_decisions(decisions: Sequence[Decision], knowledge: Sequence[KnowledgeDecision]) -> None:
    if not decisions and not knowledge:
        raise InvalidInput("There is nothing to do.", "Give at least one decision.")
    if not all(isinstance(decision, Decision) for decision in decisions):
        raise InvalidInput("Not a list of decisions.", "Give Add, Update, Edit, Delete, Restore, Noop or Purge.")
    if not all(isinstance(row, KnowledgeDecision) for row in knowledge):
        raise InvalidInput("Not a list of knowledge decisions.", "Give Put, Drop or Erase.")


def _check_who(by: str, why: str) -> None:
    check_text(by, "by", MAX_LABEL)
    check_text(why, "why", MAX_TEXT)


def _team_scope(category: str, team: str | None) -> Scope:
    """Return the scope of the team's memories, or of one team's. A kind is accepted as category too."""
    if category in KINDS and category not in CATEGORIES:
        return Scope(visibility=("team",), kind=category, team=team)
    if category and category not in CATEGORIES:
        choices = ", ".join(dict.fromkeys((*CATEGORIES, *KINDS)))
        raise InvalidInput(f"category is {category!r}.", f"It is one of: {choices}.")
    return Scope(visibility=("team",), category=category, team=team)


def _renew(old: Memory, text: str, about: Mapping[str, Any]) -> Fact:
    """Return the old memory with a new text: scope and labels carry over, the time does not."""
    known_fields(about, Fact, "fact")
    changes = {name: value for name, value in about.items() if value not in (None, "")}
    if "kind" in changes:
        changes = {"category": "", **changes}  # a new kind sets its own category
    fresh = {"text": text, "created_at": "", "context": "", "origin": "", "anchors": ()}
    return replace(fact_of(old), **{**fresh, **changes})
