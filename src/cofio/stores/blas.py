"""How many threads NumPy's BLAS uses for a product.

OpenBLAS has as many as there are cores, and they wait for each other by spinning. Work in the background that takes
every core makes searches wait; and on a machine that is busy already, such a product takes several times as long as on
one thread. NumPy itself has no word for it, so the library that it brings is asked, where it is the one we know.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module

_NAMES = ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads", "openblas_{}_num_threads")


_lock = threading.Lock()
_held: list[int] = []  # what the number was, once for each that holds it down


@contextmanager
def one_thread() -> Iterator[None]:
    """Until the last that asked for it is done, whoever makes a product makes it alone, in the whole process."""
    get, put = _threads()
    with _lock:
        _held.append(_held[0] if _held else get())
        put(1)
    try:
        yield
    finally:
        with _lock:
            before = _held.pop()
            if not _held:
                put(before)


@cache
def _threads() -> tuple[Callable[[], int], Callable[[int], object]]:
    """What tells and what sets the number of threads; with another BLAS, two that do nothing."""
    nothing: tuple[Callable[[], int], Callable[[int], object]] = (lambda: 1), (lambda _: None)
    try:
        library = ctypes.CDLL(str(import_module("numpy._core._multiarray_umath").__file__))
    except (ImportError, OSError):
        return nothing
    for name in _NAMES:
        get, put = (getattr(library, name.format(what), None) for what in ("get", "set"))
        if get and put:
            return get, put
    return nothing
