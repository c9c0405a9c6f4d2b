"""Cron schedules of the chores: cron text and times in, slots out. A slot is a time at which a chore is due.

Pure functions over text. Everything is UTC, so daylight saving neither skips nor repeats an hour.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cofio.errors import Misconfigured
from cofio.models.memory import to_utc_iso

_LONGEST = 200  # characters; longer texts are rejected
_OFF = ("", "off", "none", "never")
_HINT = 'Give minute, hour, day, month and weekday in UTC, such as "0 3 * * *" for 03:00 every day; "off" for never.'


def is_enabled(cron: str) -> bool:
    """Return whether the text enables a schedule; empty, "off", "none" and "never" disable it."""
    return cron.strip().lower() not in _OFF


def check(cron: str) -> None:
    """Raise Misconfigured unless the text is a schedule or switches the chore off."""
    if is_enabled(cron):
        _newest(cron, datetime.now(UTC))


def newest_slot(cron: str, now: str) -> str | None:
    """Return the newest slot up to now, or None if the schedule is off."""
    return _newest(cron, datetime.fromisoformat(to_utc_iso(now))) if is_enabled(cron) else None


def due_slot(cron: str, last_slot: str | None, now: str) -> str | None:
    """Return the newest slot up to now if it has not run yet, else None.

    One run catches up all missed slots. Without a previous slot nothing is due for the past.
    """
    slot = newest_slot(cron, now)
    return slot if slot and last_slot and slot > to_utc_iso(last_slot) else None


def _newest(cron: str, now: datetime) -> str:
    from cronsim import CronSim, CronSimError  # loaded on demand to keep the import light

    if len(cron) > _LONGEST or len(cron.split()) != 5:
        raise Misconfigured(f"{cron[:_LONGEST]!r} does not have the five fields of a cron expression.", _HINT)
    just_after = now.replace(microsecond=0) + timedelta(seconds=1)  # include a slot that is exactly now
    try:
        return to_utc_iso(next(CronSim(cron, just_after, reverse=True)))
    except (CronSimError, ValueError) as error:
        raise Misconfigured(f"{cron!r} is not a valid schedule: {error}.", _HINT) from error
    except (StopIteration, OverflowError) as error:
        raise Misconfigured(f"The schedule {cron!r} never matches a time.", _HINT) from error
