"""cofio: local-first memory for AI agents.

>>> import cofio
>>> keeper = cofio.open("sqlite:///path/to/memories.db")     # doctest: +SKIP
>>> keeper.add("We deploy with Fly.io")                      # doctest: +SKIP
>>> keeper.search("where do we deploy?")                     # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cofio.errors import CofioError
from cofio.models.memory import Change, Changeset, Fact, Hit, Memory, Novelty, Page, Query, Scope
from cofio.version import __version__

if TYPE_CHECKING:
    from cofio.core import Keeper
    from cofio.domain_knowledge.context import AutoRecallConfig, RecallSources, build_recall_context
    from cofio.domain_knowledge.from_text.extraction import AutoCaptureConfig, ExtractedKnowledge, extract_knowledge
    from cofio.ports import Embedder

__all__ = [
    "AutoCaptureConfig",
    "AutoRecallConfig",
    "Change",
    "Changeset",
    "CofioError",
    "ExtractedKnowledge",
    "Fact",
    "Hit",
    "Memory",
    "Novelty",
    "Page",
    "Query",
    "RecallSources",
    "Scope",
    "__version__",
    "build_recall_context",
    "extract_knowledge",
    "open",
]

#: Names that are imported on first access, and their modules.
_LATER = {
    "AutoCaptureConfig": "cofio.domain_knowledge.from_text.extraction",
    "AutoRecallConfig": "cofio.domain_knowledge.context",
    "ExtractedKnowledge": "cofio.domain_knowledge.from_text.extraction",
    "RecallSources": "cofio.domain_knowledge.context",
    "build_recall_context": "cofio.domain_knowledge.context",
    "extract_knowledge": "cofio.domain_knowledge.from_text.extraction",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LATER[name]), name)


def open(store: str | None = None, *, embedder: str | Embedder | None = None, **settings: Any) -> Keeper:  # noqa: A001
    """Return a keeper for the store with this URL (default: cofio.db in the home), with further settings by name."""
    from cofio import bootstrap  # imported late: it is slow to load
    from cofio.settings import Settings

    named = embedder if isinstance(embedder, str) else None
    loaded = Settings.load({"store": store, "embedder": named, **settings})
    return bootstrap.keeper(loaded, embedder=None if embedder is None or isinstance(embedder, str) else embedder)
