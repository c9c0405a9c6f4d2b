"""Recall's injections: the table behind its minimum score, and the cost of long prompts.

    python -m evals.recall [FILE] [--json OUT]

Two kinds of prompts: those that a memory answers (how much of it is injected, within five lines?) and those that none
answers (how many tokens are injected?). The coding prompts of `evals/coding.py` are asked in a store with its
68 facts only, and in one with all conversations of FILE too. The questions of FILE are asked in their own conversation,
and in another.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import cofio
from cofio.core import Keeper
from cofio.models.memory import Hit, Query
from cofio.providers.embedders.local import LocalEmbedder
from cofio.retrieval import recall
from cofio.settings import Settings
from cofio.text import briefing
from cofio_eval.datasets import LEFT_OUT, Conversation, read, remembered
from cofio_eval.metrics import mean
from evals import coding

MIN_SCORES = (0.0, 0.20, 0.22, 0.24, 0.25, 0.26, 0.28, 0.30, 0.32, 0.35, 0.40)
PASTED = 20_000  # characters of pasted text in a long prompt

Ask = Callable[[str], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Case:
    """Prompt with the facts to inject; none if no memory answers it."""

    prompt: str
    expected: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class CaseHits:
    """Best hits for a case, with any score."""

    expected: frozenset[str]
    hits: tuple[Hit, ...]

    def measure_injection(self, min_score: float) -> tuple[float, int, int]:
        """Return the share of expected facts injected at this minimum score, the lines, and the tokens of the block."""
        memories = recall.distinct([hit.memory for hit in self.hits if hit.score >= min_score])
        block = recall.build_briefing(recall.take_first(memories, recall.AT_PROMPT), briefing.PROMPT)
        units = {str(hit.memory.metadata["unit"]) for hit in self.hits if hit.id in block.injected}
        share = len(units & self.expected) / len(self.expected) if self.expected else 0.0
        return share, len(block.ids), block.tokens


def main() -> int:
    """Print the tables; return 2 if the file is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?", help="conversations, one JSON object per line")
    parser.add_argument("--json", type=Path, help="also write the first table here")
    options = parser.parse_args()
    if options.file and not options.file.exists():
        print(
            f"There is no {options.file}. packages/cofio-eval/src/cofio_eval/datasets.py describes the format.",
            file=sys.stderr,
        )
        return 2
    conversations = read(options.file) if options.file else []
    table = compute_table(search_all_cases(conversations))
    show(table)
    show_long()
    if options.json:
        options.json.write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")
    return 0


# ── the minimum score ─────────────────────────────────────────────────────────────────────────────────────────────────


def search_all_cases(conversations: Sequence[Conversation]) -> dict[str, list[CaseHits]]:
    """Return the hits for every set of cases, by its name."""
    hits_by_set: dict[str, list[CaseHits]] = {}
    with remembered(facts()) as keeper:
        for name, cases in CODING.items():
            hits_by_set[name] = [ask(keeper, case) for case in cases]
    if conversations:
        with remembered(facts(conversations)) as keeper:
            for name, cases in CODING.items():
                hits_by_set[f"{name}, in a full store"] = [ask(keeper, case) for case in cases]
    for number, conversation in enumerate(conversations):
        other_conversation = conversations[number - 1]
        with remembered(conversation) as keeper:
            own_questions = hits_by_set.setdefault("questions of a conversation", [])
            own_questions += [ask(keeper, case) for case in questions(conversation)]
            foreign_questions = hits_by_set.setdefault("questions of another conversation", [])
            foreign_questions += (
                [ask(keeper, Case(case.prompt)) for case in questions(other_conversation)]
                if other_conversation is not conversation
                else []
            )
    return hits_by_set


def facts(conversations: Sequence[Conversation] = ()) -> Conversation:
    """Return the facts of the coding set, together with the units of these conversations."""
    coding_facts = (
        cofio.Fact(text=text, kind=kind, metadata={"unit": name}) for name, (kind, text) in coding.FACTS.items()
    )
    return Conversation(
        "coding", (*coding_facts, *(fact for conversation in conversations for fact in conversation.facts)), ()
    )


def questions(conversation: Conversation) -> list[Case]:
    """Return the questions of a conversation that have an answer in it."""
    answerable = (
        question for question in conversation.questions if question.evidence and question.category not in LEFT_OUT
    )
    return [Case(item.text, item.evidence) for item in answerable]


def ask(keeper: Keeper, case: Case, list_queries: Ask = recall.questions) -> CaseHits:
    """Return the hits for a case: those of all its queries, by their best score."""
    answers = keeper.search_all([Query(text=query, k=recall.AT_PROMPT) for query in list_queries(case.prompt)])
    hits: dict[int, Hit] = {}
    for hit in sorted((hit for answer in answers for hit in answer), key=lambda hit: (-hit.score, -hit.id)):
        hits.setdefault(hit.id, hit)
    return CaseHits(case.expected, tuple(hits.values()))


def compute_table(hits_by_set: dict[str, list[CaseHits]]) -> list[dict[str, object]]:
    """Return one row per set and minimum score: share injected, lines, tokens, share of prompts with an injection."""
    rows: list[dict[str, object]] = []
    for name, cases in hits_by_set.items():
        for min_score in MIN_SCORES:
            injections = [case.measure_injection(min_score) for case in cases]
            rows.append(
                {
                    "set": name,
                    "bar": min_score,
                    "prompts": len(cases),
                    "answered": bool(cases and cases[0].expected),
                    "share": mean([share for share, _, _ in injections]),
                    "lines": mean([lines for _, lines, _ in injections]),
                    "tokens": mean([tokens for _, _, tokens in injections]),
                    "any": mean([float(lines > 0) for _, lines, _ in injections]),
                }
            )
    return rows


