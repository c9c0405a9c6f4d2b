"""BM25 beside FTS5: it says which memories hold a word, NumPy reckons how much that is worth.

FTS5 can rank by itself, but looks the length of every row up in a table: a microsecond a row, which was most of a
search. Here the lengths lie in an array, a row costs an eighth of that, and so more of a query's words can be searched
for. A word counts once a column, however often it stands there: facts are short.

Like the vectors, what a reader works on is never written again: writers publish new arrays.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cofio.stores.sources import queries

_SQL = queries("sqlite")
K1, B = 1.2, 0.75  # BM25's usual constants, FTS5's too
CONTEXT = np.float32(0.5)  # a word that stands in the context alone weighs half
FEW = 5_000  # memories: up to this, every word of a query is searched for
POSTINGS = 12_000  # rows that a search may have to look at in a larger store
_KEPT = 2_000_000  # ids of all the words that are remembered at a time
COUNTED = 20_000  # words whose frequency is remembered


class Kind(NamedTuple):
    """What is searched: how its named queries begin, and the columns of its words as FTS5 takes them."""

    prefix: str
    text: str
    context: str = ""  # "" where there is none
    archives: bool = True  # whether a row can be archived

    def query(self, name: str) -> str:
        return _SQL[self.prefix + name]


MEMORIES = Kind("", "{text about} : ", "{context} : ")
PASSAGES = Kind("passage_", "", archives=False)

Ids: TypeAlias = NDArray[np.int64]
Scores: TypeAlias = NDArray[np.float32]
Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Lengths:
    """How many words each memory has and whether it is live, by id: 0 and False where there is none."""

    words: NDArray[np.int32]
    live: Mask
    count: int
    mean: float

    @classmethod
    def of(cls, words: NDArray[np.int32], live: Mask) -> Lengths:
        count = int(np.count_nonzero(words))
        return cls(words, live, count, float(words.sum()) / count if count else 1.0)

    @classmethod
    def read(cls, connection: sqlite3.Connection, kind: Kind = MEMORIES) -> Lengths:
        """Those of every memory."""
        size = (connection.execute(kind.query("newest")).fetchone()[0] or 0) + 1
        words, live = np.zeros(size, np.int32), np.zeros(size, np.bool_)
        rows = connection.execute(kind.query("lengths")).fetchall()
        if rows:
            ids = np.array([row[0] for row in rows], np.int64)
            words[ids] = [_length(row[1]) for row in rows]
            live[ids] = True
            if kind.archives:
                live[[row[0] for row in connection.execute(kind.query("archived"))]] = False
        return cls.of(words, live)

    def with_changes(self, connection: sqlite3.Connection, ids: Sequence[int], kind: Kind = MEMORIES) -> Lengths:
        """The same, with these memories as they are now."""
        size = max(len(self.words), max(ids) + 1)
        words, live = np.zeros(size, np.int32), np.zeros(size, np.bool_)
        words[: len(self.words)], live[: len(self.live)] = self.words, self.live
        words[list(ids)], live[list(ids)] = 0, False
        for memory_id, blob, is_live in connection.execute(kind.query("lengths_of"), (str(list(ids)),)):
            words[memory_id], live[memory_id] = _length(blob), is_live
        return self.of(words, live)


def _length(blob: bytes) -> int:
    """The number of words over all columns, from FTS5's own record: one varint a column. A memory has at least one."""
    total = value = 0
    for byte in blob:
        value = (value << 7) | (byte & 0x7F)
        if byte < 0x80:
            total, value = total + value, 0
    return max(1, total)


