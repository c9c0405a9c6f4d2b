"""One store copied into another, of whatever kind either is: the same, whole, however often it was stopped."""

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
from tests.stores.episodes_contract import by_words, episode
from tests.stores.inbox_contract import said
from tests.transfer.fixtures import exported, fill, histories, opened

Make = Callable[[], Store]
PAIRS = [
    ("sqlite", "sqlite"),
    ("memory", "sqlite"),
    ("sqlite", "memory"),
    ("sqlite", "postgres"),
    ("postgres", "sqlite"),
    ("postgres", "postgres"),
]


def maker(kind: str, request: pytest.FixtureRequest, folder: Path, made: list[Store]) -> Make:
    """A function that makes a new store of this kind."""

    def new() -> Store:
        if kind == "memory":
            made.append(MemoryStore(FixedClock()))
        elif kind == "sqlite":
            made.append(opened(folder / f"{len(made)}.db"))
        else:
            from cofio.stores.postgres import PostgresStore

            url = request.getfixturevalue("postgres_url")
            made.append(PostgresStore(f"{url}?tenant=store-{len(made)}", FixedClock()))
        return made[-1]

    return new


@pytest.fixture(params=PAIRS, ids="-".join)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Make, Make]]:
    """What makes stores to copy from, and what makes stores to copy into."""
    made: list[Store] = []
    one, other = request.param
    yield maker(one, request, tmp_path, made), maker(other, request, tmp_path, made)
    for each in made:
        each.close()


@pytest.fixture
def source(pair: tuple[Make, Make]) -> Store:
    store = pair[0]()
    fill(store)
    return store


@pytest.fixture
def target(pair: tuple[Make, Make]) -> Store:
    return pair[1]()


def stop_after(monkeypatch: pytest.MonkeyPatch, store: Store, batches: int) -> None:
    """Have the store fail after so many changesets of three memories."""
    monkeypatch.setattr(transfer_copy, "BATCH", 3)
    left = count()
    real = store.apply

    def apply(*given: Any, **how: Any) -> Any:
        if next(left) >= batches:
            raise KeyboardInterrupt
        return real(*given, **how)

    monkeypatch.setattr(store, "apply", apply)


def stopped(source: Store, target: Store, batches: int) -> None:
    """Copy until so many batches are done, and no further."""
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, target, batches)
        with pytest.raises(KeyboardInterrupt):
            copy(source, target)


# ── what a copy is ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_copy_is_exported_byte_for_byte_with_name_and_vectors(source: Store, target: Store) -> None:
    told = copy(source, target, by="tester")
    lines = exported(source, vectors=True)
    assert exported(target, vectors=True) == lines
    assert (told.memories, told.added, told.changed, told.removed, told.known) == (len(lines) - 1, told.added, 0, 0, 0)
    assert told.added == told.memories > 5
    assert told.store == target.snapshots.identity() == source.snapshots.identity()
    assert told.embedder == target.stats()["embedder"] == source.stats()["embedder"]
    assert len(told.digest) == 64


def test_a_copy_finds_what_the_source_finds(source: Store, target: Store) -> None:
    copy(source, target)
    for text in ("where do we deploy?", "PostgreSQL"):
        found = [each.id for each in source.nearest(vector(text), 5, Scope())]
        assert [each.id for each in target.nearest(vector(text), 5, Scope())] == found
    assert {candidate.id for candidate in target.matching(["postgresql"], 5, Scope()).candidates} == {
        candidate.id for candidate in source.matching(["postgresql"], 5, Scope()).candidates
    }
    pinned = [memory for memory in everything(source) if memory.pinned]
    assert target.newest(Scope(pinned=True), 5) == pinned
    assert [set(target.occurrences(each.id)) for each in pinned] == [
        set(source.occurrences(each.id)) for each in pinned
    ]


