"""SQL as source: named queries, the schema and numbered migrations, read from the .sql files of a dialect."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


@cache
def queries(dialect: str) -> dict[str, str]:
    """Every query of the dialect by its name."""
    _, *parts = _NAME.split(_read(dialect, "queries.sql"))
    return {name: text.strip().rstrip(";") for name, text in zip(parts[::2], parts[1::2], strict=True)}


def schema(dialect: str) -> str:
    """The schema as it stands after the last migration."""
    return _read(dialect, "schema.sql")


@cache
def migrations(dialect: str) -> tuple[tuple[int, str], ...]:
    """The migrations in order, each with its number; the last one's is the schema's version."""
    folder = files("cofio.stores") / "sql" / dialect / "migrations"
    named = sorted((int(each.name.split("_")[0]), each) for each in folder.iterdir() if each.name.endswith(".sql"))
    return tuple((number, each.read_text(encoding="utf-8")) for number, each in named)


def _read(dialect: str, name: str) -> str:
    return (files("cofio.stores") / "sql" / dialect / name).read_text(encoding="utf-8")
