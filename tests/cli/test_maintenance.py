"""Maintenance commands: dry run by default, --apply, undo."""

from __future__ import annotations

from tests.cli.conftest import InProcessCli


def test_consolidate_is_a_dry_run_without_apply(cofio: InProcessCli) -> None:
    cofio.lines("add", "Ada likes tea!", "ada likes tea", "the port is 8080", "--no-dedup")
    output = cofio("consolidate")
    assert output.exit_code == 0
    assert "would be merged" in output.stderr
    assert "likes tea" in output.stdout
    assert cofio.json("stats")["memories"] == 3
    result = cofio.json("consolidate", "--apply", "--why", "tidy")
    assert (result["dry_run"], result["count"]) == (False, 1)
    assert cofio.json("stats")["memories"] == 2
    cofio("undo", str(result["changeset"]), "--yes")
    assert cofio.json("stats")["memories"] == 3
    assert "nothing to merge" in cofio("consolidate", "--source-prefix", "nowhere").stderr


def test_prune_reports_why_nothing_is_archived(cofio: InProcessCli) -> None:
    cofio("add", "the port is 8080")
    result = cofio("prune")
    assert result.exit_code == 0
    assert "nothing to archive" in result.stderr
    assert len(result.stderr.splitlines()) >= 2  # with the reason
    assert cofio.json("prune", "--apply")["count"] == 0


def test_usage_shows_recalled_and_unused_memories(cofio: InProcessCli) -> None:
    cofio("add", "Ada likes tea", "the port is 8080")
    cofio("search", "tea", "-k", "1")
    assert "Ada likes tea" in cofio("usage").stdout
    assert "8080" in cofio("usage", "never").stdout
    assert [memory["text"] for memory in cofio.json("usage", "never")["memories"]] == ["the port is 8080"]
    assert "No memories match" in cofio("usage", "stale").stderr
    assert cofio("usage", "worst").exit_code == 2


def test_llm_usage_shows_calls_and_limits(cofio: InProcessCli) -> None:
    result = cofio("usage", "llm")
    assert result.exit_code == 0
    assert "0 calls (limit: 300), 0 tokens (limit: 300,000)" in result.stderr
    assert cofio.json("usage", "llm")["periods"][0] == {"days": 1, "models": [], "sessions": []}
    assert cofio("usage", "llm", "--call", "1").exit_code == 1
    assert cofio("usage", "--call", "1").exit_code == 2


def test_runs_are_listed(cofio: InProcessCli) -> None:
    assert "No maintenance runs were found" in cofio("runs").stderr
    cofio("add", "the port is 8080")
    cofio("consolidate", "--apply")
    assert "consolidate" in cofio("runs").stdout
    assert [run["by"] for run in cofio.json("runs", "--chore", "consolidate")["runs"]] == ["cli"]
    assert cofio.json("runs", "--chore", "prune")["runs"] == []


def test_purge_names_the_merged_memory(cofio: InProcessCli) -> None:
    cofio("add", "Ada likes tea!", "ada likes tea", "--no-dedup")
    decided = cofio.json("consolidate", "--apply")["decisions"][0]
    output = cofio("forget", str(decided["id"]), "--purge", "--yes").stderr
    assert f"was merged with {decided['into']}" in output
