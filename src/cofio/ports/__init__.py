"""Protocols between the core and its adapters: Store with its parts, Embedder, LLM, Clock.

The store finds and keeps memories; it does not judge them. It returns raw scores. Thresholds and rank fusion are
applied in one place above it.

`Store` is the composition of narrow protocols. A function takes the narrowest one that it needs.
"""

from cofio.ports.access import Keys
from cofio.ports.ai_models import (
    LLM,
    Completion,
    Embedder,
    Health,
    Judge,
    LateInteractionModel,
    Probeable,
    Profile,
    Relation,
    SentenceVoice,
    Span,
    Stoppable,
)
from cofio.ports.episodes import EpisodeIndex
from cofio.ports.inbox import Inbox
from cofio.ports.knowledge import KnowledgeTables
from cofio.ports.logs import DashboardQueries, LLMCalls, Notes
from cofio.ports.maintenance import Runs, Snapshots, UsageQueries
from cofio.ports.memories import (
    Basis,
    Journal,
    MemoryQueries,
    MemoryReader,
    MemorySearch,
    MemoryVectors,
    RecallLog,
    Settles,
    TokenEmbeddings,
)
from cofio.ports.store import Store
from cofio.ports.values import Clock, Matrix, Vector

__all__ = [
    "LLM",
    "Basis",
    "Clock",
    "Completion",
    "DashboardQueries",
    "Embedder",
    "EpisodeIndex",
    "Health",
    "Inbox",
    "Journal",
    "Judge",
    "Keys",
    "KnowledgeTables",
    "LLMCalls",
    "LateInteractionModel",
    "Matrix",
    "MemoryQueries",
    "MemoryReader",
    "MemorySearch",
    "MemoryVectors",
    "Notes",
    "Probeable",
    "Profile",
    "RecallLog",
    "Relation",
    "Runs",
    "SentenceVoice",
    "Settles",
    "Snapshots",
    "Span",
    "Stoppable",
    "Store",
    "TokenEmbeddings",
    "UsageQueries",
    "Vector",
]
