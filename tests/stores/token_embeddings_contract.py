"""What was read word by word: one behaviour over every store."""

from __future__ import annotations

from cofio.models.memory import Edit, Memory, Purge
from cofio.ports import Store
from tests.stores.contract import add


class ReadingsContract:
    def test_what_is_new_is_unread_newest_first_and_read_once_it_was_put(self, store: Store) -> None:
        first, second = add(store, "red"), add(store, "green")
        store.token_embeddings.set_signature("one")
        assert [each.id for each in store.token_embeddings.unread(9)] == [second.id, first.id]
        assert [each.id for each in store.token_embeddings.unread(1)] == [second.id]
        assert store.token_embeddings.put([(second, b"words of green")], "one")
        assert store.token_embeddings.get([first.id, second.id, 999], "one") == {second.id: b"words of green"}
        assert [each.id for each in store.token_embeddings.unread(9)] == [first.id]
        assert store.token_embeddings.counts() == (1, 1)

    def test_what_says_something_else_is_unread_again(self, store: Store) -> None:
        memory = _read(store, add(store, "red"))
        store.apply([Edit(memory.id, {"text": "blue"})], {}, by="test", why="")
        assert store.token_embeddings.get([memory.id], "one") == {}
        assert [each.text for each in store.token_embeddings.unread(9)] == ["blue"]

    def test_what_changed_otherwise_stays_read(self, store: Store) -> None:
        memory = _read(store, add(store, "red"))
        store.apply([Edit(memory.id, {"pinned": True})], {}, by="test", why="")
        assert store.token_embeddings.get([memory.id], "one") == {memory.id: b"read"}

    def test_a_reading_of_what_it_said_before_is_not_kept(self, store: Store) -> None:
        before = add(store, "red")
        store.apply([Edit(before.id, {"text": "blue"})], {}, by="test", why="")
        store.token_embeddings.set_signature("one")
        store.token_embeddings.put([(before, b"words of red")], "one")
        assert store.token_embeddings.get([before.id], "one") == {}
        assert [each.text for each in store.token_embeddings.unread(9)] == ["blue"]

    def test_what_is_purged_leaves_nothing(self, store: Store) -> None:
        memory = _read(store, add(store, "red"))
        store.apply([Purge(memory.id)], {}, by="test", why="")
        store.token_embeddings.put([(memory, b"too late")], "one")
        assert store.token_embeddings.get([memory.id], "one") == {}
        assert store.token_embeddings.counts() == (0, 0)

    def test_another_reader_begins_anew_the_same_one_does_not(self, store: Store) -> None:
        store.token_embeddings.set_signature("one")
        memory = _read(store, add(store, "red"))
        store.token_embeddings.set_signature("one")
        assert store.token_embeddings.counts() == (1, 0)
        store.token_embeddings.set_signature("another")
        assert store.token_embeddings.get([memory.id], "another") == {}
        assert [each.id for each in store.token_embeddings.unread(9)] == [memory.id]

    def test_a_reader_neither_gets_nor_puts_where_another_has_signed_meanwhile(self, store: Store) -> None:
        memory = _read(store, add(store, "red"))
        assert store.token_embeddings.get([memory.id], "another") == {}
        store.token_embeddings.set_signature("another")
        assert not store.token_embeddings.put([(memory, b"of the one before")], "one")
        assert store.token_embeddings.get([memory.id], "another") == {}
        assert [each.id for each in store.token_embeddings.unread(9)] == [memory.id]

    def test_context_and_speaker_are_part_of_what_is_read(self, store: Store) -> None:
        memory = _read(store, add(store, "I moved", speaker="Ann", context="Where do you live?"))
        assert store.token_embeddings.get([memory.id], "one") == {memory.id: b"read"}


def _read(store: Store, memory: Memory) -> Memory:
    store.token_embeddings.set_signature("one")
    store.token_embeddings.put([(memory, b"read")], "one")
    return memory
