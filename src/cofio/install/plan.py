"""Installation plans: everything is decided first, then files are written, with a record.

An unreadable file stops the whole plan before anything is written.
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
from cofio.install.jsonc import MalformedConfig
from cofio.install.manifest import Manifest, ManifestEntry

#: Tells if a file at this path with this content is ours, of any home and version.
IsOurs: TypeAlias = Callable[[Path, bytes], bool]
#: Removes our entries from a text, given the text before us and the commands that identify our hooks.
Take: TypeAlias = Callable[[str, str, Collection[str]], str]

OWN = "own"  # kind of a file that is entirely ours
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEdit:
    """A change of a client's file. `put` gets its text ("" for a missing file) and our older commands in it."""

    path: Path
    kind: str
    put: Callable[[str, Collection[str]], str]
    ours: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCopy:
    """A file that is entirely ours."""

    path: Path
    content: bytes
    mode: int = 0o644
    kind: str = OWN
    is_ours: IsOurs | None = None  # recognises a file of another home or an older version


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallPlan:
    """All files to write for a client, and notes for the user. Our own files come first."""

    client: str
    copies: tuple[FileCopy, ...] = ()
    edits: tuple[FileEdit, ...] = ()
    notes: tuple[str, ...] = ()
    folder: Path | None = None  # folder of our hooks, for display

    @property
    def steps(self) -> Sequence[FileCopy | FileEdit]:
        return (*self.copies, *self.edits)


@dataclass(frozen=True, slots=True)
class FileResult:
    """Result for one file."""

    path: Path
    state: Literal["written", "unchanged", "restored", "removed", "taken out", "kept", "gone"]
    detail: str = ""


# ── installing ────────────────────────────────────────────────────────────────────────────────────────────────────────


def prepare(plan: InstallPlan, record: Manifest) -> list[tuple[Path, bytes | None, bytes]]:
    """Return path, current content and planned content of every file. Writes nothing."""
    return [
        (step.path, current, _plan_content(step, current, record))
        for step in plan.steps
        for current in [files.read(step.path)]
    ]


def changed_paths(plan: InstallPlan, record: Manifest) -> list[Path]:
    """Return the files that the plan would write. Writes nothing."""
    return [
        path
        for step, (path, current, planned) in zip(plan.steps, prepare(plan, record), strict=True)
        if current != planned or not _is_as_open(step)
    ]


def carry_out(plan: InstallPlan, record: Manifest, takes: Mapping[str, Take]) -> list[FileResult]:
    """Write the files that differ. The record is written before each file."""
    prepare(plan, record)
    return [_write_step(step, plan.client, record, takes) for step in plan.steps]


def _plan_content(step: FileCopy | FileEdit, current: bytes | None, record: Manifest) -> bytes:
    if isinstance(step, FileCopy):
        return step.content
    entry = record.entries.get(str(step.path))
    text = files.text_of(step.path, current or b"")
    try:
        return step.put(text, entry.ours if entry else ()).encode()
    except MalformedConfig as error:
        raise unreadable(step.path, error) from error


def _write_step(step: FileCopy | FileEdit, client: str, record: Manifest, takes: Mapping[str, Take]) -> FileResult:
    for _ in range(_ATTEMPTS):
        current = files.read(step.path)
        planned = _plan_content(step, current, record)
        is_recorded = str(step.path) in record.entries or isinstance(step, FileEdit)
        if current == planned and is_recorded and _is_as_open(step):
            return FileResult(step.path, "unchanged")

        original = _find_original(step, record, current, takes)
        entry = ManifestEntry(
            path=str(step.path),
            client=client,
            kind=step.kind,
            existed=original is not None,
            before=files.digest(original) if original is not None else "",
            after=files.digest(planned),
            backup=record.keep(step.path, original) if original is not None else "",
            ours=step.ours if isinstance(step, FileEdit) else (),
        )
        record.add(entry, files.missing_folders(step.path))
        if files.read(step.path) == current:  # a running client may have written its own file meanwhile
            files.write(step.path, planned, mode=step.mode if isinstance(step, FileCopy) else None)
            return FileResult(step.path, "written")
    hint = "Close the client that writes it and retry."
    raise InvalidInput(f"{step.path} was changed by another program again and again.", hint)


def _is_as_open(step: FileCopy | FileEdit) -> bool:
    """Return whether a program of ours is executable."""
    return isinstance(step, FileEdit) or not step.mode & 0o100 or os.access(step.path, os.X_OK)


