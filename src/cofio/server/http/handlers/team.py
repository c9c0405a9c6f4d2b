"""Handlers for team memory: facts, repeated statements, and prompt enrichment."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from cofio.server.http import requests
from cofio.server.http.context import AppState, RequestContext

Plain = dict[str, Any]


def facts(desk: AppState, given: requests.TeamFactsRequest, call: RequestContext) -> Plain:  # noqa: ARG001
    found = desk.keeper.get_team_facts(limit=given.limit, category=given.category, team=_named(given))
    return {"memories": [each.as_dict() for each in found]}


def patterns(desk: AppState, given: requests.TeamPatternsRequest, call: RequestContext) -> Plain:  # noqa: ARG001
    found = desk.keeper.detect_cross_agent_patterns(
        min_occurrences=given.min_occurrences, limit=given.limit, category=given.category, team=_named(given)
    )
    return {"patterns": [each.as_dict() for each in found]}


def enrich(desk: AppState, given: requests.EnrichRequest, call: RequestContext) -> Plain:
    text = desk.keeper.enrich_prompt(given.query, given.session, given.include_team, given.max_facts, by=call.by)
    return {"context": text}


def _named(given: requests.TeamFactsRequest) -> str | None:
    return None if given.team is UNSET else given.team
