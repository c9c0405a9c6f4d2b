"""A model that is left alone for a while after it failed, so that a sick provider is not asked for every exchange."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from cofio.errors import BudgetSpent, Misconfigured, Unavailable
from cofio.llms.wrapper import Wrapper
from cofio.ports import LLM, Completion, Health

_FIRST, _LONGEST = 5.0, 300.0  # seconds
_UNTIL_MENDED = 60.0  # seconds of rest after an error that only the owner can mend


class Resting(Wrapper):
    """An LLM around another: while that one rests, every question fails at once, with what was wrong.

    When the rest is over it is asked again; if that fails too, the next rest is twice as long. Until something
    succeeds, the health says what went wrong: a provider may list its models and answer no question.
    """

    def __init__(self, llm: LLM, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(llm)
        self._clock = clock
        self._lock = threading.Lock()
        self._rests = 0
        self._until = 0.0
        self._problem = ""
        self._told = ""  # the problem with what to do about it
        self._misconfigured: Misconfigured | None = None

    def health_check(self) -> Health:
        health = self._llm.health_check()
        return Health(healthy=False, problem=self._told) if health and self._told else health

    def complete(self, system: str, user: str, *, schema: Mapping[str, Any] | None = None) -> Completion:
        """The other's reply. While it rests, the error that it rests for at once."""
        with self._lock:
            left = self._until - self._clock()
            if left > 0:
                if self._misconfigured:
                    raise Misconfigured(self._misconfigured.message, self._misconfigured.hint)
                raise Unavailable(self._problem, f"{self.provider_name} is left alone for {left:.0f} more seconds.")
        try:
            reply = self._llm.complete(system, user, schema=schema)
        except BudgetSpent:  # says nothing about the provider
            raise
        except Unavailable as error:
            self._rest(error)
            raise
        except Misconfigured as error:
            with self._lock:
                self._until, self._problem = self._clock() + _UNTIL_MENDED, error.message
                self._told = str(error)
                self._misconfigured = error
            raise
        with self._lock:
            self._rests, self._until, self._problem, self._told, self._misconfigured = 0, 0.0, "", "", None
        return reply

    def _rest(self, error: Unavailable) -> None:
        with self._lock:
            if self._clock() < self._until:
                return  # it rests already: several had asked at once
            self._until = self._clock() + min(_FIRST * 2.0**self._rests, _LONGEST)
            self._rests += 1
            self._problem, self._told, self._misconfigured = error.message, str(error), None
