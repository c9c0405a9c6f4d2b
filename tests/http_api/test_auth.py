"""Authentication, Host header and Origin checks."""

from __future__ import annotations

import pytest

from cofio.server.http.routes import ROUTES
from tests.http_api.caller import Caller, check_response
from tests.http_api.conftest import Serve

LATIN_KEY = "clé-ñ"
UNICODE_KEY = "鍵-🔑"


def test_service_without_api_key_is_open(service: Caller) -> None:
    assert service.get("/health").json["auth"] == "open"
    assert service.get("/health", {"X-API-Key": "whatever"}).json["auth"] == "open"
    assert service.get("/stats").status == 200


def test_health_distinguishes_missing_wrong_and_valid_key(serve: Serve) -> None:
    service = serve(api_key="secret")
    missing = service.get("/health")
    assert (missing.status, missing.json["auth"]) == (200, "missing")
    assert "memories" not in missing.json
    wrong = service.get("/health", {"X-API-Key": "guess"})
    assert (wrong.status, wrong.error["code"]) == (401, "wrong_key")
    right = service.get("/health", {"X-API-Key": "secret"})
    assert (right.json["auth"], right.json["memories"]) == ("ok", 0)


def test_every_route_except_keyless_ones_requires_the_key(serve: Serve) -> None:
    service = serve(api_key="secret")
    for number, route in enumerate(ROUTES):
        path = route.sample_path
        without = service.send(route.method, path)
        if route.public:
            assert without.status in (*route.statuses, 404)  # 404: a link without a code
        else:
            assert (without.status, without.error["code"]) == (401, "missing_key"), route
        other = service.with_key("Secret", f"127.0.1.{number + 1}")  # rate limiting is tested elsewhere
        wrong = other.send(route.method, path)
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
def test_key_is_accepted_in_either_header(serve: Serve, headers: dict[str, str]) -> None:
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
def test_invalid_key_header_is_rejected(serve: Serve, headers: dict[str, str], code: str) -> None:
    answer = serve(api_key="secret").get("/stats", headers)
    assert (answer.status, answer.error["code"]) == (401, code)


@pytest.mark.parametrize(
    ("key", "header"),
    [(LATIN_KEY, LATIN_KEY.encode()), (LATIN_KEY, LATIN_KEY.encode("latin-1")), (UNICODE_KEY, UNICODE_KEY.encode())],
)
def test_non_ascii_key_is_accepted(serve: Serve, key: str, header: bytes) -> None:
    service = serve(api_key=key)
    assert service.get("/stats", {"X-API-Key": header}).status == 200
    assert service.get("/stats", {"X-API-Key": header + b"\xe9"}).status == 401


# ── Host header ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST:1", "localhost.:80", "[::1]", "[::1]:8900"])
def test_loopback_host_names_are_accepted_with_any_port(shared_service: Caller, host: str) -> None:
    assert shared_service.get("/stats", {"Host": host}).status == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8900", "localhost.evil.example", "127.0.0.1.evil.example", "localhost@evil.example",
     "10.0.0.1", "[::2]", "localhost:x", "localhost, evil.example", "::1", "[localhost]", "."],
)  # fmt: skip
def test_unknown_host_name_is_rejected(shared_service: Caller, host: str) -> None:
    for path in ("/stats", "/health", "/docs", "/nope"):
        answer = shared_service.get(path, {"Host": host})
        assert (answer.status, answer.error["code"]) == (403, "forbidden")
        assert "COFIO_ALLOWED_HOSTS" in answer.error["hint"]


def test_request_with_missing_or_repeated_host_is_rejected(shared_service: Caller) -> None:
    assert check_response("GET", "/health", shared_service.raw(b"GET /health HTTP/1.1\r\n\r\n")).status == 403
    assert check_response("GET", "/health", shared_service.raw(b"GET /health HTTP/1.0\r\n\r\n")).status == 403
    repeated_host = b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"
    assert shared_service.raw(repeated_host).status in (400, 403)


def test_absolute_request_url_does_not_replace_host_header(shared_service: Caller) -> None:
    query = b"GET http://localhost/health HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    assert check_response("GET", "/health", shared_service.raw(query)).status == 403


def test_allowed_hosts_setting_adds_host_names(serve: Serve) -> None:
    service = serve(allowed_hosts="cofio.internal, memory.example:8900")
    for host in ("cofio.internal:8900", "Memory.Example", "localhost"):
        assert service.get("/stats", {"Host": host}).status == 200
    assert service.get("/stats", {"Host": "other.internal"}).status == 403


def test_service_on_all_interfaces_accepts_any_ip_address_as_host(serve: Serve) -> None:
    service = serve(host="0.0.0.0", api_key="secret")
    key = {"X-API-Key": "secret"}
    for host in ("10.1.2.3:8900", "[fe80::1]", "localhost"):
        assert service.get("/stats", {**key, "Host": host}).status == 200
    assert service.get("/stats", {**key, "Host": "evil.example"}).status == 403


# ── Origin ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_same_origin_page_is_accepted(shared_service: Caller) -> None:
    for host in (f"127.0.0.1:{shared_service.port}", "localhost:8900", "localhost"):
        headers = {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
        assert shared_service.post("/search", {"query": "x"}, headers).status == 200


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
def test_cross_origin_page_is_rejected(shared_service: Caller, headers: dict[str, str]) -> None:
    all_headers = {"Host": "localhost:8900", **headers, "Content-Type": "text/plain"}
    answer = shared_service.post("/memory/add", {"text": "planted"}, all_headers)
    assert (answer.status, answer.error["code"]) == (403, "forbidden")
    assert shared_service.get("/memories").json["total"] == 0


def test_cross_site_navigation_may_open_docs_only(shared_service: Caller) -> None:
    followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert shared_service.get("/docs", followed).status == 200
    assert shared_service.get("/docs", {**followed, "Sec-Fetch-Dest": "iframe"}).status == 403
    assert shared_service.get("/memories", followed).status == 403


def test_preflight_request_gets_no_cors_headers(shared_service: Caller) -> None:
    answer = shared_service.send("OPTIONS", "/search", headers={"Access-Control-Request-Method": "POST"})
    assert answer.status == 405
    assert not any(name.startswith("access-control") for name in answer.headers)
