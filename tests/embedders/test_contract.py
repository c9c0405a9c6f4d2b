"""Contract suite for every embedder. Remote ones talk to a loopback server that uses the local model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from cofio.ports import Embedder
from cofio.providers.embedders.local import LocalEmbedder
from cofio.providers.embedders.remote import OllamaEmbedder, OpenAIEmbedder

from .wire import Wire

Make = Callable[..., Embedder]

TEXTS = [
    "The user prefers tabs over spaces.",
    "Deployments happen on Fridays before four.",
    "Her cat is called Mimi.",
    "The staging database runs PostgreSQL 17.",
    "short",
    "A considerably longer sentence, to make sure that neighbours of another length change nothing at all about it.",
    "Repeat.",
    "Repeat.",
    "Ninth, so that the list is long enough to be spread.",
]


@pytest.fixture(params=["local", "openai", "ollama"])
def make(request: pytest.FixtureRequest, local_embedder: LocalEmbedder, shared_home: Path) -> Iterator[Make]:
    with Wire(lambda texts: (3 * local_embedder.embed(texts, "document")).tolist()) as wire:
        yield {
            "local": lambda **options: LocalEmbedder(shared_home, download=False, **options),
            "openai": lambda **options: OpenAIEmbedder("bge-small", url=f"{wire.url}/v1", **options),
            "ollama": lambda **options: OllamaEmbedder("bge-small", url=wire.url, **options),
        }[request.param]


@pytest.fixture
def embedder(make: Make) -> Embedder:
    return make()


@pytest.mark.parametrize("kind", ["query", "document"])
def test_embed_returns_one_row_per_text_in_order(embedder: Embedder, kind: str) -> None:
    together = embedder.embed(TEXTS, kind)  # type: ignore[arg-type]
    assert together.shape == (len(TEXTS), embedder.dimension)
    for text, row in zip(TEXTS, together, strict=True):
        np.testing.assert_allclose(embedder.embed([text], "document")[0], row, atol=1e-6)


def test_rows_are_float32_of_unit_length(embedder: Embedder) -> None:
    rows = embedder.embed(TEXTS, "document")
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("kind", ["query", "document"])
def test_no_texts_give_an_empty_matrix(embedder: Embedder, kind: str) -> None:
    assert embedder.embed([], kind).shape == (0, 384)  # type: ignore[arg-type]
    assert embedder.embed([], kind).dtype == np.float32  # type: ignore[arg-type]


def test_vector_does_not_depend_on_other_texts(embedder: Embedder) -> None:
    alone = embedder.embed([TEXTS[0]], "document")
    batched = embedder.embed([TEXTS[5] * 20, TEXTS[0], "x"], "document")
    assert np.array_equal(alone[0], batched[1])


def test_paraphrase_is_nearer_than_an_unrelated_text(embedder: Embedder) -> None:
    statement, paraphrase, unrelated = embedder.embed(
        ["I always indent my code with tabs.", TEXTS[0], "The train to Basel was late."], "document"
    )
    assert statement @ paraphrase > statement @ unrelated + 0.1
    assert statement @ paraphrase > embedder.floor


def test_question_finds_its_answer(embedder: Embedder) -> None:
    question = embedder.embed(["what is the pet's name?"], "query")[0]
    assert int(np.argmax(embedder.embed(TEXTS, "document") @ question)) == 2


def test_floor_is_the_cosine_of_unrelated_texts(embedder: Embedder) -> None:
    assert 0.3 < embedder.floor < 0.6
    assert embedder.floor == embedder.floor


def test_signature_names_the_model_and_the_dimension(embedder: Embedder) -> None:
    assert "bge-small" in embedder.signature
    assert ":384:" in embedder.signature
    assert embedder.signature == embedder.signature


def test_prefix_changes_the_signature(make: Make) -> None:
    plain, with_query_prefix, with_document_prefix = (
        make(),
        make(query_prefix="query: "),
        make(document_prefix="passage: "),
    )
    assert len({plain.signature, with_query_prefix.signature, with_document_prefix.signature}) == 3


def test_prefix_applies_to_texts_of_its_kind_only(make: Make) -> None:
    prefixed, plain = make(query_prefix="query: "), make()
    vectors = prefixed.embed(["tabs"], "query")
    np.testing.assert_allclose(vectors, plain.embed(["query: tabs"], "document"), atol=1e-6)
    np.testing.assert_allclose(prefixed.embed(["tabs"], "document"), plain.embed(["tabs"], "document"), atol=1e-6)


def test_changing_returned_rows_does_not_affect_later_calls(embedder: Embedder) -> None:
    first = embedder.embed(["request"], "query")
    expected = first.copy()
    first[:] = 0
    assert np.array_equal(embedder.embed(["request"], "query"), expected)


@pytest.mark.parametrize("text", ["", " ", "\n\t", "\x00\x1b", "🎉" * 50, "中" * 3_000, "x" * 65_536, "word " * 13_000])
def test_any_text_has_a_vector(embedder: Embedder, text: str) -> None:
    rows = embedder.embed([text], "document")
    assert np.isfinite(rows).all()
    np.testing.assert_allclose(np.linalg.norm(rows), 1, atol=1e-6)


def test_embedder_is_thread_safe(make: Make, embedder: Embedder) -> None:
    expected = make().embed(TEXTS, "document")
    kinds = ["query", "document"] * 4
    with ThreadPoolExecutor(8) as pool:
        for rows in pool.map(lambda kind: embedder.embed(TEXTS, kind), kinds):  # type: ignore[arg-type]
            np.testing.assert_allclose(rows, expected, atol=1e-6)
