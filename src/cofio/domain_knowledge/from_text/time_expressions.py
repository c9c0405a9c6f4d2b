"""Times in seasonal sentences, in the format of seasonal patterns.

    "on Fridays between 14:00 and 16:00" ─▶ weekly, fri 14:00-16:00        "every December" ─▶ yearly, dec

Only recurring times count: "on Friday" and "in December" are single events, unless the sentence says "always" or the
like. Sentences with exceptions ("every other", "except", "before earnings") are skipped: no field can hold them.
"""

from __future__ import annotations

import re
from itertools import pairwise

from cofio.domain_knowledge.from_text import metric_names
from cofio.text import lazy_re


def parse_times(sentence: str) -> dict[str, str] | None:
    """Return period, times and timezone in the sentence; None if it has no time, several times, or vague ones."""
    text = f" {' '.join(sentence.replace('’', chr(39)).split())} "
    if _NARROWED.search(text):
        return None
    hours, rest = _parse_hours(text)
    days_by_period = {"weekly": _parse_weekly(rest), "monthly": _parse_monthly(rest), "yearly": _parse_yearly(rest)}
    matches = [(period, days) for period, days in days_by_period.items() if days]
    if hours is None or len(matches) > 1:
        return None
    zone = _parse_zone(text) if hours else "UTC"
    if zone is None:
        return None
    if matches:
        period, days = matches[0]
        return {"period": period, "during": f"{days} {hours}".strip(), "timezone": zone}
    daily = _DAILY.search(rest) or _HABIT.search(rest)
    return {"period": "daily", "during": hours, "timezone": zone} if hours and daily else None


def is_season(sentence: str) -> bool:
    """Return whether the sentence describes how a watched thing behaves at recurring times."""
    if not _BEHAVES.search(sentence) or _TASK.match(sentence) or not metric_names.is_thing(sentence):
        return False
    return parse_times(sentence) is not None


def _parse_hours(text: str) -> tuple[str | None, str]:
    """Return the hours of the day ("" for none, None if ambiguous), and the sentence without them."""
    matches = list(_SPAN.finditer(text))
    rest = _SPAN.sub(" ", text)
    if _CLOCK.search(rest) or len(matches) > 1:
        return None, rest
    if not matches:
        return "", rest
    match = matches[0]
    half = match["from_half"]
    if not half and match["half"] and match["from"].lower() not in _NAMED and match["to"].lower() not in _NAMED:
        is_same_half = int(match["from"]) % 12 < int(match["to"]) % 12  # "from 9 to 11 am"
        half = match["half"] if is_same_half else "unknown half"
    begins = _parse_clock(match["from"], match["from_minute"], half)
    ends = _parse_clock(match["to"], match["to_minute"], match["half"])
    return (f"{begins}-{ends}" if begins and ends and begins != ends else None), rest


def _parse_clock(hour: str, minute: str | None, half: str | None) -> str:
    """Return a time such as 09:30; "" if it is not a time of day."""
    if hour.lower() in _NAMED:
        return _NAMED[hour.lower()]
    number, minutes = int(hour), int(minute or 0)
    if half:
        if not 1 <= number <= 12 or half[0].lower() not in "ap":
            return ""
        number = number % 12 + (12 if half.lower().startswith("p") else 0)
    return f"{number:02}:{minutes:02}" if number < 24 and minutes < 60 else ""


def _parse_weekly(text: str) -> str:
    """Return the weekdays, if the sentence says that they recur; else ""."""
    if _OF_MONTH.search(text):
        return ""
    if _WEEKENDS.search(text):
        return "sat,sun"
    if _WEEKDAYS.search(text):
        return "mon-fri"
    if match := _DAYS_FROM.search(text):
        recurs = match["plural"] or _HABIT.search(text) or _EVERY.search(text)
        return f"{_abbreviate(match['from'])}-{_abbreviate(match['to'])}" if recurs else ""
    return _join_names(_DAY, text) if _DAYS_AGAIN.search(text) else ""


def _parse_monthly(text: str) -> str:
    """Return the day of every month; "" if there is none."""
    match = _OF_MONTH.search(text)
    if match is None:
        return "last" if _MONTH_END.search(text) else ""
    if match["which"]:
        return f"{match['which'].lower()} {_abbreviate(match['day'])}"
    if match["number"]:
        return match["number"]
    return "last" if match["last"] else "1"


def _parse_yearly(text: str) -> str:
    """Return the months or the quarter, if the sentence says that they recur; else ""."""
    if not _HABIT.search(text) and not _EVERY.search(text):
        return ""
    if match := _QUARTER.search(text):
        return match[1].lower()
    if match := _MONTHS_FROM.search(text):
        return f"{_abbreviate(match['from'])}-{_abbreviate(match['to'])}"
    return _join_names(_MONTH, text)


def _join_names(names: re.Pattern[str], text: str) -> str:
    """Return the days or months if they are one list; "" if other words come between them."""
    matches = list(names.finditer(text))
    if not all(_BETWEEN_NAMES.fullmatch(text[one.end() : other.start(1)]) for one, other in pairwise(matches)):
        return ""
    return ",".join(dict.fromkeys(_abbreviate(match[1]) for match in matches))


def _parse_zone(text: str) -> str | None:
    """Return the timezone, UTC if none is named; None if it is unknown."""
    zones = {match[0].strip().upper().split()[0] for match in _ZONE.finditer(text)}
    if len(zones) > 1 or _OTHER_ZONE.search(text):
        return None
    return _ZONES[zones.pop()] if zones else "UTC"


