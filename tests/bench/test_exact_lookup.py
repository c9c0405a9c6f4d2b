"""The benchmark of exact lookup within recall on a small store: every case has its figure."""

from __future__ import annotations

from pathlib import Path

from bench import exact_lookup
from cofio.testing import HashEmbedder


def test_every_case_has_its_ratio(tmp_path: Path) -> None:
    figures = exact_lookup.run_benchmark(50, 400, 3, HashEmbedder(), tmp_path)
    assert [label for label, _ in figures] == [
        "no rows", "400 rows, none named", "400 rows, one named, a value read",
    ]  # fmt: skip
    assert all(ratio > 0 for _, ratio in figures)


def test_prompts_name_the_intended_rows(tmp_path: Path) -> None:
    with exact_lookup.open_keeper(50, 400, HashEmbedder(), tmp_path) as keeper:
        assert "TICK9" in keeper.recall(exact_lookup.ONE_NAME.format(9)).text
        assert "TICK" not in keeper.recall(exact_lookup.NO_NAME).text
