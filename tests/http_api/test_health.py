"""Degraded health: the service answers, and reports what does not work."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from cofio.errors import Unavailable
from cofio.testing import HashEmbedder
from tests.http_api.caller import Caller
from tests.http_api.conftest import Serve
from tests.http_api.test_server import FailingEmbedder

DOWN = Unavailable("The provider answered 503.", "Try later.")


def problems(service: Caller) -> list[tuple[str, str]]:
    """Return name and text of the problems; [] if the service is healthy."""
    health = service.get("/health").json
    listed = [(problem["name"], problem["says"]) for problem in health.get("problems", ())]
    assert health["status"] == ("degraded" if listed else "healthy")
    assert all(problem["hint"] for problem in health.get("problems", ()))
    return listed


def test_full_disk_degrades_health(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    service = serve()
    assert problems(service) == []
    monkeypatch.setattr(os, "statvfs", lambda _path: SimpleNamespace(f_bavail=1, f_frsize=4_096))
    [(name, text)] = problems(service)
    assert (name, text.endswith("is full.")) == ("store", True)


def test_failed_write_degrades_health_until_a_write_succeeds(serve: Serve, tmp_path: Path) -> None:
    service = serve()
    service.post("/memory/add", {"text": "We deploy on Fridays."})
    with closing(sqlite3.connect(tmp_path / "cofio.db")) as other:
        failure = "BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
        other.execute(f"CREATE TRIGGER refuse BEFORE INSERT ON memories {failure}")
        assert service.post("/memory/add", {"text": "We review on Tuesdays."}).status == 503
        [(name, text)] = problems(service)
        assert (name, text.endswith("is full.")) == ("store", True)
        assert service.post("/search", {"query": "deploy"}).status == 200
        other.execute("DROP TRIGGER refuse")
    assert service.post("/memory/add", {"text": "We test on Mondays."}).status == 201
    assert problems(service) == []


def test_embedder_of_another_model_degrades_health(serve: Serve) -> None:
    serve(HashEmbedder(64)).post("/memory/add", {"text": "We deploy on Fridays."})
    service = serve(HashEmbedder(128))
    assert service.post("/search", {"query": "x"}).status == 409
    [(name, text)] = problems(service)
    assert (name, "was embedded with" in text) == ("embedder", True)


def test_embedder_that_fails_twice_degrades_health_until_it_answers(serve: Serve) -> None:
    embedder = FailingEmbedder()
    service = serve(embedder)
    service.post("/memory/add", {"text": "We deploy on Fridays."})
    embedder.error = DOWN
    for expected in ([], [("embedder", DOWN.message)]):
        service.post("/memory/is-novel", {"text": "deploy"})
        assert problems(service) == expected
    embedder.error = None
    service.post("/memory/is-novel", {"text": "deploy"})
    assert problems(service) == []


def test_strangers_see_that_health_is_degraded_but_no_reason(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    service = serve(api_key="right-key")
    monkeypatch.setattr(os, "statvfs", lambda _path: SimpleNamespace(f_bavail=1, f_frsize=4_096))
    stranger = service.get("/health")
    assert (stranger.status, stranger.json["status"]) == (200, "degraded")
    assert "problems" not in stranger.json
    owner = service.with_key("right-key")
    assert [name for name, _ in problems(owner)] == ["store"]
    key = owner.post("/keys", {"name": "ann", "user": "ann", "role": "write"}).json["secret"]
    teammate = service.with_key(key).get("/health").json
    assert (teammate["status"], "problems" in teammate) == ("degraded", False)
