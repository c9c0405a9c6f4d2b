"""Dashboard statistics of the fake store in `cofio.testing`: plain and slow. For tests only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import numpy as np

from cofio.models.dashboard import Agent, ChangeCounters, DailyCount, Injection, InjectionCount, MapSource
from cofio.models.exchange import SETTLED
from cofio.models.memory import Changeset, Memory, Retrieval, Scope, to_utc_iso
from cofio.stores.apply import JournalEntry
from cofio.stores.dashboard import day, live_scope, to_agents, to_dots, to_pulse
from cofio.stores.in_memory.inbox import InboxState


class DashboardTables(Protocol):
    """Tables of the fake store needed for statistics."""

    @property
    def vectors(self) -> Mapping[int, bytes]: ...

    @property
    def entries(self) -> Sequence[JournalEntry]: ...

    @property
    def changesets(self) -> Sequence[Changeset]: ...

    @property
    def retrievals(self) -> Sequence[Retrieval]: ...

    @property
    def captures(self) -> InboxState: ...


class FakeDashboardQueries:
    """Pictures of a MemoryStore."""

    def __init__(
        self, holding: Callable[[], AbstractContextManager[DashboardTables]], inside: Callable[[Scope], list[Memory]]
    ) -> None:
        self._holding = holding
        self._inside = inside
        self._injections: list[Injection] = []
        self._noted = 0  # so far, deleted ones included

    def arrived(self, since: str, scope: Scope) -> list[DailyCount]:
        days = [(memory.created_at[:10], memory.category) for memory in self._inside(live_scope(scope))]
        counts = Counter((date if date >= day(since) else "", category) for date, category in days)
        return [DailyCount(*key, count) for key, count in sorted(counts.items())]

    def done(self, since: str) -> dict[str, int]:
        with self._holding() as tables:
            at = {changeset.id: changeset.at for changeset in tables.changesets}
            actions = [entry.action for entry in tables.entries if at[entry.changeset] >= to_utc_iso(since)]
        return dict(sorted(Counter(action for action in actions if action != "noop").items()))

    def inject(self, injections: Sequence[Injection]) -> None:
        self._injections += injections
        self._noted += len(injections)

    def injected(self, since: str) -> list[InjectionCount]:
        days = sorted({injection.at[:10] for injection in self._injections if injection.at[:10] >= day(since)})
        return [
            _sum_injections(date, [injection for injection in self._injections if injection.at[:10] == date])
            for date in days
        ]

    def forget_injected(self, before: str) -> int:
        remaining = [injection for injection in self._injections if injection.at >= to_utc_iso(before)]
        deleted, self._injections = len(self._injections) - len(remaining), remaining
        return deleted

    def agents(self, limit: int) -> list[Agent]:
        saved_by_agent: dict[str, list[str]] = {}
        for memory in self._inside(Scope()):
            saved_by_agent.setdefault(memory.source.partition("/")[0], []).append(memory.created_at)
        with self._holding() as tables:
            recalls = Counter(retrieval.caller for retrieval in tables.retrievals)
            times = [(retrieval.at, retrieval.caller) for retrieval in tables.retrievals]
        last_recalls = {
            caller: at
            for at, caller in sorted([*times, *((injection.at, injection.caller) for injection in self._injections)])
        }
        givers = [(name, len(dates), max(dates)) for name, dates in saved_by_agent.items()]
        takers = [(name, recalls[name], last) for name, last in last_recalls.items() if name]
        return to_agents(givers, takers, limit)

    def pulse(self) -> ChangeCounters:
        with self._holding() as tables:
            items = tables.captures.items.values()
            waiting = [sum(item.state == state for item in items) for state in ("pending", "parked")]
            ended = max((item.finished_at or "" for item in items if item.state in SETTLED), default="")
            retrievals = len(tables.retrievals) + self._noted
            return to_pulse((len(tables.changesets), retrievals, len(items), *waiting, ended))

    def dots(self, scope: Scope, most: int, characters: int) -> MapSource:
        with self._holding() as tables:
            memories = sorted(
                (m for m in self._inside(live_scope(scope)) if m.id in tables.vectors), key=lambda m: -m.id
            )
            newest = memories[:most]
            rows = [(m.id, m.text[:characters], m.category, m.project, m.created_at) for m in newest]
            vectors = [np.frombuffer(tables.vectors[m.id], "<f4") for m in newest]
        return to_dots(rows, np.array(vectors, np.float32), len(memories))


def _sum_injections(date: str, injections: Sequence[Injection]) -> InjectionCount:
    prompts = [injection for injection in injections if injection.occasion == "prompt"]
    answered = sum(prompt.tokens > 0 for prompt in prompts)
    sums = sum(injection.memories for injection in injections), sum(injection.tokens for injection in injections)
    return InjectionCount(date, len(prompts), answered, len(injections) - len(prompts), *sums)
