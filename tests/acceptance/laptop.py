"""Ann's laptop: a home of its own with her projects, cofio from this checkout, and the real clients.

What runs on it gets a clean environment: nothing of the person's who runs the tests, every way out through a proxy that
lets nobody through, and a model server on loopback.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from tests.acceptance.models import ModelRequest, Models
from tests.acceptance.proxy import Outside

COFIO = Path(sys.executable).with_name("cofio")
CLIENTS = ("claude-code", "codex")
TIMEOUT_S = 60.0  # seconds before an operation on a slow machine counts as failed

#: documented switches against background network access of the clients
QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "CLAUDE_CODE_MAX_RETRIES": "1",
}
CODEX_CONFIG = """\
# Ann's own settings
model = "gpt-6"
model_provider = "loopback"
check_for_update_on_startup = false

[model_providers.loopback]
name = "loopback"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"
request_max_retries = 1
stream_max_retries = 1

[analytics]
enabled = false

[features]
plugins = false  # their catalogue is fetched
apps = false
"""


@dataclass(frozen=True)
class ClientRun:
    """A finished run of a client."""

    code: int
    out: str
    err: str
    seconds: float
    asked: list[ModelRequest]  # its requests to the model

    @property
    def read(self) -> str:
        """Return everything the model received."""
        return "\n".join(asked.text for asked in self.asked)


class Laptop:
    """One person's machine."""

    def __init__(self, root: Path, clients: Path, models: Models, outside: Outside) -> None:
        self.home = root / "ann"
        self.clients = clients
        self.models = models
        self.cofio_home = self.home / ".cofio"
        self.tmp = root / "tmp"
        self.notifies = False  # whether Codex also reports turns by `notify`
        for folder in (self.home, self.tmp, self.cofio_home, self.home / ".codex"):
            folder.mkdir(parents=True)
        # longer than the defaults: a machine running all tests is slower than a laptop
        (self.cofio_home / "config.toml").write_text(
            "port = 0\nhook_recall_timeout_ms = 3000\nhook_capture_timeout_ms = 1000\n", encoding="utf-8"
        )
        (self.cofio_home / "config.toml").chmod(0o600)
        (self.home / ".codex" / "config.toml").write_text(CODEX_CONFIG.format(url=models.url), encoding="utf-8")
        self.env = {
            "PATH": ":".join([str(clients), *tools(), "/usr/local/bin", "/usr/bin", "/bin"]),
            "HOME": str(self.home),
            "TMPDIR": str(self.tmp),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "ANTHROPIC_BASE_URL": models.url,
            "ANTHROPIC_API_KEY": "dummy",
            "OPENAI_API_KEY": "dummy",
            **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"), outside.url),
            **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost,::1"),
            **QUIET,
        }

    # ── projects ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def project(self, name: str) -> Path:
        """Create a git project with a commit in the home folder."""
        path = self.home / name
        path.mkdir(parents=True)
        self._git(path, "init", "-q", "-b", "main")
        self._git(path, "commit", "-q", "--allow-empty", "-m", "Start")
        return path

    def worktree(self, project: Path, name: str) -> Path:
        """Create another worktree of a project."""
        path = self.home / name
        self._git(project, "worktree", "add", "-q", str(path), "-b", path.name)
        return path

    def _git(self, where: Path, *arguments: str) -> None:
        who = ("-c", "user.name=Ann", "-c", "user.email=ann@example.com")
        subprocess.run(["git", *who, *arguments], cwd=where, env=self.env, check=True, capture_output=True)

    # ── clients ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def claude(self, prompt: str, *options: str, at: Path, says: str | None = None) -> ClientRun:
        """Run `claude -p PROMPT` in a folder; `says` sends several prompts by standard input."""
        result = ("--input-format", "stream-json", "--output-format", "stream-json", "--verbose") if says else (prompt,)
        return self.run("claude", *options, "-p", *result, at=at, says=says)

    def codex(self, prompt: str, *options: str, at: Path) -> ClientRun:
        """`codex exec PROMPT` in a folder. The hooks must be trusted: nothing here goes round that.

        Codex does not wait for `notify`; what it has to tell is here when this ends.
        """
        before = self.notified()
        run = self.run("codex", "exec", *options, prompt, at=at)
        if self.notifies and run.code == 0:
            wait_for(lambda: self.notified() > before, "notify has told of the turn")
        return run

    def prompt(self, client: str, prompt: str, *, at: Path) -> ClientRun:
        """Run one prompt in a new session of either client."""
        return self.claude(prompt, at=at) if client == "claude-code" else self.codex(prompt, at=at)

    def run(self, *command: str, at: Path, says: str | None = None) -> ClientRun:
        """Run a command to its end."""
        before = len(self.models.asked())
        start = time.monotonic()
        fed: dict[str, Any] = {"stdin": subprocess.DEVNULL} if says is None else {"input": says}
        result = subprocess.run(
            [self._found(command[0]), *command[1:]],
            cwd=at, env=self.env, text=True, capture_output=True, timeout=2 * TIMEOUT_S, check=False, **fed,
        )  # fmt: skip
        seconds = time.monotonic() - start
        return ClientRun(result.returncode, result.stdout, result.stderr, seconds, self.models.asked()[before:])

    def start(self, *command: str, at: Path) -> subprocess.Popen[str]:
        """Start a command without waiting."""
        return subprocess.Popen(
            [self._found(command[0]), *command[1:]],
            cwd=at, env=self.env, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def kill(self, running: subprocess.Popen[str]) -> None:
        """Kill the process and its children."""
        os.killpg(running.pid, signal.SIGKILL)
        running.communicate(timeout=TIMEOUT_S)

    def _found(self, command: str) -> str:
        path = self.clients / command
        return str(path) if path.exists() else command

    # ── cofio ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def cofio(self, *arguments: str, ok: bool = True) -> subprocess.CompletedProcess[str]:
        result = subprocess.run(
            [COFIO, *arguments], cwd=self.home, env=self.env, text=True, capture_output=True,
            stdin=subprocess.DEVNULL, timeout=2 * TIMEOUT_S, check=False,
        )  # fmt: skip
        assert result.returncode == 0 or not ok, f"cofio {' '.join(arguments)}\n{result.stdout}\n{result.stderr}"
        return result

    def json(self, *arguments: str) -> Any:
        return json.loads(self.cofio(*arguments, "--json").stdout)

    def install(self, *options: str) -> None:
        """Install cofio in both clients unattended, with approval of the Codex hooks."""
        self.cofio("install", *CLIENTS, "--yes", "--provider", "skip", "--notify", "--trust-hooks", *options)
        self.notifies = True

    def uninstall(self) -> None:
        self.cofio("uninstall")
        self.notifies = False

    def trust(self) -> None:
        """Approve the hooks as `/hooks` in Codex does, through its interface."""
        with AppServer(self) as codex:
            (place,) = codex.ask("hooks/list", cwds=[str(self.home)])["data"]
            state = {hook["key"]: {"trusted_hash": hook["currentHash"]} for hook in place["hooks"]}
            codex.ask(
                "config/batchWrite", edits=[{"keyPath": "hooks.state", "value": state, "mergeStrategy": "upsert"}]
            )

    def up(self) -> None:
        if not (self.cofio_home / "hook.at").exists():  # deleted by the service when it stops
            self.cofio("up")

    def down(self) -> None:
        self.cofio("down", "--force", ok=False)

    def is_up(self) -> bool:
        return bool(self.json("status")["answering"])

    @contextmanager
    def hung(self) -> Iterator[None]:
        """Suspend the service: it accepts connections and does not respond."""
        number = int(self.json("status")["pid"])
        os.kill(number, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(number, signal.SIGCONT)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Send an HTTP request to the service, which is faster than a command."""
        url, key, *_ = (self.cofio_home / "hook.at").read_text(encoding="utf-8").splitlines()
        headers = {"Content-Type": "application/json", **({"X-API-Key": key} if key else {})}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return json.load(answer)

    def remember(
        self, text: str, project: Path | None = None, *, category: str = "decision", dedup: bool = True
    ) -> None:
        """A memory, stored before; of a project, or of none."""
        where = {"project": str(project)} if project else {}
        self.ask(
            "POST", "/memory/add", {"text": text, "source": "ann", "category": category, "deduplicate": dedup, **where}
        )

    def of(self, project: Path) -> list[dict[str, Any]]:
        """Return the memories of a project, newest first."""
        return list(self.ask("GET", f"/memories?limit=200&project={quote(str(project))}")["memories"])

    def inbox_status(self) -> dict[str, Any]:
        return dict(self.ask("GET", "/inbox/status"))

    def memories(self) -> list[str]:
        """Return the texts of all memories, newest first."""
        return [memory["text"] for memory in self.ask("GET", "/memories?limit=200")["memories"]]

    def known(self, words: str) -> list[str]:
        """Return the memories that contain this text."""
        return [text for text in self.memories() if words.lower() in text.lower()]

    def settled(self) -> None:
        """Wait until the spool is empty and all due captures are processed."""
        wait_for(lambda: not self.spooled(), "the spool is taken in")
        wait_for(lambda: self.inbox_status()["pending"] == 0, "nothing is pending")

    def spooled(self) -> list[Path]:
        """Return the files in the spool."""
        return sorted((self.cofio_home / "spool").glob("*.hook"))

    def notified(self) -> int:
        """Return how often `notify` reported a turn."""
        return sum(" codex notify " in line for line in self.rungs())

    def rungs(self) -> list[str]:
        """Return the results in the hook log, one per run."""
        log = self.cofio_home / "hooks.log"
        return log.read_text(encoding="utf-8").splitlines() if log.exists() else []


def tools() -> list[str]:
    """Return the folders of the system programs that clients need."""
    results = [shutil.which(name) for name in ("node", "git")]
    return list(dict.fromkeys(str(Path(path).parent) for path in results if path))


class AppServer:
    """`codex app-server`: Codex as a process that answers requests, one per line."""

    def __init__(self, laptop: Laptop) -> None:
        self._laptop = laptop
        self._asked = 0

    def __enter__(self) -> Self:
        self._codex = subprocess.Popen(
            [self._laptop.clients / "codex", "app-server"], cwd=self._laptop.home, env=self._laptop.env, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.ask("initialize", clientInfo={"name": "acceptance", "title": "Acceptance", "version": "1"})
        self._say({"method": "initialized"})
        return self

    def __exit__(self, *_: object) -> None:
        self._codex.terminate()
        self._codex.communicate(timeout=TIMEOUT_S)

    def ask(self, method: str, **parameters: Any) -> Any:
        self._asked += 1
        self._say({"id": self._asked, "method": method, "params": parameters})
        assert self._codex.stdout
        for line in self._codex.stdout:
            payload = json.loads(line)
            if payload.get("id") == self._asked:
                assert "error" not in payload, payload
                return payload["result"]
        raise AssertionError(f"Codex does not answer {method}")

    def _say(self, said: dict[str, Any]) -> None:
        assert self._codex.stdin
        self._codex.stdin.write(f"{json.dumps(said)}\n")
        self._codex.stdin.flush()


def wait_for(true: Callable[[], bool], what: str) -> None:
    """Wait until the condition is true; fail after a timeout."""
    end = time.monotonic() + TIMEOUT_S
    while not true():
        assert time.monotonic() < end, f"it did not come about that {what}"
        time.sleep(0.1)


def files(folder: Path) -> dict[str, bytes]:
    """Return the content of every file below a folder, by path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def prompts(*texts: str) -> str:
    """Return several prompts in Claude Code's input format."""
    new_texts = ({"type": "user", "message": {"role": "user", "content": text}} for text in texts)
    return "".join(f"{json.dumps(item)}\n" for item in new_texts)
