"""Merge proposals by a language model.

The model sees short names, m1 and m2, that are valid for one question only, and the texts as data. Its answer is only a
proposal: `merge_check` checks it before it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cofio.errors import TooLarge, Unreadable
from cofio.models.memory import CATEGORIES, Memory
from cofio.ports import LLM
from cofio.providers import prompts
from cofio.text import json_repair

LONGEST = 2_000  # characters of a merged fact
_LETTERS, _ROOM = 3, 4_096  # minimum characters per token; tokens reserved for the reply
_AGAIN = "These memories were not merged; the next run tries again."

SCHEMA = prompts.list_schema(
    "facts",
    text={"type": "string"},
    category={"type": "string", "enum": list(CATEGORIES)},
    memories={"type": "array", "items": {"type": "string"}},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedText:
    """Text that replaces several memories."""

    text: str
    ids: tuple[int, ...]
    category: str = ""


@dataclass(frozen=True, slots=True)
class Proposal:
    """Replacement for some memories; memories that no fact covers stay as they are."""

    facts: tuple[MergedText, ...] = ()


class Merger(Protocol):
    """Interface for proposing merged facts."""

    def merge(self, memories: Sequence[Memory]) -> Proposal:
        """Return facts that say all that these memories say, or none to keep them. Raise CofioError on failure."""


class ModelMerger:
    """Merger that asks a language model."""

    def __init__(self, llm: LLM) -> None:
        self._llm = llm

    def merge(self, memories: Sequence[Memory]) -> Proposal:
        system, question = prompts.read("merge"), _build_question(memories)
        profile = self._llm.profile
        room = profile.context - min(_ROOM, profile.context // 4)
        if (len(system) + len(question)) // _LETTERS > room:
            raise TooLarge(
                "The memories to merge do not fit into the context of the language model.",
                "Set EXTRACT_MODEL to a model with a larger context.",
            )
        reply = self._llm.complete(system, question, schema=SCHEMA if profile.json_schema else None)
        answer = json_repair.parse_reply(reply.text)
        if reply.truncated or not answer.whole:
            raise Unreadable("The language model's answer with merged memories was cut off.", _AGAIN)
        if answer.entries is None:
            raise Unreadable("The language model's answer with merged memories is not valid JSON.", _AGAIN)
        return Proposal(tuple(_parse_entry(entry, memories) for entry in answer.entries))


def _build_question(memories: Sequence[Memory]) -> str:
    rows = [
        {"memory": f"m{number}", "at": memory.created_at[:19], "category": memory.category, "kind": memory.kind,
         "text": memory.text}
        for number, memory in enumerate(memories, 1)
    ]  # fmt: skip
    return prompts.block("memories", rows)


def _parse_entry(entry: Any, memories: Sequence[Memory]) -> MergedText:
    """Return the entry as a merged text. Its memories have short names: "m3", "M3", "3" and 3 are the third."""
    text = entry.get("text") if isinstance(entry, dict) else None
    names = entry.get("memories") if isinstance(entry, dict) else None
    if not isinstance(text, str) or not text.strip() or not isinstance(names, list):
        raise Unreadable("The language model's answer is not a list of merged facts.", _AGAIN)
    ids = []
    for name in names:
        number = prompts.number(name, "m") or 0
        if not 1 <= number <= len(memories):
            raise Unreadable(f"The language model's answer names an unknown memory: {str(name)[:40]}.", _AGAIN)
        ids.append(memories[number - 1].id)
    category = entry.get("category")
    category = category if category in CATEGORIES else ""
    return MergedText(text=" ".join(text.split()), ids=tuple(ids), category=category)
