"""API keys of the store: roles, visibility, the audit log and rate limiting."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cofio.core import Keeper
from cofio.errors import Misconfigured, StoreBusy, StoreError
from cofio.models.auth import AuditEntry, Grant, Key
from cofio.server.http.auth import is_near
from cofio.server.http.key_cache import FRESH, MINUTE, MOST_TRIES, FailedAuthLimiter
from cofio.server.http.routes import ROUTES
from cofio.server.http.server import HttpServer
from cofio.settings import Settings
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder
from tests.http_api.caller import Caller, Response
from tests.http_api.conftest import serving

DAY = 24 * 3600


class Ticks:
    """Monotonic clock that a test advances by hand."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Backend:
    """A service with its keeper and clocks."""

    keeper: Keeper
    caller: Caller
    clock: FixedClock
    ticks: Ticks
    path: Path

    def key(self, name: str = "ada's laptop", **about: Any) -> tuple[Key, Caller]:
        """Create a key and return it with a client that sends it."""
        fields = {
            "name": name,
            **({} if about.get("role") == "admin" or "agent" in about else {"user": "ada"}),
            **about,
        }
        key, secret = self.keeper.create_key(Grant(**fields))
        return key, self.caller.with_key(secret)

    def audit_entries(self, **filters: Any) -> list[AuditEntry]:
        return self.keeper.audit_entries(**filters)


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[Backend]:
    clock, ticks = FixedClock(), Ticks()
    keeper = Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock)
    with keeper, serving(keeper, clock, ticks, home=tmp_path) as url:
        yield Backend(keeper, Caller(url, home=tmp_path), clock, ticks, tmp_path / "cofio.db")


def error_of(answer: Response) -> tuple[int, str]:
    return answer.status, answer.error["code"]


# ── authentication ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_service_is_open_until_the_first_key_exists(backend: Backend) -> None:
    assert backend.caller.get("/health").json["auth"] == "open"
    assert backend.caller.post("/memory/add", {"text": "We deploy on Fridays."}).status == 201
    _, ada = backend.key()
    assert backend.caller.get("/health").json == {**backend.caller.get("/health").json, "auth": "missing"}
    assert error_of(backend.caller.get("/memories")) == (401, "missing_key")
    assert "cofio keys create" in backend.caller.get("/memories").error["hint"]
    assert error_of(backend.caller.with_key("cofio_guess").get("/memories")) == (401, "wrong_key")
    assert ada.get("/memories").status == 200
    health = ada.get("/health").json
    assert (health["auth"], health["role"]) == ("ok", "write")


def test_store_key_is_accepted_in_either_header_and_next_to_an_invalid_one(backend: Backend) -> None:
    _, secret = backend.keeper.create_key(Grant(name="ada", user="ada"))
    for headers in (
        {"X-API-Key": f" {secret} "},
        {"Authorization": f"Bearer {secret}"},
        {"X-API-Key": "old", "Authorization": f"bearer {secret}"},
    ):
        assert backend.caller.get("/memories", headers).status == 200
    assert error_of(backend.caller.get("/memories", {"X-API-Key": secret.upper()})) == (401, "wrong_key")
    assert error_of(backend.caller.get("/memories", {"X-API-Key": secret[:-1]})) == (401, "wrong_key")


def test_store_key_keeps_its_access_when_also_configured_as_api_key(tmp_path: Path) -> None:
    clock = FixedClock()
    keeper = Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock)
    with keeper:
        key, secret = keeper.create_key(Grant(name="ada", user="ada"))
        keeper.add("Bob looks for another job.", user="bob")
        with serving(keeper, clock, Ticks(), api_key=secret) as url:
            ada = Caller(url).with_key(secret)
            assert ada.get("/health").json["role"] == "write"
            assert error_of(ada.get("/keys")) == (403, "forbidden")
            assert ada.get("/memories").json["memories"] == []
            keeper.revoke_key(key.id)
            assert error_of(ada.get("/memories")) == (401, "wrong_key")
            assert error_of(Caller(url).get("/memories")) == (401, "missing_key")  # the service is not open to others


