"""Fuzz tests: every request gets a well-formed response and no 500."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cofio.core import Keeper
from cofio.markdown_notes.service import NotesOptions
from cofio.server.http.routes import ROUTES, Route
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder
from tests.http_api.caller import Caller, Response
from tests.http_api.conftest import NoFactsLLM, serving

BODY_ROUTES = [route for route in ROUTES if route.has_body]
QUERY_ROUTES = [route for route in ROUTES if route.request and not route.has_body]
SETTINGS = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def shared_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    """Yield one service for all tests. It has a key from the start, because a test may create one at random."""
    clock = FixedClock()
    home = tmp_path_factory.mktemp("served")
    store, notebook = SqliteStore(home / "cofio.db", clock), NotesOptions(home / "notes")
    created = Keeper(store, HashEmbedder(), clock, llm=NoFactsLLM(), notes=notebook)
    with created as keeper, serving(keeper, api_key="secret") as url:
        yield Caller(url, {"X-API-Key": "secret"})


TEXTS = st.text() | st.sampled_from(["", "We deploy on Fridays.", "policy", "team", "2026-01-01", "\x00", "'\"*", "/"])
NUMBERS = st.integers() | st.floats() | st.sampled_from([0, 1, -1, 2**31, 2**63, 2**64, 10**30, 0.5, 1e308])
HOOKS = st.sampled_from(["SessionStart", "UserPromptSubmit", "Stop", "SessionEnd", "sessionStart", "agent_end"])
HOOK_FIELDS = ("session_id", "prompt_id", "turn_id", "prompt", "last_assistant_message", "cwd", "session", "reply")
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def plausible_bodies(route: Route) -> st.SearchStrategy[Any]:
    """Return objects with the route's field names, so that validation beyond decoding is reached."""
    if route.raw:
        return st.fixed_dictionaries(
            {"hook_event_name": HOOKS, "event": HOOKS}, optional=dict.fromkeys(HOOK_FIELDS, TEXTS)
        )
    assert route.request
    fields = msgspec.structs.fields(route.request)
    required = {field.name: plausible_values(field.name) for field in fields if field.required}
    optional = {field.name: plausible_values(field.name) for field in fields if not field.required}
    return st.fixed_dictionaries(required, optional=optional)


def plausible_values(name: str) -> st.SearchStrategy[Any]:
    if name in ("memories", "queries"):
        key = {"memories": "text", "queries": "query"}[name]
        return st.lists(st.dictionaries(st.just(key), TEXTS, min_size=1) | VALUES, max_size=3)
    if name in ("tags", "entities", "visibility"):
        return st.lists(TEXTS, max_size=3) | st.sampled_from(["team", ["team"]])
    if name == "metadata":
        return st.dictionaries(TEXTS, VALUES, max_size=3)
    return TEXTS | NUMBERS | st.booleans()


def is_not_configured(route: Route, answer: Response) -> bool:
    """Return True if the route needs something this service does not have: a chat upstream or a doctor."""
    return route.path.startswith(("/v1/", "/doctor")) and answer.status == 501


@pytest.mark.parametrize("route", BODY_ROUTES, ids=lambda route: f"{route.method} {route.path}")
@SETTINGS
@given(data=st.data())
def test_random_json_body_gets_a_response(shared_service: Caller, route: Route, data: st.DataObject) -> None:
    body = data.draw(VALUES | plausible_bodies(route))
    answer = shared_service.send(route.method, route.sample_path, json.dumps(body).encode())
    assert answer.status < 500 or is_not_configured(route, answer), answer.json


@pytest.mark.parametrize("route", BODY_ROUTES, ids=lambda route: f"{route.method} {route.path}")
@settings(SETTINGS, max_examples=20)
@given(body=st.binary())
def test_random_bytes_body_gets_a_response(shared_service: Caller, route: Route, body: bytes) -> None:
    answer = shared_service.send(route.method, route.sample_path, body)
    assert answer.status < 500 or is_not_configured(route, answer), answer.json


@pytest.mark.parametrize("route", QUERY_ROUTES, ids=lambda route: f"{route.method} {route.path}")
@SETTINGS
@given(data=st.data())
def test_random_query_string_gets_a_response(shared_service: Caller, route: Route, data: st.DataObject) -> None:
    assert route.request
    names = st.sampled_from(route.request.__struct_fields__)
    values = st.text(st.characters(exclude_categories=["Cs"])) | st.integers().map(str) | st.just("true")
    pairs = data.draw(st.lists(st.tuples(names | st.text(st.characters(exclude_categories=["Cs"])), values)))
    query = "&".join(f"{quote(name)}={quote(value)}" for name, value in pairs)
    answer = shared_service.send(route.method, f"{route.sample_path}?{query}")
    assert answer.status < 500 or is_not_configured(route, answer), answer.json


@SETTINGS
@given(identifier=st.text(st.characters(exclude_categories=["Cs"]), min_size=1) | st.integers().map(str))
def test_random_id_gets_a_response(shared_service: Caller, identifier: str) -> None:
    for path in ("/memory", "/changes"):
        assert shared_service.get(f"{path}/{quote(identifier, safe='')}").status in (200, 404)
