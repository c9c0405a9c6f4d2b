"""Duplicate memories: near pairs in, merge decisions out."""

from __future__ import annotations

from itertools import islice

from cofio.ingest.reconcile.compare import Comparer
from cofio.models.memory import Delete, Memory, Scope, same_place
from cofio.models.merge import quality_key
from cofio.ports import MemoryReader

_AT_ONCE = 2_000


def decide(store: MemoryReader, scope: Scope, threshold: float, comparer: Comparer) -> list[Delete]:
    """Merge each duplicate into the best memory that it repeats.

    Only direct pairs count: A≈B and B≈C do not make A≈C.
    """
    same: dict[int, dict[int, float]] = {}
    memories: dict[int, Memory] = {}
    pairs = iter(store.pairs(threshold, scope))
    while some := list(islice(pairs, _AT_ONCE)):
        missing = {memory_id for low, high, _ in some for memory_id in (low, high)} - memories.keys()
        memories.update((memory.id, memory) for memory in store.get(sorted(missing)))
        for low, high, cosine in some:
            if low in memories and high in memories and same_place(memories[low], memories[high]):
                same.setdefault(low, {})[high] = cosine
                same.setdefault(high, {})[low] = cosine
    decisions = []
    settled: set[int] = set()
    for best in sorted((memories[memory_id] for memory_id in same), key=quality_key, reverse=True):
        if best.id in settled:
            continue
        settled.add(best.id)
        for other, cosine in sorted(same[best.id].items()):
            if other in settled or memories[other].pinned:
                continue
            older, newer = sorted((memories[other], best), key=lambda memory: (memory.created_at, memory.id))
            if comparer.compare(newer.text, older.text, cosine).kind == "same":
                settled.add(other)
                reason = f"says the same as memory {best.id} (cosine {cosine:.3f})"
                decisions.append(Delete(other, reason, into=best.id))
    return decisions
