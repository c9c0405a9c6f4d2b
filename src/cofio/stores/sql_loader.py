"""SQL files of the dialects: named queries, the schema and numbered migrations."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


@cache
def queries(dialect: str) -> dict[str, str]:
    """Return the queries of the dialect by name."""
    _, *parts = _NAME.split(_read(dialect, "queries.sql"))
    return {name: text.strip().rstrip(";") for name, text in zip(parts[::2], parts[1::2], strict=True)}


def schema(dialect: str) -> str:
    """Return the schema after the last migration."""
    return _read(dialect, "schema.sql")


@cache
def migrations(dialect: str) -> tuple[tuple[int, str], ...]:
    """Return the migrations in order, each with its number; the last number is the schema version."""
    folder = files("cofio.stores") / "sql" / dialect / "migrations"
    numbered = sorted((int(path.name.split("_")[0]), path) for path in folder.iterdir() if path.name.endswith(".sql"))
    return tuple((number, path.read_text(encoding="utf-8")) for number, path in numbered)


def _read(dialect: str, name: str) -> str:
    return (files("cofio.stores") / "sql" / dialect / name).read_text(encoding="utf-8")
