"""Judgement of unused memories by a language model.

The model sees short names, m1 and m2, that are valid for one question only. A memory is archived only if the model says
so for its exact name and does not contradict itself; otherwise it is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cofio.errors import TooLarge, Unreadable
from cofio.models.memory import Memory
from cofio.ports import LLM
from cofio.providers import prompts
from cofio.text import json_repair

_LONGEST = 1_500  # characters of a memory that are shown
_AROUND = 120  # characters of a memory's line in addition to its text
_LETTERS, _ROOM = 3, 2_048  # minimum characters per token; tokens reserved for the reply
_MORE = " […]"

SCHEMA = prompts.list_schema(
    "decisions", memory={"type": "string"}, action={"type": "string", "enum": ["KEEP", "ARCHIVE"]}
)


class PruneJudge:
    """Language-model judge that returns the ids of memories that are still valuable."""

    def __init__(self, llm: LLM) -> None:
        self._llm = llm

    def __call__(self, memories: Sequence[Memory]) -> set[int]:
        """Return the ids of memories to keep. Raise Unreadable if the model's reply decides about none of them."""
        context = self._llm.profile.context
        room = context - len(prompts.read("prune")) // _LETTERS - min(_ROOM, context // 4)  # tokens for memories
        kept_ids: set[int] = set()
        for group in _split_to_fit(memories, room * _LETTERS):
            kept_ids |= self._judge_group(group)
        return kept_ids

    def _judge_group(self, memories: Sequence[Memory]) -> set[int]:
        rows = [
            {
                "memory": f"m{place}",
                "text": _shorten(memory.text),
                "category": memory.category,
                "kind": memory.kind,
                "said": memory.created_at[:10],
            }
            for place, memory in enumerate(memories, 1)
        ]
        question = f"{prompts.block('memories', rows)}\n\nDecide about: {', '.join(row['memory'] for row in rows)}"
        schema = SCHEMA if self._llm.profile.json_schema else None
        reply = self._llm.complete(prompts.read("prune"), question, schema=schema)

        actions: dict[int, set[str]] = {}  # all actions given for each memory, by its place
        for entry in json_repair.parse_reply(reply.text).entries or ():
            if not isinstance(entry, dict):
                continue
            place, action = prompts.number(entry.get("memory"), "m") or 0, entry.get("action")
            if isinstance(action, str) and 1 <= place <= len(memories):
                actions.setdefault(place, set()).add(action.strip().upper())
        if not actions:
            raise Unreadable(
                "The language model's reply decides about none of the memories to prune.",
                "Nothing was archived on its advice; the next run asks again.",
            )
        return {memory.id for place, memory in enumerate(memories, 1) if actions.get(place) != {"ARCHIVE"}}


def _split_to_fit(memories: Sequence[Memory], room: int) -> Iterator[list[Memory]]:
    """Yield the memories in groups that fit one question."""
    group: list[Memory] = []
    space = room
    for memory in memories:
        size = len(_shorten(memory.text)) + _AROUND
        if size > room:
            raise TooLarge(
                f"Memory {memory.id} does not fit into the context of the language model.",
                "Set EXTRACT_MODEL to a model with a larger context.",
            )
        if size > space:
            yield group
            group, space = [], room
        group.append(memory)
        space -= size
    if group:
        yield group


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + _MORE
