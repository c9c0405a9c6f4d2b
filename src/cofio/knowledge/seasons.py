"""When seasonal patterns are on: their times in words, and a time, in; the stretch that holds it out.

    daily     09:30-16:00 · 22:00-04:00 · 08:00-12:00,13:00-17:00
    weekly    mon-fri 09:30-16:00 · sat,sun · fri
    monthly   1-3 · 28-31 · last · last fri · first mon 09:00-17:00
    yearly    12-15..01-05 · jan · jul-aug · q4 · 03-17 12:00-18:00
    cron      30 14 * * fri, on for so many minutes from each time

Several are told apart by `;`, and nothing at all means always. What counts is the clock on the wall of the pattern's
own timezone: an hour that is left out in spring has nothing on, and one that comes twice in autumn has it twice.
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
from typing import NamedTuple, NoReturn, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cofio.domain import Active, Seasonal
from cofio.errors import InvalidInput
from cofio.model import moment

__all__ = ["active", "check", "window"]

_DAY = 24 * 60  # minutes
_LONG = timedelta(days=64)  # what goes on for longer may be endless
_FARTHEST = 4_096  # days that a stretch is followed to either side; the rarest day that there is comes in 8 years
_CRON_LENGTH = 200
_log = logging.getLogger(__name__)


def check(seasonal: Seasonal) -> None:
    """InvalidInput, with what to write, unless it can be told when it is on."""
    _zone(seasonal.timezone)
    _rule(seasonal.period, seasonal.during, seasonal.lasts)


def active(seasonals: Iterable[Seasonal], at: str) -> list[Active]:
    """Those that are on at a time, the surest first. One whose times make no sense is passed over."""
    found = []
    for each in seasonals:
        try:
            on = window(each, at)
        except InvalidInput as error:
            _log.warning("%s is passed over: %s", each.ref, error.message)
            continue
        if on:
            found.append(Active(each, *on))
    return sorted(found, key=lambda each: (-each.seasonal.confidence, each.seasonal.id))


def window(seasonal: Seasonal, at: str) -> tuple[str, str] | None:
    """The whole stretch that holds the time, from when (inclusive) until when (exclusive); None when it is not on.

    Of one that never ends, the day, week, month or year is told that holds the time.
    """
    return _window(seasonal.period, seasonal.during, seasonal.lasts, seasonal.timezone, moment(at))


@lru_cache(maxsize=1024)  # many patterns share their times
def _window(period: str, during: str, lasts: int, timezone: str, at: str) -> tuple[str, str] | None:
    zone, rule, when = _zone(timezone), _rule(period, during, lasts), datetime.fromisoformat(at)
    try:
        found = _known_stretch(rule, zone, when) or _stretch(rule, zone, when)
        if found and not rule.always and (found is not _ENDLESS or _endless(rule, zone, when.year)):
            _last_found(rule, zone)[:] = [(found, when.year)]
        if found is _ENDLESS:
            found = _calendar(period, zone, when)
    except (OverflowError, ValueError) as error:
        raise InvalidInput(f"{at} is too far away.", "Give a time of these centuries.") from error
    return (moment(found.start), moment(found.end)) if found else None


# ── stretches ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Stretch(NamedTuple):
    """From when until when, in UTC."""

    start: datetime
    end: datetime


class _Rule(Protocol):
    """When something is on."""

    def __hash__(self) -> int: ...

    @property
    def always(self) -> bool:
        """Whether it is known to be on at all times."""

    @property
    def reach(self) -> timedelta:
        """How long what begins on a day may last beyond it."""

    def of(self, day: date, zone: tzinfo) -> Iterable[_Stretch]:
        """What begins on a day of the zone."""


_ENDLESS = _Stretch(datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))


def _stretch(rule: _Rule, zone: tzinfo, at: datetime) -> _Stretch | None:
    """What is on at a time, joined with all that it touches. Looks farther and farther, until nothing touches it."""
    if rule.always:
        return _ENDLESS
    today, span = at.astimezone(zone).date(), timedelta(days=2) + timedelta(days=rule.reach.days)
    while span < timedelta(days=_FARTHEST):
        first, last = today - span, today + span
        joined = _joined(each for day in _days(first, last) for each in rule.of(day, zone))
        found = next((each for each in joined if each.start <= at < each.end), None)
        # No clock on a wall is a day from UTC: what begins before the first day, or after the last, is not nearer.
        begins, ends = _utc(first) + timedelta(days=1) + rule.reach, _utc(last)
        if found is None or (begins < found.start and found.end < ends):
            return found
        if span > _LONG and _endless(rule, zone, today.year):
            break
        span *= 2
    return _ENDLESS


def _known_stretch(rule: _Rule, zone: tzinfo, at: datetime) -> _Stretch | None:
    """What was found before, where that holds this time too; that it has no end counts for its year alone."""
    for found, year in _last_found(rule, zone):
        if found.start <= at < found.end and (found is not _ENDLESS or year == at.year):
            return found
    return None


@lru_cache(maxsize=4096)
def _last_found(_rule: _Rule, _zone: tzinfo) -> list[tuple[_Stretch, int]]:
    """Where the stretch that was found last is kept: to look for one takes long where it is long, and times are asked
    for one after the other."""
    return []


@lru_cache(maxsize=1024)
def _endless(rule: _Rule, zone: tzinfo, year: int) -> bool:
    """Whether it is on without a break for years around this one."""
    first, last = date(year - 5, 1, 1), date(year + 5, 12, 31)
    joined = _joined(each for day in _days(first, last) for each in rule.of(day, zone))
    return any(each.start <= _utc(date(year - 4, 1, 1)) and each.end >= _utc(last) for each in joined)


def _joined(stretches: Iterable[_Stretch]) -> list[_Stretch]:
    """The same, in order, those that overlap or touch as one."""
    joined: list[_Stretch] = []
    for each in sorted(stretches):
        if joined and each.start <= joined[-1].end:
            joined[-1] = _Stretch(joined[-1].start, max(joined[-1].end, each.end))
        else:
            joined.append(each)
    return joined


def _calendar(period: str, zone: tzinfo, at: datetime) -> _Stretch:
    """The day, week, month or year of the zone that holds a time."""
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
    return _Stretch(*(_utc(each).replace(tzinfo=zone).astimezone(UTC) for each in (first, after)))


def _days(first: date, last: date) -> Iterator[date]:
    return (date.fromordinal(number) for number in range(first.toordinal(), last.toordinal() + 1))


def _utc(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


# ── clocks on walls ───────────────────────────────────────────────────────────────────────────────────────────────────


class _Clock(NamedTuple):
    """How far the clocks of a zone are from UTC on a day, and when they are put to another time, if they are."""

    before: timedelta
    after: timedelta
    turn: datetime  # the first moment of `after`

    @classmethod
    @lru_cache(maxsize=16_384)  # all patterns of a zone go by the same clocks
    def of(cls, day: date, zone: tzinfo) -> _Clock:
        """Looks at all moments that any clock on earth gives this date."""
        first, last = _utc(day) - timedelta(hours=16), _utc(day) + timedelta(hours=40)
        before, after = _offset(first, zone), _offset(last, zone)
        if before == after:
            return cls(before, after, first)
        low, high = 0, int((last - first).total_seconds())  # `after` holds at high, and not at low
        while high - low > 1:
            middle = (low + high) // 2
            if _offset(first + timedelta(seconds=middle), zone) == before:
                low = middle
            else:
                high = middle
        return cls(before, after, first + timedelta(seconds=high))

    def steady(self, midnight: datetime) -> timedelta | None:
        """How far the clock is from UTC all day, which begins at this midnight written as UTC; None if that changes."""
        starts = [midnight - each for each in (self.before, self.after)]
        if self.before == self.after or min(starts) >= self.turn:
            return self.after
        return self.before if max(starts) + timedelta(days=1) <= self.turn else None

    def shows(self, start: datetime, end: datetime) -> list[_Stretch]:
        """When the clock is within these times, which are written as if they were UTC: once, twice or never."""
        if self.before == self.after:
            return [_Stretch(start - self.after, end - self.after)]
        early = _Stretch(start - self.before, min(end - self.before, self.turn))
        late = _Stretch(max(start - self.after, self.turn), end - self.after)
        return [each for each in (early, late) if each.start < each.end]


def _offset(at: datetime, zone: tzinfo) -> timedelta:
    return at.astimezone(zone).utcoffset() or timedelta(0)


def _zone(name: str) -> tzinfo:
    if name.upper() == "UTC":
        return UTC  # with no list of zones on the machine, too
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        near = {each.casefold(): each for each in available_timezones()}
        meant = [near[each] for each in get_close_matches(name.casefold(), near, 1)]
        such = meant[0] if meant else "Europe/London"
        hint = f"Give a name of the IANA list, such as {such}."
        raise InvalidInput(f"There is no timezone {name!r}.", hint) from error


# ── calendars ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_EVERY_YEAR = (date(2000, 1, 1), date(2027, 12, 31))  # with leap days and without, beginning on each weekday
#: Whether a day is one of those that are meant.
_Is = Callable[[date], bool]


class _Clause(NamedTuple):
    """Some days, and the times of them, in minutes; those that end before they begin end on the day after."""

    is_on: _Is
    times: tuple[tuple[int, int], ...]

    def minutes(self, day: date) -> Iterator[tuple[int, int]]:
        """From which minute of a day until which, what began on the day before included."""
        if self.is_on(day):
            yield from ((start, end if start < end else _DAY) for start, end in self.times)
        if any(start > end for start, end in self.times) and self.is_on(day - timedelta(days=1)):
            yield from ((0, end) for start, end in self.times if start > end)


@dataclass(frozen=True, slots=True, eq=False)  # known by itself, for the caches
class _Calendar:
    """What is on by the clock on the wall, as it was written."""

    clauses: tuple[_Clause, ...]
    always: bool = False
    reach: timedelta = timedelta(0)  # what goes on at midnight counts as the next day's

    def minutes(self, day: date) -> list[tuple[int, int]]:
        return _runs(each for clause in self.clauses for each in clause.minutes(day))

    def of(self, day: date, zone: tzinfo) -> Iterable[_Stretch]:
        midnight, clock = _utc(day), None
        for start, end in self.minutes(day):
            clock = clock or _Clock.of(day, zone)
            yield from clock.shows(midnight + timedelta(minutes=start), midnight + timedelta(minutes=end))


@lru_cache(maxsize=1024)
def _rule(period: str, during: str, lasts: int) -> _Rule:
    """The times in words as what they mean."""
    if period == "cron":
        return _cron(during, lasts)
    text = re.sub(r"\s*(,|;|-|\.\.)\s*", r"\1", " ".join(during.lower().replace("–", "-").split()))
    if not text:
        return _Calendar((), always=True)
    written = _Calendar(tuple(_clause(period, each) for each in text.split(";")))
    return replace(written, always=all(written.minutes(day) == [(0, _DAY)] for day in _days(*_EVERY_YEAR)))


def _clause(period: str, text: str) -> _Clause:
    found = _CLAUSE.fullmatch(text)
    days, times = (found["days"], found["times"]) if found else (text, None)
    if not days and not times:
        _refuse(text, period)
    hours = tuple(_span(each, period) for each in times.split(",")) if times else ((0, _DAY),)
    if period == "daily" and days:
        _refuse(days, period)
    return _Clause(_any_of([_DAYS_OF[period](each) for each in days.split(",")]) if days else _every_day, hours)


_TIMES = r"\d{1,2}:\d\d-\d{1,2}:\d\d"
_CLAUSE = re.compile(rf"(?P<days>.*?)(?:(?:^|\s)(?P<times>{_TIMES}(?:,{_TIMES})*))?")


def _runs(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same minutes in as few pieces as they make, in order."""
    runs: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if runs and start <= runs[-1][1]:
            runs[-1] = (runs[-1][0], max(runs[-1][1], end))
        else:
            runs.append((start, end))
    return runs


