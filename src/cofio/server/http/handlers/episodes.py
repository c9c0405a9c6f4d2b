"""Handlers for episodes: search, show, erase."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from cofio.errors import CofioError
from cofio.server.http import requests
from cofio.server.http.context import AppState, RequestContext

Plain = dict[str, Any]


def search_episodes(desk: AppState, given: requests.SearchEpisodesRequest, call: RequestContext) -> Plain:  # noqa: ARG001
    hits = desk.keeper.search_episodes(given.query, **given.how())
    return {"query": given.query, "count": len(hits), "episodes": [hit.as_dict() for hit in hits]}


def show_episode(desk: AppState, given: None, call: RequestContext) -> Plain:  # noqa: ARG001
    return desk.keeper.episode(call.id).as_dict()


def purge_episode(desk: AppState, given: None, call: RequestContext) -> Plain:  # noqa: ARG001
    with suppress(CofioError):  # a purge is not delayed
        desk.attendant.fetch()  # pending spool entries could bring it back
    desk.keeper.purge_episode(call.id)
    return {"id": call.id, "action": "purge"}
