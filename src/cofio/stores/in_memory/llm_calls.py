"""Log of language-model calls of the fake store in `cofio.testing`. For tests only."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

from cofio.models.llm_calls import (
    LETTERS,
    CallOrigin,
    DaySum,
    Limits,
    LLMCall,
    LLMSpending,
    Outcome,
    day_of,
    refuse_if_spent,
)
from cofio.models.memory import to_utc_iso
from cofio.ports import Clock
from cofio.stores.inbox_rules import make_storable
from cofio.stores.llm_calls import unknown


class Calls:
    """Calls by id."""

    def __init__(self) -> None:
        self.by_id: dict[int, LLMCall] = {}

    def erase(self) -> None:
        """Erase the texts of all calls."""
        for call in list(self.by_id.values()):
            self.by_id[call.id] = replace(call, request="", reply="")


class FakeLLMCalls:
    """LLMCalls of a MemoryStore."""

    def __init__(self, holding: Callable[[], AbstractContextManager[Calls]], clock: Clock) -> None:
        self._holding, self._clock = holding, clock

    def start(
        self, provider: str, model: str, occasion: CallOrigin, request: str, *, characters: int, limits: Limits
    ) -> int:
        with self._holding() as calls:
            at = to_utc_iso(self._clock())
            refuse_if_spent(_sum_spending(calls, at), limits, at)
            number = len(calls.by_id) + 1
            calls.by_id[number] = LLMCall(
                id=number,
                at=at,
                provider=provider,
                model=model,
                purpose=occasion.purpose,
                client=make_storable(occasion.client),
                session=make_storable(occasion.session),
                project=make_storable(occasion.project),
                capture=occasion.capture,
                characters=characters,
                input_tokens=characters // LETTERS,
                output_tokens=0,
                seconds=0.0,
                outcome="running",
                request=make_storable(request),
            )
            return number

    def finish(
        self, call_id: int, outcome: Outcome, *, seconds: float, reply: str = "", tokens: tuple[int, int] = (0, 0)
    ) -> None:
        with self._holding() as calls:
            call = replace(calls.by_id[call_id], outcome=outcome, seconds=seconds)
            call = replace(call, reply=make_storable(reply) if call.request else "")
            calls.by_id[call_id] = replace(call, input_tokens=tokens[0], output_tokens=tokens[1])

    def interrupt(self, before: str) -> int:
        with self._holding() as calls:
            unfinished = [
                call for call in calls.by_id.values() if call.outcome == "running" and call.at < to_utc_iso(before)
            ]
            for call in unfinished:
                calls.by_id[call.id] = replace(call, outcome="interrupted")
            return len(unfinished)

    def spent(self) -> LLMSpending:
        with self._holding() as calls:
            return _sum_spending(calls, self._clock())

    def sums(self, since: str) -> list[DaySum]:
        with self._holding() as calls:
            late = [call for call in calls.by_id.values() if call.at >= to_utc_iso(since)]
        sums: dict[tuple[str, ...], tuple[int, ...]] = {}
        for call in late:
            key = (call.at[:10], call.provider, call.model, call.client, call.session, call.project)
            failed = int(call.outcome == "failed")
            counts = (1 - failed, failed, call.characters, call.input_tokens, call.output_tokens)
            sums[key] = tuple(total + count for total, count in zip(sums.get(key, (0,) * 5), counts, strict=True))
        return [DaySum(*key, *sums[key]) for key in sorted(sums)]  # type: ignore[arg-type]

    def newest(self, limit: int) -> list[LLMCall]:
        with self._holding() as calls:
            return [replace(call, request="", reply="") for call in reversed(calls.by_id.values())][:limit]

    def get(self, call_id: int) -> LLMCall:
        with self._holding() as calls:
            if call_id not in calls.by_id:
                raise unknown(call_id)
            return calls.by_id[call_id]

    def forget(self, before: str) -> int:
        with self._holding() as calls:
            old = [
                call for call in calls.by_id.values() if call.at < to_utc_iso(before) and (call.request or call.reply)
            ]
            for call in old:
                calls.by_id[call.id] = replace(call, request="", reply="")
            return len(old)


def _sum_spending(calls: Calls, at: str) -> LLMSpending:
    counted = [call for call in calls.by_id.values() if call.at >= day_of(at) and call.outcome != "failed"]
    return LLMSpending(len(counted), sum(call.input_tokens + call.output_tokens for call in counted))
