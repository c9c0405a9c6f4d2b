"""What is to be written for a client, and writing it: decide everything first, then touch files, with a record.

A file that cannot be read stops the whole plan before anything is written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from cofio.errors import CofioError, InvalidInput
from cofio.install import files
from cofio.install.jsonc import Malformed
from cofio.install.record import Entry, Record

#: Whether a file at this path with this content is ours, of whichever home and version.
IsOurs: TypeAlias = Callable[[Path, bytes], bool]
#: Takes ours out of a text, given the text as it was before us and the commands by which our hooks are told.
Take: TypeAlias = Callable[[str, str, Collection[str]], str]

OWN = "own"  # the kind of a file that is all ours
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A change of somebody else's file. `put` gets its text, "" where there is none, and what older commands we had."""

    path: Path
    kind: str
    put: Callable[[str, Collection[str]], str]
    ours: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A file of our own."""

    path: Path
    content: bytes
    mode: int = 0o644
    kind: str = OWN
    is_ours: IsOurs | None = None  # tells one that another home, or an older version, has put there


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that is to be written for a client, and what its owner must know. Our own files come first."""

    client: str
    copies: tuple[Copy, ...] = ()
    edits: tuple[Edit, ...] = ()
    notes: tuple[str, ...] = ()
    folder: Path | None = None  # where our hooks go, for the telling


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a file."""

    path: Path
    state: Literal["written", "unchanged", "restored", "removed", "taken out", "kept", "gone"]
    detail: str = ""


# ── installing ────────────────────────────────────────────────────────────────────────────────────────────────────────


def prepared(plan: Plan, record: Record) -> list[tuple[Path, bytes | None, bytes]]:
    """Every file of the plan: what it holds now and what it would hold. Writes nothing."""
    return [(each.path, now, _wanted(each, now, record)) for each in _all(plan) for now in [files.read(each.path)]]


def changed(plan: Plan, record: Record) -> list[Path]:
    """The files that carrying the plan out would write. Writes nothing."""
    modes = {each.path: each for each in plan.copies}
    return [path for path, now, wanted in prepared(plan, record)
            if now != wanted or (path in modes and not _is_as_open(modes[path]))]  # fmt: skip


def carry_out(plan: Plan, record: Record, takes: Mapping[str, Take]) -> list[Done]:
    """Write what differs. The record is written before each file is."""
    prepared(plan, record)
    return [_carried_out(each, plan.client, record, takes) for each in _all(plan)]


def _all(plan: Plan) -> Sequence[Copy | Edit]:
    return (*plan.copies, *plan.edits)


def _wanted(step: Copy | Edit, now: bytes | None, record: Record) -> bytes:
    if isinstance(step, Copy):
        return step.content
    entry = record.entries.get(str(step.path))
    text = files.text_of(step.path, now or b"")
    try:
        return step.put(text, entry.ours if entry else ()).encode()
    except Malformed as error:
        raise unreadable(step.path, error) from error


def _carried_out(step: Copy | Edit, client: str, record: Record, takes: Mapping[str, Take]) -> Done:
    for _ in range(_ATTEMPTS):
        now = files.read(step.path)
        wanted = _wanted(step, now, record)
        if now == wanted and (str(step.path) in record.entries or isinstance(step, Edit)) and _is_as_open(step):
            return Done(step.path, "unchanged")
        original, existed = _before_us(step, record, now, takes)
        entry = _entry(step, client, record, original if existed else None, wanted)
        record.add(entry, files.missing_folders(step.path))
        if files.read(step.path) == now:  # a client that runs may write its own file meanwhile
            files.write(step.path, wanted, mode=step.mode if isinstance(step, Copy) else None)
            return Done(step.path, "written")
    raise InvalidInput(f"{step.path} keeps changing.", "Close the client that writes it, and try again.")


def _is_as_open(step: Copy | Edit) -> bool:
    """Whether a file of ours can be run, where it is to be."""
    return isinstance(step, Edit) or not step.mode & 0o100 or os.access(step.path, os.X_OK)


def _before_us(
    step: Copy | Edit, record: Record, now: bytes | None, takes: Mapping[str, Take]
) -> tuple[bytes | None, bool]:
    """What the first install found there, less what others did since; and whether there was a file at all."""
    known = record.entries.get(str(step.path))
    if isinstance(step, Copy) and now is not None and _is_of_ours(step, now):
        return (record.original(known), known.existed) if known else (None, False)
    if known is None or now is None:
        return now, now is not None
    if files.digest(now) == known.after:
        return record.original(known), known.existed
    if isinstance(step, Copy):
        return now, True
    rest = without(step.path, now, known, record, takes)
    return (rest, True) if known.existed or not _is_empty(rest.decode()) else (None, False)


def _is_of_ours(step: Copy, content: bytes) -> bool:
    return content == step.content or bool(step.is_ours and step.is_ours(step.path, content))


def _entry(step: Copy | Edit, client: str, record: Record, original: bytes | None, wanted: bytes) -> Entry:
    return Entry(
        path=str(step.path),
        client=client,
        kind=step.kind,
        existed=original is not None,
        before=files.digest(original) if original is not None else "",
        after=files.digest(wanted),
        backup=record.keep(step.path, original) if original is not None else "",
        ours=step.ours if isinstance(step, Edit) else (),
    )


def unreadable(path: Path, error: Malformed) -> InvalidInput:
    hint = "Mend it, or move it away, and try again; nothing of it was changed."
    return InvalidInput(f"{path} cannot be understood: {error.message}.", hint)


# ── uninstalling ──────────────────────────────────────────────────────────────────────────────────────────────────────


def without(path: Path, now: bytes, entry: Entry, record: Record, takes: Mapping[str, Take]) -> bytes:
    """The file's bytes without ours."""
    before = record.original(entry) or b""
    take = takes[entry.kind]
    try:
        return take(files.text_of(path, now), files.text_of(path, before), entry.ours).encode()
    except Malformed as error:
        raise unreadable(path, error) from error


