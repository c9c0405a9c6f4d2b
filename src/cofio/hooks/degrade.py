"""When the service does not answer: what can still be put before the agent, and the service started again.

    the store's file, read-only ─▶ the last briefing of the project (at a start) ─▶ nothing

The file rung knows words, not meanings, and it keeps no books on what it has given. So it only gives what fits well: a
memory must hold at least half of what the prompt's telling words weigh together (the rarer the heavier; a word that no
memory holds, half as much as the rarest), and two of them where more than two are known. What the service had given to
the session is not given again; what this rung gave may be. What speaks of a file that is gone is left out: a look at
the tree is all there is time for.
"""

from __future__ import annotations

import posix
import sqlite3
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from math import log

from cofio import briefing
from cofio.errors import InvalidInput
from cofio.hooks import apart, clients, recalled
from cofio.hooks.around import Around, configured
from cofio.hooks.wire import quoted
from cofio.wording import passage, telling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cofio.hooks.delivery import Run

AT_PROMPT = 5  # memories at most
_PATIENCE = 0.05  # seconds that another's lock is waited for
_READ = 4_000  # characters of a prompt that are looked at
_WORDS = 12  # telling words that are looked up
_DEPTH = 60  # memories of the prompt's words that are weighed
_SHARE = 0.5  # of what the words weigh together
_UNKNOWN = 0.5  # weight of a word that no memory holds, as a share of one that a single memory holds
_LEAST = 0.5  # weight below which even all of the words tell nothing
_NEWEST = 100  # newest memories of each group that are considered at a start
_STEPS = 1_000  # of SQLite's virtual machine between two looks at the clock
#: What tells a working tree from any other folder, as freshness has it.
SIGNS = (
    ".git", ".hg", ".jj", ".svn", "pyproject.toml", "package.json", "Cargo.toml", "go.mod", "pom.xml", "build.gradle",
    "build.gradle.kts", "CMakeLists.txt", "Makefile", "Gemfile", "composer.json", "setup.py", "justfile",
)  # fmt: skip
_SEEN = """
m.archived_at IS NULL AND (m.project IN (:project, '') OR m.visibility = 'global')
"""
_GIVEN = "EXISTS (SELECT 1 FROM given g WHERE g.memory_id = m.id AND g.client = :client AND g.session = :session)"
_OWN = "(:session <> '' AND m.session = :session AND (m.source = :client OR m.source LIKE :client || '/%'))"
_LINE = "m.id, m.text, m.speaker, m.source, m.created_at, m.kind, m.pinned"

