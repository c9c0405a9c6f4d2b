"""Handlers of maintenance: chores, their approval and runs, usage of memories, audit, and contradictions."""

from __future__ import annotations

from typing import Any

from cofio.server.http import requests
from cofio.server.http.context import AppState, RequestContext

Plain = dict[str, Any]


def consolidate(state: AppState, request: requests.ConsolidateRequest, context: RequestContext) -> Plain:
    plan = state.keeper.consolidate(
        dry_run=request.dry_run, source_prefix=request.source_prefix, by=context.by, why=request.reason()
    )
    return plan.as_dict()


def prune(state: AppState, request: requests.PruneRequest, context: RequestContext) -> Plain:
    return state.keeper.prune(dry_run=request.dry_run, by=context.by, why=request.reason()).as_dict()


def approve(state: AppState, request: requests.ApproveRequest, context: RequestContext) -> Plain:
    changeset = state.keeper.approve(
        request.chore, request.as_decisions(), as_of=request.as_of, by=context.by, why=request.reason()
    )
    return changeset.as_dict()


def contradictions(state: AppState, request: requests.ContradictionsRequest, context: RequestContext) -> Plain:  # noqa: ARG001
    return state.keeper.contradictions(limit=request.limit).as_dict()


def dismiss_contradiction(
    state: AppState, request: requests.DismissContradictionRequest, context: RequestContext
) -> Plain:
    return state.keeper.dismiss_contradiction(request.ids, by=context.by, why=request.reason()).as_dict()


def runs(state: AppState, request: requests.RunsRequest, context: RequestContext) -> Plain:  # noqa: ARG001
    rows = [run.as_dict() for run in state.keeper.runs(limit=request.limit, chore=request.chore)]
    return {"runs": rows, "schedules": dict(state.schedules)}


def usage(state: AppState, request: requests.UsageRequest, context: RequestContext) -> Plain:  # noqa: ARG001
    memories = state.keeper.usage(request.view, limit=request.limit, days=request.days, **request.within())
    return {"view": request.view, "memories": [memory.as_dict() for memory in memories]}


def llm_usage(state: AppState, request: requests.LLMUsageRequest, context: RequestContext) -> Plain:  # noqa: ARG001
    return state.keeper.llm_usage(limit=request.limit).as_dict()


def llm_call(state: AppState, request: None, context: RequestContext) -> Plain:  # noqa: ARG001
    return state.keeper.llm_call(context.id).as_dict()


def audit(state: AppState, request: requests.AuditRequest, context: RequestContext) -> Plain:  # noqa: ARG001
    return state.keeper.audit(examples=request.examples).as_dict()
