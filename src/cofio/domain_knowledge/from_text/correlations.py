"""Correlations in sentences: the two sides, which of them leads, and whether they move in opposite directions.

    "COIN follows BTC" ─▶ BTC leads COIN        "when BTC price rises, gold falls" ─▶ BTC price with gold, inverse

Both sides must be names or metrics, unless a label marks a correlation: "Alice leads the team" is not one.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, TypeAlias

from cofio.domain_knowledge.from_text import metric_names
from cofio.models.domain_knowledge import fold
from cofio.text import lazy_re

Fields: TypeAlias = dict[str, Any]


class _RelatedSides(NamedTuple):
    """Both sides as worded, and their relation."""

    one: str
    other: str
    relation: str = "with"
    inverse: bool = False
    denied: bool = False


def fields(sentence: str, *, labelled: bool = False) -> tuple[Fields, bool] | None:
    """Return the fields of a correlation, and whether the sentence denies it; `rule` is the sentence itself."""
    if _UNSTATED.search(sentence):
        return None
    text = _PARENTHESIS.sub(" ", sentence)
    related = _match_verb(text) or _match_pair(text) or _match_when(text)
    if related is None:
        return None
    first, second = metric_names.parse_side(_OPENING.sub("", related.one)), metric_names.parse_side(_cut(related.other))
    if not first or not second or fold(first) == fold(second) or _VERB.search(f"{first} {second}"):
        return None
    if not labelled and not (metric_names.is_thing(first) and metric_names.is_thing(second)):
        return None
    sides: Fields = {"source_a": first, "source_b": second, "relation": related.relation}
    return (sides, True) if related.denied else ({**sides, "rule": sentence, "inverse": related.inverse}, False)


def _match_verb(sentence: str) -> _RelatedSides | None:
    """Match "X leads Y", "Y follows X" or "X correlates with Y"."""
    match = _VERBS.fullmatch(sentence)
    if match is None or _INDEFINITE.match(match["other"]) or _MOVED_BY.search(match["other"]):
        return None
    verb = " ".join(match["verb"].lower().split())
    denied = match["not"] is not None
    inverse = _INVERSE.search(verb) is not None
    if _FOLLOWS.match(verb):
        return _RelatedSides(_cut(match["other"]), match["one"], "leads", inverse, denied)
    return _RelatedSides(match["one"], match["other"], "leads" if _LEADS.match(verb) else "with", inverse, denied)


def _match_pair(sentence: str) -> _RelatedSides | None:
    """Match "X and Y move together" or "in opposite directions"."""
    match = _PAIR.fullmatch(sentence)
    if match is None:
        return None
    inverse = _INVERSE.search(match["how"]) is not None
    return _RelatedSides(match["one"], match["other"], "with", inverse, match["not"] is not None)


def _match_when(sentence: str) -> _RelatedSides | None:
    """Match "when X rises, Y falls" or "X rises when Y falls"."""
    match = _WHEN_FIRST.fullmatch(sentence) or _WHEN_LAST.fullmatch(sentence)
    if match is None:
        return None
    inverse = bool(_RISES.fullmatch(match["how_one"])) != bool(_RISES.fullmatch(match["how_other"]))
    later = _LATER.search(match["tail"] or "") is not None
    return _RelatedSides(match["one"], match["other"], "leads" if later else "with", inverse)


def _cut(side: str) -> str:
    """Return the side without its time, extent and reason, which the rule keeps."""
    return _BEHIND.sub("", side)


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_ADVERB = (
    r"(?:(?:often|usually|typically|consistently|generally|always|strongly|closely|reliably|tightly|highly|clearly"
    r"|weakly|moderately|significantly|historically|tends? to|seems? to|appears? to) ){0,3}"
)
_AGAINST = r"(?:inversely|negatively|oppositely)"
_NOT = (
    r"(?:(?P<not>no longer|does not|doesn't|do not|don't|is not|isn't|are not|aren't|is no longer"
    r"|are no longer|never)(?: any ?more)? )?"
)
_LEAD = r"leads?|predicts?|precedes?|foreshadows?|anticipates?|drives"
_FOLLOW = r"follows?|lags(?: behind)?|lag behind|trails?"
_WITH = (
    rf"(?:(?:is |are )?(?:positively |{_AGAINST} )?(?:correlated|related|linked) (?:with|to)"
    rf"|(?:{_AGAINST} )?correlates? (?:(?:positively|{_AGAINST}|strongly|closely) )?(?:with|to)"
    r"|moves? (?:in (?:line|lockstep|tandem|step)|together) with|moves? with|moves? (?:against"
    r"|opposite(?: to)?|inversely to))"
)
_VERBS = lazy_re.compile(
    rf"(?P<one>.{{1,100}}?) {_ADVERB}{_NOT}{_ADVERB}(?:(?:is|are) (?={_ADVERB}(?:positively |{_AGAINST} )?(?:correl"
    rf"|relat|link)))?{_ADVERB}(?P<verb>{_LEAD}|{_FOLLOW}|{_WITH})(?! (?:to|by|with|the (?:way|pack"
    rf"|field))\b) (?P<other>\S.{{0,160}})",
    re.I,
)
_LEADS, _FOLLOWS = lazy_re.compile(_LEAD, re.I), lazy_re.compile(_FOLLOW, re.I)
_PAIR = lazy_re.compile(
    rf"(?P<one>.{{1,80}}?) and (?P<other>.{{1,80}}?) {_ADVERB}{_NOT}{_ADVERB}(?P<how>move together|move in (?:tandem"
    rf"|lockstep|opposite directions)|rise and fall together|(?:are )?{_ADVERB}(?:positively |{_AGAINST} )?correlated"
    rf"|{_AGAINST} correlate|correlate(?: {_AGAINST}| positively)?|diverge)(?: any ?more)?(?P<tail>[ ,;].{{0,120}})?",
    re.I,
)
_VERB = lazy_re.compile(rf"\b(?:{_LEAD}|{_FOLLOW})\b", re.I)
_INVERSE = lazy_re.compile(rf"{_AGAINST}|opposite|against|diverge", re.I)
_UP = r"rises?|climbs?|increases?|jumps?|spikes?|surges?|goes up|grows?|gains?|rallies|rally"
_DOWN = r"falls?|drops?|declines?|decreases?|dips?|sinks?|goes down|slides?|shrinks?|sells off"
_RISES = lazy_re.compile(_UP, re.I)
_WHEN_FIRST = lazy_re.compile(
    rf"(?:when|whenever|if|as) (?P<one>.{{1,80}}?) (?P<how_one>{_UP}|{_DOWN}),?(?: then)? (?P<other>[^,]{{1,80}}?) "
    rf"{_ADVERB}(?P<how_other>{_UP}|{_DOWN})(?P<tail>[ ,;].{{0,120}})?",
    re.I,
)
_WHEN_LAST = lazy_re.compile(
    rf"(?P<one>.{{1,80}}?) {_ADVERB}(?P<how_one>{_UP}|{_DOWN}) (?:when|whenever) (?P<other>[^,]{{1,80}}?) "
    rf"(?P<how_other>{_UP}|{_DOWN})(?P<tail>)",
    re.I,
)
_LATER = lazy_re.compile(
    r"\b(?:later|afterwards?|the next (?:day|hour|session|week)|the following|with a (?:lag|delay))\b", re.I
)
_INDEFINITE = lazy_re.compile(r"(?:an?|suit|that|this|it|from|up|through|into|as)\b", re.I)
_MOVED_BY = lazy_re.compile(r" (?:higher|lower|up|down)$", re.I)  # "leads stocks higher"
_OPENING = lazy_re.compile(
    r"^(?:(?:also|and|so|note that|notably|historically|in (?:general|our data)|we (?:see|saw|found|observed?) that"
    r"|i (?:see|found|observe) that|the data shows? that|it (?:seems|appears) that)[,:]? )+",
    re.I,
)
_BEHIND = lazy_re.compile(
    r"(?:,| by (?=[\d~a])| with an? | within | during | over (?=the |\d)| in (?=the |most |bull|bear|asian|us |\d)"
    r"| on (?=\w+days\b|average)| at (?=the |least|open|close)| because | since | before | after | ahead of "
    r"| most of | about | roughly | strongly| closely| quite | again$| too$| as well$| [–—-] ).*$",
    re.I,
)
_PARENTHESIS = lazy_re.compile(r"\s+\([^()]{0,200}\)")
#: Questions, suppositions, past states and conditions.
_UNSTATED = lazy_re.compile(
    r"\?|\b(?:could|would|might|may|maybe|perhaps|suppose|supposing|imagine|hypothetically|whether|used to|unless"
    r"|except|only if|not sure|unclear|doubt|did not|didn't|had)\b|\bif\b(?!.{1,90}\b(?:rise|fall|drop|climb|increase"
    r"|decline))",
    re.I,
)
