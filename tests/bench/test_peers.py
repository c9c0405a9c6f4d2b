"""The bench beside others with nobody installed: the wire, the driver and the report, on cofio and the baselines."""

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
from bench.peers import child, embedding, quality, run, sameness, sides, speed, telling

from cofio.evaluation.datasets import read
from cofio.testing import HashEmbedder

EFFORT = speed.Effort(prompts=6, warming=2, adds=4, batch=50, embedded=3)
HERE = {side.name: side for side in sides.SIDES if not side.environment}
UNITS = [
    ("D1:1", "Ada", "I adopted a grey cat from the shelter."),
    ("D1:2", "Ben", "My brother plays the trombone in Lisbon."),
    ("D1:3", "Ada", "I adopted a grey cat from the shelter."),
    ("D1:4", "Ben", "The marathon was cancelled because of snow."),
]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with embedding.served(HashEmbedder(64)) as address:
        yield address


@pytest.fixture
def conversations(tmp_path: Path) -> list[quality.Asked]:
    units = [{"id": name, "speaker": who, "date": "2026-01-02", "text": text} for name, who, text in UNITS]
    questions = [
        {"id": "q1", "text": "Who adopted a grey cat?", "category": "single", "evidence": ["D1:3"]},
        {"id": "q2", "text": "Who plays the trombone?", "category": "single", "evidence": ["D1:2"]},
        {"id": "q3", "text": "Who sang?", "category": "adversarial", "evidence": ["D1:2"]},
    ]
    path = tmp_path / "some.jsonl"
    path.write_text(json.dumps({"id": "c", "units": units, "questions": questions}), encoding="utf-8")
    return quality.asked(read(path))


# ── the wire ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["cofio, capture", "FTS5", "NumPy"])
def test_an_adapter_keeps_finds_and_counts_and_knows_it_all_again_when_it_is_opened_anew(
    name: str, url: str, tmp_path: Path
) -> None:
    side = HERE[name]
    with child.opened(side, tmp_path, vectors=None, url=url) as first:
        assert first.opening["about"]["version"]
        assert first.ask("add", collection="a", item={"id": "1", "text": UNITS[0][2]})["kept"] == 1
        many = [{"id": f"m{place}", "text": text} for place, (_, _, text) in enumerate(UNITS[1:2] + UNITS[3:])]
        assert first.ask("add_many", collection="a", items=many)["kept"] == 2
        assert first.ask("count", collection="b")["count"] == 0  # a collection is nobody else's
        assert first.ask("weigh")["resident_mb"] > 1
    with child.opened(side, tmp_path, vectors=None, url=url) as again:
        assert again.ask("count", collection="a")["count"] == 3
        found = again.ask("search", collection="a", text="adopted a grey cat from the shelter", k=2)
        assert found["found"][0] == UNITS[0][2]
        assert len(found["found"]) <= 2
        assert 0 <= found["embedding"] <= found["took"]


def test_vectors_come_from_the_table_and_what_it_lacks_from_the_server(url: str, tmp_path: Path) -> None:
    known = "The marathon was cancelled because of snow."
    table = embedding.table(tmp_path / "table", [known], HashEmbedder(64).embed([known], "document"))
    with child.opened(HERE["NumPy"], tmp_path / "one", vectors=table, url="") as alone:
        alone.ask("add", collection="a", item={"id": "1", "text": known})
        assert alone.ask("search", collection="a", text=known, k=1)["found"] == [known]
        with pytest.raises(child.Failed, match="no vector for 'Unknown'"):
            alone.ask("search", collection="a", text="Unknown", k=1)
        assert alone.ask("count", collection="a")["count"] == 1  # an error ends nothing
    with child.opened(HERE["NumPy"], tmp_path / "two", vectors=table, url=url) as both:
        both.ask("add_many", collection="a", items=[{"id": "1", "text": known}, {"id": "2", "text": "A grey cat"}])
        assert both.ask("search", collection="a", text="A grey cat", k=1)["found"] == ["A grey cat"]


