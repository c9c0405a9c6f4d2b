"""Language model: its configuration, and the log of its calls."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cofio.errors import NotConfigured, StoreError
from cofio.models.llm_calls import PERIODS, Limits, LLMCall, LLMUsage, day_of, periods_of, reset_after
from cofio.models.memory import MAX_PAGE, check_int, days_before
from cofio.ports import LLM, Clock
from cofio.stores.access import Access


@dataclass(eq=False)
class LLMUsageService:
    """Reports on the language model and its calls."""

    access: Access
    clock: Clock
    llm: LLM | None  # the model that reads conversations; None if not configured
    problem: str  # reason why a requested model is unavailable
    limits: Limits
    seconds: float  # after which an unfinished call counts as dead

    def extraction(self) -> dict[str, Any]:
        """Return the configured extraction model, or why a requested one is unavailable."""
        if self.llm is None:
            return {"enabled": False, **({"problem": self.problem} if self.problem else {})}
        model_info: dict[str, Any] = {"provider": self.llm.provider_name, "model": self.llm.model}
        model_info |= {"audn": self.llm.supports_audn, "audn_known": self.llm.profile.reconciles_known}
        if any(self.limits) and self.access.whole.llm_calls.spent().reaches(self.limits):
            model_info["spent_until"] = reset_after(self.clock())
        return {"enabled": True, **model_info}

    def llm_usage(self, *, limit: int = 20) -> LLMUsage:
        """Return model calls of today and the last 7 and 30 days, by model and session, and the newest calls."""
        check_int(limit, "limit", least=1, most=MAX_PAGE)
        self.close_interrupted()
        calls, now = self.access.store.llm_calls, self.clock()
        sums = calls.sums(days_before(day_of(now), max(PERIODS) - 1))
        return LLMUsage(
            limits=self.limits,
            today=calls.spent(),
            resets_at=reset_after(now),
            periods=periods_of(sums, now),
            calls=tuple(calls.newest(limit)),
        )

    def llm_call(self, call_id: int) -> LLMCall:
        """Return one call of the language model, with redacted texts."""
        self.close_interrupted()
        return self.access.store.llm_calls.get(check_int(call_id, "id"))

    def close_interrupted(self) -> None:
        """Close the calls of processes that died. Readers of the log do not wait for a busy store."""
        with suppress(StoreError):
            self.access.store.llm_calls.interrupt(days_before(self.clock(), self.seconds / 86_400))

    def require_llm(self) -> None:
        """Raise NotConfigured without a language model."""
        if self.llm is None:
            hint = "Set EXTRACT_PROVIDER to anthropic, openai or ollama; `capture` learns without a model too."
            raise NotConfigured("No language model is configured for extraction.", self.problem or hint)
