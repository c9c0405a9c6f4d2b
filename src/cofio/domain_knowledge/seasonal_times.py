"""Recurrence of seasonal patterns: parses their times and computes the active interval at a given time.

    daily     09:30-16:00 · 22:00-04:00 · 08:00-12:00,13:00-17:00
    weekly    mon-fri 09:30-16:00 · sat,sun · fri
    monthly   1-3 · 28-31 · last · last fri · first mon 09:00-17:00
    yearly    12-15..01-05 · jan · jul-aug · q4 · 03-17 12:00-18:00
    cron      30 14 * * fri, active for `lasts` minutes from each time

Several rules are separated by `;`; an empty text means always. Times are wall-clock times in the pattern's timezone: an
hour skipped in spring is never active, and an hour repeated in autumn is active twice.
"""

from __future__ import annotations

import logging
import re
from calendar import monthrange
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from difflib import get_close_matches
from functools import lru_cache
from itertools import product
from typing import NamedTuple, NoReturn, TypeAlias, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cofio.errors import InvalidInput
from cofio.models.domain_knowledge import ActivePattern, Seasonal
from cofio.models.memory import to_utc_iso

__all__ = ["active", "check", "window"]

_DAY = 24 * 60  # minutes
_LONG = timedelta(days=64)  # longer intervals may be endless
_FARTHEST = 4_096  # days searched in either direction; the rarest date recurs within 8 years
_CRON_LENGTH = 200
_log = logging.getLogger(__name__)


def check(seasonal: Seasonal) -> None:
    """Raise InvalidInput, with a hint, if the times of the pattern are invalid."""
    _parse_zone(seasonal.timezone)
    _parse_rule(seasonal.period, seasonal.during, seasonal.lasts)


def active(seasonals: Iterable[Seasonal], at: str) -> list[ActivePattern]:
    """Return the patterns active at a time, by confidence. Patterns with invalid times are skipped."""
    patterns = []
    for seasonal in seasonals:
        try:
            on = window(seasonal, at)
        except InvalidInput as error:
            _log.warning("Skipped the seasonal pattern %s, whose times are invalid: %s", seasonal.ref, error.message)
            continue
        if on:
            patterns.append(ActivePattern(seasonal, *on))
    return sorted(patterns, key=lambda pattern: (-pattern.seasonal.confidence, pattern.seasonal.id))


def window(seasonal: Seasonal, at: str) -> tuple[str, str] | None:
    """Return start (inclusive) and end (exclusive) of the interval that contains the time; None if inactive.

    For a pattern that is always active, returns the current day, week, month or year.
    """
    return _find_window(seasonal.period, seasonal.during, seasonal.lasts, seasonal.timezone, to_utc_iso(at))


@lru_cache(maxsize=1024)  # many patterns share their times
def _find_window(period: str, during: str, lasts: int, timezone: str, at: str) -> tuple[str, str] | None:
    zone, rule, when = _parse_zone(timezone), _parse_rule(period, during, lasts), datetime.fromisoformat(at)
    last_match = _get_cache(rule, zone)
    stretch = None
    for cached, year in last_match:
        if cached.start <= when < cached.end and (cached is not _ENDLESS or year == when.year):
            stretch = cached
    try:
        stretch = stretch or _find_stretch(rule, zone, when)
        if stretch and not rule.always and (stretch is not _ENDLESS or _is_endless(rule, zone, when.year)):
            last_match[:] = [(stretch, when.year)]
        if stretch is _ENDLESS:
            stretch = _get_calendar_period(period, zone, when)
    except (OverflowError, ValueError) as error:
        raise InvalidInput(
            f"The time {at} is outside the supported range.", "Give a time from the year 2 to 9998."
        ) from error
    return (to_utc_iso(stretch.start), to_utc_iso(stretch.end)) if stretch else None


@lru_cache(maxsize=4096)
def _get_cache(_rule: _Rule, _zone: tzinfo) -> list[tuple[_Stretch, int]]:
    """Return the cached interval found last, if any, with its year; an endless one is valid for its year only.

    Finding a long interval is slow, and lookups are usually for successive times.
    """
    return []


