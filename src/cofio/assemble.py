"""Settings in, Keeper out: the only place where steps and adapters meet."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime

from cofio import embedders, llms
from cofio.errors import Misconfigured
from cofio.hooks import briefings
from cofio.keeper import Keeper
from cofio.model import moment
from cofio.ports import LLM, Clock, Embedder, Store
from cofio.settings import Settings

_log = logging.getLogger(__name__)


def keeper(
    settings: Settings, *, embedder: Embedder | None = None, llm: LLM | None = None, clock: Clock | None = None
) -> Keeper:
    """The keeper that the settings describe; an embedder, a model or a clock may be handed in."""
    time = clock or now
    store = _store(settings, time)
    model, problem = _llm(settings) if llm is None else (llm, "")
    return Keeper(
        store,
        embedder or _embedder(settings),
        time,
        llm=model,
        llm_problem=problem,
        inbox_limit=settings.inbox_limit,
        dedup_at=settings.dedup_threshold,
        novel_below=settings.novelty_threshold,
        recall_at=settings.recall_min_score,
        taken_back=lambda: briefings.clear(settings.home),
    )


def now() -> str:
    """The time now, as UTC ISO 8601 text."""
    return moment(datetime.now(UTC))


def _store(settings: Settings, clock: Clock) -> Store:
    scheme = settings.store.partition("://")[0] if "://" in settings.store else "sqlite"
    if scheme not in _STORES:
        known = ", ".join(f"{each}://" for each in _STORES)
        raise Misconfigured(f"The store {settings.store!r} is not one that this cofio knows.", f"There is: {known}.")
    return _STORES[scheme](settings, clock)


def _sqlite(settings: Settings, clock: Clock) -> Store:
    from cofio.stores.sqlite import SqliteStore

    return SqliteStore(settings.store_path, clock)


_STORES: dict[str, Callable[[Settings, Clock], Store]] = {"sqlite": _sqlite}


def _embedder(settings: Settings) -> Embedder:
    return embedders.make(
        settings.embedder,
        home=settings.home,
        url=settings.embedder_url,
        key=settings.embedder_key,
        dimension=settings.embedder_dimension or None,
        download=settings.model_download,
    )


def _llm(settings: Settings) -> tuple[LLM | None, str]:
    """The model, or why there is none: whatever is wrong with it, the rest of cofio works."""
    try:
        made = llms.make(
            settings.extract_provider,
            model=settings.extract_model,
            key=settings.extract_key,
            url=settings.extract_url,
            ollama_url=settings.ollama_url,
            timeout=settings.extract_timeout,
        )
    except Misconfigured as error:
        _log.warning("extraction is off: %s", error)
        return None, str(error)
    return (llms.Resting(made) if made else None), ""
