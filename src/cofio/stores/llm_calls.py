"""Log of language-model calls: the rules of every SQL store, which the processes of a store share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cofio.errors import NotFound
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
from cofio.stores.inbox_rules import make_storable
from cofio.stores.query_runner import Queries, SqlAdapter
from cofio.stores.row_mapping import is_storable_int

_COUNTED = (
    *("id", "at", "provider", "model", "purpose", "client", "session", "project", "capture"),
    *("characters", "input_tokens", "output_tokens", "seconds", "outcome"),
)
_COUNTS = ", ".join(_COUNTED)
_ALL = f"{_COUNTS}, request, reply"


class SqlLLMCalls(SqlAdapter):
    """LLMCalls of an SQL store."""

    @contextmanager
    def _writing(self) -> Iterator[Queries]:
        """Yield a transaction, one at a time among all processes: they share the daily limits."""
        with self._database.writing() as queries:
            queries.lock("llm_calls")
            yield queries

    def start(
        self, provider: str, model: str, occasion: CallOrigin, request: str, *, characters: int, limits: Limits
    ) -> int:
        about = {name: make_storable(getattr(occasion, name)) for name in ("purpose", "client", "session", "project")}
        values = {
            **about, "provider": provider, "model": model, "capture": occasion.capture, "characters": characters,
            "input_tokens": characters // LETTERS, "request": make_storable(request),
        }  # fmt: skip
        with self._writing() as queries:
            at = self._clock()  # taken while the write lock is held
            refuse_if_spent(_read_spending(queries, at), limits, at)
            return int(queries.all("start_llm_call", {**values, "at": at})[0][0])

    def finish(
        self, call_id: int, outcome: Outcome, *, seconds: float, reply: str = "", tokens: tuple[int, int] = (0, 0)
    ) -> None:
        values = {"id": call_id, "outcome": outcome, "seconds": seconds, "reply": make_storable(reply)}
        with self._writing() as queries:
            queries.run("finish_llm_call", {**values, "input_tokens": tokens[0], "output_tokens": tokens[1]})

    def interrupt(self, before: str) -> int:
        if not self._read("unfinished_llm_calls", {"before": to_utc_iso(before)}):
            return 0  # the usual case, without the lock
        with self._writing() as queries:
            return len(queries.all("interrupt_llm_calls", {"before": to_utc_iso(before)}))

    def spent(self) -> LLMSpending:
        with self._reading() as queries:
            return _read_spending(queries, self._clock())

    def sums(self, since: str) -> list[DaySum]:
        rows = self._read("llm_sums", {"since": to_utc_iso(since)})
        return [DaySum(*row[:6], *(int(value) for value in row[6:])) for row in rows]

    def newest(self, limit: int) -> list[LLMCall]:
        rows = self._read("newest_llm_calls", {"limit": limit}, columns=_COUNTS)
        return [LLMCall(**dict(zip(_COUNTED, row, strict=True))) for row in rows]

    def get(self, call_id: int) -> LLMCall:
        rows = self._read("get_llm_call", {"id": call_id}, columns=_ALL) if is_storable_int(call_id) else []
        if not rows:
            hint = "`cofio usage llm` lists the newest calls."
            raise NotFound(f"There is no language model call {call_id}.", hint)
        return LLMCall(**dict(zip((*_COUNTED, "request", "reply"), rows[0], strict=True)))

    def forget(self, before: str) -> int:
        with self._writing() as queries:
            ids = queries.column("llm_texts_before", {"before": to_utc_iso(before)})
            queries.run("erase_llm_texts", {"ids": queries.listed(ids)})
        if ids:
            self._database.truncate_log()
        return len(ids)


def erase(queries: Queries) -> None:
    """Erase the texts of all calls: any of them may hold purged words, shortened or paraphrased by the model."""
    queries.run("erase_all_llm_texts", {})


def _read_spending(queries: Queries, at: str) -> LLMSpending:
    calls, tokens = queries.all("llm_spent", {"since": day_of(at)})[0]
    return LLMSpending(int(calls), int(tokens))
