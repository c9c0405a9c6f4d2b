"""Handlers for episodes: search, show, erase."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from cofio.errors import CofioError
from cofio.server.http import requests
from cofio.server.http.context import AppState, RequestContext

Plain = dict[str, Any]


def search_episodes(state: AppState, request: requests.RequestModel, context: RequestContext) -> Plain:  # noqa: ARG001
    fields = request.sent_fields()
    hits = state.keeper.search_episodes(**fields)
    return {"query": fields["query"], "count": len(hits), "episodes": [hit.as_dict() for hit in hits]}


def purge_episode(state: AppState, request: None, context: RequestContext) -> Plain:  # noqa: ARG001
    with suppress(CofioError):  # a purge is not delayed
        state.sessions.import_spool()  # pending spool entries could bring it back
    state.keeper.purge_episode(context.id)
    return {"id": context.id, "action": "purge"}
