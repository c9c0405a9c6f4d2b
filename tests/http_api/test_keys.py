"""Keys of the store: who has one sees and does what it allows; what is done with them is written down."""

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
from tests.http_api.caller import Answer, Caller
from tests.http_api.conftest import serving

DAY = 24 * 3600


class Ticks:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class House:
    """A service with its keeper, and the clocks that it goes by."""

    keeper: Keeper
    caller: Caller
    clock: FixedClock
    ticks: Ticks
    path: Path

    def key(self, name: str = "ada's laptop", **about: Any) -> tuple[Key, Caller]:
        """A new key, and a caller that has it."""
        given = {"name": name, **({} if about.get("role") == "admin" or "agent" in about else {"user": "ada"}), **about}
        key, secret = self.keeper.create_key(Grant(**given))
        return key, self.caller.having(secret)

    def audit_entries(self, **which: Any) -> list[AuditEntry]:
        return self.keeper.audit_entries(**which)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    clock, ticks = FixedClock(), Ticks()
    keeper = Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock)
    with keeper, serving(keeper, clock, ticks) as url:
        yield House(keeper, Caller(url), clock, ticks, tmp_path / "cofio.db")


def refused(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.error["code"]


# ── who is let in ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_service_without_keys_is_open_and_from_the_first_one_on_it_wants_one(house: House) -> None:
    assert house.caller.get("/health").json["auth"] == "open"
    assert house.caller.post("/memory/add", {"text": "We deploy on Fridays."}).status == 201
    _, ada = house.key()
    assert house.caller.get("/health").json == {**house.caller.get("/health").json, "auth": "missing"}
    assert refused(house.caller.get("/memories")) == (401, "missing_key")
    assert "cofio keys create" in house.caller.get("/memories").error["hint"]
    assert refused(house.caller.having("cofio_guess").get("/memories")) == (401, "wrong_key")
    assert ada.get("/memories").status == 200
    health = ada.get("/health").json
    assert (health["auth"], health["role"]) == ("ok", "write")


def test_a_key_comes_in_either_header_and_beside_a_wrong_one(house: House) -> None:
    _, secret = house.keeper.create_key(Grant(name="ada", user="ada"))
    for headers in (
        {"X-API-Key": f" {secret} "},
        {"Authorization": f"Bearer {secret}"},
        {"X-API-Key": "old", "Authorization": f"bearer {secret}"},
    ):
        assert house.caller.get("/memories", headers).status == 200
    assert refused(house.caller.get("/memories", {"X-API-Key": secret.upper()})) == (401, "wrong_key")
    assert refused(house.caller.get("/memories", {"X-API-Key": secret[:-1]})) == (401, "wrong_key")


def test_a_key_of_the_store_stays_what_it_is_when_the_service_is_configured_with_it(tmp_path: Path) -> None:
    clock = FixedClock()
    keeper = Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock)
    with keeper:
        key, secret = keeper.create_key(Grant(name="ada", user="ada"))
        keeper.add("Bob looks for another job.", user="bob")
        with serving(keeper, clock, Ticks(), api_key=secret) as url:
            ada = Caller(url).having(secret)
            assert ada.get("/health").json["role"] == "write"
            assert refused(ada.get("/keys")) == (403, "forbidden")
            assert ada.get("/memories").json["memories"] == []
            keeper.revoke_key(key.id)
            assert refused(ada.get("/memories")) == (401, "wrong_key")
            assert refused(Caller(url).get("/memories")) == (401, "missing_key")  # and nobody else is let in for that


def test_the_configured_key_opens_everything_beside_those_of_the_store(tmp_path: Path) -> None:
    clock = FixedClock()
    keeper = Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock)
    with keeper, serving(keeper, api_key="secret") as url:
        owner = Caller(url, {"X-API-Key": "secret"})
        made = owner.post("/keys", {"name": "ada", "user": "ada"})
        assert made.status == 201
        assert owner.get("/keys").json["keys"][0]["name"] == "ada"
        assert owner.get("/health").json["role"] == "admin"
        assert Caller(url).having(made.json["secret"]).get("/memories").status == 200
        assert refused(Caller(url).having(made.json["secret"]).get("/keys")) == (403, "forbidden")
        owner.delete(f"/keys/{made.json['id']}")
        assert refused(Caller(url).get("/memories")) == (401, "missing_key")  # it is not open for that


