"""Episodes of the fake store in `cofio.testing`: the same rules over dictionaries. For tests only."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Protocol

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
from cofio.models.exchange import OPEN, Exchange
from cofio.models.memory import Candidate, Matching, Scope, Viewer, to_utc_iso
from cofio.models.sessions import (
    AgentSession,
    belongs_to,
    clients_of,
    is_in,
    is_own,
    is_summary,
    key_of,
    merge_sessions,
    sessions_of,
)
from cofio.ports import Vector
from cofio.stores import inbox_rules
from cofio.stores.apply import JournalEntry
from cofio.stores.in_memory.inbox import InboxState
from cofio.stores.in_memory.llm_calls import Calls
from cofio.stores.in_memory.search import by_cosine, by_words, counted
from cofio.stores.row_mapping import check_vectors

_PLACE = ("source", "project", "client", "session", "agent", "user", "team", "visibility")


class EpisodeText:
    """Episodes without their text, and their passages (episode, capture, text) by id."""

    def __init__(self) -> None:
        self.episodes: dict[int, Episode] = {}
        self.passages: dict[int, tuple[int, int | None, str]] = {}
        self.vectors: dict[int, bytes] = {}
        self.indexed: dict[int, Exchange | None] = {}  # captures as they were when indexed
        self.last_episode = 0
        self.last_passage = 0

    def of(self, number: int) -> list[tuple[int, int | None, str]]:
        """Return the passages of an episode in order: id, capture, text."""
        rows = [
            (passage, capture, text) for passage, (episode, capture, text) in self.passages.items() if episode == number
        ]
        return sorted(rows, key=lambda row: (row[1] or 0, row[0]))

    def get(self, number: int) -> Episode | None:
        if number not in self.episodes:
            return None
        parts = self.of(number)
        first = min((capture for _, capture, _ in parts if capture is not None), default=None)
        text = "".join(text for *_, text in parts).strip()
        return replace(self.episodes[number], text=text, capture=first)

    def episode_by_capture(self, capture: int) -> int | None:
        return next((episode for episode, by, _ in self.passages.values() if by == capture), None)

    def index(self, capture: int, exchange: Exchange | None) -> int | None:
        old = self.episode_by_capture(capture)
        self.indexed[capture] = exchange
        if exchange is None:
            return old
        self.drop([passage for passage, (_, by, _) in self.passages.items() if by == capture])
        number = None
        if is_indexed(exchange):
            episode = episode_of(exchange, capture)
            number = self._save_row(episode, old)
            self._insert(number, capture, passages_of(episode.text, len(self.of(number))))
        if old is not None and not self.of(old):
            del self.episodes[old]
        return number

    def _save_row(self, episode: Episode, old: int | None) -> int:
        if old is not None and not self.of(old):
            self.episodes[old] = replace(episode, id=old)
            return old
        numbers = [stored.id for stored in self.episodes.values() if _is_same_turn(stored, episode)]
        exact = [number for number in numbers if self.episodes[number].turn == episode.turn]
        if numbers:
            return min(exact or numbers)
        self.last_episode += 1
        self.episodes[self.last_episode] = replace(episode, id=self.last_episode)
        return self.last_episode

    def _insert(self, episode: int, capture: int | None, texts: Sequence[str]) -> list[int]:
        for text in texts:
            self.last_passage += 1
            self.passages[self.last_passage] = (episode, capture, inbox_rules.make_storable(text))
        return list(range(self.last_passage - len(texts) + 1, self.last_passage + 1))

    def drop(self, passages: Iterable[int]) -> None:
        for passage in passages:
            del self.passages[passage]
            self.vectors.pop(passage, None)

    def remove(self, ids: Iterable[int]) -> None:
        for number in [number for number in ids if number in self.episodes]:
            self.drop([passage for passage, _, _ in self.of(number)])
            del self.episodes[number]

    def adopt(self, exported: ExportedEpisode) -> None:
        number = exported.episode.id
        self.remove([number])
        self.last_episode = max(self.last_episode, number)
        self.episodes[number] = exported.episode
        passages = self._insert(number, None, [text for text, _ in exported.passages])
        for passage, (_, vector) in zip(passages, exported.passages, strict=True):
            if vector is not None:
                self.vectors[passage] = vector

    def carried(self, after: int, limit: int) -> list[ExportedEpisode]:
        episodes = [self.get(number) for number in sorted(self.episodes) if number > after][:limit]
        return [
            ExportedEpisode(
                replace(episode, capture=None),
                tuple((text, self.vectors.get(passage)) for passage, _, text in self.of(episode.id)),
            )
            for episode in episodes
            if episode
        ]

    def erase(
        self,
        inbox: InboxState,
        texts: Sequence[str],
        changesets: Container[int | None],
        viewer: Viewer | None,
    ) -> None:
        """Remove the episodes that led to a memory, or contain its words."""
        led = {number for number, item in inbox.items.items() if item.changeset in changesets}
        for number in list(self.episodes):
            episode = self.get(number)
            by_capture = any(capture in led for _, capture, _ in self.of(number))
            if episode and (by_capture or any(text in episode.text for text in texts)):
                self.remove([number] if inbox_rules.is_owned_by(episode, viewer) else [])


class _EpisodeTables(Protocol):
    """Tables of the fake store."""

    captures: InboxState
    calls: Calls
    entries: list[JournalEntry]
    said: EpisodeText
    injected: dict[tuple[str, str, int], tuple[str, str]]


class FakeEpisodes:
    """EpisodeIndex of the fake store; `holding` locks its tables for one caller at a time."""

    def __init__(self, holding: Callable[[], AbstractContextManager[_EpisodeTables]]) -> None:
        self._holding = holding

    def unindexed(self, limit: int) -> list[int]:
        with self._holding() as tables:
            return [
                number
                for number in _list_changed(tables)
                if tables.captures.items[number].state != "pending" or tables.captures.items[number].attempts
            ][:limit]

    def index(self, capture: int) -> int | None:
        with self._holding() as tables:
            item = tables.captures.items.get(capture)
            return tables.said.index(capture, item.exchange if item else None)

    def get(self, ids: Sequence[int]) -> list[Episode]:
        with self._holding() as tables:
            return [episode for number in ids if (episode := tables.said.get(number))]

    def passages(self, ids: Sequence[int]) -> list[Passage]:
        with self._holding() as tables:
            return [_to_passage(tables.said, number) for number in ids if number in tables.said.passages]

    def of_memory(self, memory_id: int) -> int | None:
        with self._holding() as tables:
            changesets = [entry.changeset for entry in tables.entries if entry.memory_id == memory_id]
            items = [
                item
                for changeset in changesets
                for item in tables.captures.items.values()
                if item.changeset == changeset
            ]
            numbers = (tables.said.episode_by_capture(item.id) for item in items)
            return next((number for number in numbers if number is not None), None)

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
        with self._holding() as tables:
            episodes = [episode for episode in _list_all(tables, viewer) if episode.session.startswith(prefix)]
        within = {key_of(episode) for episode in episodes if is_in(episode.project, project)}
        sessions = merge_sessions(sessions_of(episode for episode in episodes if key_of(episode) in within))
        matches = (session for session in sessions if client in ("", session.client) and is_own(session, own))
        return [session for session in matches if session.last_at >= since][:limit]

    def turns(
        self, session: AgentSession, limit: int, *, summaries: bool = False, viewer: Viewer | None = None
    ) -> list[Episode]:
        with self._holding() as tables:
            episodes = [
                episode
                for episode in _list_all(tables, viewer)
                if belongs_to(episode, session) and is_summary(episode) == summaries
            ]
        newest = sorted(episodes, key=lambda episode: (episode.at, episode.id or 1 << 62))[-limit:]
        return [replace(episode, client=shown_client(episode.client)) for episode in newest]

    def changesets(self, session: AgentSession, limit: int) -> list[int]:
        with self._holding() as tables:
            keys = {(client, session.session) for client in _list_clients(tables, session)}
            captures = [number for number, key in tables.captures.session_by_item.items() if key in keys]
            changesets = [
                tables.captures.items[number].changeset
                for number in captures
                if _belongs_to_session(tables, session, number)
            ]
            return sorted({changeset for changeset in changesets if changeset is not None})[-limit:]

    def injected(self, session: AgentSession) -> list[int]:
        with self._holding() as tables:
            clients = _list_clients(tables, session, shared=False)
            memories = [(at, number) for (client, name, number), (_, at) in tables.injected.items()
                    if client in clients and name == session.session]  # fmt: skip
            return [number for _, number in sorted(memories)]

    def nearest(self, vector: Vector, k: int, scope: Scope, *, also: Iterable[int] = ()) -> list[Candidate]:
        with self._holding() as tables:
            return by_cosine(tables.said.vectors, _list_inside(tables.said, scope), vector, k, also)

    def matching(self, words: Sequence[str], k: int, scope: Scope) -> Matching:
        with self._holding() as tables:
            texts = {number: counted(text) for number, (*_, text) in tables.said.passages.items()}
            return by_words(texts, _list_inside(tables.said, scope), words, k)

    def unembedded(self, limit: int) -> list[Passage]:
        with self._holding() as tables:
            missing = sorted(tables.said.passages.keys() - tables.said.vectors.keys(), reverse=True)
            return [_to_passage(tables.said, number) for number in missing[:limit]]

    def put_vectors(self, vectors: Mapping[int, Vector]) -> None:
        with self._holding() as tables:
            sizes = {len(blob) // 4 for blob in list(tables.said.vectors.values())[:1]}
            check_vectors(vectors, sizes.pop() if sizes else None)
            for number, vector in vectors.items():
                if number in tables.said.passages:
                    tables.said.vectors.setdefault(number, np.asarray(vector, dtype="<f4").tobytes())

    def remove(self, ids: Sequence[int]) -> int:
        with self._holding() as tables:
            episodes = [number for number in ids if number in tables.said.episodes]
            made_from = {number: [by for _, by, _ in tables.said.of(number) if by is not None] for number in episodes}
            items = tables.captures.items
            for number, numbers in made_from.items():
                if any(items[capture].state in OPEN for capture in numbers):
                    hint = "Try again later; `cofio inbox` shows pending captures."
                    raise Conflict(f"Episode {number} has unprocessed captures.", hint)
            for capture in {capture for numbers in made_from.values() for capture in numbers}:
                tables.captures.put(replace(items[capture], exchange=None, result={}, reason=""))
            tables.said.remove(episodes)
            tables.calls.erase()
            return len(episodes)

    def forget(self, before: str, most_bytes: int) -> int:
        with self._holding() as tables:
            texts, total, old = tables.said, 0, []
            for episode in sorted(texts.episodes.values(), key=lambda episode: (episode.at, episode.id), reverse=True):
                size = max((len(blob) for blob in list(texts.vectors.values())[:1]), default=0)
                total += sum(len(text.encode()) + size for *_, text in texts.of(episode.id))
                if episode.at < to_utc_iso(before) or total > most_bytes:
                    old.append(episode.id)
            texts.remove(old)
            return len(old)

    def adopt(self, episodes: Sequence[ExportedEpisode]) -> None:
        with self._holding() as tables:
            for episode in episodes:
                tables.said.adopt(episode)

    def counts(self) -> EpisodeCounts:
        with self._holding() as tables:
            texts = tables.said
            size = sum(len(text.encode()) for *_, text in texts.passages.values())
            waiting = len(_list_changed(tables))
            return EpisodeCounts(len(texts.episodes), len(texts.passages), len(texts.vectors), size, waiting)


def _list_all(tables: _EpisodeTables, viewer: Viewer | None) -> list[Episode]:
    """Return the episodes, and those that unindexed captures will become."""
    episodes = [episode for number in tables.said.episodes if (episode := tables.said.get(number))]
    for capture in _list_changed(tables):
        exchange = tables.captures.items[capture].exchange
        if exchange and is_indexed(exchange) and tables.said.episode_by_capture(capture) is None:
            episodes.append(episode_of(exchange, capture))
    return [episode for episode in episodes if viewer is None or viewer.sees(episode)]


def _list_clients(tables: _EpisodeTables, session: AgentSession, *, shared: bool = True) -> set[str]:
    """Return the client names under which the session was delivered, one per key."""
    episodes = [episode for episode in _list_all(tables, None) if episode.session == session.session]
    return clients_of(session, {(episode.client, episode.user, episode.agent) for episode in episodes}, shared=shared)


def _belongs_to_session(tables: _EpisodeTables, session: AgentSession, capture: int) -> bool:
    """Return whether a capture belongs to the session's owner, by its episode or else by its words, if any are left."""
    number = tables.said.episode_by_capture(capture)
    turn = tables.captures.items[capture].exchange if number is None else tables.said.episodes[number]
    return turn is None or (turn.user, turn.agent) == (session.user, session.agent)


