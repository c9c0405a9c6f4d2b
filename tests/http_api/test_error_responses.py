"""Error responses: one schema, a hint that says what to do, and no changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPConnection

import pytest

from tests.http_api.caller import Caller, check_response
from tests.http_api.conftest import Serve

MAX_BODY = 10 * 1024 * 1024


def error_text(served: Caller, body: bytes, path: str = "/memory/add") -> str:
    response = served.send("POST", path, body)
    assert (response.status, response.error["code"]) == (400, "invalid_input"), response.json
    return f"{response.error['message']} {response.error['hint']}"


@pytest.mark.parametrize("path", ["/", "/nope", "/memory", "/memory/1/nope", "/health/", "/a%0Ab", "/%ff", "//health"])
def test_unknown_path_returns_404(shared_service: Caller, path: str) -> None:
    for method in ("GET", "POST", "DELETE", "OPTIONS"):
        answer = shared_service.send(method, path)
        assert (answer.status, answer.error["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/health", "GET"),
        ("GET", "/search", "POST"),
        ("GET", "/memory/add", "POST"),
        ("PUT", "/memory/1", "GET, PATCH, DELETE"),
        ("OPTIONS", "/memories", "GET, DELETE"),
        ("TRACE", "/memories", "GET, DELETE"),
    ],
)
def test_wrong_method_returns_405_with_allowed_methods(
    shared_service: Caller, method: str, path: str, allowed: str
) -> None:
    answer = shared_service.send(method, path)
    assert (answer.status, answer.headers["allow"]) == (405, allowed)
    assert allowed in answer.error["hint"]


def test_head_returns_headers_of_get_without_body(shared_service: Caller) -> None:
    answer = shared_service.send("HEAD", "/health")
    assert (answer.status, answer.body) == (200, b"")
    assert int(answer.headers["content-length"]) > 0


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "text"),
        (b"  \n", "text"),
        (b"nope", "not JSON"),
        (b'{"text": "x"', "not JSON"),
        (b'{"text": "x"} {}', "not JSON"),
        (b"[]", "array"),
        (b'"text"', "str"),
        (b"null", "null"),
        (b"{}", "`text` is missing"),
        (b'{"text": null}', "Omit"),
        (b'{"text": 1}', "`text`"),
        (b'{"text": ["x"]}', "`text`"),
        (b'{"text": "x", "k": 1}', "`k` is not known"),
        (b'{"text": "x", "confidence": "high"}', "`confidence`"),
        (b'{"text": "x", "confidence": 2}', "`confidence`"),
        (b'{"text": "x", "confidence": NaN}', "not JSON"),
        (b'{"text": "x", "confidence": Infinity}', "not JSON"),
        (b'{"text": "x", "confidence": 1e999}', "`confidence`"),
        (b'{"text": "x", "tags": "a"}', "`tags`"),
        (b'{"text": "x", "tags": [1]}', "`tags[0]`"),
        (b'{"text": "x", "metadata": []}', "`metadata`"),
        (b'{"text": "x", "deduplicate": "no"}', "`deduplicate`"),
        (b'{"text": "x", "kind": "whim"}', "preference"),
        (b'{"text": "x", "created_at": "then"}', "created_at"),
        (b'{"text": "x", "created_at": 1e300}', "created_at"),
        (b'{"text": "x", "created_at": "0001-01-01T00:00:00+14:00"}', "created_at"),
        (b'{"text": "x", "created_at": 1, "timestamp": 1}', "one of them"),
        (b'{"text": ""}', "empty"),
        (b'{"text": " \\t\\n "}', "empty"),
        (b'{"text": "a\\u0000b"}', "NUL"),
        (b'{"text": "a\x00b"}', "not JSON"),
        (b'{"text": "x", "why": "a\\u0000b"}', "NUL"),
        (b'{"text": "x", "metadata": {"a": "\\u0000"}}', "NUL"),
        (b'{"text": "\\ud800"}', "pairs"),
        (b'{"text": "a\\ud800bcdefgh"}', "pairs"),
        (b'{"text": "\\udc00 abcdefgh"}', "pairs"),
        (b'{"text": "x", "metadata": {"\\ud800": 1}}', "pairs"),
        (b'{"text": "\xff"}', "UTF-8"),
        (b'{"text": "\xed\xa0\x80"}', "UTF-8"),
        ('{"text": "x"}'.encode("utf-16"), "not JSON"),
    ],
)
def test_invalid_body_error_names_the_problem(shared_service: Caller, body: bytes, message: str) -> None:
    assert message in error_text(shared_service, body)
    assert shared_service.get("/health").json["memories"] == 0


@pytest.mark.parametrize("depth", [70, 500, 900, 2_000, 100_000])
def test_deeply_nested_body_is_rejected(shared_service: Caller, depth: int) -> None:
    assert "deep" in error_text(
        shared_service, b'{"text": "x", "metadata": {"a": ' + b"[" * depth + b"]" * depth + b"}}"
    )
    error_text(shared_service, b"[" * depth)
    error_text(shared_service, b'{"text":' * depth)


def test_nested_metadata_is_returned_unchanged(service: Caller) -> None:
    nested: object = 1
    for _ in range(60):
        nested = {"a": [nested]} if isinstance(nested, int) else [nested]
    memory = service.post("/memory/add", {"text": "x", "metadata": {"deep": nested, "big": 10**30}}).json["memory"]
    assert service.get(f"/memory/{memory['id']}").json["metadata"] == {"deep": nested, "big": 10**30}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"query": "x", "k": "x"}', "`k` is invalid: expected `int`, got `str`."),
        (b'{"query": "x", "k": true}', "`k`"),
        (b'{"query": "x", "k": 1.5}', "`k`"),
        (b'{"query": "x", "k": 0}', "`k`"),
        (b'{"query": "x", "k": 1001}', "`k`"),
        (b'{"query": "x", "k": 99999999999999999999999999}', "`k`"),
        (b'{"query": "x", "threshold": -1.1}', "`threshold`"),
        (b'{"query": "x", "since": true}', "`since`"),
        (b'{"query": "x", "since": 99999999999999999999999999}', "since"),
        (b'{"query": "x", "pinned": null}', "`pinned`"),
        (b'{"query": "  "}', "empty"),
    ],
)
def test_invalid_search_error_names_the_field(shared_service: Caller, body: bytes, message: str) -> None:
    assert message in error_text(shared_service, body, "/search")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
def test_unsupported_content_type_is_rejected(shared_service: Caller, kind: str) -> None:
    answer = shared_service.post("/search", {"query": "x"}, {"Content-Type": kind})
    assert answer.status == 400
    assert "application/json" in answer.error["hint"]


@pytest.mark.parametrize(
    "kind", ["application/json", "Application/JSON; charset=utf-8", "application/merge-patch+json"]
)
def test_json_content_types_are_accepted(shared_service: Caller, kind: str) -> None:
    assert shared_service.post("/search", {"query": "x"}, {"Content-Type": kind}).status == 200


def test_query_parameters_of_post_are_rejected(shared_service: Caller) -> None:
    answer = shared_service.post("/memory/deduplicate?dry_run=false")
    assert answer.status == 400
    assert "body" in answer.error["hint"]


@pytest.mark.parametrize("name", ["x" * 101, "caf\xe9", "a\tb"])
def test_invalid_client_name_header_is_rejected(shared_service: Caller, name: str) -> None:
    assert shared_service.get("/stats", {"X-Cofio-Client": name}).status == 400


def test_error_message_truncates_long_values(shared_service: Caller) -> None:
    assert len(error_text(shared_service, json.dumps({"text": "x", "kind": "k" * 1_000_000}).encode())) < 3_000


def test_text_over_the_limit_returns_413(shared_service: Caller) -> None:
    answer = shared_service.post("/memory/add", {"text": "x" * 70_000})
    assert (answer.status, answer.error["code"]) == (413, "too_large")


# ── oversized bodies ──────────────────────────────────────────────────────────────────────────────────────────────────


def oversized_chunks() -> Iterator[bytes]:
    yield b'{"text": "'
    for _ in range(MAX_BODY // 65_536):
        yield b"x" * 65_536
    yield b'"}'


@pytest.mark.parametrize("path", ["/capture", "/memory/add", "/hooks/claude-code", "/mcp"])
@pytest.mark.parametrize("content", [b"{},", b"[],", b'"a":1,'])
def test_body_with_too_many_values_is_rejected_before_parsing(
    shared_service: Caller, path: str, content: bytes
) -> None:
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    answer = shared_service.send("POST", path, b'{"a": ' + content * 600_000, headers)
    assert (answer.status, answer.error["code"]) == (413, "too_large")
    assert "values" in answer.error["message"]


def test_metadata_with_too_many_values_returns_413(shared_service: Caller) -> None:
    values = {"deep": [[[1] * 40_000]]}
    answer = shared_service.post("/memory/add", {"text": "x", "metadata": values})
    assert (answer.status, answer.error["message"]) == (413, "metadata has more than 32,768 values.")


def test_body_with_large_content_length_is_rejected(shared_service: Caller) -> None:
    answer = shared_service.send("POST", "/memory/add", b'{"text": "' + b"x" * MAX_BODY + b'"}')
    assert (answer.status, answer.error["code"], answer.headers["connection"]) == (413, "too_large", "close")


def test_large_chunked_body_is_rejected_while_streaming(shared_service: Caller) -> None:
    answer = shared_service.send("POST", "/memory/add", oversized_chunks(), {"Transfer-Encoding": "chunked"})
    assert (answer.status, answer.error["code"]) == (413, "too_large")
    assert "COFIO_MAX_BODY" in answer.error["hint"]


def test_large_body_with_expect_continue_is_rejected_before_upload(shared_service: Caller) -> None:
    head = f"POST /memory/add HTTP/1.1\r\nHost: localhost\r\nContent-Length: {MAX_BODY}\r\nExpect: 100-continue\r\n\r\n"
    assert check_response("POST", "/memory/add", shared_service.raw(head.encode())).status == 413


def test_max_body_setting_limits_the_body(serve: Serve) -> None:
    service = serve(max_body=100)
    assert service.post("/search", {"query": "x"}).status == 200
    assert service.post("/search", {"query": "x" * 100}).status == 413


def test_connection_stays_usable_after_errors(serve: Serve) -> None:
    service = serve(api_key="secret")
    connection = HTTPConnection(service.host, service.port, timeout=60)
    body = json.dumps({"text": "x" * 1_000_000}).encode()
    for _ in range(3):
        assert service.send("POST", "/memory/add", body, connection=connection).status == 401
        assert service.send("POST", "/nope", body, {"X-API-Key": "secret"}, connection).status == 404
        assert service.send("GET", "/health", connection=connection).status == 200
    connection.close()
