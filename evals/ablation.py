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
from evals.edits import make_edits

#: Parts: (module, name, replacement). The judgement model is disabled by a setting instead.
PARTS: dict[str, tuple[Any, str, Any]] = {
    "without patterns": (patterns, "find", lambda *_, **__: []),
    "without completing clauses": (
        by_judgement,
        "_snapped",
        lambda turn, _sentence, span, _following: turn.text[span.start : span.end],
    ),
    "without splitting": (by_judgement, "_split", lambda span, *_: [span]),
    "without joining continued sentences": (by_judgement, "_continued", lambda *_: None),
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
RULES = "patterns and words only"
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
    options = parser.parse_args(arguments)
    turns, pairs = (
        [options.data / folder / f"{author}.jsonl" for author in options.authors] for folder in ("turns", "pairs")
    )
    try:
        edited_pairs = sorted((options.data / "pairs").glob("*.jsonl"))
        print(report(options.data / "streams" / options.streams, turns, pairs, edited_pairs).text())
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
    edits = make_edits(
        pair.memory for pairs_of_author in relations.read_pairs(edited_files).values() for pair in pairs_of_author
    )
    reference: tuple[Sequence[str], Sequence[str]] | None = None
    for name in ("everything", *PARTS, RULES):
        part_settings = replace(settings, judge=name != RULES)
        with _without(name):
            summed = streams.total(streams.run(conversation, part_settings, embedder) for conversation in conversations)
            texts, verdicts = _extract_texts(turns, part_settings, embedder), _decide(pairs, part_settings, embedder)
            if part_settings.judge:
                edit_rows.append([name, *_compute_edit_shares(edits)])
        reference = reference or (texts, [verdict.verdict for verdict in verdicts])
        changed = [
            sum(value != reference_value for value, reference_value in zip(texts, reference[0], strict=True)),
            sum(
                outcome.verdict != reference_value
                for outcome, reference_value in zip(verdicts, reference[1], strict=True)
            ),
        ]
        figures = [summed.share(success, case) for _, success, case in _STREAMS]
        rows.append([name, *figures, *_compute_turn_shares(turns, texts), *_compute_pair_figures(verdicts), *changed])
    column_names = [
        *(name for name, _, _ in _STREAMS),
        "facts found",
        "noise turns",
        "changes found",
        "false overwrites",
    ]
    columns = [Column("parts"), *(Column(name, "%") for name in [*column_names, "macro-F1"])]
    edit_counts = ", ".join(f"{len(cases)} of {kind}" for kind, cases in edits.items())
    intro = (
        f"{len(conversations)} streams, {len(turns)} turns and {len(pairs)} pairs, without a language model.",
        f"Edits: {edit_counts}.",
    )
    table = Table("Without each part", [*columns, Column("turns changed"), Column("pairs changed")], rows)
    headings = [Column("parts"), *(Column(f"{kind}: known", "%") for kind in edits), Column("row: replaced", "%")]
    edit_table = Table("Small edits with a wrong verdict", headings, edit_rows)
    return Report("ablation", "Ablation", "python -m evals.ablation", intro, {}, [table, edit_table])


@contextmanager
def _without(name: str) -> Iterator[None]:
    if name not in PARTS:
        yield
        return
    module, function, stand_in = PARTS[name]
    with patch.object(module, function, stand_in):
        yield


def _extract_texts(turns: Sequence[spans.QuotedTurn], settings: Settings, embedder: Embedder) -> list[str]:
    """Return the facts found in each turn, learned separately; "" for none."""
    with remembered(Conversation("", (), ()), settings, embedder=embedder) as keeper:
        results = [keeper.learn([{"role": turn.role, "content": turn.text}], dry_run=True) for turn in turns]
    return [
        "\n".join(fact.text for sentence in result.sentences for fact in sentence.found if not fact.tentative)
        for result in results
    ]


def _compute_turn_shares(turns: Sequence[spans.QuotedTurn], texts: Sequence[str]) -> list[float]:
    """Return the share of the facts found, and of the turns without a fact of which one is kept."""
    is_stated = [
        states_fact(text, fact.text) or states_fact(text, fact.quote or fact.text)
        for turn, text in zip(turns, texts, strict=True)
        for fact in turn.facts
    ]
    is_kept = [bool(text) for turn, text in zip(turns, texts, strict=True) if not turn.facts]
    return [share(sum(is_stated), len(is_stated)), share(sum(is_kept), len(is_kept))]


def _decide(
    pairs: Sequence[relations.LabelledPair], settings: Settings, embedder: Embedder
) -> list[relations.RelationOutcome]:
    if settings.judge:
        return relations.decide(pairs, compare.JudgedComparer(LocalJudge()), [0.0] * len(pairs))
    statement_vectors = embedder.embed([pair.statement for pair in pairs], "document")
    memory_vectors = embedder.embed([pair.memory for pair in pairs], "document")
    return relations.decide(
        pairs, compare.WordComparer(settings.dedup_threshold), (statement_vectors * memory_vectors).sum(axis=1).tolist()
    )


def _compute_edit_shares(edits: Mapping[str, Sequence[tuple[str, str]]]) -> list[Cell]:
    """Return the share of the edits of each kind taken for known, and of rows that replace the memory."""
    comparer = compare.JudgedComparer(LocalJudge())
    verdicts = {
        kind: [comparer.compare(statement, memory, 0.0) for memory, statement in cases] for kind, cases in edits.items()
    }
    shares: list[Cell] = [
        share(sum(verdict.kind == "same" for verdict in cases), len(cases)) for cases in verdicts.values()
    ]
    return [*shares, share(sum(verdict.changes for verdict in verdicts["row"]), len(verdicts["row"]))]


def _compute_pair_figures(outcomes: Sequence[relations.RelationOutcome]) -> list[Cell]:
    """Return the share of changes found, of false overwrites, and macro-F1."""
    figures = relations.compute_figures(outcomes)
    changes, overwrites = figures["changes_found"], figures["false_overwrites"]
    return [changes and changes.value, overwrites and overwrites.value, figures["macro_f1"]]


if __name__ == "__main__":
    sys.exit(main())
