"""The base of models that stand around another one."""

from __future__ import annotations

from cofio.ports import LLM, Health, Probeable, Profile, Stoppable


class Wrapper:
    """An LLM that is described as the one inside."""

    def __init__(self, llm: LLM) -> None:
        self._llm = llm

    @property
    def provider_name(self) -> str:
        return self._llm.provider_name

    @property
    def model(self) -> str:
        return self._llm.model

    @property
    def profile(self) -> Profile:
        return self._llm.profile

    @property
    def supports_audn(self) -> bool:
        return self._llm.supports_audn

    def stop(self) -> None:
        """Stop the model inside, where it can be stopped."""
        if isinstance(self._llm, Stoppable):
            self._llm.stop()

    def probe(self, *, ask: bool) -> None:
        """Find out what the model inside can do, where that is not known."""
        if isinstance(self._llm, Probeable):
            self._llm.probe(ask=ask)

    def health_check(self) -> Health:
        return self._llm.health_check()
