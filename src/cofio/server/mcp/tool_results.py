"""Replies to agents: a text, and the same content as data.

Some clients show the model the text, others the data. So both are complete, and in both the text of a memory is short,
on one line, and marked as data that cannot pass for anything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from cofio.models.episodes import EpisodeHit
from cofio.models.exchange import OPEN, CaptureStatus
from cofio.models.memory import Briefing, Change, FreshnessResult, Hit, Memory, is_poor_match
from cofio.text.briefing import NOTICE, TAG, annotate, clean_label, neutralize

LONGEST = 1_000  # characters per text; twenty of them are far below any client's limit
_LABEL = 200  # characters of a reason, a source, a project
_WHOLE = 4_000  # characters of a single memory
_TAGS = 20  # per memory

_Row = Mapping[str, Any]


class ToolResult(NamedTuple):
    """Reply to an agent."""

    text: str
    data: dict[str, Any]


def shorten(text: str, most: int = LONGEST) -> str:
    """Return the text as plain words on one line, truncated."""
    plain = neutralize(text)
    return plain if len(plain) <= most else plain[: most - 1].rstrip() + "…"


def count(number: int, name: str, many: str = "") -> str:
    return f"{number} {name if number == 1 else many or f'{name}s'}"


def hits_sentence(hits: Sequence[Hit], none: str = "No memory matches.") -> str:
    """Return the sentence above hits; it says so if no hit matches well."""
    if is_poor_match(hits):
        return f"No good match. {count(len(hits), 'note')} from earlier work, best first."
    return f"{count(len(hits), 'note')} from earlier work, best first." if hits else none


def text_result(says: str, **more: Any) -> ToolResult:
    """Return a reply of one sentence."""
    return ToolResult(says, {"says": says, **more})


def about_memories(says: str, rows: Sequence[_Row], more: int | None = None, **beside: Any) -> ToolResult:
    """Return a sentence with its memories; `more` is the cursor of the next page."""
    return _build_page(says, "memories", rows, [_memory_line(row) for row in rows], more, **beside)


def about_one(memory: Memory, fresh: FreshnessResult, reader: str) -> ToolResult:
    """Return a single memory with all its details, for the user who reads it."""
    labels = {
        "category": memory.category,
        "tags": [shorten(tag, _LABEL) for tag in memory.tags[:_TAGS]],
        "pinned": memory.pinned,
        "said": memory.occurrences,
        "supersedes": memory.supersedes,
        "superseded_by": memory.superseded_by,
    }
    row = _add_doubt({**as_memory(memory, reader, _WHOLE), **labels}, memory.text, _WHOLE, fresh)
    says = f"Memory {memory.id}{', archived: it is no longer recalled' if memory.archived else ''}."
    return _build_page(says, "memory", row, [_memory_line(row)])


def as_memory(memory: Memory, reader: str, most: int = LONGEST) -> dict[str, Any]:
    """Return a memory as shown to agents of this user."""
    return {
        "id": memory.id,
        "text": shorten(memory.text, most),
        "kind": memory.kind,
        "project": shorten(memory.project, _LABEL),
        "source": shorten(memory.source, _LABEL),
        "date": memory.created_at[:10],
        "provenance": memory.provenance_label(reader),
        "archived": memory.archived,
    }


def as_hit(hit: Hit, reader: str) -> dict[str, Any]:
    """Return a matching memory with score and strength. Its text says if the code it references has changed."""
    row = {**as_memory(hit.memory, reader), "score": round(hit.score, 3), "strength": hit.strength}
    return _add_doubt(row, hit.text, LONGEST, FreshnessResult(hit.freshness, tuple(hit.stale)))


def as_episode(hit: EpisodeHit) -> dict[str, Any]:
    """Return a passage of an episode as shown to agents."""
    passage = hit.passage
    return {
        "id": passage.episode,
        "text": shorten(passage.text),
        "date": passage.at[:10],
        "session": shorten(passage.session, _LABEL),
        "project": shorten(passage.project, _LABEL),
        "source": shorten(passage.source, _LABEL),
        "score": round(hit.score, 3),
    }


def with_episodes(answer: ToolResult, rows: Sequence[_Row]) -> ToolResult:
    """Return the reply with passages of earlier conversations."""
    says = f"{count(len(rows), 'episode')} of earlier conversations." if rows else "No episode matches."
    lines = []
    for row in rows:
        where = f", session {row['session']}" if row["session"] else ""
        lines.append(f"[episode {row['id']}, {row['date']}{where}] {row['text']}")
    page = _build_page(says, "episodes", rows, lines)
    notice = {"notice": NOTICE} if rows else {}
    return ToolResult(f"{answer.text}\n{page.text}", {**answer.data, **notice, "episodes": list(rows)})


def _add_doubt(row: dict[str, Any], text: str, most: int, fresh: FreshnessResult) -> dict[str, Any]:
    """Return the memory with a note in its text if the code it references has changed."""
    if not fresh.notes:
        return row
    annotated = annotate(shorten(text, most - 2 * _LABEL), fresh.notes, doubtful=fresh.state == "vanished")
    return {**row, "text": annotated, "freshness": fresh.state}


def about_changes(memory_id: int, changes: Sequence[Change], skip: int, most: int) -> ToolResult:
    """Return a page of a memory's changes, oldest first."""
    page = changes[skip : skip + most]
    which = f" These are {skip + 1} to {skip + len(page)}." if page and len(page) < len(changes) else ""
    says = f"{count(len(changes), 'change')} of memory {memory_id}, oldest first.{which}"
    more = skip + most if skip + most < len(changes) else None
    rows, lines = [], []
    for change in page:
        memory = change.after or change.before
        row = {
            "date": change.at[:10],
            "action": change.action,
            "id": change.memory_id,
            "text": shorten(memory.text) if memory else "",
            "by": shorten(change.by, _LABEL),
            "why": shorten(change.reason or change.why, _LABEL),
            "changeset": change.changeset,
        }
        why = f"; {row['why']}" if row["why"] else ""
        rows.append(row)
        lines.append(f"{row['date']} {row['action']} [{row['id']}] {row['text']} (by {row['by']}{why})")
    return _build_page(says, "changes", rows, lines, more)


