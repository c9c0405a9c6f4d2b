"""API keys and the audit log, in the SQLite file and in the fake store."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, NoReturn

from cofio.errors import Conflict, NotFound
from cofio.models.auth import AuditEntry, Grant, Key
from cofio.models.memory import to_utc_iso
from cofio.ports import Clock
from cofio.stores.row_mapping import as_json, is_storable_int
from cofio.stores.sql_loader import queries
from cofio.stores.sqlite.connection import BRIEFLY, StoreFile

_SQL = queries("sqlite")
_GRANTED = ("name", "role", "agent", "user", "team", "prefixes", "expires_at")
KEY_COLUMNS = ("id", *_GRANTED, "hint", "created_at", "created_by", "revoked_at", "last_used_at")
DEED_COLUMNS = ("id", "at", "act", "outcome", "key_id", "name", "what", "address")
#: The columns for a SELECT. Quoted, because an unquoted `user` is the current user in PostgreSQL.
KEYS, DEEDS = (", ".join(f'"{name}"' for name in columns) for columns in (KEY_COLUMNS, DEED_COLUMNS))


class SqliteKeys:
    """Keys of an SQLite file."""

    def __init__(self, file: StoreFile, clock: Clock) -> None:
        self._file = file
        self._clock = clock

    def create(self, grant: Grant, digest: str, hint: str, by: str) -> Key:
        values = {**grant_columns(grant), "digest": digest, "hint": hint, "by": by, "at": self._clock()}
        with self._file.writing() as connection:
            if not connection.execute(_SQL["create_key"], values).rowcount:
                refuse_name(grant.name)
            return to_key(connection.execute(_FIND, {"digest": digest}).fetchone())

    def find(self, digest: str) -> Key | None:
        with self._file.reading() as connection:
            row = connection.execute(_FIND, {"digest": digest}).fetchone()
        return to_key(row) if row else None

    def all(self) -> list[Key]:
        with self._file.reading() as connection:
            return [to_key(row) for row in connection.execute(_ALL)]

    def any_valid(self) -> bool:
        with self._file.reading() as connection:
            return bool(connection.execute(_SQL["any_valid_key"], {"at": self._clock()}).fetchone()[0])

    def revoke(self, key_id: int) -> Key:
        with self._file.writing() as connection:
            values = {"id": key_id, "at": self._clock()}
            revoked = is_storable_int(key_id) and connection.execute(_SQL["revoke_key"], values).rowcount
            row = connection.execute(_GET, {"id": key_id}).fetchone() if is_storable_int(key_id) else None
            return to_key(row) if row and revoked else refuse_revoking(key_id, to_key(row) if row else None)

    def used(self, when: Mapping[int, str]) -> None:
        with self._file.writing(BRIEFLY) as connection:  # these writes do not block
            connection.executemany(_SQL["key_used"], [{"id": key_id, "at": at} for key_id, at in when.items()])

    def carried(self) -> list[tuple[Key, str]]:
        with self._file.reading() as connection:
            return [(to_key(row[:-1]), row[-1]) for row in connection.execute(_CARRIED)]

    def adopt(self, key: Key, digest: str) -> None:
        values = adopted(key, digest)
        with self._file.writing() as connection:
            connection.execute(_SQL["adopt_key"], values)
            if not connection.execute(_SQL["follow_key"], values).rowcount:
                refuse_name(key.grant.name)

    def log(self, deeds: Sequence[AuditEntry]) -> None:
        with self._file.writing() as connection:
            connection.executemany(_SQL["log_deed"], [asdict(deed) for deed in deeds])

    def deeds(self, limit: int, *, after: int | None = None, key: int | None = None) -> list[AuditEntry]:
        if not is_storable_int(key or 0):
            return []
        values = {"limit": limit, "after": min(1 << 62, 1 << 62 if after is None else after), "key": key}
        with self._file.reading() as connection:
            rows = connection.execute(_DEEDS if key is None else _DEEDS_OF, values).fetchall()
        return [to_audit_entry(row) for row in rows]

    def forget(self, before: str) -> int:
        with self._file.writing() as connection:
            return connection.execute(_SQL["forget_deeds"], {"before": to_utc_iso(before)}).rowcount


_FIND, _GET, _ALL, _CARRIED = (
    _SQL[name].format(columns=KEYS) for name in ("find_key", "get_key", "all_keys", "carried_keys")
)
_DEEDS, _DEEDS_OF = (_SQL[name].format(columns=DEEDS) for name in ("newest_deeds", "newest_deeds_of"))


class FakeKeys:
    """Keys of the fake store."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._keys: dict[str, Key] = {}  # by digest
        self._deeds: list[AuditEntry] = []
        self._last = 0  # last id in the audit log; ids are not reused

    def create(self, grant: Grant, digest: str, hint: str, by: str) -> Key:
        if any(key.grant.name == grant.name and key.revoked_at is None for key in self._keys.values()):
            refuse_name(grant.name)
        number = len(self._keys) + 1
        self._keys[digest] = Key(id=number, grant=grant, hint=hint, created_at=self._clock(), created_by=by)
        return self._keys[digest]

    def find(self, digest: str) -> Key | None:
        return self._keys.get(digest)

    def all(self) -> list[Key]:
        return list(reversed(self._keys.values()))

    def any_valid(self) -> bool:
        at = self._clock()
        return any(key.is_valid(at) for key in self._keys.values())

    def revoke(self, key_id: int) -> Key:
        for digest, key in self._keys.items():
            if key.id == key_id and key.revoked_at is None:
                self._keys[digest] = replace(key, revoked_at=self._clock())
                return self._keys[digest]
        return refuse_revoking(key_id, next((key for key in self._keys.values() if key.id == key_id), None))

    def used(self, when: Mapping[int, str]) -> None:
        for digest, key in self._keys.items():
            last = max(key.last_used_at or "", when.get(key.id, "")) or None
            self._keys[digest] = replace(key, last_used_at=last)

    def carried(self) -> list[tuple[Key, str]]:
        return [(key, digest) for digest, key in self._keys.items()]

    def adopt(self, key: Key, digest: str) -> None:
        others = (
            other_key.grant.name
            for other_digest, other_key in self._keys.items()
            if other_digest != digest and not other_key.revoked_at
        )
        if key.revoked_at is None and key.grant.name in others:
            refuse_name(key.grant.name)
        existing = self._keys.get(digest)
        since = existing.revoked_at if existing and existing.revoked_at else key.revoked_at
        last_used = key.last_used_at or (existing.last_used_at if existing else None)
        number = existing.id if existing else len(self._keys) + 1
        self._keys[digest] = replace(key, id=number, revoked_at=since, last_used_at=last_used)

    def log(self, deeds: Sequence[AuditEntry]) -> None:
        self._deeds += [replace(deed, id=self._last + place) for place, deed in enumerate(deeds, start=1)]
        self._last += len(deeds)

    def deeds(self, limit: int, *, after: int | None = None, key: int | None = None) -> list[AuditEntry]:
        newest = [deed for deed in reversed(self._deeds) if key in (None, deed.key)]
        return [deed for deed in newest if after is None or deed.id < after][:limit]

    def forget(self, before: str) -> int:
        remaining = [deed for deed in self._deeds if deed.at >= to_utc_iso(before)]
        deleted, self._deeds = len(self._deeds) - len(remaining), remaining
        return deleted


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
    """Return the audit log entry of a row selected with DEEDS."""
    fields = dict(zip(DEED_COLUMNS, row, strict=True))
    return AuditEntry(key=fields.pop("key_id"), **fields)


def refuse_name(name: str) -> NoReturn:
    raise Conflict(f"A key with the name {name!r} exists already.", "Give it another name, or revoke that one first.")


def refuse_revoking(key_id: int, key: Key | None) -> NoReturn:
    """Raise the error for a key that cannot be revoked."""
    if key is None:
        raise NotFound(f"There is no key {key_id}.", "`cofio keys list` lists all keys.")
    raise Conflict(f"Key {key_id} ({key.grant.name}) is revoked already.", "It no longer grants access.")
