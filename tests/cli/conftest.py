"""Run the command line in this process with the hashing embedder, or in a new process with the real model."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cofio import bootstrap
from cofio.cli import CliContext, cli
from cofio.core import Keeper
from cofio.server.http.server import HttpServer
from cofio.settings import Settings, settable
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder

VARIABLES = [variable for setting in settable() for variable in setting.metadata["variables"]]


def hashing_keeper(settings: Settings) -> Keeper:
    return bootstrap.keeper(settings, embedder=HashEmbedder())


class InProcessCli:
    """Run `cofio ARGUMENTS` in this process with its own home folder."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def __call__(
        self, *arguments: str, input_text: str | bytes | None = None, env: dict[str, str] | None = None
    ) -> Result:
        clean: dict[str, str | None] = {**dict.fromkeys(VARIABLES), "COFIO_HOME": str(self.home), **(env or {})}
        session = CliContext(open_keeper=hashing_keeper)
        return CliRunner().invoke(cli, list(arguments), input=input_text, env=clean, obj=session)

    def lines(self, *arguments: str, **options: Any) -> list[str]:
        result = self(*arguments, **options)
        assert result.exit_code == 0, result.output
        return result.stdout.splitlines()

    def json(self, *arguments: str, **options: Any) -> Any:
        result = self(*arguments, "--json", **options)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)


@pytest.fixture
def cofio(tmp_path: Path) -> InProcessCli:
    return InProcessCli(tmp_path / "home")


class Shell:
    """Run `python -m cofio ARGUMENTS` in a new process."""

    def __init__(self, home: Path) -> None:
        self.home = home
        stored = {name: value for name, value in os.environ.items() if name not in VARIABLES}
        self.env = {**stored, "COFIO_HOME": str(home), "COFIO_PORT": "0"}

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        # A background runner ignores SIGINT, and its child processes would inherit that.
        pipes["preexec_fn"] = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
        return subprocess.Popen([sys.executable, "-m", "cofio", *arguments], env=self.env, text=True, **pipes)

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "cofio", *arguments]
        return subprocess.run(
            command, env=self.env, text=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=120, check=False
        )

    def json(self, *arguments: str) -> Any:
        result = self(*arguments, "--json")
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path / "home")
    yield shell
    shell("down", "--force")


@contextmanager
def running_service(keeper: Keeper, settings: Settings) -> Iterator[str]:
    """Run a service with this keeper and yield its URL."""
    serving = HttpServer(keeper, settings)
    ready = threading.Event()
    thread = threading.Thread(target=serving.run, args=(lambda _url: ready.set(),))
    thread.start()
    try:
        assert ready.wait(30)
        yield serving.url
    finally:
        serving.stop()
        thread.join(30)


class CallerClock(FixedClock):
    """Clock that advances when a caller reads it, but not when the inbox worker of the service does."""

    def __call__(self) -> str:
        result = super().__call__()
        if threading.current_thread().name == "cofio-worker":
            self.advance(-1)
        return result


@pytest.fixture
def new_keeper(tmp_path: Path) -> Iterator[Callable[[str], Keeper]]:
    """Yield a factory of keepers whose clocks return the same times."""
    created: list[Keeper] = []

    def make_keeper(name: str) -> Keeper:
        clock = CallerClock()
        created.append(Keeper(SqliteStore(tmp_path / f"{name}.db", clock), HashEmbedder(), clock))
        return created[-1]

    yield make_keeper
    for new in created:
        new.close()
