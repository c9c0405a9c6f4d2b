"""Pairs of texts with a known relation, as cases: the known memories, the statement, and the expected action.

Files hold one JSON object per line, in one of three shapes: {"memory", "said", "label"} are a memory and a later
statement, with the labels add, same, update and delete; {"a", "b", "label"} are two facts, with the labels duplicate,
contradiction, related and unrelated; {"old", "new", "relation"} are an earlier and a later message of one person, with
the relations update and contradiction. An "id" is optional; the default is the line number.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from cofio.models.memory import MAX_LABEL, MAX_TEXT
from cofio.text.tokens import search_terms
from cofio_eval.jsonl import clean, read_rows
from cofio_eval.metrics import SEED
from evals.ids import check_ids

Action: TypeAlias = Literal["add", "update", "delete", "noop"]
ACTIONS: tuple[Action, ...] = ("add", "update", "delete", "noop")
UNRELATED = 4  # other memories in the store besides the one in question
LONGEST = 1_000  # characters; longer texts are not facts

_STATEMENT_ACTIONS: dict[str, Action] = {"add": "add", "same": "noop", "update": "update", "delete": "delete"}
_FACT_ACTIONS: dict[str, Action] = {
    "duplicate": "noop",
    "contradiction": "update",
    "update": "update",
    "related": "add",
    "unrelated": "add",
}
_SHAPE = (
    'Give one JSON object a line: {"a", "b", "label"} with the label duplicate, contradiction, related or unrelated;'
    ' {"old", "new", "relation"} with the relation update or contradiction; or {"memory", "said", "label"} with the'
    " label add, same, update or delete."
)


@dataclass(frozen=True, slots=True)
class PairCase:
    """Known memories, the one in question first, with a statement and the expected action.

    `delete`: the statement retracts the memory without replacing it. A case of messages has texts from which facts
    are extracted first.
    """

    id: str
    known: tuple[str, ...]
    new: str
    expected: Action
    is_message: bool = False


@dataclass(frozen=True, slots=True)
class PairCases:
    """Named set of cases."""

    name: str
    cases: tuple[PairCase, ...]


def read(path: Path) -> PairCases:
    """Return all pairs of the file. Raise NotFound if it is missing, InvalidInput if it is malformed."""
    cases = read_rows(path, _parse_case, "pair", _SHAPE)
    check_ids(path, [case.id for case in cases])
    return PairCases(path.stem, tuple(_add_unrelated(cases)))


def draw_sample(cases: PairCases, size: int) -> PairCases:
    """Return a sample of `size` cases with a fixed seed, balanced over the expected actions as far as possible."""
    rng = random.Random(SEED)
    by_action: dict[str, list[PairCase]] = {}
    for case in rng.sample(cases.cases, len(cases.cases)):
        by_action.setdefault(case.expected, []).append(case)
    chosen: list[PairCase] = []
    while len(chosen) < min(size, len(cases.cases)):
        chosen += [group.pop() for group in by_action.values() if group][: size - len(chosen)]
    chosen_ids = {case.id for case in chosen}
    return replace(cases, cases=tuple(case for case in cases.cases if case.id in chosen_ids))


def as_facts(cases: PairCases) -> list[PairCases]:
    """Return the cases of messages again with each message as one fact, so that only the decision is measured."""
    short = [case for case in cases.cases if case.is_message and max(map(len, (*case.known, case.new))) <= LONGEST]
    if not short:
        return []
    return [PairCases(f"{cases.name}-as-facts", tuple(replace(case, is_message=False) for case in short))]


def _parse_case(plain: dict[str, Any], number: int) -> PairCase:
    names, actions = _detect_shape(plain)
    is_message = names[0] == "old"
    old, new, label = (plain[name] for name in names)
    old_text, new_text = (clean(text).strip() if isinstance(text, str) else "" for text in (old, new))
    if not old_text or not new_text:
        raise TypeError("one of its texts is empty or missing")
    if max(len(old_text), len(new_text)) > MAX_TEXT:
        raise ValueError(f"one of its texts is longer than {MAX_TEXT:,} characters")
    if label not in tuple(actions):
        raise ValueError(f"its {names[2]} is {label!r}")
    name = clean(number if plain.get("id") is None else plain["id"])
    if len(name) > MAX_LABEL:
        raise ValueError(f"its id is longer than {MAX_LABEL:,} characters")
    return PairCase(name, (old_text,), new_text, actions[label], is_message)


def _detect_shape(plain: dict[str, Any]) -> tuple[tuple[str, str, str], dict[str, Action]]:
    """Return the field names of a pair, and the expected action by label."""
    if "memory" in plain:
        return ("memory", "said", "label"), _STATEMENT_ACTIONS
    if "relation" in plain or "old" in plain:
        return ("old", "new", "relation"), {name: _FACT_ACTIONS[name] for name in ("update", "contradiction")}
    return ("a", "b", "label"), _FACT_ACTIONS


def _add_unrelated(cases: Sequence[PairCase]) -> Iterator[PairCase]:
    """Yield each case of facts with unrelated facts of the file in its store."""
    rng = random.Random(SEED)
    facts = sorted({case.known[0] for case in cases if not case.is_message})
    words = {text: frozenset(search_terms(text)) for text in facts}
    for case in cases:
        about = set(search_terms(case.new)) | words.get(case.known[0], frozenset())
        sample = [] if case.is_message else rng.sample(facts, min(len(facts), 4 * UNRELATED))
        unrelated = [text for text in sample if len(words[text] & about) < 2 and text != case.known[0]][:UNRELATED]
        yield replace(case, known=(*case.known, *unrelated))
