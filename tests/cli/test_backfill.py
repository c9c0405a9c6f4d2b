"""`cofio backfill`: what it shows, that it asks, and that a kill at any point loses and doubles nothing."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cofio.client import Client
from tests.cli.conftest import Cofio
from tests.ingest.test_crashes import Service
from tests.llms.agents import CLAUDE, Program, Says
from tests.llms.test_agent_cli import is_alive, wait_until
from tests.llms.wire import DIALECTS, Wire
from tests.server.transcript_files import Workspace, write_claude_transcript, write_codex_transcript, write_transcripts

FILES = 400
FOUND = json.dumps({"facts": [{"text": "The team uses tabs.", "kind": "preference"}]})


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    homes = {"COFIO_CLAUDE_HOME": str(tmp_path / "claude"), "COFIO_CODEX_HOME": str(tmp_path / "codex")}
    return {**homes, "COFIO_JUDGE": "false"}


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Two sessions and a page of notes."""
    write_claude_transcript(
        tmp_path / "claude",
        "a",
        [("2026-01-01T00:00:00Z", "We use tabs."), ("", "We switched from Prisma to Drizzle.")],
    )
    write_codex_transcript(tmp_path / "codex", "b", [("2026-01-02T00:00:00Z", "The port of the API is 4000.")])
    (tmp_path / "claude" / "CLAUDE.md").write_text("# Rules\n\nWe write commit messages in English.\n")
    return tmp_path


@pytest.fixture
def provider(env: dict[str, str]) -> Iterator[Wire]:
    with Wire(DIALECTS["openai"]) as wire:
        model = {"EXTRACT_PROVIDER": "openai", "EXTRACT_URL": wire.base, "EXTRACT_MODEL": wire.dialect.model}
        env |= {**model, "OPENAI_API_KEY": "sk-test", "COFIO_LLM_CALLS_PER_DAY": "2"}
        yield wire


def test_a_dry_run_counts_and_writes_nothing(cofio: Cofio, env: dict[str, str], disk: Path) -> None:
    told = cofio.json("backfill", "--dry-run", env=env)
    assert (told["files"], told["turns"], told["new"], told["captured"], told["notes"]) == (2, 3, 3, 0, 1)
    assert (told["from"][:10], told["to"][:10]) == ("2026-01-01", "2026-01-02")
    assert told["places"][0] == {
        "client": "claude-code", "project": "/home/ann/web", "files": 1, "turns": 2, "new": 2, "captured": 0,
    }  # fmt: skip
    assert "We use tabs." in told["samples"]
    assert not list(cofio.home.glob("*.db*"))
    assert "no model" not in cofio("backfill", "--dry-run", env=env).output


def test_what_it_shows_holds_no_secret(cofio: Cofio, env: dict[str, str], tmp_path: Path) -> None:
    secret = "ghp_" + "aB3dE5fG7h" * 4
    write_claude_transcript(
        tmp_path / "claude", "a", [("2026-01-01T00:00:00Z", f"Use the token {secret} for the API.")]
    )
    for form in ((), ("--json",)):
        shown = cofio("backfill", "--dry-run", *form, env=env).output
        assert "Use the token [redacted" in shown
        assert "ghp_" not in shown


def test_a_transcript_in_use_is_counted_without_its_last_turn(cofio: Cofio, env: dict[str, str], disk: Path) -> None:
    for path in (disk / "claude").rglob("a.jsonl"):
        path.touch()
    told = cofio.json("backfill", "--dry-run", env=env)
    assert (told["files"], told["turns"], told["new"]) == (2, 2, 2)
    assert cofio.json("backfill", "--yes", env=env)["turns"] == 2


def test_a_dry_run_calls_no_model_and_tells_what_one_would_take(
    cofio: Cofio, env: dict[str, str], disk: Path, provider: Wire
) -> None:
    cofio("add", "We use pnpm", env=env)
    before = cofio.lines("export", "-", env=env)
    told = cofio.json("backfill", "--dry-run", env=env)["estimate"]
    assert (told["provider"], told["calls"], told["days"]) == ("openai", 6, 3)
    assert told["tokens"] > 300
    assert provider.seen == []
    assert cofio.lines("export", "-", env=env) == before
    assert cofio.json("ledger", env=env)["captured"] == 0


def test_turns_wait_when_the_daily_budget_is_spent(
    cofio: Cofio, env: dict[str, str], disk: Path, provider: Wire
) -> None:
    env |= {"COFIO_JUDGE": "true", "COFIO_LLM_CALLS_PER_DAY": "1"}  # what is likely a fact is shown to the model
    provider.says = json.dumps({"facts": []})
    told = cofio.json("backfill", "--yes", "--no-notes", env=env)
    assert told["turns"] == 3
    assert told["waiting"] >= 1
    assert len(provider.seen) == 1  # of a session each
    assert cofio.json("ledger", env=env)["pending"] == told["waiting"]


def test_it_asks_first_and_one_who_is_not_there_gives_yes(cofio: Cofio, env: dict[str, str], disk: Path) -> None:
    assert "--yes" in cofio("backfill", env=env).output
    assert cofio("backfill", env=env, says="n\n").exit_code == 0
    assert cofio.json("ledger", env=env)["captured"] == 0
    assert cofio("backfill", env=env, says="y\n").exit_code == 0
    assert cofio.json("ledger", env=env)["captured"] == 3


