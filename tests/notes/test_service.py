"""Notes: flushed summaries, indexed folders, and exported vaults that are read back."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cofio import bootstrap
from cofio.core import Keeper
from cofio.errors import (
    Conflict,
    Forbidden,
    InvalidInput,
    Misconfigured,
    NotConfigured,
    NotFound,
    StoreError,
    Unavailable,
)
from cofio.markdown_notes import files
from cofio.markdown_notes.service import BATCH, NotesOptions
from cofio.models.markdown_notes import IndexResult, VaultExportResult
from cofio.models.memory import Adopt, Fact, Memory, Viewer
from cofio.ports import Matrix, Store
from cofio.settings import Settings
from cofio.stores.postgres import PostgresStore
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder, MemoryStore


class FlakyEmbedder(HashEmbedder):
    """An embedder that can be unavailable."""

    away = False

    def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Matrix:
        if self.away:
            raise Unavailable("The embedder does not answer.", "Try again later.")
        return super().embed(texts, kind)


def make_keeper(
    store: Store, clock: FixedClock, home: Path, embedder: HashEmbedder | None = None, **labels: str
) -> Keeper:
    by_name = {home / folder: label for folder, label in labels.items()}
    return Keeper(store, embedder or HashEmbedder(), clock, notes=NotesOptions(home / "notes", by_name))


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    clock = FixedClock()
    with make_keeper(MemoryStore(clock), clock, tmp_path) as keeper:
        yield keeper


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    folder.mkdir()
    return folder


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def live_memories(keeper: Keeper, **within: Any) -> dict[str, Memory]:
    """Return the live memories by text."""
    return {memory.text: memory for memory in keeper.list(limit=1_000, **within).memories}


def counts(done: IndexResult) -> tuple[int, int, int]:
    return done.added, done.updated, done.archived


RUNBOOK = """# Deploy

## Staging
Every push to main goes to staging.