def _list_changed(tables: _EpisodeTables) -> list[int]:
    """Return the captures whose present words are not indexed."""
    items = tables.captures.items.values()
    return [item.id for item in items if item.exchange and tables.said.indexed.get(item.id) != item.exchange]


def _to_passage(texts: EpisodeText, number: int) -> Passage:
    episode, capture, text = texts.passages[number]
    about = texts.episodes[episode]
    return Passage(number, episode, text, about.at, about.session, about.project, about.source, capture)


def _is_same_turn(stored: Episode, new: Episode) -> bool:
    is_named = bool(stored.turn) and bool(stored.client or stored.session)
    same_place = all(getattr(stored, name) == getattr(new, name) for name in _PLACE)
    return is_named and same_place and stored.turn in (new.turn, base_turn(new.turn))


def _list_inside(texts: EpisodeText, scope: Scope) -> list[int]:
    inside = {episode.id for episode in texts.episodes.values() if _is_in_scope(episode, scope)}
    return [number for number, (episode, *_) in texts.passages.items() if episode in inside]


def _is_in_scope(episode: Episode, scope: Scope) -> bool:
    prefix = scope.source_prefix.rstrip("/")
    return (
        all(getattr(scope, name) in (None, getattr(episode, name)) for name in ("source", "project", "user", "team"))
        and all(getattr(scope, name) in ("", getattr(episode, name)) for name in ("session", "agent"))
        and (scope.viewer is None or scope.viewer.sees(episode))
        and (scope.visible_in is None or episode.project in (scope.visible_in, "") or episode.visibility == "global")
        and (not prefix or episode.source == prefix or episode.source.startswith(prefix + "/"))
        and (not scope.visibility or episode.visibility in scope.visibility)
        and (not scope.since or episode.at >= scope.since)
        and (not scope.until or episode.at <= scope.until)
    )
