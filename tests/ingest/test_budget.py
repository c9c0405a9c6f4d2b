"""Daily limit on LLM calls: captures wait for the next day without loss and without failed attempts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cofio.bootstrap import keeper as assembled
from cofio.core import Keeper
from cofio.errors import BudgetSpent, NotConfigured, NotFound
from cofio.ingest import sanitize
from cofio.models.llm_calls import Limits
from cofio.providers.llms import CircuitBreaker, MeteredLLM
from cofio.settings import Settings
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder, ScriptedLLM
from tests.ingest.test_with_llm import facts

LIMITS = Limits(calls=1)
SAID = "User: use drizzle\nAssistant: Done, Drizzle it is."


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock("2026-01-07T12:00:00Z")


@pytest.fixture
def keeper(tmp_path: Path, clock: FixedClock) -> Iterator[Keeper]:
    store = SqliteStore(tmp_path / "cofio.db", clock)
    llm = ScriptedLLM([facts("The shop uses Drizzle as its ORM"), facts("The shop is hosted by Fly")], reconciles=False)
    metered = CircuitBreaker(MeteredLLM(llm, store.llm_calls, LIMITS, sanitize.redact))
    with Keeper(store, HashEmbedder(), clock, llm=metered, llm_limits=LIMITS) as keeper:
        yield keeper


def capture(keeper: Keeper, turn: str) -> int:
    return keeper.capture(SAID, context="pre_compact", client="codex", session="s1", turn=turn, source="codex/shop").id


def test_captures_wait_for_the_next_day(keeper: Keeper, clock: FixedClock) -> None:
    numbers = [capture(keeper, turn) for turn in ("1", "2")]
    for item in keeper.services.captures.due():
        keeper.services.captures.process(item)
    stored, pending = (keeper.item(number) for number in numbers)
    assert stored.state == "stored"
    assert (pending.state, pending.attempts, pending.faults) == ("pending", 0, 0)
    assert "daily limit" in pending.reason
    assert "2026-01-08T00:00" <= pending.due_at < "2026-01-08T00:02"
    assert keeper.extraction()["spent_until"] == "2026-01-08T00:00:00.000000+00:00"
    assert keeper.services.captures.due() == []
    clock.advance(12.1 * 3_600)
    for item in keeper.services.captures.due():
        keeper.services.captures.process(item)
    assert keeper.item(numbers[1]).state == "stored"
    assert keeper.inbox_status().balanced
    assert {memory.text for memory in keeper} == {"The shop uses Drizzle as its ORM", "The shop is hosted by Fly"}


def test_usage_lists_models_sessions_and_texts(keeper: Keeper) -> None:
    number = capture(keeper, "1")
    keeper.services.captures.process(keeper.item(number))
    usage = keeper.llm_usage()
    assert (usage.limits, usage.today.calls, usage.is_spent) == (LIMITS, 1, True)
    assert [period.days for period in usage.periods] == [1, 7, 30]
    for period in usage.periods:
        ((model,), (session,)) = period.models, period.sessions
        assert (model.calls, model.session) == (1, "")
        assert (session.client, session.session, session.project) == ("codex", "s1", "codex/shop")
        assert session.characters == model.characters > 0
    call = keeper.llm_call(usage.calls[0].id)
    assert (call.capture, call.purpose, usage.calls[0].request) == (number, "learn", "")
    assert "use drizzle" in call.request
    with pytest.raises(NotFound):
        keeper.llm_call(99)


def test_explicit_extraction_raises_budget_spent(keeper: Keeper) -> None:
    keeper.extract(SAID)
    with pytest.raises(BudgetSpent, match="daily limit"):
        keeper.extract(SAID)
    assert keeper.llm_usage().calls[0].purpose == "extract"


def test_texts_of_calls_are_deleted_after_their_retention(keeper: Keeper, clock: FixedClock) -> None:
    keeper.extract(SAID)
    clock.advance(8 * 86_400.0)
    keeper.services.retention.apply(captures=30, retrievals=180, llm_texts=7)
    assert (keeper.llm_call(1).request, keeper.llm_call(1).characters > 0) == ("", True)


def test_disabled_llm_is_not_called(tmp_path: Path) -> None:
    settings = Settings(
        home=tmp_path,
        store=f"sqlite://{tmp_path / 'cofio.db'}",
        extract_provider="anthropic",
        extract_key="k",
        llm=False,
    )
    with assembled(settings, embedder=HashEmbedder()) as keeper:
        assert keeper.extraction() == {"enabled": False, "problem": "COFIO_LLM is false: no language model is called."}
        with pytest.raises(NotConfigured, match="COFIO_LLM"):
            keeper.extract(SAID)


@pytest.mark.parametrize(
    ("environ", "limits"),
    [
        ({"EXTRACT_PROVIDER": "openai", "OPENAI_API_KEY": "k"}, Limits(300, 300_000)),
        ({"EXTRACT_PROVIDER": "ollama"}, Limits(0, 0)),
        ({"EXTRACT_PROVIDER": "ollama", "COFIO_LLM_CALLS_PER_DAY": "5"}, Limits(5, 0)),
        ({"EXTRACT_PROVIDER": "openai", "OPENAI_API_KEY": "k", "COFIO_LLM_TOKENS_PER_DAY": "0"}, Limits(300, 0)),
    ],
)
def test_daily_limits_follow_the_settings(tmp_path: Path, environ: dict[str, str], limits: Limits) -> None:
    settings = Settings.load({"home": tmp_path}, environ)
    with assembled(settings, embedder=HashEmbedder()) as keeper:
        assert keeper.llm_usage().limits == limits
