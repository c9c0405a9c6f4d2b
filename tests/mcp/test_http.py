"""The /mcp endpoint with the SDK's client and with raw requests."""

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
from tests.http_api.caller import Caller, Response
from tests.http_api.conftest import NoFactsLLM, serving
from tests.mcp.contract import TOOLS, ToolContract
from tests.mcp.sdk_client import HttpAgent, isolated_env

JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
MODERN = "2026-07-28"
ROLE_ERROR = "This request needs a key with the role write; yours has the role read."
WRITE_CALLS = {
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
def agent(tmp_path_factory: pytest.TempPathFactory, where: str) -> Iterator[HttpAgent]:
    with ExitStack() as stack:
        keeper = stack.enter_context(new_keeper(tmp_path_factory.mktemp("served")))
        url = stack.enter_context(serving(keeper))
        yield stack.enter_context(HttpAgent(url, {"X-Cofio-Project": quote(where)}))


class TestToolContract(ToolContract):
    """The tool contract over HTTP."""


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    with new_keeper(tmp_path) as keeper:
        yield keeper


@pytest.fixture
def url(keeper: Keeper) -> Iterator[str]:
    with serving(keeper) as url:
        yield url


def post_message(url: str, message: Any, headers: Mapping[str, str] | None = None) -> Response:
    """Post a message to /mcp and return the response."""
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return Caller(url).send("POST", "/mcp", body, {**JSON, **(headers or {})})


def make_request(method: str, number: Any = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, **({"params": params} if params else {})}


def tool_call_request(name: str, **arguments: Any) -> dict[str, Any]:
    return make_request("tools/call", name=name, arguments=arguments)


# ── protocol versions ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("mode", "version"), [("legacy", "2025-11-25"), ("auto", MODERN)])
def test_clients_of_old_and_new_protocol_are_served(url: str, mode: str, version: str) -> None:
    with HttpAgent(url, mode=mode) as agent:
        assert agent.version == version
        assert [tool.name for tool in agent.tools()] == TOOLS
        agent.call_data("memory_add", text="We use pnpm")
        assert agent.search_texts("pnpm") == ["We use pnpm"]
        assert agent.read("cofio://memory/1")[1]["memory"]["text"] == "We use pnpm"
        assert agent.prompts()


def test_requests_are_stateless(url: str) -> None:
    hello = post_message(
        url, make_request("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=CLIENT_INFO)
    )
    assert hello.status == 200
    assert hello.headers["content-type"].startswith("application/json")
    assert "mcp-session-id" not in hello.headers
    ready = post_message(url, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert (ready.status, ready.body) == (202, b"")
    for number in (1, "one", 1 << 60):  # no initialize is required
        result = post_message(url, make_request("tools/list", number)).json
        assert (result["id"], len(result["result"]["tools"])) == (number, 6)
    unknown = post_message(url, make_request("tools/list"), {"Mcp-Session-Id": "of another server"})
    assert unknown.status == 200


CLIENT_INFO = {"name": "raw", "version": "1"}


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH", "OPTIONS"])
def test_other_methods_than_post_are_rejected(url: str, method: str) -> None:
    answer = Caller(url).send(method, "/mcp", headers={"Accept": "text/event-stream"})
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert answer.error["hint"] == "Use POST."


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def create_key(keeper: Keeper, user: str = "ada", **about: Any) -> str:
    """Create a key and return its secret."""
    whose = {} if about.get("role") == "admin" else {"user": user}
    return keeper.create_key(Grant(**{"name": f"{user}'s laptop", **whose, **about}))[1]


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def test_request_without_valid_key_is_rejected(keeper: Keeper, url: str) -> None:
    secret = create_key(keeper)
    none = post_message(url, make_request("tools/list"))
    assert (none.status, none.error["code"]) == (401, "missing_key")
    wrong = post_message(url, make_request("tools/list"), bearer("cofio_guess"))
    assert (wrong.status, wrong.error["code"]) == (401, "wrong_key")
    for headers in (bearer(secret), {"X-API-Key": secret}):
        assert post_message(url, make_request("tools/list"), headers).status == 200
    assert Caller(url).send("GET", "/mcp").status == 401


def test_read_key_can_search_and_gets_an_error_for_writes(keeper: Keeper, url: str) -> None:
    keeper.add("We deploy with Fly.io", user="ada", visibility="private")
    writer, reader = create_key(keeper), create_key(keeper, user="ada", name="ada's phone", role="read")
    with HttpAgent(url, bearer(reader)) as agent, HttpAgent(url, bearer(writer)) as other:
        assert agent.tools() == other.tools()
        assert agent.search_texts("deploy") == ["We deploy with Fly.io"]
        assert agent.call_data("memory_history", id=1)["changes"]
        assert "Fly.io" in agent.read("cofio://memory/1")[0]
        assert "Fly.io" in str(agent.prompt("what_do_we_know", topic="deploy"))
        for name, arguments in WRITE_CALLS.items():
            refused = agent.call_error(name, **arguments)
            assert refused.startswith(ROLE_ERROR)
            assert "cofio keys create NAME --role write" in refused
        assert keeper.count() == 1
        assert other.call_data("memory_add", text="We use pnpm")["new"]


def test_private_memories_of_others_are_invisible_and_unchangeable(keeper: Keeper, url: str) -> None:
    ada, bob = create_key(keeper, "ada"), create_key(keeper, "bob")
    with HttpAgent(url, bearer(ada)) as agent:
        number = agent.call_data("memory_add", text="Ada looks for another job", project="ada/own")["id"]
        assert agent.search_texts("job") == ["Ada looks for another job"]
    with HttpAgent(url, bearer(bob)) as agent:
        assert agent.search_texts("job", project="*") == []
        assert agent.every_resource() == []
        assert agent.complete("what_do_we_know", "project", "ada") == []
        assert "There is no memory" in agent.error_message(lambda: agent.read(f"cofio://memory/{number}"))
        assert "job" not in agent.read("cofio://project/ada%2Fown/briefing")[0]
        assert "another job" not in str(agent.prompt("what_do_we_know", topic="job", project="ada/own").messages)
        for name, arguments in (
            ("memory_history", {}), ("memory_forget", {}), ("memory_update", {"text": "Ada stays"}),
        ):  # fmt: skip
            assert f"There is no memory {number}" in agent.call_error(name, id=number, **arguments)
    assert keeper.get(number).text == "Ada looks for another job"
    assert not keeper.get(number).archived


def test_key_with_prefixes_adds_below_the_first_prefix(keeper: Keeper, url: str) -> None:
    with HttpAgent(url, bearer(create_key(keeper, prefixes=("web/api", "web/docs")))) as agent:
        number = agent.call_data("memory_add", text="We use pnpm")["id"]
        agent.call_data("memory_extract", text="We decided to use pnpm for the whole of the shop.")
    assert keeper.get(number).source == "web/api/claude-code"
    assert [item.exchange.source for item in keeper.items() if item.exchange] == ["web/api/claude-code"]


def test_calls_are_recorded_in_history_and_audit_log(keeper: Keeper, url: str) -> None:
    with HttpAgent(url, bearer(create_key(keeper))) as agent:
        number = agent.call_data("memory_add", text="We use pnpm")["id"]
        agent.search_texts("pnpm")
        agent.call_error("memory_forget", id=4_711)
        agent.call_data("memory_forget", id=number)
    with HttpAgent(url, {**bearer(create_key(keeper, "bob", role="read")), "X-Cofio-Client": "robot"}) as agent:
        agent.call_error("memory_add", text="We use pnpm")
    assert [item.by for item in keeper.history(number)] == ["ada's laptop (key 1) · mcp"] * 2
    entries = [entry for entry in keeper.audit_entries() if entry.act.startswith("POST")]
    assert [(entry.act, entry.outcome, entry.name, entry.what) for entry in entries] == [
        ("POST /mcp memory_add", "refused", "bob's laptop", ROLE_ERROR),
        ("POST /mcp memory_forget", "done", "ada's laptop", "changeset 2"),
        ("POST /mcp memory_add", "done", "ada's laptop", "id 1, changeset 1"),
    ]  # fmt: skip
    assert all(entry.at.startswith("20") and entry.address == "127.0.0.1" for entry in entries)


def test_open_service_records_the_client_and_no_audit_entries(keeper: Keeper, url: str) -> None:
    post_message(url, tool_call_request("memory_add", text="We use pnpm"))
    post_message(url, tool_call_request("memory_add", text="We use vite"), {"X-Cofio-Client": "robot"})
    assert [change.by for change in keeper.changes()] == ["robot", "mcp"]
    post_message(url, tool_call_request("memory_add", text="We use Bun"), {"User-Agent": "codex-mcp-client/0.166.0"})
    post_message(url, tool_call_request("memory_add", text="We use Deno"), {"User-Agent": "curl/8.0 codex"})
    assert [memory.source for memory in keeper.list().memories] == ["mcp", "codex", "robot", "mcp"]
    assert keeper.audit_entries() == []


# ── project ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_project_header_selects_the_project(keeper: Keeper, url: str) -> None:
    keeper.add("The shop deploys with Render", project="acme/shop")
    with HttpAgent(url, {"X-Cofio-Project": quote("acme/wéb")}) as agent:
        agent.call_data("memory_add", text="The web deploys with Fly.io")
        assert agent.search_texts("deploys") == ["The web deploys with Fly.io"]
        assert agent.search_texts("deploys", project="acme/shop") == ["The shop deploys with Render"]
        assert len(agent.search_texts("deploys", project="*")) == 2
    assert keeper.get(2).project == "acme/wéb"


def test_without_project_all_are_searched_and_new_memories_have_none(keeper: Keeper, url: str) -> None:
    keeper.add("The shop deploys with Render", project="acme/shop")
    with HttpAgent(url) as agent:
        agent.call_data("memory_add", text="Nobody deploys on a Friday")
        assert len(agent.search_texts("deploys")) == 2
        assert agent.search_texts("deploys", project="") == ["Nobody deploys on a Friday"]
    assert keeper.get(2).project == ""


def test_local_folder_as_project_is_resolved_for_the_owner_only(keeper: Keeper, url: str, tmp_path: Path) -> None:
    inside = tmp_path / "web" / "src"
    inside.mkdir(parents=True)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path / "web", check=True)
    for headers, project in (({}, str(tmp_path / "web")), ("ada", str(inside))):
        values = bearer(create_key(keeper)) if headers else {}
        with HttpAgent(url, {**values, "X-Cofio-Project": quote(str(inside))}) as agent:
            number = agent.call_data("memory_add", text="We use pnpm")["id"]
        assert keeper.get(number).project == project


# ── request validation ────────────────────────────────────────────────────────────────────────────────────────────────


def test_foreign_origin_and_host_are_rejected(keeper: Keeper, url: str) -> None:
    adding = tool_call_request("memory_add", text="We use pnpm")
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "evil.example"},
    ):
        answer = post_message(url, adding, headers)
        assert (answer.status, answer.error["code"]) == (403, "forbidden")
    assert keeper.count() == 0
    assert post_message(url, adding, {"Origin": url}).status == 200


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
def test_invalid_message_is_rejected_and_the_next_is_answered(shared_service: str, body: bytes, version: str) -> None:
    answer = post_message(shared_service, body, {"MCP-Protocol-Version": version} if version else None)
    assert answer.status in (200, 400)
    assert answer.json["error"]["message"]
    assert b"Traceback" not in answer.body
    assert post_message(shared_service, make_request("ping")).json["result"] == {}


