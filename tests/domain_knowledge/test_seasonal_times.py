"""Seasonal times: active windows compared with a minute-by-minute simulation, including daylight saving time."""

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


def seasonal(period: str, during: str = "", **fields: Any) -> Seasonal:
    return Seasonal(pattern="the desk is busy", period=period, during=during, **fields)


def window(period: str, during: str, at: str, **fields: Any) -> tuple[str, str] | None:
    """Return the start and end of the active window, to the minute."""
    bounds = seasonal_times.window(seasonal(period, during, **fields), at)
    return (bounds[0][:16], bounds[1][:16]) if bounds else None


# ── Examples ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("period", "during", "at", "expected"),
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
def test_window_that_contains_a_time(period: str, during: str, at: str, expected: tuple[str, str] | None) -> None:
    assert window(period, during, at) == expected


@pytest.mark.parametrize(
    ("period", "expected"),
    [
        ("daily", ("2026-03-11T00:00", "2026-03-12T00:00")), ("weekly", ("2026-03-09T00:00", "2026-03-16T00:00")),
        ("monthly", ("2026-03-01T00:00", "2026-04-01T00:00")), ("yearly", ("2026-01-01T00:00", "2027-01-01T00:00")),
    ],
)  # fmt: skip
def test_window_of_an_always_active_pattern_is_its_period(period: str, expected: tuple[str, str]) -> None:
    assert window(period, "", "2026-03-11T14:00") == expected


@pytest.mark.parametrize(
    ("period", "during"),
    [
        ("daily", "00:00-24:00"), ("weekly", "mon-sun"), ("monthly", "1-30, last"), ("yearly", "q1,q2,q3,q4"),
        ("cron", "* * * * *"),
    ],
)  # fmt: skip
def test_always_active_pattern_is_recognized_in_any_notation(period: str, during: str) -> None:
    bounds = window(period, during, "2026-03-11T14:00")
    assert bounds == window("daily" if period == "cron" else period, "", "2026-03-11T14:00")


def test_long_cron_window_is_active_long_after_its_start() -> None:
    at = "2026-08-01T00:00"
    assert window("cron", "0 0 1 3 *", at, lasts=200 * 1440) == ("2026-03-01T00:00", "2026-09-17T00:00")
    assert window("cron", "0 0 1 3 *", at, lasts=100 * 1440) is None


# ── Daylight saving time ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("during", "at", "expected"),
    [
        ("09:30-16:00", "2026-03-06T15:00", ("2026-03-06T14:30", "2026-03-06T21:00")),
        ("09:30-16:00", "2026-03-09T14:00", ("2026-03-09T13:30", "2026-03-09T20:00")),
        ("01:00-03:00", "2026-03-08T06:30", ("2026-03-08T06:00", "2026-03-08T07:00")),  # 02:00 to 03:00 is skipped
        ("02:15-02:45", "2026-03-08T07:20", None),
        ("01:00-02:00", "2026-11-01T05:30", ("2026-11-01T05:00", "2026-11-01T07:00")),  # and occurs twice here
        ("01:00-01:30", "2026-11-01T05:10", ("2026-11-01T05:00", "2026-11-01T05:30")),
        ("01:00-01:30", "2026-11-01T06:10", ("2026-11-01T06:00", "2026-11-01T06:30")),
        ("22:00-04:00", "2026-03-08T05:00", ("2026-03-08T03:00", "2026-03-08T08:00")),  # a night of five hours
        ("22:00-04:00", "2026-11-01T05:00", ("2026-11-01T02:00", "2026-11-01T09:00")),  # and one of seven
    ],
)
def test_daily_times_in_new_york(during: str, at: str, expected: tuple[str, str] | None) -> None:
    assert window("daily", during, at, timezone="America/New_York") == expected


