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
        return _find_rules(text, words[-1], tool) if words else None
    if tool in _FILES:
        return _find_script(text, words[-1]) if words else None
    return _find_entry_point(text, tool)


def _find_rules(text: str, target: str, tool: str) -> str | None:
    """Return every rule of the target: its line and the indented lines below."""
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        if line[:1] in ("\t", " "):
            lines += [line.rstrip()] if inside and line.strip() else []
        elif line.strip() and not line.startswith("#"):
            inside = _is_rule(line, target, tool)
            lines += [line.rstrip()] if inside else []
    return "\n".join(lines) if lines else None


def _is_rule(line: str, target: str, tool: str) -> bool:
    head, colon, rest = line.partition(":")
    targets = head.split() if tool == "make" else [word.lstrip("@") for word in head.split()[:1]]
    return bool(colon) and not rest.startswith("=") and target in targets and "=" not in targets


def _find_script(text: str, name: str) -> str | None:
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return _get_text(manifest, "scripts", name)


def _find_entry_point(text: str, name: str) -> str | None:
    try:
        manifest = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return None
    return _get_text(manifest, "project", "scripts", name) or _get_text(manifest, "tool", "poetry", "scripts", name)


def _get_text(value: Any, *names: str) -> str | None:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) else None
