"""API keys and the audit log in an SQL store."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NoReturn

from cofio.errors import Conflict, NotFound
from cofio.models.auth import AuditEntry, Grant, Key
from cofio.stores.query_runner import BRIEFLY, LAST_ID, Queries, SqlAdapter
from cofio.stores.row_mapping import as_json, is_storable_int

_GRANTED = ("name", "role", "agent", "user", "team", "prefixes", "expires_at")
KEY_COLUMNS = ("id", *_GRANTED, "hint", "created_at", "created_by", "revoked_at", "last_used_at")
ENTRY_COLUMNS = ("id", "at", "act", "outcome", "key_id", "name", "what", "address")
#: The columns for a SELECT. Quoted, because an unquoted `user` is the current user in PostgreSQL.
KEYS, ENTRIES = (", ".join(f'"{name}"' for name in columns) for columns in (KEY_COLUMNS, ENTRY_COLUMNS))


class SqlKeys(SqlAdapter):
    """Keys of an SQL store."""

    def create(self, grant: Grant, digest: str, hint: str, by: str) -> Key:
        values = {**grant_columns(grant), "digest": digest, "hint": hint, "by": by, "at": self._clock()}
        with self._database.writing() as queries:
            created = queries.count("create_key", values)
            key = _find_key(queries, "find_key", {"digest": digest}) if created else None
            return key or refuse_name(grant.name)

    def find(self, digest: str) -> Key | None:
        keys = self._read("find_key", {"digest": digest}, columns=KEYS)
        return to_key(keys[0]) if keys else None

    def all(self) -> list[Key]:
        return list(map(to_key, self._read("all_keys", columns=KEYS)))

    def any_valid(self) -> bool:
        return bool(self._read("any_valid_key", {"at": self._clock()})[0][0])

    def revoke(self, key_id: int) -> Key:
        if not is_storable_int(key_id):
            refuse_revoking(key_id, None)
        with self._database.writing() as queries:
            revoked = queries.count("revoke_key", {"id": key_id, "at": self._clock()})
            key = _find_key(queries, "get_key", {"id": key_id})
            return key if key and revoked else refuse_revoking(key_id, key)

    def used(self, when: Mapping[int, str]) -> None:
        with self._database.writing(BRIEFLY) as queries:  # these writes do not block
            queries.many("key_used", [{"id": key_id, "at": when[key_id]} for key_id in sorted(when)])

    def carried(self) -> list[tuple[Key, str]]:
        return [(to_key(row[:-1]), row[-1]) for row in self._read("carried_keys", columns=KEYS)]

    def adopt(self, key: Key, digest: str) -> None:
        values = adopted(key, digest)
        with self._database.writing() as queries:
            queries.run("adopt_key", values)
            if not queries.count("follow_key", values):
                refuse_name(key.grant.name)

    def log(self, entries: Sequence[AuditEntry]) -> None:
        with self._database.writing() as queries:
            queries.many("log_entry", [asdict(entry) for entry in entries])

    def audit_entries(self, limit: int, *, after: int | None = None, key: int | None = None) -> list[AuditEntry]:
        if not is_storable_int(key or 0):
            return []
        values = {"limit": limit, "after": LAST_ID if after is None else min(after, LAST_ID), "key": key}
        name = "newest_entries" if key is None else "newest_entries_of"
        return list(map(to_audit_entry, self._read(name, values, columns=ENTRIES)))

    def forget(self, before: str) -> int:
        return self._delete_before("forget_entries", before)


def _find_key(queries: Queries, name: str, values: Mapping[str, Any]) -> Key | None:
    row = queries.one(name, values, columns=KEYS)
    return to_key(row) if row else None


def grant_columns(grant: Grant) -> dict[str, Any]:
    """Return a grant as values of columns."""
    return {**asdict(grant), "prefixes": as_json(list(grant.prefixes))}


def adopted(key: Key, digest: str) -> dict[str, Any]:
    """Return another store's key as values of columns."""
    names = ("hint", "created_at", "created_by", "revoked_at", "last_used_at")
    return {**grant_columns(key.grant), **{name: getattr(key, name) for name in names}, "digest": digest}


def to_key(row: Sequence[Any]) -> Key:
    """Return the key of a row selected with KEYS."""
    fields = dict(zip(KEY_COLUMNS, row, strict=True))
    grant = {name: fields.pop(name) for name in _GRANTED}
    return Key(grant=Grant(**{**grant, "prefixes": tuple(json.loads(grant["prefixes"]))}), **fields)


def to_audit_entry(row: Sequence[Any]) -> AuditEntry:
    """Return the audit log entry of a row selected with ENTRIES."""
    fields = dict(zip(ENTRY_COLUMNS, row, strict=True))
    return AuditEntry(key=fields.pop("key_id"), **fields)


def refuse_name(name: str) -> NoReturn:
    raise Conflict(f"A key with the name {name!r} exists already.", "Choose another name, or revoke that key first.")


def refuse_revoking(key_id: int, key: Key | None) -> NoReturn:
    """Raise the error for a key that cannot be revoked."""
    if key is None:
        raise NotFound(f"There is no key {key_id}.", "`cofio keys list` lists all keys.")
    raise Conflict(f"Key {key_id} ({key.grant.name}) is revoked already.", "It no longer grants access.")
