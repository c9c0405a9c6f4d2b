"""Labelled rows, one JSON object per line, one file per author: figures are given by author, since each has a style."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from cofio.errors import InvalidInput, NotFound
from cofio.evaluation.jsonl import numbered

Row = TypeVar("Row")


def read(paths: Sequence[Path], parse: Callable[[dict[str, Any]], Row], shape: str) -> dict[str, list[Row]]:
    """Return the rows of .jsonl files, and of all those in a folder, by the name of the file.

    `parse` converts an object to a row, and raises ValueError, KeyError or TypeError if it is invalid. `shape` is the
    hint of every error.
    """
    rows_by_author: dict[str, list[Row]] = {}
    for file in _list_files(paths, shape):
        rows = [_parse_row(line, number, file, parse, shape) for number, line in numbered(file, shape)]
        rows_by_author.setdefault(file.stem, []).extend(rows)
    return rows_by_author


def text_of(plain: dict[str, Any], name: str) -> str:
    """Return a field that must be a text and not blank. Raise KeyError or TypeError otherwise."""
    text = plain[name]
    if not isinstance(text, str) or not text.strip():
        raise TypeError(f"{name} is not a text")
    return text


def named(paths: Sequence[Path]) -> str:
    """Return the names of paths for a command line."""
    return " ".join(path.name for path in paths)


def _list_files(paths: Sequence[Path], shape: str) -> list[Path]:
    files: list[Path] = []
    for path in paths:
        inside = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        if not inside:
            raise NotFound(f"{path} has no .jsonl file.", f"Name a file, or a folder of files. {shape}")
        files += inside
    return files


def _parse_row(line: str, number: int, file: Path, parse: Callable[[dict[str, Any]], Row], shape: str) -> Row:
    try:
        plain = json.loads(line)
        if not isinstance(plain, dict):
            raise TypeError("it is not an object")
        return parse(plain)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        reason = f"there is no {error}" if isinstance(error, KeyError) else str(error)
        raise InvalidInput(f"Line {number} of {file} cannot be used: {reason}.", shape) from error
