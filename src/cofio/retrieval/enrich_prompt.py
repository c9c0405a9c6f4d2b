"""Enrichment: memories added to the user's message of a model request, in the same block as for hooks.

    question ─▶ (search, relevance) ─▶ hits ─ chosen ─▶ personal, team ─ sections ─▶ text

Two sections, each omitted if empty. Personal: memories of the given session, or without one the caller's private
memories and global ones. Team: memories visible to the team. Both contain only memories that answer the question,
because models treat injected context as relevant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from cofio.models.memory import FreshnessResult, Hit, Memory, Scope
from cofio.retrieval import recall
from cofio.text.briefing import (
    HEAVIEST_LINE,
    LONGEST_LINE,
    BriefingLine,
    RemainingSpace,
    build_sections,
    digest,
)

USUAL = 5  # default number of facts per section
MOST = 50
PERSONAL = "## Relevant Personal Context:"
TEAM = "## Relevant Team Context:"


def personal_memories(session: str) -> Scope:
    """Return the scope of personal memories: those of the session if given, else private and global ones."""
    return Scope(session=session) if session else Scope(visibility=("private", "global"))


def team_memories() -> Scope:
    """Return the scope of team memories."""
    return Scope(visibility=("team",))


def first_hits(hits: Iterable[Hit], most: int, exclude: Iterable[Memory] = ()) -> list[Memory]:
    """Return the first hits, each text once, excluding other memories."""
    return recall.distinct((hit.memory for hit in hits), (digest(memory.text) for memory in exclude))[:most]


def render(
    own: Sequence[Memory], of_team: Sequence[Memory], fresh: Callable[[Memory], FreshnessResult], reader: str = ""
) -> str:
    """Return both sections as a block for a user's message, after a blank line; "" if both are empty."""
    sections = [(PERSONAL, _list_lines(own, fresh, reader)), (TEAM, _list_lines(of_team, fresh, reader))]
    room = RemainingSpace(tokens=2 * MOST * HEAVIEST_LINE, characters=2 * MOST * LONGEST_LINE)
    block, _ = build_sections(sections, room)
    return f"\n\n{block}\n" if block else ""


def _list_lines(
    memories: Sequence[Memory], fresh: Callable[[Memory], FreshnessResult], reader: str
) -> list[BriefingLine]:
    """Return one line per memory; memories whose subject has vanished come last, marked as such."""
    lines = [recall.build_line(memory, fresh(memory), reader) for memory in memories]
    return sorted(lines, key=lambda line: line.doubtful)
