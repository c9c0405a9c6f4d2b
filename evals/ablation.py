"""Ablation: figures of capture without each of its parts.

    python -m evals.ablation [--data evals/data] [--streams dev] [--authors t u]

Each row leaves one part out: the wording of the patterns, one guard of the comparer, or the judgement model as a whole,
which leaves patterns and words. Streams are learned and queried as by `cofio eval streams`. Turns are learned one by
one into an empty store; a fact counts as found if the result states it (`statements.states_fact`). Pairs are decided as
by `cofio eval pairs`. The last columns count the turns and pairs whose result differs from that of the complete system:
a part that changes none has no effect on this data.

The second table covers statements that no author writes: small edits of the memories in the pairs (`evals/edits.py`).
It has the share of edits taken for repetitions, and of rows about another identifier that replace the memory.

The default authors are test data: report their figures, but do not tune on them. `--authors` selects others.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from cofio import bootstrap
from cofio.errors import CofioError
from cofio.ingest.extract import by_judgement, patterns
from cofio.ingest.reconcile import compare
from cofio.judgement.onnx_classifier import LocalJudge
from cofio.ports import Embedder
from cofio.settings import Settings
from cofio_eval import relations, spans, streams
from cofio_eval.datasets import Conversation, remembered
from cofio_eval.metrics import share
from cofio_eval.report import Cell, Column, Report, Table
from cofio_eval.statements import states_fact
from evals.edits import edited

#: Parts: (module, name, replacement). The judgement model is disabled by a setting instead.
PARTS: dict[str, tuple[Any, str, Any]] = {
    "without patterns": (patterns, "find", lambda *_, **__: []),
    "without completing clauses": (
        by_judgement,
        "_snapped",
        lambda turn, _sentence, span, _following: turn.text[span.start : span.end],
    ),
    "without splitting": (by_judgement, "_split", lambda span, *_: [span]),
    "without joining what goes on": (by_judgement, "_continued", lambda *_: None),
    "without the screens": (LocalJudge, "_limits", lambda *_: ()),
    "without the message": (by_judgement, "_context", lambda *_: ""),
    "without the guard: shared words": (compare, "_UNSHARED", 0.0),
    "without all guards on repetitions": (
        compare,
        "_guarded",
        lambda _statement, _memory, probability: compare.Comparison("same", probability, ""),
    ),
    "without the guard: rows": (compare, "_other_row", lambda *_: ""),
    "without the guard: negation": (compare, "negations", lambda _: 0),
    "without the guard: number": (compare, "find_figures", lambda _: set()),
    "without the guard: another word": (compare, "_other_word", lambda *_: ""),
    "without the guard: identifier": (compare, "find_names", lambda _: []),
    "without the guard: code and signs": (compare, "missing_literal", lambda *_: ""),
    "without the guard: environment": (compare, "_other_environment", lambda *_: ""),
}
RULES = "patterns and words alone"
_STREAMS = (
    ("facts stored", "facts stored", "facts"),
    ("noise stored", "noise stored", "noise"),
    ("updates right", "updates right", "updates"),
    ("overwrites", "overwrites", "new facts"),
    ("deletions", "deletions honoured", "deletions"),
    ("current first", "current first", "changed questions"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; return 2 if the data is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(__file__).parent / "data", metavar="FOLDER")
    parser.add_argument("--streams", default="dev", help="folder of streams under FOLDER/streams")
    parser.add_argument("--authors", nargs="+", default=["t", "u"], help="authors of turns and pairs")
    given = parser.parse_args(arguments)
    turns, pairs = ([given.data / kind / f"{author}.jsonl" for author in given.authors] for kind in ("turns", "pairs"))
    try:
        every_pair = sorted((given.data / "pairs").glob("*.jsonl"))
        print(report(given.data / "streams" / given.streams, turns, pairs, every_pair).text())
    except CofioError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def report(
    stream_folder: Path,
    turn_files: Sequence[Path],
    pair_files: Sequence[Path],
    edited_files: Sequence[Path],
    settings: Settings | None = None,
    embedder: Embedder | None = None,
) -> Report:
    """Return the report with all parts, and without each. `edited_files` are pairs whose memories are edited."""
    settings = settings or Settings.load()
    embedder = embedder or bootstrap.make_embedder(settings)
    turns = [turn for rows in spans.read_turns(turn_files).values() for turn in rows]
    pairs = [pair for rows in relations.read_pairs(pair_files).values() for pair in rows]
    conversations = streams.read(stream_folder)
    rows: list[list[Cell]] = []
    edit_rows: list[list[Cell]] = []
    edits = edited(pair.memory for of_author in relations.read_pairs(edited_files).values() for pair in of_author)
    usual: tuple[Sequence[str], Sequence[str]] | None = None
    for name in ("everything", *PARTS, RULES):
        own = replace(settings, judge=name != RULES)
        with _without(name):
            summed = streams.total(streams.run(conversation, own, embedder) for conversation in conversations)
            texts, verdicts = _read(turns, own, embedder), _decide(pairs, own, embedder)
            if own.judge:
                edit_rows.append([name, *_of_edits(edits)])
        usual = usual or (texts, [verdict.verdict for verdict in verdicts])
        changed = [
            sum(one != other for one, other in zip(texts, usual[0], strict=True)),
            sum(each.verdict != other for each, other in zip(verdicts, usual[1], strict=True)),
        ]
        figures = [summed.share(success, case) for _, success, case in _STREAMS]
        rows.append([name, *figures, *_of_turns(turns, texts), *_of_pairs(verdicts), *changed])
    names = [*(name for name, _, _ in _STREAMS), "facts told", "noise turns", "changes found", "false overwrites"]
    columns = [Column("parts"), *(Column(each, "%") for each in [*names, "macro-F1"])]
    counted = ", ".join(f"{len(some)} of {kind}" for kind, some in edits.items())
    says = (
        f"{len(conversations)} streams, {len(turns)} turns and {len(pairs)} pairs, without a language model.",
        f"Edits: {counted}.",
    )
    table = Table("Without each part", [*columns, Column("turns changed"), Column("pairs changed")], rows)
    headings = [Column("parts"), *(Column(f"{kind}: known", "%") for kind in edits), Column("row: replaced", "%")]
    mistaken = Table("Small edits that are mistaken", headings, edit_rows)
    return Report("ablation", "Ablation", "python -m evals.ablation", says, {}, [table, mistaken])


@contextmanager
def _without(name: str) -> Iterator[None]:
    if name not in PARTS:
        yield
        return
    module, function, stand_in = PARTS[name]
    with patch.object(module, function, stand_in):
        yield


def _read(turns: Sequence[spans.QuotedTurn], settings: Settings, embedder: Embedder) -> list[str]:
    """Return the facts found in each turn, learned separately; "" for none."""
    with remembered(Conversation("", (), ()), settings, embedder=embedder) as keeper:
        learned = [keeper.learn([{"role": turn.role, "content": turn.text}], dry_run=True) for turn in turns]
    return [
        "\n".join(each.text for sentence in one.sentences for each in sentence.found if not each.tentative)
        for one in learned
    ]


def _of_turns(turns: Sequence[spans.QuotedTurn], texts: Sequence[str]) -> list[float]:
    """Return the share of the facts found, and of the turns without a fact of which one is kept."""
    told = [
        states_fact(text, fact.text) or states_fact(text, fact.quote or fact.text)
        for turn, text in zip(turns, texts, strict=True)
        for fact in turn.facts
    ]
    kept = [bool(text) for turn, text in zip(turns, texts, strict=True) if not turn.facts]
    return [share(sum(told), len(told)), share(sum(kept), len(kept))]


def _decide(
    pairs: Sequence[relations.LabelledPair], settings: Settings, embedder: Embedder
) -> list[relations.RelationOutcome]:
    if settings.judge:
        return relations.decide(pairs, compare.JudgedComparer(LocalJudge()), [0.0] * len(pairs))
    said = embedder.embed([pair.statement for pair in pairs], "document")
    known = embedder.embed([pair.memory for pair in pairs], "document")
    return relations.decide(pairs, compare.WordComparer(settings.dedup_threshold), (said * known).sum(axis=1).tolist())


def _of_edits(edits: Mapping[str, Sequence[tuple[str, str]]]) -> list[Cell]:
    """Return the share of the edits of each kind taken for known, and of rows that replace the memory."""
    comparer = compare.JudgedComparer(LocalJudge())
    verdicts = {
        kind: [comparer.compare(statement, memory, 0.0) for memory, statement in some] for kind, some in edits.items()
    }
    known: list[Cell] = [share(sum(each.kind == "same" for each in some), len(some)) for some in verdicts.values()]
    return [*known, share(sum(each.changes for each in verdicts["row"]), len(verdicts["row"]))]


def _of_pairs(outcomes: Sequence[relations.RelationOutcome]) -> list[Cell]:
    """Return the share of changes found, of false overwrites, and macro-F1."""
    figures = relations.compute_figures(outcomes)
    changes, overwrites = figures["changes_found"], figures["false_overwrites"]
    return [changes and changes.value, overwrites and overwrites.value, figures["macro_f1"]]


if __name__ == "__main__":
    sys.exit(main())
