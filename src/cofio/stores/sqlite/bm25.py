"""BM25 beside FTS5: FTS5 finds the memories that contain a word, NumPy computes the scores.

FTS5 can rank by itself, but looks up the length of every row in a table: 1 µs per row, which was most of the time of a
search. Here lengths are in an array, a row costs an eighth of that, and more words of a query can be searched for. A
word counts once per column, however often it occurs: facts are short.

Like the vectors, arrays that a reader uses are never modified: writers publish new arrays.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cofio.stores.sql_loader import queries

_SQL = queries("sqlite")
K1, B = 1.2, 0.75  # the usual constants of BM25, also FTS5's
CONTEXT = np.float32(0.5)  # weight of a word that occurs in the context only
FEW = 5_000  # memories; up to this number, every word of a query is searched for
POSTINGS = 12_000  # rows that a search may visit in a larger store
_KEPT = 2_000_000  # ids cached for all words together
COUNTED = 20_000  # words whose frequency is cached


class SearchIndexKind(NamedTuple):
    """Kind of rows to search: the prefix of their named queries, and the columns of their words in FTS5 syntax."""

    prefix: str
    text: str
    context: str = ""  # "" if there is none
    archives: bool = True  # whether rows can be archived

    def query(self, name: str) -> str:
        return _SQL[self.prefix + name]


MEMORIES = SearchIndexKind("", "{text about} : ", "{context} : ")
PASSAGES = SearchIndexKind("passage_", "", archives=False)

Ids: TypeAlias = NDArray[np.int64]
Scores: TypeAlias = NDArray[np.float32]
Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class DocumentLengths:
    """Number of words of each memory and whether it is live, by id; 0 and False for missing ids."""

    words: NDArray[np.int32]
    live: Mask
    count: int
    mean: float

    @classmethod
    def of(cls, words: NDArray[np.int32], live: Mask) -> DocumentLengths:
        count = int(np.count_nonzero(words))
        return cls(words, live, count, float(words.sum()) / count if count else 1.0)

    @classmethod
    def read(cls, connection: sqlite3.Connection, kind: SearchIndexKind = MEMORIES) -> DocumentLengths:
        """Read the lengths of every memory."""
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

    def with_changes(
        self, connection: sqlite3.Connection, ids: Sequence[int], kind: SearchIndexKind = MEMORIES
    ) -> DocumentLengths:
        """Return a copy with the present state of these memories."""
        size = max(len(self.words), max(ids) + 1)
        words, live = np.zeros(size, np.int32), np.zeros(size, np.bool_)
        words[: len(self.words)], live[: len(self.live)] = self.words, self.live
        words[list(ids)], live[list(ids)] = 0, False
        for memory_id, blob, is_live in connection.execute(kind.query("lengths_of"), (str(list(ids)),)):
            words[memory_id], live[memory_id] = _length(blob), is_live
        return self.of(words, live)


def _length(blob: bytes) -> int:
    """Return the number of words over all columns, at least 1, from FTS5's record: one varint per column."""
    total = value = 0
    for byte in blob:
        value = (value << 7) | (byte & 0x7F)
        if byte < 0x80:
            total, value = total + value, 0
    return max(1, total)


