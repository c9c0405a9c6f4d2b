"""The wire formats, and what becomes of every way in which a provider can fail."""

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

from .wire import Reply, Wire, refusal, scattered

KEY = "secret-0123456789abcdef"

Make = Callable[..., OpenAIEmbedder | OllamaEmbedder]


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def retry(pauses: list[float]) -> RetryPolicy:
    """Notes its pauses in place of making them."""
    return RetryPolicy(timeout=5.0, sleep=pauses.append)


@pytest.fixture
def openai(wire: Wire, retry: RetryPolicy) -> OpenAIEmbedder:
    return OpenAIEmbedder("text-embedding-3-small", url=f"{wire.url}/v1", key=KEY, retry=retry)


@pytest.fixture
def ollama(wire: Wire, retry: RetryPolicy) -> OllamaEmbedder:
    return OllamaEmbedder("nomic-embed-text", url=wire.url, retry=retry)


@pytest.fixture(params=["openai", "ollama"])
def either(request: pytest.FixtureRequest) -> OpenAIEmbedder | OllamaEmbedder:
    found: OpenAIEmbedder | OllamaEmbedder = request.getfixturevalue(request.param)
    return found


def failure(embedder: OpenAIEmbedder | OllamaEmbedder) -> CofioError:
    with pytest.raises(CofioError) as caught:
        embedder.embed(["a text"], "document")
    assert KEY not in str(caught.value)
    assert caught.value.hint
    return caught.value


# ── the formats ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_openai_is_asked_in_its_own_words(wire: Wire, openai: OpenAIEmbedder) -> None:
    openai.embed(["one", "two"], "document")
    (seen,) = wire.seen
    assert seen.path == "/v1/embeddings"
    assert seen.headers["Authorization"] == f"Bearer {KEY}"
    assert seen.body == {"input": ["one", "two"], "model": "text-embedding-3-small", "encoding_format": "float"}


def test_ollama_is_asked_in_its_own_words(wire: Wire, ollama: OllamaEmbedder) -> None:
    ollama.embed(["one", "two"], "document")
    (seen,) = wire.seen
    assert seen.path == "/api/embed"
    assert "Authorization" not in seen.headers
    assert seen.body == {"model": "nomic-embed-text", "input": ["one", "two"], "truncate": True}


def test_a_dimension_is_sent_only_when_it_is_given(wire: Wire, retry: RetryPolicy) -> None:
    OpenAIEmbedder("m", url=wire.url, dimension=48, retry=retry).embed(["x"], "document")
    assert wire.seen[0].body["dimensions"] == 48


def test_a_server_without_a_key_gets_none(wire: Wire, retry: RetryPolicy) -> None:
    OpenAIEmbedder("m", url=wire.url, retry=retry).embed(["x"], "document")
    assert "Authorization" not in wire.seen[0].headers


def test_vectors_are_taken_by_their_index_and_brought_to_unit_length(openai: OpenAIEmbedder) -> None:
    rows = openai.embed(["one", "two", "three"], "document")
    expected = np.array(scattered(["one", "two", "three"]))
    np.testing.assert_allclose(rows, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-6)


def test_a_batch_is_one_call_and_a_long_list_is_several(wire: Wire, either: OpenAIEmbedder) -> None:
    texts = [f"text {number}" for number in range(MAX_TEXTS + 3)]
    assert either.embed(texts, "document").shape == (MAX_TEXTS + 3, 48)
    assert [len(seen.texts) for seen in wire.seen] == [MAX_TEXTS, 3]


def test_a_call_never_carries_more_than_a_provider_takes(wire: Wire, either: OpenAIEmbedder) -> None:
    either.embed(["y" * 65_536] * 60, "document")
    assert len(wire.seen) == 2
    for seen in wire.seen:
        assert sum(map(len, seen.texts)) <= MAX_BATCH_CHARACTERS
        assert {len(text) for text in seen.texts} == {MAX_TEXT_CHARACTERS}


