"""Fixtures that run `cofio mcp` in a new process, and the MCP tools in this process with the hashing embedder."""

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
from tests.mcp.sdk_client import isolated_env

CallTool = Callable[..., ToolResult]


@pytest.fixture
def open_keeper(keeper: Keeper) -> OpenMemories:
    """Return a context manager factory that opens this keeper."""

    @contextmanager
    def reached(*, new: bool) -> Iterator[Keeper]:
        yield keeper

    return reached


@pytest.fixture
def dispatcher(open_keeper: OpenMemories) -> Dispatcher:
    """Return a dispatcher in this process for clients in /home/ann/web."""
    return Dispatcher(open_keeper, lambda client: Caller("/home/ann/web", client))


@pytest.fixture
def call_tool(open_keeper: OpenMemories) -> CallTool:
    """Return a function that calls a tool, for example `call_tool("memory_search", query="…")`.

    `folder` is the project of the caller; the arguments may name another one.
    """

    def call(name: str, *, folder: str = "/home/ann/web", client: str = "claude-code", **arguments: Any) -> ToolResult:
        return answer(name, arguments, Caller(folder, client), open_keeper)

    return call


def run_cofio(home: Path, *arguments: str, **env: str) -> str:
    """Return the output of `cofio ARGUMENTS` run in a new process."""
    command = [sys.executable, "-m", "cofio", *arguments]
    result = subprocess.run(
        command, env=isolated_env(home, env), capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout
