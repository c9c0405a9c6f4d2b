"""The watcher: memories follow folders once their files have rested, and every memory gets its vector."""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest

from cofio.core import Keeper
from cofio.errors import StoreBusy, Unavailable
from cofio.models.notes import IndexResult
from cofio.ports import Matrix
from cofio.server.background.notes_watcher import NotesWatcher
from cofio.server.http.app import make
from cofio.settings import Settings
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder
from tests.server.test_inbox_worker import until

DEPLOY = "# Releases\n\nWe deploy with Fly.io on Fridays.\n"
TABS = "# Style\n\nAda prefers tabs over spaces.\n"


class Embedder(HashEmbedder):
    """Hashes; where a test says so, it is out of reach."""

    is_down = False
    asked = 0

    def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Matrix:
        self.asked += 1
        if self.is_down:
            raise Unavailable("The embedder does not answer.", "Try again later.")
        return super().embed(texts, kind)


class Ticks:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def embedder() -> Embedder:
    return Embedder()


@pytest.fixture
def keeper(tmp_path: Path, embedder: Embedder) -> Iterator[Keeper]:
    clock = FixedClock()
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), embedder, clock) as keeper:
        yield keeper


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    folder.mkdir()
    return folder


@pytest.fixture
def ticks() -> Ticks:
    return Ticks()


@pytest.fixture
def watcher(keeper: Keeper, vault: Path, ticks: Ticks) -> NotesWatcher:
    return NotesWatcher(keeper, [vault], ticks=ticks)


def texts(keeper: Keeper) -> list[str]:
    return sorted(memory.text for memory in keeper)


def says(keeper: Keeper, words: str) -> bool:
    return any(words in text for text in texts(keeper))


def rested(watcher: NotesWatcher) -> list[IndexResult]:
    """What two looks read."""
    return watcher.tick() + watcher.tick()


# ── files that rest ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_file_is_read_once_it_looked_the_same_twice(watcher: NotesWatcher, keeper: Keeper, vault: Path) -> None:
    (vault / "deploy.md").write_text(DEPLOY)
    assert watcher.tick() == []
    (vault / "deploy.md").write_text(DEPLOY + "\nIn Frank")  # somebody is still writing
    assert watcher.tick() == []
    (vault / "deploy.md").write_text(DEPLOY + "\nIn Frankfurt, after lunch.")
    assert watcher.tick() == []
    assert texts(keeper) == []
    [read] = watcher.tick()
    assert (read.read, read.gone) == (1, 0)
    assert read.added >= 1
    assert says(keeper, "In Frankfurt, after lunch.")
    assert not any(text.endswith("In Frank") for text in texts(keeper))
    assert watcher.tick() == []
    assert keeper.changes(limit=1)[0].by == "notes"


def test_what_is_edited_moved_and_deleted_is_followed(watcher: NotesWatcher, keeper: Keeper, vault: Path) -> None:
    (vault / "deploy.md").write_text(DEPLOY)
    (vault / "style.md").write_text(TABS)
    rested(watcher)
    (vault / "deploy.md").write_text(DEPLOY.replace("Fly.io", "Render"))
    rested(watcher)
    assert says(keeper, "Render")
    assert not says(keeper, "Fly.io")
    (vault / "deploy.md").rename(vault / "release.md")
    rested(watcher)
    assert sum("Render" in text for text in texts(keeper)) == 1
    (vault / "style.md").unlink()
    [read] = rested(watcher)
    assert (read.gone, read.archived) == (1, 1)
    assert not says(keeper, "tabs")
    assert says(keeper, "Render")


def test_one_file_that_never_rests_keeps_no_other_waiting(watcher: NotesWatcher, keeper: Keeper, vault: Path) -> None:
    (vault / "deploy.md").write_text(DEPLOY)
    rested(watcher)
    (vault / "style.md").write_text(TABS)
    for number in range(4):
        (vault / "deploy.md").write_text(f"{DEPLOY}\nThis is line {'x' * number} of a log.\n")
        watcher.tick()
    assert says(keeper, "tabs")
    assert says(keeper, "Fly.io")  # as it was read last
    assert not says(keeper, "of a log")
    watcher.tick()
    assert says(keeper, "line xxx of a log")