def test_the_server_speaks_the_wire_format_of_openai(url: str) -> None:
    body = json.dumps({"model": "any", "input": ["one", "two"]}).encode()
    asked = urllib.request.Request(f"{url}/embeddings", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=30) as reply:
        told = json.loads(reply.read())
    assert [each["index"] for each in told["data"]] == [0, 1]
    wanted = HashEmbedder(64).embed(["one", "two"], "document")
    assert np.allclose([each["embedding"] for each in told["data"]], wanted, atol=1e-6)


def test_vectors_of_a_list_are_embedded_once(tmp_path: Path) -> None:
    class Counting(HashEmbedder):
        calls = 0

        def embed(self, *told: Any) -> Any:
            Counting.calls += 1
            return super().embed(*told)

    embedder = Counting(32)
    first = embedding.Kept(embedder, tmp_path).embed(["one", "two"], "document")
    calls = Counting.calls
    again = embedding.Kept(embedder, tmp_path).embed(["one", "two"], "document")
    assert Counting.calls == calls
    assert np.array_equal(first, again)
    embedding.Kept(embedder, tmp_path).embed(["two", "one"], "document")
    assert Counting.calls == calls + 1


# ── what goes wrong ───────────────────────────────────────────────────────────────────────────────────────────────────


def _side(tmp_path: Path, program: str) -> sides.Side:
    adapter = tmp_path / "of_broken.py"
    adapter.write_text(program, encoding="utf-8")
    return sides.Side("broken", adapter)


def test_a_peer_that_crashes_fails_with_the_last_line_that_it_said(tmp_path: Path) -> None:
    side = _side(tmp_path, "raise ImportError('no module named elsewhere')")
    with (
        pytest.raises(child.Failed, match="ended with status 1: ImportError: no module named elsewhere"),
        child.opened(side, tmp_path / "store", vectors=None, url=""),
    ):
        pytest.fail("it cannot have opened")


def test_a_peer_that_dies_in_the_middle_of_a_call_fails_too(tmp_path: Path) -> None:
    dying = "import os, sys; sys.stdin.readline(); print('out of memory', file=sys.stderr, flush=True); os._exit(9)"
    side = _side(tmp_path, dying)
    with (
        pytest.raises(child.Failed, match="ended with status 9: out of memory"),
        child.opened(side, tmp_path / "store", vectors=None, url=""),
    ):
        pytest.fail("it cannot have opened")


def test_a_peer_that_does_not_answer_is_not_waited_for(tmp_path: Path) -> None:
    answer = '{"about": {"version": "1"}}'
    side = _side(tmp_path, f"import sys, time; sys.stdin.readline(); print('{answer}', flush=True); time.sleep(60)")
    with (
        pytest.raises(child.Failed, match="count took more than 0 s"),
        child.opened(side, tmp_path / "store", vectors=None, url="") as slow,
    ):
        slow.ask("count", within=0.2, collection="a")


def test_a_peer_that_is_not_installed_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sides, "PLACE", tmp_path)
    side = next(each for each in sides.SIDES if each.environment == "chromadb")
    with pytest.raises(child.Failed, match="not installed: run `make bench-peers`"):
        child.Child(side, tmp_path, side.python)
    (tmp_path / "chromadb.reason").write_text("ERROR: No matching distribution found for chromadb\n", encoding="utf-8")
    with pytest.raises(child.Failed, match="not installed: ERROR: No matching distribution found for chromadb"):
        child.Child(side, tmp_path, side.python)


def test_a_reason_is_one_short_line_that_names_no_place_of_this_machine() -> None:
    told = child.tidy(f"Cannot read\n  {child.ROOT}/build/peers/x.db nor {Path.home()}/y " + "and so on " * 50)
    assert told.startswith("Cannot read ./build/peers/x.db nor ~/y and so on")
    assert len(told) == 200


def test_what_a_peer_prints_is_no_answer(url: str, tmp_path: Path) -> None:
    adapters = Path(HERE["NumPy"].adapter).parent
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
    with child.opened(_side(tmp_path, program), tmp_path / "store", vectors=None, url=url) as loud:
        assert loud.ask("count", collection="a")["count"] == 0


