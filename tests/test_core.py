"""The keeper: what a user of the library meets."""

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


def test_a_repeated_fact_stays_one_memory(keeper: Keeper) -> None:
    first = keeper.add("We deploy with Fly.io", agent="a", session="s1")
    again = keeper.add("we deploy with fly.io", agent="a", session="s2")
    near = keeper.add("deploy we with Fly.io", agent="a")
    assert (first.action, again.action, near.action) == ("add", "noop", "noop")
    assert keeper.get(first.memory_id).occurrences == 3


def test_a_correction_is_never_swallowed(keeper: Keeper) -> None:
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


def test_dedup_can_be_left_out(keeper: Keeper) -> None:
    keeper.add("we use tabs")
    assert keeper.add("we use tabs", dedup=False).action == "add"


def test_the_same_words_about_another_project_are_another_memory(keeper: Keeper) -> None:
    keeper.add("we use tabs", source="cc/one")
    assert keeper.add("we use tabs", source="cc/two").action == "add"


def test_what_is_private_to_an_agent_is_not_merged_with_anothers(keeper: Keeper) -> None:
    keeper.add("we use tabs", agent="one")
    assert keeper.add("we use tabs", agent="two").action == "add"
    keeper.add("we use spaces", agent="one", visibility="team")
    assert keeper.add("we use spaces", agent="two", visibility="team").action == "noop"


def test_a_batch_is_one_changeset_with_one_change_a_fact(keeper: Keeper) -> None:
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


def test_an_empty_batch_does_nothing(keeper: Keeper) -> None:
    assert keeper.add_all([]) == []
    assert keeper.changes() == []


def test_one_bad_fact_refuses_the_batch(keeper: Keeper) -> None:
    with pytest.raises(InvalidInput):
        keeper.add_all(["fine", ""])
    assert keeper.stats()["memories"] == 0


def test_fields_that_a_fact_does_not_have_are_named(keeper: Keeper) -> None:
    with pytest.raises(InvalidInput, match="sorce"):
        keeper.add("x", sorce="cc/p")
    with pytest.raises(InvalidInput, match="limits"):
        keeper.search("x", limits=3)


def test_supersede_carries_the_place_over_and_keeps_the_count(keeper: Keeper) -> None:
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


def test_update_changes_updated_at_only(keeper: Keeper) -> None:
    old = keeper.add("port is 8080").memory
    new = keeper.update(old.id, text="port is 9090", tags=["net"]).memory
    assert new.created_at == old.created_at
    assert new.updated_at > old.updated_at
    assert keeper.search("9090")[0].similarity > 0.3


def test_delete_restore_purge(keeper: Keeper) -> None:
    number = keeper.add("we use tabs").memory_id
    keeper.delete(number)
    assert keeper.search("tabs") == []
    assert keeper.search("tabs", include_archived=True)[0].id == number
    keeper.restore(number)
    assert keeper.search("tabs")[0].id == number
    keeper.purge(number)
    with pytest.raises(NotFound):
        keeper.get(number)


def test_undo_tells_how_to_bring_it_back(keeper: Keeper) -> None:
    done = keeper.add("we use tabs")
    undone = keeper.undo(done.changeset)
    with pytest.raises(Conflict, match=f"undo changeset {undone.id}"):
        keeper.undo(done.changeset)
    keeper.undo(undone.id)
    assert [memory.text for memory in keeper] == ["we use tabs"]
    with pytest.raises(NotFound):
        keeper.undo(99)


def test_is_novel_tells_what_it_matched(keeper: Keeper) -> None:
    memory = keeper.add("the port is 8080", source="cc/app").memory
    known = keeper.is_novel("The port is 8080")
    assert (known.novel, known.match, known.similarity) == (False, memory, 1.0)
    other = keeper.is_novel("the port is 9090", threshold=0.3)
    assert other.novel
    assert "differ in a number" in other.reason
    assert keeper.is_novel("the port is 8080", source="elsewhere").novel
    assert keeper.is_novel("cats sleep").novel


