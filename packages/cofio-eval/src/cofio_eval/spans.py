"""Facts extracted without a language model: the kept spans of a turn against an author's quotes.

    {"role", "before", "said", "facts", "case"} ─ kept_spans ─▶ kept spans ─ compared with the quotes ─▶ Report

A fact is found if a kept span covers half of its quote. A kept span is correct if it covers half of a quote, or a quote
covers half of it. A fact without a quote, which is a text alone, is found if the kept spans state it (see
`statements.states_fact`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from cofio.ingest.extract.by_judgement import kept_spans, prose
from cofio.judgement.labels import ABOUT, KINDS
from cofio.judgement.onnx_classifier import LocalJudge
from cofio.models.exchange import ROLES
from cofio.ports import Judge, Span
from cofio_eval import authors
from cofio_eval.jsonl import read_authors, text_of
from cofio_eval.metrics import rate
from cofio_eval.report import Column, Report, Table
from cofio_eval.statements import states_fact

SHAPE = (
    'Give one JSON object per line: {"role", "before", "said", "facts": [{"text", "quote", "kind", "about"}], "case"},'
    ' or {"said", "facts": [texts]}. A quote is a part of said.'
)


@dataclass(frozen=True, slots=True)
class LabelledFact:
    """Fact of a turn. Without a quote, only its text is compared."""

    text: str
    quote: str = ""
    kind: str = ""
    about: str = ""


@dataclass(frozen=True, slots=True)
class QuotedTurn:
    """Turn with the other side's previous message, and the facts that are worth keeping."""

    text: str
    facts: tuple[LabelledFact, ...]
    role: str = "user"
    before: str = ""
    case: str = ""


@dataclass(frozen=True, slots=True)
class SpanOutcome:
    """Kept spans of a turn, compared with its facts."""

    turn: QuotedTurn
    facts_found: tuple[bool, ...]
    spans_right: tuple[bool, ...]
    kinds_right: tuple[bool, ...]  # of the found facts with a kind: whether the span has it
    about_right: tuple[bool, ...]


def read_turns(paths: Sequence[Path]) -> dict[str, list[QuotedTurn]]:
    """Return the turns of files and folders, by author."""
    return read_authors(paths, _parse_turn, "turn", SHAPE)


def evaluate(
    paths: Sequence[Path], *, judge: Judge | None = None, progress: authors.Progress = lambda *_: None
) -> Report:
    """Read every turn and report which facts are kept, by author and by case."""
    judge = judge or LocalJudge()

    def run(turns: Sequence[QuotedTurn]) -> Iterator[SpanOutcome]:
        for turn in turns:
            yield _compare(turn, kept_spans(turn.text, judge, turn.before, turn.role))

    return _report(paths, authors.measure(read_turns(paths), run, progress))


def _parse_turn(plain: dict[str, Any], _number: int) -> QuotedTurn:
    text, role = text_of(plain, "said"), plain.get("role") or "user"
    if role not in ROLES:
        raise ValueError(f"the role is {role!r}")
    if not isinstance(plain["facts"], list):
        raise TypeError("facts is not a list")
    facts = tuple(_parse_fact(fact, text) for fact in plain["facts"])
    return QuotedTurn(text, facts, role, str(plain.get("before") or ""), str(plain.get("case") or ""))


def _parse_fact(plain: Any, text: str) -> LabelledFact:
    if isinstance(plain, str):
        return LabelledFact(plain)
    if not isinstance(plain, dict):
        raise TypeError("a fact is neither a text nor an object")
    quote, kind, about = text_of(plain, "quote"), plain.get("kind") or "", plain.get("about") or ""
    if quote not in text:
        raise ValueError(f"the quote {quote!r} is not in said")
    if kind not in ("", *KINDS) or about not in ("", *ABOUT):
        raise ValueError(f"the kind is {kind!r}, about is {about!r}")
    return LabelledFact(str(plain.get("text") or quote), quote, kind, about)


# ── comparing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _compare(turn: QuotedTurn, spans: Sequence[Span]) -> SpanOutcome:
    """Compare kept spans, which are places in `prose(turn.text)`, with the facts of a turn."""
    text = prose(turn.text)
    matches = [(fact, *_match(text, fact, spans)) for fact in turn.facts]
    return SpanOutcome(
        turn,
        facts_found=tuple(is_found for _, is_found, _ in matches),
        spans_right=tuple(any(_is_right(text, fact, span) for fact in turn.facts) for span in spans),
        kinds_right=tuple(span.kind == fact.kind for fact, _, span in matches if span and fact.kind),
        about_right=tuple(span.about == fact.about for fact, _, span in matches if span and fact.about),
    )


