"""MCP tools: names, descriptions, schemas, and the functions behind them. Independent of the protocol."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from cofio.errors import InvalidInput, NotFound
from cofio.models.exchange import AGENT_TEXT
from cofio.models.memory import KINDS, MAX_HITS, MAX_LABEL, Change, check_bool, check_int, check_text
from cofio.providers import prompts
from cofio.server.mcp.caller import BY, EVERYWHERE, Caller, MemoriesLike
from cofio.server.mcp.tool_results import (
    ToolResult,
    about_changes,
    about_learning,
    about_memories,
    as_episode,
    as_hit,
    as_memory,
    hits_sentence,
    shorten,
    text_result,
    with_episodes,
)
from cofio.text.briefing import NOTICE

HITS, MOST_HITS = 5, 20
CHANGES = 20  # changes of a memory per page


class OpenMemories(Protocol):
    """Function that opens the memories for one call; with `new`, the store is created if missing."""

    def __call__(self, *, new: bool) -> AbstractContextManager[MemoriesLike]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """Declaration of a tool."""

    name: str
    title: str
    says: str  # the description by which an agent selects it
    takes: Mapping[str, Mapping[str, Any]]  # a JSON schema per argument
    needs: tuple[str, ...]
    gives: Mapping[str, Mapping[str, Any]]  # besides the sentence and the notice
    may_give: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # only on request
    pages: bool = False  # returns a page, with the cursor of the next one
    does: Callable[..., ToolResult]
    reads: bool = False  # read-only
    replaces: bool = False  # may archive or replace a memory
    repeats: bool = False  # idempotent
    begins: bool = False  # may create a store

    @property
    def input_schema(self) -> dict[str, Any]:
        properties = {"properties": dict(self.takes), "required": list(self.needs)}
        return {"type": "object", **properties, "additionalProperties": False}

    def as_listed(self) -> dict[str, Any]:
        """Return the tool as listed to clients."""
        following = {"next": {"type": "integer", "description": "The cursor of the next page."}} if self.pages else {}
        gives = {"says": _TEXT, "notice": _TEXT, **self.gives, **self.may_give, **following}
        return {
            "name": self.name,
            "title": self.title,
            "description": self.says,
            "inputSchema": self.input_schema,
            "outputSchema": {"type": "object", "properties": gives, "required": ["says", *self.gives]},
            "annotations": {
                "readOnlyHint": self.reads,
                "destructiveHint": self.replaces,
                "idempotentHint": self.reads or self.repeats,
                "openWorldHint": False,
            },
        }


def instructions() -> str:
    """Return usage instructions for agents, with the tools that they do not mention. Clients truncate them at 2 KB."""
    text = prompts.read("mcp")
    return text + "".join(f"\n{tool.name}: {tool.says}" for tool in TOOLS if tool.name not in text)


def find_tool(name: str) -> Tool:
    """Return the tool of this name."""
    tool = _BY_NAME.get(name)
    if tool is None:
        raise NotFound(f"There is no tool {shorten(name, 100)!r}.", f"Give one of: {', '.join(_BY_NAME)}.")
    return tool


def answer(name: str, arguments: Mapping[str, Any], caller: Caller, reach: OpenMemories) -> ToolResult:
    """Run a tool. Every error raised is a CofioError. An argument that is null counts as omitted."""
    tool = find_tool(name)
    values = {argument: value for argument, value in arguments.items() if value is not None}
    takes = f"{tool.name} takes: {', '.join(tool.takes)}."
    if unknown := sorted(values.keys() - tool.takes.keys()):
        raise InvalidInput(f"{tool.name} has no argument {shorten(', '.join(unknown), 100)}.", takes)
    if missing := [argument for argument in tool.needs if argument not in values]:
        raise InvalidInput(f"{tool.name} requires {' and '.join(missing)}.", takes)
    with reach(new=tool.begins) as memories:
        return tool.does(memories, caller, **values)


# ── functions of the tools ────────────────────────────────────────────────────────────────────────────────────────────


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
    result = about_memories(hits_sentence(hits, none), [as_hit(hit, memories.user) for hit in hits], more=more)
    if episodes:
        result = with_episodes(result, [as_episode(hit) for hit in passages])
    if not resume:
        return result
    report = memories.resume(where.get("visible_in"))
    notice = {"notice": NOTICE} if report.sessions else {}
    return ToolResult(f"{result.text}\n{report.text}", {**result.data, **notice, "resume": report.text})


def add(memories: MemoriesLike, caller: Caller, *, text: Any, kind: Any = "other", project: Any = None) -> ToolResult:
    """Store a fact, unless it is known."""
    where = caller.kept_in(project)
    change = memories.add(text, by=caller.by, kind=kind, project=where, source=caller.source(where))
    number: dict[str, Any] = {"id": change.memory_id, "changeset": change.changeset, **_redacted(change)}
    notice = _redaction_notice(change)
    if change.action == "update":
        old = change.memory.supersedes
        back = f"`cofio undo {change.changeset}` reverts that."
        says = f"Remembered as memory {change.memory_id} in place of {old}, which is archived. {back}{notice}"
        return text_result(says, new=True, replaced=old, **number)
    if change.action == "add" and change.near:
        says = f"Remembered as memory {change.memory_id}. It may replace these; memory_forget archives one.{notice}"
        return about_memories(says, [as_memory(memory, memories.user) for memory in change.near], new=True, **number)
    if change.action == "add":
        return text_result(f"Remembered as memory {change.memory_id}.{notice}", new=True, **number)
    says = f"Memory {change.memory_id} already says so.{notice}"
    return about_memories(says, [as_memory(change.memory, memories.user)], new=False, **number)


def update(memories: MemoriesLike, caller: Caller, *, id: Any, text: Any) -> ToolResult:  # noqa: A002
    """Replace a memory by a new text; the old one is archived."""
    old = _number(id, "id")
    written, _archived = memories.supersede(old, text, by=caller.by)
    back = f"`cofio undo {written.changeset}` reverts that."
    says = f"Memory {written.memory_id} replaces {old}, which is archived. {back}{_redaction_notice(written)}"
    return text_result(says, id=written.memory_id, replaced=old, changeset=written.changeset, **_redacted(written))


def _redacted(change: Change) -> dict[str, list[str]]:
    return {"redacted": list(change.redacted)} if change.redacted else {}


def _redaction_notice(change: Change) -> str:
    """Return the sentence for the agent if secrets were removed from its text; else ""."""
    if not change.redacted:
        return ""
    return f" Secrets were removed from the text before it was stored: {', '.join(change.redacted)}."


def forget(memories: MemoriesLike, caller: Caller, *, id: Any, reason: Any = "") -> ToolResult:  # noqa: A002
    """Archive a memory."""
    why = check_text(reason, "reason", MAX_LABEL).strip()
    change = memories.delete(_number(id, "id"), by=caller.by, why=why)
    restore = f"cofio restore {change.memory_id}"
    says = f"Memory {change.memory_id} is archived and will not be recalled. `{restore}` restores it."
    return about_memories(says, [as_memory(change.memory, memories.user)], restore=restore, changeset=change.changeset)


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
        context=AGENT_TEXT,
        session=BY,
        turn=turn,  # the same text again is the same turn
    )
    return about_learning(status)


def _number(value: Any, name: str, **bounds: int) -> int:
    """Return an integer; models send some of them as strings."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
        value = int(value)
    return check_int(value, name, **bounds)


