"""The hook benchmark on a small store: every hook runs in every state, and every target is judged."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from bench import hooks
from cofio.providers import embedders


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> hooks.HookResults:
    folder = tmp_path_factory.mktemp("hooks")
    embedder = embedders.make("local", home=folder, download=False)
    return hooks.run_benchmark(folder, embedder, 100, 2, callers=2, anchors=60)


def test_every_hook_of_both_clients_is_timed_in_every_state(results: hooks.HookResults) -> None:
    for state in hooks.STATES:
        runs = results.states[state]
        measured = {(run.label, run.client) for run in runs}
        labels = (hooks.START, hooks.PROMPT, hooks.ANSWER, hooks.END)
        assert measured == {(hooks.TRUE, ""), (hooks.BARE, "")} | {
            (label, client) for label in labels for client in ("claude-code", "codex")
        }
        assert {len(run.seconds) for run in runs} == {2}
        assert all(sum(run.stages.values()) == 2 for run in runs if run.client)  # each wrote its log line


def test_hooks_succeed_and_use_the_fallback_without_the_service(results: hooks.HookResults) -> None:
    assert results.failed == 0
    assert all(not runs.stages["service"] for runs in results.states["down"])
    assert sum(results.operations.values()) > 0  # the service did the work for the callers before it was stopped


def test_report_has_every_state_and_judges_every_target(results: hooks.HookResults, tmp_path: Path) -> None:
    hooks.report(results, "python -m bench.hooks").write(tmp_path)
    values = json.loads((tmp_path / "hooks.json").read_text(encoding="utf-8"))
    assert values["states"].keys() == hooks.STATES.keys()
    assert len(values["bars"]) == len(hooks.TARGETS)
    assert values["failed"] == 0
    page = (tmp_path / "hooks.md").read_text(encoding="utf-8")
    assert all(f"## {title}" in page for title in hooks.STATES.values())
    assert "Every hook ended with exit code 0: yes." in page


def test_failing_hook_is_reported(results: hooks.HookResults) -> None:
    failing = hooks.Runs(hooks.PROMPT, "codex", [0.1, 2.0], Counter({0: 1, 2: 1}))
    with_failure = replace(results, states={**results.states, "idle": [*results.states["idle"], failing]})
    assert with_failure.failed == 1
    assert failing.share_over(1.5) == 0.5
    assert "no, 1 did not" in hooks.report(with_failure, "").text()