def _span(text: str, period: str) -> tuple[int, int]:
    """The minutes of a day that `09:30-16:00` means."""
    start, end = (int(each[:-3]) * 60 + int(each[-2:]) for each in text.split("-"))
    if start >= _DAY or end > _DAY or start == end or any(each[-2:] > "59" for each in text.split("-")):
        _refuse(text, period)
    return start, end or _DAY


def _every_day(_: date) -> bool:
    return True


def _any_of(days: Sequence[_Is]) -> _Is:
    return lambda day: any(each(day) for each in days)


def _weekly(text: str) -> _Is:
    """`fri`, `mon-fri`, `weekdays`."""
    first, *rest = _NAMED_DAYS.get(text, text).split("-")
    if len(rest) > 1:
        _refuse(text, "weekly")
    start, end = (_place(each, _WEEKDAYS, text, "weekly") for each in (first, rest[0] if rest else first))
    return lambda day: (day.weekday() - start) % 7 <= (end - start) % 7


def _monthly(text: str) -> _Is:
    """`15`, `28-31`, `last`, `last fri`, `first mon`."""
    if found := re.fullmatch(r"(\d{1,2})(?:-(\d{1,2}))?", text):
        start, end = int(found[1]), int(found[2] or found[1])
        if not 1 <= start <= 31 or not 1 <= end <= 31:
            _refuse(text, "monthly")
        return lambda day: start <= day.day <= end if start <= end else not end < day.day < start
    which, _, weekday = text.partition(" ")
    if text in ("last", "last day"):
        return lambda day: day.day == monthrange(day.year, day.month)[1]
    place = _place(weekday, _WEEKDAYS, text, "monthly")
    if which == "last":
        return lambda day: day.weekday() == place and day.day + 7 > monthrange(day.year, day.month)[1]
    if which not in _ORDINALS:
        _refuse(text, "monthly")
    return lambda day: day.weekday() == place and (day.day - 1) // 7 == _ORDINALS[which]


