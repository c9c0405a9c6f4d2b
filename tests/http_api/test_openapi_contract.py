"""The OpenAPI document and the service agree on texts, times, unknown parameters, methods and errors."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

import pytest

from cofio.core import Keeper
from cofio.server.http import openapi
from cofio.server.http.routes import ROUTES, Route
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder
from tests.http_api.caller import Caller
from tests.http_api.conftest import serving

DOCUMENT = openapi.document(ROUTES)
SCHEMAS = DOCUMENT["components"]["schemas"]
#: These need a folder, a model, an upstream or the doctor, or end with the client.
ELSEWHERE = ("/notes/", "/v1/", "/doctor", "/events", "/mcp", "/hooks/", "/memory/extract")
ROUTES_WITH_TEXTS = [route for route in ROUTES if route.request and not route.path.startswith(ELSEWHERE)]
TEXTS = ("plain", "a\0b", "", " ")


@pytest.fixture(scope="module")
def shared_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    """Yield a service with a key from the start, because a test creates one."""
    clock = FixedClock()
    store = SqliteStore(tmp_path_factory.mktemp("served") / "cofio.db", clock)
    with Keeper(store, HashEmbedder(), clock) as keeper, serving(keeper, api_key="secret") as url:
        yield Caller(url, {"X-API-Key": "secret"})


def resolve(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    return resolve(SCHEMAS[schema["$ref"].rpartition("/")[2]]) if "$ref" in schema else schema


def properties(route: Route) -> tuple[dict[str, Mapping[str, Any]], list[str]]:
    """Return the fields of a request with their schemas, and the required ones."""
    assert route.request
    if route.has_body:
        schema = SCHEMAS[route.request.__name__]
        return schema["properties"], schema.get("required", [])
    query = [item for item in openapi.parameters(route) if item["in"] == "query"]
    return {item["name"]: item["schema"] for item in query}, [item["name"] for item in query if item["required"]]


def sample(schema: Mapping[str, Any]) -> Any:
    """Return a value of this type."""
    schema = resolve(schema)
    if "anyOf" in schema:
        return sample(schema["anyOf"][0])
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("type") == "array":
        return [sample(schema["items"])]
    if schema.get("type") == "object":
        return {name: sample(schema["properties"][name]) for name in schema.get("required", ())}
    return {"string": "text", "integer": max(1, schema.get("minimum", 1)), "number": 0.5}.get(schema["type"], False)


def text_fields(route: Route) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the fields that are free texts, and nothing but texts."""
    for name, schema in properties(route)[0].items():
        if schema.get("type") == "string" and "enum" not in schema and "format" not in schema:
            yield name, schema


def send(service: Caller, route: Route, fields: Mapping[str, Any]) -> int:
    if route.has_body:
        return service.send(route.method, route.sample_path, json.dumps(fields).encode()).status
    return service.send(route.method, f"{route.sample_path}?{urlencode(fields)}").status


@pytest.mark.parametrize("route", ROUTES_WITH_TEXTS, ids=lambda route: f"{route.method} {route.path}")
def test_texts_that_break_the_schema_are_refused_and_no_others_with_the_same_shape(
    shared_service: Caller, route: Route
) -> None:
    fields, required = properties(route)
    base = dict(route.example or {name: sample(fields[name]) for name in required})
    refused = send(shared_service, route, base) == 400  # what the table or the store allows is checked beside it
    for name, schema in text_fields(route):
        for text in TEXTS:
            is_valid = bool(re.search(schema.get("pattern", ""), text))
            if not route.has_body and not text:
                is_valid = name not in required  # counts as omitted
            status = send(shared_service, route, {**base, name: text})
            if not is_valid:
                assert status == 400, (name, text)
            elif name in required and not refused:
                assert status != 400, (name, text)


@pytest.mark.parametrize("time", [0, 1, -62_135_596_800, 253_402_300_799_999, "2026-01-02", "20260102", "1.5"])
def test_times_of_the_documented_range_are_accepted(shared_service: Caller, time: float | str) -> None:
    assert shared_service.get("/knowledge/active", at=time).status == 200
    assert shared_service.get("/memories", since=time).status == 200
    for number in (-62_135_596_801, 253_402_300_800_000):
        assert shared_service.get("/memories", since=number).status == 400


@pytest.mark.parametrize(
    "path", ["/memories?colour=", "/memories?colour=red", "/stats?days=", "/stats?days=1", "/keys?a"]
)
def test_unknown_query_parameters_are_refused(shared_service: Caller, path: str) -> None:
    assert shared_service.get(path).status == 400
    assert shared_service.get("/overview?days=").status == 200  # known, and as if omitted


def test_allowed_methods_are_those_documented_for_the_path(shared_service: Caller) -> None:
    for path, methods in DOCUMENT["paths"].items():
        if "{" in path:
            continue
        response = shared_service.send("PURGE", path)
        assert sorted(response.headers["allow"].split(", ")) == sorted(method.upper() for method in methods), path


@pytest.mark.parametrize("name", ["codex", "", " ", "a\tb", "caf\xe9", "x" * 101])
def test_client_name_header_follows_its_schema(shared_service: Caller, name: str) -> None:
    [parameter] = DOCUMENT["paths"]["/stats"]["get"]["parameters"]
    schema = parameter["schema"]
    is_valid = bool(re.search(schema["pattern"], name)) and len(name) <= schema["maxLength"]
    assert (shared_service.get("/stats", {"X-Cofio-Client": name}).status == 200) is is_valid


def test_errors_of_mcp_are_documented(shared_service: Caller) -> None:
    errors = DOCUMENT["paths"]["/mcp"]["post"]["responses"]["default"]["content"]["application/json"]["schema"]["anyOf"]
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    by_service = shared_service.send("POST", "/mcp", b"{}").json
    by_protocol = shared_service.send("POST", "/mcp", b"{}", headers).json
    assert set(resolve(errors[0])["required"]) <= by_service.keys()
    assert set(errors[1]["required"]) <= by_protocol.keys()