def test_configured_api_key_is_owner_next_to_store_keys(tmp_path: Path) -> None:
    clock = FixedClock()
    keeper = Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock)
    with keeper, serving(keeper, api_key="secret") as url:
        owner = Caller(url, {"X-API-Key": "secret"})
        created = owner.post("/keys", {"name": "ada", "user": "ada"})
        assert created.status == 201
        assert owner.get("/keys").json["keys"][0]["name"] == "ada"
        assert owner.get("/health").json["role"] == "admin"
        assert Caller(url).with_key(created.json["secret"]).get("/memories").status == 200
        assert error_of(Caller(url).with_key(created.json["secret"]).get("/keys")) == (403, "forbidden")
        owner.delete(f"/keys/{created.json['id']}")
        assert error_of(Caller(url).get("/memories")) == (401, "missing_key")  # the service stays closed


def test_revoked_key_is_rejected(backend: Backend) -> None:
    backend.key("root", role="admin")
    key, ada = backend.key()
    assert ada.get("/memories").status == 200
    backend.keeper.revoke_key(key.id)
    response = ada.get("/memories")
    assert error_of(response) == (401, "wrong_key")
    assert "revoked on 2026-01-01" in response.error["message"]
    assert "cofio keys create" in response.error["hint"]
    assert error_of(ada.get("/health")) == (401, "wrong_key")


def test_key_revoked_by_another_process_is_rejected_within_seconds(backend: Backend) -> None:
    backend.key("root", role="admin")
    key, ada = backend.key()
    assert ada.get("/memories").status == 200
    second = SqliteStore(backend.path, backend.clock)
    second.keys.revoke(key.id)
    second.close()
    backend.ticks.now += FRESH - 0.01
    assert ada.get("/memories").status == 200
    backend.ticks.now += 0.01
    assert error_of(ada.get("/memories")) == (401, "wrong_key")


def test_first_key_created_by_another_process_closes_the_service_within_seconds(backend: Backend) -> None:
    assert backend.caller.get("/memories").status == 200
    clock = backend.clock
    with Keeper(SqliteStore(backend.path, clock), HashEmbedder(), clock) as second:
        _, secret = second.create_key(Grant(name="root", role="admin"))
    assert backend.caller.with_key(secret).get("/health").json["auth"] == "ok"
    backend.ticks.now += FRESH
    assert error_of(backend.caller.get("/memories")) == (401, "missing_key")


def test_expired_key_is_rejected(backend: Backend) -> None:
    backend.key("root", role="admin")
    _, ada = backend.key(expires_at="2026-01-08")
    assert ada.get("/memories").status == 200
    backend.clock.advance(8 * DAY)
    response = ada.get("/memories")
    assert error_of(response) == (401, "wrong_key")
    assert "expired on 2026-01-08" in response.error["message"]


def test_service_is_open_again_after_the_last_key_is_revoked(backend: Backend) -> None:
    key, ada = backend.key()
    backend.keeper.revoke_key(key.id)
    assert backend.caller.get("/health").json["auth"] == "open"
    assert error_of(ada.get("/health")) == (401, "wrong_key")


def test_service_on_all_interfaces_requires_a_key(tmp_path: Path) -> None:
    clock = FixedClock()
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock) as keeper:
        server_settings = Settings(home=tmp_path, host="0.0.0.0", port=0)
        with pytest.raises(Misconfigured, match="without an API key"):
            HttpServer(keeper, server_settings)
        key, secret = keeper.create_key(Grant(name="ada", user="ada"))
        with serving(keeper, host="0.0.0.0") as url:
            assert Caller(url).with_key(secret).get("/memories").status == 200
            keeper.revoke_key(key.id)
            assert error_of(Caller(url).get("/memories")) == (401, "missing_key")


