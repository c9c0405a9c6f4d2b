"""The probe of an Ollama model: whether it can decide about memories."""

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
RIGHT = json.dumps({"decisions": [UPDATE, ADD]})


class Ticks:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Probed:
    """A service's model on an Ollama server."""

    def __init__(self, wire: Wire, folder: Path | None) -> None:
        self.wire, self.ticks, self.store = wire, Ticks(), MemoryStore(FixedClock("2026-01-07T12:00:00Z"))
        inside = OllamaLLM("gemma3:4b", url=wire.url, retry=RetryPolicy(timeout=5.0, attempts=1))
        metered = MeteredLLM(inside, self.store.llm_calls, Limits(), None)
        self.llm = CircuitBreaker(
            SchemaProbe(metered, inside.digest, SCHEMA, folder, clock=self.ticks), clock=self.ticks
        )

    def probe(self, *, ask: bool = True) -> bool | None:
        self.llm.probe(ask=ask)
        assert self.llm.supports_audn == self.llm.profile.reconciles
        return self.llm.profile.reconciles if self.llm.profile.reconciles_known else None

    def questions(self) -> list[dict[str, Any]]:
        return [each.body for each in self.wire.seen if each.body is not None]


@pytest.fixture
def wire() -> Iterator[Wire]:
    with Wire(OLLAMA) as server:
        server.says = RIGHT
        yield server


def test_a_model_that_follows_may_decide_and_is_asked_once(wire: Wire, tmp_path: Path) -> None:
    probed = Probed(wire, tmp_path)
    assert not probed.llm.supports_audn
    assert wire.seen == []  # nothing is asked when it is made
    assert [probed.probe(), probed.probe()] == [True, True]
    [question] = probed.questions()
    assert question["format"] == SCHEMA
    assert "6543" in question["messages"][1]["content"]
    [call] = probed.store.llm_calls.newest(9)
    assert (call.purpose, call.outcome, call.input_tokens) == ("probe", "done", 11)


@pytest.mark.parametrize(
    "says",
    [
        "Sure! f1 changes m1 and f2 is new.",
        f"Here you are:\n```json\n{RIGHT}\n```",
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
def test_a_model_that_ignores_the_schema_or_is_wrong_may_not(wire: Wire, tmp_path: Path, says: str) -> None:
    wire.says = says
    probed = Probed(wire, tmp_path)
    assert [probed.probe(), probed.probe()] == [False, False]
    assert len(probed.questions()) == 1
    assert probed.llm.health_check().healthy


def test_a_reply_without_a_new_text_is_right_too() -> None:
    assert is_right(json.dumps({"decisions": [ADD, UPDATE | {"text": None}]}))


def test_a_reply_that_is_cut_off_is_not_right(wire: Wire) -> None:
    wire.ending = "cut"
    assert Probed(wire, None).probe() is False


@pytest.mark.parametrize("failing", [Reply(500, {"error": "llama runner process has terminated"}), Reply(200, b"<p>")])
def test_a_model_that_is_down_during_the_probe_is_asked_again_later(wire: Wire, tmp_path: Path, failing: Reply) -> None:
    probed = Probed(wire, tmp_path)
    wire.say(Reply(body=OLLAMA.models(wire.has)), failing)
    assert [probed.probe(), probed.probe()] == [None, None]
    assert len(probed.questions()) == 1
    assert probed.llm.health_check().healthy  # it does not rest
    probed.ticks.now = 60.0
    assert probed.probe() is True


def test_a_server_that_is_down_is_not_asked_at_all(wire: Wire, tmp_path: Path) -> None:
    probed = Probed(wire, tmp_path)
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


@pytest.mark.parametrize("says", [RIGHT, "no"])
def test_the_result_is_kept_for_the_same_weights(wire: Wire, tmp_path: Path, says: str) -> None:
    wire.says = says
    found = Probed(wire, tmp_path / "models").probe()
    restarted = Probed(wire, tmp_path / "models")
    assert restarted.probe(ask=False) is found
    assert len(restarted.questions()) == 1
    wire.digest = "f" * 64  # `ollama pull` has brought others
    pulled = Probed(wire, tmp_path / "models")
    assert pulled.probe(ask=False) is None
    assert pulled.probe() is found
    assert len(pulled.questions()) == 2


def test_a_file_that_is_damaged_is_passed_over(wire: Wire, tmp_path: Path) -> None:
    for content in ("{", "[]"):
        (tmp_path / "probed.json").write_text(content, encoding="utf-8")
        assert Probed(wire, tmp_path).probe() is True
    (tmp_path / "not-a-folder").write_text("", encoding="utf-8")
    assert Probed(wire, tmp_path / "not-a-folder").probe() is True


def test_without_captures_the_model_is_not_asked(wire: Wire, tmp_path: Path) -> None:
    probed = Probed(wire, tmp_path)
    assert [probed.probe(ask=False), probed.probe(ask=False)] == [None, None]
    assert (probed.questions(), len(wire.seen)) == ([], 1)
    assert probed.probe() is True


def test_the_service_probes_in_its_worker_and_tells_status_and_doctor(wire: Wire, tmp_path: Path) -> None:
    settings = Settings(
        home=tmp_path, port=0, store=f"sqlite://{tmp_path / 'cofio.db'}", extract_provider="ollama", ollama_url=wire.url
    )
    with bootstrap.keeper(settings, embedder=HashEmbedder()) as keeper, serving(keeper) as url, Client(url) as client:
        caller = Caller(url)
        status = caller.get("/extract/status").json
        assert (status["audn"], status["audn_known"], status["status"]) == (False, False, "healthy")
        assert "its first use shows if it can decide" in checks.model(settings, client).says
        caller.post("/memory/extract", {"messages": "User: use drizzle"})
        assert not any(_is_probe(each.body) for each in wire.seen)  # a request does not probe
        caller.post("/capture", {"messages": "User: Our team adopts microservices for scalability."})
        wait_until(lambda: caller.get("/extract/status").json["audn_known"])
        assert caller.get("/extract/status").json["audn"] is True
        check = checks.model(settings, client)
        assert (check.state, check.says) == ("ok", "ollama, gemma3:4b")
        assert sum(_is_probe(each.body) for each in wire.seen) == 1


def _is_probe(body: Any) -> bool:
    return bool(body) and "6543" in body["messages"][1]["content"]


def test_doctor_says_that_rules_decide_in_place_of_a_weak_model(tmp_path: Path) -> None:
    check = checks.model(Settings(home=tmp_path), _Weak())  # type: ignore[arg-type]
    assert (check.state, check.says) == ("ok", "ollama, tiny; it finds facts, and cofio's rules decide about memories")


class _Weak:
    def extraction(self) -> dict[str, Any]:
        told = {"enabled": True, "status": "healthy", "provider": "ollama", "model": "tiny"}
        return {**told, "audn": False, "audn_known": True}


@pytest.mark.parametrize("waits", [True, False])
def test_a_worker_of_the_command_line_probes_when_something_waits(wire: Wire, tmp_path: Path, waits: bool) -> None:
    settings = Settings(
        home=tmp_path, store=f"sqlite://{tmp_path / 'cofio.db'}", extract_provider="ollama", ollama_url=wire.url
    )
    with bootstrap.keeper(settings, embedder=HashEmbedder()) as keeper:
        if waits:
            keeper.capture("User: Our team adopts microservices for scalability.")
        InboxWorker(keeper).drain()
        assert keeper.extraction()["audn_known"] is waits
    assert sum(_is_probe(each.body) for each in wire.seen) == waits
