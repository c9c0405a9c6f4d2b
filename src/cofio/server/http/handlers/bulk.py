"""Handlers for bulk changes of memories, and for the capture that a memory was learned from."""

from __future__ import annotations

from typing import Any

from cofio.server.http import requests
from cofio.server.http.context import AppState, RequestContext

Plain = dict[str, Any]


def bulk(state: AppState, request: requests.BulkRequest, context: RequestContext) -> Plain:
    changeset = state.keeper.bulk(
        request.ids, request.action, changes=request.fields(), tags=request.tags, by=context.by, why=request.reason()
    )
    return changeset.as_dict()
