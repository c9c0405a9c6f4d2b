"""Handlers for sessions: list them, show one, report where work on a project stopped."""

from __future__ import annotations

from typing import Any

from cofio.server.http import requests
from cofio.server.http.context import AppState, RequestContext

Plain = dict[str, Any]


def list_sessions(desk: AppState, given: requests.SessionsRequest, call: RequestContext) -> Plain:  # noqa: ARG001
    found = desk.keeper.sessions(**given.narrowed())
    return {"sessions": [each.as_dict() for each in found]}


def show_session(desk: AppState, given: requests.SessionRequest, call: RequestContext) -> Plain:  # noqa: ARG001
    return desk.keeper.session(**given.given(("session", "client", "owner"))).as_dict()


def resume(desk: AppState, given: requests.ResumeRequest, call: RequestContext) -> Plain:  # noqa: ARG001
    return desk.keeper.resume(**given.given(("project", "limit", "max_tokens"))).as_dict()
