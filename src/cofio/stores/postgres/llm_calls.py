"""Log of language-model calls on the server: all processes of a tenant share its daily limits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cofio.ports import Clock
from cofio.stores.domain_knowledge import NamedQueries
from cofio.stores.llm_calls import SqlLLMCalls
from cofio.stores.postgres.connection import PostgresServer
from cofio.stores.postgres.domain_knowledge import PostgresNamedQueries


class PostgresLLMCalls(SqlLLMCalls):
    """LLMCalls of one tenant of a PostgreSQL database."""

    def __init__(self, server: PostgresServer, clock: Clock) -> None:
        @contextmanager
        def reading() -> Iterator[NamedQueries]:
            with server.reading() as rows:
                yield PostgresNamedQueries(rows)

        @contextmanager
        def writing() -> Iterator[NamedQueries]:
            with server.writing() as rows:
                rows.lock("llm_calls")
                yield PostgresNamedQueries(rows)

        super().__init__(reading, writing, clock)
