"""Pairs of memories in one scope: duplicates and contradictions.

    live memories ─▶ Copies, by place ─ store.neighbours ─▶ the nearest pairs ─ relation ─▶ same | against

A person may have marked both memories of a pair as valid. Then they are no contradiction as long as neither changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any, NamedTuple, TypeAlias

from cofio.ingest.reconcile.compare import Comparer
from cofio.models.memory import Memory, Scope, audience
from cofio.ports import MemoryReader, MemorySearch
from cofio.text.tokens import fingerprint

Redact: TypeAlias = Callable[[str], str]
#: Called with the part (1: neighbours, 2: comparison), the work done in it, and its total.
Moved: TypeAlias = Callable[[int, int, int], None]

NEAR = 0.75  # the cosine from which two memories are compared
NEIGHBOURS = 10  # of each memory
MOST_PAIRS = 3_000  # the nearest ones; about 6 ms each
DISMISSED = "compatible_with"  # in metadata: ids of memories that are valid too, each with a digest of this text
_PAGE = 1_000
_AT_ONCE = 500  # pairs


class MemoryPair(NamedTuple):
    """Pair of memories in one scope that are duplicates or contradict each other."""

    newer: int
    older: int
    cosine: float
    at: str  # when the newer was last stated
    reason: str


class Pairs(NamedTuple):
    """Pairs found, and a note on pairs left out."""

    same: list[MemoryPair]
    against: list[MemoryPair]  # by the time of the newer, newest first
    note: str


@dataclass(slots=True)
class DuplicateIndex:
    """Ids of memories by the keys of comparison, kept instead of the memories."""

    places: dict[tuple[Any, ...], int] = field(default_factory=dict)
    ids: dict[tuple[int, int], list[int]] = field(default_factory=dict)  # by place and fingerprint, newest first

    def note(self, memory: Memory) -> int:
        """Add the memory and return the number of its place."""
        source = "" if memory.project else memory.source  # a key that is equal where `same_place` is true
        key = memory.project, source, audience(memory), memory.speaker
        place = self.places.setdefault(key, len(self.places))
        self.ids.setdefault((place, fingerprint(memory.text)), []).append(memory.id)
        return place


def find_pairs(store: MemoryReader, redact: Redact, comparer: Comparer) -> Pairs:
    """Return the pairs among all live memories."""
    copies, after = DuplicateIndex(), None
    while memories := store.page(Scope(), limit=_PAGE, after=after)[0]:
        after = memories[-1].id
        for memory in memories:
            copies.note(memory)
    return compare_pairs(store, copies, redact, comparer)


def compare_pairs(
    store: MemoryReader, copies: DuplicateIndex, redact: Redact, comparer: Comparer, moved: Moved = lambda *_: None
) -> Pairs:
    """Return the pairs among these memories. Their reasons quote no secrets."""
    near = nlargest(MOST_PAIRS + 1, _find_near(store, copies, moved), key=lambda pair: (pair[2], -pair[0], -pair[1]))
    cut = len(near) > MOST_PAIRS
    chosen = sorted(near[:MOST_PAIRS])
    kinds: dict[str, list[MemoryPair]] = {"same": [], "update": []}
    for start in range(0, len(chosen), _AT_ONCE):
        moved(2, start, len(chosen))
        for kind, pair in _compare(store, chosen[start : start + _AT_ONCE], redact, comparer):
            kinds[kind].append(pair)
    moved(2, 1, 1)
    kinds["update"].sort(key=lambda pair: (pair.at, pair.newer, pair.older), reverse=True)
    note = f"Only the {MOST_PAIRS:,} nearest pairs were compared; there are more." if cut else ""
    return Pairs(kinds["same"], kinds["update"], note)


def _find_near(store: MemorySearch, copies: DuplicateIndex, moved: Moved) -> Iterator[tuple[int, int, float]]:
    """Yield near pairs of one place; of exact copies only the newest takes part."""
    places: dict[int, list[int]] = {}
    for (place, _), ids in copies.ids.items():
        places.setdefault(place, []).append(ids[0])
    total, count = sum(len(ids) for ids in places.values()), 0
    for ids in places.values():
        pairs: set[tuple[int, int]] = set()
        for first, near in store.neighbours(sorted(ids), NEAR, NEIGHBOURS) if len(ids) > 1 else ():
            for second, cosine in near:
                pair = (min(first, second), max(first, second))
                if pair not in pairs:
                    pairs.add(pair)
                    yield *pair, cosine
        count += len(ids)
        moved(1, count, total)


def _compare(
    store: MemoryReader, pairs: Sequence[tuple[int, int, float]], redact: Redact, comparer: Comparer
) -> Iterator[tuple[str, MemoryPair]]:
    """Yield the relation of the newer to the older memory of each pair, if there is one."""
    ids = sorted({memory_id for low, high, _ in pairs for memory_id in (low, high)})
    memories = {memory.id: memory for memory in store.get(ids) if not memory.archived}
    times = {
        memory.id: store.occurrences(memory.id)[-1].at if memory.occurrences > 1 else memory.created_at
        for memory in memories.values()
    }
    for low, high, cosine in pairs:
        if low not in memories or high not in memories:
            continue  # gone meanwhile
        older, newer = sorted((low, high), key=lambda memory_id: (times[memory_id], memory_id))
        new_text, old_text = memories[newer].text, memories[older].text
        verdict = comparer.compare(new_text, old_text, cosine)
        kind = "same" if verdict.kind == "same" else "update"
        if kind == "same" or (verdict.kind != "add" and not is_dismissed(memories[low], memories[high])):
            # The reason quotes from the texts, and a secret is not recognisable out of its context.
            quotable = redact(new_text) == new_text and redact(old_text) == old_text
            yield kind, MemoryPair(newer, older, cosine, times[newer], verdict.reason if quotable else "")


def is_dismissed(one: Memory, two: Memory) -> bool:
    """Return whether a person marked both as valid, and neither has changed since."""
    return all(
        _get_dismissed(memory).get(str(other.id)) == _digest(memory) for memory, other in ((one, two), (two, one))
    )


def mark_dismissed(one: Memory, other: Memory) -> dict[str, Any]:
    """Return the metadata of one memory with a note that the other is valid too.

    The note has a digest of its own text: one of the other text would allow guesses about it after a purge.
    """
    return {**one.metadata, DISMISSED: {**_get_dismissed(one), str(other.id): _digest(one)}}


def _get_dismissed(memory: Memory) -> dict[str, Any]:
    notes = memory.metadata.get(DISMISSED)
    return notes if isinstance(notes, dict) else {}  # clients may write any metadata


def _digest(memory: Memory) -> str:
    return f"{fingerprint(memory.text) & (1 << 64) - 1:016x}"
