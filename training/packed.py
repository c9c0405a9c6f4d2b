"""Encoded examples in a few arrays: made once on the processor, read by the machine with the GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from training.data import IGNORED, Example

TASKS = ("words", "relation", "relevance")
PER_TOKEN = ("words", "kinds", "about")
REPEATS = {"words": 2, "relation": 1, "relevance": 1}  # turns are few, and each word of them is labelled


class Batch(NamedTuple):
    """Examples of one task, padded; `words`, `kinds`, `about` have -1 where a token has no label."""

    task: str
    places: torch.Tensor
    ids: torch.Tensor
    mask: torch.Tensor
    types: torch.Tensor
    label: torch.Tensor  # of a pair; -1 where only the teacher labels it
    words: torch.Tensor
    kinds: torch.Tensor
    about: torch.Tensor
    rows: torch.Tensor  # of each labelled token: its number among all labelled tokens


class Packed:
    """Examples of all tasks on one device; a batch is cut out of them by index."""

    def __init__(self, arrays: dict[str, np.ndarray], device: str) -> None:
        self.arrays, self.device = arrays, device
        self.lengths, self.tasks = arrays["lengths"].astype(np.int64), arrays["tasks"]
        turns = self.tasks == TASKS.index("words")
        starts = np.concatenate([[0], np.cumsum(self.lengths)[:-1]])
        in_turns = np.where(turns, np.cumsum(np.where(turns, self.lengths, 0)) - self.lengths, 0)
        rows = np.cumsum(arrays["words"] >= 0) - 1
        self._ids, self._starts, self._sizes, self._split, self._label, self._in_turns, self._rows = (
            torch.from_numpy(each.astype(np.int64)).to(device)
            for each in (arrays["ids"], starts, self.lengths, arrays["split"], arrays["label"], in_turns, rows)
        )
        self._labels = {name: torch.from_numpy(arrays[name].astype(np.int64)).to(device) for name in PER_TOKEN}

    def __len__(self) -> int:
        return len(self.lengths)

    @classmethod
    def read(cls, path: Path, device: str) -> Packed:
        """Return what `write` wrote."""
        with np.load(path) as stored:
            return cls(dict(stored), device)

    def batch(self, places: np.ndarray) -> Batch:
        """Return examples of one task by their places."""
        at = torch.from_numpy(places).to(self.device)
        token = torch.arange(int(self.lengths[places].max()), device=self.device)[None]
        mask = token < self._sizes[at][:, None]
        here = (self._starts[at][:, None] + token).clamp(max=len(self._ids) - 1)
        task = TASKS[self.tasks[places[0]]]
        in_turns = (self._in_turns[at][:, None] + token).clamp(max=max(0, len(self._rows) - 1))
        if task == "words":
            per_token = [torch.where(mask, self._labels[name][in_turns], -1) for name in PER_TOKEN]
            rows = self._rows[in_turns]
        else:
            per_token, rows = [at] * len(PER_TOKEN), at
        types = mask & (token >= self._split[at][:, None])
        return Batch(
            task,
            at,
            torch.where(mask, self._ids[here], 0),
            mask.long(),
            types.long(),
            self._label[at],
            *per_token,
            rows,
        )

    def batches(self, chance: np.random.Generator, size: int, tokens: int, chosen: np.ndarray) -> list[np.ndarray]:
        """Return one pass: batches of one task, of texts of similar length, with at most so many tokens, shuffled."""
        found = []
        for number, task in enumerate(TASKS):
            places = np.tile(np.flatnonzero((self.tasks == number) & chosen), REPEATS[task])
            chance.shuffle(places)
            for start in range(0, len(places), 16 * size):
                found += list(self._cut(places[start : start + 16 * size], size, tokens))
        return [found[at] for at in chance.permutation(len(found))]

    def in_order(self, tokens: int) -> Iterator[np.ndarray]:
        """Yield every example once, in batches of one task and similar length."""
        for number in range(len(TASKS)):
            yield from self._cut(np.flatnonzero(self.tasks == number), 4096, tokens)

    def _cut(self, places: np.ndarray, size: int, tokens: int) -> Iterator[np.ndarray]:
        block = places[np.argsort(self.lengths[places], kind="stable")]
        while len(block):
            fitting = min(size, max(1, tokens // int(self.lengths[block[-1]])))
            yield block[-fitting:]
            block = block[:-fitting]


def write(path: Path, examples: Sequence[Example]) -> None:
    """Write examples as arrays."""
    turns = [each for each in examples if each.task == "words"]

    def per_token(name: str) -> np.ndarray:
        labels = [label for each in turns for label in getattr(each, name)]
        return np.array([-1 if label == IGNORED else label for label in labels], np.int8)

    np.savez_compressed(
        path,
        ids=np.array([number for each in examples for number in each.ids], np.uint32),
        lengths=np.array([len(each.ids) for each in examples], np.uint16),
        split=np.array([each.types.index(1) if 1 in each.types else len(each.types) for each in examples], np.uint16),
        tasks=np.array([TASKS.index(each.task) for each in examples], np.uint8),
        label=np.array([each.label for each in examples], np.int8),
        easy=np.array([bool(each.row.get("unrelated") or each.row.get("foreign")) for each in examples]),
        **{name: per_token(name) for name in PER_TOKEN},
    )
