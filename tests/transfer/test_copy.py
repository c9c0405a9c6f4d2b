"""Copying one store into another of any kind: complete, and resumable after interruptions."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from cofio.errors import Conflict
from cofio.models.auth import Grant
from cofio.models.memory import Add, Adopt, Delete, Edit, Fact, Noop, Occurrence, Purge, Retrieval, Scope, to_utc_iso
from cofio.ports import Store
from cofio.testing import FixedClock, MemoryStore
from cofio.transfer import copy as transfer_copy
from cofio.transfer.copy import copy
from tests.stores.contract import add, apply, everything, undo, vector
from tests.stores.episodes_contract import episode, search_episode_ids
from tests.stores.inbox_contract import make_exchange
from tests.transfer.fixtures import export_lines, fill, histories, open_store

Make = Callable[[], Store]
PAIRS = [
    ("sqlite", "sqlite"),
    ("sqlite", "postgres"),
    ("postgres", "sqlite"),
    ("postgres", "postgres"),
]


def maker(kind: str, request: pytest.FixtureRequest, made: list[Store]) -> Make:
    """Return a function that creates a store of this kind."""

    def new() -> Store:
        if kind == "sqlite":
            made.append(MemoryStore(FixedClock()))
        else:
            from cofio.stores.postgres import PostgresStore

            url = request.getfixturevalue("postgres_url")
            made.append(PostgresStore(f"{url}?tenant=store-{len(made)}", FixedClock()))
        return made[-1]

    return new


@pytest.fixture(params=PAIRS, ids="-".join)
def store_makers(request: pytest.FixtureRequest) -> Iterator[tuple[Make, Make]]:
    """Return a factory of source stores and one of target stores."""
    created: list[Store] = []
    one, other = request.param
    yield maker(one, request, created), maker(other, request, created)
    for item in created:
        item.close()


@pytest.fixture
def source(store_makers: tuple[Make, Make]) -> Store:
    store = store_makers[0]()
    fill(store)
    return store


@pytest.fixture
def target(store_makers: tuple[Make, Make]) -> Store:
    return store_makers[1]()


def stop_after(monkeypatch: pytest.MonkeyPatch, store: Store, batches: int) -> None:
    """Let the store fail after this many batches of three memories."""
    monkeypatch.setattr(transfer_copy, "BATCH", 3)
    left = count()
    real = store.apply

    def apply(*given: Any, **how: Any) -> Any:
        if next(left) >= batches:
            raise KeyboardInterrupt
        return real(*given, **how)

    monkeypatch.setattr(store, "apply", apply)


def copy_batches(source: Store, target: Store, batches: int) -> None:
    """Copy until this many batches are done."""
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, target, batches)
        with pytest.raises(KeyboardInterrupt):
            copy(source, target)


# ── result of a copy ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_copy_has_the_same_export_identity_and_vectors(source: Store, target: Store) -> None:
    report = copy(source, target, by="tester")
    lines = export_lines(source, vectors=True)
    assert export_lines(target, vectors=True) == lines
    assert (report.memories, report.added, report.changed, report.removed, report.known) == (
        len(lines) - 1,
        report.added,
        0,
        0,
        0,
    )
    assert report.added == report.memories > 5
    assert report.store == target.snapshots.identity() == source.snapshots.identity()
    assert report.embedder == target.stats()["embedder"] == source.stats()["embedder"]
    assert len(report.digest) == 64


def test_copy_returns_the_same_search_results(source: Store, target: Store) -> None:
    copy(source, target)
    for text in ("where do we deploy?", "PostgreSQL"):
        results = [hit.id for hit in source.nearest(vector(text), 5, Scope())]
        assert [hit.id for hit in target.nearest(vector(text), 5, Scope())] == results
    assert {candidate.id for candidate in target.matching(["postgresql"], 5, Scope()).candidates} == {
        candidate.id for candidate in source.matching(["postgresql"], 5, Scope()).candidates
    }
    pinned = [memory for memory in everything(source) if memory.pinned]
    assert target.newest(Scope(pinned=True), 5) == pinned
    assert [set(target.occurrences(item.id)) for item in pinned] == [
        set(source.occurrences(item.id)) for item in pinned
    ]


def test_episodes_are_copied_and_updated(source: Store, target: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer_copy, "EPISODES", 2)
    created = [episode(source, f"We met at harbour{index}.", "I see.", turn=str(index)) for index in range(5)]
    _embed_passages(source)
    assert copy(source, target).episodes == 5
    assert target.snapshots.episodes(0, 10) == source.snapshots.episodes(0, 10)
    assert search_episode_ids(target, "harbour3") == [created[3].id]
    assert target.episodes.get([created[3].id])[0].capture is None
    source.episodes.remove([created[0].id, created[4].id])
    late = episode(source, "We met at the lighthouse.")
    report = copy(source, target)
    assert report.episodes == 4
    assert target.snapshots.episodes(0, 10) == source.snapshots.episodes(0, 10)
    assert search_episode_ids(target, "harbour0") == search_episode_ids(target, "harbour4") == []
    assert search_episode_ids(target, "lighthouse") == [late.id]
    assert episode(target, "A turn of its own.").id > late.id


def _embed_passages(store: Store) -> None:
    store.episodes.put_vectors({memory.id: vector(memory.text) for memory in store.episodes.unembedded(100)})


def test_copy_is_a_series_that_can_be_undone(source: Store, target: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer_copy, "BATCH", 3)
    copy(source, target, by="tester")
    result = target.changesets(100)
    assert len(result) > 2
    assert {(item.by, item.why) for item in result} == {("tester", f"copy of store {source.snapshots.identity()}")}
    assert {item.part_of for item in result[:-1]} == {result[-1].id}
    for item in result:
        undo(target, item.id)
    assert everything(target) == []


def test_source_is_unchanged(source: Store, target: Store) -> None:
    before, changes = export_lines(source, vectors=True), len(source.changesets(100))
    copy(source, target)
    assert export_lines(source, vectors=True) == before
    assert len(source.changesets(100)) == changes


def test_ids_of_the_source_are_not_reused(source: Store, target: Store) -> None:
    last = add(source, "the last one").id
    apply(source, Purge(last))
    copy(source, target)
    assert add(target, "the next one").id > last


def test_writes_during_the_copy_are_not_included(source: Store, target: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer_copy, "BATCH", 3)
    lines = export_lines(source, vectors=True)

    def meanwhile(done: int) -> None:
        if done <= len(lines):
            add(source, f"written after {done}")
            apply(source, Edit(1, {"text": f"edited after {done}"}))

    copy(source, target, progress=meanwhile)
    assert export_lines(target, vectors=True) == lines != export_lines(source, vectors=True)


def test_progress_counts_writing_and_verification(source: Store, target: Store) -> None:
    result: list[int] = []
    number = copy(source, target, progress=result.append).memories
    assert result == sorted(result)
    assert result[-1] == 2 * number


def test_empty_store_is_copied(store_makers: tuple[Make, Make]) -> None:
    source, target = store_makers[0](), store_makers[1]()
    assert copy(source, target).memories == 0
    fill(source)
    assert copy(source, target).added == source.snapshots.counts()[0]


def test_copy_can_be_copied(source: Store, store_makers: tuple[Make, Make]) -> None:
    between, last = store_makers[1](), store_makers[0]()
    first, second = copy(source, between), copy(between, last)
    assert first.digest == second.digest
    assert export_lines(last, vectors=True) == export_lines(source, vectors=True)


def test_missing_vectors_are_missing_in_the_copy(source: Store, target: Store) -> None:
    source.apply([Add(Fact(text="not embedded yet"))], {}, by="test", why="")
    copy(source, target)
    assert [memory.text for memory in target.unembedded(10)] == ["not embedded yet"]


def test_pending_captures_are_counted_and_not_copied(source: Store, target: Store) -> None:
    source.inbox.receive([make_exchange(turn="1"), make_exchange(turn="2")])
    assert copy(source, target).waiting == 2
    assert target.inbox.status().captured == 0


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories())
def test_random_memories_are_copied(history: list[Adopt]) -> None:
    one, other = MemoryStore(FixedClock()), MemoryStore(FixedClock())
    one.apply(history, {}, by="test", why="")
    copy(one, other)
    assert export_lines(other) == export_lines(one)


# ── interruptions ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("batches", [0, 1, 2])
def test_interrupted_copy_resumes(source: Store, target: Store, batches: int) -> None:
    copy_batches(source, target, batches)
    assert target.snapshots.counts()[0] == 3 * batches
    report = copy(source, target)
    assert (report.known, report.added) == (3 * batches, report.memories - 3 * batches)
    assert export_lines(target, vectors=True) == export_lines(source, vectors=True)
    parts = target.snapshots.parts(min(changeset.id for changeset in target.changesets(100)))
    assert len(parts) == len(target.changesets(100))


def test_memory_changed_at_the_source_is_copied_again(source: Store, target: Store) -> None:
    copy_batches(source, target, 2)
    ids = [row.memory.id for row in target.snapshots.rows(0, 100)]
    apply(source, Edit(ids[0], {"text": "said otherwise"}))
    source.note([Retrieval(ids[1], "q", "cli", to_utc_iso("2026-05-01"))])
    apply(source, Noop(ids[2], Occurrence("bob", "s-9", to_utc_iso("2026-05-01"))))
    apply(source, Purge(ids[3]))
    report = copy(source, target)
    assert (report.changed, report.removed) == (3, 1)
    assert export_lines(target, vectors=True) == export_lines(source, vectors=True)
    assert copy(source, target).known == report.memories


def test_finished_copy_is_updated_while_unused(source: Store, target: Store) -> None:
    copy(source, target)
    assert copy(source, target).added == 0
    new = add(source, "learned since")
    apply(source, Delete(new.id), Delete(1))
    highest = add(source, "gone soon")
    assert copy(source, target).added == 2
    apply(source, Purge(highest.id))
    report = copy(source, target)
    assert (report.added, report.removed) == (0, 1)
    assert export_lines(target, vectors=True) == export_lines(source, vectors=True)


def test_memory_purged_at_the_source_is_removed_from_the_copy(source: Store, target: Store) -> None:
    secret = add(source, "the secret word is xyzzy")
    copy(source, target)
    apply(source, Purge(secret.id))
    copy(source, target)
    assert "xyzzy" not in str([change.before for change in target.history(secret.id)])


def test_recomputed_vectors_are_copied_again(source: Store, target: Store) -> None:
    copy(source, target)
    source.set_signature("another:3", reset=True)
    source.put_vectors({memory.id: vector(memory.text)[::-1] for memory in everything(source)})
    report = copy(source, target)
    assert (report.embedder, report.changed) == ("another:3", report.memories)
    assert export_lines(target, vectors=True) == export_lines(source, vectors=True)


# ── invalid targets ───────────────────────────────────────────────────────────────────────────────────────────────────


def rejection_text(source: Store, target: Store) -> str:
    """Return the error message. The copy must change nothing."""
    before, changes = export_lines(target, vectors=True), len(target.changesets(100))
    with pytest.raises(Conflict) as error_info:
        copy(source, target)
    assert error_info.value.hint
    assert export_lines(target, vectors=True) == before
    assert len(target.changesets(100)) == changes
    return error_info.value.message


def test_target_with_its_own_memories_is_rejected(source: Store, target: Store) -> None:
    add(target, "its own")
    assert "of its own" in rejection_text(source, target)
    apply(target, Purge(everything(target)[0].id))
    assert "of its own" in rejection_text(source, target)  # its ids may be referenced elsewhere


def test_copy_used_since_is_rejected(source: Store, target: Store) -> None:
    copy(source, target)
    add(target, "its own")
    assert "was changed after" in rejection_text(source, target)


def test_copy_of_another_store_is_rejected(source: Store, target: Store, store_makers: tuple[Make, Make]) -> None:
    other = store_makers[0]()
    fill(other)
    copy(other, target)
    assert "of its own" in rejection_text(source, target)


def test_copy_cannot_be_copied_back_to_its_source(source: Store, store_makers: tuple[Make, Make]) -> None:
    stored = store_makers[1]()
    copy(source, stored)
    rejection_text(stored, source)


def test_concurrent_write_to_the_copy_is_detected(source: Store, target: Store) -> None:
    number = source.snapshots.counts()[0]

    def meanwhile(done: int) -> None:
        if done == number:
            apply(target, Edit(1, {"text": "edited in the copy"}))

    with pytest.raises(Conflict, match="digest"):
        copy(source, target, progress=meanwhile)


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_keys_are_copied_with_their_state(source: Store, target: Store) -> None:
    old = source.keys.create(Grant(name="ci", agent="ci"), "d1", "cofio_1", "ann")
    source.keys.revoke(old.id)
    new = source.keys.create(Grant(name="ci", agent="ci", prefixes=("acme",), team="red"), "d2", "cofio_2", "ann")
    source.keys.used({new.id: to_utc_iso("2026-05-01")})
    assert copy(source, target).keys == 2
    for digest in ("d1", "d2"):
        here, there = source.keys.find(digest), target.keys.find(digest)
        assert here
        assert there
        assert replace(there, id=here.id) == here


def test_key_revoked_on_either_side_stays_revoked(source: Store, target: Store) -> None:
    one = source.keys.create(Grant(name="one", agent="a"), "d1", "h", "")
    source.keys.create(Grant(name="two", agent="a"), "d2", "h", "")
    copy(source, target)
    source.keys.revoke(one.id)
    there = target.keys.find("d2")
    assert there
    target.keys.revoke(there.id)
    source.keys.create(Grant(name="one", agent="a"), "d3", "h", "")
    copy(source, target)
    results = {digest: key.revoked_at is None for key, digest in target.keys.carried()}
    assert results == {"d1": False, "d2": False, "d3": True}


def test_keys_of_the_target_are_kept_unless_they_conflict(source: Store, target: Store) -> None:
    target.keys.create(Grant(name="admin", role="admin"), "d0", "h", "")
    source.keys.create(Grant(name="ci", agent="a"), "d1", "h", "")
    copy(source, target)
    assert {digest for _, digest in target.keys.carried()} == {"d0", "d1"}
    source.keys.create(Grant(name="admin", role="admin"), "d2", "h", "")
    assert "'admin'" in rejection_text(source, target)


# ── kills ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

KILLS = 4
KILLED = """
import sys
from cofio import bootstrap as assemble
from cofio.settings import Settings
from cofio.transfer import copy as copying
copying.BATCH = 7
one, other = (assemble.open_store(Settings(store=each)) for each in sys.argv[1:])
told = copying.copy(one, other, progress=lambda done: print(done, flush=True))
print(told.digest, flush=True)
"""


def test_repeatedly_killed_copy_to_sqlite_is_complete(tmp_path: Path) -> None:
    urls = [f"sqlite://{tmp_path / name}" for name in ("one.db", "two.db")]
    assert_complete_after_kills(urls, open_store(tmp_path / "one.db"), lambda: open_store(tmp_path / "two.db"))


def test_repeatedly_killed_copy_to_postgres_is_complete(tmp_path: Path, postgres_url: str) -> None:
    from cofio.stores.postgres import PostgresStore

    urls = [f"sqlite://{tmp_path / 'one.db'}", postgres_url]
    assert_complete_after_kills(
        urls, open_store(tmp_path / "one.db"), lambda: PostgresStore(postgres_url, FixedClock())
    )


def was_killed(urls: list[str], rng: random.Random) -> bool:
    """Return True if the copy was killed before it finished."""
    with subprocess.Popen([sys.executable, "-c", KILLED, *urls], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        for _ in range(rng.randint(1, 60)):
            child.stdout.readline()
        time.sleep(rng.random() / 200)  # at a random moment of the following work
        child.kill()
    return child.returncode == -signal.SIGKILL


def assert_complete_after_kills(urls: list[str], source: Store, reopened: Make) -> None:
    """Kill copies at random moments until one finishes, and check the result."""
    fill(source)
    for start in range(0, 400, 100):
        facts = [Add(Fact(text=f"fact {start + index} of many")) for index in range(100)]
        source.apply(facts, {place: vector(each.fact.text) for place, each in enumerate(facts)}, by="test", why="")
    seed = random.randrange(1 << 20)
    rng = random.Random(seed)
    assert sum(was_killed(urls, rng) for _ in range(KILLS)) > 0, f"seed {seed}: it was never killed"
    command = [sys.executable, "-c", KILLED, *urls]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 0, f"seed {seed}: {result.stderr}"
    target = reopened()
    assert export_lines(target, vectors=True) == export_lines(source, vectors=True), f"seed {seed}"
    assert copy(source, target).digest == result.stdout.split()[-1]
    assert target.stats()["memories"] == source.stats()["memories"]
    source.close()
    target.close()
