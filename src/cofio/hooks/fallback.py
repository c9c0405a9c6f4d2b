"""Fallback recall without the service, and the restart of the service.

    store file, read-only ─▶ last briefing of the project (at a session start) ─▶ nothing

Recall from the file matches words only and keeps no record of injected memories. To stay precise, it returns only
memories whose matching terms account for at least half of the prompt's total IDF weight (a word in no memory counts
half as much as the rarest one), and at least two matching terms if more than two occur in any memory. Memories that the
service has injected into the session are not repeated; those injected here may be. Memories that reference a deleted
file are left out; there is no time for further freshness checks.
"""

from __future__ import annotations

import posix
import sqlite3
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from math import log

from cofio.errors import InvalidInput
from cofio.hooks import client_events, detached_process, offline_recall_log
from cofio.hooks.environment import HookEnvironment, configured
from cofio.hooks.http import percent_encode
from cofio.models.provenance import provenance_label
from cofio.text import briefing
from cofio.text.tokens import embedding_text, search_terms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cofio.hooks.runner import HookRun

AT_PROMPT = 5  # maximum number of memories
_PATIENCE = 0.05  # seconds to wait for a lock
_READ = 4_000  # characters of a prompt that are read
_WORDS = 12  # terms that are looked up
_DEPTH = 60  # candidate memories that are scored
_SHARE = 0.5  # minimum share of the total weight of the terms
_UNKNOWN = 0.5  # weight of a term in no memory, relative to a term in a single memory
_LEAST = 0.5  # minimum total weight
_NEWEST = 100  # newest memories per group considered at a session start
_STEPS = 1_000  # instructions of SQLite's virtual machine between two checks of the deadline
#: Files that mark a working tree, the same as in freshness.
SIGNS = (
    ".git", ".hg", ".jj", ".svn", "pyproject.toml", "package.json", "Cargo.toml", "go.mod", "pom.xml", "build.gradle",
    "build.gradle.kts", "CMakeLists.txt", "Makefile", "Gemfile", "composer.json", "setup.py", "justfile",
)  # fmt: skip
_VISIBLE = "m.archived_at IS NULL AND (m.project IN (:project, '') OR m.visibility = 'global')"
_INJECTED = (
    "EXISTS (SELECT 1 FROM injected_memories i"
    " WHERE i.memory_id = m.id AND i.client = :client AND i.session = :session)"
)
_OWN = "(:session <> '' AND m.session = :session AND (m.source = :client OR m.source LIKE :client || '/%'))"
_LINE = "m.id, m.text, m.speaker, m.source, m.created_at, m.kind, m.pinned, {provenance}, {user}, m.visibility"

#: Columns that the store of an older version lacks, with their value there.
_NEWER = {"anchors": "'[]'", "provenance": "''", "user": "''"}
_HAS_COLUMNS = "SELECT name FROM pragma_table_info('memories')"
_MATCHING = f"""
SELECT {_LINE}, m.project, {{anchors}} FROM words w CROSS JOIN memories m ON m.id = w.rowid
WHERE words MATCH :words AND {_VISIBLE} AND NOT {_INJECTED} AND NOT {_OWN} AND {{provenance}} <> 'pasted'
ORDER BY bm25(words), m.id DESC LIMIT :depth
"""
_HOLDING = "SELECT rowid FROM words WHERE words MATCH ? AND rowid IN (SELECT value FROM json_each(?))"
#: The newest of each group; the plus sign stops SQLite from scanning the project index instead.
_NEWEST_OF = f"""
SELECT id FROM (
    SELECT m.id FROM memories m WHERE {{group}} AND m.archived_at IS NULL
    AND (+m.project IN (:project, '') OR +m.visibility = 'global') ORDER BY m.id DESC LIMIT {_NEWEST}
)
"""
_START_IDS = " UNION ".join(
    _NEWEST_OF.format(group=group)
    for group in (
        "m.pinned = 1",
        "m.category = 'decision' AND m.kind = 'preference'",
        "m.category = 'decision' AND m.kind = 'policy'",
        "m.category = 'detail' AND m.kind = 'temporal'",
        "m.category = 'decision'",
        "m.category = 'learning'",
        "m.category = 'detail'",
    )
)
_KEPT = f"""
SELECT {_LINE}, m.category, m.project, m.occurrences, {{anchors}}, {_INJECTED} OR {_OWN}
FROM memories m WHERE m.id IN ({_START_IDS}) AND {{provenance}} <> 'pasted'
"""