def test_episodes_come_along_and_follow(source: Store, target: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer_copy, "EPISODES", 2)
    made = [episode(source, f"We met at harbour{each}.", "I see.", turn=str(each)) for each in range(5)]
    _embed_passages(source)
    assert copy(source, target).episodes == 5
    assert target.snapshots.episodes(0, 10) == source.snapshots.episodes(0, 10)
    assert by_words(target, "harbour3") == [made[3].id]
    assert target.episodes.get([made[3].id])[0].capture is None
    source.episodes.remove([made[0].id, made[4].id])
    late = episode(source, "We met at the lighthouse.")
    told = copy(source, target)
    assert told.episodes == 4
    assert target.snapshots.episodes(0, 10) == source.snapshots.episodes(0, 10)
    assert by_words(target, "harbour0") == by_words(target, "harbour4") == []
    assert by_words(target, "lighthouse") == [late.id]
    assert episode(target, "A turn of its own.").id > late.id


def _embed_passages(store: Store) -> None:
    store.episodes.put_vectors({each.id: vector(each.text) for each in store.episodes.unembedded(100)})


def test_a_copy_is_a_series_that_says_so_and_can_be_taken_back(
    source: Store, target: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer_copy, "BATCH", 3)
    copy(source, target, by="tester")
    done = target.changesets(100)
    assert len(done) > 2
    assert {(each.by, each.why) for each in done} == {("tester", f"copy of store {source.snapshots.identity()}")}
    assert {each.part_of for each in done[:-1]} == {done[-1].id}
    for each in done:
        undo(target, each.id)
    assert everything(target) == []


def test_the_source_is_left_as_it_was(source: Store, target: Store) -> None:
    before, changes = exported(source, vectors=True), len(source.changesets(100))
    copy(source, target)
    assert exported(source, vectors=True) == before
    assert len(source.changesets(100)) == changes


def test_no_id_is_given_again_that_the_source_ever_gave(source: Store, target: Store) -> None:
    last = add(source, "the last one").id
    apply(source, Purge(last))
    copy(source, target)
    assert add(target, "the next one").id > last


def test_what_is_written_while_it_is_copied_does_not_show(
    source: Store, target: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer_copy, "BATCH", 3)
    lines = exported(source, vectors=True)

    def meanwhile(done: int) -> None:
        if done <= len(lines):
            add(source, f"written after {done}")
            apply(source, Edit(1, {"text": f"edited after {done}"}))

    copy(source, target, progress=meanwhile)
    assert exported(target, vectors=True) == lines != exported(source, vectors=True)


def test_progress_tells_what_is_written_and_what_is_read_back(source: Store, target: Store) -> None:
    told: list[int] = []
    number = copy(source, target, progress=told.append).memories
    assert told == sorted(told)
    assert told[-1] == 2 * number


def test_an_empty_store_is_copied_too(pair: tuple[Make, Make]) -> None:
    source, target = pair[0](), pair[1]()
    assert copy(source, target).memories == 0
    fill(source)
    assert copy(source, target).added == source.snapshots.counts()[0]


def test_a_copy_can_be_copied_on(source: Store, pair: tuple[Make, Make]) -> None:
    between, last = pair[1](), pair[0]()
    first, second = copy(source, between), copy(between, last)
    assert first.digest == second.digest
    assert exported(last, vectors=True) == exported(source, vectors=True)


def test_what_has_no_vector_has_none_in_the_copy(source: Store, target: Store) -> None:
    source.apply([Add(Fact(text="not embedded yet"))], {}, by="test", why="")
    copy(source, target)
    assert [memory.text for memory in target.unembedded(10)] == ["not embedded yet"]


def test_what_waits_to_be_learned_from_is_counted_and_stays(source: Store, target: Store) -> None:
    source.inbox.receive([said(turn="1"), said(turn="2")])
    assert copy(source, target).waiting == 2
    assert target.inbox.status().captured == 0


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories())
def test_whatever_memories_there_are_the_copy_has_them(history: list[Adopt]) -> None:
    one, other = MemoryStore(FixedClock()), MemoryStore(FixedClock())
    one.apply(history, {}, by="test", why="")
    copy(one, other)
    assert exported(other) == exported(one)


