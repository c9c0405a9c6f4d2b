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

from tests.acceptance.models import Asked, Models
from tests.acceptance.proxy import Outside

COFIO = Path(sys.executable).with_name("cofio")
CLIENTS = ("claude-code", "codex")
PATIENCE = 60.0  # seconds that something may take on a slow machine before it counts as never

#: Documented switches for what a client would otherwise do beside its work.
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
class Ran:
    """A run of a client that has ended."""

    code: int
    out: str
    err: str
    seconds: float
    asked: list[Asked]  # what it asked the model

    @property
    def read(self) -> str:
        """All that the model was given to read."""
        return "\n".join(asked.text for asked in self.asked)


class Laptop:
    """One person's machine."""

    def __init__(self, root: Path, clients: Path, models: Models, outside: Outside) -> None:
        self.home = root / "ann"
        self.clients = clients
        self.models = models
        self.cofio_home = self.home / ".cofio"
        self.tmp = root / "tmp"
        self.notifies = False  # whether Codex tells of its turns by `notify` too
        for folder in (self.home, self.tmp, self.cofio_home, self.home / ".codex"):
            folder.mkdir(parents=True)
        # Longer than people's: a machine that runs all the tests at once is slower than a laptop.
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
        """A git project in her home, with a commit."""
        path = self.home / name
        path.mkdir(parents=True)
        self._git(path, "init", "-q", "-b", "main")
        self._git(path, "commit", "-q", "--allow-empty", "-m", "Start")
        return path

    def worktree(self, project: Path, name: str) -> Path:
        """Another working tree of a project."""
        path = self.home / name
        self._git(project, "worktree", "add", "-q", str(path), "-b", path.name)
        return path

    def _git(self, where: Path, *arguments: str) -> None:
        who = ("-c", "user.name=Ann", "-c", "user.email=ann@example.com")
        subprocess.run(["git", *who, *arguments], cwd=where, env=self.env, check=True, capture_output=True)

    # ── clients ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def claude(self, prompt: str, *options: str, at: Path, says: str | None = None) -> Ran:
        """`claude -p PROMPT` in a folder; with `says` several prompts go in by standard input."""
        told = ("--input-format", "stream-json", "--output-format", "stream-json", "--verbose") if says else (prompt,)
        return self.run("claude", *options, "-p", *told, at=at, says=says)

    def codex(self, prompt: str, *options: str, at: Path) -> Ran:
        """`codex exec PROMPT` in a folder. The hooks must be trusted: nothing here goes round that.

        Codex does not wait for `notify`; what it has to tell is here when this ends.
        """
        before = self.notified()
        ran = self.run("codex", "exec", *options, prompt, at=at)
        if self.notifies and ran.code == 0:
            wait_for(lambda: self.notified() > before, "notify has told of the turn")
        return ran

    def prompt(self, client: str, prompt: str, *, at: Path) -> Ran:
        """One prompt in a session of its own, in either client."""
        return self.claude(prompt, at=at) if client == "claude-code" else self.codex(prompt, at=at)

    def run(self, *command: str, at: Path, says: str | None = None) -> Ran:
        """Anything, to its end."""
        before = len(self.models.asked())
        start = time.monotonic()
        fed: dict[str, Any] = {"stdin": subprocess.DEVNULL} if says is None else {"input": says}
        done = subprocess.run(
            [self._found(command[0]), *command[1:]],
            cwd=at, env=self.env, text=True, capture_output=True, timeout=2 * PATIENCE, check=False, **fed,
        )  # fmt: skip
        seconds = time.monotonic() - start
        return Ran(done.returncode, done.stdout, done.stderr, seconds, self.models.asked()[before:])

    def start(self, *command: str, at: Path) -> subprocess.Popen[str]:
        """Anything, without waiting for its end."""
        return subprocess.Popen(
            [self._found(command[0]), *command[1:]],
            cwd=at, env=self.env, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def kill(self, running: subprocess.Popen[str]) -> None:
        """End it, and all that it started, without a word."""
        os.killpg(running.pid, signal.SIGKILL)
        running.communicate(timeout=PATIENCE)

    def _found(self, command: str) -> str:
        path = self.clients / command
        return str(path) if path.exists() else command

    # ── cofio ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def cofio(self, *arguments: str, ok: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [COFIO, *arguments], cwd=self.home, env=self.env, text=True, capture_output=True,
            stdin=subprocess.DEVNULL, timeout=2 * PATIENCE, check=False,
        )  # fmt: skip
        assert done.returncode == 0 or not ok, f"cofio {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
        return done

    def json(self, *arguments: str) -> Any:
        return json.loads(self.cofio(*arguments, "--json").stdout)

    def install(self, *options: str) -> None:
        """In both clients, as somebody does who wants no questions and approves of Codex running the hooks."""
        self.cofio("install", *CLIENTS, "--yes", "--provider", "skip", "--notify", "--trust-hooks", *options)
        self.notifies = True

    def uninstall(self) -> None:
        self.cofio("uninstall")
        self.notifies = False

    def trust(self) -> None:
        """What `/hooks` in Codex does when the person agrees, by the interface that Codex has for it."""
        with AppServer(self) as codex:
            (place,) = codex.ask("hooks/list", cwds=[str(self.home)])["data"]
            state = {each["key"]: {"trusted_hash": each["currentHash"]} for each in place["hooks"]}
            codex.ask(
                "config/batchWrite", edits=[{"keyPath": "hooks.state", "value": state, "mergeStrategy": "upsert"}]
            )

    def up(self) -> None:
        if not (self.cofio_home / "hook.at").exists():  # the service takes it away when it ends
            self.cofio("up")

    def down(self) -> None:
        self.cofio("down", "--force", ok=False)

    def is_up(self) -> bool:
        return bool(self.json("status")["answering"])

    @contextmanager
    def hung(self) -> Iterator[None]:
        """The service takes connections and answers none."""
        number = int(self.json("status")["pid"])
        os.kill(number, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(number, signal.SIGCONT)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The service's answer over HTTP: a command of its own would take longer to start."""
        url, key, *_ = (self.cofio_home / "hook.at").read_text(encoding="utf-8").splitlines()
        headers = {"Content-Type": "application/json", **({"X-API-Key": key} if key else {})}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
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
        """The memories of a project, newest first."""
        return list(self.ask("GET", f"/memories?limit=200&project={quote(str(project))}")["memories"])

    def inbox_status(self) -> dict[str, Any]:
        return dict(self.ask("GET", "/inbox/status"))

    def memories(self) -> list[str]:
        """The texts of all that is known, newest first."""
        return [each["text"] for each in self.ask("GET", "/memories?limit=200")["memories"]]

    def known(self, words: str) -> list[str]:
        """The memories in which these words stand."""
        return [text for text in self.memories() if words.lower() in text.lower()]

    def settled(self) -> None:
        """Wait until nothing is pending: the spool is empty, and all that is due was learned from."""
        wait_for(lambda: not self.spooled(), "the spool is taken in")
        wait_for(lambda: self.inbox_status()["pending"] == 0, "nothing is pending")

    def spooled(self) -> list[Path]:
        """What lies in the spool."""
        return sorted((self.cofio_home / "spool").glob("*.hook"))

    def notified(self) -> int:
        """How often `notify` has told of a turn."""
        return sum(" codex notify " in line for line in self.rungs())

    def rungs(self) -> list[str]:
        """What the hooks wrote of themselves, a line a run."""
        log = self.cofio_home / "hooks.log"
        return log.read_text(encoding="utf-8").splitlines() if log.exists() else []


def tools() -> list[str]:
    """The folders of the few programs of this machine that clients need."""
    found = [shutil.which(name) for name in ("node", "git")]
    return list(dict.fromkeys(str(Path(path).parent) for path in found if path))


class AppServer:
    """`codex app-server`: Codex as a program that answers requests, a line each."""

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
        self._codex.communicate(timeout=PATIENCE)

    def ask(self, method: str, **parameters: Any) -> Any:
        self._asked += 1
        self._say({"id": self._asked, "method": method, "params": parameters})
        assert self._codex.stdout
        for line in self._codex.stdout:
            told = json.loads(line)
            if told.get("id") == self._asked:
                assert "error" not in told, told
                return told["result"]
        raise AssertionError(f"Codex does not answer {method}")

    def _say(self, said: dict[str, Any]) -> None:
        assert self._codex.stdin
        self._codex.stdin.write(f"{json.dumps(said)}\n")
        self._codex.stdin.flush()


def wait_for(true: Callable[[], bool], what: str) -> None:
    """Wait until it is so, and fail when it never is."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, f"it did not come about that {what}"
        time.sleep(0.1)


def files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by its path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def prompts(*texts: str) -> str:
    """Several prompts for one session of Claude Code, as its standard input takes them."""
    said = ({"type": "user", "message": {"role": "user", "content": text}} for text in texts)
    return "".join(f"{json.dumps(each)}\n" for each in said)
