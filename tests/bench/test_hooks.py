"""The hooks' bench at a size that takes seconds: every side is run, and every bar is judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import hooks
from cofio import embedders


def test_every_side_is_timed_and_every_bar_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    took = hooks.measured(tmp_path, embedders.make("local", home=tmp_path, download=False), 200, 3, anchors=100)
    assert {len(each) for each in took.values()} == {3}
    assert all(seconds > 0 for each in took.values() for seconds in each)
    hooks.show(took, 200)
    printed = capsys.readouterr().out
    assert all(f": {bar.label}, p{100 * bar.share:.0f}" in printed for bar in hooks.BARS)
