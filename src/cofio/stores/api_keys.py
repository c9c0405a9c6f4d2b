"""API keys and the audit log in an SQL store."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from cofio.errors import Conflict, NotFound
from cofio.models.auth import AuditEntry, Grant, Key
from cofio.stores.query_runner import BRIEFLY, LAST_ID, SqlAdapter
from cofio.stores.row_mapping import as_json, is_storable_int

_GRANTED = ("name", "role", "agent", "user", "team", "prefixes", "expires_at")
_USED = ("hint", "created_at", "created_by", "revoked_at", "last_used_at")
#: The columns for a SELECT. Quoted, because an unquoted `user` is the current user in PostgreSQL.
_KEY = ", ".join(f'"{name}"' for name in ("id", *_GRANTED, *_USED))
_ENTRY = "id, at, act, outcome, name, what, address, key_id"


class SqlKeys(SqlAdapter):
    """Keys of an SQL store."""

    def create(self, grant: Grant, digest: str, hint: str, by: str) -> Key:
        values = {**_to_columns(grant), "digest": digest, "hint": hint, "by": by, "at": self._clock()}
        with self._database.writing() as queries:
            if not queries.count("create_key", values):
                raise _name_taken(grant.name)
            return _to_key(queries.all("find_key", {"digest": digest}, columns=_KEY)[0])

    def find(self, digest: str) -> Key | None:
        keys = self._read("find_key", {"digest": digest}, columns=_KEY)
        return _to_key(keys[0]) if keys else None

    def all(self) -> list[Key]:
        return list(map(_to_key, self._read("all_keys", columns=_KEY)))

    def any_valid(self) -> bool:
        return bool(self._read("any_valid_key", {"at": self._clock()})[0][0])

    def revoke(self, key_id: int) -> Key:
        with self._database.writing() as queries:
            values = {"id": key_id, "at": self._clock()}
            revoked = queries.count("revoke_key", values) if is_storable_int(key_id) else 0
            row = queries.one("get_key", values, columns=_KEY) if is_storable_int(key_id) else None
            if row is None:
                raise NotFound(f"There is no key {key_id}.", "`cofio keys list` lists all keys.")
            key = _to_key(row)
            if not revoked:
                message = f"Key {key_id} ({key.grant.name}) is revoked already."
                raise Conflict(message, "It no longer grants access.")
            return key

    def used(self, when: Mapping[int, str]) -> None:
        with self._database.writing(BRIEFLY) as queries:  # these writes do not block
            queries.many("key_used", [{"id": key_id, "at": when[key_id]} for key_id in sorted(when)])

    def carried(self) -> list[tuple[Key, str]]:
        return [(_to_key(row[:-1]), row[-1]) for row in self._read("carried_keys", columns=_KEY)]

    def adopt(self, key: Key, digest: str) -> None:
        values = {**_to_columns(key.grant), **{name: getattr(key, name) for name in _USED}, "digest": digest}
        with self._database.writing() as queries:
            queries.run("adopt_key", values)
            if not queries.count("follow_key", values):
                raise _name_taken(key.grant.name)

    def log(self, entries: Sequence[AuditEntry]) -> None:
        with self._database.writing() as queries:
            queries.many("log_entry", [asdict(entry) for entry in entries])

    def audit_entries(self, limit: int, *, after: int | None = None, key: int | None = None) -> list[AuditEntry]:
        if not is_storable_int(key or 0):
            return []
        values = {"limit": limit, "after": LAST_ID if after is None else min(after, LAST_ID), "key": key}
        name = "newest_entries" if key is None else "newest_entries_of"
        rows = self._read(name, values, columns=_ENTRY)
        names = ("id", "at", "act", "outcome", "name", "what", "address", "key")
        return [AuditEntry(**dict(zip(names, row, strict=True))) for row in rows]

    def forget(self, before: str) -> int:
        return self._delete_before("forget_entries", before)


def _to_columns(grant: Grant) -> dict[str, Any]:
    return {**asdict(grant), "prefixes": as_json(list(grant.prefixes))}


def _to_key(row: Sequence[Any]) -> Key:
    fields = dict(zip(("id", *_GRANTED, *_USED), row, strict=True))
    grant = {name: fields.pop(name) for name in _GRANTED}
    return Key(grant=Grant(**{**grant, "prefixes": tuple(json.loads(grant["prefixes"]))}), **fields)


def _name_taken(name: str) -> Conflict:
    return Conflict(f"A key with the name {name!r} exists already.", "Choose another name, or revoke that key first.")
