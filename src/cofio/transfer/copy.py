"""Copies of a store into another of any kind: every memory unchanged, under its own id.

    source ─ still ─▶ batches of rows ─ compared with the target's ─▶ Adopt, Revert, Purge ─ target.apply
                      rows of domain knowledge, the same way ────────▶ PutRow, DeleteRow, PurgeRow ───┘
                      episodes, the same way ────────────────────────▶ adopt, remove
           └──────── digest of all ◀─ must be the same ─▶ digest of all ─────────────────── target

The target is empty, or holds nothing but earlier copies from the same store: its name tells the source, and its journal
that it had no other writer. So an interrupted copy can be resumed, and a finished one can be updated as long as it is
not used. Vectors are copied; no model is needed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from hashlib import sha256
from typing import Any, Generic, TypeVar

from cofio.errors import Conflict
from cofio.models.auth import Key
from cofio.models.domain_knowledge import TABLES, Knowledge, Table
from cofio.models.episodes import ExportedEpisode
from cofio.models.maintenance import ExportedMemory
from cofio.models.memory import Adopt, Decision, DeleteRow, Memory, Purge, PurgeRow, PutRow, Revert
from cofio.ports import Snapshots, Store, Vector
from cofio.stores.snapshot_export import as_vector
from cofio.transfer.export import row_to_dict

BATCH = 1_000  # memories in one changeset
EPISODES = 100  # episodes adopted at a time
#: Data that is not copied, as shown to the user.
STAYS = (
    "the history of changes (a copy starts its own), the inbox, the logs of retrievals, injections and "
    "access, past runs, the index of note files"
)
_ALL = 1 << 31  # more changesets than there can be
_FIELDS = tuple(attribute.name for attribute in fields(Memory))
_Row = TypeVar("_Row")
_Id = TypeVar("_Id", int, str)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyResult:
    """Result of a copy. The digest is that of both stores, over every memory and row with all their data."""

    store: str  # the name of both stores
    memories: int  # archived ones included
    knowledge: int = 0  # rows of domain knowledge
    episodes: int = 0
    added: int = 0
    changed: int = 0  # in an earlier copy, and different now
    removed: int = 0  # in an earlier copy, and deleted at the source
    keys: int = 0
    embedder: str | None = None
    digest: str = ""
    waiting: int = 0  # captures pending in the inbox of the source, which are not copied

    @property
    def known(self) -> int:
        """The number of memories unchanged since an earlier copy."""
        return self.memories - self.added - self.changed

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "known": self.known}


# ── the rows of a store ───────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _RowSet(Generic[_Row, _Id]):
    """Rows of one kind, read in batches by ascending id."""

    name: str
    fetch: Callable[[Snapshots, _Id], Sequence[_Row]]  # returns the next batch above an id
    get_id: Callable[[_Row], _Id]
    lowest: _Id  # below every id
    encode: Callable[[_Row], Iterable[bytes]]  # returns all data of a row, the same bytes for every kind of store

    def batches(self, snapshots: Snapshots, after: _Id, last: _Id | None = None) -> Iterator[Sequence[_Row]]:
        """Yield the rows above an id up to another, or all of them."""
        while (last is None or after < last) and (rows := self.fetch(snapshots, after)):
            after = self.get_id(rows[-1])
            yield [row for row in rows if last is None or self.get_id(row) <= last]

    def by_id(self, snapshots: Snapshots, after: _Id, last: _Id | None = None) -> dict[_Id, _Row]:
        return {self.get_id(row): row for rows in self.batches(snapshots, after, last) for row in rows}


def _encode_memory(row: ExportedMemory) -> Iterator[bytes]:
    sightings = sorted(row.sightings, key=lambda sighting: (sighting.at, sighting.agent, sighting.session))
    plain = {name: getattr(row.memory, name) for name in _FIELDS}
    plain["anchors"] = [asdict(anchor) for anchor in row.memory.anchors]
    plain["sightings"] = [(sighting.at, sighting.agent, sighting.session) for sighting in sightings]
    plain["vector"] = None if row.vector is None else len(row.vector)
    yield _to_json(plain)
    yield row.vector or b""


def _encode_episode(row: ExportedEpisode) -> Iterator[bytes]:
    yield _to_json({**row.episode.as_dict(), "passages": [text for text, _ in row.passages]})
    for _, vector in row.passages:
        yield vector or b""


def _to_json(plain: Mapping[str, Any]) -> bytes:
    return json.dumps(plain, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def _knowledge_rows(table: Table) -> _RowSet[Knowledge, str]:
    return _RowSet(
        "knowledge",
        lambda snapshots, after: snapshots.knowledge(table, after, BATCH),
        lambda row: row.id,
        "",
        lambda row: [_to_json(row_to_dict(row))],
    )


_MEMORIES = _RowSet[ExportedMemory, int](
    "memories",
    lambda snapshots, after: snapshots.rows(after, BATCH, vectors=True),
    lambda row: row.memory.id,
    0,
    _encode_memory,
)
_KNOWLEDGE = tuple(_knowledge_rows(table) for table in TABLES)
_EPISODES = _RowSet[ExportedEpisode, int](
    "episodes",
    lambda snapshots, after: snapshots.episodes(after, EPISODES),
    lambda row: row.episode.id,
    0,
    _encode_episode,
)


class _RowDigest:
    """Number of rows by kind, and a digest of all their data."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.hash = sha256()

    def add(self, kind: _RowSet[_Row, Any], rows: Iterable[_Row]) -> None:
        for row in rows:
            for part in kind.encode(row):
                self.hash.update(part)
            self.counts[kind.name] += 1


