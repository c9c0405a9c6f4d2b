"""The state of a pickled object, without the code that wrote it and without running any.

qdrant-client keeps its points as pickles, and a pickle may name any function to call. Here a name leads to a stand-in
that only keeps what it is given, for the few names that such points hold; every other name is refused before anything
happens. The unpickler written in Python is used on purpose: the one in C sets aside the memory a pickle asks for.
"""

from __future__ import annotations

import datetime
import io
import pickle
from typing import Any


class BadPickle(Exception):
    """The pickle is damaged, or names what no point needs."""


class _Kept:
    """Stands in for a class of qdrant-client and keeps the state, doing nothing with it."""

    def __init__(self, *_: Any) -> None:
        self.state: Any = None

    def __new__(cls, *_: Any) -> _Kept:
        return super().__new__(cls)

    def __setstate__(self, state: Any) -> None:
        self.state = state


#: Values that people put into a payload; making one does nothing else.
_VALUES = {
    ("datetime", name): getattr(datetime, name) for name in ("datetime", "date", "time", "timedelta", "timezone")
}
_BAD = (
    pickle.UnpicklingError, ValueError, TypeError, AttributeError, LookupError, EOFError, ArithmeticError,
    AssertionError, RecursionError, MemoryError, NotImplementedError, ImportError,
)  # fmt: skip


class _Careful(pickle._Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module.startswith("qdrant_client.") and "." not in name:
            return type(name, (_Kept,), {})  # one of its own each time, so that none can be tampered with
        if (module, name) in _VALUES:
            return _VALUES[module, name]
        raise pickle.UnpicklingError(f"It names {module}.{name}, which no point needs; nothing of it was run.")

    def get_extension(self, code: int) -> Any:
        raise pickle.UnpicklingError(f"It uses the extension {code}, which no point needs.")


def state_of(blob: bytes) -> dict[str, Any]:
    """The fields of the object that a pickle holds."""
    try:
        kept = _Careful(io.BytesIO(blob)).load()
    except _BAD as error:
        raise BadPickle(str(error)[:200] or "The pickle is damaged.") from error
    state = getattr(kept, "state", None)
    held = state.get("__dict__") if isinstance(state, dict) else None  # so pydantic 1 and 2 both lay it down
    if not isinstance(held, dict):
        raise BadPickle("It holds no point.")
    return held