def _yearly(text: str) -> _Is:
    """`12-15..01-05`, `03-17`, `jan`, `jul-aug`, `q4`."""
    if found := re.fullmatch(r"(\d\d-\d\d)(?:\.\.(\d\d-\d\d))?", text):
        start, end = (_of_the_year(each, text) for each in (found[1], found[2] or found[1]))
    else:
        first, *rest = text.split("-")
        if len(rest) > 1:
            _refuse(text, "yearly")
        start = (_months(first, text)[0], 1)
        end = (_months(rest[0] if rest else first, text)[1], 31)
    if start <= end:
        return lambda day: start <= (day.month, day.day) <= end
    return lambda day: not end < (day.month, day.day) < start


def _of_the_year(text: str, whole: str) -> tuple[int, int]:
    """Month and day, once they are known to come in some year."""
    month, day = int(text[:2]), int(text[3:])
    if not 1 <= month <= 12 or not 1 <= day <= monthrange(2000, month)[1]:
        _refuse(whole, "yearly")
    return month, day


def _months(text: str, whole: str) -> tuple[int, int]:
    """The first and the last month of a month's or a quarter's name."""
    if re.fullmatch("q[1-4]", text):
        return int(text[1]) * 3 - 2, int(text[1]) * 3
    month = _place(text, _MONTHS, whole, "yearly") + 1
    return month, month


