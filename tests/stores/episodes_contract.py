"""Episodes: one behaviour over every store."""

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


def said(*texts: str, **about: Any) -> Exchange:
    roles = ("user", "assistant") * len(texts)
    messages = tuple(Message(role, text) for role, text in zip(roles, texts, strict=False))
    return Exchange(messages=messages, **{"client": "claude", "session": "s1", "source": "claude/web", **about})


def capture(store: Store, *texts: str, **about: Any) -> int:
    """Deliver a turn and settle it."""
    number = store.inbox.receive([said(*texts, **about)])[0].id
    store.inbox.settle(ItemResolution(item=number, state="rejected"))
    return number


def episode(store: Store, *texts: str, **about: Any) -> Episode:
    """Deliver, settle and index a turn."""
    number = store.episodes.index(capture(store, *texts, **about))
    assert number is not None
    return store.episodes.get([number])[0]


def learned(store: Store, fact: str, *texts: str, **about: Any) -> tuple[int, int | None]:
    """Deliver a turn that a memory is made from, and index it; return memory and episode."""
    number = store.inbox.receive([said(*texts, **about)])[0].id
    done = store.apply(
        [Add(Fact(text=fact, user=about.get("user", ""), source="claude/web"))],
        {},
        by="test",
        why="",
        settles=lambda _: ItemResolution(item=number, state="stored"),
    )
    return done.changes[0].memory_id, store.episodes.index(number)


def embed(store: Store) -> None:
    store.set_signature(EMBEDDER.signature)
    passages = store.episodes.unembedded(100)
    vectors = EMBEDDER.embed([passage.text for passage in passages], "document")
    store.episodes.put_vectors({each.id: vector for each, vector in zip(passages, vectors, strict=True)})


def by_words(store: Store, *words: str, scope: Scope = ALL) -> list[int]:
    found = store.episodes.matching(words, 10, scope).candidates
    return [passage.episode for passage in store.episodes.passages([each.id for each in found])]


def vector(text: str) -> Vector:
    one: Vector = EMBEDDER.embed([text], "query")[0]
    return one


