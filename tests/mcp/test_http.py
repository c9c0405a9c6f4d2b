"""/mcp of the service: the SDK's own client at the other end, and whatever else may come along an HTTP connection."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cofio.core import Keeper
from cofio.errors import StoreBusy
from cofio.models.auth import Grant
from cofio.server.mcp import SDK
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder
from tests.http_api.caller import Answer, Caller
from tests.http_api.conftest import Uneventful, serving
from tests.mcp.contract import TOOLS, Contract
from tests.mcp.sdk_client import Calling, around

JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
MODERN = "2026-07-28"
LITTLE = "This needs a key with the role write; yours has the role read."
WRITING = {
    "memory_add": {"text": "We use pnpm"},
    "memory_update": {"id": 1, "text": "We use pnpm"},
    "memory_forget": {"id": 1},
    "memory_extract": {"text": "We decided to use pnpm."},
}


def new_keeper(path: Path) -> Keeper:
    clock = FixedClock()
    return Keeper(SqliteStore(path / "cofio.db", clock), HashEmbedder(), clock)


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("work") / "wéb" / "web")


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory, where: str) -> Iterator[Calling]:
    with ExitStack() as stack:
        keeper = stack.enter_context(new_keeper(tmp_path_factory.mktemp("served")))
        url = stack.enter_context(serving(keeper))
        yield stack.enter_context(Calling(url, {"X-Cofio-Project": quote(where)}))


class TestContract(Contract):
    """What every agent is promised, of one that calls the service."""


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    with new_keeper(tmp_path) as keeper:
        yield keeper


@pytest.fixture
def url(keeper: Keeper) -> Iterator[str]:
    with serving(keeper) as url:
        yield url


def says(url: str, message: Any, headers: Mapping[str, str] | None = None) -> Answer:
    """What is said to this, whatever it is."""
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return Caller(url).send("POST", "/mcp", body, {**JSON, **(headers or {})})


def asks(method: str, number: Any = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, **({"params": params} if params else {})}


def calls(name: str, **arguments: Any) -> dict[str, Any]:
    return asks("tools/call", name=name, arguments=arguments)


# ── generations of the protocol ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("mode", "version"), [("legacy", "2025-11-25"), ("auto", MODERN)])
def test_clients_of_the_old_and_of_the_new_protocol_are_served(url: str, mode: str, version: str) -> None:
    with Calling(url, mode=mode) as agent:
        assert agent.version == version
        assert [tool.name for tool in agent.tools()] == TOOLS
        agent.told("memory_add", text="We use pnpm")
        assert agent.found("pnpm") == ["We use pnpm"]
        assert agent.read("cofio://memory/1")[1]["memory"]["text"] == "We use pnpm"
        assert agent.prompts()


def test_nothing_is_left_of_a_request_for_the_next(url: str) -> None:
    hello = says(url, asks("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=WHO))
    assert hello.status == 200
    assert hello.headers["content-type"].startswith("application/json")
    assert "mcp-session-id" not in hello.headers
    ready = says(url, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert (ready.status, ready.body) == (202, b"")
    for number in (1, "one", 1 << 60):  # whoever asks need not have greeted
        told = says(url, asks("tools/list", number)).json
        assert (told["id"], len(told["result"]["tools"])) == (number, 6)
    unknown = says(url, asks("tools/list"), {"Mcp-Session-Id": "of another server"})
    assert unknown.status == 200


WHO = {"name": "raw", "version": "1"}


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH", "OPTIONS"])
def test_there_is_nothing_to_get_and_no_session_to_delete(url: str, method: str) -> None:
    answer = Caller(url).send(method, "/mcp", headers={"Accept": "text/event-stream"})
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert answer.error["hint"] == "Use POST."


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def key(keeper: Keeper, user: str = "ada", **about: Any) -> str:
    """The secret of a new key."""
    whose = {} if about.get("role") == "admin" else {"user": user}
    return keeper.create_key(Grant(**{"name": f"{user}'s laptop", **whose, **about}))[1]


def bearing(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def test_without_the_right_key_nobody_is_heard(keeper: Keeper, url: str) -> None:
    secret = key(keeper)
    none = says(url, asks("tools/list"))
    assert (none.status, none.error["code"]) == (401, "missing_key")
    wrong = says(url, asks("tools/list"), bearing("cofio_guess"))
    assert (wrong.status, wrong.error["code"]) == (401, "wrong_key")
    for headers in (bearing(secret), {"X-API-Key": secret}):
        assert says(url, asks("tools/list"), headers).status == 200
    assert Caller(url).send("GET", "/mcp").status == 401


def test_a_key_that_only_reads_reads_and_is_told_what_it_may_not(keeper: Keeper, url: str) -> None:
    keeper.add("We deploy with Fly.io", user="ada", visibility="private")
    writer, reader = key(keeper), key(keeper, user="ada", name="ada's phone", role="read")
    with Calling(url, bearing(reader)) as agent, Calling(url, bearing(writer)) as other:
        assert agent.tools() == other.tools()
        assert agent.found("deploy") == ["We deploy with Fly.io"]
        assert agent.told("memory_history", id=1)["changes"]
        assert "Fly.io" in agent.read("cofio://memory/1")[0]
        assert "Fly.io" in str(agent.prompt("what_do_we_know", topic="deploy"))
        for name, arguments in WRITING.items():
            refused = agent.refused(name, **arguments)
            assert refused.startswith(LITTLE)
            assert "cofio keys create NAME --role write" in refused
        assert keeper.count() == 1
        assert other.told("memory_add", text="We use pnpm")["new"]


def test_nobody_sees_or_touches_what_is_anothers(keeper: Keeper, url: str) -> None:
    ada, bob = key(keeper, "ada"), key(keeper, "bob")
    with Calling(url, bearing(ada)) as agent:
        number = agent.told("memory_add", text="Ada looks for another job", project="ada/own")["id"]
        assert agent.found("job") == ["Ada looks for another job"]
    with Calling(url, bearing(bob)) as agent:
        assert agent.found("job", project="*") == []
        assert agent.every_resource() == []
        assert agent.completed("what_do_we_know", "project", "ada") == []
        assert "There is no memory" in agent.wrong(lambda: agent.read(f"cofio://memory/{number}"))
        assert "job" not in agent.read("cofio://project/ada%2Fown/briefing")[0]
        assert "another job" not in str(agent.prompt("what_do_we_know", topic="job", project="ada/own").messages)
        for name, arguments in (
            ("memory_history", {}), ("memory_forget", {}), ("memory_update", {"text": "Ada stays"}),
        ):  # fmt: skip
            assert f"There is no memory {number}" in agent.refused(name, id=number, **arguments)
    assert keeper.get(number).text == "Ada looks for another job"
    assert not keeper.get(number).archived


def test_a_key_for_some_sources_keeps_what_its_agent_adds_below_the_first_of_them(keeper: Keeper, url: str) -> None:
    with Calling(url, bearing(key(keeper, prefixes=("web/api", "web/docs")))) as agent:
        number = agent.told("memory_add", text="We use pnpm")["id"]
        agent.told("memory_extract", text="We decided to use pnpm for the whole of the shop.")
    assert keeper.get(number).source == "web/api/claude-code"
    assert [item.exchange.source for item in keeper.items() if item.exchange] == ["web/api/claude-code"]


def test_what_is_done_and_what_is_refused_is_in_the_journal_and_in_the_audit_log(keeper: Keeper, url: str) -> None:
    with Calling(url, bearing(key(keeper))) as agent:
        number = agent.told("memory_add", text="We use pnpm")["id"]
        agent.found("pnpm")
        agent.refused("memory_forget", id=4_711)
        agent.told("memory_forget", id=number)
    with Calling(url, {**bearing(key(keeper, "bob", role="read")), "X-Cofio-Client": "robot"}) as agent:
        agent.refused("memory_add", text="We use pnpm")
    assert [each.by for each in keeper.history(number)] == ["ada's laptop (key 1) · mcp"] * 2
    entries = [entry for entry in keeper.audit_entries() if entry.act.startswith("POST")]
    assert [(entry.act, entry.outcome, entry.name, entry.what) for entry in entries] == [
        ("POST /mcp memory_add", "refused", "bob's laptop", LITTLE),
        ("POST /mcp memory_forget", "done", "ada's laptop", "changeset 2"),
        ("POST /mcp memory_add", "done", "ada's laptop", "id 1, changeset 1"),
    ]  # fmt: skip
    assert all(entry.at.startswith("20") and entry.address == "127.0.0.1" for entry in entries)


def test_on_an_open_service_the_journal_names_the_client_and_nobody_is_audited(keeper: Keeper, url: str) -> None:
    says(url, calls("memory_add", text="We use pnpm"))
    says(url, calls("memory_add", text="We use vite"), {"X-Cofio-Client": "robot"})
    assert [change.by for change in keeper.changes()] == ["robot", "mcp"]
    says(url, calls("memory_add", text="We use Bun"), {"User-Agent": "codex-mcp-client/0.166.0"})
    says(url, calls("memory_add", text="We use Deno"), {"User-Agent": "curl/8.0 codex"})
    assert [memory.source for memory in keeper.list().memories] == ["mcp", "codex", "robot", "mcp"]
    assert keeper.audit_entries() == []


# ── in which project ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_header_says_what_the_client_is_at_work_on(keeper: Keeper, url: str) -> None:
    keeper.add("The shop deploys with Render", project="acme/shop")
    with Calling(url, {"X-Cofio-Project": quote("acme/wéb")}) as agent:
        agent.told("memory_add", text="The web deploys with Fly.io")
        assert agent.found("deploys") == ["The web deploys with Fly.io"]
        assert agent.found("deploys", project="acme/shop") == ["The shop deploys with Render"]
        assert len(agent.found("deploys", project="*")) == 2
    assert keeper.get(2).project == "acme/wéb"


def test_without_it_every_project_is_searched_and_what_is_added_belongs_to_none(keeper: Keeper, url: str) -> None:
    keeper.add("The shop deploys with Render", project="acme/shop")
    with Calling(url) as agent:
        agent.told("memory_add", text="Nobody deploys on a Friday")
        assert len(agent.found("deploys")) == 2
        assert agent.found("deploys", project="") == ["Nobody deploys on a Friday"]
    assert keeper.get(2).project == ""


def test_a_folder_of_this_machine_names_its_project_to_its_owner_alone(
    keeper: Keeper, url: str, tmp_path: Path
) -> None:
    inside = tmp_path / "web" / "src"
    inside.mkdir(parents=True)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path / "web", check=True)
    for headers, project in (({}, str(tmp_path / "web")), ("ada", str(inside))):
        given = bearing(key(keeper)) if headers else {}
        with Calling(url, {**given, "X-Cofio-Project": quote(str(inside))}) as agent:
            number = agent.told("memory_add", text="We use pnpm")["id"]
        assert keeper.get(number).project == project


# ── who may call, and with what ───────────────────────────────────────────────────────────────────────────────────────


def test_a_page_of_another_site_and_a_strange_host_are_refused(keeper: Keeper, url: str) -> None:
    adding = calls("memory_add", text="We use pnpm")
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "evil.example"},
    ):
        answer = says(url, adding, headers)
        assert (answer.status, answer.error["code"]) == (403, "forbidden")
    assert keeper.count() == 0
    assert says(url, adding, {"Origin": url}).status == 200


@pytest.mark.parametrize(
    "body",
    [b"", b"nonsense", b"[]", b"null", b"1", b'"\\ud800"', b"{}", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 5_000,
     b'{"jsonrpc":"2.0","id":1}',
     b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}',
     b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
     b'{"jsonrpc":"2.0","id":1,"method":"ping","id":' + b"9" * 5_000 + b"}"],
    ids=lambda body: repr(body[:40]),
)  # fmt: skip
@pytest.mark.parametrize("version", ["", "2025-06-18", MODERN, "1999-01-01", "x" * 5_000])
def test_what_is_no_message_is_refused_and_the_next_one_is_answered(served: str, body: bytes, version: str) -> None:
    answer = says(served, body, {"MCP-Protocol-Version": version} if version else None)
    assert answer.status in (200, 400)
    assert answer.json["error"]["message"]
    assert b"Traceback" not in answer.body
    assert says(served, asks("ping")).json["result"] == {}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One service for those who leave nothing behind."""
    clock = FixedClock()
    store = SqliteStore(tmp_path_factory.mktemp("served") / "cofio.db", clock)
    with Keeper(store, HashEmbedder(), clock, llm=Uneventful()) as keeper, serving(keeper) as url:
        yield url


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(["query", "text", "id", "project", "limit", "cursor", "kind", "reason", "topic", "uri", "name"])
METHODS = st.sampled_from(["tools/call", "resources/read", "resources/list", "prompts/get", "completion/complete"])


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    method=METHODS | st.text(),
    name=st.sampled_from([*TOOLS, "what_do_we_know"]) | st.text(),
    given=st.dictionaries(NAMES, VALUES, max_size=4) | VALUES,
    more=st.dictionaries(NAMES | st.sampled_from(["ref", "argument"]), VALUES, max_size=3),
)
def test_whatever_is_asked_is_answered(served: str, method: str, name: str, given: Any, more: dict[str, Any]) -> None:
    answer = says(served, asks(method, name=name, arguments=given, **{k: v for k, v in more.items() if k != "name"}))
    assert answer.status in (200, 400)
    assert "An internal error occurred" not in answer.body.decode()


