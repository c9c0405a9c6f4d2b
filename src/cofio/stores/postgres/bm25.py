"""Word search in the server store: tokens as in the embedded store, scored by the same BM25.

    text ─ tokens ─▶ tsvector (Porter stems) ─▶ GIN
    words ─ phrases with frequencies ─▶ one statement finds, scores and narrows ─▶ the best of the scope

Word frequencies are cached in the process: exact while the store is small, approximate once it is large.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import starmap
from typing import Any
from unicodedata import combining, normalize

from cofio.models.memory import Candidate, Matching, Memory, Scope
from cofio.stores.filters import POSTGRES, condition
from cofio.stores.postgres.connection import TenantQueries
from cofio.stores.postgres.store_state import TenantSize
from cofio.stores.row_mapping import as_json
from cofio.stores.sqlite.bm25 import CONTEXT, COUNTED, K1, POSTINGS, B, idf, rarest_words

_TOKEN = re.compile(r"[^\W_]+")


def search_tokens(text: str) -> list[str]:
    """Return the tokens of a text: letters and digits, lower case, without accents."""
    return _TOKEN.findall((text if text.isascii() else _plain(text)).lower())


def _plain(text: str) -> str:
    """Return the text without accents. A symbol such as ™ ends a word: "Next™" is "next"."""
    spaced = "".join(char if char.isalnum() else " " for char in normalize("NFC", text))
    return "".join(char for char in normalize("NFKD", spaced) if not combining(char))


def to_phrase(word: str) -> str:
    """Return a word as the server searches it: "next.js" becomes the phrase "next js"; "" if nothing is left."""
    return " ".join(search_tokens(word))


def searchable(memory: Memory) -> dict[str, Any]:
    """Return the search columns: tokens of the text with its labels, tokens of the context, and their number."""
    about = (memory.speaker, memory.agent, memory.source, as_json(memory.entities), as_json(memory.tags))
    text_words, context_words = search_tokens(" ".join((memory.text, *about))), search_tokens(memory.context)
    return {
        "said": " ".join(text_words),
        "around": " ".join(context_words),
        "length": max(1, len(text_words) + len(context_words)),
    }


class TenantBm25:
    """BM25 of a tenant's memories, with cached word frequencies.

    With a prefix, for the rows whose named queries begin with it.
    """

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._counts: dict[str, int] = {}
        self._counted: TenantSize | None = None

    def matching(self, rows: TenantQueries, words: Sequence[str], k: int, scope: Scope, extent: TenantSize) -> Matching:
        counts = self._frequencies(rows, words, extent)
        ideal = sum(idf(count, extent.count) for count in counts.values())
        word_counts = {word: count for word, count in counts.items() if count}
        chosen = list(word_counts) if extent.is_small else rarest_words(word_counts, POSTINGS)
        candidates = self._best(rows, chosen, word_counts, k, scope, extent)
        if (
            not candidates and scope.narrows and len(chosen) < len(word_counts)
        ):  # the rarest words may all be outside the scope
            candidates = self._best(rows, rarest_words(word_counts, 5 * POSTINGS), word_counts, k, scope, extent)
        return Matching(tuple(candidates), ideal)

    def _best(
        self,
        rows: TenantQueries,
        words: Sequence[str],
        counts: Mapping[str, int],
        k: int,
        scope: Scope,
        extent: TenantSize,
    ) -> list[Candidate]:
        if not words:
            return []
        where, values = condition(scope, POSTGRES)
        params = {
            "phrases": [to_phrase(word) for word in words],
            "rarity": [(K1 + 1) * idf(counts[word], extent.count) for word in words],
            "base": K1 * (1 - B),
            "slope": K1 * B / extent.mean,
            "context": float(CONTEXT),
            "k": k,
        }
        return list(starmap(Candidate, rows.all(f"{self._prefix}matching", {**values, **params}, where=where)))

    def _frequencies(self, rows: TenantQueries, words: Sequence[str], extent: TenantSize) -> dict[str, int]:
        """Return the number of memories that contain each word."""
        if self._counted is not extent or len(self._counts) > COUNTED:
            self._counts, self._counted = {}, extent
        cache = self._counts
        unknown = {word: to_phrase(word) for word in words if word not in cache}
        phrases = sorted({phrase for phrase in unknown.values() if phrase})
        rows_by_phrase = rows.all(f"{self._prefix}frequency", {"phrases": phrases}) if phrases else []
        count_by_phrase: dict[str, int] = dict(rows_by_phrase)
        new_counts = {word: count_by_phrase.get(phrase, 0) for word, phrase in unknown.items()}
        cache.update({word: count for word, count in new_counts.items() if count})  # not 0: the word may occur any time
        return {word: new_counts[word] if word in new_counts else cache[word] for word in words}

    def holding(self, rows: TenantQueries, words: Sequence[str], ids: Sequence[int]) -> dict[int, list[str]]:
        """Return which of the words each of these memories contains, in the order of the words."""
        words_by_id: dict[int, list[str]] = {memory_id: [] for memory_id in ids}
        if words and ids:
            params = {"phrases": [to_phrase(word) for word in words], "ids": list(ids)}
            for memory_id, place in rows.all("holding", params):
                words_by_id[memory_id].append(words[place - 1])
        return words_by_id