@pytest.mark.parametrize(
    ("cron", "at", "expected"),
    [
        (
            "30 2 * * *",
            "2026-03-08T07:10",
            ("2026-03-08T07:00", "2026-03-08T07:30"),
        ),  # skipped: starts at the next time
        ("30 1 * * *", "2026-11-01T05:40", ("2026-11-01T05:30", "2026-11-01T06:00")),
        ("30 1 * * *", "2026-11-01T06:40", None),  # once, although the hour occurs twice
        ("30 * * * *", "2026-11-01T06:40", ("2026-11-01T06:30", "2026-11-01T07:00")),  # every actual hour
    ],
)
def test_cron_times_in_new_york(cron: str, at: str, expected: tuple[str, str] | None) -> None:
    assert window("cron", cron, at, timezone="America/New_York", lasts=30) == expected


@pytest.mark.parametrize(
    ("zone", "cron", "at", "expected"),
    [
        ("Australia/Lord_Howe", "0 */6 * * *", "2026-04-04T20:00", ("2026-04-04T19:30", "2026-04-04T20:30")),
        ("America/Sao_Paulo", "0 0 * * *", "2018-11-04T03:10", ("2018-11-04T03:00", "2018-11-04T04:00")),
        ("America/Sao_Paulo", "*/20 * * * *", "2018-11-04T03:10", ("2018-11-04T03:00", "2018-11-05T02:00")),  # a day
    ],
)
def test_cron_times_with_half_hour_or_midnight_transitions(
    zone: str, cron: str, at: str, expected: tuple[str, str]
) -> None:
    assert window("cron", cron, at, timezone=zone) == expected


def test_skipped_calendar_day() -> None:
    """Samoa skipped 30 December 2011."""
    before_and_after = window("yearly", "12-28..12-31", "2011-12-29T12:00", timezone="Pacific/Apia")
    assert before_and_after == ("2011-12-28T10:00", "2011-12-31T10:00")  # three days
    assert window("yearly", "12-30", "2011-12-30T10:00", timezone="Pacific/Apia") is None


# ── Minute-by-minute comparison ───────────────────────────────────────────────────────────────────────────────────────


class SeasonalCase(NamedTuple):
    """Days and times in words with an independent definition of their meaning."""

    period: str
    during: str
    is_on: Callable[[date], bool]
    times: list[tuple[int, int]]

    def is_active(self, local_time: datetime) -> bool:
        minute, day = local_time.hour * 60 + local_time.minute, local_time.date()
        for start, end in self.times:
            if start < end and self.is_on(day) and start <= minute < end:
                return True
            if start > end and ((self.is_on(day) and start <= minute) or (self.is_on(day - DAY) and minute < end)):
                return True
        return False


def format_minute(minute: int) -> str:
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
    """Draw a period, days of it in words, and a predicate for these days."""
    kind = draw(
        st.sampled_from(["daily", "some weekdays", "a stretch of the week", "days", "ordinal", "months", "dates"])
    )
    if kind == "some weekdays":
        selected = draw(st.sets(st.integers(0, 6), min_size=1, max_size=6))
        return "weekly", ",".join(WEEKDAYS[weekday] for weekday in selected), lambda day: day.weekday() in selected
    if kind == "a stretch of the week":
        first, length = draw(st.integers(0, 6)), draw(st.integers(1, 6))
        expected_days = {(first + offset) % 7 for offset in range(length)}
        return (
            "weekly",
            f"{WEEKDAYS[first]}-{WEEKDAYS[(first + length - 1) % 7]}",
            lambda day: day.weekday() in expected_days,
        )
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
        selected = draw(st.sets(st.integers(1, 12), min_size=1, max_size=11))
        return "yearly", ",".join(MONTHS[month - 1] for month in selected), lambda day: day.month in selected
    if kind == "dates":
        first, last = draw(st.tuples(st.dates(date(2024, 1, 1), date(2024, 12, 31)), st.integers(0, 300)))
        expected_dates = {((first + DAY * offset).month, (first + DAY * offset).day) for offset in range(last + 1)}
        text = f"{first:%m-%d}..{first + DAY * last:%m-%d}"
        leap = {(2, 29)} if (2, 28) in expected_dates and (3, 1) in expected_dates else set()
        return "yearly", text, lambda day: (day.month, day.day) in expected_dates | leap
    return "daily", "", lambda _: True


