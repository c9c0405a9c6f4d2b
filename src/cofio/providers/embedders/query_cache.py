"""Cache of recent query vectors. A prompt is often embedded twice: for the hook, then for the agent."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from cofio.ports import Matrix, Vector


class QueryCache:
    """Thread-safe LRU cache of the vectors of the last `size` texts."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._vectors: OrderedDict[str, Vector] = OrderedDict()
        self._lock = Lock()

    def through(self, texts: Sequence[str], embed: Callable[[Sequence[str]], Matrix]) -> Matrix:
        """Return one row per text, in order; texts not in the cache are embedded once, in one call of `embed`."""
        with self._lock:
            by_text = {text: self._vectors[text] for text in texts if text in self._vectors}
            for text in by_text:
                self._vectors.move_to_end(text)
        missing = [text for text in dict.fromkeys(texts) if text not in by_text]
        if missing:
            fresh = dict(zip(missing, embed(missing), strict=True))
            by_text |= fresh
            with self._lock:
                for text, vector in fresh.items():
                    self._vectors[text] = vector.copy()  # copied, since a row would keep its whole matrix alive
                while len(self._vectors) > self._size:
                    self._vectors.popitem(last=False)
        return np.stack([by_text[text] for text in texts])
