"""The server store: PostgreSQL with pgvector, for many processes, machines and people.

apply ─▶ one transaction, one writer per tenant at a time (rows + words + vectors + journal)
nearest, matching ─▶ found, scored and narrowed by the server, always up to date
"""

from cofio.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
