"""Server process: socket, signals, and orderly shutdown."""

from __future__ import annotations

import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import uvicorn

from cofio import bootstrap
from cofio.core import Keeper
from cofio.errors import Misconfigured
from cofio.models.diagnostics import Doctor
from cofio.ports import Clock
from cofio.server.http.app import make
from cofio.server.http.auth import EVERYWHERE
from cofio.server.http.connections import ConnectionLimits, ConnectionPool, LimitedProtocol
from cofio.server.http.key_cache import Ticks
from cofio.server.http.peer import is_loopback
from cofio.settings import Settings

_FINISH = 5  # seconds for requests to finish after a stop was requested


def run(
    keeper: Keeper, settings: Settings, ready: Callable[[str], None] | None = None, doctor: Doctor | None = None
) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP; then finish running requests and close the keeper.

    `ready` is called with the service's URL as soon as it answers.
    """
    try:
        log_to_stderr(settings)
        HttpServer(keeper, settings, doctor=doctor).run(ready)
    finally:
        keeper.close()


class HttpServer:
    """Service with its socket, which is bound on creation: port 0 has become a real one."""

    def __init__(
        self,
        keeper: Keeper,
        settings: Settings,
        clock: Clock = bootstrap.now,
        ticks: Ticks = time.monotonic,
        doctor: Doctor | None = None,
        limits: ConnectionLimits | None = None,
    ) -> None:
        # Validate before the socket is opened: on error it would stay open.
        app = make(keeper, settings, clock, ticks, doctor)
        self._socket = _bind(settings, keyed=bool(settings.api_key) or keeper.services.keys.is_required())
        self.url = _url(self._socket)
        limits = limits or ConnectionLimits()
        config = uvicorn.Config(
            app,
            http=partial(LimitedProtocol, ConnectionPool(limits)),  # type: ignore[arg-type]
            ws="none",
            lifespan="on",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=_FINISH,
            backlog=limits.backlog,
        )
        self._server = _Uvicorn(config)
        self._server.ending = app.state.ending

    def run(self, ready: Callable[[str], None] | None = None) -> None:
        """Serve until a signal arrives, or `stop` is called."""
        if ready:
            self._server.ready = lambda: ready(self.url)
        with self._socket, self._stop_on_signals():
            self._server.run([self._socket])

    def stop(self) -> None:
        """Request the end, from any thread; `run` returns after it."""
        self._server.should_exit = True

    @contextmanager
    def _stop_on_signals(self) -> Iterator[None]:
        # uvicorn raises the signal again after it has stopped; a requested stop is not a failure.
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
        if before[signal.SIGHUP] is signal.SIG_IGN:  # under nohup it outlives its terminal
            del before[signal.SIGHUP]
        for number in before:
            signal.signal(number, lambda *_: self.stop())
        try:
            yield
        finally:
            for number, old in before.items():
                signal.signal(number, old)


class _Uvicorn(uvicorn.Server):
    """uvicorn server with callbacks on start and on shutdown."""

    ready: Callable[[], None] | None = None
    ending: Callable[[], None] = staticmethod(lambda: None)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.ready:
            self.ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.ending()  # it waits for every client: event streams must end first
        await super().shutdown(sockets)


def log_to_stderr(settings: Settings) -> None:
    """Log to stderr at the level of the settings, unless logging is already configured."""
    levels = logging.getLevelNamesMapping()
    name = settings.log_level.strip().upper()
    if name not in levels:
        raise Misconfigured(f"log_level is {settings.log_level!r}.", "Give debug, info, warning or error.")
    logging.basicConfig(level=levels[name], format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for library in ("httpx2", "httpcore2"):  # they would log every request to a provider, with its address
        logging.getLogger(library).setLevel(logging.WARNING)


def _bind(settings: Settings, *, keyed: bool) -> socket.socket:
    host, port = settings.host, settings.port
    try:
        infos = socket.getaddrinfo(host.strip("[]") or "0.0.0.0", port, type=socket.SOCK_STREAM)  # noqa: S104
    except (OSError, UnicodeError) as error:
        hint = "Set COFIO_HOST to an address of this machine."
        raise Misconfigured(f"The host {host!r} has no address on this machine.", hint) from error
    infos.sort(key=lambda info: info[0] != socket.AF_INET)  # clients try 127.0.0.1 for localhost
    family, _, _, _, address = infos[0]
    if not keyed and not is_loopback(str(address[0])):
        hint = "Create a key with `cofio keys create` or set COFIO_API_KEY; or set COFIO_HOST to 127.0.0.1."
        raise Misconfigured(f"The service would listen on {host or 'every address'} without an API key.", hint)
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        listening.close()
        hint = "See `cofio status` if the service is already running; COFIO_PORT sets another port."
        raise Misconfigured(f"Cannot listen on {host}:{port}: {error.strerror}.", hint) from error
    return listening


def _url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    if host in EVERYWHERE:
        host = "::1" if ":" in host else "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
