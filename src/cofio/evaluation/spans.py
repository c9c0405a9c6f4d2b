"""Facts extracted without a language model: the kept spans of a turn against an author's quotes.

    {"role", "before", "said", "facts", "case"} ─ extract.judged ─▶ kept spans ─ compared with the quotes ─▶ Report

A fact is found if a kept span covers half of its quote. A kept span is right if it covers half of a quote, or a quote
covers half of it. A fact without a quote, which is a text alone, is found if the kept spans carry it (see
`labelled_turns.carries`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cofio.errors import CofioError
from cofio.evaluation.authors import named, read, text_of
from cofio.evaluation.jsonl import numbered
from cofio.evaluation.labelled_turns import carries
from cofio.evaluation.metrics import Figure, interval
from cofio.evaluation.report import Cell, Column, Report, Table
from cofio.ingest.extract.by_judgement import kept_spans, prose
from cofio.judgement.labels import ABOUT, KINDS
from cofio.judgement.model import LocalJudge
from cofio.models.exchange import ROLES
from cofio.ports import Judge, Span

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

    said: str
    facts: tuple[LabelledFact, ...]
    role: str = "user"
    before: str = ""
    case: str = ""


@dataclass(frozen=True, slots=True)
class SpanOutcome:
    """Kept spans of a turn, compared with its facts."""

    turn: QuotedTurn
    found: tuple[bool, ...]  # by fact
    right: tuple[bool, ...]  # by kept span
    kinds: tuple[bool, ...]  # of the found facts with a kind: whether the span has it
    about: tuple[bool, ...]

    @property
    def is_noise(self) -> bool:
        return not self.turn.facts


def is_quoted(path: Path) -> bool:
    """Return whether a path holds turns of this format: a folder, or a file whose first line has "said"."""
    if path.is_dir():
        return True
    try:
        plain = json.loads(next(numbered(path, SHAPE))[1])
    except (CofioError, ValueError):
        return False
    return isinstance(plain, dict) and "said" in plain


def read_turns(paths: Sequence[Path]) -> dict[str, list[QuotedTurn]]:
    """Return the turns of files and folders, by author."""
    return read(paths, _parse_turn, SHAPE)


def evaluate(
    paths: Sequence[Path],
    *,
    judge: Judge | None = None,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> Report:
    """Read every turn and report which facts are kept, by author and by case."""
    turns = read_turns(paths)
    judge = judge or LocalJudge()
    count, done = sum(map(len, turns.values())), 0
    outcomes: dict[str, list[SpanOutcome]] = {}
    for author, rows in turns.items():
        outcomes[author] = []
        for turn in rows:
            outcomes[author].append(outcome(turn, kept_spans(turn.said, judge, turn.before, turn.role)))
            done += 1
            progress(done, count)
    return _report(paths, outcomes)


def _parse_turn(plain: dict[str, Any]) -> QuotedTurn:
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


def outcome(turn: QuotedTurn, spans: Sequence[Span]) -> SpanOutcome:
    """Compare kept spans, which are places in `prose(turn.said)`, with the facts of a turn."""
    text = prose(turn.said)
    matches = [_match(text, fact, spans) for fact in turn.facts]
    return SpanOutcome(
        turn,
        found=tuple(is_found for is_found, _ in matches),
        right=tuple(any(_is_right(text, fact, span) for fact in turn.facts) for span in spans),
        kinds=tuple(
            span.kind == fact.kind for fact, (_, span) in zip(turn.facts, matches, strict=True) if span and fact.kind
        ),
        about=tuple(
            span.about == fact.about for fact, (_, span) in zip(turn.facts, matches, strict=True) if span and fact.about
        ),
    )


def _match(text: str, fact: LabelledFact, spans: Sequence[Span]) -> tuple[bool, Span | None]:
    """Return whether a fact is found, and by which span; by none where several carry it together."""
    if not fact.quote:
        return carries(" ".join(text[span.start : span.end] for span in spans), fact.text), None
    quote = _find_quote(text, fact)
    span = next((span for span in spans if quote and _covers((span.start, span.end), quote)), None)
    return span is not None, span


def _is_right(text: str, fact: LabelledFact, span: Span) -> bool:
    place = (span.start, span.end)
    if not fact.quote:
        span_text = text[span.start : span.end]
        return carries(span_text, fact.text) or carries(fact.text, span_text)
    quote = _find_quote(text, fact)
    return quote is not None and (_covers(place, quote) or _covers(quote, place))


def _find_quote(text: str, fact: LabelledFact) -> tuple[int, int] | None:
    """Return where a quote lies in a turn; None in what is not read, such as fenced code."""
    start = text.find(fact.quote)
    return (start, start + len(fact.quote)) if start >= 0 else None


def _covers(place: tuple[int, int], quote: tuple[int, int]) -> bool:
    """Return whether one place covers half of the other."""
    return min(place[1], quote[1]) - max(place[0], quote[0]) >= 0.5 * (quote[1] - quote[0])


# ── figures ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class SpanFigures:
    """The figures of some turns."""

    turns: int
    facts: int
    found: Figure | None  # of the facts
    right: Figure | None  # of the kept spans
    noise: int
    noise_kept: Figure | None  # of the turns without a fact
    kinds: Figure | None  # of the facts found
    about: Figure | None

    @classmethod
    def of(cls, outcomes: Sequence[SpanOutcome]) -> SpanFigures:
        """Count outcomes."""
        noise = [result for result in outcomes if result.is_noise]
        return cls(
            turns=len(outcomes),
            facts=sum(len(result.turn.facts) for result in outcomes),
            found=_compute_share([is_found for result in outcomes for is_found in result.found]),
            right=_compute_share([right for result in outcomes for right in result.right]),
            noise=len(noise),
            noise_kept=_compute_share([bool(result.right) for result in noise]),
            kinds=_compute_share([right for result in outcomes for right in result.kinds]),
            about=_compute_share([right for result in outcomes for right in result.about]),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as JSON."""
        return {
            "turns": self.turns,
            "facts": self.facts,
            "noise_turns": self.noise,
            "facts_found": self.found and self.found.as_dict(),
            "spans_right": self.right and self.right.as_dict(),
            "noise_kept": self.noise_kept and self.noise_kept.as_dict(),
            "kind_accuracy": self.kinds and self.kinds.as_dict(),
            "about_accuracy": self.about and self.about.as_dict(),
        }


