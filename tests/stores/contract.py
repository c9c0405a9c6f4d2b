"""Contract suite of the Store port. Every adapter passes it: subclass it and define a `store` fixture."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from cofio.errors import Conflict, EmbedderMismatch, InvalidInput, NotFound, StoreError
from cofio.models.memory import (
    Add,
    Changeset,
    Decision,
    Delete,
    Edit,
    Fact,
    Memory,
    Merge,
    Noop,
    Occurrence,
    Purge,
    Restore,
    Retrieval,
    Revert,
    Scope,
    Update,
)
from cofio.ports import Store, Vector
from cofio.testing import HashEmbedder

EMBEDDER = HashEmbedder(64)
EVERYTHING = Scope(include_archived=True)


def vector(text: str) -> Vector:
    return EMBEDDER.embed([text], "document")[0]


def apply(store: Store, *decisions: Decision, by: str = "test", why: str = "", **options: Any) -> Changeset:
    """Apply decisions together with the vectors they need."""
    texts = {
        place: decision.fact.text if isinstance(decision, Add | Update) else decision.fields["text"]
        for place, decision in enumerate(decisions)
        if isinstance(decision, Add | Update) or (isinstance(decision, Edit) and "text" in decision.fields)
    }
    return store.apply(decisions, {place: vector(text) for place, text in texts.items()}, by=by, why=why, **options)


def add(store: Store, text: str, **fields: Any) -> Memory:
    return apply(store, Add(Fact(text=text, **fields))).changes[0].memory


def undo(store: Store, changeset: int) -> Changeset:
    decisions = [Revert(change.id) for change in reversed(store.changeset(changeset).changes)]
    return store.apply(decisions, {}, by="test", why="undo", undoes=changeset)


def everything(store: Store) -> list[Memory]:
    return store.page(EVERYTHING, limit=1_000)[0]


class StoreContract:
    """Tests of adding, changing, undoing and finding memories."""

    # ── adding and getting ────────────────────────────────────────────────────────────────────────────────────────────

    def test_new_store_is_empty(self, store: Store) -> None:
        assert everything(store) == []
        assert store.nearest(vector("anything"), 5, Scope()) == []
        assert store.matching(["anything"], 5, Scope()).candidates == ()
        assert store.stats()["memories"] == 0
        assert not store.has_speakers()

    def test_added_memory_is_returned_with_every_field(self, store: Store) -> None:
        fact = Fact(
            text="Flag AAPL when volume exceeds 5M – «тест» 🌊",
            source="codex/finwatch",
            project="/srv/finwatch",
            kind="threshold",
            confidence=0.7,
            method="llm",
            entities=("AAPL", "C#"),
            tags=("markets", "alerts"),
            session="s-1",
            agent="agent-1",
            visibility="team",
            metadata={"turn": 3, "nested": {"a": [1, None, True]}},
            speaker="Ada",
            context="What should we watch?",
            created_at="2026-02-20T06:44:28Z",
        )
        memory = apply(store, Add(fact)).changes[0].memory
        assert store.get([memory.id]) == [memory]
        for field in fields(Fact):
            assert getattr(memory, field.name) == getattr(fact, field.name), field.name
        assert memory.category == "detail"
        assert memory.timestamp == memory.created_at == memory.updated_at == "2026-02-20T06:44:28.000000+00:00"
        assert (memory.occurrences, memory.retrieval_count, memory.pinned, memory.archived_at) == (1, 0, False, None)

    def test_get_keeps_order_and_skips_unknown_ids(self, store: Store) -> None:
        first, second = add(store, "one"), add(store, "two")
        assert [m.text for m in store.get([second.id, 999, first.id, -1, 1 << 70])] == ["two", "one"]

    def test_ids_are_never_reused(self, store: Store) -> None:
        first = add(store, "first")
        last = add(store, "last")
        apply(store, Purge(last.id))
        assert add(store, "next").id > last.id
        changeset = apply(store, Add(Fact(text="undone")))
        undo(store, changeset.id)
        assert add(store, "after the undo").id > changeset.changes[0].memory_id > first.id

    def test_apply_is_atomic(self, store: Store) -> None:
        stored = add(store, "kept")
        with pytest.raises(NotFound):
            apply(store, Add(Fact(text="never")), Edit(stored.id, {"text": "never"}), Delete(999))
        assert everything(store) == [stored]
        assert store.matching(["never"], 5, Scope()).candidates == ()
        assert len(store.changesets(10)) == 1

    @pytest.mark.parametrize("unknown", [-1, 0, 999, 1 << 80])
    def test_unknown_ids_raise_not_found(self, store: Store, unknown: int) -> None:
        add(store, "something")
        decisions: list[Decision] = [
            Edit(unknown, {"text": "x"}),
            Delete(unknown),
            Restore(unknown),
            Purge(unknown),
            Noop(unknown),
            Update(unknown, Fact(text="x")),
        ]
        for decision in decisions:
            with pytest.raises(NotFound, match="no memory"):
                apply(store, decision)
        with pytest.raises(NotFound):
            store.history(unknown)
        with pytest.raises(NotFound):
            store.changeset(unknown)

    def test_vector_of_wrong_length_is_rejected(self, store: Store) -> None:
        add(store, "something")
        with pytest.raises(InvalidInput, match="dimensions"):
            store.apply([Add(Fact(text="short"))], {0: vector("short")[:32]}, by="test", why="")
        assert len(everything(store)) == 1

    @pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
    def test_invalid_vector_is_rejected_before_writing(self, store: Store, value: float) -> None:
        row = np.full(64, value, np.float32)
        with pytest.raises(InvalidInput, match="finite"):
            store.apply([Add(Fact(text="never"))], {0: row}, by="test", why="")
        assert everything(store) == []
        memory = store.apply([Add(Fact(text="waits"))], {}, by="test", why="").changes[0].memory
        with pytest.raises(InvalidInput, match="finite"):
            store.put_vectors({memory.id: row})
        assert add(store, "works").id
        assert store.nearest(vector("works"), 1, Scope())

    def test_add_unless_known_records_an_occurrence(self, store: Store) -> None:
        first = add(store, "We use  tabs", agent="a", session="s1")
        repeated = Add(Fact(text="we use tabs", agent="a", session="s2"), unless_known=True)
        change = apply(store, repeated).changes[0]
        assert (change.action, change.memory_id) == ("noop", first.id)
        assert store.get([first.id])[0].occurrences == 2

    def test_identical_text_in_other_scope_is_another_memory(self, store: Store) -> None:
        add(store, "We use tabs", source="cc/one", agent="a")
        other = [
            {"source": "cc/two", "agent": "a"},
            {"source": "cc/one", "agent": "b"},
            {"source": "cc/one", "agent": "a", "visibility": "team"},
        ]
        for place in other:
            change = apply(store, Add(Fact(text="We use tabs", **place), unless_known=True)).changes[0]
            assert change.action == "add"

    def test_repeats_in_one_batch_are_counted_as_occurrences(self, store: Store) -> None:
        repeated = (Occurrence("a", "s1"), Occurrence("b", "s2"))
        changes = apply(store, Add(Fact(text="said three times"), again=repeated)).changes
        assert [change.action for change in changes] == ["add", "noop", "noop"]
        assert store.get([changes[0].memory_id])[0].occurrences == 3

    # ── changing ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_edit_changes_only_given_fields_and_updated_at(self, store: Store) -> None:
        memory = add(store, "port is 8080", source="cc/p", tags=("net",))
        after = apply(store, Edit(memory.id, {"text": "port is 9090", "pinned": True})).changes[0].memory
        assert after == replace(memory, text="port is 9090", pinned=True, updated_at=after.updated_at)
        assert after.updated_at > memory.updated_at
        assert store.get([memory.id]) == [after]

    def test_edited_text_is_found_by_new_words_only(self, store: Store) -> None:
        memory = add(store, "the queue is rabbitmq")
        apply(store, Edit(memory.id, {"text": "the queue is kafka"}))
        assert [c.id for c in store.matching(["kafka"], 5, Scope()).candidates] == [memory.id]
        assert store.matching(["rabbitmq"], 5, Scope()).candidates == ()
        assert store.nearest(vector("the queue is kafka"), 1, Scope())[0].score == pytest.approx(1.0, abs=1e-5)

    def test_edit_of_protected_or_invalid_field_is_rejected(self, store: Store) -> None:
        memory = add(store, "something")
        for field, value in (
            ("id", 5),
            ("created_at", "2020-01-01"),
            ("text", ""),
            ("kind", "nonsense"),
            ("pinned", 1),
        ):
            with pytest.raises(InvalidInput):
                store.apply([Edit(memory.id, {field: value})], {}, by="test", why="")
        assert store.get([memory.id]) == [memory]

    def test_superseded_memory_is_archived_and_linked_both_ways(self, store: Store) -> None:
        old = add(store, "uses Prisma")
        written, archived = apply(store, Update(old.id, Fact(text="uses Drizzle"), "switched")).changes
        new = written.memory
        assert (new.supersedes, new.previous_text) == (old.id, "uses Prisma")
        assert store.get([old.id])[0].superseded_by == new.id
        assert archived.memory.archived
        assert store.stats()["memories"] == 1
        with pytest.raises(Conflict, match="archived"):
            apply(store, Update(old.id, Fact(text="uses Kysely")))

    def test_changed_text_keeps_the_least_trusted_provenance_until_undone(self, store: Store) -> None:
        pasted, typed, known = (add(store, f"uses {name}", provenance=name) for name in ("pasted", "user", "import"))
        new = apply(store, Update(pasted.id, Fact(text="uses Drizzle", provenance="assistant"))).changes[0].memory
        assert new.provenance == "pasted"
        typed_anew = apply(store, Update(new.id, Fact(text="uses Postgres", provenance="user"))).changes[0].memory
        assert typed_anew.provenance == "user"
        edit = apply(store, Edit(typed.id, {"text": "uses Kysely"}, provenance="assistant"))
        assert edit.changes[0].memory.provenance == "assistant"
        retagged = apply(store, Edit(known.id, {"tags": ["db"]}, provenance="pasted")).changes[0].memory
        assert retagged.provenance == "import"
        merged = apply(store, Merge((typed.id, known.id), Fact(text="uses both", provenance="user"))).changes[0]
        assert merged.memory.provenance == "assistant"
        undo(store, merged.changeset)
        undo(store, edit.id)
        assert store.get([typed.id])[0].provenance == "user"

    def test_deleted_memory_is_kept_but_not_found(self, store: Store) -> None:
        memory = add(store, "secret handshake")
        apply(store, Delete(memory.id, "asked to"))
        assert store.get([memory.id])[0].archived
        assert store.nearest(vector("secret handshake"), 5, Scope()) == []
        assert store.matching(["handshake"], 5, Scope()).candidates == ()
        assert [c.id for c in store.nearest(vector("secret handshake"), 5, EVERYTHING)] == [memory.id]
        assert [c.id for c in store.matching(["handshake"], 5, EVERYTHING).candidates] == [memory.id]
        with pytest.raises(Conflict, match="archived"):
            apply(store, Delete(memory.id))

    def test_restored_memory_is_found_again(self, store: Store) -> None:
        memory = add(store, "secret handshake")
        apply(store, Delete(memory.id))
        apply(store, Restore(memory.id))
        assert [c.id for c in store.nearest(vector("secret handshake"), 5, Scope())] == [memory.id]
        with pytest.raises(Conflict, match="not archived"):
            apply(store, Restore(memory.id))

    def test_delete_into_moves_occurrences_to_the_target(self, store: Store) -> None:
        target, duplicate = add(store, "we use tabs"), add(store, "we do use tabs")
        apply(store, Noop(duplicate.id))
        apply(store, Delete(duplicate.id, into=target.id))
        assert store.get([target.id])[0].occurrences == 3
        assert store.get([duplicate.id])[0].superseded_by == target.id
        with pytest.raises(InvalidInput, match="itself"):
            apply(store, Delete(target.id, into=target.id))

    def test_merged_memory_stays_in_history_and_merge_can_be_undone(self, store: Store) -> None:
        target, duplicate = add(store, "we use tabs", agent="a"), add(store, "we do use tabs", agent="b")
        apply(store, Noop(duplicate.id, Occurrence("c", "s", "2027-01-01")))
        apply(store, Delete(duplicate.id, into=target.id))
        assert {change.memory_id for change in store.history(target.id)} == {target.id, duplicate.id}
        assert [seen.agent for seen in store.occurrences(target.id)] == ["a", "b", "c"]
        apply(store, Restore(duplicate.id))
        assert (store.get([target.id])[0].occurrences, store.get([duplicate.id])[0].occurrences) == (1, 2)
        assert [seen.agent for seen in store.occurrences(target.id)] == ["a"]

    def test_update_keeps_pin_but_not_occurrences(self, store: Store) -> None:
        old = add(store, "uses Prisma", agent="a")
        apply(store, Edit(old.id, {"pinned": True}), Noop(old.id, Occurrence("b")))
        new = apply(store, Update(old.id, Fact(text="uses Drizzle", agent="c"))).changes[0].memory
        assert new.pinned
        assert [seen.agent for seen in store.occurrences(new.id)] == ["c"]

    def test_repeated_statements_are_counted_per_agent(self, store: Store) -> None:
        review = add(store, "Should add a null check", agent="agent-1", visibility="team", kind="policy")
        for agent in ("agent-1", "agent-2", "agent-1", ""):
            apply(store, Noop(review.id, Occurrence(agent, "s")))
        for _ in range(2):
            add(store, "Use early returns", agent="agent-2", visibility="team")
        add(store, "Only mine", agent="agent-1")
        team = Scope(visibility=("team",))
        assert [item[::2] for item in store.repeated(2, 20, team)] == [("agent-1", 3), ("agent-2", 2)]
        assert store.repeated(2, 20, team)[0][1] == review.id
        assert store.repeated(2, 1, team) == [("agent-1", review.id, 3)]
        assert store.repeated(4, 20, team) == []
        assert store.repeated(2, 20, Scope(visibility=("team",), kind="policy")) == [("agent-1", review.id, 3)]

    def test_noop_changes_only_the_occurrence_count(self, store: Store) -> None:
        memory = add(store, "we use tabs")
        apply(store, Noop(memory.id, Occurrence("agent-2", "s9", "2026-03-01T00:00:00Z")))
        assert store.get([memory.id]) == [replace(memory, occurrences=2)]

    def test_purged_memory_is_removed_everywhere(self, store: Store) -> None:
        memory = add(store, "hunter2 is the password")
        edited = apply(store, Edit(memory.id, {"text": "hunter3 is the password"}))
        new = apply(store, Update(memory.id, Fact(text="the password is in the vault"))).changes[0].memory
        apply(store, Edit(new.id, {"tags": ["vault"]}))
        apply(store, Purge(memory.id, "a secret"))
        assert store.get([memory.id]) == []
        assert store.matching(["hunter2", "hunter3"], 5, EVERYTHING).candidates == ()
        left = [*store.history(memory.id), *store.history(new.id), *store.changeset(edited.id).changes]
        assert not any("hunter" in repr(change) for change in left)
        assert "hunter" not in repr(everything(store))

    def test_purge_cannot_be_undone(self, store: Store) -> None:
        memory = add(store, "gone")
        purged = apply(store, Purge(memory.id))
        with pytest.raises(Conflict, match="purged"):
            undo(store, purged.id)

    # ── history ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_changeset_records_author_reason_before_and_after(self, store: Store) -> None:
        memory = add(store, "port is 8080")
        result = apply(store, Edit(memory.id, {"text": "port is 9090"}, "moved"), by="ada", why="new proxy")
        for told in (result, store.changeset(result.id)):
            assert (told.by, told.why, told.undoes) == ("ada", "new proxy", None)
            (change,) = told.changes
            assert change.before is not None
            assert change.after is not None
            assert (change.before.text, change.after.text) == ("port is 8080", "port is 9090")
            assert (change.action, change.reason, change.by, change.at) == ("edit", "moved", "ada", result.at)

    def test_history_follows_superseding_memories_both_ways(self, store: Store) -> None:
        first = add(store, "uses Prisma")
        second = apply(store, Update(first.id, Fact(text="uses Drizzle"))).changes[0].memory
        third = apply(store, Update(second.id, Fact(text="uses Kysely"))).changes[0].memory
        add(store, "something else")
        for memory in (first, second, third):
            changes = store.history(memory.id)
            assert [(c.action, c.memory_id) for c in changes] == [
                ("add", first.id),
                ("update", second.id),
                ("delete", first.id),
                ("update", third.id),
                ("delete", second.id),
            ]

    def test_undo_restores_the_previous_state_exactly(self, store: Store) -> None:
        memory = add(store, "port is 8080", tags=("net",))
        steps: list[Decision] = [
            Edit(memory.id, {"text": "port is 9090", "pinned": True}),
            Delete(memory.id),
            Update(memory.id, Fact(text="port is 7070")),
            Noop(memory.id),
        ]
        for decision in steps:
            result = apply(store, decision)
            new_undo = undo(store, result.id)
            assert new_undo.undoes == result.id
            assert everything(store) == [memory], decision
            assert store.nearest(vector("port is 8080"), 1, Scope())[0].score == pytest.approx(1.0, abs=1e-5)
            assert [c.id for c in store.matching(["8080"], 5, EVERYTHING).candidates] == [memory.id]
            assert store.matching(["9090", "7070"], 5, EVERYTHING).candidates == ()
            assert store.changeset(result.id).undone_by == new_undo.id

    def test_undo_can_be_undone(self, store: Store) -> None:
        result = apply(store, Add(Fact(text="we use tabs")), Add(Fact(text="and semicolons"), again=(Occurrence("b"),)))
        before = everything(store)
        new_undo = undo(store, result.id)
        assert everything(store) == []
        undo(store, new_undo.id)
        assert everything(store) == before
        assert store.nearest(vector("we use tabs"), 1, Scope())[0].score == pytest.approx(1.0, abs=1e-5)

    def test_changeset_can_be_undone_only_once(self, store: Store) -> None:
        result = apply(store, Add(Fact(text="we use tabs")))
        undo(store, result.id)
        with pytest.raises(Conflict, match="undone already"):
            store.apply([Revert(result.changes[0].id)], {}, by="test", why="again", undoes=result.id)

    def test_undo_after_later_change_raises_conflict_that_names_it(self, store: Store) -> None:
        memory = add(store, "port is 8080")
        first = apply(store, Edit(memory.id, {"text": "port is 9090"}))
        second = apply(store, Edit(memory.id, {"text": "port is 7070"}))
        with pytest.raises(Conflict, match=rf"changeset {second.id} first"):
            undo(store, first.id)
        assert store.get([memory.id])[0].text == "port is 7070"
        undo(store, second.id)
        undo(store, first.id)
        assert everything(store) == [memory]

    def test_undo_skips_purged_memories(self, store: Store) -> None:
        result = apply(store, Add(Fact(text="to be purged")), Add(Fact(text="to be undone")))
        apply(store, Purge(result.changes[0].memory_id))
        undo(store, result.id)
        assert everything(store) == []

    def test_changesets_are_listed_newest_first(self, store: Store) -> None:
        for text in ("one", "two", "three"):
            apply(store, Add(Fact(text=text)), why=text)
        assert [done.why for done in store.changesets(2)] == ["three", "two"]

    # ── finding ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_nearest_returns_exact_cosines_best_first(self, store: Store) -> None:
        texts = ["red green blue", "red green", "red", "cat dog"]
        ids = {text: add(store, text).id for text in texts}
        query = vector("red green blue")
        results = store.nearest(query, 4, Scope())
        expected = sorted(((float(vector(t) @ query), ids[t]) for t in texts), reverse=True)
        assert [c.id for c in results] == [number for _, number in expected]
        assert [c.score for c in results] == pytest.approx([cosine for cosine, _ in expected], abs=1e-5)

    def test_nearest_also_scores_requested_ids(self, store: Store) -> None:
        near, far = add(store, "red green blue"), add(store, "cat dog")
        results = store.nearest(vector("red green blue"), 1, Scope(), also=[far.id, near.id, 999])
        assert [c.id for c in results] == [near.id, far.id]
        assert results[1].score == pytest.approx(float(vector("cat dog") @ vector("red green blue")), abs=1e-5)

    def test_keyword_search_stems_ignores_case_and_weights_rare_words(self, store: Store) -> None:
        for index in range(8):
            add(store, f"the service deploys number {index}")
        rare = add(store, "the service deploys to Frankfurt")
        results = store.matching(["deployed", "FRANKFURT"], 20, Scope())
        assert results.candidates[0].id == rare.id
        assert len(results.candidates) == 9
        assert results.candidates[0].score > results.candidates[1].score
        assert results.ideal > 0

    def test_keyword_scores_are_positive_in_tiny_stores(self, store: Store) -> None:
        only = add(store, "we deploy on friday")
        for _ in range(2):
            results = store.matching(["friday"], 5, Scope())
            assert results.candidates[0].id == only.id
            assert results.candidates[0].score > 0.3 * results.ideal > 0.03
            add(store, "cats sleep all day")

    def test_keyword_search_covers_context_speaker_entities_tags_and_source(self, store: Store) -> None:
        memory = add(
            store, "yes, let us do that", context="shall we adopt ruff?", speaker="Caroline",
            entities=("Kubernetes",), tags=("tooling",), source="codex/finwatch",
        )  # fmt: skip
        add(store, "nothing to see")
        for word in ("ruff", "caroline", "kubernetes", "tooling", "finwatch"):
            assert [c.id for c in store.matching([word], 5, Scope()).candidates] == [memory.id], word
        assert store.has_speakers()
        assert store.said([memory.id, 999]) == {memory.id: ("Caroline", memory.created_at)}
        assert store.holding(["ruff", "caroline", "absent"], [memory.id]) == {memory.id: ["ruff", "caroline"]}

    @pytest.mark.parametrize(
        "word",
        ['"', "a AND b", "x*", "(", ")", "NEAR(a b)", "-", "a-b", "c:a", "^a", "'", "''", "%", "\\", "🌊", "ﬁ", "a\nb"],
    )
    def test_query_words_are_never_operators(self, store: Store, word: str) -> None:
        add(store, "plain text")
        store.matching([word], 5, Scope())

    def test_known_ignores_case_and_whitespace(self, store: Store) -> None:
        memory = add(store, "We  use\tTabs")
        assert store.known("we use tabs", Scope()) == [memory.id]
        assert store.known("we use spaces", Scope()) == []
        apply(store, Delete(memory.id))
        assert store.known("we use tabs", Scope()) == []

    def test_pairs_returns_pairs_at_or_above_the_threshold(self, store: Store) -> None:
        first, second = add(store, "red green blue"), add(store, "blue green red")
        add(store, "cat dog")
        ((low, high, cosine),) = store.pairs(0.9, Scope())
        assert (low, high) == (first.id, second.id)
        assert cosine == pytest.approx(1.0, abs=1e-5)
        assert list(store.pairs(0.9, Scope(tags=("none",)))) == []

    def test_neighbours_returns_nearest_among_requested_ids(self, store: Store) -> None:
        texts = (
            "we deploy with make",
            "deploy with make",
            "deploy with make now",
            "the cat sleeps",
            "with make we deploy",
        )
        one, two, three, cat, other = (add(store, text) for text in texts)
        requests = [one.id, two.id, three.id, cat.id]
        results = dict(store.neighbours(requests, 0.5, 2))
        assert results.keys() == {one.id, two.id, three.id}  # nothing is similar to the cat sentence
        assert {item.id for item in results[two.id]} == {one.id, three.id}
        for near in results.values():
            assert [hit.score for hit in near] == sorted((hit.score for hit in near), reverse=True)
            assert near[-1].score >= 0.5
        assert [len(near) for _, near in store.neighbours(requests, 0.5, 1)] == [1, 1, 1]
        ((nearest, cosine), *_) = dict(store.neighbours([one.id, other.id], 0.9, 5))[one.id]
        assert nearest == other.id
        assert cosine == pytest.approx(1.0, abs=1e-5)  # same words
        apply(store, Delete(three.id))
        assert [item.id for item in dict(store.neighbours(requests, 0.5, 5))[two.id]] == [one.id]
        assert list(store.neighbours([], 0.5, 5)) == list(store.neighbours([one.id, 99], 0.5, 5)) == []

    def test_every_scope_field_filters_every_search_method(self, store: Store) -> None:
        about: dict[str, Any] = {
            "source": "cc/app/api", "kind": "policy", "method": "llm", "tags": ("a", "b"), "session": "s1",
            "agent": "agent-1", "visibility": "team", "created_at": "2026-05-05T00:00:00Z", "project": "/srv/app",
        }  # fmt: skip
        inside = add(store, "red green blue", **about)
        other = {
            "source": "cc/application", "kind": "other", "method": "manual", "tags": ("a",), "session": "s2",
            "agent": "agent-2", "visibility": "private", "created_at": "2025-01-01T00:00:00Z", "project": "/srv/app2",
        }  # fmt: skip
        add(store, "red green blue", **other)
        apply(store, Edit(inside.id, {"pinned": True}))
        scopes = [
            Scope(source="cc/app/api"), Scope(source_prefix="cc/app"), Scope(source_prefix="cc/app/"),
            Scope(category="decision"), Scope(kind="policy"), Scope(method="llm"), Scope(tags=("a", "b")),
            Scope(session="s1"), Scope(agent="agent-1"), Scope(visibility=("team", "global")),
            Scope(project="/srv/app"), Scope(visible_in="/srv/app"),
            Scope(since="2026-01-01"), Scope(since="2026-05-05", until="2026-05-06"), Scope(pinned=True),
        ]  # fmt: skip
        for scope in scopes:
            assert [c.id for c in store.nearest(vector("red green"), 5, scope)] == [inside.id], scope
            assert [c.id for c in store.matching(["red"], 5, scope).candidates] == [inside.id], scope
            assert store.known("red green blue", scope) == [inside.id], scope
            assert [m.id for m in store.page(scope, limit=5)[0]] == [inside.id], scope
            assert store.page(scope, limit=5)[1] == 1, scope

    def test_source_prefix_matches_whole_path_segments(self, store: Store) -> None:
        for source in ("cc/app", "cc/app/web", "cc/application", "cc/app-2", "cc"):
            add(store, f"in {source}", source=source)
        found, total = store.page(Scope(source_prefix="cc/app"), limit=10)
        assert {m.source for m in found} == {"cc/app", "cc/app/web"}
        assert total == 2

    def test_nearest_returns_k_results_in_a_small_scope(self, store: Store) -> None:
        for index in range(300):
            add(store, f"red green blue {index}", source="crowd")
        for index in range(3):
            add(store, f"red yellow {index}", source="rare")
        assert len(store.nearest(vector("red green blue"), 3, Scope(source="rare"))) == 3
        assert len(store.matching(["red", "green"], 3, Scope(source="rare")).candidates) == 3

    def test_newest_equals_the_first_page(self, store: Store) -> None:
        stored = [add(store, f"fact {index}", kind="policy" if index % 2 else "other") for index in range(7)]
        store.apply([Delete(stored[-2].id), Edit(stored[1].id, {"pinned": True})], {}, by="t", why="w")
        for scope in (Scope(), Scope(kind="policy"), Scope(pinned=True), Scope(pinned=False), Scope(project="none")):
            assert store.newest(scope, 3) == store.page(scope, limit=3)[0], scope
        assert [memory.id for memory in store.newest(Scope(pinned=True), 3)] == [stored[1].id]

    def test_latest_sorts_by_created_at(self, store: Store) -> None:
        days = ("2026-03-02", "2026-03-01", "2026-03-03", "2026-03-02")
        first, old, new, second = (add(store, f"said on {day}", source="a", created_at=day) for day in days)
        add(store, "elsewhere", source="b", created_at="2026-03-04")
        apply(store, Delete(add(store, "archived", source="a", created_at="2026-03-05").id))
        results = [memory.id for memory in store.latest(Scope(source="a"), 10)]
        assert results == [new.id, second.id, first.id, old.id]
        assert [memory.id for memory in store.latest(Scope(source="a"), 2)] == results[:2]

    def test_projects_are_sorted_by_name_with_memory_counts(self, store: Store) -> None:
        for project in ("/b/web", "", "/b/Web", "äpfel", "/b/web", "/a"):
            add(store, f"of {project or 'none'}", project=project)
        apply(store, Delete(add(store, "archived", project="/c").id))
        everything = [("/a", 1), ("/b/Web", 1), ("/b/web", 2), ("äpfel", 1)]
        assert store.projects(Scope(), 10) == everything
        assert store.projects(Scope(), 2) == everything[:2]
        assert store.projects(Scope(), 10, "/b/Web") == everything[2:]
        assert store.projects(Scope(source="nowhere"), 10) == []

    def test_pages_cover_all_memories_once(self, store: Store) -> None:
        ids = [add(store, f"memory {index}").id for index in range(7)]
        observed: list[int] = []
        after = None
        while page := store.page(Scope(), limit=3, after=after)[0]:
            observed += [memory.id for memory in page]
            after = observed[-1]
        assert observed == ids[::-1]

    def test_page_skip_offsets_the_result(self, store: Store) -> None:
        ids = [add(store, f"memory {index}", kind="policy" if index % 2 else "other").id for index in range(9)][::-1]
        for skip, after, scope in ((0, None, Scope()), (4, None, Scope()), (2, ids[3], Scope()), (9, None, Scope())):
            found, total = store.page(scope, limit=3, after=after, skip=skip)
            below = [memory_id for memory_id in ids if after is None or memory_id < after]
            assert ([memory.id for memory in found], total) == (below[skip : skip + 3], 9)
        found, total = store.page(Scope(kind="policy"), limit=3, skip=2)
        assert ([memory.id for memory in found], total) == ([ids[5], ids[7]], 4)

    # ── derived data ──────────────────────────────────────────────────────────────────────────────────────────────────

    def test_retrievals_update_counts_independent_of_undo(self, store: Store) -> None:
        memory = add(store, "we use tabs")
        result = apply(store, Edit(memory.id, {"pinned": True}))
        store.note(
            [
                Retrieval(memory.id, "q", "ada", "2026-01-02T00:00:00"),
                Retrieval(memory.id, "r", "", "2026-01-01T00:00:00"),
            ]
        )
        counted = store.get([memory.id])[0]
        assert (counted.retrieval_count, counted.last_retrieved_at) == (2, "2026-01-02T00:00:00")
        store.note([Retrieval(999, "of what is not there", "", "2026-01-01T00:00:00")])
        assert store.stats()["retrievals"] == 2
        undo(store, result.id)
        assert store.get([memory.id])[0].pinned is False

    def test_store_is_bound_to_its_embedder_signature(self, store: Store) -> None:
        store.set_signature("one:384")
        add(store, "we use tabs")
        store.set_signature("one:384")
        with pytest.raises(EmbedderMismatch, match="cofio reembed"):
            store.set_signature("two:256")
        store.set_signature("two:256", reset=True)
        assert store.nearest(vector("we use tabs"), 5, Scope()) == []
        assert [m.text for m in store.unembedded(10)] == ["we use tabs"]

    def test_missing_vectors_are_added_later(self, store: Store) -> None:
        memory = store.apply([Add(Fact(text="we use tabs"))], {}, by="test", why="").changes[0].memory
        assert store.unembedded(10) == [memory]
        assert [c.id for c in store.matching(["tabs"], 5, Scope()).candidates] == [memory.id]
        store.put_vectors({memory.id: vector("we use tabs"), 999: vector("never was")})
        store.put_vectors({memory.id: vector("too late")})  # ignored: the memory already has a vector
        assert store.unembedded(10) == []
        assert store.nearest(vector("we use tabs"), 1, Scope())[0].score == pytest.approx(1.0, abs=1e-5)
        assert [c.id for c in store.nearest(vector("we use tabs"), 5, Scope())] == [memory.id]

    @pytest.mark.parametrize("dimension", [256, 1536, 3072])
    def test_vector_dimensions_256_to_3072_are_supported(self, store: Store, dimension: int) -> None:
        rng = np.random.default_rng(dimension)
        rows = rng.standard_normal((20, dimension)).astype(np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        for place, row in enumerate(rows):
            store.apply([Add(Fact(text=f"memory {place}"))], {0: row}, by="test", why="")
        for place, row in enumerate(rows):
            assert store.get([store.nearest(row, 1, Scope())[0].id])[0].text == f"memory {place}"

    def test_stats_return_counts(self, store: Store) -> None:
        one = add(store, "one", source="cc/a", kind="policy")
        add(store, "two", source="cc/b")
        apply(store, Delete(one.id))
        stats = store.stats()
        assert (stats["memories"], stats["archived"], stats["vectors"], stats["changesets"]) == (1, 1, 2, 3)
        assert stats["by_source"] == {"cc/b": 1}
        assert stats["by_category"] == {"detail": 1}

    def test_closed_store_raises_store_error(self, store: Store) -> None:
        add(store, "something")
        store.close()
        with pytest.raises(StoreError, match="closed"):
            store.get([1])
        with pytest.raises(StoreError, match="closed"):
            add(store, "too late")
