"""Programs that replace `claude` and `codex`: they print scripted output and record how they were started."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cofio.providers.llms.agent_cli import AgentCLI, ClaudeCLI, CodexCLI

_PROGRAM = """\
#!{python} -ES
import json, os, subprocess, sys, time
folder = {folder!r}
is_status = sys.argv[1:3] in (["auth", "status"], ["login", "status"])
script = json.load(open(folder + "/script.json"))["status" if is_status else "call"]
said = "" if is_status else sys.stdin.read()
files = {{}}
for each in sys.argv[1:]:
    path = each.partition("=")[2].strip('"') or each
    if path.startswith("/") and os.path.isfile(path):
        files[os.path.basename(path)] = open(path).read()
started = {{"arguments": sys.argv[1:], "environ": dict(os.environ), "cwd": os.getcwd(), "in": os.listdir(),
           "prompt": said, "files": files, "began": time.time()}}
if script["hang"]:
    child = subprocess.Popen(["/bin/sleep", "300"])
    started["pids"] = [os.getpid(), child.pid]
    json.dump(started, open(folder + "/started.json", "w"))
    time.sleep(300)
time.sleep(script["after"])
started["ended"] = time.time()
with open(folder + "/calls.jsonl", "a") as file:
    file.write(json.dumps(started) + "\\n")
sys.stdout.write(script["out"])
sys.stderr.write(script["err"])
sys.exit(script["code"])
"""


@dataclass(frozen=True)
class ProgramOutput:
    """Scripted output and exit status of a program."""

    out: str = ""
    code: int = 0
    err: str = ""
    after: float = 0.0
    hang: bool = False


@dataclass(frozen=True, kw_only=True)
class Agent:
    """One of the two agents, with recorded output."""

    kind: type[AgentCLI]
    model: str
    reply: Callable[[str, bool], str]
    logged_in: ProgramOutput
    logged_out: ProgramOutput
    failures: Mapping[str, ProgramOutput]
    schema_in: Callable[[Mapping[str, Any]], Any]  # from the recorded start of a call


@dataclass
class Program:
    """The program in its own folder, which is the PATH of the process that starts it."""

    agent: Agent
    folder: Path
    environ: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / self.agent.kind.program
        path.write_text(_PROGRAM.format(python=sys.executable, folder=str(self.folder)), encoding="utf-8")
        path.chmod(0o755)
        self.environ["PATH"] = str(self.folder)
        self.says(ProgramOutput(self.agent.reply("hello", False)))

    def says(self, call: ProgramOutput, status: ProgramOutput | None = None) -> None:
        script = {"call": vars(call), "status": vars(status or self.agent.logged_in)}
        (self.folder / "script.json").write_text(json.dumps(script), encoding="utf-8")

    def calls(self) -> list[dict[str, Any]]:
        """Return how the program was started, oldest first."""
        path = self.folder / "calls.jsonl"
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []

    def make(self, timeout: float = 20.0) -> AgentCLI:
        return self.agent.kind(self.agent.model, environ=self.environ, timeout=timeout)


# ── Claude Code 2.1.325 ───────────────────────────────────────────────────────────────────────────────────────────────


def _claude_result(text: str, stop_reason: str = "end_turn", **fields: Any) -> str:
    usage = {"input_tokens": 4, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 2, "output_tokens": 7}
    result = {"type": "result", "subtype": "success", "is_error": False, "api_error_status": None, "num_turns": 1,
            "stop_reason": stop_reason, "usage": usage, "result": text, **fields}  # fmt: skip
    return json.dumps(result) + "\n"


def claude_failure(text: str, status: int | None = None) -> ProgramOutput:
    out = _claude_result(text, "stop_sequence", is_error=True, api_error_status=status, usage={})
    return ProgramOutput(out, 1)


CLAUDE = Agent(
    kind=ClaudeCLI,
    model="haiku",
    reply=lambda text, cut: _claude_result(text, "max_tokens" if cut else "end_turn"),
    logged_in=ProgramOutput('{"loggedIn": true, "authMethod": "claude.ai", "apiProvider": "firstParty"}'),
    logged_out=ProgramOutput('{"loggedIn": false, "authMethod": "none", "apiProvider": "firstParty"}', 1),
    failures={
        "logged out": claude_failure("Not logged in · Please run /login"),
        "login refused": claude_failure("Not logged in · Please run /login", 401),
        "over quota": claude_failure("You've hit your session limit · resets 4pm (UTC)", 429),
        "busy": claude_failure("API Error: 529 Overloaded. This is a server-side issue, usually temporary", 529),
        "no model": claude_failure("There's an issue with the selected model (x). It may not exist", 404),
        "too long": claude_failure("Prompt is too long · the request is ~300000 tokens (limit 200000)", 400),
        "old": ProgramOutput(err="error: unknown option '--safe-mode'\n", code=1),
        "crash": ProgramOutput(err="Segmentation fault\n", code=139),
        "silence": ProgramOutput(),
        "nonsense": ProgramOutput("Welcome to Claude Code!\n[1, null]\n{}\n" + "[" * 50_000),
    },
    schema_in=lambda call: json.loads(call["files"]["system.md"].rpartition("\n")[2]),
)


# ── Codex 0.166.0 ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _lines(*events: dict[str, Any]) -> str:
    start = ({"type": "thread.started", "thread_id": "01a1f24a"}, {"type": "turn.started"})
    return "".join(f"{json.dumps(item)}\n" for item in (*start, *events))


def _codex_reply(text: str, _cut: bool) -> str:
    usage = {"input_tokens": 11, "cached_input_tokens": 2, "output_tokens": 7, "reasoning_output_tokens": 0}
    message = {"id": "item_0", "type": "agent_message", "text": text}
    return _lines({"type": "item.completed", "item": message}, {"type": "turn.completed", "usage": usage})


def codex_failure(message: str) -> ProgramOutput:
    return ProgramOutput(
        _lines({"type": "error", "message": message}, {"type": "turn.failed", "error": {"message": message}}), 1
    )


CODEX = Agent(
    kind=CodexCLI,
    model="gpt-6-luna",
    reply=_codex_reply,
    logged_in=ProgramOutput(err="Logged in using ChatGPT\n"),
    logged_out=ProgramOutput(err="Not logged in\n", code=1),
    failures={
        "logged out": codex_failure("unexpected status 401 Unauthorized: Missing bearer authentication in header"),
        "login refused": codex_failure("Your login has expired. Please log in again."),
        "over quota": codex_failure("exceeded retry limit, last status: 429 Too Many Requests"),
        "busy": codex_failure("unexpected status 529 <unknown status code>: Overloaded, url: http://127.0.0.1/v1"),
        "no model": codex_failure("unexpected status 404 Not Found: The model `x` does not exist"),
        "too long": codex_failure('{"error": {"message": "prompt is too long: 300000 tokens > 200000 maximum"}}'),
        "old": ProgramOutput(err="Error: Unknown feature flag: daemon_auto_start\n", code=1),
        "crash": ProgramOutput(err="thread 'main' panicked\n", code=101),
        "silence": ProgramOutput(),
        "nonsense": ProgramOutput("Welcome to Codex!\n[1, null]\n{}\n" + "[" * 50_000),
    },
    schema_in=lambda call: json.loads(call["files"]["schema.json"]),
)

AGENTS = {"claude-cli": CLAUDE, "codex-cli": CODEX}
