"""The oracle answers from labels, and with it a stream is learned without errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cofio import bootstrap
from cofio.settings import Settings
from cofio.testing import HashEmbedder
from cofio_eval import streams
from evals import oracle

STREAM = oracle.SETS[0] / "django-logistics.json"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load({"home": tmp_path}, {})


def test_stream_is_learned_without_errors(settings: Settings) -> None:
    (stream,) = streams.read(STREAM)
    outcome, oracle_llm = oracle.run(stream, settings, bootstrap.make_embedder(settings))
    for _, right, cases in oracle.FIGURES:
        assert outcome.counts[right] == outcome.counts[cases] > 0
    assert outcome.counts["noise stored"] == 0
    assert oracle_llm.hidden == []
    assert oracle_llm.calls > 0
    assert oracle_llm.input_tokens > 0


def fact(name: str, text: str) -> dict[str, Any]:
    return {"id": name, "text": text, "keywords": [text.lower().split()[-1:]]}


def test_figures_below_the_threshold_give_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    exchange = {"id": "x1", "session": "s1", "date": "2026-05-01", "user": "thanks!", "assistant": "", "type": "fact"}
    (tmp_path / "shop.json").write_text(
        json.dumps(
            {"exchanges": [{**exchange, "facts": [fact("f1", "The port is 8080")]}], "questions": [], "prompts": []}
        )
    )
    monkeypatch.setenv("COFIO_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(bootstrap, "make_embedder", lambda _: HashEmbedder())
    assert oracle.main([str(tmp_path / "shop.json"), "--failures"]) == 1
    output = capsys.readouterr().out
    assert "facts 0 of 1" in output
    assert "not stored: The port is 8080" in output