# ── stopped, and gone on with ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("batches", [0, 1, 2])
def test_a_copy_that_was_stopped_goes_on(source: Store, target: Store, batches: int) -> None:
    stopped(source, target, batches)
    assert target.snapshots.counts()[0] == 3 * batches
    told = copy(source, target)
    assert (told.known, told.added) == (3 * batches, told.memories - 3 * batches)
    assert exported(target, vectors=True) == exported(source, vectors=True)
    parts = target.snapshots.parts(min(changeset.id for changeset in target.changesets(100)))
    assert len(parts) == len(target.changesets(100))


def test_what_changed_at_the_source_since_is_brought_anew(source: Store, target: Store) -> None:
    stopped(source, target, 2)
    ids = [row.memory.id for row in target.snapshots.rows(0, 100)]
    apply(source, Edit(ids[0], {"text": "said otherwise"}))
    source.note([Retrieval(ids[1], "q", "cli", to_utc_iso("2026-05-01"))])
    apply(source, Noop(ids[2], Occurrence("bob", "s-9", to_utc_iso("2026-05-01"))))
    apply(source, Purge(ids[3]))
    told = copy(source, target)
    assert (told.changed, told.removed) == (3, 1)
    assert exported(target, vectors=True) == exported(source, vectors=True)
    assert copy(source, target).known == told.memories


def test_a_finished_copy_is_brought_up_to_date_as_long_as_nobody_uses_it(source: Store, target: Store) -> None:
    copy(source, target)
    assert copy(source, target).added == 0
    new = add(source, "learned since")
    apply(source, Delete(new.id), Delete(1))
    highest = add(source, "gone soon")
    assert copy(source, target).added == 2
    apply(source, Purge(highest.id))
    told = copy(source, target)
    assert (told.added, told.removed) == (0, 1)
    assert exported(target, vectors=True) == exported(source, vectors=True)


def test_what_was_purged_at_the_source_is_nowhere_in_the_copy(source: Store, target: Store) -> None:
    secret = add(source, "the secret word is xyzzy")
    copy(source, target)
    apply(source, Purge(secret.id))
    copy(source, target)
    assert "xyzzy" not in str([change.before for change in target.history(secret.id)])


def test_vectors_that_were_made_again_come_again(source: Store, target: Store) -> None:
    copy(source, target)
    source.set_signature("another:3", reset=True)
    source.put_vectors({memory.id: vector(memory.text)[::-1] for memory in everything(source)})
    told = copy(source, target)
    assert (told.embedder, told.changed) == ("another:3", told.memories)
    assert exported(target, vectors=True) == exported(source, vectors=True)


# ── what is no place for a copy ───────────────────────────────────────────────────────────────────────────────────────


def refused(source: Store, target: Store) -> str:
    """What the refusal says. It changes nothing."""
    before, changes = exported(target, vectors=True), len(target.changesets(100))
    with pytest.raises(Conflict) as caught:
        copy(source, target)
    assert caught.value.hint
    assert exported(target, vectors=True) == before
    assert len(target.changesets(100)) == changes
    return caught.value.message


def test_a_store_with_memories_of_its_own_is_refused(source: Store, target: Store) -> None:
    add(target, "its own")
    assert "of its own" in refused(source, target)
    apply(target, Purge(everything(target)[0].id))
    assert "of its own" in refused(source, target)  # its ids mean something to somebody


def test_a_copy_that_was_used_since_is_refused(source: Store, target: Store) -> None:
    copy(source, target)
    add(target, "its own")
    assert "was changed after" in refused(source, target)


def test_a_copy_of_another_store_is_refused(source: Store, target: Store, pair: tuple[Make, Make]) -> None:
    other = pair[0]()
    fill(other)
    copy(other, target)
    assert "of its own" in refused(source, target)