def test_a_revoked_key_opens_nothing(house: House) -> None:
    house.key("root", role="admin")
    key, ada = house.key()
    assert ada.get("/memories").status == 200
    house.keeper.revoke_key(key.id)
    answer = ada.get("/memories")
    assert refused(answer) == (401, "wrong_key")
    assert "revoked on 2026-01-01" in answer.error["message"]
    assert "cofio keys create" in answer.error["hint"]
    assert refused(ada.get("/health")) == (401, "wrong_key")


def test_a_key_that_another_process_revoked_opens_nothing_within_seconds(house: House) -> None:
    house.key("root", role="admin")
    key, ada = house.key()
    assert ada.get("/memories").status == 200
    beside = SqliteStore(house.path, house.clock)
    beside.keys.revoke(key.id)
    beside.close()
    house.ticks.now += FRESH - 0.01
    assert ada.get("/memories").status == 200
    house.ticks.now += 0.01
    assert refused(ada.get("/memories")) == (401, "wrong_key")


def test_a_key_that_another_process_made_opens_at_once_and_shuts_the_others_out_within_seconds(house: House) -> None:
    assert house.caller.get("/memories").status == 200
    clock = house.clock
    with Keeper(SqliteStore(house.path, clock), HashEmbedder(), clock) as beside:
        _, secret = beside.create_key(Grant(name="root", role="admin"))
    assert house.caller.having(secret).get("/health").json["auth"] == "ok"
    house.ticks.now += FRESH
    assert refused(house.caller.get("/memories")) == (401, "missing_key")


def test_an_expired_key_opens_nothing(house: House) -> None:
    house.key("root", role="admin")
    _, ada = house.key(expires_at="2026-01-08")
    assert ada.get("/memories").status == 200
    house.clock.advance(8 * DAY)
    answer = ada.get("/memories")
    assert refused(answer) == (401, "wrong_key")
    assert "expired on 2026-01-08" in answer.error["message"]


def test_after_the_last_key_the_service_is_open_to_this_machine_but_not_to_the_key(house: House) -> None:
    key, ada = house.key()
    house.keeper.revoke_key(key.id)
    assert house.caller.get("/health").json["auth"] == "open"
    assert refused(ada.get("/health")) == (401, "wrong_key")


def test_a_service_on_every_address_is_never_open(tmp_path: Path) -> None:
    clock = FixedClock()
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock) as keeper:
        known = Settings(host="0.0.0.0", port=0)
        with pytest.raises(Misconfigured, match="Without a key"):
            HttpServer(keeper, known)
        key, secret = keeper.create_key(Grant(name="ada", user="ada"))
        with serving(keeper, host="0.0.0.0") as url:
            assert Caller(url).having(secret).get("/memories").status == 200
            keeper.revoke_key(key.id)
            assert refused(Caller(url).get("/memories")) == (401, "missing_key")