def test_key_lookup_does_not_block_other_requests(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    _, ada = backend.key()
    started, finish = threading.Event(), threading.Event()
    original_lookup = backend.keeper.services.keys.find

    def slow_lookup(digest: str) -> Key | None:
        started.set()
        assert finish.wait(30)
        return original_lookup(digest)

    monkeypatch.setattr(backend.keeper.services.keys, "find", slow_lookup)
    answers: list[Response] = []
    thread = threading.Thread(target=lambda: answers.append(ada.get("/memories")))
    thread.start()
    assert started.wait(30)
    assert backend.caller.get("/health").json["auth"] == "missing"  # answered during the lookup
    finish.set()
    thread.join(30)
    assert [answer.status for answer in answers] == [200]


def test_store_error_during_key_lookup_denies_access(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    _, ada = backend.key()

    def busy(*_: Any) -> Any:
        raise StoreBusy("The store is busy.", "Try again.")

    monkeypatch.setattr(backend.keeper.services.keys, "find", busy)
    monkeypatch.setattr(backend.keeper.services.keys, "is_required", busy)
    assert error_of(ada.get("/memories")) == (503, "store_busy")
    assert error_of(backend.caller.get("/memories")) == (503, "store_busy")


# ── roles ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

#: Routes for every role that are not a GET; the role read never changes anything.
READ_ROUTES = {
    "POST /search", "POST /search/batch", "POST /episodes/search", "POST /recall", "POST /recall/context",
    "POST /enrich", "POST /memory/is-novel", "POST /mcp", "POST /knowledge/evaluate", "POST /knowledge/read",
}  # fmt: skip
WRITE_ROUTES = {
    "GET /turns",
    "POST /memory/add", "POST /memory/add-batch", "POST /memory/supersede", "POST /capture", "POST /observe",
    "POST /memory/extract", "GET /memory/extract/{id}", "GET /inbox", "GET /inbox/{id}", "POST /inbox/{id}/retry",
    "POST /v1/chat/completions", "PATCH /memory/{id}", "DELETE /memory/{id}", "DELETE /episodes/{id}",
    "POST /memory/{id}/restore",
    "POST /memory/{id}/mark-fresh", "POST /changes/{id}/undo", "POST /hooks/claude-code", "POST /hooks/codex",
    "POST /hooks/cursor", "POST /hooks/openclaw", "POST /notes/flush", "POST /knowledge/{table}",
    "DELETE /knowledge/{table}/{row}", "POST /knowledge/{table}/{row}/purge", "POST /knowledge/feedback",
    "POST /knowledge/feedback/process", "POST /memories/bulk", "GET /memory/{id}/exchange",
    "POST /changes/undo-learned", "POST /inbox/{id}/approve", "POST /inbox/{id}/discard",
}  # fmt: skip
ADMIN_ROUTES = {
    "POST /backfills", "POST /backfills/{id}/end",
    "GET /metrics", "GET /agents", "GET /inbox/status", "POST /memory/deduplicate", "DELETE /memories",
    "POST /maintenance/consolidate", "POST /maintenance/prune", "POST /maintenance/approve",
    "POST /maintenance/contradictions/dismiss",
    "GET /maintenance/contradictions", "GET /maintenance/runs", "GET /maintenance/usage", "GET /maintenance/audit",
    "POST /maintenance/audit",
    "GET /settings", "GET /doctor", "GET /keys", "POST /keys", "DELETE /keys/{id}", "GET /keys/log",
    "GET /llm/usage", "GET /llm/usage/{id}",
    "GET /notes", "POST /notes/index", "POST /notes/export", "POST /ui/links",
}  # fmt: skip


def test_routes_have_the_expected_roles() -> None:
    routes_by_role: dict[str, set[str]] = {"read": set(), "write": set(), "admin": set()}
    for route in ROUTES:
        routes_by_role[route.role].add(f"{route.method} {route.path}")
    assert {route for route in routes_by_role["read"] if not route.startswith("GET ")} == READ_ROUTES
    assert (routes_by_role["write"], routes_by_role["admin"]) == (WRITE_ROUTES, ADMIN_ROUTES)


@pytest.mark.parametrize(
    ("role", "denied_roles"),
    [("read", ("write", "admin")), ("write", ("admin",)), ("admin", ())],
    ids=lambda value: str(value),
)
def test_role_allows_its_routes_and_denies_higher_ones(
    backend: Backend, role: str, denied_roles: tuple[str, ...]
) -> None:
    _, caller = backend.key("theirs", role=role)
    for route in ROUTES:
        response = caller.send(route.method, route.path.format(id=99, table="thresholds", row="none", file="none.js"))
        if route.role in denied_roles:
            assert error_of(response) == (403, "forbidden"), route
            assert f"role {route.role}" in response.error["message"]
            assert f"--role {route.role}" in response.error["hint"]
        else:
            assert response.status not in (401, 403), route


def test_openapi_and_docs_state_the_required_role(backend: Backend) -> None:
    document = backend.caller.get("/openapi.json").json
    for route in ROUTES:
        assert document["paths"][route.path][route.method.lower()]["x-role"] == route.role
    assert "Requires a key with the role <b>admin</b>" in backend.caller.get("/docs").body.decode()


def test_key_sees_memories_visible_to_its_user(backend: Backend) -> None:
    _, ada = backend.key("ada", user="ada", team="web")
    _, bob = backend.key("bob", user="bob", team="web")
    _, root = backend.key("root", role="admin")
    ada.post("/memory/add", {"text": "Ada likes tea.", "visibility": "private"})
    ada.post("/memory/add", {"text": "We deploy on Fridays.", "visibility": "team"})
    totals = {name: who.get("/memories").json["total"] for name, who in (("ada", ada), ("bob", bob), ("root", root))}
    assert totals == {"ada": 2, "bob": 1, "root": 2}
    assert [who.get("/health").json["memories"] for who in (ada, bob, root)] == [2, 1, 2]
    assert bob.get("/memory/1").status == 404


# ── change history ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_changeset_author_is_the_key_and_cannot_be_forged(backend: Backend) -> None:
    key, ada = backend.key("ada's laptop")
    _, bob = backend.key("bob", user="bob")
    name = f"ada's laptop (key {key.id}) · codex"
    added = ada.post("/memory/add", {"text": "Ada likes tea.", "visibility": "global"}, {"X-Cofio-Client": "codex"})
    assert backend.keeper.changeset(added.json["changeset"]).by == name
    lookalike = f"ada's laptop (key {key.id}) - codex"
    other = bob.post("/memory/add", {"text": "Bob likes tea."}, {"X-Cofio-Client": lookalike})
    assert backend.keeper.changeset(other.json["changeset"]).by == f"bob (key 2) · {lookalike}"
    for sent in (name.encode(), name.encode("latin-1")):
        assert bob.post("/memory/add", {"text": "x"}, {"X-Cofio-Client": sent}).status == 400


def test_long_key_name_is_truncated_but_keeps_the_key_id(backend: Backend) -> None:
    key, caller = backend.key("a" * 1_000)
    added = caller.post("/memory/add", {"text": "Ada likes tea."}, {"X-Cofio-Client": "c" * 100})
    by = backend.keeper.changeset(added.json["changeset"]).by
    assert len(by) == 100
    assert f"a (key {key.id}) · ccc" in by


# ── key management ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_admin_creates_lists_and_revokes_keys(backend: Backend) -> None:
    _, root = backend.key("root", role="admin")
    request = {"name": "ci", "role": "read", "agent": "ci", "prefixes": ["ci/web/"], "expires_at": "2026-03-01"}
    body = root.post("/keys", request).json
    secret = body.pop("secret")
    assert body["prefixes"] == ["ci/web"]
    assert body["created_by"] == "root (key 1) · http"
    assert secret.startswith(body["hint"])
    assert backend.caller.with_key(secret).get("/memories").status == 200
    listing = root.get("/keys")
    assert [key["name"] for key in listing.json["keys"]] == ["ci", "root"]
    assert listing.json["keys"][0]["last_used_at"] is not None
    assert secret not in listing.body.decode()
    response = root.delete(f"/keys/{body['id']}")
    assert response.json["revoked_at"] is not None
    assert backend.caller.with_key(secret).get("/memories").status == 401
    assert error_of(root.delete(f"/keys/{body['id']}")) == (409, "conflict")
    assert error_of(root.delete("/keys/99")) == (404, "not_found")
    assert error_of(root.delete("/keys/x")) == (404, "not_found")


@pytest.mark.parametrize(
    "body",
    [{}, {"name": ""}, {"name": "x"}, {"name": "x", "user": "ada", "role": "owner"}, {"name": "x", "prefixes": ["a"]},
     {"name": "x", "user": "ada", "expires_at": "2025-01-01"}, {"name": "x", "user": "ada", "expires_at": "soon"},
     {"name": "x", "user": "ada", "prefixes": [""]}, {"name": "x", "user": "ada", "digest": "0"}],
)  # fmt: skip
def test_invalid_key_request_is_rejected(backend: Backend, body: dict[str, Any]) -> None:
    assert error_of(backend.caller.owner.post("/keys", body)) == (400, "invalid_input")
    assert backend.keeper.keys() == []
    assert backend.caller.get("/health").json["auth"] == "open"


# ── audit log ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_writes_are_audited_and_reads_are_not(backend: Backend) -> None:
    key, ada = backend.key()
    ada.post("/memory/add", {"text": "A secret of Ada's.", "source": "home"})
    ada.post("/memory/add-batch", {"memories": [{"text": "one"}, {"text": "two"}]})
    ada.post("/search", {"query": "secret"})
    ada.get("/memory/1")
    ada.patch("/memory/1", {"tags": ["x"]})
    ada.post("/capture", {"messages": "I prefer tabs.", "dry_run": True})
    ada.patch("/memory/99", {"tags": ["x"]})
    ada.delete("/memory/1", why="a reason")
    lines = list(reversed(backend.audit_entries(key=key.id)))
    assert [(line.act, line.what, line.outcome) for line in lines] == [
        ("POST /memory/add", "id 1, changeset 1", "done"),
        ("POST /memory/add-batch", "changeset 2, ids 2 3", "done"),
        ("PATCH /memory/1", "id 1, changeset 3", "done"),
        ("DELETE /memory/1", "id 1, changeset 4", "done"),
    ]
    assert {(line.name, line.address) for line in lines} == {("ada's laptop", "127.0.0.1")}
    assert all(line.at.startswith("2026-01-01") for line in lines)


def test_key_creation_and_revocation_are_audited_once(backend: Backend) -> None:
    root, caller = backend.key("root", role="admin")
    body = caller.post("/keys", {"name": "ci", "agent": "ci"}).json
    caller.delete(f"/keys/{body['id']}")
    backend.keeper.create_key(Grant(name="late", user="bob"), by="cli")
    result = [
        (entry.act, entry.what, entry.key, entry.name, entry.address) for entry in reversed(backend.audit_entries())
    ]
    assert result == [
        ("key created", "key 1 (root), admin", None, "library", ""),
        ("key created", "key 2 (ci), write", root.id, "root", "127.0.0.1"),
        ("key revoked", "key 2 (ci)", root.id, "root", "127.0.0.1"),
        ("key created", "key 3 (late), write", None, "cli", ""),
    ]


def test_denied_requests_are_audited_with_reason(backend: Backend) -> None:
    backend.key("root", role="admin")
    key, ada = backend.key(role="read", expires_at="2026-02-01")
    backend.caller.with_key("cofio_not-a-key-of-ours").get("/memories")
    ada.post("/memory/add", {"text": "x"})
    backend.clock.advance(60 * DAY)
    ada.get("/memories")
    backend.keeper.revoke_key(key.id)
    ada.get("/nope/cofio_secret")
    result = [entry for entry in reversed(backend.audit_entries()) if entry.outcome == "refused"]
    assert [(item.act, item.key, item.address) for item in result] == [
        ("GET /memories", None, "127.0.0.1"),
        ("POST /memory/add", key.id, "127.0.0.1"),
        ("GET /memories", key.id, "127.0.0.1"),
        ("GET nowhere", key.id, "127.0.0.1"),
    ]
    for each, word in zip(result, ("not valid", "role write", "expired", "revoked"), strict=True):
        assert word in each.what


def test_requests_outside_the_keys_scope_are_audited(backend: Backend) -> None:
    key, ada = backend.key(prefixes=["acme/web"])
    assert error_of(ada.post("/memory/add", {"text": "x", "source": "acme/api"})) == (403, "forbidden")
    [line] = backend.audit_entries(key=key.id)
    assert (line.act, line.outcome) == ("POST /memory/add", "refused")


def test_configured_api_key_is_audited_and_open_service_is_not(tmp_path: Path) -> None:
    clock = FixedClock()
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock) as keeper:
        with serving(keeper) as url:
            Caller(url).post("/memory/add", {"text": "We deploy on Fridays."}, {"X-Cofio-Client": "ada's laptop"})
        assert keeper.audit_entries() == []
        with serving(keeper, api_key="secret") as url:
            headers = {"X-Cofio-Client": "ada's laptop"}
            Caller(url, {"X-API-Key": "secret"}).post("/memory/add", {"text": "We deploy on Mondays."}, headers)
        [line] = keeper.audit_entries()
    assert (line.key, line.name, line.act) == (None, "COFIO_API_KEY", "POST /memory/add")


def test_audit_log_contains_no_secret_and_no_memory_text(backend: Backend) -> None:
    _, secret = backend.keeper.create_key(Grant(name="ada", user="ada"))
    ada, wrong = backend.caller.with_key(secret), "cofio_wrong-but-maybe-anothers"
    ada.post("/memory/add", {"text": "xylophone", "why": "marimba", "source": "celesta", "project": "balalaika"})
    ada.post("/memory/add-batch", {"memories": [{"text": "xylophones"}], "why": "marimba"})
    ada.delete("/memory/1", why="marimba")
    ada.get(f"/memory/{secret}")
    backend.caller.with_key(wrong).get(f"/search/{wrong}")
    backend.caller.with_key(wrong).get("/memories", source="celesta")
    content = repr(backend.audit_entries())
    assert len(backend.audit_entries()) == 6
    for word in (secret, secret[12:], wrong, "xylophone", "marimba", "celesta", "balalaika"):
        assert word not in content


def test_audit_log_is_paginated_and_filtered_by_key(backend: Backend) -> None:
    _, root = backend.key("root", role="admin")
    key, ada = backend.key()
    for index in range(5):
        ada.post("/memory/add", {"text": f"The port of service {index} is {index}."})
    first = root.get("/keys/log", limit=3, key=key.id).json
    assert [entry["what"].split(",")[0] for entry in first["entries"]] == ["id 5", "id 4", "id 3"]
    second = root.get("/keys/log", limit=3, key=key.id, after=first["next"]).json
    assert [entry["what"].split(",")[0] for entry in second["entries"]] == ["id 2", "id 1"]
    assert second["next"] is None
    assert error_of(ada.get("/keys/log")) == (403, "forbidden")


def test_audit_log_errors_do_not_affect_responses(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    key, ada = backend.key()
    backend.audit_entries()
    keys = backend.keeper.services.access.store.keys
    with monkeypatch.context() as broken:

        def fails(*_: Any) -> None:
            raise StoreBusy("The store is busy.", "Try again.")

        broken.setattr(keys, "log", fails)
        broken.setattr(keys, "used", fails)
        assert ada.post("/memory/add", {"text": "We deploy on Fridays."}).status == 201
        assert backend.audit_entries(key=key.id) == []  # the read error is reported
    assert [entry.act for entry in backend.audit_entries(key=key.id)] == ["POST /memory/add"]  # nothing was lost
    assert backend.keeper.keys()[0].last_used_at is not None


def test_pending_audit_entries_are_written_on_close(tmp_path: Path) -> None:
    clock = FixedClock()
    keeper = Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock)
    key, _ = keeper.create_key(Grant(name="ada", user="ada"))
    keeper.services.keys.record(AuditEntry(at=clock(), act="POST /memory/add", outcome="done", key=key.id))
    keeper.services.keys.record_use(key, clock())
    keeper.close()
    store = SqliteStore(tmp_path / "cofio.db", clock)
    assert [entry.act for entry in store.keys.audit_entries(5)] == ["POST /memory/add", "key created"]
    assert store.keys.all()[0].last_used_at is not None
    store.close()


def test_old_audit_entries_are_deleted_after_retention_period(backend: Backend) -> None:
    backend.key("old")
    backend.clock.advance(100 * DAY)
    backend.key("new")
    backend.keeper.services.retention.apply(captures=30, retrievals=30, audit=101)
    assert len(backend.audit_entries()) == 2
    backend.keeper.services.retention.apply(captures=30, retrievals=30, audit=99)
    assert [entry.what for entry in backend.audit_entries()] == ["key 2 (new), write"]


# ── rate limiting ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_repeated_wrong_keys_are_rate_limited_but_valid_keys_are_not(backend: Backend) -> None:
    _, ada = backend.key()
    _, late = backend.key("late")
    assert ada.get("/memories").status == 200
    for number in range(MOST_TRIES):
        assert error_of(backend.caller.with_key(f"guess {number}").get("/memories")) == (401, "wrong_key")
        backend.ticks.now += 1
    answer = backend.caller.with_key("guess").get("/memories")
    assert error_of(answer) == (429, "too_many_tries")
    assert answer.headers["retry-after"] == str(int(MINUTE) - MOST_TRIES)
    assert ada.get("/memories").status == 200  # recently valid from this address
    assert late.get("/memories").status == 429  # may be a guess
    assert late.get("/health").status == 429
    assert late.with_key("", "127.0.0.9").get("/memories").status == 200  # another address
    assert backend.caller.get("/health").json["auth"] == "missing"
    backend.ticks.now += MINUTE - MOST_TRIES
    assert late.get("/memories").status == 200


def test_valid_key_next_to_wrong_ones_does_not_count_as_failure(tmp_path: Path) -> None:
    clock, ticks = FixedClock(), Ticks()
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock) as keeper:
        _, secret = keeper.create_key(Grant(name="ada", user="ada"))
        with serving(keeper, clock, ticks, api_key="owner") as url:
            caller = Caller(url, {"Authorization": f"Bearer {secret}"})
            for number in range(MOST_TRIES):
                assert caller.get("/health", {"X-API-Key": f"guess {number}"}).json["role"] == "write"
            assert caller.get("/health", {"X-API-Key": "owner"}).json["role"] == "write"  # the other header is ignored
            ticks.now += MINUTE
            assert caller.get("/health", {"X-API-Key": "owner"}).json["role"] == "admin"


