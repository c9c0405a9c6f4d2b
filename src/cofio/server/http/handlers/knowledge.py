"""Handlers for domain knowledge: tables, evaluation, and feedback."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from cofio.errors import InvalidInput, NotFound
from cofio.models.domain_knowledge import Table, check_table
from cofio.server.http import requests
from cofio.server.http.context import AppState, RequestContext
from cofio.server.http.responses import HandlerReply

Plain = dict[str, Any]

# ── the tables ────────────────────────────────────────────────────────────────────────────────────────────────────────


def list_knowledge(state: AppState, request: requests.KnowledgeListingRequest, context: RequestContext) -> Plain:
    return _list_page(state, _find_table(context), request, min_confidence=request.min_confidence)


def list_feedback(state: AppState, request: requests.FeedbackListingRequest, context: RequestContext) -> Plain:  # noqa: ARG001
    return _list_page(state, "feedback", request)


def put_knowledge(state: AppState, request: requests.NewKnowledgeRequest, context: RequestContext) -> HandlerReply:
    change = state.keeper.knowledge.put(_find_table(context), by=context.by, why=request.reason(), **request.known())
    return HandlerReply(change.as_dict(), 201 if change.action == "add" else 200)


def get_knowledge(state: AppState, request: None, context: RequestContext) -> Plain:  # noqa: ARG001
    return state.keeper.knowledge.get(_find_table(context), context.row).shown()


def delete_knowledge(state: AppState, request: requests.ReasonRequest, context: RequestContext) -> Plain:
    return state.keeper.knowledge.delete(
        _find_table(context), context.row, by=context.by, why=request.reason()
    ).as_dict()


def purge_knowledge(state: AppState, request: requests.ReasonRequest, context: RequestContext) -> Plain:
    return state.keeper.knowledge.purge(
        _find_table(context), context.row, by=context.by, why=request.reason()
    ).as_dict()


def knowledge_history(state: AppState, request: None, context: RequestContext) -> Plain:  # noqa: ARG001
    table = _find_table(context)
    changes = state.keeper.knowledge.history(table, context.row)
    return {"table": table, "key": context.row, "changes": [change.as_dict() for change in changes]}


# ── evaluation ────────────────────────────────────────────────────────────────────────────────────────────────────────


# ── feedback ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def feedback(state: AppState, request: requests.NewVerdictRequest, context: RequestContext) -> Plain:
    known = request.known()
    changeset = state.keeper.knowledge.feedback(
        request.anomaly, request.verdict, by=context.by, why=request.reason(), **known
    )
    return changeset.as_dict()


def _find_table(context: RequestContext) -> Table:
    """Return the table named in the path. NotFound if it does not exist."""
    try:
        return check_table(context.table)
    except InvalidInput as error:
        raise NotFound(error.message, error.hint) from error


def _list_page(state: AppState, table: Table, request: requests.RowListingRequest, **how: Any) -> Plain:
    after = None if request.after is UNSET else request.after
    rows = state.keeper.knowledge.list(table, limit=request.limit, after=after, **how, **request.where())
    following = rows[-1].id if len(rows) == request.limit else None
    return {"rows": [row.shown() for row in rows], "next": following}
