"""Which memory each part of a page is, and what is to be done so that memories say what the pages say.

    pages that were read, what was read before ─ matched ─▶ parts with what they were ─ for_part, for_note ─▶ [Decision]

The same heading is the same memory: its words change in place, and the journal keeps what they were. Words that moved,
within a file or with it, keep their memory. What somebody forgot or corrected stays so while the part says the same;
once its words change, the page has the last word.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from cofio.errors import InvalidInput
from cofio.markdown import vault
from cofio.markdown.parts import Part
from cofio.markdown.vault import Note
from cofio.model import Add, Decision, Edit, Fact, Memory, Restore, Update, edited
from cofio.notes import Filed, FiledPart, Stamp

_SECOND = 19  # characters of a moment, up to the second


class Page(NamedTuple):
    """A file as it stands."""

    path: str
    stamp: Stamp
    hash: str
    parts: tuple[Part, ...]
    note: Note | None = None  # the memory that was written there, if one was


@dataclass(slots=True)
class Pair:
    """A part of a page, and what it was when it was read last."""

    said: Part | Note
    old: FiledPart | None = None
    moved: bool = False  # it stood in another file


class Left(NamedTuple):
    """A part that is there no more."""

    path: str
    old: FiledPart


@dataclass(slots=True)
class Matched:
    """The parts of each page, and what is left of what was read before."""

    pairs: dict[str, list[Pair]] = field(default_factory=dict)
    left: list[Left] = field(default_factory=list)


#: What tells a part, where it stands now and where it stood.
_Key = Callable[[str, str, str], Any]
_BY: tuple[_Key, ...] = (
    lambda path, heading, says: (path, heading, says),
    lambda path, heading, says: (path, says),  # noqa: ARG005 - moved within the file
    lambda path, heading, says: says,  # noqa: ARG005 - moved with or into another file
    lambda path, heading, says: (path, heading),  # noqa: ARG005 - edited
)


def matched(pages: Sequence[Page], filed: Mapping[str, Filed], gone: Collection[str]) -> Matched:
    """Which part of these pages is which that was read before; the files that are gone take part."""
    touched = {*gone, *(page.path for page in pages)}
    free = [Left(path, old) for path in sorted(touched) if path in filed for old in filed[path].parts]
    held = {old.memory for path in filed.keys() - touched for old in filed[path].parts if old.exported}
    found = Matched({page.path: [Pair(part) for part in page.parts] for page in pages})
    free = _claimed(pages, found, free, held)
    loose = [(path, pair) for path, pairs in found.pairs.items() for pair in pairs if isinstance(pair.said, Part)]
    heirs: dict[str, Counter[str]] = defaultdict(Counter)
    for by in _BY:
        loose, free = _paired(loose, free, by, heirs)
    # A file that was renamed and edited: what is left of it went where most of it went.
    to = {path: counts.most_common(1)[0][0] for path, counts in heirs.items() if path in set(gone)}
    renamed = [Left(to.get(each.path, each.path), each.old) for each in free]
    _, found.left = _paired(loose, renamed, _BY[3], heirs)
    for _, pair in loose:
        pair.moved = pair.old is not None
    return found


def _claimed(pages: Sequence[Page], found: Matched, free: list[Left], held: set[int]) -> list[Left]:
    """Give the notes of a vault their memories: to the file that had it, or else the first. A copy is a page as any."""
    home = {(each.path, each.old.memory): each for each in free if each.old.exported}
    away = {each.old.memory: each for each in free if each.old.exported}
    taken = set(held)
    used: set[int] = set()
    for page in sorted(pages, key=lambda page: page.note is None or (page.path, page.note.memory) not in home):
        if page.note is None or page.note.memory in taken:
            continue
        taken.add(page.note.memory)
        was = home.get((page.path, page.note.memory)) or away.get(page.note.memory)
        found.pairs[page.path] = [Pair(page.note, was.old if was else None)]
        used |= {id(was)} if was else set()
    return [each for each in free if id(each) not in used]


def _paired(
    loose: list[tuple[str, Pair]], free: list[Left], by: _Key, heirs: dict[str, Counter[str]]
) -> tuple[list[tuple[str, Pair]], list[Left]]:
    """Pair what has the same key, in order; the parts and what was read before that still have none."""
    there: dict[Any, list[Left]] = defaultdict(list)
    for each in reversed(free):
        there[by(each.path, each.old.heading, each.old.says)].append(each)
    still: list[tuple[str, Pair]] = []
    used: set[int] = set()
    for path, pair in loose:
        assert isinstance(pair.said, Part)
        same = there.get(by(path, pair.said.under, pair.said.says))
        if not same:
            still.append((path, pair))
            continue
        was = same.pop()
        used.add(id(was))
        pair.old, pair.moved = was.old, was.path != path or was.old.exported
        heirs[was.path][path] += 1
    return still, [each for each in free if id(each) not in used]


# ── deciding ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class Verdict(NamedTuple):
    """What is to be done for a part, and the memory that it is; None for the one that the first decision writes."""

    decisions: list[Decision]
    memory: int | None


def for_part(pair: Pair, fact: Fact, memory: Memory | None, heir: Memory | None) -> Verdict:
    """What is to be done for a part that was read before.

    `memory` is what it was then, None when that was undone or erased; `heir` the live memory that took its place by a
    correction.
    """
    part, old = pair.said, pair.old
    assert isinstance(part, Part)
    assert old is not None
    words, about = part.says != old.says, part.about != old.about or pair.moved
    if memory is None:
        return new(fact) if words else Verdict([], old.memory)
    if not memory.archived:
        return Verdict(level(memory, fact, part.brings, words=words, about=about), memory.id)
    if not words:
        return Verdict([], memory.id)
    if heir is not None:
        return Verdict([Update(heir.id, fact, "its note was edited")], None)
    now = level(memory, fact, part.brings, words=True, about=True)
    return Verdict([Restore(memory.id, "its note was edited"), *now], memory.id)


def new(fact: Fact) -> Verdict:
    """What is to be done for a part that is new. What was stored, but not noted, is there already."""
    return Verdict([Add(fact, "read in a note", unless_known=True)], None)


def found_again(part: Part, fact: Fact, memory: Memory) -> Verdict:
    """What is to be done for a part that some memory of its file says, of which nobody knows what was read."""
    back: list[Decision] = [Restore(memory.id, "its note is back")] if memory.archived else []
    return Verdict([*back, *level(memory, fact, part.brings, words=True, about=True)], memory.id)


def level(memory: Memory, fact: Fact, brings: Sequence[str], *, words: bool, about: bool) -> list[Decision]:
    """The edit that has the memory say what the fact says, as far as that has changed; none where it does.

    Of what is known about the words, only what the page `brings` and where it stands is taken from the fact.
    """
    wanted: dict[str, Any] = {"text": fact.text} if words else {}
    if about:
        wanted |= {name: getattr(fact, name) for name in ("source", *brings)}
        wanted["metadata"] = _metadata(memory, fact)
    changed = {name: value for name, value in wanted.items() if getattr(memory, name) != value}
    if "kind" in changed:
        changed["category"] = fact.category  # else a new kind brings its own
    return [Edit(memory.id, changed, "its note was edited")] if changed else []


def _metadata(memory: Memory, fact: Fact) -> dict[str, Any]:
    """The memory's own, with the note's fields of now in place of those that it had."""
    note = memory.metadata.get("note")
    named = note.get("fields") if isinstance(note, dict) else None
    past = set(named) if isinstance(named, list) else set()
    return {**{name: value for name, value in memory.metadata.items() if name not in past}, **fact.metadata}


def for_note(pair: Pair, memory: Memory | None) -> list[Decision]:
    """What the note of a memory changes in it. InvalidInput when it cannot be told, or cannot be taken."""
    note, old = pair.said, pair.old
    assert isinstance(note, Note)
    if memory is None:
        return []  # erased, or undone: an old note does not bring it back
    before = vault.noted(memory)
    was = old or FiledPart(memory.id, "", before.says, before.about)
    words, about = note.says != was.says, note.about != was.about
    if not words and (not about or memory.archived):
        return []
    if old is None and (memory.archived or _is_older(note, memory)):
        hint = "Export it again, or take `updated` out of it."
        raise InvalidInput(f"Memory {memory.id} was changed since the note was written.", hint)
    fields = {**({"text": note.text} if words else {}), **({"tags": note.tags, "pinned": note.pinned} if about else {})}
    if words and not note.text:
        raise InvalidInput("It says nothing any more.", "Delete the file to have its memory forgotten.")
    after = edited(memory, fields)
    changed = {name: value for name in fields if (value := getattr(after, name)) != getattr(memory, name)}
    back: list[Decision] = [Restore(memory.id, "its note was edited")] if memory.archived else []
    return [*back, *([Edit(memory.id, changed, "its note was edited")] if changed else [])]


def _is_older(note: Note, memory: Memory) -> bool:
    return bool(note.updated) and note.updated[:_SECOND] != memory.updated_at[:_SECOND]


def filed(page: Page, pairs: Sequence[Pair], memories: Sequence[int]) -> Filed:
    """The page as it was read, with the memories that its parts are."""
    parts = tuple(_filed(pair.said, memory) for pair, memory in zip(pairs, memories, strict=True))
    return Filed(path=page.path, hash=page.hash, size=page.stamp.size, modified=page.stamp.modified, parts=parts)


def _filed(said: Part | Note, memory: int) -> FiledPart:
    if isinstance(said, Note):
        return FiledPart(memory, "", said.says, said.about, exported=True)
    return FiledPart(memory, said.under, said.says, said.about)


def touched(old: Filed, stamp: Stamp) -> Filed:
    """The file with another look from outside, and the same content."""
    return replace(old, size=stamp.size, modified=stamp.modified, at="")


def owned(filed: Mapping[str, Filed], pairs: Mapping[str, Sequence[Pair]], gone: Collection[str]) -> Counter[int]:
    """How many parts each memory has, once these pages are read and those are gone."""
    rest = (old.memory for path, each in filed.items() if path not in pairs and path not in gone for old in each.parts)
    return Counter([*rest, *_memories(pairs)])


def _memories(pairs: Mapping[str, Sequence[Pair]]) -> Iterator[int]:
    for each in (pair for page in pairs.values() for pair in page):
        if isinstance(each.said, Note):
            yield each.said.memory
        elif each.old:
            yield each.old.memory
