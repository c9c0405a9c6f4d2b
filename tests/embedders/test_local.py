"""The real model."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from cofio.errors import Misconfigured
from cofio.providers.embedders import model_files
from cofio.providers.embedders.local import LocalEmbedder
from cofio.providers.embedders.onnx_model import open_session as _session
from cofio.providers.embedders.wordpiece import WordPiece

TEXTS = [
    "The user prefers tabs over spaces.",
    "PostgreSQL 15 was replaced by PostgreSQL 17 in March.",
    "Déjà vu 中文 🎉 [SEP] /usr/local/bin",
    "",
    "a much longer text about embedded stores, journals and vectors " * 80,
]


class Counting(LocalEmbedder):
    """Notes which texts reach the network."""

    def __init__(self, home: Path, **options: int) -> None:
        super().__init__(home, download=False, **options)  # type: ignore[arg-type]
        self.run: list[str] = []

    def _embed_all(self, texts: Sequence[str]):  # type: ignore[no-untyped-def]
        self.run.extend(texts)
        return super()._embed_all(texts)


@pytest.fixture
def counting(shared_home: Path) -> Counting:
    return Counting(shared_home)


def test_the_vectors_are_those_of_the_plain_runtime(real: LocalEmbedder, carried: Path) -> None:
    session = _session(carried / "model.onnx", 1)
    words = WordPiece.read(carried / "vocab.txt")
    for text, vector in zip(TEXTS, real.embed(TEXTS, "document"), strict=True):
        ids = np.array([words.ids(text)], np.int64)
        feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        state = session.run(None, feed)[0][0, 0]
        np.testing.assert_allclose(vector, state / np.linalg.norm(state), atol=1e-5)


def test_more_threads_for_a_text_give_the_same_embed_all(real: LocalEmbedder, shared_home: Path) -> None:
    two = LocalEmbedder(shared_home, threads=2, download=False)
    np.testing.assert_allclose(two.embed(TEXTS, "document"), real.embed(TEXTS, "document"), atol=1e-5)


def test_a_list_spread_over_workers_gives_what_one_worker_gives(shared_home: Path) -> None:
    texts = [f"Fact number {number} about service {number % 7}." for number in range(40)]
    alone, spread = (LocalEmbedder(shared_home, workers=workers, download=False) for workers in (1, 3))
    assert np.array_equal(alone.embed(texts, "document"), spread.embed(texts, "document"))


def test_a_new_process_gives_the_same_vector(real: LocalEmbedder, shared_home: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from cofio.providers.embedders.local import LocalEmbedder;"
        "e = LocalEmbedder(Path(sys.argv[1]), download=False);"
        "sys.stdout.write(e.embed(['The same text.'], 'document').tobytes().hex())"
    )
    run = subprocess.run([sys.executable, "-c", program, shared_home], capture_output=True, text=True, check=True)
    assert run.stdout == real.embed(["The same text."], "document").tobytes().hex()


def test_a_query_asked_again_does_not_run_the_network(counting: Counting) -> None:
    first = counting.embed(["what does the user prefer?"], "query")
    again = counting.embed(["what does the user prefer?", "another"], "query")
    assert counting.run == ["what does the user prefer?", "another"]
    assert np.array_equal(first[0], again[0])


def test_documents_are_embedded_each_time(counting: Counting) -> None:
    counting.embed(["a fact"], "document")
    counting.embed(["a fact"], "document")
    assert counting.run == ["a fact", "a fact"]


def test_the_query_asked_longest_ago_is_forgotten_first(shared_home: Path) -> None:
    counting = Counting(shared_home, recent=2)
    for text in ("one", "two", "one", "three", "one", "two"):
        counting.embed([text], "query")
    assert counting.run == ["one", "two", "three", "two"]


def test_nothing_is_loaded_before_the_first_text(tmp_path: Path) -> None:
    (tmp_path / "models").touch()  # no model could be found or stamped below a file
    embedder = LocalEmbedder(tmp_path, download=False)
    assert embedder.dimension == 384
    assert embedder.signature == "local:bge-small-en-v1.5-int8:384:q=:d="
    assert embedder.embed([], "query").shape == (0, 384)


def test_a_wrong_file_stops_the_first_text_not_the_start(tmp_path: Path) -> None:
    model_files.folder(tmp_path).mkdir(parents=True)
    (model_files.folder(tmp_path) / "model.onnx").write_bytes(b"not a model")
    embedder = LocalEmbedder(tmp_path, download=False)
    with pytest.raises(Misconfigured, match=r"model\.onnx"):
        embedder.embed(["x"], "document")


def test_a_model_that_the_runtime_cannot_load_is_misconfigured(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"not a model")
    with pytest.raises(Misconfigured, match="cannot load"):
        _session(tmp_path / "model.onnx", 1)


def test_the_package_is_light_to_import() -> None:
    program = (
        "import sys, cofio.providers.embedders;"
        "sys.exit(bool({'numpy', 'onnxruntime', 'urllib.request'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_local_embedder_does_not_import_the_runtime_before_it_is_used() -> None:
    program = "import sys, cofio.providers.embedders.local; sys.exit('onnxruntime' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
