"""Episodes in the SQL stores: turns of the inbox, indexed in passages by words and vectors.

    inbox ─ trigger ─▶ unindexed ─ index ─▶ episodes, passages, words ─ put_vectors ─▶ vectors
                                                    └─ nearest, matching ─▶ candidates, by passage

`SqlEpisodes` is the same in every dialect; `SqliteEpisodes` adds the ranking of an SQLite file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

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
from cofio.ports import Vector
from cofio.stores import inbox_rules, llm_calls
from cofio.stores.filters import seen_by
from cofio.stores.knowledge import NamedQueries, SqliteNamedQueries
from cofio.stores.row_mapping import check_vectors, is_storable_int
from cofio.stores.sqlite.bm25 import PASSAGES
from cofio.stores.sqlite.connection import BRIEFLY, StoreFile
from cofio.stores.sqlite.ranking import Ranking

_LABELS = ("source", "project", "client", "session", "turn", "agent", "user", "team", "visibility", "context")
_COLUMNS = ("created_at", *_LABELS)
_LISTED = ", ".join(f'"{name}"' for name in _COLUMNS)
_FLOAT = 4  # bytes of a number in a vector
_WAITING = 2_000  # newest captures not indexed yet that are searched for sessions
_LAST = "\U0010ffff"  # sorts after every other character
_AT_ONCE = 200  # episodes removed in one transaction
Ask = Callable[[], AbstractContextManager[NamedQueries]]


class SqlEpisodes:
    """EpisodeIndex of an SQL store, without ranking; `reading` and `writing` provide connections."""

    def __init__(self, reading: Ask, writing: Ask) -> None:
        self._reading = reading
        self._writing = writing

    # ── indexing ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def unindexed(self, limit: int) -> list[int]:
        with self._reading() as asking:
            return [capture for (capture,) in asking.all("captures_to_index", {"limit": limit})]

    def index(self, capture: int) -> int | None:
        with self._writing() as asking:
            return self._indexed(asking, capture)

    def _indexed(self, asking: NamedQueries, capture: int) -> int | None:
        asked = {"capture": capture}
        found = asking.all("capture_to_index", asked)
        exchange = inbox_rules.from_payload(found[0][0]) if found else None
        old = _first(asking.all("episode_by_capture", asked))
        asking.run("mark_indexed", asked)
        if exchange is None:  # forgotten: its index entries are kept
            return old
        asking.run("drop_passages", asked)
        number = None
        if is_indexed(exchange):
            episode = episode_of(exchange, capture)
            number = self._row(asking, episode, old)
            others = int(asking.all("count_passages", {"episode": number})[0][0])
            self._insert(asking, number, capture, passages_of(episode.text, others))
        if old not in (None, number):
            asking.run("drop_empty_episode", {"episode": old})
        return number

    def _row(self, asking: NamedQueries, episode: Episode, old: int | None) -> int:
        """Return the row that the episode goes into: its own, that of its turn, or a new one."""
        row = _to_row(episode)
        if old is not None and not asking.all("count_passages", {"episode": old})[0][0]:
            asking.run("save_episode", {**row, "id": old})
            return old
        known = _first(asking.all("episode_by_turn", {**row, "base": base_turn(episode.turn)}))
        return known if known is not None else _inserted(asking, row)

    def _insert(
        self, asking: NamedQueries, episode: int, capture: int | None, texts: Sequence[str], after: int = 0
    ) -> list[int]:
        numbers = []
        for place, said in enumerate(texts, after):
            text = inbox_rules.make_storable(said)
            row = {"episode": episode, "capture": capture, "place": place, "size": len(text.encode()), "text": text}
            numbers.append(int(asking.all("insert_passage", {**row, **self._searchable(text)})[0][0]))
        return numbers

    def _searchable(self, text: str) -> dict[str, Any]:  # noqa: ARG002
        """Return further columns needed for word search."""
        return {}

    # ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def get(self, ids: Sequence[int]) -> list[Episode]:
        with self._reading() as asking:
            found = {episode.id: episode for episode in _episodes(asking, ids)}
        return [found[each] for each in ids if each in found]

    def passages(self, ids: Sequence[int]) -> list[Passage]:
        with self._reading() as asking:
            rows = asking.all("get_passages", {"ids": _listed(asking, ids)})
        found = {row[0]: Passage(*row) for row in rows}
        return [found[each] for each in ids if each in found]

    def of_memory(self, memory_id: int) -> int | None:
        if not is_storable_int(memory_id):
            return None
        with self._reading() as asking:
            return _first(asking.all("episode_by_memory", {"memory": memory_id}))

    def unembedded(self, limit: int) -> list[Passage]:
        with self._reading() as asking:
            return [Passage(*row) for row in asking.all("passage_unembedded", {"limit": limit})]

    def counts(self) -> EpisodeCounts:
        with self._reading() as asking:
            return EpisodeCounts(*asking.all("count_episodes", {})[0])

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
        asked = {"first": prefix, "last": prefix + _LAST, "since": since, "client": client, "limit": limit}
        asked |= {"anywhere": int(project is None), "project": project or "", "folder": folder_of(project)}
        asked |= {
            "own": int(own is not None),
            "own_user": own.user if own else "",
            "own_agent": own.agent if own else "",
        }
        with self._reading() as asking:
            waiting = [
                each
                for each in self._waiting(asking, viewer)
                if each.session.startswith(prefix) and client in ("", shown_client(each.client))
            ]
            within = {key_of(each) for each in waiting if is_in(each.project, project)}
            asked["also"] = asking.listed(sorted({session for _, session, *_ in within}))
            where, values = seen_by(viewer, asking.dialect)
            rows = asking.all("sessions", {**asked, **values}, where=where)
        found = [_to_session(row) for row in rows]
        within |= {each.key for each, row in zip(found, rows, strict=True) if project is None or row[-1]}
        listed = merge_sessions([*found, *sessions_of(waiting)])
        fitting = (each for each in listed if each.key in within and each.last_at >= since and is_own(each, own))
        return [each for each in fitting if client in ("", each.client)][:limit]

    def turns(
        self, session: AgentSession, limit: int, *, summaries: bool = False, viewer: Viewer | None = None
    ) -> list[Episode]:
        with self._reading() as asking:
            where, values = seen_by(viewer, asking.dialect)
            asked = {**self._named(asking, session), "summaries": int(summaries), "limit": limit}
            numbers = [number for (number,) in asking.all("session_episodes", {**asked, **values}, where=where)]
            found = [*_episodes(asking, numbers), *self._waiting(asking, viewer, session.session)]
        own = [each for each in found if belongs_to(each, session) and is_summary(each) == summaries]
        told = sorted(own, key=lambda each: (each.at, each.id or 1 << 62))[-limit:]
        return [replace(each, client=shown_client(each.client)) for each in told]

    def _waiting(self, asking: NamedQueries, viewer: Viewer | None, session: str = "") -> list[Episode]:
        """Return the episodes that unindexed captures will become; only those of one session, if given."""
        rows = asking.all("waiting_captures", {"limit": _WAITING, "session": session})
        read = ((capture, inbox_rules.from_payload(payload)) for capture, payload in rows)
        told = [episode_of(exchange, capture) for capture, exchange in read if exchange and is_indexed(exchange)]
        return [each for each in told if viewer is None or viewer.sees(each)]

    def changesets(self, session: AgentSession, limit: int) -> list[int]:
        with self._reading() as asking:
            rows = asking.all("session_changesets", self._named(asking, session))
        told = [number for number, *teller in rows if _may_be_told_in(session, *teller)]
        return sorted(set(told[:limit]))

    def given(self, session: AgentSession) -> list[int]:
        with self._reading() as asking:
            return [number for (number,) in asking.all("session_given", self._named(asking, session, shared=False))]

    def _named(self, asking: NamedQueries, session: AgentSession, *, shared: bool = True) -> dict[str, Any]:
        """Return the values that identify a session, with its client's name under each key that delivered it.

        Without `shared`, names under which another owner has a session of the same id are left out.
        """
        about = {"session": session.session, "user": session.user, "agent": session.agent}
        told = {tuple(row) for row in asking.all("session_clients", about)}
        told |= {(each.client, each.user, each.agent) for each in self._waiting(asking, None, session.session)}
        return {**about, "clients": asking.listed(sorted(clients_of(session, told, shared=shared)))}

    # ── removing ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def remove(self, ids: Sequence[int]) -> int:
        with self._writing() as asking:
            asked = {"ids": _listed(asking, ids)}
            if waiting := asking.all("open_captures_of", asked):
                hint = "Try again later; `cofio inbox` shows pending captures."
                raise Conflict(f"Episode {waiting[0][0]} has unprocessed captures.", hint)
            there = len(asking.all("get_episodes", asked, columns=_LISTED))
            for name in ("erase_captures_of", "remove_episodes"):
                asking.run(name, asked)
            llm_calls.erase(asking)
            self._wipe(asking)
        return there

    def forget(self, before: str, most_bytes: int) -> int:
        with self._reading() as asking:
            limits = {"before": to_utc_iso(before), "most": most_bytes, "vector": self._vector_size(asking)}
            old = [number for (number,) in asking.all("old_episodes", limits)]
        for start in range(0, len(old), _AT_ONCE):  # in small transactions, so that others can write in between
            with self._writing() as asking:
                asking.run("remove_episodes", {"ids": asking.listed(old[start : start + _AT_ONCE])})
        return len(old)

    def _vector_size(self, asking: NamedQueries) -> int:
        """Return the size of a passage's vector in bytes."""
        raise NotImplementedError

    def _wipe(self, asking: NamedQueries) -> None:
        """Erase remaining traces of the removed words."""


