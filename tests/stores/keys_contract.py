"""What every Store must know of keys and the audit log. Give `store` and `clock` fixtures; the clock is the store's."""

from __future__ import annotations

import pytest

from cofio.errors import Conflict, InvalidInput, NotFound
from cofio.models.auth import AuditEntry, Grant, Key, digest, hint, new_secret
from cofio.ports import Store
from cofio.testing import FixedClock

NOW = "2026-01-07T12:00:00Z"
HOUR, DAY = 3600, 24 * 3600


def make(store: Store, name: str = "ada's laptop", by: str = "cli", **about: object) -> tuple[Key, str]:
    """A key, and its secret."""
    secret = new_secret()
    grant = Grant(**{"name": name, "user": "ada", **about})  # type: ignore[arg-type]
    return store.keys.create(grant, digest(secret), hint(secret), by), secret


def done(act: str, **about: object) -> AuditEntry:
    return AuditEntry(**{"at": "2026-01-07T12:00:00.000000+00:00", "act": act, "outcome": "done", **about})  # type: ignore[arg-type]


class KeysContract:
    """The suite."""

    def test_a_key_is_found_by_its_digest_with_all_that_it_grants(self, store: Store) -> None:
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

    def test_what_is_no_key_finds_nothing(self, store: Store) -> None:
        _, secret = make(store)
        for other in (secret, "", "x", digest(secret.upper()), digest(secret)[:-1], digest(secret).upper()):
            assert store.keys.find(other) is None

    def test_every_key_is_listed_newest_first(self, store: Store) -> None:
        assert store.keys.all() == []
        made = [make(store, name)[0] for name in ("one", "two", "three")]
        assert len({key.id for key in made}) == 3
        store.keys.revoke(made[1].id)
        assert [key.grant.name for key in store.keys.all()] == ["three", "two", "one"]

    def test_a_name_is_had_by_one_key_in_force(self, store: Store) -> None:
        first, _ = make(store, "ci")
        with pytest.raises(Conflict, match="ci"):
            make(store, "ci")
        assert len(store.keys.all()) == 1
        store.keys.revoke(first.id)
        second, secret = make(store, "ci")
        assert second.id != first.id
        assert store.keys.find(digest(secret)) == second

    def test_a_key_is_revoked_once_and_is_known_ever_after(self, store: Store) -> None:
        key, secret = make(store)
        gone = store.keys.revoke(key.id)
        assert gone.revoked_at is not None
        assert gone.revoked_at > key.created_at
        assert store.keys.find(digest(secret)) == gone
        assert not gone.is_valid(gone.revoked_at)
        with pytest.raises(Conflict, match="is revoked already"):
            store.keys.revoke(key.id)
        for unknown in (key.id + 1, 0, -1, 1 << 70):
            with pytest.raises(NotFound):
                store.keys.revoke(unknown)
        assert store.keys.all() == [gone]

    def test_it_is_known_whether_any_key_is_in_force(self, store: Store, clock: FixedClock) -> None:
        assert not store.keys.any_valid()
        make(store, "brief", expires_at="2026-01-07T13:00:00Z")
        assert store.keys.any_valid()
        lasting, _ = make(store, "lasting")
        clock.advance(2 * HOUR)
        assert store.keys.any_valid()
        store.keys.revoke(lasting.id)
        assert not store.keys.any_valid()  # what is left has expired

    def test_a_key_is_used_at_the_latest_of_its_times(self, store: Store) -> None:
        (one, secret), (two, _) = make(store, "one"), make(store, "two")
        late, early = "2026-01-07T14:00:00.000000+00:00", "2026-01-07T13:00:00.000000+00:00"
        store.keys.used({one.id: late})
        store.keys.used({one.id: early, two.id: early, 99: early})
        store.keys.used({})
        assert {key.id: key.last_used_at for key in store.keys.all()} == {one.id: late, two.id: early}
        found = store.keys.find(digest(secret))
        assert found is not None
        assert (found.last_used_at, found.revoked_at) == (late, None)

    def test_audit_entries_are_listed_newest_first_and_by_key(self, store: Store) -> None:
        assert store.keys.audit_entries(5) == []
        store.keys.log([done("POST /memory/add", key=1, name="ada", what="id 5", address="::1"), done("key created")])
        store.keys.log([])
        store.keys.log([done("DELETE /memory/5", key=2, outcome="refused", what="«no»")])
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

    def test_old_audit_entries_are_deleted_and_ids_not_reused(self, store: Store) -> None:
        for day in ("01", "02", "03"):
            store.keys.log([done("POST /memory/add", at=f"2026-01-{day}T00:00:00.000000+00:00", key=1)])
        last = store.keys.audit_entries(1)[0]
        assert store.keys.forget("2026-01-03") == 2
        assert store.keys.audit_entries(5) == [last]
        assert store.keys.forget("2027-01-01") == 1
        assert store.keys.forget("2027-01-01") == 0
        store.keys.log([done("key created")])
        assert store.keys.audit_entries(5)[0].id > last.id

    def test_a_grant_that_cannot_be_is_refused(self) -> None:
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
