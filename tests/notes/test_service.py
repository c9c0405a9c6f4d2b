"""Markdown as memory: notes that are flushed, folders that memories follow, vaults that are written and read again."""

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
from cofio.models.memory import Adopt, Fact, Memory, Viewer
from cofio.models.notes import IndexResult, VaultExportResult
from cofio.notes import files
from cofio.notes.service import BATCH, NotesOptions
from cofio.ports import Matrix, Store
from cofio.settings import Settings
from cofio.stores.postgres import PostgresStore
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder, MemoryStore


class Tired(HashEmbedder):
    """An embedder that can be away for a while."""

    away = False

    def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Matrix:
        if self.away:
            raise Unavailable("The embedder does not answer.", "Try again later.")
        return super().embed(texts, kind)


def made(store: Store, clock: FixedClock, home: Path, embedder: HashEmbedder | None = None, **labels: str) -> Keeper:
    named = {home / folder: label for folder, label in labels.items()}
    return Keeper(store, embedder or HashEmbedder(), clock, notes=NotesOptions(home / "notes", named))


@pytest.fixture(params=["sqlite", "fake"])
def keeper(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Keeper]:
    clock = FixedClock()
    store: Store = SqliteStore(tmp_path / "cofio.db", clock) if request.param == "sqlite" else MemoryStore(clock)
    with made(store, clock, tmp_path) as keeper:
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


def live(keeper: Keeper, **within: Any) -> dict[str, Memory]:
    """The live memories by what they say."""
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


def test_flush_remembers_it_with_its_file_for_a_source(keeper: Keeper, tmp_path: Path) -> None:
    change = keeper.notes.flush("Test content", ["test"], kind="observation", project="/srv/web", metadata={"x": 1})
    (file,) = (tmp_path / "notes").iterdir()
    assert keeper.count() == 1
    assert change.action == "add"
    assert change.memory.source == f"file:{file.name}"
    assert (change.memory.text, change.memory.tags, change.memory.kind) == ("Test content", ("test",), "observation")
    assert change.memory.metadata == {"x": 1, "note": {"path": file.name, "heading": ""}}
    assert [hit.id for hit in keeper.search("test content")] == [change.memory_id]


def test_all_flushed_notes_are_listed_newest_first(keeper: Keeper) -> None:
    keeper.notes.flush("First", ["a"])
    keeper.notes.flush("Second", ["b"])
    listed = keeper.list().memories
    assert [memory.text for memory in listed] == ["Second", "First"]
    assert listed[0].timestamp >= listed[1].timestamp


def test_what_was_flushed_is_known_to_be_read(keeper: Keeper) -> None:
    keeper.notes.flush("We use tabs", ["style"], project="/srv/web")
    before = keeper.changes()
    assert keeper.notes.index() == IndexResult(
        folder=str(files.resolve_folder(keeper.notes.folders()[0].folder)), files=1
    )
    assert keeper.changes() == before


def test_the_same_summary_twice_is_two_notes(keeper: Keeper) -> None:
    for _ in range(2):
        keeper.notes.flush("We use tabs", project="/srv/web")
    assert keeper.count() == 2
    assert counts(keeper.notes.index()) == (0, 0, 0)


@pytest.mark.parametrize(
    "summary",
    ["---\ntags: [x]\n---\n# Heading\nTags: no", "Tags: a, b", "a [[b]] #c\r\nd", "# Memory: x\n\nTags: y\n\nz"],
)
def test_a_summary_that_looks_like_markdown_survives(tmp_path: Path, summary: str) -> None:
    clock = FixedClock()
    with made(SqliteStore(tmp_path / "one.db", clock), clock, tmp_path) as keeper:
        assert keeper.notes.flush(summary, ["t"]).memory.text == summary
    with made(SqliteStore(tmp_path / "two.db", clock), clock, tmp_path) as keeper:
        assert counts(keeper.notes.index()) == (1, 0, 0)
        (memory,) = keeper.list().memories
        assert (memory.text, memory.tags, memory.created_at[:13]) == (summary, ("t",), "2026-01-01T00")


def test_an_edited_note_that_was_flushed_changes_its_memory(keeper: Keeper, tmp_path: Path) -> None:
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
    assert (after.kind, after.category) == ("preference", change.memory.category)  # the file says nothing of these
    file.unlink()
    assert counts(keeper.notes.index()) == (0, 0, 1)
    assert keeper.count() == 0


def test_no_file_stays_where_nothing_could_be_stored(tmp_path: Path) -> None:
    clock = FixedClock()
    store = SqliteStore(tmp_path / "cofio.db", clock)
    keeper = made(store, clock, tmp_path)
    keeper.notes.flush("Something to begin with")
    store.close()
    with pytest.raises(StoreError):
        keeper.notes.flush("We use tabs")
    assert len(list((tmp_path / "notes").iterdir())) == 1


def test_no_memory_stays_where_nothing_could_be_written(
    keeper: Keeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
def test_what_cannot_be_a_note_changes_nothing(
    keeper: Keeper, tmp_path: Path, summary: str, about: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput):
        keeper.notes.flush(summary, **about)
    assert keeper.count() == 0
    assert list((tmp_path / "notes").glob("**/*")) == []


def test_without_a_folder_for_notes_the_error_says_so(tmp_path: Path) -> None:
    with Keeper(SqliteStore(tmp_path / "cofio.db", FixedClock()), HashEmbedder(), FixedClock()) as keeper:
        for asked in (lambda: keeper.notes.flush("x"), keeper.notes.index):
            with pytest.raises(NotConfigured, match="COFIO_NOTES"):
                asked()
        assert keeper.notes.folders() == []


def test_whoever_may_write_may_flush_and_only_the_owner_reads_folders(keeper: Keeper, tmp_path: Path) -> None:
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


# ── following a folder ────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_heading_becomes_a_memory(keeper: Keeper, vault: Path) -> None:
    write(vault, "ops/runbook.md", RUNBOOK)
    done = keeper.notes.index(vault)
    assert (done.files, done.read, *counts(done)) == (1, 1, 2, 0, 0)
    memory = live(keeper)["Every push to main goes to staging."]
    assert memory.source == "file:vault/ops/runbook.md"
    assert memory.context == "runbook > Deploy > Staging"
    assert memory.metadata == {"note": {"path": "ops/runbook.md", "heading": "Deploy > Staging"}}
    assert [hit.id for hit in keeper.search("who deploys on friday", k=1)] == [
        live(keeper)["Nobody deploys on a Friday afternoon."].id
    ]
    assert keeper.changeset(done.changeset or 0).why == "notes vault"


def test_what_did_not_change_is_not_read_again(keeper: Keeper, vault: Path) -> None:
    write(vault, "a.md", RUNBOOK)
    keeper.notes.index(vault)
    before = keeper.changes()
    again = keeper.notes.index(vault)
    assert (again.files, again.read, again.changeset, *counts(again)) == (1, 0, None, 0, 0, 0)
    assert keeper.changes() == before


def test_size_and_time_are_trusted_once_they_have_settled(tmp_path: Path, vault: Path) -> None:
    clock = FixedClock("2090-01-01T00:00:00Z")  # long after the files were written
    with made(SqliteStore(tmp_path / "cofio.db", clock), clock, tmp_path) as keeper:
        file = write(vault, "a.md", "These are some words of mine.")
        keeper.notes.index(vault)
        about = file.stat()
        file.write_text("These are other words of mine"[: about.st_size].ljust(about.st_size, "."))
        os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns))
        assert keeper.notes.index(vault).read == 0  # nobody could tell, and nobody looked inside
        os.utime(file)
        assert counts(keeper.notes.index(vault)) == (0, 1, 0)


