"""What the service says about itself: health, stats, metrics, the OpenAPI document, the docs page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from cofio.server.http.routes import ROUTES
from cofio.version import __version__
from tests.http_api.caller import Caller
from tests.http_api.conftest import Serve, Uneventful


def test_health_says_healthy_with_the_count_of_now(service: Caller) -> None:
    assert service.get("/health").json == {
        "status": "healthy", "version": __version__, "memories": 0, "auth": "open",
    }  # fmt: skip
    service.post("/memory/add", {"text": "We deploy on Fridays."})
    assert service.get("/health").json["memories"] == 1


def test_stats_count_and_tell_version_and_uptime(service: Caller) -> None:
    service.post("/memory/add", {"text": "We deploy on Fridays.", "source": "claude/web"})
    stats = service.get("/stats").json
    assert (stats["memories"], stats["vectors"], stats["version"]) == (1, 1, __version__)
    assert stats["by_source"] == {"claude/web": 1}
    assert stats["uptime_seconds"] >= 0


# ── metrics ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def measured(service: Caller) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    families = text_string_to_metric_families(service.get("/metrics").body.decode())
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def requests(route: str, method: str, status: int) -> tuple[str, frozenset[tuple[str, str]]]:
    labels = {"route": route, "method": method, "status": str(status)}
    return "cofio_http_requests_total", frozenset(labels.items())


def test_metrics_count_requests_by_route_and_not_by_path(service: Caller) -> None:
    service.post("/memory/add", {"text": "We deploy on Fridays."})
    for each in range(3):
        service.get(f"/memory/{each + 1}")
        service.get(f"/unknown/{each}")
    service.send("PURGE", "/memories")
    service.get("/stats", {"Host": "evil.example"})
    found = measured(service)
    assert found[requests("/memory/add", "POST", 201)] == 1
    assert found[requests("/memory/{id}", "GET", 200)] == 1
    assert found[requests("/memory/{id}", "GET", 404)] == 2
    assert found[requests("other", "GET", 404)] == 3
    assert found[requests("/memories", "other", 405)] == 1
    assert found[requests("/stats", "GET", 403)] == 1
    assert found["cofio_memories", frozenset()] == 1
    assert found["cofio_http_in_flight", frozenset()] == 1
    assert found["cofio_http_request_seconds_count", frozenset({("route", "/memory/{id}")})] == 3


def test_two_services_in_one_process_count_apart(service: Caller, served: Caller) -> None:
    for _ in range(5):
        served.get("/stats")
    assert requests("/stats", "GET", 200) not in measured(service)


# ── openapi ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for each in value.values():
            yield from references(each)
    elif isinstance(value, list):
        for each in value:
            yield from references(each)


def test_the_document_lists_exactly_the_routes(served: Caller) -> None:
    document = served.get("/openapi.json").json
    listed = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert listed == {(route.method, route.path) for route in ROUTES}
    assert len(ROUTES) == len(listed)
    assert document["openapi"].startswith("3.1")


def test_every_reference_of_the_document_resolves(served: Caller) -> None:
    document = served.get("/openapi.json").json
    found = set(references(document))
    assert found
    for reference in found:
        place = document
        for step in reference.removeprefix("#/").split("/"):
            place = place[step]
        assert place["type"] == "object"


def test_every_operation_has_a_name_of_its_own(served: Caller) -> None:
    document = served.get("/openapi.json").json
    names = [method["operationId"] for methods in document["paths"].values() for method in methods.values()]
    assert len(names) == len(set(names))


def test_the_document_knows_parameters_and_their_defaults(served: Caller) -> None:
    document = served.get("/openapi.json").json
    parameters = {each["name"]: each for each in document["paths"]["/memories"]["delete"]["parameters"]}
    assert parameters["source"]["required"]
    assert parameters["dry_run"]["schema"]["default"] is True
    assert document["components"]["schemas"]["SearchRequest"]["properties"]["k"]["default"] == 5


def test_every_example_works(serve: Serve) -> None:
    service = serve(llm=Uneventful())
    service.post("/memory/add", {"text": "The coffee machine is on the second floor."})
    examples = [route for route in ROUTES if route.example]
    assert len(examples) > 5
    for route in sorted(examples, key=lambda each: each.path == "/memory/supersede"):
        newest = service.get("/changes", limit=1).json["changesets"][0]["id"]
        path = route.path.replace("{id}", str(newest)) if "changes" in route.path else route.sample_path
        send = service.patch if route.method == "PATCH" else service.post
        assert send(path, route.example).status in route.statuses, route


# ── docs ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_docs_page_shows_every_route_and_asks_nobody(served: Caller) -> None:
    answer = served.get("/docs")
    html = answer.body.decode()
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert not re.search(r"https?://|//[a-z]", html)
    assert not re.search(r"<script|<link|<img|<iframe|\bsrc=|@import|url\(", html)
    for route in ROUTES:
        assert f"<b>{route.method}</b><code>{route.path}</code>" in html


def test_every_link_of_the_docs_page_leads_somewhere(served: Caller) -> None:
    html = served.get("/docs").body.decode()
    targets = set(re.findall(r'id="([^"]+)"', html))
    assert set(re.findall(r'href="#([^"]+)"', html)) <= targets
    assert set(re.findall(r'href="([^#"]+)"', html)) == {"openapi.json"}


def test_the_docs_page_may_load_its_style_and_nothing_else(served: Caller) -> None:
    policy = served.get("/docs").headers["content-security-policy"]
    assert "style-src 'sha256-" in policy
    assert "script-src" not in policy
    assert "unsafe" not in policy
