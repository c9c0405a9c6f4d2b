"""Token embeddings of memories for re-ranking, in the SQLite file and in the fake store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cofio.models.memory import Memory
from cofio.stores.row_mapping import LISTED, as_json, to_memory
from cofio.stores.sql_loader import queries
from cofio.stores.sqlite.connection import BRIEFLY, StoreFile

_SQL = queries("sqlite")


class SqliteTokenEmbeddings:
    """Readings of an SQLite file."""

    def __init__(self, file: StoreFile) -> None:
        self._file = file

    def set_signature(self, signature: str) -> None:
        with self._file.reading() as connection:
            if connection.execute(_SQL["reader"]).fetchone()[0] == signature:
                return
        with self._file.writing() as connection:
            if connection.execute(_SQL["reader"]).fetchone()[0] == signature:
                return  # another process was faster, and may have stored some already
            for name in ("drop_readings", "unread_all"):
                connection.execute(_SQL[name])
            connection.execute(_SQL["set_meta"], {"name": "reader", "value": signature})

    def get(self, ids: Sequence[int], by: str) -> dict[int, bytes]:
        with self._file.reading() as connection:
            return dict(connection.execute(_SQL["readings"], {"ids": as_json(list(ids)), "by": by}).fetchall())

    def unread(self, limit: int) -> list[Memory]:
        with self._file.reading() as connection:
            rows = connection.execute(_SQL["unread"].format(columns=LISTED), (limit,)).fetchall()
        return [to_memory(row) for row in rows]

    def put(self, readings: Sequence[tuple[Memory, bytes]], by: str) -> bool:
        with self._file.writing(BRIEFLY) as connection:  # deferrable: writers of facts go first
            if connection.execute(_SQL["reader"]).fetchone()[0] != by:
                return False
            connection.executemany(_SQL["put_reading"], [columns_of(memory, words) for memory, words in readings])
            connection.executemany(_SQL["mark_read"], [{"id": memory.id} for memory, _ in readings])
            return True

    def counts(self) -> tuple[int, int]:
        with self._file.reading() as connection:
            read, unread = connection.execute(_SQL["count_readings"]).fetchone()
        return read, unread


class FakeTokenEmbeddings:
    """Readings of the fake store."""

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
