"""The PostgreSQL server of the tests: shared by concurrent runs and stopped after the last one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests import postgres

ROOT = Path(__file__).parents[2]
WAIT_S = 120
requires_own_server = pytest.mark.skipif(
    bool(os.environ.get(postgres.URL_VARIABLE)), reason="another server was named for the tests"
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a folder that every user can enter. The folders of pytest are private."""
    with tempfile.TemporaryDirectory(prefix="cofio-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_vector_extension_is_recent_enough(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        (version,) = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
    assert tuple(int(part) for part in version.split(".")) >= (0, 8)


def test_hnsw_index_on_half_precision_vectors_finds_the_nearest(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE places (id int PRIMARY KEY, place halfvec(3))")
        connection.execute("CREATE INDEX places_hnsw ON places USING hnsw (place halfvec_cosine_ops)")
        connection.execute(
            "INSERT INTO places SELECT i, ARRAY[i, 100 - i, 1]::halfvec(3) FROM generate_series(1, 99) i"
        )
        connection.execute("SET LOCAL enable_seqscan = off")
        nearest = "SELECT id FROM places ORDER BY place <=> '[42, 58, 1]' LIMIT 1"
        plan = "".join(line for (line,) in connection.execute(f"EXPLAIN {nearest}"))
        assert "places_hnsw" in plan
        assert connection.execute(nearest).fetchone() == (42,)


def test_empty_database_has_no_tables_and_no_extension(empty_postgres_url: str) -> None:
    with psycopg.connect(empty_postgres_url) as connection:
        tables = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
        assert tables == (0,)
        assert connection.execute("SELECT count(*) FROM pg_extension WHERE extname = 'vector'").fetchone() == (0,)


def test_databases_are_separate_and_dropped_after_the_test(postgres_server: str) -> None:
    name = postgres.template(postgres_server)
    with postgres.database(postgres_server, name) as first, postgres.database(postgres_server, name) as second:
        with psycopg.connect(first) as connection:
            connection.execute("CREATE TABLE mine ()")
        with psycopg.connect(second) as connection:
            assert connection.execute("SELECT to_regclass('mine')").fetchone() == (None,)
        still_open = psycopg.connect(first)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(first)
    with pytest.raises(psycopg.OperationalError):
        still_open.execute("SELECT 1")
    still_open.close()


def test_template_is_created_once_per_schema_version(postgres_server: str) -> None:
    assert postgres.template(postgres_server) == postgres.template(postgres_server)


@requires_own_server
def test_runs_share_a_server_and_the_last_one_stops_it(folder: Path) -> None:
    with _run(folder) as first, _run(folder) as second:
        url = _read_url(first)
        assert _read_url(second) == url
        _kill(first, signal.SIGKILL)
        assert _is_reachable(url)
        _kill(second, signal.SIGKILL)
        _wait_until(lambda: not _is_reachable(url))
        _wait_until(lambda: not list(folder.glob("*/home")))


@requires_own_server
def test_server_with_a_killed_watcher_is_replaced(folder: Path) -> None:
    with _run(folder) as first:
        stale = _read_url(first)
        (watcher,) = _watchers(folder)
        os.kill(watcher, signal.SIGKILL)
        _kill(first, signal.SIGKILL)
        assert _is_reachable(stale)
    with _run(folder) as second:
        url = _read_url(second)
        assert _is_reachable(url)
        assert url != stale
        assert not _is_reachable(stale)
        _kill(second, signal.SIGTERM)
        _wait_until(lambda: not _is_reachable(url))


@requires_own_server
def test_server_that_does_not_start_reports_output_and_hint(folder: Path) -> None:
    broken = folder / "pg0" / "bin" / "pg0"
    broken.parent.mkdir(parents=True)
    (folder / "pg0" / "__init__.py").touch()
    broken.write_text("#!/bin/sh\necho no room for a database\nexit 1\n", encoding="utf-8")
    broken.chmod(0o755)
    env = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": str(folder)}
    result = subprocess.run(
        [sys.executable, "-m", "tests.postgres"], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert "does not start" in result.stderr
    assert "no room for a database" in result.stderr
    assert postgres.URL_VARIABLE in result.stderr


def test_missing_package_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pg0", None)
    with pytest.raises(postgres.Missing, match="make setup"):
        postgres._start(tmp_path)


def test_connections_to_other_hosts_are_blocked() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"another machine: elsewhere\.example"):
        psycopg.connect("postgresql://elsewhere.example/memories")


@contextmanager
def _run(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a process that uses the server of this folder; kill it at the end."""
    command = [sys.executable, "-m", "tests.postgres"]
    env = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True) as run:
        try:
            yield run
        finally:
            run.kill()


def _read_url(run: subprocess.Popen[str]) -> str:
    return run.stdout.readline().strip()


def _kill(run: subprocess.Popen[str], signal_number: int) -> None:
    run.send_signal(signal_number)
    run.wait(WAIT_S)


def _watchers(folder: Path) -> list[int]:
    listing = subprocess.run(["ps", "-eww", "-o", "pid=,args="], capture_output=True, text=True, check=True).stdout
    return [int(line.split()[0]) for line in listing.splitlines() if f"watch {folder}" in line]


def _is_reachable(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=5).close()
    except psycopg.OperationalError:
        return False
    return True


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)