@st.composite
def seasonal_cases(draw: st.DrawFn) -> SeasonalCase:
    period, day_text, is_on = draw(days())
    times = draw(st.one_of(st.just([(0, 1440)]), TIMES)) if day_text else draw(TIMES)
    time_text = ",".join(f"{format_minute(start)}-{format_minute(end)}" for start, end in times)
    minutes = [(start, end or 1440) for start, end in times]
    return SeasonalCase(period, f"{day_text} {time_text}".strip(), is_on, minutes)


#: Days of clock changes by zone: at night, at midnight, by half an hour, one minute past midnight.
TRANSITION_DAYS = {
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
SIMULATED_MINUTES = 2 * 1440  # minutes simulated in each direction


@st.composite
def moments(draw: st.DrawFn, zones: tuple[str, ...] = tuple(TRANSITION_DAYS)) -> tuple[str, datetime]:
    """Draw a zone and a time close to a clock change."""
    zone = draw(st.sampled_from(zones))
    day = datetime.fromisoformat(draw(st.sampled_from(TRANSITION_DAYS[zone]))).replace(tzinfo=UTC)
    return zone, day + draw(st.integers(-40 * 60, 64 * 60)) * MINUTE


def simulated_window(is_on: Callable[[datetime], bool], moment: datetime) -> tuple[datetime, datetime] | None:
    """Return the window found by checking each minute within the simulated range."""
    if not is_on(moment):
        return None
    start = end = moment
    while is_on(start - MINUTE) and moment - start < SIMULATED_MINUTES * MINUTE:
        start -= MINUTE
    while is_on(end) and end - moment < SIMULATED_MINUTES * MINUTE:
        end += MINUTE
    return start, end


def assert_same_window(
    actual: tuple[str, str] | None, expected: tuple[datetime, datetime] | None, at: datetime
) -> None:
    assert (actual is None) == (expected is None)
    if actual is None or expected is None:
        return
    assert actual[0] <= to_utc_iso(at) < actual[1]
    if all(
        abs(bound - at) >= SIMULATED_MINUTES * MINUTE for bound in expected
    ):  # active throughout the simulated range
        return
    for actual_bound, simulated in zip(actual, expected, strict=True):
        if abs(simulated - at) < SIMULATED_MINUTES * MINUTE:
            assert actual_bound == to_utc_iso(simulated)
        else:  # beyond the simulated range
            assert abs(datetime.fromisoformat(actual_bound) - at) >= SIMULATED_MINUTES * MINUTE


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seasonal_cases(), moments())
def test_window_matches_the_simulation(case: SeasonalCase, zone_and_time: tuple[str, datetime]) -> None:
    zone, at = zone_and_time
    active_window = seasonal_times.window(seasonal(case.period, case.during, timezone=zone), to_utc_iso(at))
    local_zone = ZoneInfo(zone)
    assert_same_window(
        active_window, simulated_window(lambda moment: case.is_active(moment.astimezone(local_zone)), at), at
    )


CRONS = (
    "30 14 * * fri", "30 2 * * *", "0 0 * * *", "*/20 * * * *", "0 1-3 * * *", "15,45 1,2 * * *", "0 */6 * * *",
    "5 0 1 * *", "30 1 * * sun", "0 12 * * 1#1", "0 23 L * *", "59 23 * * *", "0 0 1-7 * mon",
)  # fmt: skip


