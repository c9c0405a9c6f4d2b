"""Upkeep on the command line: shown first, done with --apply, taken back with undo."""

from __future__ import annotations

from tests.cli.conftest import Cofio


def test_consolidate_is_dry_until_it_is_to_be_applied(cofio: Cofio) -> None:
    cofio.lines("add", "Ada likes tea!", "ada likes tea", "the port is 8080", "--no-dedup")
    shown = cofio("consolidate")
    assert shown.exit_code == 0
    assert "would be merged" in shown.stderr
    assert "likes tea" in shown.stdout
    assert cofio.json("stats")["memories"] == 3
    told = cofio.json("consolidate", "--apply", "--why", "tidy")
    assert (told["dry_run"], told["count"]) == (False, 1)
    assert cofio.json("stats")["memories"] == 2
    cofio("undo", str(told["changeset"]), "--yes")
    assert cofio.json("stats")["memories"] == 3
    assert "nothing to merge" in cofio("consolidate", "--source-prefix", "nowhere").stderr


def test_prune_says_why_there_is_nothing_to_do(cofio: Cofio) -> None:
    cofio("add", "the port is 8080")
    told = cofio("prune")
    assert told.exit_code == 0
    assert "nothing to archive" in told.stderr
    assert len(told.stderr.splitlines()) >= 2  # and why
    assert cofio.json("prune", "--apply")["count"] == 0


def test_usage_shows_what_is_recalled_and_what_is_not(cofio: Cofio) -> None:
    cofio("add", "Ada likes tea", "the port is 8080")
    cofio("search", "tea", "-k", "1")
    assert "Ada likes tea" in cofio("usage").stdout
    assert "8080" in cofio("usage", "never").stdout
    assert [each["text"] for each in cofio.json("usage", "never")["memories"]] == ["the port is 8080"]
    assert "no such" in cofio("usage", "stale").stderr
    assert cofio("usage", "worst").exit_code == 2


def test_usage_of_the_language_model_shows_calls_and_limits(cofio: Cofio) -> None:
    told = cofio("usage", "llm")
    assert told.exit_code == 0
    assert "0 calls of 300, 0 tokens of 300,000" in told.stderr
    assert cofio.json("usage", "llm")["periods"][0] == {"days": 1, "models": [], "sessions": []}
    assert cofio("usage", "llm", "--call", "1").exit_code == 1
    assert cofio("usage", "--call", "1").exit_code == 2


def test_runs_tell_what_upkeep_did(cofio: Cofio) -> None:
    assert "No maintenance has run yet" in cofio("runs").stderr
    cofio("add", "the port is 8080")
    cofio("consolidate", "--apply")
    assert "consolidate" in cofio("runs").stdout
    assert [each["by"] for each in cofio.json("runs", "--chore", "consolidate")["runs"]] == ["cli"]
    assert cofio.json("runs", "--chore", "prune")["runs"] == []


def test_a_purge_names_what_the_memory_was_merged_with(cofio: Cofio) -> None:
    cofio("add", "Ada likes tea!", "ada likes tea", "--no-dedup")
    decided = cofio.json("consolidate", "--apply")["decisions"][0]
    told = cofio("forget", str(decided["id"]), "--purge", "--yes").stderr
    assert f"was merged with {decided['into']}" in told
