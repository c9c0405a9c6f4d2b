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

Head = Literal["words", "relation", "relevance"]
HEADS: tuple[Head, ...] = ("words", "relation", "relevance")


class Layers:
    """Runs one text at a time: dynamic int8 quantisation scales with the largest value of a run."""

    def __init__(self, place: Path, threads: int) -> None:
        self._first, self._rest = (session(place / name, threads) for name in PARTS)

    def screened(self, ids: Sequence[int], types: Sequence[int], head: Head) -> tuple[float, NDArray[Any]]:
        """Return the probability that the head finds anything (of a turn: its surest word), and the states."""
        feed = {"input_ids": np.array([ids], np.int64), "token_type_ids": np.array([types], np.int64)}
        logits, states = self._first.run([head, "states"], feed)
        return float(1.0 / (1.0 + np.exp(-logits.max()))), states

    def judged(self, states: NDArray[Any], head: Head) -> NDArray[Any]:
        """Return the logits of a head for what was screened."""
        logits: NDArray[Any] = self._rest.run([head], {"states": states})[0][0]
        return logits
