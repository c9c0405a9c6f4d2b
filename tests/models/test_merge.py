"""Rules for merging memories."""

from __future__ import annotations

from cofio.models.memory import MAX_LABELS, Fact, Memory
from cofio.models.merge import absorb, inherit_tags, join_labels, merge_fact, quality_key

ONE = Memory(
    id=1,
    text="We use pnpm",
    source="chat/a",
    tags=("a", "b"),
    occurrences=2,
    created_at="2026-01-01",
    updated_at="2026-01-01",
)
TWO = Memory(
    id=2,
    text="pnpm is used",
    source="chat/b",
    tags=("b", "c"),
    occurrences=3,
    created_at="2026-01-02",
    updated_at="2026-01-02",
)


def test_labels_are_joined_in_order_and_limited() -> None:
    assert join_labels(("b", "a"), ("a", "c")) == ("b", "a", "c")
    assert len(join_labels([str(number) for number in range(MAX_LABELS + 1)])) == MAX_LABELS


def test_successor_has_the_occurrences_and_tags_of_the_others() -> None:
    successor = absorb(ONE, [TWO])
    assert (successor.id, successor.occurrences, successor.tags) == (1, 5, ("a", "b", "c"))


def test_replacement_inherits_tags() -> None:
    assert inherit_tags(Fact(text="We use npm", tags=("d",)), ONE).tags == ("d", "a", "b")


def test_merged_fact_has_the_labels_and_the_common_source_of_its_members() -> None:
    fact = merge_fact("We use pnpm everywhere", [ONE, TWO])
    assert (fact.source, fact.tags, fact.created_at[:10]) == ("chat", ("a", "b", "c"), "2026-01-02")
    assert fact.metadata["consolidated_from"] == [1, 2]


def test_best_duplicate_is_the_one_that_is_used_most() -> None:
    assert max((ONE, TWO), key=quality_key) == TWO
