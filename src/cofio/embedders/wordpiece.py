"""Text into the token ids that BERT's uncased models read: the first half of the local embedder.

Gives the ids of the `tokenizers` library without its fifteen distributions; tests/embedders/golden_tokens.json holds
the two together. They part at some 500 characters of rare scripts that are younger than that library's Unicode tables.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from cofio.errors import Misconfigured

MAX_TOKENS = 512
LONGEST_WORD = 100  # characters; the model was trained with longer words as unknown
CACHED_WORDS = 32_768
LONGEST_CACHED = 64  # characters; bounds the cache's memory as well as its count

_SPECIAL = re.compile(r"(\[(?:PAD|UNK|CLS|SEP|MASK)\])")
_CONTROLS = {code: None for code in (*range(32), 127) if chr(code) not in "\t\n\r"}
_IDEOGRAPHS = re.compile(
    "([\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0002a6df\U0002a700-\U0002b73f\U0002b740-\U0002b81f\U0002b920-\U0002ceaf\U0002f800-\U0002fa1f])"
)


class WordPiece:
    """A vocabulary, and the greedy longest-match split of words into its pieces."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._ids = {piece: number for number, piece in enumerate(vocabulary)}
        try:
            self._unknown, self._first, self._last = (self._ids[name] for name in ("[UNK]", "[CLS]", "[SEP]"))
        except KeyError as error:
            raise Misconfigured(f"The vocabulary has no {error.args[0]}.", "Use the vocab.txt of the model.") from error
        self._cached = lru_cache(CACHED_WORDS)(self._pieces)

    @classmethod
    def read(cls, path: Path) -> WordPiece:
        """The tokenizer of a vocab.txt: one piece a line, its id the line's number."""
        try:
            return cls(path.read_text(encoding="utf-8").rstrip("\n").split("\n"))
        except (OSError, UnicodeDecodeError) as error:
            raise Misconfigured(f"{path} cannot be read: {error}.", "Put the model's vocab.txt there.") from error

    def id_of(self, piece: str) -> int:
        """The id of one piece of the vocabulary, a marker for example; that of [UNK] when it has none."""
        return self._ids.get(piece, self._unknown)

    def ids(self, text: str, most: int = MAX_TOKENS) -> list[int]:
        """The ids of the text between [CLS] and [SEP], at most `most` of them; what does not fit is left out."""
        return [self._first, *self.pieces(text, most - 2), self._last]

    def pieces(self, text: str, most: int = MAX_TOKENS) -> list[int]:
        """The ids of the text alone, at most `most` of them."""
        found: list[int] = []
        for chunk in self._chunks(text):
            found += self._cached(chunk) if len(chunk) <= LONGEST_CACHED else self._pieces(chunk)
            if len(found) >= most:
                break
        return found[:most]

    def _chunks(self, text: str) -> Iterator[str]:
        """What white space separates, normalised; names of special tokens stand for themselves, wherever they are."""
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
        """The longest pieces that make up the word, from its start; [UNK] alone when they do not cover it."""
        if len(word) > LONGEST_WORD:
            return [self._unknown]
        pieces: list[int] = []
        start = 0
        while start < len(word):
            end, piece = self._longest(word, start)
            if piece is None:
                return [self._unknown]
            pieces.append(piece)
            start = end
        return pieces

    def _longest(self, word: str, start: int) -> tuple[int, int | None]:
        """Where the longest known piece from `start` ends, and its id."""
        mark = "##" if start else ""
        for end in range(len(word), start, -1):
            piece = self._ids.get(mark + word[start:end])
            if piece is not None:
                return end, piece
        return start, None


def normalised(text: str) -> str:
    """Lower case, without accents and control characters, each ideograph on its own."""
    if text.isascii():
        return text.translate(_CONTROLS).lower()
    kept = "".join(char for char in text if not _is_control(char))
    bare = unicodedata.normalize("NFD", _IDEOGRAPHS.sub(r" \1 ", kept))
    marked = "".join(char for char in bare if unicodedata.category(char) != "Mn")
    # Python lowers a final Σ to ς; the reference lowers each character by itself.
    return marked.replace("Σ", "σ").lower()


def _is_control(char: str) -> bool:
    if char in "\t\n\r":
        return False
    return char == "\ufffd" or unicodedata.category(char) in ("Cc", "Cf", "Co", "Cs")


def _words(chunk: str) -> Iterator[str]:
    """The chunk cut at its punctuation, each mark a word of its own."""
    if chunk.isalnum():
        yield chunk
        return
    start = 0
    for place, char in enumerate(chunk):
        if _is_punctuation(char):
            if start < place:
                yield chunk[start:place]
            yield char
            start = place + 1
    if start < len(chunk):
        yield chunk[start:]


def _is_punctuation(char: str) -> bool:
    return char in string.punctuation or unicodedata.category(char).startswith("P")