# ── a run ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_measures_the_sides_that_are_there_and_tells_why_the_others_are_not(
    conversations: list[quality.Asked], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sides, "PLACE", tmp_path / "nobody")
    few = [side for side in sides.SIDES if side.name not in ("cofio, no dedup in bulk", "cofio, add")]
    monkeypatch.setattr(sides, "SIDES", few)  # each is another process to wait for
    (tmp_path / "work").mkdir()
    results = run.measured(
        HashEmbedder(64),
        conversations,
        [60],
        ["chromadb", "FTS5", "NumPy"],
        EFFORT,
        anchors=40,
        folder=tmp_path / "work",
        vectors=tmp_path / "vectors",
    )
    assert not list((tmp_path / "work").iterdir())  # a run leaves nothing behind
    assert list(results["quality"]) == ["cofio", "cofio, text alone", "chromadb", "FTS5", "NumPy"]
    for name in ("cofio", "FTS5"):
        assert results["quality"][name]["scores"]["recall_at_10"] == [1.0, 1.0]  # the repeated turn counts as the first
    at_60 = results["speed"]["60"]
    for name in ("cofio", "FTS5", "NumPy"):
        assert at_60[name]["search_p50_ms"] > 0
        assert at_60[name]["memories"] >= 55  # what is added alone may replace what it changes
        assert 0 <= at_60[name]["whole_search_embedding"] <= 1
    assert at_60["NumPy"]["whole_add_embedding"] > at_60["FTS5"]["whole_add_embedding"] == 0
    assert results["sameness"]["chromadb"] == {"reason": "not installed: run `make bench-peers`"}

    made = telling.report(results)
    page = made.page()
    assert "chromadb: not installed: run `make bench-peers`" in page
    assert "| cofio, capture |" in page
    assert {"quality", "speed", "sameness", "machine"} <= made.as_dict().keys()
    assert made.as_dict()["quality"]["chromadb"] == {"reason": "not installed: run `make bench-peers`"}
    json.dumps(made.as_dict())
    assert set(made.plots) == {"peers-search", "peers-found"}
    assert str(tmp_path) not in page + json.dumps(made.as_dict())


def test_without_conversations_the_report_says_that_nothing_was_asked() -> None:
    made = telling.report({"quality": {}, "speed": {}, "sameness": {}, "seconds": 1.0})
    assert "No conversations were given" in made.text()
    assert (made.tables, made.plots) == ([], {})


def test_what_becomes_of_repeats_is_told_in_words(url: str, tmp_path: Path) -> None:
    kept = sameness.measured(HERE["FTS5"], tmp_path / "fts5", url)
    assert kept["parts"]["repeat"]["left"] == 2
    assert kept["parts"]["denied"] == {
        "told": 2,
        "left": 2,
        "first": kept["parts"]["denied"]["first"],
        "stale_found": True,
        "fresh_found": True,
        "stale_first": kept["parts"]["denied"]["stale_first"],
    }
    ours = sameness.measured(HERE["cofio, capture"], tmp_path / "cofio", url)["parts"]
    assert (ours["repeat"]["left"], ours["spaced"]["left"]) == (1, 1)
    table = telling.report({"quality": {}, "speed": {}, "sameness": {"FTS5": kept}, "seconds": 1.0}).tables[-1]
    assert table.rows[0][:3] == ["FTS5", "kept 2 of 2", "kept 2 of 2"]


def test_a_file_that_is_no_data_is_told_and_nothing_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main([str(tmp_path / "none.jsonl"), "--skip-install"]) == 2
    assert "cannot be read" in capsys.readouterr().err


# ── the sides ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_peer_has_an_adapter_and_a_pin_and_none_names_a_registry() -> None:
    for side in sides.SIDES:
        assert side.adapter.exists()
        if not side.environment:
            assert side.python == Path(sys.executable)
            continue
        pins = (Path(run.__file__).parent / f"requirements-{side.environment}.txt").read_text(encoding="utf-8")
        assert f"\n{side.environment}==" in f"\n{pins}"
        assert "://" not in pins


def test_the_lists_of_sides_never_name_one_twice_in_a_measure() -> None:
    for measure in ("quality", "speed", "sameness"):
        names = [side.name for side in sides.chosen(sides.PEERS, measure)]  # type: ignore[arg-type]
        assert len(set(names)) == len(names)
        assert [side.peer for side in sides.chosen([], measure)].count("cofio") == 2  # type: ignore[arg-type]
    assert replace(sides.SIDES[0], name="x").peer == "x"
