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
from cofio.stores.in_memory.store import InboxState
from cofio.stores.sqlite.dashboard import day, live_scope, to_agents, to_dots, to_pulse


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
        counts = Counter((said if said >= day(since) else "", category) for said, category in days)
        return [DailyCount(*each, count) for each, count in sorted(counts.items())]

    def done(self, since: str) -> dict[str, int]:
        with self._holding() as held:
            at = {changeset.id: changeset.at for changeset in held.changesets}
            actions = [entry.action for entry in held.entries if at[entry.changeset] >= to_utc_iso(since)]
        return dict(sorted(Counter(action for action in actions if action != "noop").items()))

    def inject(self, injections: Sequence[Injection]) -> None:
        self._injections += injections
        self._noted += len(injections)

    def injected(self, since: str) -> list[InjectionCount]:
        days = sorted({injection.at[:10] for injection in self._injections if injection.at[:10] >= day(since)})
        return [
            _summed(said, [injection for injection in self._injections if injection.at[:10] == said]) for said in days
        ]

    def forget_injected(self, before: str) -> int:
        kept = [injection for injection in self._injections if injection.at >= to_utc_iso(before)]
        gone, self._injections = len(self._injections) - len(kept), kept
        return gone

    def agents(self, limit: int) -> list[Agent]:
        kept: dict[str, list[str]] = {}
        for memory in self._inside(Scope()):
            kept.setdefault(memory.source.partition("/")[0], []).append(memory.created_at)
        with self._holding() as held:
            recalls = Counter(retrieval.caller for retrieval in held.retrievals)
            times = [(retrieval.at, retrieval.caller) for retrieval in held.retrievals]
        asked = {
            caller: at
            for at, caller in sorted([*times, *((injection.at, injection.caller) for injection in self._injections)])
        }
        givers = [(name, len(said), max(said)) for name, said in kept.items()]
        takers = [(name, recalls[name], last) for name, last in asked.items() if name]
        return to_agents(givers, takers, limit)

    def pulse(self) -> ChangeCounters:
        with self._holding() as held:
            items = held.captures.items.values()
            waiting = [sum(item.state == state for item in items) for state in ("pending", "parked")]
            ended = max((item.finished_at or "" for item in items if item.state in SETTLED), default="")
            noted = len(held.retrievals) + self._noted
            return to_pulse((len(held.changesets), noted, len(items), *waiting, ended))

    def dots(self, scope: Scope, most: int, characters: int) -> MapSource:
        with self._holding() as held:
            there = sorted((m for m in self._inside(live_scope(scope)) if m.id in held.vectors), key=lambda m: -m.id)
            shown = there[:most]
            rows = [(m.id, m.text[:characters], m.category, m.project, m.created_at) for m in shown]
            vectors = [np.frombuffer(held.vectors[m.id], "<f4") for m in shown]
        return to_dots(rows, np.array(vectors, np.float32), len(there))


def _summed(said: str, those: Sequence[Injection]) -> InjectionCount:
    prompts = [each for each in those if each.occasion == "prompt"]
    answered = sum(prompt.tokens > 0 for prompt in prompts)
    sums = sum(each.memories for each in those), sum(each.tokens for each in those)
    return InjectionCount(said, len(prompts), answered, len(those) - len(prompts), *sums)
