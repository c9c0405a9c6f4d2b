"""Health, statistics, metrics, the OpenAPI document and the docs page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from cofio.server.http.routes import ROUTES
from cofio.version import __version__
from tests.http_api.caller import Caller
from tests.http_api.conftest import NoFactsLLM, Serve


def test_health_returns_current_memory_count(service: Caller) -> None:
    assert service.get("/health").json == {
        "status": "healthy", "version": __version__, "memories": 0, "auth": "open",
    }  # fmt: skip
    service.post("/memory/add", {"text": "We deploy on Fridays."})
    assert service.get("/health").json["memories"] == 1


def test_stats_return_counts_version_and_uptime(service: Caller) -> None:
    service.post("/memory/add", {"text": "We deploy on Fridays.", "source": "claude/web"})
    stats = service.get("/stats").json
    assert (stats["memories"], stats["vectors"], stats["version"]) == (1, 1, __version__)
    assert stats["by_source"] == {"claude/web": 1}
    assert stats["uptime_seconds"] >= 0


# ── metrics ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def parse_metrics(service: Caller) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    families = text_string_to_metric_families(service.get("/metrics").body.decode())
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def request_counter(route: str, method: str, status: int) -> tuple[str, frozenset[tuple[str, str]]]:
    labels = {"route": route, "method": method, "status": str(status)}
    return "cofio_http_requests_total", frozenset(labels.items())


def test_metrics_count_requests_by_route_not_by_path(service: Caller) -> None:
    service.post("/memory/add", {"text": "We deploy on Fridays."})
    for index in range(3):
        service.get(f"/memory/{index + 1}")
        service.get(f"/unknown/{index}")
    service.send("PURGE", "/memories")
    service.get("/stats", {"Host": "evil.example"})
    results = parse_metrics(service)
    assert results[request_counter("/memory/add", "POST", 201)] == 1
    assert results[request_counter("/memory/{id}", "GET", 200)] == 1
    assert results[request_counter("/memory/{id}", "GET", 404)] == 2
    assert results[request_counter("other", "GET", 404)] == 3
    assert results[request_counter("/memories", "other", 405)] == 1
    assert results[request_counter("/stats", "GET", 403)] == 1
    assert results["cofio_memories", frozenset()] == 1
    assert results["cofio_http_in_flight", frozenset()] == 1
    assert results["cofio_http_request_seconds_count", frozenset({("route", "/memory/{id}")})] == 3


def test_services_in_one_process_have_separate_metrics(service: Caller, shared_service: Caller) -> None:
    for _ in range(5):
        shared_service.get("/stats")
    assert request_counter("/stats", "GET", 200) not in parse_metrics(service)


# ── openapi ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def find_references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for item in value.values():
            yield from find_references(item)
    elif isinstance(value, list):
        for item in value:
            yield from find_references(item)


def test_openapi_lists_exactly_the_routes(shared_service: Caller) -> None:
    document = shared_service.get("/openapi.json").json
    listing = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert listing == {(route.method, route.path) for route in ROUTES}
    assert len(ROUTES) == len(listing)
    assert document["openapi"].startswith("3.1")


def test_openapi_references_resolve(shared_service: Caller) -> None:
    document = shared_service.get("/openapi.json").json
    results = set(find_references(document))
    assert results
    for reference in results:
        node = document
        for step in reference.removeprefix("#/").split("/"):
            node = node[step]
        assert node["type"] == "object"


def test_openapi_operation_ids_are_unique(shared_service: Caller) -> None:
    document = shared_service.get("/openapi.json").json
    names = [method["operationId"] for methods in document["paths"].values() for method in methods.values()]
    assert len(names) == len(set(names))


def test_openapi_contains_parameters_with_defaults(shared_service: Caller) -> None:
    document = shared_service.get("/openapi.json").json
    parameters = {parameter["name"]: parameter for parameter in document["paths"]["/memories"]["delete"]["parameters"]}
    assert parameters["source"]["required"]
    assert parameters["dry_run"]["schema"]["default"] is True
    assert document["components"]["schemas"]["SearchRequest"]["properties"]["k"]["default"] == 5


def test_documented_example_requests_succeed(serve: Serve) -> None:
    service = serve(llm=NoFactsLLM())
    service.post("/memory/add", {"text": "The coffee machine is on the second floor."})
    examples = [route for route in ROUTES if route.example]
    assert len(examples) > 5
    for route in sorted(examples, key=lambda each: each.path == "/memory/supersede"):
        newest = service.get("/changes", limit=1).json["changesets"][0]["id"]
        path = route.path.replace("{id}", str(newest)) if "changes" in route.path else route.sample_path
        send = service.patch if route.method == "PATCH" else service.post
        assert send(path, route.example).status in route.statuses, route


# ── docs ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_docs_page_lists_every_route_and_loads_no_external_resources(shared_service: Caller) -> None:
    answer = shared_service.get("/docs")
    html = answer.body.decode()
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert not re.search(r"https?://|//[a-z]", html)
    assert not re.search(r"<script|<link|<img|<iframe|\bsrc=|@import|url\(", html)
    for route in ROUTES:
        assert f"<b>{route.method}</b><code>{route.path}</code>" in html


def test_docs_page_links_resolve(shared_service: Caller) -> None:
    html = shared_service.get("/docs").body.decode()
    targets = set(re.findall(r'id="([^"]+)"', html))
    assert set(re.findall(r'href="#([^"]+)"', html)) <= targets
    assert set(re.findall(r'href="([^#"]+)"', html)) == {"openapi.json"}


def test_docs_page_content_security_policy_allows_only_its_style(shared_service: Caller) -> None:
    policy = shared_service.get("/docs").headers["content-security-policy"]
    assert "style-src 'sha256-" in policy
    assert "script-src" not in policy
    assert "unsafe" not in policy
