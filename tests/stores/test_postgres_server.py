"""The PostgreSQL that the tests run against is real, shared by all of them, and gone when they are."""

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
own = pytest.mark.skipif(bool(os.environ.get(postgres.TOLD)), reason="another server was named for the tests")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can enter, for a server beside that of the other tests; pytest's own are private."""
    with tempfile.TemporaryDirectory(prefix="cofio-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_the_extension_is_there_and_new_enough(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        (version,) = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
    assert tuple(int(part) for part in version.split(".")) >= (0, 8)


def test_an_hnsw_index_on_half_precision_finds_the_nearest(postgres_url: str) -> None:
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


def test_a_database_that_is_made_empty_has_no_table_and_no_extension(empty_postgres_url: str) -> None:
    with psycopg.connect(empty_postgres_url) as connection:
        tables = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
        assert tables == (0,)
        assert connection.execute("SELECT count(*) FROM pg_extension WHERE extname = 'vector'").fetchone() == (0,)


def test_what_one_database_has_no_other_has_and_none_outlives_its_test(postgres_server: str) -> None:
    name = postgres.template(postgres_server)
    with postgres.database(postgres_server, name) as one, postgres.database(postgres_server, name) as other:
        with psycopg.connect(one) as connection:
            connection.execute("CREATE TABLE mine ()")
        with psycopg.connect(other) as connection:
            assert connection.execute("SELECT to_regclass('mine')").fetchone() == (None,)
        still_open = psycopg.connect(one)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(one)
    with pytest.raises(psycopg.OperationalError):
        still_open.execute("SELECT 1")
    still_open.close()


def test_a_template_is_made_once_for_a_state_of_the_schema(postgres_server: str) -> None:
    assert postgres.template(postgres_server) == postgres.template(postgres_server)


@own
def test_two_runs_share_a_server_and_the_last_one_takes_it_down(folder: Path) -> None:
    with _run(folder) as first, _run(folder) as second:
        url = _said(first)
        assert _said(second) == url
        _end(first, signal.SIGKILL)
        assert _answers(url)
        _end(second, signal.SIGKILL)
        _until(lambda: not _answers(url))
        _until(lambda: not list(folder.glob("*/home")))


@own
def test_a_server_whose_watcher_was_killed_is_replaced(folder: Path) -> None:
    with _run(folder) as first:
        stale = _said(first)
        (watcher,) = _watchers(folder)
        os.kill(watcher, signal.SIGKILL)
        _end(first, signal.SIGKILL)
        assert _answers(stale)
    with _run(folder) as second:
        url = _said(second)
        assert _answers(url)
        assert url != stale
        assert not _answers(stale)
        _end(second, signal.SIGTERM)
        _until(lambda: not _answers(url))


@own
def test_a_server_that_does_not_start_is_a_failure_that_says_why_and_what_to_do(folder: Path) -> None:
    broken = folder / "pg0" / "bin" / "pg0"
    broken.parent.mkdir(parents=True)
    (folder / "pg0" / "__init__.py").touch()
    broken.write_text("#!/bin/sh\necho no room for a database\nexit 1\n", encoding="utf-8")
    broken.chmod(0o755)
    around = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.postgres"], cwd=ROOT, env=around, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "does not start" in done.stderr
    assert "no room for a database" in done.stderr
    assert postgres.TOLD in done.stderr


def test_without_the_package_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pg0", None)
    with pytest.raises(postgres.Missing, match="make setup"):
        postgres._start(tmp_path)


def test_the_driver_finds_no_other_machine() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"another machine: elsewhere\.example"):
        psycopg.connect("postgresql://elsewhere.example/memories")


@contextmanager
def _run(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that uses a server of its own folder; gone at the end, however that comes."""
    command = [sys.executable, "-m", "tests.postgres"]
    around = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(command, cwd=ROOT, env=around, stdout=subprocess.PIPE, text=True) as run:
        try:
            yield run
        finally:
            run.kill()


def _said(run: subprocess.Popen[str]) -> str:
    return run.stdout.readline().strip()


def _end(run: subprocess.Popen[str], how: int) -> None:
    run.send_signal(how)
    run.wait(WAIT_S)


def _watchers(folder: Path) -> list[int]:
    listed = subprocess.run(["ps", "-eww", "-o", "pid=,args="], capture_output=True, text=True, check=True).stdout
    return [int(line.split()[0]) for line in listed.splitlines() if f"watch {folder}" in line]


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=5).close()
    except psycopg.OperationalError:
        return False
    return True


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)