def test_a_query_asked_again_is_not_sent_again(wire: Wire, either: OpenAIEmbedder) -> None:
    first = either.embed(["same", "same", "other"], "query")
    again = either.embed(["other", "same"], "query")
    assert [seen.texts for seen in wire.seen] == [["same", "other"]]
    assert np.array_equal(first[[2, 0]], again)


def test_a_document_is_sent_each_time(wire: Wire, either: OpenAIEmbedder) -> None:
    either.embed(["same"], "document")
    either.embed(["same"], "document")
    assert len(wire.seen) == 2


# ── dimension, floor, signature ───────────────────────────────────────────────────────────────────────────────────────


def test_the_dimension_and_the_floor_are_found_with_one_question(wire: Wire, either: OpenAIEmbedder) -> None:
    assert either.dimension == 48
    assert 0 <= either.floor < 0.3
    assert len(wire.seen) == 1


def test_the_first_vectors_settle_the_dimension_too(wire: Wire, either: OpenAIEmbedder) -> None:
    either.embed(["x"], "document")
    assert either.dimension == 48
    assert len(wire.seen) == 1


def test_a_given_dimension_and_floor_are_taken_without_asking(wire: Wire, retry: RetryPolicy) -> None:
    embedder = OllamaEmbedder("m", url=wire.url, dimension=768, floor=0.4, retry=retry)
    assert (embedder.dimension, embedder.floor) == (768, 0.4)
    assert wire.seen == []


def test_a_given_dimension_that_the_model_does_not_have_is_misconfigured(wire: Wire, retry: RetryPolicy) -> None:
    error = failure(OllamaEmbedder("m", url=wire.url, dimension=768, retry=retry))
    assert isinstance(error, Misconfigured)
    assert "48" in error.message
    assert "768" in error.message


def test_a_dimension_that_changes_on_the_way_is_misconfigured(wire: Wire, either: OpenAIEmbedder) -> None:
    either.embed(["x"], "document")
    wire.embed = lambda texts: scattered(texts, 50)
    assert isinstance(failure(either), Misconfigured)


@pytest.mark.parametrize("dimension", [256, 1_536, 3_072])
def test_short_and_long_vectors_work(wire: Wire, either: OpenAIEmbedder, dimension: int) -> None:
    wire.embed = lambda texts: scattered(texts, dimension)
    assert either.embed(["x", "y"], "document").shape == (2, dimension)


def test_the_signature_does_not_depend_on_the_address(wire: Wire, openai: OpenAIEmbedder, retry: RetryPolicy) -> None:
    elsewhere = OpenAIEmbedder("text-embedding-3-small", url=f"{wire.url}/other", retry=retry)
    assert openai.signature == elsewhere.signature == "openai:text-embedding-3-small:48:q=:d="


def test_the_signature_of_ollama_names_the_tag(wire: Wire) -> None:
    embedder = OllamaEmbedder("nomic-embed-text:v1.5", url=wire.url, document_prefix="search_document: ")
    assert embedder.signature == "ollama:nomic-embed-text:v1.5:48:q=:d=search_document: "


# ── failures that pass ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_failure_that_passes_is_waited_out(
    wire: Wire, either: OpenAIEmbedder, pauses: list[float], status: int
) -> None:
    wire.say(refusal(status), refusal(status))
    assert either.embed(["x"], "document").shape == (1, 48)
    assert len(wire.seen) == 3
    assert 0.125 <= pauses[0] <= 0.25 <= pauses[1] * 1.000001 <= 0.500001


@pytest.mark.parametrize(("asked", "paused"), [("2", 2.0), ("0", 0.0), ("3600", MAX_PAUSE)])
def test_the_pause_that_the_provider_asks_for_is_kept_within_bounds(
    wire: Wire, either: OpenAIEmbedder, pauses: list[float], asked: str, paused: float
) -> None:
    wire.say(refusal(429, Retry_After=asked))
    either.embed(["x"], "document")
    assert pauses == [paused]


def test_a_pause_may_be_asked_for_as_a_date(wire: Wire, either: OpenAIEmbedder, pauses: list[float]) -> None:
    wire.say(refusal(503, Retry_After=formatdate(time.time() + 5, usegmt=True)))
    either.embed(["x"], "document")
    assert 3 < pauses[0] <= 5


