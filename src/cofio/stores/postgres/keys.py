"""API keys and the audit log on the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from cofio.models.auth import AuditEntry, Grant, Key
from cofio.models.memory import to_utc_iso
from cofio.ports import Clock
from cofio.stores.keys import DEEDS, KEYS, adopted, grant_columns, refuse_name, refuse_revoking, to_audit_entry, to_key
from cofio.stores.postgres.connection import BRIEFLY, PostgresServer, TenantQueries
from cofio.stores.row_mapping import is_storable_int


class PostgresKeys:
    """Keys of one tenant of a PostgreSQL database."""

    def __init__(self, server: PostgresServer, clock: Clock) -> None:
        self._server = server
        self._clock = clock

    def create(self, grant: Grant, digest: str, hint: str, by: str) -> Key:
        values = {**grant_columns(grant), "digest": digest, "hint": hint, "by": by, "at": self._clock()}
        with self._server.writing() as rows:
            created = rows.count("create_key", values)
            key = _find_key(rows, "find_key", {"digest": digest}) if created else None
            return key or refuse_name(grant.name)

    def find(self, digest: str) -> Key | None:
        with self._server.reading() as rows:
            return _find_key(rows, "find_key", {"digest": digest})

    def all(self) -> list[Key]:
        with self._server.reading() as rows:
            return [to_key(row) for row in rows.all("all_keys", columns=KEYS)]

    def any_valid(self) -> bool:
        with self._server.reading() as rows:
            return bool(rows.value("any_valid_key", {"at": self._clock()}))

    def revoke(self, key_id: int) -> Key:
        if not is_storable_int(key_id):
            refuse_revoking(key_id, None)
        with self._server.writing() as rows:
            revoked = rows.count("revoke_key", {"id": key_id, "at": self._clock()})
            key = _find_key(rows, "get_key", {"id": key_id})
            return key if key and revoked else refuse_revoking(key_id, key)

    def used(self, when: Mapping[int, str]) -> None:
        with self._server.writing(BRIEFLY) as rows:  # these writes do not block
            rows.many("key_used", [{"id": key_id, "at": when[key_id]} for key_id in sorted(when)])

    def carried(self) -> list[tuple[Key, str]]:
        with self._server.reading() as rows:
            return [(to_key(row[:-1]), row[-1]) for row in rows.all("carried_keys", columns=KEYS)]

    def adopt(self, key: Key, digest: str) -> None:
        values = adopted(key, digest)
        with self._server.writing() as rows:
            rows.run("adopt_key", values)
            if not rows.count("follow_key", values):
                refuse_name(key.grant.name)

    def log(self, deeds: Sequence[AuditEntry]) -> None:
        with self._server.writing() as rows:
            rows.many("log_deed", [asdict(deed) for deed in deeds])

    def deeds(self, limit: int, *, after: int | None = None, key: int | None = None) -> list[AuditEntry]:
        values = {"limit": limit, "after": after if after is not None else 1 << 62, "key": key}
        with self._server.reading() as rows:
            entries = rows.all("newest_deeds" if key is None else "newest_deeds_of", values, columns=DEEDS)
        return [to_audit_entry(row) for row in entries]

    def forget(self, before: str) -> int:
        with self._server.writing() as rows:
            return rows.count("forget_deeds", {"before": to_utc_iso(before)})


def _find_key(rows: TenantQueries, name: str, values: Mapping[str, Any]) -> Key | None:
    row = rows.one(name, values, columns=KEYS)
    return to_key(row) if row else None
