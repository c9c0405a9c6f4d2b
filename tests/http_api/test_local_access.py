"""Callers of a service without API keys: its own user, other users of the machine, its key and its pages."""

from __future__ import annotations

import _socket
import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cofio.core import Keeper
from cofio.models.auth import Grant
from cofio.server import service_key
from cofio.server.http import peer
from cofio.server.http.key_cache import MOST_TRIES
from cofio.server.http.page_sessions import LINK_SECONDS, SESSION_SECONDS
from cofio.server.http.routes import ROUTES
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder
from tests.http_api.caller import Caller, Response
from tests.http_api.conftest import serving

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a process of another user")
linux = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="only Linux tells the user of a TCP connection")
#: Sends requests as another user, on one connection each; prints the replies, or if `hasty` does not wait for them.
SCRIPT = """
import encodings.idna, http.client, json, os, sys  # the other user may not read the modules
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
host, port, requests, hasty = json.load(sys.stdin)
replies = []
for method, path, body, headers in requests:
    connection = http.client.HTTPConnection(host, port, timeout=60)
    connection.request(method, path, body, headers)
    if not hasty:
        reply = connection.getresponse()
        replies.append((reply.status, reply.read().decode()))
    connection.close()
json.dump(replies, sys.stdout)
"""
JSON = {"Content-Type": "application/json"}


class Ticks:
    """Monotonic clock that the test advances."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Backend:
    """A service without API keys."""

    keeper: Keeper
    caller: Caller
    home: Path
    ticks: Ticks

    def as_nobody(self, *requests: tuple[str, str, Any, dict[str, str]], hasty: bool = False) -> list[tuple[int, str]]:
        """Send requests from a process of another user; return the replies."""
        encoded = [
            (method, path, None if body is None else json.dumps(body), headers)
            for method, path, body, headers in requests
        ]
        result = subprocess.run(
            [sys.executable, "-I", "-c", SCRIPT],
            input=json.dumps([self.caller.host, self.caller.port, encoded, hasty]),
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        return [(status, body) for status, body in json.loads(result.stdout)]

    def cookie(self) -> dict[str, str]:
        """Open the pages by a new link; return the cookie as a header."""
        opened = self.caller.get("/" + self.caller.owner.post("/ui/links", {}).json["path"])
        assert opened.status == 200
        return {"Cookie": opened.headers["set-cookie"].partition(";")[0]}


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[Backend]:
    clock, ticks = FixedClock(), Ticks()
    keeper = Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock)
    with keeper, serving(keeper, clock, ticks, home=tmp_path) as url:
        yield Backend(keeper, Caller(url, home=tmp_path), tmp_path, ticks)


def error_of(answer: Response) -> tuple[int, str]:
    return answer.status, answer.error["code"]


# ── other users ───────────────────────────────────────────────────────────────────────────────────────────────────────


@linux
def test_process_of_the_same_user_needs_no_key(backend: Backend) -> None:
    assert backend.caller.get("/memories").status == 200
    assert backend.caller.get("/ui/overview").status == 200
    assert backend.caller.post("/memory/add", {"text": "We deploy on Fridays."}).status == 201
    assert backend.caller.get("/health").json["auth"] == "open"


@linux
@needs_root
@pytest.mark.parametrize("headers", [{}, {"X-API-Key": "guess"}])
def test_process_of_another_user_is_refused_on_every_route(backend: Backend, headers: dict[str, str]) -> None:
    routes = [(route.method, route.sample_path) for route in ROUTES if route.path != "/health"]
    paths = [*routes, ("GET", "/nowhere"), ("PUT", "/memories")]
    replies = backend.as_nobody(*((method, path, {}, {**JSON, **headers}) for method, path in paths))
    expected = {401} if not headers else {401, 429}
    assert {path: status for path, (status, _) in zip(paths, replies, strict=True) if status not in expected} == {}


@linux
@needs_root
def test_health_tells_another_user_nothing_about_the_store(backend: Backend) -> None:
    [(status, body)] = backend.as_nobody(("GET", "/health", None, {}))
    assert status == 200
    assert json.loads(body).keys() == {"status", "version", "auth"}


@linux
@needs_root
def test_another_user_that_hangs_up_early_is_not_taken_for_root(backend: Backend) -> None:
    """Linux lists a closed socket as root's."""
    fact = ("POST", "/memory/add", {"text": "The deploy key is in the attic."}, JSON)
    backend.as_nobody(*[fact] * 200, hasty=True)
    assert backend.as_nobody(fact)[0][0] == 401  # it came after all of them
    assert backend.keeper.count() == 0


