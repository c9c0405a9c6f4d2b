"""What an agent that watches a domain (markets, servers, sensors) finds out: patterns, thresholds, correlations.

Such an agent reports in labelled lines ("Threshold recommendation: flag AAPL if volume exceeds 5M") and in plain
sentences that say as much. The sentence is kept as it stands, without its label.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from cofio.conversation import Found
from cofio.sentences import split

MOST = 5  # a turn
_LEAST = 10  # characters; what is shorter says nothing


class _Row(NamedTuple):
    kind: str
    confidence: float
    label: re.Pattern[str]
    says: re.Pattern[str]


_TABLE = (
    _Row(
        "threshold",
        0.7,
        re.compile(r"(?i)^\W*threshold\b[\w ]{0,40}:\s*"),
        re.compile(r"(?i)\b(?:flag|alert|warn)\b.{0,80}?\b(?:if|when|once)\b"),
    ),
    _Row(
        "correlation",
        0.5,
        re.compile(r"(?i)^\W*correlat(?:es?|ion)\b[\w ]{0,40}:\s*"),
        re.compile(r"(?i)\bcorrelates? with\b|\b\w+ (?:leads|follows|predicts) \w"),
    ),
    _Row(
        "pattern",
        0.6,
        re.compile(r"(?i)^\W*(?:pattern|observation)s?\b[\w ]{0,40}:\s*"),
        re.compile(r"(?i)\b(?:consistently|always|typically)\b"),
    ),
)


def facts(response: str, *, most: int = MOST) -> list[Found]:
    """What the response says about its domain, surest first, each thing once, at most so many."""
    kept: list[Found] = []
    for each in sorted(_found(response), key=lambda one: -one.confidence):
        if not any(each.text in other.text or other.text in each.text for other in kept):
            kept.append(each)
    return kept[:most]


def _found(response: str) -> Iterator[Found]:
    for sentence in split(response):
        for row in _TABLE:
            label = row.label.match(sentence)
            if label or row.says.search(sentence):
                text = (sentence[label.end() :] if label else sentence).strip().rstrip(".")
                if len(text) > _LEAST and not sentence.endswith("?"):
                    yield Found(text=text, kind=row.kind, confidence=row.confidence, said=sentence, role="assistant")
                break