def test_a_look_up_keeps_nobody_waiting(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    _, ada = house.key()
    asked, go_on = threading.Event(), threading.Event()
    look_up = house.keeper.services.keys.find

    def slowly(digest: str) -> Key | None:
        asked.set()
        assert go_on.wait(30)
        return look_up(digest)

    monkeypatch.setattr(house.keeper.services.keys, "find", slowly)
    answers: list[Answer] = []
    waiting = threading.Thread(target=lambda: answers.append(ada.get("/memories")))
    waiting.start()
    assert asked.wait(30)
    assert house.caller.get("/health").json["auth"] == "missing"  # answered meanwhile
    go_on.set()
    waiting.join(30)
    assert [answer.status for answer in answers] == [200]


def test_a_store_that_cannot_be_asked_lets_nobody_in(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    _, ada = house.key()

    def busy(*_: Any) -> Any:
        raise StoreBusy("The store is busy.", "Try again.")

    monkeypatch.setattr(house.keeper.services.keys, "find", busy)
    monkeypatch.setattr(house.keeper.services.keys, "is_required", busy)
    assert refused(ada.get("/memories")) == (503, "store_busy")
    assert refused(house.caller.get("/memories")) == (503, "store_busy")


# ── roles ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

#: Routes for every role that are not a GET; the role read never changes anything.
READ = {
    "POST /search", "POST /search/batch", "POST /episodes/search", "POST /recall", "POST /recall/context",
    "POST /enrich", "POST /memory/is-novel", "POST /mcp", "POST /knowledge/evaluate", "POST /knowledge/read",
}  # fmt: skip
WRITE = {
    "GET /turns",
    "POST /memory/add", "POST /memory/add-batch", "POST /memory/supersede", "POST /capture", "POST /observe",
    "POST /memory/extract", "GET /memory/extract/{id}", "GET /inbox", "GET /inbox/{id}", "POST /inbox/{id}/retry",
    "POST /v1/chat/completions", "PATCH /memory/{id}", "DELETE /memory/{id}", "DELETE /episodes/{id}",
    "POST /memory/{id}/restore",
    "POST /memory/{id}/mark-fresh", "POST /changes/{id}/undo", "POST /hooks/claude-code", "POST /hooks/codex",
    "POST /hooks/cursor", "POST /hooks/openclaw", "POST /notes/flush", "POST /knowledge/{table}",
    "DELETE /knowledge/{table}/{row}", "POST /knowledge/{table}/{row}/purge", "POST /knowledge/feedback",
    "POST /knowledge/feedback/process", "POST /memories/bulk", "GET /memory/{id}/exchange",
}  # fmt: skip
ADMIN = {
    "POST /backfills", "POST /backfills/{id}/end",
    "GET /metrics", "GET /agents", "GET /inbox/status", "POST /memory/deduplicate", "DELETE /memories",
    "POST /maintenance/consolidate", "POST /maintenance/prune", "POST /maintenance/approve",
    "POST /maintenance/contradictions/dismiss",
    "GET /maintenance/contradictions", "GET /maintenance/runs", "GET /maintenance/usage", "GET /maintenance/audit",
    "GET /settings", "GET /doctor", "GET /keys", "POST /keys", "DELETE /keys/{id}", "GET /keys/log",
    "GET /llm/usage", "GET /llm/usage/{id}",
    "GET /notes", "POST /notes/index", "POST /notes/export",
}  # fmt: skip


def test_every_route_has_the_role_that_was_decided_on() -> None:
    found: dict[str, set[str]] = {"read": set(), "write": set(), "admin": set()}
    for route in ROUTES:
        found[route.role].add(f"{route.method} {route.path}")
    assert {route for route in found["read"] if not route.startswith("GET ")} == READ
    assert (found["write"], found["admin"]) == (WRITE, ADMIN)


@pytest.mark.parametrize(
    ("role", "beyond"), [("read", ("write", "admin")), ("write", ("admin",)), ("admin", ())], ids=lambda each: str(each)
)
def test_a_role_opens_its_routes_and_no_more(house: House, role: str, beyond: tuple[str, ...]) -> None:
    _, caller = house.key("theirs", role=role)
    for route in ROUTES:
        answer = caller.send(route.method, route.path.format(id=99, table="thresholds", row="none", file="none.js"))
        if route.role in beyond:
            assert refused(answer) == (403, "forbidden"), route
            assert f"role {route.role}" in answer.error["message"]
            assert f"--role {route.role}" in answer.error["hint"]
        else:
            assert answer.status not in (401, 403), route


def test_the_documents_tell_the_roles(house: House) -> None:
    document = house.caller.get("/openapi.json").json
    for route in ROUTES:
        assert document["paths"][route.path][route.method.lower()]["x-role"] == route.role
    assert "Requires a key with the role <b>admin</b>" in house.caller.get("/docs").body.decode()


def test_a_key_sees_what_its_holder_may(house: House) -> None:
    _, ada = house.key("ada", user="ada", team="web")
    _, bob = house.key("bob", user="bob", team="web")
    _, root = house.key("root", role="admin")
    ada.post("/memory/add", {"text": "Ada likes tea.", "visibility": "private"})
    ada.post("/memory/add", {"text": "We deploy on Fridays.", "visibility": "team"})
    seen = {name: who.get("/memories").json["total"] for name, who in (("ada", ada), ("bob", bob), ("root", root))}
    assert seen == {"ada": 2, "bob": 1, "root": 2}
    assert [who.get("/health").json["memories"] for who in (ada, bob, root)] == [2, 1, 2]
    assert bob.get("/memory/1").status == 404


# ── the journal ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_journal_names_the_key_and_nobody_passes_for_its_holder(house: House) -> None:
    key, ada = house.key("ada's laptop")
    _, bob = house.key("bob", user="bob")
    name = f"ada's laptop (key {key.id}) · codex"
    added = ada.post("/memory/add", {"text": "Ada likes tea.", "visibility": "global"}, {"X-Cofio-Client": "codex"})
    assert house.keeper.changeset(added.json["changeset"]).by == name
    lookalike = f"ada's laptop (key {key.id}) - codex"
    other = bob.post("/memory/add", {"text": "Bob likes tea."}, {"X-Cofio-Client": lookalike})
    assert house.keeper.changeset(other.json["changeset"]).by == f"bob (key 2) · {lookalike}"
    for sent in (name.encode(), name.encode("latin-1")):
        assert bob.post("/memory/add", {"text": "x"}, {"X-Cofio-Client": sent}).status == 400


def test_a_long_name_leaves_room_in_the_journal_for_the_number_of_the_key(house: House) -> None:
    key, caller = house.key("a" * 1_000)
    added = caller.post("/memory/add", {"text": "Ada likes tea."}, {"X-Cofio-Client": "c" * 100})
    by = house.keeper.changeset(added.json["changeset"]).by
    assert len(by) == 100
    assert f"a (key {key.id}) · ccc" in by


# ── keys over HTTP ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_admin_makes_lists_and_revokes_keys(house: House) -> None:
    _, root = house.key("root", role="admin")
    asked = {"name": "ci", "role": "read", "agent": "ci", "prefixes": ["ci/web/"], "expires_at": "2026-03-01"}
    made = root.post("/keys", asked).json
    secret = made.pop("secret")
    assert made["prefixes"] == ["ci/web"]
    assert made["created_by"] == "root (key 1) · http"
    assert secret.startswith(made["hint"])
    assert house.caller.having(secret).get("/memories").status == 200
    listed = root.get("/keys")
    assert [each["name"] for each in listed.json["keys"]] == ["ci", "root"]
    assert listed.json["keys"][0]["last_used_at"] is not None
    assert secret not in listed.body.decode()
    gone = root.delete(f"/keys/{made['id']}")
    assert gone.json["revoked_at"] is not None
    assert house.caller.having(secret).get("/memories").status == 401
    assert refused(root.delete(f"/keys/{made['id']}")) == (409, "conflict")
    assert refused(root.delete("/keys/99")) == (404, "not_found")
    assert refused(root.delete("/keys/x")) == (404, "not_found")


@pytest.mark.parametrize(
    "asked",
    [{}, {"name": ""}, {"name": "x"}, {"name": "x", "user": "ada", "role": "owner"}, {"name": "x", "prefixes": ["a"]},
     {"name": "x", "user": "ada", "expires_at": "2025-01-01"}, {"name": "x", "user": "ada", "expires_at": "soon"},
     {"name": "x", "user": "ada", "prefixes": [""]}, {"name": "x", "user": "ada", "digest": "0"}],
)  # fmt: skip
def test_a_key_that_cannot_be_is_not_made(house: House, asked: dict[str, Any]) -> None:
    assert refused(house.caller.post("/keys", asked)) == (400, "invalid_input")
    assert house.keeper.keys() == []
    assert house.caller.get("/health").json["auth"] == "open"


# ── the audit log ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_changed_with_a_key_is_written_down_and_what_is_read_is_not(house: House) -> None:
    key, ada = house.key()
    ada.post("/memory/add", {"text": "A secret of Ada's.", "source": "home"})
    ada.post("/memory/add-batch", {"memories": [{"text": "one"}, {"text": "two"}]})
    ada.post("/search", {"query": "secret"})
    ada.get("/memory/1")
    ada.patch("/memory/1", {"tags": ["x"]})
    ada.post("/capture", {"messages": "I prefer tabs.", "dry_run": True})
    ada.patch("/memory/99", {"tags": ["x"]})
    ada.delete("/memory/1", why="a reason")
    lines = list(reversed(house.audit_entries(key=key.id)))
    assert [(line.act, line.what, line.outcome) for line in lines] == [
        ("POST /memory/add", "id 1, changeset 1", "done"),
        ("POST /memory/add-batch", "changeset 2, ids 2 3", "done"),
        ("PATCH /memory/1", "id 1, changeset 3", "done"),
        ("DELETE /memory/1", "id 1, changeset 4", "done"),
    ]
    assert {(line.name, line.address) for line in lines} == {("ada's laptop", "127.0.0.1")}
    assert all(line.at.startswith("2026-01-01") for line in lines)


def test_keys_made_and_revoked_are_written_down_once(house: House) -> None:
    root, caller = house.key("root", role="admin")
    made = caller.post("/keys", {"name": "ci", "agent": "ci"}).json
    caller.delete(f"/keys/{made['id']}")
    house.keeper.create_key(Grant(name="late", user="bob"), by="cli")
    told = [(entry.act, entry.what, entry.key, entry.name, entry.address) for entry in reversed(house.audit_entries())]
    assert told == [
        ("key created", "key 1 (root), admin", None, "library", ""),
        ("key created", "key 2 (ci), write", root.id, "root", "127.0.0.1"),
        ("key revoked", "key 2 (ci)", root.id, "root", "127.0.0.1"),
        ("key created", "key 3 (late), write", None, "cli", ""),
    ]


def test_refusals_are_written_down_with_why(house: House) -> None:
    house.key("root", role="admin")
    key, ada = house.key(role="read", expires_at="2026-02-01")
    house.caller.having("cofio_not-a-key-of-ours").get("/memories")
    ada.post("/memory/add", {"text": "x"})
    house.clock.advance(60 * DAY)
    ada.get("/memories")
    house.keeper.revoke_key(key.id)
    ada.get("/nope/cofio_secret")
    told = [entry for entry in reversed(house.audit_entries()) if entry.outcome == "refused"]
    assert [(each.act, each.key, each.address) for each in told] == [
        ("GET /memories", None, "127.0.0.1"),
        ("POST /memory/add", key.id, "127.0.0.1"),
        ("GET /memories", key.id, "127.0.0.1"),
        ("GET nowhere", key.id, "127.0.0.1"),
    ]
    for each, word in zip(told, ("not valid", "role write", "expired", "revoked"), strict=True):
        assert word in each.what


def test_what_a_viewer_may_not_do_is_written_down(house: House) -> None:
    key, ada = house.key(prefixes=["acme/web"])
    assert refused(ada.post("/memory/add", {"text": "x", "source": "acme/api"})) == (403, "forbidden")
    [line] = house.audit_entries(key=key.id)
    assert (line.act, line.outcome) == ("POST /memory/add", "refused")


def test_the_configured_key_is_written_down_by_its_name_and_an_open_service_writes_nothing(tmp_path: Path) -> None:
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


def test_no_secret_and_no_word_of_a_memory_is_in_the_log(house: House) -> None:
    _, secret = house.keeper.create_key(Grant(name="ada", user="ada"))
    ada, wrong = house.caller.having(secret), "cofio_wrong-but-maybe-anothers"
    ada.post("/memory/add", {"text": "xylophone", "why": "marimba", "source": "celesta", "project": "balalaika"})
    ada.post("/memory/add-batch", {"memories": [{"text": "xylophones"}], "why": "marimba"})
    ada.delete("/memory/1", why="marimba")
    ada.get(f"/memory/{secret}")
    house.caller.having(wrong).get(f"/search/{wrong}")
    house.caller.having(wrong).get("/memories", source="celesta")
    written = repr(house.audit_entries())
    assert len(house.audit_entries()) == 6
    for word in (secret, secret[12:], wrong, "xylophone", "marimba", "celesta", "balalaika"):
        assert word not in written


def test_the_log_is_read_by_admins_page_by_page_and_by_key(house: House) -> None:
    _, root = house.key("root", role="admin")
    key, ada = house.key()
    for each in range(5):
        ada.post("/memory/add", {"text": f"The port of service {each} is {each}."})
    first = root.get("/keys/log", limit=3, key=key.id).json
    assert [each["what"].split(",")[0] for each in first["entries"]] == ["id 5", "id 4", "id 3"]
    second = root.get("/keys/log", limit=3, key=key.id, after=first["next"]).json
    assert [each["what"].split(",")[0] for each in second["entries"]] == ["id 2", "id 1"]
    assert second["next"] is None
    assert refused(ada.get("/keys/log")) == (403, "forbidden")


def test_an_answer_neither_waits_for_the_log_nor_fails_with_it(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    key, ada = house.key()
    house.audit_entries()
    keys = house.keeper.services.access.store.keys
    with monkeypatch.context() as broken:

        def fails(*_: Any) -> None:
            raise StoreBusy("The store is busy.", "Try again.")

        broken.setattr(keys, "log", fails)
        broken.setattr(keys, "used", fails)
        assert ada.post("/memory/add", {"text": "We deploy on Fridays."}).status == 201
        assert house.audit_entries(key=key.id) == []  # told as it is
    assert [entry.act for entry in house.audit_entries(key=key.id)] == ["POST /memory/add"]  # and not lost
    assert house.keeper.keys()[0].last_used_at is not None


def test_what_waits_is_written_when_the_keeper_closes(tmp_path: Path) -> None:
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


def test_old_lines_are_forgotten_after_so_many_days(house: House) -> None:
    house.key("old")
    house.clock.advance(100 * DAY)
    house.key("new")
    house.keeper.services.retention.apply(captures=30, retrievals=30, audit=101)
    assert len(house.audit_entries()) == 2
    house.keeper.services.retention.apply(captures=30, retrievals=30, audit=99)
    assert [entry.what for entry in house.audit_entries()] == ["key 2 (new), write"]


# ── guessing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_who_guesses_is_made_to_wait_and_who_has_a_key_is_not(house: House) -> None:
    _, ada = house.key()
    _, late = house.key("late")
    assert ada.get("/memories").status == 200
    for number in range(MOST_TRIES):
        assert refused(house.caller.having(f"guess {number}").get("/memories")) == (401, "wrong_key")
        house.ticks.now += 1
    answer = house.caller.having("guess").get("/memories")
    assert refused(answer) == (429, "too_many_tries")
    assert answer.headers["retry-after"] == str(int(MINUTE) - MOST_TRIES)
    assert ada.get("/memories").status == 200  # known from there
    assert late.get("/memories").status == 429  # it could be a guess
    assert late.get("/health").status == 429
    assert late.having("", "127.0.0.9").get("/memories").status == 200  # from elsewhere
    assert house.caller.get("/health").json["auth"] == "missing"
    house.ticks.now += MINUTE - MOST_TRIES
    assert late.get("/memories").status == 200


def test_a_right_key_beside_guesses_does_not_go_on_guessing(tmp_path: Path) -> None:
    clock, ticks = FixedClock(), Ticks()
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock) as keeper:
        _, secret = keeper.create_key(Grant(name="ada", user="ada"))
        with serving(keeper, clock, ticks, api_key="owner") as url:
            caller = Caller(url, {"Authorization": f"Bearer {secret}"})
            for number in range(MOST_TRIES):
                assert caller.get("/health", {"X-API-Key": f"guess {number}"}).json["role"] == "write"
            assert caller.get("/health", {"X-API-Key": "owner"}).json["role"] == "write"  # it is not looked at
            ticks.now += MINUTE
            assert caller.get("/health", {"X-API-Key": "owner"}).json["role"] == "admin"


def test_no_more_than_a_few_keys_of_a_request_are_looked_at(house: House) -> None:
    _, secret = house.keeper.create_key(Grant(name="ada", user="ada"))
    many = "".join(f"X-API-Key: guess {number}\r\n" for number in range(50))
    sent = f"GET /memories HTTP/1.1\r\nHost: localhost\r\n{many}X-API-Key: {secret}\r\n\r\n"
    assert refused(house.caller.raw(sent.encode())) == (401, "wrong_key")


def test_tries_are_forgotten_after_a_minute(house: House) -> None:
    house.key()
    for _ in range(3 * MOST_TRIES):
        assert house.caller.having("guess").get("/memories").status == 401
        house.ticks.now += MINUTE / (MOST_TRIES - 1)


def test_that_somebody_is_made_to_wait_is_written_down_once_a_minute(house: House) -> None:
    house.key()
    for _ in range(5 * MOST_TRIES):
        house.caller.having("guess").get("/memories")
    refusals = [entry.what for entry in house.audit_entries() if entry.outcome == "refused"]
    assert len(refusals) == MOST_TRIES + 1
    assert "10 invalid keys came from 127.0.0.1" in refusals[0]


def test_on_an_open_service_no_key_is_a_guess(house: House) -> None:
    for _ in range(2 * MOST_TRIES):
        assert house.caller.having("whatever").get("/health").json["auth"] == "open"


@pytest.mark.parametrize(
    ("host", "near"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("[::1]", True), ("127.8.8.8", True), ("0.0.0.0", False),
     ("::", False), ("", False), ("no such host", False)],
)  # fmt: skip
def test_only_an_address_of_this_machine_alone_is_near(host: str, near: bool) -> None:
    assert is_near(host) is near


def test_the_addresses_of_one_network_are_one_place() -> None:
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


def test_where_the_store_is_is_not_told_to_whoever_has_a_key(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise StoreError("No connection to postgresql://db.internal:5432/team came free.", "Try again.")

    _, ada = house.key()
    _, owner = house.key("owner", role="admin")
    monkeypatch.setattr(type(house.keeper.services.access.store), "page", broken)
    told, asked = ada.get("/memories"), owner.get("/memories")
    assert (told.status, asked.status) == (503, 503)
    assert b"db.internal" not in told.body
    assert "db.internal" in asked.error["message"]
