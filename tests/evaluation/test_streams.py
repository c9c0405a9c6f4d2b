"""The stream evaluation: figures of a conversation that is learned and queried."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cofio import bootstrap
from cofio.errors import InvalidInput, NotFound
from cofio.settings import Settings
from cofio.testing import HashEmbedder
from cofio_eval import streams
from tests.evaluation.fake_judges import ScriptedJudge

PORT, MOVED, CAT = "the staging port is 8080", "the staging port is 9090 since today", "our cat is called Biscuit"
FORGET = "forget the cat's name"


def exchange(number: int, text: str, kind: str, *facts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    defaults = {"id": f"x{number}", "session": "s1", "date": f"2026-05-{number:02}", "assistant": "Ok."}
    return {**defaults, "user": text, "type": kind, "facts": list(facts), **fields}


def fact(name: str, *keywords: str) -> dict[str, Any]:
    return {"id": name, "text": name, "keywords": [[word] for word in keywords]}


STREAM: dict[str, Any] = {
    "project": "shop",
    "exchanges": [
        exchange(1, PORT, "fact", fact("port", "port", "8080")),
        exchange(2, CAT, "fact", fact("cat", "biscuit")),
        exchange(3, "thanks, run the tests", "noise"),
        exchange(4, MOVED, "update", fact("moved", "port", "9090"), replaces="port"),
        exchange(5, FORGET, "delete", deletes="cat"),
    ],
    "questions": [
        {"ask": "Which port does staging use?", "fact": "moved", "current": [["9090"]], "stale": [["8080"]]},
        {"ask": "What is our cat called?", "fact": "cat", "current": [["biscuit"]], "stale": []},
    ],
    "prompts": [{"prompt": "open the staging port in the firewall", "needed": ["moved"]},
                {"prompt": "what is a monad?", "needed": []}],
}  # fmt: skip
FACTS = {
    PORT: (0.95, "technology", "project"),
    MOVED: (0.95, "technology", "project"),
    CAT: (0.95, "observation", "project"),
    FORGET: (0.95, "retraction", "project"),
}
InstallJudge = Callable[..., None]


@pytest.fixture
def install_judge(monkeypatch: pytest.MonkeyPatch) -> InstallJudge:
    """Replace the model by a scripted judge."""

    def replace_judge(judge: ScriptedJudge) -> None:
        monkeypatch.setattr(bootstrap, "_judge", lambda _: judge)

    return replace_judge


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load({"home": tmp_path / "home"}, {})


def write(tmp_path: Path, stream: Any = STREAM, name: str = "shop") -> Path:
    path = tmp_path / f"{name}.json"
    path.write_text(stream if isinstance(stream, str) else json.dumps(stream), encoding="utf-8")
    return path


def label(statement: str, memory: str) -> str:
    """Label a new port as an update, and forgetting as a deletion."""
    if "9090" in statement and "8080" in memory:
        return "update"
    return "delete" if "forget" in statement.lower() and "Biscuit" in memory else "add"


def measure(path: Path, settings: Settings, **options: Any) -> Any:
    return streams.evaluate(path, settings, embedder=HashEmbedder(), **options)


def test_conversation_is_learned_and_queried(tmp_path: Path, settings: Settings, install_judge: InstallJudge) -> None:
    install_judge(ScriptedJudge(FACTS, label))
    figures = measure(write(tmp_path), settings).values
    shares = {name: figures[name]["share"] for name, _, _ in streams.FIGURES}
    assert shares["durable facts stored"] == 1.0
    assert shares["noise turns that stored something"] == 0.0
    assert shares["updates right, old value known"] == 1.0
    assert shares["new facts that overwrote another"] == 0.0
    assert shares["deletions honoured"] == 1.0
    assert shares["question: current value first"] == 1.0
    assert (figures["streams"], figures["exchanges"]) == (1, 5)
    assert all(cost > 0 for cost in figures["milliseconds"].values())
    assert figures["by_stream"]["shop"]["facts stored"] == 1.0


def test_failures_are_listed_on_request(tmp_path: Path, settings: Settings, install_judge: InstallJudge) -> None:
    install_judge(ScriptedJudge({name: fact for name, fact in FACTS.items() if name != MOVED}))
    report = measure(write(tmp_path), settings, failures=True)
    assert any("not stored: moved" in failure for failure in report.values["failures"])
    assert "update wrong: new stored False" in report.text()
    assert "update wrong" not in measure(write(tmp_path), settings).text()


def test_archived_memory_after_a_new_fact_is_an_overwrite(
    tmp_path: Path, settings: Settings, install_judge: InstallJudge
) -> None:
    other_text = "the staging port of the uploads is 8081"
    exchanges = [STREAM["exchanges"][0], exchange(2, other_text, "fact", fact("other", "port", "8081"))]
    stream = {**STREAM, "exchanges": exchanges, "questions": [], "prompts": []}
    install_judge(ScriptedJudge({**FACTS, other_text: FACTS[PORT]}, lambda _statement, _memory: "update"))
    figures = measure(write(tmp_path, stream), settings).values
    assert figures["new facts that overwrote another"]["right"] == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ({"exchanges": []}, "lists of exchanges, questions and prompts"),
        ({**STREAM, "exchanges": [{"id": "x1"}]}, "exchange 1 has no"),
        ({**STREAM, "exchanges": [exchange(1, "hi", "update", replaces="port")]}, "'port', which is not a fact"),
        ({**STREAM, "prompts": [{"prompt": "x", "needed": ["nothing"]}]}, "needs 'nothing'"),
    ],
)
def test_invalid_file_is_rejected(tmp_path: Path, settings: Settings, content: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        measure(write(tmp_path, content), settings)


def test_missing_file_and_empty_folder_are_reported(tmp_path: Path, settings: Settings) -> None:
    with pytest.raises(NotFound, match="cannot be read"):
        measure(tmp_path / "none.json", settings)
    with pytest.raises(NotFound, match=r"contains no \.json file"):
        measure(tmp_path, settings)
