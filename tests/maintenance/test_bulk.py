"""Bulk changes: one changeset, one undo, with the linked knowledge rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cofio.core import Keeper
from cofio.errors import CofioError, Conflict, Forbidden, InvalidInput, NotFound
from cofio.models.memory import Viewer
from cofio.testing import FixedClock, HashEmbedder, MemoryStore

TEXTS = ("We deploy on Fridays.", "Reviews need two approvals.", "The API speaks JSON.", "Ann is on call in May.")


@pytest.fixture
def keeper() -> Iterator[Keeper]:
    clock = FixedClock()
    with Keeper(MemoryStore(clock), HashEmbedder(), clock) as keeper:
        keeper.add_all(list(TEXTS))
        yield keeper


def state(keeper: Keeper) -> list[dict[str, Any]]:
    """Return every memory without updated_at."""
    plain = [memory.as_dict() for memory in keeper.list(include_archived=True).memories]
    return [{name: value for name, value in item.items() if name != "updated_at"} for item in plain]


def test_bulk_archive_is_one_changeset_and_undone_at_once(keeper: Keeper) -> None:
    before = state(keeper)
    result = keeper.bulk([1, 2, 2, 3], "archive", by="ada", why="out of date")
    assert (result.by, result.why, [change.action for change in result.changes]) == (
        "ada",
        "out of date",
        ["delete"] * 3,
    )
    assert [memory.id for memory in keeper.list().memories] == [4]
    keeper.undo(result.id)
    assert state(keeper) == before


def test_unchanged_memories_are_skipped_and_no_change_is_a_conflict(keeper: Keeper) -> None:
    keeper.update(1, pinned=True)
    assert [change.memory_id for change in keeper.bulk([1, 2], "pin").changes] == [2]
    newest = keeper.changes(limit=1)[0].id
    with pytest.raises(Conflict, match="changes none of these memories"):
        keeper.bulk([1, 2], "pin")
    with pytest.raises(Conflict):
        keeper.bulk([3, 4], "restore")
    assert keeper.changes(limit=1)[0].id == newest
    assert [change.memory_id for change in keeper.bulk([1, 2, 3], "unpin").changes] == [1, 2]


def test_tags_are_added_and_removed(keeper: Keeper) -> None:
    keeper.update(1, tags=["release", "ops"])
    keeper.bulk([1, 2], "tag", tags=["ops", " web "])
    assert [keeper.get(item).tags for item in (1, 2)] == [("release", "ops", "web"), ("ops", "web")]
    keeper.bulk([1, 2, 3], "untag", tags=[" ops "])
    assert [keeper.get(item).tags for item in (1, 2, 3)] == [("release", "web"), ("web",), ()]


def test_fields_are_edited_and_kind_sets_category(keeper: Keeper) -> None:
    result = keeper.bulk([1, 2], "edit", changes={"kind": "policy", "project": "/srv/web"})
    assert [(change.memory.category, change.memory.project) for change in result.changes] == [
        ("decision", "/srv/web")
    ] * 2
    assert result.why == "edit"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"ids": [1, 99, 2], "action": "archive"}, NotFound),
        ({"ids": [], "action": "archive"}, InvalidInput),
        ({"ids": list(range(1, 1_002)), "action": "archive"}, InvalidInput),
        ({"ids": ["1"], "action": "archive"}, InvalidInput),
        ({"ids": [1], "action": "purge"}, InvalidInput),
        ({"ids": [1, 2], "action": "edit"}, InvalidInput),
        ({"ids": [1, 2], "action": "edit", "changes": {"text": "The same."}}, InvalidInput),
        ({"ids": [1, 2], "action": "edit", "changes": {"kind": "gossip"}}, InvalidInput),
        ({"ids": [1, 2], "action": "edit", "changes": {"id": 7}}, InvalidInput),
        ({"ids": [1, 2], "action": "pin", "changes": {"kind": "policy"}}, InvalidInput),
        ({"ids": [1, 2], "action": "tag"}, InvalidInput),
        ({"ids": [1, 2], "action": "tag", "tags": "ops"}, InvalidInput),
        ({"ids": [1, 2], "action": "pin", "tags": ["ops"]}, InvalidInput),
    ],
)
def test_invalid_bulk_change_changes_nothing(
    keeper: Keeper, arguments: dict[str, Any], error: type[CofioError]
) -> None:
    before = state(keeper)
    with pytest.raises(error) as error_info:
        keeper.bulk(**arguments)
    assert error_info.value.hint
    assert state(keeper) == before
    assert keeper.changes(limit=1)[0].id == 1


def test_knowledge_follows_archived_and_restored_memories(keeper: Keeper) -> None:
    keeper.knowledge.put("patterns", pattern="JSON grows", memory=3)
    keeper.knowledge.put("patterns", pattern="May is quiet", memory=4)
    keeper.knowledge.put("patterns", pattern="Fridays are long", memory=1)
    result = keeper.bulk([3, 4], "archive")
    assert [item.action for item in result.knowledge] == ["delete", "delete"]
    assert [item.pattern for item in keeper.knowledge.list("patterns")] == ["Fridays are long"]
    back = keeper.bulk([1, 3, 4], "restore")
    assert ([change.memory_id for change in back.changes], len(back.knowledge)) == ([3, 4], 2)
    assert len(keeper.knowledge.list("patterns")) == 3
    keeper.undo(back.id)
    keeper.undo(result.id)
    assert len(keeper.knowledge.list("patterns")) == 3


def test_viewer_changes_only_visible_memories(keeper: Keeper) -> None:
    ada = keeper.as_viewer(Viewer(user="ada", team="web"))
    own = ada.add("Ada likes tea.").memory_id
    shared = keeper.add("Bob deploys.", user="bob", team="web", visibility="team").memory_id
    private = keeper.add("Bob looks for another job.", user="bob").memory_id
    before = state(keeper)
    with pytest.raises(NotFound):
        ada.bulk([own, private], "archive")
    with pytest.raises(Forbidden):
        ada.bulk([own, shared], "edit", changes={"visibility": "global"})  # owned by another user
    assert state(keeper) == before
    result = ada.bulk([own, shared], "tag", tags=["mine"])
    assert [change.memory_id for change in result.changes] == [own, shared]
    ada.undo(result.id)
    assert state(keeper) == before


# ── exchange of a memory ──────────────────────────────────────────────────────────────────────────────────────────────

MESSAGES = [{"role": "user", "content": "We switched from Prisma to Drizzle."}]


def add_learned_memory(keeper: Keeper) -> int:
    """Capture a statement and return the learned memory's id."""
    keeper.capture(MESSAGES, wait=True, client="cc", session="s1", turn="1")
    return keeper.list(limit=1).memories[0].id


