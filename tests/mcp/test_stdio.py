"""`cofio mcp` with the SDK's client, a real store and a real service."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from cofio.core import Keeper
from cofio.hooks import project
from cofio.settings import Settings
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder
from tests.cli.conftest import new_keeper, running_service
from tests.http_api.conftest import serving
from tests.mcp.conftest import run_cofio
from tests.mcp.contract import ToolContract, call_every_tool, check_results
from tests.mcp.sdk_client import COMMAND, StdioAgent, isolated_env

__all__ = ["new_keeper"]  # imported fixture

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 20.0  # usually one or two seconds
INITIALIZE_MESSAGES = (
    {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
)  # fmt: skip


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StdioAgent]:
    """Yield an agent that starts `cofio mcp` in a folder while a service is running."""
    home, clock = tmp_path_factory.mktemp("agent"), FixedClock()
    with Keeper(SqliteStore(home / "cofio.db", clock), HashEmbedder(), clock) as keeper, serving(keeper) as url:
        with StdioAgent(home, home / "web", "--url", url) as started:
            yield started
        assert "Traceback" not in started.log


@pytest.fixture(scope="module")
def where(agent: StdioAgent) -> str:
    return project.project_of(str(agent.folder))


class TestToolContract(ToolContract):
    """The tool contract over stdio."""


# ── without a service ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_tool_works_on_the_store_with_the_real_model(tmp_path: Path) -> None:
    with StdioAgent(tmp_path, tmp_path / "web") as agent:
        check_results(call_every_tool(agent))
        assert (
            agent.every_resource()[0]
            == f"cofio://project/{quote(project.project_of(str(agent.folder)), safe='')}/briefing"
        )
        assert "Postgres" in agent.read(agent.every_resource()[0])[0]
        assert "Postgres" in str(agent.prompt("what_do_we_know", topic="the billing database").messages)
    assert agent.log == ""


@pytest.mark.parametrize(("mode", "version"), [("legacy", "2025-11-25"), ("auto", "2026-07-28")])
def test_clients_of_old_and_new_protocol_are_served(tmp_path: Path, mode: str, version: str) -> None:
    with StdioAgent(tmp_path, tmp_path / "web", mode=mode, name="codex-mcp-client") as agent:
        assert agent.version == version
        agent.call_data("memory_add", text="We use pnpm")
        result = agent.call_data("memory_search", query="pnpm")["memories"][0]
        assert result["source"] == "codex/web"
    assert agent.log == ""


def test_damaged_store_is_reported_as_tool_error(tmp_path: Path) -> None:
    (tmp_path / "broken.db").write_bytes(b"this is not a database, whatever its name says" * 100)
    with StdioAgent(tmp_path, tmp_path / "web", "--store", str(tmp_path / "broken.db")) as agent:
        assert "broken.db" in agent.call_error("memory_search", query="anything")


def test_missing_store_is_created_by_writing_tools_only(tmp_path: Path) -> None:
    with StdioAgent(tmp_path, tmp_path / "web", "--store", str(tmp_path / "named.db")) as agent:
        assert "There is no store" in agent.call_error("memory_search", query="anything")
        assert not (tmp_path / "named.db").exists()
        agent.call_data("memory_add", text="We use pnpm")
        assert agent.search_texts("pnpm") == ["We use pnpm"]


# ── project ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_project_is_the_working_folder_and_folders_can_be_named(tmp_path: Path) -> None:
    web, shop = tmp_path / "web", tmp_path / "shop"
    shop.mkdir()
    with StdioAgent(tmp_path, web) as agent:
        agent.call_data("memory_add", text="The web deploys with Fly.io")
        agent.call_data("memory_add", text="The shop deploys with Render", project=str(shop))
        agent.call_data("memory_add", text="Nobody deploys on a Friday", project="")
        assert set(agent.search_texts("deploys")) == {"The web deploys with Fly.io", "Nobody deploys on a Friday"}
        assert set(agent.search_texts("deploys", project=str(shop))) == {
            "The shop deploys with Render",
            "Nobody deploys on a Friday",
        }
        places = {
            memory["project"] for memory in agent.call_data("memory_search", query="deploys", project="*")["memories"]
        }
    assert places == {project.project_of(str(web)), project.project_of(str(shop)), ""}


def test_client_can_set_the_project_folder(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    with StdioAgent(tmp_path, tmp_path / "elsewhere", env={"CLAUDE_PROJECT_DIR": str(work)}) as agent:
        agent.call_data("memory_add", text="We use pnpm")
        assert agent.call_data("memory_search", query="pnpm")["memories"][0]["project"] == project.project_of(str(work))


def test_project_can_be_named_by_variable(tmp_path: Path) -> None:
    with StdioAgent(tmp_path, tmp_path / "clone", env={"COFIO_PROJECT": "acme/web"}) as agent:
        agent.call_data("memory_add", text="We use pnpm", project=str(tmp_path / "clone"))
        result = agent.call_data("memory_search", query="pnpm")["memories"][0]
    assert (result["project"], result["source"]) == ("acme/web", "claude-code/web")


def test_empty_project_overrides_the_variable(tmp_path: Path) -> None:
    with StdioAgent(tmp_path, tmp_path, env={"COFIO_PROJECT": "acme/web"}) as agent:
        agent.call_data("memory_add", text="Nobody deploys on a Friday", project="")
        result = agent.call_data("memory_search", query="who deploys?", project="")["memories"][0]
        assert (result["project"], result["source"]) == ("", "claude-code")
        assert agent.search_texts("who deploys?", project="/" + "a" * 1_000) == ["Nobody deploys on a Friday"]


def test_git_worktree_is_the_same_project(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        who = ("-c", "user.name=Ann", "-c", "user.email=ann@example.com")
        subprocess.run(["git", *who, *arguments], cwd=tmp_path / "web", check=True, capture_output=True)

    (tmp_path / "web" / "src").mkdir(parents=True)
    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "Start")
    git("worktree", "add", "-q", str(tmp_path / "fix"))
    with StdioAgent(tmp_path, tmp_path / "fix") as agent:
        agent.call_data("memory_add", text="We use pnpm")
        result = agent.call_data("memory_search", query="pnpm", project=str(tmp_path / "web" / "src"))["memories"][0]
    assert (result["project"], result["source"]) == (project.project_of(str(tmp_path / "web")), "claude-code/web")


# ── with a service ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_running_service_is_used_instead_of_the_store(tmp_path: Path, new_keeper: Callable[[str], Keeper]) -> None:
    keeper = new_keeper("served")
    with running_service(keeper, Settings(home=tmp_path / "service", port=0)) as url:
        with StdioAgent(tmp_path, tmp_path / "web", "--url", url) as agent:
            agent.call_data("memory_add", text="We use pnpm")
        assert not (tmp_path / "cofio").exists()
    assert keeper.changes()[0].by == "mcp"


def test_unavailable_service_is_reported_as_tool_error(tmp_path: Path, new_keeper: Callable[[str], Keeper]) -> None:
    with ExitStack() as service:
        url = service.enter_context(running_service(new_keeper("served"), Settings(home=tmp_path / "service", port=0)))
        with StdioAgent(tmp_path, tmp_path / "web", "--url", url) as agent:
            agent.call_data("memory_add", text="We use pnpm")
            service.close()
            assert "cofio up" in agent.call_error("memory_search", query="pnpm")


def test_service_may_start_and_stop_meanwhile(tmp_path: Path) -> None:
    quiet = {"COFIO_PORT": "0"}
    with StdioAgent(tmp_path, tmp_path / "web") as agent:
        agent.call_data("memory_add", text="We use pnpm")
        run_cofio(tmp_path, "up", COFIO_API_KEY="known to the service alone", **quiet)
        (key,) = tmp_path.rglob("service.key")
        key.unlink()
        try:
            assert "key" in agent.call_error("memory_search", query="pnpm").lower()  # the service was used
        finally:
            run_cofio(tmp_path, "down", "--force")
        assert agent.search_texts("pnpm") == ["We use pnpm"]
    assert agent.log == ""


# ── process ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class RawServer:
    """`cofio mcp` with raw pipes."""

    def __init__(self, home: Path) -> None:
        self.child = subprocess.Popen(
            COMMAND, env=isolated_env(home), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, cwd=home, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
        self.send(*INITIALIZE_MESSAGES)
        assert self.receive()["result"]["serverInfo"]["name"] == "cofio"

    def send(self, *messages: dict[str, Any]) -> None:
        assert self.child.stdin
        self.child.stdin.write("".join(json.dumps(message) + "\n" for message in messages))
        self.child.stdin.flush()

    def call(self, number: int, name: str, **arguments: Any) -> None:
        params = {"name": name, "arguments": arguments}
        self.send({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})

    def receive(self) -> dict[str, Any]:
        assert self.child.stdout
        payload: dict[str, Any] = json.loads(self.child.stdout.readline())
        return payload

    def wait_for_end(self) -> tuple[str, str]:
        """Return the remaining output and errors; the process must end by itself."""
        said, errors = self.child.communicate(timeout=TIMEOUT_S)
        assert self.child.returncode == 0
        return said, errors


@pytest.fixture
def raw(tmp_path: Path) -> Iterator[RawServer]:
    started = RawServer(tmp_path)
    yield started
    started.child.kill()
    started.child.wait()
    for stream in (started.child.stdin, started.child.stdout, started.child.stderr):
        assert stream
        with suppress(BrokenPipeError):
            stream.close()


@contextmanager
def write_lock(home: Path) -> Iterator[None]:
    """Hold a write lock on the store."""
    writer = sqlite3.connect(home / "cofio" / "cofio.db", isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        writer.close()


def test_process_ends_when_input_ends_and_prints_protocol_only(raw: RawServer) -> None:
    raw.call(2, "memory_add", text="We use pnpm")
    raw.call(3, "memory_history", id="<none>")
    assert {raw.receive()["id"], raw.receive()["id"]} == {2, 3}
    assert raw.wait_for_end() == ("", "")


def test_process_ends_during_a_blocked_call(raw: RawServer, tmp_path: Path) -> None:
    raw.call(2, "memory_add", text="We use pnpm")
    assert raw.receive()["id"] == 2
    with write_lock(tmp_path):
        raw.call(3, "memory_add", text="We use vite")
        time.sleep(0.5)
        start_time = time.monotonic()
        said, errors = raw.wait_for_end()
        assert time.monotonic() - start_time < 10  # the store alone would wait 15 seconds
    assert "Traceback" not in errors
    assert not any(json.loads(line)["id"] != 3 for line in said.splitlines())
    assert "pnpm" in run_cofio(tmp_path, "list")


def test_blocked_write_does_not_block_searches(raw: RawServer, tmp_path: Path) -> None:
    raw.call(2, "memory_add", text="We use pnpm")
    assert raw.receive()["id"] == 2
    with write_lock(tmp_path):
        raw.call(3, "memory_add", text="The release is cut on Tuesdays")
        raw.call(4, "memory_search", query="what do we use?")
        assert raw.receive()["id"] == 4  # the search overtakes the write
    result = raw.receive()
    assert result["id"] == 3
    assert result["result"]["structuredContent"]["new"]


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_the_process_at_once(raw: RawServer, signal_number: signal.Signals) -> None:
    raw.call(2, "memory_add", text="We use pnpm")
    assert raw.receive()["id"] == 2
    raw.child.send_signal(signal_number)
    assert raw.child.wait(TIMEOUT_S) == 0
    assert raw.child.stderr
    assert raw.child.stderr.read() == ""


def test_client_that_dies_without_reading_ends_the_process(raw: RawServer) -> None:
    assert raw.child.stdin
    assert raw.child.stdout
    assert raw.child.stderr
    raw.child.stdout.close()
    raw.call(2, "memory_history", id=1)
    time.sleep(1.0)  # nobody reads the answer
    raw.child.stdin.close()
    assert raw.child.wait(TIMEOUT_S) == 0
    assert "Traceback" not in raw.child.stderr.read()


def test_invalid_lines_do_not_end_the_process(raw: RawServer) -> None:
    assert raw.child.stdin
    raw.child.stdin.write('nonsense\n{"jsonrpc": "2.0"}\n[]\n\x00\n"\\ud800"\n')
    raw.call(2, "memory_history", id=1)
    assert raw.receive()["result"]["isError"]


def test_missing_sdk_error_says_how_to_install_it() -> None:
    script = "import sys; sys.modules['mcp'] = None; from cofio.cli import main; sys.argv = ['cofio', 'mcp']; main()"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, input="")
    assert (result.returncode, result.stdout) == (2, "")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert f"{sys.executable} -m pip install '{extras['mcp'][0]}'" in result.stderr
    assert "Traceback" not in result.stderr


def start_with_sdk(home: Path, *code: str) -> subprocess.Popen[str]:
    """Start `cofio mcp` with a module of this code in place of the SDK."""
    sdk = home / "elsewhere" / "mcp"
    sdk.mkdir(parents=True)
    (sdk / "__init__.py").write_text("\n".join(code))
    path = os.pathsep.join(filter(None, (str(sdk.parent), os.environ.get("PYTHONPATH", ""))))
    env = isolated_env(home, {"PYTHONPATH": path})
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(COMMAND, env=env, text=True, cwd=home, **pipes)


def test_output_while_the_sdk_loads_is_not_part_of_the_protocol(tmp_path: Path) -> None:
    child = start_with_sdk(
        tmp_path, "import os, time", "os.write(1, b'one\\n'); print('two', flush=True)", "time.sleep(600)"
    )
    assert child.stderr
    assert {child.stderr.readline(), child.stderr.readline()} == {"one\n", "two\n"}
    child.terminate()
    assert child.communicate(timeout=TIMEOUT_S) == ("", "")
    assert child.returncode == 0


def test_incomplete_sdk_ends_with_the_install_command(tmp_path: Path) -> None:
    child = start_with_sdk(tmp_path, "import some_part_of_it")
    reply, log = child.communicate(json.dumps(INITIALIZE_MESSAGES[0]) + "\n", timeout=TIMEOUT_S)
    assert (child.returncode, reply) == (2, "")
    assert "some_part_of_it is missing" in log
    assert "pip install" in log
    assert "Traceback" not in log


def test_client_that_disconnects_at_once_ends_the_server(tmp_path: Path) -> None:
    done = subprocess.run(COMMAND, env=isolated_env(tmp_path), input="", capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_invalid_setting_is_reported_before_the_protocol_starts(tmp_path: Path) -> None:
    command = [*COMMAND, "--home", str(tmp_path)]
    (tmp_path / "config.toml").write_text("colour = 'red'\n")
    result = subprocess.run(command, capture_output=True, text=True, check=False, input="", env=dict(os.environ))
    assert (result.returncode, result.stdout) == (1, "")
    assert "colour" in result.stderr
