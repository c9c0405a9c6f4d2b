"""Every failure of every provider: captures wait, nothing is lost, and doctor reports the cause."""

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
from tests.llms.agents import CLAUDE, CODEX, Agent, Program, ProgramOutput, claude_failure, codex_failure
from tests.llms.wire import ANTHROPIC, OLLAMA, OPENAI, Dialect, Reply, Wire

SAID = "User: Our team decided to adopt microservices for scalability"  # no pattern matches it, so the LLM is called
FACTS = json.dumps({"facts": [{"text": "The team adopts microservices", "category": "decision"}]})
PAGE = b"<!DOCTYPE html><html><body><h1>Sign in to the airport's network</h1></body></html>"
FAILURES = (
    *("refused", "slow", "logged out", "limited", "limited for an hour", "out of quota", "broken", "overloaded"),
    *("invalid JSON", "empty", "web page", "nonsense", "silence"),
)
REMOTE = {"anthropic": ANTHROPIC, "openai": OPENAI, "ollama": OLLAMA}
CLI = {"claude-cli": CLAUDE, "codex-cli": CODEX}

#: The message of doctor for each failure, and its hint.
EXPECTED_MESSAGES = {
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
EXPECTED_HINTS = {
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
    def fail(self, trouble: str) -> None: ...
    def recover(self) -> None: ...


class FailingWire(Wire):
    """A server whose chat endpoint fails, while its model list may work."""

    failure_reply: Reply | None = None
    is_model_list_failing = False  # the model list fails too

    def answer(self, request: Seen) -> Reply:
        if self.failure_reply and (self.is_model_list_failing or request.body is not None):
            return self.failure_reply
        return super().answer(request)


@dataclass
class Server:
    """A provider over HTTP."""

    dialect: Dialect
    wire: FailingWire
    url: str = ""

    def __post_init__(self) -> None:
        self.wire.says = FACTS
        self.url = self.wire.base

    def make(self) -> LLM:
        return self.dialect.make(self.url, RetryPolicy(timeout=0.5, sleep=lambda _: None))

    def fail(self, failure: str) -> None:
        if failure == "refused":
            self.wire.close()
        elif failure in ("nonsense", "silence"):
            self.wire.says = {"nonsense": "Sure, I would love to help!", "silence": ""}[failure]
        else:
            self.wire.failure_reply = self._replies()[failure]
            self.wire.is_model_list_failing = failure in ("web page", "empty", "invalid JSON")

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
        self.wire.failure_reply, self.wire.says = None, FACTS
        self.wire.open_again()


@dataclass
class Command:
    """A provider that is a command-line program."""

    agent: Agent
    program: Program

    def __post_init__(self) -> None:
        self.recover()

    def make(self) -> LLM:
        return self.program.make(3.0)

    def fail(self, failure: str) -> None:
        failing = claude_failure if self.agent is CLAUDE else _codex_failure
        recorded = {"logged out": "logged out", "limited": "over quota", "overloaded": "busy"}
        replies = {
            "refused": failing("API Error: Unable to connect to API (ConnectionRefused): error sending request", None),
            "slow": ProgramOutput(hang=True),
            "limited for an hour": failing("429 Too Many Requests: You've hit your session limit, resets 4pm", 429),
            "out of quota": failing("429 You've hit your usage limit. Upgrade your plan or try again later.", 429),
            "broken": failing("API Error: status 500 Internal server error", 500),
            "invalid JSON": ProgramOutput('{"type": "resu', 0),
            "empty": ProgramOutput("", 0),
            "web page": ProgramOutput(PAGE.decode(), 0),
            "nonsense": ProgramOutput(self.agent.reply("Sure, I would love to help!", False)),
            "silence": ProgramOutput(self.agent.reply("", False)),
        }
        reply = self.agent.failures[recorded[failure]] if failure in recorded else replies[failure]
        status = self.agent.logged_out if failure == "logged out" else None
        self.program.says(reply, status=status)

    def recover(self) -> None:
        self.program.says(ProgramOutput(self.agent.reply(FACTS, False)))


def _codex_failure(message: str, status: int | None) -> ProgramOutput:
    return codex_failure(f"unexpected status {status}: {message}" if status else message)


@pytest.fixture(params=[*REMOTE, *CLI])
def provider(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Provider]:
    if request.param in CLI:
        yield Command(CLI[request.param], Program(CLI[request.param], tmp_path / "bin"))
        return
    with FailingWire(REMOTE[request.param]) as wire:
        yield Server(REMOTE[request.param], wire)


class Service:
    """The service as doctor queries it, with the replies of the routes."""

    def __init__(self, keeper: Keeper) -> None:
        assert keeper.llm
        self._keeper = keeper
        self._state: Any = SimpleNamespace(
            keeper=keeper, model_health=CachedProbe(keeper.llm.health_check, patience=30.0)
        )

    def extraction(self) -> dict[str, Any]:
        status: Any = ingest.status(self._state, None, None)  # type: ignore[arg-type]
        return dict(status)

    def items(self, state: State | None = None, *, limit: int = 50) -> list[Item]:
        return self._keeper.items(state, limit=limit)

    def close(self) -> None:
        self._state.model_health.close()


def failed_checks(keeper: Keeper, home: Path) -> list[Check]:
    """Return the failed checks of doctor about the LLM and the inbox."""
    service: Any = Service(keeper)
    try:
        results = [checks.model(Settings(home=home), service), *checks.check_waiting(Settings(home=home), service)]
    finally:
        service.close()
    return [check for check in results if check.state != "ok"]


@pytest.mark.parametrize("failure", FAILURES)
def test_captures_wait_for_a_failing_provider_and_are_learned_after_recovery(
    provider: Provider, failure: str, tmp_path: Path
) -> None:
    clock, ticks = FixedClock("2026-01-07T12:00:00Z"), itertools.count(0.0, 400.0)
    store = SqliteStore(tmp_path / "cofio.db", clock)
    llm = CircuitBreaker(MeteredLLM(provider.make(), store.llm_calls, Limits(), redact), clock=lambda: next(ticks))
    with Keeper(store, HashEmbedder(), clock, llm=llm) as keeper:
        provider.fail(failure)
        number = keeper.capture(SAID, client="codex", session="s1", turn="1", source="codex/shop").id
        _drain(keeper)
        item = keeper.item(number)
        assert (item.state, item.attempts) == ("pending", 1), item.reason
        assert re.search(EXPECTED_MESSAGES[failure], item.reason), item.reason
        assert (keeper.inbox_status().pending, keeper.inbox_status().parked, keeper.inbox_status().balanced) == (
            1,
            0,
            True,
        )
        assert list(keeper) == []

        messages = {check.name: f"{check.says} {check.remedy}" for check in failed_checks(keeper, tmp_path)}
        assert "1 captures wait" in messages["inbox"]
        message = messages[
            "inbox" if failure in ("nonsense", "silence") else "model"
        ]  # an LLM that answers is not an outage
        assert re.search(EXPECTED_MESSAGES[failure], message), message
        assert re.search(EXPECTED_HINTS.get(failure, WAIT), message), message

        provider.recover()
        clock.advance(700.0)
        _drain(keeper)
        assert keeper.item(number).state == "stored", keeper.item(number).reason
        assert [memory.text for memory in keeper] == ["The team adopts microservices"]
        assert failed_checks(keeper, tmp_path) == []


def _drain(keeper: Keeper) -> None:
    for item in keeper.services.captures.due():
        keeper.services.captures.process(item)
