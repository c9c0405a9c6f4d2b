"""What every Store must know of the Markdown files that were read. Give a `store` fixture."""

from __future__ import annotations

from dataclasses import replace

from cofio.models.memory import Edit
from cofio.models.notes import FiledPart, FileState
from cofio.ports import Store
from tests.stores.contract import add, vector

NOW = 1_750_000_000_123_456_789  # nanoseconds: more than a float holds


def filed(path: str, *parts: FiledPart, **about: object) -> FileState:
    told = {"hash": f"of {path}", "size": 12, "modified": NOW, **about}
    return FileState(path=path, parts=parts, **told)  # type: ignore[arg-type]


class NotesContract:
    """The suite."""

    def test_a_file_comes_back_as_it_was_noted(self, store: Store) -> None:
        parts = (
            FiledPart(7, "Déploy > «Staging»", "says", "about"),
            FiledPart(1 << 40, "", "s", "a", exported=True),
        )
        given = filed("über/Ümläut 'x' \"y\".md", *parts, at="2026-01-07T12:00:00.000000+00:00")
        store.notes.put("vault=/home/ada/vault", [given])
        assert store.notes.files("vault=/home/ada/vault") == {given.path: given}

    def test_when_it_was_read_is_filled_in(self, store: Store) -> None:
        store.notes.put("f", [filed("a.md")])
        (read,) = store.notes.files("f").values()
        assert read.at.startswith("20")
        assert replace(read, at="") == filed("a.md")

    def test_a_file_that_is_read_again_takes_its_own_place(self, store: Store) -> None:
        store.notes.put("f", [filed("a.md", FiledPart(1)), filed("b.md")])
        store.notes.put("f", [filed("a.md", FiledPart(2), hash="new", size=0, modified=-1)])
        (a, b) = store.notes.files("f").values()
        assert (a.hash, a.size, a.modified, a.parts) == ("new", 0, -1, (FiledPart(2),))
        assert b.path == "b.md"

    def test_folders_do_not_mix_and_are_told_while_they_have_a_file(self, store: Store) -> None:
        assert store.notes.folders() == []
        assert store.notes.files("one") == {}
        store.notes.put("two", [filed("a.md", FiledPart(2))])
        store.notes.put("one", [filed("a.md", FiledPart(1)), filed("b.md")])
        assert store.notes.folders() == ["one", "two"]
        assert store.notes.files("two")["a.md"].parts == (FiledPart(2),)
        store.notes.drop("one", ["a.md", "never.md"])
        store.notes.drop("two", ["a.md"])
        assert list(store.notes.files("one")) == ["b.md"]
        assert store.notes.folders() == ["one"]

    def test_nothing_is_noted_and_nothing_forgotten(self, store: Store) -> None:
        store.notes.put("f", [filed("a.md")])
        store.notes.put("f", [])
        store.notes.drop("f", [])
        store.notes.drop("never", ["a.md"])
        assert list(store.notes.files("f")) == ["a.md"]

    def test_of_other_words_the_old_vector_tells_nothing(self, store: Store) -> None:
        """Notes are stored while the embedder is away: what was edited then is embedded later."""
        memory = add(store, "red green blue")
        done = store.apply([Edit(memory.id, {"text": "one two three"})], {}, by="test", why="")
        assert [each.id for each in store.unembedded(9)] == [memory.id]
        store.apply([Edit(memory.id, {"pinned": True})], {}, by="test", why="")
        store.put_vectors({memory.id: vector("one two three")})
        store.apply([Edit(memory.id, {"tags": ["x"]})], {}, by="test", why="")
        assert store.unembedded(9) == []
        assert done.changes[0].memory.text == "one two three"

    def test_files_are_told_in_the_order_of_their_paths(self, store: Store) -> None:
        paths = ["z.md", "B.md", "a/b.md", "a.md", "é.md"]
        store.notes.put("f", [filed(path) for path in paths])
        assert list(store.notes.files("f")) == sorted(paths)
