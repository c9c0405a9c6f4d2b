"""Handlers of maintenance: chores, their approval and runs, usage of memories, audit, and contradictions."""

from __future__ import annotations

from typing import Any

from cofio.server.http import requests
from cofio.server.http.context import Call, Desk

Plain = dict[str, Any]


def consolidate(desk: Desk, given: requests.Consolidate, call: Call) -> Plain:
    plan = desk.keeper.consolidate(
        dry_run=given.dry_run, source_prefix=given.source_prefix, by=call.by, why=given.reason()
    )
    return plan.as_dict()


def prune(desk: Desk, given: requests.Prune, call: Call) -> Plain:
    return desk.keeper.prune(dry_run=given.dry_run, by=call.by, why=given.reason()).as_dict()


def approve(desk: Desk, given: requests.Approve, call: Call) -> Plain:
    done = desk.keeper.approve(given.chore, given.as_decisions(), as_of=given.as_of, by=call.by, why=given.reason())
    return done.as_dict()


def contradictions(desk: Desk, given: requests.Contradictions, call: Call) -> Plain:  # noqa: ARG001
    return desk.keeper.contradictions(limit=given.limit).as_dict()


def agree(desk: Desk, given: requests.Agree, call: Call) -> Plain:
    return desk.keeper.agree(given.ids, by=call.by, why=given.reason()).as_dict()


def runs(desk: Desk, given: requests.Runs, call: Call) -> Plain:  # noqa: ARG001
    told = [each.as_dict() for each in desk.keeper.runs(limit=given.limit, chore=given.chore)]
    return {"runs": told, "schedules": dict(desk.schedules)}


def usage(desk: Desk, given: requests.Usage, call: Call) -> Plain:  # noqa: ARG001
    found = desk.keeper.usage(given.view, limit=given.limit, days=given.days, **given.within())
    return {"view": given.view, "memories": [each.as_dict() for each in found]}


def llm_usage(desk: Desk, given: requests.LLMUsage, call: Call) -> Plain:  # noqa: ARG001
    return desk.keeper.llm_usage(limit=given.limit).as_dict()


def llm_call(desk: Desk, given: None, call: Call) -> Plain:  # noqa: ARG001
    return desk.keeper.llm_call(call.id).as_dict()


def audit(desk: Desk, given: requests.Audit, call: Call) -> Plain:  # noqa: ARG001
    return desk.keeper.audit(examples=given.examples).as_dict()
