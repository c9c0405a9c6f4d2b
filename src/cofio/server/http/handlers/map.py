"""Handler of the memory map."""

from __future__ import annotations

from typing import Any

from cofio.server.http import requests
from cofio.server.http.context import AppState, RequestContext


def drawn(desk: AppState, given: requests.MapRequest, call: RequestContext) -> dict[str, Any]:  # noqa: ARG001
    return desk.keeper.outlook.map(most=given.most, **given.within()).as_dict()