#: Rule that defines when a pattern is active. Its intervals reach at most `reach` beyond the day they start on.
_Rule: TypeAlias = "_Calendar | _Cron"
_Time = TypeVar("_Time", datetime, int)


class _Stretch(NamedTuple):
    """Time interval in UTC."""

    start: datetime
    end: datetime


_ENDLESS = _Stretch(datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))


def _find_stretch(rule: _Rule, zone: tzinfo, at: datetime) -> _Stretch | None:
    """Return the interval at a time, merged with adjacent ones. Widens the search until nothing adjoins."""
    if rule.always:
        return _ENDLESS
    today, span = at.astimezone(zone).date(), timedelta(days=2) + timedelta(days=rule.reach.days)
    while span < timedelta(days=_FARTHEST):
        first, last = today - span, today + span
        stretches = _list_stretches(rule, zone, first, last)
        match = next((stretch for stretch in stretches if stretch.start <= at < stretch.end), None)
        # UTC offsets are less than a day, so intervals that start outside the searched days cannot adjoin.
        begins, ends = _to_midnight(first) + timedelta(days=1) + rule.reach, _to_midnight(last)
        if match is None or (begins < match.start and match.end < ends):
            return match
        if span > _LONG and _is_endless(rule, zone, today.year):
            break
        span *= 2
    return _ENDLESS


def _list_stretches(rule: _Rule, zone: tzinfo, first: date, last: date) -> list[_Stretch]:
    """Return the intervals that start from the first to the last day, overlapping and adjacent ones merged."""
    stretches = (stretch for day in _iterate_days(first, last) for stretch in rule.of(day, zone))
    return [_Stretch(*span) for span in _merge_spans(stretches)]


