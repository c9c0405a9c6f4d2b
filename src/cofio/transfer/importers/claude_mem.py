"""Reader of claude-mem's SQLite file, ~/.claude-mem/claude-mem.db.

    observations        each of its `facts`, with title and narrative as context; without any, the narrative
    session_summaries   the `learned` column; request, completed work and plans are not imported
    memories            the text (the first versions, before there were observations)

Tested with files of 10.6.3 and 13.25.3. Older versions follow the schema from which later ones migrate.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from cofio.errors import InvalidInput
from cofio.transfer.importers import sqlite_reader
from cofio.transfer.importers.base import Found, Importer, check_exists, object_of, to_fact, to_list

_NAME = "claude-mem"
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
    with sqlite_reader.opened(_find_file(check_exists(path, "claude-mem.db"))) as db:
        shapes = _find_tables(db, path)
        trees = _find_trees(db, shapes)
        for table, columns in shapes.items():
            for row in sqlite_reader.rows(db, table, columns):
                yield from _FACTS_OF[table](dict(row), trees)


def _read_observation(row: dict[str, Any], trees: Trees) -> Iterator[Found]:
    title = ". ".join(part for part in (_get_text(row, "title"), _get_text(row, "subtitle")) if part)
    narrative = _get_text(row, "narrative") or _get_text(row, "text")
    facts = to_list(row.get("facts"))
    kind = _KIND_OF.get(_get_text(row, "type"), "other")
    shared = {
        "kind": kind,
        "category": "learning" if kind == "other" else "",
        "tags": to_list(row.get("concepts")),
        "agent": _get_text(row, "agent_type"),
    }
    for number, fact in enumerate(dict.fromkeys(facts), 1):
        context = "\n".join(part for part in (title, narrative) if part)
        yield _make_fact(f"observation/{row['at_row']}#{number}", fact, row, trees, context=context, **shared)
    if not facts:
        context = title if narrative else ""
        yield _make_fact(f"observation/{row['at_row']}", narrative or title, row, trees, context=context, **shared)


def _read_summary(row: dict[str, Any], trees: Trees) -> Iterator[Found]:
    if learned := _get_text(row, "learned"):
        yield _make_fact(
            f"summary/{row['at_row']}", learned, row, trees, kind="learning", context=_get_text(row, "request")
        )


def _read_memory(row: dict[str, Any], trees: Trees) -> Iterator[Found]:
    tags = to_list(row.get("keywords"))
    yield _make_fact(f"memory/{row['at_row']}", row.get("text"), row, trees, category="learning", tags=tags)


_FACTS_OF = {"observations": _read_observation, "session_summaries": _read_summary, "memories": _read_memory}


def _make_fact(name: str, text: Any, row: Mapping[str, Any], trees: Trees, *, context: str = "", **rest: Any) -> Found:
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
        **rest,
    )


def _get_text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    return value.strip() if isinstance(value, str) else ""


# ── project paths ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _find_trees(db: sqlite3.Connection, shapes: Mapping[str, list[str]]) -> Trees:
    """Return the working tree of each project, where it can be derived. The file has only the name of the folder."""
    tree_by_project: dict[str, str] = {}
    columns = [
        column for column in shapes.get("observations", ()) if column in ("project", "files_read", "files_modified")
    ]
    if len(columns) < 3:
        return tree_by_project
    for row in islice(sqlite_reader.rows(db, "observations", columns), _LOOKED_THROUGH):
        project = _get_text(dict(row), "project")
        if project and project not in tree_by_project:
            files = (*to_list(row["files_read"]), *to_list(row["files_modified"]))
            tree = next((tree for file in files if (tree := _find_tree(project, file))), "")
            if tree:
                tree_by_project[project] = tree
    return tree_by_project


def _find_tree(project: str, file: str) -> str:
    """Return the folder of the project's name above an absolute path; "" unless there is exactly one."""
    name = project.rsplit("/", 1)[-1]
    above = [folder for folder in PurePosixPath(file).parents if folder.name == name] if file.startswith("/") else []
    return str(above[0]) if len(above) == 1 else ""


# ── the database ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _find_tables(db: sqlite3.Connection, path: Path) -> dict[str, list[str]]:
    """Return the tables that hold memories, with the wanted columns that each has."""
    shapes = _select_tables(sqlite_reader.tables(db))
    if not shapes:
        hint = (
            "Such a database has a table `observations` or, in old versions, `memories` with a column archive_basename."
        )
        raise InvalidInput(f"{path} is not a database of claude-mem.", hint)
    return shapes


def _select_tables(columns_by_table: Mapping[str, list[str]]) -> dict[str, list[str]]:
    return {
        table: [column for column in names if column in columns_by_table[table]]
        for table, names in _WANTED.items()
        if set(columns_by_table.get(table, ())) >= _NEEDED[table]
    }


def _find_file(path: Path) -> Path:
    return path / "claude-mem.db" if path.is_dir() else path


def _count(path: Path) -> int:
    """Return the number of facts, without making them."""
    with sqlite_reader.opened(_find_file(path)) as db:
        shapes = _find_tables(db, path)
        number = sqlite_reader.total(db, "memories") if "memories" in shapes else 0
        if "session_summaries" in shapes:
            number += sqlite_reader.total(db, "session_summaries", "trim(coalesce(learned, '')) != ''")
        if "observations" in shapes:
            facts = [column for column in ("facts",) if column in shapes["observations"]]
            number += sum(
                max(1, len(set(to_list(row["facts"]))) if facts else 1)
                for row in sqlite_reader.rows(db, "observations", facts or ["project"])
            )
    return number


def _fits(path: Path) -> bool:
    return bool(_select_tables(sqlite_reader.shapes(_find_file(path))))


READER = Importer(name=_NAME, says="the database of claude-mem (claude-mem.db)", read=_read, count=_count, fits=_fits)
