"""Protocols of maintenance: scheduled runs, usage statistics, copies of a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from cofio.models.domain_knowledge import Knowledge, Table
from cofio.models.episodes import ExportedEpisode
from cofio.models.maintenance import ExportedMemory, MaintenanceRun, UsageTracking, View
from cofio.models.memory import Memory, Scope


class Runs(Protocol):
    """Runs of scheduled chores: one process at a time runs a chore, and each cron slot is run once."""

    def claim(self, chore: str, slot: str, by: str) -> MaintenanceRun | None:
        """Claim the run of a cron slot; return None if the slot is taken or the chore is running.

        A run without a heartbeat for ten minutes counts as dead and blocks no other.
        """

    def alive(self, run_id: int) -> bool:
        """Record a heartbeat of the run. Return False if it was given up for dead and may be claimed by another."""

    def finish(
        self, run_id: int, outcome: str, details: Mapping[str, Any], changeset: int | None = None
    ) -> MaintenanceRun:
        """End the run. Raise Conflict if it has ended already or was given up for dead."""

    def last(self, chore: str) -> MaintenanceRun | None:
        """Return the run of the newest slot up to now. A dead run releases its slot."""

    def newest(self, limit: int, chore: str = "") -> list[MaintenanceRun]:
        """Return the newest runs, of one chore if given."""


class UsageQueries(Protocol):
    """Usage statistics of memories."""

    def view(self, view: View, scope: Scope, limit: int, before: str) -> list[Memory]:
        """Return live memories of the scope by usage.

        "never": never recalled, oldest first. "most": most often recalled first. "stale": recalled, but not since
        `before`, longest unused first.
        """

    def tracking(self, since: str) -> UsageTracking:
        """Return the start of the retrieval log and the number of different days with retrievals since then."""

    def unused(self, category: str, before: str, limit: int) -> list[Memory]:
        """Return live, unpinned memories of the category never recalled, and neither said nor changed since `before`.

        Oldest first. The arrival in this store counts as a change, even of an old memory.
        """

    def touched(self, ids: Sequence[int], after: int, *, sightings: bool = True) -> set[int]:
        """Return which of these memories were changed by a changeset later than this one.

        Without `sightings`, a changeset that only recorded a further sighting does not count.
        """

    def queries(self, ids: Sequence[int], limit: int) -> list[str]:
        """Return the newest distinct logged queries that found any of these memories."""

    def forget(self, before: str) -> int:
        """Delete logged retrievals before this time, not the counts; return how many."""


class Snapshots(Protocol):
    """Data for copying a store to another: export, import, backup."""

    def snapshot(self) -> AbstractContextManager[Snapshots]:
        """Return a read-only snapshot: concurrent writes do not show in it."""

    def identity(self) -> str:
        """Return the unique name of this store."""

    def adopt_identity(self, identity: str) -> bool:
        """Take another store's name, because this one is a copy of it.

        Return False, and change nothing, if this store ever held a memory.
        """

    def reserve(self, count: int) -> int:
        """Reserve so many ids above all that were ever assigned; return the last id below them."""

    def room(self, name: str, last: int) -> list[tuple[int, int]]:
        """Return the ids reserved here for another store's memories up to its id `last`, the same on each call.

        The result is pairs of (foreign id, offset) by rising id: foreign ids up to this one, and above that of the pair
        before, are stored here as id + offset. With 0 for `last`, nothing further is reserved.
        """

    def origins(self, origins: Sequence[str]) -> dict[str, int]:
        """Map the memories that were imported already, archived ones too, to their ids here."""

    def rows(self, after: int, limit: int, *, vectors: bool = False) -> list[ExportedMemory]:
        """List all memories above an id, archived ones too, by id."""

    def counts(self) -> tuple[int, int]:
        """Count all memories, archived ones too; return the count and the highest id."""

    def knowledge(self, table: Table, after: str, limit: int) -> list[Knowledge]:
        """Return the rows of a domain-knowledge table with an id above this one, by id in code point order."""

    def episodes(self, after: int, limit: int) -> list[ExportedEpisode]:
        """Return the episodes above an id, by id, with their passages and vectors."""

    def parts(self, changeset_id: int) -> list[int]:
        """Return the changesets of the series that this one begins, itself first; only itself if it begins none."""
