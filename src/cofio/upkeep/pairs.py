"""Pairs of memories of one place: those that say the same, and those that cannot both hold.

    live memories ─▶ Copies, by place ─ store.neighbours ─▶ the nearest pairs ─ relation ─▶ same | against

Somebody may have said of two that both hold. Then they are no such pair, for as long as both say what they said then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any, NamedTuple, TypeAlias

from cofio.model import Memory, Scope, audience
from cofio.ports import Store
from cofio.reconcile.compare import Comparer
from cofio.wording import fingerprint

Redact: TypeAlias = Callable[[str], str]
#: Told which part it is at, 1 for nearness and 2 for what is said, and how much of that is done of how much.
Moved: TypeAlias = Callable[[int, int, int], None]

NEAR = 0.75  # the cosine from which two memories are compared
NEIGHBOURS = 10  # of each memory
MOST_PAIRS = 3_000  # the nearest; some 6 ms each
AGREES = "agrees_with"  # in a memory's metadata: the ids of those that hold beside it, with a mark of what it said then
_PAGE = 1_000
_AT_ONCE = 500  # pairs


class Pair(NamedTuple):
    """Two memories of one place that say the same or exclude each other."""

    newer: int
    older: int
    cosine: float
    at: str  # when the newer was said
    reason: str


class Pairs(NamedTuple):
    """What was found, and a word on what was left out."""

    same: list[Pair]
    against: list[Pair]  # by when the newer was said, newest first
    note: str


@dataclass(slots=True)
class Copies:
    """The ids of memories by what they are compared by, so that they need not be held."""

    places: dict[tuple[Any, ...], int] = field(default_factory=dict)
    ids: dict[tuple[int, int], list[int]] = field(default_factory=dict)  # by place and fingerprint, newest first

    def note(self, memory: Memory) -> int:
        """The number of its place."""
        place = self.places.setdefault(_place(memory), len(self.places))
        self.ids.setdefault((place, fingerprint(memory.text)), []).append(memory.id)
        return place


def _place(memory: Memory) -> tuple[Any, ...]:
    """Equal for two memories when `same_place` says so."""
    return memory.project, "" if memory.project else memory.source, audience(memory), memory.speaker


def found(store: Store, redact: Redact, comparer: Comparer) -> Pairs:
    """The pairs among all live memories."""
    copies, after = Copies(), None
    while memories := store.page(Scope(), limit=_PAGE, after=after)[0]:
        after = memories[-1].id
        for memory in memories:
            copies.note(memory)
    return compared(store, copies, redact, comparer)


def compared(store: Store, copies: Copies, redact: Redact, comparer: Comparer, moved: Moved = lambda *_: None) -> Pairs:
    """The pairs among these. What their reasons quote holds no secret."""
    near = nlargest(MOST_PAIRS + 1, _near(store, copies, moved), key=lambda pair: (pair[2], -pair[0], -pair[1]))
    cut = len(near) > MOST_PAIRS
    chosen = sorted(near[:MOST_PAIRS])
    kinds: dict[str, list[Pair]] = {"same": [], "update": []}
    for start in range(0, len(chosen), _AT_ONCE):
        moved(2, start, len(chosen))
        for kind, pair in _judged(store, chosen[start : start + _AT_ONCE], redact, comparer):
            kinds[kind].append(pair)
    moved(2, 1, 1)
    kinds["update"].sort(key=lambda each: (each.at, each.newer, each.older), reverse=True)
    note = f"Only the {MOST_PAIRS:,} nearest pairs were compared; there are more." if cut else ""
    return Pairs(kinds["same"], kinds["update"], note)


def _near(store: Store, copies: Copies, moved: Moved) -> Iterator[tuple[int, int, float]]:
    """Pairs of one place that are near; of exact copies the newest stands for all."""
    places: dict[int, list[int]] = {}
    for (place, _), ids in copies.ids.items():
        places.setdefault(place, []).append(ids[0])
    total, done = sum(len(ids) for ids in places.values()), 0
    for ids in places.values():
        pairs: set[tuple[int, int]] = set()
        for one, near in store.neighbours(sorted(ids), NEAR, NEIGHBOURS) if len(ids) > 1 else ():
            for other, cosine in near:
                pair = (min(one, other), max(one, other))
                if pair not in pairs:
                    pairs.add(pair)
                    yield *pair, cosine
        done += len(ids)
        moved(1, done, total)


def _judged(
    store: Store, pairs: Sequence[tuple[int, int, float]], redact: Redact, comparer: Comparer
) -> Iterator[tuple[str, Pair]]:
    """What the newer of each pair is to the older, where it is something."""
    wanted = sorted({each for low, high, _ in pairs for each in (low, high)})
    memories = {each.id: each for each in store.get(wanted) if not each.archived}
    said = {each.id: _last_said(store, each) for each in memories.values()}
    for low, high, cosine in pairs:
        if low not in memories or high not in memories:
            continue  # gone meanwhile
        older, newer = sorted((low, high), key=lambda each: (said[each], each))
        one, other = memories[newer].text, memories[older].text
        verdict = comparer.compare(one, other, cosine)
        kind = "same" if verdict.kind == "same" else "update"
        if kind == "same" or (verdict.kind != "add" and not agree(memories[low], memories[high])):
            # The reason quotes from the texts, and out of them no secret is known for one.
            quotable = redact(one) == one and redact(other) == other
            yield kind, Pair(newer, older, cosine, said[newer], verdict.reason if quotable else "")


def _last_said(store: Store, memory: Memory) -> str:
    return store.sightings(memory.id)[-1].at if memory.occurrences > 1 else memory.created_at


# ── both hold ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def agree(one: Memory, other: Memory) -> bool:
    """Whether somebody said that both hold, and neither says anything else since."""
    return _agreed(one).get(str(other.id)) == _mark(one) and _agreed(other).get(str(one.id)) == _mark(other)


def agreeing(one: Memory, other: Memory) -> dict[str, Any]:
    """The metadata of the one with a note that the other holds beside it.

    The mark is of its own words: by one of the other's, what was purged could be guessed at for good.
    """
    return {**one.metadata, AGREES: {**_agreed(one), str(other.id): _mark(one)}}


def _agreed(memory: Memory) -> dict[str, Any]:
    noted = memory.metadata.get(AGREES)
    return noted if isinstance(noted, dict) else {}  # anybody may write metadata


def _mark(memory: Memory) -> str:
    return f"{fingerprint(memory.text) & (1 << 64) - 1:016x}"