## Production
Nobody deploys on a Friday afternoon.
"""

# ── flush ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_flush_writes_a_markdown_file(keeper: Keeper, tmp_path: Path) -> None:
    keeper.notes.flush("AAPL volume spike.", ["AAPL", "volume"])
    (file,) = (tmp_path / "notes").glob("*.md")
    assert re.fullmatch(r"2026-01-01-00-[0-9a-f]{8}\.md", file.name)
    assert file.read_text() == "# Memory: 2026-01-01-00\n\nTags: AAPL, volume\n\nAAPL volume spike.\n"
    assert file.stat().st_mode & 0o077 == 0
    assert [path.name for path in (tmp_path / "notes").iterdir()] == [file.name]


def test_flush_adds_a_memory_with_the_file_as_source(keeper: Keeper, tmp_path: Path) -> None:
    change = keeper.notes.flush("Test content", ["test"], kind="observation", project="/srv/web", metadata={"x": 1})
    (file,) = (tmp_path / "notes").iterdir()
    assert keeper.count() == 1
    assert change.action == "add"
    assert change.memory.source == f"file:{file.name}"
    assert (change.memory.text, change.memory.tags, change.memory.kind) == ("Test content", ("test",), "observation")
    assert change.memory.metadata == {"x": 1, "note": {"path": file.name, "heading": ""}}
    assert [hit.id for hit in keeper.search("test content")] == [change.memory_id]


def test_flushed_notes_are_listed_newest_first(keeper: Keeper) -> None:
    keeper.notes.flush("First", ["a"])
    keeper.notes.flush("Second", ["b"])
    listing = keeper.list().memories
    assert [memory.text for memory in listing] == ["Second", "First"]
    assert listing[0].timestamp >= listing[1].timestamp


def test_flushed_file_counts_as_indexed(keeper: Keeper) -> None:
    keeper.notes.flush("We use tabs", ["style"], project="/srv/web")
    before = keeper.changes()
    assert keeper.notes.index() == IndexResult(
        folder=str(files.resolve_folder(keeper.notes.folders()[0].folder)), files=1
    )
    assert keeper.changes() == before


def test_repeated_summary_creates_two_notes(keeper: Keeper) -> None:
    for _ in range(2):
        keeper.notes.flush("We use tabs", project="/srv/web")
    assert keeper.count() == 2
    assert counts(keeper.notes.index()) == (0, 0, 0)


@pytest.mark.parametrize(
    "summary",
    ["---\ntags: [x]\n---\n# Heading\nTags: no", "Tags: a, b", "a [[b]] #c\r\nd", "# Memory: x\n\nTags: y\n\nz"],
)
def test_summary_with_markdown_syntax_is_preserved(tmp_path: Path, summary: str) -> None:
    clock = FixedClock()
    with make_keeper(SqliteStore(tmp_path / "one.db", clock), clock, tmp_path) as keeper:
        assert keeper.notes.flush(summary, ["t"]).memory.text == summary
    with make_keeper(SqliteStore(tmp_path / "two.db", clock), clock, tmp_path) as keeper:
        assert counts(keeper.notes.index()) == (1, 0, 0)
        (memory,) = keeper.list().memories
        assert (memory.text, memory.tags, memory.created_at[:13]) == (summary, ("t",), "2026-01-01T00")


def test_edited_flushed_note_updates_its_memory(keeper: Keeper, tmp_path: Path) -> None:
    change = keeper.notes.flush("We use tabs", ["style"], kind="preference", project="/srv/web")
    (file,) = (tmp_path / "notes").iterdir()
    file.write_text(file.read_text().replace("tabs", "spaces"))
    assert counts(keeper.notes.index()) == (0, 1, 0)
    after = keeper.get(change.memory_id)
    assert (after.text, after.kind, after.project, after.tags) == (
        "We use spaces",
        "preference",
        "/srv/web",
        ("style",),
    )
    file.write_text(file.read_text().replace("Tags: style", "Tags: style, code"))
    keeper.notes.index()
    file = file.rename(file.with_name("moved.md"))
    keeper.notes.index()
    after = keeper.get(change.memory_id)
    assert (after.tags, after.source) == (("style", "code"), "file:moved.md")
    assert (after.kind, after.category) == ("preference", change.memory.category)  # not contained in the file
    file.unlink()
    assert counts(keeper.notes.index()) == (0, 0, 1)
    assert keeper.count() == 0


def test_failed_store_write_leaves_no_file(tmp_path: Path) -> None:
    clock = FixedClock()
    store = SqliteStore(tmp_path / "cofio.db", clock)
    keeper = make_keeper(store, clock, tmp_path)
    keeper.notes.flush("Something to begin with")
    store.close()
    with pytest.raises(StoreError):
        keeper.notes.flush("We use tabs")
    assert len(list((tmp_path / "notes").iterdir())) == 1


def test_failed_file_write_leaves_no_memory(keeper: Keeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "notes").write_text("in the way")
    with pytest.raises(InvalidInput, match="not a folder"):
        keeper.notes.flush("We use tabs")
    assert keeper.count() == 0
    (tmp_path / "notes").unlink()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "link", full)
    with pytest.raises(StoreError, match="No space left"):
        keeper.notes.flush("We use tabs")
    assert keeper.count() == 0
    assert list((tmp_path / "notes").iterdir()) == []


@pytest.mark.parametrize(
    ("summary", "about"),
    [("", {}), (" ", {}), ("x" * 70_000, {}), ("x", {"tags": ["a,b"]}), ("x", {"tags": ["a\nb"]}), ("x\0", {}),
     ("x", {"source": "mine"}), ("x", {"nonsense": 1}), ("x", {"tags": "text"}), ("x", {"kind": "nonsense"})],
)  # fmt: skip
def test_invalid_note_changes_nothing(keeper: Keeper, tmp_path: Path, summary: str, about: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        keeper.notes.flush(summary, **about)
    assert keeper.count() == 0
    assert list((tmp_path / "notes").glob("**/*")) == []


def test_missing_notes_folder_is_an_error(tmp_path: Path) -> None:
    with Keeper(SqliteStore(tmp_path / "cofio.db", FixedClock()), HashEmbedder(), FixedClock()) as keeper:
        for asked in (lambda: keeper.notes.flush("x"), keeper.notes.index):
            with pytest.raises(NotConfigured, match="COFIO_NOTES"):
                asked()
        assert keeper.notes.folders() == []


def test_writers_may_flush_and_only_the_owner_lists_folders(keeper: Keeper, tmp_path: Path) -> None:
    ada = keeper.as_viewer(Viewer(user="ada", agent="codex"))
    change = ada.notes.flush("Ada likes tabs", ["style"])
    assert (change.memory.user, change.memory.agent) == ("ada", "codex")
    for asked in (
        ada.notes.index, ada.notes.folders, lambda: ada.notes.look(tmp_path), lambda: ada.notes.export(tmp_path / "out")
    ):  # fmt: skip
        with pytest.raises(Forbidden):
            asked()
    assert counts(keeper.notes.index()) == (0, 0, 0)
    with pytest.raises(Forbidden):
        keeper.as_viewer(Viewer(user="ben", prefixes=("acme",))).notes.flush("Ben likes spaces")
    assert len(list((tmp_path / "notes").iterdir())) == 1


# ── indexing a folder ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_heading_becomes_a_memory(keeper: Keeper, vault: Path) -> None:
    write(vault, "ops/runbook.md", RUNBOOK)
    result = keeper.notes.index(vault)
    assert (result.files, result.read, *counts(result)) == (1, 1, 2, 0, 0)
    memory = live_memories(keeper)["Every push to main goes to staging."]
    assert memory.source == "file:vault/ops/runbook.md"
    assert memory.context == "runbook > Deploy > Staging"
    assert memory.metadata == {"note": {"path": "ops/runbook.md", "heading": "Deploy > Staging"}}
    assert [hit.id for hit in keeper.search("who deploys on friday", k=1)] == [
        live_memories(keeper)["Nobody deploys on a Friday afternoon."].id
    ]
    assert keeper.changeset(result.changeset or 0).why == "notes vault"


def test_unchanged_file_is_not_read_again(keeper: Keeper, vault: Path) -> None:
    write(vault, "a.md", RUNBOOK)
    keeper.notes.index(vault)
    before = keeper.changes()
    repeated = keeper.notes.index(vault)
    assert (repeated.files, repeated.read, repeated.changeset, *counts(repeated)) == (1, 0, None, 0, 0, 0)
    assert keeper.changes() == before


def test_settled_size_and_time_are_trusted(tmp_path: Path, vault: Path) -> None:
    clock = FixedClock("2090-01-01T00:00:00Z")  # long after the files were written
    with make_keeper(SqliteStore(tmp_path / "cofio.db", clock), clock, tmp_path) as keeper:
        file = write(vault, "a.md", "These are some words of mine.")
        keeper.notes.index(vault)
        about = file.stat()
        file.write_text("These are other words of mine"[: about.st_size].ljust(about.st_size, "."))
        os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns))
        assert keeper.notes.index(vault).read == 0  # content was not compared
        os.utime(file)
        assert counts(keeper.notes.index(vault)) == (0, 1, 0)


def test_file_written_while_being_read_is_read_again(keeper: Keeper, vault: Path) -> None:
    file = write(vault, "a.md", "These are some words of mine.")
    keeper.notes.index(vault)  # the clock shows a time before the file was written
    about = file.stat()
    file.write_text("These are some words of hers.")
    os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert counts(keeper.notes.index(vault)) == (0, 1, 0)


def test_edited_section_keeps_its_memory_and_history(keeper: Keeper, vault: Path) -> None:
    file = write(vault, "a.md", RUNBOOK)
    keeper.notes.index(vault)
    before = live_memories(keeper)["Nobody deploys on a Friday afternoon."]
    file.write_text(RUNBOOK.replace("Friday afternoon", "Monday morning"))
    result = keeper.notes.index(vault)
    assert counts(result) == (0, 1, 0)
    after = keeper.get(before.id)
    assert after.text == "Nobody deploys on a Monday morning."
    assert keeper.count() == 2
    assert [change.before.text if change.before else None for change in keeper.history(before.id)] == [
        None,
        before.text,
    ]
    assert keeper.search("monday morning", k=1)[0].id == before.id
    keeper.undo(result.changeset or 0)
    assert keeper.get(before.id).text == before.text


def test_moved_sections_keep_their_memories(keeper: Keeper, vault: Path) -> None:
    file = write(vault, "a.md", "# A\nfirst words of this page\n# B\nsecond words of this page\n")
    keeper.notes.index(vault)
    ids = {text: memory.id for text, memory in live_memories(keeper).items()}
    file.write_text("# B\nsecond words of this page\n# C\nfirst words of this page\n")
    assert counts(keeper.notes.index(vault)) == (0, 1, 0)  # below another heading
    assert {text: memory.id for text, memory in live_memories(keeper).items()} == ids
    assert live_memories(keeper)["first words of this page"].context == "a > C"


def test_renamed_file_keeps_its_memories(keeper: Keeper, vault: Path) -> None:
    file = write(vault, "a.md", RUNBOOK)
    keeper.notes.index(vault)
    ids = {text: memory.id for text, memory in live_memories(keeper).items()}
    file.rename(vault / "b.md")
    result = keeper.notes.index(vault)
    assert (result.read, result.gone, *counts(result)) == (1, 1, 0, 2, 0)
    assert {text: memory.id for text, memory in live_memories(keeper).items()} == ids
    assert {memory.source for memory in live_memories(keeper).values()} == {"file:vault/b.md"}
    assert live_memories(keeper)["Every push to main goes to staging."].metadata["note"]["path"] == "b.md"


def test_renamed_and_edited_file_keeps_its_memories(keeper: Keeper, vault: Path) -> None:
    file = write(vault, "a.md", RUNBOOK + "\n## Rollback\nRun make rollback and wait for it.\n")
    keeper.notes.index(vault)
    ids = sorted(memory.id for memory in live_memories(keeper).values())
    file.unlink()
    write(vault, "b.md", RUNBOOK + "\n## Rollback\nRun make undo and wait for it.\n")
    assert counts(keeper.notes.index(vault)) == (0, 3, 0)
    assert sorted(memory.id for memory in live_memories(keeper).values()) == ids
    assert live_memories(keeper)["Run make undo and wait for it."].source == "file:vault/b.md"


def test_section_moved_to_another_file_keeps_its_memory(keeper: Keeper, vault: Path) -> None:
    write(vault, "a.md", RUNBOOK)
    write(vault, "b.md", "# Other\nOther words are on this page.\n")
    keeper.notes.index(vault)
    ids = {text: memory.id for text, memory in live_memories(keeper).items()}
    head, _, tail = RUNBOOK.partition("## Production")
    write(vault, "a.md", head)
    write(vault, "b.md", "# Other\nOther words are on this page.\n## Production" + tail)
    assert counts(keeper.notes.index(vault)) == (0, 1, 0)
    assert {text: memory.id for text, memory in live_memories(keeper).items()} == ids


def test_deleted_sections_and_files_archive_their_memories(keeper: Keeper, vault: Path) -> None:
    write(vault, "a.md", RUNBOOK)
    write(vault, "b.md", "# Other\nOther words are on this page.\n")
    keeper.notes.index(vault)
    write(vault, "a.md", RUNBOOK.partition("## Production")[0])
    (vault / "b.md").unlink()
    result = keeper.notes.index(vault)
    assert (result.files, result.read, result.gone, *counts(result)) == (1, 1, 1, 0, 0, 2)
    assert set(live_memories(keeper)) == {"Every push to main goes to staging."}
    keeper.undo(result.changeset or 0)
    assert keeper.count() == 3


def test_restored_file_reactivates_its_memories(keeper: Keeper, vault: Path) -> None:
    file = write(vault, "a.md", RUNBOOK)
    keeper.notes.index(vault)
    ids = {text: memory.id for text, memory in live_memories(keeper).items()}
    file.unlink()
    keeper.notes.index(vault)
    file.write_text(RUNBOOK)
    assert counts(keeper.notes.index(vault)) == (2, 0, 0)
    assert {text: memory.id for text, memory in live_memories(keeper).items()} == ids


def test_changed_tags_change_nothing_else(keeper: Keeper, vault: Path) -> None:
    file = write(vault, "a.md", "---\ntags: [a]\nstatus: open\n---\nThese are some words of mine.")
    keeper.notes.index(vault)
    (memory,) = live_memories(keeper).values()
    keeper.update(memory.id, text="These are somebody's better words.", metadata={**memory.metadata, "own": 1})
    file.write_text("---\ntags: [b]\n---\nThese are some words of mine.")
    assert counts(keeper.notes.index(vault)) == (0, 1, 0)
    after = keeper.get(memory.id)
    assert (after.text, after.tags) == ("These are somebody's better words.", ("b",))
    assert after.metadata == {"own": 1, "note": {"path": "a.md", "heading": ""}}


def test_forgotten_memory_returns_only_with_changed_text(keeper: Keeper, vault: Path) -> None:
    file = write(vault, "a.md", RUNBOOK)
    keeper.notes.index(vault)
    memory = live_memories(keeper)["Every push to main goes to staging."]
    keeper.delete(memory.id)
    file.write_text("---\ntags: [new]\n---\n" + RUNBOOK.replace("Friday", "Monday"))
    assert counts(keeper.notes.index(vault)) == (0, 1, 0)
    assert keeper.get(memory.id).archived
    file.write_text(RUNBOOK.replace("Every push", "Each push"))
    assert counts(keeper.notes.index(vault)) == (1, 1, 0)
    assert keeper.get(memory.id).text == "Each push to main goes to staging."
    assert not keeper.get(memory.id).archived


def test_corrected_memory_is_kept_until_the_section_changes(keeper: Keeper, vault: Path) -> None:
    file = write(vault, "a.md", RUNBOOK)
    keeper.notes.index(vault)
    memory = live_memories(keeper)["Every push to main goes to staging."]
    written, _ = keeper.supersede(memory.id, "Every tag goes to staging.", source="codex")
    file.write_text(RUNBOOK + "\nAnd some more.")
    assert counts(keeper.notes.index(vault)) == (0, 1, 0)
    assert not keeper.get(written.memory_id).archived
    file.write_text(RUNBOOK.replace("Every push", "Each push") + "\nAnd some more.")
    assert counts(keeper.notes.index(vault)) == (0, 1, 0)
    now = live_memories(keeper)["Each push to main goes to staging."]
    assert (now.supersedes, keeper.count()) == (written.memory_id, 2)
    file.write_text(RUNBOOK.replace("Every push", "Any push") + "\nAnd some more.")
    assert counts(keeper.notes.index(vault)) == (0, 1, 0)
    assert keeper.get(now.id).text == "Any push to main goes to staging."


def test_purged_memory_is_not_indexed_again(keeper: Keeper, vault: Path) -> None:
    file = write(vault, "a.md", RUNBOOK)
    keeper.notes.index(vault)
    keeper.purge(live_memories(keeper)["Every push to main goes to staging."].id)
    file.write_text(RUNBOOK + "\nAnd some more.")
    assert counts(keeper.notes.index(vault)) == (0, 1, 0)
    assert keeper.count() == 1
    file.unlink()
    assert counts(keeper.notes.index(vault)) == (0, 0, 1)


def test_undone_index_is_not_repeated_until_a_file_changes(keeper: Keeper, vault: Path) -> None:
    file = write(vault, "a.md", RUNBOOK)
    result = keeper.notes.index(vault)
    keeper.undo(result.changeset or 0)
    assert keeper.count() == 0
    os.utime(file)
    assert counts(keeper.notes.index(vault)) == (0, 0, 0)
    file.write_text(RUNBOOK.replace("Friday", "Monday"))
    assert counts(keeper.notes.index(vault)) == (1, 0, 0)
    assert set(live_memories(keeper)) == {"Nobody deploys on a Monday afternoon."}


def test_equal_sections_share_a_memory_until_they_differ(keeper: Keeper, vault: Path) -> None:
    file = write(vault, "a.md", "# A\nthese are the very same words\n# B\nthese are the very same words\n")
    assert counts(keeper.notes.index(vault)) == (1, 0, 0)
    file.write_text("# A\nthese are the very same words\n# B\nthese are quite some other words\n")
    assert counts(keeper.notes.index(vault)) == (1, 0, 0)
    assert set(live_memories(keeper)) == {"these are the very same words", "these are quite some other words"}
    file.write_text("# A\nthese are the very same words\n# B\nthese are the very same words\n")
    keeper.notes.index(vault)
    file.write_text("# A\nthese are the very same words\n")
    keeper.notes.index(vault)
    assert set(live_memories(keeper)) == {"these are the very same words"}


def test_equal_files_of_two_folders_are_separate(keeper: Keeper, tmp_path: Path) -> None:
    one, two = tmp_path / "one" / "docs", tmp_path / "two" / "docs"
    for folder in (one, two):
        write(folder, "a.md", "The very same words are here.")
        assert counts(keeper.notes.index(folder)) == (1, 0, 0)
    assert {memory.source for memory in keeper.list().memories} == {"file:docs/a.md", "file:docs-2/a.md"}
    (one / "a.md").unlink()
    assert counts(keeper.notes.index(one)) == (0, 0, 1)
    assert [memory.source for memory in keeper.list().memories] == ["file:docs-2/a.md"]
    assert [Path(folder.folder) for folder in keeper.notes.folders()] == [two.resolve()]


def test_two_folders_cannot_have_the_same_label(tmp_path: Path) -> None:
    clock = FixedClock()
    with make_keeper(SqliteStore(tmp_path / "cofio.db", clock), clock, tmp_path, moved="wiki") as keeper:
        write(tmp_path / "docs", "a.md", "These are some words of mine.")
        write(tmp_path / "moved", "a.md", "These are some words of mine.")
        keeper.notes.index(tmp_path / "docs", label="wiki")
        with pytest.raises(Conflict, match="already has the label 'wiki'"):
            keeper.notes.index(tmp_path / "moved")
        (tmp_path / "docs" / "a.md").unlink()
        (tmp_path / "docs").rmdir()
        assert counts(keeper.notes.index(tmp_path / "moved")) == (0, 0, 0)  # moved and recognized


def test_label_is_part_of_the_sources(tmp_path: Path) -> None:
    clock = FixedClock()
    with make_keeper(SqliteStore(tmp_path / "cofio.db", clock), clock, tmp_path, docs="handbook") as keeper:
        for name in ("docs", "more", "rest"):
            write(tmp_path / name, "a.md", f"Words of the folder {name} are here.")
        keeper.notes.index(tmp_path / "docs")
        keeper.notes.index(tmp_path / "more", label="wiki")
        keeper.notes.index(tmp_path / "more", label="wiki")
        keeper.notes.index(tmp_path / "more")
        assert {memory.source for memory in keeper.list().memories} == {"file:handbook/a.md", "file:wiki/a.md"}
        for bad in ("wiki", "handbook"):
            with pytest.raises(Conflict):
                keeper.notes.index(tmp_path / "rest", label=bad)
        with pytest.raises(Conflict):
            keeper.notes.index(tmp_path / "docs", label="other")
        for bad in ("a/b", "a=b", "a,b", "x" * 2_000):
            with pytest.raises(InvalidInput):
                keeper.notes.index(tmp_path / "rest", label=bad)
        assert [(Path(folder.folder).name, folder.followed, folder.files) for folder in keeper.notes.folders()] == [
            ("docs", True, 1),
            ("more", False, 1),
        ]


def test_unreadable_file_is_reported_and_its_memories_kept(keeper: Keeper, vault: Path, tmp_path: Path) -> None:
    file = write(vault, "good.md", RUNBOOK)
    write(vault, "was.md", "These are some words of mine.")
    keeper.notes.index(vault)
    (vault / "was.md").write_bytes(b"\xff\xfe no UTF-8 any more")
    (vault / "nul.md").write_bytes(b"words\0words")
    (vault / "big.md").write_text("words " * 200_000)
    (vault / "linked.md").symlink_to(write(tmp_path / "outside", "x.md", "Words from the outside, five."))
    (vault / "folder").symlink_to(tmp_path / "outside")
    for hidden in (".obsidian", ".git", ".trash", "node_modules"):
        write(vault, f"{hidden}/x.md", "Nobody should read these words here.")
    write(vault, ".hidden.md", "Nobody should read these words here.")
    write(vault, "plain.txt", "Nobody should read these words here.")
    result = keeper.notes.index(vault)
    assert {path: why.split()[-1] for path, why in result.skipped} == {
        "was.md": "UTF-8.", "nul.md": "text.", "big.md": "MB.", "linked.md": "file.",
    }  # fmt: skip
    assert (result.files, result.read, *counts(result)) == (3, 0, 0, 0, 0)
    assert keeper.count() == 3
    file.unlink()
    assert counts(keeper.notes.index(vault)) == (0, 0, 2)


def test_page_that_cannot_be_stored_archives_nothing(keeper: Keeper, vault: Path) -> None:
    file = write(vault, "a.md", RUNBOOK)
    keeper.notes.index(vault)
    known = set(live_memories(keeper))
    file.write_text(f'---\ntags: ["\\u0000"]\n---\n{RUNBOOK.partition("## Production")[0]}')
    result = keeper.notes.index(vault)
    assert (counts(result), [path for path, _ in result.skipped]) == ((0, 0, 0), ["a.md"])
    assert set(live_memories(keeper)) == known
    file.write_text(RUNBOOK)
    keeper.notes.index(vault)
    assert set(live_memories(keeper)) == known


def test_special_file_is_reported(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    before = os.dup(0)  # lowest free descriptor
    os.close(before)
    for odd in (tmp_path / "pipe.md", tmp_path):
        with pytest.raises(OSError, match="not a regular file"):
            files.content_of(odd)
    after = os.dup(0)
    os.close(after)
    assert after == before  # no descriptor stays open


def test_excluded_files_are_skipped(keeper: Keeper, vault: Path) -> None:
    a, b = write(vault, "a.md", "First words of mine, five."), write(vault, "b.md", "Second words of mine, five.")
    keeper.notes.index(vault)
    a.write_text("Other words of mine, five.")
    b.unlink()
    write(vault, "c.md", "Third words of mine, five.")
    assert counts(keeper.notes.index(vault, but={"a.md", "b.md", "c.md"})) == (0, 0, 0)
    assert counts(keeper.notes.index(vault)) == (1, 1, 1)


def test_dry_run_counts_and_changes_nothing(keeper: Keeper, vault: Path) -> None:
    write(vault, "a.md", RUNBOOK)
    dry = keeper.notes.index(vault, dry_run=True)
    assert (dry.read, *counts(dry), dry.changeset, dry.dry_run) == (1, 2, 0, 0, None, True)
    assert (keeper.count(), keeper.changes(), keeper.notes.folders()) == (0, [], [])
    keeper.notes.index(vault)
    write(vault, "a.md", RUNBOOK.partition("## Production")[0].replace("Every", "Each"))
    assert counts(keeper.notes.index(vault, dry_run=True)) == (0, 1, 1)
    assert counts(keeper.notes.index(vault)) == (0, 1, 1)


def test_large_folder_is_one_series(tmp_path: Path, vault: Path) -> None:
    clock = FixedClock()
    with make_keeper(SqliteStore(tmp_path / "cofio.db", clock), clock, tmp_path) as keeper:
        for number in range(40):
            sections = (f"# S{index}\nSection {index} of file {number} says this.\n" for index in range(30))
            write(vault, f"{number}.md", "".join(sections))
        result: list[tuple[int, int]] = []
        outcome = keeper.notes.index(vault, progress=lambda *each: result.append(each))
        assert outcome.added == 1_200 > 2 * BATCH
        assert [so_far for so_far, _ in result] == [0, 16, 32, 40, 40]  # counted as stored, not as read
        assert {of for _, of in result} == {40}
        assert len(keeper.changes()) == 3
        keeper.undo(outcome.changeset or 0)
        assert keeper.count() == 0
        assert counts(keeper.notes.index(vault)) == (0, 0, 0)


def test_halted_index_resumes(tmp_path: Path, vault: Path) -> None:
    clock = FixedClock()
    with make_keeper(SqliteStore(tmp_path / "cofio.db", clock), clock, tmp_path) as keeper:
        write(vault, "old.md", "These words go to another file.")
        keeper.notes.index(vault)
        (moved,) = live_memories(keeper).values()
        (vault / "old.md").unlink()
        for number in range(40):
            sections = (f"# S{index}\nSection {index} of file {number} says this.\n" for index in range(30))
            write(vault, f"{number}.md", "".join(sections))
        write(vault, "z.md", "These words go to another file.")
        assert counts(keeper.notes.index(vault, halted=lambda: True)) == (0, 0, 0)
        assert keeper.count() == 1
        result = keeper.notes.index(vault, halted=lambda: keeper.count() > 1)
        assert (result.read, *counts(result)) == (17, 480, 1, 0)  # moved sections come first
        assert keeper.get(moved.id).source == "file:vault/z.md"
        result = keeper.notes.index(vault)
        assert (result.read, *counts(result)) == (24, 720, 0, 0)
        assert counts(keeper.notes.index(vault)) == (0, 0, 0)


def test_unmounted_folder_archives_nothing(keeper: Keeper, vault: Path) -> None:
    for number in range(12):
        write(vault, f"{number}.md", f"Words of file number {number}, five.")
    keeper.notes.index(vault)
    for file in vault.iterdir():
        file.unlink()
    result = keeper.notes.index(vault)
    assert (counts(result), len(result.skipped)) == ((0, 0, 0), 1)
    assert "mounted" in result.skipped[0][1]
    vault.rmdir()
    with pytest.raises(NotFound):
        keeper.notes.index(vault)
    assert keeper.count() == 12


def test_invalid_folder_is_an_error_with_reason(keeper: Keeper, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        keeper.notes.index(tmp_path / "never")
    with pytest.raises(InvalidInput, match="not a folder"):
        keeper.notes.index(write(tmp_path, "a.md", "words"))
    with pytest.raises(InvalidInput, match="root of the file system"):
        keeper.notes.index("/", dry_run=True)
    with pytest.raises(InvalidInput):
        keeper.notes.index(tmp_path, dry_run="yes")  # type: ignore[arg-type]
    assert keeper.notes.index() == IndexResult(folder=str(tmp_path / "notes"))


def test_secrets_in_notes_are_redacted(keeper: Keeper, vault: Path) -> None:
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    file = write(vault, "a.md", f"The token of the build is {key} for now.")
    keeper.notes.index(vault)
    (memory,) = live_memories(keeper).values()
    assert key not in memory.text
    os.utime(file)
    assert counts(keeper.notes.index(vault)) == (0, 0, 0)
    file.write_text(f"---\ntags: [{key}]\n{key}: x\n---\n# It is {key}\nThe build has it from [[{key}]] for now.\n")
    keeper.notes.index(vault)
    (memory,) = live_memories(keeper).values()
    assert key not in repr(memory)


def test_file_records_contain_no_text(tmp_path: Path, vault: Path) -> None:
    clock = FixedClock()
    store = SqliteStore(tmp_path / "cofio.db", clock)
    with make_keeper(store, clock, tmp_path) as keeper:
        write(vault, "a.md", "# The number is 4711\nNobody should know that number.\n")
        keeper.notes.index(vault)
        (key,) = store.notes.folders()
        assert "4711" not in repr(store.notes.files(key))


def test_file_listing_has_size_and_time(keeper: Keeper, vault: Path) -> None:
    file = write(vault, "a/b.md", "words")
    about = file.stat()
    assert keeper.notes.look(vault) == {"a/b.md": (about.st_size, about.st_mtime_ns)}
    with pytest.raises(NotFound):
        keeper.notes.look(vault / "never")


# ── failures ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_notes_are_stored_without_embedder_and_embedded_later(tmp_path: Path, vault: Path) -> None:
    clock, embedder = FixedClock(), FlakyEmbedder()
    with make_keeper(SqliteStore(tmp_path / "cofio.db", clock), clock, tmp_path, embedder) as keeper:
        file = write(vault, "a.md", RUNBOOK)
        embedder.away = True
        result = keeper.notes.index(vault)
        change = keeper.notes.flush("AAPL volume spike.", ["AAPL"])
        assert (result.added, result.unembedded, keeper.count(), keeper.stats()["vectors"]) == (2, 2, 3, 0)
        assert keeper.get(change.memory_id).text == "AAPL volume spike."
        embedder.away = False
        assert keeper.embed_missing() == 3
        assert keeper.stats()["vectors"] == 3
        embedder.away = True
        file.write_text(RUNBOOK.replace("Nobody deploys on a Friday afternoon", "Bananas are never on the table here"))
        assert counts(keeper.notes.index(vault)) == (0, 1, 0)
        embedder.away = False
        assert [hit.text for hit in keeper.search("deploys friday afternoon", threshold=0.4)] == []
        assert keeper.embed_missing() == 1  # not found by the old words
        assert keeper.search("bananas table", k=1, hybrid=False)[0].text == "Bananas are never on the table here."


def test_folder_is_embedded_in_one_call(tmp_path: Path, vault: Path) -> None:
    clock, embedder = FixedClock(), HashEmbedder()
    with make_keeper(SqliteStore(tmp_path / "cofio.db", clock), clock, tmp_path, embedder) as keeper:
        for number in range(50):
            write(vault, f"{number}.md", f"Words of file number {number}, five.")
        keeper.notes.index(vault)
        assert (embedder.calls, keeper.stats()["vectors"]) == (1, 50)


CRASHING_SCRIPT = """
import os, sys
from pathlib import Path
from cofio.core import Keeper
from cofio.markdown_notes.service import NotesOptions as Notebook
from cofio.stores.sqlite.store import SqliteStore
from cofio.stores.markdown_notes import SqlNotes
from cofio.testing import FixedClock, HashEmbedder
home, when = Path(sys.argv[1]), sys.argv[2]
if when == "die":
    SqlNotes.put = lambda *_: os._exit(9)
