"""The exported encoder in its two parts: the first layers with the screens, the other layers with the heads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from cofio.embedders.network import session
from cofio.judgement.card import PARTS

if TYPE_CHECKING:
    from numpy.typing import NDArray

Paired = Literal["relation", "relevance"]
PAIRED: tuple[Paired, ...] = ("relation", "relevance")
HEADS = ("words", *PAIRED)


class Layers:
    """Runs one text at a time: dynamic int8 quantisation scales with the largest value of a run."""

    def __init__(self, place: Path, threads: int) -> None:
        self._first, self._rest = (session(place / name, threads) for name in PARTS)

    def words(self, ids: Sequence[int], types: Sequence[int]) -> NDArray[Any]:
        """Return the logits of every token of a turn."""
        [states] = self._first.run(["states"], _feed(ids, types))
        logits: NDArray[Any] = self._rest.run(["words"], {"states": states})[0][0]
        return logits

    def screened(self, ids: Sequence[int], types: Sequence[int], head: Paired) -> tuple[float, NDArray[Any]]:
        """Return the probability that a pair has anything to do with each other, and the states to judge it by."""
        logits, states = self._first.run([head, "states"], _feed(ids, types))
        return float(1.0 / (1.0 + np.exp(-logits[0, 0]))), states

    def judged(self, states: NDArray[Any], head: Paired) -> NDArray[Any]:
        """Return the logits of a head for a pair that was screened."""
        logits: NDArray[Any] = self._rest.run([head], {"states": states})[0][0]
        return logits


def _feed(ids: Sequence[int], types: Sequence[int]) -> dict[str, NDArray[Any]]:
    return {"input_ids": np.array([ids], np.int64), "token_type_ids": np.array([types], np.int64)}