def test_what_it_learned_is_undone_at_once_and_not_learned_again(cofio: Cofio, env: dict[str, str], disk: Path) -> None:
    cofio("add", "We use pnpm", env=env)
    told = cofio.json("backfill", "--yes", env=env)
    assert (told["turns"], told["notes"], told["waiting"], told["skipped"]) == (3, 1, 0, [])
    assert len(cofio.json("list", env=env)["memories"]) == 5
    again = cofio.json("backfill", "--yes", env=env)
    assert (again["turns"], again["notes"]) == (0, 0)
    assert cofio("undo", str(told["series"]), "--yes", env=env).exit_code == 0
    assert [each["text"] for each in cofio.json("list", env=env)["memories"]] == ["We use pnpm"]


def test_filters_narrow_turns_and_notes(cofio: Cofio, env: dict[str, str], disk: Path) -> None:
    def counted(*filters: str) -> tuple[int, int]:
        told = cofio.json("backfill", "--dry-run", *filters, env=env)
        return told["new"], told["notes"]

    assert counted("--client", "codex") == (1, 0)
    assert counted("--project", "/home/ann/web") == (2, 0)
    assert counted("--since", "2026-01-02") == (1, 1)
    assert counted("--limit", "2", "--no-notes") == (2, 0)
    assert cofio("backfill", "--since", "someday", env=env).exit_code == 1


def test_a_small_inbox_is_never_filled(cofio: Cofio, env: dict[str, str], tmp_path: Path) -> None:
    turns = write_transcripts(tmp_path, 20)
    env["COFIO_INBOX_LIMIT"] = "4"
    assert cofio.json("backfill", "--yes", env=env)["turns"] == turns
    assert cofio.json("ledger", env=env)["pending"] == 0


def test_it_works_on_a_database_server(cofio: Cofio, env: dict[str, str], disk: Path, tenant_url: str) -> None:
    env["COFIO_STORE"] = tenant_url
    told = cofio.json("backfill", "--yes", env=env)
    assert (told["turns"], told["notes"], told["waiting"]) == (3, 1, 0)
    assert cofio("undo", str(told["series"]), "--yes", env=env).exit_code == 0
    assert cofio.json("list", env=env)["memories"] == []


def test_a_service_elsewhere_is_given_the_turns_without_notes(
    cofio: Cofio, env: dict[str, str], disk: Path, tmp_path: Path
) -> None:
    service = Service(tmp_path / "elsewhere")
    try:
        done = cofio("backfill", "--yes", "--url", service.url, env=env)
        assert done.exit_code == 0, done.output
        assert "Learned from 3 turns and 0 sections" in done.output
        assert "Notes are skipped" in done.output
    finally:
        service.stop()
    assert not list(cofio.home.glob("*.db"))


# ── killed ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def finished(machine: Workspace) -> list[tuple[Any, ...]]:
    told = machine.json("backfill", "--yes")
    assert (told["waiting"], told["skipped"]) == (0, [])
    return machine.memories()


def test_a_backfill_that_is_killed_ends_as_one_that_was_not(tmp_path: Path) -> None:
    turns = write_transcripts(tmp_path, FILES)
    whole = Workspace(tmp_path / "whole", tmp_path)
    expected = finished(whole)
    killed = Workspace(tmp_path / "killed", tmp_path)
    for captures in (1, turns // 3, turns // 2):
        killed.kill_at(captures, "backfill", "--yes")
    assert killed.count_captures() < turns
    assert finished(killed) == expected
    assert killed.json("ledger")["captured"] == whole.json("ledger")["captured"] == turns
    again = killed.json("backfill", "--yes")
    assert (again["series"], again["turns"], again["notes"]) == (None, 0, 0)
    changesets = killed.json("history", "-n", "1000")["changesets"]
    [series] = {changeset["part_of"] for changeset in changesets if changeset["part_of"]}
    killed.json("undo", str(series), "--yes")
    assert killed.memories() == []


def test_a_service_that_is_killed_under_a_backfill_goes_on_with_it(tmp_path: Path) -> None:
    turns = write_transcripts(tmp_path, 60)
    expected = finished(Workspace(tmp_path / "whole", tmp_path))
    machine = Workspace(tmp_path / "served", tmp_path)
    service = Service(tmp_path / "served")
    running = machine.start("backfill", "--yes", "--no-notes")
    while not machine.count_captures():
        time.sleep(0.01)
    service.kill()
    running.communicate(timeout=60)
    assert running.returncode != 0
    service = Service(tmp_path / "served")
    try:
        assert finished(machine) == expected
        with Client(service.url) as client:
            assert (client.ledger().captured, client.ledger().pending) == (turns, 0)
    finally:
        service.stop()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_backfill_that_is_told_to_end_takes_its_model_along(tmp_path: Path, number: signal.Signals) -> None:
    program = Program(CLAUDE, tmp_path / "bin")
    program.says(Says(hang=True))
    write_claude_transcript(tmp_path / "claude", "a", [("2026-01-01T00:00:00Z", "We use tabs.")])
    machine = Workspace(tmp_path / "home", tmp_path)
    machine.env |= {"EXTRACT_PROVIDER": "claude-cli", "COFIO_JUDGE": "true"}
    machine.env["PATH"] = f"{program.folder}:{os.environ['PATH']}"
    running = machine.start("backfill", "--yes")
    wait_until((program.folder / "started.json").exists)
    time.sleep(0.2)  # it is written
    running.send_signal(number)
    _, error = running.communicate(timeout=60)
    assert (running.returncode, "Traceback" in error) == (128 + number, False)
    assert "run it again to continue" in error
    for pid in json.loads((program.folder / "started.json").read_text("utf-8"))["pids"]:
        wait_until(lambda pid=pid: not is_alive(pid))  # type: ignore[misc]
