"""Enrichment: memories added to the system message of a model request.

    question ─▶ (search, relevance) ─▶ hits ─ chosen ─▶ personal, team ─ sections ─▶ text

Two sections, each omitted if empty. Personal: memories of the given session, or without one the caller's private
memories and global ones. Team: memories visible to the team. Both contain only memories that answer the question,
because models treat injected context as relevant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from cofio.models.memory import FreshnessResult, Hit, Memory, Scope
from cofio.retrieval import recall
from cofio.text.briefing import HEAVIEST_LINE, LONGEST_LINE, RemainingSpace, build_section, digest, list_item
from cofio.text.tokens import embedding_text

USUAL = 5  # default number of facts per section
MOST = 50
PERSONAL = "## Relevant Personal Context:"
TEAM = "## Relevant Team Context:"

_GONE = "vanished"
_HEAD = 100  # characters or tokens of a heading


def personal_memories(session: str) -> Scope:
    """Return the scope of personal memories: those of the session if given, else private and global ones."""
    return Scope(session=session) if session else Scope(visibility=("private", "global"))


def team_memories() -> Scope:
    """Return the scope of team memories."""
    return Scope(visibility=("team",))


def first_hits(hits: Iterable[Hit], most: int, exclude: Iterable[Memory] = ()) -> list[Memory]:
    """Return the first hits, each text once, excluding other memories."""
    return recall.distinct((hit.memory for hit in hits), (digest(memory.text) for memory in exclude))[:most]


def render(own: Sequence[Memory], of_team: Sequence[Memory], fresh: Callable[[Memory], FreshnessResult]) -> str:
    """Return both sections, to append to a system message; "" if both are empty."""
    return _render_section(PERSONAL, own, fresh) + _render_section(TEAM, of_team, fresh)


def _render_section(heading: str, memories: Sequence[Memory], fresh: Callable[[Memory], FreshnessResult]) -> str:
    """Return a heading and one line per memory; memories whose subject has vanished come last, marked as such."""
    looked_at = sorted(((memory, fresh(memory)) for memory in memories), key=lambda row: row[1].state == _GONE)
    items = [
        list_item(embedding_text(memory.text, memory.speaker), freshness.notes, doubtful=freshness.state == _GONE)
        for memory, freshness in looked_at
    ]
    room = RemainingSpace(tokens=MOST * HEAVIEST_LINE + _HEAD, characters=MOST * LONGEST_LINE + _HEAD)
    return build_section(f"\n\n{heading}\n", [f"{item}\n" for item in items if item], room)[0]
