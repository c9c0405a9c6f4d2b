"""Contract suite of the episodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cofio.errors import Conflict, EmbedderMismatch
from cofio.models.episodes import Episode
from cofio.models.exchange import COMPACT_SUMMARY, Exchange, ItemResolution, Message
from cofio.models.llm_calls import CallOrigin, Limits
from cofio.models.memory import Add, Fact, Purge, Scope, Viewer
from cofio.models.sessions import AgentSession
from cofio.ports import Store, Vector
from cofio.testing import HashEmbedder

EMBEDDER = HashEmbedder()
ALL = Scope()


def make_exchange(*texts: str, **fields: Any) -> Exchange:
    roles = ("user", "assistant") * len(texts)
    messages = tuple(Message(role, text) for role, text in zip(roles, texts, strict=False))
    return Exchange(messages=messages, **{"client": "claude", "session": "s1", "source": "claude/web", **fields})


def capture(store: Store, *texts: str, **fields: Any) -> int:
    """Deliver a turn and settle it."""
    capture_id = store.inbox.receive([make_exchange(*texts, **fields)])[0].id
    store.inbox.settle(ItemResolution(item=capture_id, state="rejected"))
    return capture_id


def episode(store: Store, *texts: str, **fields: Any) -> Episode:
    """Deliver, settle and index a turn."""
    episode_id = store.episodes.index(capture(store, *texts, **fields))
    assert episode_id is not None
    return store.episodes.get([episode_id])[0]


def add_learned_memory(store: Store, fact: str, *texts: str, **fields: Any) -> tuple[int, int | None]:
    """Deliver a turn that a memory is made from, and index it; return memory and episode."""
    capture_id = store.inbox.receive([make_exchange(*texts, **fields)])[0].id
    result = store.apply(
        [Add(Fact(text=fact, user=fields.get("user", ""), source="claude/web"))],
        {},
        by="test",
        why="",
        settles=lambda _: ItemResolution(item=capture_id, state="stored"),
    )
    return result.changes[0].memory_id, store.episodes.index(capture_id)


def embed_passages(store: Store) -> None:
    store.set_signature(EMBEDDER.signature)
    passages = store.episodes.unembedded(100)
    vectors = EMBEDDER.embed([passage.text for passage in passages], "document")
    store.episodes.put_vectors({each.id: vector for each, vector in zip(passages, vectors, strict=True)})


def search_episode_ids(store: Store, *words: str, scope: Scope = ALL) -> list[int]:
    results = store.episodes.matching(words, 10, scope).candidates
    return [passage.episode for passage in store.episodes.passages([item.id for item in results])]


def vector(text: str) -> Vector:
    row: Vector = EMBEDDER.embed([text], "query")[0]
    return row


class EpisodesContract:
    def test_turn_is_found_by_its_words_once_indexed(self, store: Store) -> None:
        number = capture(store, "Where do we deploy?", "To Hetzner.", turn="1", project="/web", agent="a", team="t")
        assert search_episode_ids(store, "hetzner") == []
        results = store.episodes.index(number)
        assert search_episode_ids(store, "hetzner") == [results]
        (indexed_episode,) = store.episodes.get([results or 0])
        assert indexed_episode.text == "User: Where do we deploy?\nAssistant: To Hetzner."
        assert (indexed_episode.client, indexed_episode.session, indexed_episode.turn, indexed_episode.source) == (
            "claude",
            "s1",
            "1",
            "claude/web",
        )
        assert (indexed_episode.project, indexed_episode.agent, indexed_episode.team, indexed_episode.capture) == (
            "/web",
            "a",
            "t",
            number,
        )
        assert indexed_episode.at == store.inbox.item(number).received_at

    def test_passage_has_its_source_fields(self, store: Store) -> None:
        created = episode(store, "Where do we deploy?", turn="1", project="/web")
        (found,) = store.episodes.matching(["deploy"], 10, ALL).candidates
        (passage,) = store.episodes.passages([found.id])
        assert passage == (found.id, created.id, created.text, created.at, "s1", "/web", "claude/web", created.capture)

    def test_settled_captures_are_unindexed_oldest_first(self, store: Store) -> None:
        pending = store.inbox.receive([make_exchange("still waiting")])[0].id
        first, second = capture(store, "one"), capture(store, "two")
        assert store.episodes.unindexed(9) == [first, second]
        assert store.episodes.unindexed(1) == [first]
        store.episodes.index(first)
        assert store.episodes.unindexed(9) == [second]
        store.inbox.postpone(pending, 60, "the model is down")
        assert store.episodes.unindexed(9) == [pending, second]

    def test_indexing_twice_changes_nothing(self, store: Store) -> None:
        created = episode(store, "red", "green", turn="1")
        assert store.episodes.index(created.capture or 0) == created.id
        assert store.episodes.get([created.id]) == [created]
        assert store.episodes.counts()[:2] == (1, 1)

    def test_growing_turn_is_reindexed_under_the_same_id(self, store: Store) -> None:
        receipt = store.inbox.amend(make_exchange("Where do we deploy?", turn="1"))
        store.inbox.postpone(receipt.id, 60, "the model is down")
        first = store.episodes.index(receipt.id)
        assert store.episodes.unindexed(9) == []
        assert store.inbox.amend(make_exchange("Where do we deploy?", "To Hetzner.", turn="1")).id == receipt.id
        assert store.episodes.unindexed(9) == [receipt.id]
        assert store.episodes.index(receipt.id) == first
        assert [memory.text for memory in store.episodes.get([first or 0])] == [
            "User: Where do we deploy?\nAssistant: To Hetzner."
        ]
        assert search_episode_ids(store, "deploy") == [first]

    def test_late_part_joins_the_episode_of_its_turn(self, store: Store) -> None:
        first = store.inbox.amend(make_exchange("Where do we deploy?", turn="1")).id
        store.inbox.settle(ItemResolution(item=first, state="rejected"))
        number = store.episodes.index(first)
        later = store.inbox.amend(make_exchange("Where do we deploy?", "To Hetzner.", turn="1")).id
        assert later != first
        assert store.episodes.index(later) == number
        (whole,) = store.episodes.get([number or 0])
        assert whole.capture == first
        assert "deploy" in whole.text
        assert "Hetzner" in whole.text
        assert store.episodes.counts().episodes == 1
        assert store.episodes.index(first) == number
        assert store.episodes.get([number or 0]) == [whole]

    def test_parts_with_different_visibility_are_separate_episodes(self, store: Store) -> None:
        shared = episode(store, "for all of us", turn="1", visibility="team")
        own = episode(store, "for me alone", turn="1+1", visibility="private")
        assert own.id != shared.id

    def test_turns_without_an_id_are_separate_episodes(self, store: Store) -> None:
        assert episode(store, "red").id != episode(store, "red").id

    def test_reports_and_empty_turns_are_not_indexed(self, store: Store) -> None:
        for number in (capture(store, "AAPL volume is 5M", context="analysis"), capture(store, "  ")):
            assert store.episodes.index(number) is None
        assert store.episodes.counts() == (0, 0, 0, 0, 0)
        assert episode(store, "How do we sign in?", "With Clerk.", context="observation").id

    def test_unknown_and_forgotten_captures_are_skipped(self, store: Store) -> None:
        number = capture(store, "red")
        store.inbox.forget("2100-01-01")
        assert store.episodes.unindexed(9) == []
        assert store.episodes.index(number) is None
        assert store.episodes.index(999) is None

    def test_forgetting_captures_keeps_episodes(self, store: Store) -> None:
        created = episode(store, "Where do we deploy?")
        store.inbox.forget("2100-01-01")
        assert store.episodes.index(created.capture or 0) == created.id
        assert store.episodes.get([created.id]) == [created]

    def test_long_turn_keeps_its_beginning_and_end(self, store: Store) -> None:
        middle = " ".join(f"Number {index} comes now." for index in range(3_000))
        created = episode(store, f"Begin with apples. {middle} End with cherries.")
        assert search_episode_ids(store, "apples") == search_episode_ids(store, "cherries") == [created.id]
        assert store.episodes.counts().passages == 20
        assert "[…]" in created.text

    def test_passages_without_vectors_are_listed_newest_first(self, store: Store) -> None:
        first, second = episode(store, "apples and pears"), episode(store, "bridges and towers")
        assert [item.episode for item in store.episodes.unembedded(9)] == [second.id, first.id]
        assert store.episodes.nearest(vector("apples"), 5, ALL) == []
        embed_passages(store)
        assert store.episodes.unembedded(9) == []
        neighbors = store.episodes.nearest(vector("apples and pears"), 5, ALL)
        results = store.episodes.passages([item.id for item in neighbors])
        assert [item.episode for item in results] == [first.id, second.id]
        assert neighbors[0].score > 0.5 > neighbors[1].score
        assert store.episodes.counts().embedded == 2

    def test_nearest_also_returns_requested_ids(self, store: Store) -> None:
        episode(store, "apples"), episode(store, "bridges")
        embed_passages(store)
        neighbors = store.episodes.nearest(vector("apples"), 2, ALL)
        repeated = store.episodes.nearest(vector("apples"), 1, ALL, also=[neighbors[1].id])
        assert [item.id for item in repeated] == [item.id for item in neighbors]
        assert [hit.score for hit in repeated] == pytest.approx([hit.score for hit in neighbors], abs=1e-5)

    def test_vectors_of_removed_passages_are_ignored(self, store: Store) -> None:
        created = episode(store, "apples", turn="1")
        store.set_signature(EMBEDDER.signature)
        (passage,) = store.episodes.unembedded(9)
        store.episodes.index(created.capture or 0)
        store.episodes.put_vectors({passage.id: vector("apples")})
        assert store.episodes.counts().embedded == 0

    def test_new_embedder_signature_drops_passage_vectors(self, store: Store) -> None:
        episode(store, "apples")
        embed_passages(store)
        with pytest.raises(EmbedderMismatch):
            store.set_signature("another")
        store.set_signature("another", reset=True)
        assert store.episodes.counts().embedded == 0
        assert len(store.episodes.unembedded(9)) == 1
        store.episodes.put_vectors({store.episodes.unembedded(9)[0].id: np.eye(8, dtype=np.float32)[0]})
        assert store.episodes.counts().embedded == 1

    @pytest.mark.parametrize(
        "scope",
        [
            Scope(project="/web"),
            Scope(session="s2"),
            Scope(source="codex/web"),
            Scope(source_prefix="codex"),
            Scope(agent="ann"),
            Scope(since="2026-06-01"),
            Scope(visible_in="/web"),
            Scope(visibility=("team",)),
        ],
    )
    def test_scope_filters_both_rankings(self, store: Store, scope: Scope) -> None:
        outside = episode(store, "We deploy with Fly.", at="2025-05-01", project="/other")
        about = {"project": "/web", "session": "s2", "source": "codex/web", "agent": "ann", "visibility": "team"}
        inside = episode(store, "We deploy with Fly.", **about)
        embed_passages(store)
        if scope.since:
            scope = Scope(since=inside.at)
        assert search_episode_ids(store, "deploy") in ([outside.id, inside.id], [inside.id, outside.id])
        assert search_episode_ids(store, "deploy", scope=scope) == [inside.id]
        neighbors = store.episodes.nearest(vector("We deploy with Fly."), 5, scope)
        assert [passage.episode for passage in store.episodes.passages([item.id for item in neighbors])] == [inside.id]

    def test_viewer_finds_only_visible_episodes(self, store: Store) -> None:
        mine = episode(store, "deploy mine", user="ann", source="a/x")
        of_team = episode(store, "deploy ours", user="bob", team="red", visibility="team", source="a/y")
        for_all = episode(store, "deploy everywhere", user="bob", visibility="global", source="b/z")
        episode(store, "deploy theirs", user="bob")
        episode(store, "deploy nobody's")
        seen = search_episode_ids(store, "deploy", scope=Scope(viewer=Viewer(user="ann", team="red")))
        assert sorted(seen) == [mine.id, of_team.id, for_all.id]
        near = search_episode_ids(store, "deploy", scope=Scope(viewer=Viewer(user="ann", team="red", prefixes=("a",))))
        assert sorted(near) == [mine.id, of_team.id]

    def test_memory_links_to_the_episode_it_was_learned_from(self, store: Store) -> None:
        memory, number = add_learned_memory(store, "The user likes tea", "I like tea.", turn="1")
        assert number is not None
        assert store.episodes.of_memory(memory) == number
        store.inbox.forget("2100-01-01")
        assert store.episodes.of_memory(memory) == number
        assert store.episodes.of_memory(999) is None

    def test_purging_a_memory_removes_its_episode_and_those_with_its_text(self, store: Store) -> None:
        memory, led = add_learned_memory(store, "The code is 4711", "It is four seven one one.", turn="1")
        says = episode(store, "Remember: The code is 4711, please.")
        other = episode(store, "The weather is fine.")
        store.apply([Purge(memory)], {}, by="test", why="")
        assert store.episodes.get([led or 0, says.id, other.id]) == [other]
        assert search_episode_ids(store, "4711") == search_episode_ids(store, "seven") == []

    def test_purge_finds_words_across_two_passages(self, store: Store) -> None:
        secret = " ".join(f"word{index}" for index in range(200))
        episode(store, f"It is {secret}")
        assert store.episodes.counts().passages > 1
        memory, _ = add_learned_memory(store, secret, "something else", turn="2")
        store.apply([Purge(memory)], {}, by="test", why="")
        assert store.episodes.counts().episodes == 0

    def test_scoped_purge_keeps_episodes_of_others(self, store: Store) -> None:
        memory, mine = add_learned_memory(store, "The code is 4711", "The code is 4711", turn="1", user="ann")
        theirs = episode(store, "The code is 4711", user="bob")
        store.apply([Purge(memory, "", Viewer(user="ann"))], {}, by="test", why="")
        assert store.episodes.get([mine or 0, theirs.id]) == [theirs]

    def test_parked_turn_is_reindexed_without_purged_words(self, store: Store) -> None:
        memory_id = store.inbox.receive([make_exchange("The code is 4711. We met at the harbour.", turn="7")])[0].id
        store.inbox.park(memory_id, "unreadable")
        store.episodes.index(memory_id)
        memory, _ = add_learned_memory(store, "The code is 4711", "something else", turn="2")
        store.apply([Purge(memory)], {}, by="test", why="")
        assert search_episode_ids(store, "harbour") == []
        assert store.episodes.unindexed(9) == [memory_id]
        repeated = store.episodes.index(memory_id)
        assert search_episode_ids(store, "harbour") == [repeated]
        assert search_episode_ids(store, "4711") == []

    def test_removing_an_episode_erases_its_capture_text(self, store: Store) -> None:
        made, other = episode(store, "The code is 4711"), episode(store, "The weather is fine")
        request = store.llm_calls.start("ollama", "m", CallOrigin(), "The code is 4711", characters=16, limits=Limits())
        assert store.episodes.remove([made.id, 999]) == 1
        assert store.llm_calls.get(request).request == ""
        assert store.episodes.get([made.id]) == []
        assert store.inbox.item(made.capture or 0).exchange is None
        assert store.inbox.item(other.capture or 0).exchange is not None
        assert search_episode_ids(store, "4711") == []

    def test_episode_of_an_unprocessed_capture_cannot_be_removed(self, store: Store) -> None:
        memory_id = store.inbox.receive([make_exchange("The code is 4711")])[0].id
        created = store.episodes.index(memory_id)
        with pytest.raises(Conflict, match="has unprocessed captures"):
            store.episodes.remove([created or 0])
        assert search_episode_ids(store, "4711") == [created]

    def test_episode_ids_are_never_reused(self, store: Store) -> None:
        first = episode(store, "red")
        store.episodes.remove([first.id])
        assert episode(store, "green").id > first.id

    def test_old_episodes_are_forgotten(self, store: Store) -> None:
        old, new = episode(store, "red", at="2025-01-01"), episode(store, "green")
        assert store.episodes.forget("2025-06-01", 1 << 40) == 1
        assert store.episodes.get([old.id, new.id]) == [new]
        assert search_episode_ids(store, "red") == []

    def test_oldest_episodes_beyond_the_size_limit_are_forgotten(self, store: Store) -> None:
        oldest = episode(store, "x" * 100, at="2025-01-01")
        newest = episode(store, "y" * 100)
        middle = episode(store, "z" * 100, at="2025-06-01")
        assert store.episodes.forget("2000-01-01", 3 * 106) == 0
        assert store.episodes.forget("2000-01-01", 250) == 1
        assert store.episodes.get([oldest.id, newest.id, middle.id]) == [newest, middle]
        embed_passages(store)
        assert store.episodes.forget("2000-01-01", 250) == 2  # a vector of 256 numbers alone is larger

    def test_episodes_are_copied_to_another_store_and_back(self, store: Store) -> None:
        embed_passages(store)
        first = episode(store, "apples and pears", "I see.", turn="1", project="/web")
        second = episode(store, " ".join(f"Number {index}." for index in range(500)))
        embed_passages(store)
        with store.snapshots.snapshot() as still:
            rows = still.episodes(0, 10)
            assert [item.episode.id for item in still.episodes(first.id, 10)] == [second.id]
        assert [row.episode.capture for row in rows] == [None, None]
        assert all(blob for row in rows for _, blob in row.passages)
        store.episodes.remove([first.id, second.id])
        store.episodes.adopt(rows)
        store.episodes.adopt(rows)
        assert store.snapshots.episodes(0, 10) == rows
        assert [memory.text for memory in store.episodes.get([first.id, second.id])] == [first.text, second.text]
        assert search_episode_ids(store, "pears") == [first.id]
        neighbors = store.episodes.nearest(vector(first.text), 1, ALL)
        assert [passage.episode for passage in store.episodes.passages([item.id for item in neighbors])] == [first.id]
        assert episode(store, "a new one").id > second.id

    # ── sessions ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_sessions_are_grouped_by_client_id_and_owner(self, store: Store) -> None:
        episode(store, "one", turn="1", at="2025-01-01", project="/web", user="ada")
        capture(store, "two", turn="2", at="2025-01-03", project="/api", user="ada", client="claude~0123456789ab")
        episode(store, "sum", turn="c", at="2025-01-02", context=COMPACT_SUMMARY, project="/web", user="ada")
        episode(store, "three", turn="3", at="2025-01-02", user="bob")
        episode(store, "four", turn="1", at="2025-01-04", session="s2", client="codex")
        episode(store, "nowhere", session="")
        ada = AgentSession(
            client="claude",
            session="s1",
            user="ada",
            project="/api",
            first_at="2025-01-01T00:00:00.000000+00:00",
            last_at="2025-01-03T00:00:00.000000+00:00",
            turns=2,
            summaries=1,
        )
        results = store.episodes.sessions(9)
        assert [(item.session, item.user) for item in results] == [("s2", ""), ("s1", "ada"), ("s1", "bob")]
        assert results[1] == ada
        assert store.episodes.sessions(1) == results[:1]
        assert store.episodes.sessions(9, client="claude") == results[1:]
        assert store.episodes.sessions(9, project="/api") == store.episodes.sessions(9, project="/web") == [ada]
        assert store.episodes.sessions(9, prefix="s2") == store.episodes.sessions(9, since="2025-01-04") == results[:1]
        assert store.episodes.sessions(9, viewer=Viewer(user="bob")) == results[2:]
        assert store.episodes.sessions(1, own=Viewer(user="bob")) == results[2:]
        assert store.episodes.sessions(9, own=Viewer(user="eve")) == []
        for name in ("api", "web"):
            assert store.episodes.sessions(9, project=name) == [ada]
        for name in ("ap", "eb", "/eb", "", "api/"):
            assert ada not in store.episodes.sessions(9, project=name)
        assert [turn.text for turn in store.episodes.turns(ada, 9)] == ["User: one", "User: two"]
        assert [turn.text for turn in store.episodes.turns(ada, 1)] == ["User: two"]
        assert [turn.text for turn in store.episodes.turns(ada, 9, summaries=True)] == ["User: sum"]
        assert store.episodes.turns(ada, 9, viewer=Viewer(user="bob")) == []
        assert {turn.client for turn in store.episodes.turns(ada, 9)} == {"claude"}

    def test_session_links_to_changesets_and_given_memories(self, store: Store) -> None:
        memory, _ = add_learned_memory(store, "We use tabs", "tabs", user="ada", turn="1")
        add_learned_memory(store, "We use spaces", "spaces", user="bob", client="codex", turn="1")
        store.mark_injected("claude", "s1", {memory: "d"})
        ada, bob = (next(s for s in store.episodes.sessions(9) if s.user == user) for user in ("ada", "bob"))
        (changeset,) = store.episodes.changesets(ada, 9)
        assert [change.memory_id for change in store.changeset(changeset).changes] == [memory]
        assert (store.episodes.injected(ada), store.episodes.injected(bob)) == ([memory], [])
        assert changeset not in store.episodes.changesets(bob, 9)
        store.inbox.forget("2100-01-01")
        assert store.episodes.changesets(ada, 9) == [changeset]

    def test_own_sessions_are_selected_before_the_limit_applies(self, store: Store) -> None:
        viewer = Viewer(user="ada", agent="bot")
        episode(store, "mine", turn="1", at="2025-01-01", user="ada", session="mine", project="/srv/web")
        episode(store, "ours", turn="1", at="2025-01-02", agent="bot", session="bot", project="/srv/web")
        for number in range(3):
            about = {"session": f"o{number}", "project": "/srv/web", "visibility": "global"}
            episode(store, "theirs", turn="1", at="2025-02-01", user="eve", agent="bot", **about)
            capture(store, "theirs", turn="2", at="2025-02-01", user="eve", **about)
            capture(store, "nobody's", turn="3", at="2025-02-01", **about)
        capture(store, "waits", turn="1", at="2025-01-03", user="ada", session="waits", project="web")
        results = store.episodes.sessions(3, project="web", viewer=viewer, own=viewer)
        assert [item.session for item in results] == ["waits", "bot", "mine"]
        assert [session.session for session in store.episodes.sessions(1, own=viewer)] == ["waits"]

    @pytest.mark.parametrize("indexed", [True, False], ids=["indexed", "waiting"])
    def test_sessions_of_two_owners_with_the_same_id_are_separate(self, store: Store, indexed: bool) -> None:
        result: dict[str, int] = {}
        for user in ("ada", "bob"):
            settled = ItemResolution(
                item=store.inbox.receive([make_exchange(user, user=user, turn=user)])[0].id, state="stored"
            )
            facts = [Add(Fact(text=f"{user} uses tabs"))]
            created = store.apply(facts, {}, by="test", why="", settles=lambda _, settled=settled: settled)  # type: ignore[misc]
            store.mark_injected("claude", "s1", {created.changes[0].memory_id: "d"})
            result[user] = created.id
            if indexed:
                store.episodes.index(settled.item)
        if indexed:
            store.inbox.forget("2100-01-01")
        for session in store.episodes.sessions(9):
            assert store.episodes.changesets(session, 9) == [result[session.user]]
            assert store.episodes.injected(session) == []  # the recipient is not recorded
