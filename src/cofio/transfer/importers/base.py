"""Shared parts of the readers: the type Importer, and conversion of a foreign entry to a fact.

A bad entry does not stop the import: it is returned as SkippedEntry, and reading continues.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import date, datetime
from pathlib import Path
from typing import Any

from cofio.errors import InvalidInput
from cofio.models.memory import MAX_LABEL, MAX_LABELS, MAX_METADATA, MAX_TEXT, Fact, Memory, to_utc_iso
from cofio.text import lazy_re

_OURS = frozenset(field.name for field in fields(Memory)) - {"project", "origin", "anchors"} | {"timestamp"}
_MOST_VALUES = 4_096  # in the metadata of one entry; a list that contains itself repeatedly has more
_DEEPEST = 16
_ROOM = MAX_METADATA // 2  # characters of the metadata
_UNSTORABLE = lazy_re.compile("[\x00\ud800-\udfff]")
_EPOCH = lazy_re.compile(r"-?\d{9,16}(?:\.\d+)?")
_WINDOWS = lazy_re.compile(r"[A-Za-z]:[\\/]")


@dataclass(frozen=True, slots=True)
class SkippedEntry:
    """Entry that was left out, with the reason."""

    reason: str
    where: str  # the entry's name in its store


Found = Fact | SkippedEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Importer:
    """Reader of one kind of store. Reading never changes the store."""

    name: str
    says: str  # description of what it reads, for the user
    read: Callable[[Path], Iterator[Found]]
    count: Callable[[Path], int | None]  # number of entries; None if counting takes too long
    fits: Callable[[Path], bool]  # whether the path looks like such a store; never raises


def check_exists(path: Path, what: str) -> Path:
    """Return the path. Raise InvalidInput if it does not exist."""
    if not path.exists():
        raise InvalidInput(f"{path} does not exist.", f"Give the path of {what}.")
    return path


def to_fact(
    tool: str, name: str, text: Any, *, created_at: Any = None, notes: Mapping[str, Any] | None = None, **others: Any
) -> Found:
    """Return the fact of a foreign entry, with the origin `tool/name`; or the reason why it is skipped."""
    origin = make_storable(f"{tool}/{name}")
    if len(origin) > MAX_LABEL:
        origin = f"{origin[: MAX_LABEL - 20]}…{fingerprint(origin)}"
    if not isinstance(text, str) or not text.strip():
        return SkippedEntry("The entry has no text.", origin)
    stored_text = make_storable(text)
    metadata = dict(notes or {})
    if len(stored_text) > MAX_TEXT:  # it is cut at the end of a paragraph, line or word
        metadata["cut_from"] = len(stored_text)
        ends = (stored_text.rfind(mark, MAX_TEXT // 2, MAX_TEXT) for mark in ("\n\n", "\n", " "))
        stored_text = stored_text[: next((end for end in ends if end > 0), MAX_TEXT)]
    at = to_iso_time(created_at)
    if at == "" and created_at is not None:
        metadata["bad_created_at"] = str(created_at)[:100]
    try:
        return Fact(
            text=stored_text,
            method="import",
            origin=origin,
            created_at=at,
            metadata=_make_metadata(tool, metadata),
            **{field: _to_label(value) for field, value in others.items()},
        )
    except InvalidInput as error:
        return SkippedEntry(error.message, origin)


def to_iso_time(value: Any) -> str:
    """Return the value as a UTC ISO 8601 time; "" if it is not a time."""
    if isinstance(value, str) and _EPOCH.fullmatch(value.strip()):
        value = float(value)
    if isinstance(value, bool) or not value or (isinstance(value, int | float) and value < 0):
        return ""  # 0 means "unknown" in all known tools
    try:
        return to_utc_iso(value)
    except InvalidInput:
        return ""


def as_absolute_path(value: Any) -> str:
    """Return the value if it is an absolute path; "" otherwise."""
    if not isinstance(value, str) or len(value) > MAX_LABEL:
        return ""
    return value.rstrip("/") or "/" if value.startswith("/") else value if _WINDOWS.match(value) else ""


def make_storable(text: str) -> str:
    """Return the text without NUL and unpaired surrogates, which no store accepts."""
    return _UNSTORABLE.sub("�", text) if _UNSTORABLE.search(text) else text


def fingerprint(text: str) -> str:
    """Return a short digest of a text, independent of white space."""
    return hashlib.blake2b(" ".join(text.split()).encode(errors="replace"), digest_size=8).hexdigest()


def to_list(value: Any) -> list[str]:
    """Return the texts of a list: given as a list, as JSON, or separated by commas."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return to_list(value.strip().strip("[]"))
    if isinstance(value, str):
        value = value.split(",")
    values = value if isinstance(value, list | tuple) else ()
    return [text.strip() for text in values if isinstance(text, str) and text.strip()]


def object_of(value: Any) -> dict[str, Any]:
    """Return the object in a JSON text; an empty one if there is none."""
    try:
        parsed = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _to_label(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(make_storable(text)[:MAX_LABEL] for text in value[:MAX_LABELS])
    return make_storable(value)[:MAX_LABEL] if isinstance(value, str) else value


class _MetadataTooLarge(Exception):
    """Value that is not JSON, or too large for metadata."""


def _make_metadata(tool: str, entry_fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry's own fields by name.

    A name used by cofio gets the tool as a prefix. Fields that are left out are listed: those that are not JSON, and
    the largest ones until the others fit.
    """
    metadata: dict[str, Any] = {}
    left_out: list[str] = []
    for key, value in entry_fields.items():
        name = make_storable(str(key))[:MAX_LABEL]
        try:
            plain = _to_json(value, [_MOST_VALUES], 0)
        except _MetadataTooLarge:
            left_out.append(name)
        else:
            if plain not in (None, "", [], {}):
                metadata[f"{tool}_{name}" if name in _OURS else name] = plain
    if len(json.dumps(metadata, ensure_ascii=False)) > _ROOM:
        sizes = {name: len(json.dumps({name: value}, ensure_ascii=False)) for name, value in metadata.items()}
        room = _ROOM - sum(sizes.values())
        for name in sorted(sizes, key=lambda name: -sizes[name]):
            if room >= 0:
                break
            room += sizes[name]
            del metadata[name]
            left_out.append(name[:100])
    return {**metadata, "left_out": left_out[:MAX_LABELS]} if left_out else metadata


def _to_json(value: Any, room: list[int], depth: int) -> Any:
    room[0] -= 1
    if room[0] < 0 or depth > _DEEPEST:
        raise _MetadataTooLarge
    if isinstance(value, str):
        return make_storable(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Mapping):
        return {make_storable(str(key))[:MAX_LABEL]: _to_json(inner, room, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_to_json(inner, room, depth + 1) for inner in value]
    if isinstance(value, int) and value.bit_length() < 64:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, datetime | date):
        return value.isoformat()
    raise _MetadataTooLarge