def test_a_file_that_is_put_back_at_once_was_never_gone(watcher: NotesWatcher, keeper: Keeper, vault: Path) -> None:
    (vault / "deploy.md").write_text(DEPLOY)
    (vault / "style.md").write_text(TABS)
    rested(watcher)
    before = keeper.changes(limit=1)[0].id
    (vault / "deploy.md").rename(vault / "deploy.md~")  # as some editors save
    assert watcher.tick() == []
    (vault / "deploy.md~").rename(vault / "deploy.md")
    assert rested(watcher) == []
    assert keeper.changes(limit=1)[0].id == before


def test_a_file_that_goes_while_another_is_read_is_followed_at_the_next_look(
    watcher: NotesWatcher, keeper: Keeper, vault: Path
) -> None:
    (vault / "deploy.md").write_text(DEPLOY)
    rested(watcher)
    (vault / "style.md").write_text(TABS)
    watcher.tick()
    (vault / "deploy.md").unlink()
    [read] = watcher.tick()
    assert (read.read, read.gone) == (1, 0)
    [read] = watcher.tick()
    assert (read.read, read.gone) == (0, 1)
    assert not says(keeper, "Fly.io")


def test_a_file_that_was_only_touched_changes_no_memory(watcher: NotesWatcher, keeper: Keeper, vault: Path) -> None:
    (vault / "deploy.md").write_text(DEPLOY)
    rested(watcher)
    before = keeper.changes(limit=1)[0].id
    os.utime(vault / "deploy.md", ns=(1, 1))
    assert rested(watcher) == []
    assert keeper.changes(limit=1)[0].id == before


def test_a_new_watcher_reads_again_only_what_has_changed(keeper: Keeper, vault: Path) -> None:
    (vault / "deploy.md").write_text(DEPLOY)
    (vault / "style.md").write_text(TABS)
    rested(NotesWatcher(keeper, [vault]))
    (vault / "style.md").write_text(TABS.replace("Ada", "Bob"))  # while no service runs
    [read] = rested(NotesWatcher(keeper, [vault]))
    assert (read.files, read.read) == (2, 1)
    assert says(keeper, "Bob")
    assert rested(NotesWatcher(keeper, [vault])) == []


# ── folders that are not there ────────────────────────────────────────────────────────────────────────────────────────


def test_a_missing_folder_is_told_once_left_alone_longer_and_longer_and_followed_when_it_is_back(
    keeper: Keeper, vault: Path, ticks: Ticks, caplog: pytest.LogCaptureFixture
) -> None:
    other = vault.with_name("other")
    watcher = NotesWatcher(keeper, [other, vault], every=5.0, ticks=ticks)
    (vault / "deploy.md").write_text(DEPLOY)
    looks = []
    look = keeper.notes.look
    with caplog.at_level(logging.INFO), pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(keeper.notes), "look", lambda _, folder: looks.append(folder) or look(folder))
        for _ in range(60):
            watcher.tick()
            ticks.now += 5
        assert says(keeper, "Fly.io")  # the others are followed
        assert 5 <= looks.count(other) <= 15
        assert looks.count(vault) == 60
        assert caplog.text.count("is not followed for now") == 1
        other.mkdir()
        (other / "style.md").write_text(TABS)
        for _ in range(15):
            watcher.tick()
            ticks.now += 5
    assert says(keeper, "tabs")
    assert caplog.text.count("is followed again") == 1


def test_memories_outlive_a_folder_that_goes_away(
    watcher: NotesWatcher, keeper: Keeper, vault: Path, ticks: Ticks
) -> None:
    (vault / "deploy.md").write_text(DEPLOY)
    rested(watcher)
    vault.rename(vault.with_name("away"))
    for _ in range(10):
        watcher.tick()
        ticks.now += 60
    assert says(keeper, "Fly.io")
    vault.with_name("away").rename(vault)
    assert rested(watcher) == []
    assert says(keeper, "Fly.io")