def test_duplicates_are_found_shown_and_merged(keeper: Keeper) -> None:
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
    done = keeper.merge_duplicates()
    assert done is not None
    assert keeper.get(ids[0]).occurrences == 2
    assert keeper.get(ids[1]).superseded_by == ids[0]
    assert keeper.merge_duplicates() is None
    keeper.undo(done.id)
    assert len(keeper.list().memories) == 4


def test_a_pinned_memory_is_never_merged_away(keeper: Keeper) -> None:
    ids = [keeper.add(text, dedup=False).memory_id for text in ("we use tabs", "tabs we use")]
    for number in ids:
        keeper.update(number, pinned=True)
    assert keeper.find_duplicates() == []


def test_pages_end(keeper: Keeper) -> None:
    keeper.add_all([f"memory number {place}" for place in range(5)])
    page = keeper.list(limit=3)
    assert page.total == 5
    rest = keeper.list(limit=3, after=page.next)
    assert (len(rest.memories), rest.next) == (2, None)
    assert keeper.list(limit=5).next is None
    with pytest.raises(InvalidInput):
        keeper.list(limit=0)


def test_another_embedder_is_refused_until_everything_is_embedded_again(tmp_path: Path) -> None:
    clock, path = FixedClock(), tmp_path / "cofio.db"
    with Keeper(SqliteStore(path, clock), HashEmbedder(256), clock) as keeper:
        keeper.add_all([f"memory number {place}" for place in range(300)])
        edited = keeper.update(1, text="memory number one")
    with Keeper(SqliteStore(path, clock), HashEmbedder(512), clock) as keeper:
        for attempt in (lambda: keeper.search("memory"), lambda: keeper.add("new")):
            with pytest.raises(EmbedderMismatch, match="cofio reembed"):
                attempt()
        seen: list[int] = []
        assert keeper.reembed(seen.append) == 300
        assert seen == sorted(seen)
        assert keeper.search("memory number 7", k=1)[0].text == "memory number 7"
        keeper.undo(edited.changeset)  # its old vector was another model's: it is embedded anew
        assert keeper.search("memory number 0", k=1)[0].similarity == pytest.approx(1.0, abs=1e-5)


def test_many_threads_add_and_search_at_once(keeper: Keeper) -> None:
    errors: list[BaseException] = []

    def work(worker: int) -> None:
        try:
            for place in range(15):
                keeper.add(f"worker {worker} wrote number {place}")
                keeper.add("everybody writes this")
                assert keeper.search(f"worker {worker} number {place}")
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


def test_a_fact_object_is_taken_as_it_is_or_with_changes(keeper: Keeper) -> None:
    fact = Fact(text="we use tabs", source="cc/app")
    assert keeper.add(fact, source="cc/other").memory.source == "cc/other"


