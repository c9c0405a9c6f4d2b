"""The mcp command: the MCP server for agents."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from cofio.cli import output
from cofio.cli.shared_options import CliContext, Memories, command
from cofio.server.mcp import SDK

if TYPE_CHECKING:
    from cofio.core import Keeper
    from cofio.server.mcp.dispatcher import Dispatcher

_FINISH = 1.5  # seconds to finish running calls when the client disconnects; some clients kill after two


@command(
    "mcp",
    "cofio mcp                        # an agent starts this",
    "claude mcp add cofio -- cofio mcp",
    "codex mcp add cofio -- cofio mcp",
)
@click.option(
    "--folder",
    envvar="CLAUDE_PROJECT_DIR",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Folder whose project the agent works on. Default: CLAUDE_PROJECT_DIR, else the current folder.",
)
def mcp(session: CliContext, folder: Path | None) -> None:
    """Serve MCP over standard input and output, for agents, until the input ends.

    Uses the service if one runs, else the store itself. Needs the MCP SDK: pip install "cofio[mcp]".
    """
    # Standard output is the protocol's: log to standard error.
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("cofio").setLevel(session.settings.log_level.strip().upper())
    for name in ("mcp", "mcp_types"):
        if find_spec(name) is None:
            raise _make_usage_error(name)
    if sys.stdin.isatty():
        output.say("This is an MCP server, to be started by an agent. Ctrl-D ends it.")
    at_hand = SessionMemories(session)
    with _ended_by_signals(at_hand):
        _serve(_make_dispatcher(session, folder or Path.cwd(), at_hand))
        _end(at_hand)


def _serve(dispatcher: Dispatcher) -> None:
    # Reserve standard input and output for the protocol: other output goes to standard error.
    reading = os.fdopen(os.dup(0), encoding="utf-8", errors="replace")
    writing = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    try:
        from cofio.server.mcp.sdk_server import serve_streams  # takes a second to import
    except ImportError as error:
        if (error.name or "").startswith("cofio"):
            raise
        raise _make_usage_error(error.name) from error
    serve_streams(dispatcher, reading, writing)


def _make_usage_error(name: str | None) -> click.UsageError:
    message = f"`cofio mcp` needs the MCP SDK, which is not installed or too old ({name} is missing)."
    return click.UsageError(f"{message}\nInstall it with: {sys.executable} -m pip install '{SDK}'")


def _make_dispatcher(session: CliContext, folder: Path, at_hand: SessionMemories) -> Dispatcher:
    from cofio.hooks import project
    from cofio.server.mcp.caller import BY, Caller, folder_or_name
    from cofio.server.mcp.dispatcher import Dispatcher

    here = project.project_of(str(folder.absolute()))
    default = session.settings.project or here

    def named(name: str) -> str:
        project_name = folder_or_name(name)
        return default if project_name and project_name == here else project_name

    return Dispatcher(at_hand, lambda client: Caller(default, client or BY, named))


# ── memories while a client is connected ──────────────────────────────────────────────────────────────────────────────


@dataclass
class _ConnectedMemories:
    """Open memories: of the service at this URL, or of the store itself."""

    url: str
    memories: Memories
    users: int = 0


class SessionMemories:
    """The memories of a session. The service may start or stop meanwhile, so every call checks which to use."""

    def __init__(self, session: CliContext) -> None:
        self._session = session
        self._connected: _ConnectedMemories | None = None
        self._changed = threading.Condition()

    @contextmanager
    def __call__(self, *, new: bool) -> Iterator[Memories]:
        """Yield the memories for one call; concurrent calls share them."""
        with self._changed:
            url, connected = self._session.service[0], self._connected
            if connected is None or connected.url != url:
                self._connected = None
                if connected and not connected.users:
                    connected.memories.close()
                connected = self._connected = _ConnectedMemories(url, self._session.memories(new=new))
            connected.users += 1
        try:
            memories = connected.memories
            # The service recognises this client by its name.
            yield memories if url else cast("Keeper", memories).as_assistant()
        finally:
            with self._changed:
                connected.users -= 1
                self._changed.notify_all()
                if connected is not self._connected and not connected.users:
                    connected.memories.close()

    def close(self, patience: float) -> None:
        """Close the memories when no call uses them; after this many seconds, leave them open."""
        with self._changed:
            connected, self._connected = self._connected, None
            if connected and self._changed.wait_for(lambda: not connected.users, patience):
                connected.memories.close()


@contextmanager
def _ended_by_signals(at_hand: SessionMemories) -> Iterator[None]:
    """End the process at once on a signal: the thread that waits for input would not stop."""

    def end(*_: Any) -> None:
        _end(at_hand)
        os._exit(0)

    handlers = {signum: signal.signal(signum, end) for signum in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for signum, handler in handlers.items():
            signal.signal(signum, handler)


def _end(at_hand: SessionMemories) -> None:
    """Close the memories; exit at once if a call is still running, since no client is left to receive its reply."""
    at_hand.close(_FINISH)
    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        os._exit(0)
