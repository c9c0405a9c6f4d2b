"""Handlers for episodes: search, show, erase."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from cofio.errors import CofioError
from cofio.server.http import requests
from cofio.server.http.context import AppState, RequestContext

Plain = dict[str, Any]


def search_episodes(state: AppState, request: requests.SearchEpisodesRequest, context: RequestContext) -> Plain:  # noqa: ARG001
    hits = state.keeper.search_episodes(request.query, **request.how())
    return {"query": request.query, "count": len(hits), "episodes": [hit.as_dict() for hit in hits]}


def show_episode(state: AppState, request: None, context: RequestContext) -> Plain:  # noqa: ARG001
    return state.keeper.episode(context.id).as_dict()


def purge_episode(state: AppState, request: None, context: RequestContext) -> Plain:  # noqa: ARG001
    with suppress(CofioError):  # a purge is not delayed
        state.attendant.fetch()  # pending spool entries could bring it back
    state.keeper.purge_episode(context.id)
    return {"id": context.id, "action": "purge"}
