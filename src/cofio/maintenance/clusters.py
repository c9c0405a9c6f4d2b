"""Clusters of memories that may belong together: memories in one scope, around those with the most neighbours.

pages of memories ─▶ places of light entries ─ store.neighbours ─▶ near pairs ─▶ stars

A star is a memory with its neighbours. Chains are not followed: A near B and B near C says nothing about A and C. The
work runs beside searches, so it is done in short steps with a pause after each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from cofio.models.memory import Candidate, Memory, Scope, audience
from cofio.models.merge import quality_key
from cofio.ports import Journal, MemoryReader, MemorySearch
from cofio.text.code_literals import code_literals
from cofio.text.duplicates import LONG, content_words
from cofio.text.stemmer import stem

LARGEST = 12  # members of a cluster; larger ones are more than one or two facts
NEIGHBOURS = 16  # per memory; some of them may be in other clusters
SEGMENTS = 2  # of a source, to group memories without a project
_PAGE = 200
_STEP = 0.001  # seconds of work between two pauses

#: Project, source, speaker and audience, as far as they matter.
Place: TypeAlias = tuple[str, str, str, tuple[str, ...]]
#: Neighbours of each memory with their cosines, best first.
Near: TypeAlias = dict[int, list[Candidate]]
_Item = TypeVar("_Item")


class ClusterEntry(NamedTuple):
    """Light entry of a memory, kept while all memories are compared."""

    id: int
    text: str  # "" for a long text
    said: int  # equal for texts with the same words and signs
    words: frozenset[int]  # its words as numbers
    source: str  # "" within a project: only memories without a project are separated by source
    values: int  # equal for texts with the same numbers
    pinned: bool
    worth: tuple[bool, int, float, int, int]
    at: str


class Throttle:
    """Throttle: called between small pieces of work, it pauses for half as long as they took."""

    def __init__(self) -> None:
        self._since = time.thread_time()

    def __call__(self) -> None:
        worked = time.thread_time() - self._since
        if worked >= _STEP:
            time.sleep(worked / 2)
            self._since = time.thread_time()


def place_of(memory: Memory) -> Place:
    """Return the place of a memory: only memories in one scope are ever merged.

    Like `same_place`, except that for memories without a project only the first parts of the source count.
    """
    source = "" if memory.project else "/".join(memory.source.split("/")[:SEGMENTS])
    return memory.project, source, memory.speaker, audience(memory)


def group_by_place(store: MemoryReader, scope: Scope, halted: Callable[[], bool]) -> dict[Place, list[ClusterEntry]]:
    """Return all live memories of the scope, by place."""
    places: dict[Place, list[ClusterEntry]] = {}
    pace, after = Throttle(), None
    while not halted():
        memories, _ = store.page(scope, limit=_PAGE, after=after)
        for memory in memories:
            places.setdefault(place_of(memory), []).append(_build_entry(memory))
            pace()
        if len(memories) < _PAGE:
            break
        after = memories[-1].id
    return places


def near_pairs(
    store: MemorySearch, entries: Sequence[ClusterEntry], similarity: float, halted: Callable[[], bool]
) -> Near:
    """Return the neighbours of each of these entries."""
    near: Near = {}
    ids = [entry.id for entry in entries]
    for memory_id, candidates in store.neighbours(ids, similarity, NEIGHBOURS):  # this call throttles itself
        near[memory_id] = candidates
        if halted():
            break
    return near


def star_clusters(near: Mapping[int, Sequence[Candidate]], least: int) -> list[list[int]]:
    """Return disjoint groups of at least `least` ids: first the centre, then its neighbours, best first."""

    def rank(memory_id: int) -> tuple[int, float, int]:
        return -len(near[memory_id]), -sum(candidate.score for candidate in near[memory_id]), memory_id

    taken: set[int] = set()
    groups = []
    pace = Throttle()
    for centre in sorted(near, key=rank):
        if centre in taken:
            continue
        free = (candidate.id for candidate in near[centre] if candidate.id not in taken and candidate.id in near)
        members = [centre, *free][:LARGEST]
        if len(members) >= least:
            taken.update(members)
            groups.append(members)
        pace()
    return groups


def without_ids(near: Mapping[int, Sequence[Candidate]], left_out: Iterable[int]) -> Near:
    """Return the neighbours without these ids."""
    gone = set(left_out)
    return {
        memory_id: [candidate for candidate in candidates if candidate.id not in gone]
        for memory_id, candidates in near.items()
        if memory_id not in gone
    }


def rotate(items: Sequence[_Item], store: Journal) -> list[_Item]:
    """Return the items in an order that rotates with the store, so that rejected ones do not block the others."""
    start = store.newest_changeset() * 37 % len(items) if items else 0
    return [*items[start:], *items[:start]]


def _build_entry(memory: Memory) -> ClusterEntry:
    tokens = content_words(memory.text)
    return ClusterEntry(
        id=memory.id,
        text=memory.text if len(memory.text) <= LONG else "",
        said=hash((tokens, code_literals(memory.text))),
        words=frozenset(hash(stem(word)) & 0xFFFF_FFFF for word in tokens),
        source="" if memory.project else memory.source,
        values=hash(tuple(sorted(word for word in tokens if any(letter.isdigit() for letter in word)))),
        pinned=memory.pinned,
        worth=quality_key(memory),
        at=memory.created_at,
    )
