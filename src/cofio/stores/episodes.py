"""Episodes in the SQL stores: turns of the inbox, indexed in passages by words and vectors.

inbox ─ trigger ─▶ unindexed ─ index ─▶ episodes, passages, words ─ put_vectors ─▶ vectors
                                                └─ nearest, matching ─▶ candidates, by passage
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, starmap
from typing import Any

from cofio.errors import Conflict
from cofio.models.episodes import (
    Episode,
    EpisodeCounts,
    ExportedEpisode,
    Passage,
    base_turn,
    episode_of,
    is_indexed,
    passages_of,
    shown_client,
)
from cofio.models.memory import Candidate, Matching, Scope, Viewer, to_utc_iso
from cofio.models.sessions import (
    AgentSession,
    belongs_to,
    clients_of,
    folder_of,
    is_in,
    is_own,
    is_summary,
    key_of,
    merge_sessions,
    sessions_of,
)
from cofio.ports import Clock, Vector
from cofio.stores import inbox_rules, llm_calls
from cofio.stores.filters import visible_to
from cofio.stores.query_runner import Database, Queries, SearchIndex, SqlAdapter
from cofio.stores.row_mapping import is_storable_int

_LABELS = ("source", "project", "client", "session", "turn", "agent", "user", "team", "visibility", "context")
_COLUMNS = ("created_at", *_LABELS)
_LISTED = ", ".join(f'"{name}"' for name in _COLUMNS)
_WAITING = 2_000  # newest captures not indexed yet that are searched for sessions
_LAST = "\U0010ffff"  # sorts after every other character
_AT_ONCE = 200  # episodes removed in one transaction


class SqlEpisodes(SqlAdapter):
    """EpisodeIndex of an SQL store, without the upkeep of vectors."""

    def __init__(self, database: Database, clock: Clock, ranking: SearchIndex) -> None:
        super().__init__(database, clock)
        self._ranking = ranking

    # ── indexing ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def unindexed(self, limit: int) -> list[int]:
        return [row[0] for row in self._read("captures_to_index", {"limit": limit})]

    def index(self, capture: int) -> int | None:
        with self._database.writing() as queries:
            return self._index_capture(queries, capture)

    def _index_capture(self, queries: Queries, capture: int) -> int | None:
        values = {"capture": capture}
        rows = queries.all("capture_to_index", values)
        exchange = inbox_rules.from_payload(rows[0][0]) if rows else None
        old: int | None = queries.value("episode_by_capture", values)
        queries.run("mark_indexed", values)
        if exchange is None:  # forgotten: its index entries are kept
            return old
        queries.run("drop_passages", values)
        number = None
        if is_indexed(exchange):
            episode = episode_of(exchange, capture)
            number = self._save_row(queries, episode, old)
            others = int(queries.value("count_passages", {"episode": number}))
            self._insert(queries, number, capture, passages_of(episode.text, others))
        if old not in (None, number):
            queries.run("drop_empty_episode", {"episode": old})
        return number

    def _save_row(self, queries: Queries, episode: Episode, old: int | None) -> int:
        """Return the row that the episode goes into: its own, that of its turn, or a new one."""
        row = _to_row(episode)
        if old is not None and not queries.value("count_passages", {"episode": old}):
            queries.run("save_episode", {**row, "id": old})
            return old
        number: int | None = queries.value("episode_by_turn", {**row, "base": base_turn(episode.turn)})
        return number if number is not None else _insert_episode(queries, row)

    def _insert(self, queries: Queries, episode: int, capture: int | None, texts: Sequence[str]) -> list[int]:
        numbers = []
        for place, passage in enumerate(texts):
            text = inbox_rules.make_storable(passage)
            row = {"episode": episode, "capture": capture, "place": place, "size": len(text.encode()), "text": text}
            numbers.append(int(queries.all("insert_passage", {**row, **self._searchable(text)})[0][0]))
        return numbers

    def _searchable(self, text: str) -> dict[str, Any]:  # noqa: ARG002
        """Return further columns needed for word search."""
        return {}

    # ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def get(self, ids: Sequence[int]) -> list[Episode]:
        with self._reading() as queries:
            episode_by_id = {episode.id: episode for episode in _read_episodes(queries, ids)}
        return [episode_by_id[number] for number in ids if number in episode_by_id]

    def passages(self, ids: Sequence[int]) -> list[Passage]:
        passage_by_id = {row[0]: Passage(*row) for row in self._read_ids("get_passages", ids)}
        return [passage_by_id[number] for number in ids if number in passage_by_id]

    def of_memory(self, memory_id: int) -> int | None:
        rows = self._read("episode_by_memory", {"memory": memory_id}) if is_storable_int(memory_id) else []
        return rows[0][0] if rows else None

    def unembedded(self, limit: int) -> list[Passage]:
        return list(starmap(Passage, self._read("passage_unembedded", {"limit": limit})))

    def damaged_vectors(self) -> list[int]:
        return self._ranking.damaged()

    def drop_damaged_vectors(self) -> int:
        if damaged := self.damaged_vectors():
            with self._database.writing(alone=True) as queries:
                for name in ("drop_passage_vectors_of", "unembed_passages_of"):
                    queries.run(name, {"ids": queries.ids(damaged)})
                self._note_embedded(queries, damaged)
        return len(damaged)

    def _note_embedded(self, queries: Queries, ids: Sequence[int]) -> None:
        """Record a change of vectors for processes that hold them in memory, if the dialect needs it."""

    def counts(self) -> EpisodeCounts:
        return EpisodeCounts(*self._read("count_episodes")[0])

    def nearest(self, vector: Vector, k: int, scope: Scope, *, also: Iterable[int] = ()) -> list[Candidate]:
        return self._ranking.nearest(vector, k, replace(scope, include_archived=True), also)  # none is ever archived

    def matching(self, words: Sequence[str], k: int, scope: Scope) -> Matching:
        return self._ranking.matching(words, k, replace(scope, include_archived=True))

    # ── sessions ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def sessions(
        self,
        limit: int,
        *,
        client: str = "",
        project: str | None = None,
        prefix: str = "",
        since: str = "",
        viewer: Viewer | None = None,
        own: Viewer | None = None,
    ) -> list[AgentSession]:
        params = {"first": prefix, "last": prefix + _LAST, "since": since, "client": client, "limit": limit}
        params |= {"anywhere": int(project is None), "project": project or "", "folder": folder_of(project)}
        owner = (own.user, own.agent) if own else ("", "")
        params |= {"own": int(own is not None), "own_user": owner[0], "own_agent": owner[1]}
        with self._reading() as queries:
            waiting = [
                episode
                for episode in self._read_waiting(queries, viewer)
                if episode.session.startswith(prefix) and client in ("", shown_client(episode.client))
            ]
            within = {key_of(episode) for episode in waiting if is_in(episode.project, project)}
            params["also"] = queries.listed(sorted({session for _, session, *_ in within}))
            where, values = visible_to(viewer, queries.dialect)
            rows = queries.all("sessions", {**params, **values}, where=where)
        sessions = [_to_session(row) for row in rows]
        within |= {session.key for session, row in zip(sessions, rows, strict=True) if project is None or row[-1]}
        merged = merge_sessions([*sessions, *sessions_of(waiting)])
        matches = (
            session for session in merged if session.key in within and session.last_at >= since and is_own(session, own)
        )
        return [session for session in matches if client in ("", session.client)][:limit]

    def turns(
        self, session: AgentSession, limit: int, *, summaries: bool = False, viewer: Viewer | None = None
    ) -> list[Episode]:
        with self._reading() as queries:
            where, values = visible_to(viewer, queries.dialect)
            params = {**self._bind_session(queries, session), "summaries": int(summaries), "limit": limit}
            numbers = queries.column("session_episodes", {**params, **values}, where=where)
            episodes = [*_read_episodes(queries, numbers), *self._read_waiting(queries, viewer, session.session)]
        own = [episode for episode in episodes if belongs_to(episode, session) and is_summary(episode) == summaries]
        newest = sorted(own, key=lambda episode: (episode.at, episode.id or 1 << 62))[-limit:]
        return [replace(episode, client=shown_client(episode.client)) for episode in newest]

    def _read_waiting(self, queries: Queries, viewer: Viewer | None, session: str = "") -> list[Episode]:
        """Return the episodes that unindexed captures will become; only those of one session, if given."""
        rows = queries.all("waiting_captures", {"limit": _WAITING, "session": session})
        exchanges = ((capture, inbox_rules.from_payload(payload)) for capture, payload in rows)
        episodes = [
            episode_of(exchange, capture) for capture, exchange in exchanges if exchange and is_indexed(exchange)
        ]
        return [episode for episode in episodes if viewer is None or viewer.sees(episode)]

    def changesets(self, session: AgentSession, limit: int) -> list[int]:
        with self._reading() as queries:
            rows = queries.all("session_changesets", self._bind_session(queries, session))
        numbers = []
        for number, user, agent, payload in rows:
            if user is None:  # no episode: the owner is that of the capture, if its words are left
                exchange = inbox_rules.from_payload(payload)
                user, agent = (exchange.user, exchange.agent) if exchange else (session.user, session.agent)
            if (user, agent) == (session.user, session.agent):
                numbers.append(number)
        return sorted(set(numbers[:limit]))

    def injected(self, session: AgentSession) -> list[int]:
        with self._reading() as queries:
            return queries.column("session_given", self._bind_session(queries, session, shared=False))

    def _bind_session(self, queries: Queries, session: AgentSession, *, shared: bool = True) -> dict[str, Any]:
        """Return the values that identify a session, with its client's name under each key that delivered it.

        Without `shared`, names under which another owner has a session of the same id are left out.
        """
        about = {"session": session.session, "user": session.user, "agent": session.agent}
        clients = {tuple(row) for row in queries.all("session_clients", about)}
        clients |= {
            (episode.client, episode.user, episode.agent)
            for episode in self._read_waiting(queries, None, session.session)
        }
        return {**about, "clients": queries.listed(sorted(clients_of(session, clients, shared=shared)))}

    # ── removing ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def remove(self, ids: Sequence[int]) -> int:
        with self._database.writing() as queries:
            values = {"ids": queries.ids(ids)}
            if waiting := queries.all("open_captures_of", values):
                hint = "Try again later; `cofio inbox` shows pending captures."
                raise Conflict(f"Episode {waiting[0][0]} has unprocessed captures.", hint)
            count = len(queries.all("get_episodes", values, columns=_LISTED))
            for name in ("erase_captures_of", "remove_episodes"):
                queries.run(name, values)
            llm_calls.erase(queries)
            queries.tidy("tidy_passage_words")
        return count

    def forget(self, before: str, most_bytes: int) -> int:
        with self._reading() as queries:
            limits = {"before": to_utc_iso(before), "most": most_bytes, "vector": self._vector_size(queries)}
            old = queries.column("old_episodes", limits)
        for start in range(0, len(old), _AT_ONCE):  # in small transactions, so that others can write in between
            with self._database.writing() as queries:
                queries.run("remove_episodes", {"ids": queries.listed(old[start : start + _AT_ONCE])})
        return len(old)

    def _vector_size(self, queries: Queries) -> int:
        """Return the size of a passage's vector in bytes."""
        raise NotImplementedError


