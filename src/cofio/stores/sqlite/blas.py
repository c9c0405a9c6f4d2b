"""Number of threads that NumPy's BLAS uses for a product.

OpenBLAS has one thread per core, and they spin while they wait for each other. Background work on every core delays
searches; and on a busy machine such a product takes several times as long as on one thread. NumPy has no API for this,
so the number is set in the OpenBLAS library that it bundles, if it is one of the known builds.
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
_held: list[int] = []  # the original number, once per active caller


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit products of the whole process to one thread, until the last caller has left."""
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
    """Return the functions that get and set the number of threads; with another BLAS, two that do nothing."""
    nothing: tuple[Callable[[], int], Callable[[int], object]] = (lambda: 1), (lambda _: None)
    try:
        library = ctypes.CDLL(str(import_module("numpy._core._multiarray_umath").__file__))
    except (ImportError, OSError):
        return nothing
    for name in _NAMES:
        get, put = (getattr(library, name.format(prefix), None) for prefix in ("get", "set"))
        if get and put:
            return get, put
    return nothing
