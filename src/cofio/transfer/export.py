"""Export as lines of JSON: a header, one line per memory by id, one per row of domain knowledge.

The same memories always give the same bytes. So there is no time of export, keys are in the order of the fields, and
sightings are sorted.
"""

from __future__ import annotations

import json
import os
import secrets
from base64 import b64encode
from collections.abc import Iterable, Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from cofio.errors import Conflict, InvalidInput
from cofio.models.domain_knowledge import TABLES, Knowledge
from cofio.models.memory import Memory
from cofio.ports import Snapshots, Store

VERSION = 2  # an export without domain knowledge keeps version 1
KIND = "knowledge"  # key of row lines only; its value is the table
_PAGE = 1_000  # memories and rows read at a time
_FIELDS = tuple(field.name for field in fields(Memory))


def export_lines(store: Store, *, vectors: bool = False) -> Iterator[str]:
    """Yield the export line by line, each with its newline, from one snapshot."""
    identity = store.snapshots.identity()
    embedder = store.stats()["embedder"] if vectors else None
    with store.snapshots.snapshot() as carrying:
        count, last = carrying.counts()
        row_count = sum(1 for _ in _iter_knowledge(carrying))
        header: dict[str, Any] = {"cofio": "export", "version": VERSION if row_count else 1}
        if count or row_count:  # exports of empty stores are all the same
            header["store"] = identity
        header.update(memories=count, last_id=last, **({"knowledge": row_count} if row_count else {}))
        if vectors:
            if store.stats()["embedder"] != embedder:
                hint = "Export when `cofio reembed` has finished, or export without vectors."
                raise Conflict("The store is being re-embedded.", hint)
            header.update({"embedder": embedder} if count else {})
        yield _to_line(header)
        after = 0
        while rows := carrying.rows(after, _PAGE, vectors=vectors):
            for exported in rows:
                plain = {name: getattr(exported.memory, name) for name in _FIELDS}
                plain["anchors"] = [asdict(anchor) for anchor in exported.memory.anchors]
                plain["sightings"] = [asdict(sighting) for sighting in exported.sightings]
                if exported.vector is not None:
                    plain["vector"] = b64encode(exported.vector).decode()
                yield _to_line(plain)
            after = rows[-1].memory.id
        for row in _iter_knowledge(carrying):
            yield _to_line(row_to_dict(row))


def row_to_dict(row: Knowledge) -> dict[str, Any]:
    """Return a row of domain knowledge as the object on a line."""
    return {KIND: row.TABLE, **row.as_dict()}


def _iter_knowledge(carrying: Snapshots) -> Iterator[Knowledge]:
    """Yield every row of domain knowledge, by table and id."""
    for table in TABLES:
        after = ""
        while rows := carrying.knowledge(table, after, _PAGE):
            yield from rows
            after = rows[-1].id


def _to_line(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"


def write(lines: Iterable[str], path: Path, *, force: bool = False) -> int:
    """Write the lines to a file readable by its owner only, atomically; return the number of bytes.

    An existing file is kept, unless `force` is set.
    """
    path = path.resolve()  # a symbolic link is kept
    half = path.with_name(f".{path.name[:100]}-{secrets.token_hex(8)}.half")
    _refuse_if_there(path, force)
    try:
        with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            for line in lines:
                file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())
            written = file.tell()
        _refuse_if_there(path, force)
        half.replace(path)
    except OSError as error:
        hint = "Check its permissions, or name another file."
        raise InvalidInput(f"{path} cannot be written: {error.strerror}.", hint) from error
    finally:
        half.unlink(missing_ok=True)
    return written


def _refuse_if_there(path: Path, force: bool) -> None:
    if path.is_dir():
        raise InvalidInput(f"{path} is a folder.", "Name a file to export to.")
    if path.exists() and not path.is_file():
        raise InvalidInput(f"{path} is not a regular file.", "Name another file, or - for the standard output.")
    if path.exists() and not force:
        raise InvalidInput(f"{path} exists already.", "Name another file, or give --force to replace it.")
