"""MCP tools: names, descriptions, schemas, and the functions behind them. Independent of the protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from cofio.errors import InvalidInput, NotFound
from cofio.models.memory import KINDS
from cofio.providers import prompts
from cofio.server.mcp import tool_handlers
from cofio.server.mcp.tool_handlers import Caller, MemoriesLike
from cofio.server.mcp.tool_results import ToolResult, shorten


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


def instructions() -> str:
    """Return usage instructions for agents. Clients truncate them at 2 KB."""
    return prompts.read("mcp")


def find_tool(name: str) -> Tool:
    """Return the tool of this name."""
    tool = _BY_NAME.get(name)
    if tool is None:
        raise NotFound(f"There is no tool {shorten(name, 100)!r}.", f"Give one of: {', '.join(_BY_NAME)}.")
    return tool


def answer(name: str, arguments: Mapping[str, Any], caller: Caller, reach: OpenMemories) -> ToolResult:
    """Run a tool. Every error raised is a CofioError."""
    tool = find_tool(name)
    values = _check_arguments(tool, arguments)
    with reach(new=tool.begins) as memories:
        return tool.does(memories, caller, **values)


def _check_arguments(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments; raise for unknown or missing ones. null counts as omitted."""
    values = {name: value for name, value in arguments.items() if value is not None}
    takes = f"{tool.name} takes: {', '.join(tool.takes)}."
    if unknown := sorted(values.keys() - tool.takes.keys()):
        raise InvalidInput(f"{tool.name} has no argument {shorten(', '.join(unknown), 100)}.", takes)
    if missing := [name for name in tool.needs if name not in values]:
        raise InvalidInput(f"{tool.name} requires {' and '.join(missing)}.", takes)
    return values


# ── what there is ─────────────────────────────────────────────────────────────────────────────────────────────────────

_TEXT = {"type": "string"}
_WHOLE = {"type": "integer"}
_TRUTH = {"type": "boolean"}
_ID = {**_WHOLE, "minimum": 1, "description": "The memory's id, as memory_search gives it."}
_LIMIT = {
    **_WHOLE,
    "minimum": 1,
    "maximum": tool_handlers.MOST_HITS,
    "default": tool_handlers.HITS,
    "description": "How many, at most.",
}
_CURSOR = {**_WHOLE, "minimum": 0, "default": 0, "description": "The `next` of the page before; 0 is the first."}
_PROJECT = (
    "A project: its name, or the path of a folder in it. Left out, it is the one that you are at work in; "
    '"" is what belongs to no project.'
)
_EVERY = f'"{tool_handlers.EVERYWHERE}" searches every project, as leaving it out does where none is known.'


def _list_of(needs: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    item = {"type": "object", "properties": {**needs, **more}, "required": list(needs)}
    return {"type": "array", "items": item}


_MEMORIES = _list_of(
    {"id": _WHOLE, **dict.fromkeys(("text", "kind", "project", "source", "date"), _TEXT), "archived": _TRUTH},
    score={"type": "number"},
    strength={**_TEXT, "enum": ["strong", "likely", "weak"], "description": "How well it answers."},
    freshness={**_TEXT, "description": "changed or vanished: what it speaks of is not as it was."},
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
            "query": {**_TEXT, "minLength": 1, "description": "What to look for, in words: a question will do."},
            "project": {**_TEXT, "description": f"{_PROJECT} {_EVERY}"},
            "limit": _LIMIT,
            "cursor": _CURSOR,
            "episodes": {
                **_TRUTH,
                "default": False,
                "description": "Search what was said in earlier turns too, where memories say too little.",
            },
            "resume": {
                **_TRUTH,
                "default": False,
                "description": "Tell where work on the project stopped too: its last sessions, and what is open.",
            },
        },
        needs=("query",),
        gives={"memories": _MEMORIES},
        may_give={"episodes": _EPISODES, "resume": _TEXT},
        pages=True,
        does=tool_handlers.search,
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
        does=tool_handlers.add,
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
        does=tool_handlers.update,
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
        does=tool_handlers.forget,
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
        does=tool_handlers.history,
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
        does=tool_handlers.extract,
        replaces=True,
        repeats=True,
        begins=True,
    ),
)
_BY_NAME = {tool.name: tool for tool in TOOLS}
