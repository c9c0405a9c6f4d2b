"""When seasonal patterns are on: against every minute of the clock on the wall, the days of change included."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cofio.domain_knowledge import seasonal_times
from cofio.errors import InvalidInput
from cofio.models.domain_knowledge import Seasonal
from cofio.models.memory import to_utc_iso

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


def seasonal(period: str, during: str = "", **more: Any) -> Seasonal:
    return Seasonal(pattern="the desk is busy", period=period, during=during, **more)


def window(period: str, during: str, at: str, **more: Any) -> tuple[str, str] | None:
    """The stretch, without what all times have in common."""
    found = seasonal_times.window(seasonal(period, during, **more), at)
    return (found[0][:16], found[1][:16]) if found else None


# ── by example ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("period", "during", "at", "found"),
    [
        ("daily", "09:30-16:00", "2026-03-11T09:30", ("2026-03-11T09:30", "2026-03-11T16:00")),
        ("daily", "09:30-16:00", "2026-03-11T16:00", None),
        ("daily", "9:30 - 16:00", "2026-03-11T09:29:59", None),
        ("daily", "22:00-04:00", "2026-03-11T03:59", ("2026-03-10T22:00", "2026-03-11T04:00")),
        ("daily", "22:00-04:00", "2026-03-11T22:00", ("2026-03-11T22:00", "2026-03-12T04:00")),
        ("daily", "08:00-12:00, 13:00-17:00", "2026-03-11T14:00", ("2026-03-11T13:00", "2026-03-11T17:00")),
        ("daily", "08:00-12:00,12:00-17:00", "2026-03-11T14:00", ("2026-03-11T08:00", "2026-03-11T17:00")),
        ("daily", "12:00-00:00", "2026-03-11T14:00", ("2026-03-11T12:00", "2026-03-12T00:00")),
        ("weekly", "mon-fri 09:30-16:00", "2026-03-13T10:00", ("2026-03-13T09:30", "2026-03-13T16:00")),
        ("weekly", "mon-fri 09:30-16:00", "2026-03-14T10:00", None),
        ("weekly", "mon-fri", "2026-03-11T14:00", ("2026-03-09T00:00", "2026-03-14T00:00")),
        ("weekly", "sat,sun", "2026-03-15T14:00", ("2026-03-14T00:00", "2026-03-16T00:00")),
        ("weekly", "fri", "2026-03-13T14:00", ("2026-03-13T00:00", "2026-03-14T00:00")),
        ("weekly", "Friday", "2026-03-12T14:00", None),
        ("weekly", "fri-mon", "2026-03-16T14:00", ("2026-03-13T00:00", "2026-03-17T00:00")),
        ("weekly", "fri 22:00-04:00", "2026-03-14T02:00", ("2026-03-13T22:00", "2026-03-14T04:00")),
        ("weekly", "fri 22:00-04:00", "2026-03-13T02:00", None),
        ("weekly", "mon-fri 09:30-16:00; sat 10:00-14:00", "2026-03-14T13:00", ("2026-03-14T10:00", "2026-03-14T14:00")),  # noqa: E501
        ("weekly", "weekend", "2026-03-14T00:00", ("2026-03-14T00:00", "2026-03-16T00:00")),
        ("monthly", "1-3", "2026-03-02T14:00", ("2026-03-01T00:00", "2026-03-04T00:00")),
        ("monthly", "28-31", "2026-02-28T14:00", ("2026-02-28T00:00", "2026-03-01T00:00")),
        ("monthly", "28-3", "2026-02-28T14:00", ("2026-02-28T00:00", "2026-03-04T00:00")),
        ("monthly", "15", "2026-03-14T23:59", None),
        ("monthly", "last", "2028-02-29T14:00", ("2028-02-29T00:00", "2028-03-01T00:00")),
        ("monthly", "last", "2028-02-28T14:00", None),
        ("monthly", "last fri", "2026-03-27T14:00", ("2026-03-27T00:00", "2026-03-28T00:00")),
        ("monthly", "last fri", "2026-03-20T14:00", None),
        ("monthly", "first mon 09:00-17:00", "2026-03-02T14:00", ("2026-03-02T09:00", "2026-03-02T17:00")),
        ("monthly", "third fri, last", "2026-03-20T14:00", ("2026-03-20T00:00", "2026-03-21T00:00")),
        ("yearly", "12-15..01-05", "2026-12-31T23:00", ("2026-12-15T00:00", "2027-01-06T00:00")),
        ("yearly", "12-15..01-05", "2026-01-06T00:00", None),
        ("yearly", "jan", "2026-01-31T23:59", ("2026-01-01T00:00", "2026-02-01T00:00")),
        ("yearly", "jul-aug", "2026-08-31T23:59", ("2026-07-01T00:00", "2026-09-01T00:00")),
        ("yearly", "nov-feb", "2028-02-29T23:59", ("2027-11-01T00:00", "2028-03-01T00:00")),
        ("yearly", "q4", "2026-11-11T11:11", ("2026-10-01T00:00", "2027-01-01T00:00")),
        ("yearly", "03-17", "2026-03-17T11:11", ("2026-03-17T00:00", "2026-03-18T00:00")),
        ("yearly", "03-17 12:00-18:00", "2026-03-17T11:11", None),
        ("yearly", "02-29", "2028-02-29T11:11", ("2028-02-29T00:00", "2028-03-01T00:00")),
        ("yearly", "03-01..02-28", "2026-06-01T00:00", ("2024-03-01T00:00", "2028-02-29T00:00")),
        ("cron", "30 14 * * fri", "2026-03-13T15:29", ("2026-03-13T14:30", "2026-03-13T15:30")),
        ("cron", "30 14 * * fri", "2026-03-13T15:30", None),
        ("cron", "0 9-11 * * *", "2026-03-13T10:30", ("2026-03-13T09:00", "2026-03-13T12:00")),
        ("cron", "* * * 1-6 *", "2026-03-13T10:30", ("2026-01-01T00:00", "2026-07-01T00:59")),
    ],
)  # fmt: skip
def test_the_stretch_that_holds_a_time(period: str, during: str, at: str, found: tuple[str, str] | None) -> None:
    assert window(period, during, at) == found


@pytest.mark.parametrize(
    ("period", "found"),
    [
        ("daily", ("2026-03-11T00:00", "2026-03-12T00:00")), ("weekly", ("2026-03-09T00:00", "2026-03-16T00:00")),
        ("monthly", ("2026-03-01T00:00", "2026-04-01T00:00")), ("yearly", ("2026-01-01T00:00", "2027-01-01T00:00")),
    ],
)  # fmt: skip
def test_what_never_ends_is_told_by_its_period(period: str, found: tuple[str, str]) -> None:
    assert window(period, "", "2026-03-11T14:00") == found


@pytest.mark.parametrize(
    ("period", "during"),
    [
        ("daily", "00:00-24:00"), ("weekly", "mon-sun"), ("monthly", "1-30, last"), ("yearly", "q1,q2,q3,q4"),
        ("cron", "* * * * *"),
    ],
)  # fmt: skip
def test_what_never_ends_is_known_however_it_is_written(period: str, during: str) -> None:
    found = window(period, during, "2026-03-11T14:00")
    assert found == window("daily" if period == "cron" else period, "", "2026-03-11T14:00")


def test_a_cron_text_that_lasts_long_is_on_long_after() -> None:
    at = "2026-08-01T00:00"
    assert window("cron", "0 0 1 3 *", at, lasts=200 * 1440) == ("2026-03-01T00:00", "2026-09-17T00:00")
    assert window("cron", "0 0 1 3 *", at, lasts=100 * 1440) is None


# ── the clocks are turned ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("during", "at", "found"),
    [
        ("09:30-16:00", "2026-03-06T15:00", ("2026-03-06T14:30", "2026-03-06T21:00")),
        ("09:30-16:00", "2026-03-09T14:00", ("2026-03-09T13:30", "2026-03-09T20:00")),
        ("01:00-03:00", "2026-03-08T06:30", ("2026-03-08T06:00", "2026-03-08T07:00")),  # 02:00 to 03:00 is left out
        ("02:15-02:45", "2026-03-08T07:20", None),
        ("01:00-02:00", "2026-11-01T05:30", ("2026-11-01T05:00", "2026-11-01T07:00")),  # and comes twice here
        ("01:00-01:30", "2026-11-01T05:10", ("2026-11-01T05:00", "2026-11-01T05:30")),
        ("01:00-01:30", "2026-11-01T06:10", ("2026-11-01T06:00", "2026-11-01T06:30")),
        ("22:00-04:00", "2026-03-08T05:00", ("2026-03-08T03:00", "2026-03-08T08:00")),  # a night of five hours
        ("22:00-04:00", "2026-11-01T05:00", ("2026-11-01T02:00", "2026-11-01T09:00")),  # and one of seven
    ],
)
def test_the_clock_on_the_wall_of_new_york(during: str, at: str, found: tuple[str, str] | None) -> None:
    assert window("daily", during, at, timezone="America/New_York") == found


@pytest.mark.parametrize(
    ("cron", "at", "found"),
    [
        ("30 2 * * *", "2026-03-08T07:10", ("2026-03-08T07:00", "2026-03-08T07:30")),  # left out: when they go on
        ("30 1 * * *", "2026-11-01T05:40", ("2026-11-01T05:30", "2026-11-01T06:00")),
        ("30 1 * * *", "2026-11-01T06:40", None),  # once, though the hour comes twice
        ("30 * * * *", "2026-11-01T06:40", ("2026-11-01T06:30", "2026-11-01T07:00")),  # every hour that there is
    ],
)
def test_a_cron_text_in_new_york(cron: str, at: str, found: tuple[str, str] | None) -> None:
    assert window("cron", cron, at, timezone="America/New_York", lasts=30) == found


@pytest.mark.parametrize(
    ("zone", "cron", "at", "found"),
    [
        ("Australia/Lord_Howe", "0 */6 * * *", "2026-04-04T20:00", ("2026-04-04T19:30", "2026-04-04T20:30")),
        ("America/Sao_Paulo", "0 0 * * *", "2018-11-04T03:10", ("2018-11-04T03:00", "2018-11-04T04:00")),
        ("America/Sao_Paulo", "*/20 * * * *", "2018-11-04T03:10", ("2018-11-04T03:00", "2018-11-05T02:00")),  # a day
    ],
)
def test_a_cron_text_where_clocks_are_turned_by_half_an_hour_or_at_midnight(
    zone: str, cron: str, at: str, found: tuple[str, str]
) -> None:
    assert window("cron", cron, at, timezone=zone) == found


def test_a_day_that_a_country_left_out_is_not_there() -> None:
    """Samoa went from 29 to 31 December 2011."""
    before_and_after = window("yearly", "12-28..12-31", "2011-12-29T12:00", timezone="Pacific/Apia")
    assert before_and_after == ("2011-12-28T10:00", "2011-12-31T10:00")  # three days
    assert window("yearly", "12-30", "2011-12-30T10:00", timezone="Pacific/Apia") is None


# ── against every minute ──────────────────────────────────────────────────────────────────────────────────────────────


class Said(NamedTuple):
    """Days and times in words, and what they mean, told apart from how they are read."""

    period: str
    during: str
    is_on: Callable[[date], bool]
    times: list[tuple[int, int]]

    def holds(self, wall: datetime) -> bool:
        minute, day = wall.hour * 60 + wall.minute, wall.date()
        for start, end in self.times:
            if start < end and self.is_on(day) and start <= minute < end:
                return True
            if start > end and ((self.is_on(day) and start <= minute) or (self.is_on(day - DAY) and minute < end)):
                return True
        return False


def clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


TIMES = st.lists(
    st.tuples(st.integers(0, 95), st.integers(0, 96)).filter(lambda p: p[0] != p[1]).map(lambda p: (p[0] * 15, p[1] * 15)),  # noqa: E501
    min_size=1,
    max_size=2,
)  # fmt: skip
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
ORDINALS = ("first", "second", "third", "fourth")


@st.composite
def days(draw: st.DrawFn) -> tuple[str, str, Callable[[date], bool]]:
    """A period, days of it in words, and whether a day is one of them."""
    kind = draw(
        st.sampled_from(["daily", "some weekdays", "a stretch of the week", "days", "ordinal", "months", "dates"])
    )
    if kind == "some weekdays":
        chosen = draw(st.sets(st.integers(0, 6), min_size=1, max_size=6))
        return "weekly", ",".join(WEEKDAYS[each] for each in chosen), lambda day: day.weekday() in chosen
    if kind == "a stretch of the week":
        first, length = draw(st.integers(0, 6)), draw(st.integers(1, 6))
        meant = {(first + each) % 7 for each in range(length)}
        return "weekly", f"{WEEKDAYS[first]}-{WEEKDAYS[(first + length - 1) % 7]}", lambda day: day.weekday() in meant
    if kind == "days":
        first, last = sorted(draw(st.tuples(st.integers(1, 31), st.integers(1, 31))))
        return "monthly", f"{first}-{last}", lambda day: day.day in range(first, last + 1)
    if kind == "ordinal":
        nth, weekday = draw(st.integers(0, 3)), draw(st.integers(0, 6))
        return (
            "monthly",
            f"{ORDINALS[nth]} {WEEKDAYS[weekday]}",
            lambda day: day.weekday() == weekday and nth * 7 < day.day <= nth * 7 + 7,
        )
    if kind == "months":
        chosen = draw(st.sets(st.integers(1, 12), min_size=1, max_size=11))
        return "yearly", ",".join(MONTHS[each - 1] for each in chosen), lambda day: day.month in chosen
    if kind == "dates":
        first, last = draw(st.tuples(st.dates(date(2024, 1, 1), date(2024, 12, 31)), st.integers(0, 300)))
        meant_dates = {((first + DAY * each).month, (first + DAY * each).day) for each in range(last + 1)}
        text = f"{first:%m-%d}..{first + DAY * last:%m-%d}"
        leap = {(2, 29)} if (2, 28) in meant_dates and (3, 1) in meant_dates else set()
        return "yearly", text, lambda day: (day.month, day.day) in meant_dates | leap
    return "daily", "", lambda _: True


@st.composite
def sayings(draw: st.DrawFn) -> Said:
    period, words, is_on = draw(days())
    times = draw(st.one_of(st.just([(0, 1440)]), TIMES)) if words else draw(TIMES)
    told = ",".join(f"{clock(start)}-{clock(end)}" for start, end in times)
    meant = [(start, end or 1440) for start, end in times]
    return Said(period, f"{words} {told}".strip(), is_on, meant)


#: Days on which clocks are turned, by zone: at night, at midnight, by half an hour, a minute past midnight.
TURNED = {
    "UTC": ["2026-03-08"],
    "America/New_York": ["2026-03-08", "2026-11-01"],
    "Europe/London": ["2026-03-29", "2026-10-25"],
    "America/Sao_Paulo": ["2018-11-04", "2018-02-18"],
    "Australia/Lord_Howe": ["2026-04-05", "2026-10-04"],
    "America/St_Johns": ["2006-04-02", "2006-10-29"],
    "Africa/Cairo": ["2014-09-26", "2014-05-16"],
    "Pacific/Apia": ["2011-12-30"],
    "Asia/Kathmandu": ["2026-02-28"],
}
FAR = 2 * 1440  # minutes that a stretch is followed by hand


@st.composite
def moments(draw: st.DrawFn, zones: tuple[str, ...] = tuple(TURNED)) -> tuple[str, datetime]:
    """A zone, and a moment around a day on which its clocks are turned."""
    zone = draw(st.sampled_from(zones))
    day = datetime.fromisoformat(draw(st.sampled_from(TURNED[zone]))).replace(tzinfo=UTC)
    return zone, day + draw(st.integers(-40 * 60, 64 * 60)) * MINUTE


def stretch(is_on: Callable[[datetime], bool], at: datetime) -> tuple[datetime, datetime] | None:
    """The same by looking at each minute; as far as it is followed."""
    if not is_on(at):
        return None
    start = end = at
    while is_on(start - MINUTE) and at - start < FAR * MINUTE:
        start -= MINUTE
    while is_on(end) and end - at < FAR * MINUTE:
        end += MINUTE
    return start, end


def agree(found: tuple[str, str] | None, expected: tuple[datetime, datetime] | None, at: datetime) -> None:
    assert (found is None) == (expected is None)
    if found is None or expected is None:
        return
    assert found[0] <= to_utc_iso(at) < found[1]
    if all(abs(each - at) >= FAR * MINUTE for each in expected):  # it goes on both ways, and may never end
        return
    for mine, by_hand in zip(found, expected, strict=True):
        if abs(by_hand - at) < FAR * MINUTE:
            assert mine == to_utc_iso(by_hand)
        else:  # it goes on, where nobody looked
            assert abs(datetime.fromisoformat(mine) - at) >= FAR * MINUTE


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(sayings(), moments())
def test_it_is_on_just_when_the_clock_on_the_wall_says_so(said: Said, when: tuple[str, datetime]) -> None:
    zone, at = when
    found = seasonal_times.window(seasonal(said.period, said.during, timezone=zone), to_utc_iso(at))
    wall = ZoneInfo(zone)
    agree(found, stretch(lambda each: said.holds(each.astimezone(wall)), at), at)


CRONS = (
    "30 14 * * fri", "30 2 * * *", "0 0 * * *", "*/20 * * * *", "0 1-3 * * *", "15,45 1,2 * * *", "0 */6 * * *",
    "5 0 1 * *", "30 1 * * sun", "0 12 * * 1#1", "0 23 L * *", "59 23 * * *", "0 0 1-7 * mon",
)  # fmt: skip


#: Where clocks are turned at midnight, cronsim never comes to an end, and where by half an hour, it misses times.
PLAINLY_TURNED = ("UTC", "America/New_York", "Europe/London", "Asia/Kathmandu")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(CRONS), st.sampled_from([1, 15, 30, 60, 90, 600, 1440]), moments(PLAINLY_TURNED))
def test_a_cron_text_is_on_from_each_of_its_times(cron: str, lasts: int, when: tuple[str, datetime]) -> None:
    zone, at = when
    slots, begin = [], at - 2 * FAR * MINUTE
    for slot in CronSim(cron, begin.astimezone(ZoneInfo(zone))):
        if slot.astimezone(UTC) > at + 2 * FAR * MINUTE:
            break
        slots.append(slot.astimezone(UTC))

    def is_on(moment: datetime) -> bool:
        newest = bisect_right(slots, moment)
        return newest > 0 and moment < slots[newest - 1] + lasts * MINUTE

    found = seasonal_times.window(seasonal("cron", cron, lasts=lasts, timezone=zone), to_utc_iso(at))
    agree(found, stretch(is_on, at), at)


# ── what may be written ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("period", "during"),
    [
        ("daily", "9-17"), ("daily", "mon 09:00-17:00"), ("daily", "25:00-26:00"), ("daily", "09:00-09:00"),
        ("daily", "09:00-10:60"), ("daily", "09:00"), ("daily", "noon"), ("daily", "09:00-17:00;"), ("daily", ","),
        ("weekly", "blursday"), ("weekly", "mo"), ("weekly", "mon-tue-wed"), ("weekly", "mon-fri 9"), ("weekly", ";"),
        ("weekly", "mon,"), ("monthly", "0"), ("monthly", "32"), ("monthly", "sixth mon"), ("monthly", "last month"),
        ("monthly", "1-2-3"), ("yearly", "02-30"), ("yearly", "13-01"), ("yearly", "q5"), ("yearly", "12-15..jan"),
        ("yearly", "smarch"), ("cron", ""), ("cron", "* * * *"), ("cron", "* * * * * *"), ("cron", "61 * * * *"),
        ("cron", "0 0 30 2 *"), ("cron", "0 0 * 2 mon#5" + " " * 300 + "x"), ("cron", "0 0 30 2 mon#6"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_with_what_to_write(period: str, during: str) -> None:
    made = seasonal(period, during)
    with pytest.raises(InvalidInput) as refused:
        seasonal_times.check(made)
    assert "Write" in refused.value.hint


@pytest.mark.parametrize(
    "zone", ["Europe/Londn", "america/new_york", "Mars/Olympus", "America", "../../etc/passwd", "x" * 200, ""]
)
def test_an_unknown_timezone_is_refused_with_one_that_is_known(zone: str) -> None:
    with pytest.raises(InvalidInput, match="There is no timezone") as refused:
        seasonal_times.check(seasonal("daily", timezone=zone))
    ZoneInfo(refused.value.hint.split()[-1].rstrip("."))


@pytest.mark.parametrize("at", ["0001-01-01", "9999-12-31T23:59:59"])
def test_a_time_that_no_calendar_reaches_is_refused(at: str) -> None:
    with pytest.raises(InvalidInput, match="out of range"):
        seasonal_times.window(seasonal("yearly", "q1,q4", timezone="Asia/Tokyo"), at)


def test_the_times_asked_before_change_no_answer() -> None:
    """Clocks go forward on 2026-03-08: what is found on either side of that, and of a year, is not the other's."""
    given = seasonal("cron", "*/30 2 * * *", lasts=1440, timezone="America/New_York")
    times = ("2026-03-06T12:00Z", "2026-03-08T12:00Z", "2026-06-01T12:00Z", "2027-06-01T12:00Z", "2026-03-07T12:00Z")
    alone = []
    for at in times:
        seasonal_times._get_cache.cache_clear()
        seasonal_times._find_window.cache_clear()
        alone.append(seasonal_times.window(given, at))
    seasonal_times._find_window.cache_clear()
    assert [seasonal_times.window(given, at) for at in times] == alone
    assert len(set(alone)) > 2


def test_a_long_stretch_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    given = seasonal("cron", "* * * * *", lasts=7, timezone="America/New_York")
    seasonal_times.window(given, "2026-03-08T07:00:00Z")
    monkeypatch.setattr(seasonal_times, "_find_stretch", lambda *_: pytest.fail("it is looked for again"))
    assert seasonal_times.window(given, "2026-03-08T07:00:01Z")


def test_the_surest_comes_first_and_one_that_makes_no_sense_hides_no_other() -> None:
    known = [
        seasonal("weekly", "wed", confidence=0.4, id="weak"),
        seasonal("weekly", "never", confidence=0.9, id="broken"),
        seasonal("weekly", "mon-fri", confidence=0.8, id="sure"),
        seasonal("weekly", "sat", confidence=0.9, id="off"),
    ]
    found = seasonal_times.active(known, "2026-03-11T14:00:00Z")
    assert [(each.seasonal.id, each.since[:10], each.until[:10]) for each in found] == [
        ("sure", "2026-03-09", "2026-03-14"),
        ("weak", "2026-03-11", "2026-03-12"),
    ]
