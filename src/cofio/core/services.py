"""The services of a store, as one caller may use them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypedDict

from cofio.core.api_keys import KeyService
from cofio.core.captures import CaptureService
from cofio.core.domain_knowledge import KnowledgeBase
from cofio.core.history import HistoryService
from cofio.core.llm_usage import LLMUsageService
from cofio.core.memories import MemoryService
from cofio.core.recall import RecallService
from cofio.core.retention import EmbeddingService, RetentionService
from cofio.core.search import SearchService
from cofio.core.transfer import TransferService
from cofio.dashboard.projection import MapCache
from cofio.dashboard.service import DashboardService
from cofio.ingest.inbox import InboxProcessor
from cofio.ingest.pipeline import Learner, Reads
from cofio.ingest.reconcile.compare import Comparer
from cofio.ingest.writer import Writer
from cofio.maintenance.service import MaintenanceOptions, MaintenanceService
from cofio.markdown_notes.service import NotesOptions, NotesService
from cofio.models.diagnostics import Check, ProblemReporter
from cofio.models.exchange import AT_ONCE, Batching
from cofio.models.llm_calls import Limits, longest_call
from cofio.models.memory import Viewer
from cofio.ports import LLM, Clock, Judge, Store
from cofio.retrieval import recall
from cofio.retrieval.encoder import StoreEncoder
from cofio.retrieval.episodes import EpisodeService
from cofio.retrieval.log import RetrievalLog
from cofio.retrieval.reranker import Reranker
from cofio.retrieval.sessions import SessionService
from cofio.staleness import StalenessChecker
from cofio.stores.access import Access
from cofio.stores.audit_log import AuditLog
from cofio.text import briefing


@dataclass(frozen=True, kw_only=True)
class ServiceOptions:
    """Settings of the services. The defaults are those of `Settings`."""

    duplicate_threshold: float = 0.90  # cosine from which a fact repeats a memory, without a judge
    novelty_threshold: float = 0.88  # cosine below which a text is novel, without a judge
    recall_min_score: float = 0.0
    start_tokens: int = briefing.START_TOKENS
    llm_problem: str = ""  # reason why a requested model is unavailable
    llm_limits: Limits = Limits()
    llm_seconds: float = longest_call(60.0)  # after which an unfinished call counts as dead
    llm_reads: Reads = "all"
    batching: Batching = AT_ONCE
    inbox_limit: int = 10_000
    episodes: bool = True
    maintenance: MaintenanceOptions = MaintenanceOptions()
    notes: NotesOptions = NotesOptions()


class ServiceKwargs(TypedDict, total=False):
    """Keyword arguments for ServiceOptions."""

    duplicate_threshold: float
    novelty_threshold: float
    recall_min_score: float
    start_tokens: int
    llm_problem: str
    llm_limits: Limits
    llm_seconds: float
    llm_reads: Reads
    batching: Batching
    inbox_limit: int
    episodes: bool
    maintenance: MaintenanceOptions
    notes: NotesOptions


@dataclass(frozen=True, kw_only=True)
class Resources:
    """Models, logs, caches and options that the services of all callers share."""

    store: Store
    clock: Clock
    encoder: StoreEncoder
    reranker: Reranker
    judge: Judge | None
    llm: LLM | None
    comparer: Comparer
    learner: Learner
    lock: threading.RLock
    retrieval_log: RetrievalLog
    audit_log: AuditLog
    maps: MapCache
    on_invalidate: Callable[[], None]
    options: ServiceOptions


class Services:
    """One service per area, all limited to what one caller may see and do."""

    def __init__(
        self,
        shared: Resources,
        staleness: StalenessChecker,
        viewer: Viewer | None = None,
        owner: Services | None = None,
        *,
        is_assistant: bool = False,
    ) -> None:
        self._arguments = shared, staleness, viewer, owner
        store, clock, encoder = shared.store, shared.clock, shared.encoder
        log, options = shared.retrieval_log, shared.options
        self.shared = shared
        self.access = access = Access(store, viewer, is_assistant=is_assistant)
        self.writer = writer = Writer(access, encoder, staleness, shared.lock, shared.on_invalidate)
        self.history = HistoryService(writer)
        self.memories = MemoryService(
            writer, log, clock, shared.comparer, shared.judge, options.duplicate_threshold, options.novelty_threshold
        )
        self.episodes = EpisodeService(access, encoder, enabled=options.episodes)
        self.sessions = SessionService(access)
        self.search = SearchService(access.store, encoder, shared.reranker, log, staleness)
        relevance = recall.Relevance(shared.judge, options.recall_min_score)
        self.recall = RecallService(
            access, clock, self.search, self.episodes, log, staleness, relevance, options.start_tokens
        )
        self.llm_usage = LLMUsageService(
            access, clock, shared.llm, options.llm_problem, options.llm_limits, options.llm_seconds
        )
        inbox = InboxProcessor(
            access.store.inbox,
            shared.learner,
            clock,
            options.inbox_limit,
            worked_on=store.inbox,
            batching=options.batching,
            attempted=(owner or self).episodes.index_capture,
        )
        self.captures = CaptureService(access, shared.learner, inbox, self.llm_usage)
        self.knowledge = KnowledgeBase(writer, clock)
        self.notes = NotesService(writer, clock, options.notes)
        self.maintenance = MaintenanceService(
            writer, log, clock, llm=shared.llm, comparer=shared.comparer, options=options.maintenance
        )
        self.dashboard = DashboardService(access, clock, log, shared.maps)
        self.keys = KeyService(access.store, shared.audit_log, clock)
        self.embeddings = EmbeddingService(writer, self.episodes, shared.reranker)
        self.retention = RetentionService(access, clock, self.captures, self.episodes, self.llm_usage)
        self.transfer = TransferService(writer, log, shared.comparer, has_judge=shared.judge is not None)

    def problems(self) -> list[Check]:
        """Return the current problems of the store and of the models, from what is known already."""
        components = (self.shared.store, self.shared.encoder, self.shared.llm)
        return [
            problem
            for component in components
            if isinstance(component, ProblemReporter)
            for problem in component.problems()
        ]

    def for_viewer(self, viewer: Viewer) -> Services:
        """Return the services limited to what a viewer may see; files of this machine are not read for them."""
        self.access.require_owner("Switching the viewer")
        return Services(self.shared, StalenessChecker(reads=False), viewer, self)

    def for_assistant(self) -> Services:
        """Return the same services for an agent: what it stores holds the assistant's words."""
        return Services(*self._arguments, is_assistant=True)
