"""MCP prompts: questions that a person selects in a client, with matching memories included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from cofio.errors import InvalidInput, NotFound
from cofio.models.memory import MAX_LABEL, check_text
from cofio.server.mcp.caller import Caller, MemoriesLike
from cofio.server.mcp.tool_results import about_memories, as_hit, hits_sentence, shorten

NAME = "what_do_we_know"
FOUND = 10  # memories
MOST_NAMES = 100  # maximum that a client accepts
_LOOKED_THROUGH = 1_000  # projects searched
_LABEL = 100

PROMPTS: tuple[Mapping[str, Any], ...] = (
    {
        "name": NAME,
        "title": "What do we know about …",
        "description": "Shows what is remembered from earlier work about a topic, best first, and asks for a summary.",
        "arguments": [
            {"name": "topic", "description": "The topic, in words.", "required": True},
            {"name": "project", "description": "Name of a project; default: the current one.", "required": False},
        ],
    },
)
#: Argument name of the project, in prompts and addresses.
COMPLETED = {(NAME, "project"), ("cofio://project/{name}/briefing", "name")}


class PromptArgument(NamedTuple):
    """Prompt: title for lists, and full text for the model."""

    title: str
    text: str


class NameSuggestions(NamedTuple):
    """Matching names, and their total number."""

    values: Sequence[str]
    total: int


def get_prompt(name: str, arguments: Mapping[str, Any], caller: Caller, memories: MemoriesLike) -> PromptArgument:
    """Return the prompt, with the matching memories marked as data."""
    if name != NAME:
        raise NotFound(f"There is no prompt {shorten(name, _LABEL)!r}.", f"The only prompt is {NAME}.")
    if unknown := sorted(arguments.keys() - {"topic", "project"}):
        hint = f"{NAME} takes: topic, project."
        raise InvalidInput(f"{NAME} has no argument {shorten(', '.join(unknown), _LABEL)}.", hint)
    topic = check_text(arguments.get("topic", ""), "topic", MAX_LABEL).strip()
    if not topic:
        raise InvalidInput("The topic is empty.", "Name the topic in words.")
    hits = memories.search(topic, by=caller.by, k=FOUND, **caller.visible_in(arguments.get("project") or None))
    title = f"What do we know about {shorten(topic, MAX_LABEL)}?"
    task = (
        "Answer from the notes below, and name those you rely on by their numbers. Leave out what is about something "
        "else, and say so where they do not answer. memory_search finds more."
    )
    listed = about_memories(hits_sentence(hits), [as_hit(hit, memories.user) for hit in hits]).text
    return PromptArgument(title, f"{title}\n\n{task}\n\n{listed}")


def complete_argument(name: str, argument: str, typed: str, memories: MemoriesLike) -> NameSuggestions:
    """Return projects matching what was typed: names that begin with it, then names that contain it."""
    if (name, argument) not in COMPLETED:
        return NameSuggestions((), 0)
    prefix = typed.strip().casefold()
    names = [project.name for project in memories.projects(limit=_LOOKED_THROUGH)]

    def rank(project_name: str) -> tuple[bool, str]:
        parts = (project_name, project_name.rpartition("/")[2])
        return not any(part.casefold().startswith(prefix) for part in parts), project_name

    matches = sorted((project_name for project_name in names if prefix in project_name.casefold()), key=rank)
    return NameSuggestions(matches[:MOST_NAMES], len(matches))
