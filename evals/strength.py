"""Share of hits that answer the question, by score: the table behind the limits of `strong` and `likely`.

    python -m evals.strength FILE

Each question is asked in its own store and in one that cannot answer it, five hits each: the coding prompts of
`evals/coding.py`, and the questions of FILE in their own conversation and in another.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from cofio_eval.datasets import Conversation, read, remembered
from evals.recall import CODING, Case, Found, ask, facts, questions

EDGES = (0.0, 0.15, 0.20, 0.25, 0.30, 0.35, 0.40, 0.45, 0.50, 0.55, 0.60, 0.65, 1.01)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", type=Path, help="conversations, one JSON object per line")
    conversations = read(parser.parse_args().file)
    with remembered(facts()) as keeper:
        coding = [ask(keeper, case) for cases in CODING.values() for case in cases]
    show("facts", coding)
    show("conversations", [each for place in range(len(conversations)) for each in asked(conversations, place)])
    return 0


def asked(conversations: Sequence[Conversation], place: int) -> list[Found]:
    """Return the hits in a conversation for its own questions and for those of another."""
    own, other = questions(conversations[place]), questions(conversations[place - 1])
    with remembered(conversations[place]) as keeper:
        return [ask(keeper, case) for case in (*own, *(Case(each.prompt) for each in other))]


def show(name: str, found: Sequence[Found]) -> None:
    """Print, by score, the number of hits and the share of wanted ones; the same for each best hit."""
    every = [rated(each) for each in found]
    best = [row[0] for row in every if row]
    for title, rows in (("every hit", [row for hits in every for row in hits]), ("best hit", best)):
        print(f"{name}, {title}")
        for low, high in pairwise(EDGES):
            print(f"  {low:.2f} {share(right for score, right in rows if low <= score < high)}")
    for answered in (True, False):
        top = [row[0][0] for row, each in zip(every, found, strict=True) if row and bool(each.wanted) is answered]
        below = (f"{edge:.2f}: {share(score < edge for score in top)}" for edge in EDGES[1:-1])
        print(f"{name}, {'with' if answered else 'without'} an answer: best score below", *below, sep="\n  ")


def rated(found: Found) -> list[tuple[float, bool]]:
    """Return the score of each hit, and whether it is wanted."""
    return [(hit.score, str(hit.memory.metadata["unit"]) in found.wanted) for hit in found.hits]


def share(cases: Iterable[bool]) -> str:
    """Return the number of cases and the share of true ones."""
    counted = list(cases)
    return f"{len(counted):6} {sum(counted) / len(counted):.2f}" if counted else "     0"


if __name__ == "__main__":
    raise SystemExit(main())
