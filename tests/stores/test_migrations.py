"""Migration of SQLite files with earlier schema versions."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from cofio.errors import StoreError
from cofio.models.memory import Edit, Noop, Scope
from cofio.stores.sql_loader import migrations
from cofio.stores.sqlite.connection import APPLICATION_ID, statements
from cofio.text.tokens import fingerprint
from tests.stores.contract import add, apply, everything, undo, vector
from tests.stores.inbox_contract import learn, receive, resolution
from tests.stores.test_sqlite import assert_consistent, describe_schema, open_store

AT = "2026-01-01T00:00:00.000000+00:00"


def create_at_version(path: Path, version: int) -> sqlite3.Connection:
    """Create a file with the given schema version and return the open connection."""
    connection = sqlite3.connect(path, isolation_level=None)
    for each, script in migrations("sqlite"):
        if each <= version:
            for statement in statements(script):
                connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    return connection


def insert_memory(connection: sqlite3.Connection, memory_id: int, text: str, **overrides: str) -> None:
    """Insert a memory with words, vector and change as they were stored before schema version 3."""
    fields = {"source": "cc/web", "metadata": "{}", **overrides}
    connection.execute(
        "INSERT INTO memories (id, text, source, category, kind, confidence, method, entities, tags, session, agent,"
        " visibility, metadata, speaker, context, created_at, updated_at, pinned, occurrences, fingerprint)"
        " VALUES (?, ?, ?, 'detail', 'other', 1.0, 'manual', '[]', '[]', '', '', 'private', ?, '', '', ?, ?, 0, 1, ?)",
        (memory_id, text, fields["source"], fields["metadata"], AT, AT, fingerprint(text)),
    )
    connection.execute("INSERT INTO vectors VALUES (?, ?)", (memory_id, np.asarray(vector(text), "<f4").tobytes()))
    connection.execute("INSERT INTO changesets (id, at, by, why) VALUES (?, ?, 'test', 'add')", (memory_id, AT))
    connection.execute(
        "INSERT INTO changes (changeset_id, memory_id, action, reason) VALUES (?, ?, 'add', 'new')",
        (memory_id, memory_id),
    )


def insert_edit(connection: sqlite3.Connection, memory_id: int, text: str) -> int:
    """Insert an edit of the memory with its earlier text. Return the changeset id."""
    memory = {
        "id": memory_id, "text": text, "source": "cc/web", "category": "detail", "kind": "other", "confidence": 1.0,
        "method": "manual", "entities": [], "tags": [], "session": "", "agent": "", "visibility": "private",
        "metadata": {}, "speaker": "", "context": "", "created_at": AT, "updated_at": AT, "pinned": False,
        "archived_at": None, "supersedes": None, "superseded_by": None, "previous_text": None, "occurrences": 1,
    }  # fmt: skip
    changeset_id = (
        connection.execute("INSERT INTO changesets (at, by, why) VALUES (?, 'test', 'edit')", (AT,)).lastrowid or 0
    )
    blob = np.asarray(vector(text), "<f4").tobytes()
    connection.execute(
        "INSERT INTO changes (changeset_id, memory_id, action, reason, before, vector) VALUES (?, ?, 'edit', '', ?, ?)",
        (changeset_id, memory_id, json.dumps(memory), blob),
    )
    return changeset_id


def insert_capture(connection: sqlite3.Connection, turn: str, text: str, state: str = "pending") -> None:
    payload = {
        "messages": [{"role": "user", "text": text}], "source": "cc/web", "context": "stop", "client": "cc",
        "session": "s", "turn": turn, "agent": "", "visibility": "private", "at": AT, "injected": [],
    }  # fmt: skip
    connection.execute(
        "INSERT INTO inbox (client, session, turn, task, received_at, due_at, state, payload)"
        " VALUES ('cc', 's', ?, 'learn', ?, ?, ?, ?)",
        (turn, AT, AT, state, json.dumps(payload)),
    )


@pytest.mark.parametrize("version", range(1, len(migrations("sqlite")) + 1))
def test_every_schema_version_migrates_to_the_newest(tmp_path: Path, version: int) -> None:
    create_at_version(tmp_path / "old.db", version).close()
    for name in ("old.db", "new.db"):
        open_store(tmp_path / name).close()
    old, new = (sqlite3.connect(tmp_path / name) for name in ("old.db", "new.db"))
    assert describe_schema(old) == describe_schema(new)
    assert old.execute("PRAGMA user_version").fetchone() == new.execute("PRAGMA user_version").fetchone()


def test_memories_from_before_projects_have_no_project(tmp_path: Path) -> None:
    path = tmp_path / "cofio.db"
    second = create_at_version(path, 2)
    insert_memory(second, 7, "the zebra stays")
    insert_memory(second, 8, "the port is 9090", metadata='{"project": "mine"}')
    edit = insert_edit(second, 8, "the port is 8080")
    second.close()
    store = open_store(path)
    zebra, port = store.get([7, 8])
    assert (zebra.text, zebra.source, zebra.project, port.metadata) == (
        "the zebra stays",
        "cc/web",
        "",
        {"project": "mine"},
    )
    for scope in (Scope(project=""), Scope(visible_in="/srv/web"), Scope(source="cc/web")):
        assert [memory.id for memory in store.page(scope, limit=9)[0]] == [8, 7]
        assert store.nearest(vector("the zebra stays"), 1, scope)[0].id == 7
        assert [candidate.id for candidate in store.matching(["zebra"], 9, scope).candidates] == [7]
    assert store.page(Scope(project="/srv/web"), limit=9) == ([], 0)
    apply(store, Edit(8, {"pinned": True}))
    assert store.get([8])[0].metadata == {"project": "mine"}
    undo(store, edit + 1)
    undo(store, edit)
    assert store.get([8])[0].text == "the port is 8080"
    apply(store, Noop(7))
    assert add(store, "the zebra stays", project="/srv/web").id == 9
    store.mark_injected("cc", "s", {7: "digest"})
    store.close()
    assert_consistent(path)


def test_captures_from_before_projects_are_still_learned(tmp_path: Path) -> None:
    second = create_at_version(tmp_path / "cofio.db", 2)
    insert_capture(second, "t1", "We use tabs")
    insert_capture(second, "t2", "Always semicolons", "parked")
    second.close()
    store = open_store(tmp_path / "cofio.db")
    assert store.inbox.turns("cc", "s") == {"t1", "t2"}
    (item,) = store.inbox.due(9)
    assert item.exchange is not None
    assert (item.exchange.messages[0].text, item.exchange.project) == ("We use tabs", "")
    learn(store, item.id, "tabs")
    store.inbox.settle(resolution(store.inbox.retry(2).id, "rejected"))
    assert store.inbox.status().as_dict() | {"reasons": {}} == {
        "captured": 2, "stored": 1, "merged": 0, "rejected": 1, "pending": 0, "parked": 0,
        "reasons": {}, "oldest": None, "balanced": True,
    }  # fmt: skip
    assert receive(store, "and more")
    store.close()


def test_failed_migration_leaves_the_file_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "cofio.db"
    second = create_at_version(path, 2)
    insert_memory(second, 7, "the zebra stays")
    second.execute("CREATE TABLE given (in_the_way)")
    second.close()
    with pytest.raises(StoreError, match="already exists"):
        open_store(path)
    left = sqlite3.connect(path, isolation_level=None)
    assert left.execute("PRAGMA user_version").fetchone() == (2,)
    assert "project" not in [row[1] for row in left.execute("PRAGMA table_info(memories)")]
    left.execute("DROP TABLE given")
    left.close()
    store = open_store(path)
    assert [memory.text for memory in everything(store)] == ["the zebra stays"]
    assert store.known("the zebra stays", Scope(project="")) == [7]
    store.close()


def test_shared_migration_has_a_number_in_each_dialect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "sqlite/migrations/0013_old.sql",
        "postgres/migrations/0009_old.sql",
        "migrations/0014_0010_color.sql",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text(path.stem)
    monkeypatch.setattr("cofio.stores.sql_loader._FOLDER", tmp_path)
    unread = migrations.__wrapped__
    assert unread("sqlite") == ((13, "0013_old"), (14, "0014_0010_color"))
    assert unread("postgres") == ((9, "0009_old"), (10, "0014_0010_color"))


def test_earlier_memories_get_their_provenance_by_method_and_origin(tmp_path: Path) -> None:
    path = tmp_path / "cofio.db"
    connection = create_at_version(path, 14)
    for memory_id, text in enumerate(("typed", "imported", "from a tool", "learned"), 1):
        insert_memory(connection, memory_id, text)
    connection.execute("UPDATE memories SET method = 'import' WHERE id = 2")
    connection.execute("UPDATE memories SET origin = 'mem0/1' WHERE id = 3")
    connection.execute("UPDATE memories SET method = 'pattern' WHERE id = 4")
    edit = insert_edit(connection, 1, "typed before")
    connection.close()
    with closing(open_store(path)) as store:
        memories = store.get([1, 2, 3, 4])
        assert [memory.provenance for memory in memories] == ["user", "import", "import", ""]
        undo(store, edit)  # the journal entry has no provenance
        assert (store.get([1])[0].text, store.get([1])[0].provenance) == ("typed before", "user")
