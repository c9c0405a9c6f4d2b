"""Dashboard statistics on the server: counts by day, active agents, memories with their vectors."""

from __future__ import annotations

from collections.abc import Sequence

from cofio.models.dashboard import Agent, ChangeCounters, DailyCount, Injection, InjectionCount, MapSource
from cofio.models.memory import Scope, to_utc_iso
from cofio.stores.filters import POSTGRES, condition
from cofio.stores.postgres.connection import BRIEFLY, PostgresServer
from cofio.stores.postgres.vector_search import to_matrix
from cofio.stores.sqlite.dashboard import NO_DOTS, day, live_scope, to_agents, to_dots, to_pulse

_FORGOTTEN = 10_000  # log rows deleted in one transaction


class PostgresDashboardQueries:
    """Pictures of one tenant of a PostgreSQL database."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server

    def arrived(self, since: str, scope: Scope) -> list[DailyCount]:
        where, values = condition(live_scope(scope), POSTGRES)
        with self._server.reading() as rows:
            return [DailyCount(*row) for row in rows.all("arrived", {**values, "first": day(since)}, where=where)]

    def done(self, since: str) -> dict[str, int]:
        with self._server.reading() as rows:
            return dict(rows.all("done", {"since": to_utc_iso(since)}))

    def inject(self, injections: Sequence[Injection]) -> None:
        if injections:
            with self._server.writing(BRIEFLY) as rows:  # log writes do not block
                rows.many("inject", [injection._asdict() for injection in injections])

    def injected(self, since: str) -> list[InjectionCount]:
        with self._server.reading() as rows:
            return [InjectionCount(*row) for row in rows.all("injected", {"since": day(since)})]

    def forget_injected(self, before: str) -> int:
        values = {"before": to_utc_iso(before), "limit": _FORGOTTEN}
        deleted = 0
        while True:
            with self._server.writing() as rows:
                count = rows.count("forget_injections", values)
            deleted += count
            if count < _FORGOTTEN:
                return deleted

    def agents(self, limit: int) -> list[Agent]:
        with self._server.reading() as rows:
            return to_agents(rows.all("keepers"), rows.all("askers"), limit)

    def pulse(self) -> ChangeCounters:
        with self._server.reading() as rows:
            return to_pulse(rows.all("pulse")[0])

    def dots(self, scope: Scope, most: int, characters: int) -> MapSource:
        where, values = condition(live_scope(scope), POSTGRES)
        with self._server.reading() as rows:
            dots = rows.in_bytes("dots", {**values, "characters": characters, "most": most}, where=where)
            if not dots:
                return NO_DOTS
            total = len(dots) if len(dots) < most else int(rows.value("count_dots", values, where=where))
        return to_dots([row[:-1] for row in dots], to_matrix([row[-1] for row in dots]), total)