_SIZE = "SELECT count(*) FROM memories"
_FREQUENCY = "SELECT count(*) FROM words WHERE words MATCH ?"
_HAS_ANCHORS = "SELECT count(*) FROM pragma_table_info('memories') WHERE name = 'anchors'"
_MATCHING = f"""
SELECT {_LINE}, m.project, {{anchors}} FROM words w CROSS JOIN memories m ON m.id = w.rowid
WHERE words MATCH :words AND {_SEEN} AND NOT {_GIVEN} AND NOT {_OWN}
ORDER BY bm25(words), m.id DESC LIMIT :depth
"""
_HOLDING = "SELECT rowid FROM words WHERE words MATCH ? AND rowid IN (SELECT value FROM json_each(?))"
#: The newest of each group; a plus sign keeps SQLite from reading all memories of the project by its index.
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
SELECT {_LINE}, m.category, m.project, m.visibility, m.occurrences, {{anchors}}, {_GIVEN} OR {_OWN}
FROM memories m WHERE m.id IN ({_START_IDS})
"""


def recall(run: Run) -> tuple[bytes, str]:
    """What the client is to be told, and from which rung: file, briefing or nothing."""
    try:
        happened = clients.event(run.client, run.raw)
    except InvalidInput:
        return b"", "nothing"
    until = run.began + run.seconds
    text, ids = _from_file(happened, run, until)
    if text:
        if happened.kind == "prompt":  # nobody asked for what is shown at a start: that is not a retrieval
            recalled.note(run.around.home, run.client, ids)
        return clients.reply(happened, text), "file"
    if text is None and happened.kind == "start":
        from cofio.hooks import briefings  # pathlib, tempfile and what they need

        told = briefings.get(run.around.home.decode("utf-8", "surrogateescape"), run.project)
        if told.startswith(f"<{briefing.TAG}>") and len(told) <= briefing.MAX_CHARS:
            return clients.reply(happened, told), "briefing"
    return b"", "nothing"


def _from_file(happened: clients.Event, run: Run, until: float) -> tuple[str | None, tuple[int, ...]]:
    """The block that the store's file gives and the ids in it; "" for nothing, None when it cannot be read."""
    if happened.kind == "prompt" and (briefing.is_trivial(happened.prompt) or happened.prompt.startswith("<")):
        return "", ()  # a client that speaks in the user's place begins with a tag
    path = store_path(run.around)
    if not path:
        return None, ()
    try:
        with closing(sqlite3.connect(f"file:{quoted(path)}?mode=ro", uri=True, timeout=_PATIENCE)) as file:
            file.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
            file.execute("PRAGMA query_only = 1")
            if happened.kind == "start":
                rule = _start_rule(run.around.start_tokens, time.time())
                return briefing.block(_start_lines(file, happened, run.project, rule), briefing.START)
            return briefing.block(_fitting(file, happened, run.project), briefing.PROMPT)
    except (sqlite3.Error, UnicodeError):
        return None, ()


def store_path(around: Around) -> str:
    """The file of the store, as the settings name it; "" where the memories are elsewhere."""
    if around.elsewhere:
        return ""
    home = around.home.decode("utf-8", "surrogateescape")
    told = around.store or _configured(around.home) or f"{home}/cofio.db"
    scheme, found, rest = told.partition("://")
    if found and scheme != "sqlite":
        return ""
    path = "/" + rest.lstrip("/") if found and rest.startswith("/") else rest if found else told
    path = path[1:] if path.startswith("/~") else path
    if path.startswith("~/"):
        path = around.user.decode("utf-8", "surrogateescape") + path[1:]
    return path


def _configured(home: bytes) -> str:
    told = configured(home)
    return "elsewhere://" if told.get("url") else str(told.get("store") or "")


# ── at a prompt ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _fitting(file: sqlite3.Connection, happened: clients.Event, where: str) -> list[briefing.Line]:
    """The memories that hold most of what the prompt asks about, best first."""
    words = [_phrase(word) for word in telling(happened.prompt[:_READ])[:_WORDS]]
    (size,) = file.execute(_SIZE).fetchone()
    weights = {word: _weight(file, word, size) for word in words}
    known = {word: weight for word, weight in weights.items() if weight}
    together = sum(known.values()) + _UNKNOWN * log(size + 1) * (len(words) - len(known))
    least, enough = max(_LEAST, _SHARE * together), 2 if len(known) > 2 else 1
    needed = " OR ".join(_needed(known, least))
    if not needed:
        return []
    rows = file.execute(_asking(file, _MATCHING), {"words": needed, "depth": _DEPTH, **_by(happened, where)}).fetchall()
    held = _held(file, list(known), [row[0] for row in rows])
    weighed = [(sum(known[word] for word in held[row[0]]), row) for row in rows if len(held[row[0]]) >= enough]
    best = sorted((each for each in weighed if each[0] >= least), key=lambda each: -each[0])
    there = (row for _, row in best if not _is_gone(str(row[7]), str(row[8])))
    return [_line(row) for row, _ in zip(there, range(AT_PROMPT), strict=False)]


def _needed(known: Mapping[str, float], least: float) -> list[str]:
    """The heaviest words, so many that the others alone could not weigh enough; none if all of them cannot."""
    kept: list[str] = []
    left = sum(known.values())
    for word in sorted(known, key=lambda word: -known[word]):
        if left < least:
            break
        kept.append(word)
        left -= known[word]
    return kept


