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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from hashlib import sha256
from typing import Any

from cofio.errors import Conflict
from cofio.models.auth import Key
from cofio.models.domain_knowledge import TABLES, DeleteRow, Knowledge, PurgeRow, PutRow, RowDecision, Table
from cofio.models.episodes import ExportedEpisode
from cofio.models.maintenance import ExportedMemory
from cofio.models.memory import Adopt, Decision, Memory, Occurrence, Purge, Revert
from cofio.ports import Snapshots, Store, Vector
from cofio.stores.snapshot_export import as_vector
from cofio.transfer import knowledge

BATCH = 1_000  # memories in one changeset
EPISODES = 100  # episodes adopted at a time
#: Data that is not copied, as shown to the user.
STAYS = (
    "the history of changes (a copy starts its own), the inbox, the logs of retrievals, injections and "
    "access, past runs, the index of note files"
)
_ALL = 1 << 31  # more changesets than there can be
_FIELDS = tuple(attribute.name for attribute in fields(Memory))


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


@dataclass(kw_only=True)
class CopyRun:
    """Options and progress of a copy."""

    source: Store
    target: Store
    by: str = "library"
    progress: Callable[[int], None] = lambda _: None  # called with the rows read, in the source and then in the target
    first: int | None = None  # the first changeset of the series
    counted: dict[str, int] = field(default_factory=lambda: {"added": 0, "changed": 0, "removed": 0})

    def run(self) -> CopyResult:
        """Make the target a copy of the present source. It can be run again after any interruption, and resumes.

        Raise Conflict if the target is not suitable, or if the result differs.
        """
        name = self.source.snapshots.identity()
        embedder = self.source.stats()["embedder"]
        keys = self.source.keys.carried()
        self._refuse_other_keys({digest: key for key, digest in keys})
        self._become(name)
        with self.source.snapshots.snapshot() as still:
            if self.source.stats()["embedder"] != embedder:
                raise Conflict("The source store is being re-embedded.", "Copy it when `cofio reembed` has finished.")
            self._keep_ids()
            self._sign(embedder)
            copied = self._copy_rows(still, f"copy of store {name}")
            self._copy_knowledge(still, copied, f"copy of store {name}")
            self._copy_episodes(still, copied)
        self._sign(embedder)  # now that all vectors are stored: the store may have to build an index of them
        for key, digest in keys:
            self.target.keys.adopt(key, digest)
        self._check(copied)
        return CopyResult(
            store=name,
            memories=copied.count,
            knowledge=copied.rows,
            episodes=copied.episodes,
            keys=len(keys),
            embedder=embedder,
            digest=copied.digest,
            waiting=self.source.inbox.status().pending,
            **self.counted,
        )

    # ── checks ────────────────────────────────────────────────────────────────────────────────────────────────────────

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
        if any(changeset.why != f"copy of store {name}" for changeset in changesets):
            raise Conflict("The target store was changed after it was copied.", f"{hint} Nothing was changed.")
        self.first = min((changeset.id for changeset in changesets), default=None)

    # ── copying ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _keep_ids(self) -> None:
        """Reserve all ids that the source ever assigned, so that those of deleted memories are not reused."""
        missing = self.source.snapshots.reserve(0) - self.target.snapshots.reserve(0)
        if missing > 0:
            self.target.snapshots.reserve(missing)

    def _sign(self, embedder: str | None) -> None:
        signature = self.target.stats()["embedder"]
        if embedder and embedder != signature:
            self.target.set_signature(
                embedder, reset=signature is not None
            )  # recomputed since: all vectors are copied again
        elif embedder:
            self.target.set_signature(embedder)

    def _copy_rows(self, still: Snapshots, why: str) -> _RowDigest:
        """Copy every row; return their count and digest."""
        copied, after = _RowDigest(), 0
        highest = self.target.snapshots.counts()[1]
        while rows := still.rows(after, BATCH, vectors=True):
            last = rows[-1].memory.id
            existing = _get_rows(self.target.snapshots, after, last) if after < highest else {}
            self._bring(rows, existing, why)
            copied.add(rows)
            self.progress(copied.count)
            after = last
        self._bring((), _get_rows(self.target.snapshots, after, highest) if after < highest else {}, why)
        return copied

    def _bring(self, rows: Sequence[ExportedMemory], existing: Mapping[int, ExportedMemory], why: str) -> None:
        """Make the target hold these rows, and no others in their range."""
        ids = {row.memory.id for row in rows}
        gone = [memory_id for memory_id in existing if memory_id not in ids]
        changed = [row for row in rows if row.memory.id in existing and not _is_same(row, existing[row.memory.id])]
        new = [row for row in rows if row.memory.id not in existing]
        decisions: list[Decision] = [Purge(memory_id, "deleted at the source") for memory_id in gone]
        decisions += [Revert(self._find_change(row.memory.id), "changed at the source") for row in changed]
        vectors: dict[int, Vector] = {}
        for row in (*changed, *new):
            if row.vector is not None:
                vectors[len(decisions)] = as_vector(row.vector)
            decisions.append(Adopt(row.memory, row.sightings))
        if decisions:
            self._apply(decisions, vectors, why)
        for name, items in (("added", new), ("changed", changed), ("removed", gone)):
            self.counted[name] += len(items)

    def _copy_knowledge(self, still: Snapshots, copied: _RowDigest, why: str) -> None:
        """Copy every row of domain knowledge, as `_copy_rows` does for memories."""
        for table in TABLES:
            after = ""
            while rows := still.knowledge(table, after, BATCH):
                existing = _get_knowledge(self.target.snapshots, table, after, rows[-1].id)
                self._bring_known(rows, existing, why)
                copied.know(rows)
                after = rows[-1].id
            self._bring_known((), _get_knowledge(self.target.snapshots, table, after, None), why)

    def _bring_known(self, rows: Sequence[Knowledge], existing: Mapping[str, Knowledge], why: str) -> None:
        ids = {row.id for row in rows}
        decisions: list[RowDecision] = [
            PurgeRow(row.TABLE, row.id, "deleted at the source") for row in existing.values() if row.id not in ids
        ]
        for row in rows:
            old = existing.get(row.id)
            if old != row:
                decisions += [DeleteRow(row.TABLE, row.id, "changed at the source")] if old else []
                decisions.append(PutRow(row))
        if decisions:
            self._apply((), {}, why, decisions)

    def _copy_episodes(self, still: Snapshots, copied: _RowDigest) -> None:
        """Copy every episode, without its capture, which stays in the source's inbox."""
        after = 0
        while episodes := still.episodes(after, EPISODES):
            last = episodes[-1].episode.id
            existing = {episode.episode.id: episode for episode in _iter_episodes(self.target.snapshots, after, last)}
            changed = [episode for episode in episodes if existing.pop(episode.episode.id, None) != episode]
            if changed:
                self.target.episodes.adopt(changed)
            self._remove_episodes(existing)
            copied.say(episodes)
            after = last
        self._remove_episodes(episode.episode.id for episode in _iter_episodes(self.target.snapshots, after, None))

    def _remove_episodes(self, ids: Iterable[int]) -> None:
        if gone := list(ids):
            self.target.episodes.remove(gone)

    def _apply(
        self,
        decisions: Sequence[Decision],
        vectors: Mapping[int, Vector],
        why: str,
        knowledge: Sequence[RowDecision] = (),
    ) -> None:
        try:
            done = self.target.apply(decisions, vectors, by=self.by, why=why, part_of=self.first, knowledge=knowledge)
        except Conflict as error:
            hint = "Stop that process, then copy again: the copy continues from here."
            raise Conflict("Another process changed the target store during the copy.", hint) from error
        self.first = self.first or done.id

    def _find_change(self, memory_id: int) -> int:
        """Return the change by which an earlier copy added the memory."""
        return max(change.id for change in self.target.history(memory_id) if change.memory_id == memory_id)

    def _check(self, expected: _RowDigest) -> None:
        """Read everything back and compare the digests. Raise Conflict if they differ."""
        actual, after = _RowDigest(), 0
        with self.target.snapshots.snapshot() as still:
            while rows := still.rows(after, BATCH, vectors=True):
                actual.add(rows)
                self.progress(expected.count + min(actual.count, expected.count))
                after = rows[-1].memory.id
            actual.know(knowledge.all_rows(still))
            actual.say(_iter_episodes(still, 0, None))
        if (*actual.counts, actual.digest) != (*expected.counts, expected.digest):
            message = f"The copy has {actual.count:,} memories, {actual.rows:,} rows of domain knowledge, "
            message += f"{actual.episodes:,} episodes and the digest {actual.digest}; "
            message += (
                f"the source has {expected.count:,}, {expected.rows:,}, {expected.episodes:,} and {expected.digest}."
            )
            hint = "Another process may have changed the copy. Copy again: only the differences are copied."
            raise Conflict(message, hint)