#: cronsim does not terminate with changes at midnight, and skips times with changes of half an hour.
CRONSIM_ZONES = ("UTC", "America/New_York", "Europe/London", "Asia/Kathmandu")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(CRONS), st.sampled_from([1, 15, 30, 60, 90, 600, 1440]), moments(CRONSIM_ZONES))
def test_cron_window_matches_cronsim(cron: str, lasts: int, zone_and_time: tuple[str, datetime]) -> None:
    zone, at = zone_and_time
    slots, first = [], at - 2 * SIMULATED_MINUTES * MINUTE
    for slot in CronSim(cron, first.astimezone(ZoneInfo(zone))):
        if slot.astimezone(UTC) > at + 2 * SIMULATED_MINUTES * MINUTE:
            break
        slots.append(slot.astimezone(UTC))

    def is_on(moment: datetime) -> bool:
        last_slot = bisect_right(slots, moment)
        return last_slot > 0 and moment < slots[last_slot - 1] + lasts * MINUTE

    active_window = seasonal_times.window(seasonal("cron", cron, lasts=lasts, timezone=zone), to_utc_iso(at))
    assert_same_window(active_window, simulated_window(is_on, at), at)


# ── Validation ────────────────────────────────────────────────────────────────────────────────────────────────────────


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
def test_invalid_times_are_rejected_with_a_hint(period: str, during: str) -> None:
    row = seasonal(period, during)
    with pytest.raises(InvalidInput) as caught:
        seasonal_times.check(row)
    assert "Write" in caught.value.hint


@pytest.mark.parametrize(
    "zone", ["Europe/Londn", "america/new_york", "Mars/Olympus", "America", "../../etc/passwd", "x" * 200, ""]
)
def test_unknown_timezone_is_rejected_with_a_suggestion(zone: str) -> None:
    with pytest.raises(InvalidInput, match="There is no timezone") as caught:
        seasonal_times.check(seasonal("daily", timezone=zone))
    ZoneInfo(caught.value.hint.split()[-1].rstrip("."))


@pytest.mark.parametrize("at", ["0001-01-01", "9999-12-31T23:59:59"])
def test_time_out_of_range_is_rejected(at: str) -> None:
    with pytest.raises(InvalidInput, match="outside the supported range"):
        seasonal_times.window(seasonal("yearly", "q1,q4", timezone="Asia/Tokyo"), at)


def test_results_do_not_depend_on_earlier_queries() -> None:
    """Clocks go forward on 2026-03-08, so windows before and after differ."""
    row = seasonal("cron", "*/30 2 * * *", lasts=1440, timezone="America/New_York")
    times = ("2026-03-06T12:00Z", "2026-03-08T12:00Z", "2026-06-01T12:00Z", "2027-06-01T12:00Z", "2026-03-07T12:00Z")
    expected = []
    for at in times:
        seasonal_times._get_cache.cache_clear()
        seasonal_times._find_window.cache_clear()
        expected.append(seasonal_times.window(row, at))
    seasonal_times._find_window.cache_clear()
    assert [seasonal_times.window(row, at) for at in times] == expected
    assert len(set(expected)) > 2


def test_long_window_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    row = seasonal("cron", "* * * * *", lasts=7, timezone="America/New_York")
    seasonal_times.window(row, "2026-03-08T07:00:00Z")
    monkeypatch.setattr(seasonal_times, "_find_stretch", lambda *_: pytest.fail("the window is searched again"))
    assert seasonal_times.window(row, "2026-03-08T07:00:01Z")


def test_active_patterns_are_ordered_by_confidence_and_skip_invalid_ones() -> None:
    patterns = [
        seasonal("weekly", "wed", confidence=0.4, id="weak"),
        seasonal("weekly", "never", confidence=0.9, id="broken"),
        seasonal("weekly", "mon-fri", confidence=0.8, id="sure"),
        seasonal("weekly", "sat", confidence=0.9, id="off"),
    ]
    active = seasonal_times.active(patterns, "2026-03-11T14:00:00Z")
    assert [(item.seasonal.id, item.since[:10], item.until[:10]) for item in active] == [
        ("sure", "2026-03-09", "2026-03-14"),
        ("weak", "2026-03-11", "2026-03-12"),
    ]
