"""Effect of a cross-encoder on search, regardless of latency: the reason why cofio has none.

    python -m evals.judged FILE [--among 40] [--weight 0.005]

The service's best hits are scored again by ms-marco-MiniLM-L-12 (int8), which reads question and memory together, with
one run of the model per pair. The result is added to the service's score; the weight is the best on the development
file.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from cofio.models.memory import Hit
from cofio.providers.embedders import model_files
from cofio.providers.embedders.onnx_model import open_session
from cofio.providers.embedders.wordpiece_tokenizer import WordPiece
from cofio.settings import Settings
from cofio.text.tokens import read_in_context
from cofio_eval.datasets import LEFT_OUT, read, remembered
from cofio_eval.metrics import difference, mean, ndcg, recall

_MAX_TOKENS = 384  # tokens of question and memory together
MODEL = model_files.CarriedModel(
    "ms-marco-MiniLM-L-12-v2-int8",
    "models/data/reranker_en",
    (
        model_files.Pin("model.onnx", 34_001_604, "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1"),
        model_files.VOCABULARY,
    ),
)


class Judge(NamedTuple):
    """Loaded cross-encoder."""

    words: WordPiece
    session: Any

    def score(self, question: str, hit: Hit) -> float:
        """Return the model's relevance score of a memory, about -11 to 11."""
        memory = hit.memory
        question_ids = self.words.ids(question, 64)
        memory_ids = self.words.ids(
            read_in_context(memory.text, memory.speaker, memory.context), _MAX_TOKENS - len(question_ids)
        )[1:]
        ids = np.array([question_ids + memory_ids], np.int64)
        feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        feed["token_type_ids"][0, len(question_ids) :] = 1
        return float(self.session.run(None, feed)[0].ravel()[0])


class RankedQuestion(NamedTuple):
    """Both rankings of a question, the expected evidence, and the seconds of each."""

    original: list[str]
    reranked: list[str]
    evidence: frozenset[str]
    search_seconds: float
    total_seconds: float


def main() -> int:
    """Print the table; return 2 if the model is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", type=Path, help="conversations, one JSON object per line")
    parser.add_argument("--among", type=int, default=40, help="number of hits to score")
    parser.add_argument("--weight", type=float, default=0.005, help="weight of the cross-encoder's score")
    options = parser.parse_args()
    folder = model_files.find_present(Settings.load().home, MODEL)
    if folder is None:
        print(f"{MODEL.name} is not on this machine: run make setup.", file=sys.stderr)
        return 2
    judge = Judge(WordPiece.read(folder / "vocab.txt"), open_session(folder / "model.onnx", 2))
    show(ask(options.file, judge, options.among, options.weight), options.among)
    return 0


def ask(file: Path, judge: Judge, among: int, weight: float) -> list[RankedQuestion]:
    """Return both rankings of every question with an answer."""
    questions = []
    for conversation in read(file):
        with remembered(conversation) as keeper:
            for question in conversation.questions:
                if question.evidence and question.category not in LEFT_OUT:
                    started = time.perf_counter()
                    hits = keeper.search(question.text, k=among)
                    searched_seconds = time.perf_counter() - started
                    scores = [hit.score + weight * judge.score(question.text, hit) for hit in hits]
                    order = sorted(range(len(hits)), key=lambda position, scores=scores: -scores[position])  # type: ignore[misc]
                    original = [str(hit.memory.metadata["unit"]) for hit in hits]
                    elapsed = time.perf_counter() - started
                    questions.append(
                        RankedQuestion(
                            original,
                            [original[position] for position in order],
                            question.evidence,
                            searched_seconds,
                            elapsed,
                        )
                    )
    return questions


def show(questions: Sequence[RankedQuestion], among: int) -> None:
    """Print the table as text."""
    recall_at_10 = {
        name: [recall(getattr(item, name), item.evidence, 10) for item in questions] for name in ("plain", "judged")
    }
    gain = difference(recall_at_10["judged"], recall_at_10["plain"])
    print(f"{len(questions)} questions; the {among} best scored by the cross-encoder")
    print(f"{'':10} {'R@5':>6} {'R@10':>6} {'R@20':>6} {'nDCG':>6} {'p50 ms':>8}")
    for name, field in (("plain", "searched"), ("judged", "in_all")):
        figures = [mean([recall(getattr(item, name), item.evidence, k) for item in questions]) for k in (5, 10, 20)]
        figures.append(mean([ndcg(getattr(item, name), item.evidence, 10) for item in questions]))
        time_spent = 1e3 * median(getattr(item, field) for item in questions)
        print(f"{name:10} " + " ".join(f"{100 * value:6.1f}" for value in figures) + f" {time_spent:8.0f}")
    print(f"R@10 by judging: {100 * gain.value:+.1f} [{100 * gain.low:+.1f}, {100 * gain.high:+.1f}]")


if __name__ == "__main__":
    sys.exit(main())
