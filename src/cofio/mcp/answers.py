"""What an agent is told: a text, and the same as data.

Clients put one of the two before the model, some this and some that. So either says all that matters, and in either
the words of a memory are short, on one line, marked as data, and cannot pass for anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from cofio.briefing import NOTICE, TAG, neutral, noted
from cofio.conversation import OPEN, Captured
from cofio.model import Change, Hit, Memory

LONGEST = 1_000  # characters of one text: twenty of them are far below what a client takes
_LABEL = 200  # characters of a reason, a source, a project
_CHANGES = 50  # of one memory; the newest

_Told = Mapping[str, Any]


class Answer(NamedTuple):
    """What an agent is told."""

    text: str
    data: dict[str, Any]


def short(text: str, most: int = LONGEST) -> str:
    """The text as plain words on one line; of a long one the beginning."""
    plain = neutral(text)
    return plain if len(plain) <= most else plain[: most - 1].rstrip() + "…"


def count(number: int, name: str) -> str:
    return f"{number} {name}" + ("" if number == 1 else "s")


def done(says: str, **more: Any) -> Answer:
    """A sentence that says it all."""
    return Answer(says, {"says": says, **more})


def about_memories(says: str, told: Sequence[_Told], **more: Any) -> Answer:
    """A sentence, and the memories that it is about."""
    return _answer(says, "memories", told, _memory_line, more)


def as_memory(memory: Memory) -> dict[str, Any]:
    """A memory as an agent reads it."""
    return {
        "id": memory.id,
        "text": short(memory.text),
        "kind": memory.kind,
        "project": short(memory.project, _LABEL),
        "source": short(memory.source, _LABEL),
        "date": memory.created_at[:10],
        "archived": memory.archived,
    }


def as_hit(hit: Hit) -> dict[str, Any]:
    """A memory that answers, with its score. Where what it speaks of has changed, its text says so."""
    told = {**as_memory(hit.memory), "score": round(hit.score, 3)}
    if not hit.stale:
        return told
    text = noted(short(hit.text, LONGEST - 2 * _LABEL), hit.stale, doubtful=hit.freshness == "vanished")
    return {**told, "text": text, "freshness": hit.freshness}


def about_changes(memory_id: int, changes: Sequence[Change]) -> Answer:
    """What became of a memory, oldest first."""
    left = f" (the last {_CHANGES})" if len(changes) > _CHANGES else ""
    says = f"{count(len(changes), 'change')} of memory {memory_id}, oldest first{left}."
    return _answer(says, "changes", [_as_change(each) for each in changes[-_CHANGES:]], _change_line, {})


def about_learning(captured: Captured) -> Answer:
    """What was made of a text, fact by fact; or why it waits."""
    learned = [_as_learned(each) for each in captured.result.get("actions", ())]
    more = {"state": captured.state, "new": captured.new}
    return _answer(_outcome(captured, len(learned)), "learned", learned, _learned_line, more)


def _answer(says: str, name: str, told: Sequence[_Told], line: Callable[[_Told], str], more: _Told) -> Answer:
    data = {"says": says, **({"notice": NOTICE} if told else {}), **more, name: list(told)}
    if not told:
        return Answer(says, data)
    return Answer("\n".join([says, f"<{TAG}>", NOTICE, *(f"- {line(each)}" for each in told), f"</{TAG}>"]), data)


def _memory_line(told: _Told) -> str:
    about = ", ".join(part for part in (told["kind"], told["source"], told["date"]) if part)
    return f"[{told['id']}] {told['text']} ({about})"


def _as_change(change: Change) -> dict[str, Any]:
    left = change.after or change.before
    return {
        "date": change.at[:10],
        "action": change.action,
        "id": change.memory_id,
        "text": short(left.text) if left else "",
        "by": short(change.by, _LABEL),
        "why": short(change.reason or change.why, _LABEL),
        "changeset": change.changeset,
    }


def _change_line(told: _Told) -> str:
    why = f"; {told['why']}" if told["why"] else ""
    return f"{told['date']} {told['action']} [{told['id']}] {told['text']} (by {told['by']}{why})"


def _as_learned(action: _Told) -> dict[str, Any]:
    number = next((action[name] for name in ("id", "new_id", "existing_id", "old_id") if action.get(name)), None)
    told = {"action": str(action["action"]), "text": short(str(action.get("text") or ""))}
    return {**told, **({"id": number} if number else {})}


def _learned_line(told: _Told) -> str:
    number = f" [{told['id']}]" if "id" in told else ""
    return f"{told['action']}{number} {told['text']}"


def _outcome(captured: Captured, facts: int) -> str:
    reason = short(captured.reason, _LABEL)
    if captured.state in OPEN:
        return f"It is kept, and will be learned from later: {reason or 'it waits its turn'}"
    before = "" if captured.new else "This text was learned from before. "
    return before + (f"{count(facts, 'fact')} in it." if facts else f"Nothing in it to keep. {reason}".strip())
