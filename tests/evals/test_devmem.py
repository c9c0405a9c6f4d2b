"""DevMemBench: sessions are captured in order, and answers are searched for in the hits."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cofio import bootstrap
from cofio.core import Keeper
from cofio.errors import InvalidInput, NotFound
from cofio.settings import Settings
from cofio.testing import HashEmbedder
from evals import devmem
from tests.evaluation.fake_judges import ScriptedJudge

STACK, PORT = "we use FastAPI with Postgres", "the staging port is 9090"
SESSIONS = [
    {"sessionId": "S2", "metadata": {"date": "2026-02-02", "project": "api"},
     "messages": [{"role": "user", "content": PORT}, {"role": "assistant", "content": "Noted."}]},
    {"sessionId": "S1", "metadata": {"date": "2026-01-01", "project": "api"},
     "messages": [{"role": "user", "content": STACK}, {"role": "assistant", "content": "Sure."},
                  {"role": "user", "content": "run the tests"}]},
]  # fmt: skip
QUESTIONS = [
    {"questionId": "Q1", "questionType": "tech-stack", "question": "Which framework?", "groundTruth": "FastAPI"},
    {"questionId": "Q2", "questionType": "tech-stack", "question": "Which queue?", "groundTruth": "RabbitMQ"},
    {"questionId": "Q3", "questionType": "abstention", "question": "Which cloud?", "groundTruth": "Not said."},
    {"questionId": "Q4", "questionType": "architecture", "question": "Which port, which framework?",
     "groundTruth": "Port 9090, FastAPI"},
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "bench-sessions.json").write_text(json.dumps(SESSIONS), encoding="utf-8")
    (tmp_path / "data" / "bench-questions-dev.json").write_text(json.dumps(QUESTIONS), encoding="utf-8")
    return tmp_path / "data"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    labels = (0.95, "technology", "project")
    monkeypatch.setattr(bootstrap, "_judge", lambda _: ScriptedJudge({STACK: labels, PORT: labels}))
    return Settings.load({"home": tmp_path / "home"}, {})


def measure(folder: Path, settings: Settings) -> Any:
    return devmem.evaluate(folder, settings, embedder=HashEmbedder()).values


def test_answers_are_counted_in_single_hits_and_in_all_hits(folder: Path, settings: Settings) -> None:
    figures = measure(folder, settings)
    assert (figures["sessions"], figures["questions"], figures["memories"]) == (2, 3, 2)
    assert figures["per_question"] == {
        "Q1": {"facts": True, "facts and episodes": True},
        "Q2": {"facts": False, "facts and episodes": False},
        "Q4": {"facts": False, "facts and episodes": False},
    }
    assert figures["facts"]["one_hit"]["value"] == pytest.approx(1 / 3)
    assert figures["facts"]["together"]["value"] == pytest.approx(2 / 3)
    assert figures["said"] == pytest.approx(1 / 3)
    assert set(figures["by_type"]) == {"tech-stack", "architecture"}


def test_episodes_are_searched(folder: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def search_episodes(_self: Keeper, _query: str, *, k: int) -> list[SimpleNamespace]:
        return [SimpleNamespace(score=1.0, text="The queue is RabbitMQ")][:k]

    monkeypatch.setattr(Keeper, "search_episodes", search_episodes, raising=False)
    figures = measure(folder, settings)
    assert figures["per_question"]["Q2"] == {"facts": False, "facts and episodes": True}
    assert figures["facts and episodes"]["one_hit"]["value"] > figures["facts"]["one_hit"]["value"]


def test_sessions_are_ordered_by_date(folder: Path) -> None:
    sessions, questions = devmem.read_folder(folder)
    assert [session["sessionId"] for session in sessions] == ["S1", "S2"]
    assert [question.id for question in questions] == ["Q1", "Q2", "Q4"]


def test_missing_and_invalid_files_are_reported(folder: Path, settings: Settings) -> None:
    with pytest.raises(NotFound, match="There is no folder"):
        measure(folder / "none", settings)
    (folder / "bench-sessions.json").write_text("[{}]", encoding="utf-8")
    with pytest.raises(InvalidInput, match="has no sessionId"):
        measure(folder, settings)
    (folder / "bench-sessions.json").unlink()
    with pytest.raises(NotFound, match="has no sessions"):
        measure(folder, settings)
