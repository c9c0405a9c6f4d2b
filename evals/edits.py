"""Small edits of memories: one number, identifier, name or negation differs, or an identifier and a number.

No labelled author writes such statements, but stores contain many: logs, templates, tables. A statement that differs
from a memory in one value is never a repetition. One about another identifier, with its own value, is not a replacement
either.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable

_NAMES = "Priya Jonas Marta Kenji Olu Beatriz Anders".split()
_PARTS = "billing auth legacy core search mobile admin".split()
_NEGATIONS = (
    (" is ", " is not "),
    (" are ", " are not "),
    (" never ", " "),
    (" must ", " must not "),
    (" not ", " "),
    (" no ", " "),
)
_NUMBER = re.compile(r"\b\d+\b")
_IDENTIFIER = re.compile(r"\b[a-z]+[-_/.][a-z][\w-]*\b")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{3,}\b|^[A-Z][a-z]{3,}(?= (?:owns|reviews|is the|handles|approves))")
_CODE = re.compile(r"\b(?=\w*\d)(?=\w*[A-Za-z])[\w-]+\b")
_MAX_PER_KIND = 400  # edits per kind
_OPENING = 25  # characters at the beginning of a memory in which its identifier is searched


def make_edits(memories: Iterable[str], *, seed: int = 5) -> dict[str, list[tuple[str, str]]]:
    """Return pairs of a memory and an edit of it, by the kind of edit."""
    rng = random.Random(seed)
    edits: dict[str, list[tuple[str, str]]] = {name: [] for name in _EDITS}
    for memory in sorted(set(memories)):
        for name, edit in _EDITS.items():
            statement = edit(memory, rng)
            if statement and statement != memory:
                edits[name].append((memory, statement))
    return {name: rng.sample(pairs, min(_MAX_PER_KIND, len(pairs))) for name, pairs in edits.items()}


def _other_number(memory: str, rng: random.Random) -> str:
    return _replace_match(_NUMBER, memory, rng, lambda number: str(int(number) + rng.choice((1, 2, 5, 10))))


def _other_identifier(memory: str, rng: random.Random) -> str:
    return _replace_match(_IDENTIFIER, memory, rng, lambda word: re.sub("^[a-z]+", rng.choice(_PARTS), word))


def _other_name(memory: str, rng: random.Random) -> str:
    return _replace_match(_NAME, memory, rng, lambda _: rng.choice(_NAMES))


def _negate(memory: str, _rng: random.Random) -> str:
    return next((memory.replace(phrase, negated, 1) for phrase, negated in _NEGATIONS if phrase in memory), "")


def _other_row(memory: str, rng: random.Random) -> str:
    """Return the memory with another digit in its first identifier, and another number after that."""
    code = _CODE.search(memory)
    if not code or code.start() > _OPENING:
        return ""
    remainder = _other_number(memory[code.end() :], rng)
    other_code = re.sub(r"\d", lambda digit: str((int(digit[0]) + rng.randrange(1, 9)) % 10), code[0], count=1)
    return f"{memory[: code.start()]}{other_code}{remainder}" if remainder else ""


def _replace_match(pattern: re.Pattern[str], memory: str, rng: random.Random, replace: Callable[[str], str]) -> str:
    matches = list(pattern.finditer(memory))
    if not matches:
        return ""
    match = rng.choice(matches)
    return memory[: match.start()] + replace(match[0]) + memory[match.end() :]


_EDITS: dict[str, Callable[[str, random.Random], str]] = {
    "number": _other_number,
    "identifier": _other_identifier,
    "name": _other_name,
    "negation": _negate,
    "row": _other_row,
}