def _place(name: str, names: Sequence[str], whole: str, period: str) -> int:
    """Which of the names it is, three letters or more of it."""
    found = [place for place, each in enumerate(names) if len(name) > 2 and each.startswith(name)]
    return found[0] if found else _refuse(whole, period)


def _refuse(text: str, period: str) -> NoReturn:
    raise InvalidInput(f"{text!r} is no time of a {period} pattern.", _HINTS[period])


_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NAMED_DAYS = {"weekdays": "mon-fri", "weekday": "mon-fri", "weekend": "sat-sun", "weekends": "sat-sun"}
_MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
           "november", "december")  # fmt: skip
_ORDINALS = {"first": 0, "1st": 0, "second": 1, "2nd": 1, "third": 2, "3rd": 2, "fourth": 3, "4th": 3, "fifth": 4,
             "5th": 4}  # fmt: skip
_DAYS_OF: dict[str, Callable[[str], _Is]] = {"weekly": _weekly, "monthly": _monthly, "yearly": _yearly}
_HINTS = {
    "daily": "Write 09:30-16:00, 22:00-04:00 for a night, 08:00-12:00,13:00-17:00 for several, or nothing for always.",
    "weekly": "Write mon-fri 09:30-16:00, or sat,sun, or fri; several of these with ; between them.",
    "monthly": "Write 1-3, 28-31, last, last fri or first mon, with 09:30-16:00 after it if only then; several with ;.",
    "yearly": "Write 12-15..01-05 (month-day), jan, jul-aug, q4 or 03-17, with 09:30-16:00 after it; several with ;.",
    "cron": "Write minute, hour, day, month and weekday, such as 30 14 * * fri; `lasts` is how many minutes it is on.",
}


