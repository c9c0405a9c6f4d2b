"""The benchmark of exact lookup on a small store: every figure is present, and both methods agree."""

from __future__ import annotations

from pathlib import Path

from bench import knowledge


def test_every_query_is_measured_with_both_methods(tmp_path: Path) -> None:
    figures = knowledge.measured(120, 3, tmp_path)
    assert [figure.label for figure in figures] == ["evaluate a value", "find by a name", "walk two steps"]
    assert all(figure.ours > 0 and figure.plain > 0 for figure in figures)
    assert len(knowledge.told(figures).splitlines()) == 4
