"""Tests of the library façade."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cofio import bootstrap
from cofio.core import Keeper
from cofio.errors import Conflict, EmbedderMismatch, InvalidInput, NotFound
from cofio.hooks import briefing_cache
from cofio.models.memory import Fact, Query, Revert, Scope
from cofio.settings import Settings
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder


def test_add_of_duplicate_fact_increments_occurrences(keeper: Keeper) -> None:
    first = keeper.add("We deploy with Fly.io", agent="a", session="s1")
    repeated = keeper.add("we deploy with fly.io", agent="a", session="s2")
    near = keeper.add("deploy we with Fly.io", agent="a")
    assert (first.action, repeated.action, near.action) == ("add", "noop", "noop")
    assert keeper.get(first.memory_id).occurrences == 3


def test_add_of_corrected_fact_creates_new_memory(keeper: Keeper) -> None:
    actions = [
        keeper.add(text).action
        for text in (
            "Ada weighs 79 kg",
            "Ada weighs 78 kg",
            "Ada never weighs 78 kg",
            "the port is 8080",
            "the port is 9090",
        )
    ]
    assert actions == ["add"] * 5


def test_add_without_dedup_creates_duplicate(keeper: Keeper) -> None:
    keeper.add("we use tabs")
    assert keeper.add("we use tabs", dedup=False).action == "add"


def test_add_does_not_deduplicate_across_sources(keeper: Keeper) -> None:
    keeper.add("we use tabs", source="cc/one")
    assert keeper.add("we use tabs", source="cc/two").action == "add"


def test_add_does_not_deduplicate_private_memories_of_different_agents(keeper: Keeper) -> None:
    keeper.add("we use tabs", agent="one")
    assert keeper.add("we use tabs", agent="two").action == "add"
    keeper.add("we use spaces", agent="one", visibility="team")
    assert keeper.add("we use spaces", agent="two", visibility="team").action == "noop"


def test_add_all_creates_one_changeset_with_one_change_per_fact(keeper: Keeper) -> None:
    keeper.add("we use tabs")
    texts = ["the port is 8080", "we use tabs", "The port is 8080", "the port is 9090", "the port is  8080"]
    changes = keeper.add_all(texts)
    assert [change.action for change in changes] == ["add", "noop", "noop", "add", "noop"]
    assert len({change.changeset for change in changes}) == 1
    assert changes[0].memory_id == changes[2].memory_id == changes[4].memory_id
    assert keeper.get(changes[0].memory_id).occurrences == 3
    keeper.undo(changes[0].changeset)
    assert [memory.text for memory in keeper] == ["we use tabs"]
    assert keeper.get(1).occurrences == 1


def test_add_all_of_empty_list_creates_no_changeset(keeper: Keeper) -> None:
    assert keeper.add_all([]) == []
    assert keeper.changes() == []


def test_add_all_with_one_invalid_fact_adds_nothing(keeper: Keeper) -> None:
    with pytest.raises(InvalidInput):
        keeper.add_all(["fine", ""])
    assert keeper.stats()["memories"] == 0


def test_unknown_field_error_names_the_field(keeper: Keeper) -> None:
    with pytest.raises(InvalidInput, match="sorce"):
        keeper.add("x", sorce="cc/p")
    with pytest.raises(InvalidInput, match="limits"):
        keeper.search("x", limits=3)


def test_supersede_copies_source_and_tags_and_archives_old_memory(keeper: Keeper) -> None:
    old = keeper.add("uses Prisma", source="cc/app", tags=("orm",), kind="technology").memory
    written, archived = keeper.supersede(old.id, "uses Drizzle", by="ada")
    new = written.memory
    assert (new.source, new.tags, new.kind, new.supersedes, new.previous_text) == (
        "cc/app",
        ("orm",),
        "technology",
        old.id,
        "uses Prisma",
    )
    assert archived.memory.superseded_by == new.id
    assert new.created_at > old.created_at
    assert keeper.stats()["memories"] == 1
    with pytest.raises(NotFound):
        keeper.supersede(-1, "x")
    with pytest.raises(Conflict, match=f"Memory {new.id} replaced it"):
        keeper.supersede(old.id, "uses Kysely")


def test_update_changes_text_and_updated_at_but_not_created_at(keeper: Keeper) -> None:
    old = keeper.add("port is 8080").memory
    new = keeper.update(old.id, text="port is 9090", tags=["net"]).memory
    assert new.created_at == old.created_at
    assert new.updated_at > old.updated_at
    assert keeper.search("9090")[0].similarity > 0.3


def test_delete_archives_restore_reactivates_and_purge_removes(keeper: Keeper) -> None:
    memory_id = keeper.add("we use tabs").memory_id
    keeper.delete(memory_id)
    assert keeper.search("tabs") == []
    assert keeper.search("tabs", include_archived=True)[0].id == memory_id
    keeper.restore(memory_id)
    assert keeper.search("tabs")[0].id == memory_id
    keeper.purge(memory_id)
    with pytest.raises(NotFound):
        keeper.get(memory_id)


def test_second_undo_raises_conflict_that_names_the_redo_changeset(keeper: Keeper) -> None:
    change = keeper.add("we use tabs")
    undo_changeset = keeper.undo(change.changeset)
    with pytest.raises(Conflict, match=f"undo changeset {undo_changeset.id}"):
        keeper.undo(change.changeset)
    keeper.undo(undo_changeset.id)
    assert [memory.text for memory in keeper] == ["we use tabs"]
    with pytest.raises(NotFound):
        keeper.undo(99)


def test_is_novel_returns_match_similarity_and_reason(keeper: Keeper) -> None:
    memory = keeper.add("the port is 8080", source="cc/app").memory
    duplicate = keeper.is_novel("The port is 8080")
    assert (duplicate.novel, duplicate.match, duplicate.similarity) == (False, memory, 1.0)
    other = keeper.is_novel("the port is 9090", threshold=0.3)
    assert other.novel
    assert "differ in a number" in other.reason
    assert keeper.is_novel("the port is 8080", source="elsewhere").novel
    assert keeper.is_novel("cats sleep").novel


def test_find_duplicates_returns_merges_that_can_be_applied(keeper: Keeper) -> None:
    texts = [
        "we deploy with Fly.io",
        "We deploy with Fly.io",
        "we deploy with Render",
        "we never deploy with Fly.io",
    ]
    ids = [keeper.add(text, dedup=False).memory_id for text in texts]
    (decision,) = keeper.find_duplicates()
    assert (decision.id, decision.into) == (ids[1], ids[0])
    assert len(keeper.list().memories) == 4
    result = keeper.merge_duplicates()
    assert result is not None
    assert keeper.get(ids[0]).occurrences == 2
    assert keeper.get(ids[1]).superseded_by == ids[0]
    assert keeper.merge_duplicates() is None
    keeper.undo(result.id)
    assert len(keeper.list().memories) == 4


def test_find_duplicates_skips_pinned_memories(keeper: Keeper) -> None:
    ids = [keeper.add(text, dedup=False).memory_id for text in ("we use tabs", "tabs we use")]
    for memory_id in ids:
        keeper.update(memory_id, pinned=True)
    assert keeper.find_duplicates() == []


def test_list_paginates_and_rejects_limit_zero(keeper: Keeper) -> None:
    keeper.add_all([f"memory number {index}" for index in range(5)])
    page = keeper.list(limit=3)
    assert page.total == 5
    rest = keeper.list(limit=3, after=page.next)
    assert (len(rest.memories), rest.next) == (2, None)
    assert keeper.list(limit=5).next is None
    with pytest.raises(InvalidInput):
        keeper.list(limit=0)


def test_embedder_mismatch_is_rejected_until_reembed(tmp_path: Path) -> None:
    clock, path = FixedClock(), tmp_path / "cofio.db"
    with Keeper(SqliteStore(path, clock), HashEmbedder(256), clock) as keeper:
        keeper.add_all([f"memory number {index}" for index in range(300)])
        edited = keeper.update(1, text="memory number one")
    with Keeper(SqliteStore(path, clock), HashEmbedder(512), clock) as keeper:
        for attempt in (lambda: keeper.search("memory"), lambda: keeper.add("new")):
            with pytest.raises(EmbedderMismatch, match="cofio reembed"):
                attempt()
        observed: list[int] = []
        assert keeper.reembed(observed.append) == 300
        assert observed == sorted(observed)
        assert keeper.search("memory number 7", k=1)[0].text == "memory number 7"
        keeper.undo(edited.changeset)  # the stored vector came from the old model, so the edited text needs a new one
        assert keeper.search("memory number 0", k=1)[0].similarity == pytest.approx(1.0, abs=1e-5)


def test_concurrent_adds_and_searches_succeed(keeper: Keeper) -> None:
    errors: list[BaseException] = []

    def work(worker: int) -> None:
        try:
            for index in range(15):
                keeper.add(f"worker {worker} wrote number {index}")
                keeper.add("everybody writes this")
                assert keeper.search(f"worker {worker} number {index}")
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert keeper.stats()["memories"] == 6 * 15 + 1
    assert keeper.search("everybody writes this", k=1)[0].memory.occurrences == 6 * 15


def test_add_accepts_fact_object_with_overrides(keeper: Keeper) -> None:
    fact = Fact(text="we use tabs", source="cc/app")
    assert keeper.add(fact, source="cc/other").memory.source == "cc/other"


def test_locked_retrieval_log_does_not_fail_searches(tmp_path: Path) -> None:
    clock = FixedClock()
    store = SqliteStore(tmp_path / "cofio.db", clock)
    with Keeper(store, HashEmbedder(), clock) as keeper:
        memory_id = keeper.add("we use tabs").memory_id
        holder = sqlite3.connect(tmp_path / "cofio.db", isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        assert keeper.search("tabs")
        assert keeper.get(memory_id).retrieval_count == 0  # the write is still blocked
        holder.execute("ROLLBACK")
        holder.close()
        assert keeper.get(memory_id).retrieval_count == 1


def test_occurrences_record_agent_and_session(keeper: Keeper) -> None:
    memory_id = keeper.add("we use tabs", agent="a", session="s1", visibility="team").memory_id
    keeper.add("We use tabs", agent="b", session="s2", visibility="team")
    assert [(occurrence.agent, occurrence.session) for occurrence in keeper.occurrences(memory_id)] == [
        ("a", "s1"),
        ("b", "s2"),
    ]


def test_search_query_object_accepts_overrides_but_only_one_scope(keeper: Keeper) -> None:
    keeper.add_all([Fact(text="we use tabs", source="a"), Fact(text="we use tabs", source="b")])
    query = Query(text="tabs", scope=Scope(source="a"))
    assert len(keeper.search(query, k=1, source="b")) == 1
    assert keeper.search(query, source="b")[0].memory.source == "b"
    with pytest.raises(InvalidInput, match="twice"):
        keeper.search("tabs", scope=Scope(), source="nowhere")


INVALID_CALLS: dict[str, Callable[[Keeper], object]] = {
    "an id that is none": lambda k: k.get(True),
    "an id in a list": lambda k: k.get([1]),  # type: ignore[arg-type]
    "a huge id": lambda k: k.get(1 << 70),
    "a field that a scope lacks": lambda k: k.list(foo=1),
    "a field that a scope lacks, for novelty": lambda k: k.is_novel("x", foo=1),
    "a field that a scope lacks, for duplicates": lambda k: k.find_duplicates(foo=1),
    "a field that a fact lacks": lambda k: k.add(Fact(text="x"), sorce=1),
    "a field that a fact lacks, for supersede": lambda k: k.supersede(1, "x", foo=1),
    "a limit in text": lambda k: k.list(limit="5"),  # type: ignore[arg-type]
    "a cursor in text": lambda k: k.list(after="x"),  # type: ignore[arg-type]
    "a huge cursor": lambda k: k.list(after=1 << 70),
    "no changes to list": lambda k: k.changes(limit=-1),
    "a time in bytes": lambda k: k.add("x", created_at=b"2026"),
    "a scope's time in bytes": lambda k: k.list(since=b"2026"),
    "a truth in text": lambda k: k.list(include_archived="false"),
    "a threshold in text": lambda k: k.is_novel("x", threshold="x"),  # type: ignore[arg-type]
    "a threshold that is no number": lambda k: k.is_novel("x", threshold=float("nan")),
    "a threshold that would pair everything": lambda k: k.find_duplicates(threshold=0.1),
    "a scope that is none": lambda k: k.search("x", scope={}),
    "a text for a list of facts": lambda k: k.add_all("abc"),
    "decisions that are none": lambda k: k.apply([object()], by="x", why=""),  # type: ignore[list-item]
    "nobody did it": lambda k: k.add("x", by=None),  # type: ignore[arg-type]
    "half a character did it": lambda k: k.search("x", by="\ud800"),
    "a reason with half a character": lambda k: k.add("x", why="\ud800"),
    "too many tags": lambda k: k.add("x", tags=[str(index) for index in range(1000)]),
    "a change that is too far out": lambda k: k.apply([Revert(1 << 70)], by="x", why=""),
    "an undo of nothing": lambda k: k.undo("1"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("case", INVALID_CALLS)
def test_invalid_input_raises_error_and_changes_nothing(keeper: Keeper, case: str) -> None:
    memory = keeper.add("kept").memory
    with pytest.raises((InvalidInput, NotFound)) as error_info:
        INVALID_CALLS[case](keeper)
    assert error_info.value.message
    assert list(keeper) == [memory]
    assert len(keeper.changes()) == 1


# ── team facts ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_repeated_team_fact_is_detected_as_cross_agent_pattern(keeper: Keeper) -> None:
    for _ in range(3):
        keeper.add("Should add null check", kind="policy", confidence=0.9, agent="agent-1", visibility="team")
    keeper.add("Prefers early returns", agent="agent-2", visibility="team")
    [pattern] = keeper.detect_cross_agent_patterns(min_occurrences=2)
    assert (pattern.memory.text, pattern.occurrences, pattern.agent) == ("Should add null check", 3, "agent-1")
    assert keeper.detect_cross_agent_patterns(category="policy") == [pattern]
    assert keeper.detect_cross_agent_patterns(category="decision") == [pattern]
    assert keeper.detect_cross_agent_patterns(category="technology") == []


def test_get_team_facts_returns_newest_first_without_private_facts(keeper: Keeper) -> None:
    keeper.add("Team uses TypeScript", kind="technology", visibility="team")
    keeper.add("Team uses pnpm", kind="technology", visibility="team")
    keeper.add("User prefers tabs", kind="preference")
    assert [get_team_fact.text for get_team_fact in keeper.get_team_facts()] == [
        "Team uses pnpm",
        "Team uses TypeScript",
    ]
    assert [get_team_fact.text for get_team_fact in keeper.get_team_facts(limit=1)] == ["Team uses pnpm"]
    assert keeper.get_team_facts(category="policy") == []
    keeper.add("Team used npm", kind="technology", visibility="team", created_at="2020-01-01")
    assert [get_team_fact.text for get_team_fact in keeper.get_team_facts()][-1] == "Team used npm"


def test_given_memories_are_recorded_per_session_until_captures_expire(keeper: Keeper) -> None:
    first, second = (keeper.add(text).memory_id for text in ("We use tabs", "Ada likes tea"))
    keeper.services.captures.mark_injected("cc", "s1", {first: "digest"})
    keeper.services.captures.mark_injected("cc", "s1", {second: "another"})
    assert keeper.services.captures.injected("cc", "s1") == {first: "digest", second: "another"}
    keeper.purge(second)
    assert keeper.services.captures.injected("cc", "s1") == {first: "digest"}
    keeper.services.captures.forget("2020-01-01")
    assert keeper.services.captures.injected("cc", "s1") == {first: "digest"}
    keeper.services.captures.forget("2100-01-01")
    assert keeper.services.captures.injected("cc", "s1") == {}
    keeper.services.captures.mark_injected("cc", "s1", {first: "digest"})
    keeper.services.captures.clear_injected("cc", "s1")
    assert keeper.services.captures.injected("cc", "s1") == {}


@pytest.mark.parametrize("remove", [lambda keeper, each: keeper.delete(each), lambda keeper, each: keeper.purge(each)])
def test_delete_and_purge_invalidate_cached_briefing(remove: Any, tmp_path: Path) -> None:
    with bootstrap.keeper(Settings.load({"home": str(tmp_path)}, {}), embedder=HashEmbedder()) as keeper:
        added = keeper.add("We deploy with Fly.io.")
        briefing_cache.save_briefing(tmp_path, "", keeper.recall().text)
        keeper.add("We review on Mondays.")
        assert "Fly.io" in briefing_cache.load_briefing(tmp_path, "")
        remove(keeper, added.memory_id)
        assert briefing_cache.load_briefing(tmp_path, "") == ""