def _abbreviate(name: str) -> str:
    return name.lower()[:3]


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_NAMES_OF_DAYS = "monday|tuesday|wednesday|thursday|friday|saturday|sunday"
_NAMES_OF_MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"
_HABIT = lazy_re.compile(
    r"\b(?:typically|usually|always|consistently|regularly|generally|tends? to|normally|often)\b", re.I
)
_EVERY = lazy_re.compile(r"\b(?:every|each)\b", re.I)
_DAILY = lazy_re.compile(r"\b(?:every day|each day|daily|every weekday)\b", re.I)
_NARROWED = lazy_re.compile(
    r"\b(?:every (?:other|second|third|few|\d)|except|unless|but not|not|never|no longer|n't|alternate|biweekly|before"
    r"|after|until|following|around holidays|last (?:week|month|year|night)|this (?:week|month|year)|next (?:week"
    r"|month))\b|n't\b|\?",
    re.I,
)
_SPAN = lazy_re.compile(
    r"(?<!\w)(?:between |from )?(?:(?P<from>\d{1,2}(?=:\d\d|\s?[ap]\.?m\b|\s?(?:-|–|to"
    r"|and)\s?\d{1,2}\s?[ap]m\b)|noon|midnight)"
    r"(?::(?P<from_minute>\d\d))?\s?(?P<from_half>[ap]\.?m\b\.?)?)\s?(?:-|–|—|to|and|until|till)\s?"
    r"(?P<to>\d{1,2}(?=:\d\d|\s?[ap]\.?m\b)|noon|midnight)(?::(?P<to_minute>\d\d))?\s?(?P<half>[ap]\.?m\b\.?)?(?!\w)",
    re.I,
)
_CLOCK = lazy_re.compile(r"\b\d{1,2}:\d\d\b|\b\d{1,2}\s?[ap]\.?m\b|\b(?:noon|midnight|o'clock)\b", re.I)
_NAMED = {"noon": "12:00", "midnight": "00:00"}
_WEEKENDS = lazy_re.compile(r"\b(?:on|at|over|every|each)(?: the)? weekends?\b", re.I)
_WEEKDAYS = lazy_re.compile(r"\b(?:on|every|each) (?:weekdays?|working days?|business days?)\b", re.I)
_DAY = lazy_re.compile(rf"\b({_NAMES_OF_DAYS})s?\b", re.I)
_BETWEEN_NAMES = lazy_re.compile(r"s?[\s,/&]*(?:and|or)?\s*(?:on|every|each|in)?\s*", re.I)
_DAYS_AGAIN = lazy_re.compile(rf"\b(?:{_NAMES_OF_DAYS})s\b|\b(?:every|each) (?:{_NAMES_OF_DAYS})\b", re.I)
_DAYS_FROM = lazy_re.compile(
    rf"\b(?P<from>{_NAMES_OF_DAYS})s? ?(?:to|through|until|-|–) ?(?P<to>{_NAMES_OF_DAYS})(?P<plural>s)?\b", re.I
)
_OF_MONTH = lazy_re.compile(
    rf"\b(?:on )?the (?:(?P<which>first|second|third|fourth|last) (?P<day>{_NAMES_OF_DAYS})"
    rf"|(?P<last>last day)|first day"
    r"|(?P<number>[12]?\d|3[01])(?:st|nd|rd|th)) of (?:the|each|every) month\b",
    re.I,
)
_MONTH_END = lazy_re.compile(
    r"\b(?:at|near|on|by|every|each)(?: the)? (?:month[- ]end|end of (?:the|each|every) month)\b", re.I
)
_MONTH = lazy_re.compile(rf"\b(?:in|every|each|and|or|,) ({_NAMES_OF_MONTHS})\b", re.I)
_MONTHS_FROM = lazy_re.compile(
    rf"\b(?P<from>{_NAMES_OF_MONTHS}) (?:to|through|until) (?P<to>{_NAMES_OF_MONTHS})\b", re.I
)
_QUARTER = lazy_re.compile(r"\b(?:in|every|each|during) (q[1-4])\b", re.I)
_ZONES = {
    "UTC": "UTC", "GMT": "UTC", "ET": "America/New_York", "EST": "America/New_York", "EDT": "America/New_York",
    "PT": "America/Los_Angeles", "PST": "America/Los_Angeles", "PDT": "America/Los_Angeles", "CET": "Europe/Paris",
    "CEST": "Europe/Paris", "JST": "Asia/Tokyo",
}  # fmt: skip
_ZONE = lazy_re.compile(rf"\b(?:{'|'.join(_ZONES)})\b")
_OTHER_ZONE = lazy_re.compile(r"\b(?:local|[a-z]+ time|CT|CST|CDT|IST|BST|HKT|MST|MDT|AEST)\b")
_BEHAVES = lazy_re.compile(
    r"\b(?:peaks?|rises?|falls?|drops?|spikes?|dips?|doubles|triples|halves|slows?(?: down)?|picks? up|increases?"
    r"|decreases?|climbs?|surges?|declines?|grows?|shrinks?|jumps?|slumps?|goes (?:up|down)|(?:is|are|stays?|runs?"
    r"|gets?) (?:\w+ )?(?:high|higher|highest|low|lower|lowest|elevated|thin|heavy|light|slow|busy|quiet|up|down"
    r"|volatile|stable|flat|above|below))\b",
    re.I,
)
_TASK = lazy_re.compile(
    r"(?:please |i |we |you |let |let's |they )|(?:check|review|run|watch|monitor|flag|alert|compare|look"
    r"|report|send)\b",
    re.I,
)