def test_a_file_that_was_written_while_it_was_read_is_looked_into_again(keeper: Keeper, vault: Path) -> None:
    file = write(vault, "a.md", "These are some words of mine.")
    keeper.notes.index(vault)  # the clock says that this was before the file was written
    about = file.stat()
    file.write_text("These are some words of hers.")
    os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert counts(keeper.notes.index(vault)) == (0, 1, 0)


def test_an_edited_part_keeps_its_memory_and_its_history(keeper: Keeper, vault: Path) -> None:
    file = write(vault, "a.md", RUNBOOK)
    keeper.notes.index(vault)
    before = live(keeper)["Nobody deploys on a Friday afternoon."]
    file.write_text(RUNBOOK.replace("Friday afternoon", "Monday morning"))
    done = keeper.notes.index(vault)
    assert counts(done) == (0, 1, 0)
    after = keeper.get(before.id)
    assert after.text == "Nobody deploys on a Monday morning."
    assert keeper.count() == 2
    assert [change.before.text if change.before else None for change in keeper.history(before.id)] == [
        None,
        before.text,
    ]
    assert keeper.search("monday morning", k=1)[0].id == before.id
    keeper.undo(done.changeset or 0)
    assert keeper.get(before.id).text == before.text


def test_parts_that_move_keep_their_memories(keeper: Keeper, vault: Path) -> None:
    file = write(vault, "a.md", "# A\nfirst words of this page\n# B\nsecond words of this page\n")
    keeper.notes.index(vault)
    ids = {text: memory.id for text, memory in live(keeper).items()}
    file.write_text("# B\nsecond words of this page\n# C\nfirst words of this page\n")
    assert counts(keeper.notes.index(vault)) == (0, 1, 0)  # another heading above it
    assert {text: memory.id for text, memory in live(keeper).items()} == ids
    assert live(keeper)["first words of this page"].context == "a > C"


def test_a_renamed_file_keeps_its_memories(keeper: Keeper, vault: Path) -> None:
    file = write(vault, "a.md", RUNBOOK)
    keeper.notes.index(vault)
    ids = {text: memory.id for text, memory in live(keeper).items()}
    file.rename(vault / "b.md")
    done = keeper.notes.index(vault)
    assert (done.read, done.gone, *counts(done)) == (1, 1, 0, 2, 0)
    assert {text: memory.id for text, memory in live(keeper).items()} == ids
    assert {memory.source for memory in live(keeper).values()} == {"file:vault/b.md"}
    assert live(keeper)["Every push to main goes to staging."].metadata["note"]["path"] == "b.md"


def test_a_file_that_is_renamed_and_edited_keeps_its_memories(keeper: Keeper, vault: Path) -> None:
    file = write(vault, "a.md", RUNBOOK + "\n## Rollback\nRun make rollback and wait for it.\n")
    keeper.notes.index(vault)
    ids = sorted(memory.id for memory in live(keeper).values())
    file.unlink()
    write(vault, "b.md", RUNBOOK + "\n## Rollback\nRun make undo and wait for it.\n")
    assert counts(keeper.notes.index(vault)) == (0, 3, 0)
    assert sorted(memory.id for memory in live(keeper).values()) == ids
    assert live(keeper)["Run make undo and wait for it."].source == "file:vault/b.md"


def test_a_section_that_moves_to_another_file_keeps_its_memory(keeper: Keeper, vault: Path) -> None:
    write(vault, "a.md", RUNBOOK)
    write(vault, "b.md", "# Other\nOther words are on this page.\n")
    keeper.notes.index(vault)
    ids = {text: memory.id for text, memory in live(keeper).items()}
    head, _, tail = RUNBOOK.partition("## Production")
    write(vault, "a.md", head)
    write(vault, "b.md", "# Other\nOther words are on this page.\n## Production" + tail)
    assert counts(keeper.notes.index(vault)) == (0, 1, 0)
    assert {text: memory.id for text, memory in live(keeper).items()} == ids


def test_parts_and_files_that_go_archive_theirs(keeper: Keeper, vault: Path) -> None:
    write(vault, "a.md", RUNBOOK)
    write(vault, "b.md", "# Other\nOther words are on this page.\n")
    keeper.notes.index(vault)
    write(vault, "a.md", RUNBOOK.partition("## Production")[0])
    (vault / "b.md").unlink()
    done = keeper.notes.index(vault)
    assert (done.files, done.read, done.gone, *counts(done)) == (1, 1, 1, 0, 0, 2)
    assert set(live(keeper)) == {"Every push to main goes to staging."}
    keeper.undo(done.changeset or 0)
    assert keeper.count() == 3


def test_a_file_that_comes_back_has_its_memories_back(keeper: Keeper, vault: Path) -> None:
    file = write(vault, "a.md", RUNBOOK)
    keeper.notes.index(vault)
    ids = {text: memory.id for text, memory in live(keeper).items()}
    file.unlink()
    keeper.notes.index(vault)
    file.write_text(RUNBOOK)
    assert counts(keeper.notes.index(vault)) == (2, 0, 0)
    assert {text: memory.id for text, memory in live(keeper).items()} == ids