@pytest.mark.parametrize("headers", [{"Content-Type": "text/plain"}, {"Content-Type": ""}, {"Accept": "text/html"}])
@pytest.mark.parametrize("version", ["2025-06-18", MODERN])
def test_what_is_not_sent_as_the_protocol_has_it_is_refused(served: str, headers: dict[str, str], version: str) -> None:
    answer = says(served, asks("tools/list"), {**headers, "MCP-Protocol-Version": version})
    assert answer.status in (400, 406)
    assert answer.json["error"]["message"]


def test_a_body_beyond_the_limit_is_refused_before_it_is_read(keeper: Keeper) -> None:
    with serving(keeper, max_body=100_000) as url:
        answer = says(url, calls("memory_add", text="x" * 200_000))
        assert (answer.status, answer.error["code"]) == (413, "too_large")
        assert says(url, asks("ping")).status == 200


# ── many at once, and an end ──────────────────────────────────────────────────────────────────────────────────────────


def test_many_clients_at_once_are_all_answered_and_others_are_not_held_up(keeper: Keeper, url: str) -> None:
    def client(number: int) -> tuple[str, int]:
        with Calling(url, {"X-Cofio-Project": f"p{number % 4}"}, mode="legacy" if number % 2 else "auto") as agent:
            agent.told("memory_add", text=f"Host {number} is patched by team {number}")
            (first, *_) = agent.found(f"who patches host {number}?")
            return first, number

    with ThreadPoolExecutor(16) as threads:
        for first, number in threads.map(client, range(32)):
            assert first == f"Host {number} is patched by team {number}"
    assert keeper.count() == 32


