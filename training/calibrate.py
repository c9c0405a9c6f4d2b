"""Chooses thresholds on what the exported model says to held-out authors: `python -m training.calibrate --help`.

The limits: 0.9 % of user turns without facts keep something and 6 % of an assistant's, 1 % of hard `add` pairs count
as changed, and 7.7 % of prompts that need nothing get a memory. A screen ends what it gives half of the
least probability that it gave a pair that the heads find. These limits were set by `streams/dev`, as were the
thresholds below that are written as numbers.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cofio.judgement.model_inputs import Encoder
from cofio.judgement.model_manifest import digest_of
from cofio.judgement.spans import Tagged, decode
from cofio.providers.embedders.wordpiece_tokenizer import WordPiece
from training import measure
from training.data import Example
from training.prepare import examples_of

NAME, BASE = "cofio-judge-5", "ms-marco-MiniLM-L12-v2, the first ten layers"
NOISE, ASSISTANT_NOISE, OVERWRITES, IDLE = 0.009, 0.06, 0.01, 0.077
TAGGER = "voices.onnx"
#: Chosen by what training.voices prints for the held-out author.
THIRD_PARTY = {"third party": 0.9, "next to third party": 0.5, "marked third party": 0.1}
SCREEN_MARGIN = 0.5  # limit of a screen, as a share of the least that it said of a find


def main() -> None:
    """Run the model on held-out authors, choose the thresholds, write model.json."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("model", type=Path, help="folder with the exported parts; model.json is written there")
    arguments = options.parse_args()
    parts = measure.part_files(arguments.model)
    _, held_out, _ = examples_of(Encoder(WordPiece.read(arguments.model / "vocab.txt")))
    answers = [to_row(*row) for row in zip(held_out, measure.predict_exported(arguments.model, held_out), strict=True)]
    turns, pairs, prompts = (
        [row for row in answers if row["task"] == task] for task in ("words", "relation", "relevance")
    )
    scale, shift, relevant = relevance(prompts)
    thresholds = {
        "fact": fact(turns, "user", NOISE),
        "assistant fact": fact(turns, "assistant", ASSISTANT_NOISE),
        "doubtful fact": 0.35,
        **changes(pairs),
        "relevant": round(relevant, 2),
        **THIRD_PARTY,
    }
    related = [row for row, chances in zip(pairs, _chances(pairs), strict=True) if _found(row, chances)]
    helpful = [row for row in prompts if row["label"] and _sigmoid(scale * row["logits"][0] + shift) >= relevant]
    card = {
        "name": NAME,
        "base": BASE,
        "parts": [file.name for file in parts],
        "tagger": TAGGER,
        "sha256": digest_of([*parts, arguments.model / TAGGER]),
        "relevance": [round(scale, 3), round(shift, 3)],
        "thresholds": thresholds,
        "screens": {"relation": screens(related), "relevance": screens(helpful)},
    }
    (arguments.model / "model.json").write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(card, indent=1))


def to_row(example: Example, prediction: measure.Prediction) -> dict[str, Any]:
    """Return the labels and the prediction of an example as one row."""
    about = {"task": example.task, "author": example.author, "row": example.row, "screens": prediction.screens}
    if example.task == "words":
        return {**about, "spans": decode(example.row["said"], Tagged(example.places, prediction.logits))}
    return {**about, "group": example.group, "label": example.label, "logits": prediction.logits.tolist()}


def fact(turns: Sequence[dict[str, Any]], role: str, noise: float) -> float:
    """Return the probability from which a span is kept: the least at which so few empty turns keep one."""
    empty_turns = [turn for turn in turns if turn["row"].get("role", "user") == role and not turn["row"]["facts"]]
    return round(float(np.quantile([_surest(turn) for turn in empty_turns], 1 - noise)) + 0.005, 2)


def changes(pairs: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return the thresholds of the relation: a change replaces, a doubtful one is listed, a repetition is noted."""
    chances = _chances(pairs)
    gold = np.array([int(pair["label"]) for pair in pairs])
    hard = np.array(["unrelated" not in pair["row"] for pair in pairs])
    change = chances[:, 2] + chances[:, 3]
    change_threshold = float(np.quantile(change[hard & (gold == 0)], 1 - OVERWRITES))
    return {"same": 0.5, "change": round(change_threshold, 2), "doubtful change": 0.25, "retraction": 0.35}


def screens(rows: Sequence[dict[str, Any]]) -> list[float]:
    """Return, for each screen, the probability below which it ends the reading."""
    return (SCREEN_MARGIN * np.min([row["screens"] for row in rows], axis=0)).round(3).tolist()


def _surest(turn: dict[str, Any]) -> float:
    return max((span.probability for span in turn["spans"]), default=0.0)


def _found(pair: dict[str, Any], chances: np.ndarray) -> bool:
    label = int(pair["label"])
    return (label >= 2 and chances[2:].sum() >= 0.5) or (label == 1 and chances[1] >= 0.5)


def _chances(pairs: Sequence[dict[str, Any]]) -> np.ndarray:
    logits = np.array([pair["logits"] for pair in pairs])
    powers = np.exp(logits - logits.max(1, keepdims=True))
    chances: np.ndarray = powers / powers.sum(1, keepdims=True)
    return chances


def _sigmoid(logit: float) -> float:
    return float(1 / (1 + np.exp(-logit)))


def relevance(rows: Sequence[dict[str, Any]]) -> tuple[float, float, float]:
    """Return (scale, shift) of Platt's calibration, and the probability from which a memory is injected."""
    own_rows = [row for row in rows if not row["row"]["foreign"]]
    logits, gold = np.array([row["logits"][0] for row in own_rows]), np.array([row["label"] for row in own_rows])
    scale, shift = 1.0, 0.0
    for _ in range(4_000):
        errors = 1 / (1 + np.exp(-(scale * logits + shift))) - gold
        scale, shift = scale - 0.05 * float((errors * logits).mean()), shift - 0.05 * float(errors.mean())
    prompts: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row, logit in zip(own_rows, logits, strict=True):
        chance = 1 / (1 + np.exp(-(scale * logit + shift)))
        prompts[f"{row['author']} {row['group']}"].append((row["label"], float(chance)))
    idle = [
        max(chance for _, chance in predictions)
        for predictions in prompts.values()
        if not any(label for label, _ in predictions)
    ]
    return scale, shift, float(np.quantile(idle, 1 - IDLE))


if __name__ == "__main__":
    main()
