"""Shared fixtures."""

from __future__ import annotations

import gc
import signal
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings

from cofio.core import Keeper
from cofio.judgement.onnx_classifier import LocalJudge
from cofio.providers.http import is_loopback
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder
from tests import judges, postgres

#: Reset SIGHUP: the processes that tests start inherit ignored signals, and `nohup` ignores hang-ups.
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

#: No deadlines: on a loaded machine a slow example is not a failure.
settings.register_profile("cofio", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("cofio")

#: Files with few but slow tests. They run first, so that no worker finishes long after the others.
LONG = (
    "bench/test_server.py",
    "evals/test_regression.py",
    "bench/test_scale.py",
    "test_visibility.py",
    "stores/test_crash.py",
    "test_docs.py",
    "embedders/test_telemetry.py",
    "ingest/test_crashes.py",
    "acceptance/test_uninstall.py",
    "acceptance/test_plugins.py",
    "stores/test_properties.py",
    "stores/test_turn_properties.py",
    "stores/test_inbox_properties.py",
    "transfer/test_size.py",
    "transfer/test_backup.py",
    "transfer/test_round_trip.py",
    "openclaw/test_package.py",
    "http_api/test_export.py",
    "bench/test_bench.py",
    "bench/test_hooks.py",
    "test_recorded_session.py",
    "install/test_plans.py",
    "cli/test_daemon.py",
    "cli/test_backfill.py",
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the LONG files first, then files by their number of tests. Workers take whole files, in this order."""
    folder = Path(__file__).parent
    priorities = {folder / name: priority for priority, name in enumerate(LONG)}
    test_counts = Counter(item.path for item in items)
    items.sort(key=lambda item: (priorities.get(item.path, len(LONG)), -test_counts[item.path], str(item.path)))


def pytest_collection_finish() -> None:
    """Exclude the collected items from garbage collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    """Yield a keeper on a SQLite store with the hashing embedder."""
    clock = FixedClock()
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock) as keeper:
        yield keeper


@pytest.fixture(scope="session")
def judge() -> LocalJudge:
    """Return the judgement model of the package."""
    return judges.judge()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """Yield the URL of a PostgreSQL server with pgvector. Fail the test if there is none."""
    try:
        with postgres.server() as url:
            yield url
    except postgres.Missing as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def postgres_template(postgres_server: str) -> str:
    """Return the name of a template database with cofio's schema."""
    return postgres.template(postgres_server)


@pytest.fixture
def postgres_url(postgres_server: str, postgres_template: str) -> Iterator[str]:
    """Yield the URL of a new database with the vector extension and cofio's schema."""
    with postgres.database(postgres_server, postgres_template) as url:
        yield url


@pytest.fixture(scope="session")
def shared_postgres_url(postgres_server: str, postgres_template: str) -> Iterator[str]:
    """Yield the URL of a database that all tenant tests share."""
    with postgres.database(postgres_server, postgres_template) as url:
        yield url


@pytest.fixture
def tenant_url(shared_postgres_url: str) -> str:
    """Return the URL of a new tenant in the shared database."""
    return f"{shared_postgres_url}?tenant={uuid4().hex}"


@pytest.fixture
def empty_postgres_url(postgres_server: str) -> Iterator[str]:
    """Yield the URL of a new, empty database."""
    with postgres.database(postgres_server) as url:
        yield url


@pytest.fixture(scope="session", autouse=True)
def nothing_leaves_this_machine() -> Iterator[None]:
    """A test that looks up or calls another machine fails, whatever the code under test makes of errors."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("connect", "connect_ex"):
            patch.setattr(socket.socket, name, _guarded(getattr(socket.socket, name)))
        patch.setattr(socket, "getaddrinfo", _guarded_look_up(socket.getaddrinfo))
        yield


def _guarded(connect: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(self: socket.socket, address: Any) -> Any:
        if isinstance(address, tuple):  # a path is a socket of this machine
            _refuse_another_machine(address[0])
        return connect(self, address)

    return guarded


def _guarded_look_up(look_up: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(host: Any, *rest: Any, **named: Any) -> Any:
        _refuse_another_machine(host)
        return look_up(host, *rest, **named)

    return guarded


def _refuse_another_machine(host: Any) -> None:
    name = host.decode() if isinstance(host, bytes) else host
    if name in (None, "", "0.0.0.0", "::") or " " in name:  # any address of this machine; a name that nobody has
        return
    if not is_loopback(name) and name != postgres.configured_host():
        pytest.fail(f"This test calls another machine: {name}.")  # no OSError: nothing may take it for a bad network
