"""Protocol of a store: everything that is persisted, in one object."""

from __future__ import annotations

from typing import Any, Protocol

from cofio.models.diagnostics import StoreDamage
from cofio.ports.access import Keys
from cofio.ports.episodes import EpisodeIndex
from cofio.ports.inbox import Inbox
from cofio.ports.knowledge import KnowledgeTables
from cofio.ports.logs import DashboardQueries, LLMCalls, Notes
from cofio.ports.maintenance import Runs, Snapshots, UsageQueries
from cofio.ports.memories import Journal, MemoryReader, MemoryVectors, RecallLog, TokenEmbeddings


class Store(Journal, MemoryReader, MemoryVectors, RecallLog, Protocol):
    """Memories with their text, vectors and a journal of every change; searchable by vector and by word.

    Only `apply` changes the content of a memory. Derived data (vectors, retrieval counts) may be written separately and
    is not journalled, because it can be recomputed.
    """

    @property
    def inbox(self) -> Inbox:
        """Captures, and which of them are still to be processed."""

    @property
    def runs(self) -> Runs:
        """Runs of scheduled chores."""

    @property
    def usage(self) -> UsageQueries:
        """Usage statistics of memories."""

    @property
    def snapshots(self) -> Snapshots:
        """Data for export, import and backup."""

    @property
    def keys(self) -> Keys:
        """API keys and the audit log."""

    @property
    def domain(self) -> KnowledgeTables:
        """Structured domain knowledge."""

    @property
    def notes(self) -> Notes:
        """Markdown files that were read."""

    @property
    def dashboard(self) -> DashboardQueries:
        """Statistics for the dashboard."""

    @property
    def llm_calls(self) -> LLMCalls:
        """The log of language-model calls."""

    @property
    def token_embeddings(self) -> TokenEmbeddings:
        """Token embeddings for re-ranking."""

    @property
    def episodes(self) -> EpisodeIndex:
        """Captured turns, searchable."""

    def stats(self) -> dict[str, Any]:
        """Return the kind of store and counts: memories by state, category, kind and source, vectors, size etc."""

    def verify(self) -> StoreDamage:
        """Read everything; return what is damaged."""

    def close(self) -> None:
        """Close the store. Further calls fail."""
