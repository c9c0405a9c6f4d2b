"""Handlers for bulk changes of memories, and for the capture that a memory was learned from."""

from __future__ import annotations

from typing import Any

from cofio.server.http import requests
from cofio.server.http.context import AppState, RequestContext

Plain = dict[str, Any]


def change_all(desk: AppState, given: requests.BulkRequest, call: RequestContext) -> Plain:
    done = desk.keeper.bulk(
        given.ids, given.action, changes=given.fields(), tags=given.tags, by=call.by, why=given.reason()
    )
    return done.as_dict()


def exchange(desk: AppState, given: None, call: RequestContext) -> Plain:  # noqa: ARG001
    item = desk.keeper.learned_from(call.id)
    return {"id": call.id, "item": item.as_dict() if item else None}
