"""Rows named in a prompt, and the values that the prompt reports for them.

    prompt ─ openings ─▶ (domain.naming) ─▶ candidates ─ is the whole name in the prompt? ─▶ [Named]
    "AAPL volume is 6.2M" ─▶ the threshold on AAPL's volume, and that it fires

A shared word is not enough: the name must occur as a run of words, in any case. Its leading words suffice if they are
as specific: "BTC" names "BTC price", "price" does not. A name that is an ordinary word ("NOW", "ALL", "7") counts only
in its exact spelling, and only for a threshold whose metric occurs too.

A value is read only if nothing but linking words separate it, the metric and the source. Values in comparisons,
negations or statements about something else ("if volume exceeds 6M", "TSLA's volume is 8M") are ignored.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise, product
from typing import NamedTuple, TypeAlias

from cofio.domain_knowledge.from_text.quantities import TextQuantity, quantities
from cofio.domain_knowledge.lookup import firing
from cofio.models.domain_knowledge import ANY, TABLES, Claim, Correlation, FiringThreshold, Threshold, name_prefix
from cofio.models.memory import Viewer
from cofio.ports import KnowledgeTables
from cofio.text import lazy_re
from cofio.text.tokens import STOP_WORDS

Span: TypeAlias = tuple[int, int]

_READ = 4_000  # characters read from each end of a prompt
_OPENINGS = 500  # lookup keys per prompt
_APART = 80  # characters between a source, a metric and a value
_OCCURRENCES = 8  # occurrences of a name that are checked for values


class MentionedClaim(NamedTuple):
    """Claim named in a prompt."""

    claim: Claim
    is_complete: bool  # the whole name occurs, not only its leading words
    metric: bool = False  # threshold: its metric occurs too
    fires: FiringThreshold | None = None  # threshold: the prompt reports a value that crosses it
    sides: tuple[str, ...] = ()  # correlation: the sides named


def find_mentions(prompt: str, domain: KnowledgeTables, viewer: Viewer | None = None) -> list[MentionedClaim]:
    """Return claims that the prompt names and the viewer may see, in order of relevance.

    First those that fire, then those whose metric occurs; ties by confidence. At most one lookup; none for a prompt
    without a word that could be a name.
    """
    words = _PromptWords(prompt)
    keys = words.openings()
    if not keys:
        return []
    mentions = (_match_claim(row, words) for row in domain.naming(keys, viewer=viewer) if isinstance(row, Claim))
    return sorted((mention for mention in mentions if mention), key=_rank)


def _rank(mention: MentionedClaim) -> tuple[bool, bool, bool, float, int, str]:
    claim = mention.claim
    is_less = (mention.fires is None, not mention.metric, not mention.is_complete)
    return (*is_less, -claim.confidence, TABLES.index(claim.TABLE), claim.id)


def _match_claim(claim: Claim, words: _PromptWords) -> MentionedClaim | None:
    if isinstance(claim, Threshold):
        return _match_threshold(claim, words)
    matches = {name: match for name in claim.names if (match := words.names(name)).spans and match.is_specific}
    if not matches:
        return None
    sides = tuple(matches) if isinstance(claim, Correlation) else ()
    return MentionedClaim(claim, is_complete=any(match.is_complete for match in matches.values()), sides=sides)


def _match_threshold(threshold: Threshold, words: _PromptWords) -> MentionedClaim | None:
    metric = words.runs(threshold.metric)
    if threshold.source == ANY:
        source = _NameMatch(metric, is_complete=True, is_specific=_is_specific(_split_words(threshold.metric)))
    else:
        source = words.names(threshold.source)
    if not source.spans or not (metric or source.is_specific):
        return None
    quantity = words.value(None if threshold.source == ANY else source.spans, metric, threshold.unit)
    fires = firing([threshold], quantity.value, quantity.unit) if quantity else []
    return MentionedClaim(threshold, source.is_complete, bool(metric), fires[0] if fires else None)


class _Word(NamedTuple):
    folded: str
    raw: str
    start: int
    end: int


class _NameMatch(NamedTuple):
    """Occurrences of a name, whether they are complete, and whether its words are specific."""

    spans: Sequence[Span]
    is_complete: bool
    is_specific: bool


class _PromptWords:
    """Words of a prompt with their positions, computed lazily: most prompts name nothing."""

    def __init__(self, prompt: str) -> None:
        ends = prompt if len(prompt) <= 2 * _READ else f"{prompt[:_READ]}\n\n{prompt[-_READ:]}"
        self.text = unicodedata.normalize("NFKC", ends)

    def openings(self) -> list[str]:
        """Return the lookup keys of names that may occur here, without duplicates; empty for stop words only."""
        keys: dict[str, None] = {}
        before = ""
        for raw in _WORD.findall(self.text):
            for word in (raw.lower(),) if raw.isascii() else _WORD.findall(raw.casefold()):
                if before and word.isdigit():
                    keys[name_prefix((before, word))] = None
                is_specific = len(word) > 2 if word.isdigit() else word not in STOP_WORDS or raw.isupper()
                before = word if is_specific else ""
                if is_specific:
                    keys[name_prefix((word,))] = None
            if len(keys) >= _OPENINGS:
                break
        return list(keys)

    @cached_property
    def _words(self) -> list[_Word]:
        return _split_words(self.text)

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        places: dict[str, list[int]] = {}
        for place, word in enumerate(self._words):
            places.setdefault(word.folded, []).append(place)
        return places

    @cached_property
    def _quantities(self) -> list[TextQuantity]:
        """Return large numbers and those with digits; the "one" in "price is one of the things" is not a price."""
        return [
            quantity
            for quantity in quantities(self.text)
            if quantity.value >= 100 or any(sign.isdigit() for sign in self.text[quantity.start : quantity.end])
        ]

    def names(self, name: str) -> _NameMatch:
        """Return the occurrences of the name, else of as many of its leading words as occur."""
        words = _split_words(name)
        for length in range(len(words), 0, -1):
            lead, rest = words[:length], words[length:]
            is_specific = _is_specific(lead)
            if (rest and not (is_specific and _says_as_much(lead, rest))) or not (is_specific or _is_code(lead)):
                continue
            if spans := self._find_runs(lead, as_written=not is_specific):
                return _NameMatch(spans, not rest, is_specific)
        return _NameMatch((), is_complete=False, is_specific=False)

    def runs(self, name: str) -> list[Span]:
        """Return the positions where the words of a name occur consecutively."""
        return self._find_runs(_split_words(name))

    def _find_runs(self, words: Sequence[_Word], *, as_written: bool = False) -> list[Span]:
        spans = []
        for place in self._places.get(words[0].folded, ()) if words else ():
            run = self._words[place : place + len(words)]
            if [word.folded for word in run] != [word.folded for word in words]:
                continue
            if as_written and [word.raw for word in run] != [word.raw for word in words]:
                continue
            gaps = ((one.end, other.start) for one, other in pairwise(run) if one.end <= other.start)
            if all(_JOINT.fullmatch(self.text, *gap) for gap in gaps):
                spans.append((run[0].start, run[-1].end))
        return spans

    def value(self, sources: Sequence[Span] | None, metrics: Sequence[Span], unit: str) -> TextQuantity | None:
        """Return the quantity reported for the metric of the sources, or of any source if `sources` is None."""
        ways: list[tuple[bool, int, int, TextQuantity]] = []
        occurrences = product([None] if sources is None else sources[:_OCCURRENCES], metrics[:_OCCURRENCES])
        for source, metric in occurrences:
            for quantity in self._quantities:
                if quantity.unit == "%" and unit != "%":
                    continue  # "volume fell 5%" is a change, not a value
                is_near = metric[0] - _APART <= quantity.end and quantity.start <= metric[1] + 2 * _APART
                number = quantity.start, quantity.end
                if is_near and self._is_linked(source, metric, number):
                    places = [place for place in (source, metric, number) if place]
                    width = max(end for _, end in places) - min(start for start, _ in places)
                    ways.append((number < metric, width, quantity.start, quantity))
        return min(ways, key=lambda way: way[:3])[-1] if ways else None

    def _is_linked(self, source: Span | None, metric: Span, number: Span) -> bool:
        """Return whether only linking words separate the positions."""
        places = sorted(place for place in (source, metric, number) if place)
        if any(left[1] > right[0] for left, right in pairwise(places)):
            return False
        for left, right in pairwise(places):
            if (left, right) == (number, metric):
                link = _MEASURE
            elif (left, right) == (source, metric) and number > metric:
                link = _LIST  # "AAPL: price 180, volume 6.2M"
            else:
                link = _LINK if source else _ANYWHERE
            if right[0] - left[1] > _APART or not link.fullmatch(self.text, left[1], right[0]):
                return False
        return True


def _split_words(text: str) -> list[_Word]:
    """Return the folded words of a text, each with its spelling and position."""
    plain = unicodedata.normalize("NFKC", text)
    return [
        _Word(folded, match[0], *match.span())
        for match in _WORD.finditer(plain)
        for folded in _WORD.findall(match[0].casefold())
    ]


def _is_specific(words: Sequence[_Word]) -> bool:
    """Return whether any word is specific: not a number, a letter or a stop word."""
    return any(
        not (word.folded.isdigit() or (len(word.folded) < 2 and word.folded.isascii()) or word.folded in STOP_WORDS)
        for word in words
    )


def _says_as_much(lead: Sequence[_Word], rest: Sequence[_Word]) -> bool:
    """Return whether the leading words identify the name: only measured quantities follow, or they are a code.

    If a number follows, it distinguishes several names, so the leading words do not suffice.
    """
    if all(word.folded in _MEASURED for word in lead) or rest[0].folded.isdigit():
        return False
    return all(word.folded in _MEASURED for word in rest) or _is_code(lead)


def _is_code(words: Sequence[_Word]) -> bool:
    """Return whether it is written like a code: BTC, S3, 7203, EUR/USD."""
    return all(word.folded.isdigit() or word.raw == word.raw.upper() != word.raw.lower() for word in words)


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_WORD = lazy_re.compile(r"[^\W_]+")
#: Between the words of a name: BTC/USD, error_rate, web-1.
_JOINT = lazy_re.compile(r"[^\S\n]*(?:[^\w\s,;!?]|_)?[^\S\n]*")
#: Words for measured quantities rather than things.
_MEASURED = frozenset(
    """
    amount average balance bandwidth capacity change close closing consumption contract contracts count cost cpu delay
    demand disk errors error exchange fee fees flow fund futures growth high humidity index indices interest latency
    level levels load low margin market memory number open output performance power premium pressure price prices
    production queue ram rate rates ratio reading readings requests response return returns revenue sales sensor
    sentiment server share shares signal speed spot spread stock stocks supply swap temperature throughput time token
    traded trading traffic trend usage use utilisation utilization value values voltage volatility volume volumes yield
    yields
    """.split()
)

_LINKING = (
    "is are was were be been being at of the a an its it has have had did does traded hit hits reached reaches just "
    "now currently today for on in with shows showing reads stands stood sits sitting around about roughly nearly "
    "almost approximately stock share shares current latest daily intraday trading total still already again as this "
    "morning afternoon evening week day came comes coming so far here then"
)
_MOVING = (
    "rose rises risen climbed climbs jumped jumps spiked spikes surged surges shot soared soars grew grown went gone "
    "goes going fell falls fallen dropped drops sank slid plunged declined decreased increased moved came got up down"
)
_SIGN = r"[\s:=~≈'’\"`*()|/]|-(?!\d)|[–—]|\b\d{1,2}:\d\d(?:\s?[ap]m)?\b"


def _join(words: str) -> str:
    return "|".join(sorted(set(words.split()), key=lambda word: (-len(word), word)))


_PLAIN = rf"{_SIGN}|['’]s\b|\b(?:{_join(_LINKING)})\b|\b(?:{_join(_MOVING)})\s+(?:(?:up|down|back)\s+)?(?:to|at)\b"
_OTHERS = rf",|\band\b|\b(?:{_join(' '.join(_MEASURED))})\b|[-+]?[$€£¥]?\d[\d.,]*(?:\s?[a-z°µ]{{1,3}}\b|%)?"
_LINK = lazy_re.compile(rf"(?:{_PLAIN})*", re.IGNORECASE)
_ANYWHERE = lazy_re.compile(  # for thresholds of every source: "cpu load on db-7 is 93%"
    rf"(?:{_PLAIN}|\b(?:on|of|for|at)\s+(?-i:(?=[\w.@-]*[A-Z\d@_-])[\w.@-]+))*", re.IGNORECASE
)
_LIST = lazy_re.compile(rf"(?:{_PLAIN}|{_OTHERS})*", re.IGNORECASE)
#: Words between a value and a metric that follows it: "6.2M in volume", "6.2M shares of volume".
_MEASURE = lazy_re.compile(r"\s*(?:shares\s+)?(?:(?:in|of)\s+)?(?:the\s+|daily\s+|trading\s+|total\s+)*", re.IGNORECASE)