@linux
@needs_root
def test_another_user_cannot_lock_the_owner_out(backend: Backend) -> None:
    guesses = [("GET", "/stats", None, {"X-API-Key": f"guess {number}"}) for number in range(MOST_TRIES + 1)]
    assert backend.as_nobody(*guesses)[-1][0] == 429
    assert backend.caller.owner.get("/stats").status == 200


@linux
@pytest.mark.parametrize(
    ("listening", "calling"), [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("127.0.0.1", "::ffff:127.0.0.1")]
)
def test_owner_of_an_open_connection_is_found(listening: str, calling: str) -> None:
    families = [socket.AF_INET6 if ":" in address else socket.AF_INET for address in (listening, calling)]
    client = _socket.socket(families[1], socket.SOCK_STREAM)  # the tests' own class refuses the mapped address
    try:
        server = socket.create_server((listening, 0), family=families[0])
        client.connect((calling, server.getsockname()[1]))
    except OSError as error:
        pytest.skip(f"this machine has no address {calling}: {error}")
    with server:
        accepted, address = server.accept()
        with accepted:
            ends = address[:2], accepted.getsockname()[:2]
            assert peer.find_owner(*ends) == os.geteuid()
            assert peer.find_owner(ends[0], ("127.0.0.2", ends[1][1])) is None
            client.close()
            assert peer.find_owner(*ends) is None


