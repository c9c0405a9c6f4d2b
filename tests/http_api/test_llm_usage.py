"""LLM usage over HTTP: budget, statistics and recorded calls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cofio.core import Keeper
from cofio.ingest import sanitize
from cofio.models.llm_calls import Limits
from cofio.providers.llms import MeteredLLM
from cofio.server import daemon
from cofio.settings import Settings
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder, ScriptedLLM
from tests.http_api.caller import Caller
from tests.http_api.conftest import serving

LIMITS = Limits(calls=1, tokens=9_000)
TALK = {"messages": "User: use drizzle", "source": "codex/shop", "client": "codex", "session": "s1"}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Caller]:
    clock = FixedClock("2026-01-07T12:00:00Z")
    store = SqliteStore(tmp_path / "cofio.db", clock)
    llm = MeteredLLM(ScriptedLLM(['{"facts": []}']), store.llm_calls, LIMITS, sanitize.redact)
    with (
        Keeper(store, HashEmbedder(), clock, llm=llm, llm_limits=LIMITS) as keeper,
        serving(keeper, clock) as url,
    ):
        yield Caller(url)


def test_exhausted_budget_is_reported(service: Caller, tmp_path: Path) -> None:
    until = "2026-01-08T00:00:00.000000+00:00"
    assert "llm_spent_until" not in service.get("/stats").json
    assert service.post("/memory/extract", TALK).status == 200
    rejected = service.post("/memory/extract", TALK)
    assert (rejected.status, rejected.error["code"]) == (503, "budget_spent")
    assert service.get("/stats").json["llm_spent_until"] == until
    assert service.get("/extract/status").json["spent_until"] == until
    state = daemon.status(Settings(home=tmp_path / "home", url=service.url))
    assert state["llm"] == "the daily limit is reached; captures wait until 2026-01-08T00:00 UTC"


def test_usage_statistics_and_call_text_are_returned(service: Caller) -> None:
    service.post("/memory/extract", TALK)
    usage = service.get("/llm/usage", limit=1).json
    assert (usage["limits"], usage["today"]["calls"], usage["spent"]) == ({"calls": 1, "tokens": 9_000}, 1, True)
    [session] = usage["periods"][2]["sessions"]
    assert (session["client"], session["session"], session["calls"]) == ("codex", "s1", 1)
    [call] = usage["calls"]
    assert "use drizzle" in service.get(f"/llm/usage/{call['id']}").json["request"]
    assert service.get("/llm/usage/99").status == 404
    assert service.get("/llm/usage", limit=0).status == 400
