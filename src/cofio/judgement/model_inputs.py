"""Encoding of texts for the model: token ids with a task marker, and the positions of a turn's words.

    [CLS] [task] left [SEP] right [SEP]

The same code encodes for training and at run time. Every input is truncated so that one run stays cheap.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from cofio.providers.embedders.wordpiece_tokenizer import WordPiece

MEMORY_TOKENS = 48
STATEMENT_TOKENS = 72
PROMPT_TOKENS = 64
BEFORE_TOKENS = 32
WINDOW_TOKENS = 160  # per turn; a longer turn is read in several windows

_TASKS = {"user": "[unused2]", "assistant": "[unused3]", "relation": "[unused4]", "relevance": "[unused5]"}
_WORD = re.compile(r"\S+")
_ABBREVIATIONS = r"e\.g i\.e etc vs Mr Mrs Ms Dr Prof".split()
#: Sentences end at a full stop, a question or exclamation mark before white space, at a line break and at a semicolon,
#: but not inside code: the first alternative consumes it.
_CODE_OR_END = re.compile(
    r"`[^`\n]+`|(?<=[.!?…])"
    + "".join(rf"(?<!\b{word}\.)" for word in _ABBREVIATIONS)
    + r"[\"')\]]*\s+|(?<!\s)\s*\n+\s*|;\s+"
)


class Window(NamedTuple):
    """Window of a turn. For each word, `places` has its first token and its position in the turn."""

    ids: list[int]
    types: list[int]
    places: list[tuple[int, tuple[int, int]]]


class Encoder:
    """Encoder of turns, pairs and prompts for the judgement model."""

    def __init__(self, words: WordPiece) -> None:
        self._words = words
        self._first, self._separator = words.id_of("[CLS]"), words.id_of("[SEP]")
        self._tasks = {name: words.id_of(token) for name, token in _TASKS.items()}

    def pair(self, memory: str, statement: str) -> tuple[list[int], list[int]]:
        """Return (ids, types) of a memory and a later statement."""
        return self._join("relation", memory, statement, STATEMENT_TOKENS)

    def relevance(self, memory: str, prompt: str) -> tuple[list[int], list[int]]:
        """Return (ids, types) of a memory and a prompt."""
        return self._join("relevance", memory, prompt, PROMPT_TOKENS)

    def windows(self, text: str, before: str = "", role: str = "user") -> Iterator[Window]:
        """Yield the turn in windows of whole sentences, each after the end of the other side's previous turn."""
        before_tokens = [number for word, _, _ in words_of(before[-400:]) for number in self._words.pieces(word)]
        left = before_tokens[-BEFORE_TOKENS:]
        pending: list[tuple[list[int], tuple[int, int]]] = []
        size = 0
        for start, end in sentences_of(text):
            sentence = [
                (self._words.pieces(word) or [self._separator], (start + first, start + last))
                for word, first, last in words_of(text[start:end])
            ]
            length = sum(len(pieces) for pieces, _ in sentence)
            if pending and size + length > WINDOW_TOKENS:
                yield self._build_window(role, left, pending)
                pending, size = [], 0
            for pieces, place in sentence:  # a sentence longer than a window is split between words
                if size + len(pieces) > WINDOW_TOKENS and pending:
                    yield self._build_window(role, left, pending)
                    pending, size = [], 0
                pending.append((pieces[:WINDOW_TOKENS], place))
                size += len(pieces)
        if pending:
            yield self._build_window(role, left, pending)

    def _build_window(self, role: str, left: list[int], words: list[tuple[list[int], tuple[int, int]]]) -> Window:
        task = self._tasks["assistant" if role == "assistant" else "user"]
        ids = [self._first, task, *left, self._separator]
        types = [0] * len(ids)
        places = []
        for pieces, place in words:
            places.append((len(ids), place))
            ids += pieces
        ids.append(self._separator)
        return Window(ids, types + [1] * (len(ids) - len(types)), places)

    def _join(self, task: str, memory: str, other: str, most: int) -> tuple[list[int], list[int]]:
        left = [self._first, self._tasks[task], *self._truncate(memory, MEMORY_TOKENS), self._separator]
        right = [*self._truncate(other, most), self._separator]
        return left + right, [0] * len(left) + [1] * len(right)

    def _truncate(self, text: str, most: int) -> list[int]:
        """Return the token ids of a text; of a long one half from the beginning and half from the end."""
        pieces = self._words.pieces(text if len(text) <= 16 * most else f"{text[: 8 * most]} {text[-8 * most :]}")
        return pieces if len(pieces) <= most else pieces[: most // 2] + pieces[-(most - most // 2) :]


def words_of(text: str) -> list[tuple[str, int, int]]:
    """Return (word, start, end) of all words, separated by white space."""
    return [(match[0], match.start(), match.end()) for match in _WORD.finditer(text)]


def sentences_of(text: str) -> list[tuple[int, int]]:
    """Return (start, end) of the sentences and lines of a text, without surrounding white space."""
    ends = [match.span() for match in _CODE_OR_END.finditer(text) if not match[0].startswith("`")]
    places, start = [], 0
    for end, following in [*ends, (len(text), len(text))]:
        first, last = start, end
        while first < last and text[first].isspace():
            first += 1
        while last > first and text[last - 1].isspace():
            last -= 1
        if last > first:
            places.append((first, last))
        start = following
    return places
