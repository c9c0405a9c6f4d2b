"""The command line in this process with the hashing embedder, and in a process of its own with the real model."""

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

VARIABLES = [variable for each in settable() for variable in each.metadata["variables"]]


def hashing_keeper(settings: Settings) -> Keeper:
    return bootstrap.keeper(settings, embedder=HashEmbedder())


class Cofio:
    """`cofio ARGUMENTS` in this process, on a home of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def __call__(self, *arguments: str, says: str | bytes | None = None, env: dict[str, str] | None = None) -> Result:
        clean: dict[str, str | None] = {**dict.fromkeys(VARIABLES), "COFIO_HOME": str(self.home), **(env or {})}
        session = CliContext(open_keeper=hashing_keeper)
        return CliRunner().invoke(cli, list(arguments), input=says, env=clean, obj=session)

    def lines(self, *arguments: str, **how: Any) -> list[str]:
        done = self(*arguments, **how)
        assert done.exit_code == 0, done.output
        return done.stdout.splitlines()

    def json(self, *arguments: str, **how: Any) -> Any:
        done = self(*arguments, "--json", **how)
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)


@pytest.fixture
def cofio(tmp_path: Path) -> Cofio:
    return Cofio(tmp_path / "home")


class Shell:
    """`python -m cofio ARGUMENTS` in a process of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        kept = {name: value for name, value in os.environ.items() if name not in VARIABLES}
        self.env = {**kept, "COFIO_HOME": str(home), "COFIO_PORT": "0"}

    def start(self, *arguments: str, **how: Any) -> subprocess.Popen[str]:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **how}
        # A runner in the background ignores Ctrl-C, and its children would inherit that.
        pipes["preexec_fn"] = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
        return subprocess.Popen([sys.executable, "-m", "cofio", *arguments], env=self.env, text=True, **pipes)

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "cofio", *arguments]
        return subprocess.run(
            command, env=self.env, text=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=120, check=False
        )

    def json(self, *arguments: str) -> Any:
        done = self(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path / "home")
    yield shell
    shell("down", "--force")


@contextmanager
def served(keeper: Keeper, settings: Settings) -> Iterator[str]:
    """The URL of a real service on this keeper."""
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


class CallersClock(FixedClock):
    """Moves when a caller reads it. What the service's worker does of its own accord, at whatever moment, leaves it."""

    def __call__(self) -> str:
        told = super().__call__()
        if threading.current_thread().name == "cofio-worker":
            self.advance(-1)
        return told


@pytest.fixture
def new_keeper(tmp_path: Path) -> Iterator[Callable[[str], Keeper]]:
    """Makes keepers whose clocks tell the same times."""
    made: list[Keeper] = []

    def make(name: str) -> Keeper:
        clock = CallersClock()
        made.append(Keeper(SqliteStore(tmp_path / f"{name}.db", clock), HashEmbedder(), clock))
        return made[-1]

    yield make
    for each in made:
        each.close()
