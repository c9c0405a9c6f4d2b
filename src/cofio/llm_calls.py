"""Calls of language models: what caused a call, what it took, and the daily limits.

occasion ─▶ Metered.complete ─ reserve ─▶ LLMCall "running" ─ model ─▶ "done", "refused" or "failed"
                                  │                           └─ no reply came: "interrupted", and counted
                                  └─ daily limit reached: BudgetSpent, and nothing is sent
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

from cofio.conversation import Exchange
from cofio.errors import BudgetSpent
from cofio.model import moment

Outcome = Literal["running", "done", "refused", "failed", "interrupted"]
PERIODS = (1, 7, 30)  # days that usage is summed over; 1 is today
MOST_SESSIONS = 20  # of a period
LETTERS = 4  # characters of a token, where the provider does not count them


class Limits(NamedTuple):
    """Most calls and tokens of a day in UTC; 0 is no limit."""

    calls: int = 0
    tokens: int = 0


class Spent(NamedTuple):
    """Calls and tokens of a day. Failed calls do not count."""

    calls: int = 0
    tokens: int = 0

    def reaches(self, limits: Limits) -> bool:
        """Whether a limit is reached."""
        return bool(limits.calls and self.calls >= limits.calls) or bool(limits.tokens and self.tokens >= limits.tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    """What a model is called for."""

    purpose: str = ""  # learn, extract, consolidate or prune
    client: str = ""
    session: str = ""
    project: str = ""
    capture: int | None = None  # the item of the inbox


_OCCASION: ContextVar[Occasion] = ContextVar("occasion", default=Occasion())  # noqa: B039 (it is frozen)


@contextmanager
def occasion(purpose: str, **about: Any) -> Iterator[None]:
    """Attribute the calls made inside to this occasion."""
    token = _OCCASION.set(Occasion(purpose=purpose, **about))
    try:
        yield
    finally:
        _OCCASION.reset(token)


def exchange_occasion(purpose: str, exchange: Exchange, capture: int | None = None) -> AbstractContextManager[None]:
    """Attribute the calls made inside to an exchange."""
    project = exchange.project or exchange.source
    return occasion(purpose, client=exchange.client, session=exchange.session, project=project, capture=capture)


def current_occasion() -> Occasion:
    """Return the occasion of the calls made here."""
    return _OCCASION.get()


@dataclass(frozen=True, slots=True, kw_only=True)
class LLMCall:
    """One call of a model. Its texts are redacted, and "" once their retention is over."""

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

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> LLMCall:
        """Return the call that `as_dict` wrote; keys of later versions are ignored."""
        return cls(**_known(cls, told))


@dataclass(frozen=True, slots=True, kw_only=True)
class LLMTotal:
    """Sums over calls: of a model, or of a session with it."""

    provider: str
    model: str
    client: str = ""
    session: str = ""
    project: str = ""
    calls: int = 0
    failed: int = 0  # calls without a reply, not among `calls`
    characters: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


class LLMPeriod(NamedTuple):
    """Sums over the last days, today included."""

    days: int
    models: tuple[LLMTotal, ...]
    sessions: tuple[LLMTotal, ...]  # those with the most tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class LLMUsage:
    """What models were called for, and how much of today's budget is spent."""

    limits: Limits
    today: Spent
    resets_at: str
    periods: tuple[LLMPeriod, ...]
    calls: tuple[LLMCall, ...]  # the newest, without their texts

    @property
    def is_spent(self) -> bool:
        return self.today.reaches(self.limits)

    def as_dict(self) -> dict[str, Any]:
        periods = [
            {"days": days, "models": [asdict(each) for each in models], "sessions": [asdict(each) for each in sessions]}
            for days, models, sessions in self.periods
        ]
        return {
            "limits": self.limits._asdict(),
            "today": self.today._asdict(),
            "spent": self.is_spent,
            "resets_at": self.resets_at,
            "periods": periods,
            "calls": [each.as_dict() for each in self.calls],
        }

    @classmethod
    def from_dict(cls, told: dict[str, Any]) -> LLMUsage:
        periods = (
            LLMPeriod(
                each["days"],
                tuple(LLMTotal(**_known(LLMTotal, total)) for total in each["models"]),
                tuple(LLMTotal(**_known(LLMTotal, total)) for total in each["sessions"]),
            )
            for each in told["periods"]
        )
        return cls(
            limits=Limits(told["limits"]["calls"], told["limits"]["tokens"]),
            today=Spent(told["today"]["calls"], told["today"]["tokens"]),
            resets_at=told["resets_at"],
            periods=tuple(periods),
            calls=tuple(LLMCall.from_dict(each) for each in told["calls"]),
        )


def _known(kind: type[LLMCall | LLMTotal], told: Mapping[str, Any]) -> dict[str, Any]:
    return {each.name: told[each.name] for each in fields(kind) if each.name in told}


class DaySum(NamedTuple):
    """Sums over the calls of one day, model and session."""

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
    """Return the seconds after which a call without an end has died: four attempts, and the pauses between them."""
    return 4 * timeout + 60


def day_of(at: str) -> str:
    """Return the beginning of the day in UTC."""
    return moment(moment(at)[:10])


def reset_after(at: str) -> str:
    """Return the beginning of the next day in UTC, when the budget is full again."""
    return moment(datetime.fromisoformat(day_of(at)) + timedelta(days=1))


def refuse_if_spent(spent: Spent, limits: Limits, at: str) -> None:
    """Raise BudgetSpent where a daily limit is reached."""
    if spent.reaches(limits):
        until = reset_after(at)
        said = f"The daily limit of the language model is reached: {spent.calls:,} calls, {spent.tokens:,} tokens."
        hint = f"It resets at {until[:16]} UTC. COFIO_LLM_CALLS_PER_DAY and COFIO_LLM_TOKENS_PER_DAY set the limits."
        raise BudgetSpent(said, hint, until)


def periods_of(sums: Iterable[DaySum], at: str) -> tuple[LLMPeriod, ...]:
    """Return the sums over each period up to now."""
    rows = list(sums)
    today = datetime.fromisoformat(day_of(at))
    found = []
    for days in PERIODS:
        since = moment(today - timedelta(days=days - 1))[:10]
        late = [row for row in rows if row.day >= since]
        models = _totals(row._replace(client="", session="", project="") for row in late)
        found.append(LLMPeriod(days, models, _totals(late)[:MOST_SESSIONS]))
    return tuple(found)


def _totals(rows: Iterable[DaySum]) -> tuple[LLMTotal, ...]:
    sums: dict[tuple[str, ...], list[int]] = defaultdict(lambda: [0] * 5)
    for row in rows:
        sums[row[1:6]] = [one + two for one, two in zip(sums[row[1:6]], row[6:], strict=True)]
    names = ("provider", "model", "client", "session", "project")
    counts = ("calls", "failed", "characters", "input_tokens", "output_tokens")
    totals = (
        LLMTotal(**dict(zip(names, key, strict=True)), **dict(zip(counts, each, strict=True)))  # type: ignore[arg-type]
        for key, each in sums.items()
    )
    return tuple(sorted(totals, key=lambda each: (-each.input_tokens - each.output_tokens, -each.calls, each.session)))
