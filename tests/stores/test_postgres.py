"""The PostgreSQL store: contract suites and server-specific behaviour."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pgvector.psycopg import register_vector

from cofio.errors import EmbedderMismatch, NotFound, StoreError
from cofio.models.memory import Add, Adopt, Delete, Edit, Fact, Memory, Merge, Purge, Retrieval, Scope, Update, Viewer
from cofio.ports import Store, Vector
from cofio.stores.postgres import PostgresStore, ranking
from cofio.stores.postgres.connection import PostgresServer, split_tenant
from cofio.stores.postgres.ranking import search_tokens
from cofio.stores.sql_loader import migrations, queries
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock
from cofio.text.tokens import search_terms, words
from tests import postgres
from tests.stores.contract import StoreContract, add, apply, everything, vector
from tests.stores.maintenance_contract import MaintenanceContract
from tests.stores.project_contract import ProjectContract

ROW_COUNT = 20_000
PLENTY = 1 << 30


class TestPostgresStore(StoreContract, ProjectContract):
    @pytest.fixture
    def store(self, tenant_url: str) -> Iterator[Store]:
        store = PostgresStore(tenant_url, FixedClock())
        yield store
        store.close()


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresStore]:
    store = PostgresStore(postgres_url, FixedClock())
    yield store
    store.close()


class TestPostgresDatabase(MaintenanceContract):
    """Tests that count from 1, in a separate database."""


# ── large databases ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def large_database(postgres_server: str, postgres_template: str) -> Iterator[str]:
    """Yield the URL of a database where small scopes lie among many memories that are more similar to the query."""
    with postgres.database(postgres_server, postgres_template) as url:
        store = PostgresStore(url, FixedClock())
        for index in range(10):
            about: dict[str, Any] = {"kind": "policy", "created_at": f"2026-03-{index + 1:02}T00:00:00Z"}
            add(store, f"far from it {index}", project="/srv/rare", visibility="team", team="t", **about)
            add(store, f"far away {index}", project="/srv/crowd", user="ada", **about)
        _insert_many(url, ROW_COUNT)
        add(store, "now the index is due")
        store.close()
        yield url


def _insert_many(url: str, count: int) -> None:
    """Insert many memories about one topic directly with COPY, because adding them one by one takes a minute."""
    rng = np.random.default_rng(0)
    rows = vector("red green blue") + 0.05 * rng.standard_normal((count, 64)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    with psycopg.connect(url, autocommit=True) as connection:
        register_vector(connection)
        connection.execute(_CROWD, {"count": count})
        with connection.cursor().copy("COPY vectors FROM STDIN WITH (FORMAT BINARY)") as copy:
            copy.set_types(["text", "int8", "vector"])
            for place, row in enumerate(rows):
                copy.write_row(["main", 1_000 + place, row])


_CROWD = """
INSERT INTO memories (
    tenant, id, text, source, project, category, kind, confidence, method, entities, tags, session, agent, "user", team,
    visibility, metadata, speaker, context, created_at, updated_at, pinned, occurrences, anchors, origin, fingerprint,
    said, around, length
)
SELECT
    'main', 1000 + i, 'red green blue ' || i, 'cc', '/srv/crowd', 'detail', 'other', 1, 'manual', '[]', '[]', '', '',
    'bob', '', 'private', '{}', '', '', '2026-01-01T00:00:00.000000+00:00', '2026-01-01T00:00:00.000000+00:00', 0, 1,
    '[]', '', i, to_tsvector('cofio', 'red green blue ' || i || CASE WHEN i %% 2 = 0 THEN ' even' ELSE '' END), '', 4
