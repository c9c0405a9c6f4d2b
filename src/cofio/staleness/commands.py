"""Commands of a repository: the files that may define them, and their recipes."""

from __future__ import annotations

import json
import tomllib
from typing import Any

#: Files in which each tool looks for its commands, in lookup order.
_FILES = {
    "make": ("GNUmakefile", "makefile", "Makefile"),
    "just": ("justfile", "Justfile", ".justfile"),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), ("package.json",)),
}


def files(name: str) -> tuple[str, ...]:
    """Return the files that may define a command."""
    return _FILES.get(name.split()[0], ("pyproject.toml",))


def command_definition(content: bytes, name: str) -> str | None:
    """Return the recipe of a command in the file that defines it; None if the file has no such command."""
    tool, *words = name.split()
    text = content.decode("utf-8", "replace")
    if tool in ("make", "just"):
        return _rules(text, words[-1], tool) if words else None
    if tool in _FILES:
        return _script(text, words[-1]) if words else None
    return _entry_point(text, tool)


def _rules(text: str, target: str, tool: str) -> str | None:
    """Return every rule of the target: its line and the indented lines below."""
    kept: list[str] = []
    inside = False
    for line in text.splitlines():
        if line[:1] in ("\t", " "):
            kept += [line.rstrip()] if inside and line.strip() else []
        elif line.strip() and not line.startswith("#"):
            inside = _is_rule(line, target, tool)
            kept += [line.rstrip()] if inside else []
    return "\n".join(kept) if kept else None


def _is_rule(line: str, target: str, tool: str) -> bool:
    head, found, rest = line.partition(":")
    named = head.split() if tool == "make" else [each.lstrip("@") for each in head.split()[:1]]
    return bool(found) and not rest.startswith("=") and target in named and "=" not in named


def _script(text: str, name: str) -> str | None:
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return _text_at(told, "scripts", name)


def _entry_point(text: str, name: str) -> str | None:
    try:
        told = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return None
    return _text_at(told, "project", "scripts", name) or _text_at(told, "tool", "poetry", "scripts", name)


def _text_at(told: Any, *names: str) -> str | None:
    for name in names:
        told = told.get(name) if isinstance(told, dict) else None
    return told if isinstance(told, str) else None
