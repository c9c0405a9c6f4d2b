"""Whatever is sent, the service answers in its one shape and never fails."""

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
from cofio.notes.service import NotesOptions
from cofio.server.http.routes import ROUTES, Route
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder
from tests.http_api.caller import Answer, Caller
from tests.http_api.conftest import Uneventful, serving

TAKING_BODIES = [route for route in ROUTES if route.has_body]
TAKING_QUERIES = [route for route in ROUTES if route.request and not route.has_body]
SETTINGS = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    """One service for them all. It has a key from the start, for one may be made here by chance."""
    clock = FixedClock()
    home = tmp_path_factory.mktemp("served")
    store, notebook = SqliteStore(home / "cofio.db", clock), NotesOptions(home / "notes")
    made = Keeper(store, HashEmbedder(), clock, llm=Uneventful(), notes=notebook)
    with made as keeper, serving(keeper, api_key="secret") as url:
        yield Caller(url, {"X-API-Key": "secret"})


TEXTS = st.text() | st.sampled_from(["", "We deploy on Fridays.", "policy", "team", "2026-01-01", "\x00", "'\"*", "/"])
NUMBERS = st.integers() | st.floats() | st.sampled_from([0, 1, -1, 2**31, 2**63, 2**64, 10**30, 0.5, 1e308])
HOOKS = st.sampled_from(["SessionStart", "UserPromptSubmit", "Stop", "SessionEnd", "sessionStart", "agent_end"])
TOLD = ("session_id", "prompt_id", "turn_id", "prompt", "last_assistant_message", "cwd", "session", "reply")
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def near(route: Route) -> st.SearchStrategy[Any]:
    """Objects with the route's own field names, so that what is behind the reading is reached as well."""
    if route.raw:
        return st.fixed_dictionaries({"hook_event_name": HOOKS, "event": HOOKS}, optional=dict.fromkeys(TOLD, TEXTS))
    assert route.request
    fields = msgspec.structs.fields(route.request)
    required = {field.name: plausible(field.name) for field in fields if field.required}
    optional = {field.name: plausible(field.name) for field in fields if not field.required}
    return st.fixed_dictionaries(required, optional=optional)


def plausible(name: str) -> st.SearchStrategy[Any]:
    if name in ("memories", "queries"):
        key = {"memories": "text", "queries": "query"}[name]
        return st.lists(st.dictionaries(st.just(key), TEXTS, min_size=1) | VALUES, max_size=3)
    if name in ("tags", "entities", "visibility"):
        return st.lists(TEXTS, max_size=3) | st.sampled_from(["team", ["team"]])
    if name == "metadata":
        return st.dictionaries(TEXTS, VALUES, max_size=3)
    return TEXTS | NUMBERS | st.booleans()


def is_nowhere(route: Route, answer: Answer) -> bool:
    """Whether it was refused for what this service was not given: an upstream for chats, a doctor."""
    return route.path.startswith(("/v1/", "/doctor")) and answer.status == 501


@pytest.mark.parametrize("route", TAKING_BODIES, ids=lambda route: f"{route.method} {route.path}")
@SETTINGS
@given(data=st.data())
def test_any_json_as_a_body_is_answered(served: Caller, route: Route, data: st.DataObject) -> None:
    body = data.draw(VALUES | near(route))
    answer = served.send(route.method, route.sample_path, json.dumps(body).encode())
    assert answer.status < 500 or is_nowhere(route, answer), answer.json


@pytest.mark.parametrize("route", TAKING_BODIES, ids=lambda route: f"{route.method} {route.path}")
@settings(SETTINGS, max_examples=20)
@given(body=st.binary())
def test_any_bytes_as_a_body_are_answered(served: Caller, route: Route, body: bytes) -> None:
    answer = served.send(route.method, route.sample_path, body)
    assert answer.status < 500 or is_nowhere(route, answer), answer.json


@pytest.mark.parametrize("route", TAKING_QUERIES, ids=lambda route: f"{route.method} {route.path}")
@SETTINGS
@given(data=st.data())
def test_any_query_string_is_answered(served: Caller, route: Route, data: st.DataObject) -> None:
    assert route.request
    names = st.sampled_from(route.request.__struct_fields__)
    values = st.text(st.characters(exclude_categories=["Cs"])) | st.integers().map(str) | st.just("true")
    pairs = data.draw(st.lists(st.tuples(names | st.text(st.characters(exclude_categories=["Cs"])), values)))
    query = "&".join(f"{quote(name)}={quote(value)}" for name, value in pairs)
    answer = served.send(route.method, f"{route.sample_path}?{query}")
    assert answer.status < 500 or is_nowhere(route, answer), answer.json


@SETTINGS
@given(said=st.text(st.characters(exclude_categories=["Cs"]), min_size=1) | st.integers().map(str))
def test_any_id_is_answered(served: Caller, said: str) -> None:
    for path in ("/memory", "/changes"):
        assert served.get(f"{path}/{quote(said, safe='')}").status in (200, 404)
