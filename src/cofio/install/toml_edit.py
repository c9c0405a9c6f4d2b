"""Edits of TOML text: set, remove or restore a pair or a table, and keep every other byte.

The text is cut into statements of full lines; tomlkit changes the pair or table that they belong to. A table is its
header and the pairs below it, without the comments and blank lines after the last pair.
"""

from __future__ import annotations

import io
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from cofio.install.jsonc import MalformedConfig

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """A pair, a header, or a line without either. `path` is the whole path of a header, the first key of a pair."""

    source: str
    kind: Literal["pair", "header", "none"] = "none"
    path: Path = ()


def loads(text: str) -> dict[str, Any]:
    """Parse the text. Raise MalformedConfig if it is not TOML."""
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        raise MalformedConfig(str(error)) from error


def put(text: str, path: Path, pairs: Mapping[str, Any]) -> str:
    """Return the text with these pairs in a table, which is added at the end if missing. () is the top level."""
    table = _get_table(loads(text), path)
    if table == {**(table or {}), **pairs}:
        return text
    statements, newline = split_statements(text), "\r\n" if "\r\n" in text else "\n"
    place = _find_table(statements, path)
    if place is None and table is not None:
        raise MalformedConfig(f"{'.'.join(path)} is not written as a table of its own")
    place = place or slice(len(statements), len(statements))
    block = _update("".join(statement.source for statement in statements[place]), path, pairs)
    new = [Statement(block.replace("\r\n", "\n").replace("\n", newline))]
    gap = [Statement(newline)] if statements and place.start == place.stop else []
    statements[place] = [*new, *gap] if not path else [*gap, *new]
    return _join(text, statements)


def drop(text: str, path: Path) -> str:
    """Return the text without this top-level pair, or this table, the tables below it and the blank lines before."""
    statements = split_statements(text)
    while place := _find_pair(statements, path) or _find_table_below(statements, path):
        start, stop = place.start, place.stop
        if statements[start].kind == "pair":
            # the blank line below a pair at the start of the text is removed too
            stop += start == 0 and stop < len(statements) and _is_blank(statements[stop])
        else:
            start -= start > 0 and _is_blank(statements[start - 1])
        del statements[start:stop]
    return _join(text, statements)


def restore(text: str, path: Path, before: str) -> str:
    """Return the text with this top-level pair or table as it is in `before`, or without it if it is not there."""
    statements, previous = split_statements(text), split_statements(before)
    current = _find_pair(statements, path) or _find_table(statements, path)
    original = _find_pair(previous, path) or _find_table(previous, path)
    if original is None:
        return drop(text, path)
    if current is not None:
        statements[current] = previous[original]
    return _join(text, statements)


def split_statements(text: str) -> list[Statement]:
    """Return the statements in order. A value of several lines ends on the line with which it can be parsed."""
    loads(text)
    statements: list[Statement] = []
    source = ""
    for line in io.StringIO(text.removeprefix("\ufeff"), newline="\n"):
        source += line
        try:
            values: Any = tomllib.loads(source)
        except tomllib.TOMLDecodeError:
            continue
        if not source.lstrip().startswith("["):
            statements.append(Statement(source, "pair" if values else "none", tuple(values)))
        else:
            path: list[str] = []
            while isinstance(values, dict) and values:
                [(step, values)] = values.items()
                path.append(step)
            statements.append(Statement(source, "header", tuple(path)))
        source = ""
    return statements


def _find_pair(statements: list[Statement], path: Path) -> slice | None:
    pairs = enumerate(statements[_find_table(statements, ()) or slice(0)])
    return next((slice(n, n + 1) for n, statement in pairs if statement.path == path), None)


def _find_table(statements: list[Statement], path: Path) -> slice | None:
    """Return the place of a table; of the pairs before all headers, if the path is empty."""
    if not path:
        return slice(0, _find_end(statements, 0))
    places = (n for n, statement in enumerate(statements) if statement.kind == "header" and statement.path == path)
    return next((slice(n, _find_end(statements, n + 1)) for n in places), None)


def _find_table_below(statements: list[Statement], path: Path) -> slice | None:
    headers = (statement.path for statement in statements if statement.kind == "header")
    header = next((header for header in headers if header[: len(path)] == path), None)
    return _find_table(statements, header) if header else None


def _find_end(statements: list[Statement], start: int) -> int:
    """Return the end of the pairs before the next header."""
    end = start
    for number, statement in enumerate(statements[start:], start + 1):
        if statement.kind == "header":
            break
        end = number if statement.kind == "pair" else end
    return end


def _is_blank(statement: Statement) -> bool:
    return not statement.source.strip("\r\n")


def _get_table(values: Any, path: Path) -> dict[str, Any] | None:
    for step in path:
        values = values.get(step) if isinstance(values, dict) else None
    if values is not None and not isinstance(values, dict):
        raise MalformedConfig(f"{'.'.join(path)} is not a table")
    return values


def _update(source: str, path: Path, pairs: Mapping[str, Any]) -> str:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        document = tomlkit.parse(source)
        table: Any = document
        for step in path:
            table = table.setdefault(step, {})
        for name, value in pairs.items():
            if isinstance(value, Mapping):
                (inline := tomlkit.inline_table()).update(value)
                value = inline
            table[name] = value
        return document.as_string()
    except TOMLKitError as error:
        raise MalformedConfig(str(error)) from error


def _join(text: str, statements: list[Statement]) -> str:
    """Return the text of these statements, each on lines of its own."""
    newline = "\r\n" if "\r\n" in text else "\n"
    sources = [statement.source for statement in statements]
    ended = [source if source.endswith("\n") else source + newline for source in sources[:-1]]
    after = "\ufeff" * text.startswith("\ufeff") + "".join([*ended, *sources[-1:]])
    loads(after)
    return after
