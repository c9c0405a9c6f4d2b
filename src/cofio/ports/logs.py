"""Protocols of logs and statistics: language-model calls, files read, dashboard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cofio.models.dashboard import Agent, ChangeCounters, DailyCount, Injection, InjectionCount, MapSource
from cofio.models.llm_calls import CallOrigin, DaySum, Limits, LLMCall, LLMSpending, Outcome
from cofio.models.markdown_notes import FileState
from cofio.models.memory import Scope


class LLMCalls(Protocol):
    """Log of language-model calls: purpose, size and, for some days, the redacted texts."""

    def start(
        self, provider: str, model: str, occasion: CallOrigin, request: str, *, characters: int, limits: Limits
    ) -> int:
        """Record a call before it is sent; return its id. Raise BudgetSpent, and record nothing, at a daily limit.

        Until it is finished its tokens are estimated from its characters, so that several processes share one budget.
        """

    def finish(
        self, call_id: int, outcome: Outcome, *, seconds: float, reply: str = "", tokens: tuple[int, int] = (0, 0)
    ) -> None:
        """Record how the call ended, with the tokens of its request and its reply."""

    def interrupt(self, before: str) -> int:
        """Mark unfinished calls started before this time as interrupted, because their process died; return how many.

        Their estimated tokens stay counted. A call that ends later is finished as usual.
        """

    def spent(self) -> LLMSpending:
        """Return the calls and tokens of today (UTC)."""

    def sums(self, since: str) -> list[DaySum]:
        """Return the sums since this time by day, model and session."""

    def newest(self, limit: int) -> list[LLMCall]:
        """Return the newest calls, without their texts."""

    def get(self, call_id: int) -> LLMCall:
        """Return the call with its texts. Raise NotFound if it does not exist."""

    def forget(self, before: str) -> int:
        """Delete the texts, not the counts, of calls before this time; return how many."""


class Notes(Protocol):
    """Index of the Markdown files read into the store, with their content hashes. Derived; not journalled."""

    def folders(self) -> list[str]:
        """List the folders of which any file was read."""

    def files(self, folder: str) -> dict[str, FileState]:
        """Return the files of a folder that were read, by path within it."""

    def put(self, folder: str, files: Sequence[FileState]) -> None:
        """Record that these files were read."""

    def drop(self, folder: str, paths: Sequence[str]) -> None:
        """Remove the records of these files."""


class DashboardQueries(Protocol):
    """Statistics for the dashboard. Days are UTC days."""

    def arrived(self, since: str, scope: Scope) -> list[DailyCount]:
        """Count the live memories of the scope said on each day from `since` on, by category, oldest first.

        Memories from before `since` are counted under day "".
        """

    def done(self, since: str) -> dict[str, int]:
        """Count changes of memories since then by action, without repeats that changed nothing."""

    def inject(self, injections: Sequence[Injection]) -> None:
        """Log injected context blocks. Derived; not journalled."""

    def injected(self, since: str) -> list[InjectionCount]:
        """Return the injected amounts of each day from `since` on, oldest first; days without any are left out."""

    def forget_injected(self, before: str) -> int:
        """Delete injections logged before this time; return how many."""

    def agents(self, limit: int) -> list[Agent]:
        """Return the agents that use the store, latest first: first parts of sources, and callers of recall."""

    def pulse(self) -> ChangeCounters:
        """Return counters that rise with every change. Cheap enough to poll every second."""

    def dots(self, scope: Scope, most: int, characters: int) -> MapSource:
        """Return the newest live memories of the scope with vectors, up to `most`, and how their texts begin."""
