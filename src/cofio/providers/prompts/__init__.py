"""Prompts of the language model steps, and the short names by which a model refers to memories.

The prompts are Markdown files beside this one, reviewed as prose. Every step may read them; they know nothing of ours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any


def read(name: str, **values: str) -> str:
    """Return the prompt of this name with `{field}` replaced by the value of that name. Other braces stay."""
    return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), _file(name))


def block(name: str, rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the rows between tags of this name, one JSON object per line. No text can end its line or a block."""
    lines = (_TAG.sub(r"\\u003c", json.dumps(row, ensure_ascii=False)) for row in rows)
    return "\n".join((f"<{name}>", *lines, f"</{name}>"))


def list_schema(name: str, **fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of an object with one field of this name: a list of objects with these fields."""
    entry = _object_schema(fields)
    return _object_schema({name: {"type": "array", "items": entry}})


def number(called: Any, letter: str) -> int | None:
    """Return the number in a short name: 3 for "m3", "M3", "3" and 3; None if it is not such a name."""
    if isinstance(called, int) and not isinstance(called, bool):
        return called
    match = re.fullmatch(rf"\s*{letter}?([0-9]{{1,6}})\s*", called, re.IGNORECASE) if isinstance(called, str) else None
    return int(match[1]) if match else None


def _object_schema(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "required": list(fields), "properties": dict(fields)}


_TAG = re.compile(r"<(?=\s*/?\s*(?:memories|facts)\b)", re.IGNORECASE)


@cache
def _file(name: str) -> str:
    return (files("cofio.providers.prompts") / f"{name}.md").read_text(encoding="utf-8").strip()
