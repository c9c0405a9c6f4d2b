"""Agent sessions: their captured turns, recalled and learned memories, and the report for resuming work.

    episodes ─ grouped ─▶ AgentSession ─ turns, changesets ─▶ SessionDetail ─ report ─▶ ResumeReport

All functions are pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from cofio.errors import Conflict, NotFound
from cofio.models.episodes import Episode, base_turn, shortened, shown_client
from cofio.models.exchange import COMPACT_SUMMARY
from cofio.models.json_values import JsonFields
from cofio.models.memory import Change, Viewer
from cofio.text import lazy_re
from cofio.text.briefing import RemainingSpace, build_section, estimate_tokens

RESUME_TOKENS = 1_200  # maximum of a resume report
_LONGEST_TOKEN = 1_000  # characters
RESUMED = 3  # sessions in a resume report
TURN_CHARACTERS = 2_000  # of a prompt or an answer in a session's details
_PROMPT, _ANSWER, _SUMMARY, _FACT, _POINT = 300, 500, 1_800, 240, 200  # characters in a report
_FACTS, _POINTS = 6, 5  # per session in a report
_LISTED = 5  # sessions listed if a prefix is ambiguous
_SPOKEN = lazy_re.compile(r"^(User|Assistant): ", re.MULTILINE)
_ANALYSIS = lazy_re.compile(r"\A\s*<analysis>.*?</analysis>", re.DOTALL)
_CONTINUED = lazy_re.compile(r"\AThis session is being continued[^\n]*\n+")
_HEADING = lazy_re.compile(
    r"^[ \t]*(?=#|\d+[.)]|[^\n:]{3,70}:[ \t*]*$)(?:#+[ \t]*)?(?:\d+[.)][ \t]*)?(?:\*\*)?([A-Z][A-Za-z /&-]{2,60})"
    r"(?:\*\*)?:?(?:\*\*)?[ \t]*$",
    re.MULTILINE,
)
_BULLET = lazy_re.compile(r"^[ \t]*(?:[-*•]|\d+[.)])[ \t]+(.+)$", re.MULTILINE)
_NOTHING_OPEN = lazy_re.compile(r"^(none|nothing|no |n/a|all )", re.IGNORECASE)
_PENDING = ("pending tasks", "pending", "open tasks", "remaining tasks", "todo", "next steps")
_NOW = (*_PENDING, "current work", "optional next step", "next step")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSession(JsonFields):
    """Session of a client, as far as its turns are indexed as episodes or pending."""

    client: str  # without the suffix that separates API keys
    session: str
    user: str = ""
    agent: str = ""
    project: str = ""  # of the last turn
    first_at: str
    last_at: str
    turns: int = 0
    summaries: int = 0  # compaction summaries

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Return the identity of the session. Different owners never share one, whatever ids their clients use."""
        return self.client, self.session, self.user, self.agent

    @property
    def owner(self) -> str:
        """Return the user who owns it, else the agent."""
        return self.user or self.agent


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTurn:
    """Turn of a session: prompt and answer, shortened."""

    at: str
    turn: str = ""
    episode: int | None = None  # holds the full text; None until the turn is indexed
    prompt: str = ""
    answer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSummary:
    """Summary written by a model when it compacted the conversation."""

    at: str
    episode: int | None = None
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionMemory:
    """Memory that was recalled, learned or changed in a session."""

    id: int
    text: str
    action: str = ""  # of a change: add, update, delete and so on
    changeset: int | None = None
    at: str = ""
    undone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDetail:
    """Session with its newest turns and related memories; each list is ordered oldest first."""

    session: AgentSession
    turns: tuple[SessionTurn, ...] = ()
    summaries: tuple[CompactionSummary, ...] = ()
    recalled: tuple[SessionMemory, ...] = ()
    learned: tuple[SessionMemory, ...] = ()
    changed: tuple[SessionMemory, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values, with the fields of the session at the top level."""
        lists = {name: [asdict(item) for item in getattr(self, name)] for name in _LISTS}
        return {
            **self.session.as_dict(),
            "turn_list": lists.pop("turns"),
            "summary_list": lists.pop("summaries"),
            **lists,
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> SessionDetail:
        """Read a value written by `as_dict`."""
        values = {**plain, "turns": plain["turn_list"], "summaries": plain["summary_list"]}
        lists = {name: tuple(kind(**item) for item in values[name]) for name, kind in _LISTS.items()}
        return cls(session=AgentSession.from_dict(plain), **lists)


_LISTS: Mapping[str, Any] = {
    "turns": SessionTurn,
    "summaries": CompactionSummary,
    "recalled": SessionMemory,
    "learned": SessionMemory,
    "changed": SessionMemory,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeReport(JsonFields):
    """Report on where work on a project stopped: the last sessions, newest first, also as bounded text."""

    project: str | None
    sessions: tuple[SessionDetail, ...]
    open: tuple[str, ...]  # points known to be open
    text: str
    tokens: int


# ── grouping turns ────────────────────────────────────────────────────────────────────────────────────────────────────


def sessions_of(episodes: Iterable[Episode]) -> list[AgentSession]:
    """Group turns into sessions, dropping turns without a session."""
    turns: dict[tuple[str, str, str, str], list[Episode]] = {}
    for episode in episodes:
        if episode.session:
            turns.setdefault(key_of(episode), []).append(episode)
    return [_build_session(key, group) for key, group in turns.items()]


def _build_session(key: tuple[str, str, str, str], episodes: Sequence[Episode]) -> AgentSession:
    client, session, user, agent = key
    ordered = sorted(episodes, key=lambda episode: episode.at)
    spoken = [episode for episode in episodes if not is_summary(episode)]
    return AgentSession(
        client=client,
        session=session,
        user=user,
        agent=agent,
        project=ordered[-1].project,
        first_at=ordered[0].at,
        last_at=ordered[-1].at,
        turns=len({base_turn(episode.turn) or episode.id or -(episode.capture or 0) for episode in spoken}),
        summaries=len(episodes) - len(spoken),
    )


def merge_sessions(sessions: Iterable[AgentSession]) -> list[AgentSession]:
    """Merge values of the same session; newest first."""
    merged: dict[tuple[str, str, str, str], AgentSession] = {}
    for session in sessions:
        earlier = merged.get(session.key)
        merged[session.key] = _merge_pair(earlier, session) if earlier else session
    return sorted(merged.values(), key=lambda session: (session.last_at, session.session), reverse=True)


def _merge_pair(one: AgentSession, other: AgentSession) -> AgentSession:
    return replace(
        one,
        project=max(one, other, key=lambda session: session.last_at).project,
        first_at=min(one.first_at, other.first_at),
        last_at=max(one.last_at, other.last_at),
        turns=one.turns + other.turns,
        summaries=one.summaries + other.summaries,
    )


def is_summary(episode: Episode) -> bool:
    """Return whether the episode is a compaction summary."""
    return episode.context == COMPACT_SUMMARY


def key_of(episode: Episode) -> tuple[str, str, str, str]:
    """Return the key of the episode's session."""
    return shown_client(episode.client), episode.session, episode.user, episode.agent


def belongs_to(episode: Episode, session: AgentSession) -> bool:
    """Return whether the episode belongs to this session."""
    return key_of(episode) == session.key


def clients_of(session: AgentSession, identities: Iterable[tuple[str, str, str]], *, shared: bool) -> set[str]:
    """Return the client names of a session among (client, user, agent) of sessions with the same id.

    Without `shared`, names also used by another owner's session are excluded.
    """
    matches = [identity for identity in identities if shown_client(identity[0]) == session.client]
    own = {client for client, user, agent in matches if (user, agent) == (session.user, session.agent)}
    others = {client for client, user, agent in matches if (user or agent) != session.owner}
    return own if shared else own - others


def is_in(project: str, wanted: str | None) -> bool:
    """Return whether a project matches `wanted`: its path, or the name of its folder. None matches all."""
    folder = folder_of(wanted)
    return wanted in (None, project) or bool(folder and project.endswith(folder))


def folder_of(name: str | None) -> str:
    """Return the path suffix for a project name: "/web" for "web", "" for a path."""
    return f"/{name}" if name and "/" not in name else ""


def resolve_session(sessions: Sequence[AgentSession], name: str, viewer: Viewer | None) -> AgentSession:
    """Return the session with this id or unique id prefix. A viewer's own sessions take precedence."""
    matches = [session for session in sessions if session.session == name] or list(sessions)
    if viewer:
        matches = [session for session in matches if is_own(session, viewer)] or matches
    if not matches:
        raise NotFound(f"There is no session {shortened(name, 80)!r}.", "`cofio sessions` lists the sessions.")
    if len({(session.client, session.session) for session in matches}) > 1:
        choices = ", ".join(f"{session.session} ({session.client})" for session in matches[:_LISTED])
        raise Conflict(f"Several sessions begin with {name!r}: {choices}.", "Give more of the id, or the client.")
    return matches[0]


def is_own(session: AgentSession, viewer: Viewer | None) -> bool:
    """Return whether the session belongs to the viewer; True without a viewer."""
    if viewer is None:
        return True
    return session.user == viewer.user if session.user else session.agent == viewer.agent != ""


# ── turns and changes ─────────────────────────────────────────────────────────────────────────────────────────────────


def turn_of(episode: Episode) -> SessionTurn:
    """Return a turn for display."""
    prompt, answer = prompt_and_answer(episode.text)
    return SessionTurn(
        at=episode.at,
        turn=episode.turn,
        episode=episode.id or None,
        prompt=_cut_end(prompt, TURN_CHARACTERS),
        answer=_cut_start(answer, TURN_CHARACTERS),
    )


def summary_of(episode: Episode) -> CompactionSummary:
    """Return a compaction summary for display."""
    text = prompt_and_answer(episode.text)[1] or episode.text
    return CompactionSummary(at=episode.at, episode=episode.id or None, text=text)


def prompt_and_answer(text: str) -> tuple[str, str]:
    """Return the first user message and the last agent message of an episode's text."""
    _, *parts = _SPOKEN.split(text)
    messages = list(zip(parts[::2], (part.strip() for part in parts[1::2]), strict=True))
    prompt = next((part for role, part in messages if role == "User"), "")
    answer = next((part for role, part in reversed(messages) if role == "Assistant"), "")
    return prompt, answer


def memories_of(changes: Iterable[Change], *, undone: bool) -> Iterator[tuple[bool, SessionMemory]]:
    """Yield the memories changed by a changeset, each with whether it is new; skip noops and replaced ones."""
    all_changes = list(changes)
    replaced_ids = {change.after.supersedes for change in all_changes if change.action == "update" and change.after}
    for change in all_changes:
        if (
            change.action == "noop"
            or (change.after is None and change.before is None)
            or change.memory_id in replaced_ids
        ):
            continue
        memory = SessionMemory(
            id=change.memory_id,
            text=change.memory.text,
            action=change.action,
            changeset=change.changeset,
            at=change.at,
            undone=undone,
        )
        yield change.action == "add", memory


def without_wrappers(summary: str) -> str:
    """Return a compaction summary without the model's analysis and surrounding tags."""
    text = _ANALYSIS.sub("", _CONTINUED.sub("", summary)).strip()
    _, tag, body = text.partition("<summary>")
    return (body.removesuffix("</summary>") if tag else text).strip()


# ── resuming ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def report(project: str | None, details: Sequence[SessionDetail], most: int = RESUME_TOKENS) -> ResumeReport:
    """Return the report on the last sessions, newest first, within `most` tokens."""
    points = tuple(_find_open_points(details))
    text = _truncate(list(_write_lines(project, details, points)), most)
    return ResumeReport(project=project, sessions=tuple(details), open=points, text=text, tokens=estimate_tokens(text))


def _write_lines(project: str | None, details: Sequence[SessionDetail], points: Sequence[str]) -> Iterator[str]:
    where = f"in {shortened(project, 200)}" if project else "outside of projects" if project == "" else "in any project"
    if not details:
        yield f"No session {where} is recorded."
        return
    yield f"Last sessions {where}:"
    if points:
        yield "\nOpen:"
        yield from (f"- {point}" for point in points)
    summary = _find_newest_summary(details)
    for place, detail in enumerate(details):
        yield from _describe_session(detail)
        if place == 0 and summary:
            yield from _describe_summary(*summary)


def _describe_session(detail: SessionDetail) -> Iterator[str]:
    about = detail.session
    turns = f"{about.turns} turn{'' if about.turns == 1 else 's'}"
    yield f"\n{shortened(about.client, 80)}, {_minute(about.last_at)}, {turns} (session {shortened(about.session, 80)})"
    if detail.turns:
        last = detail.turns[-1]
        if last.prompt:
            yield f"Last prompt: {shortened(last.prompt, _PROMPT)}"
        if last.answer:
            yield f"Last answer ended: {_cut_start(shortened(last.answer, 100_000), _ANSWER)}"
    memories = [memory for memory in (*detail.learned, *detail.changed) if not memory.undone]
    if memories:
        yield "Learned and changed:"
        for memory in memories[-_FACTS:]:
            action = "" if memory.action == "add" else f" ({memory.action})"
            yield f"- [{memory.id}] {shortened(memory.text, _FACT)}{action}"
        if len(memories) > _FACTS:
            yield f"- and {len(memories) - _FACTS} more"


def _describe_summary(detail: SessionDetail, summary: CompactionSummary) -> Iterator[str]:
    yield f"\nCompaction summary of {_minute(summary.at)} (session {shortened(detail.session.session, 80)}):"
    yield _extract_sections(summary.text)


def _extract_sections(text: str) -> str:
    """Return the sections on pending and current work or, without such sections, the beginning."""
    sections = [
        f"{title}: {shortened(body, _SUMMARY)}" for title, body in _split_sections(text) if title.lower() in _NOW
    ]
    return shortened("; ".join(sections) or text, _SUMMARY)


def _find_newest_summary(details: Sequence[SessionDetail]) -> tuple[SessionDetail, CompactionSummary] | None:
    summaries = [(detail, summary) for detail in details for summary in detail.summaries]
    return max(summaries, key=lambda pair: pair[1].at, default=None)


def _find_open_points(details: Sequence[SessionDetail]) -> Iterator[str]:
    """Yield points known to be open: an unanswered prompt, the agent's question, pending tasks of a summary."""
    begun = bool(details) and details[0].session.turns <= 1 and not any(turn.answer for turn in details[0].turns)
    for detail in details[: 2 if begun else 1]:  # a session that just began may be the current one
        last = detail.turns[-1] if detail.turns else None
        if last and last.prompt and not last.answer:
            yield f"The last prompt has no answer: {shortened(last.prompt, _POINT)}"
        elif last and last.answer.rstrip().endswith("?"):
            yield f"The agent asked: {shortened(_get_last_sentence(last.answer), _POINT)}"
    newest = _find_newest_summary(details)
    for title, body in _split_sections(newest[1].text) if newest else ():
        if title.lower() in _PENDING:
            points = [match.strip() for match in _BULLET.findall(body)] or [body]
            yield from (
                shortened(point, _POINT) for point in points[:_POINTS] if point and not _NOTHING_OPEN.match(point)
            )


def _split_sections(text: str) -> list[tuple[str, str]]:
    """Split a summary at its headings into title and text."""
    _, *parts = _HEADING.split(text)
    return [(title.strip(), body.strip()) for title, body in zip(parts[::2], parts[1::2], strict=True)]


def _get_last_sentence(text: str) -> str:
    return re.split(r"(?<=[.!?])\s+|\n+", text.strip())[-1]


def _truncate(lines: list[str], most: int) -> str:
    """Join the first lines that fit into the token limit; a first line that does not fit is shortened."""
    room = RemainingSpace(tokens=most, characters=most * _LONGEST_TOKEN)
    text = build_section("", [lines[0], *(f"\n{line}" for line in lines[1:])], room)[0] or lines[0]
    while text and estimate_tokens(text) > most:
        text = text[: len(text) * 3 // 4]
    return text


def _minute(at: str) -> str:
    return at[:16].replace("T", " ") + " UTC"


def _cut_end(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _cut_start(text: str, most: int) -> str:
    return text if len(text) <= most else "…" + text[-(most - 1) :].lstrip()
