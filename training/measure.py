"""Measures a model on authors it never saw: `python -m training.measure --help`."""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cofio.embedders.wordpiece import WordPiece
from cofio.judgement.encoding import Encoder
from cofio.judgement.network import Layers
from cofio.judgement.spans import Tagged, decode
from training import data, metrics
from training.data import Example
from training.prepare import examples_of


class Answer(NamedTuple):
    """What a model says to one example: the logits of its task's head, and of a pair's screen."""

    logits: np.ndarray
    screen: float = 0.0


def main() -> None:
    """Read the options, ask the model, print the figures."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("model", type=Path, help="folder with screen.onnx and judge.onnx, or NAME-answers.npz")
    options.add_argument("--base", type=Path, required=True, help="folder with vocab.txt")
    given = options.parse_args()
    _, held_out, test = examples_of(Encoder(WordPiece.read(given.base / "vocab.txt")))
    if given.model.is_dir():
        answers = exported(given.model, [*held_out, *test])
    else:
        answers = stored(given.model, [*held_out, *test])
    for name, examples, said in (
        ("held-out", held_out, answers[: len(held_out)]),
        ("test", test, answers[len(held_out) :]),
    ):
        print(name, json.dumps(figures(examples, said), indent=1))


def exported(model: Path, examples: Sequence[Example]) -> list[Answer]:
    """Return what the exported model says to the examples, one text a run as cofio runs it."""
    layers = Layers(model, threads=1)
    answers = []
    for each in examples:
        if each.task == "words":
            answers.append(Answer(layers.words(each.ids, each.types)))
            continue
        screen, states = layers.screened(each.ids, each.types, each.task)
        answers.append(Answer(layers.judged(states, each.task), screen))
    return answers


def stored(path: Path, examples: Sequence[Example]) -> list[Answer]:
    """Return the answers that `training.train` wrote for the unseen examples."""
    answers, row = [], 0
    with np.load(path) as said:
        words, pairs, screens = said["words"].astype(np.float32), said["pairs"].astype(np.float32), said["screens"]
    for place, each in enumerate(examples):
        if each.task != "words":
            answers.append(Answer(pairs[place, : 4 if each.task == "relation" else 1], float(screens[place])))
            continue
        logits = np.zeros((len(each.ids), words.shape[1]), np.float32)
        logits[[token for token, _ in each.places]] = words[row : row + len(each.places)]
        row += len(each.places)
        answers.append(Answer(logits))
    return answers


def figures(examples: Sequence[Example], answers: Sequence[Answer]) -> dict[str, float]:
    """Return the figures of every head on these examples."""
    said = [each.logits for each in answers]
    report: dict[str, float] = {}
    pairs = [
        (each, logits)
        for each, logits in zip(examples, said, strict=True)
        if each.task == "relation" and "unrelated" not in each.row
    ]
    if pairs:
        gold = np.array([int(each.label) for each, _ in pairs])
        report |= metrics.relation(gold, _softmax(np.stack([logits for _, logits in pairs])))
    prompts = defaultdict(list)
    for each, logits in zip(examples, said, strict=True):
        if each.task == "relevance" and not each.row["foreign"]:
            prompts[f"{each.author} {each.group}"].append((each.label, float(logits[0])))
    if prompts:
        report |= metrics.relevance(prompts)
    turns: dict[str, tuple[list[tuple[int, int]], list[tuple[int, int, float]]]] = {}
    for each, logits in zip(examples, said, strict=True):
        if each.task == "words":
            _, spans = turns.setdefault(each.group, ([(a, b) for a, b, _, _ in data.facts_at(each.row)], []))
            spans += [
                (one.start, one.end, one.probability) for one in decode(each.row["said"], Tagged(each.places, logits))
            ]
    for threshold in (0.4, 0.5, 0.6, 0.7) if turns else ():
        report |= {f"{name} at {threshold}": value for name, value in metrics.spans(turns, threshold).items()}
    return {name: round(value, 3) for name, value in report.items()}


def _softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


if __name__ == "__main__":
    main()
