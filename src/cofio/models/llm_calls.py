"""Language model calls: their log, their attribution, and daily limits.

occasion ─▶ Metered.complete ─ reserve ─▶ LLMCall "running" ─ model ─▶ "done", "refused" or "failed"
                                  │                           └─ no reply: "interrupted", counted as spent
                                  └─ daily limit reached: BudgetSpent, nothing is sent
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

from cofio.errors import BudgetSpent
from cofio.models.exchange import Exchange
from cofio.models.json_values import JsonFields
from cofio.models.memory import to_utc_iso

Outcome = Literal["running", "done", "refused", "failed", "interrupted"]
PERIODS = (1, 7, 30)  # usage periods in days; 1 is today
MOST_SESSIONS = 20  # sessions listed per period
LETTERS = 4  # characters per token, if the provider does not report tokens


class Limits(NamedTuple):
    """Daily limits (UTC) of calls and tokens; 0 means unlimited."""

    calls: int = 0
    tokens: int = 0


class LLMSpending(NamedTuple):
    """Calls and tokens of a day. Failed calls are not counted."""

    calls: int = 0
    tokens: int = 0

    def reaches(self, limits: Limits) -> bool:
        """Return whether a limit is reached."""
        return bool(limits.calls and self.calls >= limits.calls) or bool(limits.tokens and self.tokens >= limits.tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOrigin:
    """Purpose and context that a model call is attributed to."""

    purpose: str = ""  # learn, extract, consolidate or prune
    client: str = ""
    session: str = ""
    project: str = ""
    capture: int | None = None  # inbox item


_OCCASION: ContextVar[CallOrigin] = ContextVar("occasion", default=CallOrigin())  # noqa: B039 (it is frozen)


@contextmanager
def occasion(purpose: str, **about: Any) -> Iterator[None]:
    """Attribute calls within this context to a purpose."""
    token = _OCCASION.set(CallOrigin(purpose=purpose, **about))
    try:
        yield
    finally:
        _OCCASION.reset(token)


def exchange_occasion(purpose: str, exchange: Exchange, capture: int | None = None) -> AbstractContextManager[None]:
    """Attribute calls within this context to an exchange."""
    project = exchange.project or exchange.source
    return occasion(purpose, client=exchange.client, session=exchange.session, project=project, capture=capture)


def current_occasion() -> CallOrigin:
    """Return the occasion that calls are currently attributed to."""
    return _OCCASION.get()


@dataclass(frozen=True, slots=True, kw_only=True)
class LLMCall(JsonFields):
    """Log entry of a model call. Its texts are redacted, and "" after their retention period."""

    id: int
    at: str
    provider: str
    model: str
    purpose: str
    client: str
    session: str
    project: str
    capture: int | None
    characters: int  # of the request
    input_tokens: int
    output_tokens: int
    seconds: float
    outcome: Outcome
    request: str = ""
    reply: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LLMTotal:
    """Totals of calls per model, or per model and session."""

    provider: str
    model: str
    client: str = ""
    session: str = ""
    project: str = ""
    calls: int = 0
    failed: int = 0  # calls without a reply, not included in `calls`
    characters: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


class LLMPeriod(NamedTuple):
    """Totals of the last days, including today."""

    days: int
    models: tuple[LLMTotal, ...]
    sessions: tuple[LLMTotal, ...]  # sessions with the most tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class LLMUsage:
    """Usage of language models and today's budget."""

    limits: Limits
    today: LLMSpending
    resets_at: str
    periods: tuple[LLMPeriod, ...]
    calls: tuple[LLMCall, ...]  # newest calls, without texts

    @property
    def is_spent(self) -> bool:
        return self.today.reaches(self.limits)

    def as_dict(self) -> dict[str, Any]:
        periods = [
            {
                "days": days,
                "models": [asdict(model) for model in models],
                "sessions": [asdict(session) for session in sessions],
            }
            for days, models, sessions in self.periods
        ]
        return {
            "limits": self.limits._asdict(),
            "today": self.today._asdict(),
            "spent": self.is_spent,
            "resets_at": self.resets_at,
            "periods": periods,
            "calls": [call.as_dict() for call in self.calls],
        }


class DaySum(NamedTuple):
    """Totals of calls per day, model and session."""

    day: str
    provider: str
    model: str
    client: str
    session: str
    project: str
    calls: int
    failed: int
    characters: int
    input_tokens: int
    output_tokens: int


def longest_call(timeout: float) -> float:
    """Return the seconds after which a call without a result is considered dead: four attempts with pauses."""
    return 4 * timeout + 60


def day_of(at: str) -> str:
    """Return the start of the UTC day."""
    return to_utc_iso(to_utc_iso(at)[:10])


def reset_after(at: str) -> str:
    """Return the start of the next UTC day, when the budget resets."""
    return to_utc_iso(datetime.fromisoformat(day_of(at)) + timedelta(days=1))


def refuse_if_spent(spent: LLMSpending, limits: Limits, at: str) -> None:
    """Raise BudgetSpent if a daily limit is reached."""
    if spent.reaches(limits):
        until = reset_after(at)
        message = f"The daily limit of the language model is reached: {spent.calls:,} calls, {spent.tokens:,} tokens."
        hint = f"It resets at {until[:16]} UTC. COFIO_LLM_CALLS_PER_DAY and COFIO_LLM_TOKENS_PER_DAY set the limits."
        raise BudgetSpent(message, hint, until)


def periods_of(sums: Iterable[DaySum], at: str) -> tuple[LLMPeriod, ...]:
    """Return the totals for each period up to `at`."""
    rows = list(sums)
    today = datetime.fromisoformat(day_of(at))
    periods = []
    for days in PERIODS:
        since = to_utc_iso(today - timedelta(days=days - 1))[:10]
        late = [row for row in rows if row.day >= since]
        models = _sum_up(row._replace(client="", session="", project="") for row in late)
        periods.append(LLMPeriod(days, models, _sum_up(late)[:MOST_SESSIONS]))
    return tuple(periods)


def _sum_up(rows: Iterable[DaySum]) -> tuple[LLMTotal, ...]:
    sums: dict[tuple[str, ...], list[int]] = defaultdict(lambda: [0] * 5)
    for row in rows:
        sums[row[1:6]] = [one + two for one, two in zip(sums[row[1:6]], row[6:], strict=True)]
    names = ("provider", "model", "client", "session", "project")
    counts = ("calls", "failed", "characters", "input_tokens", "output_tokens")
    totals = (
        LLMTotal(**dict(zip(names, key, strict=True)), **dict(zip(counts, numbers, strict=True)))  # type: ignore[arg-type]
        for key, numbers in sums.items()
    )
    return tuple(
        sorted(totals, key=lambda total: (-total.input_tokens - total.output_tokens, -total.calls, total.session))
    )
