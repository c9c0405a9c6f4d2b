"""Model wrapper that records calls and enforces daily limits."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from cofio.errors import NoReply, RefusedError, StoreError
from cofio.models.llm_calls import LETTERS, Limits, Outcome, current_occasion
from cofio.ports import LLM, Completion, LLMCalls, Stoppable
from cofio.providers.llms.wrapper import Wrapper

_RECORDED = 3.0  # seconds that `stop` waits for running calls to be recorded
_log = logging.getLogger(__name__)


class MeteredLLM(Wrapper):
    """LLM that records each call of another before it is sent, and refuses calls beyond a daily limit.

    `redact` removes secrets from the recorded texts; with None no text is recorded.
    """

    def __init__(
        self,
        llm: LLM,
        calls: LLMCalls,
        limits: Limits,
        redact: Callable[[str], str] | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(llm)
        self._calls, self._limits, self._redact, self._clock = calls, limits, redact, clock
        self._running: set[int] = set()
        self._ended = threading.Condition()

    def stop(self) -> None:
        """Stop the wrapped model, and wait for its calls to be recorded before the store closes."""
        super().stop()
        if isinstance(self._llm, Stoppable):
            with self._ended:
                self._ended.wait_for(lambda: not self._running, _RECORDED)

    def complete(self, system: str, user: str, *, schema: Mapping[str, Any] | None = None) -> Completion:
        """Return the wrapped model's reply. Raise BudgetSpent without sending if a daily limit is reached."""
        characters = len(system) + len(user)
        call = self._calls.start(
            self.provider_name,
            self.model,
            current_occasion(),
            self._kept(f"{system}\n\n{user}"),
            characters=characters,
            limits=self._limits,
        )
        with self._ended:
            self._running.add(call)
        began = self._clock()
        outcome: Outcome = "interrupted"  # a call that ends without a reply may be billed
        reply = Completion("")
        try:
            reply = self._llm.complete(system, user, schema=schema)
        except RefusedError:
            outcome = "refused"  # it was processed, and is billed
            raise
        except NoReply:
            raise
        except Exception:
            outcome = "failed"
            raise
        else:
            outcome = "done"
            return reply
        finally:
            tokens = (reply.usage.input_tokens, reply.usage.output_tokens)
            if outcome != "failed" and not any(tokens):
                tokens = (characters // LETTERS, len(reply.text) // LETTERS)
            seconds = self._clock() - began
            try:
                self._calls.finish(call, outcome, seconds=seconds, reply=self._kept(reply.text), tokens=tokens)
            except StoreError as error:  # the reply is kept, with the estimated tokens
                _log.warning("could not record the end of language model call %d: %s", call, error)
            finally:
                with self._ended:
                    self._running.discard(call)
                    self._ended.notify_all()

    def _kept(self, text: str) -> str:
        return self._redact(text) if self._redact else ""
