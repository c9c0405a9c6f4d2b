"""Whatever is wrong with a request gets one shape of error, says what to do, and changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPConnection

import pytest

from tests.http_api.caller import Caller, checked
from tests.http_api.conftest import Serve

LARGE = 10 * 1024 * 1024


def refused(served: Caller, body: bytes, path: str = "/memory/add") -> str:
    answer = served.send("POST", path, body)
    assert (answer.status, answer.error["code"]) == (400, "invalid_input"), answer.json
    return f"{answer.error['message']} {answer.error['hint']}"


@pytest.mark.parametrize("path", ["/", "/nope", "/memory", "/memory/1/nope", "/health/", "/a%0Ab", "/%ff", "//health"])
def test_an_unknown_path_is_not_found(served: Caller, path: str) -> None:
    for method in ("GET", "POST", "DELETE", "OPTIONS"):
        answer = served.send(method, path)
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
def test_another_method_is_told_which_to_use(served: Caller, method: str, path: str, allowed: str) -> None:
    answer = served.send(method, path)
    assert (answer.status, answer.headers["allow"]) == (405, allowed)
    assert allowed in answer.error["hint"]


def test_a_head_request_is_a_get_without_the_body(served: Caller) -> None:
    answer = served.send("HEAD", "/health")
    assert (answer.status, answer.body) == (200, b"")
    assert int(answer.headers["content-length"]) > 0


@pytest.mark.parametrize(
    ("body", "says"),
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
def test_a_body_that_cannot_be_taken_is_told_what_is_wrong(served: Caller, body: bytes, says: str) -> None:
    assert says in refused(served, body)
    assert served.get("/health").json["memories"] == 0


@pytest.mark.parametrize("depth", [70, 500, 900, 2_000, 100_000])
def test_what_is_nested_too_deeply_is_refused(served: Caller, depth: int) -> None:
    assert "deep" in refused(served, b'{"text": "x", "metadata": {"a": ' + b"[" * depth + b"]" * depth + b"}}")
    refused(served, b"[" * depth)
    refused(served, b'{"text":' * depth)


def test_metadata_of_a_reasonable_depth_comes_back(service: Caller) -> None:
    nested: object = 1
    for _ in range(60):
        nested = {"a": [nested]} if isinstance(nested, int) else [nested]
    memory = service.post("/memory/add", {"text": "x", "metadata": {"deep": nested, "big": 10**30}}).json["memory"]
    assert service.get(f"/memory/{memory['id']}").json["metadata"] == {"deep": nested, "big": 10**30}


@pytest.mark.parametrize(
    ("body", "says"),
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
def test_a_search_says_which_field_is_wrong(served: Caller, body: bytes, says: str) -> None:
    assert says in refused(served, body, "/search")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
def test_a_body_of_another_type_is_refused(served: Caller, kind: str) -> None:
    answer = served.post("/search", {"query": "x"}, {"Content-Type": kind})
    assert answer.status == 400
    assert "application/json" in answer.error["hint"]


@pytest.mark.parametrize(
    "kind", ["application/json", "Application/JSON; charset=utf-8", "application/merge-patch+json"]
)
def test_a_body_of_json_type_is_taken(served: Caller, kind: str) -> None:
    assert served.post("/search", {"query": "x"}, {"Content-Type": kind}).status == 200


def test_nothing_that_was_said_is_ignored_silently(served: Caller) -> None:
    answer = served.post("/memory/deduplicate?dry_run=false")
    assert answer.status == 400
    assert "body" in answer.error["hint"]


@pytest.mark.parametrize("name", ["x" * 101, "caf\xe9", "a\tb"])
def test_a_client_name_that_cannot_be_journalled_is_refused(served: Caller, name: str) -> None:
    assert served.get("/stats", {"X-Cofio-Client": name}).status == 400


def test_a_long_value_is_not_quoted_in_full(served: Caller) -> None:
    assert len(refused(served, json.dumps({"text": "x", "kind": "k" * 1_000_000}).encode())) < 3_000


def test_a_text_beyond_the_limit_is_too_large(served: Caller) -> None:
    answer = served.post("/memory/add", {"text": "x" * 70_000})
    assert (answer.status, answer.error["code"]) == (413, "too_large")


# ── bodies that are too large ─────────────────────────────────────────────────────────────────────────────────────────


def chunks() -> Iterator[bytes]:
    yield b'{"text": "'
    for _ in range(LARGE // 65_536):
        yield b"x" * 65_536
    yield b'"}'


def test_a_body_that_says_it_is_too_large_is_refused(served: Caller) -> None:
    answer = served.send("POST", "/memory/add", b'{"text": "' + b"x" * LARGE + b'"}')
    assert (answer.status, answer.error["code"], answer.headers["connection"]) == (413, "too_large", "close")


def test_a_body_that_does_not_say_its_length_is_refused_while_it_streams(served: Caller) -> None:
    answer = served.send("POST", "/memory/add", chunks(), {"Transfer-Encoding": "chunked"})
    assert (answer.status, answer.error["code"]) == (413, "too_large")
    assert "COFIO_MAX_BODY" in answer.error["hint"]


def test_a_sender_that_asks_first_need_not_send(served: Caller) -> None:
    head = f"POST /memory/add HTTP/1.1\r\nHost: localhost\r\nContent-Length: {LARGE}\r\nExpect: 100-continue\r\n\r\n"
    assert checked("POST", "/memory/add", served.raw(head.encode())).status == 413


def test_the_limit_is_a_setting(serve: Serve) -> None:
    service = serve(max_body=100)
    assert service.post("/search", {"query": "x"}).status == 200
    assert service.post("/search", {"query": "x" * 100}).status == 413


def test_a_connection_goes_on_after_a_refusal(serve: Serve) -> None:
    service = serve(api_key="secret")
    connection = HTTPConnection(service.host, service.port, timeout=60)
    body = json.dumps({"text": "x" * 1_000_000}).encode()
    for _ in range(3):
        assert service.send("POST", "/memory/add", body, connection=connection).status == 401
        assert service.send("POST", "/nope", body, {"X-API-Key": "secret"}, connection).status == 404
        assert service.send("GET", "/health", connection=connection).status == 200
    connection.close()
