"""A file of an earlier shape is brought up to date when it is opened, with all that is in it."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from cofio.errors import StoreError
from cofio.models.memory import Edit, Noop, Scope
from cofio.stores.sql_loader import migrations
from cofio.stores.sqlite.connection import APPLICATION_ID, statements
from cofio.text.tokens import fingerprint
from tests.stores.contract import add, apply, everything, undo, vector
from tests.stores.inbox_contract import ending, learn, receive
from tests.stores.test_sqlite import assert_in_step, opened, shape

AT = "2026-01-01T00:00:00.000000+00:00"


def of_shape(path: Path, number: int) -> sqlite3.Connection:
    """A file as that version of the schema left it, open."""
    connection = sqlite3.connect(path, isolation_level=None)
    for each, script in migrations("sqlite"):
        if each <= number:
            for statement in statements(script):
                connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {number}")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    return connection


def remember(connection: sqlite3.Connection, memory_id: int, text: str, **about: str) -> None:
    """A memory with its words, its vector and its line in the journal, as they were written before projects."""
    told = {"source": "cc/web", "metadata": "{}", **about}
    connection.execute(
        "INSERT INTO memories (id, text, source, category, kind, confidence, method, entities, tags, session, agent,"
        " visibility, metadata, speaker, context, created_at, updated_at, pinned, occurrences, fingerprint)"
        " VALUES (?, ?, ?, 'detail', 'other', 1.0, 'manual', '[]', '[]', '', '', 'private', ?, '', '', ?, ?, 0, 1, ?)",
        (memory_id, text, told["source"], told["metadata"], AT, AT, fingerprint(text)),
    )
    connection.execute("INSERT INTO vectors VALUES (?, ?)", (memory_id, np.asarray(vector(text), "<f4").tobytes()))
    connection.execute("INSERT INTO changesets (id, at, by, why) VALUES (?, ?, 'test', 'add')", (memory_id, AT))
    connection.execute(
        "INSERT INTO changes (changeset_id, memory_id, action, reason) VALUES (?, ?, 'add', 'new')",
        (memory_id, memory_id),
    )


def before_an_edit(connection: sqlite3.Connection, memory_id: int, text: str) -> int:
    """Write down that the memory said something else before; the changeset of that edit."""
    plain = {
        "id": memory_id, "text": text, "source": "cc/web", "category": "detail", "kind": "other", "confidence": 1.0,
        "method": "manual", "entities": [], "tags": [], "session": "", "agent": "", "visibility": "private",
        "metadata": {}, "speaker": "", "context": "", "created_at": AT, "updated_at": AT, "pinned": False,
        "archived_at": None, "supersedes": None, "superseded_by": None, "previous_text": None, "occurrences": 1,
    }  # fmt: skip
    done = connection.execute("INSERT INTO changesets (at, by, why) VALUES (?, 'test', 'edit')", (AT,)).lastrowid or 0
    blob = np.asarray(vector(text), "<f4").tobytes()
    connection.execute(
        "INSERT INTO changes (changeset_id, memory_id, action, reason, before, vector) VALUES (?, ?, 'edit', '', ?, ?)",
        (done, memory_id, json.dumps(plain), blob),
    )
    return done


def deliver(connection: sqlite3.Connection, turn: str, text: str, state: str = "pending") -> None:
    payload = {
        "messages": [{"role": "user", "text": text}], "source": "cc/web", "context": "stop", "client": "cc",
        "session": "s", "turn": turn, "agent": "", "visibility": "private", "at": AT, "injected": [],
    }  # fmt: skip
    connection.execute(
        "INSERT INTO inbox (client, session, turn, task, received_at, due_at, state, payload)"
        " VALUES ('cc', 's', ?, 'learn', ?, ?, ?, ?)",
        (turn, AT, AT, state, json.dumps(payload)),
    )


@pytest.mark.parametrize("number", range(1, len(migrations("sqlite")) + 1))
def test_every_earlier_shape_leads_to_the_newest(tmp_path: Path, number: int) -> None:
    of_shape(tmp_path / "old.db", number).close()
    for name in ("old.db", "new.db"):
        opened(tmp_path / name).close()
    old, new = (sqlite3.connect(tmp_path / name) for name in ("old.db", "new.db"))
    assert shape(old) == shape(new)
    assert old.execute("PRAGMA user_version").fetchone() == new.execute("PRAGMA user_version").fetchone()


def test_a_file_from_before_projects_keeps_its_memories_which_belong_to_none(tmp_path: Path) -> None:
    path = tmp_path / "cofio.db"
    second = of_shape(path, 2)
    remember(second, 7, "the zebra stays")
    remember(second, 8, "the port is 9090", metadata='{"project": "mine"}')
    edit = before_an_edit(second, 8, "the port is 8080")
    second.close()
    store = opened(path)
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
    store.give("cc", "s", {7: "digest"})
    store.close()
    assert_in_step(path)


def test_captures_from_before_projects_are_learned_from_and_go_on(tmp_path: Path) -> None:
    second = of_shape(tmp_path / "cofio.db", 2)
    deliver(second, "t1", "We use tabs")
    deliver(second, "t2", "Always semicolons", "parked")
    second.close()
    store = opened(tmp_path / "cofio.db")
    assert store.inbox.turns("cc", "s") == {"t1", "t2"}
    (item,) = store.inbox.due(9)
    assert item.exchange is not None
    assert (item.exchange.messages[0].text, item.exchange.project) == ("We use tabs", "")
    learn(store, item.id, "tabs")
    store.inbox.settle(ending(store.inbox.retry(2).id, "rejected"))
    assert store.inbox.status().as_dict() | {"reasons": {}} == {
        "captured": 2, "stored": 1, "merged": 0, "rejected": 1, "pending": 0, "parked": 0,
        "reasons": {}, "oldest": None, "balanced": True,
    }  # fmt: skip
    assert receive(store, "and more")
    store.close()


def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "cofio.db"
    second = of_shape(path, 2)
    remember(second, 7, "the zebra stays")
    second.execute("CREATE TABLE given (in_the_way)")
    second.close()
    with pytest.raises(StoreError, match="already exists"):
        opened(path)
    left = sqlite3.connect(path, isolation_level=None)
    assert left.execute("PRAGMA user_version").fetchone() == (2,)
    assert "project" not in [row[1] for row in left.execute("PRAGMA table_info(memories)")]
    left.execute("DROP TABLE given")
    left.close()
    store = opened(path)
    assert [memory.text for memory in everything(store)] == ["the zebra stays"]
    assert store.known("the zebra stays", Scope(project="")) == [7]
    store.close()


def test_shared_migration_has_a_number_in_each_dialect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "sqlite/migrations/0013_old.sql",
        "postgres/migrations/0009_old.sql",
        "migrations/0014_0010_color.sql",
    ):
        path = tmp_path / f"{name}.sql"
        path.parent.mkdir(parents=True)
        path.write_text(path.stem)
    monkeypatch.setattr("cofio.stores.sql_loader._FOLDER", tmp_path)
    unread = migrations.__wrapped__
    assert unread("sqlite") == ((13, "0013_old"), (14, "0014_0010_color"))
    assert unread("postgres") == ((9, "0009_old"), (10, "0014_0010_color"))
