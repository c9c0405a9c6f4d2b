"""Handlers for domain knowledge: tables, evaluation, and feedback."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from cofio.errors import InvalidInput, NotFound
from cofio.models.knowledge import Table, checked_table
from cofio.server.http import requests
from cofio.server.http.context import AppState, RequestContext
from cofio.server.http.responses import HandlerReply

Plain = dict[str, Any]

# ── the tables ────────────────────────────────────────────────────────────────────────────────────────────────────────


def count_knowledge(desk: AppState, given: None, call: RequestContext) -> Plain:  # noqa: ARG001
    return desk.keeper.knowledge.counts()


def list_knowledge(desk: AppState, given: requests.KnowledgeListingRequest, call: RequestContext) -> Plain:
    return _page(desk, _table(call), given, min_confidence=given.min_confidence)


def list_feedback(desk: AppState, given: requests.FeedbackListingRequest, call: RequestContext) -> Plain:  # noqa: ARG001
    return _page(desk, "feedback", given)


def put_knowledge(desk: AppState, given: requests.NewKnowledgeRequest, call: RequestContext) -> HandlerReply:
    change = desk.keeper.knowledge.put(_table(call), by=call.by, why=given.reason(), **given.known())
    return HandlerReply(change.as_dict(), 201 if change.action == "add" else 200)


def get_knowledge(desk: AppState, given: None, call: RequestContext) -> Plain:  # noqa: ARG001
    return desk.keeper.knowledge.get(_table(call), call.row).shown()


def delete_knowledge(desk: AppState, given: requests.ReasonRequest, call: RequestContext) -> Plain:
    return desk.keeper.knowledge.delete(_table(call), call.row, by=call.by, why=given.reason()).as_dict()


def purge_knowledge(desk: AppState, given: requests.ReasonRequest, call: RequestContext) -> Plain:
    return desk.keeper.knowledge.purge(_table(call), call.row, by=call.by, why=given.reason()).as_dict()


def knowledge_history(desk: AppState, given: None, call: RequestContext) -> Plain:  # noqa: ARG001
    table = _table(call)
    found = desk.keeper.knowledge.history(table, call.row)
    return {"table": table, "key": call.row, "changes": [each.as_dict() for each in found]}


# ── the exact lane ────────────────────────────────────────────────────────────────────────────────────────────────────


def evaluate(desk: AppState, given: requests.EvaluateRequest, call: RequestContext) -> Plain:  # noqa: ARG001
    found = desk.keeper.knowledge.evaluate(given.source, given.metric, given.value, unit=given.unit)
    return {"firing": [each.as_dict() for each in found]}


def active(desk: AppState, given: requests.ActiveAtRequest, call: RequestContext) -> Plain:  # noqa: ARG001
    found = desk.keeper.knowledge.active(given.moment(), source=given.source)
    return {"active": [each.as_dict() for each in found]}


def related(desk: AppState, given: requests.RelatedToRequest, call: RequestContext) -> Plain:  # noqa: ARG001
    found = desk.keeper.knowledge.related(given.source, depth=given.depth)
    return {"related": [each.as_dict() for each in found]}


def read_knowledge(desk: AppState, given: requests.ReadTextRequest, call: RequestContext) -> Plain:  # noqa: ARG001
    return {"readings": [each.as_dict() for each in desk.keeper.knowledge.read(given.text)]}


# ── feedback ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def give_feedback(desk: AppState, given: requests.NewVerdictRequest, call: RequestContext) -> Plain:
    said = given.known()
    done = desk.keeper.knowledge.feedback(given.anomaly, given.verdict, by=call.by, why=given.reason(), **said)
    return done.as_dict()


def process_feedback(desk: AppState, given: requests.ReasonRequest, call: RequestContext) -> Plain:
    done = desk.keeper.knowledge.process_feedback(by=call.by, why=given.reason())
    return {"changeset": done.as_dict() if done else None}


def _table(call: RequestContext) -> Table:
    """Return the table named in the path. NotFound if it does not exist."""
    try:
        return checked_table(call.table)
    except InvalidInput as error:
        raise NotFound(error.message, error.hint) from error


def _page(desk: AppState, table: Table, given: requests.RowListingRequest, **how: Any) -> Plain:
    after = None if given.after is UNSET else given.after
    found = desk.keeper.knowledge.list(table, limit=given.limit, after=after, **how, **given.where())
    following = found[-1].id if len(found) == given.limit else None
    return {"rows": [each.shown() for each in found], "next": following}