def erase(queries: Queries, memory_id: int, texts: Sequence[str], viewer: Viewer | None) -> int:
    """Remove the episodes that a purged memory was learned from, or that contain its words; return how many.

    With a viewer, only the viewer's own.
    """
    numbers = queries.column("episodes_saying", {"id": memory_id, "said": queries.listed(texts)})
    if viewer is not None:
        episodes = _read_episodes(queries, numbers)
        numbers = [episode.id for episode in episodes if inbox_rules.is_owned_by(episode, viewer)]
    if numbers:
        queries.run("remove_episodes", {"ids": queries.listed(numbers)})
    return len(numbers)


def export_episodes(queries: Queries, after: int, limit: int) -> list[ExportedEpisode]:
    """Return the episodes above an id, for adoption by another store."""
    rows = queries.all("carried_episodes", {"after": after, "limit": limit}, columns=_LISTED)
    ids = queries.listed([row[0] for row in rows])
    passages = groupby(queries.all("carried_passages", {"ids": ids}), key=lambda row: row[0])
    parts = {
        number: tuple((text, None if vector is None else queries.to_blob(vector)) for _, text, vector in group)
        for number, group in passages
    }
    return [
        ExportedEpisode(_to_episode(row, [text for text, _ in parts.get(row[0], ())]), parts.get(row[0], ()))
        for row in rows
    ]


