"""Session queries: listing, details, and the report for resuming work. Read-only."""

from __future__ import annotations

from cofio.errors import NotFound
from cofio.models import sessions
from cofio.models.memory import MAX_LABEL, MAX_PAGE, check_int, check_text, to_utc_iso
from cofio.models.sessions import RESUME_TOKENS, RESUMED, AgentSession, ResumeReport, SessionDetail, SessionMemory
from cofio.stores.access import Access

MOST_TURNS = 200  # newest turns shown per session
MOST_CHANGESETS = 200  # newest changesets evaluated per session
_RESUMED_CHANGESETS = 20  # per session in a report
MOST_FITTING = 1_000  # sessions with the same id prefix


class SessionService:
    """Reads the sessions of a store on behalf of one caller."""

    def __init__(self, access: Access) -> None:
        self._store = access.store
        self._index = access.store.episodes
        self._viewer = access.viewer

    def sessions(
        self, *, limit: int = 20, client: str = "", project: str | None = None, since: str = ""
    ) -> list[AgentSession]:
        """Return agent sessions by their last turn, newest first, optionally of one client or project.

        Sessions are known as long as their episodes are kept. A project is a path or a folder name; "" selects sessions
        without a project.
        """
        return self._index.sessions(
            check_int(limit, "limit", least=1, most=MAX_PAGE),
            client=check_text(client, "client", MAX_LABEL),
            project=None if project is None else check_text(project, "project", MAX_LABEL),
            since=to_utc_iso(since) if since else "",
        )

    def session(self, session: str, *, client: str = "", owner: str | None = None) -> SessionDetail:
        """Return one session by its id or a unique prefix of it: its turns, recalls, memories learned and changes.

        `owner` is a user or an agent, to tell sessions of the same name apart; "" selects sessions without an owner.
        """
        name = check_text(session, "session", MAX_LABEL).strip()
        check_text(client, "client", MAX_LABEL)
        if owner is not None:
            check_text(owner, "owner", MAX_LABEL)
        matches = self._index.sessions(MOST_FITTING, client=client, prefix=name) if name else []
        fitting = [match for match in matches if owner in (None, match.owner)]
        return self._build_detail(sessions.resolve_session(fitting, name, self._viewer), MOST_TURNS, MOST_CHANGESETS)

    def resume(
        self, project: str | None = None, *, limit: int = RESUMED, max_tokens: int = RESUME_TOKENS
    ) -> ResumeReport:
        """Return where work on a project stopped: its last sessions, with a text of limited size. No model is called.

        None covers all projects; "" selects sessions without a project.
        """
        if project is not None:
            check_text(project, "project", MAX_LABEL)
        check_int(limit, "limit", least=1, most=20)
        check_int(max_tokens, "max_tokens", least=100, most=20_000)
        resumed = self._index.sessions(limit, project=project, own=self._viewer)
        details = [self._build_detail(session, 1, _RESUMED_CHANGESETS) for session in resumed]
        return sessions.report(project, details, max_tokens)

    def _build_detail(self, session: AgentSession, turns: int, changesets: int) -> SessionDetail:
        session_turns = self._index.turns(session, turns)
        summaries = self._index.turns(session, turns, summaries=True)
        learned: list[SessionMemory] = []
        changed: list[SessionMemory] = []
        for number in self._index.changesets(session, changesets):
            try:
                changeset = self._store.changeset(number)
            except NotFound:  # not visible to this viewer
                continue
            for is_new, memory in sessions.memories_of(changeset.changes, undone=changeset.undone_by is not None):
                (learned if is_new else changed).append(memory)
        recalled = self._store.get(self._index.injected(session)) if turns > 1 else []
        return SessionDetail(
            session=session,
            turns=tuple(sessions.turn_of(turn) for turn in session_turns),
            summaries=tuple(sessions.summary_of(summary) for summary in summaries),
            recalled=tuple(SessionMemory(id=memory.id, text=memory.text) for memory in recalled),
            learned=tuple(learned),
            changed=tuple(changed),
        )
