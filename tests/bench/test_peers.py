"""The peer benchmark without installed peers: protocol, driver and report, on cofio and the baselines."""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench.peers import child, embedding, quality, report, run, speed, systems, updates

from cofio.testing import HashEmbedder
from cofio_eval.datasets import read

EFFORT = speed.Effort(prompts=6, warmup=2, adds=4, batch=50, embedded=3)
LOCAL_SYSTEMS = {system.name: system for system in systems.SYSTEMS if not system.environment}
UNITS = [
    ("D1:1", "Ada", "I adopted a grey cat from the shelter."),
    ("D1:2", "Ben", "My brother plays the trombone in Lisbon."),
    ("D1:3", "Ada", "I adopted a grey cat from the shelter."),
    ("D1:4", "Ben", "The marathon was cancelled because of snow."),
]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with embedding.serve(HashEmbedder(64)) as address:
        yield address


@pytest.fixture
def conversations(tmp_path: Path) -> list[quality.QuestionSet]:
    units = [{"id": name, "speaker": speaker, "date": "2026-01-02", "text": text} for name, speaker, text in UNITS]
    questions = [
        {"id": "q1", "text": "Who adopted a grey cat?", "category": "single", "evidence": ["D1:3"]},
        {"id": "q2", "text": "Who plays the trombone?", "category": "single", "evidence": ["D1:2"]},
        {"id": "q3", "text": "Who sang?", "category": "adversarial", "evidence": ["D1:2"]},
    ]
    path = tmp_path / "some.jsonl"
    path.write_text(json.dumps({"id": "c", "units": units, "questions": questions}), encoding="utf-8")
    return quality.load_question_sets(read(path))


# ── Protocol ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["cofio, capture", "FTS5", "NumPy"])
def test_adapter_stores_finds_counts_and_persists(name: str, url: str, tmp_path: Path) -> None:
    system = LOCAL_SYSTEMS[name]
    with child.open_adapter(system, tmp_path, vectors=None, url=url) as adapter:
        assert adapter.opening["about"]["version"]
        assert adapter.ask("add", collection="a", item={"id": "1", "text": UNITS[0][2]})["kept"] == 1
        items = [{"id": f"m{number}", "text": text} for number, (_, _, text) in enumerate(UNITS[1:2] + UNITS[3:])]
        assert adapter.ask("add_many", collection="a", items=items)["kept"] == 2
        assert adapter.ask("count", collection="b")["count"] == 0  # a collection is isolated
        assert adapter.ask("weigh")["resident_mb"] > 1
    with child.open_adapter(system, tmp_path, vectors=None, url=url) as reopened:
        assert reopened.ask("count", collection="a")["count"] == 3
        reply = reopened.ask("search", collection="a", text="adopted a grey cat from the shelter", k=2)
        assert reply["found"][0] == UNITS[0][2]
        assert len(reply["found"]) <= 2
        assert 0 <= reply["embedding"] <= reply["took"]


def test_vectors_come_from_the_table_and_otherwise_from_the_server(url: str, tmp_path: Path) -> None:
    known_text = "The marathon was cancelled because of snow."
    table = embedding.write_table(tmp_path / "table", [known_text], HashEmbedder(64).embed([known_text], "document"))
    with child.open_adapter(LOCAL_SYSTEMS["NumPy"], tmp_path / "one", vectors=table, url="") as table_only:
        table_only.ask("add", collection="a", item={"id": "1", "text": known_text})
        assert table_only.ask("search", collection="a", text=known_text, k=1)["found"] == [known_text]
        with pytest.raises(child.SystemFailed, match="no vector for 'Unknown'"):
            table_only.ask("search", collection="a", text="Unknown", k=1)
        assert table_only.ask("count", collection="a")["count"] == 1  # an error does not end the process
    with child.open_adapter(LOCAL_SYSTEMS["NumPy"], tmp_path / "two", vectors=table, url=url) as table_and_server:
        table_and_server.ask(
            "add_many", collection="a", items=[{"id": "1", "text": known_text}, {"id": "2", "text": "A grey cat"}]
        )
        assert table_and_server.ask("search", collection="a", text="A grey cat", k=1)["found"] == ["A grey cat"]