clock = FixedClock()
with Keeper(SqliteStore(home / "cofio.db", clock), HashEmbedder(), clock, notes=Notebook(home / "notes")) as keeper:
    print(keeper.notes.index(home / "vault").as_dict())
"""


def test_crash_before_recording_creates_no_duplicates(tmp_path: Path, vault: Path) -> None:
    file = write(vault, "a.md", RUNBOOK)
    write(vault, "b.md", "Other words are on this page.")

    def read(how: str) -> int:
        return subprocess.run([sys.executable, "-c", CRASHING_SCRIPT, str(tmp_path), how], check=False).returncode

    def known() -> tuple[dict[str, Memory], int]:
        with make_keeper(SqliteStore(tmp_path / "cofio.db", FixedClock()), FixedClock(), tmp_path) as keeper:
            return live_memories(keeper), len(keeper.changes())

    assert (read("die"), read("die")) == (9, 9)
    first = known()
    assert (len(first[0]), first[1]) == (3, 1)  # nothing left to do the second time
    assert read("live") == 0
    assert known() == first
    file.write_text(RUNBOOK.replace("Friday", "Monday").replace("## Staging", "## Test"))
    (vault / "b.md").rename(vault / "c.md")
    assert read("die") == 9
    assert read("live") == 0
    after, _ = known()
    assert {memory.id for memory in after.values()} == {memory.id for memory in first[0].values()}
    assert "Nobody deploys on a Monday afternoon." in after
    assert known()[1] == first[1] + 1


def test_concurrent_processes_create_no_duplicates(tmp_path: Path, vault: Path) -> None:
    for number in range(60):
        write(vault, f"{number}.md", f"# One\nFirst words of file {number}.\n# Two\nSecond words of file {number}.\n")
    SqliteStore(tmp_path / "cofio.db", FixedClock()).close()
    command = [sys.executable, "-c", CRASHING_SCRIPT, str(tmp_path), "live"]
    processes = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(3)]
    assert [item.wait(timeout=120) for item in processes] == [0, 0, 0]
    with make_keeper(SqliteStore(tmp_path / "cofio.db", FixedClock()), FixedClock(), tmp_path) as keeper:
        assert (keeper.count(), keeper.stats()["archived"], len(keeper.changes())) == (120, 0, 1)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_concurrent_machines_create_no_duplicates(
    tmp_path: Path, vault: Path, kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a shared lock, one machine reads while the other has planned changes but not applied them."""

    def opened() -> Keeper:
        clock = FixedClock()
        url = request.getfixturevalue("postgres_url") if kind == "postgres" else ""
        return make_keeper(PostgresStore(url, clock) if url else SqliteStore(tmp_path / "c.db", clock), clock, tmp_path)

    with opened() as one, opened() as two:
        for page in (RUNBOOK, RUNBOOK.replace("Friday", "Monday"), RUNBOOK.partition("## Prod")[0], ""):
            write(vault, "a.md", page)
            run_before_apply(one, lambda: two.notes.index(vault), monkeypatch)
            one.notes.index(vault)
            expected = {part for part in ("Every", "Nobody") if part in page}
            assert {text.split()[0] for text in live_memories(one)} == expected
            assert one.count() == len(expected)


