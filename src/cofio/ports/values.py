"""Types shared by the protocols: vectors, the clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

    Vector: TypeAlias = NDArray[float32]  # one unit-length vector
    Matrix: TypeAlias = NDArray[float32]  # one unit-length vector per row
else:  # this package loads nothing outside the standard library
    Vector = Matrix = Any

#: The time now, as UTC ISO 8601 text.
Clock: TypeAlias = Callable[[], str]