def test_an_empty_folder_is_a_disk_that_is_not_mounted_unless_its_files_were_seen_to_go(
    keeper: Keeper, vault: Path
) -> None:
    watcher = NotesWatcher(keeper, [vault])
    (vault / "deploy.md").write_text(DEPLOY)
    (vault / "style.md").write_text(TABS)
    rested(watcher)
    kept = texts(keeper)
    away = vault.with_name("away")
    shutil.copytree(vault, away)
    for path in vault.iterdir():
        path.unlink()
    assert rested(NotesWatcher(keeper, [vault])) == []  # of a service that starts now
    assert texts(keeper) == kept
    rested(watcher)
    assert texts(keeper) == []


def test_memories_outlive_a_disk_that_is_taken_out(watcher: NotesWatcher, keeper: Keeper, vault: Path) -> None:
    (vault / "deploy.md").write_text(DEPLOY)
    rested(watcher)
    watcher._watches[0]._device = -1  # as if another disk had been there until now
    (vault / "deploy.md").unlink()
    assert rested(watcher) == []
    assert says(keeper, "Fly.io")
    (vault / "style.md").write_text(TABS)  # it is there again
    rested(watcher)
    assert says(keeper, "tabs")
    assert not says(keeper, "Fly.io")


def test_a_folder_that_was_back_is_not_left_alone_for_long_when_it_goes_again(
    watcher: NotesWatcher, keeper: Keeper, vault: Path, ticks: Ticks
) -> None:
    def passing(seconds: int) -> None:
        for _ in range(0, seconds, 5):
            watcher.tick()
            ticks.now += 5

    away = vault.with_name("away")
    vault.rename(away)
    passing(600)
    away.rename(vault)
    passing(60)
    vault.rename(away)
    passing(5)
    away.rename(vault)
    (vault / "deploy.md").write_text(DEPLOY)
    passing(20)
    assert says(keeper, "Fly.io")