FROM generate_series(0, %(count)s - 1) i
"""

_ADA = Viewer(user="ada")


@pytest.mark.parametrize(
    ("scope", "count"),
    [
        (Scope(project="/srv/rare"), 10),
        (Scope(viewer=_ADA), 10),
        (Scope(project="/srv/rare", category="decision"), 10),
        (Scope(project="/srv/rare", since="2026-03-04"), 7),
        (Scope(viewer=_ADA, category="decision", since="2026-03-02", until="2026-03-05"), 4),
        (Scope(project="/srv/rare", viewer=Viewer(user="ada", team="t")), 10),
        (Scope(project="/srv/rare", viewer=_ADA), 0),
    ],
)
def test_small_scope_gets_k_results_in_a_large_database(large_database: str, scope: Scope, count: int) -> None:
    store = PostgresStore(large_database, FixedClock())
    try:
        results = store.nearest(vector("red green blue"), 20, scope)
        assert len(results) == count
        matched = store.matching(["red", "far"], 20, scope).candidates
        assert {item.id for item in matched} == {item.id for item in results}
    finally:
        store.close()


def test_index_search_returns_the_same_as_a_scan(large_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = PostgresStore(large_database, FixedClock())
    scopes = (Scope(), Scope(project="/srv/crowd"), Scope(include_archived=True), Scope(viewer=Viewer(user="bob")))
    query_vectors = [vector(f"red green {index}") for index in range(20)]
    try:
        indexed = [store.nearest(query_vector, 10, scope) for scope in scopes for query_vector in query_vectors]
        monkeypatch.setattr(ranking, "FEW_VECTORS", PLENTY)
        exact = [store.nearest(query_vector, 10, scope) for scope in scopes for query_vector in query_vectors]
    finally:
        store.close()
    assert [len(item) for item in indexed] == [10] * len(indexed)
    for one, other in zip(indexed, exact, strict=True):  # compare distances: many rows have almost the same one
        assert [hit.score for hit in one] == pytest.approx([hit.score for hit in other], abs=0.03)
    assert "vectors_by_nearness_64" in _plan(large_database, query_vectors[0])


def _plan(url: str, query_vector: Vector) -> str:
    """Return the query plan of the nearest-neighbour search."""
    sql = queries("postgres")
    search = sql["nearest_by_index"].format(dimension=64, where="archived_at IS NULL AND project = '/srv/crowd'")
    values = {"tenant": "main", "vector": query_vector, "many": 20, "k": 10, "effort": 100}
    with psycopg.connect(url) as connection:
        register_vector(connection)
        connection.execute("SET plan_cache_mode = force_custom_plan")
        connection.execute(sql["search_by_nearness"], values)
        return "\n".join(line for (line,) in connection.execute(f"EXPLAIN {search}", values))


def test_most_frequent_words_are_skipped_unless_the_scope_needs_them(
    large_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking, "POSTINGS", 12_000)
    store = PostgresStore(large_database, FixedClock())
    bob_scope = Scope(project="/srv/crowd", viewer=Viewer(user="bob"))
    try:
        results = store.matching(["red", "even", "17"], 5, Scope()).candidates
        assert results[0].id == 1_017
        assert all(item.id % 2 == 0 for item in results[1:])  # every memory contains "red", so it was skipped
        assert (
            len(store.matching(["far", "red"], 5, bob_scope).candidates) == 5
        )  # no memory of this scope contains "far", so all are scored
    finally:
        store.close()


# ── tenants ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_other_tenant_data_is_invisible(postgres_url: str) -> None:
    ours, theirs = (PostgresStore(f"{postgres_url}?tenant={name}", FixedClock()) for name in ("ours", "theirs"))
    try:
        ours.set_signature("one:64")
        memory = add(ours, "red green blue", speaker="Ada", context="what colours", agent="a")
        result = apply(ours, Edit(memory.id, {"pinned": True}))
        ours.note([Retrieval(memory.id, "q", "ada", "2026-01-01T00:00:00.000000+00:00")])
        ours.mark_injected("cc", "s", {memory.id: "d"})
        _assert_sees_nothing(theirs, memory.id, result.id)
        for decision in (Edit(memory.id, {"pinned": False}), Delete(memory.id), Purge(memory.id)):
            with pytest.raises(NotFound):
                apply(theirs, decision)
        theirs.put_vectors({memory.id: vector("never")})
        theirs.note([Retrieval(memory.id, "q", "ada", "2026-01-02T00:00:00.000000+00:00")])
        theirs.mark_injected("cc", "s", {memory.id: "other"})
        theirs.clear_injected("cc", "s")
        theirs.set_signature("two:32", reset=True)  # of its own vectors, which may have another dimension
        theirs.apply([Add(Fact(text="short"))], {0: vector("x")[:32]}, by="test", why="")
        assert ours.get([memory.id])[0].retrieval_count == 1
        assert ours.injected("cc", "s") == {memory.id: "d"}
        assert [hit.id for hit in ours.nearest(vector("red green blue"), 5, Scope())] == [memory.id]
        assert ours.stats()["vectors"] == 1
    finally:
        ours.close()
        theirs.close()


def _assert_sees_nothing(store: PostgresStore, memory_id: int, changeset: int) -> None:
    query, anything = vector("red green blue"), Scope(include_archived=True)
    assert everything(store) == store.newest(anything, 5) == store.latest(anything, 5) == store.get([memory_id]) == []
    assert store.nearest(query, 5, anything, also=[memory_id]) == []
    assert store.known("red green blue", anything) == []
    assert store.matching(["red", "ada", "colours"], 5, anything).candidates == ()
    assert store.holding(["red"], [memory_id]) == {memory_id: []}
    assert store.said([memory_id]) == {}
    assert store.injected("cc", "s") == {}
    assert not store.has_speakers()
    assert list(store.pairs(0.0, anything)) == []
    assert list(store.neighbours([memory_id], 0.0, 5)) == []
    assert store.occurrences(memory_id) == []
    assert store.repeated(1, 5, anything) == []
    assert store.changesets(5) == store.changesets(5, within=anything) == []
    assert store.unembedded(5) == store.unembedded(5, among=[memory_id]) == []
    for operation in (lambda: store.history(memory_id), lambda: store.changeset(changeset)):
        with pytest.raises(NotFound):
            operation()
    stats = store.stats()
    assert not any(stats[name] for name in ("memories", "archived", "vectors", "changesets", "retrievals", "embedder"))
    assert store.forget_injected_before("2030-01-01") == 0


def test_ids_adopted_by_one_tenant_do_not_affect_others(postgres_url: str) -> None:
    ours, theirs = (PostgresStore(f"{postgres_url}?tenant={name}", FixedClock()) for name in ("ours", "theirs"))
    about: dict[str, Any] = {
        "created_at": "2026-01-01T00:00:00.000000+00:00",
        "updated_at": "2026-01-01T00:00:00.000000+00:00",
    }
    try:
        for leap in (3, 5, 100_000, 1 << 40):
            mine = Memory(id=add(theirs, "one").id + leap, text=f"brought along {leap}", **about)
            assert ours.apply([Adopt(mine)], {}, by="test", why="").changes[0].memory_id == mine.id
            assert add(ours, "next").id > mine.id
            assert theirs.apply([Adopt(mine)], {}, by="test", why="").changes[0].memory_id == mine.id
    finally:
        ours.close()
        theirs.close()


# ── concurrency ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_concurrent_processes_initialize_a_database_once(empty_postgres_url: str) -> None:
    opening = "import sys; from cofio.stores.postgres.connection import prepare; prepare(sys.argv[1])"
    processes = [subprocess.Popen([sys.executable, "-c", opening, empty_postgres_url]) for _ in range(4)]
    assert [item.wait(timeout=120) for item in processes] == [0, 0, 0, 0]
    with psycopg.connect(empty_postgres_url) as connection:
        assert connection.execute("SELECT count(*) FROM cofio_migrations").fetchone() == (len(migrations("postgres")),)
        assert connection.execute("SELECT count(*) FROM memories").fetchone() == (0,)


def test_writes_of_another_process_are_visible_at_once(postgres_url: str) -> None:
    first, second = PostgresStore(postgres_url, FixedClock()), PostgresStore(postgres_url, FixedClock())
    try:
        for index in range(5):
            memory = add(first, f"deploy number{index} on friday")
            assert second.get([memory.id]) == [memory]
            assert second.nearest(vector(memory.text), 1, Scope())[0].id == memory.id
            assert [candidate.id for candidate in second.matching([f"number{index}"], 5, Scope()).candidates] == [
                memory.id
            ]
            assert len(second.matching(["friday"], 10, Scope()).candidates) == index + 1
        apply(second, Delete(memory.id))
        assert first.matching([f"number{index}"], 5, Scope()).candidates == ()
    finally:
        first.close()
        second.close()


def test_reembedding_by_another_process_rejects_the_old_embedder(postgres_url: str) -> None:
    first, second = PostgresStore(postgres_url, FixedClock()), PostgresStore(postgres_url, FixedClock())
    try:
        first.set_signature("one:64")
        second.set_signature("one:64")
        add(first, "red green blue")
        second.set_signature("two:32", reset=True)
        for asked in (lambda: first.nearest(vector("red"), 5, Scope()), lambda: add(first, "too late")):
            with pytest.raises(EmbedderMismatch, match="two:32"):
                asked()
        second.apply([Add(Fact(text="short"))], {0: vector("x")[:32]}, by="test", why="")
    finally:
        first.close()
        second.close()


def test_writers_are_serialized_and_counters_do_not_block(postgres_url: str) -> None:
    stores = [PostgresStore(postgres_url, FixedClock()) for _ in range(2)]
    ids = [add(stores[0], f"fact {index}").id for index in range(20)]
    at = "2026-01-01T00:00:00.000000+00:00"

    def write(place: int) -> None:
        order = ids if place % 2 else ids[::-1]
        apply(stores[place % 2], *(Edit(item, {"tags": [f"t{place}"]}) for item in order))

    def count(place: int) -> None:
        with suppress(StoreError):  # busy: the retrieval log does not wait
            stores[place % 2].note([Retrieval(item, "q", "", at) for item in (ids if place % 2 else ids[::-1])])

    try:
        with ThreadPoolExecutor(8) as threads:
            jobs = [threads.submit(item, index) for index in range(8) for item in (write, count)]
            assert [job.result(timeout=60) for job in jobs] == [None] * 16
        assert [len(stores[0].changeset(done.id).changes) for done in stores[0].changesets(8)] == [20] * 8
        for memory_id in ids:  # each change starts from the state after the previous one
            for earlier, later in zip(history := stores[0].history(memory_id), history[1:], strict=False):
                assert earlier.after
                assert later.before
                assert earlier.after.tags == later.before.tags
    finally:
        for item in stores:
            item.close()


# ── connection loss ───────────────────────────────────────────────────────────────────────────────────────────────────


class Proxy:
    """A TCP proxy to the server that can be stopped and restarted."""

    def __init__(self, url: str) -> None:
        self._server = urlsplit(url)
        self._open: list[socket.socket] = []
        self._listener: socket.socket | None = None
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        parts = self._server
        return parts._replace(netloc=f"{parts.username}:{parts.password}@127.0.0.1:{self.port}").geturl()

    def start(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port), reuse_port=True)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._admit, args=(self._listener,), daemon=True).start()

    def stop(self) -> None:
        if self._listener:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        for item in self._open:
            with suppress(OSError):
                item.shutdown(socket.SHUT_RDWR)
            item.close()
        self._listener, self._open = None, []

    def _admit(self, door: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = door.accept()
                server = socket.create_connection((self._server.hostname, self._server.port))
                self._open += [client, server]
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=_forward, args=pair, daemon=True).start()


def _forward(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while chunk := source.recv(65_536):
            target.sendall(chunk)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)


def test_store_reconnects_after_connection_loss(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cofio.stores.postgres.connection._PATIENCE", 1.0)
    proxy = Proxy(postgres_url)
    store = PostgresStore(proxy.url, FixedClock())
    try:
        memory = add(store, "red green blue")
        proxy.stop()
        for asked in (lambda: store.get([memory.id]), lambda: add(store, "too early")):
            with pytest.raises(StoreError, match="cannot be reached") as error_info:
                asked()
            assert "COFIO_STORE" in error_info.value.hint
            assert "password" not in str(error_info.value).replace("and password", "")
        proxy.start()
        assert _get_after_reconnect(store, memory.id) == [memory]
        assert add(store, "back again").id > memory.id
    finally:
        store.close()
        proxy.stop()


def _get_after_reconnect(store: PostgresStore, memory_id: int) -> list[Memory]:
    for _ in range(30):
        with suppress(StoreError):
            return store.get([memory_id])
    return store.get([memory_id])


# ── keyword search ────────────────────────────────────────────────────────────────────────────────────────────────────

TEXTS = (
    "We deploy Next.js on Fridays", "The naïve café in Zürich", "next to the js folder", "PostgreSQL 16.2, v2 of C#",
    "deployments were deployed by deployers", "10ms at 5M rows; 1e5 of them", "ﬁle I/O",
    "Кошка спит", "日本語の文",
    "a_b_c snake_case CamelCase", "user@example.com wrote https://example.com/x?y=1", "-1.5e-3 or 0x1F or 007",
)  # fmt: skip


def test_postgres_and_sqlite_score_words_alike(store: PostgresStore, tmp_path: Path) -> None:
    embedded = SqliteStore(tmp_path / "cofio.db", FixedClock())
    for place, text in enumerate(TEXTS):
        about: dict[str, Any] = {"context": TEXTS[place - 1], "tags": ("café",), "speaker": "Ada"} if place % 3 else {}
        assert add(store, text, **about).id == add(embedded, text, **about).id
    apply(store, Delete(3))
    apply(embedded, Delete(3))
    requests = [
        "deploy",
        "friday",
        "next.js",
        "cafe",
        "Café",
        "zurich",
        "v2",
        "c#",
        "ada",
        "js",
        "snake_case",
        "кошка",
        "日本語の文",
    ]
    requests += ["5m", "10ms", "1e5", "example.com", "y=1", "0x1f", "007", "absent", "🌊", "the"]
    for scope in (Scope(), Scope(include_archived=True), Scope(tags=("café",))):
        for some in [*([word] for word in requests), requests, requests[:5]]:
            ours, theirs = store.matching(some, 50, scope), embedded.matching(some, 50, scope)
            assert ours.ideal == pytest.approx(theirs.ideal, rel=1e-4), some
            assert dict(ours.candidates) == pytest.approx(dict(theirs.candidates), rel=1e-4), some
            assert store.holding(some, [1, 2, 3]) == embedded.holding(some, [1, 2, 3])
    embedded.close()


TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00"), min_size=1, max_size=60)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(text=TEXT, other=TEXT)
def test_arbitrary_characters_in_words_are_searchable(store: PostgresStore, text: str, other: str) -> None:
    memory = add(store, f"said {text}")
    for word in search_terms(text):
        held = store.holding([word], [memory.id])[memory.id] == [word]
        assert held or not search_tokens(word), word
    store.matching([other, *words(other), *other.split()], 5, Scope())
    store.holding([other, *words(other)], [memory.id])


@pytest.mark.parametrize(
    ("text", "word"),
    [("We use Next™ here", "next"), ("it is №5", "5"), ("at 0㊊", "0"), ("cafe\u0301s", "cafés"), ("at 0\u094d0", "0")],
)
def test_symbols_end_a_word(store: PostgresStore, text: str, word: str) -> None:
    memory = add(store, text)
    assert [candidate.id for candidate in store.matching([word], 5, Scope()).candidates] == [memory.id]


def test_word_with_several_parts_is_searched_as_a_phrase(store: PostgresStore) -> None:
    both = add(store, "we use Next.js here")
    add(store, "the js that comes next")
    assert [candidate.id for candidate in store.matching(["next.js"], 5, Scope()).candidates] == [both.id]


# ── vector index ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dimension", [256, 3072])
def test_vector_index_is_created_used_and_recreated_for_any_dimension(
    store: PostgresStore, postgres_url: str, monkeypatch: pytest.MonkeyPatch, dimension: int
) -> None:
    monkeypatch.setattr(ranking, "FEW_VECTORS", 20)
    rows = np.random.default_rng(dimension).standard_normal((60, dimension)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    store.set_signature("one")
    for start in range(0, 60, 20):
        some = [Add(Fact(text=f"memory {index}")) for index in range(start, start + 20)]
        store.apply(some, dict(enumerate(rows[start : start + 20])), by="test", why="")
    assert _indexes(postgres_url) == [f"vectors_by_nearness_{dimension}"]
    for place, row in enumerate(rows):
        results = store.nearest(row, 3, Scope())
        assert store.get([results[0].id])[0].text == f"memory {place}"
        assert results[0].score == pytest.approx(1.0, abs=1e-5)
        assert [hit.score for hit in results] == pytest.approx(sorted(rows @ row)[:-4:-1], abs=1e-5)
    store.set_signature("two", reset=True)
    assert _indexes(postgres_url) == []
    store.put_vectors({memory.id: vector(memory.text) for memory in everything(store)})
    assert _indexes(postgres_url) == ["vectors_by_nearness_64"]
    assert len(store.nearest(vector("memory 7"), 5, Scope())) == 5


def _indexes(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT indexname FROM pg_indexes WHERE indexname LIKE 'vectors_by_nearness_%'")
        return sorted(name for (name,) in rows)


# ── removal and sizes ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_purged_text_is_in_no_table(store: PostgresStore, postgres_url: str) -> None:
    memory = add(store, "hunter2 is the password", context="hunter2 was asked for", tags=("hunter2",))
    add(store, "read out of the same sentence", context="hunter2 was asked for")
    apply(store, Edit(memory.id, {"text": "hunter2 and hunter3"}))
    new = apply(store, Update(memory.id, Fact(text="the password is in the vault"))).changes[0].memory
    apply(store, Edit(new.id, {"tags": ["vault"]}))
    store.note([Retrieval(memory.id, "what is hunter2", "ada", "2026-01-01T00:00:00.000000+00:00")])
    merged = Merge((new.id, add(store, "it is").id), Fact(text="one fact"))
    store.apply([merged], {}, by="test", why="")
    assert _tables_with_text(postgres_url, "hunter") == {"memories", "changes", "retrievals"}
    apply(store, Purge(memory.id))
    assert _tables_with_text(postgres_url, "hunter") == set()


def _tables_with_text(url: str, word: str) -> set[str]:
    with psycopg.connect(url) as connection:
        names = [name for (name,) in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]
        query = "SELECT EXISTS (SELECT 1 FROM {} t WHERE t::text LIKE %s)"
        return {name for name in names if connection.execute(query.format(name), (f"%{word}%",)).fetchone() == (True,)}


def test_retrieval_counters_are_in_no_index(store: PostgresStore, postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        results = connection.execute(
            "SELECT indexdef FROM pg_indexes WHERE indexdef LIKE '%retriev%d_at%' OR indexdef LIKE '%retrieval_count%'"
        )
        assert results.fetchall() == []


def test_stats_include_the_database_size(store: PostgresStore) -> None:
    assert store.stats()["bytes"] > 100_000


def test_new_word_is_found_before_word_statistics_are_refreshed(
    store: PostgresStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a large store, document frequencies are refreshed only from time to time."""
    for place in ("cofio.stores.postgres.ranking.FEW", "cofio.stores.sqlite.bm25.FEW"):
        monkeypatch.setattr(place, 3)
    for item in (store, SqliteStore(tmp_path / "cofio.db", FixedClock())):
        item.apply([Add(Fact(text=f"Fact number {number}")) for number in range(10)], {}, by="test", why="test")
        assert not item.matching(["zanzibar"], 5, Scope()).candidates
        item.apply([Add(Fact(text="We met in Zanzibar."))], {}, by="test", why="test")
        assert len(item.matching(["zanzibar"], 5, Scope()).candidates) == 1
        item.close()


def test_driver_options_in_the_url_are_passed_on(postgres_url: str) -> None:
    assert split_tenant("postgresql://h/db?options=-c%20a%3Db&tenant=t%20u&sslmode=require") == (
        "postgresql://h/db?options=-c%20a%3Db&sslmode=require",
        "t u",
    )
    request = PostgresServer(
        f"{postgres_url}?tenant=one&options=-c%20search_path%3Dpublic%20-c%20statement_timeout%3D4321"
    )
    with request.reading() as rows:
        assert rows.connection.execute("SHOW statement_timeout").fetchone() == ("4321ms",)
    request.close()
