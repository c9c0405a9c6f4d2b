"""Base class of model wrappers."""

from __future__ import annotations

from cofio.ports import LLM, Health, Probeable, Profile, Stoppable


class Wrapper:
    """LLM that delegates its description to the wrapped one."""

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
        """Stop the wrapped model if it supports that."""
        if isinstance(self._llm, Stoppable):
            self._llm.stop()

    def probe(self, *, ask: bool) -> None:
        """Probe the capabilities of the wrapped model if they are unknown."""
        if isinstance(self._llm, Probeable):
            self._llm.probe(ask=ask)

    def health_check(self) -> Health:
        return self._llm.health_check()