class Holding(HashEmbedder):
    """An embedder that takes as long as a test wants."""

    def __init__(self) -> None:
        super().__init__()
        self.waits, self.go_on = threading.Event(), threading.Event()

    def embed(self, texts: Any, kind: Any) -> Any:
        self.waits.set()
        assert self.go_on.wait(60)
        return super().embed(texts, kind)


def test_other_routes_are_answered_while_agents_take_their_time(tmp_path: Path) -> None:
    clock, embedder = FixedClock(), Holding()
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), embedder, clock) as keeper, serving(keeper) as url:
        with ThreadPoolExecutor(24) as threads:
            waiting = [threads.submit(says, url, calls("memory_add", text=f"fact {each}")) for each in range(24)]
            assert embedder.waits.wait(60)
            assert Caller(url).get("/memories").status == 200
            assert Caller(url).get("/health").status == 200
            embedder.go_on.set()
            assert all(each.result(60).status == 200 for each in waiting)
        assert keeper.count() == 24


def test_the_service_ends_soon_after_it_has_served_agents(keeper: Keeper) -> None:
    with serving(keeper) as url:
        with Calling(url) as agent:
            agent.told("memory_add", text="We use pnpm")
        began = time.monotonic()
    assert time.monotonic() - began < 30
    assert not [each for each in threading.enumerate() if "mcp" in each.name.lower()]