def show(table: Sequence[dict[str, object]]) -> None:
    """Print the tables: facts injected for answerable prompts, and cost for the others."""
    titles = {
        True: "% of expected facts injected / lines, by minimum score",
        False: "tokens injected for unanswerable prompts / % of these prompts with an injection, by minimum score",
    }
    for is_answered, title in titles.items():
        print(title)
        print(f"{'':48} {'n':>4}" + "".join(f"{min_score:>10.2f}" for min_score in MIN_SCORES))
        rows = [row for row in table if row["answered"] is is_answered]
        for name in dict.fromkeys(str(row["set"]) for row in rows):
            rows_of_set = [row for row in rows if row["set"] == name]
            cells = (
                f"{100 * row['share']:.0f} / {row['lines']:.1f}"  # type: ignore[operator]
                if is_answered
                else f"{row['tokens']:.0f} / {100 * row['any']:.0f}"  # type: ignore[operator]
                for row in rows_of_set
            )
            print(f"{name:48} {rows_of_set[0]['prompts']:>4}" + "".join(f"{cell:>10}" for cell in cells))
        print()


# ── long prompts ──────────────────────────────────────────────────────────────────────────────────────────────────────


def show_long() -> None:
    """Print the results for questions next to 20,000 characters of pasted text, by the part of the prompt used."""
    print(f"% of expected facts found / above {recall.MIN_SCORE}, and ms per prompt, next to {PASTED:,} characters")
    print(f"{'':32}" + "".join(f"{name:>26}" for name in QUERY_SOURCES))
    embedder = LocalEmbedder(Settings.load().home, recent=0)  # without a cache, so that every question is embedded
    with TemporaryDirectory() as folder, cofio.open(f"sqlite://{folder}/eval.db", embedder=embedder) as keeper:
        keeper.add_all(facts().facts, dedup=False)
        keeper.warm()
        for kind, paste in pastes().items():
            for position, template in PROMPT_TEMPLATES.items():
                cells = (
                    _measure_long_prompt(keeper, paste, template, list_queries)
                    for list_queries in QUERY_SOURCES.values()
                )
                print(f"{f'{kind}, question {position}':32}" + "".join(f"{cell:>26}" for cell in cells))


def _measure_long_prompt(keeper: Keeper, paste: str, template: str, list_queries: Ask) -> str:
    shares, shares_above, durations = [], [], []
    for number, (question, expected_facts) in enumerate(coding.ASKED[::2]):
        prompt = template.format(question=question, paste=paste[number:])  # different for each question
        started = time.perf_counter()
        case_hits = ask(keeper, Case(prompt, frozenset(expected_facts)), list_queries)
        durations.append(time.perf_counter() - started)
        shares.append(case_hits.measure_injection(0.0)[0])
        shares_above.append(case_hits.measure_injection(recall.MIN_SCORE)[0])
    return f"{100 * mean(shares):.0f} / {100 * mean(shares_above):.0f}, {1000 * median(durations):.0f} ms"


def pastes() -> dict[str, str]:
    """Return samples of text that people paste, by kind."""
    rng = random.Random(20261115)
    code = Path(argparse.__file__).read_text(encoding="utf-8")[:PASTED]
    log = "\n".join(
        f"2026-11-02T10:{rng.randrange(60):02}:{rng.randrange(60):02}.{rng.randrange(1000):03}Z"
        f" {rng.choice(('INFO', 'WARN', 'ERROR'))} [{rng.choice(('http', 'queue', 'db'))}]"
        f" {rng.choice(('GET', 'POST'))} /api/v2/{rng.choice(('items', 'users', 'orders'))}/{rng.randrange(9999)}"
        f" {rng.choice((200, 404, 500))} {rng.randrange(900)}ms request_id={rng.getrandbits(64):016x}"
        for _ in range(PASTED // 110)
    )
    items = [{"id": rng.randrange(9999), "price": rng.random(), "tags": ["x", "y"]} for _ in range(PASTED // 95)]
    return {"nothing": "", "log": log, "code": code, "JSON": json.dumps(items, indent=2)}


CODING = {
    "coding prompts": [Case(prompt, frozenset(expected)) for prompt, expected in coding.ASKED],
    "coding prompts, at length": [Case(prompt, frozenset(expected)) for prompt, expected in coding.ASKED_AT_LENGTH],
    "unrelated prompts": [Case(prompt) for prompt in coding.UNRELATED],
    "unrelated prompts, at length": [Case(prompt) for prompt in coding.UNRELATED_AT_LENGTH],
}
PROMPT_TEMPLATES = {
    "first": "{question}\n\n{paste}",
    "last": "{paste}\n\n{question}",
    "last, announced": "I ran it again and got this:\n{paste}\n\n{question}",
}
QUERY_SOURCES: dict[str, Ask] = {
    "recall: own words": recall.questions,
    "entire prompt (512 tokens)": lambda prompt: [prompt],
    "the first 400 characters": lambda prompt: [prompt[:400]],
    "the first and last 200": lambda prompt: [f"{prompt[:200]}\n{prompt[-200:]}"],
}

if __name__ == "__main__":
    sys.exit(main())
