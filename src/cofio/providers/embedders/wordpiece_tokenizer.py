"""Tokenizer of BERT's uncased models: the first half of the local embedder.

Returns the ids of the `tokenizers` library without its fifteen distributions; tests/embedders/golden_tokens.json checks
that both agree. They differ in about 500 characters of rare scripts that are newer than that library's Unicode tables.
"""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from cofio.errors import Misconfigured
from cofio.text import lazy_re

MAX_TOKENS = 512
LONGEST_WORD = 100  # characters; the model was trained with longer words as unknown
CACHED_WORDS = 32_768
LONGEST_CACHED = 64  # characters; bounds the memory of the cache

_SPECIAL = lazy_re.compile(r"(\[(?:PAD|UNK|CLS|SEP|MASK)\])")
_CONTROLS = {code: None for code in (*range(32), 127) if chr(code) not in "\t\n\r"}
_INVISIBLE = ("Cc", "Cf", "Co", "Cs")  # categories of control characters
_IDEOGRAPHS = lazy_re.compile(
    "([\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0002a6df\U0002a700-\U0002b73f\U0002b740-\U0002b81f\U0002b920-\U0002ceaf\U0002f800-\U0002fa1f])"
)


class WordPiece:
    """Vocabulary with greedy longest-match splitting of words into its pieces."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._ids = {piece: number for number, piece in enumerate(vocabulary)}
        try:
            self._unknown, self._first, self._last = (self._ids[name] for name in ("[UNK]", "[CLS]", "[SEP]"))
        except KeyError as error:
            message = f"The vocabulary of the embedding model has no token {error.args[0]}."
            raise Misconfigured(message, "Use the vocab.txt of the model.") from error
        self._cached = lru_cache(CACHED_WORDS)(self._pieces)

    @classmethod
    def read(cls, path: Path) -> WordPiece:
        """Return the tokenizer of a vocab.txt: one piece per line, its id is the line number."""
        try:
            return cls(path.read_text(encoding="utf-8").rstrip("\n").split("\n"))
        except (OSError, UnicodeDecodeError) as error:
            raise Misconfigured(f"{path} cannot be read: {error}.", "Put the model's vocab.txt there.") from error

    def id_of(self, piece: str) -> int:
        """Return the id of a vocabulary piece, such as a marker; the id of [UNK] if it is unknown."""
        return self._ids.get(piece, self._unknown)

    def ids(self, text: str, most: int = MAX_TOKENS) -> list[int]:
        """Return the ids of the text between [CLS] and [SEP], truncated to `most`."""
        return [self._first, *self.pieces(text, most - 2), self._last]

    def pieces(self, text: str, most: int = MAX_TOKENS) -> list[int]:
        """Return the ids of the text alone, truncated to `most`."""
        ids: list[int] = []
        for chunk in self._chunks(text):
            ids += self._cached(chunk) if len(chunk) <= LONGEST_CACHED else self._pieces(chunk)
            if len(ids) >= most:
                break
        return ids[:most]

    def _chunks(self, text: str) -> Iterator[str]:
        """Yield the normalised chunks between white space; special tokens are chunks of their own."""
        for part in _SPECIAL.split(text) if "[" in text else (text,):
            if part in self._ids and _SPECIAL.fullmatch(part):
                yield part
            else:
                yield from normalised(part).split()

    def _pieces(self, chunk: str) -> tuple[int, ...]:
        if _SPECIAL.fullmatch(chunk):
            return (self._ids[chunk],)
        return tuple(number for word in _words(chunk) for number in self._split(word))

    def _split(self, word: str) -> list[int]:
        """Return the longest pieces of the word from its start; only [UNK] if they do not cover it."""
        if len(word) > LONGEST_WORD:
            return [self._unknown]
        pieces: list[int] = []
        start = 0
        while start < len(word):
            mark = "##" if start else ""
            for end in range(len(word), start, -1):
                piece = self._ids.get(mark + word[start:end])
                if piece is not None:
                    break
            else:
                return [self._unknown]
            pieces.append(piece)
            start = end
        return pieces


def normalised(text: str) -> str:
    """Return the text in lower case, without accents and control characters, with spaces around each ideograph."""
    if text.isascii():
        return text.translate(_CONTROLS).lower()
    visible = "".join(char for char in text if char in "\t\n\r" or unicodedata.category(char) not in _INVISIBLE)
    bare = unicodedata.normalize("NFD", _IDEOGRAPHS.sub(r" \1 ", visible.replace("\ufffd", "")))
    marked = "".join(char for char in bare if unicodedata.category(char) != "Mn")
    # Python lowers a final Σ to ς; the reference lowers each character separately.
    return marked.replace("Σ", "σ").lower()


def _words(chunk: str) -> Iterator[str]:
    """Yield the words of the chunk, with each punctuation mark as a word of its own."""
    if chunk.isalnum():
        yield chunk
        return
    start = 0
    for place, char in enumerate(chunk):
        if char in string.punctuation or unicodedata.category(char).startswith("P"):
            if start < place:
                yield chunk[start:place]
            yield char
            start = place + 1
    if start < len(chunk):
        yield chunk[start:]
