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
from evals.recall import CODING, Case, CaseHits, ask, facts, questions

EDGES = (0.0, 0.15, 0.20, 0.25, 0.30, 0.35, 0.40, 0.45, 0.50, 0.55, 0.60, 0.65, 1.01)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", type=Path, help="conversations, one JSON object per line")
    conversations = read(parser.parse_args().file)
    with remembered(facts()) as keeper:
        coding = [ask(keeper, case) for cases in CODING.values() for case in cases]
    show("facts", coding)
    show(
        "conversations",
        [case_hits for number in range(len(conversations)) for case_hits in search_questions(conversations, number)],
    )
    return 0


def search_questions(conversations: Sequence[Conversation], place: int) -> list[CaseHits]:
    """Return the hits in a conversation for its own questions and for those of another."""
    own_questions, other_questions = questions(conversations[place]), questions(conversations[place - 1])
    with remembered(conversations[place]) as keeper:
        return [ask(keeper, case) for case in (*own_questions, *(Case(item.prompt) for item in other_questions))]


def show(name: str, case_hits: Sequence[CaseHits]) -> None:
    """Print, by score, the number of hits and the share of expected ones; the same for each best hit."""
    rated = [rate_hits(case) for case in case_hits]
    best_hits = [row[0] for row in rated if row]
    for title, rows in (("every hit", [row for hits in rated for row in hits]), ("best hit", best_hits)):
        print(f"{name}, {title}")
        for low, high in pairwise(EDGES):
            print(f"  {low:.2f} {format_share(is_right for score, is_right in rows if low <= score < high)}")
    for has_answer in (True, False):
        best_scores = [
            row[0][0] for row, case in zip(rated, case_hits, strict=True) if row and bool(case.expected) is has_answer
        ]
        lines = (f"{edge:.2f}: {format_share(score < edge for score in best_scores)}" for edge in EDGES[1:-1])
        print(f"{name}, {'with' if has_answer else 'without'} an answer: best score below", *lines, sep="\n  ")


def rate_hits(case_hits: CaseHits) -> list[tuple[float, bool]]:
    """Return the score of each hit, and whether it is expected."""
    return [(hit.score, str(hit.memory.metadata["unit"]) in case_hits.expected) for hit in case_hits.hits]


def format_share(cases: Iterable[bool]) -> str:
    """Return the number of cases and the share of true ones."""
    flags = list(cases)
    return f"{len(flags):6} {sum(flags) / len(flags):.2f}" if flags else "     0"


if __name__ == "__main__":
    raise SystemExit(main())