def erase(asking: NamedQueries, memory_id: int, said: Sequence[str], viewer: Viewer | None) -> int:
    """Remove the episodes that a purged memory was learned from, or that contain its words; return how many.

    With a viewer, only the viewer's own.
    """
    found = [number for (number,) in asking.all("episodes_saying", {"id": memory_id, "said": asking.listed(said)})]
    if viewer is not None:
        found = [episode.id for episode in _episodes(asking, found) if inbox_rules.is_told_by(episode, viewer)]
    if found:
        asking.run("remove_episodes", {"ids": asking.listed(found)})
    return len(found)


def export_episodes(asking: NamedQueries, after: int, limit: int) -> list[ExportedEpisode]:
    """Return the episodes above an id, for adoption by another store."""
    rows = asking.all("carried_episodes", {"after": after, "limit": limit}, columns=_LISTED)
    listed = asking.listed([row[0] for row in rows])
    said = groupby(asking.all("carried_passages", {"ids": listed}), key=lambda row: row[0])
    parts = {number: tuple((text, _as_blob(vector)) for _, text, vector in some) for number, some in said}
    return [
        ExportedEpisode(_to_episode(row, [text for text, _ in parts.get(row[0], ())]), parts.get(row[0], ()))
        for row in rows
    ]


def _as_blob(vector: Any) -> bytes | None:
    if vector is None or isinstance(vector, bytes):
        return vector
    return np.ascontiguousarray(vector.to_numpy(), dtype="<f4").tobytes()


