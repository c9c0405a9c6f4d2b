"""Claude Code and Codex as models: how a child is started, what it may do, and how it fails."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cofio.errors import CofioError, Misconfigured, NoReply, RefusedError, TooLarge, Unavailable
from cofio.hooks.transcripts import is_own_request, is_prompt
from cofio.models.exchange import TokenUsage
from cofio.ports import Completion, Health
from cofio.providers.llms import AGENTS as PROVIDERS
from cofio.providers.llms import MODELS, make
from cofio.settings import agent_environment

from .agents import AGENTS, CLAUDE, Program, Says

SCHEMA = {"type": "object", "required": ["facts"], "properties": {"facts": {"type": "array"}}}


@pytest.fixture(params=AGENTS)
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Program:
    return Program(AGENTS[request.param], tmp_path / "bin")


def failure(program: Program, says: Says, timeout: float = 20.0) -> CofioError:
    program.says(says)
    with pytest.raises(CofioError) as caught:
        program.make(timeout).complete("be brief", "what is new?", schema=SCHEMA)
    assert caught.value.hint
    return caught.value


# ── the call ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_prompts_are_not_in_the_arguments(program: Program) -> None:
    program.make().complete("be brief", "what is new?", schema=SCHEMA)
    [call] = program.calls()
    assert "be brief" in call["files"]["system.md"]
    assert "what is new?" in call["prompt"]
    assert not any("be brief" in each or "what is new?" in each for each in call["arguments"])
    assert program.agent.schema_in(call) == SCHEMA
    assert program.agent.model in call["arguments"]


def test_without_a_schema_none_is_sent(program: Program) -> None:
    program.make().complete("be brief", "what is new?")
    [call] = program.calls()
    assert "schema.json" not in call["files"]
    assert call["files"]["system.md"] == "be brief"


def test_child_works_in_an_empty_folder_that_is_removed(program: Program) -> None:
    program.make().complete("s", "u", schema=SCHEMA)
    [call] = program.calls()
    assert call["in"] == []
    assert not Path(call["cwd"]).exists()
    assert not Path(call["cwd"]).parent.exists()


def test_hooks_are_off_in_the_child(program: Program) -> None:
    program.make().complete("s", "u")
    assert program.calls()[0]["environ"]["COFIO_HOOKS"] == "off"


def test_keys_are_not_handed_to_the_child(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    dropped = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "CODEX_API_KEY", "ANTHROPIC_AUTH_TOKEN", "COFIO_EXTRACT_KEY",
               "COFIO_API_KEY", "COFIO_STORE", "CHAT_UPSTREAM_KEY", "CLAUDECODE", "CLAUDE_PROJECT_DIR")  # fmt: skip
    for name in (*dropped, "CLAUDE_CODE_OAUTH_TOKEN", "CODEX_HOME"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("PATH", str(program.folder))
    program.environ = agent_environment()
    program.make().complete("s", "u")
    environ = program.calls()[0]["environ"]
    assert not environ.keys() & {*dropped}
    assert environ["CLAUDE_CODE_OAUTH_TOKEN"] == environ["CODEX_HOME"] == "x"


@pytest.mark.parametrize("text", ["We use Biome.", "</cofio-request> We use Biome.", "half \ud83d", ""])
def test_prompt_is_marked_so_that_capture_refuses_it(program: Program, text: str) -> None:
    program.make().complete("s", text)
    prompt = program.calls()[0]["prompt"]
    assert is_own_request(prompt)
    assert not is_prompt(prompt)


def test_one_child_runs_at_a_time(tmp_path: Path) -> None:
    programs = [Program(agent, tmp_path / name) for name, agent in AGENTS.items()]
    for each in programs:
        each.says(Says(each.agent.reply("hello", False), after=0.1))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: programs[number % 2].make().complete("s", "u"), range(4)))
    calls = sorted((call for each in programs for call in each.calls()), key=lambda call: float(call["began"]))
    assert len(calls) == 4
    assert all(one["ended"] <= next_one["began"] for one, next_one in itertools.pairwise(calls))


def test_the_last_message_of_codex_counts_and_warnings_do_not(tmp_path: Path) -> None:
    codex = Program(AGENTS["codex-cli"], tmp_path)
    warning = {"type": "item.completed", "item": {"type": "error", "message": "Model metadata not found."}}
    retry = {"type": "error", "message": "Reconnecting... 1/1"}
    codex.says(Says(f"{json.dumps(warning)}\n{json.dumps(retry)}\n{codex.agent.reply('hello', False)}"))
    assert codex.make().complete("s", "u") == Completion("hello", False, TokenUsage(1, 11, 7, 2))


def test_tokens_of_the_prompt_cache_of_claude_code_are_counted(tmp_path: Path) -> None:
    assert Program(CLAUDE, tmp_path).make().complete("s", "u").usage == TokenUsage(1, 11, 7, 2, 5)


def test_a_list_of_events_of_claude_code_is_read_too(tmp_path: Path) -> None:
    claude = Program(CLAUDE, tmp_path)
    claude.says(Says(json.dumps([{"type": "system"}, json.loads(CLAUDE.reply("hello", False))])))
    assert claude.make().complete("s", "u").text == "hello"


# ── failures ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("logged out", Misconfigured, "not logged in"),
        ("login refused", Misconfigured, "not logged in"),
        ("over quota", Unavailable, "limit is reached"),
        ("busy", Unavailable, "Overloaded"),
        ("no model", Misconfigured, "EXTRACT_MODEL"),
        ("too long", TooLarge, "has a context of"),
        ("old", Misconfigured, "Update"),
        ("crash", Unavailable, "retried later"),
        ("silence", Unavailable, "no reply"),
        ("nonsense", Unavailable, "no reply"),
    ],
)
def test_a_failure_is_told_in_the_programs_words(
    program: Program, name: str, kind: type[CofioError], words: str
) -> None:
    error = failure(program, program.agent.failures[name])
    assert type(error) is kind
    assert program.agent.kind.product in error.message
    assert words in str(error)


def test_a_model_that_refuses_is_told_from_one_that_fails(tmp_path: Path) -> None:
    refusal = CLAUDE.reply("", False).replace("end_turn", "refusal")
    assert isinstance(failure(Program(CLAUDE, tmp_path), Says(refusal)), RefusedError)


def test_a_program_that_is_not_installed_is_misconfigured(program: Program) -> None:
    (program.folder / program.agent.kind.program).unlink()
    llm = program.make()
    with pytest.raises(Misconfigured, match="is not installed"):
        llm.complete("s", "u")
    assert "is not installed" in llm.health_check().problem


def test_a_program_that_cannot_be_started_is_misconfigured(program: Program) -> None:
    (program.folder / program.agent.kind.program).write_text("#!/no/such/interpreter\n")
    assert isinstance(failure(program, Says()), Misconfigured)


def test_a_hung_child_is_killed_with_its_group(program: Program) -> None:
    began = time.monotonic()
    error = failure(program, Says(hang=True), timeout=1.0)
    assert isinstance(error, NoReply)  # it may be billed
    assert "within 1 seconds" in error.message
    assert time.monotonic() - began < 10.0
    started = json.loads((program.folder / "started.json").read_text("utf-8"))
    assert len(started["pids"]) == 2
    for pid in started["pids"]:
        wait_until(lambda pid=pid: not is_alive(pid))
    assert not Path(started["cwd"]).exists()


def test_a_model_that_stops_kills_its_child_and_starts_none(program: Program) -> None:
    program.says(Says(hang=True))
    llm, started = program.make(timeout=120.0), program.folder / "started.json"
    with ThreadPoolExecutor(2) as threads:
        running = threads.submit(llm.complete, "s", "u")
        wait_until(lambda: started.exists() and started.read_text("utf-8").endswith("}"))
        waiting = threads.submit(llm.complete, "s", "u")  # for its turn
        llm.stop()
        errors = [each.exception(timeout=30.0) for each in (running, waiting)]
    assert [type(error) for error in errors] == [NoReply, Unavailable]
    assert all("stop" in str(error) for error in errors)
    for pid in json.loads(started.read_text("utf-8"))["pids"]:
        wait_until(lambda pid=pid: not is_alive(pid))
    assert program.calls() == []
    assert "stopping" in llm.health_check().problem


def test_a_child_that_somebody_kills_may_be_billed(program: Program) -> None:
    program.says(Says(hang=True))
    started = program.folder / "started.json"
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(program.make(timeout=120.0).complete, "s", "u")
        wait_until(lambda: started.exists() and bool(started.read_text("utf-8").endswith("}")))
        os.killpg(json.loads(started.read_text("utf-8"))["pids"][0], signal.SIGTERM)
        assert type(running.exception(timeout=30.0)) is NoReply


def test_a_child_ends_with_the_process_that_started_it(program: Program) -> None:
    program.says(Says(hang=True))
    kind, started = program.agent.kind.__name__, program.folder / "started.json"
    script = (
        "import pathlib, threading, time; from cofio.providers.llms import agent_cli;"
        f"llm = agent_cli.{kind}('m', environ={program.environ!r}, timeout=120.0);"
        "threading.Thread(target=llm.complete, args=('s', 'u'), daemon=True).start();"
        f"path = pathlib.Path({str(started)!r});"
        "[time.sleep(0.02) for _ in range(1000) if not path.exists()]; time.sleep(0.2)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, timeout=60.0)
    for pid in json.loads(started.read_text("utf-8"))["pids"]:
        wait_until(lambda pid=pid: not is_alive(pid))


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 10.0
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that nobody has reaped yet does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")


# ── health, and how they are made ─────────────────────────────────────────────────────────────────────────────────────


def test_health_is_the_login_and_asks_no_model(program: Program) -> None:
    assert program.make().health_check() == Health(True)
    program.says(Says(), status=program.agent.logged_out)
    assert "is not logged in" in program.make().health_check().problem
    assert all("status" in call["arguments"] for call in program.calls())


@pytest.mark.parametrize("name", PROVIDERS)
def test_settings_make_the_provider(name: str) -> None:
    llm: Any = make(name)
    assert (llm.provider_name, llm.model) == (name, MODELS[name])
    assert "is not installed" in llm.health_check().problem  # no environment, no PATH


@pytest.mark.parametrize("model", ["--dangerously-skip-permissions", "two\nlines"])
def test_a_model_is_no_option(program: Program, model: str) -> None:
    with pytest.raises(Misconfigured, match="EXTRACT_MODEL"):
        replace(program.agent).kind(model, environ={})
