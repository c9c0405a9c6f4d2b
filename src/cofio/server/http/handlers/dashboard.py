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


def overview(desk: AppState, given: requests.OverviewRequest, call: RequestContext) -> Plain:
    told = desk.keeper.outlook.overview(days=given.days).as_dict()
    return {
        **told,
        "ledger": None if call.viewer else desk.keeper.ledger().as_dict(),
        "extraction": _extraction(desk),
        "version": __version__,
        "uptime_seconds": round(time.monotonic() - desk.began, 3),
    }


def agents(desk: AppState, given: requests.AgentsRequest, call: RequestContext) -> Plain:  # noqa: ARG001
    return {"agents": [each._asdict() for each in desk.keeper.outlook.agents(limit=given.limit)]}


def events(desk: AppState, given: None, call: RequestContext) -> HandlerReply:  # noqa: ARG001
    return HandlerReply(http_events.EventStream(desk.news, still=http_events.STILL))


def _extraction(desk: AppState) -> Plain:
    """Return the extraction model with its state, as far as known."""
    told = desk.keeper.extraction()
    if not told["enabled"]:
        return told
    try:
        health = desk.checkup.told(_PATIENCE)
    except StoreBusy:
        return told
    problem = {"problem": health.problem} if health.problem else {}
    return {**told, "status": "healthy" if health else "unhealthy", **problem}
