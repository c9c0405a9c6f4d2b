"""Whether memories that nobody asks for are still valuable, by the judgement of a language model.

The model sees short names, m1 and m2, that mean something in this one question only. A memory goes when the model says
so of its very name and nowhere the opposite; whatever it says beyond that, or leaves unsaid, is for keeping.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cofio import prompts, salvage
from cofio.errors import TooLarge, Unreadable
from cofio.model import Memory
from cofio.ports import LLM

_LONGEST = 1_500  # characters of a memory that are shown
_AROUND = 120  # characters of a memory's line beside its text
_LETTERS, _ROOM = 3, 2_048  # characters in a token, at least; tokens for the reply
_MORE = " […]"

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["decisions"],
    "properties": {
        "decisions": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["memory", "action"],
                "properties": {
                    "memory": {"type": "string"},
                    "action": {"type": "string", "enum": ["KEEP", "ARCHIVE"]},
                },
            },
        }
    },
}


class ModelJudge:
    """Asks a model, and gives the ids of the memories that it holds still valuable."""

    def __init__(self, llm: LLM) -> None:
        self._llm = llm

    def __call__(self, memories: Sequence[Memory]) -> set[int]:
        """The ids of those to keep. Unreadable when the model's reply says nothing of any of them."""
        kept: set[int] = set()
        for some in _fitting(memories, self._room() * _LETTERS):
            kept |= self._kept(some)
        return kept

    def _room(self) -> int:
        """The tokens that there are for memories in one question."""
        context = self._llm.profile.context
        return context - len(prompts.read("prune")) // _LETTERS - min(_ROOM, context // 4)

    def _kept(self, memories: Sequence[Memory]) -> set[int]:
        schema = SCHEMA if self._llm.profile.json_schema else None
        reply = self._llm.complete(prompts.read("prune"), _question(memories), schema=schema)
        said = _said(salvage.read(reply.text).entries or (), len(memories))
        if not said:
            raise Unreadable("The model's reply says of no memory whether it is valuable.", "Try again later.")
        return {each.id for place, each in enumerate(memories, 1) if said.get(place) != {"ARCHIVE"}}


def _fitting(memories: Sequence[Memory], room: int) -> Iterator[list[Memory]]:
    """The memories in as many questions as it takes."""
    some: list[Memory] = []
    left = room
    for memory in memories:
        size = len(_shown(memory.text)) + _AROUND
        if size > room:
            raise TooLarge("A memory does not fit into the model's context.", "Use a model with a larger one.")
        if size > left:
            yield some
            some, left = [], room
        some.append(memory)
        left -= size
    if some:
        yield some


def _question(memories: Sequence[Memory]) -> str:
    rows = [
        {
            "memory": f"m{place}",
            "text": _shown(each.text),
            "category": each.category,
            "kind": each.kind,
            "said": each.created_at[:10],
        }
        for place, each in enumerate(memories, 1)
    ]
    asked = ", ".join(row["memory"] for row in rows)
    return f"{prompts.block('memories', rows)}\n\nDecide about: {asked}"


def _shown(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + _MORE


def _said(entries: Sequence[Any], count: int) -> dict[int, set[str]]:
    """Everything that was said of each memory, by its place."""
    said: dict[int, set[str]] = {}
    for entry in entries:
        if not isinstance(entry, dict):
            continue
        place, action = prompts.number(entry.get("memory"), "m") or 0, entry.get("action")
        if isinstance(action, str) and 1 <= place <= count:
            said.setdefault(place, set()).add(action.strip().upper())
    return said
