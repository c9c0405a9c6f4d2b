"""Handlers for team memory: facts, repeated statements, and prompt enrichment."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from cofio.server.http import requests
from cofio.server.http.context import AppState, RequestContext

Plain = dict[str, Any]


def facts(state: AppState, request: requests.TeamFactsRequest, context: RequestContext) -> Plain:  # noqa: ARG001
    found = state.keeper.get_team_facts(limit=request.limit, category=request.category, team=_named(request))
    return {"memories": [each.as_dict() for each in found]}


def patterns(state: AppState, request: requests.TeamPatternsRequest, context: RequestContext) -> Plain:  # noqa: ARG001
    found = state.keeper.detect_cross_agent_patterns(
        min_occurrences=request.min_occurrences, limit=request.limit, category=request.category, team=_named(request)
    )
    return {"patterns": [each.as_dict() for each in found]}


def enrich(state: AppState, request: requests.EnrichRequest, context: RequestContext) -> Plain:
    text = state.keeper.enrich_prompt(
        request.query, request.session, request.include_team, request.max_facts, by=context.by
    )
    return {"context": text}


def _named(request: requests.TeamFactsRequest) -> str | None:
    return None if request.team is UNSET else request.team
