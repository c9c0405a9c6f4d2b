"""Handlers for team memory: facts, repeated statements, and prompt enrichment."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from cofio.server.http import requests
from cofio.server.http.context import Call, Desk

Plain = dict[str, Any]


def facts(desk: Desk, given: requests.TeamFacts, call: Call) -> Plain:  # noqa: ARG001
    found = desk.keeper.get_team_facts(limit=given.limit, category=given.category, team=_named(given))
    return {"memories": [each.as_dict() for each in found]}


def patterns(desk: Desk, given: requests.TeamPatterns, call: Call) -> Plain:  # noqa: ARG001
    found = desk.keeper.detect_cross_agent_patterns(
        min_occurrences=given.min_occurrences, limit=given.limit, category=given.category, team=_named(given)
    )
    return {"patterns": [each.as_dict() for each in found]}


def enrich(desk: Desk, given: requests.Enrich, call: Call) -> Plain:
    text = desk.keeper.enrich_prompt(given.query, given.session, given.include_team, given.max_facts, by=call.by)
    return {"context": text}


def _named(given: requests.TeamFacts) -> str | None:
    return None if given.team is UNSET else given.team
