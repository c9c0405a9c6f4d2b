"""Handler of the memory map."""

from __future__ import annotations

from typing import Any

from cofio.server.http import requests
from cofio.server.http.context import AppState, RequestContext


def map_(state: AppState, request: requests.MapRequest, context: RequestContext) -> dict[str, Any]:  # noqa: ARG001
    return state.keeper.dashboard.map(limit=request.limit, **request.scope_fields()).as_dict()