def test_tags_that_change_change_nothing_else(keeper: Keeper, vault: Path) -> None:
    file = write(vault, "a.md", "---\ntags: [a]\nstatus: open\n---\nThese are some words of mine.")
    keeper.notes.index(vault)
    (memory,) = live(keeper).values()
    keeper.update(memory.id, text="These are somebody's better words.", metadata={**memory.metadata, "own": 1})
    file.write_text("---\ntags: [b]\n---\nThese are some words of mine.")
    assert counts(keeper.notes.index(vault)) == (0, 1, 0)
    after = keeper.get(memory.id)
    assert (after.text, after.tags) == ("These are somebody's better words.", ("b",))
    assert after.metadata == {"own": 1, "note": {"path": "a.md", "heading": ""}}


def test_what_somebody_forgot_is_not_brought_back_until_its_words_change(keeper: Keeper, vault: Path) -> None:
    file = write(vault, "a.md", RUNBOOK)
    keeper.notes.index(vault)
    memory = live(keeper)["Every push to main goes to staging."]
    keeper.delete(memory.id)
    file.write_text("---\ntags: [new]\n---\n" + RUNBOOK.replace("Friday", "Monday"))
    assert counts(keeper.notes.index(vault)) == (0, 1, 0)
    assert keeper.get(memory.id).archived
    file.write_text(RUNBOOK.replace("Every push", "Each push"))
    assert counts(keeper.notes.index(vault)) == (1, 1, 0)
    assert keeper.get(memory.id).text == "Each push to main goes to staging."
    assert not keeper.get(memory.id).archived


def test_what_somebody_corrected_stays_so_until_the_part_changes(keeper: Keeper, vault: Path) -> None:
    file = write(vault, "a.md", RUNBOOK)
    keeper.notes.index(vault)
    memory = live(keeper)["Every push to main goes to staging."]
    written, _ = keeper.supersede(memory.id, "Every tag goes to staging.", source="codex")
    file.write_text(RUNBOOK + "\nAnd some more.")
    assert counts(keeper.notes.index(vault)) == (0, 1, 0)
    assert not keeper.get(written.memory_id).archived
    file.write_text(RUNBOOK.replace("Every push", "Each push") + "\nAnd some more.")
    assert counts(keeper.notes.index(vault)) == (0, 1, 0)
    now = live(keeper)["Each push to main goes to staging."]
    assert (now.supersedes, keeper.count()) == (written.memory_id, 2)
    file.write_text(RUNBOOK.replace("Every push", "Any push") + "\nAnd some more.")
    assert counts(keeper.notes.index(vault)) == (0, 1, 0)
    assert keeper.get(now.id).text == "Any push to main goes to staging."


def test_what_was_erased_does_not_come_back_by_itself(keeper: Keeper, vault: Path) -> None:
    file = write(vault, "a.md", RUNBOOK)
    keeper.notes.index(vault)
    keeper.purge(live(keeper)["Every push to main goes to staging."].id)
    file.write_text(RUNBOOK + "\nAnd some more.")
    assert counts(keeper.notes.index(vault)) == (0, 1, 0)
    assert keeper.count() == 1
    file.unlink()
    assert counts(keeper.notes.index(vault)) == (0, 0, 1)


def test_an_undone_reading_is_not_done_again_until_a_file_changes(keeper: Keeper, vault: Path) -> None:
    file = write(vault, "a.md", RUNBOOK)
    done = keeper.notes.index(vault)
    keeper.undo(done.changeset or 0)
    assert keeper.count() == 0
    os.utime(file)
    assert counts(keeper.notes.index(vault)) == (0, 0, 0)
    file.write_text(RUNBOOK.replace("Friday", "Monday"))
    assert counts(keeper.notes.index(vault)) == (1, 0, 0)
    assert set(live(keeper)) == {"Nobody deploys on a Monday afternoon."}


def test_equal_sections_of_a_file_share_a_memory_until_they_differ(keeper: Keeper, vault: Path) -> None:
    file = write(vault, "a.md", "# A\nthese are the very same words\n# B\nthese are the very same words\n")
    assert counts(keeper.notes.index(vault)) == (1, 0, 0)
    file.write_text("# A\nthese are the very same words\n# B\nthese are quite some other words\n")
    assert counts(keeper.notes.index(vault)) == (1, 0, 0)
    assert set(live(keeper)) == {"these are the very same words", "these are quite some other words"}
    file.write_text("# A\nthese are the very same words\n# B\nthese are the very same words\n")
    keeper.notes.index(vault)
    file.write_text("# A\nthese are the very same words\n")
    keeper.notes.index(vault)
    assert set(live(keeper)) == {"these are the very same words"}


def test_folders_with_the_same_files_do_not_mix(keeper: Keeper, tmp_path: Path) -> None:
    one, two = tmp_path / "one" / "docs", tmp_path / "two" / "docs"
    for folder in (one, two):
        write(folder, "a.md", "The very same words are here.")
        assert counts(keeper.notes.index(folder)) == (1, 0, 0)
    assert {memory.source for memory in keeper.list().memories} == {"file:docs/a.md", "file:docs-2/a.md"}
    (one / "a.md").unlink()
    assert counts(keeper.notes.index(one)) == (0, 0, 1)
    assert [memory.source for memory in keeper.list().memories] == ["file:docs-2/a.md"]
    assert [Path(each.folder) for each in keeper.notes.folders()] == [two.resolve()]


def test_two_folders_are_not_called_the_same(tmp_path: Path) -> None:
    clock = FixedClock()
    with made(SqliteStore(tmp_path / "cofio.db", clock), clock, tmp_path, moved="wiki") as keeper:
        write(tmp_path / "docs", "a.md", "These are some words of mine.")
        write(tmp_path / "moved", "a.md", "These are some words of mine.")
        keeper.notes.index(tmp_path / "docs", label="wiki")
        with pytest.raises(Conflict, match="already has the label 'wiki'"):
            keeper.notes.index(tmp_path / "moved")
        (tmp_path / "docs" / "a.md").unlink()
        (tmp_path / "docs").rmdir()
        assert counts(keeper.notes.index(tmp_path / "moved")) == (0, 0, 0)  # it was moved, and is known again


def test_a_label_names_the_folder_in_its_sources(tmp_path: Path) -> None:
    clock = FixedClock()
    with made(SqliteStore(tmp_path / "cofio.db", clock), clock, tmp_path, docs="handbook") as keeper:
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


def test_what_cannot_be_read_is_told_and_left_as_it_was(keeper: Keeper, vault: Path, tmp_path: Path) -> None:
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
    done = keeper.notes.index(vault)
    assert {path: why.split()[-1] for path, why in done.skipped} == {
        "was.md": "UTF-8.", "nul.md": "text.", "big.md": "MB.", "linked.md": "file.",
    }  # fmt: skip
    assert (done.files, done.read, *counts(done)) == (3, 0, 0, 0, 0)
    assert keeper.count() == 3
    file.unlink()
    assert counts(keeper.notes.index(vault)) == (0, 0, 2)