# ── declarations ──────────────────────────────────────────────────────────────────────────────────────────────────────

_TEXT = {"type": "string"}
_WHOLE = {"type": "integer"}
_TRUTH = {"type": "boolean"}
_ID = {**_WHOLE, "minimum": 1, "description": "The memory's id, as memory_search gives it."}
_LIMIT = {**_WHOLE, "minimum": 1, "maximum": MOST_HITS, "default": HITS, "description": "Maximum number of results."}
_CURSOR = {**_WHOLE, "minimum": 0, "default": 0, "description": "The `next` of the previous page; 0 is the first page."}
_PROJECT = (
    "Name of a project, or the path of a folder in it. Default: the project that you work in; "
    '"" is what belongs to no project.'
)
_EVERY = f'"{EVERYWHERE}" searches every project, which is the default if no project is known.'


def _list_of(needs: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    item = {"type": "object", "properties": {**needs, **more}, "required": list(needs)}
    return {"type": "array", "items": item}


_REDACTED = {
    "redacted": {"type": "array", "items": _TEXT, "description": "Kinds of the secrets removed from the text."}
}
_MEMORIES = _list_of(
    {
        "id": _WHOLE,
        **dict.fromkeys(("text", "kind", "project", "source", "date", "provenance"), _TEXT),
        "archived": _TRUTH,
    },
    score={"type": "number"},
    strength={**_TEXT, "enum": ["strong", "likely", "weak"], "description": "How well it answers."},
    freshness={**_TEXT, "description": "changed or vanished: files or code that it names have changed since."},
)
_EPISODES = _list_of(
    {"id": _WHOLE, **dict.fromkeys(("text", "date", "session", "project", "source"), _TEXT)}, score={"type": "number"}
)
_CHANGES = _list_of(
    {"id": _WHOLE, **dict.fromkeys(("date", "action", "text", "by", "why"), _TEXT), "changeset": _WHOLE}
)

TOOLS: tuple[Tool, ...] = (
    Tool(
        name="memory_search",
        title="Search memory",
        says=(
            "Search what is remembered from earlier work: decisions, preferences, conventions, fixes, lessons. Use it "
            "before you answer a question about earlier work, choose a tool or a convention, or look into something "
            "that may have been looked into before. Finds by meaning and by words, best first, in this project and in "
            "what belongs to none."
        ),
        takes={
            "query": {**_TEXT, "minLength": 1, "description": "What to search for: words or a question."},
            "project": {**_TEXT, "description": f"{_PROJECT} {_EVERY}"},
            "limit": _LIMIT,
            "cursor": _CURSOR,
            "episodes": {
                **_TRUTH,
                "default": False,
                "description": "Also search what was said in earlier turns, for when the memories say too little.",
            },
            "resume": {
                **_TRUTH,
                "default": False,
                "description": "Also report where work on the project stopped: its last sessions, and what is open.",
            },
        },
        needs=("query",),
        gives={"memories": _MEMORIES},
        may_give={"episodes": _EPISODES, "resume": _TEXT},
        pages=True,
        does=search,
        reads=True,
    ),
    Tool(
        name="memory_add",
        title="Remember a fact",
        says=(
            "Remember one lasting fact: a decision and its reason, a preference of the user, a convention, a fix that "
            "took effort. One sentence that can be understood on its own a year later. Not for the state of a task, "
            "nor for what the code says by itself, and never for passwords or keys. What is known already is not kept "
            "twice."
        ),
        takes={
            "text": {**_TEXT, "minLength": 1, "description": "The fact, as a sentence."},
            "kind": {**_TEXT, "enum": list(KINDS), "default": "other", "description": "What kind of fact it is."},
            "project": {**_TEXT, "description": _PROJECT},
        },
        needs=("text",),
        gives={"id": _WHOLE, "new": _TRUTH, "changeset": _WHOLE},
        may_give=_REDACTED,
        does=add,
        begins=True,
    ),
    Tool(
        name="memory_update",
        title="Correct a memory",
        says=(
            "Put a new text in the place of a memory that is not true any more, or was never quite right. The old one "
            "is archived and stays in the history; the new one has an id of its own."
        ),
        takes={"id": _ID, "text": {**_TEXT, "minLength": 1, "description": "The whole fact, as it is now."}},
        needs=("id", "text"),
        gives={"id": _WHOLE, "replaced": _WHOLE, "changeset": _WHOLE},
        may_give=_REDACTED,
        does=update,
        replaces=True,
    ),
    Tool(
        name="memory_forget",
        title="Forget a memory",
        says=(
            "Archive a memory that is wrong or of no use any more, when no other fact takes its place (memory_update "
            "is for that), or when the user asks for it. It is not recalled any more, and can be restored."
        ),
        takes={"id": _ID, "reason": {**_TEXT, "description": "Why, for the history."}},
        needs=("id",),
        gives={"restore": _TEXT, "changeset": _WHOLE, "memories": _MEMORIES},
        does=forget,
        replaces=True,
    ),
    Tool(
        name="memory_history",
        title="History of a memory",
        says="Show how a memory came about and what it said before: every change, oldest first, by whom and why.",
        takes={"id": _ID, "cursor": _CURSOR},
        needs=("id",),
        gives={"changes": _CHANGES},
        pages=True,
        does=history,
        reads=True,
    ),
    Tool(
        name="memory_extract",
        title="Learn from a text",
        says=(
            "Learn from a longer text, such as notes, a summary of the session or a report: the facts in it that are "
            "worth keeping are found, compared with what is known, and added, or put in the place of what they "
            "contradict. Secrets are taken out first. For a single fact use memory_add."
        ),
        takes={
            "text": {**_TEXT, "minLength": 1, "description": "What was said or written."},
            "project": {**_TEXT, "description": _PROJECT},
        },
        needs=("text",),
        gives={"state": _TEXT, "new": _TRUTH, "learned": _list_of({"action": _TEXT, "text": _TEXT}, id=_WHOLE)},
        does=extract,
        replaces=True,
        repeats=True,
        begins=True,
    ),
)
_BY_NAME = {tool.name: tool for tool in TOOLS}
