"""Encodes the labelled text for student and teacher: `python -m training.prepare --help`.

evals/data ─▶ {student,teacher}-known.npz: training authors, then unlabelled combinations of their text
           └▶ {student,teacher}-unseen.npz: held-out authors, then the authors of the test
"""

from __future__ import annotations

import argparse
import random
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from cofio.embedders.wordpiece import WordPiece
from cofio.judgement.encoding import Encoder, sentences_of
from training import data, packed
from training.data import Example

HELD_OUT = frozenset("ch eh gh he v vh xg yh zc".split())
NEAR_MEMORIES, NEAR_PROMPTS = 7, 6  # how many memories a statement, a prompt is put beside
_LONGEST_TURN = 600  # characters of a turn that is put together


def main() -> None:
    """Read the options, encode, write."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--base", type=Path, required=True, help="folder with vocab.txt and qwen-tokenizer.json")
    options.add_argument("--out", type=Path, required=True, help="folder for the arrays")
    given = options.parse_args()
    from training.teacher import Reader

    given.out.mkdir(parents=True, exist_ok=True)
    words = WordPiece.read(given.base / "vocab.txt")
    for name, encoder in (("student", Encoder(words)), ("teacher", Reader.read(given.base))):
        known, held_out, test = examples_of(encoder)
        everything = [*known, *combinations(known, encoder), *variants(known, encoder)]
        print(f"{name}: {len(known)} examples and {len(everything) - len(known)} combinations for training", flush=True)
        packed.write(given.out / f"{name}-known.npz", everything)
        packed.write(given.out / f"{name}-unseen.npz", [*held_out, *test])


def examples_of(encoder: Encoder) -> tuple[list[Example], list[Example], list[Example]]:
    """Return the examples for training, of the held-out authors, and of the test authors."""
    examples = data.pairs(encoder) + data.relevance(encoder) + data.turns(encoder)
    examples, held_out = data.split(examples, HELD_OUT)
    known, test = data.split(examples, data.TEST_AUTHORS)
    return known, held_out, test


def combinations(examples: Sequence[Example], encoder: Encoder, seed: int = 7) -> list[Example]:
    """Return unlabelled pairs of the same text: statements beside other memories of their author, prompts likewise."""
    chance = random.Random(seed)
    memories, statements, prompts = defaultdict(set), defaultdict(set), defaultdict(set)
    for each in examples:
        if each.task == "relation":
            memories[each.author].add(each.row["memory"])
            statements[each.author].add(each.row["said"])
        elif each.task == "relevance":
            memories[each.author].add(each.row["memory"])
            prompts[each.author].add(each.row["prompt"])
        elif each.row.get("role", "user") == "user" and len(each.row["said"]) < 400:
            (statements if each.row["facts"] else prompts)[each.author].add(each.row["said"])
            for fact in each.row["facts"]:
                if isinstance(fact, dict):
                    memories[each.author] |= {fact["text"], fact["quote"]}
                    statements[each.author].add(fact["quote"])
    found = []
    for author, own in sorted(memories.items()):
        pool = sorted(own)
        tokens = [_content(memory) for memory in pool]
        for said in sorted(statements[author]):
            near = _nearest(said, tokens, NEAR_MEMORIES, chance)[1:] + chance.sample(range(len(pool)), 1)
            found += [Example("relation", author, *encoder.pair(pool[at], said), label=-1) for at in near]
        for prompt in sorted(prompts[author]):
            near = _nearest(prompt, tokens, NEAR_PROMPTS, chance) + chance.sample(range(len(pool)), min(3, len(pool)))
            found += [Example("relevance", author, *encoder.relevance(pool[at], prompt), label=-1) for at in near]
    return found


def variants(examples: Sequence[Example], encoder: Encoder, seed: int = 7) -> list[Example]:
    """Return unlabelled turns made of the sentences of the labelled ones: a part of a turn, and a turn with another."""
    chance = random.Random(seed)
    turns = defaultdict(dict)
    for each in examples:
        if each.task == "words":
            turns[each.author, each.row.get("role", "user")][each.row["said"]] = each.row
    found = []
    for (author, role), rows in sorted(turns.items()):
        for said, row in rows.items():
            sentences = [said[start:end] for start, end in sentences_of(said)]
            part = sentences[chance.randrange(len(sentences)) :] if len(sentences) > 1 else []
            other = chance.choice(list(rows))
            whole = f"{said} {other}" if len(said) + len(other) < _LONGEST_TURN else ""
            for text in filter(None, (" ".join(part), whole)):
                found += [
                    data.unlabelled(author, window) for window in encoder.windows(text, row.get("before", ""), role)
                ]
    return found


def _nearest(text: str, others: Sequence[set[str]], count: int, chance: random.Random) -> list[int]:
    """Return the places of the texts that share most words with one."""
    words = _content(text)
    scores = [(len(words & other) / (4 + len(other)), chance.random()) for other in others]
    return sorted(range(len(others)), key=lambda at: scores[at], reverse=True)[:count]


def _content(text: str) -> set[str]:
    return set(text.lower().split())


if __name__ == "__main__":
    main()