def test_a_page_that_cannot_be_taken_archives_nothing(keeper: Keeper, vault: Path) -> None:
    file = write(vault, "a.md", RUNBOOK)
    keeper.notes.index(vault)
    known = set(live(keeper))
    file.write_text(f'---\ntags: ["\\u0000"]\n---\n{RUNBOOK.partition("## Production")[0]}')
    done = keeper.notes.index(vault)
    assert (counts(done), [path for path, _ in done.skipped]) == ((0, 0, 0), ["a.md"])
    assert set(live(keeper)) == known
    file.write_text(RUNBOOK)
    keeper.notes.index(vault)
    assert set(live(keeper)) == known


def test_a_pipe_or_a_folder_in_the_place_of_a_file_is_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    before = os.dup(0)  # the lowest number that is free
    os.close(before)
    for odd in (tmp_path / "pipe.md", tmp_path):
        with pytest.raises(OSError, match="not a regular file"):
            files.content_of(odd)
    after = os.dup(0)
    os.close(after)
    assert after == before  # nothing stays open


def test_what_a_reading_is_to_leave_alone_is_left_alone(keeper: Keeper, vault: Path) -> None:
    a, b = write(vault, "a.md", "First words of mine, five."), write(vault, "b.md", "Second words of mine, five.")
    keeper.notes.index(vault)
    a.write_text("Other words of mine, five.")
    b.unlink()
    write(vault, "c.md", "Third words of mine, five.")
    assert counts(keeper.notes.index(vault, but={"a.md", "b.md", "c.md"})) == (0, 0, 0)
    assert counts(keeper.notes.index(vault)) == (1, 1, 1)


def test_a_dry_run_counts_and_changes_nothing(keeper: Keeper, vault: Path) -> None:
    write(vault, "a.md", RUNBOOK)
    dry = keeper.notes.index(vault, dry_run=True)
    assert (dry.read, *counts(dry), dry.changeset, dry.dry_run) == (1, 2, 0, 0, None, True)
    assert (keeper.count(), keeper.changes(), keeper.notes.folders()) == (0, [], [])
    keeper.notes.index(vault)
    write(vault, "a.md", RUNBOOK.partition("## Production")[0].replace("Every", "Each"))
    assert counts(keeper.notes.index(vault, dry_run=True)) == (0, 1, 1)
    assert counts(keeper.notes.index(vault)) == (0, 1, 1)


def test_a_large_folder_is_a_series_that_is_undone_as_one(tmp_path: Path, vault: Path) -> None:
    clock = FixedClock()
    with made(SqliteStore(tmp_path / "cofio.db", clock), clock, tmp_path) as keeper:
        for number in range(40):
            sections = (f"# S{each}\nSection {each} of file {number} says this.\n" for each in range(30))
            write(vault, f"{number}.md", "".join(sections))
        told: list[tuple[int, int]] = []
        done = keeper.notes.index(vault, progress=lambda *each: told.append(each))
        assert done.added == 1_200 > 2 * BATCH
        assert [so_far for so_far, _ in told] == [0, 16, 32, 40, 40]  # as many as are stored, not those that were read
        assert {of for _, of in told} == {40}
        assert len(keeper.changes()) == 3
        keeper.undo(done.changeset or 0)
        assert keeper.count() == 0
        assert counts(keeper.notes.index(vault)) == (0, 0, 0)


def test_a_reading_that_is_halted_goes_on_where_it_ended(tmp_path: Path, vault: Path) -> None:
    clock = FixedClock()
    with made(SqliteStore(tmp_path / "cofio.db", clock), clock, tmp_path) as keeper:
        write(vault, "old.md", "These words go to another file.")
        keeper.notes.index(vault)
        (moved,) = live(keeper).values()
        (vault / "old.md").unlink()
        for number in range(40):
            sections = (f"# S{each}\nSection {each} of file {number} says this.\n" for each in range(30))
            write(vault, f"{number}.md", "".join(sections))
        write(vault, "z.md", "These words go to another file.")
        assert counts(keeper.notes.index(vault, halted=lambda: True)) == (0, 0, 0)
        assert keeper.count() == 1
        done = keeper.notes.index(vault, halted=lambda: keeper.count() > 1)
        assert (done.read, *counts(done)) == (17, 480, 1, 0)  # what moved comes first
        assert keeper.get(moved.id).source == "file:vault/z.md"
        done = keeper.notes.index(vault)
        assert (done.read, *counts(done)) == (24, 720, 0, 0)
        assert counts(keeper.notes.index(vault)) == (0, 0, 0)


def test_a_folder_that_is_not_mounted_archives_nothing(keeper: Keeper, vault: Path) -> None:
    for number in range(12):
        write(vault, f"{number}.md", f"Words of file number {number}, five.")
    keeper.notes.index(vault)
    for file in vault.iterdir():
        file.unlink()
    done = keeper.notes.index(vault)
    assert (counts(done), len(done.skipped)) == ((0, 0, 0), 1)
    assert "mounted" in done.skipped[0][1]
    vault.rmdir()
    with pytest.raises(NotFound):
        keeper.notes.index(vault)
    assert keeper.count() == 12


