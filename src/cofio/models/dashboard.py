"""Value types of the dashboard: counts over time, active agents, and memories as points on a map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from cofio.models.json_values import JsonFields

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Occasion = Literal["start", "prompt"]
#: Kinds of changes that watchers are notified about.
MOVES = ("memories", "recalls", "inbox")
#: Maximum number of days in an overview.
MOST_DAYS = 366


class Injection(NamedTuple):
    """Context injected for an agent; tokens and memories are 0 if nothing was found."""

    at: str
    caller: str
    occasion: Occasion
    memories: int
    tokens: int


class DailyCount(NamedTuple):
    """Number of live memories of a category created on a day; day "" counts all before the first day."""

    day: str
    category: str
    count: int  # type: ignore[assignment]  # shadows tuple.count


class InjectionCount(NamedTuple):
    """Context injections of a day."""

    day: str
    prompts: int  # prompts with a recall
    answered: int  # of those, prompts with injected context
    starts: int  # session starts
    memories: int
    tokens: int


class Agent(NamedTuple):
    """Client or agent that uses the store, by its own name."""

    name: str
    memories: int  # live memories from it
    kept_at: str | None  # time of the newest one
    recalls: int  # memories recalled for it, as far as the log goes back
    recalled_at: str | None


class StoreState(NamedTuple):
    """Store backend, its size and its vectors."""

    name: str  # sqlite, postgresql
    bytes: int
    embedder: str | None
    vectors: int
    waiting: int  # memories without a vector


class ChangeCounters(NamedTuple):
    """Counters that increase with every change: equal values mean nothing has changed."""

    changeset: int
    retrieval: int
    inbox: tuple[int, ...]  # captures by state

    def moved(self, since: ChangeCounters) -> list[str]:
        """Return the kinds of changes since `since`, in the order of MOVES."""
        pairs = zip(MOVES, self, since, strict=True)
        return [name for name, now, before in pairs if now != before]


class MapSource(NamedTuple):
    """Live memories with vectors, newest first, as columns; texts are truncated."""

    ids: Sequence[int]
    vectors: NDArray[np.float32]
    texts: Sequence[str]
    categories: Sequence[str]
    projects: Sequence[str]
    created: Sequence[str]
    total: int  # number of memories, including those left out


class Cluster(NamedTuple):
    """Group of nearby memories, named by its distinctive words."""

    words: tuple[str, ...]
    x: int
    y: int
    count: int  # type: ignore[assignment]


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    """Memories as points on a square of SIDE by SIDE; similar memories are close."""

    dots: MapSource
    x: Sequence[int] = ()
    y: Sequence[int] = ()
    cluster: Sequence[int] = ()  # per point, the index in `clusters`; -1 for none
    clusters: Sequence[Cluster] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values: columns, with categories and projects as indexes into their lists."""
        categories, projects = sorted(set(self.dots.categories)), sorted(set(self.dots.projects))
        return {
            "total": self.dots.total,
            "side": SIDE,
            "categories": categories,
            "projects": projects,
            "clusters": [cluster._asdict() for cluster in self.clusters],
            "points": {
                "id": list(self.dots.ids),
                "x": list(self.x),
                "y": list(self.y),
                "cluster": list(self.cluster),
                "category": _find_places(self.dots.categories, categories),
                "project": _find_places(self.dots.projects, projects),
                "created_at": list(self.dots.created),
                "text": list(self.dots.texts),
            },
        }


SIDE = 10_000
#: Maximum number of memories on a map.
MOST_DOTS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview(JsonFields):
    """Dashboard summary of the store. Fields that a viewer may not see are None."""

    at: str
    live: int
    archived: int
    days: Sequence[str]  # days covered, oldest first; the last is today
    arrived: Sequence[DailyCount] = ()
    done_today: Mapping[str, int] | None = None  # changes by action
    injected: Sequence[InjectionCount] | None = None
    store: StoreState | None = None


def _find_places(values: Sequence[str], among: Sequence[str]) -> list[int]:
    place = {value: number for number, value in enumerate(among)}
    return [place[value] for value in values]
