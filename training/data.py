"""Reads the labelled text of `evals/data` and turns it into training examples.

    turns      ─▶ Example("words")      one label per word: outside, first word or further word of a fact
    pairs      ─▶ Example("relation")   add, same, update or delete
    relevance  ─▶ Example("relevance")  needed or not

Every file is named after its author; splits are always by author.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cofio.judgement.labels import ABOUT, KINDS, RELATIONS, TAGS
from cofio.judgement.model_inputs import Encoder, Window, words_of

DATA = Path(__file__).resolve().parents[1] / "evals" / "data"
TEST_AUTHORS = frozenset("tu")
IGNORED = -100
UNKNOWN = len(TAGS)  # tag of a word that only a teacher labels


@dataclass(slots=True)
class Example:
    """One input of the model and the label of one head; the other heads are not trained on it."""

    task: str
    author: str
    ids: list[int]
    types: list[int]
    group: str = ""  # pairs of one memory, prompts of one project
    label: float = 0.0
    words: list[int] = field(default_factory=list)  # per token: 0 outside, 1 first word, 2 further word of a fact
    kinds: list[int] = field(default_factory=list)
    about: list[int] = field(default_factory=list)
    places: list[tuple[int, tuple[int, int]]] = field(
        default_factory=list
    )  # of each word: first token, place in the text
    row: Mapping[str, Any] = field(default_factory=dict)


def rows(kind: str, data: Path = DATA) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (author, row) of every file of a kind, in the order of their names."""
    for path in sorted((data / kind).glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.strip():
                yield path.stem, json.loads(line)


def pairs(encoder: Encoder, data: Path = DATA, *, unrelated: int = 2, seed: int = 0) -> list[Example]:
    """Return the relation examples: the labelled pairs, and every statement with other memories of its author.

    In a store nearly every memory has nothing to do with what is said; the labelled pairs hold only the hard cases.
    """
    chance = random.Random(seed)
    labelled = list(rows("pairs", data))
    memories: dict[str, list[str]] = {}
    for author, row in labelled:
        memories.setdefault(author, []).append(row["memory"])
    found = []
    for author, row in labelled:
        encoded = encoder.pair(row["memory"], row["said"])
        label = RELATIONS.index(row["label"])
        found.append(Example("relation", author, *encoded, group=f"{author} {row['memory']}", label=label, row=row))
        for memory in chance.sample(memories[author], unrelated):
            if memory != row["memory"]:
                other = {"memory": memory, "said": row["said"], "label": "add", "unrelated": True}
                found.append(Example("relation", author, *encoder.pair(memory, row["said"]), row=other))
    return found


def relevance(encoder: Encoder, data: Path = DATA, *, foreign: int = 2, seed: int = 0) -> list[Example]:
    """Return the relevance examples: every memory of a prompt's project, and a few of other projects as negatives."""
    chance = random.Random(seed)
    sets = list(rows("relevance", data))
    others: dict[str, list[str]] = {}
    for author, row in sets:
        others.setdefault(author, []).extend(row["memories"])
    found = []
    for number, (author, row) in enumerate(sets):
        about = {"prompt": row["prompt"], "number": number, "foreign": False}
        for place, memory in enumerate(row["memories"]):
            encoded = encoder.relevance(memory, row["prompt"])
            label = float(place in row["needed"])
            about_this = {**about, "place": place, "memory": memory}
            found.append(Example("relevance", author, *encoded, group=f"{number}", label=label, row=about_this))
        for memory in chance.sample(others[author], k=min(foreign, len(others[author]))):
            if memory not in row["memories"]:
                encoded = encoder.relevance(memory, row["prompt"])
                found.append(
                    Example(
                        "relevance",
                        author,
                        *encoded,
                        group=f"{number}",
                        row={**about, "memory": memory, "foreign": True},
                    )
                )
    return found


def turns(encoder: Encoder, data: Path = DATA) -> list[Example]:
    """Return the tagging examples, one per window of a turn."""
    found = []
    for number, (author, row) in enumerate(rows("turns", data)):
        facts = facts_at(row)
        for window in encoder.windows(row["said"], row.get("before", ""), row.get("role", "user")):
            example = Example("words", author, window.ids, window.types, group=f"{author} {number}", row=row)
            size, example.places = len(window.ids), window.places
            example.words, example.kinds, example.about = [IGNORED] * size, [IGNORED] * size, [IGNORED] * size
            for token, (start, end) in window.places:
                _label_word(example, token, start, end, facts)
            found.append(example)
    return found


def unlabelled(author: str, window: Window) -> Example:
    """Return a window of a turn as an example that only a teacher labels."""
    example = Example("words", author, window.ids, window.types, label=-1, places=window.places)
    example.words, example.kinds, example.about = ([IGNORED] * len(window.ids) for _ in range(3))
    for token, _ in window.places:
        example.words[token] = UNKNOWN
    return example


def _label_word(example: Example, token: int, start: int, end: int, facts: Sequence[tuple[int, int, int, int]]) -> None:
    example.words[token] = 0
    for first, last, kind, about in facts:
        if start < last and end > first:
            example.words[token] = 1 if start <= first else 2
            example.kinds[token], example.about[token] = kind, about
            return


def facts_at(row: Mapping[str, Any]) -> list[tuple[int, int, int, int]]:
    """Return (start, end, kind, about) of each fact; a fact without a quote is aligned with its nearest sentence."""
    spans = []
    for fact in row["facts"]:
        if isinstance(fact, str):
            start, end = _nearest_sentence(row["said"], fact)
            spans.append((start, end, IGNORED, IGNORED))
        else:
            start = row["said"].index(fact["quote"])
            kind, about = KINDS.index(fact["kind"]), ABOUT.index(fact["about"])
            spans.append((start, start + len(fact["quote"]), kind, about))
    return spans


def _nearest_sentence(said: str, fact: str) -> tuple[int, int]:
    from cofio.judgement.model_inputs import sentences_of

    wanted = {word.lower().strip(".,:;") for word, _, _ in words_of(fact)}

    def shared(span: tuple[int, int]) -> int:
        return len(wanted & {word.lower().strip(".,:;") for word, _, _ in words_of(said[span[0] : span[1]])})

    return max(sentences_of(said), key=shared)


def split(examples: Iterable[Example], held_out: frozenset[str]) -> tuple[list[Example], list[Example]]:
    """Return (examples of the other authors, examples of the authors that are held out)."""
    kept, out = [], []
    for example in examples:
        (out if example.author in held_out else kept).append(example)
    return kept, out