def undo(
    client: str, record: Record, takes: Mapping[str, Take], is_ours: IsOurs = lambda _path, _content: False
) -> tuple[list[Done], list[CofioError]]:
    """Take out all that was written for a client; what became of each file, and what could not be done.

    `is_ours` tells files of our own that another home has written since.
    """
    done: list[Done] = []
    problems: list[CofioError] = []
    for entry in reversed(record.of(client)):
        try:
            done.append(_undone(entry, record, takes, is_ours))
        except CofioError as error:
            problems.append(error)
        else:
            record.drop(entry)
    record.leave_folders()
    return done, problems


def _undone(entry: Entry, record: Record, takes: Mapping[str, Take], is_ours: IsOurs) -> Done:
    path = Path(entry.path)
    now = files.read(path)
    if now is None:
        return Done(path, "gone")
    if files.digest(now) == entry.after and (restored := _restored(path, entry, record)):
        return restored
    if entry.kind == OWN and is_ours(path, now):
        files.remove(path)
        return Done(path, "removed")
    if entry.kind == OWN:
        return Done(path, "kept", "somebody has changed it since")
    rest = without(path, now, entry, record, takes)
    if not entry.existed and _is_empty(rest.decode()):
        files.remove(path)
        return Done(path, "removed")
    if rest == now:
        return Done(path, "kept", "nothing of ours is in it")
    files.write(path, rest)
    return Done(path, "taken out")


def _restored(path: Path, entry: Entry, record: Record) -> Done | None:
    """The file as it was before us; None where its copy is gone, and ours has to be taken out instead."""
    if not entry.existed:
        files.remove(path)
        return Done(path, "removed")
    original = record.original(entry)
    if original is None or files.digest(original) != entry.before:
        return None
    files.write(path, original)
    return Done(path, "restored")


def taken_out(edits: Sequence[Edit], record: Record, takes: Mapping[str, Take]) -> list[Done]:
    """Take ours out of files that no record speaks of, such as after the home was lost."""
    done = []
    for edit in edits:
        now = files.read(edit.path)
        if now is None or str(edit.path) in record.entries:
            continue
        text = files.text_of(edit.path, now)
        try:
            rest = takes[edit.kind](text, "", edit.ours)
        except Malformed:
            continue  # whatever it is, ours is not in it
        if rest != text and _is_empty(rest):  # it held nothing but ours
            files.remove(edit.path)
            done.append(Done(edit.path, "removed"))
        elif rest != text:
            files.write(edit.path, rest.encode())
            done.append(Done(edit.path, "taken out"))
    return done


def removed(copies: Sequence[Copy], record: Record) -> list[Done]:
    """Remove files of our own that no record speaks of, and the folder that they were in if nothing else is."""
    done = []
    for copy in copies:
        now = files.read(copy.path)
        if now is not None and str(copy.path) not in record.entries and _is_of_ours(copy, now):
            files.remove(copy.path)
            done.append(Done(copy.path, "removed"))
    for folder in sorted({each.path.parent for each in done}, key=lambda each: len(str(each)), reverse=True):
        with suppress(OSError):  # somebody keeps something in it
            folder.rmdir()
            folder.parent.rmdir()
    return done


def _is_empty(text: str) -> bool:
    """Whether nothing is said in a file of settings."""
    return not text.strip("\ufeff{} \t\r\n")
