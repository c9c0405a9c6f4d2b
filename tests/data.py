"""Development data for quality tests. It is not part of the project: tests that need it are skipped without it.

The search path is the folder in COFIO_DATA if set, else `data` and `../shared/data`, relative to the project root.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def folders() -> list[Path]:
    """Return the folders to search."""
    configured = os.environ.get("COFIO_DATA")
    return [Path(configured)] if configured else [ROOT / "data", ROOT.parent / "shared" / "data"]


def development(name: str) -> Path:
    """Return the path of a data file, such as "retrieval/locomo-dev.jsonl". Skip the test if there is none."""
    candidates = [folder / name for folder in folders()]
    for path in candidates:
        if path.is_file():
            return path
    searched = " or ".join(str(path) for path in candidates)
    pytest.skip(f"There is no development data at {searched}. COFIO_DATA=folder says where it lies.")
