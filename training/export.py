"""Exports trained weights as int8 ONNX: `python -m training.export --help`.

An encoder is cut into parts, one file each: consecutive layers with the heads on the last of them. Later parts are run
only where the heads of earlier ones let a text pass.

The graph is written by hand, as onnxruntime runs it fastest for one text on one thread. Its LayerNormalization (1.31)
takes five times as long as InstanceNormalization, and what torch exports has more operators than are needed.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from torch import nn
from transformers import BertModel

from cofio.judgement.onnx_encoder import NEXT_STATES, PAIRED, STATES
from training import network

_CONTRIB = "com.microsoft"  # the domain of onnxruntime's own operators
_VERSIONS = {"": 17, _CONTRIB: 1}
_IR = 8  # the oldest format with these operators: older runtimes refuse newer formats
_FLOAT, _INT = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


@dataclass(frozen=True)
class Part:
    """A file with some layers of an encoder, and heads on the last of them.

    A part with the first layer has the embeddings too; a later one reads the states of the one before it. A head twice
    as wide as the states reads them pooled.
    """

    layers: range
    heads: Mapping[str, nn.Linear]


def parts(model: network.Student) -> list[Part]:
    """Return the parts that the package runs."""
    heads: list[dict[str, nn.Linear]] = [
        _screens(model.first_screens),
        {**_screens(model.middle_screens), "words": model.words},
        {"relation": model.relation, "relevance": model.relevance},
    ]
    cuts = (0, network.FIRST, network.MIDDLE, model.encoder.config.num_hidden_layers)
    return [Part(range(*layers), own) for layers, own in zip(pairwise(cuts), heads, strict=True)]


def _screens(both: nn.Linear) -> dict[str, nn.Linear]:
    """Return a screen for each kind of pair."""
    screens = {}
    for index, name in enumerate(PAIRED):
        screens[name] = nn.Linear(both.in_features, 1)
        screens[name].weight.data, screens[name].bias.data = (
            both.weight[index : index + 1],
            both.bias[index : index + 1],
        )
    return screens


def export(encoder: BertModel, cut: Sequence[Part], out: Path) -> None:
    """Write part1.onnx and so on: dynamic int8, weights per channel, heads in float."""
    for number, part in enumerate(cut, 1):
        path = out / f"part{number}.onnx"
        path.write_bytes(_Graph(encoder).part(part).SerializeToString())
        print(f"{path.name}: {path.stat().st_size:,} bytes", flush=True)


class _Linear(NamedTuple):
    """A dense layer, to be multiplied from the right."""

    weight: NDArray[np.float32]
    bias: NDArray[np.float32]

    @staticmethod
    def of(layer: nn.Linear) -> _Linear:
        return _Linear(_array(layer.weight).T, _array(layer.bias))

    def behind(self, norm: nn.LayerNorm) -> _Linear:
        """Return the layer with the gain and the offset of the norm in front of it."""
        parts = self.weight.reshape(-1, norm.weight.numel(), self.weight.shape[1])  # the norm's, once or pooled twice
        gained = (parts * _array(norm.weight)[:, None]).reshape(self.weight.shape)
        return _Linear(gained, self.bias + _array(norm.bias) @ parts.sum(0))


class _Graph:
    """The graph of one part. Inside, states are [length, 1, width]: one instance per token to normalise.

    States are normal: their norm's gain and offset are in what reads them, which saves time and quantises better.
    """

    def __init__(self, encoder: BertModel) -> None:
        self._encoder = encoder
        self._width = encoder.config.hidden_size
        self._heads = encoder.config.num_attention_heads
        self._nodes: list[onnx.NodeProto] = []
        self._weights: dict[str, onnx.TensorProto] = {}

    def part(self, part: Part) -> onnx.ModelProto:
        """Return the model with some layers and their heads."""
        shape = [1, "length", self._width]
        if part.layers.start == 0:
            inputs = [helper.make_tensor_value_info(name, _INT, shape[:2]) for name in ("input_ids", "token_type_ids")]
            states = self._embeddings("input_ids", "token_type_ids")
        else:
            inputs = [helper.make_tensor_value_info(STATES, _FLOAT, shape)]
            states = self._reshaped(STATES, -1, 1, self._width)
        layers = self._encoder.encoder.layer
        for index in part.layers:
            states = self._layer(layers[index], self._norm(index), states)
        outputs = []
        if part.layers.stop < self._encoder.config.num_hidden_layers:
            self._reshaped(states, 1, -1, self._width, output=NEXT_STATES)
            outputs.append(helper.make_tensor_value_info(NEXT_STATES, _FLOAT, shape))
        norm = self._norm(part.layers.stop)
        outputs += [self._head(name, _Linear.of(head).behind(norm), states) for name, head in part.heads.items()]
        graph = helper.make_graph(self._nodes, "part", inputs, outputs, list(self._weights.values()))
        opsets = [helper.make_opsetid(*version) for version in _VERSIONS.items()]
        return helper.make_model(graph, opset_imports=opsets, ir_version=_IR)

    def _norm(self, index: int) -> nn.LayerNorm:
        """Return the norm in front of a layer."""
        return (self._encoder.encoder.layer[index - 1].output if index else self._encoder.embeddings).LayerNorm

    def _embeddings(self, ids: str, types: str) -> str:
        tables = self._encoder.embeddings
        rows, scales = _int8(_array(tables.word_embeddings.weight))
        ids, types = (self._reshaped(name, -1, 1) for name in (ids, types))
        words = self._add("Mul", self._add("Cast", self._add("Gather", rows, ids), to=_FLOAT), scales)
        places = _array(tables.position_embeddings.weight)[:, None]
        length = self._add("Shape", ids, start=0, end=1)
        summed = self._add("Add", words, self._add("Gather", _array(tables.token_type_embeddings.weight), types))
        summed = self._add("Add", summed, self._add("Slice", places, np.array([0]), length))
        return self._normal(tables.LayerNorm, summed)

    def _layer(self, layer: Any, norm: nn.LayerNorm, states: str) -> str:
        mixed = self._attention(layer.attention.self, norm, states)
        states = self._residual(layer.attention.output, norm, states, mixed)
        norm = layer.attention.output.LayerNorm
        [inner] = self._product(states, _Linear.of(layer.intermediate.dense).behind(norm))
        return self._residual(layer.output, norm, states, self._add("Gelu", inner, domain=_CONTRIB))

    def _attention(self, attention: Any, norm: nn.LayerNorm, states: str) -> str:
        size = self._width // self._heads
        projections = (_Linear.of(each).behind(norm) for each in (attention.query, attention.key, attention.value))
        products = self._product(states, *projections)
        query, key, value = (self._reshaped(name, -1, self._heads, size) for name in products)
        query, value = (self._add("Transpose", name, perm=[1, 0, 2]) for name in (query, value))
        key = self._add("Transpose", key, perm=[1, 2, 0])
        scores = self._add("Mul", self._add("MatMul", query, key), np.array(size**-0.5, np.float32))
        mixed = self._add("MatMul", self._add("Softmax", scores, axis=-1), value)
        return self._reshaped(self._add("Transpose", mixed, perm=[1, 0, 2]), -1, 1, self._width)

    def _residual(self, output: Any, norm: nn.LayerNorm, states: str, inner: str) -> str:
        """Return the sum of the states and what a dense layer makes of the inner ones, normalised."""
        dense = _Linear.of(output.dense)
        [change] = self._product(inner, _Linear(dense.weight, dense.bias + _array(norm.bias)))
        states = self._add("Mul", states, _array(norm.weight))
        return self._normal(output.LayerNorm, self._add("Add", states, change))

    def _normal(self, norm: nn.LayerNorm, states: str) -> str:
        one, zero = np.ones(1, np.float32), np.zeros(1, np.float32)
        return self._add("InstanceNormalization", states, one, zero, epsilon=norm.eps)

    def _product(self, states: str, *layers: _Linear) -> list[str]:
        """Quantise the states once and multiply them with every layer."""
        states, scale, zero = self._add_all("DynamicQuantizeLinear", [states], 3)
        results = []
        for layer in layers:
            weight, scales = _int8(layer.weight)
            given = (states, weight, scale, scales, zero, "", layer.bias)
            results.append(self._add("MatMulIntegerToFloat", *given, domain=_CONTRIB))
        return results

    def _head(self, name: str, head: _Linear, states: str) -> onnx.ValueInfoProto:
        width, count = head.weight.shape
        if width == self._width:
            per_word = self._add("MatMul", self._reshaped(states, 1, -1, width), head.weight)
            self._add("Add", per_word, head.bias, output=name)
            return helper.make_tensor_value_info(name, _FLOAT, [1, "length", count])
        first = self._add("Gather", states, np.array(0))
        pooled = self._add("Concat", first, self._add("ReduceMean", states, axes=[0], keepdims=0), axis=-1)
        self._add("Gemm", pooled, head.weight, head.bias, output=name)
        return helper.make_tensor_value_info(name, _FLOAT, [1, count])

    def _reshaped(self, name: str, *shape: int, output: str = "") -> str:
        return self._add("Reshape", name, np.array(shape), output=output)

    def _add(self, operator: str, *inputs: str | NDArray[Any], output: str = "", **attributes: Any) -> str:
        return self._add_all(operator, inputs, [output] if output else 1, **attributes)[0]

    def _add_all(
        self, operator: str, inputs: Sequence[str | NDArray[Any]], outputs: int | list[str], **attributes: Any
    ) -> list[str]:
        if isinstance(outputs, int):
            outputs = [f"{operator} {len(self._nodes)}.{index}" for index in range(outputs)]
        names = [given if isinstance(given, str) else self._weight(given) for given in inputs]
        self._nodes.append(helper.make_node(operator, names, outputs, **attributes))
        return outputs

    def _weight(self, value: NDArray[Any]) -> str:
        name = f"weight {len(self._weights)}"
        self._weights[name] = numpy_helper.from_array(value, name)
        return name


def _array(weight: torch.Tensor) -> NDArray[np.float32]:
    return weight.detach().float().numpy()


def _int8(weight: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return integers and their scales, one per column."""
    scales = np.maximum(np.abs(weight).max(0), np.finfo(np.float32).tiny) / np.float32(127)
    return np.round(weight / scales).astype(np.int8), scales


def main() -> None:
    """Read the weights, export, copy the vocabulary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights", type=Path, help="student.safetensors, written by training.train")
    parser.add_argument("--base", type=Path, required=True, help="folder with student.safetensors and vocab.txt")
    parser.add_argument("--out", type=Path, required=True, help="folder for the parts and their vocab.txt")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    model = network.student(args.base / "student.safetensors")
    model.load(args.weights)
    export(model.encoder, parts(model), args.out)
    shutil.copy(args.base / "vocab.txt", args.out)


if __name__ == "__main__":
    main()
