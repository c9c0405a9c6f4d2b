"""Statistics of an SQL store: counts by day, active agents, memories with their vectors, recalls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import starmap

import numpy as np

from cofio.models.dashboard import Agent, ChangeCounters, DailyCount, Injection, InjectionCount, MapSource
from cofio.models.maintenance import UsageTracking, View
from cofio.models.memory import Memory, Scope, to_utc_iso
from cofio.ports import Matrix
from cofio.stores.query_runner import BRIEFLY, Row, SqlAdapter
from cofio.stores.row_mapping import LISTED, to_memory

_BESIDE = " · "  # separates the name of the caller's key from the name that it sends
NO_DOTS = MapSource((), np.empty((0, 0), np.float32), (), (), (), (), 0)
#: The condition and the order of each view by usage.
_VIEWS: dict[View, tuple[str, str]] = {
    "never": ("retrieval_count = 0", "created_at, id"),
    "most": ("retrieval_count > 0", "retrieval_count DESC, last_retrieved_at DESC, id"),
    "stale": ("retrieval_count > 0 AND last_retrieved_at < {before}", "last_retrieved_at, id"),
}


class SqlDashboardQueries(SqlAdapter):
    """Dashboard statistics of an SQL store, without `dots`."""

    def arrived(self, since: str, scope: Scope) -> list[DailyCount]:
        rows = self._read_within(live_scope(scope), "arrived", {"first": to_utc_iso(since)[:10]})
        return list(starmap(DailyCount, rows))

    def done(self, since: str) -> dict[str, int]:
        return dict(self._read("done", {"since": to_utc_iso(since)}))

    def inject(self, injections: Sequence[Injection]) -> None:
        if injections:
            with self._database.writing(BRIEFLY) as queries:  # log writes do not block
                queries.many("inject", [injection._asdict() for injection in injections])

    def injected(self, since: str) -> list[InjectionCount]:
        return list(starmap(InjectionCount, self._read("injection_counts", {"since": to_utc_iso(since)[:10]})))

    def forget_injected(self, before: str) -> int:
        return self._delete_before("forget_injections", before)

    def agents(self, limit: int) -> list[Agent]:
        """Return agents that stored memories and callers of recall, latest first."""
        with self._reading() as queries:
            keepers, askers = queries.all("keepers"), queries.all("askers")
        agents = {name: Agent(name, count, last, 0, None) for name, count, last in keepers if name}
        for caller, count, last in askers:
            name = caller.rpartition(_BESIDE)[2]
            agent = agents.get(name, Agent(name, 0, None, 0, None))
            when = max(last, agent.recalled_at or "")
            agents[name] = agent._replace(recalls=agent.recalls + count, recalled_at=when)
        by_name = sorted(agents.values(), key=lambda agent: agent.name)
        by_time = sorted(by_name, key=lambda agent: max(agent.kept_at or "", agent.recalled_at or ""), reverse=True)
        return by_time[:limit]

    def pulse(self) -> ChangeCounters:
        changeset, retrieval, *inbox, finished = self._read("pulse")[0]
        return ChangeCounters(changeset, retrieval, (*inbox, int("".join(filter(str.isdigit, finished or "0")))))


def live_scope(scope: Scope) -> Scope:
    """Return the scope without archived memories."""
    return replace(scope, include_archived=False) if scope.include_archived else scope


def to_dots(rows: Sequence[Row], vectors: Matrix, total: int) -> MapSource:
    """Convert rows (id, text, category, project, created_at) to columns, with their vectors."""
    if not rows:
        return NO_DOTS._replace(total=total)
    ids, texts, categories, projects, created = zip(*rows, strict=True)
    return MapSource(ids, vectors, texts, categories, projects, created, total)


class SqlUsageQueries(SqlAdapter):
    """Usage statistics of an SQL store."""

    def view(self, view: View, scope: Scope, limit: int, before: str) -> list[Memory]:
        usage, order = _VIEWS[view]
        with self._reading() as queries:
            used = usage.format(before=queries.dialect.value.format("before"))
            values = {"limit": limit, "before": to_utc_iso(before)}
            rows = queries.within(scope, "view_of_use", values, columns=LISTED, used=used, order=order)
        return list(map(to_memory, rows))

    def tracking(self, since: str) -> UsageTracking:
        rows = self._read("tracking", {"since": to_utc_iso(since)})
        return UsageTracking(*rows[0]) if rows else UsageTracking(None, 0)

    def unused(self, category: str, before: str, limit: int) -> list[Memory]:
        values = {"category": category, "before": to_utc_iso(before), "limit": limit}
        return list(map(to_memory, self._read("unused", values, columns=LISTED)))

    def queries(self, ids: Sequence[int], limit: int) -> list[str]:
        return [row[0] for row in self._read_ids("queries_that_found", ids, {"limit": limit})]

    def touched(self, ids: Sequence[int], after: int, *, sightings: bool = True) -> set[int]:
        values = {"after": after, "besides": "" if sightings else "noop"}
        return {row[0] for row in self._read_ids("touched", ids, values)}

    def forget(self, before: str) -> int:
        return self._delete_before("forget_retrievals", before)
