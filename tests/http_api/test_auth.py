"""Who may ask: keys, host names, web pages."""

from __future__ import annotations

import pytest

from cofio.server.http.routes import ROUTES
from tests.http_api.caller import Caller, checked
from tests.http_api.conftest import Serve

ODD = "clé-ñ"
ODDER = "鍵-🔑"


def test_without_a_key_in_the_settings_everybody_may_ask(service: Caller) -> None:
    assert service.get("/health").json["auth"] == "open"
    assert service.get("/health", {"X-API-Key": "whatever"}).json["auth"] == "open"
    assert service.get("/stats").status == 200


def test_health_tells_a_missing_key_from_a_wrong_one_from_the_right_one(serve: Serve) -> None:
    service = serve(api_key="secret")
    missing = service.get("/health")
    assert (missing.status, missing.json["auth"]) == (200, "missing")
    assert "memories" not in missing.json
    wrong = service.get("/health", {"X-API-Key": "guess"})
    assert (wrong.status, wrong.error["code"]) == (401, "wrong_key")
    right = service.get("/health", {"X-API-Key": "secret"})
    assert (right.json["auth"], right.json["memories"]) == ("ok", 0)


def test_every_other_route_needs_the_key(serve: Serve) -> None:
    service = serve(api_key="secret")
    for number, route in enumerate(ROUTES):
        path = route.sample_path
        without = service.send(route.method, path)
        if route.public:
            assert without.status in route.statuses
        else:
            assert (without.status, without.error["code"]) == (401, "missing_key"), route
        elsewhere = service.having("Secret", f"127.0.1.{number + 1}")  # too many from one address are another matter
        wrong = elsewhere.send(route.method, path)
        assert (wrong.status, wrong.error["code"]) == (401, "wrong_key"), route
    assert service.get("/nope").status == 401
    assert service.send("PUT", "/memories").status == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"X-API-Key": "secret"},
        {"x-api-key": " secret "},
        {"Authorization": "Bearer secret"},
        {"authorization": "bearer  secret"},
        {"X-API-Key": "old", "Authorization": "Bearer secret"},
    ],
)
def test_the_key_comes_in_either_header(serve: Serve, headers: dict[str, str]) -> None:
    assert serve(api_key="secret").get("/stats", headers).status == 200


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"X-API-Key": ""}, "missing_key"),
        ({"Authorization": "Basic c2VjcmV0"}, "missing_key"),
        ({"Authorization": "Bearer"}, "missing_key"),
        ({"X-API-Key": "secre"}, "wrong_key"),
        ({"X-API-Key": "secret2"}, "wrong_key"),
        ({"X-API-Key": "s\xe9cret"}, "wrong_key"),
        ({"Authorization": "Bearer secret x"}, "wrong_key"),
    ],
)
def test_anything_else_is_no_key(serve: Serve, headers: dict[str, str], code: str) -> None:
    answer = serve(api_key="secret").get("/stats", headers)
    assert (answer.status, answer.error["code"]) == (401, code)


@pytest.mark.parametrize(("key", "sent"), [(ODD, ODD.encode()), (ODD, ODD.encode("latin-1")), (ODDER, ODDER.encode())])
def test_a_key_need_not_be_ascii(serve: Serve, key: str, sent: bytes) -> None:
    service = serve(api_key=key)
    assert service.get("/stats", {"X-API-Key": sent}).status == 200
    assert service.get("/stats", {"X-API-Key": sent + b"\xe9"}).status == 401


# ── host names ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST:1", "localhost.:80", "[::1]", "[::1]:8900"])
def test_our_own_names_are_fine_with_any_port(served: Caller, host: str) -> None:
    assert served.get("/stats", {"Host": host}).status == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8900", "localhost.evil.example", "127.0.0.1.evil.example", "localhost@evil.example",
     "10.0.0.1", "[::2]", "localhost:x", "localhost, evil.example", "::1", "[localhost]", "."],
)  # fmt: skip
def test_another_host_name_is_refused(served: Caller, host: str) -> None:
    for path in ("/stats", "/health", "/docs", "/nope"):
        answer = served.get(path, {"Host": host})
        assert (answer.status, answer.error["code"]) == (403, "forbidden")
        assert "COFIO_ALLOWED_HOSTS" in answer.error["hint"]


def test_a_request_names_exactly_one_host(served: Caller) -> None:
    assert checked("GET", "/health", served.raw(b"GET /health HTTP/1.1\r\n\r\n")).status == 403
    assert checked("GET", "/health", served.raw(b"GET /health HTTP/1.0\r\n\r\n")).status == 403
    twice = b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"
    assert served.raw(twice).status in (400, 403)


def test_a_whole_url_does_not_stand_for_the_host(served: Caller) -> None:
    asked = b"GET http://localhost/health HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    assert checked("GET", "/health", served.raw(asked)).status == 403


def test_further_names_can_be_allowed(serve: Serve) -> None:
    service = serve(allowed_hosts="cofio.internal, memory.example:8900")
    for host in ("cofio.internal:8900", "Memory.Example", "localhost"):
        assert service.get("/stats", {"Host": host}).status == 200
    assert service.get("/stats", {"Host": "other.internal"}).status == 403


def test_a_service_on_every_address_may_be_called_by_any_address(serve: Serve) -> None:
    service = serve(host="0.0.0.0", api_key="secret")
    key = {"X-API-Key": "secret"}
    for host in ("10.1.2.3:8900", "[fe80::1]", "localhost"):
        assert service.get("/stats", {**key, "Host": host}).status == 200
    assert service.get("/stats", {**key, "Host": "evil.example"}).status == 403


# ── web pages ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_page_of_the_same_host_and_port_may_ask(served: Caller) -> None:
    for host in (f"127.0.0.1:{served.port}", "localhost:8900", "localhost"):
        headers = {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
        assert served.post("/search", {"query": "x"}, headers).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "http://evil.example"},
        {"Origin": "http://localhost:3000"},
        {"Origin": "http://localhost"},
        {"Origin": "http://localhost:8900.evil.example"},
        {"Origin": "file://localhost:8900"},
        {"Origin": "localhost:8900"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost:8900"},
    ],
)
def test_a_page_of_another_site_may_not(served: Caller, headers: dict[str, str]) -> None:
    all_headers = {"Host": "localhost:8900", **headers, "Content-Type": "text/plain"}
    answer = served.post("/memory/add", {"text": "planted"}, all_headers)
    assert (answer.status, answer.error["code"]) == (403, "forbidden")
    assert served.get("/memories").json["total"] == 0


def test_a_link_on_another_site_may_lead_to_the_docs(served: Caller) -> None:
    followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert served.get("/docs", followed).status == 200
    assert served.get("/docs", {**followed, "Sec-Fetch-Dest": "iframe"}).status == 403
    assert served.get("/memories", followed).status == 403


def test_no_page_is_told_that_it_may_read(served: Caller) -> None:
    answer = served.send("OPTIONS", "/search", headers={"Access-Control-Request-Method": "POST"})
    assert answer.status == 405
    assert not any(name.startswith("access-control") for name in answer.headers)
