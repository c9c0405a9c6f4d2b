"""Copies of a purged memory's words in other memories: labels that were inherited, previous texts, contexts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from cofio.models.memory import Memory


class PurgedTraces:
    """Words of a purged memory, to be removed from the memories that replaced it or that it replaced."""

    def __init__(self, purged: Memory, texts: Sequence[str], lineage: Collection[int], *, anybody: bool) -> None:
        """Initialise. Without `anybody`, contexts of memories of another owner stay."""
        self._purged, self._texts, self._lineage, self._anybody = purged, frozenset(texts), lineage, anybody
        self._words = "\n".join(texts).casefold()

    def remove_from(self, memory: Memory) -> Memory:
        """Return the memory without copies of the purged words."""
        owner = (self._purged.user, self._purged.user or self._purged.agent)
        is_own = self._anybody or (memory.user, memory.user or memory.agent) == owner
        if memory.supersedes == self._purged.id:
            memory = replace(memory, previous_text=None)
        if is_own and memory.context in self._texts:
            memory = replace(memory, context="")
        if memory.id in self._lineage:
            memory = replace(memory, entities=self._keep(memory.entities, memory), tags=self._keep(memory.tags, memory))
        return memory

    def _keep(self, labels: Sequence[str], memory: Memory) -> tuple[str, ...]:
        """Return the labels that the memory's own words explain, or that the purged words do not contain."""
        own = f"{memory.text}\n{memory.context}".casefold()
        return tuple(label for label in labels if label.casefold() in own or label.casefold() not in self._words)