def about_briefing(project: str, briefing: Briefing) -> ToolResult:
    """Return the briefing of a session start."""
    where = f"in {shorten(project, _LABEL)}" if project else "outside of any project"
    about = {"project": shorten(project, _LABEL), "ids": list(briefing.ids), "tokens": briefing.tokens}
    if not briefing:
        return text_result(f"A session {where} gets no context at its start.", **about, briefing="")
    says = f"The context that a session {where} gets at its start."
    return ToolResult(f"{says}\n{briefing.text}", {"says": says, "notice": NOTICE, **about, "briefing": briefing.text})


def about_learning(outcome: CaptureStatus) -> ToolResult:
    """Return the facts learned from a text, or why learning is delayed."""
    rows, lines = [], []
    for action in outcome.result.get("actions", ()):
        number = next((action[name] for name in ("id", "new_id", "existing_id", "old_id") if action.get(name)), None)
        row = {"action": str(action["action"]), "text": shorten(str(action.get("text") or ""))}
        rows.append({**row, **({"id": number} if number else {})})
        lines.append(f"{row['action']}{f' [{number}]' if number else ''} {row['text']}")
    reason = shorten(outcome.reason, _LABEL)
    if outcome.state in OPEN:
        says = f"The text is stored and will be processed later: {reason or 'it is queued'}"
    else:
        says = "" if outcome.new else "This text was processed before. "
        says += f"{count(len(rows), 'fact')} in it." if rows else f"No fact to keep was found. {reason}".strip()
    return _build_page(says, "learned", rows, lines, state=outcome.state, new=outcome.new)


def _build_page(
    says: str, name: str, content: Sequence[_Row] | _Row, lines: Sequence[str], more: int | None = None, **beside: Any
) -> ToolResult:
    """Return a sentence with its objects, marked as data; if there is a next page, both forms say how to get it."""
    following = {} if more is None else {"next": more}
    says += f" More: cursor {more}." if following else ""
    data = {"says": says, **({"notice": NOTICE} if content else {}), **beside, **following, name: content}
    if not lines:
        return ToolResult(says, data)
    return ToolResult("\n".join([says, f"<{TAG}>", NOTICE, *(f"- {line}" for line in lines), f"</{TAG}>"]), data)


def _memory_line(row: _Row) -> str:
    parts = (row["kind"], clean_label(row["source"]), row["date"], row["provenance"], row.get("strength"))
    about = ", ".join(part for part in parts if part)
    return f"[{row['id']}] {row['text']} ({about})"
