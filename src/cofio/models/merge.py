"""Rules for merging memories: which one is kept, and what it takes over from the others.

    archived in favour of a duplicate ──── quality_key, absorb ─┐
    replaced by a model's wording ──────── merge_fact, absorb ──┼─▶ one memory
    replaced by a newer statement ──────── inherit_tags ────────┘

Pure functions. Maintenance and ingestion decide by them, and the stores apply them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cofio.models.memory import CATEGORIES, MAX_LABELS, Anchor, Fact, Memory
from cofio.models.provenance import least_trusted


def join_labels(*labels: Sequence[str]) -> tuple[str, ...]:
    """Return tags or entities of several memories, each once, in order."""
    return tuple(dict.fromkeys(label for group in labels for label in group))[:MAX_LABELS]


def absorb(successor: Memory, members: Sequence[Memory]) -> Memory:
    """Return the memory with the occurrences and tags of others that it represents from now on."""
    occurrences = successor.occurrences + sum(member.occurrences for member in members)
    return replace(
        successor, occurrences=occurrences, tags=join_labels(successor.tags, *(member.tags for member in members))
    )


def inherit_tags(fact: Fact, memory: Memory) -> Fact:
    """Return the fact with the tags of the memory that it replaces."""
    return replace(fact, tags=join_labels(fact.tags, memory.tags))


def quality_key(memory: Memory) -> tuple[bool, int, float, int, int]:
    """Return the sort key by which the best of several duplicates is chosen."""
    # Prefer pinned, often seen and recalled, confident and long memories; then the oldest, whose id may be referenced.
    uses = memory.occurrences + memory.retrieval_count
    return memory.pinned, uses, memory.confidence, len(memory.text), -memory.id


def merge_fact(text: str, members: Sequence[Memory], category: str = "") -> Fact:
    """Return the merged text as a fact of the place that its members share."""
    newest = max(members, key=lambda memory: (memory.created_at, memory.id))
    category = min((name for name in (category, *(m.category for m in members)) if name), key=CATEGORIES.index)
    kinds = [memory.kind for memory in members if memory.category == category] or [newest.kind]
    return Fact(
        text=text,
        source=_common_source([memory.source for memory in members]) or newest.source,
        project=newest.project,
        kind=max(kinds, key=kinds.count),
        category=category,
        confidence=min(memory.confidence for memory in members),
        method="llm",
        entities=join_labels(*(memory.entities for memory in members)),
        tags=join_labels(*(memory.tags for memory in members)),
        session=newest.session if len({memory.session for memory in members}) == 1 else "",
        agent=newest.agent,
        user=newest.user,
        team=newest.team,
        visibility=newest.visibility,
        metadata={"consolidated_from": [memory.id for memory in members]},
        speaker=newest.speaker,
        created_at=newest.created_at,
        anchors=_collect_anchors(members),
        provenance=least_trusted(*(memory.provenance for memory in members)),
    )


def _common_source(sources: Sequence[str]) -> str:
    """Return the common source of all members, or its common prefix."""
    parts = [source.split("/") for source in sources]
    depth = 0
    while all(len(part) > depth and part[depth] == parts[0][depth] for part in parts):
        depth += 1
    return "/".join(parts[0][:depth])


def _collect_anchors(members: Sequence[Memory]) -> tuple[Anchor, ...]:
    """Return the anchors of all members, as the newest of them saw each."""
    ordered = sorted(members, key=lambda memory: (memory.created_at, memory.id))
    return tuple(
        {(anchor.kind, anchor.name, anchor.path): anchor for memory in ordered for anchor in memory.anchors}.values()
    )
