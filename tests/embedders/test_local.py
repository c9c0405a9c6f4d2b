"""The local embedder with the real model."""

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
from cofio.providers.embedders.wordpiece_tokenizer import WordPiece

TEXTS = [
    "The user prefers tabs over spaces.",
    "PostgreSQL 15 was replaced by PostgreSQL 17 in March.",
    "Déjà vu 中文 🎉 [SEP] /usr/local/bin",
    "",
    "a much longer text about embedded stores, journals and vectors " * 80,
]


class CountingEmbedder(LocalEmbedder):
    """Record the texts that reach the network."""

    def __init__(self, home: Path, **options: int) -> None:
        super().__init__(home, download=False, **options)  # type: ignore[arg-type]
        self.computed: list[str] = []

    def _embed_all(self, texts: Sequence[str]):  # type: ignore[no-untyped-def]
        self.computed.extend(texts)
        return super()._embed_all(texts)


@pytest.fixture
def counting(shared_home: Path) -> CountingEmbedder:
    return CountingEmbedder(shared_home)


def test_vectors_match_those_of_the_plain_runtime(local_embedder: LocalEmbedder, model_folder: Path) -> None:
    session = _session(model_folder / "model.onnx", 1)
    words = WordPiece.read(model_folder / "vocab.txt")
    for text, vector in zip(TEXTS, local_embedder.embed(TEXTS, "document"), strict=True):
        ids = np.array([words.ids(text)], np.int64)
        feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        state = session.run(None, feed)[0][0, 0]
        np.testing.assert_allclose(vector, state / np.linalg.norm(state), atol=1e-5)


def test_thread_count_does_not_change_vectors(local_embedder: LocalEmbedder, shared_home: Path) -> None:
    two_threads = LocalEmbedder(shared_home, threads=2, download=False)
    np.testing.assert_allclose(two_threads.embed(TEXTS, "document"), local_embedder.embed(TEXTS, "document"), atol=1e-5)


def test_worker_count_does_not_change_vectors(shared_home: Path) -> None:
    texts = [f"Fact number {number} about service {number % 7}." for number in range(40)]
    one_worker, three_workers = (LocalEmbedder(shared_home, workers=workers, download=False) for workers in (1, 3))
    assert np.array_equal(one_worker.embed(texts, "document"), three_workers.embed(texts, "document"))


def test_new_process_gives_the_same_vector(local_embedder: LocalEmbedder, shared_home: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from cofio.providers.embedders.local import LocalEmbedder;"
        "e = LocalEmbedder(Path(sys.argv[1]), download=False);"
        "sys.stdout.write(e.embed(['The same text.'], 'document').tobytes().hex())"
    )
    process = subprocess.run([sys.executable, "-c", script, shared_home], capture_output=True, text=True, check=True)
    assert process.stdout == local_embedder.embed(["The same text."], "document").tobytes().hex()


def test_repeated_query_is_not_computed_again(counting: CountingEmbedder) -> None:
    first = counting.embed(["what does the user prefer?"], "query")
    second = counting.embed(["what does the user prefer?", "another"], "query")
    assert counting.computed == ["what does the user prefer?", "another"]
    assert np.array_equal(first[0], second[0])


def test_documents_are_computed_each_time(counting: CountingEmbedder) -> None:
    counting.embed(["a fact"], "document")
    counting.embed(["a fact"], "document")
    assert counting.computed == ["a fact", "a fact"]


def test_least_recently_used_query_is_evicted_first(shared_home: Path) -> None:
    counting = CountingEmbedder(shared_home, recent=2)
    for text in ("one", "two", "one", "three", "one", "two"):
        counting.embed([text], "query")
    assert counting.computed == ["one", "two", "three", "two"]


def test_model_is_loaded_on_first_use(tmp_path: Path) -> None:
    (tmp_path / "models").touch()  # no model can be found or stamped below a file
    embedder = LocalEmbedder(tmp_path, download=False)
    assert embedder.dimension == 384
    assert embedder.signature == "local:bge-small-en-v1.5-int8:384:q=:d="
    assert embedder.embed([], "query").shape == (0, 384)


def test_wrong_model_file_fails_on_first_use(tmp_path: Path) -> None:
    model_files.folder(tmp_path).mkdir(parents=True)
    (model_files.folder(tmp_path) / "model.onnx").write_bytes(b"not a model")
    embedder = LocalEmbedder(tmp_path, download=False)
    with pytest.raises(Misconfigured, match=r"model\.onnx"):
        embedder.embed(["x"], "document")


def test_model_that_the_runtime_cannot_load_is_misconfigured(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"not a model")
    with pytest.raises(Misconfigured, match="cannot load"):
        _session(tmp_path / "model.onnx", 1)


def test_package_import_is_light() -> None:
    script = (
        "import sys, cofio.providers.embedders;"
        "sys.exit(bool({'numpy', 'onnxruntime', 'urllib.request'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_local_embedder_imports_the_runtime_on_first_use() -> None:
    script = "import sys, cofio.providers.embedders.local; sys.exit('onnxruntime' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
