"""The development data that measures are held to. It is no part of the project: where it is not, its tests are skipped.

It is looked for in the folder that COFIO_DATA names, else in `data` and in `../shared/data`, from the project's root.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def folders() -> list[Path]:
    """Where it may lie: where we were told, or beside the project."""
    told = os.environ.get("COFIO_DATA")
    return [Path(told)] if told else [ROOT / "data", ROOT.parent / "shared" / "data"]


def development(name: str) -> Path:
    """The file of this name, such as "retrieval/locomo-dev.jsonl"; without it the test is skipped, and says why."""
    looked = [folder / name for folder in folders()]
    for path in looked:
        if path.is_file():
            return path
    places = " or ".join(str(path) for path in looked)
    pytest.skip(f"There is no development data at {places}. COFIO_DATA=folder says where it lies.")
