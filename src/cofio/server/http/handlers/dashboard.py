"""Handlers of the dashboard: overview, agents, event stream."""

from __future__ import annotations

import time
from typing import Any

from cofio.errors import StoreBusy
from cofio.server.http import events as http_events
from cofio.server.http import requests
from cofio.server.http.context import AppState, RequestContext
from cofio.server.http.responses import HandlerReply
from cofio.version import __version__

Plain = dict[str, Any]
_PATIENCE = 0.2  # seconds that a first request waits for the model's state


def overview(state: AppState, request: requests.RequestModel, context: RequestContext) -> Plain:
    content = state.keeper.dashboard.overview(**request.sent_fields()).as_dict()
    return {
        **content,
        "inbox": None if context.viewer else state.keeper.inbox_status().as_dict(),
        "extraction": _extraction(state),
        "version": __version__,
        "uptime_seconds": round(time.monotonic() - state.began, 3),
    }


def events(state: AppState, request: None, context: RequestContext) -> HandlerReply:  # noqa: ARG001
    return HandlerReply(http_events.EventStream(state.news, still=http_events.STILL))


def _extraction(state: AppState) -> Plain:
    """Return the extraction model with its state, as far as known."""
    extraction = state.keeper.extraction()
    if not extraction["enabled"]:
        return extraction
    try:
        health = state.model_health.value(_PATIENCE)
    except StoreBusy:
        return extraction
    problem = {"problem": health.problem} if health.problem else {}
    return {**extraction, "status": "healthy" if health else "unhealthy", **problem}
