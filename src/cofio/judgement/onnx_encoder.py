"""The exported encoder, split into parts: each part runs some layers, and has screens or heads on the last of them.

    ids ─ part 1 ─ states ─ part 2 ─ states ─ … ─ last part ─▶ relation, relevance
             └─ screens       └─ screens, words

An output named after a task is a one-number screen in every part but the last, which has the head. Words are an output
of one part, and no later part reads a turn. The last screen is added to the relevance head: together they find 82.5 %
of the needed memories of held-out authors while a tenth of the idle prompts get one; the head alone finds 77.9 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from cofio.providers.embedders.onnx_model import open_session

if TYPE_CHECKING:
    from numpy.typing import NDArray

Paired = Literal["relation", "relevance"]
PAIRED: tuple[Paired, ...] = ("relation", "relevance")
WORDS = "words"
STATES, NEXT_STATES = "states", "next_states"  # input of every part but the first, output of every part but the last


class PairOutput(NamedTuple):
    """Probabilities of the screens that ran, and the logits of the head; None if a screen ended the run."""

    screens: tuple[float, ...]
    logits: NDArray[Any] | None


class Layers:
    """Runner of the layers, one text at a time: dynamic int8 quantisation scales with the largest value of a run."""

    def __init__(self, files: Sequence[Path], threads: int) -> None:
        self._parts = [open_session(file, threads) for file in files]
        outputs = [{output.name for output in part.get_outputs()} for part in self._parts]
        self._of_words = next(number for number, names in enumerate(outputs) if WORDS in names)

    def words(self, ids: Sequence[int], types: Sequence[int], output: str = WORDS) -> NDArray[Any]:
        """Return the logits of every token of a turn, or its states in the layer that they are computed from."""
        inputs = _inputs(ids, types)
        for part in self._parts[: self._of_words]:
            [states] = part.run([NEXT_STATES], inputs)
            inputs = {STATES: states}
        values: NDArray[Any] = self._parts[self._of_words].run([output], inputs)[0][0]
        return values

    def pair(self, ids: Sequence[int], types: Sequence[int], head: Paired, limits: Sequence[float] = ()) -> PairOutput:
        """Return the output for a pair. The run ends at the first screen below its limit."""
        inputs, screens, score = _inputs(ids, types), [], 0.0
        *screened, last = self._parts
        for number, part in enumerate(screened):
            logits, states = part.run([head, NEXT_STATES], inputs)
            score = float(logits[0, 0])
            screens.append(float(1.0 / (1.0 + np.exp(-score))))
            if limits and screens[-1] < limits[number]:
                return PairOutput(tuple(screens), None)
            inputs = {STATES: states}
        of_head: NDArray[Any] = last.run([head], inputs)[0][0]
        return PairOutput(tuple(screens), of_head + score if head == "relevance" else of_head)


def _inputs(ids: Sequence[int], types: Sequence[int]) -> dict[str, NDArray[Any]]:
    return {"input_ids": np.array([ids], np.int64), "token_type_ids": np.array([types], np.int64)}