# ── copying ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(kw_only=True)
class CopyRun:
    """Options and progress of a copy."""

    source: Store
    target: Store
    by: str = "library"
    progress: Callable[[int], None] = lambda _: None  # called with the rows read, in the source and then in the target
    why: str = ""
    first: int | None = None  # the first changeset of the series
    counted: Counter[str] = field(default_factory=Counter)

    def run(self) -> CopyResult:
        """Make the target a copy of the present source. It can be run again after any interruption, and resumes.

        Raise Conflict if the target is not suitable, or if the result differs.
        """
        name = self.source.snapshots.identity()
        self.why = f"copy of store {name}"
        embedder = self.source.stats()["embedder"]
        keys = self.source.keys.carried()
        self._refuse_other_keys({digest: key for key, digest in keys})
        self._become(name)
        copied = _RowDigest()
        with self.source.snapshots.snapshot() as still:
            if self.source.stats()["embedder"] != embedder:
                raise Conflict("The source store is being re-embedded.", "Copy it when `cofio reembed` has finished.")
            # All ids that the source ever assigned are reserved, so that those of deleted memories are not reused.
            missing = self.source.snapshots.reserve(0) - self.target.snapshots.reserve(0)
            if missing > 0:
                self.target.snapshots.reserve(missing)
            self._sign(embedder)
            self._copy(_MEMORIES, still, copied, self._put_memories)
            for kind in _KNOWLEDGE:
                self._copy(kind, still, copied, self._put_knowledge)
            self._copy(_EPISODES, still, copied, self._put_episodes)
        self._sign(embedder)  # now that all vectors are stored: the store may have to build an index of them
        for key, digest in keys:
            self.target.keys.adopt(key, digest)
        self._check(copied)
        return CopyResult(
            store=name,
            memories=copied.counts["memories"],
            knowledge=copied.counts["knowledge"],
            episodes=copied.counts["episodes"],
            keys=len(keys),
            embedder=embedder,
            digest=copied.hash.hexdigest(),
            waiting=self.source.inbox.status().pending,
            **self.counted,
        )

    def _refuse_other_keys(self, coming: Mapping[str, Key]) -> None:
        names = {key.grant.name for key in coming.values() if key.revoked_at is None}
        for key, digest in self.target.keys.carried():
            if digest not in coming and key.revoked_at is None and key.grant.name in names:
                hint = "Nothing was changed. Revoke one of the two with `cofio keys revoke`, then copy again."
                raise Conflict(f"The source and the target store have different keys named {key.grant.name!r}.", hint)

    def _become(self, name: str) -> None:
        """Take the source's name, unless an earlier copy did. Raise Conflict if the target is not a copy of it."""
        carrying = self.target.snapshots
        if not self.target.changesets(1) and carrying.adopt_identity(name):
            return
        hint = "Copy into a new store, or merge memories with `cofio export` and `cofio import`."
        if carrying.identity() != name:
            raise Conflict("The target store has memories of its own.", f"{hint} Nothing was changed.")
        changesets = self.target.changesets(_ALL)
        if any(changeset.why != self.why for changeset in changesets):
            raise Conflict("The target store was changed after it was copied.", f"{hint} Nothing was changed.")
        self.first = min((changeset.id for changeset in changesets), default=None)

    def _sign(self, embedder: str | None) -> None:
        signature = self.target.stats()["embedder"]
        if embedder:  # if it was re-embedded since, all vectors are copied again
            self.target.set_signature(embedder, reset=signature not in (None, embedder))

    def _copy(
        self,
        kind: _RowSet[_Row, _Id],
        still: Snapshots,
        copied: _RowDigest,
        put: Callable[[Sequence[_Row], dict[_Id, _Row]], None],
    ) -> None:
        """Copy the rows of a kind: `put` gets each batch with the target's rows in its range, by id."""
        after = kind.lowest
        for rows in kind.batches(still, after):
            last = kind.get_id(rows[-1])
            put(rows, kind.by_id(self.target.snapshots, after, last))
            copied.add(kind, rows)
            if kind is _MEMORIES:
                self.progress(copied.counts["memories"])
            after = last
        put((), kind.by_id(self.target.snapshots, after))

    def _put_memories(self, rows: Sequence[ExportedMemory], existing: dict[int, ExportedMemory]) -> None:
        ids = {row.memory.id for row in rows}
        gone = [memory_id for memory_id in existing if memory_id not in ids]
        new = [row for row in rows if row.memory.id not in existing]
        changed = [
            row
            for row in rows
            if (old := existing.get(row.memory.id)) and list(_encode_memory(row)) != list(_encode_memory(old))
        ]
        decisions: list[Decision] = [Purge(memory_id, "deleted at the source") for memory_id in gone]
        for row in changed:
            history = self.target.history(row.memory.id)
            added_by = max(change.id for change in history if change.memory_id == row.memory.id)
            decisions.append(Revert(added_by, "changed at the source"))
        vectors: dict[int, Vector] = {}
        for row in (*changed, *new):
            if row.vector is not None:
                vectors[len(decisions)] = as_vector(row.vector)
            decisions.append(Adopt(row.memory, row.sightings))
        if decisions:
            self._apply(decisions, vectors)
        self.counted.update(added=len(new), changed=len(changed), removed=len(gone))

    def _put_knowledge(self, rows: Sequence[Knowledge], existing: dict[str, Knowledge]) -> None:
        ids = {row.id for row in rows}
        decisions: list[Decision] = [
            PurgeRow(row.TABLE, row.id, "deleted at the source") for row in existing.values() if row.id not in ids
        ]
        for row in rows:
            old = existing.get(row.id)
            if old != row:
                decisions += [DeleteRow(row.TABLE, row.id, "changed at the source")] if old else []
                decisions.append(PutRow(row))
        if decisions:
            self._apply(decisions, {})

    def _put_episodes(self, rows: Sequence[ExportedEpisode], existing: dict[int, ExportedEpisode]) -> None:
        """Copy episodes without their captures, which stay in the source's inbox."""
        changed = [row for row in rows if existing.pop(row.episode.id, None) != row]
        if changed:
            self.target.episodes.adopt(changed)
        if existing:
            self.target.episodes.remove(list(existing))

    def _apply(self, decisions: Sequence[Decision], vectors: Mapping[int, Vector]) -> None:
        try:
            done = self.target.apply(decisions, vectors, by=self.by, why=self.why, part_of=self.first)
        except Conflict as error:
            hint = "Stop that process, then copy again: the copy continues from here."
            raise Conflict("Another process changed the target store during the copy.", hint) from error
        self.first = self.first or done.id

    def _check(self, expected: _RowDigest) -> None:
        """Read everything back and compare the digests. Raise Conflict if they differ."""
        actual, total = _RowDigest(), expected.counts["memories"]
        kinds: tuple[_RowSet[Any, Any], ...] = (_MEMORIES, *_KNOWLEDGE, _EPISODES)
        with self.target.snapshots.snapshot() as still:
            for kind in kinds:
                for rows in kind.batches(still, kind.lowest):
                    actual.add(kind, rows)
                    if kind is _MEMORIES:
                        self.progress(total + min(actual.counts["memories"], total))
        if (actual.counts, actual.hash.digest()) != (expected.counts, expected.hash.digest()):
            here, there = actual.counts, expected.counts
            message = (
                f"The copy has {here['memories']:,} memories, {here['knowledge']:,} rows of domain knowledge, "
                f"{here['episodes']:,} episodes and the digest {actual.hash.hexdigest()}; the source has "
                f"{there['memories']:,}, {there['knowledge']:,}, {there['episodes']:,} and {expected.hash.hexdigest()}."
            )
            hint = "Another process may have changed the copy. Copy again: only the differences are copied."
            raise Conflict(message, hint)


def copy(
    source: Store, target: Store, *, by: str = "library", progress: Callable[[int], None] | None = None
) -> CopyResult:
    """Make the target a copy of the source."""
    return CopyRun(source=source, target=target, by=by, progress=progress or (lambda _: None)).run()
