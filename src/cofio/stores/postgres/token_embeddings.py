"""Token embeddings of memories for re-ranking, on the server."""

from __future__ import annotations

from collections.abc import Sequence

from cofio.models.memory import Memory
from cofio.stores.postgres.connection import BRIEFLY, PostgresServer
from cofio.stores.postgres.row_writer import storable_ids
from cofio.stores.row_mapping import LISTED, to_memory
from cofio.stores.token_embeddings import columns_of


class PostgresTokenEmbeddings:
    """Readings of one tenant of a PostgreSQL database."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server

    def set_signature(self, signature: str) -> None:
        with self._server.reading() as rows:
            if rows.all("reader")[0][0] == signature:
                return
        with self._server.writing(alone=True) as rows:
            if rows.all("reader")[0][0] == signature:
                return  # another process was faster, and may have stored some already
            rows.run("drop_readings")
            rows.run("unread_all")
            rows.run("set_meta", {"name": "reader", "value": signature})

    def get(self, ids: Sequence[int], by: str) -> dict[int, bytes]:
        with self._server.reading() as rows:
            return {
                memory_id: bytes(words)
                for memory_id, words in rows.all("readings", {"ids": storable_ids(ids), "by": by})
            }

    def unread(self, limit: int) -> list[Memory]:
        with self._server.reading() as rows:
            return [to_memory(row) for row in rows.all("unread", {"limit": limit}, columns=LISTED)]

    def put(self, readings: Sequence[tuple[Memory, bytes]], by: str) -> bool:
        # Alone: otherwise a memory that is being changed would be marked as read, with the reading of its old text.
        with self._server.writing(BRIEFLY, alone=True) as rows:  # deferrable: writers of facts go first
            if rows.all("reader")[0][0] != by:
                return False
            rows.many("put_reading", [columns_of(memory, words) for memory, words in readings])
            rows.many("mark_read", [{"id": memory.id} for memory, _ in readings])
            return True

    def counts(self) -> tuple[int, int]:
        with self._server.reading() as rows:
            read, unread = rows.all("count_readings")[0]
        return read, unread
