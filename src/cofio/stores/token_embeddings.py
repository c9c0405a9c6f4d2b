"""Token embeddings of memories for re-ranking, in an SQL store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cofio.models.memory import Memory
from cofio.stores.query_runner import BRIEFLY, SqlAdapter
from cofio.stores.row_mapping import LISTED, to_memory


class SqlTokenEmbeddings(SqlAdapter):
    """Token embeddings of an SQL store."""

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
        return dict(self._read_ids("readings", ids, {"by": by}))

    def unread(self, limit: int) -> list[Memory]:
        return list(map(to_memory, self._read("unread", {"limit": limit}, columns=LISTED)))

    def put(self, readings: Sequence[tuple[Memory, bytes]], by: str) -> bool:
        # Alone: otherwise a memory that is being changed would be marked as read, with the reading of its old text.
        with self._database.writing(BRIEFLY, alone=True) as queries:  # deferrable: writers of facts go first
            if queries.value("reader") != by:
                return False
            queries.many("put_reading", [columns_of(memory, words) for memory, words in readings])
            queries.many("mark_read", [{"id": memory.id} for memory, _ in readings])
            return True

    def counts(self) -> tuple[int, int]:
        read, unread = self._read("count_readings")[0]
        return read, unread


def columns_of(memory: Memory, words: bytes) -> dict[str, Any]:
    """Return a reading as values of columns, with the memory's words at the time of reading."""
    return {
        "id": memory.id,
        "words": words,
        **dict(zip(("text", "speaker", "context"), _get_texts(memory), strict=True)),
    }


def _get_texts(memory: Memory) -> tuple[str, str, str]:
    return memory.text, memory.speaker, memory.context
