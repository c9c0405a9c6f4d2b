"""Token embeddings of memories for re-ranking, in an SQL store and in the fake store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cofio.models.memory import Memory
from cofio.stores.query_runner import BRIEFLY, Database
from cofio.stores.row_mapping import LISTED, to_memory


class SqlTokenEmbeddings:
    """Token embeddings of an SQL store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def set_signature(self, signature: str) -> None:
        with self._database.reading() as queries:
            if queries.value("reader") == signature:
                return
        with self._database.writing(alone=True) as queries:
            if queries.value("reader") == signature:
                return  # another process was faster, and may have stored some already
            queries.run("drop_readings")
            queries.run("unread_all")
            queries.run("set_meta", {"name": "reader", "value": signature})

    def get(self, ids: Sequence[int], by: str) -> dict[int, bytes]:
        with self._database.reading() as queries:
            return dict(queries.all("readings", {"ids": queries.ids(ids), "by": by}))

    def unread(self, limit: int) -> list[Memory]:
        with self._database.reading() as queries:
            return [to_memory(row) for row in queries.all("unread", {"limit": limit}, columns=LISTED)]

    def put(self, readings: Sequence[tuple[Memory, bytes]], by: str) -> bool:
        # Alone: otherwise a memory that is being changed would be marked as read, with the reading of its old text.
        with self._database.writing(BRIEFLY, alone=True) as queries:  # deferrable: writers of facts go first
            if queries.value("reader") != by:
                return False
            queries.many("put_reading", [columns_of(memory, words) for memory, words in readings])
            queries.many("mark_read", [{"id": memory.id} for memory, _ in readings])
            return True

    def counts(self) -> tuple[int, int]:
        with self._database.reading() as queries:
            read, unread = queries.all("count_readings")[0]
        return read, unread


class FakeTokenEmbeddings:
    """Token embeddings of the fake store."""

    def __init__(self, memories: Callable[[], Mapping[int, Memory]]) -> None:
        self._memories = memories
        self._signature = ""
        self._read: dict[int, tuple[tuple[str, str, str], bytes]] = {}

    def set_signature(self, signature: str) -> None:
        if signature != self._signature:
            self._signature, self._read = signature, {}

    def get(self, ids: Sequence[int], by: str) -> dict[int, bytes]:
        return {
            memory_id: self._read[memory_id][1]
            for memory_id in ids
            if by == self._signature and self._is_read(memory_id)
        }

    def unread(self, limit: int) -> list[Memory]:
        waiting = sorted((memory for memory in self._memories() if not self._is_read(memory)), reverse=True)
        return [self._memories()[memory_id] for memory_id in waiting[:limit]]

    def put(self, readings: Sequence[tuple[Memory, bytes]], by: str) -> bool:
        if by != self._signature:
            return False
        for memory, words in readings:
            if memory.id in self._memories() and _get_texts(self._memories()[memory.id]) == _get_texts(memory):
                self._read[memory.id] = _get_texts(memory), words
        return True

    def counts(self) -> tuple[int, int]:
        read = sum(map(self._is_read, self._memories()))
        return read, len(self._memories()) - read

    def _is_read(self, memory_id: int) -> bool:
        memory = self._memories().get(memory_id)
        return memory is not None and memory_id in self._read and self._read[memory_id][0] == _get_texts(memory)


def columns_of(memory: Memory, words: bytes) -> dict[str, Any]:
    """Return a reading as values of columns, with the memory's words at the time of reading."""
    return {
        "id": memory.id,
        "words": words,
        **dict(zip(("text", "speaker", "context"), _get_texts(memory), strict=True)),
    }


def _get_texts(memory: Memory) -> tuple[str, str, str]:
    return memory.text, memory.speaker, memory.context
