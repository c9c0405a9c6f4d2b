"""SQL files of the dialects: named queries, the schema and numbered migrations."""

from __future__ import annotations

import re
from collections.abc import Mapping
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


def query_text(dialect: str, name: str, parts: Mapping[str, str]) -> str:
    """Return a query of the dialect with these parts in its braces."""
    return _fill(dialect, name, tuple(parts.items())) if parts else queries(dialect)[name]


@lru_cache(maxsize=1024)
def _fill(dialect: str, name: str, parts: tuple[tuple[str, str], ...]) -> str:
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
    folders = ((_FOLDER / dialect / "migrations", 0), (_FOLDER / "migrations", _DIALECTS.index(dialect)))
    return tuple(
        sorted(
            (int(path.name.split("_")[part]), path.read_text(encoding="utf-8"))
            for folder, part in folders
            for path in (folder.iterdir() if folder.is_dir() else ())
            if path.name.endswith(".sql")
        )
    )


def _read(dialect: str, name: str) -> str:
    return (_FOLDER / dialect / name).read_text(encoding="utf-8")
