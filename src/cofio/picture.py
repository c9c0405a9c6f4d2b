"""The words of what people look at: the store over time, who is at work with it, and memories as points of a map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Occasion = Literal["start", "prompt"]
#: What may have moved, as those who watch are told.
MOVES = ("memories", "recalls", "inbox")
#: That an overview tells of.
MOST_DAYS = 366


class Injection(NamedTuple):
    """Something was put before an agent, or was looked for in vain: tokens and memories are 0 then."""

    at: str
    caller: str
    occasion: Occasion
    memories: int
    tokens: int


class Arrived(NamedTuple):
    """How many live memories of a category were said on a day; day "" for all before the first."""

    day: str
    category: str
    count: int  # type: ignore[assignment]  # a tuple has a method of that name


class Injected(NamedTuple):
    """What was put before agents on a day."""

    day: str
    prompts: int  # at which anything was looked for
    answered: int  # of those, to which something was added
    starts: int  # of sessions
    memories: int
    tokens: int


class Agent(NamedTuple):
    """Someone who is at work with the store: the client, or the agent, by the name that it gives itself."""

    name: str
    memories: int  # live ones that came from it
    kept_at: str | None  # the last
    recalls: int  # memories that it was given, in what is still in the log
    recalled_at: str | None


class Kept(NamedTuple):
    """What keeps the memories, and how it stands."""

    name: str  # sqlite, postgresql
    bytes: int
    embedder: str | None
    vectors: int
    waiting: int  # memories that have no vector yet


class Pulse(NamedTuple):
    """Numbers that rise when something moves: two alike, and nothing has."""

    changeset: int
    retrieval: int
    inbox: tuple[int, ...]  # captures by where they stand

    def moved(self, since: Pulse) -> list[str]:
        """What has moved since: some of MOVES, in that order."""
        pairs = zip(MOVES, self, since, strict=True)
        return [name for name, now, before in pairs if now != before]


class Dots(NamedTuple):
    """Live memories with vectors, newest first, column by column; the texts are only how they begin."""

    ids: Sequence[int]
    vectors: NDArray[np.float32]
    texts: Sequence[str]
    categories: Sequence[str]
    projects: Sequence[str]
    created: Sequence[str]
    total: int  # how many there are, with those that were left out


class Cluster(NamedTuple):
    """Memories that lie together, by the words that tell them apart from the rest."""

    words: tuple[str, ...]
    x: int
    y: int
    count: int  # type: ignore[assignment]


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    """Memories as points of a square of SIDE by SIDE, near each other where they mean alike."""

    dots: Dots
    x: Sequence[int] = ()
    y: Sequence[int] = ()
    cluster: Sequence[int] = ()  # of each point, its place in `clusters`; -1 for none
    clusters: Sequence[Cluster] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values: columns, with categories and projects as places in their lists."""
        categories, projects = sorted(set(self.dots.categories)), sorted(set(self.dots.projects))
        return {
            "total": self.dots.total,
            "side": SIDE,
            "categories": categories,
            "projects": projects,
            "clusters": [each._asdict() for each in self.clusters],
            "points": {
                "id": list(self.dots.ids),
                "x": list(self.x),
                "y": list(self.y),
                "cluster": list(self.cluster),
                "category": _places(self.dots.categories, categories),
                "project": _places(self.dots.projects, projects),
                "created_at": list(self.dots.created),
                "text": list(self.dots.texts),
            },
        }


SIDE = 10_000
#: Memories of a map.
MOST_DOTS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """How the store stands and what went on lately. What a viewer may not know is None."""

    at: str
    live: int
    archived: int
    days: Sequence[str]  # the days that are told of, oldest first; the last is today
    arrived: Sequence[Arrived] = ()
    done_today: Mapping[str, int] | None = None  # changes by action
    injected: Sequence[Injected] | None = None
    store: Kept | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "at": self.at,
            "live": self.live,
            "archived": self.archived,
            "days": list(self.days),
            "arrived": [each._asdict() for each in self.arrived],
            "done_today": None if self.done_today is None else dict(self.done_today),
            "injected": None if self.injected is None else [each._asdict() for each in self.injected],
            "store": None if self.store is None else self.store._asdict(),
        }


def _places(values: Sequence[str], among: Sequence[str]) -> list[int]:
    place = {each: number for number, each in enumerate(among)}
    return [place[each] for each in values]
