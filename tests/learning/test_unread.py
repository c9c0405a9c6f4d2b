"""`keep_unread`: what nothing reads is kept word for word where it is worth it, on every store; and not by default."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cofio import assemble
from cofio.errors import Misconfigured
from cofio.keeper import Keeper
from cofio.learning import WORTH_KEEPING
from cofio.ports import LLM, Store
from cofio.settings import Settings
from cofio.stores.postgres import PostgresStore
from cofio.stores.sqlite import SqliteStore
from cofio.testing import FixedClock, HashEmbedder, MemoryStore, ScriptedLLM

LEAST = 0.2
GRANDFATHER = "My grandfather was a carpenter in a village near Graz."
LOAVES = "Yesterday my sister baked three loaves of rye bread for the neighbours."
CAT = "We adopted a three-legged cat called Biscuit last autumn."
Keeping = Callable[..., Keeper]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def keeping(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Keeping]:
    """Makes a keeper on a store of the kind: `keeping()`, `keeping(0.0)`, `keeping(llm=…)`."""
    with ExitStack() as stack:

        def opened(keep_unread: float = LEAST, llm: LLM | None = None) -> Keeper:
            clock = FixedClock()
            store = _store(request, tmp_path, clock)
            return stack.enter_context(Keeper(store, HashEmbedder(), clock, llm=llm, keep_unread=keep_unread))

        yield opened


def _store(request: pytest.FixtureRequest, tmp_path: Path, clock: FixedClock) -> Store:
    if request.param == "memory":
        return MemoryStore(clock)
    if request.param == "sqlite":
        return SqliteStore(tmp_path / "cofio.db", clock)
    return PostgresStore(request.getfixturevalue("postgres_url"), clock)


def said(*texts: str, role: str = "user") -> list[dict[str, str]]:
    return [{"role": role, "content": each} for each in texts]


def test_it_is_kept_word_for_word_and_settles_the_capture(keeping: Keeping) -> None:
    keeper = keeping()
    captured = keeper.capture(said(f"Thanks so much! {GRANDFATHER} How are you?"), source="chat", wait=True)
    assert captured.state == "stored"
    [memory] = keeper
    assert (memory.text, memory.kind, memory.category, memory.method) == (GRANDFATHER, "other", "detail", "pattern")
    assert memory.confidence == 0.5
    assert memory.source == "chat"
    assert keeper.ledger().balanced


def test_without_the_setting_nothing_is_kept_and_the_reason_is_told(keeping: Keeping) -> None:
    keeper = keeping(0.0)
    captured = keeper.capture(said(GRANDFATHER), source="chat", wait=True)
    assert captured.state == "rejected"
    assert captured.reason
    assert list(keeper) == []


def test_what_is_said_again_is_noted(keeping: Keeping) -> None:
    keeper = keeping()
    keeper.learn(said(CAT))
    assert keeper.learn(said(CAT)).count("noop") == 1
    [memory] = keeper
    assert memory.occurrences == 2


def test_it_can_be_undone(keeping: Keeping) -> None:
    keeper = keeping()
    learned = keeper.learn(said(CAT))
    assert learned.changeset is not None
    keeper.undo(learned.changeset)
    assert list(keeper) == []


def test_talk_is_not_kept_beside_it(keeping: Keeping) -> None:
    keeper = keeping()
    keeper.learn(said("Wow, that's great, keep it up! You are amazing. How was your day? Bye for now."))
    assert list(keeper) == []


def test_a_dry_run_says_why_it_would_be_kept(keeping: Keeping) -> None:
    keeper = keeping()
    told = keeper.learn(said(f"Hi there! {GRANDFATHER}"), dry_run=True)
    assert [each.reason == WORTH_KEEPING for each in told.sentences] == [False, True]
    assert told.count("add") == 1
    assert list(keeper) == []


def test_secrets_in_it_are_redacted(keeping: Keeping) -> None:
    keeper = keeping()
    key = "ghp_" + "a1B2c3D4e5F6" * 3
    keeper.learn(said(f"Yesterday my sister in Graz found the old token {key} on a note."))
    assert all(key not in memory.text for memory in keeper)
    assert any("[redacted:" in memory.text for memory in keeper)


def test_what_an_assistant_says_is_not_kept(keeping: Keeping) -> None:
    keeper = keeping()
    keeper.learn(said(GRANDFATHER, role="assistant"))
    assert list(keeper) == []


@pytest.fixture
def with_model(tmp_path: Path) -> Iterator[Callable[[LLM], Keeper]]:
    with ExitStack() as stack:

        def opened(llm: LLM) -> Keeper:
            clock = FixedClock()
            store = SqliteStore(tmp_path / "cofio.db", clock)
            return stack.enter_context(Keeper(store, HashEmbedder(), clock, llm=llm, keep_unread=LEAST))

        yield opened


def test_what_a_model_read_is_not_kept_word_for_word_too(with_model: Callable[[LLM], Keeper]) -> None:
    unread = "The team agreed on 14 June in Ghent for the offsite, because Clara is free."
    llm = ScriptedLLM([json.dumps({"facts": [{"text": "The offsite is on 14 June in Ghent", "category": "decision"}]})])
    keeper = with_model(llm)
    told = keeper.learn(said(unread))
    assert told.method == "llm"
    assert [memory.text for memory in keeper] == ["The offsite is on 14 June in Ghent"]
    assert all(each.reason != WORTH_KEEPING for each in told.sentences)


def test_what_the_model_was_not_asked_about_is_kept(with_model: Callable[[LLM], Keeper]) -> None:
    keeper = with_model(ScriptedLLM([]))  # it would fail, were it asked
    assert keeper.learn(said(LOAVES)).count("add") == 1


@pytest.mark.parametrize("wrong", ["-0.1", "1.5", "much"])
def test_the_setting_is_a_share(wrong: str) -> None:
    with pytest.raises(Misconfigured):
        Settings.load(environ={"COFIO_KEEP_UNREAD": wrong})


def test_the_setting_reaches_the_keeper(tmp_path: Path) -> None:
    settings = Settings.load({"home": tmp_path}, {"COFIO_KEEP_UNREAD": str(LEAST)})
    with assemble.keeper(settings, embedder=HashEmbedder()) as keeper:
        assert keeper.learn(said(GRANDFATHER), dry_run=True).count("add") == 1
