"""What a prompt names exactly: the rows whose names stand in it, and the values that it tells of them.

    prompt ─ openings ─▶ (domain.naming) ─▶ candidates ─ does the name stand there whole? ─▶ [Named]
    "AAPL volume is 6.2M" ─▶ the threshold on AAPL's volume, and that it fires

A word in common is not enough: the name must stand there, as a run of words, in any case. Its leading words do where
they say as much: "BTC" names "BTC price", "price" does not. A name that is a word like any other ("NOW", "ALL", "7")
counts only as it is written, and only for a threshold whose metric stands there too.

A value is read where nothing but plain linking words stand between it, the metric and the source. What is compared,
denied or told of something else ("if volume exceeds 6M", "TSLA's volume is 8M") is none.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, Protocol, TypeAlias

from cofio import late
from cofio.domain import ANY, TABLES, Claim, Correlation, Firing, Threshold, opening
from cofio.knowledge.lane import firing
from cofio.model import Viewer
from cofio.ports import Domain
from cofio.wording import STOP_WORDS


class Quantity(Protocol):
    """A number in a text, with its unit, and where it stands."""

    @property
    def value(self) -> float: ...

    @property
    def unit(self) -> str: ...

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...


#: Every quantity of a text, in order.
Reading: TypeAlias = Callable[[str], Sequence[Quantity]]
Span: TypeAlias = tuple[int, int]

_READ = 4_000  # characters of either end of a prompt
_OPENINGS = 500  # of names that are looked up
_APART = 80  # characters between a source, a metric and a value
_OCCURRENCES = 8  # of a name that are looked at for values


class Named(NamedTuple):
    """A claim that a prompt names."""

    known: Claim
    whole: bool  # the name stands there whole, not its leading words alone
    metric: bool = False  # of a threshold: its metric stands there too
    fires: Firing | None = None  # of a threshold: a value is told that crosses it
    sides: tuple[str, ...] = ()  # of a correlation: which of its sides


def nothing(_text: str) -> Sequence[Quantity]:
    """The reading where nobody reads numbers."""
    return ()


def named(prompt: str, domain: Domain, viewer: Viewer | None = None, quantities: Reading = nothing) -> list[Named]:
    """The claims that the prompt names and the viewer sees: first those that fire, then those whose metric stands there
    too; of equals the surest first. One look-up at most; none for a prompt without a word that could name anything."""
    said = _Prompt(prompt, quantities)
    sought = said.openings()
    if not sought:
        return []
    found = (_standing(each, said) for each in domain.naming(sought, viewer=viewer) if isinstance(each, Claim))
    return sorted((each for each in found if each), key=_rank)


def _rank(each: Named) -> tuple[bool, bool, bool, float, int, str]:
    known = each.known
    return each.fires is None, not each.metric, not each.whole, -known.confidence, TABLES.index(known.TABLE), known.id


def _standing(known: Claim, said: _Prompt) -> Named | None:
    if isinstance(known, Threshold):
        return _threshold(known, said)
    found = {name: how for name in known.names if (how := said.names(name)).spans and how.telling}
    if not found:
        return None
    sides = tuple(found) if isinstance(known, Correlation) else ()
    return Named(known, whole=any(how.whole for how in found.values()), sides=sides)


def _threshold(known: Threshold, said: _Prompt) -> Named | None:
    metric = said.runs(known.metric)
    if known.source == ANY:
        source = _Standing(metric, whole=True, telling=_is_telling(_words(known.metric)))
    else:
        source = said.names(known.source)
    if not source.spans or not (metric or source.telling):
        return None
    told = said.value(None if known.source == ANY else source.spans, metric, known.unit)
    fires = firing([known], told.value, told.unit) if told else []
    return Named(known, source.whole, bool(metric), fires[0] if fires else None)


# ── names in a prompt ─────────────────────────────────────────────────────────────────────────────────────────────────


class _Word(NamedTuple):
    folded: str
    raw: str
    start: int
    end: int


class _Standing(NamedTuple):
    """Where a name stands, whether whole, and whether its words tell anything by themselves."""

    spans: Sequence[Span]
    whole: bool
    telling: bool


class _Prompt:
    """The words of a prompt, each with its place. Most prompts name nothing: what they need not is not looked at."""

    def __init__(self, prompt: str, quantities: Reading) -> None:
        ends = prompt if len(prompt) <= 2 * _READ else f"{prompt[:_READ]}\n\n{prompt[-_READ:]}"
        self.text = unicodedata.normalize("NFKC", ends)
        self._reading = quantities

    def openings(self) -> list[str]:
        """How the names open that may stand here, each once; none where all words are such as every text holds."""
        found: dict[str, None] = {}
        before = ""
        for raw in _WORD.findall(self.text):
            for word in (raw.lower(),) if raw.isascii() else _WORD.findall(raw.casefold()):
                if before and word.isdigit():
                    found[opening((before, word))] = None
                telling = len(word) > 2 if word.isdigit() else word not in STOP_WORDS or raw.isupper()
                before = word if telling else ""
                if telling:
                    found[opening((word,))] = None
            if len(found) >= _OPENINGS:
                break
        return list(found)

    @cached_property
    def _words(self) -> list[_Word]:
        return _words(self.text)

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        places: dict[str, list[int]] = {}
        for place, word in enumerate(self._words):
            places.setdefault(word.folded, []).append(place)
        return places

    @cached_property
    def _quantities(self) -> list[Quantity]:
        return [each for each in self._reading(self.text) if self._is_number(each)]

    def names(self, name: str) -> _Standing:
        """Where the name stands; else where its leading words do, as many of them as there are."""
        words = _words(name)
        for length in range(len(words), 0, -1):
            lead, rest = words[:length], words[length:]
            telling = _is_telling(lead)
            if (rest and not (telling and _says_as_much(lead, rest))) or not (telling or _is_code(lead)):
                continue
            if spans := self._runs(lead, as_written=not telling):
                return _Standing(spans, not rest, telling)
        return _Standing((), whole=False, telling=False)

    def runs(self, name: str) -> list[Span]:
        """Where the words of a name stand one after the other."""
        return self._runs(_words(name))

    def _runs(self, words: Sequence[_Word], *, as_written: bool = False) -> list[Span]:
        found = []
        for place in self._places.get(words[0].folded, ()) if words else ():
            run = self._words[place : place + len(words)]
            if [each.folded for each in run] != [each.folded for each in words] or not self._joined(run):
                continue
            if not as_written or [each.raw for each in run] == [each.raw for each in words]:
                found.append((run[0].start, run[-1].end))
        return found

    def _joined(self, run: Sequence[_Word]) -> bool:
        gaps = ((one.end, other.start) for one, other in pairwise(run) if one.end <= other.start)
        return all(_JOINT.fullmatch(self.text, *gap) for gap in gaps)

    # ── values ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def value(self, sources: Sequence[Span] | None, metrics: Sequence[Span], unit: str) -> Quantity | None:
        """The quantity that is told of the metric, of the source unless it holds for any; None when none is."""
        ways: list[tuple[bool, int, int, Quantity]] = []
        for source in [None] if sources is None else sources[:_OCCURRENCES]:
            for metric in metrics[:_OCCURRENCES]:
                for told in self._near(metric, unit):
                    number = told.start, told.end
                    if self._linked(source, metric, number):
                        places = [each for each in (source, metric, number) if each]
                        width = max(end for _, end in places) - min(start for start, _ in places)
                        ways.append((number < metric, width, told.start, told))
        return min(ways, key=lambda way: way[:3])[-1] if ways else None

    def _near(self, metric: Span, unit: str) -> Iterator[Quantity]:
        for each in self._quantities:
            if each.unit == "%" and unit != "%":
                continue  # "volume fell 5%" says nothing of how much it is
            if metric[0] - _APART <= each.end and each.start <= metric[1] + 2 * _APART:
                yield each

    def _is_number(self, told: Quantity) -> bool:
        """Whether it is written as one, or large: "price is one of the things" tells no price."""
        return told.value >= 100 or any(sign.isdigit() for sign in self.text[told.start : told.end])

    def _linked(self, source: Span | None, metric: Span, number: Span) -> bool:
        """Whether nothing but linking words stand between them."""
        places = sorted(each for each in (source, metric, number) if each)
        if any(one[1] > other[0] for one, other in pairwise(places)):
            return False
        for one, other in pairwise(places):
            if other[0] - one[1] > _APART:
                return False
            if (one, other) == (number, metric):
                link = _MEASURE
            elif (one, other) == (source, metric) and number > metric:
                link = _LIST  # "AAPL: price 180, volume 6.2M"
            else:
                link = _LINK if source else _ANYWHERE
            if not link.fullmatch(self.text, one[1], other[0]):
                return False
        return True


def _words(text: str) -> list[_Word]:
    """The words of a text as names hold them, each with its spelling and its place."""
    plain = unicodedata.normalize("NFKC", text)
    return [
        _Word(folded, found[0], *found.span())
        for found in _WORD.finditer(plain)
        for folded in _WORD.findall(found[0].casefold())
    ]


def _is_telling(words: Sequence[_Word]) -> bool:
    """Whether any of the words is more than a number, a letter, or a word that every text holds."""
    return any(
        not (each.folded.isdigit() or (len(each.folded) < 2 and each.folded.isascii()) or each.folded in STOP_WORDS)
        for each in words
    )


def _says_as_much(lead: Sequence[_Word], rest: Sequence[_Word]) -> bool:
    """Whether the leading words of a name mean the same: only what is measured is left out, or they are a code.

    A number behind them tells one of them from the others.
    """
    if all(each.folded in _MEASURED for each in lead) or rest[0].folded.isdigit():
        return False
    return all(each.folded in _MEASURED for each in rest) or _is_code(lead)


def _is_code(words: Sequence[_Word]) -> bool:
    """Whether it is written as codes are: BTC, S3, 7203, EUR/USD."""
    return all(each.folded.isdigit() or _is_capital(each) for each in words)


def _is_capital(word: _Word) -> bool:
    return word.raw == word.raw.upper() != word.raw.lower()


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_WORD = late.compile(r"[^\W_]+")
_JOINT = late.compile(r"[^\S\n]*(?:[^\w\s,;!?]|_)?[^\S\n]*")  # between the words of a name: BTC/USD, error_rate, web-1
#: What is measured of things, rather than a thing.
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


def _either(words: str) -> str:
    return "|".join(sorted(set(words.split()), key=lambda each: (-len(each), each)))


_PLAIN = rf"{_SIGN}|['’]s\b|\b(?:{_either(_LINKING)})\b|\b(?:{_either(_MOVING)})\s+(?:(?:up|down|back)\s+)?(?:to|at)\b"
_OTHERS = rf",|\band\b|\b(?:{_either(' '.join(_MEASURED))})\b|[-+]?[$€£¥]?\d[\d.,]*(?:\s?[a-z°µ]{{1,3}}\b|%)?"
_LINK = late.compile(rf"(?:{_PLAIN})*", re.IGNORECASE)
_ANYWHERE = late.compile(  # a threshold for every source: "cpu load on db-7 is 93%"
    rf"(?:{_PLAIN}|\b(?:on|of|for|at)\s+(?-i:(?=[\w.@-]*[A-Z\d@_-])[\w.@-]+))*", re.IGNORECASE
)
_LIST = late.compile(rf"(?:{_PLAIN}|{_OTHERS})*", re.IGNORECASE)
#: Between a value and what it measures, where it comes first: "6.2M in volume", "6.2M shares of volume".
_MEASURE = late.compile(r"\s*(?:shares\s+)?(?:(?:in|of)\s+)?(?:the\s+|daily\s+|trading\s+|total\s+)*", re.IGNORECASE)
