"""Domain knowledge in the PostgreSQL database: the rules of every SQL store, in the server's dialect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from cofio.stores.filters import POSTGRES
from cofio.stores.knowledge import Asking, SqlDomain
from cofio.stores.postgres.connection import Rows, Server

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class PostgresAsking:
    """Pooled connection that runs the named queries for its tenant."""

    dialect = POSTGRES
    holds = "about ? {}"
    unlimited = None

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def all(self, name: str, values: Mapping[str, Any] = _NOTHING, **parts: str) -> list[tuple[Any, ...]]:
        return self._rows.all(name, values, **parts)

    def run(self, name: str, values: Mapping[str, Any] = _NOTHING, **parts: str) -> object:
        return self._rows.run(name, values, **parts)

    def listed(self, values: Sequence[Any]) -> list[Any]:
        return list(values)


class PostgresDomain(SqlDomain):
    """Domain of one tenant."""

    def __init__(self, server: Server) -> None:
        @contextmanager
        def reading() -> Iterator[Asking]:
            with server.reading() as rows:
                yield PostgresAsking(rows)

        super().__init__(reading)
