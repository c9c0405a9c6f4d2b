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
    try:
        if tool in _FILES:
            return _get_text(json.loads(text), "scripts", words[-1]) if words else None
        manifest = tomllib.loads(text)
    except (ValueError, RecursionError):
        return None
    return _get_text(manifest, "project", "scripts", tool) or _get_text(manifest, "tool", "poetry", "scripts", tool)


def _find_rules(text: str, target: str, tool: str) -> str | None:
    """Return every rule of the target: its line and the indented lines below."""
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        if line[:1] in ("\t", " "):
            lines += [line.rstrip()] if inside and line.strip() else []
        elif line.strip() and not line.startswith("#"):
            head, colon, after = line.partition(":")
            targets = head.split() if tool == "make" else [word.lstrip("@") for word in head.split()[:1]]
            inside = bool(colon) and not after.startswith("=") and target in targets and "=" not in targets
            lines += [line.rstrip()] if inside else []
    return "\n".join(lines) if lines else None


def _get_text(value: Any, *names: str) -> str | None:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) else None