def adopt_rows(index: SqlEpisodes, queries: Queries, episodes: Sequence[ExportedEpisode]) -> dict[int, bytes]:
    """Store episodes of another store under their own ids, replacing existing ones; return vectors by passage."""
    queries.run("remove_episodes", {"ids": queries.listed([exported.episode.id for exported in episodes])})
    vectors: dict[int, bytes] = {}
    for episode, parts in episodes:
        number = _insert_episode(queries, {**_to_row(episode), "id": episode.id}, ("id", *_COLUMNS))
        passages = index._insert(queries, number, None, [text for text, _ in parts])
        vectors.update({passage: blob for passage, (_, blob) in zip(passages, parts, strict=True) if blob is not None})
    return vectors


def _read_episodes(queries: Queries, ids: Sequence[int]) -> list[Episode]:
    values = {"ids": queries.ids(ids)}
    passages = groupby(queries.all("passages_of", values), key=lambda row: row[0])
    texts = {number: [text for _, _, text in rows] for number, rows in passages}
    rows = queries.all("get_episodes", values, columns=_LISTED)
    return [_to_episode(row, texts.get(row[0], [])) for row in rows]


def _insert_episode(queries: Queries, row: Mapping[str, Any], names: Sequence[str] = _COLUMNS) -> int:
    columns = ", ".join(f'"{name}"' for name in names)
    places = ", ".join(queries.dialect.value.format(name) for name in names)
    return int(queries.all("insert_episode", row, columns=columns, places=places)[0][0])


def _to_row(episode: Episode) -> dict[str, Any]:
    return {"created_at": episode.at, **{name: getattr(episode, name) for name in _LABELS}}


def _to_episode(row: Sequence[Any], texts: Sequence[str]) -> Episode:
    number, at, *labels, capture = row
    fields: dict[str, Any] = dict(zip(_LABELS, labels, strict=True))
    return Episode(id=number, at=at, text="".join(texts).strip(), capture=capture, **fields)


def _to_session(row: Sequence[Any]) -> AgentSession:
    client, session, user, agent, first_at, last_at, turns, summaries, last, _ = row
    return AgentSession(
        client=shown_client(client),
        session=session,
        user=user,
        agent=agent,
        project=last.partition(" ")[2],
        first_at=first_at,
        last_at=last_at,
        turns=turns,
        summaries=summaries,
    )