def test_server_uses_the_openai_wire_format(url: str) -> None:
    body = json.dumps({"model": "any", "input": ["one", "two"]}).encode()
    request = urllib.request.Request(f"{url}/embeddings", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as reply:
        payload = json.loads(reply.read())
    assert [entry["index"] for entry in payload["data"]] == [0, 1]
    expected = HashEmbedder(64).embed(["one", "two"], "document")
    assert np.allclose([entry["embedding"] for entry in payload["data"]], expected, atol=1e-6)


def test_vectors_of_a_list_are_embedded_once(tmp_path: Path) -> None:
    class CountingEmbedder(HashEmbedder):
        calls = 0

        def embed(self, *arguments: Any) -> Any:
            CountingEmbedder.calls += 1
            return super().embed(*arguments)

    embedder = CountingEmbedder(32)
    first = embedding.CachedEmbedder(embedder, tmp_path).embed(["one", "two"], "document")
    calls = CountingEmbedder.calls
    second = embedding.CachedEmbedder(embedder, tmp_path).embed(["one", "two"], "document")
    assert CountingEmbedder.calls == calls
    assert np.array_equal(first, second)
    embedding.CachedEmbedder(embedder, tmp_path).embed(["two", "one"], "document")
    assert CountingEmbedder.calls == calls + 1


# ── Failures ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _make_system(tmp_path: Path, program: str) -> systems.System:
    adapter = tmp_path / "of_broken.py"
    adapter.write_text(program, encoding="utf-8")
    return systems.System("broken", adapter)


def test_crashing_peer_fails_with_its_last_line(tmp_path: Path) -> None:
    system = _make_system(tmp_path, "raise ImportError('no module named elsewhere')")
    with (
        pytest.raises(child.SystemFailed, match="ended with status 1: ImportError: no module named elsewhere"),
        child.open_adapter(system, tmp_path / "store", vectors=None, url=""),
    ):
        pytest.fail("it cannot have opened")


def test_peer_that_dies_during_a_call_fails(tmp_path: Path) -> None:
    dying = "import os, sys; sys.stdin.readline(); print('out of memory', file=sys.stderr, flush=True); os._exit(9)"
    system = _make_system(tmp_path, dying)
    with (
        pytest.raises(child.SystemFailed, match="ended with status 9: out of memory"),
        child.open_adapter(system, tmp_path / "store", vectors=None, url=""),
    ):
        pytest.fail("it cannot have opened")


def test_unresponsive_peer_times_out(tmp_path: Path) -> None:
    answer = '{"about": {"version": "1"}}'
    system = _make_system(
        tmp_path, f"import sys, time; sys.stdin.readline(); print('{answer}', flush=True); time.sleep(60)"
    )
    with (
        pytest.raises(child.SystemFailed, match="count took more than 0 s"),
        child.open_adapter(system, tmp_path / "store", vectors=None, url="") as peer,
    ):
        peer.ask("count", timeout=0.2, collection="a")


def test_missing_peer_fails_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systems, "BUILD_FOLDER", tmp_path)
    system = next(candidate for candidate in systems.SYSTEMS if candidate.environment == "chromadb")
    with pytest.raises(child.SystemFailed, match="not installed: run `make bench-peers`"):
        child.Child(system, tmp_path, system.python)
    (tmp_path / "chromadb.reason").write_text("ERROR: No matching distribution found for chromadb\n", encoding="utf-8")
    with pytest.raises(child.SystemFailed, match="not installed: ERROR: No matching distribution found for chromadb"):
        child.Child(system, tmp_path, system.python)


def test_reason_is_one_short_line_without_local_paths() -> None:
    reason = child.shorten_reason(
        f"Cannot read\n  {child.ROOT}/build/peers/x.db nor {Path.home()}/y " + "and so on " * 50
    )
    assert reason.startswith("Cannot read ./build/peers/x.db nor ~/y and so on")
    assert len(reason) == 200


def test_output_of_a_peer_is_not_a_reply(url: str, tmp_path: Path) -> None:
    adapters = Path(LOCAL_SYSTEMS["NumPy"].adapter).parent
    program = f"""
import sys
sys.path.insert(0, {str(adapters)!r})
import of_numpy, wire
class Loud(of_numpy.Exact):
    def count(self, collection):
        print("A notice for everybody!")
        return super().count(collection)
wire.serve(Loud)
"""
    with child.open_adapter(_make_system(tmp_path, program), tmp_path / "store", vectors=None, url=url) as peer:
        assert peer.ask("count", collection="a")["count"] == 0


