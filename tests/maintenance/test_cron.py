"""Cron schedules of maintenance chores."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cofio.errors import Misconfigured
from cofio.models import cron as models_cron
from cofio.models.memory import to_utc_iso


def utc(text: str) -> str:
    return to_utc_iso(text)


@pytest.mark.parametrize(
    ("cron", "now", "slot"),
    [
        ("0 3 * * *", "2026-03-10T03:00:00Z", "2026-03-10T03:00:00Z"),
        ("0 3 * * *", "2026-03-10T03:00:00.000001Z", "2026-03-10T03:00:00Z"),
        ("0 3 * * *", "2026-03-10T02:59:59.999999Z", "2026-03-09T03:00:00Z"),
        ("0 3 * * *", "2026-01-01T00:00:00Z", "2025-12-31T03:00:00Z"),
        ("0 4 * * 0", "2026-03-11T00:00:00Z", "2026-03-08T04:00:00Z"),
        ("0 4 * * 7", "2026-03-11T00:00:00Z", "2026-03-08T04:00:00Z"),
        ("0 4 * * SUN", "2026-03-08T03:59:00Z", "2026-03-01T04:00:00Z"),
        ("30 2 31 * *", "2026-03-30T00:00:00Z", "2026-01-31T02:30:00Z"),
        ("0 0 L * *", "2026-03-01T00:00:00Z", "2026-02-28T00:00:00Z"),
        ("0 0 29 2 *", "2026-03-01T00:00:00Z", "2024-02-29T00:00:00Z"),
        ("0 0 29 2 *", "2028-03-01T00:00:00Z", "2028-02-29T00:00:00Z"),
        ("*/15 * * * *", "2026-03-10T03:44:00Z", "2026-03-10T03:30:00Z"),
        ("0 3 13 * 5", "2026-03-14T00:00:00Z", "2026-03-13T03:00:00Z"),
        ("0 3 * * *", "2026-03-10T05:30:00+02:00", "2026-03-10T03:00:00Z"),
    ],
)
def test_newest_slot_is_the_last_one_before_now(cron: str, now: str, slot: str) -> None:
    assert models_cron.newest_slot(cron, now) == utc(slot)


@pytest.mark.parametrize("day", ["2026-03-29", "2026-10-25", "2026-03-08", "2026-11-01"])
def test_daylight_saving_days_are_ordinary_days(day: str) -> None:
    for hour in range(24):
        now = f"{day}T{hour:02}:30:00Z"
        assert models_cron.newest_slot("0 * * * *", now) == utc(f"{day}T{hour:02}:00:00Z")
    assert models_cron.newest_slot("30 2 * * *", f"{day}T12:00:00Z") == utc(f"{day}T02:30:00Z")


def test_slot_is_due_once() -> None:
    cron, last = "0 3 * * *", "2026-03-10T03:00:00Z"
    assert models_cron.due_slot(cron, last, "2026-03-10T03:00:30Z") is None
    assert models_cron.due_slot(cron, last, "2026-03-11T02:59:59Z") is None
    assert models_cron.due_slot(cron, last, "2026-03-11T03:00:00Z") == utc("2026-03-11T03:00:00Z")
    assert models_cron.due_slot(cron, "2026-03-11T03:00:00Z", "2026-03-11T03:00:30Z") is None


def test_missed_slots_are_caught_up_by_one_run() -> None:
    now, last, ran = "2026-03-17T09:00:00Z", "2026-03-10T03:00:00Z", []
    while slot := models_cron.due_slot("0 3 * * *", last, now):
        ran.append(slot)
        last = slot
    assert ran == [utc("2026-03-17T03:00:00Z")]


def test_new_schedule_is_not_due_for_past_slots() -> None:
    assert models_cron.due_slot("0 3 * * *", None, "2026-03-17T09:00:00Z") is None


def test_changed_schedule_continues_after_the_last_slot() -> None:
    last, now = "2026-03-10T03:00:00Z", "2026-03-10T04:00:00Z"
    assert models_cron.due_slot("0 5 * * *", last, now) is None
    assert models_cron.due_slot("30 3 * * *", last, now) == utc("2026-03-10T03:30:00Z")


@pytest.mark.parametrize("cron", ["", "  ", "off", "OFF", "none", "never"])
def test_schedule_can_be_disabled(cron: str) -> None:
    models_cron.check(cron)
    assert not models_cron.is_enabled(cron)
    assert models_cron.newest_slot(cron, "2026-03-10T03:00:00Z") is None
    assert models_cron.due_slot(cron, "2020-01-01T00:00:00Z", "2026-03-10T03:00:00Z") is None


@pytest.mark.parametrize("cron", ["0 3 * * *", "0 4 * * 0", "*/5 1-3,7 * JAN-MAR MON", "0 0 29 2 *", " 0  3 * * * "])
def test_valid_schedule_is_accepted(cron: str) -> None:
    models_cron.check(cron)
    assert models_cron.is_enabled(cron)


@pytest.mark.parametrize(
    "cron",
    [
        "3", "@daily", "every day", "0 3 * *", "0 0 3 * * *", "60 3 * * *", "0 24 * * *", "0 3 0 * *", "0 3 * 13 *",
        "0 3 * * 8", "0 3 30 2 *", "*/0 * * * *", "5-1 * * * *", "x * * * *", "0 3 * * MON-", "-1 3 * * *",
        "²  3 * * *", "9" * 5_000 + " 3 * * *", "0 3 * 2 1#9",
    ],
)  # fmt: skip
def test_invalid_schedule_is_rejected_with_hint(cron: str) -> None:
    with pytest.raises(Misconfigured, match="such as") as refused:
        models_cron.check(cron)
    assert len(str(refused.value)) < 600


def test_settings_do_not_import_the_cron_library() -> None:
    script = "import sys, cofio.settings as s; s.Settings.load({}, {}); print('cronsim' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"