def test_bad_folders_say_what_is_wrong(keeper: Keeper, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        keeper.notes.index(tmp_path / "never")
    with pytest.raises(InvalidInput, match="not a folder"):
        keeper.notes.index(write(tmp_path, "a.md", "words"))
    with pytest.raises(InvalidInput, match="root of the file system"):
        keeper.notes.index("/", dry_run=True)
    with pytest.raises(InvalidInput):
        keeper.notes.index(tmp_path, dry_run="yes")  # type: ignore[arg-type]
    assert keeper.notes.index() == IndexResult(folder=str(tmp_path / "notes"))


def test_secrets_in_notes_are_not_remembered(keeper: Keeper, vault: Path) -> None:
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    file = write(vault, "a.md", f"The token of the build is {key} for now.")
    keeper.notes.index(vault)
    (memory,) = live(keeper).values()
    assert key not in memory.text
    os.utime(file)
    assert counts(keeper.notes.index(vault)) == (0, 0, 0)
    file.write_text(f"---\ntags: [{key}]\n{key}: x\n---\n# It is {key}\nThe build has it from [[{key}]] for now.\n")
    keeper.notes.index(vault)
    (memory,) = live(keeper).values()
    assert key not in repr(memory)


def test_no_words_stay_where_it_is_noted_what_was_read(tmp_path: Path, vault: Path) -> None:
    clock = FixedClock()
    store = SqliteStore(tmp_path / "cofio.db", clock)
    with made(store, clock, tmp_path) as keeper:
        write(vault, "a.md", "# The number is 4711\nNobody should know that number.\n")
        keeper.notes.index(vault)
        (key,) = store.notes.folders()
        assert "4711" not in repr(store.notes.files(key))


def test_how_files_look_from_outside(keeper: Keeper, vault: Path) -> None:
    file = write(vault, "a/b.md", "words")
    about = file.stat()
    assert keeper.notes.look(vault) == {"a/b.md": (about.st_size, about.st_mtime_ns)}
    with pytest.raises(NotFound):
        keeper.notes.look(vault / "never")


# ── when things go wrong ──────────────────────────────────────────────────────────────────────────────────────────────


def test_notes_are_stored_while_the_embedder_is_away_and_embedded_later(tmp_path: Path, vault: Path) -> None:
    clock, embedder = FixedClock(), Tired()
    with made(SqliteStore(tmp_path / "cofio.db", clock), clock, tmp_path, embedder) as keeper:
        file = write(vault, "a.md", RUNBOOK)
        embedder.away = True
        done = keeper.notes.index(vault)
        change = keeper.notes.flush("AAPL volume spike.", ["AAPL"])
        assert (done.added, done.unembedded, keeper.count(), keeper.stats()["vectors"]) == (2, 2, 3, 0)
        assert keeper.get(change.memory_id).text == "AAPL volume spike."
        embedder.away = False
        assert keeper.embed_missing() == 3
        assert keeper.stats()["vectors"] == 3
        embedder.away = True
        file.write_text(RUNBOOK.replace("Nobody deploys on a Friday afternoon", "Bananas are never on the table here"))
        assert counts(keeper.notes.index(vault)) == (0, 1, 0)
        embedder.away = False
        assert [hit.text for hit in keeper.search("deploys friday afternoon", threshold=0.4)] == []
        assert keeper.embed_missing() == 1  # of the old words nothing is left to be found by
        assert keeper.search("bananas table", k=1, hybrid=False)[0].text == "Bananas are never on the table here."


def test_one_call_embeds_a_whole_folder(tmp_path: Path, vault: Path) -> None:
    clock, embedder = FixedClock(), HashEmbedder()
    with made(SqliteStore(tmp_path / "cofio.db", clock), clock, tmp_path, embedder) as keeper:
        for number in range(50):
            write(vault, f"{number}.md", f"Words of file number {number}, five.")
        keeper.notes.index(vault)
        assert (embedder.calls, keeper.stats()["vectors"]) == (1, 50)


DYING = """
import os, sys
from pathlib import Path
from cofio.core import Keeper
from cofio.notes.service import NotesOptions as Notebook
from cofio.stores.sqlite.store import SqliteStore
from cofio.stores.notes import SqlNotes
from cofio.testing import FixedClock, HashEmbedder
home, when = Path(sys.argv[1]), sys.argv[2]
if when == "die":
    SqlNotes.put = lambda *_: os._exit(9)
clock = FixedClock()
with Keeper(SqliteStore(home / "cofio.db", clock), HashEmbedder(), clock, notes=Notebook(home / "notes")) as keeper:
    print(keeper.notes.index(home / "vault").as_dict())
"""


def test_a_reading_that_dies_before_it_is_noted_duplicates_nothing(tmp_path: Path, vault: Path) -> None:
    file = write(vault, "a.md", RUNBOOK)
    write(vault, "b.md", "Other words are on this page.")

    def read(how: str) -> int:
        return subprocess.run([sys.executable, "-c", DYING, str(tmp_path), how], check=False).returncode

    def known() -> tuple[dict[str, Memory], int]:
        with made(SqliteStore(tmp_path / "cofio.db", FixedClock()), FixedClock(), tmp_path) as keeper:
            return live(keeper), len(keeper.changes())

    assert (read("die"), read("die")) == (9, 9)
    first = known()
    assert (len(first[0]), first[1]) == (3, 1)  # the second time there was nothing left to do
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


def test_processes_that_read_a_folder_at_once_duplicate_nothing(tmp_path: Path, vault: Path) -> None:
    for number in range(60):
        write(vault, f"{number}.md", f"# One\nFirst words of file {number}.\n# Two\nSecond words of file {number}.\n")
    SqliteStore(tmp_path / "cofio.db", FixedClock()).close()
    command = [sys.executable, "-c", DYING, str(tmp_path), "live"]
    started = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(3)]
    assert [each.wait(timeout=120) for each in started] == [0, 0, 0]
    with made(SqliteStore(tmp_path / "cofio.db", FixedClock()), FixedClock(), tmp_path) as keeper:
        assert (keeper.count(), keeper.stats()["archived"], len(keeper.changes())) == (120, 0, 1)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_two_machines_that_read_the_same_folder_at_once_duplicate_nothing(
    tmp_path: Path, vault: Path, kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a lock that both know: the one reads while the other has decided, and not done it yet."""

    def opened() -> Keeper:
        clock = FixedClock()
        url = request.getfixturevalue("postgres_url") if kind == "postgres" else ""
        return made(PostgresStore(url, clock) if url else SqliteStore(tmp_path / "c.db", clock), clock, tmp_path)

    with opened() as one, opened() as two:
        for page in (RUNBOOK, RUNBOOK.replace("Friday", "Monday"), RUNBOOK.partition("## Prod")[0], ""):
            write(vault, "a.md", page)
            between(one, lambda: two.notes.index(vault), monkeypatch)
            one.notes.index(vault)
            expected = {part for part in ("Every", "Nobody") if part in page}
            assert {text.split()[0] for text in live(one)} == expected
            assert one.count() == len(expected)


def between(keeper: Keeper, do: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have something done right before the keeper's next write; the lock of the folder is not in the way."""
    store = keeper.services.access.store
    apply = store.apply
    monkeypatch.setattr(files.fcntl, "flock", lambda *_: None)

    def later(*given: Any, **how: Any) -> Any:
        monkeypatch.setattr(store, "apply", apply)
        do()
        return apply(*given, **how)

    monkeypatch.setattr(store, "apply", later)


# ── a vault ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def note_of(folder: Path, memory_id: int) -> Path:
    (found,) = folder.glob(f"* ({memory_id}).md")
    return found


def told(done: VaultExportResult) -> tuple[int, int, int]:
    return done.notes, done.written, done.removed


def test_every_memory_gets_a_note_that_says_whose_it_is(keeper: Keeper, out: Path) -> None:
    old = keeper.add("We deploy with Heroku", project="/srv/web", kind="decision", source="codex").memory_id
    new, _ = keeper.supersede(old, "We deploy with Fly.io: it is *cheaper*", tags=["deploy", "two words"])
    keeper.update(new.memory_id, pinned=True)
    done = keeper.notes.export(out)
    assert done == VaultExportResult(folder=str(out.resolve()), notes=1, written=1)
    (note,) = out.iterdir()
    assert note.name == f"We deploy with Fly.io it is cheaper ({new.memory_id}).md"
    identity = keeper.services.access.store.snapshots.identity()
    lines = note.read_text().split("\n")
    assert lines[1] == f"cofio: {new.memory_id}"
    assert lines[2] in (f"store: {identity}", f'store: "{identity}"')
    assert lines[3:-1] == [
        "tags:", "  - deploy", "  - two words", "kind: decision", "category: decision", "source: codex",
        'project: "/srv/web"', "created: 2026-01-01T00:00:02", "updated: 2026-01-01T00:00:03", "pinned: true",
        f'supersedes: "[[We deploy with Heroku ({old})]]"', "---", "", "We deploy with Fly.io: it is *cheaper*",
    ]  # fmt: skip
    assert note.stat().st_mode & 0o077 == 0


def test_an_untouched_vault_changes_nothing_and_is_not_written_again(keeper: Keeper, out: Path) -> None:
    for text in ("We use tabs", "We deploy on Fridays"):
        keeper.add(text, tags=["a"])
    assert told(keeper.notes.export(out)) == (2, 2, 0)
    before, stamps = keeper.changes(), keeper.notes.look(out)
    done = keeper.notes.index(out)
    assert (done.files, done.read, *counts(done)) == (2, 0, 0, 0, 0)
    assert told(keeper.notes.export(out)) == (2, 0, 0)
    for note in out.iterdir():
        os.utime(note)
    assert counts(keeper.notes.index(out)) == (0, 0, 0)
    assert keeper.changes() == before
    assert {path: stamp.size for path, stamp in keeper.notes.look(out).items()} == {
        path: stamp.size for path, stamp in stamps.items()
    }


def test_an_edited_note_edits_its_memory(keeper: Keeper, out: Path) -> None:
    memory = keeper.add("We use tabs", tags=["style"], kind="preference", source="codex").memory
    keeper.notes.export(out)
    note = note_of(out, memory.id)
    page = note.read_text().replace("We use tabs", "We use spaces").replace("pinned: false", "pinned: true")
    note.write_text(page.replace("  - style", "  - style\n  - new").replace("kind: preference", "kind: policy"))
    done = keeper.notes.index(out)
    assert counts(done) == (0, 1, 0)
    after = keeper.get(memory.id)
    assert (after.text, after.tags, after.pinned, after.kind) == ("We use spaces", ("style", "new"), True, "preference")
    assert (after.source, after.metadata) == ("codex", {})
    assert keeper.search("spaces", k=1)[0].id == memory.id
    keeper.notes.export(out)
    assert "kind: preference" in note.read_text()  # what is not read back is written anew
    assert told(keeper.notes.export(out)) == (1, 0, 0)
    keeper.undo(done.changeset or 0)
    assert keeper.get(memory.id).text == "We use tabs"
    assert counts(keeper.notes.index(out)) == (0, 0, 0)
    assert told(keeper.notes.export(out)) == (1, 1, 0)
    assert "We use tabs" in note.read_text()


def test_a_note_that_lost_what_says_whose_it_is_keeps_its_memory(keeper: Keeper, out: Path) -> None:
    known = keeper.add("We deploy to Fly.io in Frankfurt").memory_id
    keeper.notes.export(out)
    (note,) = out.iterdir()
    note.write_text("We deploy to Render in Frankfurt\n")
    assert counts(keeper.notes.index(out)) == (0, 1, 0)
    assert keeper.get(known).text == "We deploy to Render in Frankfurt"


def test_a_note_that_names_another_memory_by_mistake_takes_nothing_from_its_own(keeper: Keeper, out: Path) -> None:
    keeper.add("We deploy to Fly.io in Frankfurt", tags=["infra"])
    keeper.add("Nobody deploys on a Friday")
    keeper.notes.export(out, tags=["infra"])
    (note,) = out.iterdir()
    page = note.read_text()
    note.write_text(page.replace("cofio: 1", "cofio: 2"))
    done = keeper.notes.index(out)
    assert (counts(done), len(done.skipped)) == ((0, 0, 0), 1)
    note.write_text(page)
    keeper.notes.index(out)
    assert set(live(keeper)) == {"We deploy to Fly.io in Frankfurt", "Nobody deploys on a Friday"}


def test_a_tag_that_is_no_text_keeps_no_other_note_waiting(keeper: Keeper, out: Path) -> None:
    keeper.add("We deploy to Fly.io in Frankfurt", tags=["infra"])
    keeper.notes.export(out)
    (note,) = out.iterdir()
    note.write_text(note.read_text().replace("- infra", '- "\\ud800"'))
    write(out, "other.md", "These are some words of mine.")
    done = keeper.notes.index(out)
    assert (done.added, [path for path, _ in done.skipped]) == (1, [note.name])


def test_an_edit_here_and_one_there_are_both_kept(keeper: Keeper, out: Path) -> None:
    memory = keeper.add("We use tabs", tags=["style"]).memory
    keeper.notes.export(out)
    keeper.update(memory.id, text="We use tabs of eight")
    note = note_of(out, memory.id)
    note.write_text(note.read_text().replace("  - style", "  - layout"))
    assert [why for _, why in keeper.notes.export(out).skipped] == ["It was edited since. Index the folder first."]
    assert counts(keeper.notes.index(out)) == (0, 1, 0)
    after = keeper.get(memory.id)
    assert (after.text, after.tags) == ("We use tabs of eight", ("layout",))
    assert told(keeper.notes.export(out)) == (1, 1, 0)
    assert "We use tabs of eight" in note.read_text()


def test_a_deleted_note_archives_its_memory(keeper: Keeper, out: Path) -> None:
    memory = keeper.add("We use tabs").memory
    keeper.add("We deploy on Fridays")
    keeper.notes.export(out)
    note_of(out, memory.id).unlink()
    assert [why.split(".")[0] for _, why in keeper.notes.export(out).skipped] == ["It was deleted"]
    assert counts(keeper.notes.index(out)) == (0, 0, 1)
    assert keeper.get(memory.id).archived
    assert told(keeper.notes.export(out)) == (1, 0, 0)
    keeper.restore(memory.id)
    assert told(keeper.notes.export(out)) == (2, 1, 0)


def test_the_note_of_an_archived_memory_is_removed_unless_it_was_edited(keeper: Keeper, out: Path) -> None:
    one, two = keeper.add("We use tabs").memory, keeper.add("We deploy on Fridays").memory
    keeper.notes.export(out)
    edited = note_of(out, two.id)
    edited.write_text(edited.read_text() + "at noon\n")
    for memory in (one, two):
        keeper.delete(memory.id)
    done = keeper.notes.export(out)
    assert (told(done), [path for path, _ in done.skipped]) == ((0, 0, 1), [edited.name])
    assert [each.name for each in out.iterdir()] == [edited.name]
    assert counts(keeper.notes.index(out)) == (1, 0, 0)  # the edit brings it back
    assert keeper.get(two.id).text == "We deploy on Fridays\nat noon"


def test_a_note_whose_memory_somebody_forgot_does_not_bring_it_back(keeper: Keeper, out: Path) -> None:
    memory = keeper.add("We use tabs").memory
    keeper.notes.export(out)
    keeper.delete(memory.id)
    os.utime(note_of(out, memory.id))
    assert counts(keeper.notes.index(out)) == (0, 0, 0)
    assert keeper.get(memory.id).archived


def test_files_that_are_not_ours_are_never_written_over(keeper: Keeper, out: Path) -> None:
    memory = keeper.add("We use tabs").memory
    write(out, f"We use tabs ({memory.id}).md", "My own words about tabs.")
    done = keeper.notes.export(out)
    assert (told(done), [why for _, why in done.skipped]) == (
        (0, 0, 0),
        ["A file of that name exists and is not an exported note."],
    )
    assert next(out.iterdir()).read_text() == "My own words about tabs."
    assert [path.name for path in out.iterdir()] == [f"We use tabs ({memory.id}).md"]
    keeper.notes.index(out)  # that it was read does not make it ours
    assert [why for _, why in keeper.notes.export(out).skipped] == [
        "A file of that name exists and is not an exported note."
    ]
    assert next(out.iterdir()).read_text() == "My own words about tabs."


def test_the_note_of_another_memory_is_not_written_over(keeper: Keeper, out: Path) -> None:
    one, other = keeper.add("We use tabs").memory_id, keeper.add("Nobody deploys on a Friday").memory_id
    keeper.notes.export(out)
    note_of(out, one).unlink()
    renamed = note_of(out, other).rename(out / f"We use tabs ({one}).md")
    said = renamed.read_text()
    keeper.notes.index(out)
    keeper.restore(one)
    assert [why for _, why in keeper.notes.export(out).skipped] == [
        "A file of that name exists and is not an exported note."
    ]
    assert renamed.read_text() == said


def test_a_renamed_note_is_still_the_memorys(keeper: Keeper, out: Path) -> None:
    memory = keeper.add("We use tabs").memory
    keeper.notes.export(out)
    note_of(out, memory.id).rename(out / "tabs.md")
    assert counts(keeper.notes.index(out)) == (0, 0, 0)
    assert told(keeper.notes.export(out)) == (1, 0, 0)
    assert [path.name for path in out.iterdir()] == ["tabs.md"]
    keeper.update(memory.id, text="We use spaces")
    assert told(keeper.notes.export(out)) == (1, 1, 0)
    assert "We use spaces" in (out / "tabs.md").read_text()


def test_a_copy_of_a_note_is_a_note_as_any(keeper: Keeper, out: Path) -> None:
    memory = keeper.add("We use tabs, and nothing else").memory
    keeper.notes.export(out)
    note = note_of(out, memory.id)
    write(out, "a copy.md", note.read_text().replace("tabs", "spaces"))
    assert counts(keeper.notes.index(out)) == (1, 0, 0)
    assert keeper.get(memory.id).text == "We use tabs, and nothing else"
    assert live(keeper)["We use spaces, and nothing else"].source == "file:out/a copy.md"
    assert told(keeper.notes.export(out)) == (1, 0, 0)  # what is read there is not written there


def test_fields_of_ones_own_stay_in_a_note(keeper: Keeper, out: Path) -> None:
    memory = keeper.add("We use tabs").memory
    keeper.notes.export(out)
    note = note_of(out, memory.id)
    note.write_text(note.read_text().replace("pinned: false", "pinned: false\naliases:\n  - Tabs\nrating: 5 # stars"))
    assert counts(keeper.notes.index(out)) == (0, 0, 0)
    keeper.update(memory.id, text="We use spaces")
    assert told(keeper.notes.export(out)) == (1, 1, 0)
    page = note.read_text()
    assert "We use spaces" in page
    assert "aliases:\n  - Tabs\nrating: 5 # stars\n---" in page


def test_what_a_note_cannot_say_is_told(keeper: Keeper, out: Path) -> None:
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


def test_the_vault_of_another_store_is_read_as_any_folder(tmp_path: Path, out: Path) -> None:
    clock = FixedClock()
    with made(SqliteStore(tmp_path / "one.db", clock), clock, tmp_path) as one:
        one.add("We use tabs, and nothing else", tags=["style"])
        one.notes.export(out)
    with made(SqliteStore(tmp_path / "two.db", clock), clock, tmp_path) as two:
        two.add("Something else that is here")
        assert counts(two.notes.index(out)) == (1, 0, 0)
        memory = live(two)["We use tabs, and nothing else"]
        assert (memory.source, memory.tags) == (f"file:out/{memory.metadata['note']['path']}", ("style",))
        assert memory.metadata["cofio"] == "1"


def test_a_vault_is_known_again_where_nobody_noted_it(keeper: Keeper, out: Path, tmp_path: Path) -> None:
    """A copy of it, or a folder around it: the notes themselves say which memories they are."""
    memory, other = keeper.add("We use tabs").memory, keeper.add("We deploy on Fridays").memory
    keeper.notes.export(out)
    assert counts(keeper.notes.index(tmp_path / "out" / "..", dry_run=True)) == (0, 0, 0)
    elsewhere = tmp_path / "elsewhere"
    out.rename(elsewhere)
    note = note_of(elsewhere, memory.id)
    note.write_text(note.read_text().replace("tabs", "spaces"))
    assert counts(keeper.notes.index(elsewhere)) == (0, 1, 0)
    assert keeper.get(memory.id).text == "We use spaces"
    note_of(elsewhere, other.id).unlink()
    assert counts(keeper.notes.index(elsewhere)) == (0, 0, 1)


def test_an_old_note_does_not_undo_what_was_said_since(keeper: Keeper, out: Path, tmp_path: Path) -> None:
    memory = keeper.add("We use tabs").memory
    keeper.notes.export(out)
    keeper.update(memory.id, text="We use spaces")
    out.rename(tmp_path / "old")
    (skipped,) = keeper.notes.index(tmp_path / "old").skipped
    assert "was changed since" in skipped[1]
    assert keeper.get(memory.id).text == "We use spaces"


def test_a_vault_inside_a_folder_that_is_followed(keeper: Keeper, vault: Path) -> None:
    write(vault, "a.md", RUNBOOK)
    keeper.notes.index(vault)
    memory = keeper.add("We use tabs").memory
    inner = vault / "memories"
    assert told(keeper.notes.export(inner)) == (1, 1, 0)  # what was read around it is there already
    assert counts(keeper.notes.index(vault)) == (0, 0, 0)
    note = note_of(inner, memory.id)
    note.write_text(note.read_text().replace("tabs", "spaces"))
    assert counts(keeper.notes.index(vault)) == (0, 1, 0)
    assert keeper.get(memory.id).text == "We use spaces"
    assert (told(keeper.notes.export(inner)), keeper.notes.export(inner).skipped) == ((1, 0, 0), ())


def test_a_scope_says_what_is_written(keeper: Keeper, out: Path) -> None:
    keeper.add("We use tabs", project="/srv/web")
    gone = keeper.add("We deploy on Fridays", project="/srv/api").memory
    assert told(keeper.notes.export(out, project="/srv/web")) == (1, 1, 0)
    assert told(keeper.notes.export(out, project="/srv/api")) == (1, 1, 0)
    keeper.delete(gone.id)
    assert told(keeper.notes.export(out, include_archived=True)) == (2, 1, 0)
    assert "archived: 2026" in note_of(out, gone.id).read_text()
    assert counts(keeper.notes.index(out)) == (0, 0, 0)
    with pytest.raises(InvalidInput, match="nonsense"):
        keeper.notes.export(out, nonsense=1)
    with pytest.raises(InvalidInput, match="not a folder"):
        keeper.notes.export(write(out, "file", ""))


def test_lines_that_some_tool_has_ended_otherwise_change_nothing(keeper: Keeper, out: Path) -> None:
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
def test_every_character_survives_a_vault(
    tmp_path_factory: pytest.TempPathFactory, facts: list[tuple[str, list[str]]], more: str
) -> None:
    folder, clock = tmp_path_factory.mktemp("vault"), FixedClock()
    with made(MemoryStore(clock), clock, folder) as keeper:
        keeper.add_all(
            [Fact(text=text, tags=tuple(tags), source=tags[0] if tags else "") for text, tags in facts], dedup=False
        )
        memories = {memory.id: memory for memory in keeper.list().memories}
        done = keeper.notes.export(folder / "out")
        assert (told(done), done.skipped) == ((len(facts), len(facts), 0), ())
        for key in keeper.services.access.store.notes.folders():  # as if nobody had noted them
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
        assert told(keeper.notes.export(folder / "out")) == (len(facts), 0, 0)
        assert counts(keeper.notes.index(folder / "out")) == (0, 0, 0)


def test_a_text_with_blanks_around_it_is_not_taken_for_an_edit(keeper: Keeper, out: Path) -> None:
    at = "2026-01-01T00:00:00.000000+00:00"
    keeper.apply([Adopt(Memory(id=5, text="  We use tabs\n", created_at=at, updated_at=at))], by="test", why="")
    keeper.notes.export(out)
    os.utime(note_of(out, 5))
    assert counts(keeper.notes.index(out)) == (0, 0, 0)
    assert keeper.get(5).text == "  We use tabs\n"


# ── everywhere ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_server_store_follows_too(postgres_url: str, tmp_path: Path, vault: Path, out: Path) -> None:
    clock = FixedClock()
    with made(PostgresStore(postgres_url, clock), clock, tmp_path) as keeper:
        keeper.notes.flush("AAPL volume spike.", ["AAPL"])
        assert counts(keeper.notes.index()) == (0, 0, 0)
        file = write(vault, "a.md", RUNBOOK)
        assert counts(keeper.notes.index(vault)) == (2, 0, 0)
        file.rename(vault / "b.md")
        assert counts(keeper.notes.index(vault)) == (0, 2, 0)
        memory = live(keeper)["Nobody deploys on a Friday afternoon."]
        assert told(keeper.notes.export(out)) == (3, 3, 0)
        note = note_of(out, memory.id)
        note.write_text(note.read_text().replace("Friday", "Monday"))
        assert counts(keeper.notes.index(out)) == (0, 1, 0)
        assert keeper.search("monday", k=1)[0].id == memory.id
        (vault / "b.md").unlink()
        done = keeper.notes.index(vault)
        assert counts(done) == (0, 0, 2)
        assert told(keeper.notes.export(out)) == (1, 0, 2)
        keeper.undo(done.changeset or 0)
        assert keeper.count() == 3


def test_the_settings_say_where_notes_are(tmp_path: Path) -> None:
    around = {"COFIO_HOME": str(tmp_path), "COFIO_NOTES_FOLDERS": f" wiki={tmp_path}/docs , {tmp_path}/a=b,"}
    usual = Settings.load(environ=around)
    assert usual.notes_folder == tmp_path / "notes"
    assert usual.notes_labels == {tmp_path / "docs": "wiki", tmp_path / "a=b": ""}
    assert usual.notes_followed == [tmp_path / "docs", tmp_path / "a=b"]
    assert Settings.load(environ={**around, "COFIO_NOTES": "~/mine"}).notes_folder == Path("~/mine").expanduser()
    for bad in ("=x", "wiki="):
        with pytest.raises(Misconfigured, match="NAME=PATH"):
            _ = Settings.load(environ={"COFIO_HOME": str(tmp_path), "COFIO_NOTES_FOLDERS": bad}).notes_labels
    with pytest.raises(Misconfigured, match="twice"):
        _ = Settings.load(environ={"COFIO_HOME": str(tmp_path), "COFIO_NOTES_FOLDERS": "wiki=a,wiki=b"}).notes_labels
    write(tmp_path, "docs/a.md", "These are some words of mine.")
    with bootstrap.keeper(usual, embedder=HashEmbedder()) as keeper:
        keeper.notes.index(tmp_path / "docs")
        keeper.notes.flush("AAPL volume spike.")
        assert {memory.source.split("/")[0] for memory in keeper.list().memories} >= {"file:wiki"}
        assert [(folder.followed, folder.there) for folder in keeper.notes.folders()] == [
            (True, False),
            (True, True),
            (False, True),
        ]
