"""Handlers for team memory: facts, repeated statements, and prompt enrichment."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from cofio.server.http import requests
from cofio.server.http.context import AppState, RequestContext

Plain = dict[str, Any]


def facts(state: AppState, request: requests.TeamFactsRequest, context: RequestContext) -> Plain:  # noqa: ARG001
    memories = state.keeper.get_team_facts(limit=request.limit, category=request.category, team=_read_team(request))
    return {"memories": [memory.as_dict() for memory in memories]}


def patterns(state: AppState, request: requests.TeamPatternsRequest, context: RequestContext) -> Plain:  # noqa: ARG001
    repeats = state.keeper.detect_cross_agent_patterns(
        min_occurrences=request.min_occurrences,
        limit=request.limit,
        category=request.category,
        team=_read_team(request),
    )
    return {"patterns": [repeat.as_dict() for repeat in repeats]}


def enrich(state: AppState, request: requests.EnrichRequest, context: RequestContext) -> Plain:
    text = state.keeper.enrich_prompt(
        request.query, request.session, request.include_team, request.max_facts, by=context.by
    )
    return {"context": text}


def _read_team(request: requests.TeamFactsRequest) -> str | None:
    return None if request.team is UNSET else request.team
