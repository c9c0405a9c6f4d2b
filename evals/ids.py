"""Ids of labelled rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from cofio.errors import InvalidInput


def check_ids(path: Path, ids: Sequence[str]) -> None:
    """Raise InvalidInput if an id occurs twice."""
    if repeated := [name for name, times in Counter(ids).items() if times > 1]:
        raise InvalidInput(f"The id {repeated[0]!r} occurs twice in {path}.", "Give every row an id of its own.")
