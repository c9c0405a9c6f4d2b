"""Dashboard statistics on the server: memories with their vectors."""

from __future__ import annotations

from cofio.models.dashboard import MapSource
from cofio.models.memory import Scope
from cofio.stores.dashboard import NO_DOTS, SqlDashboardQueries, live_scope, to_dots
from cofio.stores.filters import POSTGRES, condition
from cofio.stores.postgres.connection import PostgresServer
from cofio.stores.postgres.vector_search import to_matrix


class PostgresDashboardQueries(SqlDashboardQueries):
    """Dashboard statistics of one tenant of a PostgreSQL database."""

    def __init__(self, server: PostgresServer) -> None:
        super().__init__(server)
        self._server = server

    def dots(self, scope: Scope, most: int, characters: int) -> MapSource:
        where, values = condition(live_scope(scope), POSTGRES)
        with self._server.reading() as rows:
            dots = rows.in_bytes("dots", {**values, "characters": characters, "most": most}, where=where)
            if not dots:
                return NO_DOTS
            total = len(dots) if len(dots) < most else int(rows.value("count_dots", values, where=where))
        return to_dots([row[:-1] for row in dots], to_matrix([row[-1] for row in dots]), total)
