"""Construction of a Keeper from settings: the only module that imports both steps and adapters."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Any

from cofio.core import Keeper
from cofio.errors import Misconfigured
from cofio.hooks import briefing_cache, endpoint_file, offline_recall_log
from cofio.ingest import sanitize
from cofio.maintenance.service import MaintenanceOptions
from cofio.markdown_notes.service import NotesOptions
from cofio.models.exchange import Batching
from cofio.models.llm_calls import Limits, longest_call
from cofio.models.memory import to_utc_iso
from cofio.ports import LLM, Clock, Embedder, Judge, LateInteractionModel, Store
from cofio.providers import embedders, llms
from cofio.settings import Settings, agent_environment
from cofio.staleness import StalenessChecker
from cofio.stores import urls
from cofio.transfer import backup

_log = logging.getLogger(__name__)


def keeper(
    settings: Settings,
    *,
    embedder: Embedder | None = None,
    reader: LateInteractionModel | None = None,
    judge: Judge | None = None,
    llm: LLM | None = None,
    clock: Clock | None = None,
) -> Keeper:
    """Return the keeper that the settings describe. Arguments replace the adapters that the settings name.

    With an `embedder`, there is no reader unless `reader` is given too.
    """
    time = clock or now
    store = open_store(settings, time)
    limits = _read_limits(settings)
    model, problem = _make_metered_llm(settings, store, limits) if llm is None else (llm, "")
    return Keeper(
        store,
        embedder or make_embedder(settings),
        time,
        reranker=reader or (None if embedder else make_reader(settings)),
        judge=judge or _judge(settings),
        llm=model,
        llm_problem=problem,
        llm_limits=limits,
        llm_reads="doubtful" if settings.llm_reads == "doubtful" else "all",
        batching=Batching(settings.llm_batch_seconds, settings.llm_batch_turns),
        llm_seconds=longest_call(settings.extract_timeout),
        inbox_limit=settings.inbox_limit,
        duplicate_threshold=settings.dedup_threshold,
        novelty_threshold=settings.novelty_threshold,
        recall_min_score=settings.recall_min_score,
        start_tokens=settings.start_tokens,
        on_invalidate=lambda: briefing_cache.clear(settings.home),
        read_offline_log=lambda note: _import_recalls(settings, note),
        maintenance=_make_maintenance_options(settings),
        staleness=StalenessChecker(reads=_is_near(settings.host)),
        notes=NotesOptions(settings.notes_folder, settings.notes_labels),
        episodes=settings.episodes,
    )


def _make_maintenance_options(settings: Settings) -> MaintenanceOptions:
    """Return the settings of maintenance chores."""
    decision_days = settings.prune_decision_days
    days = {
        "detail": settings.prune_detail_days,
        "decision": decision_days,
        "learning": decision_days,
        "": settings.prune_days,
    }
    return MaintenanceOptions(
        similarity=settings.consolidation_similarity,
        min_cluster=settings.consolidation_min_cluster,
        prune_days=days,
        backup=lambda: backup.run_scheduled_backup(settings.store_path, settings.backups, settings.backup_days, now),
    )


def _import_recalls(settings: Settings, note: Callable[[Any], None]) -> None:
    """Pass the log of memories recalled without the service to `note`, if this home belongs to the store."""
    is_named = settings.origins.get("store") == "flag"  # hooks do not see command-line flags
    if not is_named and not endpoint_file.is_others(settings.home, settings.store_name):
        offline_recall_log.import_log(os.fsencode(settings.home), note)


def now() -> str:
    """Return the current time as UTC ISO 8601 text."""
    return to_utc_iso(datetime.now(UTC))


def _is_near(host: str) -> bool:
    """Return whether the service is reachable from this machine only: files are not read for remote callers."""
    try:
        return host == "localhost" or ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def open_store(settings: Settings, clock: Clock | None = None) -> Store:
    """Return the store that the settings name, without loading an embedder."""
    scheme = settings.store.partition("://")[0].lower() if "://" in settings.store else "sqlite"
    if scheme not in _STORES:
        schemes = ", ".join(f"{name}://" for name in _STORES)
        raise Misconfigured(
            f"The store {settings.shown('store')!r} is not a store URL that cofio supports.", f"Give one of: {schemes}."
        )
    return _STORES[scheme](settings, clock or now)


def _open_sqlite(settings: Settings, clock: Clock) -> Store:
    from cofio.stores.sqlite.store import SqliteStore

    return SqliteStore(settings.store_path, clock)


def _open_postgres(settings: Settings, clock: Clock) -> Store:
    try:
        from cofio.stores.postgres import PostgresStore
    except ImportError as error:
        raise Misconfigured(f"PostgreSQL cannot be used: {error}.", "Run: pip install 'cofio[postgres]'.") from error
    return PostgresStore(settings.store, clock)


_STORES: dict[str, Callable[[Settings, Clock], Store]] = {
    "sqlite": _open_sqlite,
    **dict.fromkeys(urls.SERVERS, _open_postgres),
}


def make_embedder(settings: Settings) -> Embedder:
    """Return the embedder that the settings name."""
    return embedders.make(
        settings.embedder,
        home=settings.home,
        url=settings.embedder_url,
        key=settings.embedder_key,
        dimension=settings.embedder_dimension or None,
        download=settings.model_download,
    )


def make_reader(settings: Settings) -> LateInteractionModel | None:
    """Return the re-ranking model; None if it is switched off, missing, or not the pinned one."""
    try:
        return embedders.make_reader(settings.home) if settings.rerank else None
    except Misconfigured as error:
        _log.warning("Re-ranking disabled: %s", error)
        return None


def _judge(settings: Settings) -> Judge | None:
    """Return the bundled judgement model; None where it is off, missing or damaged. Rules then judge."""
    if not settings.judge:
        return None
    from cofio.judgement.onnx_classifier import LocalJudge

    try:
        return LocalJudge()
    except Misconfigured as error:
        _log.warning("Judgement model disabled, rules are used instead: %s", error)
        return None


def make_llm(settings: Settings) -> LLM | None:
    """Return the language model that the settings name, without limits and log; None where they name none."""
    return llms.make(
        settings.extract_provider,
        model=settings.extract_model,
        key=settings.extract_key,
        url=settings.extract_url,
        ollama_url=settings.ollama_url,
        timeout=settings.extract_timeout,
        environ=agent_environment(),
    )


def _read_limits(settings: Settings) -> Limits:
    """Return the daily limits; Ollama has no limits unless they are set."""
    names = ("llm_calls_per_day", "llm_tokens_per_day")
    free = {name for name in names if settings.origins.get(name, "default") == "default"}
    if settings.extract_provider.strip().lower() != "ollama":
        free = set()
    return Limits(*(0 if name in free else getattr(settings, name) for name in names))


def _make_metered_llm(settings: Settings, store: Store, limits: Limits) -> tuple[LLM | None, str]:
    """Return the metered language model, or None and the reason. A broken model does not stop the rest of cofio."""
    if not settings.llm:
        return None, "COFIO_LLM is false: no language model is called." if settings.extract_provider else ""
    try:
        llm = make_llm(settings)
    except Misconfigured as error:
        _log.warning("extraction by a language model is off: %s", error)
        return None, str(error)
    if llm is None:
        return None, ""
    from cofio.ingest.reconcile.by_llm import SCHEMA
    from cofio.providers.llms.ollama import OllamaLLM

    metered = llms.MeteredLLM(llm, store.llm_calls, limits, sanitize.redact if settings.llm_text_days else None)
    if isinstance(llm, OllamaLLM):
        folder = settings.home / "models"
        return llms.CircuitBreaker(llms.SchemaProbe(metered, llm.digest, SCHEMA, folder)), ""
    return llms.CircuitBreaker(metered), ""
