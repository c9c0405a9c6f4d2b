"""Domain knowledge in an agent's report (markets, servers, sensors): patterns, thresholds, correlations.

    response ─ sentences ─▶ [Found], each a sentence to keep
                  └─ thresholds, correlations, times ─▶ ReadKnowledge: table and fields of the row in the sentence

Such an agent reports in labelled lines ("Threshold recommendation: flag AAPL if volume exceeds 5M") and in plain
sentences with the same content. The sentence is kept verbatim, without its label; a row is read from it only if that is
unambiguous.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from cofio.domain_knowledge.from_text import correlations, metric_names, thresholds, time_expressions
from cofio.models.domain_knowledge import Table, fold
from cofio.models.exchange import ExtractedFact
from cofio.models.memory import check_fraction, check_int
from cofio.text import lazy_re
from cofio.text.duplicates import find_names, find_numbers, is_negated
from cofio.text.sentences import is_question, split

KnowledgeType = Literal["pattern", "threshold", "correlation", "observation"]

MOST = 5  # per turn
_LEAST = 10  # characters; shorter sentences say nothing
_LONGEST = 1_000  # characters; longer texts are not sentences


class ReadKnowledge(NamedTuple):
    """Row of a table in a sentence. If the sentence denies the row, only the fields that identify it."""

    table: Table
    fields: Mapping[str, Any]
    denied: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoCaptureConfig:
    """Limits of the knowledge extracted from a response."""

    max_updates_per_turn: int = MOST
    dedup_threshold: float = 0.9  # share of words in order, from which two sentences count as one

    def __post_init__(self) -> None:
        check_int(self.max_updates_per_turn, "max_updates_per_turn", least=0, most=1_000)
        check_fraction(self.dedup_threshold, "dedup_threshold")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedKnowledge:
    """Statement in a response: its words, and its row if one could be read."""

    type: KnowledgeType
    content: str
    confidence: float
    table: str = ""  # "" if no row could be read unambiguously
    fields: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    denied: bool = False  # the sentence says that this no longer holds

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        plain = {name: getattr(self, name) for name in ("type", "content", "confidence", "table", "denied")}
        return {**plain, "fields": dict(self.fields)}


_USUAL = AutoCaptureConfig()


def extract_knowledge(response: str, config: AutoCaptureConfig = _USUAL) -> list[ExtractedKnowledge]:
    """Return the domain knowledge in the response, most confident first, without duplicates, up to the limit."""
    results = []
    for fact in _select_facts(response, config.max_updates_per_turn, config.dedup_threshold):
        kind = next(row.kind for row in _TABLE if row.kind == fact.kind)
        knowledge = ExtractedKnowledge(type=kind, content=fact.text, confidence=fact.confidence)
        if reading := read_sentence(fact):
            fields = MappingProxyType(dict(reading.fields))
            kind = _OF_TABLE[reading.table].kind
            knowledge = replace(knowledge, type=kind, table=reading.table, fields=fields, denied=reading.denied)
        results.append(knowledge)
    return results


def facts(response: str, *, most: int = MOST) -> list[ExtractedFact]:
    """Return the domain knowledge in the response as facts to remember."""
    return _select_facts(response, most, _USUAL.dedup_threshold)


def read_sentence(sentence: ExtractedFact | str) -> ReadKnowledge | None:
    """Return the row that a sentence states or denies; None if that is ambiguous."""
    if isinstance(sentence, str):
        return _read(sentence)
    if sentence.kind not in _KINDS:
        return None
    from_said = _read(sentence.said, sentence.kind) if sentence.said else None
    return from_said or _read(sentence.text, sentence.kind)


class _SentencePattern(NamedTuple):
    kind: KnowledgeType
    confidence: float
    label: re.Pattern[str]
    says: re.Pattern[str]


_ABOUT = r"(?P<about>[\w ./&$-]{0,60})"
_TABLE = (
    _SentencePattern(
        "threshold",
        0.7,
        lazy_re.compile(rf"(?i)^\W*threshold\b{_ABOUT}:\s*(?=\S)"),
        lazy_re.compile(
            r"(?i)\b(?:flag|alert|warn|notify)\b.{0,80}?\b(?:if|when|whenever|once)\b"
            r"|\b(?:if|when|whenever|once)\b.{3,120}?,(?: then)? (?:flag|alert|warn|notify)\b"
        ),
    ),
    _SentencePattern(
        "correlation",
        0.5,
        lazy_re.compile(rf"(?i)^\W*correlat(?:es?|ion)\b{_ABOUT}:\s*(?=\S)"),
        lazy_re.compile(r"(?i)\bcorrelates? with\b|\b\w+ (?:leads|follows|predicts) \w"),
    ),
    _SentencePattern(
        "pattern",
        0.6,
        lazy_re.compile(rf"(?i)^\W*(?:(?:seasonal )?pattern|observation|seasonality)s?\b{_ABOUT}:\s*(?=\S)"),
        lazy_re.compile(
            r"(?i)\b(?:consistently|always|typically)\b|\bno longer (?:\w+ly )?(?:spikes?|rises?|falls?|drops?|dips?"
            r"|peaks?|doubles?|increases?|decreases?|climbs?|surges?|declines?)\b"
        ),
    ),
)
_OF_TABLE = {"thresholds": _TABLE[0], "correlations": _TABLE[1], "patterns": _TABLE[2], "seasonal": _TABLE[2]}
_KINDS = frozenset(("threshold", "correlation", "pattern", "observation"))


def _select_facts(response: str, most: int, alike: float) -> list[ExtractedFact]:
    facts = []
    for sentence in split(response):
        row, label = _match_row(sentence)
        if row is None or is_question(sentence):
            continue
        source = _parse_source(label) if label else ""
        text = (sentence[label.end() :] if label else sentence).strip().rstrip(".")
        text = _REMOVAL.sub(r"no \1", f"{source}: {text}" if source else text)  # a request to remove it, as a statement
        if len(text) > _LEAST and not (label and _NOTHING.match(text)):
            facts.append(
                ExtractedFact(text=text, kind=row.kind, confidence=row.confidence, said=sentence, role="assistant")
            )
    selected: list[ExtractedFact] = []
    for fact in sorted(facts, key=lambda fact: -fact.confidence):
        if len(selected) >= most:
            break
        if not any(_repeats(fact.text, other.text, alike) for other in selected):
            selected.append(fact)
    return selected


def _match_row(sentence: str) -> tuple[_SentencePattern | None, re.Match[str] | None]:
    """Return the kind of knowledge in the sentence, and its label."""
    labelled, label = _match_label(sentence)
    if labelled:
        return labelled, label
    for row in _TABLE:
        if row.says.search(sentence) and not (row.kind != "pattern" and _SUPPOSED.search(sentence)):
            return row, None
    reading = _read(sentence)
    return (_OF_TABLE[reading.table] if reading else None), None


def _match_label(sentence: str) -> tuple[_SentencePattern | None, re.Match[str] | None]:
    return next(((row, label) for row in _TABLE if (label := row.label.match(sentence))), (None, None))


def _repeats(one: str, other: str, alike: float) -> bool:
    """Return whether two sentences say the same: one contains the other, or nearly all of their words are equal."""
    if is_negated(one) != is_negated(other):
        return False
    first, second = fold(one).split(), fold(other).split()
    shorter, longer = sorted((f" {' '.join(first)} ", f" {' '.join(second)} "), key=len)
    if shorter in longer:
        return True
    if find_numbers(one) != find_numbers(other) or set(find_names(one)) != set(find_names(other)):
        return False
    return SequenceMatcher(None, first, second, autojunk=False).ratio() >= alike


def _read(sentence: str, kind: str = "") -> ReadKnowledge | None:
    """Return the row in a sentence; a known kind counts as a label."""
    line = " ".join(sentence.replace("’", "'").split())
    if not line or len(line) > _LONGEST or is_question(line):
        return None
    row, label = _match_label(line)
    text = (line[label.end() :] if label else line).strip().rstrip(".!")
    row_kind = row.kind if row else kind
    about = _parse_source(label) if label else ""
    return (
        _read_threshold(text, row_kind, about)
        or _read_correlation(text, row_kind)
        or _read_pattern(text, row_kind, about)
    )


def _read_threshold(text: str, kind: str, about: str) -> ReadKnowledge | None:
    if kind not in ("", "threshold", "pattern"):
        return None
    if denied := thresholds.denied_fields(text):
        return ReadKnowledge("thresholds", denied, denied=True)
    values = thresholds.fields(text, labelled=kind == "threshold", about=about if kind == "threshold" else "")
    return ReadKnowledge("thresholds", values) if values else None


def _read_correlation(text: str, kind: str) -> ReadKnowledge | None:
    if kind == "threshold":
        return None
    values = correlations.fields(text, labelled=kind == "correlation")
    return ReadKnowledge("correlations", *values) if values else None


def _read_pattern(text: str, kind: str, about: str) -> ReadKnowledge | None:
    """Return the behaviour that a sentence describes, seasonal or not; None if it is denied, supposed or a task."""
    is_pattern = kind in ("pattern", "observation") or (not kind and _TABLE[2].says.search(text))
    has_times = is_pattern or (not kind and time_expressions.is_season(text))
    season = time_expressions.parse_times(text) if has_times else None
    if not (is_pattern or season) or len(text) <= _LEAST or _UNSTATED.search(text) or _NO_PATTERN.match(text):
        return None
    if not kind and _TABLE[0].says.search(text):
        return None  # it says what to flag, but in an unknown form
    source = about or metric_names.leading_name(text)
    values = {"pattern": text, **({"source": source} if source else {})}
    return ReadKnowledge("seasonal", {**values, **season}) if season else ReadKnowledge("patterns", values)


def _parse_source(label: re.Match[str]) -> str:
    """Return the source in a label such as "Threshold for web-1"."""
    match = _SOURCE_IN_LABEL.match(label["about"])
    return metric_names.source_name(label["about"][match.end() :]) or "" if match else ""


_SOURCE_IN_LABEL = lazy_re.compile(r"^.{0,30}? ?\b(?:for|on|of|in) (?=\S)", re.I)
_SUPPOSED = lazy_re.compile(
    r"\b(?:would|could|might|maybe|perhaps|what if|if we|suppose|supposing|imagine|hypothetically|whether|should we"
    r"|not sure|used to|wonder)\b|\?",
    re.I,
)
#: Negations and suppositions. "drops" is not a negation here.
_UNSTATED = lazy_re.compile(
    rf"\b(?:not|never|no longer|no more|stopped|ceased|cannot)\b|n't\b|{_SUPPOSED.pattern}", re.I
)
_NOTHING = lazy_re.compile(r"(?:none|nothing|n/a|no (?:\w+ )?(?:pattern|correlation|anomal|change|observation))", re.I)
#: Actions and tasks of people, which are not patterns of the watched domain.
_NO_PATTERN = lazy_re.compile(
    r"(?:i|you|no|none|nothing|always|consistently|please|let's|we(?! (?:\w+ )?(?:see|observe|notice|find)))\b", re.I
)
_REMOVAL = lazy_re.compile(
    r"^(?:please |also,? )?(?:remove|delete|drop|cancel|disable|retire|lift|clear|discard)(?: (?:the|any|our|all))?"
    r"(?: (?:old|existing|current))? (thresholds?|alerts?|alarms?|warnings?|limits?|flags?)(?= (?:on|for|of|about) )",
    re.I,
)
