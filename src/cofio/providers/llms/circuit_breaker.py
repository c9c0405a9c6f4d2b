"""Circuit breaker around a model, so that a failing provider is not called for every exchange."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from cofio.errors import BudgetSpent, Misconfigured, Unavailable
from cofio.models.diagnostics import Check
from cofio.ports import LLM, Completion, Health
from cofio.providers.llms.wrapper import Wrapper

_FIRST, _LONGEST = 5.0, 300.0  # seconds
_REPEATED = 2  # consecutive failures that are reported as a problem
_UNTIL_MENDED = 60.0  # seconds of rest after an error that only the owner can fix


class CircuitBreaker(Wrapper):
    """Circuit breaker around an LLM: while it is open, every call fails at once with the last error.

    When the pause is over, the next call is sent; if that fails too, the next pause is twice as long. Until a call
    succeeds, the health check reports the error: a provider may list its models and answer no question.
    """

    def __init__(self, llm: LLM, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(llm)
        self._clock = clock
        self._lock = threading.Lock()
        self._rests = 0
        self._until = 0.0
        self._error: Unavailable | Misconfigured | None = None  # of the last call

    def health_check(self) -> Health:
        health = self._llm.health_check()
        error = self._error
        return Health(healthy=False, problem=str(error)) if health and error else health

    def problems(self) -> list[Check]:
        """Return the error of the last calls, if they failed repeatedly or cannot succeed."""
        error = self._error
        if error is None or (self._rests < _REPEATED and not isinstance(error, Misconfigured)):
            return []
        return [Check("model", "wrong", f"{self.provider_name}, {self.model}: {error.message}", error.hint)]

    def complete(self, system: str, user: str, *, schema: Mapping[str, Any] | None = None) -> Completion:
        """Return the wrapped model's reply, or raise the last error at once while the breaker is open."""
        with self._lock:
            remaining = self._until - self._clock()
            if remaining > 0 and isinstance(self._error, Misconfigured):
                raise Misconfigured(self._error.message, self._error.hint)  # new: threads add tracebacks
            if remaining > 0 and self._error:
                hint = f"{self.provider_name} is not called for another {remaining:.0f} seconds."
                raise Unavailable(self._error.message, hint)
        try:
            reply = self._llm.complete(system, user, schema=schema)
        except BudgetSpent:  # unrelated to the provider
            raise
        except Unavailable as error:
            with self._lock:
                if self._clock() >= self._until:  # else it is open already: several calls ran at once
                    self._until = self._clock() + min(_FIRST * 2.0**self._rests, _LONGEST)
                    self._rests += 1
                    self._error = Unavailable(error.message, error.hint)
            raise
        except Misconfigured as error:
            with self._lock:
                self._until = self._clock() + _UNTIL_MENDED
                self._error = Misconfigured(error.message, error.hint)  # without the traceback, which holds the request
            raise
        with self._lock:
            self._rests, self._until, self._error = 0, 0.0, None
        return reply
