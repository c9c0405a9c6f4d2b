"""The SQLite and PostgreSQL queries: same names, and every PostgreSQL query is limited to its tenant."""

from __future__ import annotations

import re
from importlib.resources import files

import psycopg
import pytest

from cofio.stores.sql_loader import migrations, queries, schema

#: Queries of the SQLite store only, with the reason.
SQLITE_ONLY = {
    "newest": "it holds arrays as long as the highest id",
    "among": "it ranks in memory and narrows afterwards",
    "all_vectors": "it loads every vector when it is opened",
    "changed_vectors": "what it holds in memory follows the file",
    "size_of_vectors": "to make room for them in memory",
    "note_embedded": "other processes that hold vectors must hear of new ones",
    "note_passage_changes": "the same",
    "archived": "it holds who is live in memory",
    "holders": "FTS5 finds, and the weighing is done in memory",
    "lengths_of": "the same",
    "tidy_words": "FTS5 keeps deleted words until it is tidied",
    "any_pending": "the server has any_due",
    "move_last_given": "AUTOINCREMENT is a table; the server has a sequence",
    "set_last_given": "the same",
    "sequences": "the same",
    "set_sequence": "the same",
    **dict.fromkeys(
        (
            *("passage_newest", "passage_among", "passage_all_vectors", "passage_changed_vectors"),
            *("passage_size_of_vectors", "passage_holders", "passage_lengths_of", "tidy_passage_words"),
        ),
        "as for memories",
    ),
}

#: Queries of the PostgreSQL store only, with the reason.
POSTGRES_ONLY = {
    "make_migrations": "SQLite counts migrations in the file's header",
    "newest_migration": "the same",
    "note_migration": "the same",
    "tenants": "a migration fills the digests of every tenant",
    "drop_meta": "the dimension of the vectors is noted, and forgotten with them",
    "matching": "the server weighs words itself",
    "search_by_nearness": "the server searches vectors itself",
    "damaged_vectors": "an embedded store examines them in memory",
    "passage_damaged_vectors": "the same",
    "nearest_by_index": "the server searches vectors itself",
    "nearest_of_all": "the same",
    "cosines": "the same",
    "vectors_of": "it holds no vectors in memory: those to be compared are fetched",
    "vectors_within": "the same",
    "are_many_vectors": "whether an index of vectors pays",
    "any_vector_of_any": "whether another tenant still needs that index",
    "has_nearness": "that index",
    "make_nearness": "the same",
    "drop_nearness": "the same",
    "one_at_a_time": "two processes must not make it at once",
    "bytes": "an embedded store's size is that of its files",
    "any_due": "whether a claim has to take its lock",
    "claim_items": "many processes take from one inbox",
    "give_back_items": "the same",
    "take_ids": "ids come from a sequence",
    "count_dots": "what has a vector is known in memory to the embedded store",
    **dict.fromkeys(
        (
            *("passage_matching", "passage_nearest_by_index", "passage_nearest_of_all", "passage_cosines"),
            *("passage_are_many_vectors", "passage_any_vector_of_any"),
            *("passage_has_nearness", "passage_make_nearness", "passage_drop_nearness"),
        ),
        "as for memories",
    ),
}

#: Queries without a tenant, with the reason.
WITHOUT_TENANT = {
    "make_migrations": "the database has one shape for all",
    "newest_migration": "the same",
    "note_migration": "the same",
    "tenants": "a migration fills the digests of every tenant",
    "any_vector_of_any": "the index is shared by all",
    "has_nearness": "the same",
    "make_nearness": "the same",
    "drop_nearness": "the same",
    "one_at_a_time": "the same",
    "search_by_nearness": "it changes settings of the connection alone",
    "bytes": "tenants share the pages of the tables",
    "raise_sequence": "tenants share the sequence of ids",
    "last_given": "the same",
    "take_ids": "the same",
    **dict.fromkeys(
        (
            *("passage_any_vector_of_any", "passage_has_nearness"),
            *("passage_make_nearness", "passage_drop_nearness"),
        ),
        "as for memories",
    ),
}


def test_dialects_have_the_same_queries_except_documented_ones() -> None:
    sqlite, postgres = set(queries("sqlite")), set(queries("postgres"))
    assert sqlite - postgres == SQLITE_ONLY.keys()
    assert postgres - sqlite == POSTGRES_ONLY.keys()


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_query_names_are_unique(dialect: str) -> None:
    content = (files("cofio.stores") / "sql" / dialect / "queries.sql").read_text(encoding="utf-8")
    names = re.findall(r"^-- name: (\w+)$", content, re.MULTILINE)
    assert len(names) == len(set(names)) == len(queries(dialect))


def test_postgres_queries_name_the_tenant_except_documented_ones() -> None:
    without_tenant = {name for name, text in queries("postgres").items() if "%(tenant)s" not in text}
    assert without_tenant == WITHOUT_TENANT.keys()


def test_joined_tables_are_limited_to_the_same_tenant() -> None:
    tables = re.compile(
        r"\b(?:FROM|JOIN|UPDATE|INTO) (?:memories|vectors|changesets|changes|occurrences|retrievals|injections|inbox"
        r"|patterns|correlations|thresholds|seasonal|feedback|knowledge_changes|knowledge_words|episodes|passages|passage_vectors|unindexed|unembedded|llm_calls)\b|\{table\}(?!')"
    )
    for name, text in queries("postgres").items():
        if name not in WITHOUT_TENANT:
            assert len(tables.findall(text)) <= len(re.findall(r"\btenant\b", text)), name


def test_schema_equals_the_migrated_schema(empty_postgres_url: str) -> None:
    migrated, written = (
        _describe_schema(empty_postgres_url, script)
        for script in ("\n".join(each for _, each in migrations("postgres")), schema("postgres"))
    )
    assert len(written) > 100
    assert migrated == written


def _describe_schema(url: str, script: str) -> list[tuple[str, ...]]:
    """Return every column, index, constraint and text search configuration that the script creates."""
    with psycopg.connect(url) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        connection.execute(script)
        rows = [row for query in _SHAPES for row in connection.execute(query).fetchall()]
        connection.rollback()
    return sorted(rows)


_SHAPES = (
    """
    SELECT table_name, column_name, concat_ws(' ', udt_name, collation_name, is_nullable, column_default, is_identity,
        identity_generation, ordinal_position)
    FROM information_schema.columns WHERE table_schema = 'public'
    """,
    "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    """
    SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE connamespace = 'public'::regnamespace
    """,
    "SELECT relname, relkind::text, reloptions::text FROM pg_class WHERE relnamespace = 'public'::regnamespace",
    """
    SELECT c.cfgname, m.maptokentype::text, d.dictname || ' ' || coalesce(d.dictinitoption, '')
    FROM pg_ts_config c JOIN pg_ts_config_map m ON m.mapcfg = c.oid JOIN pg_ts_dict d ON d.oid = m.mapdict
    WHERE c.cfgnamespace = 'public'::regnamespace
    """,
)
