"""A provider that is sick in every way, for every provider: captures wait, nothing is lost, and doctor names it."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import pytest

from cofio.core import Keeper
from cofio.ingest.sanitize import redact
from cofio.install import checks
from cofio.models.diagnostics import Check
from cofio.models.exchange import Item, State
from cofio.models.llm_calls import Limits
from cofio.ports import LLM
from cofio.providers.http import RetryPolicy
from cofio.providers.llms import CircuitBreaker, MeteredLLM
from cofio.server.http.context import CachedProbe
from cofio.server.http.handlers import ingest
from cofio.settings import Settings
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder
from tests.embedders.wire import Seen
from tests.llms.agents import CLAUDE, CODEX, Agent, Program, Says, claude_failure, codex_failure
from tests.llms.wire import ANTHROPIC, OLLAMA, OPENAI, Dialect, Reply, Wire

SAID = "User: Our team decided to adopt microservices for scalability"  # no pattern reads it: the model is asked
FACTS = json.dumps({"facts": [{"text": "The team adopts microservices", "category": "decision"}]})
PAGE = b"<!DOCTYPE html><html><body><h1>Sign in to the airport's network</h1></body></html>"
TROUBLES = (
    *("refused", "slow", "logged out", "limited", "limited for an hour", "out of quota", "broken", "overloaded"),
    *("invalid JSON", "empty", "web page", "nonsense", "silence"),
)
REMOTE = {"anthropic": ANTHROPIC, "openai": OPENAI, "ollama": OLLAMA}
CLI = {"claude-cli": CLAUDE, "codex-cli": CODEX}

#: What doctor says of each trouble, and what to do.
SAYS = {
    "refused": r"could not be reached|[Uu]nable to connect|error sending request",
    "slow": r"did not answer within",
    "logged out": r"key is refused|not logged in",
    "limited": r"429|limit",
    "limited for an hour": r"429|limit",
    "out of quota": r"credit|quota|usage|limit",
    "broken": r"500",
    "overloaded": r"529",
    "invalid JSON": r"not JSON|no reply",
    "empty": r"not JSON|no reply",
    "web page": r"web page|no reply",
    "nonsense": r"could not be read",
    "silence": r"could not be read",
}
DO = {
    "logged out": r"Set \w+_API_KEY|COFIO_EXTRACT_KEY|/login|codex login",
    "slow": r"Raise EXTRACT_TIMEOUT",
    "out of quota": r"credit|processed later",
    "web page": r"Check that address|retried later",
    "nonsense": r"cofio inbox --state pending",
    "silence": r"cofio inbox --state pending",
}
WAIT = r"Try again later|retried later|processed later|Check that Ollama runs"


class Provider(Protocol):
    def make(self) -> LLM: ...
    def fall_sick(self, trouble: str) -> None: ...
    def recover(self) -> None: ...


class SickWire(Wire):
    """A server whose model is sick, while its list of models may be well."""

    sick: Reply | None = None
    whole = False  # the list of models is sick too

    def answer(self, seen: Seen) -> Reply:
        if self.sick and (self.whole or seen.body is not None):
            return self.sick
        return super().answer(seen)


@dataclass
class Server:
    """A provider behind HTTP."""

    dialect: Dialect
    wire: SickWire
    url: str = ""

    def __post_init__(self) -> None:
        self.wire.says = FACTS
        self.url = self.wire.base

    def make(self) -> LLM:
        return self.dialect.make(self.url, RetryPolicy(timeout=0.5, sleep=lambda _: None))

    def fall_sick(self, trouble: str) -> None:
        if trouble == "refused":
            self.wire.close()
        elif trouble in ("nonsense", "silence"):
            self.wire.says = {"nonsense": "Sure, I would love to help!", "silence": ""}[trouble]
        else:
            self.wire.sick = self._replies()[trouble]
            self.wire.whole = trouble in ("web page", "empty", "invalid JSON")

    def _replies(self) -> dict[str, Reply]:
        return {
            "slow": Reply(after=1.5),
            "logged out": self.dialect.failure("wrong key"),
            "limited": self.dialect.failure("limited"),
            "limited for an hour": self.dialect.failure("limited", Retry_After="3600"),
            "out of quota": self.dialect.failure("unpaid"),
            "broken": self.dialect.refusal(500, "internal error"),
            "overloaded": self.dialect.refusal(529, "Overloaded"),
            "invalid JSON": Reply(200, b'{"content": [{"type": "te'),
            "empty": Reply(200, b""),
            "web page": Reply(200, PAGE, {"Content-Type": "text/html"}),
        }

    def recover(self) -> None:
        self.wire.sick, self.wire.says = None, FACTS
        self.wire.open_again()


@dataclass
class Command:
    """A provider that is a program."""

    agent: Agent
    program: Program

    def __post_init__(self) -> None:
        self.recover()

    def make(self) -> LLM:
        return self.program.make(3.0)

    def fall_sick(self, trouble: str) -> None:
        failing = claude_failure if self.agent is CLAUDE else _says_codex
        recorded = {"logged out": "logged out", "limited": "over quota", "overloaded": "busy"}
        made = {
            "refused": failing("API Error: Unable to connect to API (ConnectionRefused): error sending request", None),
            "slow": Says(hang=True),
            "limited for an hour": failing("429 Too Many Requests: You've hit your session limit, resets 4pm", 429),
            "out of quota": failing("429 You've hit your usage limit. Upgrade your plan or try again later.", 429),
            "broken": failing("API Error: status 500 Internal server error", 500),
            "invalid JSON": Says('{"type": "resu', 0),
            "empty": Says("", 0),
            "web page": Says(PAGE.decode(), 0),
            "nonsense": Says(self.agent.reply("Sure, I would love to help!", False)),
            "silence": Says(self.agent.reply("", False)),
        }
        says = self.agent.failures[recorded[trouble]] if trouble in recorded else made[trouble]
        status = self.agent.logged_out if trouble == "logged out" else None
        self.program.says(says, status=status)

    def recover(self) -> None:
        self.program.says(Says(self.agent.reply(FACTS, False)))


def _says_codex(message: str, status: int | None) -> Says:
    return codex_failure(f"unexpected status {status}: {message}" if status else message)


@pytest.fixture(params=[*REMOTE, *CLI])
def provider(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Provider]:
    if request.param in CLI:
        yield Command(CLI[request.param], Program(CLI[request.param], tmp_path / "bin"))
        return
    with SickWire(REMOTE[request.param]) as wire:
        yield Server(REMOTE[request.param], wire)


class Service:
    """What doctor asks the service, answered as the routes do."""

    def __init__(self, keeper: Keeper) -> None:
        assert keeper.llm
        self._keeper = keeper
        self._desk: Any = SimpleNamespace(keeper=keeper, checkup=CachedProbe(keeper.llm.health_check, patience=30.0))

    def extraction(self) -> dict[str, Any]:
        told: Any = ingest.status(self._desk, None, None)  # type: ignore[arg-type]
        return dict(told)

    def items(self, state: State | None = None, *, limit: int = 50) -> list[Item]:
        return self._keeper.items(state, limit=limit)

    def close(self) -> None:
        self._desk.checkup.close()


def doctored(keeper: Keeper, home: Path) -> list[Check]:
    """What doctor finds wrong with the model, and with what waits for it."""
    service: Any = Service(keeper)
    try:
        found = [checks.model(Settings(home=home), service), *checks.check_waiting(Settings(home=home), service)]
    finally:
        service.close()
    return [each for each in found if each.state != "ok"]


@pytest.mark.parametrize("trouble", TROUBLES)
def test_captures_wait_for_a_sick_provider_and_are_learned_when_it_is_well(
    provider: Provider, trouble: str, tmp_path: Path
) -> None:
    clock, ticks = FixedClock("2026-01-07T12:00:00Z"), itertools.count(0.0, 400.0)
    store = SqliteStore(tmp_path / "cofio.db", clock)
    llm = CircuitBreaker(MeteredLLM(provider.make(), store.llm_calls, Limits(), redact), clock=lambda: next(ticks))
    with Keeper(store, HashEmbedder(), clock, llm=llm) as keeper:
        provider.fall_sick(trouble)
        number = keeper.capture(SAID, client="codex", session="s1", turn="1", source="codex/shop").id
        _drain(keeper)
        item = keeper.item(number)
        assert (item.state, item.attempts) == ("pending", 1), item.reason
        assert re.search(SAYS[trouble], item.reason), item.reason
        assert (keeper.inbox_status().pending, keeper.inbox_status().parked, keeper.inbox_status().balanced) == (
            1,
            0,
            True,
        )
        assert list(keeper) == []

        found = {each.name: f"{each.says} {each.remedy}" for each in doctored(keeper, tmp_path)}
        assert "1 captures wait" in found["inbox"]
        told = found["inbox" if trouble in ("nonsense", "silence") else "model"]  # a model that answers is no outage
        assert re.search(SAYS[trouble], told), told
        assert re.search(DO.get(trouble, WAIT), told), told

        provider.recover()
        clock.advance(700.0)
        _drain(keeper)
        assert keeper.item(number).state == "stored", keeper.item(number).reason
        assert [memory.text for memory in keeper] == ["The team adopts microservices"]
        assert doctored(keeper, tmp_path) == []


def _drain(keeper: Keeper) -> None:
    for item in keeper.services.captures.due():
        keeper.services.captures.process(item)
