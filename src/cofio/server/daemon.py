"""Background service: one instance per store, guarded by a file lock rather than a PID.

    STORE.service   locked (flock) by the serving process while it runs; holds pid, url, version, started_at

The lock file lies beside the store's file. A store on a database server may be served by many processes, but only by
one for each home: there the lock file lies in the home.

The kernel releases the lock however the process ends, so an unlocked file means that no service runs, whatever its
content.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from cofio.client import Client
from cofio.errors import (
    CofioError,
    Conflict,
    Denied,
    Misconfigured,
    MissingKey,
    StoreError,
    TooManyTries,
    Unavailable,
    WrongKey,
)
from cofio.hooks import endpoint_file, launcher, run_log
from cofio.hooks.environment import normalize_url
from cofio.server import service_key
from cofio.settings import Settings
from cofio.version import __version__

if TYPE_CHECKING:
    from cofio.core import Keeper
    from cofio.models.diagnostics import Doctor

_log = logging.getLogger(__name__)

_START_SECONDS = 20.0
_STOP_SECONDS = 10.0
_WARM_SECONDS = 3.0
_STEP = 0.05  # seconds between two checks
_GLANCE = 1.0  # seconds that a mere check of the lock may delay taking it
_LOG_BYTES = 5 * 1024 * 1024
_TAIL_LINES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """Running service. `url` is empty while it starts."""

    pid: int
    url: str = ""
    version: str = ""
    started_at: str = ""
    host: str = ""
    home: str = ""  # folder with the key of the service


def lock_path(settings: Settings) -> Path:
    """Return the lock file of the store. Different paths to one store give the same file."""
    if settings.store_file is None:
        mark = hashlib.sha256(settings.store_name.encode()).hexdigest()[:12]
        return settings.home.resolve() / f"server-{mark}.service"
    store = settings.store_file.resolve()
    return store.with_name(store.name + ".service")


def log_path(settings: Settings) -> Path:
    """Return the log file of a detached service."""
    return settings.home / "service.log"


def find(settings: Settings) -> Instance | None:
    """Return the instance that serves this store, if one runs."""
    try:
        with lock_path(settings).open("rb") as file:
            return None if _take(file, fcntl.LOCK_SH) else _read_instance(file)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(lock_path(settings), error) from error


def locate(settings: Settings) -> tuple[str, str]:
    """Return URL and key of the configured service, else of the one that serves this store; "" if none runs."""
    instance: Instance | None = None
    with suppress(StoreError) if settings.url else nullcontext():
        instance = find(settings)
    url = settings.url or (instance.url if instance else "")
    return url, settings.api_key or _read_home_key(instance, url)


def find_home_key(settings: Settings) -> str:
    """Return the key of the home of the service that serves this store, unless another service is configured."""
    instance = find(settings)
    return _read_home_key(instance, settings.url or (instance.url if instance else ""))


def _read_home_key(instance: Instance | None, url: str) -> str:
    """Return the key of the service's home if it is at this URL: only the holder of the lock is sent the key."""
    if instance is None or not instance.url or normalize_url(url) != normalize_url(instance.url):
        return ""
    return service_key.read(Path(instance.home)) if instance.home else ""


# ── serving ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def serve(
    settings: Settings,
    open_keeper: Callable[[Settings], Keeper],
    announce: Callable[[Instance], None],
    doctor: Doctor | None = None,
) -> None:
    """Serve the store in this process until stopped. Conflict if another process already does."""
    from cofio.server.http import server as serving

    serving.log_to_stderr(settings)
    with _hold_lock(settings) as hold:
        keeper = open_keeper(settings)

        def warm() -> None:
            try:
                keeper.warm()
                keeper.embed_missing()  # left by an interrupted re-embedding or undo
            except CofioError as error:  # searching reports the same error
                _log.warning("embedding model not loaded: %s", error)

        warming = threading.Thread(target=warm, name="cofio-warming", daemon=True)

        def ready(url: str) -> None:
            announce(hold(url))
            deadlines = (settings.hook_recall_timeout_ms, settings.hook_capture_timeout_ms)
            key = settings.api_key or service_key.read(settings.home)
            where = (settings.home, url, key, deadlines, settings.store_name)
            endpoint_file.write_endpoint(*where, settings.start_tokens, lock_path(settings))
            launcher.write(settings.home)
            warming.start()

        try:
            serving.run(keeper, settings, ready, doctor)  # closes the keeper
        finally:
            endpoint_file.remove(settings.home, settings.store_name)
            if warming.is_alive():
                warming.join(_WARM_SECONDS)  # an interpreter that exits while a model is being loaded aborts


