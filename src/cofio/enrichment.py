"""Enrichment: what memories add to the system message of a model that is about to answer.

    question ─▶ (search, relevance) ─▶ hits ─ chosen ─▶ personal, team ─ sections ─▶ text

Two sections, each only where it has something to say. Personal is what was said in the session that asks; where none is
named, what is private to whoever asks, and what is there for everybody. Team is what is visible to the team. Either way
only what answers the question: a model takes what stands before it for relevant, whether it is or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from cofio.briefing import digest, item
from cofio.model import Freshly, Hit, Memory, Scope
from cofio.wording import passage

USUAL = 5  # facts of a section
MOST = 50
PERSONAL = "## Relevant Personal Context:"
TEAM = "## Relevant Team Context:"

_GONE = "vanished"


def personal(session: str) -> Scope:
    """What is the caller's own: of one session whatever was said in it, else what is not the team's."""
    return Scope(session=session) if session else Scope(visibility=("private", "global"))


def team() -> Scope:
    """What the team knows."""
    return Scope(visibility=("team",))


def chosen(hits: Iterable[Hit], most: int, told: Iterable[Memory] = ()) -> list[Memory]:
    """Return the first of the hits, each text once, without what is told elsewhere."""
    known = {digest(memory.text) for memory in told}
    best: dict[str, Memory] = {}
    for hit in hits:
        if (words := digest(hit.text)) not in known:
            best.setdefault(words, hit.memory)
    return list(best.values())[:most]


def text(own: Sequence[Memory], of_team: Sequence[Memory], fresh: Callable[[Memory], Freshly]) -> str:
    """Both sections as they are put right behind a system message; "" when there is nothing to say."""
    return _section(PERSONAL, own, fresh) + _section(TEAM, of_team, fresh)


def _section(heading: str, memories: Sequence[Memory], fresh: Callable[[Memory], Freshly]) -> str:
    """A blank line, the heading, a line a memory. Those whose subject has vanished come last and say so."""
    looked_at = sorted(((memory, fresh(memory)) for memory in memories), key=lambda row: row[1].state == _GONE)
    items = [
        item(passage(memory.text, memory.speaker), told.notes, doubtful=told.state == _GONE)
        for memory, told in looked_at
    ]
    lines = [f"{each}\n" for each in items if each]
    return f"\n\n{heading}\n{''.join(lines)}" if lines else ""
