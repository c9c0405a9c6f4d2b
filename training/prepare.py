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

from evals.edits import edited

from cofio.judgement.labels import RELATIONS
from cofio.judgement.model_inputs import Encoder, sentences_of
from cofio.providers.embedders.wordpiece_tokenizer import WordPiece
from training import data, dataset
from training.data import Example

HELD_OUT = frozenset("ch eh gh he lh v vh xg yh zc".split())
NEAREST_TO_STATEMENT, NEAREST_TO_PROMPT = 5, 4  # memories paired with a statement and with a prompt
_MAX_JOINED = 600  # characters of two joined turns


def main() -> None:
    """Parse the arguments, encode and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", type=Path, required=True, help="folder with vocab.txt and qwen-tokenizer.json")
    parser.add_argument("--out", type=Path, required=True, help="folder for the arrays")
    args = parser.parse_args()
    from training.teacher import TeacherEncoder

    args.out.mkdir(parents=True, exist_ok=True)
    words = WordPiece.read(args.base / "vocab.txt")
    for name, encoder in (("student", Encoder(words)), ("teacher", TeacherEncoder.load(args.base))):
        known, held_out, test = examples_of(encoder)
        labelled = [*known, *edited_memories(known, encoder)]
        everything = [*labelled, *paired_combinations(known, encoder), *augmented_turns(known, encoder)]
        print(f"{name}: {len(labelled)} examples, {len(everything) - len(labelled)} without labels", flush=True)
        dataset.save(args.out / f"{name}-known.npz", everything)
        dataset.save(args.out / f"{name}-unseen.npz", [*held_out, *test])


def examples_of(encoder: Encoder) -> tuple[list[Example], list[Example], list[Example]]:
    """Return the examples of the training authors, the held-out authors and the test authors."""
    examples = data.pairs(encoder) + data.relevance(encoder) + data.turns(encoder)
    examples, held_out = data.split(examples, HELD_OUT)
    known, test = data.split(examples, data.TEST_AUTHORS)
    return known, held_out, test


def edited_memories(examples: Sequence[Example], encoder: Encoder) -> list[Example]:
    """Pair memories with small edits of them: another value changes a memory, a row about another thing does not."""
    memories = defaultdict(set)
    for example in examples:
        if example.task == "relation":
            memories[example.author].add(example.row["memory"])
    labels = {"number": "update", "name": "update", "negation": "update", "row": "add"}
    return [
        Example("relation", author, *encoder.pair(memory, statement), label=RELATIONS.index(labels[kind]))
        for author, own in sorted(memories.items())
        for kind, pairs in edited(own).items()
        if kind in labels
        for memory, statement in pairs
    ]


def paired_combinations(examples: Sequence[Example], encoder: Encoder, seed: int = 7) -> list[Example]:
    """Pair statements and prompts with the memories of their author that share most words, without labels."""
    rng = random.Random(seed)
    memories, statements, prompts = defaultdict(set), defaultdict(set), defaultdict(set)
    for example in examples:
        if example.task == "relation":
            memories[example.author].add(example.row["memory"])
            statements[example.author].add(example.row["said"])
        elif example.task == "relevance":
            memories[example.author].add(example.row["memory"])
            prompts[example.author].add(example.row["prompt"])
        elif example.row.get("role", "user") == "user" and len(example.row["said"]) < 400:
            (statements if example.row["facts"] else prompts)[example.author].add(example.row["said"])
            for fact in example.row["facts"]:
                if isinstance(fact, dict):
                    memories[example.author] |= {fact["text"], fact["quote"]}
                    statements[example.author].add(fact["quote"])
    found = []
    for author, own in sorted(memories.items()):
        pool = sorted(own)
        tokens = [_content(memory) for memory in pool]
        for said in sorted(statements[author]):
            near = _nearest(said, tokens, NEAREST_TO_STATEMENT, rng)[1:] + rng.sample(range(len(pool)), 1)
            found += [Example("relation", author, *encoder.pair(pool[at], said), label=-1) for at in near]
        for prompt in sorted(prompts[author]):
            near = _nearest(prompt, tokens, NEAREST_TO_PROMPT, rng) + rng.sample(range(len(pool)), min(2, len(pool)))
            found += [Example("relevance", author, *encoder.relevance(pool[at], prompt), label=-1) for at in near]
    return found


def augmented_turns(examples: Sequence[Example], encoder: Encoder, seed: int = 7) -> list[Example]:
    """Make unlabelled turns of the labelled ones: the end of a turn, and two turns joined."""
    rng = random.Random(seed)
    turns = defaultdict(dict)
    for example in examples:
        if example.task == "words":
            turns[example.author, example.row.get("role", "user")][example.row["said"]] = example.row
    found = []
    for (author, role), rows in sorted(turns.items()):
        for said, row in rows.items():
            sentences = [said[start:end] for start, end in sentences_of(said)]
            part = sentences[rng.randrange(len(sentences)) :] if len(sentences) > 1 else []
            other = rng.choice(list(rows))
            whole = f"{said} {other}" if len(said) + len(other) < _MAX_JOINED else ""
            for text in filter(None, (" ".join(part), whole)):
                found += [
                    data.unlabelled(author, window) for window in encoder.windows(text, row.get("before", ""), role)
                ]
    return found


def _nearest(text: str, others: Sequence[set[str]], count: int, rng: random.Random) -> list[int]:
    """Return the indices of the texts that share most words with `text`."""
    words = _content(text)
    scores = [(len(words & other) / (4 + len(other)), rng.random()) for other in others]
    return sorted(range(len(others)), key=lambda at: scores[at], reverse=True)[:count]


def _content(text: str) -> set[str]:
    return set(text.lower().split())


if __name__ == "__main__":
    main()
