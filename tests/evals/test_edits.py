"""Edits of memories change one thing, are the same in every run, and are made only where there is something to edit."""

from __future__ import annotations

from evals.edits import edited

MEMORIES = (
    "Crate W4 stands on shelf 12.",
    "Reports go to billing-service only.",
    "The retry limit is 5.",
    "Reviews are done by Sofia on Fridays.",
)


def test_each_kind_of_edit_changes_what_it_names() -> None:
    edits = edited(MEMORIES)
    assert set(edits) == {"number", "identifier", "name", "negation", "row"}
    assert {memory for memory, _ in edits["number"]} == {MEMORIES[0], MEMORIES[2]}
    assert [memory for memory, _ in edits["identifier"]] == [MEMORIES[1]]
    assert [memory for memory, _ in edits["name"]] == [MEMORIES[3]]
    assert (MEMORIES[2], "The retry limit is not 5.") in edits["negation"]
    [(memory, row)] = edits["row"]
    assert memory == MEMORIES[0]
    assert row.split()[1] != "W4"
    assert row.split()[-1] != "12."
    assert all(memory != statement for pairs in edits.values() for memory, statement in pairs)


def test_edits_are_the_same_in_every_run() -> None:
    assert edited(MEMORIES) == edited(reversed(MEMORIES))
