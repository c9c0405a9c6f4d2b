"""The `cofio backfill` command: dry run, confirmation, and recovery after a kill."""

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
from tests.cli.conftest import InProcessCli
from tests.ingest.test_crashes import Service
from tests.llms.agents import CLAUDE, Program, ProgramOutput
from tests.llms.test_agent_cli import is_alive, wait_until
from tests.llms.wire import DIALECTS, Wire
from tests.server.transcript_files import Workspace, write_claude_transcript, write_codex_transcript, write_transcripts

FILES = 400
FACTS_REPLY = json.dumps({"facts": [{"text": "The team uses tabs.", "kind": "preference"}]})


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    homes = {"COFIO_CLAUDE_HOME": str(tmp_path / "claude"), "COFIO_CODEX_HOME": str(tmp_path / "codex")}
    return {**homes, "COFIO_JUDGE": "false"}


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Create two sessions and a notes file."""
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


def test_dry_run_counts_turns_and_writes_nothing(cofio: InProcessCli, env: dict[str, str], disk: Path) -> None:
    output = cofio.json("backfill", "--dry-run", env=env)
    assert (output["files"], output["turns"], output["new"], output["captured"], output["notes"]) == (2, 3, 3, 0, 1)
    assert (output["from"][:10], output["to"][:10]) == ("2026-01-01", "2026-01-02")
    assert output["places"][0] == {
        "client": "claude-code", "project": "/home/ann/web", "files": 1, "turns": 2, "new": 2, "captured": 0,
    }  # fmt: skip
    assert "We use tabs." in output["samples"]
    assert not list(cofio.home.glob("*.db*"))
    assert "no model" not in cofio("backfill", "--dry-run", env=env).output


def test_displayed_prompts_contain_no_secrets(cofio: InProcessCli, env: dict[str, str], tmp_path: Path) -> None:
    secret = "ghp_" + "aB3dE5fG7h" * 4
    write_claude_transcript(
        tmp_path / "claude", "a", [("2026-01-01T00:00:00Z", f"Use the token {secret} for the API.")]
    )
    for form in ((), ("--json",)):
        output = cofio("backfill", "--dry-run", *form, env=env).output
        assert "Use the token [redacted" in output
        assert "ghp_" not in output


def test_last_turn_of_an_active_transcript_is_not_counted(cofio: InProcessCli, env: dict[str, str], disk: Path) -> None:
    for path in (disk / "claude").rglob("a.jsonl"):
        path.touch()
    output = cofio.json("backfill", "--dry-run", env=env)
    assert (output["files"], output["turns"], output["new"]) == (2, 2, 2)
    assert cofio.json("backfill", "--yes", env=env)["turns"] == 2


def test_dry_run_estimates_llm_calls_without_calling(
    cofio: InProcessCli, env: dict[str, str], disk: Path, provider: Wire
) -> None:
    cofio("add", "We use pnpm", env=env)
    before = cofio.lines("export", "-", env=env)
    output = cofio.json("backfill", "--dry-run", env=env)["estimate"]
    assert (output["provider"], output["calls"], output["days"]) == ("openai", 6, 3)
    assert output["tokens"] > 300
    assert provider.seen == []
    assert cofio.lines("export", "-", env=env) == before
    assert cofio.json("inbox", env=env)["captured"] == 0


def test_turns_wait_when_the_daily_budget_is_exhausted(
    cofio: InProcessCli, env: dict[str, str], disk: Path, provider: Wire
) -> None:
    env |= {"COFIO_JUDGE": "true", "COFIO_LLM_CALLS_PER_DAY": "1"}  # likely facts are sent to the LLM
    provider.says = json.dumps({"facts": []})
    output = cofio.json("backfill", "--yes", "--no-notes", env=env)
    assert output["turns"] == 3
    assert output["waiting"] >= 1
    assert len(provider.seen) == 1  # each of another session
    assert cofio.json("inbox", env=env)["pending"] == output["waiting"]


def test_confirmation_is_required_unless_yes_is_given(cofio: InProcessCli, env: dict[str, str], disk: Path) -> None:
    assert "--yes" in cofio("backfill", env=env).output
    assert cofio("backfill", env=env, input_text="n\n").exit_code == 0
    assert cofio.json("inbox", env=env)["captured"] == 0
    assert cofio("backfill", env=env, input_text="y\n").exit_code == 0
    assert cofio.json("inbox", env=env)["captured"] == 3


def test_backfill_is_undone_at_once_and_not_repeated(cofio: InProcessCli, env: dict[str, str], disk: Path) -> None:
    cofio("add", "We use pnpm", env=env)
    output = cofio.json("backfill", "--yes", env=env)
    assert (output["turns"], output["notes"], output["waiting"], output["skipped"]) == (3, 1, 0, [])
    assert len(cofio.json("list", env=env)["memories"]) == 5
    repeated = cofio.json("backfill", "--yes", env=env)
    assert (repeated["turns"], repeated["notes"]) == (0, 0)
    assert cofio("undo", str(output["series"]), "--yes", env=env).exit_code == 0
    assert [memory["text"] for memory in cofio.json("list", env=env)["memories"]] == ["We use pnpm"]


def test_filters_select_turns_and_notes(cofio: InProcessCli, env: dict[str, str], disk: Path) -> None:
    def count_new(*filters: str) -> tuple[int, int]:
        output = cofio.json("backfill", "--dry-run", *filters, env=env)
        return output["new"], output["notes"]

    assert count_new("--client", "codex") == (1, 0)
    assert count_new("--project", "/home/ann/web") == (2, 0)
    assert count_new("--since", "2026-01-02") == (1, 1)
    assert count_new("--limit", "2", "--no-notes") == (2, 0)
    assert cofio("backfill", "--since", "someday", env=env).exit_code == 2


def test_small_inbox_is_never_filled_completely(cofio: InProcessCli, env: dict[str, str], tmp_path: Path) -> None:
    turns = write_transcripts(tmp_path, 20)
    env["COFIO_INBOX_LIMIT"] = "4"
    assert cofio.json("backfill", "--yes", env=env)["turns"] == turns
    assert cofio.json("inbox", env=env)["pending"] == 0


def test_backfill_into_postgres(cofio: InProcessCli, env: dict[str, str], disk: Path, tenant_url: str) -> None:
    env["COFIO_STORE"] = tenant_url
    output = cofio.json("backfill", "--yes", env=env)
    assert (output["turns"], output["notes"], output["waiting"]) == (3, 1, 0)
    assert cofio("undo", str(output["series"]), "--yes", env=env).exit_code == 0
    assert cofio.json("list", env=env)["memories"] == []


def test_remote_service_receives_turns_without_notes(
    cofio: InProcessCli, env: dict[str, str], disk: Path, tmp_path: Path
) -> None:
    service = Service(tmp_path / "elsewhere")
    try:
        result = cofio("backfill", "--yes", "--url", service.url, env=env)
        assert result.exit_code == 0, result.output
        assert "Learned from 3 turns and 0 sections" in result.output
        assert "Notes are skipped" in result.output
    finally:
        service.stop()
    assert not list(cofio.home.glob("*.db"))


# ── kills ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def run_to_completion(machine: Workspace) -> list[tuple[Any, ...]]:
    output = machine.json("backfill", "--yes")
    assert (output["waiting"], output["skipped"]) == (0, [])
    return machine.memories()


def test_killed_backfill_ends_like_an_uninterrupted_one(tmp_path: Path) -> None:
    turns = write_transcripts(tmp_path, FILES)
    complete = Workspace(tmp_path / "whole", tmp_path)
    expected = run_to_completion(complete)
    killed = Workspace(tmp_path / "killed", tmp_path)
    for captures in (1, turns // 3, turns // 2):
        killed.kill_at(captures, "backfill", "--yes")
    assert killed.count_captures() < turns
    assert run_to_completion(killed) == expected
    assert killed.json("inbox")["captured"] == complete.json("inbox")["captured"] == turns
    repeated = killed.json("backfill", "--yes")
    assert (repeated["series"], repeated["turns"], repeated["notes"]) == (None, 0, 0)
    changesets = killed.json("history", "-n", "1000")["changesets"]
    [series] = {changeset["part_of"] for changeset in changesets if changeset["part_of"]}
    killed.json("undo", str(series), "--yes")
    assert killed.memories() == []


def test_service_killed_during_backfill_continues_after_restart(tmp_path: Path) -> None:
    turns = write_transcripts(tmp_path, 60)
    expected = run_to_completion(Workspace(tmp_path / "whole", tmp_path))
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
        assert run_to_completion(machine) == expected
        with Client(service.url) as client:
            assert (client.inbox_status().captured, client.inbox_status().pending) == (turns, 0)
    finally:
        service.stop()


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGHUP])
def test_terminated_backfill_stops_its_llm_program(tmp_path: Path, signal_number: signal.Signals) -> None:
    program = Program(CLAUDE, tmp_path / "bin")
    program.says(ProgramOutput(hang=True))
    write_claude_transcript(tmp_path / "claude", "a", [("2026-01-01T00:00:00Z", "We use tabs.")])
    machine = Workspace(tmp_path / "home", tmp_path)
    machine.env |= {"EXTRACT_PROVIDER": "claude-cli", "COFIO_JUDGE": "true"}
    machine.env["PATH"] = f"{program.folder}:{os.environ['PATH']}"
    running = machine.start("backfill", "--yes")
    wait_until((program.folder / "started.json").exists)
    time.sleep(0.2)  # the marker is written
    running.send_signal(signal_number)
    _, error = running.communicate(timeout=60)
    assert (running.returncode, "Traceback" in error) == (128 + signal_number, False)
    assert "run `cofio backfill` again to continue" in error
    for pid in json.loads((program.folder / "started.json").read_text("utf-8"))["pids"]:
        wait_until(lambda pid=pid: not is_alive(pid))  # type: ignore[misc]
