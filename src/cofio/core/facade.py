"""Façade of the library: every public operation, delegated to the service that implements it.

messages ─ sanitize ─▶ exchange ─ inbox ─▶ gate ─ extract ─ reconcile ─▶ decisions ─ apply ─▶ changes
fact ─ reconcile ─▶ decisions ─ apply ─▶ changes          query ─ search ─▶ hits ─ logged as retrievals
                                                          prompt ─ search ─▶ hits ─ recall ─▶ briefing
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import wraps
from types import TracebackType
from typing import Concatenate, ParamSpec, TypeVar, Unpack

from cofio.core.api_keys import KeyService
from cofio.core.captures import CaptureService
from cofio.core.domain_knowledge import KnowledgeBase
from cofio.core.history import HistoryService
from cofio.core.llm_usage import LLMUsageService
from cofio.core.memories import MemoryService
from cofio.core.recall import RecallService
from cofio.core.retention import EmbeddingService
from cofio.core.search import SearchService
from cofio.core.services import Resources, ServiceKwargs, ServiceOptions, Services
from cofio.core.transfer import TransferService
from cofio.dashboard.projection import MapCache
from cofio.dashboard.service import DashboardService
from cofio.ingest import sanitize
from cofio.ingest.pipeline import Learner
from cofio.ingest.reconcile.compare import JudgedComparer, WordComparer
from cofio.maintenance.service import MaintenanceService
from cofio.markdown_notes.service import NotesService
from cofio.models.dashboard import Injection
from cofio.models.exchange import LearningResult
from cofio.models.memory import Memory, Scope, Viewer
from cofio.ports import LLM, Clock, Embedder, Judge, LateInteractionModel, Store
from cofio.retrieval.encoder import StoreEncoder
from cofio.retrieval.episodes import EpisodeService
from cofio.retrieval.log import ImportRecalls, RetrievalLog
from cofio.retrieval.reranker import Reranker
from cofio.retrieval.sessions import SessionService
from cofio.staleness import StalenessChecker
from cofio.stores.audit_log import AuditLog
from cofio.text import lazy_re

_Service = TypeVar("_Service")
_Result = TypeVar("_Result")
_Args = ParamSpec("_Args")


def _delegate(
    service: Callable[[Services], _Service], method: Callable[Concatenate[_Service, _Args], _Result]
) -> Callable[Concatenate[Keeper, _Args], _Result]:
    """Return a method of the façade that calls this method of a service."""

    @wraps(method)
    def call(self: Keeper, /, *args: _Args.args, **kwargs: _Args.kwargs) -> _Result:
        return method(service(self.services), *args, **kwargs)

    return call


class Keeper:
    """Store of facts with search. Thread-safe; call `close`, or use it in a `with` statement."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        clock: Clock,
        *,
        reranker: LateInteractionModel | None = None,
        judge: Judge | None = None,
        llm: LLM | None = None,
        staleness: StalenessChecker | None = None,
        on_invalidate: Callable[[], None] = lambda: None,
        read_offline_log: Callable[[ImportRecalls], None] = lambda _: None,
        **options: Unpack[ServiceKwargs],
    ) -> None:
        """Build the services on a store.

        Without a `judge`, patterns and words decide. `on_invalidate` is called when a memory's text is corrected or
        removed, so that copies of it go; `read_offline_log` passes on the recalls made without this process.
        """
        checked = ServiceOptions(**options)
        checker = staleness or StalenessChecker(reads=False)
        encoder = StoreEncoder(embedder, store)
        lock = threading.RLock()
        comparer = JudgedComparer(judge) if judge else WordComparer(checked.duplicate_threshold)
        learner = Learner(
            store,
            encoder.embed,
            lambda: encoder.floor,
            llm,
            lock,
            anchored=checker.anchored,
            taken_back=on_invalidate,
            judge=judge,
            reads=checked.llm_reads,
            comparer=comparer,
            clock=clock,
        )
        resources = Resources(
            store=store,
            clock=clock,
            encoder=encoder,
            reranker=Reranker(reranker, store.token_embeddings),
            judge=judge,
            llm=llm,
            comparer=comparer,
            learner=learner,
            lock=lock,
            retrieval_log=RetrievalLog(store, clock, sanitize.redact, read_offline_log),
            audit_log=AuditLog(store),
            maps=MapCache(),
            on_invalidate=on_invalidate,
            options=checked,
        )
        self.services = Services(resources, checker)

    # ── callers ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def as_viewer(self, viewer: Viewer | None) -> Keeper:
        """Return this keeper as a viewer may use it: it finds what they may see, and they own what it stores.

        Maintenance, which reads everything, raises Forbidden. Only the original keeper closes the store.
        """
        if viewer is None:
            return self
        limited = object.__new__(Keeper)
        limited.services = self.services.for_viewer(viewer)
        return limited

    def as_assistant(self) -> Keeper:
        """Return this keeper as an agent uses it: what it stores holds the assistant's words, not the user's."""
        limited = object.__new__(Keeper)
        limited.services = self.services.for_assistant()
        return limited

    @property
    def viewer(self) -> Viewer | None:
        """The viewer; None for the owner, who sees everything."""
        return self.services.access.viewer

    @property
    def user(self) -> str:
        """Name of the user who reads; "" for the owner and for agents."""
        return self.services.access.user

    @property
    def knowledge(self) -> KnowledgeBase:
        """Structured domain knowledge: patterns, correlations, thresholds, seasonal patterns, feedback."""
        return self.services.knowledge

    @property
    def notes(self) -> NotesService:
        """Markdown files synced with memories."""
        return self.services.notes

    @property
    def dashboard(self) -> DashboardService:
        """Dashboard views of the store: activity over time, agents, the memory map."""
        return self.services.dashboard

    # ── memories ──────────────────────────────────────────────────────────────────────────────────────────────────────

    add = _delegate(lambda to: to.memories, MemoryService.add)
    add_all = _delegate(lambda to: to.memories, MemoryService.add_all)
    update = _delegate(lambda to: to.memories, MemoryService.update)
    supersede = _delegate(lambda to: to.memories, MemoryService.supersede)
    delete = _delegate(lambda to: to.memories, MemoryService.delete)
    restore = _delegate(lambda to: to.memories, MemoryService.restore)
    purge = _delegate(lambda to: to.memories, MemoryService.purge)
    mark_fresh = _delegate(lambda to: to.memories, MemoryService.mark_fresh)
    bulk = _delegate(lambda to: to.memories, MemoryService.bulk)
    apply = _delegate(lambda to: to.memories, MemoryService.apply)
    get = _delegate(lambda to: to.memories, MemoryService.get)
    list = _delegate(lambda to: to.memories, MemoryService.list)
    count = _delegate(lambda to: to.memories, MemoryService.count)
    stats = _delegate(lambda to: to.memories, MemoryService.stats)
    projects = _delegate(lambda to: to.memories, MemoryService.projects)
    freshness = _delegate(lambda to: to.memories, MemoryService.freshness)
    find_duplicates = _delegate(lambda to: to.memories, MemoryService.find_duplicates)
    merge_duplicates = _delegate(lambda to: to.memories, MemoryService.merge_duplicates)
    detect_cross_agent_patterns = _delegate(lambda to: to.memories, MemoryService.detect_cross_agent_patterns)
    get_team_facts = _delegate(lambda to: to.memories, MemoryService.get_team_facts)

    def __iter__(self) -> Iterator[Memory]:
        """Yield every live memory, newest first."""
        return iter(self.services.memories)

    # ── history ───────────────────────────────────────────────────────────────────────────────────────────────────────

    history = _delegate(lambda to: to.history, HistoryService.history)
    occurrences = _delegate(lambda to: to.history, HistoryService.occurrences)
    learned_from = _delegate(lambda to: to.history, HistoryService.learned_from)
    changes = _delegate(lambda to: to.history, HistoryService.changes)
    changeset = _delegate(lambda to: to.history, HistoryService.changeset)
    undo = _delegate(lambda to: to.history, HistoryService.undo)
    undo_learned = _delegate(lambda to: to.history, HistoryService.undo_learned)

    # ── search and recall ─────────────────────────────────────────────────────────────────────────────────────────────

    search = _delegate(lambda to: to.search, SearchService.search)
    search_all = _delegate(lambda to: to.search, SearchService.search_all)
    is_novel = _delegate(lambda to: to.memories, MemoryService.is_novel)
    recall = _delegate(lambda to: to.recall, RecallService.recall)
    recall_context = _delegate(lambda to: to.recall, RecallService.recall_context)
    enrich_prompt = _delegate(lambda to: to.recall, RecallService.enrich_prompt)
    search_episodes = _delegate(lambda to: to.episodes, EpisodeService.search_episodes)
    episode = _delegate(lambda to: to.episodes, EpisodeService.get)
    episode_of = _delegate(lambda to: to.episodes, EpisodeService.of_memory)
    purge_episode = _delegate(lambda to: to.episodes, EpisodeService.purge)
    sessions = _delegate(lambda to: to.sessions, SessionService.sessions)
    session = _delegate(lambda to: to.sessions, SessionService.session)
    resume = _delegate(lambda to: to.sessions, SessionService.resume)

    # ── learning from conversations ───────────────────────────────────────────────────────────────────────────────────

    capture = _delegate(lambda to: to.captures, CaptureService.capture)
    observe = _delegate(lambda to: to.captures, CaptureService.observe)
    amend = _delegate(lambda to: to.captures, CaptureService.amend)
    learn = _delegate(lambda to: to.captures, CaptureService.learn)
    extract = _delegate(lambda to: to.captures, CaptureService.extract)
    submit = _delegate(lambda to: to.captures, CaptureService.submit)
    turns = _delegate(lambda to: to.captures, CaptureService.turns)
    begin_backfill = _delegate(lambda to: to.captures, CaptureService.begin_backfill)
    end_backfill = _delegate(lambda to: to.captures, CaptureService.end_backfill)
    inbox_status = _delegate(lambda to: to.captures, CaptureService.inbox_status)
    items = _delegate(lambda to: to.captures, CaptureService.items)
    item = _delegate(lambda to: to.captures, CaptureService.item)
    retry = _delegate(lambda to: to.captures, CaptureService.retry)
    approve_held = _delegate(lambda to: to.memories, MemoryService.approve)
    discard_held = _delegate(lambda to: to.memories, MemoryService.discard)
    extraction = _delegate(lambda to: to.llm_usage, LLMUsageService.extraction)
    llm_usage = _delegate(lambda to: to.llm_usage, LLMUsageService.llm_usage)
    llm_call = _delegate(lambda to: to.llm_usage, LLMUsageService.llm_call)

    @property
    def llm(self) -> LLM | None:
        """The language model that reads conversations, if configured."""
        return self.services.llm_usage.llm

    def on_learned(self, callback: Callable[[LearningResult], None]) -> None:
        """Register a callback for every exchange learned from, with the method and duration."""
        self.services.shared.learner.on_learned = callback

    def on_injected(self, callback: Callable[[Injection], None]) -> None:
        """Register a callback for every injected briefing: time, recipient, number of memories and tokens."""
        self.services.shared.retrieval_log.on_inject = callback

    # ── maintenance ───────────────────────────────────────────────────────────────────────────────────────────────────

    consolidate = _delegate(lambda to: to.maintenance, MaintenanceService.consolidate)
    prune = _delegate(lambda to: to.maintenance, MaintenanceService.prune)
    audit = _delegate(lambda to: to.maintenance, MaintenanceService.audit)
    archive_findings = _delegate(lambda to: to.maintenance, MaintenanceService.archive_findings)
    contradictions = _delegate(lambda to: to.maintenance, MaintenanceService.contradictions)
    approve = _delegate(lambda to: to.maintenance, MaintenanceService.approve)
    dismiss_contradiction = _delegate(lambda to: to.maintenance, MaintenanceService.dismiss_contradiction)
    usage = _delegate(lambda to: to.maintenance, MaintenanceService.usage)
    runs = _delegate(lambda to: to.maintenance, MaintenanceService.runs)
    embed_missing = _delegate(lambda to: to.embeddings, EmbeddingService.embed_missing)
    reembed = _delegate(lambda to: to.embeddings, EmbeddingService.reembed)

    # ── keys ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    create_key = _delegate(lambda to: to.keys, KeyService.create_key)
    revoke_key = _delegate(lambda to: to.keys, KeyService.revoke_key)
    keys = _delegate(lambda to: to.keys, KeyService.keys)
    audit_entries = _delegate(lambda to: to.keys, KeyService.audit_entries)

    # ── transfer ──────────────────────────────────────────────────────────────────────────────────────────────────────

    export_lines = _delegate(lambda to: to.transfer, TransferService.export_lines)
    import_lines = _delegate(lambda to: to.transfer, TransferService.import_lines)
    import_facts = _delegate(lambda to: to.transfer, TransferService.import_facts)

    # ── life cycle ────────────────────────────────────────────────────────────────────────────────────────────────────

    def warm(self) -> None:
        """Load models and vectors and compile patterns now, so that the first request is fast."""
        shared = self.services.shared
        vector = shared.encoder.embed_query("ready")
        shared.reranker.encode_queries(["ready"])()
        if shared.judge:
            shared.judge.relevance("ready", ["ready"])
        shared.store.nearest(vector, 1, Scope())
        lazy_re.compile_all()

    def close(self) -> None:
        """Flush pending writes and close the store."""
        if self.viewer is not None:
            return
        shared = self.services.shared
        shared.reranker.close()
        shared.retrieval_log.close()
        shared.audit_log.close()
        shared.store.close()

    def __enter__(self) -> Keeper:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