def test_number_of_checked_keys_per_request_is_limited(backend: Backend) -> None:
    _, secret = backend.keeper.create_key(Grant(name="ada", user="ada"))
    many = "".join(f"X-API-Key: guess {number}\r\n" for number in range(50))
    sent = f"GET /memories HTTP/1.1\r\nHost: localhost\r\n{many}X-API-Key: {secret}\r\n\r\n"
    assert error_of(backend.caller.raw(sent.encode())) == (401, "wrong_key")


def test_failed_attempts_expire_after_one_minute(backend: Backend) -> None:
    backend.key()
    for _ in range(3 * MOST_TRIES):
        assert backend.caller.with_key("guess").get("/memories").status == 401
        backend.ticks.now += MINUTE / (MOST_TRIES - 1)


def test_rate_limiting_is_audited_once_per_minute(backend: Backend) -> None:
    backend.key()
    for _ in range(5 * MOST_TRIES):
        backend.caller.with_key("guess").get("/memories")
    refusals = [entry.what for entry in backend.audit_entries() if entry.outcome == "refused"]
    assert len(refusals) == MOST_TRIES + 1
    assert "10 invalid keys came from 127.0.0.1" in refusals[0]


def test_open_service_does_not_count_failed_attempts(backend: Backend) -> None:
    for _ in range(2 * MOST_TRIES):
        assert backend.caller.with_key("whatever").get("/health").json["auth"] == "open"


