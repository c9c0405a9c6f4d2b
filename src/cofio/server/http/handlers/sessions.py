"""Handlers for sessions: list them, show one, report where work on a project stopped."""

from __future__ import annotations

from typing import Any

from cofio.server.http import requests
from cofio.server.http.context import AppState, RequestContext

Plain = dict[str, Any]


def list_sessions(state: AppState, request: requests.SessionsRequest, context: RequestContext) -> Plain:  # noqa: ARG001
    sessions = state.keeper.sessions(**request.narrowed())
    return {"sessions": [session.as_dict() for session in sessions]}


def show_session(state: AppState, request: requests.SessionRequest, context: RequestContext) -> Plain:  # noqa: ARG001
    return state.keeper.session(**request.sent_fields(("session", "client", "owner"))).as_dict()


def resume(state: AppState, request: requests.ResumeRequest, context: RequestContext) -> Plain:  # noqa: ARG001
    return state.keeper.resume(**request.sent_fields(("project", "limit", "max_tokens"))).as_dict()
