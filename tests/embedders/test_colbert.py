"""Reading word by word: the real model and the one for tests, held to the same promises."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cofio.errors import Misconfigured
from cofio.ports import LateInteractionModel
from cofio.providers import embedders
from cofio.providers.embedders import model_files
from cofio.providers.embedders.colbert import LONGEST, WIDTH, ColbertModel
from cofio.providers.embedders.wordpiece import WordPiece
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
    place = model_files.find_in_carrier(inside=model_files.READER.inside)
    assert place is not None, "make setup installs the carrier"
    return ColbertModel(place)


@pytest.fixture(params=["local", "words"])
def reader(request: pytest.FixtureRequest, local: ColbertModel) -> LateInteractionModel:
    return local if request.param == "local" else WordOverlapModel()


def test_what_answers_is_more_alike_than_what_does_not(reader: LateInteractionModel) -> None:
    (question,) = reader.read([QUESTION], "query")
    near, far = reader.likeness(question, reader.read(TEXTS[:2], "document"))
    assert reader.floor < near
    assert near > far


def test_a_text_has_one_reading_whatever_it_is_read_with(reader: LateInteractionModel) -> None:
    together = reader.read(TEXTS, "document")
    assert together == [reader.read([text], "document")[0] for text in TEXTS]
    assert together == reader.read(TEXTS * 3, "document")[: len(TEXTS)]  # spread over threads


def test_likeness_is_at_most_one_and_of_each_reading_by_itself(reader: LateInteractionModel) -> None:
    (question,) = reader.read([QUESTION], "query")
    readings = [each for each in reader.read(TEXTS, "document") if each]
    each = [reader.likeness(question, [one])[0] for one in readings]
    assert reader.likeness(question, readings) == pytest.approx(each, abs=1e-6)
    assert all(value <= 1.01 for value in each)
    assert reader.likeness(question, []) == []


def test_likeness_is_the_mean_over_the_questions_words_of_their_nearest(local: ColbertModel) -> None:
    (question,), (reading,) = local.read([QUESTION], "query"), local.read(TEXTS[:1], "document")
    asked, said = (_plain(each) for each in (question, reading))
    wanted = np.mean([max(float(one @ other) for other in said) for one in asked])
    assert local.likeness(question, [reading])[0] == pytest.approx(float(wanted), abs=1e-5)


def test_a_word_takes_a_byte_a_dimension_and_what_is_too_long_is_not_read(local: ColbertModel) -> None:
    short, *_, long, _ = local.read(TEXTS, "document")
    words = WordPiece.read(model_files.find_in_carrier(inside=model_files.READER.inside) / "vocab.txt")  # type: ignore[operator]
    assert len(short) == 4 + WIDTH * (len(words.ids(TEXTS[0])) + 1)  # and the mark
    assert long == b""
    assert len(local.read(["word " * (LONGEST - 4)], "document")[0]) == 4 + WIDTH * (LONGEST - 1)
    assert local.read(["word " * LONGEST], "query") == [b""]


def test_it_is_used_where_its_model_is_and_only_the_pinned_one(tmp_path: Path) -> None:
    assert embedders.make_reader(tmp_path) is not None
    assert model_files.find_present(tmp_path, model_files.READER, carrier="no_such_carrier") is None
    place = tmp_path / "models" / model_files.READER.name
    place.mkdir(parents=True)
    (place / "model.onnx").write_bytes(b"another")
    with pytest.raises(Misconfigured, match=r"not the model\.onnx that was pinned"):
        embedders.make_reader(tmp_path)


def _plain(reading: bytes) -> np.ndarray:
    scale = np.frombuffer(reading, np.float32, 1)[0] / 127
    return np.frombuffer(reading, np.int8, offset=4).reshape(-1, WIDTH).astype(np.float32) * scale