@pytest.mark.parametrize(
    ("host", "near"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("[::1]", True), ("127.8.8.8", True), ("0.0.0.0", False),
     ("::", False), ("", False), ("no such host", False)],
)  # fmt: skip
def test_is_near_accepts_only_loopback_addresses(host: str, near: bool) -> None:
    assert is_near(host) is near


def test_rate_limiter_groups_addresses_by_network() -> None:
    tries = FailedAuthLimiter(Ticks())
    for number in range(MOST_TRIES):
        tries.failed(f"2001:db8::{number}")
        tries.failed(f"::ffff:10.0.0.{number}")
    assert tries.wait("2001:db8::ffff:1") > 0
    assert tries.wait("2001:db8:0:1::1") == 0
    assert tries.wait("10.0.0.1") == 0
    for _ in range(MOST_TRIES):
        tries.failed("10.0.0.1")
    assert tries.wait("::ffff:10.0.0.1") > 0


def test_store_location_is_not_disclosed_to_non_admins(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise StoreError("No connection to postgresql://db.internal:5432/team came free.", "Try again.")

    _, ada = backend.key()
    _, owner = backend.key("owner", role="admin")
    monkeypatch.setattr(type(backend.keeper.services.access.store), "page", broken)
    response, owner_response = ada.get("/memories"), owner.get("/memories")
    assert (response.status, owner_response.status) == (503, 503)
    assert b"db.internal" not in response.body
    assert "db.internal" in owner_response.error["message"]
