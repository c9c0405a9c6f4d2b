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
from cofio.stores.in_memory.llm_calls import Calls
from cofio.stores.in_memory.search import by_cosine, by_words, counted
from cofio.stores.in_memory.store import InboxState
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
        found = [(each, capture, text) for each, (episode, capture, text) in self.passages.items() if episode == number]
        return sorted(found, key=lambda each: (each[1] or 0, each[0]))

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
        self.drop([each for each, (_, by, _) in self.passages.items() if by == capture])
        number = None
        if is_indexed(exchange):
            episode = episode_of(exchange, capture)
            number = self._row(episode, old)
            self._insert(number, capture, passages_of(episode.text, len(self.of(number))))
        if old is not None and not self.of(old):
            del self.episodes[old]
        return number

    def _row(self, episode: Episode, old: int | None) -> int:
        if old is not None and not self.of(old):
            self.episodes[old] = replace(episode, id=old)
            return old
        known = [each.id for each in self.episodes.values() if _same_turn(each, episode)]
        exact = [each for each in known if self.episodes[each].turn == episode.turn]
        if known:
            return min(exact or known)
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
        for number in [each for each in ids if each in self.episodes]:
            self.drop([each for each, _, _ in self.of(number)])
            del self.episodes[number]

    def adopt(self, carried: ExportedEpisode) -> None:
        number = carried.episode.id
        self.remove([number])
        self.last_episode = max(self.last_episode, number)
        self.episodes[number] = carried.episode
        passages = self._insert(number, None, [text for text, _ in carried.passages])
        for each, (_, vector) in zip(passages, carried.passages, strict=True):
            if vector is not None:
                self.vectors[each] = vector

    def carried(self, after: int, limit: int) -> list[ExportedEpisode]:
        found = [self.get(number) for number in sorted(self.episodes) if number > after][:limit]
        return [
            ExportedEpisode(
                replace(episode, capture=None),
                tuple((text, self.vectors.get(each)) for each, _, text in self.of(episode.id)),
            )
            for episode in found
            if episode
        ]

    def erase(
        self,
        held: InboxState,
        said: Sequence[str],
        changesets: Container[int | None],
        viewer: Viewer | None,
    ) -> None:
        """Remove the episodes that led to a memory, or contain its words."""
        led = {number for number, item in held.items.items() if item.changeset in changesets}
        for number in list(self.episodes):
            episode = self.get(number)
            by_capture = any(capture in led for _, capture, _ in self.of(number))
            if episode and (by_capture or any(each in episode.text for each in said)):
                self.remove([number] if inbox_rules.is_told_by(episode, viewer) else [])


class _EpisodeTables(Protocol):
    """Tables of the fake store."""

    captures: InboxState
    calls: Calls
    entries: list[JournalEntry]
    said: EpisodeText
    given: dict[tuple[str, str, int], tuple[str, str]]


