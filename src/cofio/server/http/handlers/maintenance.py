"""Handlers of maintenance: chores, their approval and runs, usage of memories, audit, and contradictions."""

from __future__ import annotations

from typing import Any

from cofio.server.http import requests
from cofio.server.http.context import AppState, RequestContext

Plain = dict[str, Any]


def consolidate(desk: AppState, given: requests.ConsolidateRequest, call: RequestContext) -> Plain:
    plan = desk.keeper.consolidate(
        dry_run=given.dry_run, source_prefix=given.source_prefix, by=call.by, why=given.reason()
    )
    return plan.as_dict()


def prune(desk: AppState, given: requests.PruneRequest, call: RequestContext) -> Plain:
    return desk.keeper.prune(dry_run=given.dry_run, by=call.by, why=given.reason()).as_dict()


def approve(desk: AppState, given: requests.ApproveRequest, call: RequestContext) -> Plain:
    done = desk.keeper.approve(given.chore, given.as_decisions(), as_of=given.as_of, by=call.by, why=given.reason())
    return done.as_dict()


def contradictions(desk: AppState, given: requests.ContradictionsRequest, call: RequestContext) -> Plain:  # noqa: ARG001
    return desk.keeper.contradictions(limit=given.limit).as_dict()


def agree(desk: AppState, given: requests.DismissContradictionRequest, call: RequestContext) -> Plain:
    return desk.keeper.agree(given.ids, by=call.by, why=given.reason()).as_dict()


def runs(desk: AppState, given: requests.RunsRequest, call: RequestContext) -> Plain:  # noqa: ARG001
    told = [each.as_dict() for each in desk.keeper.runs(limit=given.limit, chore=given.chore)]
    return {"runs": told, "schedules": dict(desk.schedules)}


def usage(desk: AppState, given: requests.UsageRequest, call: RequestContext) -> Plain:  # noqa: ARG001
    found = desk.keeper.usage(given.view, limit=given.limit, days=given.days, **given.within())
    return {"view": given.view, "memories": [each.as_dict() for each in found]}


def llm_usage(desk: AppState, given: requests.LLMUsageRequest, call: RequestContext) -> Plain:  # noqa: ARG001
    return desk.keeper.llm_usage(limit=given.limit).as_dict()


def llm_call(desk: AppState, given: None, call: RequestContext) -> Plain:  # noqa: ARG001
    return desk.keeper.llm_call(call.id).as_dict()


def audit(desk: AppState, given: requests.AuditRequest, call: RequestContext) -> Plain:  # noqa: ARG001
    return desk.keeper.audit(examples=given.examples).as_dict()
