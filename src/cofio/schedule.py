"""When chores are due: cron text and times in, slots out. A slot is a time at which a chore is to run.

Part of the words: pure functions over text. Everything is UTC, so no hour is missing in spring and none comes twice.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cofio.errors import Misconfigured
from cofio.model import moment

_LONGEST = 200  # characters; no schedule that somebody means is longer
_OFF = ("", "off", "none", "never")
_HINT = 'Give minute, hour, day, month and weekday in UTC, such as "0 3 * * *" for 03:00 every day; "off" for never.'


def is_on(cron: str) -> bool:
    """Whether the text is a schedule at all: it may be empty, or say "off"."""
    return cron.strip().lower() not in _OFF


def check(cron: str) -> None:
    """Misconfigured, with what to do, unless the text is a schedule or switches the chore off."""
    if is_on(cron):
        _newest(cron, datetime.now(UTC))


def newest(cron: str, now: str) -> str | None:
    """The newest slot up to now; None of a schedule that is off."""
    return _newest(cron, datetime.fromisoformat(moment(now))) if is_on(cron) else None


def due(cron: str, last_slot: str | None, now: str) -> str | None:
    """The newest slot up to now, unless it was had already; None when there is none.

    Slots that were missed are caught up by that one run. Where there was no slot yet, nothing is due for the past.
    """
    slot = newest(cron, now)
    return slot if slot and last_slot and slot > moment(last_slot) else None


def _newest(cron: str, now: datetime) -> str:
    from cronsim import CronSim, CronSimError  # not needed to import the words

    if len(cron) > _LONGEST or len(cron.split()) != 5:
        raise Misconfigured(f"{cron[:_LONGEST]!r} has not the five fields of a schedule.", _HINT)
    just_after = now.replace(microsecond=0) + timedelta(seconds=1)  # a slot that is now counts too
    try:
        return moment(next(CronSim(cron, just_after, reverse=True)))
    except (CronSimError, ValueError) as error:
        raise Misconfigured(f"{cron!r} is no schedule: {error}.", _HINT) from error
    except (StopIteration, OverflowError) as error:
        raise Misconfigured(f"{cron!r} is a schedule that never comes.", _HINT) from error
