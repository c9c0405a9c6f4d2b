"""Episodes from end to end: captured turns are searchable even when no memory was extracted from them."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from cofio.core import Keeper
from cofio.errors import Forbidden, InvalidInput, NotFound, StoreError, Unavailable
from cofio.models.episodes import MAX_PASSAGES, EpisodeHit, Passage, base_turn, is_indexed, line, passages_of, text_of
from cofio.models.exchange import Exchange, Message
from cofio.models.memory import Viewer
from cofio.server.background.inbox_worker import InboxWorker
from cofio.stores.sql_loader import migrations
from cofio.stores.sqlite.connection import APPLICATION_ID
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder, ScriptedLLM
from cofio.transfer import backup
from cofio.transfer.restore import restore

CHAT = [
    {"role": "user", "content": "Shall we meet at the harbour?"},
    {"role": "assistant", "content": "The harbour is closed for repairs."},
]


# ── Passages ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_short_turn_is_one_passage_with_roles() -> None:
    exchange = Exchange(messages=(Message("user", "Hello.\n"), Message("assistant", " "), Message("assistant", "Hi!")))
    assert text_of(exchange) == "User: Hello.\nAssistant: Hi!"
    assert passages_of(text_of(exchange)) == ["User: Hello.\nAssistant: Hi!"]


def test_longer_text_is_split_at_sentence_and_line_ends() -> None:
    text = "\n".join(f"Point {number} is about the harbour. It has a second sentence!" for number in range(60))
    passages = passages_of(text)
    assert "".join(passages) == text
    assert len(passages) > 3
    assert all(80 <= len(passage.split()) <= 120 for passage in passages[:-1])
    assert all(passage.rstrip().endswith((".", "!")) for passage in passages)


@pytest.mark.parametrize("text", ["word " * 1_000, "x" * 5_000, "日本語" * 1_000, "a.b.c\n" * 500])
def test_text_without_sentences_is_split(text: str) -> None:
    passages = passages_of(text)
    assert "".join(passages) == text.strip()
    assert len(passages) > 1
    assert all(len(passage) <= 1_400 for passage in passages)


def test_very_long_text_keeps_beginning_and_end() -> None:
    passages = passages_of(" ".join(f"Sentence number {number}." for number in range(5_000)))
    assert len(passages) == MAX_PASSAGES
    assert passages[0].startswith("Sentence number 0.")
    assert passages[-1].endswith("Sentence number 4999.")
    assert "[…]" in passages[MAX_PASSAGES // 2 - 1]


def test_later_part_of_a_turn_gets_the_remaining_passages_and_at_least_two() -> None:
    text = " ".join(f"Sentence number {number}." for number in range(5_000))
    assert len(passages_of(text, others=15)) == 5
    assert len(passages_of(text, others=20)) == 2


def test_empty_text_has_no_passages() -> None:
    assert passages_of(" \n ") == []


@pytest.mark.parametrize(("turn", "base"), [("7", "7"), ("7+1", "7"), ("7+12", "7"), ("a+b", "a+b"), ("+0", "+0")])
def test_base_turn_strips_the_part_number(turn: str, base: str) -> None:
    assert base_turn(turn) == base


@pytest.mark.parametrize(("context", "expected"), [("stop", True), ("observation", True), ("analysis", False)])
def test_reports_are_not_indexed(context: str, expected: bool) -> None:
    assert is_indexed(Exchange(messages=(Message("user", "Hello"),), context=context)) is expected
    assert not is_indexed(Exchange(messages=(), context=context))
    assert not is_indexed(None)


def test_hit_is_rendered_on_one_line_with_date_and_session() -> None:
    passage = Passage(1, 2, "User: Hello\n</cofio-memory>  there", "2026-02-20T06:44:28+00:00", "s1", "", "", None)
    hit = EpisodeHit(passage, 0.5, 0.4, 0.0, "vector")
    assert line(hit) == "2026-02-20, session s1: User: Hello ‹/cofio-memory› there"
    assert line(hit._replace(passage=passage._replace(session="", text="x" * 999))).endswith("…")
    assert EpisodeHit.from_dict(hit.as_dict()) == hit


# ── Indexing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_captured_turn_is_searchable_without_memories(keeper: Keeper) -> None:
    captured = keeper.capture(CHAT, wait=True, client="claude", session="s1", turn="1", source="claude/web")
    assert captured.state == "rejected"
    (hit,) = keeper.search_episodes("harbour repairs")
    assert (hit.match_type, hit.passage.session, hit.passage.capture) == ("keyword", "s1", captured.id)
    assert keeper.services.episodes.embed_missing() == 1
    (hybrid,) = keeper.search_episodes("harbour repairs")
    assert hybrid.match_type == "hybrid"
    assert 0 < hit.score < hybrid.score <= 1
    assert keeper.episode(hit.episode).text == (
        "User: Shall we meet at the harbour?\nAssistant: The harbour is closed for repairs."
    )
    assert keeper.search("harbour") == []


def test_search_returns_the_best_passage_of_each_episode(keeper: Keeper) -> None:
    filler = " ".join(f"Nothing of interest happens on day {number}." for number in range(40))
    long = keeper.capture(f"{filler} The harbour is closed. {filler} The harbour harbour reopens.", wait=True)
    short = keeper.capture("The harbour has boats.", wait=True)
    keeper.services.episodes.embed_missing()
    hits = keeper.search_episodes("harbour", k=5)
    assert sorted(hit.passage.capture or 0 for hit in hits) == [long.id, short.id]
    assert all("harbour" in hit.text for hit in hits)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert keeper.search_episodes("harbour", k=1) == hits[:1]
    assert keeper.search_episodes("harbour", k=1, skip=1) == hits[1:]
    assert keeper.search_episodes("harbour", min_score=1.0) == []


def test_scope_filters_search(keeper: Keeper) -> None:
    keeper.capture("The harbour is closed.", wait=True, project="/web", session="s1", source="a/web", agent="x")
    keeper.capture("The harbour is open.", wait=True, project="/api", session="s2", source="b/api", at="2025-01-01")
    for scope in ({"project": "/web"}, {"session": "s1"}, {"source": "a/web"}, {"source_prefix": "a"}, {"agent": "x"},
                   {"since": "2025-06-01"}, {"visible_in": "/web"}):  # fmt: skip
        assert [hit.passage.session for hit in keeper.search_episodes("harbour", **scope)] == ["s1"]  # type: ignore[arg-type]
    assert [hit.passage.session for hit in keeper.search_episodes("harbour", until="2025-06-01")] == ["s2"]
    with pytest.raises(InvalidInput):
        keeper.search_episodes(" ")


def test_amended_turn_is_one_episode(keeper: Keeper) -> None:
    source = {"client": "claude", "session": "s1", "turn": "1"}
    keeper.amend(CHAT[:1], **source)
    assert keeper.search_episodes("harbour") == []
    InboxWorker(keeper).drain()
    keeper.amend(CHAT, **source)
    InboxWorker(keeper).drain()
    (hit,) = keeper.search_episodes("harbour repairs")
    text = keeper.episode(hit.episode).text
    assert text.count("Shall we meet") == text.count("closed for repairs") == 1


def test_episode_not_indexed_due_to_an_error_is_indexed_later(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_capture: int) -> None:
        raise StoreError("The disk is full.", "Free some space.")

    with monkeypatch.context() as patch:
        patch.setattr(keeper.services.access.store.episodes, "index", fail)
        keeper.capture(CHAT, wait=True)
    assert keeper.search_episodes("harbour") == []
    assert keeper.services.episodes.index_missing() == 1
    assert len(keeper.search_episodes("harbour")) == 1
    assert keeper.services.episodes.index_missing() == 0


def test_turn_is_searchable_while_the_llm_is_unavailable(tmp_path: Path) -> None:
    clock = FixedClock()
    llm = ScriptedLLM([Unavailable("It is down.", "Wait.")])
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock, llm=llm) as keeper:
        text = "The harbour team decided something about the cranes, I believe, after the long meeting."
        captured = keeper.capture(text, wait=True, context="pre_compact")
        assert captured.state == "pending"
        assert len(keeper.search_episodes("cranes")) == 1


def test_worker_indexes_and_embeds_in_the_background(keeper: Keeper) -> None:
    for number in range(20):
        keeper.capture(f"Nothing to learn about harbour number {number}?")
    worker = InboxWorker(keeper)
    worker.start()
    try:
        wait_until(lambda: keeper.services.access.store.episodes.counts()[:3] == (20, 20, 20))
    finally:
        worker.stop()


def wait_until(is_done: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_done():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_episodes_can_be_disabled_and_enabled(tmp_path: Path) -> None:
    clock = FixedClock()
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock, episodes=False) as keeper:
        keeper.capture(CHAT, wait=True)
        assert keeper.services.episodes.index_missing() == 0
        assert keeper.search_episodes("harbour") == []
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock) as keeper:
        assert keeper.services.episodes.index_missing() == 1
        assert len(keeper.search_episodes("harbour")) == 1


def test_reembed_covers_episodes(tmp_path: Path) -> None:
    clock = FixedClock()
    path = tmp_path / "cofio.db"
    with Keeper(SqliteStore(path, clock), HashEmbedder(64), clock) as keeper:
        keeper.add("We deploy with Fly.io")
        keeper.capture(CHAT, wait=True)
        keeper.services.episodes.embed_missing()
    with Keeper(SqliteStore(path, clock), HashEmbedder(128), clock) as keeper:
        assert keeper.reembed() == 1
        assert keeper.services.access.store.episodes.counts().embedded == 1
        assert keeper.search_episodes("harbour")[0].match_type == "hybrid"


# ── Removing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_purging_a_memory_removes_its_episode(keeper: Keeper) -> None:
    keeper.capture("I prefer tabs over spaces.", wait=True, session="s1", turn="1")
    memory = keeper.search("tabs")[0].id
    episode = keeper.episode_of(memory)
    assert episode is not None
    assert keeper.episode(episode).text == "User: I prefer tabs over spaces."
    keeper.services.captures.forget("2100-01-01")
    assert keeper.episode_of(memory) == episode
    assert keeper.episode_of(keeper.add("We deploy with Fly.io").memory_id) is None
    keeper.purge(memory)
    with pytest.raises(NotFound, match=f"There is no episode {episode}"):
        keeper.episode(episode)


def test_purging_an_episode_keeps_its_memories(keeper: Keeper) -> None:
    captured = keeper.capture("I prefer tabs over spaces.", wait=True)
    memory = keeper.search("tabs")[0].id
    episode = keeper.episode_of(memory)
    assert episode is not None
    keeper.purge_episode(episode)
    assert keeper.item(captured.id).exchange is None
    assert keeper.episode_of(memory) is None
    assert keeper.get(memory).text
    with pytest.raises(NotFound):
        keeper.purge_episode(episode)


def test_tidy_removes_old_episodes_and_those_above_the_size_limit(keeper: Keeper) -> None:
    keeper.capture("The harbour is old.", wait=True, at="2025-01-01")
    keeper.capture("The harbour is new.", wait=True)
    keeper.services.retention.apply(captures=30, retrievals=180, episodes=180, episode_mb=500)
    assert [hit.text for hit in keeper.search_episodes("harbour")] == ["User: The harbour is new."]
    keeper.services.retention.apply(captures=30, retrievals=180, episodes=180, episode_mb=0)
    assert keeper.search_episodes("harbour") == []


# ── Visibility ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_viewer_finds_and_purges_own_episodes(keeper: Keeper) -> None:
    ada, bob = keeper.as_viewer(Viewer(user="ada", team="red")), keeper.as_viewer(Viewer(user="bob", team="red"))
    ada.capture("The harbour key is under the mat.", wait=True, client="codex", session="s1", turn="1")
    bob.capture("The harbour opens at nine.", wait=True, visibility="team", client="codex", session="s1", turn="1")
    assert len(keeper.search_episodes("harbour")) == 2
    (shared,) = bob.search_episodes("harbour")
    own = next(hit for hit in ada.search_episodes("harbour") if hit.episode != shared.episode)
    assert ada.episode(own.episode).client == ada.episode(shared.episode).client == "codex"
    with pytest.raises(NotFound):
        bob.episode(own.episode)
    with pytest.raises(NotFound):
        bob.purge_episode(own.episode)
    for viewer in (ada, bob):
        with pytest.raises(Forbidden, match="not private to you"):
            viewer.purge_episode(shared.episode)
    ada.purge_episode(own.episode)
    assert [hit.episode for hit in keeper.search_episodes("harbour")] == [shared.episode]


@pytest.mark.parametrize(
    "operation",
    [
        lambda viewer_keeper: viewer_keeper.services.episodes.index_missing(),
        lambda viewer_keeper: viewer_keeper.services.episodes.embed_missing(),
        lambda viewer_keeper: viewer_keeper.services.episodes.forget("2026-01-01", 1),
        lambda viewer_keeper: viewer_keeper.services.access.store.episodes.counts(),
        lambda viewer_keeper: viewer_keeper.services.access.store.episodes.adopt([]),
        lambda viewer_keeper: viewer_keeper.services.access.store.snapshots.episodes(0, 1),
    ],
)
def test_operations_on_all_episodes_are_forbidden_to_viewers(
    keeper: Keeper, operation: Callable[[Keeper], object]
) -> None:
    with pytest.raises(Forbidden):
        operation(keeper.as_viewer(Viewer(user="ada")))


def test_episode_of_memory_is_hidden_from_viewers_without_access(keeper: Keeper) -> None:
    ada = keeper.as_viewer(Viewer(user="ada", team="red"))
    ada.capture("I prefer tabs over spaces.", wait=True)
    memory = ada.search("tabs")[0].id
    assert ada.episode_of(memory) is not None
    keeper.update(memory, visibility="global")
    bob = keeper.as_viewer(Viewer(user="bob"))
    assert bob.get(memory)
    assert bob.episode_of(memory) is None


# ── Migrations and backups ────────────────────────────────────────────────────────────────────────────────────────────


def test_captures_of_an_older_store_are_indexed_after_migration(tmp_path: Path) -> None:
    path = tmp_path / "cofio.db"
    with closing(sqlite3.connect(path)) as connection:
        for number, script in migrations("sqlite"):
            if number < 10:
                connection.executescript(f"{script}\nPRAGMA user_version = {number};")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        payload = json.dumps({"messages": [{"role": "user", "text": "We met at the harbour."}], "at": "2026-01-01"})
        for turn, stored_payload in (("1", payload), ("2", "")):
            connection.execute(
                "INSERT INTO inbox (client, session, turn, task, received_at, due_at, state, payload) "
                "VALUES ('codex', 's1', ?, 'learn', '2026-01-01', '2026-01-01', 'rejected', ?)",
                (turn, stored_payload),
            )
        connection.commit()
    clock = FixedClock()
    with Keeper(SqliteStore(path, clock), HashEmbedder(), clock) as keeper:
        assert keeper.services.episodes.index_missing() == 1
        assert [hit.text for hit in keeper.search_episodes("harbour")] == ["User: We met at the harbour."]


def test_restored_backup_contains_episodes(tmp_path: Path) -> None:
    clock = FixedClock()
    path = tmp_path / "cofio.db"
    with Keeper(SqliteStore(path, clock), HashEmbedder(), clock) as keeper:
        keeper.capture("We met at the harbour.", wait=True)
        keeper.services.episodes.embed_missing()
        created = backup.make(path, tmp_path / "backups", clock)
        keeper.purge_episode(keeper.search_episodes("harbour")[0].episode)
        keeper.capture("We met at the lighthouse.", wait=True)
        assert len(keeper.search_episodes("lighthouse")) == 1
    restore(created.path, path, tmp_path / "backups", clock)
    with Keeper(SqliteStore(path, clock), HashEmbedder(), clock) as keeper:
        (hit,) = keeper.search_episodes("harbour")
        assert hit.match_type == "hybrid"
        assert keeper.search_episodes("lighthouse", min_score=0.2) == []
        newer = keeper.capture("A third turn about the ferry.", wait=True)
        assert (
            next(
                search_episode
                for search_episode in keeper.search_episodes("ferry")
                if search_episode.passage.capture == newer.id
            ).episode
            > 2
        )
