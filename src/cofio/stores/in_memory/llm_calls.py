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
        with self._holding() as held:
            at = to_utc_iso(self._clock())
            refuse_if_spent(_spent(held, at), limits, at)
            number = len(held.by_id) + 1
            held.by_id[number] = LLMCall(
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
        with self._holding() as held:
            call = replace(held.by_id[call_id], outcome=outcome, seconds=seconds)
            call = replace(call, reply=make_storable(reply) if call.request else "")
            held.by_id[call_id] = replace(call, input_tokens=tokens[0], output_tokens=tokens[1])

    def interrupt(self, before: str) -> int:
        with self._holding() as held:
            lost = [each for each in held.by_id.values() if each.outcome == "running" and each.at < to_utc_iso(before)]
            for each in lost:
                held.by_id[each.id] = replace(each, outcome="interrupted")
            return len(lost)

    def spent(self) -> LLMSpending:
        with self._holding() as held:
            return _spent(held, self._clock())

    def sums(self, since: str) -> list[DaySum]:
        with self._holding() as held:
            late = [each for each in held.by_id.values() if each.at >= to_utc_iso(since)]
        sums: dict[tuple[str, ...], tuple[int, ...]] = {}
        for each in late:
            key = (each.at[:10], each.provider, each.model, each.client, each.session, each.project)
            failed = int(each.outcome == "failed")
            counts = (1 - failed, failed, each.characters, each.input_tokens, each.output_tokens)
            sums[key] = tuple(one + two for one, two in zip(sums.get(key, (0,) * 5), counts, strict=True))
        return [DaySum(*key, *sums[key]) for key in sorted(sums)]  # type: ignore[arg-type]

    def newest(self, limit: int) -> list[LLMCall]:
        with self._holding() as held:
            return [replace(each, request="", reply="") for each in reversed(held.by_id.values())][:limit]

    def get(self, call_id: int) -> LLMCall:
        with self._holding() as held:
            if call_id not in held.by_id:
                raise unknown(call_id)
            return held.by_id[call_id]

    def forget(self, before: str) -> int:
        with self._holding() as held:
            old = [
                each for each in held.by_id.values() if each.at < to_utc_iso(before) and (each.request or each.reply)
            ]
            for each in old:
                held.by_id[each.id] = replace(each, request="", reply="")
            return len(old)


def _spent(held: Calls, at: str) -> LLMSpending:
    counted = [each for each in held.by_id.values() if each.at >= day_of(at) and each.outcome != "failed"]
    return LLMSpending(len(counted), sum(each.input_tokens + each.output_tokens for each in counted))
