"""Episodes: captured turns as indexed for search, and their division into passages.

All functions are pure. A store keeps one episode per captured turn; the inbox keeps the capture itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from cofio.models.exchange import ANALYSIS, CANDIDATE, COMPACT_SUMMARY, REVIEW, Exchange
from cofio.models.json_values import JsonFields
from cofio.models.memory import MatchType
from cofio.text import lazy_re
from cofio.text.briefing import neutralize
from cofio.text.tokens import LEFT_OUT

PASSAGE_WORDS = 120
MAX_PASSAGES = 20  # per turn; a longer turn keeps its beginning and end
_LATER = 2  # minimum passages of a turn part delivered later
_WORD_CHARACTERS = 10  # characters per word in text without spaces
_SENTENCE = lazy_re.compile(r".+?(?:\n+|(?<=[.!?])\s+|$)", re.DOTALL)
_WORD = lazy_re.compile(r"\S{1,200}\s*")
_PART = lazy_re.compile(r"\+[1-9][0-9]*$")
_LINE, _LABEL = 400, 80  # characters of a passage and of a session on one line
_MARK = lazy_re.compile(r"~[0-9a-f]{12}$")  # suffix of a client name that identifies its API key


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode(JsonFields):
    """Indexed turn of a conversation: text, time, place and speaker."""

    id: int = 0
    at: str
    text: str = ""
    source: str = ""
    project: str = ""
    client: str = ""
    session: str = ""
    turn: str = ""
    context: str = ""  # "compact_summary" for a compaction summary; "" for a turn
    agent: str = ""
    user: str = ""
    team: str = ""
    visibility: str = "private"
    capture: int | None = None  # its inbox item; None if copied from another store


class Passage(NamedTuple):
    """Part of an episode of about 120 words, with details of the episode."""

    id: int
    episode: int
    text: str
    at: str
    session: str
    project: str
    source: str
    capture: int | None


class EpisodeHit(NamedTuple):
    """Best passage of an episode for a query. Scores are on the scale of `model.Hit`."""

    passage: Passage
    score: float
    similarity: float
    keyword: float
    match_type: MatchType

    @property
    def episode(self) -> int:
        return self.passage.episode

    @property
    def text(self) -> str:
        return self.passage.text

    def as_dict(self) -> dict[str, Any]:
        plain = self.passage._asdict()
        plain["passage"] = plain.pop("id")
        return {
            **plain,
            "score": round(self.score, 6),
            "similarity": round(self.similarity, 6),
            "keyword_score": round(self.keyword, 6),
            "match_type": self.match_type,
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> EpisodeHit:
        """Read a hit written by `as_dict`."""
        values = {**plain, "id": plain["passage"]}
        passage = Passage(**{name: values[name] for name in Passage._fields})
        return cls(passage, plain["score"], plain["similarity"], plain["keyword_score"], plain["match_type"])


class EpisodeCounts(NamedTuple):
    """Counts of indexed and pending episodes."""

    episodes: int
    passages: int
    embedded: int  # passages that have a vector
    bytes: int  # of text
    unindexed: int  # captures not yet indexed


class ExportedEpisode(NamedTuple):
    """Episode for export: without its capture, with the passages and their vectors."""

    episode: Episode
    passages: tuple[tuple[str, bytes | None], ...]


def is_indexed(exchange: Exchange | None) -> bool:
    """Return whether a capture becomes an episode.

    Reports with context "analysis" do not: monitoring agents repeat the same readings, and their claims are stored as
    domain knowledge. Observed dialogues do. Reviews do not: their turns are episodes already.
    """
    if exchange is None or exchange.context in (ANALYSIS, CANDIDATE, REVIEW):
        return False
    return any(message.text.strip() for message in exchange.messages)


def episode_of(exchange: Exchange, capture: int) -> Episode:
    """Return the episode of a captured turn, with its whole text."""
    return Episode(
        at=exchange.at,
        text=text_of(exchange),
        source=exchange.source,
        project=exchange.project,
        client=exchange.client,
        session=exchange.session,
        turn=exchange.turn,
        context=exchange.context if exchange.context == COMPACT_SUMMARY else "",
        agent=exchange.agent,
        user=exchange.user,
        team=exchange.team,
        visibility=exchange.visibility,
        capture=capture,
    )


def text_of(exchange: Exchange) -> str:
    """Return the messages of a turn as one text, each with the role of its speaker."""
    messages = ((message.role, message.text.strip()) for message in exchange.messages)
    return "\n".join(f"{role.capitalize()}: {text}" for role, text in messages if text)


def base_turn(turn: str) -> str:
    """Return the turn's id without the part suffix: later parts are named "t+1", "t+2" and so on."""
    return _PART.sub("", turn)


def passages_of(text: str, others: int = 0) -> list[str]:
    """Split a text into passages of about 120 words, at ends of sentences or lines where possible.

    Joined, the passages equal the text; a text that is too long keeps its beginning and end with a mark in between.
    `others` is the number of passages of earlier parts of the same turn.
    """
    passages: list[str] = []
    size = PASSAGE_WORDS  # of the current passage
    for unit in _split_units(text):
        words = _count_words(unit)
        if size + words > PASSAGE_WORDS:
            passages.append("")
            size = 0
        passages[-1] += unit
        size += words
    return _keep_both_ends(passages, max(_LATER, MAX_PASSAGES - others))


def _split_units(text: str) -> list[str]:
    """Split a text into sentences and lines; split units longer than a passage into words."""
    units: list[str] = []
    for sentence in _SENTENCE.findall(text.strip()):
        units += [sentence] if _count_words(sentence) <= PASSAGE_WORDS else _WORD.findall(sentence)
    return units


def _count_words(text: str) -> int:
    return max(len(text.split()), len(text) // _WORD_CHARACTERS)


def _keep_both_ends(passages: list[str], most: int) -> list[str]:
    if len(passages) <= most:
        return passages
    first = (most + 1) // 2
    begun = [*passages[: first - 1], f"{passages[first - 1].rstrip()}\n\n{LEFT_OUT}\n\n"]
    return begun + passages[len(passages) - (most - first) :]


def line(hit: EpisodeHit) -> str:
    """Render a hit as one line with date and session: `2026-02-20, session s1: User: ...`."""
    session = shortened(hit.passage.session, _LABEL)
    where = f", session {session}" if session else ""
    return f"{hit.passage.at[:10]}{where}: {shortened(hit.text)}"


def shortened(text: str, most: int = _LINE) -> str:
    """Render a text as one neutral line, which cannot end a block of memories; shorten a long one."""
    plain = neutralize(text)
    return plain if len(plain) <= most else plain[: most - 1].rstrip() + "…"


def shown_client(client: str) -> str:
    """Return the client's name without the suffix that separates sessions of different API keys."""
    return _MARK.sub("", client)
