"""Contract suite of the records of indexed Markdown files. Subclasses define a `store` fixture."""

from __future__ import annotations

from dataclasses import replace

from cofio.models.markdown_notes import FiledPart, FileState
from cofio.models.memory import Edit
from cofio.ports import Store
from tests.stores.contract import add, vector

NOW = 1_750_000_000_123_456_789  # nanoseconds: more than a float holds


def file_state(path: str, *parts: FiledPart, **overrides: object) -> FileState:
    fields = {"hash": f"of {path}", "size": 12, "modified": NOW, **overrides}
    return FileState(path=path, parts=parts, **fields)  # type: ignore[arg-type]


class NotesContract:
    """Tests of file records."""

    def test_file_record_is_returned_with_every_field(self, store: Store) -> None:
        parts = (
            FiledPart(7, "Déploy > «Staging»", "says", "about"),
            FiledPart(1 << 40, "", "s", "a", exported=True),
        )
        values = file_state("über/Ümläut 'x' \"y\".md", *parts, at="2026-01-07T12:00:00.000000+00:00")
        store.notes.put("vault=/home/ada/vault", [values])
        assert store.notes.files("vault=/home/ada/vault") == {values.path: values}

    def test_time_of_reading_defaults_to_now(self, store: Store) -> None:
        store.notes.put("f", [file_state("a.md")])
        (read,) = store.notes.files("f").values()
        assert read.at.startswith("20")
        assert replace(read, at="") == file_state("a.md")

    def test_second_record_of_a_file_replaces_the_first(self, store: Store) -> None:
        store.notes.put("f", [file_state("a.md", FiledPart(1)), file_state("b.md")])
        store.notes.put("f", [file_state("a.md", FiledPart(2), hash="new", size=0, modified=-1)])
        (a, b) = store.notes.files("f").values()
        assert (a.hash, a.size, a.modified, a.parts) == ("new", 0, -1, (FiledPart(2),))
        assert b.path == "b.md"

    def test_folders_are_separate_and_listed_while_they_have_files(self, store: Store) -> None:
        assert store.notes.folders() == []
        assert store.notes.files("one") == {}
        store.notes.put("two", [file_state("a.md", FiledPart(2))])
        store.notes.put("one", [file_state("a.md", FiledPart(1)), file_state("b.md")])
        assert store.notes.folders() == ["one", "two"]
        assert store.notes.files("two")["a.md"].parts == (FiledPart(2),)
        store.notes.drop("one", ["a.md", "never.md"])
        store.notes.drop("two", ["a.md"])
        assert list(store.notes.files("one")) == ["b.md"]
        assert store.notes.folders() == ["one"]

    def test_empty_put_and_drop_change_nothing(self, store: Store) -> None:
        store.notes.put("f", [file_state("a.md")])
        store.notes.put("f", [])
        store.notes.drop("f", [])
        store.notes.drop("never", ["a.md"])
        assert list(store.notes.files("f")) == ["a.md"]

    def test_edited_text_needs_a_new_vector(self, store: Store) -> None:
        """Notes are stored even when the embedder is unavailable; edited texts are embedded later."""
        memory = add(store, "red green blue")
        result = store.apply([Edit(memory.id, {"text": "one two three"})], {}, by="test", why="")
        assert [item.id for item in store.unembedded(9)] == [memory.id]
        store.apply([Edit(memory.id, {"pinned": True})], {}, by="test", why="")
        store.put_vectors({memory.id: vector("one two three")})
        store.apply([Edit(memory.id, {"tags": ["x"]})], {}, by="test", why="")
        assert store.unembedded(9) == []
        assert result.changes[0].memory.text == "one two three"

    def test_files_are_sorted_by_path(self, store: Store) -> None:
        paths = ["z.md", "B.md", "a/b.md", "a.md", "é.md"]
        store.notes.put("f", [file_state(path) for path in paths])
        assert list(store.notes.files("f")) == sorted(paths)
