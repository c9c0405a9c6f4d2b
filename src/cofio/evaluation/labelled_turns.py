"""Hand-labelled turns: the text, the facts known before, and the expected result.

One JSON object per line: {"id", "role", "text", "before": [facts], "label": "store" | "skip" | "update", "facts":
[...], "replaces": a fact of before, "secret": what must not be kept, "tags": [...], "split": "dev" | "test"}. Text and
label are required; an update needs "replaces".
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cofio.errors import InvalidInput
from cofio.evaluation.jsonl import clean, numbered
from cofio.models.exchange import ROLES
from cofio.models.memory import MAX_TEXT
from cofio.text.tokens import STOP_WORDS, search_terms, words

LABELS = ("store", "skip", "update")
SPLITS = ("dev", "test")
CARRIED = 0.6  # share of a fact's content words from which a text carries the fact

_SHAPE = (
    'Give one JSON object a line: {"id", "role", "text", "label": "store", "skip" or "update", "facts": [...],'
    ' "before": [...], "replaces", "tags": [...], "split"}.'
)


@dataclass(frozen=True, slots=True)
class LabelledTurn:
    """Turn with its label. A skip with facts known before repeats them."""

    id: str
    role: str
    text: str
    label: str
    facts: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    replaces: str = ""
    secret: str = ""
    tags: tuple[str, ...] = ()
    split: str = ""

    @property
    def is_news(self) -> bool:
        """Return whether the turn should change the memories."""
        return self.label != "skip"

    @property
    def is_known(self) -> bool:
        """Return whether the turn only repeats known facts."""
        return self.label == "skip" and bool(self.before)


def read(path: Path) -> list[LabelledTurn]:
    """Return all turns of the file. Raise NotFound if it is missing, InvalidInput if it is malformed."""
    turns = [_parse_line(line, number, path) for number, line in numbered(path, _SHAPE)]
    repeated = [name for name, times in Counter(turn.id for turn in turns).items() if times > 1]
    if repeated:
        raise InvalidInput(f"Two turns of {path} have the id {repeated[0]!r}.", "Give each turn an id of its own.")
    return turns


def _parse_line(line: str, number: int, path: Path) -> LabelledTurn:
    try:
        turn = _parse_turn(json.loads(line), number)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        why = f"there is no {error}" if isinstance(error, KeyError) else str(error)
        raise InvalidInput(f"Line {number} of {path} is not a labelled turn: {why}.", _SHAPE) from error
    if problem := _find_problem(turn):
        raise InvalidInput(f"Line {number} of {path}: {problem}.", _SHAPE)
    return turn


def _parse_turn(plain: Any, number: int) -> LabelledTurn:
    if not isinstance(plain, dict):
        raise TypeError("it is not an object")
    facts, before, tags = (_to_texts(plain.get(name)) for name in ("facts", "before", "tags"))
    own_id = plain.get("id")
    return LabelledTurn(
        id=clean(number if own_id is None else own_id),
        role=clean(plain.get("role")) or "user",
        text=clean(plain["text"]),
        label=clean(plain["label"]),
        facts=facts,
        before=before,
        replaces=clean(plain.get("replaces")),
        secret=clean(plain.get("secret")),
        tags=tags,
        split=clean(plain.get("split")),
    )


def _to_texts(value: Any) -> tuple[str, ...]:
    """Return the non-blank texts of a list; a single text counts as a list of one."""
    texts = value if isinstance(value, list) else [value]
    return tuple(text for text in map(clean, texts) if text.strip())


def _find_problem(turn: LabelledTurn) -> str:
    if turn.label not in LABELS:
        return f"the label is {turn.label!r}"
    if turn.role not in ROLES:
        return f"the role is {turn.role!r}"
    if not turn.text.strip():
        return "its text is empty"
    if max(map(len, (turn.text, *turn.before))) > MAX_TEXT:
        return f"one of its texts is longer than {MAX_TEXT:,} characters"
    if turn.label == "update" and turn.replaces not in turn.before:
        return "an update replaces a fact of before"
    return ""


# ── does a text carry a fact ──────────────────────────────────────────────────────────────────────────────────────────


def carries(text: str, fact: str, replaced: str = "") -> bool:
    """Return whether the text states the fact: enough of its content words, and all its numbers and names.

    Those of the fact that it replaces may be missing: "goes from 10 to 25 MB" may be stored as "is 25 MB".
    """
    roots, needed = _find_roots(text), _find_roots(fact)
    return len(needed & roots) >= CARRIED * len(needed) and _find_fixed(fact) - _find_roots(replaced) <= roots


def _find_roots(text: str) -> set[str]:
    """Return the content words without their endings, and without words for the owner of the fact."""
    plain = _separate_units(text)
    content_words = [word.removesuffix("'s") for word in words(plain) if word not in STOP_WORDS]
    return {_stem(word) for word in content_words or search_terms(plain)} - _WHOSE


def _find_fixed(text: str) -> set[str]:
    """Return the numbers and names; a capitalised word at the start of a sentence does not count as a name."""
    tokens = _separate_units(text).split()
    marks = [
        word.strip(_AROUND) for place, word in enumerate(tokens) if _NUMBER.search(word) or (place and _is_name(word))
    ]
    return {_stem(word) for mark in marks for word in search_terms(mark) if word not in STOP_WORDS} - _WHOSE


def _is_name(word: str) -> bool:
    plain = word.strip(_AROUND)
    return len(plain) > 1 and (plain[0].isupper() or _INSIDE.search(plain) is not None)


def _separate_units(text: str) -> str:
    """Return the text with units separated from numbers: "300ms" equals "300 ms"."""
    return _UNIT.sub(r"\1 \2", text.replace("’", "'").replace("`", ""))


def _stem(word: str) -> str:
    for ending in ("ing", "ed", "es", "s", "d", "e"):
        if word.isalpha() and word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


_WHOSE = {_stem(word) for word in ("user", "team", "project", "policy", "decided", "repo", "app")}
_AROUND = ".,;:!?()[]{}\"'“”‘’*"
_NUMBER = re.compile(r"\d")
_INSIDE = re.compile(r"\w[._/@#-]\w|\w[A-Z]")
_UNIT = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)([A-Za-z]{1,4})(?!\w)")