def test_learned_from_returns_the_exchange(keeper: Keeper) -> None:
    memory = add_learned_memory(keeper)
    item = keeper.learned_from(memory)
    assert item is not None
    assert item.exchange is not None
    assert [message.text for message in item.exchange.messages] == ["We switched from Prisma to Drizzle."]
    keeper.update(memory, pinned=True)
    assert keeper.learned_from(memory) == item  # later changes do not matter
    assert keeper.learned_from(1) is None
    keeper.add("Ann is on call in May.")
    assert keeper.learned_from(4) is None
    keeper.services.captures.forget("2100-01-01T00:00:00Z")
    assert keeper.learned_from(memory) is None
    with pytest.raises(NotFound):
        keeper.learned_from(999)


def test_exchange_is_visible_to_its_sender_only(keeper: Keeper) -> None:
    ada = keeper.as_viewer(Viewer(user="ada", team="web"))
    bob = keeper.as_viewer(Viewer(user="bob", team="web"))
    ada.capture(MESSAGES, wait=True, client="cc", session="s1", turn="1", visibility="team")
    memory = bob.list(limit=1).memories[0].id
    assert bob.learned_from(memory) is None
    item = ada.learned_from(memory)
    assert item is not None
    assert item.exchange is not None
    assert item.exchange.client == "cc"
    assert keeper.learned_from(memory) is not None


def test_search_without_noting_is_not_counted(keeper: Keeper) -> None:
    assert keeper.search("when do we deploy?", log=False)
    assert keeper.get(1).retrieval_count == 0
    keeper.search("when do we deploy?")
    assert keeper.get(1).retrieval_count == 1
    with pytest.raises(InvalidInput):
        keeper.search("deploy", log="no")
