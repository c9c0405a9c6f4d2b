"""Subjects of sentences: the watched source, and its metric.

    "AAPL volume", "volume of AAPL", "AAPL's volume" ─▶ (AAPL, volume)        "trading volume" ─▶ (None, trading volume)

A source is recognised by its spelling (capitals, digits, a hyphen, a proper noun), by its noun ("the checkout service")
or by its place ("of the freezer"); a metric by a table of words. Anything else is None.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from cofio.text import lazy_re

MOST = 6  # words of a name; longer phrases are clauses


class Subject(NamedTuple):
    """Source and metric, either of which may be missing."""

    source: str | None
    metric: str | None


def parse_subject(phrase: str) -> Subject | None:
    """Return the subject that the phrase names; None if that is ambiguous."""
    name = strip_filler(phrase)
    if not name or _is_clause(name):
        return None
    return _match_possessive(name) or _match_preposition(name) or _match_adjacent(name)


def strip_filler(phrase: str) -> str:
    """Return the phrase without leading articles, possessives and quotation marks."""
    name = " ".join(phrase.split()).strip(" ,;:\"'`“”‘’")
    while match := _OPENS.match(name):
        name = name[match.end() :]
    return name


def source_name(phrase: str) -> str | None:
    """Return the phrase as the name of a source; None if it may be something else."""
    name = strip_filler(phrase)
    words = name.split()
    if not words or _is_clause(name) or _PREPOSED.search(name) or is_metric(words[-1]) or any(map(is_time, words)):
        return None
    is_named = is_name(words[0]) or (len(words) > 1 and _NUMBERED.fullmatch(words[-1]) is not None)
    is_place = _ARTICLE.match(phrase.strip()) is not None or (len(words) > 1 and words[-1].lower() in _PLACES)
    return _strip_kind(name) if is_named or is_place else None


def parse_side(phrase: str) -> str | None:
    """Return the phrase as one side of a correlation, `price of BTC` as `BTC price`; None for a clause."""
    name = strip_filler(phrase)
    if not name or _is_clause(name):
        return None
    subject = _match_possessive(name) or _match_preposition(name)
    return f"{subject.source} {subject.metric}" if subject and subject.source and subject.metric else name


def is_thing(phrase: str) -> bool:
    """Return whether the phrase names something an agent may watch: it has a name or a metric word."""
    return any(is_name(word) or is_metric(word) for word in phrase.split()) and not _PEOPLE_IN.search(phrase)


def leading_name(sentence: str) -> str:
    """Return the names at the start of a sentence if their spelling is distinctive, such as AAPL or web-1; else ""."""
    words = strip_filler(sentence).split()
    names: list[str] = []
    for word in words[:3]:
        core = word.rstrip(",:;").removesuffix("'s").removesuffix("’s")
        core = core.rpartition("/")[0] if is_metric(core.rpartition("/")[2]) and "/" in core else core
        if not _is_marked(core) or is_metric(core):
            break
        names.append(core)
        if core != word:
            break
    return " ".join(names)


def is_name(word: str) -> bool:
    """Return whether a word is spelled like a name: AAPL, web-1, BTC/USD, checkoutApi, Frankfurt."""
    if is_metric(word) or word.lower() in _CALENDAR:
        return False
    return _is_marked(word) or (word[:1].isupper() and word[1:].islower())


def is_metric(word: str) -> bool:
    """Return whether a word is in the table of metrics."""
    return word.lower() in _METRICS or _PERCENTILE.fullmatch(word) is not None


def is_time(word: str) -> bool:
    """Return whether a word is of the calendar or the clock."""
    return word.lower() in _CALENDAR


def _match_possessive(phrase: str) -> Subject | None:
    """Match "AAPL's volume"."""
    match = _POSSESSIVE.match(phrase)
    if match is None or _PREPOSED.search(match["rest"]):
        return None
    return Subject(strip_filler(match["owner"]), match["rest"])


def _match_preposition(phrase: str) -> Subject | None:
    """Match "the latency of the checkout service" or "the number of errors on web-1"."""
    places = list(_PREPOSED.finditer(phrase))
    if places and places[0][1].lower() == "of" and phrase[: places[0].start()].lower() in _COUNTED:
        places = places[1:]  # "number of errors" is one metric
        if not places:
            return Subject(None, phrase)
    if len(places) != 1:
        return None
    metric, where = phrase[: places[0].start()], phrase[places[0].end() :]
    if any(map(is_name, metric.split())) or not strip_filler(where):
        return None
    if places[0][1].lower() in ("in", "at", "from"):  # "time in queue" may be the metric itself
        source = source_name(where)
        return Subject(source, metric) if source else None
    words = strip_filler(where).split()
    if any(map(is_time, words)) or is_metric(words[-1]):
        return None
    return Subject(_strip_kind(strip_filler(where)), metric)


def _match_adjacent(phrase: str) -> Subject | None:
    """Match "AAPL volume", "the checkout service latency" or "trading volume"."""
    match = _SLASHED.match(phrase) if "/" in phrase else None
    if match and is_metric(match["metric"].split()[-1]) and not any(map(is_name, match["metric"].split())):
        return Subject(match["name"], match["metric"])
    if _PREPOSED.search(phrase):
        return None
    words = phrase.split()
    names = _count_names(words)
    if names == len(words):
        return Subject(phrase, None)
    if any(map(is_name, words[names + 1 :])) and not any(map(is_metric, words)):
        return None
    return Subject(_strip_kind(" ".join(words[:names])) or None, " ".join(words[names:]))


def _count_names(words: list[str]) -> int:
    """Return the number of leading words that name the source."""
    for place, word in enumerate(words[:-1], 1):
        if place > 1 and word.lower() in _PLACES:  # "checkout service": the word before identifies it
            return place + (words[place].isdigit() and place + 1 < len(words))
    count = 0
    while count < len(words) and (is_name(words[count]) or (count and words[count].isdigit())):
        count += 1
    if not count and len(words) > 2 and words[1].isdigit() and words[0].islower() and not is_metric(words[0]):
        return 2  # "freezer 2 temperature"
    return count


def _strip_kind(name: str) -> str:
    """Return "AAPL" for "AAPL stock": a ticker is sufficient."""
    first, _, kind = name.partition(" ")
    return first if kind.lower() in ("stock", "shares", "etf") and _TICKER.fullmatch(first) else name


def _is_clause(phrase: str) -> bool:
    """Return whether the phrase is more than a name: it has a verb, a pronoun, a conjunction or too many words."""
    words = [word.lower() for word in phrase.split()]
    if len(words) > MOST or words[-1] in _HANGING:
        return True
    return not _NO_NAME.isdisjoint(words) or _ENDS_A_NAME.search(phrase) is not None


def _is_marked(word: str) -> bool:
    """Return whether the spelling is distinctive: capitals, digits, inner capitals, signs or a hyphen."""
    if _TICKER.fullmatch(word):
        return word not in _NO_TICKER
    if _CODED.fullmatch(word) is None:
        return False
    if "-" in word and not any(letter.isdigit() or letter.isupper() for letter in word):
        return _PLAIN_HYPHEN.match(word) is None
    return not _ORDINAL.fullmatch(word)


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_OPENS = lazy_re.compile(
    r"(?:the|an?|its|their|our|my|your|this|that|these|those|his|her|overall|current)\s+(?=\S)", re.I
)
_ARTICLE = lazy_re.compile(r"(?:the|our)\s", re.I)
_POSSESSIVE = lazy_re.compile(r"(?P<owner>[^\s'’]+(?: [^\s'’]+){0,3}?)(?:['’]s|(?<=s)['’])\s+(?P<rest>.+)")
_PREPOSED = lazy_re.compile(r"\s+(of|on|for|in|at|from|across)\s+", re.I)
_HANGING = frozenset("of on for in at from across up down off out over under through past".split())
_SLASHED = lazy_re.compile(r"(?P<name>[^\s/][^/]{0,60})/(?P<metric>[A-Za-z][\w -]{0,60})$")
_TICKER = lazy_re.compile(r"[$^]?[A-Z][A-Z0-9]{0,9}(?:[./:&=-][A-Z0-9]{1,10}){0,3}")
_CODED = lazy_re.compile(
    r"(?=.{2,80}\Z)(?:/?\w+(?:[-./:_@]\w+)+|[A-Za-z_]+\d\w*|\d+[A-Za-z]\w*|[a-z]+[A-Z]\w*|[A-Z][a-z]+[A-Z]\w*|/\w+)"
)
_ORDINAL = lazy_re.compile(r"\d+(?:st|nd|rd|th|x|[a-z])", re.I)
_NUMBERED = lazy_re.compile(r"\d{1,6}|[A-Z]")
_PERCENTILE = lazy_re.compile(r"[pP]\d{2,3}|[1-5]xx")
#: Prefixes of ordinary hyphenated words.
_PLAIN_HYPHEN = lazy_re.compile(
    r"(?:pre|post|real|non|long|short|high|low|year|week|month|day|end|over|on|off|in|up|re|multi|intra|inter|after|mid"
    r"|first|second|third|peak|per|time|read|write|out|sign|log|round|full|half|one|two|three|built|left|right|cross"
    r"|single|double|open|closed?|near|far|year|early|late|well|self|co|sub|super|ultra|risk|lead|lag|hour|minute|trip)-"
)
#: Words in capitals that are not sources.
_NO_TICKER = frozenset(
    """
    I A OK US UK EU IT AM PM AND OR NOT IF THE TO IS ON OF BY HTTP HTTPS DNS TCP UDP API SSL TLS SQL JVM GC IP URL UI DB
    CEO CFO CTO COO SRE
    OOM LAN WAN VPN CDN SSD HDD NIC UTC GMT
    """.split()
)
_CALENDAR = frozenset(
    """
    monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays saturdays
    sundays weekday weekdays weekend weekends january february march april may june july august september october
    november december jan feb mar apr jun jul aug sep sept oct nov dec q1 q2 q3 q4 h1 h2 today tomorrow yesterday
    tonight christmas easter day days week weeks month months quarter quarters year years hour hours minute minutes
    night nights morning mornings evening evenings weekly daily monthly summer winter spring autumn
    """.split()
)
#: Words that no name contains: verbs, pronouns, conjunctions and the like.
_NO_NAME = frozenset(
    """
    and or but nor if when while because since unless until than as so then that which who whom whose where why how
    i we you he she it they them us me there here this these those someone something anything everything nothing
    is are was were be been being am has have had do does did will would could should might must can cannot may shall
    not no never to by with without within after before during between against versus vs via about like into
    more less most least very too also both either neither every each any all some only just ever again once
    see sees saw gets get got goes go went makes make made takes take took comes come came becomes become
    version date time-of-day deadline password
    """.split()
)
_ENDS_A_NAME = lazy_re.compile(r"[?!;:()\[\]{}<>=\"“”]|,(?!\d)|\s[-–—]\s|…|\b\w+n['’]t\b")
#: Nouns that form a source with the words before them: the checkout service, the eu cluster.
_PLACES = frozenset(
    """
    service server host node cluster database db sensor room pump tank pipeline job api endpoint machine container pod
    region datacenter rack zone boiler freezer fridge motor turbine valve plant reactor oven worker replica shard
    bucket topic partition gateway proxy balancer stock index pair etf fund station probe meter line site store
    warehouse vm instance function lambda
    """.split()
)
_COUNTED = frozenset(
    """
    number count percentage percent share rate ratio amount sum total proportion fraction standard-deviation average
    mean median
    """.split()
)
_PEOPLE_IN = lazy_re.compile(
    r"(?i)\b(?:team|squad|project|meeting|department|effort|discussion|call|rollout|migration)\b"
)
_METRICS = frozenset(
    """
    volume volumes turnover price prices close spread volatility drawdown return returns yield yields rsi macd atr obv
    vwap eps p/e pe roi ctr apr apy liquidity depth premium discount dominance hashrate momentum beta sharpe funding
    inventory stock-level demand supply sales revenue orders signups churn conversion conversions traffic visits
    cpu gpu ram memory disk swap heap storage space load utilization utilisation usage latency latencies lag throughput
    bandwidth jitter uptime downtime availability errors error failures failure timeouts retries restarts requests
    qps rps tps iops io i/o rtt ttfb connections sessions threads goroutines queue backlog size length count counts
    rate rates ratio level levels duration runtime age time times response utilisations saturation occupancy
    temperature temperatures humidity pressure voltage current power energy consumption flow speed velocity vibration
    acceleration torque rpm level noise brightness illuminance co2 co₂ ph turbidity conductivity moisture salinity
    weight mass density concentration pm2.5 pm10 nox radiation wind rainfall snr rssi signal battery charge frequency
    change score index-level value values cost costs spend margin exposure position balance
    """.split()
)