@contextmanager
def _hold_lock(settings: Settings) -> Iterator[Callable[[str], Instance]]:
    """Hold the lock; yield a function that writes the URL. The file is deleted on exit."""
    path = lock_path(settings)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = _lock(path)
    except OSError as error:
        raise _unusable(path, error) from error
    with file:
        started_at = datetime.now(UTC).isoformat(timespec="seconds")
        mine = Instance(
            pid=os.getpid(),
            version=__version__,
            started_at=started_at,
            host=platform.node(),
            home=str(settings.home.resolve()),
        )
        _write(file, mine)

        def listening(url: str) -> Instance:
            _write(file, replace(mine, url=url))
            return replace(mine, url=url)

        try:
            yield listening
        finally:
            if _is_at(file, path):
                path.unlink()  # while still locked, so that no other process has taken it


def _lock(path: Path) -> IO[bytes]:
    deadline = time.monotonic() + _GLANCE
    while True:
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b", buffering=0)
        if _take(file, fcntl.LOCK_EX):
            if _is_at(file, path):
                return file
            file.close()  # its holder has just deleted it
            continue
        holder = _read_instance(file)
        file.close()
        if time.monotonic() > deadline:
            where = f" at {holder.url}" if holder.url else ", still starting"
            hint = "Use that service, or stop it with `cofio down`."
            raise Conflict(f"This store is already served{where} (pid {holder.pid}).", hint)
        time.sleep(_STEP)


