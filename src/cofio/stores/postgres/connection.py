"""The PostgreSQL server: connections for many threads, migrations under a lock, and translation of its errors.

    reading  ─▶ a pooled connection, each statement in its own transaction
    writing  ─▶ one transaction; with `alone`, one writer at a time among all processes of the tenant
    snapshot ─▶ one transaction with a snapshot

The URL names the tenant, `?tenant=NAME`; every query filters by it, so one database can serve several.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import unquote

import numpy as np
import psycopg
from numpy.typing import NDArray
from pgvector.psycopg import register_vector
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.string import TextLoader
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from cofio.errors import CofioError, Misconfigured, StoreBusy, StoreCorrupt, StoreError, StoreTooNew
from cofio.models.diagnostics import Check, FailureMonitor
from cofio.stores.digests import fill_digests
from cofio.stores.filters import POSTGRES
from cofio.stores.query_runner import NO_VALUES, Queries, Row, Values
from cofio.stores.sql_loader import migrations, queries, query_text
from cofio.stores.urls import display_url

TENANT = "main"  # if the URL names none
_SQL = queries("postgres")
_NEWEST = migrations("postgres")[-1][0]
_PATIENCE = 15.0  # seconds that a writer waits for a lock, and a caller for a connection
_TRIED = 5  # seconds to wait for the server when asking why no connection came
_CONNECTED = 10  # seconds to wait for a new connection
_CONNECTIONS = 16  # per process; a thread that finds none free waits
_OLDEST_SERVER, _OLDEST_VECTOR = 150_000, (0, 8)
_SETTINGS = (
    "SET TIME ZONE 'UTC'",
    "SET plan_cache_mode = force_custom_plan",  # generic plans are wrong for most scopes
    "SET client_min_messages = warning",
    "SET jit = off",  # compiling takes longer than any query here
    "SET max_parallel_workers_per_gather = 0",  # and so does starting parallel workers
)

# The driver logs broken connections; without a logging configuration, these messages would go to the terminal.
logging.getLogger("psycopg").addHandler(logging.NullHandler())


class TenantQueries(Queries):
    """Connection that runs the named queries, each for the tenant."""

    dialect = POSTGRES

    def __init__(self, connection: psycopg.Connection[Any], tenant: str) -> None:
        self.connection = connection
        self.tenant = tenant

    def run(self, name: str, values: Values = NO_VALUES, **parts: str) -> psycopg.Cursor[Any]:
        return self.connection.execute(query_text("postgres", name, parts), {**values, "tenant": self.tenant})

    def many(self, name: str, rows: Sequence[Values], **parts: str) -> None:
        if rows:  # sent together
            with self.connection.cursor() as cursor:
                cursor.executemany(
                    query_text("postgres", name, parts), [{**row, "tenant": self.tenant} for row in rows]
                )

    def in_bytes(self, name: str, values: Values = NO_VALUES, **parts: str) -> list[Row]:
        """Return all rows in binary format: vectors are several times as long as text."""
        text, params = query_text("postgres", name, parts), {**values, "tenant": self.tenant}
        return self.connection.execute(text, params, binary=True).fetchall()

    def listed(self, values: Iterable[Any]) -> list[Any]:
        return list(values)

    def to_vector(self, blob: bytes) -> NDArray[np.float32]:
        return np.frombuffer(blob, "<f4")

    def to_blob(self, vector: Any) -> bytes:
        return np.ascontiguousarray(vector.to_numpy(), dtype="<f4").tobytes()

    def lock(self, name: str) -> None:
        self.connection.execute("SELECT pg_advisory_xact_lock(%s)", (_lock(f"tenant/{self.tenant}/{name}"),))


class PostgresServer:
    """Connection pool of one process, for one tenant of one database."""

    def __init__(self, url: str, *, connections: int = _CONNECTIONS) -> None:
        self.address, self.tenant = split_tenant(url)
        self.shown = display_url(url)
        self._writes = FailureMonitor("store", StoreError)
        _refuse_unreadable(self.address, self.shown)
        with translated(self.shown):
            prepare(self.address)
            self._pool = ConnectionPool(
                self.address,
                min_size=1,
                max_size=connections,
                timeout=_PATIENCE,
                kwargs=_ways(self.address),
                configure=_configure,
                check=ConnectionPool.check_connection,
                open=False,
            )
            self._pool.open()

    @contextmanager
    def _connect(self) -> Iterator[psycopg.Connection[Any]]:
        """Yield a pooled connection. On a pool timeout, connect outside the pool, whose error tells the reason."""
        with translated(self.shown), ExitStack() as stack:
            try:
                connection = stack.enter_context(self._pool.connection())
            except PoolTimeout:
                psycopg.connect(self.address, connect_timeout=_TRIED).close()
                raise
            yield connection

    @contextmanager
    def reading(self) -> Iterator[TenantQueries]:
        """Yield a connection to read with; each statement sees the latest commit of every process."""
        with self._connect() as connection:
            yield TenantQueries(connection, self.tenant)

    verifying = reading

    @contextmanager
    def writing(self, patience: float | None = None, *, alone: bool = False) -> Iterator[TenantQueries]:
        """Yield a transaction, committed at the end or rolled back on an error.

        Raise StoreBusy if a lock takes too long.

        With `alone`, no other process of the tenant is inside one at the same time: changesets are numbered in the
        order of their commits, and data that was read stays unchanged until the end.
        """
        with self._writes.watch(), self._connect() as connection, connection.transaction():
            connection.execute(f"SET LOCAL lock_timeout = {int(1000 * (_PATIENCE if patience is None else patience))}")
            if alone:
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_lock(f"tenant/{self.tenant}"),))
            yield TenantQueries(connection, self.tenant)

    @contextmanager
    def snapshot(self) -> Iterator[TenantQueries]:
        """Yield a snapshot: it stays the same however long it is read, and whatever is written meanwhile."""
        with self._connect() as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield TenantQueries(connection, self.tenant)

    def problems(self) -> list[Check]:
        return self._writes.problems()

    def truncate_log(self) -> None:
        """Do nothing: the server keeps its log."""

    def close(self) -> None:
        self._pool.close()


def split_tenant(url: str) -> tuple[str, str]:
    """Return the URL for the driver, and the tenant that it named.

    The rest of the URL stays as written, because the driver does not decode "+" as a space.
    """
    where, mark, query = url.partition("?")
    parameters = [parameter.partition("=") for parameter in query.split("&") if parameter]
    tenants = [unquote(value) for name, _, value in parameters if name == "tenant"]
    if len(tenants) > 1 or "" in tenants:
        raise Misconfigured(
            f"{display_url(url)} has an empty or repeated tenant.", "Give tenant=NAME once, or leave it out."
        )
    rest = "&".join("".join(parameter) for parameter in parameters if parameter[0] != "tenant")
    return where + (mark + rest if rest else ""), tenants[0] if tenants else TENANT


def _refuse_unreadable(address: str, where: str) -> None:
    """Raise Misconfigured for a malformed address. The driver's own message may contain the password."""
    try:
        parts = conninfo_to_dict(address)
    except psycopg.Error:
        parts = {"port": "unreadable"}
    if not all(port.isdecimal() for port in str(parts.get("port") or "5432").split(",")):
        hint = (
            "Write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with %2F for /, %40 for @ and so on in the password. "
            "After a ?, only tenant and PostgreSQL's own parameters, such as sslmode, are allowed."
        )
        raise Misconfigured(f"{where} is not a valid PostgreSQL address.", hint)


