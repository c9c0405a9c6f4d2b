"""Handlers for the service's settings, each with its origin, and for the doctor.

Of a secret, only whether it is set is returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from cofio import settings as setting
from cofio.errors import Forbidden, Misconfigured, NotConfigured
from cofio.models.exchange import Item
from cofio.server.http import requests
from cofio.server.http.context import AppState, RequestContext
from cofio.server.http.handlers import ingest
from cofio.server.http.handlers.memories import format_checks
from cofio.settings import Settings

Plain = dict[str, Any]

#: Settings by topic, in the order in which people look for them.
GROUPS: dict[str, tuple[str, ...]] = {
    "Store": ("home", "store", "backup_schedule", "backup_days"),
    "Embedder": ("embedder", "embedder_url", "embedder_key", "embedder_dimension", "model_download", "rerank"),
    "Service": ("host", "port", "url", "api_key", "allowed_hosts", "max_body", "audit_days", "log_level"),
    "Learning": ("extract_provider", "extract_model", "extract_url", "extract_key", "anthropic_key", "openai_key",
                 "ollama_url", "extract_timeout", "llm", "llm_calls_per_day", "llm_tokens_per_day",
                 "llm_text_days", "llm_reads", "llm_batch_seconds", "llm_batch_turns", "dedup_threshold",
                 "novelty_threshold",
                 "inbox_limit", "inbox_days", "episodes", "episode_days", "episode_mb"),
    "Recall and hooks": ("judge", "recall_min_score", "start_tokens", "project", "retrieval_days",
                         "hook_recall_timeout_ms", "hook_capture_timeout_ms"),
    "Chat": ("chat_upstream_url", "chat_upstream_key", "chat_upstream_timeout"),
    "Upkeep": ("maintenance_enabled", "consolidation_schedule", "consolidation_similarity",
               "consolidation_min_cluster", "prune_schedule", "prune_detail_days", "prune_decision_days", "prune_days"),
    "Notes": ("notes", "notes_folders", "notes_poll_seconds"),
    "Clients": ("claude_home", "codex_home", "cursor_home", "openclaw_home", "openclaw_config"),
}  # fmt: skip
_HIDDEN = "..."  # placeholder of a hidden value


# ── settings ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def show_settings(state: AppState, request: None, context: RequestContext) -> Plain:  # noqa: ARG001
    settings = state.settings
    path = settings.home / "config.toml"
    now, problem = _reload(settings, path)
    fields = {field.name: field for field in setting.settable()}
    rows = [_describe_setting(fields[name], group, settings, now) for group, names in GROUPS.items() for name in names]
    return {"file": str(path), "there": path.exists(), "problem": problem, "settings": rows}


def _reload(settings: Settings, path: Path) -> tuple[Settings, str]:
    """Return the settings that the next start would use; the current ones with a note if it would fail."""
    if not settings.origins:  # set by a program
        return settings, ""
    for flags in ({}, {"home": settings.home}):
        with suppress(Misconfigured):  # the message may contain a secret
            now = Settings.load(flags)
            if now.home == settings.home:
                return now, ""
    return settings, f"The service would not start with the current {path}. `cofio config` says why."


def _describe_setting(field: Any, group: str, settings: Settings, now: Settings) -> Plain:
    name, secret = field.name, field.metadata["secret"]
    origin = settings.origins.get(name, "default")
    same = getattr(settings, name) == getattr(now, name)
    is_hidden = secret or settings.shown(name) != str(getattr(settings, name))
    if origin == "flag" and same:  # redundant, such as flags passed on by `cofio up`
        origin = now.origins.get(name, origin)
    return {
        "name": name,
        "group": group,
        "variables": list(field.metadata["variables"]),
        "says": field.metadata["says"],
        "value": _get_value(settings, name, secret=secret),
        "default": _get_value(Settings(), name, secret=secret),
        "origin": origin,
        "secret": secret,
        "line": "" if name == "home" else setting.line(name, _HIDDEN if is_hidden else _get_value(settings, name)),
        "waits": not same and origin != "flag",  # a different value takes effect at the next start
    }


def _get_value(settings: Settings, name: str, *, secret: bool = False) -> bool | int | float | str:
    value = getattr(settings, name)
    if secret:
        return "set" if value else "not set"
    return value if isinstance(value, bool | int | float) else settings.shown(name)


# ── the doctor ────────────────────────────────────────────────────────────────────────────────────────────────────────


def examine(state: AppState, request: requests.DoctorRequest, context: RequestContext) -> Plain:
    """Run the doctor. It reads files of this machine, so callers elsewhere are refused."""
    if not context.local:
        hint = "Open the page on that machine, or run `cofio doctor` there."
        raise Forbidden("The doctor answers requests from the service's own machine only.", hint)
    if state.doctor is None:
        raise NotConfigured("This service cannot run the doctor.", "Start it with `cofio serve` or `cofio up`.")
    is_limited = request.about == "clients"
    problems = () if is_limited else state.keeper.services.problems()
    reported = [problem for problem in problems if problem.name == "store"]  # the doctor tries the models itself
    return {"checks": format_checks([*reported, *state.doctor(_InProcessService(state, context), is_limited)])}


class _InProcessService:
    """The service as seen by its own doctor: over HTTP, the request would wait for itself."""

    def __init__(self, state: AppState, context: RequestContext) -> None:
        self._state, self._call = state, context

    def is_novel(self, fact: str, /) -> object:
        return self._state.keeper.is_novel(fact)

    def extraction(self) -> Plain:
        return ingest.status(self._state, None, self._call)

    def stats(self) -> Plain:
        return self._state.keeper.stats()

    def items(self, state: Any = None, /, *, limit: int = 50) -> Sequence[Item]:
        return self._state.keeper.items(state, limit=limit)
