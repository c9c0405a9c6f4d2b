"""Wire formats of remote embedders and the handling of provider failures."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from email.utils import formatdate
from typing import Any

import numpy as np
import pytest

from cofio.errors import CofioError, Misconfigured, Unavailable
from cofio.providers.embedders.remote import (
    MAX_BATCH_CHARACTERS,
    MAX_TEXT_CHARACTERS,
    MAX_TEXTS,
    OllamaEmbedder,
    OpenAIEmbedder,
)
from cofio.providers.http import MAX_PAUSE, RetryPolicy, is_loopback

from .wire import Reply, Wire, pseudo_vectors, refusal

KEY = "secret-0123456789abcdef"

Make = Callable[..., OpenAIEmbedder | OllamaEmbedder]


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def retry(pauses: list[float]) -> RetryPolicy:
    """Record pauses instead of sleeping."""
    return RetryPolicy(timeout=5.0, sleep=pauses.append)


@pytest.fixture
def openai(wire: Wire, retry: RetryPolicy) -> OpenAIEmbedder:
    return OpenAIEmbedder("text-embedding-3-small", url=f"{wire.url}/v1", key=KEY, retry=retry)


@pytest.fixture
def ollama(wire: Wire, retry: RetryPolicy) -> OllamaEmbedder:
    return OllamaEmbedder("nomic-embed-text", url=wire.url, retry=retry)


@pytest.fixture(params=["openai", "ollama"])
def any_embedder(request: pytest.FixtureRequest) -> OpenAIEmbedder | OllamaEmbedder:
    embedder: OpenAIEmbedder | OllamaEmbedder = request.getfixturevalue(request.param)
    return embedder


def embed_error(embedder: OpenAIEmbedder | OllamaEmbedder) -> CofioError:
    with pytest.raises(CofioError) as caught:
        embedder.embed(["a text"], "document")
    assert KEY not in str(caught.value)
    assert caught.value.hint
    return caught.value


# ── Wire formats ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_openai_request_format(wire: Wire, openai: OpenAIEmbedder) -> None:
    openai.embed(["one", "two"], "document")
    (request,) = wire.seen
    assert request.path == "/v1/embeddings"
    assert request.headers["Authorization"] == f"Bearer {KEY}"
    assert request.body == {"input": ["one", "two"], "model": "text-embedding-3-small", "encoding_format": "float"}


def test_ollama_request_format(wire: Wire, ollama: OllamaEmbedder) -> None:
    ollama.embed(["one", "two"], "document")
    (request,) = wire.seen
    assert request.path == "/api/embed"
    assert "Authorization" not in request.headers
    assert request.body == {"model": "nomic-embed-text", "input": ["one", "two"], "truncate": True}


def test_dimension_is_sent_only_if_configured(wire: Wire, retry: RetryPolicy) -> None:
    OpenAIEmbedder("m", url=wire.url, dimension=48, retry=retry).embed(["x"], "document")
    assert wire.seen[0].body["dimensions"] == 48


def test_no_authorization_header_without_a_key(wire: Wire, retry: RetryPolicy) -> None:
    OpenAIEmbedder("m", url=wire.url, retry=retry).embed(["x"], "document")
    assert "Authorization" not in wire.seen[0].headers


def test_vectors_are_ordered_by_index_and_normalized(openai: OpenAIEmbedder) -> None:
    rows = openai.embed(["one", "two", "three"], "document")
    expected = np.array(pseudo_vectors(["one", "two", "three"]))
    np.testing.assert_allclose(rows, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-6)


def test_long_list_is_split_into_batches(wire: Wire, any_embedder: OpenAIEmbedder) -> None:
    texts = [f"text {number}" for number in range(MAX_TEXTS + 3)]
    assert any_embedder.embed(texts, "document").shape == (MAX_TEXTS + 3, 48)
    assert [len(request.texts) for request in wire.seen] == [MAX_TEXTS, 3]


def test_request_respects_the_providers_limits(wire: Wire, any_embedder: OpenAIEmbedder) -> None:
    any_embedder.embed(["y" * 65_536] * 60, "document")
    assert len(wire.seen) == 2
    for request in wire.seen:
        assert sum(map(len, request.texts)) <= MAX_BATCH_CHARACTERS
        assert {len(text) for text in request.texts} == {MAX_TEXT_CHARACTERS}


def test_repeated_query_is_not_requested_again(wire: Wire, any_embedder: OpenAIEmbedder) -> None:
    first = any_embedder.embed(["same", "same", "other"], "query")
    second = any_embedder.embed(["other", "same"], "query")
    assert [request.texts for request in wire.seen] == [["same", "other"]]
    assert np.array_equal(first[[2, 0]], second)


def test_documents_are_requested_each_time(wire: Wire, any_embedder: OpenAIEmbedder) -> None:
    any_embedder.embed(["same"], "document")
    any_embedder.embed(["same"], "document")
    assert len(wire.seen) == 2


# ── Dimension, floor, signature ───────────────────────────────────────────────────────────────────────────────────────


def test_dimension_and_floor_need_one_request(wire: Wire, any_embedder: OpenAIEmbedder) -> None:
    assert any_embedder.dimension == 48
    assert 0 <= any_embedder.floor < 0.3
    assert len(wire.seen) == 1


def test_first_vectors_determine_the_dimension(wire: Wire, any_embedder: OpenAIEmbedder) -> None:
    any_embedder.embed(["x"], "document")
    assert any_embedder.dimension == 48
    assert len(wire.seen) == 1


def test_configured_dimension_and_floor_need_no_request(wire: Wire, retry: RetryPolicy) -> None:
    embedder = OllamaEmbedder("m", url=wire.url, dimension=768, floor=0.4, retry=retry)
    assert (embedder.dimension, embedder.floor) == (768, 0.4)
    assert wire.seen == []


def test_wrong_configured_dimension_is_misconfigured(wire: Wire, retry: RetryPolicy) -> None:
    error = embed_error(OllamaEmbedder("m", url=wire.url, dimension=768, retry=retry))
    assert isinstance(error, Misconfigured)
    assert "48" in error.message
    assert "768" in error.message


def test_changed_dimension_is_misconfigured(wire: Wire, any_embedder: OpenAIEmbedder) -> None:
    any_embedder.embed(["x"], "document")
    wire.embed = lambda texts: pseudo_vectors(texts, 50)
    assert isinstance(embed_error(any_embedder), Misconfigured)


@pytest.mark.parametrize("dimension", [256, 1_536, 3_072])
def test_short_and_long_vectors_are_accepted(wire: Wire, any_embedder: OpenAIEmbedder, dimension: int) -> None:
    wire.embed = lambda texts: pseudo_vectors(texts, dimension)
    assert any_embedder.embed(["x", "y"], "document").shape == (2, dimension)


def test_signature_does_not_depend_on_the_url(wire: Wire, openai: OpenAIEmbedder, retry: RetryPolicy) -> None:
    other_url = OpenAIEmbedder("text-embedding-3-small", url=f"{wire.url}/other", retry=retry)
    assert openai.signature == other_url.signature == "openai:text-embedding-3-small:48:q=:d="


def test_signature_of_ollama_includes_the_tag(wire: Wire) -> None:
    embedder = OllamaEmbedder("nomic-embed-text:v1.5", url=wire.url, document_prefix="search_document: ")
    assert embedder.signature == "ollama:nomic-embed-text:v1.5:48:q=:d=search_document: "


# ── Transient failures ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_transient_failure_is_retried(
    wire: Wire, any_embedder: OpenAIEmbedder, pauses: list[float], status: int
) -> None:
    wire.say(refusal(status), refusal(status))
    assert any_embedder.embed(["x"], "document").shape == (1, 48)
    assert len(wire.seen) == 3
    assert 0.125 <= pauses[0] <= 0.25 <= pauses[1] * 1.000001 <= 0.500001


@pytest.mark.parametrize(("header", "pause"), [("2", 2.0), ("0", 0.0), ("3600", MAX_PAUSE)])
def test_retry_after_is_respected_within_limits(
    wire: Wire, any_embedder: OpenAIEmbedder, pauses: list[float], header: str, pause: float
) -> None:
    wire.say(refusal(429, Retry_After=header))
    any_embedder.embed(["x"], "document")
    assert pauses == [pause]


def test_retry_after_may_be_a_date(wire: Wire, any_embedder: OpenAIEmbedder, pauses: list[float]) -> None:
    wire.say(refusal(503, Retry_After=formatdate(time.time() + 5, usegmt=True)))
    any_embedder.embed(["x"], "document")
    assert 3 < pauses[0] <= 5


def test_invalid_retry_after_is_ignored(wire: Wire, any_embedder: OpenAIEmbedder, pauses: list[float]) -> None:
    wire.say(refusal(503, Retry_After="soon"))
    any_embedder.embed(["x"], "document")
    assert 0.125 <= pauses[0] <= 0.25


def test_persistent_failure_is_unavailable_with_its_status(
    wire: Wire, any_embedder: OpenAIEmbedder, pauses: list[float]
) -> None:
    wire.say(*[refusal(503, "overloaded")] * 9)
    error = embed_error(any_embedder)
    assert isinstance(error, Unavailable)
    assert "503" in error.message
    assert "overloaded" in error.message
    assert (len(wire.seen), len(pauses)) == (4, 3)


def test_exhausted_quota_is_not_retried(wire: Wire, openai: OpenAIEmbedder) -> None:
    wire.say(refusal(429, "You exceeded your current quota", code="insufficient_quota"))
    assert "quota" in embed_error(openai).message
    assert len(wire.seen) == 1


def test_broken_connection_is_retried(wire: Wire, any_embedder: OpenAIEmbedder, pauses: list[float]) -> None:
    wire.say(Reply(body=b'{"half', promised=500))
    assert any_embedder.embed(["x"], "document").shape == (1, 48)
    assert len(pauses) == 1


@pytest.mark.parametrize(
    ("make", "remedy"), [(OpenAIEmbedder, "`local`"), (OllamaEmbedder, "`ollama serve`")], ids=["openai", "ollama"]
)
def test_unreachable_server_is_unavailable_with_a_hint(make: Make, remedy: str, retry: RetryPolicy) -> None:
    with Wire() as server:
        url = server.url
    error = embed_error(make("m", url=url, retry=retry))
    assert isinstance(error, Unavailable)
    assert remedy in error.hint


def test_timeout_is_unavailable_without_retry(wire: Wire, retry: RetryPolicy, pauses: list[float]) -> None:
    wire.say(Reply(after=0.5))
    error = embed_error(OllamaEmbedder("m", url=wire.url, retry=replace(retry, timeout=0.05)))
    assert isinstance(error, Unavailable)
    assert "0.05 seconds" in error.message
    assert pauses == []


# ── Permanent failures ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("status", [401, 403])
def test_rejected_key_is_misconfigured_and_not_repeated(wire: Wire, openai: OpenAIEmbedder, status: int) -> None:
    wire.say(refusal(status, f"Incorrect API key provided: {KEY}. Also sk-proj-****cdef. Mail us."))
    error = embed_error(openai)
    assert isinstance(error, Misconfigured)
    assert str(status) in error.message
    assert "cdef" not in error.message
    assert "Mail us" in error.message
    assert "Set COFIO_EMBEDDER_KEY" in error.hint
    assert len(wire.seen) == 1


def test_unknown_openai_model_is_misconfigured(wire: Wire, openai: OpenAIEmbedder) -> None:
    wire.say(refusal(404, "The model does not exist"))
    error = embed_error(openai)
    assert isinstance(error, Misconfigured)
    assert "text-embedding-3-small" in error.hint


def test_unknown_ollama_model_is_misconfigured(wire: Wire, ollama: OllamaEmbedder) -> None:
    wire.say(Reply(404, {"error": 'model "nomic-embed-text" not found, try pulling it first'}))
    error = embed_error(ollama)
    assert isinstance(error, Misconfigured)
    assert "try pulling it first" in error.message
    assert "ollama pull nomic-embed-text" in error.hint


def test_other_client_errors_are_unavailable_with_the_providers_message(
    wire: Wire, any_embedder: OpenAIEmbedder
) -> None:
    wire.say(Reply(400, b"<html>" + b"long " * 1_000))
    error = embed_error(any_embedder)
    assert isinstance(error, Unavailable)
    assert "400" in error.message
    assert len(error.message) < 400


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirect_is_not_followed(wire: Wire, openai: OpenAIEmbedder, status: int) -> None:
    with Wire() as other_server:
        wire.say(Reply(status, b"", {"Location": f"{other_server.url}/v1/embeddings"}))
        assert str(status) in embed_error(openai).message
        assert other_server.seen == []


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"null", b"3", b"{}", b'{"data": 1}', b'{"data": [1]}'])
def test_malformed_reply_is_unavailable(wire: Wire, any_embedder: OpenAIEmbedder, body: bytes) -> None:
    wire.say(Reply(body=body))
    assert isinstance(embed_error(any_embedder), Unavailable)


BAD_ROWS: dict[str, Any] = {
    "none": [],
    "two for one": [[1.0, 2.0], [1.0, 2.0]],
    "empty": [[]],
    "null": [None],
    "text": [["a", "b"]],
    "nested": [[[1.0]]],
    "zeros": [[0.0, 0.0]],
    "not finite": [[1.0, float("nan")]],
    "base64": ["AACAPw=="],
}


@pytest.mark.parametrize("rows", BAD_ROWS.values(), ids=BAD_ROWS.keys())
def test_invalid_rows_are_unavailable(wire: Wire, any_embedder: OpenAIEmbedder, rows: list[Any]) -> None:
    data = [{"index": index, "embedding": row} for index, row in enumerate(rows)]
    wire.say(Reply(body={"data": data, "embeddings": rows}))
    assert isinstance(embed_error(any_embedder), Unavailable)


def test_rows_of_unequal_length_are_unavailable(wire: Wire, any_embedder: OpenAIEmbedder) -> None:
    wire.embed = lambda texts: [[1.0] * (3 + number) for number, _ in enumerate(texts)]
    with pytest.raises(Unavailable):
        any_embedder.embed(["x", "y"], "document")


def test_duplicate_index_is_unavailable(wire: Wire, openai: OpenAIEmbedder) -> None:
    wire.shape = lambda reply: {"data": [{**entry, "index": 0} for entry in reply["data"]]}
    with pytest.raises(Unavailable):
        openai.embed(["x", "y"], "document")


# ── Settings ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_openai_without_a_key_suggests_the_local_embedder() -> None:
    with pytest.raises(Misconfigured) as caught:
        OpenAIEmbedder("text-embedding-3-small")
    assert "`local`" in caught.value.hint


@pytest.mark.parametrize(
    "url", ["", "localhost:11434", "ftp://x", "http://", "http://[::1", "http://x:port", "http://é"]
)
@pytest.mark.parametrize("make", [OpenAIEmbedder, OllamaEmbedder])
def test_invalid_url_is_misconfigured(make: Make, url: str) -> None:
    with pytest.raises(Misconfigured):
        make("m", url=url)


def test_url_with_a_password_is_rejected_without_repeating_it() -> None:
    with pytest.raises(Misconfigured) as caught:
        OpenAIEmbedder("m", url="https://me:hunter2@example.com/v1")
    assert "hunter2" not in str(caught.value)


def test_key_with_a_line_break_is_rejected_without_repeating_it() -> None:
    with pytest.raises(Misconfigured) as caught:
        OpenAIEmbedder("m", url="http://127.0.0.1:1", key="sk-one\nsk-two")
    assert "sk-" not in str(caught.value)


def test_proxy_of_the_environment_is_not_used_for_loopback(
    wire: Wire, retry: RetryPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Wire() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", "")
        OllamaEmbedder("m", url=wire.url, retry=retry).embed(["x"], "document")
        assert (len(wire.seen), len(proxy.seen)) == (1, 0)


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("10.0.0.1", False), ("x.org", False)],
)
def test_is_loopback_recognizes_local_addresses(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


# ── Defaults ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_openai_default_url() -> None:
    embedder = OpenAIEmbedder("text-embedding-3-small", key=KEY)
    assert f"{embedder._provider.url}/embeddings" == "https://api.openai.com/v1/embeddings"


def test_openai_small_model_has_1536_dimensions(wire: Wire, openai: OpenAIEmbedder) -> None:
    wire.embed = lambda texts: [[0.5] * 1_536 for _ in texts]
    assert len(openai.embed(["test"], "document")[0]) == openai.dimension == 1_536


def test_several_texts_are_one_request(wire: Wire, openai: OpenAIEmbedder) -> None:
    assert len(openai.embed(["a", "b"], "document")) == 2
    assert len(wire.seen) == 1


def test_error_includes_the_status(wire: Wire, openai: OpenAIEmbedder) -> None:
    wire.say(*[refusal(429, "Too Many Requests")] * 9)
    assert "429" in embed_error(openai).message
