"""Hand-labelled turns: the text, the facts known before, and the expected result.

One JSON object per line: {"id", "role", "text", "before": [facts], "label": "store" | "skip" | "update", "facts":
[...], "replaces": a fact of before, "secret": what must not be kept, "tags": [...], "split": "dev" | "test"}. Text and
label are required; an update needs "replaces".
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cofio.models.exchange import ROLES
from cofio.models.memory import MAX_TEXT
from cofio_eval.jsonl import clean, read_rows
from evals.ids import check_ids

LABELS = ("store", "skip", "update")
SPLITS = ("dev", "test")

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
    turns = read_rows(path, _parse_turn, "labelled turn", _SHAPE)
    check_ids(path, [turn.id for turn in turns])
    return turns


def _parse_turn(plain: dict[str, Any], number: int) -> LabelledTurn:
    facts, before, tags = (_to_texts(plain.get(name)) for name in ("facts", "before", "tags"))
    turn = LabelledTurn(
        id=clean(number if plain.get("id") is None else plain["id"]),
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
    if problem := _find_problem(turn):
        raise ValueError(problem)
    return turn


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