# ── cron ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, eq=False)  # known by itself, for the caches
class _Cron:
    """From each time of a cron text on, for as long as it lasts."""

    is_on: _Is
    minutes: tuple[int, ...]
    runs: tuple[tuple[int, int], ...]  # the same with how long they last, on a day on which no clock is turned
    lasts: timedelta
    roams: bool  # it goes by the minute or the hour: an hour that comes twice counts twice, as in Debian's cron
    always: bool = False

    @property
    def reach(self) -> timedelta:
        return self.lasts

    def of(self, day: date, zone: tzinfo) -> Iterable[_Stretch]:
        if not self.is_on(day):
            return []
        clock, midnight = _Clock.of(day, zone), _utc(day)
        offset = clock.steady(midnight)
        if offset is not None:
            begin = midnight - offset
            return [_Stretch(begin + timedelta(minutes=a), begin + timedelta(minutes=b)) for a, b in self.runs]
        walls = (midnight + timedelta(minutes=each) for each in self.minutes)
        return [_Stretch(start, start + self.lasts) for wall in walls for start in self._starts(wall, clock)]

    def _starts(self, wall: datetime, clock: _Clock) -> list[datetime]:
        """When it begins on a day on which the clocks are turned."""
        shown = [each.start for each in clock.shows(wall, wall + timedelta(minutes=1))]
        if self.roams:
            return shown
        return shown[:1] or [clock.turn]  # what the clocks leave out begins when they go on


def _cron(text: str, lasts: int) -> _Cron:
    from cronsim import CronSim, CronSimError  # not needed for what has no cron text

    if len(text) > _CRON_LENGTH or len(text.split()) != 5:
        raise InvalidInput(f"{text[:_CRON_LENGTH]!r} has not the five fields of a cron text.", _HINTS["cron"])
    try:
        cron = CronSim(text, _utc(_EVERY_YEAR[0]))
        next(CronSim(text, _utc(_EVERY_YEAR[0])))
    except (CronSimError, ValueError, OverflowError) as error:
        raise InvalidInput(f"{text!r} is no cron text: {error}.", _HINTS["cron"]) from error
    except StopIteration as error:
        raise InvalidInput(f"{text!r} is a time that never comes.", _HINTS["cron"]) from error
    minutes = tuple(sorted(hour * 60 + minute for hour, minute in product(cron.hours, cron.minutes)))
    return _Cron(
        is_on=lambda day: day.month in cron.months and cron.match_day(day),
        minutes=minutes,
        runs=tuple(_runs((each, each + lasts) for each in minutes)),
        lasts=timedelta(minutes=lasts),
        roams=any(each.startswith("*") for each in text.split()[:2]),
    )
