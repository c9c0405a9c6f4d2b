"""The server store: PostgreSQL with pgvector, for many processes, machines and people.

apply ─▶ one transaction, one writer of a tenant at a time (rows + words + vectors + journal)
nearest, matching ─▶ found, weighed and narrowed by the server: nothing to catch up with
"""

from cofio.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
