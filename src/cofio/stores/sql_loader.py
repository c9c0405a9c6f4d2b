"""SQL files of the dialects: named queries, the schema and numbered migrations."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable

_FOLDER: Traversable = files("cofio.stores") / "sql"
_DIALECTS = ("sqlite", "postgres")
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


@cache
def queries(dialect: str) -> dict[str, str]:
    """Return the queries of the dialect by name."""
    _, *parts = _NAME.split(_read(dialect, "queries.sql"))
    return {name: text.strip().rstrip(";") for name, text in zip(parts[::2], parts[1::2], strict=True)}


@lru_cache(maxsize=1024)
def fill(dialect: str, name: str, parts: tuple[tuple[str, str], ...]) -> str:
    """Return a query of the dialect with these parts in its braces."""
    return queries(dialect)[name].format(**dict(parts))


def schema(dialect: str) -> str:
    """Return the schema after the last migration."""
    return _read(dialect, "schema.sql")


@cache
def migrations(dialect: str) -> tuple[tuple[int, str], ...]:
    """Return the migrations in order, each with its number; the last number is the schema version.

    A migration with the same SQL in both dialects is one file, `migrations/SQLITE_POSTGRES_name.sql`, named by its
    number in each.
    """
    own = [(path, 0) for path in _list_sql(_FOLDER / dialect / "migrations")]
    shared = [(path, _DIALECTS.index(dialect)) for path in _list_sql(_FOLDER / "migrations")]
    numbered = ((int(path.name.split("_")[part]), path.read_text(encoding="utf-8")) for path, part in own + shared)
    return tuple(sorted(numbered))


def _list_sql(folder: Traversable) -> list[Traversable]:
    return [path for path in folder.iterdir() if path.name.endswith(".sql")] if folder.is_dir() else []


def _read(dialect: str, name: str) -> str:
    return (_FOLDER / dialect / name).read_text(encoding="utf-8")
