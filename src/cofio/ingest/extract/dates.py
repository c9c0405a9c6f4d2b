"""Resolution of relative dates: "until next Friday", said on 2026-11-17, becomes "until next Friday (2026-11-27)".

A memory is read weeks later, when "tomorrow" means another day. Only phrases for one day, week, month or year are
resolved; "recently" and "soon" stay as they are.
"""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import date, timedelta
from typing import Literal

from cofio.text import lazy_re

_WEEKDAYS = ("mon", "tues", "wednes", "thurs", "fri", "satur", "sun")
_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "ten": 10}
_NEAR = 600  # characters in which verbs are searched: facts are shorter
_PHRASE = lazy_re.compile(
    r"\b(?:(?P<day>today|tonight|tomorrow|yesterday|day after tomorrow)"
    r"|(?P<which>next|last|this|coming|by|on|until|till|since|from|before|after) "
    r"(?P<weekday>mon|tues|wednes|thurs|fri|satur|sun)day(?!s)"
    r"|(?P<span>next|last|this) (?P<unit>week|month|quarter|year)"
    r"|(?:the )?end of (?:the |this )?(?P<end>week|month|quarter|year)"
    r"|in (?P<ahead>\d{1,3}|an?|one|two|three|four|five|six|seven|ten) (?P<ahead_unit>day|week|month|year)s?"
    r"|(?P<ago>\d{1,3}|an?|one|two|three|four|five|six|seven|ten) (?P<ago_unit>day|week|month|year)s? ago"
    r"|(?:on|by|until|till|to|before|from|after) the (?P<monthday>[12]?\d|3[01])(?:st|nd|rd|th)"
    r"(?=[,.;:!?)]|$| (?:to|and|at|in|it|we|i|so|but|with|because|instead|now|latest)\b))\b"
    r"(?! ?\(\d{4}-)",
    re.IGNORECASE,
)
_MONTH = lazy_re.compile(
    r"\b(?:january|february|march|april|may|june|july|august|september|october|november|december"
    r"|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\b",
    re.IGNORECASE,
)
#: Verbs in the past tense; words that may be past tense; words for the present or the future.
_PAST = lazy_re.compile(r"\b(?:was|were|did|got|went|came|said|met|saw|left|took|gave|found|ran)\b", re.IGNORECASE)
_MAYBE_PAST = lazy_re.compile(r"\b(?:[a-z]{2,}ed|had|made|told)\b", re.IGNORECASE)
_AHEAD = lazy_re.compile(
    r"\b(?:is|are|will|shall|must|should|can|has|have|needs?|going to|due|please|let)\b|['’](?:s|ll|re)\b",
    re.IGNORECASE,
)


def resolve(text: str, said_at: str) -> str:
    """Return the text with the date appended to each relative one. `said_at` is an ISO time, or "" for no change."""
    try:
        today = date.fromisoformat(said_at[:10])
    except ValueError:
        return text

    direction: Literal["ahead", "back", "open"] | None = None

    def append_date(match: re.Match[str]) -> str:
        nonlocal direction
        groups = {name: value.lower() for name, value in match.groupdict().items() if value}
        if direction is None and (groups.get("which") == "on" or "monthday" in groups):
            direction = _find_direction(text)
        # A wrong date is worse than no date: ambiguous phrases are left undated.
        if "monthday" in groups and (direction != "ahead" or _MONTH.search(text[:_NEAR])):
            return match[0]
        if groups.get("which") == "on" and direction == "back":
            groups["which"] = "last"
        elif groups.get("which") == "on" and direction == "open":
            return match[0]
        return f"{match[0]} ({_compute_date(groups, today)})"

    return _PHRASE.sub(append_date, text)


def _find_direction(text: str) -> Literal["ahead", "back", "open"]:
    """Return the direction of a bare weekday or day of the month: ahead, unless verbs may be in the past tense."""
    near = text[:_NEAR]
    is_past, may_be_past = _PAST.search(near) is not None, _MAYBE_PAST.search(near) is not None
    if not is_past and not may_be_past:
        return "ahead"
    return "open" if may_be_past or _AHEAD.search(near) else "back"


def _compute_date(groups: dict[str, str], today: date) -> str:
    if day := groups.get("day"):
        return str(today + timedelta({"tomorrow": 1, "yesterday": -1, "day after tomorrow": 2}.get(day, 0)))
    if weekday := groups.get("weekday"):
        return str(_find_weekday(groups["which"], _WEEKDAYS.index(weekday), today))
    if number := groups.get("monthday"):  # the next day with this number; only the month if it has no such day
        months = today.year * 12 + today.month - 1 + (int(number) < today.day)
        year, month = months // 12, months % 12 + 1
        return f"{year}-{month:02}" + (f"-{int(number):02}" if int(number) <= monthrange(year, month)[1] else "")
    if span := groups.get("span"):
        return _name_period(groups["unit"], {"next": 1, "last": -1, "this": 0}[span], today)
    if unit := groups.get("end"):
        if unit == "week":
            return str(today + timedelta(6 - today.weekday()))
        month = {"month": today.month, "quarter": (today.month + 2) // 3 * 3, "year": 12}[unit]
        return str(date(today.year, month, monthrange(today.year, month)[1]))
    sign, count, unit = (
        (1, groups["ahead"], groups["ahead_unit"]) if "ahead" in groups else (-1, groups["ago"], groups["ago_unit"])
    )
    by = sign * (int(count) if count.isdigit() else _NUMBERS[count])
    if unit in ("month", "year"):
        return _name_period(unit, by, today)
    return str(today + timedelta(weeks=by) if unit == "week" else today + timedelta(by))


def _find_weekday(which: str, index: int, today: date) -> date:
    """Return a weekday: "next" is in the next week, "last" and "since" are past, others are the nearest ahead."""
    if which in ("last", "since"):
        return today - timedelta((today.weekday() - index) % 7 or 7)
    if which == "next":
        return today + timedelta(7 - today.weekday() + index)
    return today + timedelta((index - today.weekday()) % 7)


def _name_period(unit: str, by: int, today: date) -> str:
    if unit == "week":
        return f"week of {today + timedelta(7 * by - today.weekday())}"
    if unit == "year":
        return str(today.year + by)
    months = today.year * 12 + today.month - 1
    if unit == "quarter":
        quarter = months // 3 + by
        return f"Q{quarter % 4 + 1} {quarter // 4}"
    months += by
    return f"{months // 12}-{months % 12 + 1:02}"
