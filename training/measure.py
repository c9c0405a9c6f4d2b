"""Evaluates a model on held-out and test authors: `python -m training.measure --help`."""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cofio.judgement.model_inputs import Encoder
from cofio.judgement.onnx_encoder import Layers
from cofio.judgement.spans import Tagged, decode
from cofio.providers.embedders.wordpiece_tokenizer import WordPiece
from training import data, metrics
from training.data import Example
from training.prepare import examples_of


class Prediction(NamedTuple):
    """Logits of the head and, for a pair of the exported model, the probabilities of the screens."""

    logits: np.ndarray
    screens: tuple[float, ...] = ()


def main() -> None:
    """Parse the arguments and print the metrics."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="folder with the exported parts, or NAME-predictions.npz")
    parser.add_argument("--base", type=Path, help="folder with the vocab.txt of the predictions")
    args = parser.parse_args()
    _, held_out, test = examples_of(Encoder(WordPiece.read((args.base or args.model) / "vocab.txt")))
    if args.model.is_dir():
        predictions = predict_exported(args.model, [*held_out, *test])
    else:
        predictions = load_predictions(args.model, [*held_out, *test])
    for name, examples, subset in (
        ("held-out", held_out, predictions[: len(held_out)]),
        ("test", test, predictions[len(held_out) :]),
    ):
        print(name, json.dumps(figures(examples, subset), indent=1))


def part_files(model: Path) -> list[Path]:
    """Return the exported parts, in order."""
    return sorted(model.glob("part*.onnx"))


def predict_exported(model: Path, examples: Sequence[Example]) -> list[Prediction]:
    """Run the exported model on one example at a time, as at run time."""
    layers = Layers(part_files(model), threads=1)
    predictions = []
    for example in examples:
        if example.task == "words":
            predictions.append(Prediction(layers.words(example.ids, example.types)))
            continue
        screens, logits = layers.pair(example.ids, example.types, example.task)
        predictions.append(Prediction(logits, screens))
    return predictions


def load_predictions(path: Path, examples: Sequence[Example]) -> list[Prediction]:
    """Load the predictions that `training.train` saved for the unseen authors."""
    predictions, row = [], 0
    with np.load(path) as arrays:
        words, pairs = arrays["words"].astype(np.float32), arrays["pairs"].astype(np.float32)
    for index, example in enumerate(examples):
        if example.task != "words":
            predictions.append(Prediction(pairs[index, : 4 if example.task == "relation" else 1]))
            continue
        logits = np.zeros((len(example.ids), words.shape[1]), np.float32)
        logits[[token for token, _ in example.places]] = words[row : row + len(example.places)]
        row += len(example.places)
        predictions.append(Prediction(logits))
    return predictions


def figures(examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, float]:
    """Return the metrics of every head."""
    said = [example.logits for example in predictions]
    report: dict[str, float] = {}
    pairs = [
        (example, logits)
        for example, logits in zip(examples, said, strict=True)
        if example.task == "relation" and "unrelated" not in example.row
    ]
    if pairs:
        gold = np.array([int(example.label) for example, _ in pairs])
        report |= metrics.relation(gold, _softmax(np.stack([logits for _, logits in pairs])))
    prompts = defaultdict(list)
    for example, logits in zip(examples, said, strict=True):
        if example.task == "relevance" and not example.row["foreign"]:
            prompts[f"{example.author} {example.group}"].append((example.label, float(logits[0])))
    if prompts:
        report |= metrics.relevance(prompts)
    turns: dict[str, tuple[list[tuple[int, int]], list[tuple[int, int, float]]]] = {}
    for example, logits in zip(examples, said, strict=True):
        if example.task == "words":
            _, spans = turns.setdefault(example.group, ([(a, b) for a, b, _, _ in data.facts_at(example.row)], []))
            spans += [
                (one.start, one.end, one.probability)
                for one in decode(example.row["said"], Tagged(example.places, logits))
            ]
    for threshold in (0.4, 0.5, 0.6, 0.7) if turns else ():
        report |= {f"{name} at {threshold}": value for name, value in metrics.spans(turns, threshold).items()}
    return {name: round(value, 3) for name, value in report.items()}


def _softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


if __name__ == "__main__":
    main()
