"""The hooks' bench at a size that takes seconds: every hook is run in every state, and every bar is judged."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from bench import hooks
from cofio.providers import embedders


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> hooks.Measured:
    folder = tmp_path_factory.mktemp("hooks")
    embedder = embedders.make("local", home=folder, download=False)
    return hooks.measured(folder, embedder, 100, 2, callers=2, anchors=60)


def test_every_hook_of_both_clients_is_timed_in_every_state_beside_one_that_does_nothing(found: hooks.Measured) -> None:
    for state in hooks.STATES:
        runs = found.states[state]
        timed = {(run.label, run.client) for run in runs}
        labels = (hooks.START, hooks.PROMPT, hooks.ANSWER, hooks.END)
        assert timed == {(hooks.TRUE, ""), (hooks.BARE, "")} | {
            (label, client) for label in labels for client in ("claude-code", "codex")
        }
        assert {len(run.seconds) for run in runs} == {2}
        assert all(sum(run.rungs.values()) == 2 for run in runs if run.client)  # each left its line in the log


def test_every_hook_ends_with_0_and_without_the_service_another_rung_answers(found: hooks.Measured) -> None:
    assert found.failed == 0
    assert all(not each.rungs["service"] for each in found.states["down"])
    assert sum(found.pressed.values()) > 0  # before, there was one: it did what the callers asked


def test_the_report_has_every_state_and_judges_every_bar(found: hooks.Measured, tmp_path: Path) -> None:
    hooks.report(found, "python -m bench.hooks").write(tmp_path)
    values = json.loads((tmp_path / "hooks.json").read_text(encoding="utf-8"))
    assert values["states"].keys() == hooks.STATES.keys()
    assert len(values["bars"]) == len(hooks.BARS)
    assert values["failed"] == 0
    page = (tmp_path / "hooks.md").read_text(encoding="utf-8")
    assert all(f"## {title}" in page for title in hooks.STATES.values())
    assert "Every hook ended with exit code 0: yes." in page


def test_a_hook_that_ends_with_another_code_is_told(found: hooks.Measured) -> None:
    broken = hooks.Runs(hooks.PROMPT, "codex", [0.1, 2.0], Counter({0: 1, 2: 1}))
    worse = replace(found, states={**found.states, "idle": [*found.states["idle"], broken]})
    assert worse.failed == 1
    assert broken.over(1.5) == 0.5
    assert "no, 1 did not" in hooks.report(worse, "").text()
