"""The command for agents: mcp."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cofio.cli import output
from cofio.cli.session import Memories, Session, command
from cofio.mcp import SDK

if TYPE_CHECKING:
    from cofio.mcp.counter import Counter
    from cofio.mcp.front import Serve

_FINISH = 1.5  # seconds for what is being done when the client goes; some kill after two


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
    help="The folder at work in; else CLAUDE_PROJECT_DIR, else where it is started.",
)
def mcp(session: Session, folder: Path | None) -> None:
    """Speak MCP over standard input and output, for agents, until the input ends.

    Works on the service where one runs, else on the store itself. Needs the extra `mcp`.
    """
    _log_to_stderr(session.settings.log_level)
    _look_for_sdk()
    if sys.stdin.isatty():
        output.say("This speaks MCP, for an agent that starts it. Ctrl-D ends it.")
    at_hand = AtHand(session)
    with _ended_by_signals(at_hand):
        _serve(_counter(session, folder or Path.cwd(), at_hand))
        _end(at_hand)


def _log_to_stderr(level: str) -> None:
    """Log what cofio says at this level, and the warnings of others: standard output belongs to the protocol."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("cofio").setLevel(level.strip().upper())


def _look_for_sdk() -> None:
    """Say it at once where the SDK cannot be there: it is loaded when the client has been answered."""
    for name in ("mcp", "mcp_types"):
        if find_spec(name) is None:
            raise _unusable(name)


def _serve(counter: Counter) -> None:
    from cofio.mcp.front import over_stdio

    try:
        over_stdio(partial(_transport, counter), counter)
    except ImportError as error:
        if (error.name or "").startswith("cofio"):
            raise
        raise _unusable(error.name) from error


def _transport(counter: Counter) -> Serve:
    """What serves a client by the SDK."""
    from cofio.mcp.wire import over  # a second, and only here

    return partial(over, counter)


def _unusable(name: str | None) -> click.UsageError:
    message = f"`cofio mcp` needs the MCP SDK, which is not installed or too old ({name} is missing)."
    return click.UsageError(f"{message}\nInstall it with: {sys.executable} -m pip install '{SDK}'")


def _counter(session: Session, folder: Path, at_hand: AtHand) -> Counter:
    """What answers a client, in the project of this folder."""
    from cofio.hooks import project
    from cofio.mcp.acts import BY, Caller, folder_or_name
    from cofio.mcp.counter import Counter

    here = project.of(str(folder.absolute()))
    default = session.settings.project or here

    def named(name: str) -> str:
        found = folder_or_name(name)
        return default if found and found == here else found

    return Counter(at_hand, lambda client: Caller(default, client or BY, named))


# ── the memories, for as long as the client is there ──────────────────────────────────────────────────────────────────


@dataclass
class _Held:
    """Memories that are open: those of the service at this address, or those of the store itself."""

    url: str
    memories: Memories
    users: int = 0


class AtHand:
    """The memories that the session means. The service may come and go meanwhile: every call looks where they are."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._held: _Held | None = None
        self._changed = threading.Condition()

    @contextmanager
    def __call__(self, *, new: bool) -> Iterator[Memories]:
        """The memories, for one call; many calls share them."""
        held = self._taken(new)
        try:
            yield held.memories
        finally:
            self._given_back(held)

    def close(self, patience: float) -> None:
        """Let go of the memories, once nobody uses them; after this many seconds they are left as they are."""
        with self._changed:
            held, self._held = self._held, None
            if held and self._changed.wait_for(lambda: not held.users, patience):
                held.memories.close()

    def _taken(self, new: bool) -> _Held:
        with self._changed:
            url = self._url()
            if self._held is None or self._held.url != url:
                self._retire()
                self._held = _Held(url, self._session.memories(new=new))
            self._held.users += 1
            return self._held

    def _retire(self) -> None:
        held, self._held = self._held, None
        if held and not held.users:
            held.memories.close()

    def _given_back(self, held: _Held) -> None:
        with self._changed:
            held.users -= 1
            self._changed.notify_all()
            if held is not self._held and not held.users:
                held.memories.close()

    def _url(self) -> str:
        """Where the service is that would be asked now; "" for the store itself."""
        from cofio import daemon

        settings = self._session.settings
        instance = None if settings.url else daemon.find(settings)
        return settings.url or (instance.url if instance else "")


@contextmanager
def _ended_by_signals(at_hand: AtHand) -> Iterator[None]:
    """A signal ends it at once: the thread that waits for input would wait on, and nobody writes there any more."""

    def end(*_: Any) -> None:
        _end(at_hand)
        os._exit(0)

    before = {each: signal.signal(each, end) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for each, old in before.items():
            signal.signal(each, old)


def _end(at_hand: AtHand) -> None:
    """Close what is open; end here where a call is still at it, for nobody is there to hear of it."""
    at_hand.close(_FINISH)
    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        os._exit(0)
