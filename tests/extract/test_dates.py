"""Relative dates are resolved against the date of the message."""

from __future__ import annotations

import pytest

from cofio.ingest.extract.dates import resolve

TUESDAY = "2026-11-17T10:00:00+00:00"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The freeze starts today", "The freeze starts today (2026-11-17)"),
        ("We ship tonight", "We ship tonight (2026-11-17)"),
        ("We ship Tomorrow", "We ship Tomorrow (2026-11-18)"),
        ("It broke yesterday", "It broke yesterday (2026-11-16)"),
        ("We ship the day after tomorrow", "We ship the day after tomorrow (2026-11-19)"),
        ("The freeze holds until Friday", "The freeze holds until Friday (2026-11-20)"),
        ("The freeze holds until next Friday", "The freeze holds until next Friday (2026-11-27)"),
        ("We ship on Tuesday", "We ship on Tuesday (2026-11-17)"),
        ("It is frozen since Friday", "It is frozen since Friday (2026-11-13)"),
        ("It broke last Tuesday", "It broke last Tuesday (2026-11-10)"),
        ("Bob is on call next week", "Bob is on call next week (week of 2026-11-23)"),
        ("Ada is on call this week", "Ada is on call this week (week of 2026-11-16)"),
        ("We ship next month", "We ship next month (2026-12)"),
        ("We hired two people last quarter", "We hired two people last quarter (Q3 2026)"),
        ("We move next quarter", "We move next quarter (Q1 2027)"),
        ("We move next year", "We move next year (2027)"),
        ("Done by the end of the month", "Done by the end of the month (2026-11-30)"),
        ("Done by end of quarter", "Done by end of quarter (2026-12-31)"),
        ("Done by the end of the week", "Done by the end of the week (2026-11-22)"),
        ("The trial ends in 3 days", "The trial ends in 3 days (2026-11-20)"),
        ("The trial ends in two weeks", "The trial ends in two weeks (2026-12-01)"),
        ("We move in 14 months", "We move in 14 months (2028-01)"),
        ("We moved a year ago", "We moved a year ago (2025)"),
        ("It was written 10 days ago", "It was written 10 days ago (2026-11-07)"),
        ("Today we froze, tomorrow we ship", "Today (2026-11-17) we froze, tomorrow (2026-11-18) we ship"),
        ("I was at the clinic on Thursday", "I was at the clinic on Thursday (2026-11-12)"),
        ("We fly on the 14th to Ireland", "We fly on the 14th (2026-12-14) to Ireland"),
        ("The mock has slid to the 25th.", "The mock has slid to the 25th (2026-11-25)."),
        ("Done by the 31st", "Done by the 31st (2026-11)"),
        ("Mary is off until the 20th", "Mary is off until the 20th (2026-11-20)"),
    ],
)
def test_relative_date_is_resolved(text: str, expected: str) -> None:
    assert resolve(text, TUESDAY) == expected


@pytest.mark.parametrize(
    "text",
    [
        "We deploy on Fridays",
        "We shipped it recently and move soon",
        "The todayish view is gone",
        "We ship tomorrow (2026-11-18)",
        "In 5 minutes it restarts",
        "The next big thing",
        "The fixed deadline falls on Friday",
        "I was told it is on Friday",
        "I was in Rome on the 3rd",
        "Alert on the 95th and 99th percentile",
        "We fly in December, on the 14th",
        "It’s scheduled on Friday",
        "",
    ],
)
def test_other_phrases_are_unchanged(text: str) -> None:
    assert resolve(text, TUESDAY) == text


@pytest.mark.parametrize("said_at", ["", "yesterday", "2026-13-01T00:00:00Z"])
def test_without_a_valid_date_nothing_is_resolved(said_at: str) -> None:
    assert resolve("We ship tomorrow", said_at) == "We ship tomorrow"


def test_resolution_is_idempotent() -> None:
    once = resolve("We ship tomorrow, and again in 2 weeks", TUESDAY)
    assert resolve(once, "2027-01-01T00:00:00Z") == once


def test_months_and_years_roll_over() -> None:
    assert resolve("next month", "2026-12-31T23:00:00Z") == "next month (2027-01)"
    assert resolve("last month", "2027-01-01T00:00:00Z") == "last month (2026-12)"
    assert resolve("last quarter", "2027-01-01T00:00:00Z") == "last quarter (Q4 2026)"
    assert resolve("the end of the month", "2028-02-10T00:00:00Z") == "the end of the month (2028-02-29)"
    assert resolve("tomorrow", "2026-12-31T23:00:00Z") == "tomorrow (2027-01-01)"
