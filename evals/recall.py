"""Recall's injections: the table behind its minimum score, and the cost of long prompts.

    python -m evals.recall [FILE] [--json OUT]

Two kinds of prompts: those that a memory answers (how much of it is injected, within five lines?) and those that none
answers (how many tokens are injected in vain?). The coding prompts of `evals/coding.py` are asked in a store with its
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

BARS = (0.0, 0.20, 0.22, 0.24, 0.25, 0.26, 0.28, 0.30, 0.32, 0.35, 0.40)
PASTED = 20_000  # characters of pasted text in a long prompt

Ask = Callable[[str], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Case:
    """Prompt with the facts to inject; none if no memory answers it."""

    prompt: str
    wanted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Found:
    """Best hits for a case, with any score."""

    wanted: frozenset[str]
    hits: tuple[Hit, ...]

    def put_in(self, bar: float) -> tuple[float, int, int]:
        """Return the share of wanted facts injected at this minimum score, the lines, and the tokens of the block."""
        memories = recall.distinct([hit.memory for hit in self.hits if hit.score >= bar])
        told = recall.build_briefing(recall.take_first(memories, recall.AT_PROMPT), briefing.PROMPT)
        units = {str(hit.memory.metadata["unit"]) for hit in self.hits if hit.id in told.injected}
        share = len(units & self.wanted) / len(self.wanted) if self.wanted else 0.0
        return share, len(told.ids), told.tokens


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
    table = measured(asked(conversations))
    show(table)
    show_long()
    if options.json:
        options.json.write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")
    return 0


# ── the minimum score ─────────────────────────────────────────────────────────────────────────────────────────────────


def asked(conversations: Sequence[Conversation]) -> dict[str, list[Found]]:
    """Return the hits for every set of cases, by its name."""
    found: dict[str, list[Found]] = {}
    with remembered(facts()) as keeper:
        for name, cases in CODING.items():
            found[name] = [ask(keeper, case) for case in cases]
    if conversations:
        with remembered(facts(conversations)) as keeper:
            for name, cases in CODING.items():
                found[f"{name}, in a full store"] = [ask(keeper, case) for case in cases]
    for place, conversation in enumerate(conversations):
        other = conversations[place - 1]
        with remembered(conversation) as keeper:
            own = found.setdefault("questions of a conversation", [])
            own += [ask(keeper, case) for case in questions(conversation)]
            foreign = found.setdefault("questions of another conversation", [])
            foreign += (
                [ask(keeper, Case(case.prompt)) for case in questions(other)] if other is not conversation else []
            )
    return found


def facts(others: Sequence[Conversation] = ()) -> Conversation:
    """Return the facts of the coding set, together with the units of these conversations."""
    own = (cofio.Fact(text=text, kind=kind, metadata={"unit": name}) for name, (kind, text) in coding.FACTS.items())
    return Conversation("coding", (*own, *(fact for other in others for fact in other.facts)), ())


def questions(conversation: Conversation) -> list[Case]:
    """Return the questions of a conversation that have an answer in it."""
    answered = (
        question for question in conversation.questions if question.evidence and question.category not in LEFT_OUT
    )
    return [Case(each.text, each.evidence) for each in answered]


def ask(keeper: Keeper, case: Case, how: Ask = recall.questions) -> Found:
    """Return the hits for a case: those of all its queries, by their best score."""
    answers = keeper.search_all([Query(text=each, k=recall.AT_PROMPT) for each in how(case.prompt)])
    hits: dict[int, Hit] = {}
    for hit in sorted((hit for answer in answers for hit in answer), key=lambda hit: (-hit.score, -hit.id)):
        hits.setdefault(hit.id, hit)
    return Found(case.wanted, tuple(hits.values()))


def measured(found: dict[str, list[Found]]) -> list[dict[str, object]]:
    """Return one row per set and minimum score: share injected, lines, tokens, share of prompts with an injection."""
    rows: list[dict[str, object]] = []
    for name, cases in found.items():
        for bar in BARS:
            put_in = [case.put_in(bar) for case in cases]
            rows.append(
                {
                    "set": name,
                    "bar": bar,
                    "prompts": len(cases),
                    "answered": bool(cases and cases[0].wanted),
                    "share": mean([share for share, _, _ in put_in]),
                    "lines": mean([lines for _, lines, _ in put_in]),
                    "tokens": mean([tokens for _, _, tokens in put_in]),
                    "any": mean([float(lines > 0) for _, lines, _ in put_in]),
                }
            )
    return rows


def show(table: Sequence[dict[str, object]]) -> None:
    """Print the tables: facts injected for answerable prompts, and cost for the others."""
    titles = {
        True: "per cent of what is wanted that is put in / lines, by the least score",
        False: "tokens put in where nothing answers / per cent of the prompts that get any, by the least score",
    }
    for answered, title in titles.items():
        print(title)
        print(f"{'':48} {'n':>4}" + "".join(f"{bar:>10.2f}" for bar in BARS))
        rows = [row for row in table if row["answered"] is answered]
        for name in dict.fromkeys(str(row["set"]) for row in rows):
            mine = [row for row in rows if row["set"] == name]
            cells = (
                f"{100 * row['share']:.0f} / {row['lines']:.1f}"  # type: ignore[operator]
                if answered
                else f"{row['tokens']:.0f} / {100 * row['any']:.0f}"  # type: ignore[operator]
                for row in mine
            )
            print(f"{name:48} {mine[0]['prompts']:>4}" + "".join(f"{cell:>10}" for cell in cells))
        print()


# ── long prompts ──────────────────────────────────────────────────────────────────────────────────────────────────────


def show_long() -> None:
    """Print the results for questions next to 20,000 characters of pasted text, by the part of the prompt used."""
    print(
        f"per cent of what is wanted / of these over {recall.MIN_SCORE}, and ms a prompt, beside {PASTED:,} characters"
    )
    print(f"{'':32}" + "".join(f"{name:>26}" for name in WAYS))
    embedder = LocalEmbedder(Settings.load().home, recent=0)  # without a cache, so that every question is embedded
    with TemporaryDirectory() as folder, cofio.open(f"sqlite://{folder}/eval.db", embedder=embedder) as keeper:
        keeper.add_all(facts().facts, dedup=False)
        keeper.warm()
        for what, paste in pastes().items():
            for where, arranged in ARRANGED.items():
                cells = (_long(keeper, paste, arranged, how) for how in WAYS.values())
                print(f"{f'{what}, question {where}':32}" + "".join(f"{cell:>26}" for cell in cells))


def _long(keeper: Keeper, paste: str, arranged: str, how: Ask) -> str:
    shares, over, spent = [], [], []
    for number, (question, wanted) in enumerate(coding.ASKED[::2]):
        prompt = arranged.format(question=question, paste=paste[number:])  # different for each question
        started = time.perf_counter()
        found = ask(keeper, Case(prompt, frozenset(wanted)), how)
        spent.append(time.perf_counter() - started)
        shares.append(found.put_in(0.0)[0])
        over.append(found.put_in(recall.MIN_SCORE)[0])
    return f"{100 * mean(shares):.0f} / {100 * mean(over):.0f}, {1000 * median(spent):.0f} ms"


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
    "coding prompts": [Case(prompt, frozenset(wanted)) for prompt, wanted in coding.ASKED],
    "coding prompts, at length": [Case(prompt, frozenset(wanted)) for prompt, wanted in coding.ASKED_AT_LENGTH],
    "unrelated prompts": [Case(prompt) for prompt in coding.UNRELATED],
    "unrelated prompts, at length": [Case(prompt) for prompt in coding.UNRELATED_AT_LENGTH],
}
ARRANGED = {
    "first": "{question}\n\n{paste}",
    "last": "{paste}\n\n{question}",
    "last, announced": "I ran it again and got this:\n{paste}\n\n{question}",
}
WAYS: dict[str, Ask] = {
    "recall: own words": recall.questions,
    "all of it (512 tokens)": lambda prompt: [prompt],
    "the first 400 signs": lambda prompt: [prompt[:400]],
    "the first and last 200": lambda prompt: [f"{prompt[:200]}\n{prompt[-200:]}"],
}

if __name__ == "__main__":
    sys.exit(main())
