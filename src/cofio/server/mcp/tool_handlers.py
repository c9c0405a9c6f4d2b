"""Implementation of the MCP tools, with strict validation of the agent's arguments."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Unpack

from cofio.errors import InvalidInput
from cofio.hooks import project as projects
from cofio.models.episodes import EpisodeHit
from cofio.models.exchange import CaptureStatus, ExchangeKwargs
from cofio.models.memory import (
    MAX_HITS,
    MAX_LABEL,
    Briefing,
    Change,
    FactKwargs,
    FreshnessResult,
    Hit,
    Memory,
    Page,
    Project,
    QueryKwargs,
    ScopeKwargs,
    check_bool,
    check_int,
    check_text,
)
from cofio.models.sessions import ResumeReport
from cofio.server.mcp.tool_results import (
    ToolResult,
    about_changes,
    about_learning,
    about_memories,
    as_episode,
    as_hit,
    as_memory,
    hits_sentence,
    text_result,
    with_episodes,
    with_report,
)

BY = "mcp"  # actor name in the journal
EVERYWHERE = "*"  # project value that selects all projects
HITS, MOST_HITS = 5, 20
CHANGES = 20  # changes of a memory per page
#: Clients' own names that differ from the names in the hooks.
KNOWN_AS = {"codex-mcp-client": "codex"}


class MemoriesLike(Protocol):
    """Keeper or Client of the service, as far as the tools need it."""

    def search(self, query: str, *, by: str = ..., **how: Unpack[QueryKwargs]) -> Sequence[Hit]: ...
    def search_episodes(
        self, query: str, *, k: int = ..., skip: int = ..., visible_in: str | None = ...
    ) -> Sequence[EpisodeHit]: ...
    def add(self, fact: str, *, by: str = ..., **about: Unpack[FactKwargs]) -> Change: ...
    def supersede(self, old_id: int, new: str, *, by: str = ...) -> tuple[Change, Change]: ...
    def delete(self, memory_id: int, *, by: str = ..., why: str = ...) -> Change: ...
    def history(self, memory_id: int) -> Sequence[Change]: ...
    def capture(
        self, messages: str, *, wait: bool = ..., by: str = ..., **about: Unpack[ExchangeKwargs]
    ) -> CaptureStatus: ...
    def get(self, memory_id: int) -> Memory: ...
    def freshness(self, memory_id: int) -> FreshnessResult: ...
    def list(self, *, limit: int = ..., after: int | None = ..., **within: Unpack[ScopeKwargs]) -> Page: ...
    def projects(self, *, limit: int = ..., after: str = ...) -> Sequence[Project]: ...
    def recall(self, prompt: str = ..., *, project: str = ..., by: str = ...) -> Briefing: ...
    def resume(self, project: str | None = ...) -> ResumeReport: ...


@dataclass(frozen=True, slots=True)
class Caller:
    """Caller, with its current project."""

    project: str | None = ""  # default of calls; None if unknown
    client: str = BY
    named: Callable[[str], str] = str  # maps a name to a project; a folder path is one, too
    by: str = BY
    within: Callable[[str], str] = (
        str  # maps a source into the reach of the caller's key: no tool lets an agent choose one
    )

    def visible_in(self, project: Any) -> ScopeKwargs:
        """Return the search scope: the given or current project; everywhere, if requested or if none is known."""
        where = self._resolve_project(project)
        return {} if where in (None, EVERYWHERE) else {"visible_in": where or ""}

    def kept_in(self, project: Any) -> str:
        """Return the project of a new memory; "" for none."""
        where = self._resolve_project(project)
        if where == EVERYWHERE:
            hint = 'Omit `project`, name one, or give "" for none.'
            raise InvalidInput("A memory belongs to one project.", hint)
        return where or ""

    def source(self, project: str) -> str:
        """Return the source of memories that this caller adds: client/name."""
        return self.within("/".join(part for part in (self.client, projects.name(project)) if part)[:MAX_LABEL])

    def _resolve_project(self, project: Any) -> str | None:
        if project is None:
            return self.project
        return self.named(check_text(project, "project", MAX_LABEL).strip())


def folder_or_name(name: str) -> str:
    """Return the project of a local folder if the name is its path; else the name itself."""
    try:
        is_folder = name.startswith("/") and Path(name).is_dir()
    except OSError:  # such as a name that is too long for a path
        is_folder = False
    return projects.project_of(name) if is_folder else name


def search(
    memories: MemoriesLike,
    caller: Caller,
    *,
    query: Any,
    project: Any = None,
    limit: Any = HITS,
    cursor: Any = 0,
    episodes: Any = False,
    resume: Any = False,
) -> ToolResult:
    """Return matching memories of the project and those without a project, best first. A full page has a cursor.

    `episodes` adds matches from earlier conversations, `resume` where the last sessions stopped.
    """
    most, skip = _number(limit, "limit", least=1, most=MOST_HITS), _number(cursor, "cursor", least=0, most=MAX_HITS)
    check_bool(episodes, "episodes")
    check_bool(resume, "resume")
    where = caller.visible_in(project)
    hits = memories.search(query, by=caller.by, k=most, skip=skip, **where)
    passages = (
        memories.search_episodes(query, k=most, skip=skip, visible_in=where.get("visible_in")) if episodes else []
    )
    more = skip + most if most in (len(hits), len(passages)) and skip + most <= MAX_HITS else None
    none = "No more memories match." if skip else "No memory matches."
    result = about_memories(hits_sentence(hits, none), [as_hit(hit) for hit in hits], more=more)
    if episodes:
        result = with_episodes(result, [as_episode(hit) for hit in passages])
    return with_report(result, memories.resume(where.get("visible_in"))) if resume else result


def add(memories: MemoriesLike, caller: Caller, *, text: Any, kind: Any = "other", project: Any = None) -> ToolResult:
    """Store a fact, unless it is known."""
    where = caller.kept_in(project)
    change = memories.add(text, by=caller.by, kind=kind, project=where, source=caller.source(where))
    number = {"id": change.memory_id, "changeset": change.changeset}
    if change.action == "update":
        old = change.memory.supersedes
        back = f"`cofio undo {change.changeset}` reverts that."
        says = f"Remembered as memory {change.memory_id} in place of {old}, which is archived. {back}"
        return text_result(says, new=True, replaced=old, **number)
    if change.action == "add" and change.near:
        says = f"Remembered as memory {change.memory_id}. It may replace these; memory_forget archives one."
        return about_memories(says, [as_memory(memory) for memory in change.near], new=True, **number)
    if change.action == "add":
        return text_result(f"Remembered as memory {change.memory_id}.", new=True, **number)
    says = f"Memory {change.memory_id} already says so."
    return about_memories(says, [as_memory(change.memory)], new=False, **number)


def update(memories: MemoriesLike, caller: Caller, *, id: Any, text: Any) -> ToolResult:  # noqa: A002
    """Replace a memory by a new text; the old one is archived."""
    old = _number(id, "id")
    written, _archived = memories.supersede(old, text, by=caller.by)
    back = f"`cofio undo {written.changeset}` reverts that."
    says = f"Memory {written.memory_id} replaces {old}, which is archived. {back}"
    return text_result(says, id=written.memory_id, replaced=old, changeset=written.changeset)


def forget(memories: MemoriesLike, caller: Caller, *, id: Any, reason: Any = "") -> ToolResult:  # noqa: A002
    """Archive a memory."""
    why = check_text(reason, "reason", MAX_LABEL).strip()
    change = memories.delete(_number(id, "id"), by=caller.by, why=why)
    restore = f"cofio restore {change.memory_id}"
    says = f"Memory {change.memory_id} is archived and will not be recalled. `{restore}` restores it."
    return about_memories(says, [as_memory(change.memory)], restore=restore, changeset=change.changeset)


def history(memories: MemoriesLike, _caller: Caller, *, id: Any, cursor: Any = 0) -> ToolResult:  # noqa: A002
    """Return a page of a memory's changes, oldest first."""
    number, skip = _number(id, "id"), _number(cursor, "cursor", least=0)
    return about_changes(number, memories.history(number), skip, CHANGES)


def extract(memories: MemoriesLike, caller: Caller, *, text: Any, project: Any = None) -> ToolResult:
    """Learn from a longer text. It is stored first: nothing is lost if learning is delayed."""
    where = caller.kept_in(project)
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput("The text is empty.", "Give what was said, or notes, as text.")
    turn = hashlib.sha256(f"{where}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
    status = memories.capture(
        text,
        wait=True,
        by=caller.by,
        project=where,
        source=caller.source(where),
        client=caller.client,
        session=BY,
        turn=turn,  # the same text again is the same turn
    )
    return about_learning(status)


def _number(value: Any, name: str, **bounds: int) -> int:
    """Return an integer; models send some of them as strings."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
        value = int(value)
    return check_int(value, name, **bounds)