def run_before_apply(keeper: Keeper, do: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a function right before the keeper's next write, with the folder lock disabled."""
    store = keeper.services.access.store
    apply = store.apply
    monkeypatch.setattr(files.fcntl, "flock", lambda *_: None)

    def later(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(store, "apply", apply)
        do()
        return apply(*arguments, **options)

    monkeypatch.setattr(store, "apply", later)


# ── exported vault ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def note_of(folder: Path, memory_id: int) -> Path:
    (found,) = folder.glob(f"* ({memory_id}).md")
    return found


def export_counts(done: VaultExportResult) -> tuple[int, int, int]:
    return done.notes, done.written, done.removed


def test_export_writes_a_note_per_memory_with_its_fields(keeper: Keeper, out: Path) -> None:
    old = keeper.add("We deploy with Heroku", project="/srv/web", kind="decision", source="codex").memory_id
    new, _ = keeper.supersede(old, "We deploy with Fly.io: it is *cheaper*", tags=["deploy", "two words"])
    memory = keeper.update(new.memory_id, pinned=True).memory
    result = keeper.notes.export(out)
    assert result == VaultExportResult(folder=str(out.resolve()), notes=1, written=1)
    (note,) = out.iterdir()
    assert note.name == f"We deploy with Fly.io it is cheaper ({new.memory_id}).md"
    identity = keeper.services.access.store.snapshots.identity()
    lines = note.read_text().split("\n")
    assert lines[1] == f"cofio: {new.memory_id}"
    assert lines[2] in (f"store: {identity}", f'store: "{identity}"')
    assert lines[3:-1] == [
        "tags:", "  - deploy", "  - two words", "kind: decision", "category: decision", "source: codex",
        'project: "/srv/web"', f"created: {memory.created_at[:19]}", f"updated: {memory.updated_at[:19]}",
        "pinned: true",
        f'supersedes: "[[We deploy with Heroku ({old})]]"', "---", "", "We deploy with Fly.io: it is *cheaper*",
    ]  # fmt: skip
    assert note.stat().st_mode & 0o077 == 0


def test_unchanged_vault_is_not_written_again(keeper: Keeper, out: Path) -> None:
    for text in ("We use tabs", "We deploy on Fridays"):
        keeper.add(text, tags=["a"])
    assert export_counts(keeper.notes.export(out)) == (2, 2, 0)
    before, stamps = keeper.changes(), keeper.notes.look(out)
    result = keeper.notes.index(out)
    assert (result.files, result.read, *counts(result)) == (2, 0, 0, 0, 0)
    assert export_counts(keeper.notes.export(out)) == (2, 0, 0)
    for note in out.iterdir():
        os.utime(note)
    assert counts(keeper.notes.index(out)) == (0, 0, 0)
    assert keeper.changes() == before
    assert {path: stamp.size for path, stamp in keeper.notes.look(out).items()} == {
        path: stamp.size for path, stamp in stamps.items()
    }


def test_edited_note_updates_its_memory(keeper: Keeper, out: Path) -> None:
    memory = keeper.add("We use tabs", tags=["style"], kind="preference", source="codex").memory
    keeper.notes.export(out)
    note = note_of(out, memory.id)
    page = note.read_text().replace("We use tabs", "We use spaces").replace("pinned: false", "pinned: true")
    note.write_text(page.replace("  - style", "  - style\n  - new").replace("kind: preference", "kind: policy"))
    result = keeper.notes.index(out)
    assert counts(result) == (0, 1, 0)
    after = keeper.get(memory.id)
    assert (after.text, after.tags, after.pinned, after.kind) == ("We use spaces", ("style", "new"), True, "preference")
    assert (after.source, after.metadata) == ("codex", {})
    assert keeper.search("spaces", k=1)[0].id == memory.id
    keeper.notes.export(out)
    assert "kind: preference" in note.read_text()  # fields that are not read back are rewritten
    assert export_counts(keeper.notes.export(out)) == (1, 0, 0)
    keeper.undo(result.changeset or 0)
    assert keeper.get(memory.id).text == "We use tabs"
    assert counts(keeper.notes.index(out)) == (0, 0, 0)
    assert export_counts(keeper.notes.export(out)) == (1, 1, 0)
    assert "We use tabs" in note.read_text()


def test_note_without_id_keeps_its_memory(keeper: Keeper, out: Path) -> None:
    known = keeper.add("We deploy to Fly.io in Frankfurt").memory_id
    keeper.notes.export(out)
    (note,) = out.iterdir()
    note.write_text("We deploy to Render in Frankfurt\n")
    assert counts(keeper.notes.index(out)) == (0, 1, 0)
    assert keeper.get(known).text == "We deploy to Render in Frankfurt"


def test_note_with_wrong_id_keeps_its_own_memory(keeper: Keeper, out: Path) -> None:
    keeper.add("We deploy to Fly.io in Frankfurt", tags=["infra"])
    keeper.add("Nobody deploys on a Friday")
    keeper.notes.export(out, tags=["infra"])
    (note,) = out.iterdir()
    page = note.read_text()
    note.write_text(page.replace("cofio: 1", "cofio: 2"))
    result = keeper.notes.index(out)
    assert (counts(result), len(result.skipped)) == ((0, 0, 0), 1)
    note.write_text(page)
    keeper.notes.index(out)
    assert set(live_memories(keeper)) == {"We deploy to Fly.io in Frankfurt", "Nobody deploys on a Friday"}


def test_invalid_tag_does_not_block_other_notes(keeper: Keeper, out: Path) -> None:
    keeper.add("We deploy to Fly.io in Frankfurt", tags=["infra"])
    keeper.notes.export(out)
    (note,) = out.iterdir()
    note.write_text(note.read_text().replace("- infra", '- "\\ud800"'))
    write(out, "other.md", "These are some words of mine.")
    result = keeper.notes.index(out)
    assert (result.added, [path for path, _ in result.skipped]) == (1, [note.name])


def test_concurrent_edits_of_note_and_memory_are_both_kept(keeper: Keeper, out: Path) -> None:
    memory = keeper.add("We use tabs", tags=["style"]).memory
    keeper.notes.export(out)
    keeper.update(memory.id, text="We use tabs of eight")
    note = note_of(out, memory.id)
    note.write_text(note.read_text().replace("  - style", "  - layout"))
    assert [why for _, why in keeper.notes.export(out).skipped] == [
        "The note was edited since it was exported. Index the folder first."
    ]
    assert counts(keeper.notes.index(out)) == (0, 1, 0)
    after = keeper.get(memory.id)
    assert (after.text, after.tags) == ("We use tabs of eight", ("layout",))
    assert export_counts(keeper.notes.export(out)) == (1, 1, 0)
    assert "We use tabs of eight" in note.read_text()


def test_deleted_note_archives_its_memory(keeper: Keeper, out: Path) -> None:
    memory = keeper.add("We use tabs").memory
    keeper.add("We deploy on Fridays")
    keeper.notes.export(out)
    note_of(out, memory.id).unlink()
    assert [why.split(".")[0] for _, why in keeper.notes.export(out).skipped] == ["The note was deleted"]
    assert counts(keeper.notes.index(out)) == (0, 0, 1)
    assert keeper.get(memory.id).archived
    assert export_counts(keeper.notes.export(out)) == (1, 0, 0)
    keeper.restore(memory.id)
    assert export_counts(keeper.notes.export(out)) == (2, 1, 0)


def test_note_of_archived_memory_is_removed_unless_edited(keeper: Keeper, out: Path) -> None:
    one, two = keeper.add("We use tabs").memory, keeper.add("We deploy on Fridays").memory
    keeper.notes.export(out)
    edited = note_of(out, two.id)
    edited.write_text(edited.read_text() + "at noon\n")
    for memory in (one, two):
        keeper.delete(memory.id)
    result = keeper.notes.export(out)
    assert (export_counts(result), [path for path, _ in result.skipped]) == ((0, 0, 1), [edited.name])
    assert [path.name for path in out.iterdir()] == [edited.name]
    assert counts(keeper.notes.index(out)) == (1, 0, 0)  # the edit reactivates it
    assert keeper.get(two.id).text == "We deploy on Fridays\nat noon"


def test_note_of_forgotten_memory_does_not_reactivate_it(keeper: Keeper, out: Path) -> None:
    memory = keeper.add("We use tabs").memory
    keeper.notes.export(out)
    keeper.delete(memory.id)
    os.utime(note_of(out, memory.id))
    assert counts(keeper.notes.index(out)) == (0, 0, 0)
    assert keeper.get(memory.id).archived


def test_foreign_files_are_not_overwritten(keeper: Keeper, out: Path) -> None:
    memory = keeper.add("We use tabs").memory
    write(out, f"We use tabs ({memory.id}).md", "My own words about tabs.")
    result = keeper.notes.export(out)
    assert (export_counts(result), [why for _, why in result.skipped]) == (
        (0, 0, 0),
        ["A file of this name exists and is not an exported note."],
    )
    assert next(out.iterdir()).read_text() == "My own words about tabs."
    assert [path.name for path in out.iterdir()] == [f"We use tabs ({memory.id}).md"]
    keeper.notes.index(out)  # indexing does not change the owner
    assert [why for _, why in keeper.notes.export(out).skipped] == [
        "A file of this name exists and is not an exported note."
    ]
    assert next(out.iterdir()).read_text() == "My own words about tabs."


def test_note_of_another_memory_is_not_overwritten(keeper: Keeper, out: Path) -> None:
    one, other = keeper.add("We use tabs").memory_id, keeper.add("Nobody deploys on a Friday").memory_id
    keeper.notes.export(out)
    note_of(out, one).unlink()
    renamed = note_of(out, other).rename(out / f"We use tabs ({one}).md")
    output = renamed.read_text()
    keeper.notes.index(out)
    keeper.restore(one)
    assert [why for _, why in keeper.notes.export(out).skipped] == [
        "A file of this name exists and is not an exported note."
    ]
    assert renamed.read_text() == output


def test_renamed_note_belongs_to_its_memory(keeper: Keeper, out: Path) -> None:
    memory = keeper.add("We use tabs").memory
    keeper.notes.export(out)
    note_of(out, memory.id).rename(out / "tabs.md")
    assert counts(keeper.notes.index(out)) == (0, 0, 0)
    assert export_counts(keeper.notes.export(out)) == (1, 0, 0)
    assert [path.name for path in out.iterdir()] == ["tabs.md"]
    keeper.update(memory.id, text="We use spaces")
    assert export_counts(keeper.notes.export(out)) == (1, 1, 0)
    assert "We use spaces" in (out / "tabs.md").read_text()


def test_copied_note_is_an_ordinary_note(keeper: Keeper, out: Path) -> None:
    memory = keeper.add("We use tabs, and nothing else").memory
    keeper.notes.export(out)
    note = note_of(out, memory.id)
    write(out, "a copy.md", note.read_text().replace("tabs", "spaces"))
    assert counts(keeper.notes.index(out)) == (1, 0, 0)
    assert keeper.get(memory.id).text == "We use tabs, and nothing else"
    assert live_memories(keeper)["We use spaces, and nothing else"].source == "file:out/a copy.md"
    assert export_counts(keeper.notes.export(out)) == (1, 0, 0)  # indexed notes are not exported there


def test_custom_front_matter_is_kept(keeper: Keeper, out: Path) -> None:
    memory = keeper.add("We use tabs").memory
    keeper.notes.export(out)
    note = note_of(out, memory.id)
    note.write_text(note.read_text().replace("pinned: false", "pinned: false\naliases:\n  - Tabs\nrating: 5 # stars"))
    assert counts(keeper.notes.index(out)) == (0, 0, 0)
    keeper.update(memory.id, text="We use spaces")
    assert export_counts(keeper.notes.export(out)) == (1, 1, 0)
    page = note.read_text()
    assert "We use spaces" in page
    assert "aliases:\n  - Tabs\nrating: 5 # stars\n---" in page


def test_unsupported_note_content_is_reported(keeper: Keeper, out: Path) -> None:
    memory = keeper.add("We use tabs").memory
    keeper.notes.export(out)
    note = note_of(out, memory.id)
    page = note.read_text()
    for bad, why in (("", "no text left"), ("x" * 70_000, "70,000 characters")):
        note.write_text(page.replace("We use tabs", bad))
        (skipped,) = keeper.notes.index(out).skipped
        assert why in skipped[1]
    assert keeper.get(memory.id).text == "We use tabs"
    note.write_text(page)
    assert keeper.notes.index(out).skipped == ()


def test_vault_of_another_store_is_an_ordinary_folder(tmp_path: Path, out: Path) -> None:
    clock = FixedClock()
    with make_keeper(SqliteStore(tmp_path / "one.db", clock), clock, tmp_path) as one:
        one.add("We use tabs, and nothing else", tags=["style"])
        one.notes.export(out)
    with make_keeper(SqliteStore(tmp_path / "two.db", clock), clock, tmp_path) as two:
        two.add("Something else that is here")
        assert counts(two.notes.index(out)) == (1, 0, 0)
        memory = live_memories(two)["We use tabs, and nothing else"]
        assert (memory.source, memory.tags) == (f"file:out/{memory.metadata['note']['path']}", ("style",))
        assert memory.metadata["cofio"] == "1"


def test_vault_is_recognized_without_records(keeper: Keeper, out: Path, tmp_path: Path) -> None:
    """A copied or enclosing folder: the ids in the notes identify the memories."""
    memory, other = keeper.add("We use tabs").memory, keeper.add("We deploy on Fridays").memory
    keeper.notes.export(out)
    assert counts(keeper.notes.index(tmp_path / "out" / "..", dry_run=True)) == (0, 0, 0)
    new_other = tmp_path / "elsewhere"
    out.rename(new_other)
    note = note_of(new_other, memory.id)
    note.write_text(note.read_text().replace("tabs", "spaces"))
    assert counts(keeper.notes.index(new_other)) == (0, 1, 0)
    assert keeper.get(memory.id).text == "We use spaces"
    note_of(new_other, other.id).unlink()
    assert counts(keeper.notes.index(new_other)) == (0, 0, 1)


def test_outdated_note_does_not_revert_newer_changes(keeper: Keeper, out: Path, tmp_path: Path) -> None:
    memory = keeper.add("We use tabs").memory
    keeper.notes.export(out)
    keeper.update(memory.id, text="We use spaces")
    out.rename(tmp_path / "old")
    (skipped,) = keeper.notes.index(tmp_path / "old").skipped
    assert "was changed since" in skipped[1]
    assert keeper.get(memory.id).text == "We use spaces"


def test_vault_inside_an_indexed_folder(keeper: Keeper, vault: Path) -> None:
    write(vault, "a.md", RUNBOOK)
    keeper.notes.index(vault)
    memory = keeper.add("We use tabs").memory
    inner = vault / "memories"
    assert export_counts(keeper.notes.export(inner)) == (1, 1, 0)  # already indexed by the outer folder
    assert counts(keeper.notes.index(vault)) == (0, 0, 0)
    note = note_of(inner, memory.id)
    note.write_text(note.read_text().replace("tabs", "spaces"))
    assert counts(keeper.notes.index(vault)) == (0, 1, 0)
    assert keeper.get(memory.id).text == "We use spaces"
    assert (export_counts(keeper.notes.export(inner)), keeper.notes.export(inner).skipped) == ((1, 0, 0), ())


def test_scope_selects_exported_memories(keeper: Keeper, out: Path) -> None:
    keeper.add("We use tabs", project="/srv/web")
    deleted = keeper.add("We deploy on Fridays", project="/srv/api").memory
    assert export_counts(keeper.notes.export(out, project="/srv/web")) == (1, 1, 0)
    assert export_counts(keeper.notes.export(out, project="/srv/api")) == (1, 1, 0)
    keeper.delete(deleted.id)
    assert export_counts(keeper.notes.export(out, include_archived=True)) == (2, 1, 0)
    assert "archived: 2026" in note_of(out, deleted.id).read_text()
    assert counts(keeper.notes.index(out)) == (0, 0, 0)
    with pytest.raises(InvalidInput, match="nonsense"):
        keeper.notes.export(out, nonsense=1)
    with pytest.raises(InvalidInput, match="not a folder"):
        keeper.notes.export(write(out, "file", ""))


def test_changed_line_endings_are_not_an_edit(keeper: Keeper, out: Path) -> None:
    memory = keeper.add("We use tabs\nand no spaces").memory
    keeper.notes.export(out)
    note = note_of(out, memory.id)
    note.write_bytes(note.read_bytes().replace(b"\n", b"\r\n"))
    assert counts(keeper.notes.index(out)) == (0, 0, 0)


ANY = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), min_size=1, max_size=80)
TEXTS = st.one_of(
    ANY,
    st.text("-#[]:|>\"'\\ \t\n\r.,x\u2028\x85\ufeff", min_size=1),
    st.sampled_from(["---", "---\ncofio: 9\n---\nx", "../../etc"]),
)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    facts=st.lists(
        st.tuples(TEXTS.filter(str.strip), st.lists(ANY.filter(str.strip), max_size=3)), min_size=1, max_size=6
    ),
    more=TEXTS.filter(str.strip),
)
def test_random_text_survives_export_and_index(
    tmp_path_factory: pytest.TempPathFactory, facts: list[tuple[str, list[str]]], more: str
) -> None:
    folder, clock = tmp_path_factory.mktemp("vault"), FixedClock()
    with make_keeper(MemoryStore(clock), clock, folder) as keeper:
        keeper.add_all(
            [Fact(text=text, tags=tuple(tags), source=tags[0] if tags else "") for text, tags in facts], dedup=False
        )
        memories = {memory.id: memory for memory in keeper.list().memories}
        result = keeper.notes.export(folder / "out")
        assert (export_counts(result), result.skipped) == ((len(facts), len(facts), 0), ())
        for key in keeper.services.access.store.notes.folders():  # without file records
            keeper.services.access.store.notes.drop(key, list(keeper.services.access.store.notes.files(key)))
        read = keeper.notes.index(folder / "out")
        assert (counts(read), read.read, read.skipped) == ((0, 0, 0), len(facts), ())
        assert {memory.id: memory for memory in keeper.list().memories} == memories
        note = note_of(folder / "out", min(memories))
        page = note.read_bytes().decode()
        head = page[: page.index("\n---\n\n") + 6]
        note.write_bytes(f"{head}{more}\n".encode())
        keeper.notes.index(folder / "out")
        assert keeper.get(min(memories)).text == more.strip()
        assert export_counts(keeper.notes.export(folder / "out")) == (len(facts), 0, 0)
        assert counts(keeper.notes.index(folder / "out")) == (0, 0, 0)


