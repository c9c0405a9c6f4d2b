"""Generated edits of memories change one aspect, are deterministic, and skip memories without that aspect."""

from __future__ import annotations

from evals.edits import make_edits

MEMORIES = (
    "Crate W4 stands on shelf 12.",
    "Reports go to billing-service only.",
    "The retry limit is 5.",
    "Reviews are done by Sofia on Fridays.",
)


def test_each_kind_of_edit_changes_its_aspect() -> None:
    edits = make_edits(MEMORIES)
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


def test_edits_are_deterministic() -> None:
    assert make_edits(MEMORIES) == make_edits(reversed(MEMORIES))
