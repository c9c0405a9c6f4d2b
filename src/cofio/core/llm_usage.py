"""Language model: its configuration, and the log of its calls."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from cofio.errors import NotConfigured, StoreError
from cofio.models.llm_calls import PERIODS, Limits, LLMCall, LLMUsage, day_of, periods_of, reset_after
from cofio.models.memory import MAX_PAGE, check_int, days_before
from cofio.ports import LLM, Clock
from cofio.stores.access import Access


class LLMUsageService:
    """Reports on the language model and its calls."""

    def __init__(
        self, access: Access, clock: Clock, llm: LLM | None, *, problem: str, limits: Limits, seconds: float
    ) -> None:
        self._access = access
        self._clock = clock
        self.llm = llm  # the model that reads conversations; None if not configured
        self._problem = problem  # reason why a requested model is unavailable
        self._limits = limits
        self._seconds = seconds  # after which an unfinished call counts as dead

    def extraction(self) -> dict[str, Any]:
        """Return the configured extraction model, or why a requested one is unavailable."""
        if self.llm is None:
            return {"enabled": False, **({"problem": self._problem} if self._problem else {})}
        model_info = {"provider": self.llm.provider_name, "model": self.llm.model, "audn": self.llm.profile.reconciles}
        model_info["audn_known"] = self.llm.profile.reconciles_known
        until = self._budget_spent_until()
        return {"enabled": True, **model_info, **({"spent_until": until} if until else {})}

    def llm_usage(self, *, limit: int = 20) -> LLMUsage:
        """Return model calls of today and the last 7 and 30 days, by model and session, and the newest calls."""
        check_int(limit, "limit", least=1, most=MAX_PAGE)
        self.close_interrupted()
        calls, now = self._access.store.llm_calls, self._clock()
        sums = calls.sums(days_before(day_of(now), max(PERIODS) - 1))
        return LLMUsage(
            limits=self._limits,
            today=calls.spent(),
            resets_at=reset_after(now),
            periods=periods_of(sums, now),
            calls=tuple(calls.newest(limit)),
        )

    def llm_call(self, call_id: int) -> LLMCall:
        """Return one call of the language model, with redacted texts."""
        self.close_interrupted()
        return self._access.store.llm_calls.get(check_int(call_id, "id"))

    def close_interrupted(self) -> None:
        """Close the calls of processes that died. Readers of the log do not wait for a busy store."""
        with suppress(StoreError):
            self._access.store.llm_calls.interrupt(days_before(self._clock(), self._seconds / 86_400))

    def _budget_spent_until(self) -> str:
        """Return the time when the model's daily limits reset; "" if none is reached."""
        if not any(self._limits) or not self._access.whole.llm_calls.spent().reaches(self._limits):
            return ""
        return reset_after(self._clock())

    def require_llm(self) -> None:
        """Raise NotConfigured without a language model."""
        if self.llm is None:
            hint = "Set EXTRACT_PROVIDER to anthropic, openai or ollama; `capture` learns without a model too."
            raise NotConfigured("No language model is configured for extraction.", self._problem or hint)
