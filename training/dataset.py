"""Encoded training examples as flat arrays that are built once on the CPU and kept on the GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from training.data import IGNORED, Example

TASKS = ("words", "relation", "relevance")
PER_TOKEN = ("words", "kinds", "about")
REPEATS = {"words": 2, "relation": 1, "relevance": 1}  # per epoch; there are few turns


class Batch(NamedTuple):
    """Padded examples of one task. `words`, `kinds` and `about` are -1 for tokens without a label."""

    task: str
    indices: torch.Tensor
    ids: torch.Tensor
    mask: torch.Tensor
    types: torch.Tensor
    label: torch.Tensor  # of a pair; -1 if only the teacher labels it
    words: torch.Tensor
    kinds: torch.Tensor
    about: torch.Tensor
    word_rows: torch.Tensor  # row of each word among all words of the dataset


class PackedDataset:
    """Examples of all tasks on one device, from which batches are selected by index."""

    def __init__(self, arrays: dict[str, np.ndarray], device: str) -> None:
        self.arrays, self.device = arrays, device
        self.lengths, self.tasks = arrays["lengths"].astype(np.int64), arrays["tasks"]
        turns = self.tasks == TASKS.index("words")
        starts = np.concatenate([[0], np.cumsum(self.lengths)[:-1]])
        in_turns = np.where(turns, np.cumsum(np.where(turns, self.lengths, 0)) - self.lengths, 0)
        word_rows = np.cumsum(arrays["words"] >= 0) - 1
        self._ids, self._starts, self._sizes, self._split, self._label, self._in_turns, self._word_rows = (
            torch.from_numpy(array.astype(np.int64)).to(device)
            for array in (arrays["ids"], starts, self.lengths, arrays["split"], arrays["label"], in_turns, word_rows)
        )
        self._labels = {name: torch.from_numpy(arrays[name].astype(np.int64)).to(device) for name in PER_TOKEN}

    def __len__(self) -> int:
        return len(self.lengths)

    @classmethod
    def load(cls, path: Path, device: str) -> PackedDataset:
        """Load the arrays that `save` wrote."""
        with np.load(path) as arrays:
            return cls(dict(arrays), device)

    def batch(self, indices: np.ndarray) -> Batch:
        """Return the examples of one task at these indices, padded to the longest."""
        index = torch.from_numpy(indices).to(self.device)
        token = torch.arange(int(self.lengths[indices].max()), device=self.device)[None]
        mask = token < self._sizes[index][:, None]
        here = (self._starts[index][:, None] + token).clamp(max=len(self._ids) - 1)
        task = TASKS[self.tasks[indices[0]]]
        in_turns = (self._in_turns[index][:, None] + token).clamp(max=max(0, len(self._word_rows) - 1))
        if task == "words":
            token_labels = [torch.where(mask, self._labels[name][in_turns], -1) for name in PER_TOKEN]
            word_rows = self._word_rows[in_turns]
        else:
            token_labels, word_rows = [index] * len(PER_TOKEN), index
        types = mask & (token >= self._split[index][:, None])
        return Batch(
            task,
            index,
            torch.where(mask, self._ids[here], 0),
            mask.long(),
            types.long(),
            self._label[index],
            *token_labels,
            word_rows,
        )

    def batches(self, rng: np.random.Generator, size: int, tokens: int, chance: np.ndarray) -> list[np.ndarray]:
        """Return the shuffled batches of one epoch: one task, similar lengths, at most `tokens` tokens each.

        `chance` is the probability of each example to be in an epoch.
        """
        batches = []
        include = rng.random(len(self)) < chance
        for number, task in enumerate(TASKS):
            indices = np.tile(np.flatnonzero((self.tasks == number) & include), REPEATS[task])
            rng.shuffle(indices)
            for start in range(0, len(indices), 16 * size):
                batches += list(self._split_by_tokens(indices[start : start + 16 * size], size, tokens))
        return [batches[index] for index in rng.permutation(len(batches))]

    def iterate(self, tokens: int, include: np.ndarray | None = None) -> Iterator[np.ndarray]:
        """Yield every example, or those included, once, in batches of one task and similar length."""
        for number in range(len(TASKS)):
            chosen = self.tasks == number if include is None else (self.tasks == number) & include
            yield from self._split_by_tokens(np.flatnonzero(chosen), 4096, tokens)

    def _split_by_tokens(self, indices: np.ndarray, size: int, tokens: int) -> Iterator[np.ndarray]:
        block = indices[np.argsort(self.lengths[indices], kind="stable")]
        while len(block):
            count = min(size, max(1, tokens // int(self.lengths[block[-1]])))
            yield block[-count:]
            block = block[:-count]


def save(path: Path, examples: Sequence[Example]) -> None:
    """Save examples as arrays. Every other author is in fold 1."""
    folds = {author: number % 2 for number, author in enumerate(sorted({example.author for example in examples}))}
    turns = [example for example in examples if example.task == "words"]

    def token_labels(name: str) -> np.ndarray:
        labels = [label for example in turns for label in getattr(example, name)]
        return np.array([-1 if label == IGNORED else label for label in labels], np.int8)

    np.savez_compressed(
        path,
        ids=np.array([number for example in examples for number in example.ids], np.uint32),
        lengths=np.array([len(example.ids) for example in examples], np.uint16),
        split=np.array(
            [example.types.index(1) if 1 in example.types else len(example.types) for example in examples], np.uint16
        ),
        tasks=np.array([TASKS.index(example.task) for example in examples], np.uint8),
        label=np.array([example.label for example in examples], np.int8),
        easy=np.array([bool(example.row.get("unrelated") or example.row.get("foreign")) for example in examples]),
        fold=np.array([folds[example.author] for example in examples], np.uint8),
        **{name: token_labels(name) for name in PER_TOKEN},
    )