def prepare(address: str) -> None:
    """Run pending migrations; one process at a time does it."""
    with psycopg.connect(address, **_ways(address)) as connection:
        if connection.info.server_version < _OLDEST_SERVER:
            message = f"The server runs PostgreSQL {connection.info.server_version // 10_000}, which is too old."
            raise Misconfigured(message, "Upgrade the server: cofio needs PostgreSQL 15 or newer.")
        if _read_version(connection) == _NEWEST:
            return
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_lock("migrations"),))
            _migrate(connection)


def _migrate(connection: psycopg.Connection[Any]) -> None:
    version = _read_version(connection)  # another process may have migrated already
    if version > _NEWEST:
        hint = "Upgrade cofio (pip install --upgrade cofio); the database was left as it is."
        raise StoreTooNew(f"The database was written by a newer cofio (schema {version}, known {_NEWEST}).", hint)
    _make_extension(connection)
    connection.execute(_SQL["make_migrations"])
    for number, script in migrations("postgres"):
        if number > version:
            connection.execute(script)
            connection.execute(_SQL["note_migration"], {"number": number})
    _load_json_as_text(connection)
    for (tenant,) in connection.execute(_SQL["tenants"]).fetchall():
        fill_digests(TenantQueries(connection, tenant))


def _read_version(connection: psycopg.Connection[Any]) -> int:
    """Return the number of the last migration; 0 for a database without our tables."""
    row = connection.execute("SELECT to_regclass('cofio_migrations') IS NOT NULL").fetchone()
    if not row or not row[0]:
        return 0
    newest = connection.execute(_SQL["newest_migration"]).fetchone()
    return int(newest[0]) if newest else 0


