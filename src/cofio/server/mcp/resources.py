"""MCP resources, read-only: single memories, and the briefings of projects.

    cofio://memory/ID                   a memory, as text and as data
    cofio://project/NAME/briefing       the context that a session there gets at its start

A name is one segment of the address: reserved characters and slashes are percent-encoded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from cofio.errors import InvalidInput, NotFound
from cofio.hooks.project import name as name_of
from cofio.models.memory import MAX_LABEL, Memory, Project, check_text
from cofio.server.mcp.caller import Caller, MemoriesLike
from cofio.server.mcp.tool_results import ToolResult, about_briefing, about_one, count, shorten

PAGE = 50  # resources per page
NEWEST = 200  # memories listed; all others can be read by id
_TITLE = 80  # in characters
_LABEL = 200
_MEMORY = re.compile(r"cofio://memory/([0-9]{1,18})")
_BRIEFING = re.compile(r"cofio://project/([^/?#]*)/briefing")
_CURSOR = re.compile(r"project:(?P<name>[^:]+)|memory:(?P<after>[0-9]{0,18}):(?P<listed>[0-9]{1,4})")

TEMPLATES: tuple[Mapping[str, str], ...] = (
    {
        "uriTemplate": "cofio://memory/{id}",
        "name": "memory",
        "title": "A memory",
        "description": "One memory by its id, archived or not, with its source and date.",
        "mimeType": "text/plain",
    },
    {
        "uriTemplate": "cofio://project/{name}/briefing",
        "name": "briefing",
        "title": "The briefing of a project",
        "description": "The context at the start of a session in this project. Write a slash in the name as %2F.",
        "mimeType": "text/plain",
    },
)


class ListCursor(NamedTuple):
    """Position in the listing: after a project, or after a memory with the number listed so far."""

    project: str | None
    after: int | None = None
    listed: int = 0


def read_resource(uri: str, caller: Caller, memories: MemoriesLike) -> ToolResult:
    """Return the resource at this address. NotFound if there is none."""
    if match := _MEMORY.fullmatch(uri):
        number = int(match[1])
        return about_one(memories.get(number), memories.freshness(number), memories.user)
    if match := _BRIEFING.fullmatch(uri):
        project = caller.named(check_text(unquote(match[1]), "project", MAX_LABEL).strip())
        return about_briefing(project, memories.recall(project=project, by=caller.by))
    hint = "Addresses are cofio://memory/ID and cofio://project/NAME/briefing; a slash in the name is written %2F."
    raise NotFound(f"There is no resource {shorten(uri, _LABEL)!r}.", hint)


def list_resources(cursor: str, memories: MemoriesLike) -> dict[str, Any]:
    """Return a page of resources: the briefings of projects by name, then the newest memories."""
    part = _parse_cursor(cursor)
    entries: list[dict[str, str]] = []
    if part.project is not None:
        names = memories.projects(limit=PAGE + 1, after=part.project)
        entries = [_describe_briefing(name) for name in names[:PAGE]]
        if len(names) > PAGE:
            return {"resources": entries, "nextCursor": f"project:{quote(names[PAGE - 1].name, safe='')}"}

    room = min(PAGE - len(entries), NEWEST - part.listed)
    if room <= 0:
        return {"resources": entries, **({"nextCursor": "memory::0"} if entries else {})}
    page = memories.list(limit=room, after=part.after)
    result = {"resources": [*entries, *(_describe_memory(memory) for memory in page.memories)]}
    total = part.listed + len(page.memories)
    if page.next is None or total >= NEWEST:
        return result
    return {**result, "nextCursor": f"memory:{page.next}:{total}"}


def _parse_cursor(cursor: str) -> ListCursor:
    if not cursor:
        return ListCursor("")
    match = _CURSOR.fullmatch(cursor) if len(cursor) <= 4 * MAX_LABEL else None
    if match is None:
        raise InvalidInput(
            "The cursor is not valid.", "Give the `nextCursor` of the previous page, or none for the first page."
        )
    if match["name"]:
        return ListCursor(check_text(unquote(match["name"]), "cursor", MAX_LABEL))
    return ListCursor(None, int(match["after"]) if match["after"] else None, int(match["listed"]))


def _describe_briefing(project: Project) -> dict[str, str]:
    title = shorten(name_of(project.name) or project.name, _TITLE)
    return {
        "uri": f"cofio://project/{quote(project.name, safe='')}/briefing",
        "name": f"briefing of {title}",
        "title": f"Briefing of {title}",
        "description": (
            f"The context that a session in {shorten(project.name, _LABEL)} gets at its start. "
            f"{count(project.memories, 'memory', 'memories')} in it."
        ),
        "mimeType": "text/plain",
    }


def _describe_memory(memory: Memory) -> dict[str, str]:
    about = (memory.kind, shorten(memory.source, _LABEL), memory.created_at[:10])
    return {
        "uri": f"cofio://memory/{memory.id}",
        "name": f"memory {memory.id}",
        "title": shorten(memory.text, _TITLE),
        "description": f"A note from earlier work: {', '.join(label for label in about if label)}.",
        "mimeType": "text/plain",
    }
