"""Claude Code and Codex as LLM providers: starting the child process, isolation and failures."""

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

from .agents import AGENTS, CLAUDE, Program, ProgramOutput

SCHEMA = {"type": "object", "required": ["facts"], "properties": {"facts": {"type": "array"}}}


@pytest.fixture(params=AGENTS)
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Program:
    return Program(AGENTS[request.param], tmp_path / "bin")


def failure(program: Program, output: ProgramOutput, timeout: float = 20.0) -> CofioError:
    program.says(output)
    with pytest.raises(CofioError) as error_info:
        program.make(timeout).complete("be brief", "what is new?", schema=SCHEMA)
    assert error_info.value.hint
    return error_info.value


# ── calls ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_prompts_are_not_in_the_arguments(program: Program) -> None:
    program.make().complete("be brief", "what is new?", schema=SCHEMA)
    [call] = program.calls()
    assert "be brief" in call["files"]["system.md"]
    assert "what is new?" in call["prompt"]
    assert not any("be brief" in argument or "what is new?" in argument for argument in call["arguments"])
    assert program.agent.schema_in(call) == SCHEMA
    assert program.agent.model in call["arguments"]


def test_no_schema_is_sent_without_one(program: Program) -> None:
    program.make().complete("be brief", "what is new?")
    [call] = program.calls()
    assert "schema.json" not in call["files"]
    assert call["files"]["system.md"] == "be brief"


def test_child_works_in_an_empty_temporary_folder(program: Program) -> None:
    program.make().complete("s", "u", schema=SCHEMA)
    [call] = program.calls()
    assert call["in"] == []
    assert not Path(call["cwd"]).exists()
    assert not Path(call["cwd"]).parent.exists()


def test_hooks_are_disabled_in_the_child(program: Program) -> None:
    program.make().complete("s", "u")
    assert program.calls()[0]["environ"]["COFIO_HOOKS"] == "off"


def test_keys_are_removed_from_the_childs_environment(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_prompt_is_marked_as_not_capturable(program: Program, text: str) -> None:
    program.make().complete("s", text)
    prompt = program.calls()[0]["prompt"]
    assert is_own_request(prompt)
    assert not is_prompt(prompt)


def test_only_one_child_runs_at_a_time(tmp_path: Path) -> None:
    programs = [Program(agent, tmp_path / name) for name, agent in AGENTS.items()]
    for item in programs:
        item.says(ProgramOutput(item.agent.reply("hello", False), after=0.1))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: programs[number % 2].make().complete("s", "u"), range(4)))
    calls = sorted((call for item in programs for call in item.calls()), key=lambda call: float(call["began"]))
    assert len(calls) == 4
    assert all(one["ended"] <= next_one["began"] for one, next_one in itertools.pairwise(calls))


def test_last_codex_message_is_used_and_warnings_ignored(tmp_path: Path) -> None:
    codex = Program(AGENTS["codex-cli"], tmp_path)
    warning = {"type": "item.completed", "item": {"type": "error", "message": "Model metadata not found."}}
    retry = {"type": "error", "message": "Reconnecting... 1/1"}
    codex.says(ProgramOutput(f"{json.dumps(warning)}\n{json.dumps(retry)}\n{codex.agent.reply('hello', False)}"))
    assert codex.make().complete("s", "u") == Completion("hello", False, TokenUsage(1, 11, 7, 2))


def test_cached_prompt_tokens_of_claude_code_are_counted(tmp_path: Path) -> None:
    assert Program(CLAUDE, tmp_path).make().complete("s", "u").usage == TokenUsage(1, 11, 7, 2, 5)


def test_claude_code_event_list_is_parsed(tmp_path: Path) -> None:
    claude = Program(CLAUDE, tmp_path)
    claude.says(ProgramOutput(json.dumps([{"type": "system"}, json.loads(CLAUDE.reply("hello", False))])))
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
def test_failure_is_reported_in_the_programs_words(
    program: Program, name: str, kind: type[CofioError], words: str
) -> None:
    error = failure(program, program.agent.failures[name])
    assert type(error) is kind
    assert program.agent.kind.product in error.message
    assert words in str(error)