class EpisodesContract:
    def test_a_turn_is_found_by_its_words_once_it_is_indexed(self, store: Store) -> None:
        number = capture(store, "Where do we deploy?", "To Hetzner.", turn="1", project="/web", agent="a", team="t")
        assert by_words(store, "hetzner") == []
        found = store.episodes.index(number)
        assert by_words(store, "hetzner") == [found]
        (whole,) = store.episodes.get([found or 0])
        assert whole.text == "User: Where do we deploy?\nAssistant: To Hetzner."
        assert (whole.client, whole.session, whole.turn, whole.source) == ("claude", "s1", "1", "claude/web")
        assert (whole.project, whole.agent, whole.team, whole.capture) == ("/web", "a", "t", number)
        assert whole.at == store.inbox.item(number).received_at

    def test_a_passage_says_where_it_is_from(self, store: Store) -> None:
        made = episode(store, "Where do we deploy?", turn="1", project="/web")
        (found,) = store.episodes.matching(["deploy"], 10, ALL).candidates
        (passage,) = store.episodes.passages([found.id])
        assert passage == (found.id, made.id, made.text, made.at, "s1", "/web", "claude/web", made.capture)

    def test_captures_wait_to_be_indexed_oldest_first_until_they_are(self, store: Store) -> None:
        pending = store.inbox.receive([said("still waiting")])[0].id
        first, second = capture(store, "one"), capture(store, "two")
        assert store.episodes.unindexed(9) == [first, second]
        assert store.episodes.unindexed(1) == [first]
        store.episodes.index(first)
        assert store.episodes.unindexed(9) == [second]
        store.inbox.postpone(pending, 60, "the model is down")
        assert store.episodes.unindexed(9) == [pending, second]

    def test_indexing_again_changes_nothing(self, store: Store) -> None:
        made = episode(store, "red", "green", turn="1")
        assert store.episodes.index(made.capture or 0) == made.id
        assert store.episodes.get([made.id]) == [made]
        assert store.episodes.counts()[:2] == (1, 1)

    def test_a_turn_that_grows_is_indexed_again_under_its_id(self, store: Store) -> None:
        receipt = store.inbox.amend(said("Where do we deploy?", turn="1"))
        store.inbox.postpone(receipt.id, 60, "the model is down")
        first = store.episodes.index(receipt.id)
        assert store.episodes.unindexed(9) == []
        assert store.inbox.amend(said("Where do we deploy?", "To Hetzner.", turn="1")).id == receipt.id
        assert store.episodes.unindexed(9) == [receipt.id]
        assert store.episodes.index(receipt.id) == first
        assert [each.text for each in store.episodes.get([first or 0])] == [
            "User: Where do we deploy?\nAssistant: To Hetzner."
        ]
        assert by_words(store, "deploy") == [first]

    def test_a_part_that_comes_after_the_turn_was_settled_joins_its_episode(self, store: Store) -> None:
        first = store.inbox.amend(said("Where do we deploy?", turn="1")).id
        store.inbox.settle(ItemResolution(item=first, state="rejected"))
        number = store.episodes.index(first)
        later = store.inbox.amend(said("Where do we deploy?", "To Hetzner.", turn="1")).id
        assert later != first
        assert store.episodes.index(later) == number
        (whole,) = store.episodes.get([number or 0])
        assert whole.capture == first
        assert "deploy" in whole.text
        assert "Hetzner" in whole.text
        assert store.episodes.counts().episodes == 1
        assert store.episodes.index(first) == number
        assert store.episodes.get([number or 0]) == [whole]

    def test_parts_with_other_visibility_are_kept_apart(self, store: Store) -> None:
        shared = episode(store, "for all of us", turn="1", visibility="team")
        own = episode(store, "for me alone", turn="1+1", visibility="private")
        assert own.id != shared.id

    def test_turns_without_a_name_are_episodes_of_their_own(self, store: Store) -> None:
        assert episode(store, "red").id != episode(store, "red").id

    def test_reports_and_empty_turns_are_not_indexed(self, store: Store) -> None:
        for number in (capture(store, "AAPL volume is 5M", context="analysis"), capture(store, "  ")):
            assert store.episodes.index(number) is None
        assert store.episodes.counts() == (0, 0, 0, 0, 0)
        assert episode(store, "How do we sign in?", "With Clerk.", context="observation").id

    def test_unknown_and_forgotten_captures_are_passed_over(self, store: Store) -> None:
        number = capture(store, "red")
        store.inbox.forget("2100-01-01")
        assert store.episodes.unindexed(9) == []
        assert store.episodes.index(number) is None
        assert store.episodes.index(999) is None

    def test_forgetting_captures_leaves_episodes(self, store: Store) -> None:
        made = episode(store, "Where do we deploy?")
        store.inbox.forget("2100-01-01")
        assert store.episodes.index(made.capture or 0) == made.id
        assert store.episodes.get([made.id]) == [made]

    def test_a_long_turn_keeps_both_ends(self, store: Store) -> None:
        middle = " ".join(f"Number {each} comes now." for each in range(3_000))
        made = episode(store, f"Begin with apples. {middle} End with cherries.")
        assert by_words(store, "apples") == by_words(store, "cherries") == [made.id]
        assert store.episodes.counts().passages == 20
        assert "[…]" in made.text

    def test_passages_get_vectors_later_newest_first(self, store: Store) -> None:
        first, second = episode(store, "apples and pears"), episode(store, "bridges and towers")
        assert [each.episode for each in store.episodes.unembedded(9)] == [second.id, first.id]
        assert store.episodes.nearest(vector("apples"), 5, ALL) == []
        embed(store)
        assert store.episodes.unembedded(9) == []
        near = store.episodes.nearest(vector("apples and pears"), 5, ALL)
        found = store.episodes.passages([each.id for each in near])
        assert [each.episode for each in found] == [first.id, second.id]
        assert near[0].score > 0.5 > near[1].score
        assert store.episodes.counts().embedded == 2

    def test_the_nearest_include_those_also_asked_for(self, store: Store) -> None:
        episode(store, "apples"), episode(store, "bridges")
        embed(store)
        near = store.episodes.nearest(vector("apples"), 2, ALL)
        again = store.episodes.nearest(vector("apples"), 1, ALL, also=[near[1].id])
        assert [each.id for each in again] == [each.id for each in near]
        assert [each.score for each in again] == pytest.approx([each.score for each in near], abs=1e-5)

    def test_vectors_of_passages_that_are_gone_are_passed_over(self, store: Store) -> None:
        made = episode(store, "apples", turn="1")
        store.set_signature(EMBEDDER.signature)
        (passage,) = store.episodes.unembedded(9)
        store.episodes.index(made.capture or 0)
        store.episodes.put_vectors({passage.id: vector("apples")})
        assert store.episodes.counts().embedded == 0

    def test_embedding_anew_drops_the_vectors_of_passages(self, store: Store) -> None:
        episode(store, "apples")
        embed(store)
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
    def test_a_scope_narrows_both_rankings(self, store: Store, scope: Scope) -> None:
        outside = episode(store, "We deploy with Fly.", at="2025-05-01", project="/other")
        about = {"project": "/web", "session": "s2", "source": "codex/web", "agent": "ann", "visibility": "team"}
        inside = episode(store, "We deploy with Fly.", **about)
        embed(store)
        if scope.since:
            scope = Scope(since=inside.at)
        assert by_words(store, "deploy") in ([outside.id, inside.id], [inside.id, outside.id])
        assert by_words(store, "deploy", scope=scope) == [inside.id]
        near = store.episodes.nearest(vector("We deploy with Fly."), 5, scope)
        assert [passage.episode for passage in store.episodes.passages([each.id for each in near])] == [inside.id]

    def test_a_viewer_finds_what_they_may_see(self, store: Store) -> None:
        mine = episode(store, "deploy mine", user="ann", source="a/x")
        of_team = episode(store, "deploy ours", user="bob", team="red", visibility="team", source="a/y")
        for_all = episode(store, "deploy everywhere", user="bob", visibility="global", source="b/z")
        episode(store, "deploy theirs", user="bob")
        episode(store, "deploy nobody's")
        seen = by_words(store, "deploy", scope=Scope(viewer=Viewer(user="ann", team="red")))
        assert sorted(seen) == [mine.id, of_team.id, for_all.id]
        near = by_words(store, "deploy", scope=Scope(viewer=Viewer(user="ann", team="red", prefixes=("a",))))
        assert sorted(near) == [mine.id, of_team.id]

    def test_a_memory_leads_to_the_episode_it_was_learned_from(self, store: Store) -> None:
        memory, number = learned(store, "The user likes tea", "I like tea.", turn="1")
        assert number is not None
        assert store.episodes.of_memory(memory) == number
        store.inbox.forget("2100-01-01")
        assert store.episodes.of_memory(memory) == number
        assert store.episodes.of_memory(999) is None

    def test_purging_a_memory_removes_the_episodes_that_led_to_it_or_say_it(self, store: Store) -> None:
        memory, led = learned(store, "The code is 4711", "It is four seven one one.", turn="1")
        says = episode(store, "Remember: The code is 4711, please.")
        other = episode(store, "The weather is fine.")
        store.apply([Purge(memory)], {}, by="test", why="")
        assert store.episodes.get([led or 0, says.id, other.id]) == [other]
        assert by_words(store, "4711") == by_words(store, "seven") == []

    def test_words_across_two_passages_are_purged(self, store: Store) -> None:
        secret = " ".join(f"word{each}" for each in range(200))
        episode(store, f"It is {secret}")
        assert store.episodes.counts().passages > 1
        memory, _ = learned(store, secret, "something else", turn="2")
        store.apply([Purge(memory)], {}, by="test", why="")
        assert store.episodes.counts().episodes == 0

    def test_a_viewers_purge_leaves_what_others_told(self, store: Store) -> None:
        memory, mine = learned(store, "The code is 4711", "The code is 4711", turn="1", user="ann")
        theirs = episode(store, "The code is 4711", user="bob")
        store.apply([Purge(memory, "", Viewer(user="ann"))], {}, by="test", why="")
        assert store.episodes.get([mine or 0, theirs.id]) == [theirs]

    def test_a_parked_turn_is_indexed_again_without_the_purged_words(self, store: Store) -> None:
        number = store.inbox.receive([said("The code is 4711. We met at the harbour.", turn="7")])[0].id
        store.inbox.park(number, "unreadable")
        store.episodes.index(number)
        memory, _ = learned(store, "The code is 4711", "something else", turn="2")
        store.apply([Purge(memory)], {}, by="test", why="")
        assert by_words(store, "harbour") == []
        assert store.episodes.unindexed(9) == [number]
        again = store.episodes.index(number)
        assert by_words(store, "harbour") == [again]
        assert by_words(store, "4711") == []

    def test_removing_an_episode_forgets_the_words_of_its_capture(self, store: Store) -> None:
        made, other = episode(store, "The code is 4711"), episode(store, "The weather is fine")
        asked = store.llm_calls.start("ollama", "m", CallOrigin(), "The code is 4711", characters=16, limits=Limits())
        assert store.episodes.remove([made.id, 999]) == 1
        assert store.llm_calls.get(asked).request == ""
        assert store.episodes.get([made.id]) == []
        assert store.inbox.item(made.capture or 0).exchange is None
        assert store.inbox.item(other.capture or 0).exchange is not None
        assert by_words(store, "4711") == []

    def test_an_episode_that_is_still_to_be_learned_from_is_not_removed(self, store: Store) -> None:
        number = store.inbox.receive([said("The code is 4711")])[0].id
        made = store.episodes.index(number)
        with pytest.raises(Conflict, match="has unprocessed captures"):
            store.episodes.remove([made or 0])
        assert by_words(store, "4711") == [made]

    def test_ids_are_not_given_twice(self, store: Store) -> None:
        first = episode(store, "red")
        store.episodes.remove([first.id])
        assert episode(store, "green").id > first.id

    def test_old_episodes_are_forgotten(self, store: Store) -> None:
        old, new = episode(store, "red", at="2025-01-01"), episode(store, "green")
        assert store.episodes.forget("2025-06-01", 1 << 40) == 1
        assert store.episodes.get([old.id, new.id]) == [new]
        assert by_words(store, "red") == []

    def test_the_oldest_beyond_a_size_are_forgotten(self, store: Store) -> None:
        oldest = episode(store, "x" * 100, at="2025-01-01")
        newest = episode(store, "y" * 100)
        middle = episode(store, "z" * 100, at="2025-06-01")
        assert store.episodes.forget("2000-01-01", 3 * 106) == 0
        assert store.episodes.forget("2000-01-01", 250) == 1
        assert store.episodes.get([oldest.id, newest.id, middle.id]) == [newest, middle]
        embed(store)
        assert store.episodes.forget("2000-01-01", 250) == 2  # a vector of 256 numbers alone is larger

    def test_episodes_go_to_another_store_and_back(self, store: Store) -> None:
        embed(store)
        first = episode(store, "apples and pears", "I see.", turn="1", project="/web")
        second = episode(store, " ".join(f"Number {each}." for each in range(500)))
        embed(store)
        with store.snapshots.snapshot() as still:
            rows = still.episodes(0, 10)
            assert [each.episode.id for each in still.episodes(first.id, 10)] == [second.id]
        assert [row.episode.capture for row in rows] == [None, None]
        assert all(blob for row in rows for _, blob in row.passages)
        store.episodes.remove([first.id, second.id])
        store.episodes.adopt(rows)
        store.episodes.adopt(rows)
        assert store.snapshots.episodes(0, 10) == rows
        assert [each.text for each in store.episodes.get([first.id, second.id])] == [first.text, second.text]
        assert by_words(store, "pears") == [first.id]
        near = store.episodes.nearest(vector(first.text), 1, ALL)
        assert [passage.episode for passage in store.episodes.passages([each.id for each in near])] == [first.id]
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
        found = store.episodes.sessions(9)
        assert [(each.session, each.user) for each in found] == [("s2", ""), ("s1", "ada"), ("s1", "bob")]
        assert found[1] == ada
        assert store.episodes.sessions(1) == found[:1]
        assert store.episodes.sessions(9, client="claude") == found[1:]
        assert store.episodes.sessions(9, project="/api") == store.episodes.sessions(9, project="/web") == [ada]
        assert store.episodes.sessions(9, prefix="s2") == store.episodes.sessions(9, since="2025-01-04") == found[:1]
        assert store.episodes.sessions(9, viewer=Viewer(user="bob")) == found[2:]
        assert store.episodes.sessions(1, own=Viewer(user="bob")) == found[2:]
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

    def test_a_session_leads_to_its_changesets_and_what_it_was_given(self, store: Store) -> None:
        memory, _ = learned(store, "We use tabs", "tabs", user="ada", turn="1")
        learned(store, "We use spaces", "spaces", user="bob", client="codex", turn="1")
        store.give("claude", "s1", {memory: "d"})
        ada, bob = (next(s for s in store.episodes.sessions(9) if s.user == user) for user in ("ada", "bob"))
        (changeset,) = store.episodes.changesets(ada, 9)
        assert [change.memory_id for change in store.changeset(changeset).changes] == [memory]
        assert (store.episodes.given(ada), store.episodes.given(bob)) == ([memory], [])
        assert changeset not in store.episodes.changesets(bob, 9)
        store.inbox.forget("2100-01-01")
        assert store.episodes.changesets(ada, 9) == [changeset]

    def test_own_sessions_are_counted_before_the_limit(self, store: Store) -> None:
        whose = Viewer(user="ada", agent="bot")
        episode(store, "mine", turn="1", at="2025-01-01", user="ada", session="mine", project="/srv/web")
        episode(store, "ours", turn="1", at="2025-01-02", agent="bot", session="bot", project="/srv/web")
        for number in range(3):
            about = {"session": f"o{number}", "project": "/srv/web", "visibility": "global"}
            episode(store, "theirs", turn="1", at="2025-02-01", user="eve", agent="bot", **about)
            capture(store, "theirs", turn="2", at="2025-02-01", user="eve", **about)
            capture(store, "nobody's", turn="3", at="2025-02-01", **about)
        capture(store, "waits", turn="1", at="2025-01-03", user="ada", session="waits", project="web")
        found = store.episodes.sessions(3, project="web", viewer=whose, own=whose)
        assert [each.session for each in found] == ["waits", "bot", "mine"]
        assert [session.session for session in store.episodes.sessions(1, own=whose)] == ["waits"]

    @pytest.mark.parametrize("indexed", [True, False], ids=["indexed", "waiting"])
    def test_two_owners_of_one_session_id_are_not_mixed(self, store: Store, indexed: bool) -> None:
        done: dict[str, int] = {}
        for user in ("ada", "bob"):
            settled = ItemResolution(item=store.inbox.receive([said(user, user=user, turn=user)])[0].id, state="stored")
            facts = [Add(Fact(text=f"{user} uses tabs"))]
            made = store.apply(facts, {}, by="test", why="", settles=lambda _, settled=settled: settled)  # type: ignore[misc]
            store.give("claude", "s1", {made.changes[0].memory_id: "d"})
            done[user] = made.id
            if indexed:
                store.episodes.index(settled.item)
        if indexed:
            store.inbox.forget("2100-01-01")
        for session in store.episodes.sessions(9):
            assert store.episodes.changesets(session, 9) == [done[session.user]]
            assert store.episodes.given(session) == []  # nothing says which of them was given what