def adopt_rows(index: SqlEpisodes, asking: NamedQueries, episodes: Sequence[ExportedEpisode]) -> dict[int, bytes]:
    """Store episodes of another store under their own ids, replacing existing ones; return vectors by passage."""
    asking.run("remove_episodes", {"ids": asking.listed([each.episode.id for each in episodes])})
    vectors: dict[int, bytes] = {}
    for episode, parts in episodes:
        number = _inserted(asking, {**_to_row(episode), "id": episode.id}, ("id", *_COLUMNS))
        passages = index._insert(asking, number, None, [text for text, _ in parts])
        vectors.update({each: blob for each, (_, blob) in zip(passages, parts, strict=True) if blob is not None})
    return vectors


def _episodes(asking: NamedQueries, ids: Sequence[int]) -> list[Episode]:
    asked = {"ids": _listed(asking, ids)}
    said = groupby(asking.all("passages_of", asked), key=lambda row: row[0])
    texts = {number: [text for _, _, text in rows] for number, rows in said}
    rows = asking.all("get_episodes", asked, columns=_LISTED)
    return [_to_episode(row, texts.get(row[0], [])) for row in rows]


def _inserted(asking: NamedQueries, row: Mapping[str, Any], names: Sequence[str] = _COLUMNS) -> int:
    columns = ", ".join(f'"{name}"' for name in names)
    places = ", ".join(asking.dialect.value.format(name) for name in names)
    return int(asking.all("insert_episode", row, columns=columns, places=places)[0][0])