def test_a_senseless_pause_is_passed_over(wire: Wire, either: OpenAIEmbedder, pauses: list[float]) -> None:
    wire.say(refusal(503, Retry_After="soon"))
    either.embed(["x"], "document")
    assert 0.125 <= pauses[0] <= 0.25


def test_a_failure_that_stays_is_unavailable_with_its_status(
    wire: Wire, either: OpenAIEmbedder, pauses: list[float]
) -> None:
    wire.say(*[refusal(503, "overloaded")] * 9)
    error = failure(either)
    assert isinstance(error, Unavailable)
    assert "503" in error.message
    assert "overloaded" in error.message
    assert (len(wire.seen), len(pauses)) == (4, 3)


def test_an_empty_account_is_not_waited_for(wire: Wire, openai: OpenAIEmbedder) -> None:
    wire.say(refusal(429, "You exceeded your current quota", code="insufficient_quota"))
    assert "quota" in failure(openai).message
    assert len(wire.seen) == 1


def test_a_connection_that_breaks_is_tried_again(wire: Wire, either: OpenAIEmbedder, pauses: list[float]) -> None:
    wire.say(Reply(body=b'{"half', promised=500))
    assert either.embed(["x"], "document").shape == (1, 48)
    assert len(pauses) == 1


@pytest.mark.parametrize(
    ("make", "remedy"), [(OpenAIEmbedder, "`local`"), (OllamaEmbedder, "`ollama serve`")], ids=["openai", "ollama"]
)
def test_a_server_that_is_not_there_is_unavailable(make: Make, remedy: str, retry: RetryPolicy) -> None:
    with Wire() as gone:
        url = gone.url
    error = failure(make("m", url=url, retry=retry))
    assert isinstance(error, Unavailable)
    assert remedy in error.hint


def test_a_server_that_is_too_slow_is_unavailable_at_once(wire: Wire, retry: RetryPolicy, pauses: list[float]) -> None:
    wire.say(Reply(after=0.5))
    error = failure(OllamaEmbedder("m", url=wire.url, retry=replace(retry, timeout=0.05)))
    assert isinstance(error, Unavailable)
    assert "0.05 seconds" in error.message
    assert pauses == []


# ── failures that stay ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_says_what_to_set_and_is_not_repeated(wire: Wire, openai: OpenAIEmbedder, status: int) -> None:
    wire.say(refusal(status, f"Incorrect API key provided: {KEY}. Also sk-proj-****cdef. Mail us."))
    error = failure(openai)
    assert isinstance(error, Misconfigured)
    assert str(status) in error.message
    assert "cdef" not in error.message
    assert "Mail us" in error.message
    assert "embedder's key" in error.hint
    assert len(wire.seen) == 1


def test_an_unknown_model_is_named_with_what_to_do_at_openai(wire: Wire, openai: OpenAIEmbedder) -> None:
    wire.say(refusal(404, "The model does not exist"))
    error = failure(openai)
    assert isinstance(error, Misconfigured)
    assert "text-embedding-3-small" in error.hint


def test_an_unknown_model_is_named_with_what_to_do_at_ollama(wire: Wire, ollama: OllamaEmbedder) -> None:
    wire.say(Reply(404, {"error": 'model "nomic-embed-text" not found, try pulling it first'}))
    error = failure(ollama)
    assert isinstance(error, Misconfigured)
    assert "try pulling it first" in error.message
    assert "ollama pull nomic-embed-text" in error.hint


def test_another_refusal_is_unavailable_with_the_providers_words(wire: Wire, either: OpenAIEmbedder) -> None:
    wire.say(Reply(400, b"<html>" + b"long " * 1_000))
    error = failure(either)
    assert isinstance(error, Unavailable)
    assert "400" in error.message
    assert len(error.message) < 400


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_with_the_key(wire: Wire, openai: OpenAIEmbedder, status: int) -> None:
    with Wire() as thief:
        wire.say(Reply(status, b"", {"Location": f"{thief.url}/v1/embeddings"}))
        assert str(status) in failure(openai).message
        assert thief.seen == []


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"null", b"3", b"{}", b'{"data": 1}', b'{"data": [1]}'])
def test_a_reply_that_makes_no_sense_is_unavailable(wire: Wire, either: OpenAIEmbedder, body: bytes) -> None:
    wire.say(Reply(body=body))
    assert isinstance(failure(either), Unavailable)


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
def test_rows_that_are_not_vectors_are_unavailable(wire: Wire, either: OpenAIEmbedder, rows: list[Any]) -> None:
    data = [{"index": place, "embedding": row} for place, row in enumerate(rows)]
    wire.say(Reply(body={"data": data, "embeddings": rows}))
    assert isinstance(failure(either), Unavailable)


