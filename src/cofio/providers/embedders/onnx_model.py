"""BERT models in ONNX files, on the local CPU."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from cofio.errors import Misconfigured
from cofio.providers.embedders.wordpiece_tokenizer import WordPiece

if TYPE_CHECKING:
    from cofio.ports import Matrix

_MIN_SPREAD = 8  # texts from which threads pay off
_T = TypeVar("_T")


class OnnxModel:
    """Network with its tokenizer. They are loaded at the first use, from the folder that `find_folder` returns.

    `threads` work on one text, `workers` on the texts of one call.
    """

    def __init__(self, find_folder: Callable[[], Path], threads: int, workers: int) -> None:
        self._find_folder, self._threads, self._workers = find_folder, threads, workers
        self._lock = Lock()
        self._loaded: tuple[WordPiece, Any] | None = None

    @property
    def tokenizer(self) -> WordPiece:
        return self._load()[0]

    def run(self, ids: Sequence[int]) -> Matrix:
        """Return the last hidden state of the network: one row per token."""
        tokens = np.array([ids], np.int64)
        feed = {"input_ids": tokens, "attention_mask": np.ones_like(tokens), "token_type_ids": np.zeros_like(tokens)}
        states: Matrix = self._load()[1].run(["last_hidden_state"], feed)[0][0]
        return states

    def map(self, encode: Callable[[str], _T], texts: Sequence[str]) -> list[_T]:
        """Return the result of `encode` for each text, in order; a long list is spread over threads."""
        if self._workers < 2 or len(texts) < _MIN_SPREAD:
            return [encode(text) for text in texts]
        with ThreadPoolExecutor(self._workers, "embed") as pool:
            return list(pool.map(encode, texts))

    def _load(self) -> tuple[WordPiece, Any]:
        with self._lock:
            if self._loaded is None:
                folder = self._find_folder()
                network = open_session(folder / "model.onnx", self._threads)
                self._loaded = (WordPiece.read(folder / "vocab.txt"), network)
            return self._loaded


def open_session(path: Path, threads: int) -> Any:
    """Return a session for the model file. Raise Misconfigured if the runtime is missing or cannot load the file."""
    os.putenv("ORT_DISABLE_TELEMETRY", "1")  # disables telemetry; read once, at import
    try:
        runtime = importlib.import_module("onnxruntime")  # 0.2 s and 40 MB: imported for the first text
    except ImportError as error:
        raise Misconfigured(f"onnxruntime cannot be imported: {error}.", "Run `pip install onnxruntime`.") from error
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # idle threads must not occupy a core
    raises = runtime.capi.onnxruntime_pybind11_state
    try:
        return runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except (raises.Fail, raises.InvalidGraph, raises.InvalidProtobuf, raises.NotImplemented) as error:
        hint = "Run `pip install --upgrade onnxruntime`."
        raise Misconfigured(f"onnxruntime {runtime.__version__} cannot load {path}: {error}.", hint) from error
