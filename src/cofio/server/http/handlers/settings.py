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
from cofio.models.diagnostics import Check
from cofio.models.exchange import Item
from cofio.server.http import requests
from cofio.server.http.context import AppState, RequestContext
from cofio.server.http.handlers import ingest
from cofio.settings import Settings

Plain = dict[str, Any]

#: Settings by topic, in the order in which people look for them.
GROUPS: dict[str, tuple[str, ...]] = {
    "Store": ("home", "store", "backup_schedule", "backup_days"),
    "Embedder": ("embedder", "embedder_url", "embedder_key", "embedder_dimension", "model_download", "close_reading"),
    "Service": ("host", "port", "url", "api_key", "allowed_hosts", "max_body", "audit_days", "log_level"),
    "Learning": ("extract_provider", "extract_model", "extract_url", "extract_key", "anthropic_key", "openai_key",
                 "ollama_url", "extract_timeout", "llm", "llm_calls_per_day", "llm_tokens_per_day",
                 "llm_text_days", "llm_reads", "llm_batch_seconds", "llm_batch_turns", "dedup_threshold",
                 "novelty_threshold",
                 "inbox_limit", "inbox_days", "episodes", "episode_days", "episode_mb"),
    "Recall and hooks": ("judge", "recall_min_score", "start_tokens", "project", "hook_recall_ms", "hook_capture_ms",
                         "retrieval_days"),
    "Chat": ("chat_upstream_url", "chat_upstream_key", "chat_upstream_timeout"),
    "Upkeep": ("maintenance_enabled", "consolidation_schedule", "consolidation_similarity",
               "consolidation_min_cluster", "prune_schedule", "prune_detail_days", "prune_decision_days", "prune_days"),
    "Notes": ("notes", "notes_folders", "notes_every"),
    "Clients": ("claude_home", "codex_home", "cursor_home", "openclaw_home", "openclaw_config"),
}  # fmt: skip
_UNTOLD = "..."  # placeholder of a hidden value


# ── settings ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def show_settings(state: AppState, request: None, context: RequestContext) -> Plain:  # noqa: ARG001
    known = state.settings
    path = known.home / "config.toml"
    now, problem = _loaded_anew(known, path)
    fields = {each.name: each for each in setting.settable()}
    told = [_told(fields[name], group, known, now) for group, names in GROUPS.items() for name in names]
    return {"file": str(path), "there": path.exists(), "problem": problem, "settings": told}


def _loaded_anew(known: Settings, path: Path) -> tuple[Settings, str]:
    """Return the settings that the next start would use; the current ones with a note if it would fail."""
    if not known.origins:  # set by a program
        return known, ""
    for flags in ({}, {"home": known.home}):
        with suppress(Misconfigured):  # the message may contain a secret
            now = Settings.load(flags)
            if now.home == known.home:
                return now, ""
    return known, f"The service would not start with the current {path}. `cofio config` says why."


def _told(field: Any, group: str, known: Settings, now: Settings) -> Plain:
    name, secret = field.name, field.metadata["secret"]
    origin = known.origins.get(name, "default")
    same = getattr(known, name) == getattr(now, name)
    if origin == "flag" and same:  # redundant, such as flags passed on by `cofio up`
        origin = now.origins.get(name, origin)
    return {
        "name": name,
        "group": group,
        "variables": list(field.metadata["variables"]),
        "says": field.metadata["says"],
        "value": _is_set(known, name) if secret else _value(known, name),
        "default": _is_set(Settings(), name) if secret else _value(Settings(), name),
        "origin": origin,
        "secret": secret,
        "line": "" if name == "home" else setting.line(name, _written(known, name, secret)),
        "waits": not same and origin != "flag",  # a different value takes effect at the next start
    }


def _is_set(known: Settings, name: str) -> str:
    return "set" if getattr(known, name) else "not set"


def _value(known: Settings, name: str) -> bool | int | float | str:
    value = getattr(known, name)
    return value if isinstance(value, bool | int | float) else known.shown(name)


def _written(known: Settings, name: str, secret: bool) -> bool | int | float | str:
    """Return the value for the file; a placeholder for a hidden one."""
    value = getattr(known, name)
    return _UNTOLD if secret or known.shown(name) != str(value) else _value(known, name)


# ── the doctor ────────────────────────────────────────────────────────────────────────────────────────────────────────


def examine(state: AppState, request: requests.DoctorRequest, context: RequestContext) -> Plain:
    """Run the doctor. It reads files of this machine, so callers elsewhere are refused."""
    if not context.local:
        hint = "Open the page on that machine, or run `cofio doctor` there."
        raise Forbidden("The doctor answers requests from the service's own machine only.", hint)
    if state.doctor is None:
        raise NotConfigured("This service has no doctor.", "Start it with `cofio serve` or `cofio up`.")
    found = state.doctor(_InProcessService(state, context), request.about == "clients")
    return {"checks": [_finding(each) for each in found]}


def _finding(check: Check) -> Plain:
    hint = check.remedy if check.state != "ok" else ""
    return {"name": check.name, "state": check.state, "says": check.says, "hint": hint}


class _InProcessService:
    """The service as seen by its own doctor: over HTTP, the request would wait for itself."""

    def __init__(self, state: AppState, context: RequestContext) -> None:
        self._desk, self._call = state, context

    def is_novel(self, fact: str, /) -> object:
        return self._desk.keeper.is_novel(fact)

    def extraction(self) -> Plain:
        return ingest.status(self._desk, None, self._call)

    def stats(self) -> Plain:
        return self._desk.keeper.stats()

    def items(self, state: Any = None, /, *, limit: int = 50) -> Sequence[Item]:
        return self._desk.keeper.items(state, limit=limit)