def test_surrounding_whitespace_is_not_an_edit(keeper: Keeper, out: Path) -> None:
    at = "2026-01-01T00:00:00.000000+00:00"
    keeper.apply([Adopt(Memory(id=5, text="  We use tabs\n", created_at=at, updated_at=at))], by="test", why="")
    keeper.notes.export(out)
    os.utime(note_of(out, 5))
    assert counts(keeper.notes.index(out)) == (0, 0, 0)
    assert keeper.get(5).text == "  We use tabs\n"


# ── stores and settings ───────────────────────────────────────────────────────────────────────────────────────────────


def test_postgres_store_supports_notes(postgres_url: str, tmp_path: Path, vault: Path, out: Path) -> None:
    clock = FixedClock()
    with make_keeper(PostgresStore(postgres_url, clock), clock, tmp_path) as keeper:
        keeper.notes.flush("AAPL volume spike.", ["AAPL"])
        assert counts(keeper.notes.index()) == (0, 0, 0)
        file = write(vault, "a.md", RUNBOOK)
        assert counts(keeper.notes.index(vault)) == (2, 0, 0)
        file.rename(vault / "b.md")
        assert counts(keeper.notes.index(vault)) == (0, 2, 0)
        memory = live_memories(keeper)["Nobody deploys on a Friday afternoon."]
        assert export_counts(keeper.notes.export(out)) == (3, 3, 0)
        note = note_of(out, memory.id)
        note.write_text(note.read_text().replace("Friday", "Monday"))
        assert counts(keeper.notes.index(out)) == (0, 1, 0)
        assert keeper.search("monday", k=1)[0].id == memory.id
        (vault / "b.md").unlink()
        result = keeper.notes.index(vault)
        assert counts(result) == (0, 0, 2)
        assert export_counts(keeper.notes.export(out)) == (1, 0, 2)
        keeper.undo(result.changeset or 0)
        assert keeper.count() == 3