def _phrase(word: str) -> str:
    return '"' + word.replace('"', '""') + '"'


def _weight(file: sqlite3.Connection, word: str, size: int) -> float:
    """How much a word tells: the more, the fewer memories hold it; 0 when none does."""
    (count,) = file.execute(_FREQUENCY, (word,)).fetchone()
    return max(0.0, log((size + 1) / count)) if count else 0.0


def _held(file: sqlite3.Connection, words: Sequence[str], ids: Sequence[int]) -> dict[int, list[str]]:
    held: dict[int, list[str]] = {each: [] for each in ids}
    for word in words:
        for (each,) in file.execute(_HOLDING, (word, str(list(ids)))):
            held[each].append(word)
    return held


# ── at a start ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _start_lines(
    file: sqlite3.Connection, happened: clients.Event, where: str, rule: briefing.StartRule
) -> list[briefing.Line]:
    """Return the lines for the start of a session, chosen as the service does, without those that the session has."""
    rows = file.execute(_asking(file, _KEPT), _by(happened, where)).fetchall()
    by_id = {int(row[0]): row for row in rows}

    def finish(entry: briefing.Entry) -> briefing.Line | None:
        row = by_id[entry.line.id]
        return None if _is_gone(str(row[8]), str(row[11])) else entry.line

    entries = [briefing.Entry(_line(row), str(row[7]), str(row[8]), str(row[9]), int(row[10])) for row in rows]
    return [line for line in briefing.select_start(entries, where, rule, finish) if not by_id[line.id][-1]]


def _start_rule(tokens: str, now: float) -> briefing.StartRule:
    limit = int(tokens) if tokens.isascii() and tokens.isdigit() else briefing.START_TOKENS
    today, until = (time.strftime("%Y-%m-%d", time.gmtime(at)) for at in (now, now + 86_400 * briefing.DUE_DAYS))
    return briefing.StartRule(limit, today, until)


def _line(row: Sequence[object]) -> briefing.Line:
    each, text, speaker, source, at, kind, pinned = row[:7]
    return briefing.Line(
        int(str(each)), passage(str(text), str(speaker)), str(source), str(at), str(kind), bool(pinned)
    )


def _asking(file: sqlite3.Connection, query: str) -> str:
    """The query, where the store has no anchors yet without them."""
    return query.format(anchors="m.anchors" if file.execute(_HAS_ANCHORS).fetchone()[0] else "'[]'")


def _is_gone(project: str, anchors: str) -> bool:
    """Whether a file of the project's tree that the memory speaks of is not there, though the tree is.

    Of a definition nobody can tell here: it may have moved.
    """
    if anchors == "[]" or not project.startswith("/") or not any(_is_there(f"{project}/{each}") for each in SIGNS):
        return False
    import json  # most memories speak of no file

    try:
        paths = [each["path"] for each in json.loads(anchors) if each["kind"] == "file"]
        return any(".." not in path.split("/") and not _is_there(f"{project}/{path}") for path in paths)
    except (ValueError, TypeError, KeyError, AttributeError):
        return False


def _is_there(path: str) -> bool:
    try:
        posix.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # nobody can tell
        return True
    return True


def _by(happened: clients.Event, where: str) -> dict[str, str]:
    """Who asks, in which project."""
    session = "" if happened.began in clients.ANEW else happened.session
    return {"project": where, "client": happened.client, "session": session}


# ── the service ───────────────────────────────────────────────────────────────────────────────────────────────────────


def start(around: Around) -> bool:
    """Start the service, detached, and wait for nothing; whether it was tried. One that runs already is left alone."""
    if not around.may_start or around.elsewhere:
        return False
    home = around.home.decode("utf-8", "surrogateescape")
    command = [sys.executable, "-P", "-m", "cofio", "--home", home, "up"]
    return apart.start(command, around.variables, around.home + b"/hook.start")