def _make_extension(connection: psycopg.Connection[Any]) -> None:
    hint = "Install pgvector 0.8 or newer on the server, then CREATE EXTENSION vector (a superuser may have to)."
    try:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    except (errors.FeatureNotSupported, errors.UndefinedFile, errors.InsufficientPrivilege) as error:
        raise Misconfigured("The database lacks the extension pgvector.", hint) from error
    row = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
    version = tuple(int(part) for part in str(row[0]).split(".")[:2]) if row else (0, 0)
    if version < _OLDEST_VECTOR:
        raise Misconfigured(f"The database has pgvector {'.'.join(map(str, version))}, which is too old.", hint)


def _ways(address: str) -> dict[str, Any]:
    waits = {} if "connect_timeout" in address else {"connect_timeout": _CONNECTED}
    return {"autocommit": True, "application_name": "cofio", **waits}


def _configure(connection: psycopg.Connection[Any]) -> None:
    for setting in _SETTINGS:
        connection.execute(setting)
    register_vector(connection)
    _load_json_as_text(connection)


def _load_json_as_text(connection: psycopg.Connection[Any]) -> None:
    for kind in ("json", "jsonb"):  # rows are read and written as JSON text, as in every SQL store
        connection.adapters.register_loader(kind, TextLoader)


def _lock(name: str) -> int:
    """Return the number of an advisory lock, the same in every process."""
    digest = hashlib.blake2b(f"cofio/{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Translate errors of the driver into CofioError with a hint."""
    try:
        yield
    except CofioError:
        raise
    except PoolTimeout as error:
        raise StoreBusy(f"No connection to {where} became available.", _RETRY) from error
    except PoolClosed as error:
        raise StoreError("The store is closed.", "Open it again with cofio.open().") from error
    except psycopg.Error as error:
        raise _translate(error, where) from error


_Errors = tuple[type[psycopg.Error], ...]
_UNCHANGED = "Nothing was changed."
_BUSY = (errors.LockNotAvailable, errors.DeadlockDetected, errors.SerializationFailure, errors.QueryCanceled)
_RETRY = f"{_UNCHANGED} Try again in a moment."
_STANDBY = f"{_UNCHANGED} The server is a read-only standby; set COFIO_STORE to the primary server."
_DENIED = "The database user has no permission for the tables of {where}."
_GRANT = "Make the user the owner of the database, or grant it access to the tables."
_REACH = "Check that the server runs, and the host, port, database, user and password of COFIO_STORE."
_TRANSLATIONS: tuple[tuple[_Errors, type[StoreError], str, str], ...] = (
    (_BUSY, StoreBusy, "{where} is locked by other writers.", _RETRY),
    ((errors.DiskFull,), StoreError, "The disk of {where} is full.", f"{_UNCHANGED} Free some space and try again."),
    ((errors.ReadOnlySqlTransaction,), StoreError, "{where} cannot be written.", _STANDBY),
    ((errors.DataCorrupted, errors.IndexCorrupted), StoreCorrupt, "{where} is damaged.", "Restore a backup."),
    ((errors.InsufficientPrivilege,), StoreError, _DENIED, _GRANT),
    ((psycopg.OperationalError,), StoreError, "{where} cannot be reached: {said}.", _REACH),
)


def _translate(error: psycopg.Error, where: str) -> StoreError:
    text = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
    for kinds, error_class, message, hint in _TRANSLATIONS:
        if isinstance(error, kinds):
            return error_class(message.format(where=where, said=text), hint)
    return StoreError(
        f"The database {where} reported an error: {text}.", "Try again; if the error persists, restore a backup."
    )
