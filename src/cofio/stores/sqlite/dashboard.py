"""Dashboard statistics in the SQLite file: counts by day, active agents, memories with their vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cofio.models.dashboard import Agent, ChangeCounters, DailyCount, Injection, InjectionCount, MapSource
from cofio.models.memory import Scope, to_utc_iso
from cofio.ports import Matrix
from cofio.stores.filters import condition
from cofio.stores.row_mapping import as_json
from cofio.stores.sql_loader import queries
from cofio.stores.sqlite.connection import BRIEFLY, StoreFile
from cofio.stores.sqlite.vector_index import VectorIndex

_SQL = queries("sqlite")
_BESIDE = " · "  # separates the name of the caller's key from the name that it sends
_Row = tuple[Any, ...]


class SqliteDashboardQueries:
    """Pictures of an SQLite file; vectors come from the in-memory index."""

    def __init__(self, file: StoreFile, vectors: Callable[[], VectorIndex | None]) -> None:
        self._file = file
        self._vectors = vectors

    def arrived(self, since: str, scope: Scope) -> list[DailyCount]:
        where, values = condition(live_scope(scope))
        with self._file.reading() as connection:
            rows = connection.execute(_SQL["arrived"].format(where=where), {**values, "first": day(since)})
            return [DailyCount(*row) for row in rows]

    def done(self, since: str) -> dict[str, int]:
        with self._file.reading() as connection:
            return dict(connection.execute(_SQL["done"], {"since": to_utc_iso(since)}).fetchall())

    def inject(self, injections: Sequence[Injection]) -> None:
        if injections:
            with self._file.writing(BRIEFLY) as connection:  # log writes do not block
                connection.executemany(_SQL["inject"], [injection._asdict() for injection in injections])

    def injected(self, since: str) -> list[InjectionCount]:
        with self._file.reading() as connection:
            return [InjectionCount(*row) for row in connection.execute(_SQL["injected"], {"since": day(since)})]

    def forget_injected(self, before: str) -> int:
        with self._file.writing() as connection:
            return connection.execute(_SQL["forget_injections"], {"before": to_utc_iso(before)}).rowcount

    def agents(self, limit: int) -> list[Agent]:
        with self._file.reading() as connection:
            keepers, askers = (connection.execute(_SQL[name]).fetchall() for name in ("keepers", "askers"))
        return to_agents(keepers, askers, limit)

    def pulse(self) -> ChangeCounters:
        with self._file.reading() as connection:
            return to_pulse(connection.execute(_SQL["pulse"]).fetchone())

    def dots(self, scope: Scope, most: int, characters: int) -> MapSource:
        vectors = self._vectors()
        if vectors is None:
            return NO_DOTS
        where, values = condition(live_scope(scope))
        with self._file.reading() as connection:
            within = None
            if live_scope(scope).narrows:
                id_rows = connection.execute(_SQL["ids_of"].format(where=where), values)
                within = np.fromiter((row[0] for row in id_rows), np.int64)
            candidates = vectors.live(within)
            params = {**values, "characters": characters, "ids": as_json(candidates[:most].tolist())}
            rows = connection.execute(_SQL["dots"].format(where=where), params).fetchall()
        ids, matrix = vectors.many([row[0] for row in rows])
        drawn = set(ids.tolist())
        return to_dots([row for row in rows if row[0] in drawn], matrix, len(candidates))


NO_DOTS = MapSource((), np.empty((0, 0), np.float32), (), (), (), (), 0)


def live_scope(scope: Scope) -> Scope:
    """Return the scope without archived memories."""
    return replace(scope, include_archived=False) if scope.include_archived else scope


def day(since: str) -> str:
    """Return the day of this time."""
    return to_utc_iso(since)[:10]


def to_dots(rows: Sequence[_Row], vectors: Matrix, total: int) -> MapSource:
    """Convert rows (id, text, category, project, created_at) to columns, with their vectors."""
    if not rows:
        return NO_DOTS._replace(total=total)
    ids, texts, categories, projects, created = zip(*rows, strict=True)
    return MapSource(ids, vectors, texts, categories, projects, created, total)


def to_pulse(row: _Row) -> ChangeCounters:
    """Convert a row: latest changeset, retrievals, captures, pending, parked, time of the last settled."""
    changeset, retrieval, *inbox, finished = row
    return ChangeCounters(changeset, retrieval, (*inbox, int("".join(filter(str.isdigit, finished or "0")))))


def to_agents(keepers: Iterable[_Row], askers: Iterable[_Row], limit: int) -> list[Agent]:
    """Merge agents that stored memories with callers of recall (name, count, last time), latest first."""
    agents = {name: Agent(name, count, last, 0, None) for name, count, last in keepers if name}
    for caller, count, last in askers:
        name = caller.rpartition(_BESIDE)[2]
        agent = agents.get(name, Agent(name, 0, None, 0, None))
        when = max(last, agent.recalled_at or "")
        agents[name] = agent._replace(recalls=agent.recalls + count, recalled_at=when)
    by_name = sorted(agents.values(), key=lambda agent: agent.name)
    return sorted(by_name, key=lambda agent: max(agent.kept_at or "", agent.recalled_at or ""), reverse=True)[:limit]