class _RowDigest:
    """Number of rows, and a digest of all their data."""

    def __init__(self) -> None:
        self.count = 0
        self.rows = 0  # of domain knowledge
        self.episodes = 0
        self._hash = sha256()

    def add(self, rows: Sequence[ExportedMemory]) -> None:
        for row in rows:
            self._hash.update(_to_bytes(row))
            self._hash.update(row.vector or b"")
        self.count += len(rows)

    def know(self, rows: Iterable[Knowledge]) -> None:
        for row in rows:
            self._hash.update(_as_bytes(knowledge.row_to_dict(row)))
            self.rows += 1

    def say(self, episodes: Iterable[ExportedEpisode]) -> None:
        for episode, passages in episodes:
            texts = [text for text, _ in passages]
            self._hash.update(_as_bytes({**episode.as_dict(), "passages": texts}))
            for _, vector in passages:
                self._hash.update(vector or b"")
            self.episodes += 1

    @property
    def counts(self) -> tuple[int, int, int]:
        return self.count, self.rows, self.episodes

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


def _to_bytes(row: ExportedMemory) -> bytes:
    """Return a memory with all its data, but without the vector, as the same bytes for every kind of store."""
    plain = {name: getattr(row.memory, name) for name in _FIELDS}
    plain["anchors"] = [asdict(anchor) for anchor in row.memory.anchors]
    plain["sightings"] = [(sighting.at, sighting.agent, sighting.session) for sighting in _sort_sightings(row)]
    plain["vector"] = None if row.vector is None else len(row.vector)
    return _as_bytes(plain)