def recall(run: HookRun) -> tuple[bytes, str]:
    """Return the reply for the client, and its source: file, briefing or nothing."""
    try:
        event = client_events.event(run.client, run.raw)
    except InvalidInput:
        return b"", "nothing"
    until = run.began + run.seconds
    text, ids = _read_file(event, run, until)
    if text:
        if event.kind == "prompt":  # a session start is not counted as a retrieval
            offline_recall_log.append_line(run.around.home, run.client, ids)
        return client_events.reply(event, text), "file"
    if text is None and event.kind == "start":
        from cofio.hooks import briefing_cache  # imports pathlib, which is slow

        cached = briefing_cache.load_briefing(run.around.home.decode("utf-8", "surrogateescape"), run.project)
        if cached.startswith(f"<{briefing.TAG}>") and len(cached) <= briefing.MAX_CHARS:
            return client_events.reply(event, cached), "briefing"
    return b"", "nothing"


def _read_file(event: client_events.Event, run: HookRun, until: float) -> tuple[str | None, tuple[int, ...]]:
    """Return the block and its memory ids from the store's file; "" for no match, None if the file cannot be read."""
    if event.kind == "prompt" and (briefing.is_trivial(event.prompt) or event.prompt.startswith("<")):
        return "", ()  # a prompt written by the client itself begins with a tag
    path = store_path(run.around)
    if not path:
        return None, ()
    try:
        with closing(sqlite3.connect(f"file:{percent_encode(path)}?mode=ro", uri=True, timeout=_PATIENCE)) as file:
            file.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
            file.execute("PRAGMA query_only = 1")
            if event.kind == "start":
                rule = _start_rule(run.around.start_tokens, time.time())
                return briefing.build_block(_start_lines(file, event, run.project, rule), briefing.START)
            return briefing.build_block(_select_matching(file, event, run.project), briefing.PROMPT)
    except (sqlite3.Error, UnicodeError):
        return None, ()


def store_path(around: HookEnvironment) -> str:
    """Return the path of the store's file; "" if the memories are not in a local file."""
    if around.elsewhere:
        return ""
    home = around.home.decode("utf-8", "surrogateescape")
    location = around.store
    if not location:
        values = configured(around.home)
        if values.get("url"):
            return ""
        location = str(values.get("store") or "") or f"{home}/cofio.db"
    scheme, separator, rest = location.partition("://")
    if separator and scheme != "sqlite":
        return ""
    path = "/" + rest.lstrip("/") if separator and rest.startswith("/") else rest if separator else location
    path = path[1:] if path.startswith("/~") else path
    if path.startswith("~/"):
        path = around.user.decode("utf-8", "surrogateescape") + path[1:]
    return path


def _select_matching(file: sqlite3.Connection, event: client_events.Event, project: str) -> list[briefing.BriefingLine]:
    """Return the memories that match most of the prompt's weight, best first."""
    words = ['"' + word.replace('"', '""') + '"' for word in search_terms(event.prompt[:_READ])[:_WORDS]]
    (size,) = file.execute("SELECT count(*) FROM memories").fetchone()
    weights: dict[str, float] = {}  # IDF weights of the words that occur in any memory
    for word in words:
        (count,) = file.execute("SELECT count(*) FROM words WHERE words MATCH ?", (word,)).fetchone()
        if 0 < count <= size:
            weights[word] = log((size + 1) / count)
    total = sum(weights.values()) + _UNKNOWN * log(size + 1) * (len(words) - len(weights))
    least, enough = max(_LEAST, _SHARE * total), 2 if len(weights) > 2 else 1
    query = " OR ".join(_select_needed(weights, least))
    if not query:
        return []

    parameters = {"words": query, "depth": _DEPTH, **_make_parameters(event, project)}
    rows = file.execute(_format_query(file, _MATCHING), parameters).fetchall()
    weights_by_id: dict[int, list[float]] = {row[0]: [] for row in rows}
    for word, weight in weights.items():
        for (memory_id,) in file.execute(_HOLDING, (word, str(list(weights_by_id)))):
            weights_by_id[memory_id].append(weight)
    scored = [(sum(weights_by_id[row[0]]), row) for row in rows if len(weights_by_id[row[0]]) >= enough]
    best = sorted((pair for pair in scored if pair[0] >= least), key=lambda pair: -pair[0])
    present = (row for _, row in best if not _is_gone(str(row[10]), str(row[11])))
    return [_make_line(row) for row, _ in zip(present, range(AT_PROMPT), strict=False)]