def _take(file: IO[bytes], how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _write(file: IO[bytes], instance: Instance) -> None:
    content = json.dumps(asdict(instance)).encode()
    file.seek(0)
    file.write(content)
    file.truncate(len(content))


def _read_instance(file: IO[bytes]) -> Instance:
    """Return what the holder has written; pid 0 if it has not written yet."""
    try:
        file.seek(0)
        content = json.loads(file.read())
        return Instance(**{field.name: content[field.name] for field in fields(Instance) if field.name in content})
    except (ValueError, TypeError):
        return Instance(pid=0)


# ── up ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def up(settings: Settings) -> tuple[Instance, bool]:
    """Return the service of this store once it answers, and whether it was started now."""
    own_urls = {f"http://{name}:{settings.port}" for name in (settings.host, "127.0.0.1", "localhost", "[::1]")}
    if settings.url and settings.url.rstrip("/") not in own_urls:
        # A local service would get no queries, but captures meant for the other.
        where = settings.origins.get("url") or "url"
        hint = f"Start it there, or unset {where} to run a local one."
        raise Misconfigured(f"The configured service is {settings.url}, which is not on this machine.", hint)
    if instance := find(settings):
        return _wait_for_answer(settings, instance, time.monotonic() + _START_SECONDS), False
    log = log_path(settings)
    since = _open_log(log)
    child = _spawn(settings, log)
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        instance = find(settings)
        if instance and instance.url:
            if instance.pid != child.pid:  # another `up` was faster; ours must not wait for the lock
                child.terminate()
                child.wait()
            return _wait_for_answer(settings, instance, deadline), instance.pid == child.pid
        if instance is None and child.poll() is not None:
            raise Unavailable(f"The service did not start.\n{_read_tail(log, since)}", f"The full log is in {log}.")
        time.sleep(_STEP)
    message = f"The service (pid {child.pid}) is not ready after {_START_SECONDS:g} s.\n{_read_tail(log, since)}"
    raise Unavailable(message, f"A large store takes longer: see `cofio status` and {log}.")


def _wait_for_answer(settings: Settings, instance: Instance, deadline: float) -> Instance:
    """Return the instance once /health answers. A starting instance may have exited since."""
    while time.monotonic() < deadline:
        if instance.url:
            with suppress(Unavailable), Client(instance.url, timeout=2.0) as client:
                client.health()
                return instance
        time.sleep(_STEP)
        current = find(settings)
        if current is None:
            raise Unavailable("The service stopped while it was starting.", f"See {log_path(settings)}.")
        instance = current
    hint = f"See {log_path(settings)}, or stop it with `cofio down`."
    raise Unavailable(f"The service (pid {instance.pid}) does not answer.", hint)


def _spawn(settings: Settings, log: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "cofio", "--home", str(settings.home), "serve"]  # -P: no module of the home
    command += ["--host", settings.host, "--port", str(settings.port)]
    # The child runs in another folder: write out what is relative to this one.
    store = settings.store if settings.store_file is None else f"sqlite://{settings.store_file}"
    with _pipe(settings.api_key) as key, _pipe(store) as where, log.open("ab") as output:
        return subprocess.Popen(  # noqa: S603
            [*command, "--api-key-fd", str(key), "--store-fd", str(where)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=settings.home,
            start_new_session=True,
            pass_fds=[key, where],
        )


@contextmanager
def _pipe(secret: str) -> Iterator[int]:
    """Yield a pipe that holds the text: every user can read command lines."""
    reading, writing = os.pipe()
    try:
        os.write(writing, secret.encode())
        os.close(writing)
        yield reading
    finally:
        os.close(reading)


def _open_log(log: Path) -> int:
    """Return the offset of the next log line. A full log is rotated."""
    try:
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if log.exists() and log.stat().st_size > _LOG_BYTES:
            log.replace(log.with_name(log.name + ".1"))
        log.touch(mode=0o600)
        return log.stat().st_size
    except OSError as error:
        raise _unusable(log, error) from error


def _read_tail(log: Path, since: int) -> str:
    with log.open("rb") as file:
        file.seek(since)
        lines = file.read().decode(errors="replace").strip().splitlines()
    return "\n".join(lines[-_TAIL_LINES:]) or "It wrote no output."


# ── down ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def down(settings: Settings, *, force: bool = False) -> Instance | None:
    """Stop the running instance and return it; None if none runs. Kill it only if forced."""
    instance = find(settings)
    deadline = time.monotonic() + _STOP_SECONDS
    while instance:  # a new instance needs time to overwrite the PID of one that died
        time.sleep(2 * _STEP)
        previous, instance = instance, find(settings)
        if instance is None or (instance.pid and instance.pid == previous.pid):
            break
        if time.monotonic() > deadline:
            raise Unavailable(f"{lock_path(settings)} is locked by an unknown process.", "Try again in a moment.")
    if instance is None:
        return None

    _send(instance, signal.SIGTERM)
    if _wait_for_release(settings, instance):
        return instance
    if not force:
        hint = "It may be finishing long work; `cofio down --force` ends it at once."
        raise Unavailable(f"The service (pid {instance.pid}) has not stopped in {_STOP_SECONDS:g} s.", hint)
    _send(instance, signal.SIGKILL)
    if not _wait_for_release(settings, instance):
        hint = "It waits for the operating system, often for a disk; try again later."
        raise Unavailable(f"The service (pid {instance.pid}) cannot be stopped.", hint)
    return instance


def _send(instance: Instance, number: signal.Signals) -> None:
    if instance.host != platform.node():
        hint = "Stop it there."
        raise Denied(f"The service runs on {instance.host or 'another machine'}, or in a container.", hint)
    try:
        os.kill(instance.pid, number)
    except ProcessLookupError:
        return  # exited already
    except PermissionError as error:
        raise Denied(f"The service (pid {instance.pid}) belongs to another user.", "Stop it as that user.") from error


def _wait_for_release(settings: Settings, instance: Instance) -> bool:
    deadline = time.monotonic() + _STOP_SECONDS
    while time.monotonic() < deadline:
        current = find(settings)
        if current is None or (current.pid and current.pid != instance.pid):
            return True
        time.sleep(_STEP)
    return False


# ── status ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def status(settings: Settings) -> dict[str, Any]:
    """Return whether the service runs and answers, its address, its own report and the role of our key."""
    instance = None if settings.url else find(settings)
    state: dict[str, Any] = {
        "running": instance is not None,
        "answering": False,
        "url": settings.url or (instance.url if instance else settings.service_url),
        **dict.fromkeys(("pid", "version", "uptime_seconds", "memories")),
        "store": settings.shown("store"),
        "embedder": settings.embedder,
        "key": None,
        "role": None,
    }
    if instance:
        started_at = datetime.fromisoformat(instance.started_at) if instance.started_at else datetime.now(UTC)
        uptime = round((datetime.now(UTC) - started_at).total_seconds(), 1)
        state.update(pid=instance.pid, version=instance.version, uptime_seconds=uptime)
    if settings.url or (instance and instance.url):
        state.update(_check_health(*locate(settings)))
    if settings.url:
        state.update(running=state["answering"], store=None)
    return {**state, "hooks": run_log.summary(settings.home)}


def _check_health(url: str, key: str) -> dict[str, Any]:
    with Client(url, key, timeout=5.0) as client:
        try:
            health = client.health()
            fields = {"health": "status", "version": "version", "memories": "memories", "problems": "problems"}
            answer = {"answering": True, **{name: health[field] for name, field in fields.items() if field in health}}
            if health.get("auth") == "missing":
                return {**answer, "key": "missing"}
            stats = client.stats()
            details = {name: stats[name] for name in ("embedder", "uptime_seconds") if stats.get(name) is not None}
            details["captures_waiting"] = stats.get("inbox_pending", 0)
            if until := stats.get("llm_spent_until"):
                details["llm"] = f"the daily limit is reached; captures wait until {until[:16]} UTC"
            key = "ok" if health.get("auth") == "ok" else "not needed"
            return {**answer, **details, "key": key, "role": health.get("role")}
        except (WrongKey, TooManyTries) as error:
            return {"answering": True, "key": "wrong", "problem": error.message}
        except MissingKey:
            return {"answering": True, "key": "missing"}
        except CofioError as error:
            return {"answering": False, "problem": str(error)}


def _unusable(path: Path, error: OSError) -> StoreError:
    return StoreError(f"{path} cannot be used: {error.strerror}.", "Check the path and its permissions.")