@pytest.fixture(scope="module")
def shared_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield a service shared by tests that change nothing."""
    clock = FixedClock()
    store = SqliteStore(tmp_path_factory.mktemp("served") / "cofio.db", clock)
    with Keeper(store, HashEmbedder(), clock, llm=NoFactsLLM()) as keeper, serving(keeper) as url:
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
    arguments=st.dictionaries(NAMES, VALUES, max_size=4) | VALUES,
    extra=st.dictionaries(NAMES | st.sampled_from(["ref", "argument"]), VALUES, max_size=3),
)
def test_random_requests_are_answered(
    shared_service: str, method: str, name: str, arguments: Any, extra: dict[str, Any]
) -> None:
    answer = post_message(
        shared_service,
        make_request(method, name=name, arguments=arguments, **{k: v for k, v in extra.items() if k != "name"}),
    )
    assert answer.status in (200, 400)
    assert "An internal error occurred" not in answer.body.decode()


@pytest.mark.parametrize("headers", [{"Content-Type": "text/plain"}, {"Content-Type": ""}, {"Accept": "text/html"}])
@pytest.mark.parametrize("version", ["2025-06-18", MODERN])
def test_wrong_content_type_or_accept_header_is_rejected(
    shared_service: str, headers: dict[str, str], version: str
) -> None:
    answer = post_message(shared_service, make_request("tools/list"), {**headers, "MCP-Protocol-Version": version})
    assert answer.status in (400, 406)
    assert answer.json["error"]["message"]


def test_oversized_body_is_rejected_before_reading(keeper: Keeper) -> None:
    with serving(keeper, max_body=100_000) as url:
        answer = post_message(url, tool_call_request("memory_add", text="x" * 200_000))
        assert (answer.status, answer.error["code"]) == (413, "too_large")
        assert post_message(url, make_request("ping")).status == 200


# ── concurrency and shutdown ──────────────────────────────────────────────────────────────────────────────────────────


def test_many_concurrent_clients_are_served(keeper: Keeper, url: str) -> None:
    def client(number: int) -> tuple[str, int]:
        with HttpAgent(url, {"X-Cofio-Project": f"p{number % 4}"}, mode="legacy" if number % 2 else "auto") as agent:
            agent.call_data("memory_add", text=f"Host {number} is patched by team {number}")
            (first, *_) = agent.search_texts(f"who patches host {number}?")
            return first, number

    with ThreadPoolExecutor(16) as threads:
        for first, number in threads.map(client, range(32)):
            assert first == f"Host {number} is patched by team {number}"
    assert keeper.count() == 32


class BlockingEmbedder(HashEmbedder):
    """An embedder that blocks until the test releases it."""

    def __init__(self) -> None:
        super().__init__()
        self.waits, self.go_on = threading.Event(), threading.Event()

    def embed(self, texts: Any, kind: Any) -> Any:
        self.waits.set()
        assert self.go_on.wait(60)
        return super().embed(texts, kind)


def test_other_routes_respond_while_tool_calls_block(tmp_path: Path) -> None:
    clock, embedder = FixedClock(), BlockingEmbedder()
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), embedder, clock) as keeper, serving(keeper) as url:
        with ThreadPoolExecutor(24) as threads:
            pending = [
                threads.submit(post_message, url, tool_call_request("memory_add", text=f"fact {index}"))
                for index in range(24)
            ]
            assert embedder.waits.wait(60)
            assert Caller(url).get("/memories").status == 200
            assert Caller(url).get("/health").status == 200
            embedder.go_on.set()
            assert all(item.result(60).status == 200 for item in pending)
        assert keeper.count() == 24


def test_service_stops_quickly_after_serving_agents(keeper: Keeper) -> None:
    with serving(keeper) as url:
        with HttpAgent(url) as agent:
            agent.call_data("memory_add", text="We use pnpm")
        start_time = time.monotonic()
    assert time.monotonic() - start_time < 30
    assert not [item for item in threading.enumerate() if "mcp" in item.name.lower()]


# ── metrics and errors ────────────────────────────────────────────────────────────────────────────────────────────────


def test_requests_are_counted_as_their_own_route(keeper: Keeper, url: str) -> None:
    post_message(url, make_request("ping"))
    post_message(url, b"nonsense")
    counted = Caller(url).get("/metrics").body.decode()
    assert 'route="/mcp",status="200"} 1.0' in counted
    assert 'route="/mcp",status="400"} 1.0' in counted


def test_store_location_is_not_disclosed(keeper: Keeper, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*_: Any, **__: Any) -> Any:
        raise StoreBusy("/home/ann/cofio.db is locked.", "Try again.")

    secret, owner = create_key(keeper), create_key(keeper, "root", role="admin")
    monkeypatch.setattr(SqliteStore, "history", busy)
    with HttpAgent(url, bearer(secret)) as agent:
        assert agent.call_error("memory_history", id=1).startswith("The store is not available at the moment.")
    with HttpAgent(url, bearer(owner)) as agent:
        assert "/home/ann/cofio.db" in agent.call_error("memory_history", id=1)


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


def run_service(tmp_path: Path, *scripts: str) -> list[Any]:
    """Run a service in a new process and return its answers to a ping."""
    command = [sys.executable, "-c", "".join(scripts), str(tmp_path)]
    root = Path(__file__).parents[2]
    result = subprocess.run(command, env=isolated_env(tmp_path), cwd=root, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "Traceback" not in result.stderr
    payload: list[Any] = json.loads(result.stdout)
    return payload


def test_missing_sdk_returns_501_and_other_routes_work(tmp_path: Path) -> None:
    at_start, status, told, well, later = run_service(tmp_path, HIDDEN, SERVE)
    assert (at_start, status, well, later) == ([], 501, 200, False)
    assert told["error"]["code"] == "not_configured"
    assert "mcp is missing" in told["error"]["message"]
    assert f"pip install '{SDK}'" in told["error"]["hint"]


def test_sdk_is_imported_by_the_first_request(tmp_path: Path) -> None:
    assert run_service(tmp_path, SERVE) == [[], 200, {"jsonrpc": "2.0", "id": 1, "result": {}}, 200, True]