# ── A complete run ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_run_measures_available_sides_and_explains_missing_ones(
    conversations: list[quality.QuestionSet], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systems, "BUILD_FOLDER", tmp_path / "missing")
    selected = [system for system in systems.SYSTEMS if system.name not in ("cofio, no dedup in bulk", "cofio, add")]
    monkeypatch.setattr(systems, "SYSTEMS", selected)  # each system is a separate process
    (tmp_path / "work").mkdir()
    results = run.run_benchmark(
        HashEmbedder(64),
        conversations,
        [60],
        ["chromadb", "FTS5", "NumPy"],
        EFFORT,
        anchors=40,
        folder=tmp_path / "work",
        vectors=tmp_path / "vectors",
    )
    assert not list((tmp_path / "work").iterdir())  # a run removes its files
    assert list(results["quality"]) == ["cofio", "cofio, text only", "chromadb", "FTS5", "NumPy"]
    for name in ("cofio", "FTS5"):
        assert results["quality"][name]["scores"]["recall_at_10"] == [
            1.0,
            1.0,
        ]  # the duplicate turn counts as the first
    at_60 = results["speed"]["60"]
    for name in ("cofio", "FTS5", "NumPy"):
        assert at_60[name]["search_p50_ms"] > 0
        assert at_60[name]["memories"] >= 55  # a single add may replace an older memory
        assert 0 <= at_60[name]["whole_search_embedding"] <= 1
    assert at_60["NumPy"]["whole_add_embedding"] > at_60["FTS5"]["whole_add_embedding"] == 0
    assert results["updates"]["chromadb"] == {"reason": "not installed: run `make bench-peers`"}

    page_report = report.build_report(results)
    page = page_report.page()
    assert "chromadb: not installed: run `make bench-peers`" in page
    assert "| cofio, capture |" in page
    assert {"quality", "speed", "updates", "machine"} <= page_report.as_dict().keys()
    assert page_report.as_dict()["quality"]["chromadb"] == {"reason": "not installed: run `make bench-peers`"}
    json.dumps(page_report.as_dict())
    assert set(page_report.plots) == {"peers-search", "peers-found"}
    assert str(tmp_path) not in page + json.dumps(page_report.as_dict())


def test_report_without_conversations_says_so() -> None:
    page_report = report.build_report({"quality": {}, "speed": {}, "updates": {}, "seconds": 1.0})
    assert "No conversations were given" in page_report.text()
    assert (page_report.tables, page_report.plots) == ([], {})


def test_handling_of_duplicates_is_described(url: str, tmp_path: Path) -> None:
    baseline = updates.measure_system(LOCAL_SYSTEMS["FTS5"], tmp_path / "fts5", url)
    assert baseline["parts"]["repeat"]["left"] == 2
    assert baseline["parts"]["denied"] == {
        "told": 2,
        "left": 2,
        "first": baseline["parts"]["denied"]["first"],
        "stale_found": True,
        "fresh_found": True,
        "stale_first": baseline["parts"]["denied"]["stale_first"],
    }
    own_parts = updates.measure_system(LOCAL_SYSTEMS["cofio, capture"], tmp_path / "cofio", url)["parts"]
    assert (own_parts["repeat"]["left"], own_parts["spaced"]["left"]) == (1, 1)
    table = report.build_report({"quality": {}, "speed": {}, "updates": {"FTS5": baseline}, "seconds": 1.0}).tables[-1]
    assert table.rows[0][:3] == ["FTS5", "kept 2 of 2", "kept 2 of 2"]


def test_missing_data_file_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main([str(tmp_path / "none.jsonl"), "--skip-install"]) == 2
    assert "cannot be read" in capsys.readouterr().err


# ── Systems ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_peer_has_an_adapter_and_pinned_versions() -> None:
    for system in systems.SYSTEMS:
        assert system.adapter.exists()
        if not system.environment:
            assert system.python == Path(sys.executable)
            continue
        pins = (Path(run.__file__).parent / f"requirements-{system.environment}.txt").read_text(encoding="utf-8")
        assert f"\n{system.environment}==" in f"\n{pins}"
        assert "://" not in pins


def test_sides_are_unique_per_measure() -> None:
    for measure in ("quality", "speed", "updates"):
        names = [system.name for system in systems.select_systems(systems.PEERS, measure)]  # type: ignore[arg-type]
        assert len(set(names)) == len(names)
        assert [system.peer for system in systems.select_systems([], measure)].count("cofio") == 2  # type: ignore[arg-type]
    assert replace(systems.SYSTEMS[0], name="x").peer == "x"
