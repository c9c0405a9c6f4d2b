"""Which part is which: what moved, what was renamed, what is a copy. Without a store, and without a file."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cofio.models.notes import FiledPart, FileState, Stamp
from cofio.notes import sync
from cofio.notes.obsidian import Note
from cofio.notes.sections import Section
from cofio.notes.sync import FilePage, MatchedSections

STAMP = Stamp(1, 1)


def page(path: str, *parts: tuple[str, str], note: Note | None = None) -> FilePage:
    return FilePage(path, STAMP, "new", tuple(Section(heading=heading, text=text) for heading, text in parts), note)


def filed(path: str, *parts: tuple[int, str, str]) -> dict[str, FileState]:
    """A file as it was read: memory, heading, text."""
    said = ((memory, Section(heading=heading, text=text)) for memory, heading, text in parts)
    kept = tuple(FiledPart(memory, part.heading_digest, part.text_digest, "") for memory, part in said)
    return {path: FileState(path=path, hash="old", size=1, modified=1, parts=kept)}


def memories(found: MatchedSections, path: str) -> list[int | None]:
    return [pair.old.memory if pair.old else None for pair in found.pairs[path]]


def left(found: MatchedSections) -> list[int]:
    return sorted(each.old.memory for each in found.left)


def test_the_same_words_win_over_the_same_heading() -> None:
    old = filed("a", (1, "A", "x"), (2, "B", "y"))
    found = sync.match_sections([page("a", ("A", "y"), ("B", "x"))], old, [])
    assert (memories(found, "a"), left(found)) == ([2, 1], [])


def test_the_same_heading_is_the_same_memory_where_words_are_new() -> None:
    old = filed("a", (1, "A", "x"), (2, "A", "y"), (3, "B", "z"))
    found = sync.match_sections([page("a", ("A", "x"), ("A", "new"), ("C", "other"))], old, [])
    assert (memories(found, "a"), left(found)) == ([1, 2, None], [3])


def test_pieces_of_a_long_section_are_told_by_their_order() -> None:
    old = filed("a", (1, "A", "one"), (2, "A", "two"), (3, "A", "three"))
    found = sync.match_sections([page("a", ("A", "zero"), ("A", "two"), ("A", "three!"))], old, [])
    assert (memories(found, "a"), left(found)) == ([1, 2, 3], [])


def test_words_that_went_to_another_file_are_found_there_before_the_heading_is_taken_for_edited() -> None:
    old = filed("a", (1, "A", "x")) | filed("b", (2, "B", "y"))
    found = sync.match_sections([page("a", ("A", "new")), page("b", ("B", "y"), ("A", "x"))], old, [])
    assert (memories(found, "a"), memories(found, "b"), left(found)) == ([None], [2, 1], [])
    assert [pair.moved for pair in found.pairs["b"]] == [False, True]


def test_a_renamed_file_takes_its_edited_sections_along() -> None:
    old = filed("a", (1, "A", "x"), (2, "B", "y"), (3, "C", "z"))
    found = sync.match_sections([page("b", ("A", "x"), ("B", "new"))], old, ["a"])
    assert (memories(found, "b"), left(found)) == ([1, 2], [3])
    assert all(pair.moved for pair in found.pairs["b"])


def test_a_file_that_is_still_there_gives_nothing_away() -> None:
    found = sync.match_sections([page("copy", ("A", "x"))], filed("a", (1, "A", "x")), [])
    assert (memories(found, "copy"), left(found)) == ([None], [])


def exported(path: str, memory: int) -> dict[str, FileState]:
    part = FiledPart(memory, "", "says", "about", exported=True)
    return {path: FileState(path=path, hash="old", size=1, modified=1, parts=(part,))}


def test_a_note_belongs_to_the_file_that_had_it_or_else_to_the_first() -> None:
    pages = [page(path, ("", "x"), note=Note(7, "x")) for path in ("a", "b", "c")]
    found = sync.match_sections(pages, exported("b", 7), [])
    assert [isinstance(found.pairs[path][0].content, Note) for path in "abc"] == [False, True, False]
    found = sync.match_sections(pages, exported("gone", 7), ["gone"])
    assert [isinstance(found.pairs[path][0].content, Note) for path in "abc"] == [True, False, False]
    assert (memories(found, "a"), left(found)) == ([7], [])
    found = sync.match_sections(pages, exported("unread", 7), [])
    assert not any(isinstance(found.pairs[path][0].content, Note) for path in "abc")


TEXT = st.sampled_from(["one", "two", "three", "four"])
PARTS = st.lists(st.tuples(st.sampled_from("AB"), TEXT), max_size=4)


@given(st.dictionaries(st.sampled_from("abc"), PARTS), st.dictionaries(st.sampled_from("abc"), PARTS))
def test_nothing_is_matched_twice_and_nothing_is_lost(
    before: dict[str, list[tuple[str, str]]], after: dict[str, list[tuple[str, str]]]
) -> None:
    number, old = 0, dict[str, FileState]()
    for path, parts in before.items():
        old |= filed(path, *((number + place, heading, text) for place, (heading, text) in enumerate(parts, 1)))
        number += len(parts)
    found = sync.match_sections(
        [page(path, *parts) for path, parts in after.items()], old, [path for path in before if path not in after]
    )
    paired = [memory for path in found.pairs for memory in memories(found, path) if memory is not None]
    assert sorted([*paired, *left(found)]) == list(range(1, number + 1))
    words = {each: text for path in before for each, text in _numbered(before)}
    for path, pairs in found.pairs.items():
        assert len(pairs) == len(after[path])
    lost = {words[each] for each in left(found)}
    new = {pair.content.text for pairs in found.pairs.values() for pair in pairs if pair.old is None}
    assert not lost & new  # what is gone and what came are never the same words


def _numbered(pages: dict[str, list[tuple[str, str]]]) -> list[tuple[int, str]]:
    return list(enumerate((text for parts in pages.values() for _, text in parts), 1))
