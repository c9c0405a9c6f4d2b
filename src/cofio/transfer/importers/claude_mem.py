"""Reader of claude-mem's SQLite file, ~/.claude-mem/claude-mem.db.

    observations        each of its `facts`, with title and narrative as context; without any, the narrative
    session_summaries   the `learned` column; request, completed work and plans are not imported
    memories            the text (the first versions, before there were observations)

Tested with files of 10.6.3 and 13.25.3. Older versions follow the schema from which later ones migrate.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from cofio.errors import InvalidInput
from cofio.transfer.importers import sqlite_reader
from cofio.transfer.importers.base import Found, Importer, check_exists, object_of, to_fact, to_list

_NAME, _FILE = "claude-mem", "claude-mem.db"
_SESSIONS = ("memory_session_id", "sdk_session_id", "session_id")  # newer and older column names
_LOOKED_THROUGH = 5_000  # rows searched for the paths of projects
_CONTEXT = 2_000  # characters
#: Columns read from each table, if the version has them.
_WANTED = {
    "observations": (
        *_SESSIONS, "project", "text", "type", "title", "subtitle", "facts", "narrative", "concepts", "files_read",
        "files_modified", "prompt_number", "created_at", "created_at_epoch", "generated_by_model", "agent_type",
        "metadata",
    ),
    "session_summaries": (
        *_SESSIONS, "project", "request", "learned", "files_read", "files_edited", "prompt_number", "created_at",
        "created_at_epoch",
    ),
    "memories": (*_SESSIONS, "text", "keywords", "project", "document_id", "created_at", "created_at_epoch"),
}  # fmt: skip
_NEEDED = {
    "observations": {"project", "type", "created_at_epoch"},
    "session_summaries": {"project", "learned", "created_at_epoch"},
    "memories": {"text", "archive_basename", "created_at_epoch"},
}
#: Kind of each type: findings and decisions are lasting, completed work is a detail.
_KIND_OF = {
    "decision": "decision",
    "discovery": "learning",
    "bugfix": "learning",
    "security_alert": "learning",
    "security_note": "learning",
    "feature": "observation",
    "refactor": "observation",
    "change": "observation",
}
_NOTED = ("type", "files_read", "files_modified", "files_edited", "prompt_number", "generated_by_model", "document_id")

Trees = Mapping[str, str]


def _read(path: Path) -> Iterator[Found]:
    with sqlite_reader.opened(sqlite_reader.file_in(check_exists(path, "claude-mem.db"), _FILE)) as db:
        columns_by_table = _find_tables(db, path)
        trees = _find_trees(db, columns_by_table.get("observations", []))
        for table, columns in columns_by_table.items():
            for row in sqlite_reader.rows(db, table, columns):
                yield from _FACTS_OF[table](dict(row), trees)


def _read_observation(row: dict[str, Any], trees: Trees) -> Iterator[Found]:
    title = ". ".join(part for part in (_get_text(row, "title"), _get_text(row, "subtitle")) if part)
    narrative = _get_text(row, "narrative") or _get_text(row, "text")
    facts = to_list(row.get("facts"))
    kind = _KIND_OF.get(_get_text(row, "type"), "other")
    name, context = f"observation/{row['at_row']}", "\n".join(part for part in (title, narrative) if part)
    entries = [(f"{name}#{number}", fact, context) for number, fact in enumerate(dict.fromkeys(facts), 1)]
    for entry_name, text, about in entries or [(name, narrative or title, title if narrative else "")]:
        yield _make_fact(
            entry_name,
            text,
            row,
            trees,
            context=about,
            kind=kind,
            category="learning" if kind == "other" else "",
            tags=to_list(row.get("concepts")),
            agent=_get_text(row, "agent_type"),
        )


def _read_summary(row: dict[str, Any], trees: Trees) -> Iterator[Found]:
    if learned := _get_text(row, "learned"):
        yield _make_fact(
            f"summary/{row['at_row']}", learned, row, trees, kind="learning", context=_get_text(row, "request")
        )


def _read_memory(row: dict[str, Any], trees: Trees) -> Iterator[Found]:
    tags = to_list(row.get("keywords"))
    yield _make_fact(f"memory/{row['at_row']}", row.get("text"), row, trees, category="learning", tags=tags)


_FACTS_OF = {"observations": _read_observation, "session_summaries": _read_summary, "memories": _read_memory}


def _make_fact(
    name: str, text: Any, row: Mapping[str, Any], trees: Trees, *, context: str = "", **fields: Any
) -> Found:
    """Return the fact. Row numbers are not unique across files, so the session is part of the name."""
    session = next((value for column in _SESSIONS if (value := _get_text(row, column))), "")
    project = _get_text(row, "project")
    files = {column: to_list(row.get(column)) for column in _NOTED if column.startswith("files_")}
    return to_fact(
        _NAME,
        f"{session}/{name}",
        text,
        source=f"{_NAME}/{project}" if project else _NAME,
        project=trees.get(project, project),
        session=session,
        context=context[:_CONTEXT],
        created_at=row.get("created_at_epoch") or row.get("created_at"),
        notes={**object_of(row.get("metadata")), **{column: row.get(column) for column in _NOTED}, **files},
        **fields,
    )


def _get_text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    return value.strip() if isinstance(value, str) else ""


def _find_trees(db: sqlite3.Connection, columns: Collection[str]) -> Trees:
    """Return the working tree of each project, where it can be derived. The file has only the name of the folder.

    It is the only folder of that name above an absolute path in an observation.
    """
    wanted = ("project", "files_read", "files_modified")
    tree_by_project: dict[str, str] = {}
    rows = sqlite_reader.rows(db, "observations", wanted) if set(wanted) <= set(columns) else iter(())
    for row in islice(rows, _LOOKED_THROUGH):
        project = _get_text(dict(row), "project")
        name = project.rsplit("/", 1)[-1]
        for file in (*to_list(row["files_read"]), *to_list(row["files_modified"])):
            above = [folder for folder in PurePosixPath(file).parents if folder.name == name]
            if project and file.startswith("/") and len(above) == 1:
                tree_by_project.setdefault(project, str(above[0]))
    return tree_by_project


def _find_tables(db: sqlite3.Connection, path: Path) -> dict[str, list[str]]:
    """Return the tables that hold memories, with the wanted columns that each has."""
    columns_by_table = _select_tables(sqlite_reader.tables(db))
    if not columns_by_table:
        hint = (
            "Such a database has a table `observations` or, in old versions, `memories` with a column archive_basename."
        )
        raise InvalidInput(f"{path} is not a database of claude-mem.", hint)
    return columns_by_table


def _select_tables(columns_by_table: Mapping[str, list[str]]) -> dict[str, list[str]]:
    return {
        table: [column for column in names if column in columns_by_table[table]]
        for table, names in _WANTED.items()
        if set(columns_by_table.get(table, ())) >= _NEEDED[table]
    }


def _count(path: Path) -> int:
    """Return the number of facts, without making them."""
    with sqlite_reader.opened(sqlite_reader.file_in(path, _FILE)) as db:
        columns_by_table = _find_tables(db, path)
        number = sqlite_reader.total(db, "memories") if "memories" in columns_by_table else 0
        if "session_summaries" in columns_by_table:
            number += sqlite_reader.total(db, "session_summaries", "trim(coalesce(learned, '')) != ''")
        if "facts" in columns_by_table.get("observations", ()):
            rows = sqlite_reader.rows(db, "observations", ["facts"])
            number += sum(max(1, len(set(to_list(row["facts"])))) for row in rows)
        elif "observations" in columns_by_table:
            number += sqlite_reader.total(db, "observations")
    return number


READER = Importer(
    name=_NAME,
    says="the database of claude-mem (claude-mem.db)",
    read=_read,
    count=_count,
    fits=lambda path: bool(_select_tables(sqlite_reader.shapes(sqlite_reader.file_in(path, _FILE)))),
)
