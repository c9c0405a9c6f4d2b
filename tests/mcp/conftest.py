"""`cofio mcp` as clients start it, and the tools in this process on a keeper that hashes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cofio.keeper import Keeper
from cofio.mcp.acts import Caller
from cofio.mcp.answers import Answer
from cofio.mcp.tools import answer
from tests.mcp.agent import Started, around

Ask = Callable[..., Answer]


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """An agent at work in a folder, on a store of its own with the real model; tests add to what others left there."""
    home = tmp_path_factory.mktemp("agent")
    with Started(home, home / "web") as started:
        yield started
    assert "Traceback" not in started.log


@pytest.fixture
def ask(keeper: Keeper) -> Ask:
    """Calls a tool in this process: `ask("memory_search", query="…")`, in /home/ann/web unless said otherwise."""

    @contextmanager
    def reach(*, new: bool) -> Iterator[Keeper]:
        yield keeper

    def asked(name: str, *, at: str = "/home/ann/web", client: str = "claude-code", **arguments: Any) -> Answer:
        return answer(name, arguments, Caller(at, client), reach)

    return asked


def cofio(home: Path, *arguments: str, **env: str) -> str:
    """What `cofio ARGUMENTS` prints, in a process of its own."""
    command = [sys.executable, "-m", "cofio", *arguments]
    done = subprocess.run(command, env=around(home, env), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
