"""`cofio mcp` as a client starts it: the SDK's own client at the other end, a real store, a real service."""

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
from tests.mcp.conftest import cofio
from tests.mcp.contract import Contract, check, through_all
from tests.mcp.sdk_client import COMMAND, Started, around

__all__ = ["new_keeper"]  # a fixture of the command line's tests

ROOT = Path(__file__).parents[2]
SOON = 20.0  # seconds; usually it takes one or two
HELLO = (
    {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
)  # fmt: skip


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """An agent that starts `cofio mcp` in a folder, while a service runs, as one does where cofio is installed."""
    home, clock = tmp_path_factory.mktemp("agent"), FixedClock()
    with Keeper(SqliteStore(home / "cofio.db", clock), HashEmbedder(), clock) as keeper, serving(keeper) as url:
        with Started(home, home / "web", "--url", url) as started:
            yield started
        assert "Traceback" not in started.log


@pytest.fixture(scope="module")
def where(agent: Started) -> str:
    return project.project_of(str(agent.folder))


class TestContract(Contract):
    """What every agent is promised, of one that starts `cofio mcp`."""


# ── on the store itself ───────────────────────────────────────────────────────────────────────────────────────────────


def test_every_tool_works_on_the_store_with_the_real_model(tmp_path: Path) -> None:
    with Started(tmp_path, tmp_path / "web") as agent:
        check(through_all(agent))
        assert (
            agent.every_resource()[0]
            == f"cofio://project/{quote(project.project_of(str(agent.folder)), safe='')}/briefing"
        )
        assert "Postgres" in agent.read(agent.every_resource()[0])[0]
        assert "Postgres" in str(agent.prompt("what_do_we_know", topic="the billing database").messages)
    assert agent.log == ""


@pytest.mark.parametrize(("mode", "version"), [("legacy", "2025-11-25"), ("auto", "2026-07-28")])
def test_clients_of_the_old_and_of_the_new_protocol_are_served(tmp_path: Path, mode: str, version: str) -> None:
    with Started(tmp_path, tmp_path / "web", mode=mode, name="codex-mcp-client") as agent:
        assert agent.version == version
        agent.told("memory_add", text="We use pnpm")
        told = agent.told("memory_search", query="pnpm")["memories"][0]
        assert told["source"] == "codex/web"
    assert agent.log == ""


def test_a_store_that_is_damaged_is_told_as_a_result(tmp_path: Path) -> None:
    (tmp_path / "broken.db").write_bytes(b"this is not a database, whatever its name says" * 100)
    with Started(tmp_path, tmp_path / "web", "--store", str(tmp_path / "broken.db")) as agent:
        assert "broken.db" in agent.refused("memory_search", query="anything")


def test_a_store_that_was_named_is_made_by_what_remembers_alone(tmp_path: Path) -> None:
    with Started(tmp_path, tmp_path / "web", "--store", str(tmp_path / "named.db")) as agent:
        assert "There is no store" in agent.refused("memory_search", query="anything")
        assert not (tmp_path / "named.db").exists()
        agent.told("memory_add", text="We use pnpm")
        assert agent.found("pnpm") == ["We use pnpm"]


# ── in which project ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_project_is_that_of_the_folder_and_a_folder_names_it(tmp_path: Path) -> None:
    web, shop = tmp_path / "web", tmp_path / "shop"
    shop.mkdir()
    with Started(tmp_path, web) as agent:
        agent.told("memory_add", text="The web deploys with Fly.io")
        agent.told("memory_add", text="The shop deploys with Render", project=str(shop))
        agent.told("memory_add", text="Nobody deploys on a Friday", project="")
        assert set(agent.found("deploys")) == {"The web deploys with Fly.io", "Nobody deploys on a Friday"}
        assert set(agent.found("deploys", project=str(shop))) == {
            "The shop deploys with Render",
            "Nobody deploys on a Friday",
        }
        places = {each["project"] for each in agent.told("memory_search", query="deploys", project="*")["memories"]}
    assert places == {project.project_of(str(web)), project.project_of(str(shop)), ""}


def test_the_client_may_say_where_it_is_at_work(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    with Started(tmp_path, tmp_path / "elsewhere", env={"CLAUDE_PROJECT_DIR": str(work)}) as agent:
        agent.told("memory_add", text="We use pnpm")
        assert agent.told("memory_search", query="pnpm")["memories"][0]["project"] == project.project_of(str(work))


def test_a_team_may_name_its_project(tmp_path: Path) -> None:
    with Started(tmp_path, tmp_path / "clone", env={"COFIO_PROJECT": "acme/web"}) as agent:
        agent.told("memory_add", text="We use pnpm", project=str(tmp_path / "clone"))
        told = agent.told("memory_search", query="pnpm")["memories"][0]
    assert (told["project"], told["source"]) == ("acme/web", "claude-code/web")


def test_no_project_stays_none_whatever_the_team_says(tmp_path: Path) -> None:
    with Started(tmp_path, tmp_path, env={"COFIO_PROJECT": "acme/web"}) as agent:
        agent.told("memory_add", text="Nobody deploys on a Friday", project="")
        told = agent.told("memory_search", query="who deploys?", project="")["memories"][0]
        assert (told["project"], told["source"]) == ("", "claude-code")
        assert agent.found("who deploys?", project="/" + "a" * 1_000) == ["Nobody deploys on a Friday"]


def test_a_linked_working_tree_is_the_same_project(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        who = ("-c", "user.name=Ann", "-c", "user.email=ann@example.com")
        subprocess.run(["git", *who, *arguments], cwd=tmp_path / "web", check=True, capture_output=True)

    (tmp_path / "web" / "src").mkdir(parents=True)
    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "Start")
    git("worktree", "add", "-q", str(tmp_path / "fix"))
    with Started(tmp_path, tmp_path / "fix") as agent:
        agent.told("memory_add", text="We use pnpm")
        told = agent.told("memory_search", query="pnpm", project=str(tmp_path / "web" / "src"))["memories"][0]
    assert (told["project"], told["source"]) == (project.project_of(str(tmp_path / "web")), "claude-code/web")


# ── on the service ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_where_a_service_runs_nothing_is_kept_beside_it(tmp_path: Path, new_keeper: Callable[[str], Keeper]) -> None:
    keeper = new_keeper("served")
    with running_service(keeper, Settings(port=0)) as url:
        with Started(tmp_path, tmp_path / "web", "--url", url) as agent:
            agent.told("memory_add", text="We use pnpm")
        assert not (tmp_path / "cofio").exists()
    assert keeper.changes()[0].by == "mcp"


def test_a_service_that_is_gone_is_told_as_a_result(tmp_path: Path, new_keeper: Callable[[str], Keeper]) -> None:
    with ExitStack() as service:
        url = service.enter_context(running_service(new_keeper("served"), Settings(port=0)))
        with Started(tmp_path, tmp_path / "web", "--url", url) as agent:
            agent.told("memory_add", text="We use pnpm")
            service.close()
            assert "cofio up" in agent.refused("memory_search", query="pnpm")


def test_the_service_may_come_and_go_meanwhile(tmp_path: Path) -> None:
    quiet = {"COFIO_PORT": "0"}
    with Started(tmp_path, tmp_path / "web") as agent:
        agent.told("memory_add", text="We use pnpm")
        cofio(tmp_path, "up", COFIO_API_KEY="known to the service alone", **quiet)
        try:
            assert "key" in agent.refused("memory_search", query="pnpm").lower()  # so it was the service that was asked
        finally:
            cofio(tmp_path, "down", "--force")
        assert agent.found("pnpm") == ["We use pnpm"]
    assert agent.log == ""


# ── the process ───────────────────────────────────────────────────────────────────────────────────────────────────────


class Raw:
    """`cofio mcp` at the end of two pipes, with nothing in between."""

    def __init__(self, home: Path) -> None:
        self.child = subprocess.Popen(
            COMMAND, env=around(home), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, cwd=home, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
        self.say(*HELLO)
        assert self.hear()["result"]["serverInfo"]["name"] == "cofio"

    def say(self, *messages: dict[str, Any]) -> None:
        assert self.child.stdin
        self.child.stdin.write("".join(json.dumps(message) + "\n" for message in messages))
        self.child.stdin.flush()

    def call(self, number: int, name: str, **arguments: Any) -> None:
        params = {"name": name, "arguments": arguments}
        self.say({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})

    def hear(self) -> dict[str, Any]:
        assert self.child.stdout
        told: dict[str, Any] = json.loads(self.child.stdout.readline())
        return told

    def ended(self) -> tuple[str, str]:
        """What it said last, on either stream; it must end by itself."""
        said, errors = self.child.communicate(timeout=SOON)
        assert self.child.returncode == 0
        return said, errors


@pytest.fixture
def raw(tmp_path: Path) -> Iterator[Raw]:
    started = Raw(tmp_path)
    yield started
    started.child.kill()
    started.child.wait()
    for stream in (started.child.stdin, started.child.stdout, started.child.stderr):
        assert stream
        with suppress(BrokenPipeError):
            stream.close()


@contextmanager
def locked(home: Path) -> Iterator[None]:
    """The store, with somebody else in the midst of writing it."""
    writer = sqlite3.connect(home / "cofio" / "cofio.db", isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        writer.close()


def test_it_ends_when_its_input_does_and_has_said_nothing_but_protocol(raw: Raw) -> None:
    raw.call(2, "memory_add", text="We use pnpm")
    raw.call(3, "memory_history", id="<none>")
    assert {raw.hear()["id"], raw.hear()["id"]} == {2, 3}
    assert raw.ended() == ("", "")


def test_it_ends_though_a_call_is_not_done(raw: Raw, tmp_path: Path) -> None:
    raw.call(2, "memory_add", text="We use pnpm")
    assert raw.hear()["id"] == 2
    with locked(tmp_path):
        raw.call(3, "memory_add", text="We use vite")
        time.sleep(0.5)
        began = time.monotonic()
        said, errors = raw.ended()
        assert time.monotonic() - began < 10  # the store alone would have been waited for for 15
    assert "Traceback" not in errors
    assert not any(json.loads(line)["id"] != 3 for line in said.splitlines())
    assert "pnpm" in cofio(tmp_path, "list")


def test_a_write_waits_for_its_turn_while_searches_go_on(raw: Raw, tmp_path: Path) -> None:
    raw.call(2, "memory_add", text="We use pnpm")
    assert raw.hear()["id"] == 2
    with locked(tmp_path):
        raw.call(3, "memory_add", text="The release is cut on Tuesdays")
        raw.call(4, "memory_search", query="what do we use?")
        assert raw.hear()["id"] == 4  # the search does not wait behind the write
    told = raw.hear()
    assert told["id"] == 3
    assert told["result"]["structuredContent"]["new"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_at_once_though_its_input_is_open(raw: Raw, number: signal.Signals) -> None:
    raw.call(2, "memory_add", text="We use pnpm")
    assert raw.hear()["id"] == 2
    raw.child.send_signal(number)
    assert raw.child.wait(SOON) == 0
    assert raw.child.stderr
    assert raw.child.stderr.read() == ""


def test_a_client_that_dies_without_reading_its_answer_leaves_nobody_behind(raw: Raw) -> None:
    assert raw.child.stdin
    assert raw.child.stdout
    assert raw.child.stderr
    raw.child.stdout.close()
    raw.call(2, "memory_history", id=1)
    time.sleep(1.0)  # the answer finds nobody
    raw.child.stdin.close()
    assert raw.child.wait(SOON) == 0
    assert "Traceback" not in raw.child.stderr.read()


def test_lines_that_are_no_protocol_do_not_end_it(raw: Raw) -> None:
    assert raw.child.stdin
    raw.child.stdin.write('nonsense\n{"jsonrpc": "2.0"}\n[]\n\x00\n"\\ud800"\n')
    raw.call(2, "memory_history", id=1)
    assert raw.hear()["result"]["isError"]


def test_without_the_sdk_it_says_how_to_install_it() -> None:
    script = "import sys; sys.modules['mcp'] = None; from cofio.cli import main; sys.argv = ['cofio', 'mcp']; main()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, input="")
    assert (done.returncode, done.stdout) == (2, "")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert f"{sys.executable} -m pip install '{extras['mcp'][0]}'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_setting_is_told_before_the_protocol_begins(tmp_path: Path) -> None:
    command = [*COMMAND, "--home", str(tmp_path)]
    (tmp_path / "config.toml").write_text("colour = 'red'\n")
    done = subprocess.run(command, capture_output=True, text=True, check=False, input="", env=dict(os.environ))
    assert (done.returncode, done.stdout) == (1, "")
    assert "colour" in done.stderr