# ── what is told of it ────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_agents_ask_is_counted_as_a_route_of_its_own(keeper: Keeper, url: str) -> None:
    says(url, asks("ping"))
    says(url, b"nonsense")
    counted = Caller(url).get("/metrics").body.decode()
    assert 'route="/mcp",status="200"} 1.0' in counted
    assert 'route="/mcp",status="400"} 1.0' in counted


def test_where_the_store_is_is_nothing_for_others(keeper: Keeper, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*_: Any, **__: Any) -> Any:
        raise StoreBusy("/home/ann/cofio.db is locked.", "Try again.")

    secret, owner = key(keeper), key(keeper, "root", role="admin")
    monkeypatch.setattr(SqliteStore, "history", busy)
    with Calling(url, bearing(secret)) as agent:
        assert agent.refused("memory_history", id=1).startswith("The store is not available at the moment.")
    with Calling(url, bearing(owner)) as agent:
        assert "/home/ann/cofio.db" in agent.refused("memory_history", id=1)


# ── without the SDK ───────────────────────────────────────────────────────────────────────────────────────────────────

HIDDEN = """
import sys
from importlib.abc import MetaPathFinder

class Hidden(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("mcp", "mcp_types"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
"""
SERVE = """
import json, sys
from pathlib import Path
from cofio.core import Keeper
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder
from tests.http_api.caller import Caller
from tests.http_api.conftest import serving

clock = FixedClock()
with Keeper(SqliteStore(Path(sys.argv[1]) / "cofio.db", clock), HashEmbedder(), clock) as keeper:
    with serving(keeper) as url:
        at_start = [name for name in sys.modules if name.split(".")[0] in ("mcp", "mcp_types")]
        body = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        answer = Caller(url).send("POST", "/mcp", body, headers)
        well = Caller(url).get("/health").status
        later = [name for name in sys.modules if name.split(".")[0] in ("mcp", "mcp_types")]
print(json.dumps([at_start, answer.status, answer.json, well, bool(later)]))
"""


def run(tmp_path: Path, *scripts: str) -> list[Any]:
    """What a service in a process of its own answers to a ping."""
    command = [sys.executable, "-c", "".join(scripts), str(tmp_path)]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, env=around(tmp_path), cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    told: list[Any] = json.loads(done.stdout)
    return told


def test_without_the_sdk_it_says_how_to_install_it_and_all_else_works(tmp_path: Path) -> None:
    at_start, status, told, well, later = run(tmp_path, HIDDEN, SERVE)
    assert (at_start, status, well, later) == ([], 501, 200, False)
    assert told["error"]["code"] == "not_configured"
    assert "mcp is missing" in told["error"]["message"]
    assert f"pip install '{SDK}'" in told["error"]["hint"]


def test_the_sdk_is_loaded_by_the_first_request_and_not_at_the_start(tmp_path: Path) -> None:
    assert run(tmp_path, SERVE) == [[], 200, {"jsonrpc": "2.0", "id": 1, "result": {}}, 200, True]