@linux
def test_without_the_tables_of_the_system_a_key_is_required(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS does not tell the user of a TCP connection."""
    monkeypatch.setattr(peer, "_TABLES", (Path("/nowhere"),))
    assert error_of(backend.caller.get("/memories")) == (401, "missing_key")
    assert error_of(backend.caller.get("/ui/overview")) == (401, "missing_key")
    assert backend.caller.owner.get("/memories").status == 200
    assert backend.caller.get("/ui/overview", backend.cookie()).status == 200


# ── the key of the home ───────────────────────────────────────────────────────────────────────────────────────────────


def test_key_is_created_once_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        key = service_key.load_or_create(tmp_path / "home")
    finally:
        os.umask(before)
    path = tmp_path / "home" / "service.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["service.key"]
    assert len(key) == 43
    assert service_key.load_or_create(tmp_path / "home") == service_key.read(tmp_path / "home") == key


@pytest.mark.parametrize("content", ["", "x" * 43], ids=["empty", "readable by others"])
def test_key_that_others_may_know_is_replaced(tmp_path: Path, content: str) -> None:
    path = tmp_path / "service.key"
    path.write_text(content)
    path.chmod(0o644 if content else 0o600)
    assert service_key.find_problem(tmp_path)
    assert service_key.load_or_create(tmp_path) != content
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert service_key.find_problem(tmp_path) == ""


def test_key_of_the_home_is_the_owners_beside_other_keys(backend: Backend) -> None:
    backend.keeper.create_key(Grant(name="ada's laptop", user="ada"))
    assert error_of(backend.caller.get("/memories")) == (401, "missing_key")
    assert backend.caller.owner.get("/health").json["role"] == "admin"
    assert backend.caller.owner.post("/memory/add", {"text": "We deploy on Fridays."}).status == 201
    entry = backend.keeper.audit_entries()[0]
    assert (entry.name, entry.key) == ("service.key", None)


def test_key_of_the_home_is_not_in_the_store(backend: Backend) -> None:
    key = service_key.read(backend.home).encode()
    backend.caller.owner.post("/memory/add", {"text": "We deploy on Fridays."})
    assert backend.keeper.keys() == []
    assert not any(key in path.read_bytes() for path in backend.home.glob("cofio.db*"))


NEEDS_KEY = {
    "POST /keys", "GET /notes", "POST /notes/export", "POST /notes/flush", "POST /notes/index", "POST /ui/links"
}  # fmt: skip


def test_routes_that_touch_files_or_grant_access_always_require_a_key(backend: Backend) -> None:
    routes = [route for route in ROUTES if route.needs_key]
    assert {f"{route.method} {route.path}" for route in routes} == NEEDS_KEY
    for route in routes:
        body = None if route.method == "GET" else {}
        assert error_of(backend.caller.send(route.method, route.path, body and b"{}")) == (401, "missing_key")
        assert backend.caller.owner.send(route.method, route.path, body and b"{}").status != 401


# ── pages ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_link_works_once_and_starts_a_session_of_the_owner(backend: Backend) -> None:
    link = "/" + backend.caller.owner.post("/ui/links", {}).json["path"]
    opened = backend.caller.get(f"{link}&page=agents")
    name, _, attributes = opened.headers["set-cookie"].partition(";")
    assert name.startswith(f"cofio-session-{backend.caller.port}=")
    assert attributes == " Path=/; HttpOnly; SameSite=Strict"
    assert b"url=agents" in opened.body
    assert error_of(backend.caller.get(link)) == (404, "not_found")
    assert error_of(backend.caller.get("/ui/open?code=guess")) == (404, "not_found")
    created = backend.caller.post("/keys", {"name": "laptop", "role": "admin"}, {"Cookie": name})
    assert created.status == 201
    assert backend.caller.get("/health", {"Cookie": name}).json["role"] == "admin"


def test_link_and_session_expire(backend: Backend) -> None:
    link = "/" + backend.caller.owner.post("/ui/links", {}).json["path"]
    backend.ticks.now += LINK_SECONDS + 1
    assert backend.caller.get(link).status == 404
    cookie = backend.cookie()
    assert backend.caller.get("/notes", cookie).status == 200
    backend.ticks.now += SESSION_SECONDS + 1
    assert backend.caller.get("/notes", cookie).status == 401


def test_cookie_counts_for_pages_of_the_service_only(backend: Backend) -> None:
    cookie = backend.cookie()
    assert backend.caller.get("/notes", {**cookie, "Sec-Fetch-Site": "same-origin"}).status == 200
    assert backend.caller.get("/notes", {**cookie, "Sec-Fetch-Site": "same-site"}).status == 401  # of another port
    assert backend.caller.post("/keys", {"name": "x"}, {**cookie, "Origin": "http://127.0.0.1:1"}).status == 403


def test_link_requires_the_key_of_the_home(backend: Backend) -> None:
    _, secret = backend.keeper.create_key(Grant(name="root", role="admin"))
    assert error_of(backend.caller.with_key(secret).post("/ui/links", {})) == (400, "invalid_input")


@linux
@needs_root
def test_link_and_cookie_are_useless_to_another_user(backend: Backend) -> None:
    link = "/" + backend.caller.owner.post("/ui/links", {}).json["path"]
    cookie = backend.cookie()
    requests = [("GET", link, None, {}), ("GET", "/notes", None, cookie)]
    assert [status for status, _ in backend.as_nobody(*requests)] == [401, 401]
    assert backend.caller.get(link).status == 200  # not used up
    backend.keeper.create_key(Grant(name="root", role="admin"))  # from now on, pages are public
    assert [status for status, _ in backend.as_nobody(*requests)] == [401, 401]


# ── content type ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", ["/search", "/hooks/claude-code", "/v1/chat/completions", "/mcp"])
@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded"])
def test_body_must_be_declared_as_json(backend: Backend, path: str, kind: str) -> None:
    answer = backend.caller.send("POST", path, b'{"query": "x"}', {"Content-Type": kind})
    assert error_of(answer) == (400, "invalid_input")
    assert "Content-Type: application/json" in answer.error["hint"]