class PostingsCache:
    """BM25 of memories by word. Lookups are cached until the store changes."""

    def __init__(self, kind: SearchIndexKind = MEMORIES) -> None:
        self._kind = kind
        self._known: dict[str, tuple[Ids, Scores]] = {}
        self._known_at = -1
        self._kept = 0
        self._counts: dict[str, tuple[int, int]] = {}

    def scores(
        self,
        connection: sqlite3.Connection,
        words: Sequence[str],
        lengths: DocumentLengths,
        changeset: int,
        *,
        most: int = POSTINGS,
    ) -> tuple[Scores, float, bool]:
        """Return the BM25 of each id for any of the words, the ideal score, and whether words were left out.

        The ideal score is about that of a text with all the words. Words are left out, the most common first, if more
        than `most` rows would have to be visited; in a small store none are.
        """
        counts = {word: self._frequency(connection, word, lengths.count, changeset) for word in words}
        chosen = list(counts) if lengths.count <= FEW else rarest_words(counts, most)
        scores = np.zeros(len(lengths.words), np.float32)
        for word in chosen:
            ids, weights = self._find_postings(connection, word, changeset)
            if ids.size and ids[-1] >= len(scores):  # written since the lengths were read: ignored for now
                ids, weights = ids[ids < len(scores)], weights[ids < len(scores)]
            short = K1 * (1 - B + B * lengths.words[ids] / lengths.mean)
            scores[ids] += idf(counts[word], lengths.count) * (K1 + 1) * weights / (weights + short)
        ideal = sum(idf(count, lengths.count) for count in counts.values())
        return scores, ideal, len(chosen) < sum(count > 0 for count in counts.values())

    def _find_postings(self, connection: sqlite3.Connection, word: str, changeset: int) -> tuple[Ids, Scores]:
        """Return the memories that contain the word, and its weight in each."""
        if changeset != self._known_at or self._kept > _KEPT:
            self._known, self._known_at, self._kept = {}, changeset, 0
        cache = self._known
        if word not in cache:
            text = self._find_holders(connection, self._kind.text + quote_fts(word))
            around = self._kind.context + quote_fts(word) if self._kind.context else ""
            context = self._find_holders(connection, around) if around else np.empty(0, np.int64)
            ids = np.union1d(text, context) if context.size else text
            weights = np.isin(ids, text).astype(np.float32) + CONTEXT * np.isin(ids, context)
            cache[word] = (ids, weights.astype(np.float32)) if context.size else (ids, np.ones(len(ids), np.float32))
            self._kept += len(ids)
        return cache[word]

    def _frequency(self, connection: sqlite3.Connection, word: str, total: int, changeset: int) -> int:
        """Return the number of memories with the word; in a large store cached until it has grown by 2 %."""
        if total <= FEW:
            return len(self._find_postings(connection, word, changeset)[0])
        count, when = self._counts.get(word, (0, -1))
        if when < 0 or abs(total - when) > when // 50:
            count = int(connection.execute(self._kind.query("frequency"), (quote_fts(word),)).fetchone()[0])
            if len(self._counts) > COUNTED:
                self._counts = {}
            if count:  # a word without memories is not cached: it may occur any time
                self._counts[word] = (count, total)
        return count

    def _find_holders(self, connection: sqlite3.Connection, match: str) -> Ids:
        # One text from SQLite, parsed by NumPy: six times as fast as one row per memory.
        (ids,) = connection.execute(self._kind.query("holders"), (match,)).fetchone()
        return np.fromstring(ids, np.int64, sep=",") if ids else np.empty(0, np.int64)


def top_k(scores: Scores, k: int, allowed: Mask, within: Ids | None = None) -> tuple[Ids, Scores]:
    """Return the k highest of the allowed ids with a score above 0, best first, ties by lower id.

    `within` excludes all other ids.
    """
    if within is not None:
        inside = np.zeros_like(allowed)
        inside[within[within < len(inside)]] = True
        allowed = allowed & inside
    ids = np.flatnonzero((scores > 0) & allowed)
    if len(ids) > k:
        least = np.partition(scores[ids], len(ids) - k)[len(ids) - k]
        ids = ids[scores[ids] >= least]
    order = np.lexsort((ids, -scores[ids]))[:k]
    return ids[order], scores[ids[order]]


def quote_fts(word: str) -> str:
    """Return the word quoted for FTS5: a quoted string has no operators."""
    return '"' + word.replace('"', '""') + '"'


def rarest_words(counts: Mapping[str, int], most: int) -> list[str]:
    """Return the rarest words within the limit of rows, at least one."""
    chosen: list[str] = []
    postings = 0
    for count, word in sorted((count, word) for word, count in counts.items() if count):
        postings += count
        if chosen and postings > most:
            break
        chosen.append(word)
    return chosen


def idf(count: int, total: int) -> float:
    """Return the inverse document frequency, always above 0: in a store of two, a word of one distinguishes them."""
    return log(1 + (max(0, total - count) + 0.5) / (count + 0.5))