def _merge_spans(spans: Iterable[tuple[_Time, _Time]]) -> list[tuple[_Time, _Time]]:
    """Merge overlapping and adjacent spans, in order."""
    merged: list[tuple[_Time, _Time]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


@lru_cache(maxsize=1024)
def _is_endless(rule: _Rule, zone: tzinfo, year: int) -> bool:
    """Return whether it is active without a break for the years around this one."""
    first, last = date(year - 5, 1, 1), date(year + 5, 12, 31)
    return any(
        stretch.start <= _to_midnight(date(year - 4, 1, 1)) and stretch.end >= _to_midnight(last)
        for stretch in _list_stretches(rule, zone, first, last)
    )


def _get_calendar_period(period: str, zone: tzinfo, at: datetime) -> _Stretch:
    """Return the day, week, month or year of the zone that contains a time."""
    day = at.astimezone(zone).date()
    match period:
        case "weekly":
            first = day - timedelta(days=day.weekday())
            after = first + timedelta(days=7)
        case "monthly":
            first = day.replace(day=1)
            after = (first + timedelta(days=31)).replace(day=1)
        case "yearly":
            first = day.replace(month=1, day=1)
            after = first.replace(year=first.year + 1)
        case _:
            first, after = day, day + timedelta(days=1)
    return _Stretch(*(_to_midnight(boundary).replace(tzinfo=zone).astimezone(UTC) for boundary in (first, after)))


def _iterate_days(first: date, last: date) -> Iterator[date]:
    return (date.fromordinal(number) for number in range(first.toordinal(), last.toordinal() + 1))


def _to_midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


# ── wall-clock time ───────────────────────────────────────────────────────────────────────────────────────────────────


class _Clock(NamedTuple):
    """UTC offsets of a zone on a day, and the moment of a change between them, if any."""

    before: timedelta
    after: timedelta
    turn: datetime  # the first moment of `after`

    @classmethod
    @lru_cache(maxsize=16_384)  # shared by all patterns of a zone
    def of(cls, day: date, zone: tzinfo) -> _Clock:
        """Return the offsets, searching all moments that have this date in any timezone."""
        first, last = _to_midnight(day) - timedelta(hours=16), _to_midnight(day) + timedelta(hours=40)
        before, after = _get_offset(first, zone), _get_offset(last, zone)
        if before == after:
            return cls(before, after, first)
        low, high = 0, int((last - first).total_seconds())  # invariant: `after` applies at high and not at low
        while high - low > 1:
            middle = (low + high) // 2
            if _get_offset(first + timedelta(seconds=middle), zone) == before:
                low = middle
            else:
                high = middle
        return cls(before, after, first + timedelta(seconds=high))

    def steady(self, midnight: datetime) -> timedelta | None:
        """Return the UTC offset of the day that starts at this midnight (written as UTC); None if it changes."""
        starts = [midnight - offset for offset in (self.before, self.after)]
        if self.before == self.after or min(starts) >= self.turn:
            return self.after
        return self.before if max(starts) + timedelta(days=1) <= self.turn else None

    def shows(self, start: datetime, end: datetime) -> list[_Stretch]:
        """Return when local time is within these times (written as UTC): once, twice or never."""
        if self.before == self.after:
            return [_Stretch(start - self.after, end - self.after)]
        early = _Stretch(start - self.before, min(end - self.before, self.turn))
        late = _Stretch(max(start - self.after, self.turn), end - self.after)
        return [stretch for stretch in (early, late) if stretch.start < stretch.end]


def _get_offset(at: datetime, zone: tzinfo) -> timedelta:
    return at.astimezone(zone).utcoffset() or timedelta(0)


def _parse_zone(name: str) -> tzinfo:
    if name.upper() == "UTC":
        return UTC  # works without a timezone database
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        names = {timezone.casefold(): timezone for timezone in available_timezones()}
        near = get_close_matches(name.casefold(), names, 1)
        hint = f"Give an IANA timezone name, such as {names[near[0]] if near else 'Europe/London'}."
        raise InvalidInput(f"There is no timezone {name!r}.", hint) from error


# ── calendars ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_EVERY_YEAR = (date(2000, 1, 1), date(2027, 12, 31))  # covers leap years and all weekday offsets
#: Predicate that selects days.
_Is = Callable[[date], bool]


class _Clause(NamedTuple):
    """Selected days and times in minutes; a time that ends before it starts ends on the next day."""

    is_on: _Is
    times: tuple[tuple[int, int], ...]

    def minutes(self, day: date) -> Iterator[tuple[int, int]]:
        """Yield the active minutes of a day, including those that started on the previous day."""
        if self.is_on(day):
            yield from ((start, end if start < end else _DAY) for start, end in self.times)
        if any(start > end for start, end in self.times) and self.is_on(day - timedelta(days=1)):
            yield from ((0, end) for start, end in self.times if start > end)


@dataclass(frozen=True, slots=True, eq=False)  # identity hash, for the caches
class _Calendar:
    """Rule by local wall-clock time."""

    clauses: tuple[_Clause, ...]
    always: bool = False
    reach: timedelta = timedelta(0)  # intervals past midnight are attributed to the next day

    def minutes(self, day: date) -> list[tuple[int, int]]:
        return _merge_spans(minute for clause in self.clauses for minute in clause.minutes(day))

    def of(self, day: date, zone: tzinfo) -> Iterable[_Stretch]:
        """Return the intervals that start on a day of the zone."""
        midnight, clock = _to_midnight(day), None
        for start, end in self.minutes(day):
            clock = clock or _Clock.of(day, zone)
            yield from clock.shows(midnight + timedelta(minutes=start), midnight + timedelta(minutes=end))


@lru_cache(maxsize=1024)
def _parse_rule(period: str, during: str, lasts: int) -> _Rule:
    """Parse the times of a pattern."""
    if period == "cron":
        return _parse_cron(during, lasts)
    text = re.sub(r"\s*(,|;|-|\.\.)\s*", r"\1", " ".join(during.lower().replace("–", "-").split()))
    if not text:
        return _Calendar((), always=True)
    calendar = _Calendar(tuple(_parse_clause(period, clause) for clause in text.split(";")))
    return replace(calendar, always=all(calendar.minutes(day) == [(0, _DAY)] for day in _iterate_days(*_EVERY_YEAR)))


def _parse_clause(period: str, text: str) -> _Clause:
    match = _CLAUSE.fullmatch(text)
    days, times = (match["days"], match["times"]) if match else (text, None)
    if not days and not times:
        _refuse(text, period)
    hours = tuple(_parse_span(span, period) for span in times.split(",")) if times else ((0, _DAY),)
    if period == "daily" and days:
        _refuse(days, period)
    conditions = [_DAYS_OF[period](day) for day in days.split(",")] if days else []
    return _Clause(lambda day: not conditions or any(is_on(day) for is_on in conditions), hours)


_TIMES = r"\d{1,2}:\d\d-\d{1,2}:\d\d"
_CLAUSE = re.compile(rf"(?P<days>.*?)(?:(?:^|\s)(?P<times>{_TIMES}(?:,{_TIMES})*))?")


def _parse_span(text: str, period: str) -> tuple[int, int]:
    """Parse `09:30-16:00` into minutes of the day."""
    start, end = (int(clock[:-3]) * 60 + int(clock[-2:]) for clock in text.split("-"))
    if start >= _DAY or end > _DAY or start == end or any(clock[-2:] > "59" for clock in text.split("-")):
        _refuse(text, period)
    return start, end or _DAY


def _parse_weekly(text: str) -> _Is:
    """Parse `fri`, `mon-fri`, `weekdays`."""
    first, last = _split_range(_NAMED_DAYS.get(text, text), text, "weekly")
    start, end = (_find_index(name, _WEEKDAYS, text, "weekly") for name in (first, last))
    return lambda day: (day.weekday() - start) % 7 <= (end - start) % 7


def _split_range(names: str, clause: str, period: str) -> tuple[str, str]:
    """Return the first and the last name of `mon-fri`, or `fri` twice."""
    first, *others = names.split("-")
    if len(others) > 1:
        _refuse(clause, period)
    return first, others[0] if others else first


def _parse_monthly(text: str) -> _Is:
    """Parse `15`, `28-31`, `last`, `last fri`, `first mon`."""
    if match := re.fullmatch(r"(\d{1,2})(?:-(\d{1,2}))?", text):
        start, end = int(match[1]), int(match[2] or match[1])
        if not 1 <= start <= 31 or not 1 <= end <= 31:
            _refuse(text, "monthly")
        return lambda day: start <= day.day <= end if start <= end else not end < day.day < start
    ordinal, _, weekday = text.partition(" ")
    if text in ("last", "last day"):
        return lambda day: day.day == monthrange(day.year, day.month)[1]
    place = _find_index(weekday, _WEEKDAYS, text, "monthly")
    if ordinal == "last":
        return lambda day: day.weekday() == place and day.day + 7 > monthrange(day.year, day.month)[1]
    if ordinal not in _ORDINALS:
        _refuse(text, "monthly")
    return lambda day: day.weekday() == place and (day.day - 1) // 7 == _ORDINALS[ordinal]


def _parse_yearly(text: str) -> _Is:
    """Parse `12-15..01-05`, `03-17`, `jan`, `jul-aug`, `q4`."""
    if match := re.fullmatch(r"(\d\d-\d\d)(?:\.\.(\d\d-\d\d))?", text):
        start, end = ((int(day[:2]), int(day[3:])) for day in (match[1], match[2] or match[1]))
        for month, day in (start, end):
            if not 1 <= month <= 12 or not 1 <= day <= monthrange(2000, month)[1]:
                _refuse(text, "yearly")
    else:
        first, last = _split_range(text, text, "yearly")
        start, end = (_parse_months(first, text)[0], 1), (_parse_months(last, text)[1], 31)
    if start <= end:
        return lambda day: start <= (day.month, day.day) <= end
    return lambda day: not end < (day.month, day.day) < start


def _parse_months(text: str, clause: str) -> tuple[int, int]:
    """Return the first and last month of a month or quarter."""
    if re.fullmatch("q[1-4]", text):
        return int(text[1]) * 3 - 2, int(text[1]) * 3
    month = _find_index(text, _MONTHS, clause, "yearly") + 1
    return month, month


def _find_index(name: str, names: Sequence[str], clause: str, period: str) -> int:
    """Return the index of a name given in full or by its first three or more letters."""
    indices = [place for place, full_name in enumerate(names) if len(name) > 2 and full_name.startswith(name)]
    return indices[0] if indices else _refuse(clause, period)


def _refuse(text: str, period: str) -> NoReturn:
    raise InvalidInput(f"{text!r} is not a valid time of a {period} pattern.", _HINTS[period])


_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NAMED_DAYS = {"weekdays": "mon-fri", "weekday": "mon-fri", "weekend": "sat-sun", "weekends": "sat-sun"}
_MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
           "november", "december")  # fmt: skip
