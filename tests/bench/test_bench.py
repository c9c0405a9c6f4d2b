"""The benchmark on a small store: every figure is present. Speed is not checked."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree

import numpy as np
import pytest

from bench import corpus, measure, run, vectors
from cofio.errors import Misconfigured
from cofio.testing import HashEmbedder
from evals import plots

SIZE = 300
EFFORT = measure.Effort(prompts=12, warmup=4, rounds=2, adds=10, batch=40, bulk=40, open_runs=1)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("bench")
    yield run.run_benchmark([SIZE], HashEmbedder(64), EFFORT, anchors=150, folder=folder)
    assert not list(folder.iterdir())  # a run removes its files


def test_every_figure_is_present_for_both_sides_with_its_ratio(results: dict[str, Any]) -> None:
    figures = results["sizes"][str(SIZE)]
    for figure in run.MEASURES:
        cofio, baseline = figures["embedded"][figure.cofio], figures["baseline"][figure.baseline or figure.cofio]
        assert cofio > 0
        assert baseline > 0
        assert figures["ratio"][f"{figure.cofio} / {figure.baseline or figure.cofio}"] == pytest.approx(
            cofio / baseline
        )
    assert figures["embedded"]["search_samples"] == EFFORT.prompts * EFFORT.rounds
    assert figures["embedded"]["recall_at_10"] == 1.0  # a small index is searched exactly


def test_results_are_saved_as_json_and_plot(results: dict[str, Any], tmp_path: Path) -> None:
    run.save(results, tmp_path / "new" / "latest.json")
    saved = json.loads((tmp_path / "new" / "latest.json").read_text(encoding="utf-8"))
    assert {"at", "machine", "notes", "seconds", "sizes", "bars"} <= saved.keys()
    assert all(result.startswith("not measured") for result in saved["bars"])
    root = ElementTree.fromstring((tmp_path / "new" / "latest.svg").read_text(encoding="utf-8"))
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"cofio, p50", "plain, p95", "memories", "milliseconds"} <= set(texts)


def test_table_has_a_row_per_measure_and_warns_of_a_busy_machine(
    results: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(run.table(results)) == 3 + len(run.MEASURES)
    for load, is_warned in ((0.1, False), (3.0, True)):
        run.show({**results, "machine": {**results["machine"], "load": load}})
        assert ("trust the ratios" in capsys.readouterr().out) is is_warned


def test_target_is_met_or_missed_at_its_size() -> None:
    results = {"sizes": {"10": {"embedded": {"open_s": 0.5, "recall_at_10": 0.99}}}}
    assert run.Bar("opens fast", 10, "open_s", maximum=1).judge(results) == "met: opens fast (0.5)"
    assert run.Bar("opens fast", 10, "open_s", maximum=0.5).judge(results).startswith("not met")
    assert run.Bar("finds", 10, "recall_at_10", minimum=0.99).judge(results).startswith("met")
    assert run.Bar("finds", 20, "recall_at_10", minimum=0.99).judge(results).startswith("not measured")


def test_facts_are_distinct_deterministic_and_prefix_stable() -> None:
    facts = corpus.facts(3_000)
    texts = [item.text for item in facts]
    assert len(set(texts)) == 3_000
    assert texts[:500] == [fact.text for fact in corpus.facts(500)]
    assert all(corpus.SHORTEST <= len(text.split()) <= corpus.LONGEST for text in texts)
    assert not any("\t" in text or "\n" in text or "{" in text for text in texts)


def test_prompts_are_distinct_and_deterministic() -> None:
    prompts = corpus.prompts(360)
    assert len(set(prompts)) == 360
    assert prompts == corpus.prompts(360)
    assert all(corpus.SHORTEST_PROMPT <= len(text.split()) <= corpus.LONGEST_PROMPT for text in prompts)
    assert not any("{" in text for text in prompts)


def test_mixtures_keep_mean_and_spread_of_the_real_vectors() -> None:
    facts = corpus.facts(2_000)
    real = HashEmbedder(32).embed([fact.text for fact in facts[:400]], "document")
    mixed = np.empty((2_000, 32), np.float32)
    vectors.mix_vectors(facts, real, [fact.topic for fact in facts[:400]], mixed)
    second = np.empty((2_000, 32), np.float32)
    vectors.mix_vectors(facts, real, [fact.topic for fact in facts[:400]], second)
    assert np.array_equal(mixed, second)
    assert np.allclose(np.linalg.norm(mixed, axis=1), 1, atol=1e-5)
    assert (mixed @ mixed.T).mean() == pytest.approx(float((real @ real.T).mean()), abs=0.05)
    assert mixed.std(axis=0).mean() == pytest.approx(float(real.std(axis=0).mean()), rel=0.1)


def test_exact_search_returns_the_cosine_of_the_kth_neighbour(tmp_path: Path) -> None:
    material = vectors.Material.make(tmp_path, HashEmbedder(32), count=200, prompts=5, warmup=2, anchors=50)
    prompts, warmup, query_vectors = material.prompts()
    assert (len(prompts), len(warmup)) == (5, 2)
    cosines = np.sort(query_vectors[:5] @ material.vectors(0, 200).T, axis=1)
    assert np.allclose(material.exact_cosines(200, 10), cosines[:, -10])
    table = material.embedder(0, 200)
    assert np.array_equal(table.embed([material.facts(7, 8)[0][1]], "document")[0], material.vectors(7, 8)[0])


def test_percentiles_are_interpolated() -> None:
    assert measure.percentile([3, 1, 2], 0.5) == 2
    assert measure.percentile([1, 2], 0.5) == 1.5
    assert measure.percentile([7], 0.95) == 7


def test_slow_work_is_stopped_after_a_minimum() -> None:
    assert len(measure.time_calls([lambda: None] * 50, min_samples=5, time_limit=0)) in (5, 6)
    assert len(measure.time_calls([lambda: None] * 50)) == 50


def test_plot_of_a_single_point_is_valid() -> None:
    plot = plots.log_log("a < b", "x", "y", [plots.Curve("one & only", "#888", [(100.0, 1.0)])])
    root = ElementTree.fromstring(plot)
    numbers = [
        float(coordinate)
        for dot in root.iter("{http://www.w3.org/2000/svg}circle")
        for coordinate in (dot.get("cx"), dot.get("cy"))
        if coordinate
    ]
    assert numbers
    assert all(math.isfinite(number) for number in numbers)


class _FailingEmbedder(HashEmbedder):
    def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Any:
        raise Misconfigured("The model is not here.", "Run `make setup`.")


def test_missing_model_is_reported_with_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(run.embedders, "make", lambda *_, **__: _FailingEmbedder())
    assert run.main(["--sizes", "10", "--json", str(tmp_path / "latest.json"), "--folder", str(tmp_path)]) == 2
    assert "needs the local model: The model is not here. Run `make setup`." in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
