"""State of a pickled object, read without the code that wrote it and without executing any.

qdrant-client stores its points as pickles, and a pickle may name any function to call. Here a name resolves to a
stand-in that only stores its state, for the few names that such points contain; every other name is rejected before
anything happens. The Python unpickler is used on purpose: the one in C allocates as much memory as a pickle asks for.
"""

from __future__ import annotations

import datetime
import io
import pickle
from typing import Any


class BadPickle(Exception):
    """The pickle is damaged, or names something that no point needs."""


class _UnpickledState:
    """Stand-in for a class of qdrant-client that only stores the state."""

    def __init__(self, *_: Any) -> None:
        self.state: Any = None

    def __new__(cls, *_: Any) -> _UnpickledState:
        return super().__new__(cls)

    def __setstate__(self, state: Any) -> None:
        self.state = state


#: Values that payloads may contain; creating one has no side effects.
_VALUES = {
    ("datetime", name): getattr(datetime, name) for name in ("datetime", "date", "time", "timedelta", "timezone")
}
_BAD = (
    pickle.UnpicklingError, ValueError, TypeError, AttributeError, LookupError, EOFError, ArithmeticError,
    AssertionError, RecursionError, MemoryError, NotImplementedError, ImportError,
)  # fmt: skip


class _RestrictedUnpickler(pickle._Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module.startswith("qdrant_client.") and "." not in name:
            return type(name, (_UnpickledState,), {})  # a new class each time, so that none can be modified
        if (module, name) in _VALUES:
            return _VALUES[module, name]
        raise pickle.UnpicklingError(
            f"The data of the Qdrant point names {module}.{name}, which no point needs; nothing was executed."
        )

    def get_extension(self, code: int) -> Any:
        raise pickle.UnpicklingError(
            f"The data of the Qdrant point uses the pickle extension {code}, which no point needs."
        )


def state_of(blob: bytes) -> dict[str, Any]:
    """Return the fields of the object in a pickle."""
    try:
        unpickled = _RestrictedUnpickler(io.BytesIO(blob)).load()
    except _BAD as error:
        raise BadPickle(str(error)[:200] or "The data of the Qdrant point is damaged.") from error
    state = getattr(unpickled, "state", None)
    values = state.get("__dict__") if isinstance(state, dict) else None  # the layout of pydantic 1 and 2
    if not isinstance(values, dict):
        raise BadPickle("The data contains no Qdrant point.")
    return values
