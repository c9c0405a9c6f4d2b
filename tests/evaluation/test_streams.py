"""Streams: what is counted of a conversation that is learned and asked about."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cofio import bootstrap
from cofio.errors import InvalidInput, NotFound
from cofio.evaluation import streams
from cofio.settings import Settings
from cofio.testing import HashEmbedder
from tests.evaluation.fake_judges import ScriptedJudge

PORT, MOVED, CAT = "the staging port is 8080", "the staging port is 9090 since today", "our cat is called Biscuit"
FORGET = "forget the cat's name"


def exchange(number: int, said: str, kind: str, *facts: dict[str, Any], **about: Any) -> dict[str, Any]:
    where = {"id": f"x{number}", "session": "s1", "date": f"2026-05-{number:02}", "assistant": "Ok."}
    return {**where, "user": said, "type": kind, "facts": list(facts), **about}


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
Judged = Callable[..., None]


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Judged:
    """Put a scripted judge in the place of the model."""

    def install(judge: ScriptedJudge) -> None:
        monkeypatch.setattr(bootstrap, "_judge", lambda _: judge)

    return install


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load({"home": tmp_path / "home"}, {})


def write(tmp_path: Path, stream: Any = STREAM, name: str = "shop") -> Path:
    path = tmp_path / f"{name}.json"
    path.write_text(stream if isinstance(stream, str) else json.dumps(stream), encoding="utf-8")
    return path


def label(statement: str, memory: str) -> str:
    """A new port updates the old one, and forgetting deletes the cat."""
    if "9090" in statement and "8080" in memory:
        return "update"
    return "delete" if "forget" in statement.lower() and "Biscuit" in memory else "add"


def measured(path: Path, settings: Settings, **about: Any) -> Any:
    return streams.evaluate(path, settings, embedder=HashEmbedder(), **about)


def test_a_conversation_is_learned_and_asked_about(tmp_path: Path, settings: Settings, judged: Judged) -> None:
    judged(ScriptedJudge(FACTS, label))
    figures = measured(write(tmp_path), settings).values
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


def test_failures_are_listed_where_asked(tmp_path: Path, settings: Settings, judged: Judged) -> None:
    judged(ScriptedJudge({name: each for name, each in FACTS.items() if name != MOVED}))
    report = measured(write(tmp_path), settings, failures=True)
    assert any("not stored: moved" in each for each in report.values["failures"])
    assert "update wrong: new stored False" in report.text()
    assert "update wrong" not in measured(write(tmp_path), settings).text()


def test_a_memory_that_goes_with_a_new_fact_is_an_overwrite(tmp_path: Path, settings: Settings, judged: Judged) -> None:
    other = "the staging port of the uploads is 8081"
    exchanges = [STREAM["exchanges"][0], exchange(2, other, "fact", fact("other", "port", "8081"))]
    stream = {**STREAM, "exchanges": exchanges, "questions": [], "prompts": []}
    judged(ScriptedJudge({**FACTS, other: FACTS[PORT]}, lambda _statement, _memory: "update"))
    figures = measured(write(tmp_path, stream), settings).values
    assert figures["new facts that overwrote another"]["right"] == 1


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "is not JSON"),
        ({"exchanges": []}, "lists of exchanges, questions and prompts"),
        ({**STREAM, "exchanges": [{"id": "x1"}]}, "exchange 1 has no"),
        ({**STREAM, "exchanges": [exchange(1, "hi", "update", replaces="port")]}, "'port', which is not a fact"),
        ({**STREAM, "prompts": [{"prompt": "x", "needed": ["nothing"]}]}, "needs 'nothing'"),
    ],
)
def test_a_file_of_another_shape_is_refused(tmp_path: Path, settings: Settings, content: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        measured(write(tmp_path, content), settings)


def test_a_missing_file_and_an_empty_folder_are_reported(tmp_path: Path, settings: Settings) -> None:
    with pytest.raises(NotFound, match="cannot be read"):
        measured(tmp_path / "none.json", settings)
    with pytest.raises(NotFound, match="has no stream"):
        measured(tmp_path, settings)
