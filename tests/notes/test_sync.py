"""Matching sections with memories: moved, renamed and copied ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cofio.markdown_notes import sync
from cofio.markdown_notes.obsidian import Note
from cofio.markdown_notes.sections import Section
from cofio.markdown_notes.sync import FilePage, MatchedSections
from cofio.models.markdown_notes import FiledPart, FileState, Stamp

STAMP = Stamp(1, 1)


def page(path: str, *parts: tuple[str, str], note: Note | None = None) -> FilePage:
    return FilePage(path, STAMP, "new", tuple(Section(heading=heading, text=text) for heading, text in parts), note)


def file_states(path: str, *parts: tuple[int, str, str]) -> dict[str, FileState]:
    """Return the state of an indexed file with its parts (memory, heading, text)."""
    texts = ((memory, Section(heading=heading, text=text)) for memory, heading, text in parts)
    stored = tuple(FiledPart(memory, part.heading_digest, part.text_digest, "") for memory, part in texts)
    return {path: FileState(path=path, hash="old", size=1, modified=1, parts=stored)}


def memories(found: MatchedSections, path: str) -> list[int | None]:
    return [pair.old.memory if pair.old else None for pair in found.pairs[path]]


def unmatched_ids(found: MatchedSections) -> list[int]:
    return sorted(item.old.memory for item in found.left)


def test_equal_text_takes_precedence_over_equal_heading() -> None:
    old = file_states("a", (1, "A", "x"), (2, "B", "y"))
    results = sync.match_sections([page("a", ("A", "y"), ("B", "x"))], old, [])
    assert (memories(results, "a"), unmatched_ids(results)) == ([2, 1], [])


def test_equal_heading_with_new_text_is_the_same_memory() -> None:
    old = file_states("a", (1, "A", "x"), (2, "A", "y"), (3, "B", "z"))
    results = sync.match_sections([page("a", ("A", "x"), ("A", "new"), ("C", "other"))], old, [])
    assert (memories(results, "a"), unmatched_ids(results)) == ([1, 2, None], [3])


def test_pieces_of_a_long_section_are_matched_by_order() -> None:
    old = file_states("a", (1, "A", "one"), (2, "A", "two"), (3, "A", "three"))
    results = sync.match_sections([page("a", ("A", "zero"), ("A", "two"), ("A", "three!"))], old, [])
    assert (memories(results, "a"), unmatched_ids(results)) == ([1, 2, 3], [])


def test_text_moved_to_another_file_is_matched_before_headings() -> None:
    old = file_states("a", (1, "A", "x")) | file_states("b", (2, "B", "y"))
    results = sync.match_sections([page("a", ("A", "new")), page("b", ("B", "y"), ("A", "x"))], old, [])
    assert (memories(results, "a"), memories(results, "b"), unmatched_ids(results)) == ([None], [2, 1], [])
    assert [pair.moved for pair in results.pairs["b"]] == [False, True]


def test_renamed_file_keeps_edited_sections() -> None:
    old = file_states("a", (1, "A", "x"), (2, "B", "y"), (3, "C", "z"))
    results = sync.match_sections([page("b", ("A", "x"), ("B", "new"))], old, ["a"])
    assert (memories(results, "b"), unmatched_ids(results)) == ([1, 2], [3])
    assert all(pair.moved for pair in results.pairs["b"])


def test_existing_file_keeps_its_sections() -> None:
    results = sync.match_sections([page("copy", ("A", "x"))], file_states("a", (1, "A", "x")), [])
    assert (memories(results, "copy"), unmatched_ids(results)) == ([None], [])


def exported_note(path: str, memory: int) -> dict[str, FileState]:
    part = FiledPart(memory, "", "says", "about", exported=True)
    return {path: FileState(path=path, hash="old", size=1, modified=1, parts=(part,))}


def test_note_belongs_to_its_previous_file_or_the_first() -> None:
    pages = [page(path, ("", "x"), note=Note(7, "x")) for path in ("a", "b", "c")]
    results = sync.match_sections(pages, exported_note("b", 7), [])
    assert [isinstance(results.pairs[path][0].content, Note) for path in "abc"] == [False, True, False]
    results = sync.match_sections(pages, exported_note("gone", 7), ["gone"])
    assert [isinstance(results.pairs[path][0].content, Note) for path in "abc"] == [True, False, False]
    assert (memories(results, "a"), unmatched_ids(results)) == ([7], [])
    results = sync.match_sections(pages, exported_note("unread", 7), [])
    assert not any(isinstance(results.pairs[path][0].content, Note) for path in "abc")


TEXT = st.sampled_from(["one", "two", "three", "four"])
PARTS = st.lists(st.tuples(st.sampled_from("AB"), TEXT), max_size=4)


@given(st.dictionaries(st.sampled_from("abc"), PARTS), st.dictionaries(st.sampled_from("abc"), PARTS))
def test_nothing_is_matched_twice_and_nothing_is_lost(
    before: dict[str, list[tuple[str, str]]], after: dict[str, list[tuple[str, str]]]
) -> None:
    number, old = 0, dict[str, FileState]()
    for path, parts in before.items():
        old |= file_states(path, *((number + place, heading, text) for place, (heading, text) in enumerate(parts, 1)))
        number += len(parts)
    results = sync.match_sections(
        [page(path, *parts) for path, parts in after.items()], old, [path for path in before if path not in after]
    )
    paired = [memory for path in results.pairs for memory in memories(results, path) if memory is not None]
    assert sorted([*paired, *unmatched_ids(results)]) == list(range(1, number + 1))
    words = {each: text for path in before for each, text in _numbered(before)}
    for path, pairs in results.pairs.items():
        assert len(pairs) == len(after[path])
    lost = {words[memory_id] for memory_id in unmatched_ids(results)}
    new = {pair.content.text for pairs in results.pairs.values() for pair in pairs if pair.old is None}
    assert not lost & new  # what is gone and what came are never the same words


def _numbered(pages: dict[str, list[tuple[str, str]]]) -> list[tuple[int, str]]:
    return list(enumerate((text for parts in pages.values() for _, text in parts), 1))