def _compute_share(flags: Sequence[bool]) -> Figure | None:
    return interval([float(flag) for flag in flags]) if flags else None


# ── report ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _report(paths: Sequence[Path], by_author: Mapping[str, Sequence[SpanOutcome]]) -> Report:
    outcomes = [row for rows in by_author.values() for row in rows]
    whole, each_author = SpanFigures.of(outcomes), {author: SpanFigures.of(rows) for author, rows in by_author.items()}
    by_case = _group_cases(outcomes)
    values = {
        **whole.as_dict(),
        "by_author": {author: figures.as_dict() for author, figures in each_author.items()},
        "by_role": {
            role: SpanFigures.of(group).as_dict()
            for role in ROLES
            if (group := [result for result in outcomes if result.turn.role == role])
        },
        "by_case": {case: figures.as_dict() for case, figures in by_case.items()},
    }
    says = (
        f"{len(outcomes):,} turns of {len(by_author)} authors with {whole.facts:,} facts, read without a language"
        " model. A fact is found where a kept span covers half of its quote; a kept span is right where it covers half"
        " of a quote or lies in one by half. Noise is a turn without a fact.",
    )
    tables = [_author_table({**each_author, **({"all": whole} if len(each_author) > 1 else {})})]
    if by_case:
        tables.append(_case_table(by_case))
    return Report("spans", "Facts in turns", f"cofio eval turns {named(paths)}", says, values, tables)


def _group_cases(outcomes: Sequence[SpanOutcome]) -> dict[str, SpanFigures]:
    cases: dict[str, list[SpanOutcome]] = {}
    for result in outcomes:
        if result.turn.case:
            cases.setdefault(result.turn.case, []).append(result)
    return {case: SpanFigures.of(group) for case, group in sorted(cases.items(), key=lambda item: -len(item[1]))}


def _author_table(figures: Mapping[str, SpanFigures]) -> Table:
    rows: list[list[Cell]] = [
        [author, result.turns, result.facts, result.found, result.right, result.noise_kept, result.kinds, result.about]
        for author, result in figures.items()
    ]
    names = ("facts found", "spans right", "noise turns kept", "kind right", "person or project right")
    return Table(
        "By author",
        (Column("author"), Column("turns"), Column("facts"), *(Column(name, "%") for name in names)),
        rows,
    )


def _case_table(figures: Mapping[str, SpanFigures]) -> Table:
    rows: list[list[Cell]] = [
        [
            case,
            result.turns,
            result.facts,
            _get_value(result.found),
            _get_value(result.right),
            _get_value(result.noise_kept),
        ]
        for case, result in figures.items()
    ]
    names = ("facts found", "spans right", "noise turns kept")
    columns = (Column("case"), Column("turns"), Column("facts"), *(Column(name, "%") for name in names))
    return Table("By case", columns, rows)


def _get_value(figure: Figure | None) -> float | None:
    return figure.value if figure else None