def test_settings_name_the_notes_folders(tmp_path: Path) -> None:
    env = {"COFIO_HOME": str(tmp_path), "COFIO_NOTES_FOLDERS": f" wiki={tmp_path}/docs , {tmp_path}/a=b,"}
    default = Settings.load(environ=env)
    assert default.notes_folder == tmp_path / "notes"
    assert default.notes_labels == {tmp_path / "docs": "wiki", tmp_path / "a=b": ""}
    assert default.notes_followed == [tmp_path / "docs", tmp_path / "a=b"]
    assert Settings.load(environ={**env, "COFIO_NOTES": "~/mine"}).notes_folder == Path("~/mine").expanduser()
    for bad in ("=x", "wiki="):
        with pytest.raises(Misconfigured, match="NAME=PATH"):
            _ = Settings.load(environ={"COFIO_HOME": str(tmp_path), "COFIO_NOTES_FOLDERS": bad}).notes_labels
    with pytest.raises(Misconfigured, match="twice"):
        _ = Settings.load(environ={"COFIO_HOME": str(tmp_path), "COFIO_NOTES_FOLDERS": "wiki=a,wiki=b"}).notes_labels
    write(tmp_path, "docs/a.md", "These are some words of mine.")
    with bootstrap.keeper(default, embedder=HashEmbedder()) as keeper:
        keeper.notes.index(tmp_path / "docs")
        keeper.notes.flush("AAPL volume spike.")
        assert {memory.source.split("/")[0] for memory in keeper.list().memories} >= {"file:wiki"}
        assert [(folder.followed, folder.there) for folder in keeper.notes.folders()] == [
            (True, False),
            (True, True),
            (False, True),
        ]
