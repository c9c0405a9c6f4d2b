"""Undo of everything learned from one source or session, on SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cofio.client import Client
from cofio.core import Keeper
from cofio.errors import InvalidInput
from cofio.models.auth import Grant
from cofio.models.memory import Delete, Fact, Merge
from cofio.models.merge import merge_fact
from cofio.stores.postgres.store import PostgresStore
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder
from tests.http_api.caller import Caller
from tests.http_api.conftest import serving
from tests.judges import ValueJudge

GOOD, EVIL = "claude-code/shop", "codex/evil"


@pytest.fixture(params=["sqlite", "postgres"])
def keeper(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Keeper]:
    clock = FixedClock()
    store = (
        SqliteStore(tmp_path / "cofio.db", clock)
        if request.param == "sqlite"
        else PostgresStore(request.getfixturevalue("postgres_url"), clock)
    )
    with Keeper(store, HashEmbedder(), clock, judge=ValueJudge()) as keeper:
        yield keeper


def texts(keeper: Keeper) -> set[str]:
    return {memory.text for memory in keeper}


def capture(keeper: Keeper, text: str, source: str, session: str = "s1") -> None:
    message = [{"role": "user", "content": text}]
    keeper.capture(message, wait=True, source=source, project="/srv/shop", session=session, client=source)


def test_learned_memories_are_archived_and_replaced_ones_restored(keeper: Keeper) -> None:
    capture(keeper, "The staging port is 8080.", GOOD)
    before = texts(keeper)
    capture(keeper, "The staging port is 9090.", EVIL)
    capture(keeper, "We use Pasteq for the queue.", f"{EVIL}/deeper")
    learned = texts(keeper)
    assert len(learned) == 2
    assert not before & learned

    preview = keeper.undo_learned(source=EVIL)
    assert [row["action"] for row in preview.decisions] == ["delete", "delete", "restore"]
    assert preview.changeset is None
    assert texts(keeper) == learned

    done = keeper.undo_learned(source=EVIL, dry_run=False, by="test")
    assert done.decisions == preview.decisions
    assert texts(keeper) == before
    assert done.changeset is not None
    keeper.undo(done.changeset)
    assert texts(keeper) == learned
    assert keeper.undo_learned(source="codex/evi").decisions == ()


def test_memories_that_another_source_corrected_stay(keeper: Keeper) -> None:
    first = keeper.add(Fact(text="The API listens on port 1", source=GOOD)).memory_id
    evil, _ = keeper.supersede(first, Fact(text="The API listens on port 2", source=EVIL))
    keeper.supersede(evil.memory_id, Fact(text="The API listens on port 3", source=GOOD))
    assert keeper.undo_learned(source=EVIL, dry_run=False).decisions == ()
    assert texts(keeper) == {"The API listens on port 3"}


def test_chain_of_replacements_is_undone_to_its_beginning(keeper: Keeper) -> None:
    first = keeper.add(Fact(text="The API listens on port 1", source=GOOD)).memory_id
    second, _ = keeper.supersede(first, Fact(text="The API listens on port 2", source=EVIL))
    keeper.supersede(second.memory_id, Fact(text="The API listens on port 3", source=EVIL))
    keeper.undo_learned(source=EVIL, dry_run=False)
    assert texts(keeper) == {"The API listens on port 1"}


def test_merges_and_absorbed_duplicates_are_taken_apart(keeper: Keeper) -> None:
    named = {"We use tabs": GOOD, "We use tabs always": EVIL, "Ann reviews": GOOD, "Ann reviews all": EVIL}
    facts = [Fact(text=text, source=source, project="/srv/shop") for text, source in named.items()]
    tabs, always, ann, reviews_all = (change.memory_id for change in keeper.add_all(facts, dedup=False))
    members = [keeper.get(tabs), keeper.get(always)]
    keeper.services.writer.apply([Merge((tabs, always), merge_fact("We always use tabs", members))], by="t", why="")
    keeper.services.writer.apply([Delete(ann, "a duplicate", into=reviews_all)], by="t", why="")
    keeper.undo_learned(source=EVIL, dry_run=False)
    assert texts(keeper) == {"We use tabs", "Ann reviews"}


def test_memory_that_a_capture_ended_is_restored(keeper: Keeper) -> None:
    known = keeper.add(Fact(text="The gateway is public", source=GOOD, project="/srv/shop")).memory_id
    capture(keeper, "Cancelled: the gateway is public.", EVIL)
    assert keeper.get(known).archived
    keeper.undo_learned(source=EVIL, dry_run=False)
    assert not keeper.get(known).archived


def test_session_and_time_narrow_the_undo(keeper: Keeper) -> None:
    keeper.add(Fact(text="An old note", source=EVIL, session="s1", created_at="2025-01-01"))
    keeper.add(Fact(text="A note of this session", source=EVIL, session="s1"))
    keeper.add(Fact(text="A note of another one", source=EVIL, session="s2"))
    assert len(keeper.undo_learned(source=EVIL).decisions) == 3
    assert len(keeper.undo_learned(session="s1").decisions) == 2
    [row] = keeper.undo_learned(session="s1", since="2025-06-01").decisions
    assert row["text"] == "A note of this session"
    with pytest.raises(InvalidInput, match="source nor a session"):
        keeper.undo_learned(since="2025-06-01")


def test_key_undoes_only_what_it_may_see(keeper: Keeper) -> None:
    _, ada = keeper.create_key(Grant(name="ada", user="ada", team="web"))
    _, bob = keeper.create_key(Grant(name="bob", user="bob", team="web"))
    _, reader = keeper.create_key(Grant(name="reader", user="bob", team="web", role="read"))
    with serving(keeper) as url:
        service = Caller(url)
        facts = ((ada, "Ada's own", "private"), (bob, "Bob's own", "private"), (bob, "Ours", "team"))
        for key, text, visibility in facts:
            fact = {"text": text, "visibility": visibility, "source": EVIL}
            assert service.with_key(key).post("/memory/add", fact).status == 201
        request = {"source": EVIL, "dry_run": False}
        assert service.with_key(reader).post("/changes/undo-learned", request).status == 403
        with Client(url, ada) as client:
            plan = client.undo_learned(source=EVIL, dry_run=False)
            assert {row["text"] for row in plan.decisions} == {"Ada's own", "Ours"}
            assert client.undo(plan.changeset or 0).changes
        assert texts(keeper) == {"Ada's own", "Bob's own", "Ours"}
