"""Contract suite of API keys and the audit log. Subclasses define `store` and `clock`, the store's clock."""

from __future__ import annotations

import pytest

from cofio.errors import Conflict, InvalidInput, NotFound
from cofio.models.auth import AuditEntry, Grant, Key, digest, hint, new_secret
from cofio.ports import Store
from cofio.testing import FixedClock

NOW = "2026-01-07T12:00:00Z"
HOUR, DAY = 3600, 24 * 3600


def create_key(store: Store, name: str = "ada's laptop", by: str = "cli", **about: object) -> tuple[Key, str]:
    """Create a key and return it with its secret."""
    secret = new_secret()
    grant = Grant(**{"name": name, "user": "ada", **about})  # type: ignore[arg-type]
    return store.keys.create(grant, digest(secret), hint(secret), by), secret


def audit_entry(act: str, **about: object) -> AuditEntry:
    return AuditEntry(**{"at": "2026-01-07T12:00:00.000000+00:00", "act": act, "outcome": "done", **about})  # type: ignore[arg-type]


class KeysContract:
    """Tests of keys and audit entries."""

    def test_key_is_found_by_digest_with_its_grant(self, store: Store) -> None:
        grant = Grant(
            name="Ådas «laptop»",
            role="read",
            agent="codex",
            user="ada",
            team="web",
            prefixes=("acme/web", "acme/api/"),
            expires_at="2027-01-01",
        )
        secret = new_secret()
        key = store.keys.create(grant, digest(secret), hint(secret), "cli")
        assert (key.grant, key.hint, key.created_by) == (grant, secret[:12], "cli")
        assert (key.revoked_at, key.last_used_at) == (None, None)
        assert key.created_at
        assert key.grant.prefixes == ("acme/web", "acme/api")
        assert key.grant.expires_at == "2027-01-01T00:00:00.000000+00:00"
        assert store.keys.find(digest(secret)) == key
        assert Key.from_dict(key.as_dict()) == key

    def test_invalid_digest_finds_no_key(self, store: Store) -> None:
        _, secret = create_key(store)
        for other in (secret, "", "x", digest(secret.upper()), digest(secret)[:-1], digest(secret).upper()):
            assert store.keys.find(other) is None

    def test_keys_are_listed_newest_first(self, store: Store) -> None:
        assert store.keys.all() == []
        created = [create_key(store, name)[0] for name in ("one", "two", "three")]
        assert len({key.id for key in created}) == 3
        store.keys.revoke(created[1].id)
        assert [key.grant.name for key in store.keys.all()] == ["three", "two", "one"]

    def test_key_names_in_force_are_unique(self, store: Store) -> None:
        first, _ = create_key(store, "ci")
        with pytest.raises(Conflict, match="ci"):
            create_key(store, "ci")
        assert len(store.keys.all()) == 1
        store.keys.revoke(first.id)
        second, secret = create_key(store, "ci")
        assert second.id != first.id
        assert store.keys.find(digest(secret)) == second

    def test_revoked_key_is_kept_and_cannot_be_revoked_twice(self, store: Store) -> None:
        key, secret = create_key(store)
        deleted = store.keys.revoke(key.id)
        assert deleted.revoked_at is not None
        assert deleted.revoked_at > key.created_at
        assert store.keys.find(digest(secret)) == deleted
        assert not deleted.is_valid(deleted.revoked_at)
        with pytest.raises(Conflict, match="is revoked already"):
            store.keys.revoke(key.id)
        for unknown in (key.id + 1, 0, -1, 1 << 70):
            with pytest.raises(NotFound):
                store.keys.revoke(unknown)
        assert store.keys.all() == [deleted]

    def test_any_valid_ignores_revoked_and_expired_keys(self, store: Store, clock: FixedClock) -> None:
        assert not store.keys.any_valid()
        create_key(store, "brief", expires_at="2026-01-07T13:00:00Z")
        assert store.keys.any_valid()
        lasting, _ = create_key(store, "lasting")
        clock.advance(2 * HOUR)
        assert store.keys.any_valid()
        store.keys.revoke(lasting.id)
        assert not store.keys.any_valid()  # the other key has expired

    def test_last_use_of_a_key_is_the_latest_time(self, store: Store) -> None:
        (first, secret), (second, _) = create_key(store, "one"), create_key(store, "two")
        late, early = "2026-01-07T14:00:00.000000+00:00", "2026-01-07T13:00:00.000000+00:00"
        store.keys.used({first.id: late})
        store.keys.used({first.id: early, second.id: early, 99: early})
        store.keys.used({})
        assert {key.id: key.last_used_at for key in store.keys.all()} == {first.id: late, second.id: early}
        results = store.keys.find(digest(secret))
        assert results is not None
        assert (results.last_used_at, results.revoked_at) == (late, None)

    def test_audit_entries_are_listed_newest_first_and_by_key(self, store: Store) -> None:
        assert store.keys.audit_entries(5) == []
        store.keys.log(
            [audit_entry("POST /memory/add", key=1, name="ada", what="id 5", address="::1"), audit_entry("key created")]
        )
        store.keys.log([])
        store.keys.log([audit_entry("DELETE /memory/5", key=2, outcome="refused", what="«no»")])
        newest, second, first = store.keys.audit_entries(5)
        assert (first.act, first.key, first.name, first.what, first.address, first.outcome) == (
            "POST /memory/add", 1, "ada", "id 5", "::1", "done",
        )  # fmt: skip
        assert (second.act, second.key) == ("key created", None)
        assert (newest.outcome, newest.what) == ("refused", "«no»")
        assert first.id < second.id < newest.id
        assert first.at == "2026-01-07T12:00:00.000000+00:00"
        assert store.keys.audit_entries(1) == [newest]
        assert store.keys.audit_entries(5, after=newest.id) == [second, first]
        assert store.keys.audit_entries(5, key=1) == [first]
        assert store.keys.audit_entries(5, key=2, after=newest.id) == []
        assert store.keys.audit_entries(5, key=99) == store.keys.audit_entries(5, key=1 << 70) == []
        assert store.keys.audit_entries(5, after=1 << 70) == [newest, second, first]

    def test_old_audit_entries_are_forgotten_and_ids_are_not_reused(self, store: Store) -> None:
        for day in ("01", "02", "03"):
            store.keys.log([audit_entry("POST /memory/add", at=f"2026-01-{day}T00:00:00.000000+00:00", key=1)])
        last = store.keys.audit_entries(1)[0]
        assert store.keys.forget("2026-01-03") == 2
        assert store.keys.audit_entries(5) == [last]
        assert store.keys.forget("2027-01-01") == 1
        assert store.keys.forget("2027-01-01") == 0
        store.keys.log([audit_entry("key created")])
        assert store.keys.audit_entries(5)[0].id > last.id

    def test_invalid_grant_is_rejected(self) -> None:
        for bad in (
            {"name": " ", "user": "ada"},
            {"name": "x"},
            {"name": "x", "user": "ada", "role": "owner"},
            {"name": "x", "user": "ada", "prefixes": ("/",)},
            {"name": "x", "user": "ada", "prefixes": ("acme", "")},
            {"name": "x", "user": "ada", "prefixes": (" ",)},
            {"name": "x", "role": "admin", "prefixes": ("acme",)},
            {"name": "x", "user": "ada", "expires_at": "soon"},
        ):
            with pytest.raises(InvalidInput):
                Grant(**bad)