class Postings:
    """Which memories hold a word, and BM25 from that. What was looked up is remembered until the store changes."""

    def __init__(self, kind: Kind = MEMORIES) -> None:
        self._kind = kind
        self._known: dict[str, tuple[Ids, Scores]] = {}
        self._known_at = -1
        self._kept = 0
        self._counts: dict[str, tuple[int, int]] = {}

    def scores(
        self,
        connection: sqlite3.Connection,
        words: Sequence[str],
        lengths: Lengths,
        changeset: int,
        *,
        most: int = POSTINGS,
    ) -> tuple[Scores, float, bool]:
        """The BM25 of each id for any of the words, about what a text would score that held them all, and whether words
        had to be left out because more than `most` rows would have to be looked at. In a small store none are."""
        counts = {word: self._frequency(connection, word, lengths.count, changeset) for word in words}
        chosen = list(counts) if lengths.count <= FEW else rarest(counts, most)
        scores = np.zeros(len(lengths.words), np.float32)
        for word in chosen:
            ids, weights = self._found(connection, word, changeset)
            if ids.size and ids[-1] >= len(scores):  # written since the lengths were read: not looked at yet
                ids, weights = ids[ids < len(scores)], weights[ids < len(scores)]
            short = K1 * (1 - B + B * lengths.words[ids] / lengths.mean)
            scores[ids] += idf(counts[word], lengths.count) * (K1 + 1) * weights / (weights + short)
        ideal = sum(idf(count, lengths.count) for count in counts.values())
        return scores, ideal, len(chosen) < sum(count > 0 for count in counts.values())

    def _found(self, connection: sqlite3.Connection, word: str, changeset: int) -> tuple[Ids, Scores]:
        """The memories that hold the word, and how much it weighs in each."""
        if changeset != self._known_at or self._kept > _KEPT:
            self._known, self._known_at, self._kept = {}, changeset, 0
        known = self._known
        if word not in known:
            text = self._holders(connection, self._kind.text + quoted(word))
            around = self._kind.context + quoted(word) if self._kind.context else ""
            context = self._holders(connection, around) if around else np.empty(0, np.int64)
            ids = np.union1d(text, context) if context.size else text
            weights = np.isin(ids, text).astype(np.float32) + CONTEXT * np.isin(ids, context)
            known[word] = (ids, weights.astype(np.float32)) if context.size else (ids, np.ones(len(ids), np.float32))
            self._kept += len(ids)
        return known[word]

    def _frequency(self, connection: sqlite3.Connection, word: str, total: int, changeset: int) -> int:
        """In how many memories the word stands; in a large store counted once, and good until that has grown a bit."""
        if total <= FEW:
            return len(self._found(connection, word, changeset)[0])
        count, when = self._counts.get(word, (0, -1))
        if when < 0 or abs(total - when) > when // 50:
            count = int(connection.execute(self._kind.query("frequency"), (quoted(word),)).fetchone()[0])
            if len(self._counts) > COUNTED:
                self._counts = {}
            if count:  # what nobody has said may be said at any time
                self._counts[word] = (count, total)
        return count

    def _holders(self, connection: sqlite3.Connection, match: str) -> Ids:
        # One text from SQLite, read by NumPy: six times as fast as a row a memory.
        (listed,) = connection.execute(self._kind.query("holders"), (match,)).fetchone()
        return np.fromstring(listed, np.int64, sep=",") if listed else np.empty(0, np.int64)


def best(scores: Scores, k: int, allowed: Mask) -> tuple[Ids, Scores]:
    """The k highest of the allowed ids that score at all, best first, of equals the lower id first."""
    ids = np.flatnonzero((scores > 0) & allowed)
    if len(ids) > k:
        least = np.partition(scores[ids], len(ids) - k)[len(ids) - k]
        ids = ids[scores[ids] >= least]
    order = np.lexsort((ids, -scores[ids]))[:k]
    return ids[order], scores[ids[order]]


def quoted(word: str) -> str:
    """The word as FTS5 takes it for a word: a quoted string has no operators."""
    return '"' + word.replace('"', '""') + '"'


def rarest(counts: Mapping[str, int], most: int) -> list[str]:
    """The rarest words, as many as can be looked at; one at least."""
    chosen: list[str] = []
    postings = 0
    for count, word in sorted((count, word) for word, count in counts.items() if count):
        postings += count
        if chosen and postings > most:
            break
        chosen.append(word)
    return chosen


def idf(count: int, total: int) -> float:
    """Never zero or less: in a store of two, a word that one of them holds still tells them apart."""
    return log(1 + (max(0, total - count) + 0.5) / (count + 0.5))
