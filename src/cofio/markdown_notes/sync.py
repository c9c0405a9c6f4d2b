"""Synchronization of memories with Markdown pages: matches parts to memories and decides the changes.

A part under the same heading stays the same memory: its text is edited in place and the journal keeps the old text. A
part that moved, within a file or with it, keeps its memory. A memory that was archived or corrected stays so while its
part is unchanged; once the text of the part changes, the page wins.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cofio.errors import InvalidInput
from cofio.markdown_notes import obsidian
from cofio.markdown_notes.obsidian import Note
from cofio.markdown_notes.sections import Section
from cofio.models.markdown_notes import FiledPart, FileState, Stamp
from cofio.models.memory import Add, Decision, Edit, Fact, Memory, Restore, Update, apply_edit

_SECOND = 19  # characters of a timestamp, up to the second


class FilePage(NamedTuple):
    """Content of a file as read now."""

    path: str
    stamp: Stamp
    hash: str
    parts: tuple[Section, ...]
    note: Note | None = None  # the exported memory, if the page is one


@dataclass(slots=True)
class SectionPair:
    """Part of a page, and its version as last read."""

    content: Section | Note
    old: FiledPart | None = None
    moved: bool = False  # it was in another file

    @property
    def memory(self) -> int:
        """The id of its memory; 0 for a new part."""
        if isinstance(self.content, Note):
            return self.content.memory
        return self.old.memory if self.old else 0


class RemovedSection(NamedTuple):
    """Part that no longer exists."""

    path: str
    old: FiledPart


@dataclass(slots=True)
class MatchedSections:
    """Parts of each page with their previous versions, and previous parts without a match."""

    pairs: dict[str, list[SectionPair]] = field(default_factory=dict)
    left: list[RemovedSection] = field(default_factory=list)


#: Key that identifies a part in its new and its previous version.
_Key = Callable[[str, str, str], Any]
_BY: tuple[_Key, ...] = (
    lambda path, heading, says: (path, heading, says),
    lambda path, heading, says: (path, says),  # noqa: ARG005 - moved within the file
    lambda path, heading, says: says,  # noqa: ARG005 - moved with or into another file
    lambda path, heading, says: (path, heading),  # noqa: ARG005 - edited
)


def match_sections(pages: Sequence[FilePage], filed: Mapping[str, FileState], gone: Collection[str]) -> MatchedSections:
    """Match parts of these pages with parts as last read, including those of deleted files."""
    touched = {*gone, *(page.path for page in pages)}
    free = [RemovedSection(path, old) for path in sorted(touched) if path in filed for old in filed[path].parts]
    exported = {old.memory for path in filed.keys() - touched for old in filed[path].parts if old.exported}
    matches = MatchedSections({page.path: [SectionPair(part) for part in page.parts] for page in pages})
    free = _claim_notes(pages, matches, free, exported)
    loose = [
        (path, pair) for path, pairs in matches.pairs.items() for pair in pairs if isinstance(pair.content, Section)
    ]
    heirs: dict[str, Counter[str]] = defaultdict(Counter)
    for by in _BY:
        loose, free = _pair_sections(loose, free, by, heirs)
    # A file that was renamed and edited: unmatched parts are assumed to be where most of its parts went.
    new_path = {path: counts.most_common(1)[0][0] for path, counts in heirs.items() if path in set(gone)}
    renamed = [RemovedSection(new_path.get(section.path, section.path), section.old) for section in free]
    _, matches.left = _pair_sections(loose, renamed, _BY[3], heirs)
    for _, pair in loose:
        pair.moved = pair.old is not None
    return matches


def _claim_notes(
    pages: Sequence[FilePage], matches: MatchedSections, free: list[RemovedSection], exported: set[int]
) -> list[RemovedSection]:
    """Assign notes of a vault to their memories: the file that had it wins, else the first. Copies stay pages."""
    home = {(section.path, section.old.memory): section for section in free if section.old.exported}
    by_memory = {section.old.memory: section for section in free if section.old.exported}
    claimed = set(exported)
    used: set[int] = set()
    for page in sorted(pages, key=lambda page: page.note is None or (page.path, page.note.memory) not in home):
        if page.note is None or page.note.memory in claimed:
            continue
        claimed.add(page.note.memory)
        previous = home.get((page.path, page.note.memory)) or by_memory.get(page.note.memory)
        matches.pairs[page.path] = [SectionPair(page.note, previous.old if previous else None)]
        used |= {id(previous)} if previous else set()
    return [section for section in free if id(section) not in used]


def _pair_sections(
    loose: list[tuple[str, SectionPair]], free: list[RemovedSection], by: _Key, heirs: dict[str, Counter[str]]
) -> tuple[list[tuple[str, SectionPair]], list[RemovedSection]]:
    """Pair parts with equal keys, in order; return the parts and previous parts that remain unmatched."""
    by_key: dict[Any, list[RemovedSection]] = defaultdict(list)
    for section in reversed(free):
        by_key[by(section.path, section.old.heading, section.old.text_digest)].append(section)
    unmatched: list[tuple[str, SectionPair]] = []
    used: set[int] = set()
    for path, pair in loose:
        assert isinstance(pair.content, Section)
        candidates = by_key.get(by(path, pair.content.heading_digest, pair.content.text_digest))
        if not candidates:
            unmatched.append((path, pair))
            continue
        previous = candidates.pop()
        used.add(id(previous))
        pair.old, pair.moved = previous.old, previous.path != path or previous.old.exported
        heirs[previous.path][path] += 1
    return unmatched, [section for section in free if id(section) not in used]


class SyncVerdict(NamedTuple):
    """Decisions for a part, and the id of its memory; None if the first decision creates it."""

    decisions: list[Decision]
    memory: int | None


def decide_section(pair: SectionPair, fact: Fact, memory: Memory | None, heir: Memory | None) -> SyncVerdict:
    """Decide the changes for a part that was read before.

    `memory` is its memory, None if that was undone or erased; `heir` is the live memory that replaced it by a
    correction.
    """
    part, old = pair.content, pair.old
    assert isinstance(part, Section)
    assert old is not None
    words, about = part.text_digest != old.text_digest, part.fields_digest != old.fields_digest or pair.moved
    if memory is None:
        return new_section(fact) if words else SyncVerdict([], old.memory)
    if not memory.archived:
        return SyncVerdict(bring_up_to_date(memory, fact, part.defined_fields, words=words, about=about), memory.id)
    if not words:
        return SyncVerdict([], memory.id)
    if heir is not None:
        return SyncVerdict([Update(heir.id, fact, "its note was edited")], None)
    now = bring_up_to_date(memory, fact, part.defined_fields, words=True, about=True)
    return SyncVerdict([Restore(memory.id, "its note was edited"), *now], memory.id)


def new_section(fact: Fact) -> SyncVerdict:
    """Return the decision for a new part. If it was stored but not recorded, the add becomes a noop."""
    return SyncVerdict([Add(fact, "read in a note", unless_known=True)], None)


def decide_found_again(part: Section, fact: Fact, memory: Memory) -> SyncVerdict:
    """Return decisions for a part that matches an existing memory of its file for which no read is recorded."""
    back: list[Decision] = [Restore(memory.id, "its note is back")] if memory.archived else []
    return SyncVerdict([*back, *bring_up_to_date(memory, fact, part.defined_fields, words=True, about=True)], memory.id)


def bring_up_to_date(
    memory: Memory, fact: Fact, defined_fields: Sequence[str], *, words: bool, about: bool
) -> list[Decision]:
    """Return the edit that makes the memory match the fact; empty if it already does.

    Besides the text, only `defined_fields` of the page and its location are taken from the fact. Metadata that the note
    defined before is replaced.
    """
    fields: dict[str, Any] = {"text": fact.text} if words else {}
    if about:
        fields |= {name: getattr(fact, name) for name in ("source", *defined_fields)}
        note = memory.metadata.get("note")
        names = note.get("fields") if isinstance(note, dict) else None
        previous_names = set(names) if isinstance(names, list) else set()
        kept = {name: value for name, value in memory.metadata.items() if name not in previous_names}
        fields["metadata"] = {**kept, **fact.metadata}
    changes = {name: value for name, value in fields.items() if getattr(memory, name) != value}
    if "kind" in changes:
        changes["category"] = fact.category  # otherwise derived from the new kind
    return [Edit(memory.id, changes, "its note was edited", "import")] if changes else []


def for_note(pair: SectionPair, memory: Memory | None) -> list[Decision]:
    """Return the changes that an exported note makes to its memory.

    Raise InvalidInput if the memory has changed since the export, or the edit is invalid.
    """
    note, old = pair.content, pair.old
    assert isinstance(note, Note)
    if memory is None:
        return []  # erased or undone: an old note does not restore it
    before = obsidian.unchanged_note(memory)
    filed = old or FiledPart(memory.id, "", before.text_digest, before.fields_digest)
    words, about = note.text_digest != filed.text_digest, note.fields_digest != filed.fields_digest
    if not words and (not about or memory.archived):
        return []
    is_older = note.updated and note.updated[:_SECOND] != memory.updated_at[:_SECOND]
    if old is None and (memory.archived or is_older):
        hint = "Export the note again, or remove `updated` from it to overwrite the memory."
        raise InvalidInput(f"Memory {memory.id} was changed since the note was written.", hint)
    fields = {**({"text": note.text} if words else {}), **({"tags": note.tags, "pinned": note.pinned} if about else {})}
    if words and not note.text:
        raise InvalidInput("The note has no text left.", "Delete the file to archive its memory.")
    after = apply_edit(memory, fields)
    changes = {name: value for name in fields if (value := getattr(after, name)) != getattr(memory, name)}
    back: list[Decision] = [Restore(memory.id, "its note was edited")] if memory.archived else []
    return [*back, *([Edit(memory.id, changes, "its note was edited", "import")] if changes else [])]


def file_state(path: str, stamp: Stamp, content_hash: str, parts: Iterable[tuple[Section | Note, int]]) -> FileState:
    """Return the record of a file as read: its parts, each with its memory."""
    filed: list[FiledPart] = []
    for part, memory in parts:
        heading = part.heading_digest if isinstance(part, Section) else ""
        filed.append(FiledPart(memory, heading, part.text_digest, part.fields_digest, isinstance(part, Note)))
    return FileState(path=path, hash=content_hash, size=stamp.size, modified=stamp.modified, parts=tuple(filed))


def count_sections(
    filed: Mapping[str, FileState], pairs: Mapping[str, Sequence[SectionPair]], gone: Collection[str]
) -> Counter[int]:
    """Count the parts of each memory after these pages are read and the others are gone."""
    unread = [file for path, file in filed.items() if path not in pairs and path not in gone]
    kept = [old.memory for file in unread for old in file.parts]
    return Counter([*kept, *(pair.memory for page in pairs.values() for pair in page if pair.memory)])
