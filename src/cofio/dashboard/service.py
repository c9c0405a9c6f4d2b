"""Dashboard queries: `keeper.dashboard`. Read-only.

store.dashboard ─▶ counts by day, active agents ─▶ Overview, [Agent] dots ─ layout ─▶ Map
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Unpack

from cofio.dashboard import projection
from cofio.dashboard.viewer_news import ViewerNews
from cofio.models.dashboard import MOST_DAYS, MOST_DOTS, Agent, ChangeCounters, Map, Overview, StoreState
from cofio.models.memory import Scope, ScopeKwargs, as_scope, check_int
from cofio.ports import Clock
from cofio.retrieval.log import RetrievalLog
from cofio.stores.access import Access
from cofio.stores.sqlite.blas import one_thread

_CHARACTERS = 120  # of each text on the map


class DashboardService:
    """Dashboard queries of a keeper, limited to what it may see."""

    def __init__(self, access: Access, clock: Clock, log: RetrievalLog, maps: projection.MapCache) -> None:
        self._store = access.store
        self._viewer = access.viewer
        self._clock = clock
        self._log = log
        self._maps = maps

    def overview(self, *, days: int = 30) -> Overview:
        """Return the state of the store and counts of the last `days` days, including today."""
        now = self._clock()
        today = datetime.fromisoformat(now).date()
        count = check_int(days, "days", least=1, most=MOST_DAYS)
        dates = [(today - timedelta(days=back)).isoformat() for back in reversed(range(count))]
        pictures = self._store.dashboard
        arrived = pictures.arrived(dates[0], Scope())
        if self._viewer:
            live = sum(row.count for row in arrived)
            everything = self._store.page(Scope(include_archived=True), limit=1)[1]
            return Overview(at=now, live=live, archived=max(0, everything - live), days=dates, arrived=arrived)
        self._log.flush_or_tell()
        stats = self._store.stats()
        live, archived, vectors = stats["memories"], stats["archived"], stats["vectors"]
        return Overview(
            at=now,
            live=live,
            archived=archived,
            days=dates,
            arrived=arrived,
            done_today=pictures.done(dates[-1]),
            injected=pictures.injected(dates[0]),
            store=StoreState(stats["store"], stats["bytes"], stats["embedder"], vectors, live + archived - vectors),
        )

    def agents(self, *, limit: int = 100) -> list[Agent]:
        """List the agents that use the store, the most recent first. Owner only."""
        self._log.flush_or_tell()
        return self._store.dashboard.agents(check_int(limit, "limit", least=1, most=1_000))

    def pulse(self) -> ChangeCounters:
        """Return counters that change with memories, recalls and the inbox. Cheap enough to poll every second."""
        self._log.flush_or_tell()
        return self._store.dashboard.pulse()

    def news(self) -> Callable[[ChangeCounters, ChangeCounters], list[str]]:
        """Return a function that names the kinds of changes between two states, as far as the caller may know them."""
        return ViewerNews(self._store).moved if self._viewer else lambda since, now: now.moved(since)

    def map(self, *, limit: int = MOST_DOTS, **scope: Unpack[ScopeKwargs]) -> Map:
        """Return the newest memories of a scope as points of a plane, without their vectors."""
        checked, count = as_scope(scope), check_int(limit, "limit", least=1, most=MOST_DOTS)

        def draw(before: projection.PreviousPositions | None) -> tuple[Map, projection.PreviousPositions]:
            dots = self._store.dashboard.dots(checked, count, _CHARACTERS)
            with one_thread():  # keeps the other cores free for searches
                return projection.redraw_map(dots, before)

        return self._maps.map((self._viewer, checked, count), self._store.newest_changeset(), draw)