def test_a_copy_is_not_copied_back_over_the_store_that_it_came_from(source: Store, pair: tuple[Make, Make]) -> None:
    kept = pair[1]()
    copy(source, kept)
    refused(kept, source)


def test_somebody_who_writes_into_the_copy_is_noticed(source: Store, target: Store) -> None:
    number = source.snapshots.counts()[0]

    def meanwhile(done: int) -> None:
        if done == number:
            apply(target, Edit(1, {"text": "edited in the copy"}))

    with pytest.raises(Conflict, match="digest"):
        copy(source, target, progress=meanwhile)


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_keys_come_along_with_what_became_of_them(source: Store, target: Store) -> None:
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


def test_a_key_that_was_revoked_on_either_side_stays_so(source: Store, target: Store) -> None:
    one = source.keys.create(Grant(name="one", agent="a"), "d1", "h", "")
    source.keys.create(Grant(name="two", agent="a"), "d2", "h", "")
    copy(source, target)
    source.keys.revoke(one.id)
    there = target.keys.find("d2")
    assert there
    target.keys.revoke(there.id)
    source.keys.create(Grant(name="one", agent="a"), "d3", "h", "")
    copy(source, target)
    found = {digest: key.revoked_at is None for key, digest in target.keys.carried()}
    assert found == {"d1": False, "d2": False, "d3": True}


def test_keys_of_the_target_stay_unless_they_are_in_the_way(source: Store, target: Store) -> None:
    target.keys.create(Grant(name="admin", role="admin"), "d0", "h", "")
    source.keys.create(Grant(name="ci", agent="a"), "d1", "h", "")
    copy(source, target)
    assert {digest for _, digest in target.keys.carried()} == {"d0", "d1"}
    source.keys.create(Grant(name="admin", role="admin"), "d2", "h", "")
    assert "'admin'" in refused(source, target)


# ── killed ────────────────────────────────────────────────────────────────────────────────────────────────────────────

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


def test_a_copy_that_is_killed_again_and_again_comes_out_whole(tmp_path: Path) -> None:
    urls = [f"sqlite://{tmp_path / name}" for name in ("one.db", "two.db")]
    comes_out_whole(urls, opened(tmp_path / "one.db"), lambda: opened(tmp_path / "two.db"))


def test_a_copy_into_a_server_that_is_killed_again_and_again_comes_out_whole(tmp_path: Path, postgres_url: str) -> None:
    from cofio.stores.postgres import PostgresStore

    urls = [f"sqlite://{tmp_path / 'one.db'}", postgres_url]
    comes_out_whole(urls, opened(tmp_path / "one.db"), lambda: PostgresStore(postgres_url, FixedClock()))


def killed(urls: list[str], rng: random.Random) -> bool:
    """Whether a copy was killed before it was through."""
    with subprocess.Popen([sys.executable, "-c", KILLED, *urls], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        for _ in range(rng.randint(1, 60)):
            child.stdout.readline()
        time.sleep(rng.random() / 200)  # somewhere within what follows
        child.kill()
    return child.returncode == -signal.SIGKILL


def comes_out_whole(urls: list[str], source: Store, reopened: Make) -> None:
    """Kill copies at random moments; the next goes on, and in the end all of it is there."""
    fill(source)
    for start in range(0, 400, 100):
        facts = [Add(Fact(text=f"fact {start + each} of many")) for each in range(100)]
        source.apply(facts, {place: vector(each.fact.text) for place, each in enumerate(facts)}, by="test", why="")
    seed = random.randrange(1 << 20)
    rng = random.Random(seed)
    assert sum(killed(urls, rng) for _ in range(KILLS)) > 0, f"seed {seed}: it was never killed"
    command = [sys.executable, "-c", KILLED, *urls]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, f"seed {seed}: {done.stderr}"
    target = reopened()
    assert exported(target, vectors=True) == exported(source, vectors=True), f"seed {seed}"
    assert copy(source, target).digest == done.stdout.split()[-1]
    assert target.stats()["memories"] == source.stats()["memories"]
    source.close()
    target.close()