_ORDINALS = {"first": 0, "1st": 0, "second": 1, "2nd": 1, "third": 2, "3rd": 2, "fourth": 3, "4th": 3, "fifth": 4,
             "5th": 4}  # fmt: skip
_DAYS_OF: dict[str, Callable[[str], _Is]] = {
    "weekly": _parse_weekly,
    "monthly": _parse_monthly,
    "yearly": _parse_yearly,
}
_HINTS = {
    "daily": "Write 09:30-16:00, 22:00-04:00 for a night, 08:00-12:00,13:00-17:00 for several, or nothing for always.",
    "weekly": "Write mon-fri 09:30-16:00, or sat,sun, or fri; several of these with ; between them.",
    "monthly": "Write 1-3, 28-31, last, last fri or first mon, optionally with 09:30-16:00; several with ;.",
    "yearly": "Write 12-15..01-05 (month-day), jan, jul-aug, q4 or 03-17, optionally with 09:30-16:00; several with ;.",
    "cron": "Write minute, hour, day, month and weekday, such as 30 14 * * fri; `lasts` is the duration in minutes.",
}


# ── cron ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, eq=False)  # identity hash, for the caches
class _Cron:
    """Rule by cron expression: active from each time for a fixed duration."""

    is_on: _Is
    minutes: tuple[int, ...]
    runs: tuple[tuple[int, int], ...]  # merged with the duration, for a day without a clock change
    reach: timedelta  # duration
    roams: bool  # wildcard minute or hour: a repeated hour counts twice, as in Debian's cron
    always: bool = False

    def of(self, day: date, zone: tzinfo) -> Iterable[_Stretch]:
        """Return the intervals that start on a day of the zone."""
        if not self.is_on(day):
            return []
        clock, midnight = _Clock.of(day, zone), _to_midnight(day)
        offset = clock.steady(midnight)
        if offset is not None:
            begin = midnight - offset
            return [_Stretch(begin + timedelta(minutes=a), begin + timedelta(minutes=b)) for a, b in self.runs]
        starts: list[datetime] = []
        for minute in self.minutes:
            wall = midnight + timedelta(minutes=minute)
            shown = [stretch.start for stretch in clock.shows(wall, wall + timedelta(minutes=1))]
            starts += shown if self.roams else shown[:1] or [clock.turn]  # a skipped time starts right after the gap
        return [_Stretch(start, start + self.reach) for start in starts]


def _parse_cron(text: str, lasts: int) -> _Cron:
    from cronsim import CronSim, CronSimError  # deferred: only needed for cron patterns

    if len(text) > _CRON_LENGTH or len(text.split()) != 5:
        raise InvalidInput(
            f"{text[:_CRON_LENGTH]!r} does not have the five fields of a cron expression.", _HINTS["cron"]
        )
    try:
        cron = CronSim(text, _to_midnight(_EVERY_YEAR[0]))
        next(CronSim(text, _to_midnight(_EVERY_YEAR[0])))
    except (CronSimError, ValueError, OverflowError) as error:
        raise InvalidInput(f"{text!r} is not a cron expression: {error}.", _HINTS["cron"]) from error
    except StopIteration as error:
        raise InvalidInput(f"{text!r} never matches a time.", _HINTS["cron"]) from error
    minutes = tuple(sorted(hour * 60 + minute for hour, minute in product(cron.hours, cron.minutes)))
    return _Cron(
        is_on=lambda day: day.month in cron.months and cron.match_day(day),
        minutes=minutes,
        runs=tuple(_merge_spans((start, start + lasts) for start in minutes)),
        reach=timedelta(minutes=lasts),
        roams=any(part.startswith("*") for part in text.split()[:2]),
    )