class FakeEpisodes:
    """EpisodeIndex of the fake store; `holding` locks its tables for one caller at a time."""

    def __init__(self, holding: Callable[[], AbstractContextManager[_EpisodeTables]]) -> None:
        self._holding = holding

    def unindexed(self, limit: int) -> list[int]:
        with self._holding() as held:
            return [
                number
                for number in _changed(held)
                if held.captures.items[number].state != "pending" or held.captures.items[number].attempts
            ][:limit]

    def index(self, capture: int) -> int | None:
        with self._holding() as held:
            item = held.captures.items.get(capture)
            return held.said.index(capture, item.exchange if item else None)

    def get(self, ids: Sequence[int]) -> list[Episode]:
        with self._holding() as held:
            return [episode for each in ids if (episode := held.said.get(each))]

    def passages(self, ids: Sequence[int]) -> list[Passage]:
        with self._holding() as held:
            return [_passage(held.said, each) for each in ids if each in held.said.passages]

    def of_memory(self, memory_id: int) -> int | None:
        with self._holding() as held:
            changesets = [entry.changeset for entry in held.entries if entry.memory_id == memory_id]
            items = [
                item for changeset in changesets for item in held.captures.items.values() if item.changeset == changeset
            ]
            found = (held.said.episode_by_capture(item.id) for item in items)
            return next((each for each in found if each is not None), None)

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
        with self._holding() as held:
            said = [each for each in _all(held, viewer) if each.session.startswith(prefix)]
        within = {key_of(each) for each in said if is_in(each.project, project)}
        found = merge_sessions(sessions_of(each for each in said if key_of(each) in within))
        fitting = (each for each in found if client in ("", each.client) and is_own(each, own))
        return [each for each in fitting if each.last_at >= since][:limit]

    def turns(
        self, session: AgentSession, limit: int, *, summaries: bool = False, viewer: Viewer | None = None
    ) -> list[Episode]:
        with self._holding() as held:
            said = [each for each in _all(held, viewer) if belongs_to(each, session) and is_summary(each) == summaries]
        told = sorted(said, key=lambda each: (each.at, each.id or 1 << 62))[-limit:]
        return [replace(each, client=shown_client(each.client)) for each in told]

    def changesets(self, session: AgentSession, limit: int) -> list[int]:
        with self._holding() as held:
            whose = {(client, session.session) for client in _clients(held, session)}
            told = [number for number, who in held.captures.told_in.items() if who in whose]
            done = [held.captures.items[each].changeset for each in told if _may_be_told_in(held, session, each)]
            return sorted({changeset for changeset in done if changeset is not None})[-limit:]

    def given(self, session: AgentSession) -> list[int]:
        with self._holding() as held:
            clients = _clients(held, session, shared=False)
            told = [(at, number) for (client, name, number), (_, at) in held.given.items()
                    if client in clients and name == session.session]  # fmt: skip
            return [number for _, number in sorted(told)]

    def nearest(self, vector: Vector, k: int, scope: Scope, *, also: Iterable[int] = ()) -> list[Candidate]:
        with self._holding() as held:
            return by_cosine(held.said.vectors, _inside(held.said, scope), vector, k, also)

    def matching(self, words: Sequence[str], k: int, scope: Scope) -> Matching:
        with self._holding() as held:
            texts = {each: counted(text) for each, (*_, text) in held.said.passages.items()}
            return by_words(texts, _inside(held.said, scope), words, k)

    def unembedded(self, limit: int) -> list[Passage]:
        with self._holding() as held:
            missing = sorted(held.said.passages.keys() - held.said.vectors.keys(), reverse=True)
            return [_passage(held.said, each) for each in missing[:limit]]

    def put_vectors(self, vectors: Mapping[int, Vector]) -> None:
        with self._holding() as held:
            known = {len(blob) // 4 for blob in list(held.said.vectors.values())[:1]}
            check_vectors(vectors, known.pop() if known else None)
            for each, vector in vectors.items():
                if each in held.said.passages:
                    held.said.vectors.setdefault(each, np.asarray(vector, dtype="<f4").tobytes())

    def remove(self, ids: Sequence[int]) -> int:
        with self._holding() as held:
            there = [each for each in ids if each in held.said.episodes]
            made_from = {number: [by for _, by, _ in held.said.of(number) if by is not None] for number in there}
            items = held.captures.items
            for number, numbers in made_from.items():
                if any(items[each].state in OPEN for each in numbers):
                    hint = "Try again later; `cofio inbox` shows pending captures."
                    raise Conflict(f"Episode {number} has unprocessed captures.", hint)
            for each in {capture for numbers in made_from.values() for capture in numbers}:
                held.captures.put(replace(items[each], exchange=None, result={}, reason=""))
            held.said.remove(there)
            held.calls.erase()
            return len(there)

    def forget(self, before: str, most_bytes: int) -> int:
        with self._holding() as held:
            said, total, old = held.said, 0, []
            for episode in sorted(said.episodes.values(), key=lambda each: (each.at, each.id), reverse=True):
                size = max((len(blob) for blob in list(said.vectors.values())[:1]), default=0)
                total += sum(len(text.encode()) + size for *_, text in said.of(episode.id))
                if episode.at < to_utc_iso(before) or total > most_bytes:
                    old.append(episode.id)
            said.remove(old)
            return len(old)

    def adopt(self, episodes: Sequence[ExportedEpisode]) -> None:
        with self._holding() as held:
            for episode in episodes:
                held.said.adopt(episode)

    def counts(self) -> EpisodeCounts:
        with self._holding() as held:
            said = held.said
            size = sum(len(text.encode()) for *_, text in said.passages.values())
            waiting = len(_changed(held))
            return EpisodeCounts(len(said.episodes), len(said.passages), len(said.vectors), size, waiting)


def _all(held: _EpisodeTables, viewer: Viewer | None) -> list[Episode]:
    """Return the episodes, and those that unindexed captures will become."""
    told = [episode for number in held.said.episodes if (episode := held.said.get(number))]
    for capture in _changed(held):
        exchange = held.captures.items[capture].exchange
        if exchange and is_indexed(exchange) and held.said.episode_by_capture(capture) is None:
            told.append(episode_of(exchange, capture))
    return [each for each in told if viewer is None or viewer.sees(each)]


def _clients(held: _EpisodeTables, session: AgentSession, *, shared: bool = True) -> set[str]:
    """Return the client names under which the session was delivered, one per key."""
    said = [each for each in _all(held, None) if each.session == session.session]
    return clients_of(session, {(each.client, each.user, each.agent) for each in said}, shared=shared)


def _may_be_told_in(held: _EpisodeTables, session: AgentSession, capture: int) -> bool:
    """Return whether a capture belongs to the session's owner, by its episode or else by its words, if any are left."""
    number = held.said.episode_by_capture(capture)
    told = held.captures.items[capture].exchange if number is None else held.said.episodes[number]
    return told is None or (told.user, told.agent) == (session.user, session.agent)


def _changed(held: _EpisodeTables) -> list[int]:
    """Return the captures whose present words are not indexed."""
    items = held.captures.items.values()
    return [item.id for item in items if item.exchange and held.said.indexed.get(item.id) != item.exchange]


def _passage(said: EpisodeText, number: int) -> Passage:
    episode, capture, text = said.passages[number]
    about = said.episodes[episode]
    return Passage(number, episode, text, about.at, about.session, about.project, about.source, capture)


def _same_turn(one: Episode, other: Episode) -> bool:
    named = bool(one.turn) and bool(one.client or one.session)
    same_place = all(getattr(one, name) == getattr(other, name) for name in _PLACE)
    return named and same_place and one.turn in (other.turn, base_turn(other.turn))


def _inside(said: EpisodeText, scope: Scope) -> list[int]:
    inside = {episode.id for episode in said.episodes.values() if _in_scope(episode, scope)}
    return [each for each, (episode, *_) in said.passages.items() if episode in inside]


def _in_scope(episode: Episode, scope: Scope) -> bool:
    prefix = scope.source_prefix.rstrip("/")
    return (
        all(getattr(scope, name) in (None, getattr(episode, name)) for name in ("source", "project", "user", "team"))
        and all(getattr(scope, name) in ("", getattr(episode, name)) for name in ("session", "agent"))
        and (scope.viewer is None or scope.viewer.sees(episode))
        and (scope.seen_from is None or episode.project in (scope.seen_from, "") or episode.visibility == "global")
        and (not prefix or episode.source == prefix or episode.source.startswith(prefix + "/"))
        and (not scope.visibility or episode.visibility in scope.visibility)
        and (not scope.since or episode.at >= scope.since)
        and (not scope.until or episode.at <= scope.until)
    )
