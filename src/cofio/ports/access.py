"""Protocol of API keys and the audit log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from cofio.models.auth import AuditEntry, Grant, Key


class Keys(Protocol):
    """API keys, stored as digests only, and the audit log."""

    def create(self, grant: Grant, digest: str, hint: str, by: str) -> Key:
        """Store a new key. Raise Conflict if an unrevoked key has this name."""

    def find(self, digest: str) -> Key | None:
        """Return the key with this digest, revoked and expired ones too."""

    def all(self) -> list[Key]:
        """Return every key ever created, newest first."""

    def any_valid(self) -> bool:
        """Return whether there is a key that is neither revoked nor expired."""

    def revoke(self, key_id: int) -> Key:
        """Revoke the key. Raise NotFound if it does not exist, Conflict if it is revoked already."""

    def used(self, when: Mapping[int, str]) -> None:
        """Record the last use of keys, by id."""

    def carried(self) -> list[tuple[Key, str]]:
        """Return every key with its digest, oldest first, for `adopt` in another store."""

    def adopt(self, key: Key, digest: str) -> None:
        """Store a key of another store under a new id, or update the one here; a revoked key stays revoked.

        Raise Conflict if another unrevoked key has its name.
        """

    def log(self, entries: Sequence[AuditEntry]) -> None:
        """Append these entries to the audit log."""

    def audit_entries(self, limit: int, *, after: int | None = None, key: int | None = None) -> list[AuditEntry]:
        """Return the newest audit log entries with an id below `after`, of one key if given."""

    def forget(self, before: str) -> int:
        """Delete audit log entries from before this time; return how many."""
