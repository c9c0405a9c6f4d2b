"""Data files of a measurement: JSON Lines with a byte order mark, blank lines, or any line ends; and JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from cofio.errors import InvalidInput, NotFound

Row = TypeVar("Row")
_GZIP = b"\x1f\x8b"


def read_rows(path: Path, parse: Callable[[dict[str, Any], int], Row], noun: str, shape: str) -> list[Row]:
    """Return the parsed lines of a file; `parse` takes the object and its line number.

    Raise NotFound if the file cannot be read, InvalidInput with the line number if a line is malformed: if `parse`
    raises ValueError, KeyError, TypeError or InvalidInput. `shape` is the hint of every error.
    """
    rows = []
    for number, line in numbered(path, shape):
        try:
            plain = json.loads(line)
            if not isinstance(plain, dict):
                raise TypeError(f"it is {describe_type(plain)}, not an object")
            rows.append(parse(plain, number))
        except json.JSONDecodeError as error:
            message = f"Line {number} of {path} is not JSON: {error.msg}, at character {error.pos + 1}."
            raise InvalidInput(message, f"Write each object on one line. {shape}") from error
        except (ValueError, KeyError, TypeError, RecursionError, InvalidInput) as error:
            reason = f"there is no {error}" if isinstance(error, KeyError) else getattr(error, "message", str(error))
            raise InvalidInput(f"Line {number} of {path} is not a {noun}: {reason.rstrip('.')}.", shape) from error
    return rows


def read_authors(
    paths: Sequence[Path], parse: Callable[[dict[str, Any], int], Row], noun: str, shape: str
) -> dict[str, list[Row]]:
    """Return the rows of .jsonl files, and of all those in a folder, by the name of the file: its author."""
    rows_by_author: dict[str, list[Row]] = {}
    for path in paths:
        files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        if not files:
            raise NotFound(f"{path} has no .jsonl file.", f"Name a file, or a folder of files. {shape}")
        for file in files:
            rows_by_author.setdefault(file.stem, []).extend(read_rows(file, parse, noun, shape))
    return rows_by_author


def read_json(file: Path, shape: str) -> Any:
    """Return the content of a JSON file. Raise NotFound if it cannot be read, InvalidInput if it is not JSON."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise NotFound(f"{file} cannot be read: {error.strerror}.", shape) from error
    except ValueError as error:
        raise InvalidInput(f"{file} is not JSON: {error}.", shape) from error


def numbered(path: Path, shape: str) -> Iterator[tuple[int, str]]:
    """Yield the non-blank lines with their numbers. Only line feeds separate lines.

    Raise NotFound if the file cannot be read, InvalidInput if it is not a text or is empty.
    """
    lines = _text(path, shape).split("\n")
    if not any(line.strip() for line in lines):
        raise InvalidInput(f"{path} is empty.", shape)
    yield from ((number, line) for number, line in enumerate(lines, start=1) if line.strip())


def text_of(plain: dict[str, Any], name: str) -> str:
    """Return a field that must be a text and not blank. Raise KeyError or TypeError otherwise."""
    text = plain[name]
    if not isinstance(text, str) or not text.strip():
        raise TypeError(f"{name} is not a text")
    return text


def clean(value: Any) -> str:
    """Return a value as storable text: without NUL and unpaired surrogates, and with 2.0 written as 2."""
    if value is None:
        return ""
    plain = int(value) if isinstance(value, float) and value.is_integer() else value
    return str(plain).replace("\x00", "").encode("utf-8", "replace").decode()


def describe_type(value: Any) -> str:
    """Return the JSON type of a value."""
    kinds = {str: "a text", list: "a list", dict: "an object", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")


def _text(path: Path, shape: str) -> str:
    try:
        plain = path.read_bytes()
    except OSError as error:
        raise NotFound(f"{path} cannot be read: {error.strerror}.", f"Name a file. {shape}") from error
    if plain.startswith(_GZIP):
        raise InvalidInput(f"{path} is compressed.", f"Unpack it first: gunzip --keep {path}")
    try:
        return plain.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = plain.count(b"\n", 0, error.start) + 1
        raise InvalidInput(f"Line {number} of {path} is not UTF-8.", "Save the file as UTF-8.") from error
