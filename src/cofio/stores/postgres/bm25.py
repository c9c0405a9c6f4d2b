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
    spaced = "".join(each if each.isalnum() else " " for each in normalize("NFC", text))
    return "".join(each for each in normalize("NFKD", spaced) if not combining(each))


def to_phrase(word: str) -> str:
    """Return a word as the server searches it: "next.js" becomes the phrase "next js"; "" if nothing is left."""
    return " ".join(search_tokens(word))


def searchable(memory: Memory) -> dict[str, Any]:
    """Return the search columns: tokens of the text with its labels, tokens of the context, and their number."""
    about = (memory.speaker, memory.agent, memory.source, as_json(memory.entities), as_json(memory.tags))
    said, around = search_tokens(" ".join((memory.text, *about))), search_tokens(memory.context)
    return {"said": " ".join(said), "around": " ".join(around), "length": max(1, len(said) + len(around))}


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
        held = {word: count for word, count in counts.items() if count}
        chosen = list(held) if extent.is_small else rarest_words(held, POSTINGS)
        found = self._best(rows, chosen, held, k, scope, extent)
        if not found and scope.narrows and len(chosen) < len(held):  # the rarest words may all be outside the scope
            found = self._best(rows, rarest_words(held, 5 * POSTINGS), held, k, scope, extent)
        return Matching(tuple(found), ideal)

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
        asked = {
            "phrases": [to_phrase(word) for word in words],
            "rarity": [(K1 + 1) * idf(counts[word], extent.count) for word in words],
            "base": K1 * (1 - B),
            "slope": K1 * B / extent.mean,
            "context": float(CONTEXT),
            "k": k,
        }
        return list(starmap(Candidate, rows.all(f"{self._prefix}matching", {**values, **asked}, where=where)))

    def _frequencies(self, rows: TenantQueries, words: Sequence[str], extent: TenantSize) -> dict[str, int]:
        """Return the number of memories that contain each word."""
        if self._counted is not extent or len(self._counts) > COUNTED:
            self._counts, self._counted = {}, extent
        known = self._counts
        unknown = {word: to_phrase(word) for word in words if word not in known}
        asked = sorted({each for each in unknown.values() if each})
        counted = dict(rows.all(f"{self._prefix}frequency", {"phrases": asked})) if asked else {}
        found = {word: counted.get(each, 0) for word, each in unknown.items()}
        known.update({word: count for word, count in found.items() if count})  # not 0: the word may occur any time
        return {word: found[word] if word in found else known[word] for word in words}

    def holding(self, rows: TenantQueries, words: Sequence[str], ids: Sequence[int]) -> dict[int, list[str]]:
        """Return which of the words each of these memories contains, in the order of the words."""
        held: dict[int, list[str]] = {each: [] for each in ids}
        if words and ids:
            asked = {"phrases": [to_phrase(word) for word in words], "ids": list(ids)}
            for memory_id, place in rows.all("holding", asked):
                held[memory_id].append(words[place - 1])
        return held
