"""What the tools do, in the words of the keeper. Arguments come as the agent wrote them; whatever is wrong is said."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from cofio.conversation import Captured
from cofio.errors import InvalidInput
from cofio.hooks.project import name as name_of
from cofio.mcp.answers import Answer, about_changes, about_learning, about_memories, as_hit, as_memory, count, done
from cofio.model import MAX_LABEL, Change, Hit, checked_text, whole

BY = "mcp"  # who did it, in the journal
EVERYWHERE = "*"  # the project that stands for all of them
HITS, MOST_HITS = 5, 20


class Memories(Protocol):
    """A Keeper, or a Client of the service: what the tools need of either."""

    def search(self, query: str, *, by: str = ..., **how: Any) -> list[Hit]: ...
    def add(self, fact: str, *, by: str = ..., **about: Any) -> Change: ...
    def supersede(self, old_id: int, new: str, *, by: str = ...) -> tuple[Change, Change]: ...
    def delete(self, memory_id: int, *, by: str = ..., why: str = ...) -> Change: ...
    def history(self, memory_id: int) -> list[Change]: ...
    def capture(self, messages: str, *, wait: bool = ..., by: str = ..., **about: Any) -> Captured: ...


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and where it is at work."""

    project: str = ""  # what is meant where a call names none
    client: str = BY
    named: Callable[[str], str] = str  # the project that a name stands for: the path of a folder is one, too

    def meant(self, project: Any) -> str:
        """The project that a call is about."""
        if project is None:
            return self.project
        return self.named(checked_text(project, "project", MAX_LABEL).strip())

    def source(self, project: str) -> str:
        """Where a memory comes from that this caller adds: client/name."""
        return "/".join(part for part in (self.client, name_of(project)) if part)[:MAX_LABEL]


def search(memories: Memories, caller: Caller, *, query: Any, project: Any = None, limit: Any = HITS) -> Answer:
    """The memories that answer, best first: of the project and of none."""
    where = caller.meant(project)
    within = {} if where == EVERYWHERE else {"seen_from": where}
    hits = memories.search(query, by=BY, k=_number(limit, "limit", least=1, most=MOST_HITS), **within)
    says = f"{count(len(hits), 'note')} from earlier work, best first." if hits else "No memory answers that."
    return about_memories(says, [as_hit(hit) for hit in hits])


def add(memories: Memories, caller: Caller, *, text: Any, kind: Any = "other", project: Any = None) -> Answer:
    """Remember a fact, unless it is known."""
    where = _one(caller.meant(project))
    change = memories.add(text, by=BY, kind=kind, project=where, source=caller.source(where))
    number = {"id": change.memory_id, "changeset": change.changeset}
    if change.action == "add":
        return done(f"Remembered as memory {change.memory_id}.", new=True, **number)
    says = f"Memory {change.memory_id} says so already."
    return about_memories(says, [as_memory(change.memory)], new=False, **number)


def update(memories: Memories, _caller: Caller, *, id: Any, text: Any) -> Answer:  # noqa: A002
    """Put a new text in a memory's place; the old one is archived."""
    old = _number(id, "id")
    written, _archived = memories.supersede(old, text, by=BY)
    back = f"`cofio undo {written.changeset}` takes that back."
    says = f"Memory {written.memory_id} stands in place of {old}, which is archived. {back}"
    return done(says, id=written.memory_id, replaced=old, changeset=written.changeset)


def forget(memories: Memories, _caller: Caller, *, id: Any, reason: Any = "") -> Answer:  # noqa: A002
    """Archive a memory."""
    why = checked_text(reason, "reason", MAX_LABEL).strip()
    change = memories.delete(_number(id, "id"), by=BY, why=why)
    restore = f"cofio restore {change.memory_id}"
    says = f"Memory {change.memory_id} is archived and will not be recalled. `{restore}` brings it back."
    return about_memories(says, [as_memory(change.memory)], restore=restore, changeset=change.changeset)


def history(memories: Memories, _caller: Caller, *, id: Any) -> Answer:  # noqa: A002
    """What became of a memory, oldest first."""
    number = _number(id, "id")
    return about_changes(number, memories.history(number))


def extract(memories: Memories, caller: Caller, *, text: Any, project: Any = None) -> Answer:
    """Learn from a longer text. It is kept first: nothing is lost where learning has to wait."""
    where = _one(caller.meant(project))
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput("The text is empty.", "Give what was said, or notes, as text.")
    turn = hashlib.sha256(f"{where}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
    said = {"client": caller.client, "session": BY, "turn": turn}  # the same text again is the same turn
    return about_learning(memories.capture(text, wait=True, by=BY, project=where, source=caller.source(where), **said))


def _one(project: str) -> str:
    if project == EVERYWHERE:
        raise InvalidInput("A memory belongs to one project.", 'Leave `project` out, name one, or give "" for none.')
    return project


def _number(value: Any, name: str, **bounds: int) -> int:
    """The whole number; models write some of them as texts."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
        value = int(value)
    return whole(value, name, **bounds)
