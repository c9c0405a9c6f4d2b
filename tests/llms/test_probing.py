"""The probe whether an Ollama model can decide about memories."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cofio import bootstrap
from cofio.client import Client
from cofio.ingest.reconcile.by_llm import SCHEMA
from cofio.install import checks
from cofio.models.llm_calls import Limits
from cofio.providers.http import RetryPolicy
from cofio.providers.llms import CircuitBreaker, MeteredLLM, SchemaProbe
from cofio.providers.llms.ollama import OllamaLLM
from cofio.providers.llms.schema_probe import is_right
from cofio.server.background.inbox_worker import InboxWorker
from cofio.settings import Settings
from cofio.testing import FixedClock, HashEmbedder, MemoryStore
from tests.http_api.caller import Caller
from tests.http_api.conftest import serving
from tests.llms.test_agent_cli import wait_until

from .wire import OLLAMA, Reply, Wire

UPDATE = {"fact": "f1", "action": "UPDATE", "memory": "m1", "text": "The staging database listens on port 6543"}
ADD = {"fact": "f2", "action": "ADD", "memory": None, "text": None}
VALID_REPLY = json.dumps({"decisions": [UPDATE, ADD]})


class ManualTicks:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class ProbedModel:
    """An Ollama model with probe, metering and circuit breaker."""

    def __init__(self, wire: Wire, folder: Path | None) -> None:
        self.wire, self.ticks, self.store = wire, ManualTicks(), MemoryStore(FixedClock("2026-01-07T12:00:00Z"))
        inside = OllamaLLM("gemma3:4b", url=wire.url, retry=RetryPolicy(timeout=5.0, attempts=1))
        metered = MeteredLLM(inside, self.store.llm_calls, Limits(), None)
        self.llm = CircuitBreaker(
            SchemaProbe(metered, inside.digest, SCHEMA, folder, clock=self.ticks), clock=self.ticks
        )

    def probe(self, *, ask: bool = True) -> bool | None:
        self.llm.probe(ask=ask)
        assert self.llm.supports_audn == self.llm.profile.reconciles
        return self.llm.profile.reconciles if self.llm.profile.reconciles_known else None

    def request_bodies(self) -> list[dict[str, Any]]:
        return [item.body for item in self.wire.seen if item.body is not None]


@pytest.fixture
def wire() -> Iterator[Wire]:
    with Wire(OLLAMA) as server:
        server.says = VALID_REPLY
        yield server


def test_capable_model_may_decide_and_is_probed_once(wire: Wire, tmp_path: Path) -> None:
    probed = ProbedModel(wire, tmp_path)
    assert not probed.llm.supports_audn
    assert wire.seen == []  # construction sends nothing
    assert [probed.probe(), probed.probe()] == [True, True]
    [question] = probed.request_bodies()
    assert question["format"] == SCHEMA
    assert "6543" in question["messages"][1]["content"]
    [call] = probed.store.llm_calls.newest(9)
    assert (call.purpose, call.outcome, call.input_tokens) == ("probe", "done", 11)


@pytest.mark.parametrize(
    "model_reply",
    [
        "Sure! f1 changes m1 and f2 is new.",
        f"Here you are:\n```json\n{VALID_REPLY}\n```",
        json.dumps([UPDATE, ADD]),
        json.dumps({"decisions": [{"fact": "f1", "action": "UPDATE"}, ADD]}),
        json.dumps({"decisions": [UPDATE]}),
        json.dumps({"decisions": [UPDATE | {"action": "NOOP"}, ADD]}),
        json.dumps({"decisions": [UPDATE | {"memory": "m2"}, ADD]}),
        json.dumps({"decisions": [UPDATE | {"text": "It listens on port 5432"}, ADD]}),
        json.dumps({"decisions": [UPDATE, ADD | {"action": "DELETE", "memory": "m1"}]}),
        json.dumps({"decisions": [1, "f2"]}),
        "[" * 50_000,
        "",
    ],
)
def test_incapable_model_may_not_decide(wire: Wire, tmp_path: Path, model_reply: str) -> None:
    wire.says = model_reply
    probed = ProbedModel(wire, tmp_path)
    assert [probed.probe(), probed.probe()] == [False, False]
    assert len(probed.request_bodies()) == 1
    assert probed.llm.health_check().healthy


def test_reply_without_new_text_is_valid() -> None:
    assert is_right(json.dumps({"decisions": [ADD, UPDATE | {"text": None}]}))


def test_truncated_reply_is_invalid(wire: Wire) -> None:
    wire.ending = "cut"
    assert ProbedModel(wire, None).probe() is False


@pytest.mark.parametrize("failing", [Reply(500, {"error": "llama runner process has terminated"}), Reply(200, b"<p>")])
def test_failed_probe_is_repeated_later(wire: Wire, tmp_path: Path, failing: Reply) -> None:
    probed = ProbedModel(wire, tmp_path)
    wire.say(Reply(body=OLLAMA.models(wire.has)), failing)
    assert [probed.probe(), probed.probe()] == [None, None]
    assert len(probed.request_bodies()) == 1
    assert probed.llm.health_check().healthy  # the circuit stays closed
    probed.ticks.now = 60.0
    assert probed.probe() is True


def test_unavailable_server_is_not_probed(wire: Wire, tmp_path: Path) -> None:
    probed = ProbedModel(wire, tmp_path)
    wire.say(Reply(503, {"error": "starting"}), Reply(404, b"404 page not found"))
    assert probed.probe() is None
    probed.ticks.now = 60.0
    assert probed.probe() is None
    assert probed.store.llm_calls.newest(9) == []
    probed.ticks.now = 179.0  # the pause doubles
    assert probed.probe() is None
    assert len(wire.seen) == 2
    probed.ticks.now = 180.0
    assert probed.probe() is True


@pytest.mark.parametrize("model_reply", [VALID_REPLY, "no"])
def test_result_is_cached_per_model_digest(wire: Wire, tmp_path: Path, model_reply: str) -> None:
    wire.says = model_reply
    results = ProbedModel(wire, tmp_path / "models").probe()
    restarted = ProbedModel(wire, tmp_path / "models")
    assert restarted.probe(ask=False) is results
    assert len(restarted.request_bodies()) == 1
    wire.digest = "f" * 64  # `ollama pull` changed the weights
    pulled = ProbedModel(wire, tmp_path / "models")
    assert pulled.probe(ask=False) is None
    assert pulled.probe() is results
    assert len(pulled.request_bodies()) == 2


def test_damaged_cache_file_is_ignored(wire: Wire, tmp_path: Path) -> None:
    for content in ("{", "[]"):
        (tmp_path / "probed.json").write_text(content, encoding="utf-8")
        assert ProbedModel(wire, tmp_path).probe() is True
    (tmp_path / "not-a-folder").write_text("", encoding="utf-8")
    assert ProbedModel(wire, tmp_path / "not-a-folder").probe() is True


def test_model_is_not_probed_without_captures(wire: Wire, tmp_path: Path) -> None:
    probed = ProbedModel(wire, tmp_path)
    assert [probed.probe(ask=False), probed.probe(ask=False)] == [None, None]
    assert (probed.request_bodies(), len(wire.seen)) == ([], 1)
    assert probed.probe() is True


def test_service_probes_in_its_worker_and_reports_the_result(wire: Wire, tmp_path: Path) -> None:
    settings = Settings(
        home=tmp_path, port=0, store=f"sqlite://{tmp_path / 'cofio.db'}", extract_provider="ollama", ollama_url=wire.url
    )
    with bootstrap.keeper(settings, embedder=HashEmbedder()) as keeper, serving(keeper) as url, Client(url) as client:
        caller = Caller(url)
        status = caller.get("/extract/status").json
        assert (status["audn"], status["audn_known"], status["status"]) == (False, False, "healthy")
        assert "its first use shows if it can decide" in checks.model(settings, client).says
        caller.post("/memory/extract", {"messages": "User: use drizzle"})
        assert not any(_is_probe(item.body) for item in wire.seen)  # a request does not probe
        caller.post("/capture", {"messages": "User: Our team adopts microservices for scalability."})
        wait_until(lambda: caller.get("/extract/status").json["audn_known"])
        assert caller.get("/extract/status").json["audn"] is True
        check = checks.model(settings, client)
        assert (check.state, check.says) == ("ok", "ollama, gemma3:4b")
        assert sum(_is_probe(item.body) for item in wire.seen) == 1


def _is_probe(body: Any) -> bool:
    return bool(body) and "British English" in body["messages"][1]["content"]  # said by no reply, so in no memory


def test_doctor_reports_rules_for_an_incapable_model(tmp_path: Path) -> None:
    check = checks.model(Settings(home=tmp_path), _Weak())  # type: ignore[arg-type]
    assert (check.state, check.says) == ("ok", "ollama, tiny; it finds facts, and cofio's rules decide about memories")


class _Weak:
    def extraction(self) -> dict[str, Any]:
        result = {"enabled": True, "status": "healthy", "provider": "ollama", "model": "tiny"}
        return {**result, "audn": False, "audn_known": True}


@pytest.mark.parametrize("has_pending", [True, False])
def test_command_line_worker_probes_when_captures_are_pending(wire: Wire, tmp_path: Path, has_pending: bool) -> None:
    settings = Settings(
        home=tmp_path, store=f"sqlite://{tmp_path / 'cofio.db'}", extract_provider="ollama", ollama_url=wire.url
    )
    with bootstrap.keeper(settings, embedder=HashEmbedder()) as keeper:
        if has_pending:
            keeper.capture("User: Our team adopts microservices for scalability.")
        InboxWorker(keeper).drain()
        assert keeper.extraction()["audn_known"] is has_pending
    assert sum(_is_probe(item.body) for item in wire.seen) == has_pending