def _match(text: str, fact: LabelledFact, spans: Sequence[Span]) -> tuple[bool, Span | None]:
    """Return whether a fact is found, and by which span; by none where several state it together."""
    if not fact.quote:
        return states_fact(" ".join(text[span.start : span.end] for span in spans), fact.text), None
    quote = _find_quote(text, fact)
    span = next((span for span in spans if quote and _covers((span.start, span.end), quote)), None)
    return span is not None, span


def _is_right(text: str, fact: LabelledFact, span: Span) -> bool:
    place = (span.start, span.end)
    if not fact.quote:
        span_text = text[span.start : span.end]
        return states_fact(span_text, fact.text) or states_fact(fact.text, span_text)
    quote = _find_quote(text, fact)
    return quote is not None and (_covers(place, quote) or _covers(quote, place))


def _find_quote(text: str, fact: LabelledFact) -> tuple[int, int] | None:
    """Return where a quote lies in a turn; None in what is not read, such as fenced code."""
    start = text.find(fact.quote)
    return (start, start + len(fact.quote)) if start >= 0 else None


def _covers(place: tuple[int, int], quote: tuple[int, int]) -> bool:
    """Return whether one place covers half of the other."""
    return min(place[1], quote[1]) - max(place[0], quote[0]) >= 0.5 * (quote[1] - quote[0])


# ── report ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _compute_figures(outcomes: Sequence[SpanOutcome]) -> dict[str, Any]:
    noise = [outcome for outcome in outcomes if not outcome.turn.facts]
    return {
        "turns": len(outcomes),
        "facts": sum(len(outcome.turn.facts) for outcome in outcomes),
        "noise_turns": len(noise),
        "facts_found": rate(chain.from_iterable(outcome.facts_found for outcome in outcomes)),
        "spans_right": rate(chain.from_iterable(outcome.spans_right for outcome in outcomes)),
        "noise_kept": rate(bool(outcome.spans_right) for outcome in noise),
        "kind_accuracy": rate(chain.from_iterable(outcome.kinds_right for outcome in outcomes)),
        "about_accuracy": rate(chain.from_iterable(outcome.about_right for outcome in outcomes)),
    }


def _report(paths: Sequence[Path], by_author: dict[str, list[SpanOutcome]]) -> Report:
    outcomes = [row for rows in by_author.values() for row in rows]
    cases = Counter(outcome.turn.case for outcome in outcomes if outcome.turn.case)
    values = authors.compute_values(by_author, _compute_figures) | {
        "by_role": {
            role: _compute_figures(group)
            for role in ROLES
            if (group := [outcome for outcome in outcomes if outcome.turn.role == role])
        },
        "by_case": {
            case: _compute_figures([outcome for outcome in outcomes if outcome.turn.case == case])
            for case, _ in cases.most_common()
        },
    }
    says = (
        f"{len(outcomes):,} turns by {len(by_author)} authors with {values['facts']:,} facts, read without a language"
        " model. A fact is found if a kept span covers half of its quote. A kept span is correct if it covers half"
        " of a quote, or a quote covers half of it. Noise is a turn without a fact.",
    )
    tables = [authors.author_table(values, _COLUMNS)]
    if cases:
        tables.append(Table.of("By case", "case", _CASE_COLUMNS, values["by_case"]))
    return Report("spans", "Facts in turns", authors.write_command("turns", paths), says, values, tables)


_COLUMNS = {
    "turns": Column("turns"),
    "facts": Column("facts"),
    "facts_found": Column("fact recall", "%"),
    "spans_right": Column("span precision", "%"),
    "noise_kept": Column("noise turns with a kept span", "%"),
    "kind_accuracy": Column("kind accuracy", "%"),
    "about_accuracy": Column("person or project accuracy", "%"),
}
_CASE_COLUMNS = {
    "turns": Column("turns"),
    "facts": Column("facts"),
    "facts_found/value": Column("fact recall", "%"),
    "spans_right/value": Column("span precision", "%"),
    "noise_kept/value": Column("noise turns with a kept span", "%"),
}