def test_a_log_that_fails_loses_nothing_and_stops_no_reader(tmp_path: Path) -> None:
    clock = FixedClock()
    store = SqliteStore(tmp_path / "cofio.db", clock)
    with Keeper(store, HashEmbedder(), clock) as keeper:
        number = keeper.add("we use tabs").memory_id
        holder = sqlite3.connect(tmp_path / "cofio.db", isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        assert keeper.search("tabs")
        assert keeper.get(number).retrieval_count == 0  # it could not be written yet
        holder.execute("ROLLBACK")
        holder.close()
        assert keeper.get(number).retrieval_count == 1


def test_who_said_it_is_kept_with_every_sighting(keeper: Keeper) -> None:
    number = keeper.add("we use tabs", agent="a", session="s1", visibility="team").memory_id
    keeper.add("We use tabs", agent="b", session="s2", visibility="team")
    assert [(seen.agent, seen.session) for seen in keeper.occurrences(number)] == [("a", "s1"), ("b", "s2")]


def test_a_query_object_can_be_changed_and_a_scope_is_given_once(keeper: Keeper) -> None:
    keeper.add_all([Fact(text="we use tabs", source="a"), Fact(text="we use tabs", source="b")])
    query = Query(text="tabs", scope=Scope(source="a"))
    assert len(keeper.search(query, k=1, source="b")) == 1
    assert keeper.search(query, source="b")[0].memory.source == "b"
    with pytest.raises(InvalidInput, match="twice"):
        keeper.search("tabs", scope=Scope(), source="nowhere")


BAD: dict[str, Callable[[Keeper], object]] = {
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
    "too many tags": lambda k: k.add("x", tags=[str(place) for place in range(1000)]),
    "a change that is too far out": lambda k: k.apply([Revert(1 << 70)], by="x", why=""),
    "an undo of nothing": lambda k: k.undo("1"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_gets_a_clear_error_and_changes_nothing(keeper: Keeper, what: str) -> None:
    kept = keeper.add("kept").memory
    with pytest.raises((InvalidInput, NotFound)) as caught:
        BAD[what](keeper)
    assert caught.value.message
    assert list(keeper) == [kept]
    assert len(keeper.changes()) == 1


# ── what a team says ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_an_agent_tells_the_team_again_and_again_is_a_pattern(keeper: Keeper) -> None:
    for _ in range(3):
        keeper.add("Should add null check", kind="policy", confidence=0.9, agent="agent-1", visibility="team")
    keeper.add("Prefers early returns", agent="agent-2", visibility="team")
    [pattern] = keeper.detect_cross_agent_patterns(min_occurrences=2)
    assert (pattern.memory.text, pattern.occurrences, pattern.agent) == ("Should add null check", 3, "agent-1")
    assert keeper.detect_cross_agent_patterns(category="policy") == [pattern]
    assert keeper.detect_cross_agent_patterns(category="decision") == [pattern]
    assert keeper.detect_cross_agent_patterns(category="technology") == []


def test_team_facts_come_newest_first_and_private_ones_not_at_all(keeper: Keeper) -> None:
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


def test_a_session_is_told_what_it_was_given_until_that_is_long_ago(keeper: Keeper) -> None:
    one, two = (keeper.add(text).memory_id for text in ("We use tabs", "Ada likes tea"))
    keeper.services.captures.mark_injected("cc", "s1", {one: "digest"})
    keeper.services.captures.mark_injected("cc", "s1", {two: "another"})
    assert keeper.services.captures.injected("cc", "s1") == {one: "digest", two: "another"}
    keeper.purge(two)
    assert keeper.services.captures.injected("cc", "s1") == {one: "digest"}
    keeper.services.captures.forget("2020-01-01")
    assert keeper.services.captures.injected("cc", "s1") == {one: "digest"}
    keeper.services.captures.forget("2100-01-01")
    assert keeper.services.captures.injected("cc", "s1") == {}
    keeper.services.captures.mark_injected("cc", "s1", {one: "digest"})
    keeper.services.captures.clear_injected("cc", "s1")
    assert keeper.services.captures.injected("cc", "s1") == {}


@pytest.mark.parametrize(
    "take_back", [lambda keeper, each: keeper.delete(each), lambda keeper, each: keeper.purge(each)]
)
def test_what_is_taken_back_is_taken_out_of_the_last_briefings_too(take_back: Any, tmp_path: Path) -> None:
    with bootstrap.keeper(Settings.load({"home": str(tmp_path)}, {}), embedder=HashEmbedder()) as keeper:
        added = keeper.add("We deploy with Fly.io.")
        briefing_cache.save_briefing(tmp_path, "", keeper.recall().text)
        keeper.add("We review on Mondays.")
        assert "Fly.io" in briefing_cache.load_briefing(tmp_path, "")
        take_back(keeper, added.memory_id)
        assert briefing_cache.load_briefing(tmp_path, "") == ""
