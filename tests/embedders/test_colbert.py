"""Late-interaction models: the local model and the word-overlap model for tests meet the same contract."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cofio.errors import Misconfigured
from cofio.ports import LateInteractionModel
from cofio.providers import embedders
from cofio.providers.embedders import model_files
from cofio.providers.embedders.colbert import LONGEST, WIDTH, ColbertModel
from cofio.providers.embedders.wordpiece_tokenizer import WordPiece
from cofio.testing import WordOverlapModel

QUESTION = "Where does Ann live now?"
TEXTS = [
    "Ann: Ann moved to Cardiff in March",
    "Bob: the build takes nine minutes on the old runner",
    "Déjà vu 中文 🎉 [SEP] /usr/local/bin",
    "word " * 2_000,
    "…",
]


@pytest.fixture(scope="module")
def local() -> ColbertModel:
    folder = model_files.find_in_carrier(inside=model_files.READER.inside)
    assert folder is not None, "make setup installs the carrier"
    return ColbertModel(folder)


@pytest.fixture(params=["local", "words"])
def model(request: pytest.FixtureRequest, local: ColbertModel) -> LateInteractionModel:
    return local if request.param == "local" else WordOverlapModel()


def test_relevant_text_scores_higher_than_an_irrelevant_one(model: LateInteractionModel) -> None:
    (question,) = model.read([QUESTION], "query")
    relevant, irrelevant = model.likeness(question, model.read(TEXTS[:2], "document"))
    assert model.floor < relevant
    assert relevant > irrelevant


def test_token_embeddings_do_not_depend_on_the_batch(model: LateInteractionModel) -> None:
    together = model.read(TEXTS, "document")
    assert together == [model.read([text], "document")[0] for text in TEXTS]
    assert together == model.read(TEXTS * 3, "document")[: len(TEXTS)]  # across several threads


def test_score_is_at_most_one_and_independent_of_other_texts(model: LateInteractionModel) -> None:
    (question,) = model.read([QUESTION], "query")
    embeddings = [embedding for embedding in model.read(TEXTS, "document") if embedding]
    scores = [model.likeness(question, [embedding])[0] for embedding in embeddings]
    assert model.likeness(question, embeddings) == pytest.approx(scores, abs=1e-6)
    assert all(score <= 1.01 for score in scores)
    assert model.likeness(question, []) == []


def test_score_is_the_mean_over_query_tokens_of_the_nearest_document_token(local: ColbertModel) -> None:
    (question,), (document,) = local.read([QUESTION], "query"), local.read(TEXTS[:1], "document")
    query_rows, document_rows = (_dequantized(embedding) for embedding in (question, document))
    expected = np.mean(
        [max(float(query_row @ document_row) for document_row in document_rows) for query_row in query_rows]
    )
    assert local.likeness(question, [document])[0] == pytest.approx(float(expected), abs=1e-5)


def test_token_takes_one_byte_per_dimension_and_overlong_text_has_no_embedding(local: ColbertModel) -> None:
    short, *_, long, _ = local.read(TEXTS, "document")
    words = WordPiece.read(model_files.find_in_carrier(inside=model_files.READER.inside) / "vocab.txt")  # type: ignore[operator]
    assert len(short) == 4 + WIDTH * (len(words.ids(TEXTS[0])) + 1)  # including the special token
    assert long == b""
    assert len(local.read(["word " * (LONGEST - 4)], "document")[0]) == 4 + WIDTH * (LONGEST - 1)
    assert local.read(["word " * LONGEST], "query") == [b""]


def test_model_is_used_where_present_and_only_if_pinned(tmp_path: Path) -> None:
    assert embedders.make_reader(tmp_path) is not None
    assert model_files.find_present(tmp_path, model_files.READER, carrier="no_such_carrier") is None
    folder = tmp_path / "models" / model_files.READER.name
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(b"another")
    with pytest.raises(Misconfigured, match=r"not the model\.onnx that cofio expects"):
        embedders.make_reader(tmp_path)


def _dequantized(reading: bytes) -> np.ndarray:
    scale = np.frombuffer(reading, np.float32, 1)[0] / 127
    return np.frombuffer(reading, np.int8, offset=4).reshape(-1, WIDTH).astype(np.float32) * scale


def test_damaged_encoding_is_like_no_text(tmp_path: Path) -> None:
    sound = np.float32(1.0).tobytes() + bytes([60]) * WIDTH
    damaged = [b"", b"ab", sound[:-3], np.float32(np.nan).tobytes() + sound[4:]]
    scores = ColbertModel(tmp_path).likeness(sound, [sound, *damaged])
    assert scores[0] > 1
    assert scores[1:] == [0.0] * len(damaged)
