"""API keys and the audit log."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cofio.errors import InvalidInput
from cofio.ingest.writer import check_author
from cofio.models import auth
from cofio.models.auth import AuditEntry, Grant, Key
from cofio.models.memory import MAX_PAGE, check_int
from cofio.ports import Clock, Store
from cofio.stores.audit_log import AuditLog


@dataclass(eq=False)
class KeyService:
    """Creates, revokes and finds keys, and keeps the audit log."""

    store: Store
    log: AuditLog
    clock: Clock
    changes: int = 0  # incremented when a key is created or revoked here, so that cached keys are dropped

    def create_key(self, grant: Grant, *, by: str = "library", entry: AuditEntry | None = None) -> tuple[Key, str]:
        """Create a key; return it with its secret, which is not stored and cannot be shown again.

        `entry` describes the actor for the audit log, if more than a name is known.
        """
        check_author(by)
        if grant.expires_at is not None and grant.expires_at <= self.clock():
            hint = "Give a time in the future, such as 2030-01-31, or omit it for a key that does not expire."
            raise InvalidInput(f"expires_at is in the past: {grant.expires_at}.", hint)
        secret = auth.new_secret()
        key = self.store.keys.create(grant, auth.digest(secret), auth.hint(secret), by)
        self._record_change("key created", f"key {key.id} ({key.grant.name}), {key.grant.role}", by, entry)
        return key, secret

    def revoke_key(self, key_id: int, *, by: str = "library", entry: AuditEntry | None = None) -> Key:
        """Revoke a key: it no longer grants access."""
        check_author(by)
        key = self.store.keys.revoke(check_int(key_id, "id"))
        self._record_change("key revoked", f"key {key.id} ({key.grant.name})", by, entry)
        return key

    def _record_change(self, act: str, subject: str, by: str, entry: AuditEntry | None) -> None:
        self.changes += 1
        who = entry or AuditEntry(at="", act="", outcome="done", name=by)
        self.log.note(replace(who, at=self.clock(), act=act, what=subject))

    def keys(self) -> list[Key]:
        """Return every key ever created, newest first."""
        self.log.flush_or_tell()
        return self.store.keys.all()

    def find(self, digest: str) -> Key | None:
        """Return the key with this digest, even if revoked or expired."""
        return self.store.keys.find(digest)

    def is_required(self) -> bool:
        """Return whether a valid key exists, so that the service requires one."""
        return self.store.keys.any_valid()

    def record(self, entry: AuditEntry) -> None:
        """Queue an audit log entry, dated now unless it has a time; does not wait for the write."""
        self.log.note(entry if entry.at else replace(entry, at=self.clock()))

    def record_use(self, key: Key, at: str) -> None:
        """Record when a key was used."""
        self.log.used(key.id, at)

    def audit_entries(self, *, limit: int = 50, after: int | None = None, key: int | None = None) -> list[AuditEntry]:
        """Return the newest audit log entries, optionally of one key."""
        check_int(limit, "limit", least=1, most=MAX_PAGE)
        below = after if after is None else check_int(after, "after")
        key_id = key if key is None else check_int(key, "key")
        self.log.flush_or_tell()
        return self.store.keys.audit_entries(limit, after=below, key=key_id)
