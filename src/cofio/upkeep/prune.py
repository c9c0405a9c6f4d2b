"""Pruning: what nobody has asked for in a long time is set aside. Memories in, decisions to archive out.

uses ─ was it watched long enough? ─▶ the unused, oldest first ─ still valuable? ─▶ Delete | Refusal

That nobody recalled a memory proves something only where recalling is noted, and where people recall at all. Where it
is not so, nothing is pruned, and the plan says why.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from cofio.chores import Plan, Refusal, Tracking
from cofio.errors import CofioError
from cofio.model import Delete, Memory, Scope, days_before, moment
from cofio.ports import Store
from cofio.upkeep.valuing import ModelJudge

__all__ = ["DAYS", "Keeps", "ModelJudge", "decide"]

#: The ids of those, among these memories, that are still valuable. A CofioError when that cannot be told.
Keeps: TypeAlias = Callable[[Sequence[Memory]], Collection[int]]

#: For how many days a memory of each category stays without being asked for; "" is for one without a category.
DAYS: Mapping[str, int] = {"detail": 60, "decision": 120, "learning": 120, "": 90}
_ASKED_ON = 5  # different days on which memories must have been asked for at all
_SHARE = 5  # a fifth of the live memories goes at once, at most
_LOOKED_AT = 2_000  # memories of a category in one run
_BATCH = 20  # memories that the model judges at once
_JUDGED = 400  # memories that it judges in one run
_FAILURES = 3  # batches in a row, after which the model is asked no more


def decide(
    store: Store,
    now: str,
    *,
    days: Mapping[str, int] = DAYS,
    keeps: Keeps | None,
    most: int,
    halted: Callable[[], bool] = lambda: False,
) -> Plan:
    """Archive what was never recalled for so many days, oldest first; what the model holds valuable stays.

    At most `most` and a fifth of all at once. `halted` is asked before each batch.
    """
    unused, unwatched = _unused(store, now, days)
    live = store.page(Scope(), limit=1)[1]
    allowed = min(most, live // _SHARE)
    sifted = _Sifted()
    if keeps is None:
        sifted.gone, sifted.examined = unused[:allowed], min(allowed, len(unused))
    else:
        sifted.sift(_in_turn(unused, store), allowed, keeps, halted)
    since = store.uses.tracking(now).since or now
    left = _left(len(unused) - sifted.examined, allowed, live) if len(sifted.gone) >= allowed else ""
    if keeps and not left and not sifted.ended and sifted.examined < len(unused):
        left = f"The model judges at most {_JUDGED} at once; the others are for the next time."
    return Plan(
        chore="prune",
        decisions=tuple(Delete(each.id, _reason(each, store, now, since)) for each in sifted.gone),
        refused=tuple(sifted.refused),
        examined=sifted.examined,
        note=" ".join(filter(None, (*unwatched, sifted.ended, left))),
    )


# ── what may go ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _unused(store: Store, now: str, days: Mapping[str, int]) -> tuple[list[Memory], list[str]]:
    """What nobody asked for, oldest first; and why of some categories nobody can tell."""
    unused: list[Memory] = []
    untold: dict[str, list[str]] = {}
    for category, span in days.items():
        before = days_before(now, span)
        if problem := _problem(store.uses.tracking(before), before, span):
            untold.setdefault(problem, []).append(category or "no category")
        else:
            unused += store.uses.unused(category, before, _LOOKED_AT)
    unused.sort(key=lambda memory: (memory.created_at, memory.id))
    return unused, [f"Nothing of {_and(of)} is pruned: {problem}." for problem, of in untold.items()]


def _problem(tracking: Tracking, before: str, span: int) -> str:
    """Why it proves nothing that a memory was not recalled in that time; "" when it does."""
    if tracking.since is None:
        return "no retrieval was ever noted"
    if tracking.since > before:
        return f"retrievals are noted since {tracking.since[:10]} only, and it takes {span} days of them"
    if tracking.days < _ASKED_ON:
        on = f"{tracking.days} different day{'' if tracking.days == 1 else 's'}"
        return f"in {span} days memories were asked for on {on} only, and it takes {_ASKED_ON}"
    return ""


def _in_turn(unused: Sequence[Memory], store: Store) -> list[Memory]:
    """In an order that moves on as the store does: what the model keeps must not hold up the others for ever."""
    newest = store.changesets(1)
    start = newest[0].id * 37 % len(unused) if newest and len(unused) > _JUDGED else 0
    return [*unused[start:], *unused[:start]][:_JUDGED]


@dataclass(slots=True)
class _Sifted:
    """What became of the unused ones so far."""

    gone: list[Memory] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    examined: int = 0
    ended: str = ""  # why it ended early

    def sift(self, unused: Sequence[Memory], allowed: int, keeps: Keeps, halted: Callable[[], bool]) -> None:
        """Have them judged, a batch at a time, until enough of them go."""
        failures = 0
        while self.examined < len(unused) and len(self.gone) < allowed:
            if halted():
                self.ended = f"It was stopped after {self.examined} of {len(unused)}."
                return
            size = min(_BATCH, allowed - len(self.gone))
            failures = 0 if self._judge(unused[self.examined : self.examined + size], keeps) else failures + 1
            if failures == _FAILURES:
                self.ended = f"The model failed {failures} times in a row; it was asked no more."
                return

    def _judge(self, batch: Sequence[Memory], keeps: Keeps) -> bool:
        """Keep or let go each of them; False when nobody could tell, and all stay."""
        self.examined += len(batch)
        try:
            kept = set(keeps(batch))
        except CofioError as error:
            reason = f"the model could not tell whether it is still valuable: {error.message}"
            self.refused.append(Refusal(ids=tuple(memory.id for memory in batch), reason=reason))
            return False
        self.gone += [memory for memory in batch if memory.id not in kept]
        held = [memory for memory in batch if memory.id in kept]
        self.refused += [Refusal(ids=(memory.id,), reason="the model holds it still valuable") for memory in held]
        return True


# ── what is said of it ────────────────────────────────────────────────────────────────────────────────────────────────


def _reason(memory: Memory, store: Store, now: str, since: str) -> str:
    """Why it goes; of the time before retrievals were noted nothing is claimed."""
    sightings = store.sightings(memory.id) if memory.occurrences > 1 else []
    said = max(memory.created_at, *(each.at for each in sightings)) if sightings else memory.created_at
    spoken = _days(said, now)
    if said >= since:
        return f"never recalled in the {spoken} since it was last said"
    return f"never recalled in the {_days(since, now)} that retrievals are noted; it was last said {spoken} ago"


def _left(count: int, allowed: int, live: int) -> str:
    if count <= 0:
        return ""
    limit = f"a fifth of {live:,} live memories" if allowed == live // _SHARE else f"{allowed:,}"
    told = f"At least {count:,}" if count >= _LOOKED_AT else f"{count:,}"
    return f"{told} more are left for the next time: at most {limit} go at once."


def _days(start: str, end: str) -> str:
    count = (datetime.fromisoformat(moment(end)) - datetime.fromisoformat(moment(start))).days
    return f"{count:,} day{'' if count == 1 else 's'}"


def _and(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
