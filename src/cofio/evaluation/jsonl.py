"""JSON Lines files, read leniently: with a byte order mark, blank lines, or any line ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cofio.errors import InvalidInput, NotFound

_GZIP = b"\x1f\x8b"


def numbered(path: Path, shape: str) -> Iterator[tuple[int, str]]:
    """Yield the non-blank lines with their numbers. Only line feeds separate lines.

    Raise NotFound if the file cannot be read, InvalidInput if it is not a text or is empty.
    """
    lines = _text(path, shape).split("\n")
    if not any(line.strip() for line in lines):
        raise InvalidInput(f"{path} is empty.", shape)
    yield from ((number, line) for number, line in enumerate(lines, start=1) if line.strip())


def clean(value: Any) -> str:
    """Return a value as storable text: without NUL and unpaired surrogates, and with 2.0 written as 2."""
    if value is None:
        return ""
    plain = int(value) if isinstance(value, float) and value.is_integer() else value
    return str(plain).replace("\x00", "").encode("utf-8", "replace").decode()


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