def test_rows_of_unequal_length_are_unavailable(wire: Wire, either: OpenAIEmbedder) -> None:
    wire.embed = lambda texts: [[1.0] * (3 + place) for place, _ in enumerate(texts)]
    with pytest.raises(Unavailable):
        either.embed(["x", "y"], "document")


def test_an_index_that_comes_twice_is_unavailable(wire: Wire, openai: OpenAIEmbedder) -> None:
    wire.shape = lambda reply: {"data": [{**entry, "index": 0} for entry in reply["data"]]}
    with pytest.raises(Unavailable):
        openai.embed(["x", "y"], "document")


# ── settings ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_openai_without_a_key_says_how_to_run_without() -> None:
    with pytest.raises(Misconfigured) as caught:
        OpenAIEmbedder("text-embedding-3-small")
    assert "`local`" in caught.value.hint


@pytest.mark.parametrize(
    "url", ["", "localhost:11434", "ftp://x", "http://", "http://[::1", "http://x:port", "http://é"]
)
@pytest.mark.parametrize("make", [OpenAIEmbedder, OllamaEmbedder])
def test_an_address_that_is_none_is_misconfigured(make: Make, url: str) -> None:
    with pytest.raises(Misconfigured):
        make("m", url=url)


def test_an_address_with_a_password_is_refused_without_repeating_it() -> None:
    with pytest.raises(Misconfigured) as caught:
        OpenAIEmbedder("m", url="https://me:hunter2@example.com/v1")
    assert "hunter2" not in str(caught.value)


def test_a_key_with_a_line_break_is_refused_without_repeating_it() -> None:
    with pytest.raises(Misconfigured) as caught:
        OpenAIEmbedder("m", url="http://127.0.0.1:1", key="sk-one\nsk-two")
    assert "sk-" not in str(caught.value)


def test_a_proxy_of_the_environment_is_not_used_for_this_machine(
    wire: Wire, retry: RetryPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Wire() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", "")
        OllamaEmbedder("m", url=wire.url, retry=retry).embed(["x"], "document")
        assert (len(wire.seen), len(proxy.seen)) == (1, 0)


@pytest.mark.parametrize(
    ("host", "here"), [("127.0.0.1", True), ("localhost", True), ("::1", True), ("10.0.0.1", False), ("x.org", False)]
)
def test_only_this_machine_is_loopback(host: str, here: bool) -> None:
    assert is_loopback(host) is here


# ── as it was asked for first ─────────────────────────────────────────────────────────────────────────────────────────


def test_openai_is_called_at_its_own_address_unless_another_is_given() -> None:
    embedder = OpenAIEmbedder("text-embedding-3-small", key=KEY)
    assert f"{embedder._provider.url}/embeddings" == "https://api.openai.com/v1/embeddings"


def test_a_text_has_1536_dimensions_with_the_small_model(wire: Wire, openai: OpenAIEmbedder) -> None:
    wire.embed = lambda texts: [[0.5] * 1_536 for _ in texts]
    assert len(openai.embed(["test"], "document")[0]) == openai.dimension == 1_536


def test_several_texts_are_one_call(wire: Wire, openai: OpenAIEmbedder) -> None:
    assert len(openai.embed(["a", "b"], "document")) == 2
    assert len(wire.seen) == 1


def test_the_status_of_an_error_is_told(wire: Wire, openai: OpenAIEmbedder) -> None:
    wire.say(*[refusal(429, "Too Many Requests")] * 9)
    assert "429" in failure(openai).message
