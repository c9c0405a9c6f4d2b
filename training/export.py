"""Exports trained weights as int8 ONNX: `python -m training.export --help`.

Two files: `screen.onnx` has the embeddings, the first layers and the screens; `judge.onnx` has the other layers and
the heads, and is run only where a screen lets a text pass.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.transformers import optimizer
from onnxruntime.transformers.fusion_options import FusionOptions
from torch import nn

from cofio.judgement.network import HEADS, PAIRED
from training import network

_FLOAT = 1  # the type of everything between the operators, which shape inference does not know of fused ones


class Screen(nn.Module):
    """Embeddings, first layers and screens of a network."""

    def __init__(self, of: network.Network) -> None:
        super().__init__()
        self.of = of

    def forward(self, ids: torch.Tensor, types: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the states behind the first layers, and the screens."""
        states = self.of.encoder.embeddings(input_ids=ids, token_type_ids=types)
        states = _through(self.of.encoder.encoder.layer[: network.SCREENED], states)
        screens = self.of.screens(states, torch.ones_like(states[..., :1]))
        return states, *(screens[f"screen {name}"] for name in PAIRED)


class Judge(nn.Module):
    """The other layers and the heads."""

    def __init__(self, of: network.Network) -> None:
        super().__init__()
        self.of = of

    def forward(self, states: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the logits of the heads."""
        states = _through(self.of.encoder.encoder.layer[network.SCREENED :], states)
        heads = self.of.heads(states, torch.ones_like(states[..., :1]))
        return tuple(heads[name] for name in HEADS)


def _through(layers: nn.ModuleList, states: torch.Tensor) -> torch.Tensor:
    for layer in layers:
        states = layer(states)
    return states


def export(model: network.Network, out: Path) -> None:
    """Write both files: fused operators, dynamic int8, weights per channel."""
    model = model.float().eval()
    model.encoder.config._attn_implementation = "eager"
    ids = torch.ones(1, 12, dtype=torch.int64)
    long = {1: "length"}
    _write(
        Screen(model), (ids, torch.zeros_like(ids)), out / "screen.onnx",
        {"input_ids": long, "token_type_ids": long}, {"states": long, "relation": {}, "relevance": {}},
    )  # fmt: skip
    _write(
        Judge(model), (torch.zeros(1, 12, 384),), out / "judge.onnx",
        {"states": long}, {"words": long, "relation": {}, "relevance": {}},
    )  # fmt: skip


def _write(
    module: nn.Module,
    example: tuple[torch.Tensor, ...],
    path: Path,
    inputs: Mapping[str, Mapping[int, str]],
    outputs: Mapping[str, Mapping[int, str]],
) -> None:
    raw = path.with_suffix(".raw")
    torch.onnx.export(
        module,
        example,
        str(raw),
        input_names=list(inputs),
        output_names=list(outputs),
        dynamic_axes={**inputs, **outputs},
        opset_version=17,
        dynamo=False,
    )
    options = FusionOptions("bert")
    options.enable_gelu_approximation = True
    fused = optimizer.optimize_model(
        str(raw), "bert", num_heads=12, hidden_size=384, optimization_options=options, opt_level=0
    )
    fused.save_model_to_file(str(raw))
    quantize_dynamic(
        str(raw), str(path), weight_type=QuantType.QInt8, per_channel=True, extra_options={"DefaultTensorType": _FLOAT}
    )
    raw.unlink()
    print(f"{path.name}: {path.stat().st_size:,} bytes", flush=True)


def main() -> None:
    """Read the weights, export."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("weights", type=Path, help="student.safetensors, written by training.train")
    options.add_argument("--base", type=Path, required=True, help="folder with minilm.safetensors and vocab.txt")
    options.add_argument("--out", type=Path, required=True, help="folder for screen.onnx and judge.onnx")
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    model = network.minilm(given.base / "minilm.safetensors")
    model.load(given.weights)
    export(model, given.out)


if __name__ == "__main__":
    main()
