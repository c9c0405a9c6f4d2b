"""Handlers of maintenance: chores, their approval and runs, usage of memories, audit, and contradictions."""

from __future__ import annotations

from typing import Any

from cofio.server.http import requests
from cofio.server.http.context import AppState, RequestContext

Plain = dict[str, Any]


def approve(state: AppState, request: requests.ApproveRequest, context: RequestContext) -> Plain:
    changeset = state.keeper.approve(
        request.chore, request.as_decisions(), as_of=request.as_of, by=context.by, why=request.reason()
    )
    return changeset.as_dict()


def runs(state: AppState, request: requests.RequestModel, context: RequestContext) -> Plain:  # noqa: ARG001
    rows = [run.as_dict() for run in state.keeper.runs(**request.sent_fields())]
    return {"runs": rows, "schedules": dict(state.schedules)}


def usage(state: AppState, request: requests.UsageRequest, context: RequestContext) -> Plain:  # noqa: ARG001
    memories = state.keeper.usage(request.view, limit=request.limit, days=request.days, **request.scope_fields())
    return {"view": request.view, "memories": [memory.as_dict() for memory in memories]}
