"""The benchmark of exact lookup on a small store: every figure is present, and both methods agree."""

from __future__ import annotations

from pathlib import Path

from bench import knowledge


def test_every_query_is_measured_with_both_methods(tmp_path: Path) -> None:
    figures = knowledge.run_benchmark(120, 3, tmp_path)
    assert [figure.label for figure in figures] == ["evaluate a value", "find by a name", "walk two steps"]
    assert all(figure.lookup_seconds > 0 and figure.scan_all_seconds > 0 for figure in figures)
    assert len(knowledge.format_table(figures).splitlines()) == 4