def test_what_goes_wrong_once_is_outlived(
    watcher: NotesWatcher,
    keeper: Keeper,
    vault: Path,
    ticks: Ticks,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    faults: list[Exception] = [StoreBusy("The store is held.", "Wait."), ValueError("a bug")]
    index = type(keeper.notes).index

    def failing(self: Any, *given: Any, **how: Any) -> IndexResult:
        if faults:
            raise faults.pop(0)
        return index(self, *given, **how)

    monkeypatch.setattr(type(keeper.notes), "index", failing)
    (vault / "deploy.md").write_text(DEPLOY)
    for _ in range(6):
        watcher.tick()
        ticks.now += 60
    assert says(keeper, "Fly.io")
    assert "The store is held." in caplog.text
    assert "unexpected error" in caplog.text


# ── vectors ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def without_vectors(keeper: Keeper, number: int) -> None:
    lines = [f'{{"text": "The port of service {each} is {8000 + each}."}}' for each in range(number)]
    assert keeper.import_lines(lines, name="ports", embed=False).added == number


def missing(keeper: Keeper) -> int:
    stats = keeper.stats()
    return int(stats["memories"] + stats["archived"] - stats["vectors"])


def test_missing_vectors_are_made_a_batch_at_a_time(watcher: NotesWatcher, keeper: Keeper) -> None:
    without_vectors(keeper, 300)
    assert (watcher.fill(), missing(keeper)) == (256, 44)
    assert watcher._fill_pause.is_over  # it goes on at once
    assert (watcher.fill(), missing(keeper)) == (44, 0)
    assert not watcher._fill_pause.is_over
    assert watcher.fill() == 0


def test_vectors_wait_for_the_embedder_with_one_word_in_the_log(
    watcher: NotesWatcher, keeper: Keeper, embedder: Embedder, caplog: pytest.LogCaptureFixture
) -> None:
    without_vectors(keeper, 3)
    embedder.is_down = True
    assert [watcher.fill() for _ in range(5)] == [0] * 5
    assert caplog.text.count("stored without vectors") == 1
    embedder.is_down = False
    assert watcher.fill() == 3
    assert missing(keeper) == 0


def test_the_thread_makes_vectors_as_soon_as_the_embedder_works_again(
    keeper: Keeper, embedder: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cofio.server.background.notes_watcher._FILL", 0.02)
    monkeypatch.setattr("cofio.server.background.notes_watcher._EMBEDDER_AGAIN", 0.05)
    without_vectors(keeper, 300)
    embedder.is_down = True
    watcher = NotesWatcher(keeper)
    watcher.start()
    try:
        until(lambda: embedder.asked >= 3)
        assert missing(keeper) == 300
        embedder.is_down = False
        until(lambda: missing(keeper) == 0)
    finally:
        watcher.stop()


# ── the thread ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_it_follows_in_a_thread_of_its_own_and_stops_at_once(keeper: Keeper, vault: Path) -> None:
    threads: list[str] = []
    watcher = NotesWatcher(
        keeper, [vault], every=0.02, on_sync=lambda _: threads.append(threading.current_thread().name)
    )
    watcher.start()
    try:
        (vault / "deploy.md").write_text(DEPLOY)
        until(lambda: says(keeper, "Fly.io"))
        (vault / "deploy.md").unlink()
        until(lambda: not says(keeper, "Fly.io"))
    finally:
        watcher.stop()
    assert set(threads) == {"cofio-notes"}
    (vault / "deploy.md").write_text(DEPLOY)
    time.sleep(0.1)
    assert not says(keeper, "Fly.io")


def test_a_long_first_reading_does_not_hold_up_the_end(tmp_path: Path, vault: Path, ticks: Ticks) -> None:
    class Interrupted(HashEmbedder):
        """An embedder during whose first work the service is stopped."""

        watcher: NotesWatcher | None = None

        def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Matrix:
            if self.watcher:
                self.watcher.stop()
            return super().embed(texts, kind)

    for number in range(40):
        sections = (f"# S{each}\nSection {each} of file {number} says this.\n" for each in range(30))
        (vault / f"{number}.md").write_text("".join(sections))
    clock, embedder = FixedClock(), Interrupted()
    with Keeper(SqliteStore(tmp_path / "long.db", clock), embedder, clock) as keeper:
        embedder.watcher = NotesWatcher(keeper, [vault], ticks=ticks)
        (read,) = rested(embedder.watcher)
        assert 0 < read.added < 1_200
        embedder.watcher = None
        (rest,) = rested(NotesWatcher(keeper, [vault], ticks=ticks))
        assert read.added + rest.added == keeper.count() == 1_200


def test_a_watcher_that_rests_does_not_hold_up_the_end(keeper: Keeper, vault: Path) -> None:
    watcher = NotesWatcher(keeper, [vault], every=3_600)
    watcher.start()
    started = time.monotonic()
    watcher.stop()
    assert time.monotonic() - started < 3
    assert "cofio-notes" not in {thread.name for thread in threading.enumerate()}


def test_with_no_time_between_looks_no_folder_is_looked_at(keeper: Keeper, vault: Path) -> None:
    (vault / "deploy.md").write_text(DEPLOY)
    assert rested(NotesWatcher(keeper, [vault], every=0)) == []
    assert texts(keeper) == []


def test_the_service_has_a_watcher_for_as_long_as_it_runs(keeper: Keeper, tmp_path: Path) -> None:
    app = make(keeper, Settings.load({"home": tmp_path / "home"}, {}))
    seen: list[set[str]] = []

    async def run() -> None:
        async with app.router.lifespan_context(app):
            seen.append({thread.name for thread in threading.enumerate()})

    anyio.run(run)
    assert "cofio-notes" in seen[0]
    assert "cofio-notes" not in {thread.name for thread in threading.enumerate()}
