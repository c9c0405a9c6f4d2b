"""Dashboard statistics in an SQL store: counts by day, active agents, memories with their vectors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import starmap
from typing import Any

import numpy as np

from cofio.models.dashboard import Agent, ChangeCounters, DailyCount, Injection, InjectionCount, MapSource
from cofio.models.memory import Scope, to_utc_iso
from cofio.ports import Matrix
from cofio.stores.query_runner import BRIEFLY, SqlAdapter

_BESIDE = " · "  # separates the name of the caller's key from the name that it sends
_Row = tuple[Any, ...]


class SqlDashboardQueries(SqlAdapter):
    """Dashboard statistics of an SQL store, without `dots`."""

    def arrived(self, since: str, scope: Scope) -> list[DailyCount]:
        rows = self._read_within(live_scope(scope), "arrived", {"first": day(since)})
        return list(starmap(DailyCount, rows))

    def done(self, since: str) -> dict[str, int]:
        return dict(self._read("done", {"since": to_utc_iso(since)}))

    def inject(self, injections: Sequence[Injection]) -> None:
        if injections:
            with self._database.writing(BRIEFLY) as queries:  # log writes do not block
                queries.many("inject", [injection._asdict() for injection in injections])

    def injected(self, since: str) -> list[InjectionCount]:
        return list(starmap(InjectionCount, self._read("injection_counts", {"since": day(since)})))

    def forget_injected(self, before: str) -> int:
        return self._delete_before("forget_injections", before)

    def agents(self, limit: int) -> list[Agent]:
        with self._database.reading() as queries:
            return to_agents(queries.all("keepers"), queries.all("askers"), limit)

    def pulse(self) -> ChangeCounters:
        return to_pulse(self._read("pulse")[0])


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