def test_refusal_is_distinguished_from_failure(tmp_path: Path) -> None:
    refusal = CLAUDE.reply("", False).replace("end_turn", "refusal")
    assert isinstance(failure(Program(CLAUDE, tmp_path), ProgramOutput(refusal)), RefusedError)


def test_missing_program_is_misconfigured(program: Program) -> None:
    (program.folder / program.agent.kind.program).unlink()
    llm = program.make()
    with pytest.raises(Misconfigured, match="is not installed"):
        llm.complete("s", "u")
    assert "is not installed" in llm.health_check().problem


def test_program_that_cannot_start_is_misconfigured(program: Program) -> None:
    (program.folder / program.agent.kind.program).write_text("#!/no/such/interpreter\n")
    assert isinstance(failure(program, ProgramOutput()), Misconfigured)


def test_hanging_child_is_killed_with_its_process_group(program: Program) -> None:
    start_time = time.monotonic()
    error = failure(program, ProgramOutput(hang=True), timeout=1.0)
    assert isinstance(error, NoReply)  # the call may be billed
    assert "within 1 seconds" in error.message
    assert time.monotonic() - start_time < 10.0
    started = json.loads((program.folder / "started.json").read_text("utf-8"))
    assert len(started["pids"]) == 2
    for pid in started["pids"]:
        wait_until(lambda pid=pid: not is_alive(pid))
    assert not Path(started["cwd"]).exists()


def test_stop_kills_the_child_and_starts_no_other(program: Program) -> None:
    program.says(ProgramOutput(hang=True))
    llm, started = program.make(timeout=120.0), program.folder / "started.json"
    with ThreadPoolExecutor(2) as threads:
        running = threads.submit(llm.complete, "s", "u")
        wait_until(lambda: started.exists() and started.read_text("utf-8").endswith("}"))
        pending = threads.submit(llm.complete, "s", "u")  # waits for the running call
        llm.stop()
        errors = [item.exception(timeout=30.0) for item in (running, pending)]
    assert [type(error) for error in errors] == [NoReply, Unavailable]
    assert all("stop" in str(error) for error in errors)
    for pid in json.loads(started.read_text("utf-8"))["pids"]:
        wait_until(lambda pid=pid: not is_alive(pid))
    assert program.calls() == []
    assert "stopping" in llm.health_check().problem


def test_killed_child_may_be_billed(program: Program) -> None:
    program.says(ProgramOutput(hang=True))
    started = program.folder / "started.json"
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(program.make(timeout=120.0).complete, "s", "u")
        wait_until(lambda: started.exists() and bool(started.read_text("utf-8").endswith("}")))
        os.killpg(json.loads(started.read_text("utf-8"))["pids"][0], signal.SIGTERM)
        assert type(running.exception(timeout=30.0)) is NoReply


def test_child_ends_with_its_parent_process(program: Program) -> None:
    program.says(ProgramOutput(hang=True))
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


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 10.0
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Return True if the process runs and is not a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")


# ── health and construction ───────────────────────────────────────────────────────────────────────────────────────────


def test_health_checks_the_login_without_calling_the_model(program: Program) -> None:
    assert program.make().health_check() == Health(True)
    program.says(ProgramOutput(), status=program.agent.logged_out)
    assert "is not logged in" in program.make().health_check().problem
    assert all("status" in call["arguments"] for call in program.calls())


@pytest.mark.parametrize("name", PROVIDERS)
def test_settings_create_the_provider(name: str) -> None:
    llm: Any = make(name)
    assert (llm.provider_name, llm.model) == (name, MODELS[name])
    assert "is not installed" in llm.health_check().problem  # no environment, no PATH


@pytest.mark.parametrize("model", ["--dangerously-skip-permissions", "two\nlines"])
def test_model_name_cannot_be_an_option(program: Program, model: str) -> None:
    with pytest.raises(Misconfigured, match="EXTRACT_MODEL"):
        replace(program.agent).kind(model, environ={})
