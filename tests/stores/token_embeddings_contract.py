"""Contract suite of stored token embeddings."""

from __future__ import annotations

from cofio.models.memory import Edit, Memory, Purge
from cofio.ports import Store
from tests.stores.contract import add


class TokenEmbeddingsContract:
    def test_new_memories_are_unread_newest_first_until_stored(self, store: Store) -> None:
        first, second = add(store, "red"), add(store, "green")
        store.token_embeddings.set_signature("one")
        assert [item.id for item in store.token_embeddings.pending(9)] == [second.id, first.id]
        assert [item.id for item in store.token_embeddings.pending(1)] == [second.id]
        assert store.token_embeddings.put([(second, b"words of green")], "one")
        assert store.token_embeddings.get([first.id, second.id, 999], "one") == {second.id: b"words of green"}
        assert [item.id for item in store.token_embeddings.pending(9)] == [first.id]
        assert store.token_embeddings.counts() == (1, 1)

    def test_edited_memory_is_unread_again(self, store: Store) -> None:
        memory = _store_embeddings(store, add(store, "red"))
        store.apply([Edit(memory.id, {"text": "blue"})], {}, by="test", why="")
        assert store.token_embeddings.get([memory.id], "one") == {}
        assert [memory.text for memory in store.token_embeddings.pending(9)] == ["blue"]

    def test_memory_with_unchanged_text_stays_read(self, store: Store) -> None:
        memory = _store_embeddings(store, add(store, "red"))
        store.apply([Edit(memory.id, {"pinned": True})], {}, by="test", why="")
        assert store.token_embeddings.get([memory.id], "one") == {memory.id: b"read"}

    def test_embeddings_of_outdated_text_are_not_stored(self, store: Store) -> None:
        before = add(store, "red")
        store.apply([Edit(before.id, {"text": "blue"})], {}, by="test", why="")
        store.token_embeddings.set_signature("one")
        store.token_embeddings.put([(before, b"words of red")], "one")
        assert store.token_embeddings.get([before.id], "one") == {}
        assert [memory.text for memory in store.token_embeddings.pending(9)] == ["blue"]

    def test_purge_removes_embeddings(self, store: Store) -> None:
        memory = _store_embeddings(store, add(store, "red"))
        store.apply([Purge(memory.id)], {}, by="test", why="")
        store.token_embeddings.put([(memory, b"too late")], "one")
        assert store.token_embeddings.get([memory.id], "one") == {}
        assert store.token_embeddings.counts() == (0, 0)

    def test_changed_signature_drops_embeddings(self, store: Store) -> None:
        store.token_embeddings.set_signature("one")
        memory = _store_embeddings(store, add(store, "red"))
        store.token_embeddings.set_signature("one")
        assert store.token_embeddings.counts() == (1, 0)
        store.token_embeddings.set_signature("another")
        assert store.token_embeddings.get([memory.id], "another") == {}
        assert [item.id for item in store.token_embeddings.pending(9)] == [memory.id]

    def test_embeddings_with_another_signature_are_neither_returned_nor_stored(self, store: Store) -> None:
        memory = _store_embeddings(store, add(store, "red"))
        assert store.token_embeddings.get([memory.id], "another") == {}
        store.token_embeddings.set_signature("another")
        assert not store.token_embeddings.put([(memory, b"of the one before")], "one")
        assert store.token_embeddings.get([memory.id], "another") == {}
        assert [item.id for item in store.token_embeddings.pending(9)] == [memory.id]

    def test_context_and_speaker_are_part_of_the_embedded_text(self, store: Store) -> None:
        memory = _store_embeddings(store, add(store, "I moved", speaker="Ann", context="Where do you live?"))
        assert store.token_embeddings.get([memory.id], "one") == {memory.id: b"read"}


def _store_embeddings(store: Store, memory: Memory) -> Memory:
    store.token_embeddings.set_signature("one")
    store.token_embeddings.put([(memory, b"read")], "one")
    return memory
