"""Importing mcp-memory-service and claude-mem databases, and hostile SQLite files."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from pathlib import Path

import pytest

from cofio.errors import InvalidInput
from cofio.transfer.importers import READERS, sniff, sqlite_reader
from tests.transfer.importers.stores import database, facts, skipped, traces

MCP = ["mcp-memory-service-8.24.0.sql", "mcp-memory-service-12.4.0.sql"]
CLAUDE_MEM = ["claude-mem-10.6.3.sql", "claude-mem-13.25.3.sql"]


def ran(path: Path, script: str) -> Path:
    db = sqlite3.connect(path)
    db.executescript(script)
    db.close()
    return path


# ── mcp-memory-service ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("sample", MCP)
def test_mcp_memory_service_memories_become_facts(tmp_path: Path, sample: str) -> None:
    path = database(tmp_path / "sqlite_vec.db", sample)
    before = traces(tmp_path)
    assert sniff(path) == sniff(tmp_path) == "mcp-memory-service"
    postgres, tests, bare = facts("mcp-memory-service", path)
    assert postgres.text == "We chose Postgres over MySQL for the shop"
    assert (postgres.kind, postgres.category, postgres.project) == ("decision", "decision", "/srv/shop")
    assert postgres.tags == ("db", "project:shop")
    assert postgres.origin == f"mcp-memory-service/{postgres.metadata['content_hash']}"
    assert postgres.created_at.startswith("2026-11-16T01:45:3")
    assert (tests.kind, tests.category, tests.metadata["memory_type"]) == ("other", "learning", "note")
    assert bare.tags == ()
    assert READERS["mcp-memory-service"].count(path) == 3
    assert traces(tmp_path) == before


def test_deleted_and_superseded_memories_are_skipped(tmp_path: Path) -> None:
    path = database(tmp_path / "sqlite_vec.db", MCP[1])
    ran(path, "UPDATE memories SET superseded_by = 'bd5d' WHERE id = 1")
    assert [fact.text for fact in facts("mcp-memory-service", path)] == ["Tests run with make test", "No type, no tags"]


def test_vector_extension_is_not_required(tmp_path: Path) -> None:
    path = database(tmp_path / "sqlite_vec.db", MCP[1])
    ran(
        path,
        "PRAGMA writable_schema = ON;"
        "INSERT INTO sqlite_master VALUES ('table', 'memory_embeddings', 'memory_embeddings', 0,"
        " 'CREATE VIRTUAL TABLE memory_embeddings USING vec0(content_embedding FLOAT[384])')",
    )
    assert len(facts("mcp-memory-service", path)) == 3


def test_invalid_rows_are_read_as_far_as_possible(tmp_path: Path) -> None:
    path = database(tmp_path / "sqlite_vec.db", MCP[0])
    ran(
        path,
        """INSERT INTO memories VALUES (10, 'a', 'The metadata is no JSON', '["x", "y"]', 'preference', '{nope', 0, 0,
             '2025-05-05T05:05:05Z', NULL);
           INSERT INTO memories VALUES (11, 'b', x'00ff', NULL, 7, '[]', 'yesterday', NULL, NULL, NULL);
           INSERT INTO memories VALUES (12, 'c', CAST(x'6f6bff' AS TEXT), NULL, NULL, NULL, 1e300, NULL, NULL, NULL);
           INSERT INTO memories VALUES (13, 'd', replace(hex(zeroblob(300000)), '00', 'word '), '', '', '',
             1763370000, 0, '', '')""",
    )
    results = {fact.origin: fact for fact in READERS["mcp-memory-service"].read(path) if hasattr(fact, "origin")}
    preference = results["mcp-memory-service/a"]
    assert (preference.kind, preference.tags) == ("preference", ("x", "y"))
    assert preference.created_at == "2025-05-05T05:05:05.000000+00:00"
    assert results["mcp-memory-service/c"].text == "ok�"
    assert results["mcp-memory-service/c"].created_at == ""
    assert results["mcp-memory-service/d"].metadata["cut_from"] > 65_536
    assert [item.where for item in skipped("mcp-memory-service", path)] == ["mcp-memory-service/b"]


# ── claude-mem ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_observation_fact_becomes_a_fact(tmp_path: Path) -> None:
    path = database(tmp_path / "claude-mem.db", CLAUDE_MEM[1])
    assert sniff(path) == sniff(tmp_path) == "claude-mem"
    callback, cookie, redis, boot, state = facts("claude-mem", path)
    assert callback.text == "The OAuth callback in src/auth/callback.ts lost the state parameter"
    assert cookie.text == "Redirects now keep the state in a signed cookie"
    assert callback.context.startswith(
        "Login redirect loop fixed. The callback dropped the state parameter\nThe login page"
    )
    assert (callback.kind, callback.tags) == ("learning", ("problem-solution", "gotcha"))
    assert callback.metadata["files_modified"] == ["src/auth/callback.ts", "src/auth/cookie.ts"]
    assert (callback.session, callback.source, callback.project) == ("mem-session-1", "claude-mem/shop", "shop")
    assert callback.created_at == "2025-11-17T09:00:00.000000+00:00"
    assert len({callback.origin, cookie.origin, redis.origin, boot.origin, state.origin}) == 5
    assert (redis.text, redis.kind) == (
        "Redis was chosen over signed JWTs because sessions must be revocable.",
        "decision",
    )
    assert redis.context == "Sessions are kept in Redis"
    assert boot.agent == "Explore"
    assert (state.text, state.context) == ("The state parameter must survive the redirect.", "Fix the login redirect")
    assert READERS["claude-mem"].count(path) == 5


def test_project_is_derived_from_file_paths(tmp_path: Path) -> None:
    path = database(tmp_path / "claude-mem.db", CLAUDE_MEM[0])
    assert {fact.project for fact in facts("claude-mem", path)} == {"/srv/shop"}


def test_first_versions_are_read(tmp_path: Path) -> None:
    path = database(tmp_path / "claude-mem.db", "claude-mem-old.sql")
    cart, build = facts("claude-mem", path)
    assert (cart.text, cart.session, cart.kind) == ("The cart is kept in local storage", "s-less-old", "learning")
    assert (build.text, build.session, build.tags) == ("The build needs Node 20", "s-old", ("build", "node"))
    assert READERS["claude-mem"].count(path) == 2


# ── files in use, damaged or hostile ──────────────────────────────────────────────────────────────────────────────────


def test_write_ahead_log_is_read_and_no_file_is_left(tmp_path: Path) -> None:
    path = database(tmp_path / "claude-mem.db", CLAUDE_MEM[0])
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode = WAL")
    with db:
        db.execute("UPDATE observations SET facts = '[\"It waits in the log\"]' WHERE id = 1")
    alive = tmp_path / "alive"
    alive.mkdir()
    for ending in ("", "-wal"):  # as left by a killed tool
        shutil.copyfile(f"{path}{ending}", alive / f"claude-mem.db{ending}")
    db.close()
    before = traces(alive)
    assert facts("claude-mem", alive)[0].text == "It waits in the log"
    assert traces(alive) == before


def test_unused_wal_file_is_unchanged(tmp_path: Path) -> None:
    path = database(tmp_path / "claude-mem.db", CLAUDE_MEM[0])
    ran(path, "PRAGMA journal_mode = WAL")
    tmp_path.chmod(0o700)
    before = traces(tmp_path)
    reading = READERS["claude-mem"].read(path)
    next(reading)
    assert traces(tmp_path) == before  # also during the read


def test_tool_can_write_during_the_import(tmp_path: Path) -> None:
    path = database(tmp_path / "sqlite_vec.db", MCP[0])
    reading = READERS["mcp-memory-service"].read(path)
    next(reading)
    db = sqlite3.connect(path, timeout=0)
    with db:
        db.execute("UPDATE memories SET tags = 'changed'")
    db.close()
    assert len(list(reading)) == 2


def test_temporary_copies_are_removed_after_an_abort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = database(tmp_path / "claude-mem.db", CLAUDE_MEM[0])
    (tmp_path / "claude-mem.db-journal").write_bytes(b"waits")
    copies = tmp_path / "copies"
    copies.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(copies))
    reading = READERS["claude-mem"].read(path)
    next(reading)
    assert [path.name for folder in copies.iterdir() for path in folder.iterdir()]
    reading.close()  # type: ignore[attr-defined]
    assert list(copies.iterdir()) == []


def test_locked_file_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = database(tmp_path / "sqlite_vec.db", MCP[0])
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("BEGIN EXCLUSIVE")
    monkeypatch.setattr(sqlite_reader, "_PATIENCE", 0.0)
    with pytest.raises(InvalidInput, match="is locked"):
        list(READERS["mcp-memory-service"].read(path))
    db.close()


@pytest.mark.parametrize("name", ["mcp-memory-service", "claude-mem"])
def test_other_database_is_rejected(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match="does not exist"):
        list(READERS[name].read(tmp_path / "missing.db"))
    encrypted = tmp_path / "encrypted.db"
    encrypted.write_bytes(bytes(range(256)) * 32)
    with pytest.raises(InvalidInput, match=r"not an SQLite database.*Decrypt"):
        list(READERS[name].read(encrypted))
    other = ran(tmp_path / "other.db", "CREATE TABLE things (id INTEGER)")
    with pytest.raises(InvalidInput, match=f"not a database of {name}"):
        list(READERS[name].read(other))
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(b"SQLite format 3\x00" + b"\x07" * 4_096)
    with pytest.raises(InvalidInput, match="cannot be read"):
        list(READERS[name].read(damaged))
    for path in (encrypted, other, damaged):
        assert not READERS[name].fits(path)


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id,"


@pytest.mark.parametrize(
    ("name", "view"),
    [
        ("mcp-memory-service", f"CREATE VIEW memories AS {ENDLESS} 'h' AS content_hash, 'c' AS content FROM n"),
        (
            "claude-mem",
            f"CREATE VIEW observations AS {ENDLESS} 'p' AS project, 't' AS type, 1 AS created_at_epoch FROM n",
        ),
    ],
)
def test_view_with_the_name_of_a_table_is_rejected(tmp_path: Path, name: str, view: str) -> None:
    path = ran(tmp_path / "posing.db", view)
    assert not READERS[name].fits(path)
    with pytest.raises(InvalidInput, match="not a database of"):
        list(READERS[name].read(path))


def test_file_name_like_an_option_is_a_file_name(tmp_path: Path) -> None:
    path = database(tmp_path / "a?mode=rwc&x=#%20.db", MCP[0])
    assert len(facts("mcp-memory-service", path)) == 3
