"""Session queries: listing, details, and the report for resuming work. Read-only."""

from __future__ import annotations

from collections.abc import Iterable

from cofio.errors import NotFound
from cofio.models import sessions
from cofio.models.memory import Viewer
from cofio.models.sessions import AgentSession, ResumeReport, SessionDetail, SessionMemory
from cofio.ports import Store

MOST_TURNS = 200  # newest turns shown per session
MOST_CHANGESETS = 200  # newest changesets evaluated per session
_RESUMED_CHANGESETS = 20  # per session in a report
MOST_FITTING = 1_000  # sessions with the same id prefix


class SessionService:
    """Reads the sessions of a store on behalf of a viewer."""

    def __init__(self, store: Store, viewer: Viewer | None) -> None:
        self._store = store
        self._index = store.episodes
        self._viewer = viewer

    def newest(self, limit: int, *, client: str, project: str | None, since: str) -> list[AgentSession]:
        """List the sessions, newest first."""
        return self._index.sessions(limit, client=client, project=project, since=since)

    def show(self, name: str, *, client: str, owner: str | None) -> SessionDetail:
        """Return the session with this id or unique id prefix, limited to one owner if given."""
        matches = self._index.sessions(MOST_FITTING, client=client, prefix=name) if name else []
        fitting = [session for session in matches if owner in (None, session.owner)]
        return self._build_detail(sessions.resolve_session(fitting, name, self._viewer), MOST_TURNS, MOST_CHANGESETS)

    def resume(self, project: str | None, limit: int, most_tokens: int) -> ResumeReport:
        """Report where work on a project stopped. A viewer's report covers only their own sessions."""
        own = self._index.sessions(limit, project=project, own=self._viewer)
        details = [self._build_detail(session, 1, _RESUMED_CHANGESETS) for session in own]
        return sessions.report(project, details, most_tokens)

    def _build_detail(self, session: AgentSession, turns: int, changesets: int) -> SessionDetail:
        session_turns = self._index.turns(session, turns)
        summaries = self._index.turns(session, turns, summaries=True)
        learned, changed = self._list_changes(self._index.changesets(session, changesets))
        recalled = self._store.get(self._index.given(session)) if turns > 1 else []
        return SessionDetail(
            session=session,
            turns=tuple(sessions.turn_of(turn) for turn in session_turns),
            summaries=tuple(sessions.summary_of(summary) for summary in summaries),
            recalled=tuple(SessionMemory(id=memory.id, text=memory.text) for memory in recalled),
            learned=tuple(learned),
            changed=tuple(changed),
        )

    def _list_changes(self, numbers: Iterable[int]) -> tuple[list[SessionMemory], list[SessionMemory]]:
        """Return the memories added, and those changed, by changesets."""
        learned: list[SessionMemory] = []
        changed: list[SessionMemory] = []
        for number in numbers:
            try:
                changeset = self._store.changeset(number)
            except NotFound:  # not visible to this viewer
                continue
            for is_new, memory in sessions.memories_of(changeset.changes, undone=changeset.undone_by is not None):
                (learned if is_new else changed).append(memory)
        return learned, changed
