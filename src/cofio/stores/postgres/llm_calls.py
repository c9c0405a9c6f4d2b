"""Log of language-model calls on the server: all processes of a tenant share its daily limits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cofio.ports import Clock
from cofio.stores.knowledge import Asking
from cofio.stores.llm_calls import SqlLLMCalls
from cofio.stores.postgres.connection import Server
from cofio.stores.postgres.knowledge import PostgresAsking


class PostgresLLMCalls(SqlLLMCalls):
    """LLMCalls of one tenant of a PostgreSQL database."""

    def __init__(self, server: Server, clock: Clock) -> None:
        @contextmanager
        def reading() -> Iterator[Asking]:
            with server.reading() as rows:
                yield PostgresAsking(rows)

        @contextmanager
        def writing() -> Iterator[Asking]:
            with server.writing() as rows:
                rows.lock("llm_calls")
                yield PostgresAsking(rows)

        super().__init__(reading, writing, clock)
