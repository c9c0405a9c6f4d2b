"""Fast bulk load of memories into PostgreSQL with COPY, in the format of the store itself.

    a first batch ─ keeper.add_all ─▶ a template row ┐
    texts, words, fingerprints ───────── COPY ───────┴─▶ memories, changesets, changes, and their indexes
    vectors, as the server sends them ── COPY ─────────▶ vectors; the store builds HNSW when it is opened

The store writes one row per statement, which takes almost an hour for a million. The later measurements (searches,
adds, resident memory) find the same rows either way: a test compares them. Indexes are built after the rows, as in a
restore, so they are slightly smaller than incrementally grown ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import psycopg

    from bench.vectors import Material
    from cofio.ports import Matrix

BATCH = 1_000  # memories per changeset
_CHUNK = 20_000  # vectors sent at a time
_HEADER = b"PGCOPY\n\xff\r\n\x00" + bytes(8)  # of COPY's binary format: no flags, no header extension
_TRAILER = b"\xff\xff"

_STAGING_TABLE = """
CREATE TEMPORARY TABLE staged (
    n bigint PRIMARY KEY, text text, source text, fingerprint bigint, said text, length integer
) ON COMMIT DROP
"""
_TEXT_COLUMNS = {  # columns that depend on the text; the others are copied from the template row
    "id": "m.id + n",
    "text": "staged.text",
    "source": "staged.source",
    "fingerprint": "staged.fingerprint",
    "said": "to_tsvector('cofio', staged.said)",
    "length": "staged.length",
}
_COLUMNS = """
SELECT column_name FROM information_schema.columns
WHERE table_name = 'memories' AND table_schema = current_schema() ORDER BY ordinal_position
"""
_INDEXES = """
SELECT indexname, indexdef FROM pg_indexes
WHERE tablename = 'memories' AND schemaname = current_schema() AND indexname <> 'memories_pkey'
"""
_CHANGESETS = """
INSERT INTO changesets (tenant, id, at, by, why, undoes, part_of)
SELECT tenant, id + series, at, by, why, undoes, id FROM changesets, generate_series(1, %(batches)s) AS series
WHERE id = %(changeset)s
"""
_CHANGES = """
INSERT INTO changes (tenant, changeset_id, memory_id, action, reason, before, vector, occurrence, erased, counters)
SELECT
    c.tenant, %(changeset)s + (n - %(start)s) / %(batch)s + 1, c.memory_id + n, c.action, c.reason, c.before, c.vector,
    c.occurrence, c.erased, c.counters
FROM staged, changes c WHERE c.memory_id = %(memory)s ORDER BY n
"""


def load(url: str, material: Material, start: int, end: int) -> None:
    """Append these facts, with consecutive ids, to those that the store itself has written."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        with connection.transaction():
            first_id = _value(connection, "SELECT min(id) FROM memories")
            _copy_memories(connection, material.facts(start, end), start, first_id)
            _copy_vectors(connection, material.vectors(start, end), first_id + start)
        connection.execute("VACUUM ANALYZE")


def set_index_memory(url: str, size: str = "4GB") -> None:
    """Set the memory for building indexes on new connections: a graph that does not fit takes far longer."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE \"{connection.info.dbname}\" SET maintenance_work_mem = '{size}'")


def _copy_memories(
    connection: psycopg.Connection[Any], facts: Sequence[tuple[str, str]], start: int, first_id: int
) -> None:
    connection.execute(_STAGING_TABLE)
    with connection.cursor().copy("COPY staged FROM STDIN") as copy:
        for row in _staging_rows(facts, start):
            copy.write_row(row)
    with _without_indexes(connection):
        connection.execute(_insert_query(connection), {"memory": first_id})
    newest = _value(connection, "SELECT max(id) FROM changesets")
    about = {"memory": first_id, "changeset": newest, "start": start, "batch": BATCH}
    connection.execute(_CHANGESETS, {**about, "batches": -(-len(facts) // BATCH)})
    connection.execute(_CHANGES, about)
    for table in ("memories", "changesets"):
        connection.execute(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), (SELECT max(id) FROM {table}))")


def _staging_rows(facts: Sequence[tuple[str, str]], start: int) -> Iterator[tuple[Any, ...]]:
    from cofio.models.memory import Memory
    from cofio.stores.postgres.ranking import searchable
    from cofio.text.tokens import fingerprint

    for n, (source, text) in enumerate(facts, start=start):
        words = searchable(Memory(id=0, text=text, source=source, created_at="", updated_at=""))
        yield n, text, source, fingerprint(text), words["said"], words["length"]


def _insert_query(connection: psycopg.Connection[Any]) -> str:
    names = [name for (name,) in connection.execute(_COLUMNS)]
    columns = ", ".join(f'"{name}"' for name in names)
    values = ", ".join(_TEXT_COLUMNS.get(name, f'm."{name}"') for name in names)
    return (
        f"INSERT INTO memories ({columns}) SELECT {values} FROM staged, memories m WHERE m.id = %(memory)s ORDER BY n"
    )


@contextmanager
def _without_indexes(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Drop the indexes of memories meanwhile, and rebuild all of them at the end."""
    indexes = connection.execute(_INDEXES).fetchall()
    for name, _ in indexes:
        connection.execute(f'DROP INDEX "{name}"')
    yield
    for _, definition in indexes:
        connection.execute(definition)


def _copy_vectors(connection: psycopg.Connection[Any], vectors: Matrix, first_id: int) -> None:
    tenant = str(_value(connection, "SELECT min(tenant) FROM memories")).encode()
    with connection.cursor().copy("COPY vectors (tenant, memory_id, vector) FROM STDIN (FORMAT binary)") as copy:
        copy.write(_HEADER)
        for start in range(0, len(vectors), _CHUNK):
            copy.write(_copy_rows(tenant, first_id + start, np.asarray(vectors[start : start + _CHUNK])))
        copy.write(_TRAILER)


def _copy_rows(tenant: bytes, first_id: int, vectors: Matrix) -> bytes:
    """Return rows of three columns in COPY's format: their number, then each with its length prefix; big-endian."""
    count, dimension = vectors.shape
    fields = [
        ("columns", ">i2"), ("tenant_size", ">i4"), ("tenant", f"S{len(tenant)}"), ("id_size", ">i4"), ("id", ">i8"),
        ("vector_size", ">i4"), ("dimension", ">i2"), ("unused", ">i2"), ("vector", ">f4", (dimension,)),
    ]  # fmt: skip
    rows = np.zeros(count, np.dtype(fields))
    rows["columns"], rows["tenant_size"], rows["tenant"] = 3, len(tenant), tenant
    rows["id_size"], rows["id"] = 8, np.arange(first_id, first_id + count)
    rows["vector_size"], rows["dimension"], rows["vector"] = 4 + 4 * dimension, dimension, vectors
    return rows.tobytes()


def _value(connection: psycopg.Connection[Any], query: str) -> Any:
    row = connection.execute(query).fetchone()
    return row[0] if row else None
