"""The notes watcher: memories follow stable files, and missing vectors are added."""

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
from cofio.models.markdown_notes import IndexResult
from cofio.ports import Matrix
from cofio.server.background.notes_watcher import NotesWatcher
from cofio.server.http.app import make
from cofio.settings import Settings
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder
from tests.server.test_inbox_worker import wait_until

DEPLOY = "# Releases\n\nWe deploy with Fly.io on Fridays.\n"
TABS = "# Style\n\nAda prefers tabs over spaces.\n"


class FlakyEmbedder(HashEmbedder):
    """Hashing embedder that a test can make unavailable."""

    is_down = False
    calls = 0

    def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Matrix:
        self.calls += 1
        if self.is_down:
            raise Unavailable("The embedder does not answer.", "Try again later.")
        return super().embed(texts, kind)


class ManualTicks:
    """Monotonic clock that a test advances by hand."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def embedder() -> FlakyEmbedder:
    return FlakyEmbedder()


@pytest.fixture
def keeper(tmp_path: Path, embedder: FlakyEmbedder) -> Iterator[Keeper]:
    clock = FixedClock()
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), embedder, clock) as keeper:
        yield keeper


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    folder.mkdir()
    return folder


@pytest.fixture
def ticks() -> ManualTicks:
    return ManualTicks()


@pytest.fixture
def watcher(keeper: Keeper, vault: Path, ticks: ManualTicks) -> NotesWatcher:
    return NotesWatcher(keeper, [vault], ticks=ticks)


def memory_texts(keeper: Keeper) -> list[str]:
    return sorted(memory.text for memory in keeper)


def has_memory_with(keeper: Keeper, phrase: str) -> bool:
    return any(phrase in text for text in memory_texts(keeper))


def tick_twice(watcher: NotesWatcher) -> list[IndexResult]:
    """Return what two consecutive ticks indexed."""
    return watcher.tick() + watcher.tick()


# ── stable files ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_file_is_indexed_after_two_identical_ticks(watcher: NotesWatcher, keeper: Keeper, vault: Path) -> None:
    (vault / "deploy.md").write_text(DEPLOY)
    assert watcher.tick() == []
    (vault / "deploy.md").write_text(DEPLOY + "\nIn Frank")  # still being written
    assert watcher.tick() == []
    (vault / "deploy.md").write_text(DEPLOY + "\nIn Frankfurt, after lunch.")
    assert watcher.tick() == []
    assert memory_texts(keeper) == []
    [read] = watcher.tick()
    assert (read.read, read.gone) == (1, 0)
    assert read.added >= 1
    assert has_memory_with(keeper, "In Frankfurt, after lunch.")
    assert not any(text.endswith("In Frank") for text in memory_texts(keeper))
    assert watcher.tick() == []
    assert keeper.changes(limit=1)[0].by == "notes"


def test_edits_moves_and_deletions_are_followed(watcher: NotesWatcher, keeper: Keeper, vault: Path) -> None:
    (vault / "deploy.md").write_text(DEPLOY)
    (vault / "style.md").write_text(TABS)
    tick_twice(watcher)
    (vault / "deploy.md").write_text(DEPLOY.replace("Fly.io", "Render"))
    tick_twice(watcher)
    assert has_memory_with(keeper, "Render")
    assert not has_memory_with(keeper, "Fly.io")
    (vault / "deploy.md").rename(vault / "release.md")
    tick_twice(watcher)
    assert sum("Render" in text for text in memory_texts(keeper)) == 1
    (vault / "style.md").unlink()
    [read] = tick_twice(watcher)
    assert (read.gone, read.archived) == (1, 1)
    assert not has_memory_with(keeper, "tabs")
    assert has_memory_with(keeper, "Render")


def test_constantly_changing_file_does_not_delay_others(watcher: NotesWatcher, keeper: Keeper, vault: Path) -> None:
    (vault / "deploy.md").write_text(DEPLOY)
    tick_twice(watcher)
    (vault / "style.md").write_text(TABS)
    for number in range(4):
        (vault / "deploy.md").write_text(f"{DEPLOY}\nThis is line {'x' * number} of a log.\n")
        watcher.tick()
    assert has_memory_with(keeper, "tabs")
    assert has_memory_with(keeper, "Fly.io")  # as last indexed
    assert not has_memory_with(keeper, "of a log")
    watcher.tick()
    assert has_memory_with(keeper, "line xxx of a log")


def test_file_restored_immediately_is_unchanged(watcher: NotesWatcher, keeper: Keeper, vault: Path) -> None:
    (vault / "deploy.md").write_text(DEPLOY)
    (vault / "style.md").write_text(TABS)
    tick_twice(watcher)
    before = keeper.changes(limit=1)[0].id
    (vault / "deploy.md").rename(vault / "deploy.md~")  # as some editors save
    assert watcher.tick() == []
    (vault / "deploy.md~").rename(vault / "deploy.md")
    assert tick_twice(watcher) == []
    assert keeper.changes(limit=1)[0].id == before


def test_file_deleted_while_another_is_indexed_is_noticed_at_the_next_tick(
    watcher: NotesWatcher, keeper: Keeper, vault: Path
) -> None:
    (vault / "deploy.md").write_text(DEPLOY)
    tick_twice(watcher)
    (vault / "style.md").write_text(TABS)
    watcher.tick()
    (vault / "deploy.md").unlink()
    [read] = watcher.tick()
    assert (read.read, read.gone) == (1, 0)
    [read] = watcher.tick()
    assert (read.read, read.gone) == (0, 1)
    assert not has_memory_with(keeper, "Fly.io")


def test_touched_file_changes_no_memory(watcher: NotesWatcher, keeper: Keeper, vault: Path) -> None:
    (vault / "deploy.md").write_text(DEPLOY)
    tick_twice(watcher)
    before = keeper.changes(limit=1)[0].id
    os.utime(vault / "deploy.md", ns=(1, 1))
    assert tick_twice(watcher) == []
    assert keeper.changes(limit=1)[0].id == before


def test_new_watcher_indexes_only_changed_files(keeper: Keeper, vault: Path) -> None:
    (vault / "deploy.md").write_text(DEPLOY)
    (vault / "style.md").write_text(TABS)
    tick_twice(NotesWatcher(keeper, [vault]))
    (vault / "style.md").write_text(TABS.replace("Ada", "Bob"))  # while no service is running
    [read] = tick_twice(NotesWatcher(keeper, [vault]))
    assert (read.files, read.read) == (2, 1)
    assert has_memory_with(keeper, "Bob")
    assert tick_twice(NotesWatcher(keeper, [vault])) == []


# ── missing folders ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_missing_folder_is_logged_once_polled_less_often_and_indexed_when_back(
    keeper: Keeper, vault: Path, ticks: ManualTicks, caplog: pytest.LogCaptureFixture
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
        assert has_memory_with(keeper, "Fly.io")  # other folders are still followed
        assert 5 <= looks.count(other) <= 15
        assert looks.count(vault) == 60
        assert caplog.text.count("until it is available again") == 1
        other.mkdir()
        (other / "style.md").write_text(TABS)
        for _ in range(15):
            watcher.tick()
            ticks.now += 5
    assert has_memory_with(keeper, "tabs")
    assert caplog.text.count("are read again") == 1


def test_memories_are_kept_when_the_folder_disappears(
    watcher: NotesWatcher, keeper: Keeper, vault: Path, ticks: ManualTicks
) -> None:
    (vault / "deploy.md").write_text(DEPLOY)
    tick_twice(watcher)
    vault.rename(vault.with_name("away"))
    for _ in range(10):
        watcher.tick()
        ticks.now += 60
    assert has_memory_with(keeper, "Fly.io")
    vault.with_name("away").rename(vault)
    assert tick_twice(watcher) == []
    assert has_memory_with(keeper, "Fly.io")


def test_empty_folder_is_treated_as_unmounted_unless_deletions_were_seen(keeper: Keeper, vault: Path) -> None:
    watcher = NotesWatcher(keeper, [vault])
    (vault / "deploy.md").write_text(DEPLOY)
    (vault / "style.md").write_text(TABS)
    tick_twice(watcher)
    stored = memory_texts(keeper)
    away = vault.with_name("away")
    shutil.copytree(vault, away)
    for path in vault.iterdir():
        path.unlink()
    assert tick_twice(NotesWatcher(keeper, [vault])) == []  # a watcher that starts now
    assert memory_texts(keeper) == stored
    tick_twice(watcher)
    assert memory_texts(keeper) == []


def test_memories_are_kept_when_the_disk_is_removed(watcher: NotesWatcher, keeper: Keeper, vault: Path) -> None:
    (vault / "deploy.md").write_text(DEPLOY)
    tick_twice(watcher)
    watcher._watches[0].device = -1  # simulates another disk until now
    (vault / "deploy.md").unlink()
    assert tick_twice(watcher) == []
    assert has_memory_with(keeper, "Fly.io")
    (vault / "style.md").write_text(TABS)  # the folder is back
    tick_twice(watcher)
    assert has_memory_with(keeper, "tabs")
    assert not has_memory_with(keeper, "Fly.io")


def test_polling_interval_is_reset_when_the_folder_returns(
    watcher: NotesWatcher, keeper: Keeper, vault: Path, ticks: ManualTicks
) -> None:
    def advance(seconds: int) -> None:
        for _ in range(0, seconds, 5):
            watcher.tick()
            ticks.now += 5

    away = vault.with_name("away")
    vault.rename(away)
    advance(600)
    away.rename(vault)
    advance(60)
    vault.rename(away)
    advance(5)
    away.rename(vault)
    (vault / "deploy.md").write_text(DEPLOY)
    advance(20)
    assert has_memory_with(keeper, "Fly.io")


def test_watcher_continues_after_errors(
    watcher: NotesWatcher,
    keeper: Keeper,
    vault: Path,
    ticks: ManualTicks,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    faults: list[Exception] = [StoreBusy("The store is held.", "Wait."), ValueError("a bug")]
    index = type(keeper.notes).index

    def failing(self: Any, *arguments: Any, **options: Any) -> IndexResult:
        if faults:
            raise faults.pop(0)
        return index(self, *arguments, **options)

    monkeypatch.setattr(type(keeper.notes), "index", failing)
    (vault / "deploy.md").write_text(DEPLOY)
    for _ in range(6):
        watcher.tick()
        ticks.now += 60
    assert has_memory_with(keeper, "Fly.io")
    assert "The store is held." in caplog.text
    assert "unexpected error" in caplog.text


# ── vectors ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def import_without_vectors(keeper: Keeper, number: int) -> None:
    lines = [f'{{"text": "The port of service {index} is {8000 + index}."}}' for index in range(number)]
    assert keeper.import_lines(lines, name="ports", embed=False).added == number


def missing_vectors(keeper: Keeper) -> int:
    stats = keeper.stats()
    return int(stats["memories"] + stats["archived"] - stats["vectors"])


def test_missing_vectors_are_added_in_batches(watcher: NotesWatcher, keeper: Keeper) -> None:
    import_without_vectors(keeper, 300)
    assert (watcher.fill(), missing_vectors(keeper)) == (256, 44)
    assert watcher._fill_pause.is_over  # continues without delay
    assert (watcher.fill(), missing_vectors(keeper)) == (44, 0)
    assert not watcher._fill_pause.is_over
    assert watcher.fill() == 0


def test_unavailable_embedder_is_logged_once(
    watcher: NotesWatcher, keeper: Keeper, embedder: FlakyEmbedder, caplog: pytest.LogCaptureFixture
) -> None:
    import_without_vectors(keeper, 3)
    embedder.is_down = True
    assert [watcher.fill() for _ in range(5)] == [0] * 5
    assert caplog.text.count("stored without vectors") == 1
    embedder.is_down = False
    assert watcher.fill() == 3
    assert missing_vectors(keeper) == 0


def test_thread_adds_vectors_once_the_embedder_is_available(
    keeper: Keeper, embedder: FlakyEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cofio.server.background.notes_watcher._FILL", 0.02)
    monkeypatch.setattr("cofio.server.background.notes_watcher._EMBEDDER_AGAIN", 0.05)
    import_without_vectors(keeper, 300)
    embedder.is_down = True
    watcher = NotesWatcher(keeper)
    watcher.start()
    try:
        wait_until(lambda: embedder.calls >= 3)
        assert missing_vectors(keeper) == 300
        embedder.is_down = False
        wait_until(lambda: missing_vectors(keeper) == 0)
    finally:
        watcher.stop()


# ── thread ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_watcher_runs_in_its_own_thread_and_stops_immediately(keeper: Keeper, vault: Path) -> None:
    threads: list[str] = []
    watcher = NotesWatcher(
        keeper, [vault], every=0.02, on_sync=lambda _: threads.append(threading.current_thread().name)
    )
    watcher.start()
    try:
        (vault / "deploy.md").write_text(DEPLOY)
        wait_until(lambda: has_memory_with(keeper, "Fly.io"))
        (vault / "deploy.md").unlink()
        wait_until(lambda: not has_memory_with(keeper, "Fly.io"))
    finally:
        watcher.stop()
    assert set(threads) == {"cofio-notes"}
    (vault / "deploy.md").write_text(DEPLOY)
    time.sleep(0.1)
    assert not has_memory_with(keeper, "Fly.io")


def test_long_first_indexing_does_not_delay_shutdown(tmp_path: Path, vault: Path, ticks: ManualTicks) -> None:
    class Interrupted(HashEmbedder):
        """Embedder that stops the watcher during its first call."""

        watcher: NotesWatcher | None = None

        def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Matrix:
            if self.watcher:
                self.watcher.stop()
            return super().embed(texts, kind)

    for number in range(40):
        sections = (f"# S{index}\nSection {index} of file {number} says this.\n" for index in range(30))
        (vault / f"{number}.md").write_text("".join(sections))
    clock, embedder = FixedClock(), Interrupted()
    with Keeper(SqliteStore(tmp_path / "long.db", clock), embedder, clock) as keeper:
        embedder.watcher = NotesWatcher(keeper, [vault], ticks=ticks)
        (read,) = tick_twice(embedder.watcher)
        assert 0 < read.added < 1_200
        embedder.watcher = None
        (rest,) = tick_twice(NotesWatcher(keeper, [vault], ticks=ticks))
        assert read.added + rest.added == keeper.count() == 1_200


def test_idle_watcher_stops_immediately(keeper: Keeper, vault: Path) -> None:
    watcher = NotesWatcher(keeper, [vault], every=3_600)
    watcher.start()
    start_time = time.monotonic()
    watcher.stop()
    assert time.monotonic() - start_time < 3
    assert "cofio-notes" not in {thread.name for thread in threading.enumerate()}


def test_interval_zero_disables_watching(keeper: Keeper, vault: Path) -> None:
    (vault / "deploy.md").write_text(DEPLOY)
    assert tick_twice(NotesWatcher(keeper, [vault], every=0)) == []
    assert memory_texts(keeper) == []


def test_service_runs_the_watcher(keeper: Keeper, tmp_path: Path) -> None:
    app = make(keeper, Settings.load({"home": tmp_path / "home"}, {}))
    observed: list[set[str]] = []

    async def run() -> None:
        async with app.router.lifespan_context(app):
            observed.append({thread.name for thread in threading.enumerate()})

    anyio.run(run)
    assert "cofio-notes" in observed[0]
    assert "cofio-notes" not in {thread.name for thread in threading.enumerate()}