def _to_row(episode: Episode) -> dict[str, Any]:
    return {"created_at": episode.at, **{name: getattr(episode, name) for name in _LABELS}}


def _to_episode(row: Sequence[Any], texts: Sequence[str]) -> Episode:
    number, at, *labels, capture = row
    named: dict[str, Any] = dict(zip(_LABELS, labels, strict=True))
    return Episode(id=number, at=at, text="".join(texts).strip(), capture=capture, **named)


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


def _may_be_told_in(session: AgentSession, user: str | None, agent: str, payload: str) -> bool:
    """Return whether a capture belongs to the session's owner, by its episode or else by its words, if any are left."""
    if user is None:
        exchange = inbox_rules.from_payload(payload)
        return exchange is None or (exchange.user, exchange.agent) == (session.user, session.agent)
    return (user, agent) == (session.user, session.agent)


def _first(rows: Sequence[Sequence[Any]]) -> int | None:
    return int(rows[0][0]) if rows else None


def _listed(asking: NamedQueries, ids: Iterable[int]) -> Any:
    return asking.listed([each for each in ids if is_storable_int(each)])


def with_archived(scope: Scope) -> Scope:
    """Return the scope over all episodes: none is ever archived."""
    return replace(scope, include_archived=True)


class SqliteEpisodes(SqlEpisodes):
    """EpisodeIndex of an SQLite file."""

    def __init__(
        self, file: StoreFile, refuse_another_embedder: Callable[[str], None], wiped: Callable[[], None]
    ) -> None:
        @contextmanager
        def reading() -> Iterator[NamedQueries]:
            with file.reading() as connection:
                yield SqliteNamedQueries(connection)

        @contextmanager
        def writing() -> Iterator[NamedQueries]:
            with file.writing() as connection:
                yield SqliteNamedQueries(connection)

        super().__init__(reading, writing)
        self._file = file
        self._ranking = Ranking(file, PASSAGES, refuse_another_embedder)
        self._refuse_another_embedder = refuse_another_embedder
        self._wiped = wiped  # truncates the write-ahead log

    def nearest(self, vector: Vector, k: int, scope: Scope, *, also: Iterable[int] = ()) -> list[Candidate]:
        return self._ranking.nearest(vector, k, with_archived(scope), also)

    def matching(self, words: Sequence[str], k: int, scope: Scope) -> Matching:
        return self._ranking.matching(words, k, with_archived(scope))

    def put_vectors(self, vectors: Mapping[int, Vector]) -> None:
        blobs = {each: np.ascontiguousarray(vector, dtype="<f4").tobytes() for each, vector in vectors.items()}
        with self._file.writing(BRIEFLY) as connection:  # deferrable: writers of facts go first
            asking = SqliteNamedQueries(connection)
            self._refuse_another_embedder(str(asking.all("state", {})[0][3]))
            check_vectors(vectors, (self._vector_size(asking) // _FLOAT) or None)
            self._fill(asking, blobs)

    def _fill(self, asking: NamedQueries, blobs: Mapping[int, bytes]) -> None:
        for each, blob in blobs.items():
            asking.run("passage_fill_vector", {"id": each, "vector": blob})

    def remove(self, ids: Sequence[int]) -> int:
        there = super().remove(ids)
        self._wiped()
        return there

    def adopt(self, episodes: Sequence[ExportedEpisode]) -> None:
        with self._writing() as asking:
            self._fill(asking, adopt_rows(self, asking, episodes))

    def _vector_size(self, asking: NamedQueries) -> int:
        return int(asking.all("passage_size_of_vectors", {})[0][1] or 0)

    def _wipe(self, asking: NamedQueries) -> None:
        asking.run("tidy_passage_words", {})
