"""Domain knowledge in the PostgreSQL database: the rules of every SQL store, in the server's dialect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from cofio.stores.domain_knowledge import NamedQueries, SqlKnowledgeTables
from cofio.stores.filters import POSTGRES
from cofio.stores.postgres.connection import PostgresServer, TenantQueries

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class PostgresNamedQueries:
    """Pooled connection that runs the named queries for its tenant."""

    dialect = POSTGRES
    holds = "about ? {}"
    unlimited = None

    def __init__(self, rows: TenantQueries) -> None:
        self._rows = rows

    def all(self, name: str, values: Mapping[str, Any] = _NOTHING, **parts: str) -> list[tuple[Any, ...]]:
        return self._rows.all(name, values, **parts)

    def run(self, name: str, values: Mapping[str, Any] = _NOTHING, **parts: str) -> object:
        return self._rows.run(name, values, **parts)

    def listed(self, values: Sequence[Any]) -> list[Any]:
        return list(values)


class PostgresKnowledgeTables(SqlKnowledgeTables):
    """Domain of one tenant."""

    def __init__(self, server: PostgresServer) -> None:
        @contextmanager
        def reading() -> Iterator[NamedQueries]:
            with server.reading() as rows:
                yield PostgresNamedQueries(rows)

        super().__init__(reading)