def _as_bytes(plain: Mapping[str, Any]) -> bytes:
    return json.dumps(plain, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def _sort_sightings(row: ExportedMemory) -> list[Occurrence]:
    return sorted(row.sightings, key=lambda sighting: (sighting.at, sighting.agent, sighting.session))


def _is_same(row: ExportedMemory, other_row: ExportedMemory) -> bool:
    return row.vector == other_row.vector and _to_bytes(row) == _to_bytes(other_row)


def _get_rows(carrying: Snapshots, after: int, last: int) -> dict[int, ExportedMemory]:
    """Return the rows above an id up to another, by id."""
    return {row.memory.id: row for row in _iter_rows(carrying, after, last)}


def _iter_rows(carrying: Snapshots, after: int, last: int) -> Iterator[ExportedMemory]:
    while after < last and (rows := carrying.rows(after, BATCH, vectors=True)):
        yield from (row for row in rows if row.memory.id <= last)
        after = rows[-1].memory.id


def _get_knowledge(carrying: Snapshots, table: Table, after: str, last: str | None) -> dict[str, Knowledge]:
    """Return the rows of a table above an id up to another, or all of them, by id."""
    by_id: dict[str, Knowledge] = {}
    while (last is None or after < last) and (rows := carrying.knowledge(table, after, BATCH)):
        by_id.update((row.id, row) for row in rows if last is None or row.id <= last)
        after = rows[-1].id
    return by_id


def _iter_episodes(carrying: Snapshots, after: int, last: int | None) -> Iterator[ExportedEpisode]:
    """Yield the episodes above an id up to another, or all of them."""
    while (last is None or after < last) and (episodes := carrying.episodes(after, EPISODES)):
        yield from (episode for episode in episodes if last is None or episode.episode.id <= last)
        after = episodes[-1].episode.id


def copy(
    source: Store, target: Store, *, by: str = "library", progress: Callable[[int], None] | None = None
) -> CopyResult:
    """Make the target a copy of the source."""
    return CopyRun(source=source, target=target, by=by, progress=progress or (lambda _: None)).run()
