"""cofio: the memory that an AI agent does not have to remember to use.

>>> import cofio
>>> keeper = cofio.open("sqlite:///path/to/memories.db")     # doctest: +SKIP
>>> keeper.add("We deploy with Fly.io")                      # doctest: +SKIP
>>> keeper.search("where do we deploy?")                     # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cofio.errors import CofioError
from cofio.model import Change, Changeset, Fact, Hit, Memory, Novelty, Page, Query, Scope
from cofio.version import __version__

if TYPE_CHECKING:
    from cofio.extract.knowledge import AutoCaptureConfig, ExtractedKnowledge, extract_knowledge
    from cofio.keeper import Keeper
    from cofio.knowledge.context import AutoRecallConfig, RecallSources, build_recall_context
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

#: What is loaded when it is first asked for, and from where.
_LATER = {
    "AutoCaptureConfig": "cofio.extract.knowledge",
    "AutoRecallConfig": "cofio.knowledge.context",
    "ExtractedKnowledge": "cofio.extract.knowledge",
    "RecallSources": "cofio.knowledge.context",
    "build_recall_context": "cofio.knowledge.context",
    "extract_knowledge": "cofio.extract.knowledge",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LATER[name]), name)


def open(store: str | None = None, *, embedder: str | Embedder | None = None, **settings: Any) -> Keeper:  # noqa: A001
    """A keeper on the store with this URL (default: the embedded one in the home), with settings by their names."""
    from cofio import assemble  # what is heavy is loaded when it is needed
    from cofio.settings import Settings

    named = embedder if isinstance(embedder, str) else None
    loaded = Settings.load({"store": store, "embedder": named, **settings})
    return assemble.keeper(loaded, embedder=None if embedder is None or isinstance(embedder, str) else embedder)
