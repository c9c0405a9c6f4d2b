"""`cofio mcp` as clients start it, and the tools in this process on a keeper that hashes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cofio.core import Keeper
from cofio.server.mcp.caller import Caller
from cofio.server.mcp.dispatcher import Dispatcher
from cofio.server.mcp.tool_results import ToolResult
from cofio.server.mcp.tools import OpenMemories, answer
from tests.mcp.sdk_client import around

Ask = Callable[..., ToolResult]


@pytest.fixture
def reach(keeper: Keeper) -> OpenMemories:
    """The way to this keeper's memories."""

    @contextmanager
    def reached(*, new: bool) -> Iterator[Keeper]:
        yield keeper

    return reached


@pytest.fixture
def counter(reach: OpenMemories) -> Dispatcher:
    """A counter in this process, for clients at work in /home/ann/web."""
    return Dispatcher(reach, lambda client: Caller("/home/ann/web", client))


@pytest.fixture
def ask(reach: OpenMemories) -> Ask:
    """Calls a tool in this process: `ask("memory_search", query="…")`, in /home/ann/web unless said otherwise."""

    def asked(name: str, *, at: str = "/home/ann/web", client: str = "claude-code", **arguments: Any) -> ToolResult:
        return answer(name, arguments, Caller(at, client), reach)

    return asked


def cofio(home: Path, *arguments: str, **env: str) -> str:
    """What `cofio ARGUMENTS` prints, in a process of its own."""
    command = [sys.executable, "-m", "cofio", *arguments]
    done = subprocess.run(command, env=around(home, env), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