def _find_original(
    step: FileCopy | FileEdit, record: Manifest, current: bytes | None, takes: Mapping[str, Take]
) -> bytes | None:
    """Return the content before the first install, without later changes by others; None if there was no file."""
    entry = record.entries.get(str(step.path))
    if isinstance(step, FileCopy) and current is not None and _is_of_ours(step, current):
        return record.original(entry) if entry else None
    if entry is None or current is None:
        return current
    if files.digest(current) == entry.after:
        return record.original(entry)
    if isinstance(step, FileCopy):
        return current
    remaining = without_ours(step.path, current, entry, record, takes)
    return remaining if entry.existed or not _is_empty(remaining.decode()) else None


def _is_of_ours(step: FileCopy, content: bytes) -> bool:
    return content == step.content or bool(step.is_ours and step.is_ours(step.path, content))


def unreadable(path: Path, error: MalformedConfig) -> InvalidInput:
    hint = "Repair it or move it away, then retry; nothing was changed."
    return InvalidInput(f"{path} cannot be parsed: {error.message}.", hint)


# ── uninstalling ──────────────────────────────────────────────────────────────────────────────────────────────────────


def without_ours(
    path: Path, current: bytes, entry: ManifestEntry, record: Manifest, takes: Mapping[str, Take]
) -> bytes:
    """Return the file's bytes without our entries."""
    before = files.text_of(path, record.original(entry) or b"")
    try:
        return takes[entry.kind](files.text_of(path, current), before, entry.ours).encode()
    except MalformedConfig as error:
        raise unreadable(path, error) from error


def undo(
    client: str, record: Manifest, takes: Mapping[str, Take], is_ours: IsOurs = lambda _path, _content: False
) -> tuple[list[FileResult], list[CofioError]]:
    """Remove everything recorded for a client; return the result of each file, and the problems.

    `is_ours` recognises files of our own that another home has written since.
    """
    results: list[FileResult] = []
    problems: list[CofioError] = []
    for entry in reversed(record.of(client)):
        try:
            results.append(_undo_entry(entry, record, takes, is_ours))
        except CofioError as error:
            problems.append(error)
        else:
            record.drop(entry)
    record.leave_folders()
    return results, problems


def _undo_entry(entry: ManifestEntry, record: Manifest, takes: Mapping[str, Take], is_ours: IsOurs) -> FileResult:
    path = Path(entry.path)
    current = files.read(path)
    if current is None:
        return FileResult(path, "gone")
    if files.digest(current) == entry.after:
        if not entry.existed:
            return _remove(path)
        original = record.original(entry)
        if original is not None and files.digest(original) == entry.before:
            files.write(path, original)
            return FileResult(path, "restored")
    if entry.kind == OWN:
        return _remove(path) if is_ours(path, current) else FileResult(path, "kept", "it was changed since")

    remaining = without_ours(path, current, entry, record, takes)
    if not entry.existed and _is_empty(remaining.decode()):
        return _remove(path)
    if remaining == current:
        return FileResult(path, "kept", "it contains no entry of cofio")
    files.write(path, remaining)
    return FileResult(path, "taken out")


def take_out(edits: Sequence[FileEdit], record: Manifest, takes: Mapping[str, Take]) -> list[FileResult]:
    """Remove our entries from files that have no record, for example after the home was lost."""
    results = []
    for edit in edits:
        current = files.read(edit.path)
        if current is None or str(edit.path) in record.entries:
            continue
        text = files.text_of(edit.path, current)
        try:
            remaining = takes[edit.kind](text, "", edit.ours)
        except MalformedConfig:
            continue  # not our format: nothing to remove
        if remaining != text and _is_empty(remaining):  # it contained only our entries
            results.append(_remove(edit.path))
        elif remaining != text:
            files.write(edit.path, remaining.encode())
            results.append(FileResult(edit.path, "taken out"))
    return results


def removed(copies: Sequence[FileCopy], record: Manifest) -> list[FileResult]:
    """Remove our own files that have no record, and their folder if it becomes empty."""
    results = []
    for copy in copies:
        current = files.read(copy.path)
        if current is not None and str(copy.path) not in record.entries and _is_of_ours(copy, current):
            results.append(_remove(copy.path))
    for folder in sorted({item.path.parent for item in results}, key=lambda item: len(str(item)), reverse=True):
        with suppress(OSError):  # the folder is not empty
            folder.rmdir()
            folder.parent.rmdir()
    return results


def _remove(path: Path) -> FileResult:
    files.remove(path)
    return FileResult(path, "removed")


def _is_empty(text: str) -> bool:
    return not text.strip("\ufeff{} \t\r\n")