def _select_needed(weights: Mapping[str, float], least: float) -> list[str]:
    """Return the heaviest words: a memory with none of them cannot reach `least`. Empty if all together cannot."""
    chosen: list[str] = []
    remaining = sum(weights.values())
    for word in sorted(weights, key=lambda word: -weights[word]):
        if remaining < least:
            break
        chosen.append(word)
        remaining -= weights[word]
    return chosen


def _start_lines(
    file: sqlite3.Connection, event: client_events.Event, project: str, rule: briefing.StartRule
) -> list[briefing.BriefingLine]:
    """Return the lines for a session start, selected as by the service, without those that the session has."""
    rows = file.execute(_format_query(file, _KEPT), _make_parameters(event, project)).fetchall()
    by_id = {int(row[0]): row for row in rows}

    def finish(entry: briefing.BriefingEntry) -> briefing.BriefingLine | None:
        row = by_id[entry.line.id]
        return None if _is_gone(str(row[11]), str(row[13])) else entry.line

    entries = [
        briefing.BriefingEntry(_make_line(row), str(row[10]), str(row[11]), str(row[9]), int(row[12])) for row in rows
    ]
    return [line for line in briefing.select_start(entries, project, rule, finish) if not by_id[line.id][-1]]


def _start_rule(tokens: str, now: float) -> briefing.StartRule:
    limit = int(tokens) if tokens.isascii() and tokens.isdigit() else briefing.START_TOKENS
    today, until = (time.strftime("%Y-%m-%d", time.gmtime(at)) for at in (now, now + 86_400 * briefing.DUE_DAYS))
    return briefing.StartRule(limit, today, until)


def _make_line(row: Sequence[object]) -> briefing.BriefingLine:
    memory_id, text, speaker, source, at, kind, pinned, provenance, user, visibility = row[:10]
    return briefing.BriefingLine(
        int(str(memory_id)),
        embedding_text(str(text), str(speaker)),
        str(source),
        str(at),
        str(kind),
        bool(pinned),
        said=provenance_label(str(provenance), str(user), str(visibility)),
    )


def _format_query(file: sqlite3.Connection, query: str) -> str:
    """Return the query with the newer columns, or their values for a store that has none yet."""
    columns = {name for (name,) in file.execute(_HAS_COLUMNS)}
    return query.format(**{name: f'm."{name}"' if name in columns else value for name, value in _NEWER.items()})


def _is_gone(project: str, anchors: str) -> bool:
    """Return whether a file that the memory references is missing from the project's tree, while the tree exists.

    Definitions are not checked: they may have moved.
    """
    if anchors == "[]" or not project.startswith("/") or not any(_is_there(f"{project}/{name}") for name in SIGNS):
        return False
    import json  # rarely needed: most memories reference no file

    try:
        paths = [anchor["path"] for anchor in json.loads(anchors) if anchor["kind"] == "file"]
        return any(".." not in path.split("/") and not _is_there(f"{project}/{path}") for path in paths)
    except (ValueError, TypeError, KeyError, AttributeError):
        return False


def _is_there(path: str) -> bool:
    try:
        posix.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # unknown: count as present
        return True
    return True


def _make_parameters(event: client_events.Event, project: str) -> dict[str, str]:
    session = "" if event.began in client_events.ANEW else event.session
    return {"project": project, "client": event.client, "session": session}


def start(around: HookEnvironment) -> bool:
    """Start the service, detached, unless it runs; return whether it was tried."""
    if not around.may_start or around.elsewhere:
        return False
    home = around.home.decode("utf-8", "surrogateescape")
    command = [sys.executable, "-P", "-m", "cofio", "--home", home, "up"]
    return detached_process.start(command, around.variables, around.home + b"/hook.start")
