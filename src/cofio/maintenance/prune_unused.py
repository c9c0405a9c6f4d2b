"""Pruning: archives memories that have not been retrieved for a long time. Takes memories, returns decisions.

uses ─ was it recorded long enough? ─▶ the unused, oldest first ─ still valuable? ─▶ Delete | Refusal

A missing retrieval is meaningful only if retrievals are recorded and occur at all. Otherwise nothing is pruned, and the
plan states the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from cofio.errors import CofioError
from cofio.maintenance import clusters
from cofio.models.maintenance import MaintenancePlan, Refusal, UsageTracking
from cofio.models.memory import Delete, Memory, Scope, days_before, to_utc_iso
from cofio.ports import MemoryQueries, Store

#: Function that returns the ids of memories that are still valuable. It raises CofioError if it cannot decide.
Keeps: TypeAlias = Callable[[Sequence[Memory]], Collection[int]]

#: Days that an unused memory of each category is kept; "" is for memories without a category.
DAYS: Mapping[str, int] = {"detail": 60, "decision": 120, "learning": 120, "": 90}
_ASKED_ON = 5  # minimum number of different days with retrievals
_SHARE = 5  # divisor: at most a fifth of the live memories is archived at once
_LOOKED_AT = 2_000  # memories of a category in one run
_BATCH = 20  # memories per question to the model
_JUDGED = 400  # memories judged by the model in one run
_FAILURES = 3  # consecutive failed batches after which the model is not asked again


def decide(
    store: Store,
    now: str,
    *,
    days: Mapping[str, int] = DAYS,
    keeps: Keeps | None,
    most: int,
    halted: Callable[[], bool] = lambda: False,
) -> MaintenancePlan:
    """Archive memories that were not retrieved for the days of their category, oldest first, unless the model keeps
    them.

    At most `most` memories and a fifth of all are archived at once. `halted` is called before each batch.
    """
    unused, notes = _find_unused(store, now, days)
    live = store.page(Scope(), limit=1)[1]
    allowed = min(most, live // _SHARE)
    result = _PruneResult()
    if keeps is None:
        result.gone, result.examined = unused[:allowed], min(allowed, len(unused))
    else:  # rotated, so that kept memories do not block the others
        candidates = clusters.rotate(unused, store)[:_JUDGED] if len(unused) > _JUDGED else unused
        result.sift(candidates, allowed, keeps, halted)
    since = store.usage.tracking(now).since or now
    remaining = len(unused) - result.examined
    if result.ended:
        notes.append(result.ended)
    if len(result.gone) >= allowed and remaining > 0:
        limit = f"a fifth of {live:,} live memories" if allowed == live // _SHARE else f"{allowed:,}"
        number = f"At least {remaining:,}" if remaining >= _LOOKED_AT else f"{remaining:,}"
        notes.append(f"{number} more are left for the next run: at most {limit} are archived at once.")
    elif keeps and not result.ended and remaining > 0:
        notes.append(f"The model judges at most {_JUDGED} at once; the others are left for the next run.")
    return MaintenancePlan(
        chore="prune",
        decisions=tuple(Delete(memory.id, _describe_reason(memory, store, now, since)) for memory in result.gone),
        refused=tuple(result.refused),
        examined=result.examined,
        note=" ".join(notes),
    )


def _find_unused(store: Store, now: str, days: Mapping[str, int]) -> tuple[list[Memory], list[str]]:
    """Return unused memories, oldest first, and the reasons why some categories cannot be judged."""
    unused: list[Memory] = []
    unjudged: dict[str, list[str]] = {}
    for category, span in days.items():
        before = days_before(now, span)
        if problem := _describe_problem(store.usage.tracking(before), before, span):
            unjudged.setdefault(problem, []).append(category or "no category")
        else:
            unused += store.usage.unused(category, before, _LOOKED_AT)
    unused.sort(key=lambda memory: (memory.created_at, memory.id))
    notes = []
    for problem, names in unjudged.items():
        listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
        notes.append(f"Not pruned: {listed} ({problem}).")
    return unused, notes


def _describe_problem(tracking: UsageTracking, before: str, span: int) -> str:
    """Return why missing retrievals in that time are not meaningful; "" if they are."""
    if tracking.since is None:
        return "no retrieval was ever recorded"
    if tracking.since > before:
        return f"retrievals are recorded only since {tracking.since[:10]}, and {span} days are required"
    if tracking.days < _ASKED_ON:
        on = f"{tracking.days} different day{'' if tracking.days == 1 else 's'}"
        return f"memories were retrieved on only {on} in {span} days, and {_ASKED_ON} are required"
    return ""


@dataclass(slots=True)
class _PruneResult:
    """Result of judging the unused memories so far."""

    gone: list[Memory] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    examined: int = 0
    ended: str = ""  # why it ended early

    def sift(self, unused: Sequence[Memory], allowed: int, keeps: Keeps, halted: Callable[[], bool]) -> None:
        """Have the memories judged in batches, until enough are to be archived. If the model fails, a batch is kept."""
        failures = 0
        while self.examined < len(unused) and len(self.gone) < allowed:
            if halted():
                self.ended = f"The run was stopped after {self.examined} of {len(unused)} memories."
                return
            batch = unused[self.examined : self.examined + min(_BATCH, allowed - len(self.gone))]
            self.examined += len(batch)
            try:
                kept_ids = set(keeps(batch))
            except CofioError as error:
                reason = f"the model could not decide whether it is still valuable: {error.message}"
                self.refused.append(Refusal(ids=tuple(memory.id for memory in batch), reason=reason))
                failures += 1
                if failures == _FAILURES:
                    self.ended = f"The language model failed {failures} times in a row and was not asked again."
                    return
                continue
            failures = 0
            for memory in batch:
                if memory.id in kept_ids:
                    self.refused.append(Refusal(ids=(memory.id,), reason="the model considers it still valuable"))
                else:
                    self.gone.append(memory)


def _describe_reason(memory: Memory, store: MemoryQueries, now: str, since: str) -> str:
    """Return the reason for archiving a memory; it covers only the time in which retrievals were recorded."""
    sightings = store.occurrences(memory.id) if memory.occurrences > 1 else []
    last_said = max(memory.created_at, *(sighting.at for sighting in sightings)) if sightings else memory.created_at
    spoken = _format_days(last_said, now)
    if last_said >= since:
        return f"never recalled in the {spoken} since it was last said"
    return f"never recalled in the {_format_days(since, now)} since retrievals are recorded; last said {spoken} ago"


def _format_days(start: str, end: str) -> str:
    count = (datetime.fromisoformat(to_utc_iso(end)) - datetime.fromisoformat(to_utc_iso(start))).days
    return f"{count:,} day{'' if count == 1 else 's'}"
