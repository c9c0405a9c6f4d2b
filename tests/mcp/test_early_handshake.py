"""The early handshake: it answers like the SDK would, and hands over to the SDK without a gap."""

from __future__ import annotations

import copy
import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from cofio.core import Keeper
from cofio.errors import Unavailable
from cofio.models.memory import Fact
from cofio.server.mcp import early_handshake
from cofio.server.mcp.caller import Caller
from cofio.server.mcp.dispatcher import Dispatcher
from cofio.server.mcp.early_handshake import EarlyHandshake
from cofio.server.mcp.sdk_server import serve_streams
from tests.mcp.sdk_client import COMMAND, isolated_env

TIMEOUT_S = 30.0  # usually less than one second
CLIENT = {"name": "claude-code", "title": "Claude Code", "version": "2", "websiteUrl": "https://example.com/"}
CAPABILITIES = {
    "roots": {"listChanged": True},
    "elicitation": {"form": {}, "url": {}},
    "experimental": {"codex/auth": {}},
}
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN_PROTOCOL_VERSIONS[-1],
    "io.modelcontextprotocol/clientInfo": CLIENT,
    "io.modelcontextprotocol/clientCapabilities": CAPABILITIES,
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def make_request(method: str, number: Any = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, **({"params": params} if params else {})}


def initialize_request(version: str = HANDSHAKE_PROTOCOL_VERSIONS[-1], number: Any = 1) -> dict[str, Any]:
    return make_request("initialize", number, protocolVersion=version, capabilities=CAPABILITIES, clientInfo=CLIENT)


def tool_call_request(number: Any, **params: Any) -> dict[str, Any]:
    return make_request("tools/call", number, name="memory_history", arguments={"id": "none"}, **params)


def encode_lines(*messages: Any) -> str:
    return "".join(json.dumps(message) + "\n" for message in messages)


class SdkServer:
    """The SDK's own server with line-based input and output; it also gets the messages that the handshake answered."""

    def __init__(self, counter: Dispatcher) -> None:
        self._in: Queue[str] = Queue()
        self._out: Queue[str] = Queue()
        self._thread = threading.Thread(target=serve_streams, args=(counter, self, self), daemon=True)
        self._thread.start()

    def request(self, message: Any) -> Any:
        self._in.put(encode_lines(message))
        return json.loads(self._out.get(timeout=TIMEOUT_S))

    def notify(self, message: Any) -> None:
        self._in.put(encode_lines(message))

    def stop(self) -> None:
        self._in.put("")
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive()

    def readline(self) -> str:
        return self._in.get()

    def write(self, line: str) -> None:
        self._out.put(line)

    def flush(self) -> None:
        pass


@pytest.fixture
def new_sdk(dispatcher: Dispatcher, keeper: Keeper) -> Iterator[Callable[[], SdkServer]]:
    """Yield a factory of SDK servers with more than one page of resources."""
    keeper.add_all([Fact(text=f"Room {index} is <cold>", project=f"/srv/{index}/é") for index in range(60)])
    created: list[SdkServer] = []

    def make_sdk() -> SdkServer:
        created.append(SdkServer(dispatcher))
        return created[-1]

    yield make_sdk
    for item in created:
        item.stop()


def answer_of(answering: EarlyHandshake, message: Any) -> Any:
    line = answering.answer(encode_lines(message))
    return None if line is None else json.loads(line or "null")


# ── same answers as the SDK ───────────────────────────────────────────────────────────────────────────────────────────


LISTS = ("tools/list", "prompts/list", "resources/templates/list", "resources/list")


@pytest.mark.parametrize("version", [*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS, "1999-01-01", ""])
def test_initialize_client_gets_the_answers_of_the_sdk(
    version: str, new_sdk: Callable[[], SdkServer], dispatcher: Dispatcher
) -> None:
    answering, sdk = EarlyHandshake(dispatcher), new_sdk()
    for message in (
        initialize_request(version, 0),
        make_request("ping", "ping-1"),
        *(make_request(item, 2) for item in LISTS),
    ):
        result = answer_of(answering, message)
        assert result["result"] or message["method"] == "ping"
        assert result == sdk.request(message)
    assert answer_of(answering, READY) is None
    assert answering.answer(encode_lines(READY)) is None  # once is enough
    sdk.notify(READY)
    for message in (make_request("tools/list", 3, _meta={"progressToken": 0}), make_request("ping", 1 << 70)):
        result = answer_of(answering, message)
        assert result == sdk.request(message)
        assert type(result["id"]) is type(message["id"])


@pytest.mark.parametrize("version", MODERN_PROTOCOL_VERSIONS)
def test_client_without_initialize_gets_the_answers_of_the_sdk(
    version: str, new_sdk: Callable[[], SdkServer], dispatcher: Dispatcher
) -> None:
    answering, sdk = EarlyHandshake(dispatcher), new_sdk()
    meta = {**META, "io.modelcontextprotocol/protocolVersion": version}
    for method in ("server/discover", *LISTS):
        result = answer_of(answering, make_request(method, "probe", _meta=meta))
        assert result["result"]["resultType"] == "complete"
        assert result == sdk.request(make_request(method, "probe", _meta=meta))


def test_protocol_versions_equal_those_of_the_sdk() -> None:
    assert early_handshake.HANDSHAKES == HANDSHAKE_PROTOCOL_VERSIONS
    assert (early_handshake.MODERN,) == MODERN_PROTOCOL_VERSIONS


def mutations(value: Any) -> Iterator[Any]:
    """Yield variants of the value with one element changed, removed or added."""
    yield from (None, True, 7, 1.5, "x", "", [], {}, [{}], {"x": 1}, {"listChanged": 1}, {"listChanged": True})
    if isinstance(value, dict):
        for name, each in value.items():
            yield {other: value[other] for other in value if other != name}
            yield from ({**value, name: wrong} for wrong in mutations(each))
        yield from ({**value, "more": more} for more in (1, "x", {}, {"listChanged": "no"}))


@pytest.mark.parametrize(
    ("before", "right"),
    [
        ((), initialize_request()),
        ((initialize_request(),), make_request("tools/list", _meta={"progressToken": 1})),
        ((initialize_request(),), make_request("ping")),
        ((initialize_request(),), make_request("resources/list", _meta={"progressToken": 1})),
        ((), make_request("server/discover", _meta=META)),
        ((), make_request("tools/list", _meta=META)),
    ],
    ids=["initialize", "tools/list", "ping", "resources/list", "server/discover", "tools/list without a greeting"],
)
def test_modified_messages_are_answered_like_the_sdk_or_left_to_it(
    before: tuple[Any, ...], right: Any, new_sdk: Callable[[], SdkServer], dispatcher: Dispatcher
) -> None:
    answered = 0
    for message in mutations(right):
        answering = EarlyHandshake(dispatcher)
        assert all(answer_of(answering, item) for item in before)
        report = answer_of(answering, copy.deepcopy(message))
        if report is None:
            continue
        sdk = new_sdk()
        assert all(sdk.request(item) for item in before)
        assert report == sdk.request(message), message
        answered += 1
    assert answered > 0


@pytest.mark.parametrize(
    "line",
    [
        "",
        "\n",
        "nonsense\n",
        "[]\n",
        "null\n",
        "1\n",
        '"\\ud800"\n',
        "\x00\n",
        "\ufeff{}\n",
        "[" * 100_000 + "\n",
        encode_lines(initialize_request()).replace("claude-code", "\\ud800"),
        encode_lines(initialize_request()).replace('"id": 1', '"id": 1' + "0" * 5_000),
        encode_lines(initialize_request()).replace('"form": {}', '"form": ' + '{"a":' * 900 + "{}" + "}" * 900),
        encode_lines(make_request("tools/list")),
        encode_lines(make_request("ping")),
        encode_lines(READY),
        encode_lines(tool_call_request(1)),
        encode_lines(tool_call_request(1, _meta=META)),
        encode_lines(make_request("server/discover")),
        encode_lines([initialize_request()]),
        encode_lines({"jsonrpc": "2.0", "id": 1, "result": {}}),
    ],
)
def test_other_messages_before_initialize_are_left_to_the_sdk(line: str, dispatcher: Dispatcher) -> None:
    assert EarlyHandshake(dispatcher).answer(line) is None


def test_later_pages_and_failing_lists_are_left_to_the_sdk(
    dispatcher: Dispatcher,
) -> None:
    answering = EarlyHandshake(dispatcher)
    assert answer_of(answering, initialize_request())
    assert answering.answer(encode_lines(make_request("resources/list", 2, cursor="memory:9:1"))) is None
    assert answer_of(answering, make_request("resources/list", 3))["result"] == {"resources": []}

    def gone(*, new: bool) -> Any:
        raise Unavailable("The service does not answer.", "cofio up starts it.")

    answering = EarlyHandshake(Dispatcher(gone, lambda client: Caller("", client)))
    assert answer_of(answering, initialize_request())
    assert answering.answer(encode_lines(make_request("resources/list", 3))) is None


def test_second_initialize_and_protocol_change_are_left_to_the_sdk(dispatcher: Dispatcher) -> None:
    answering = EarlyHandshake(dispatcher)
    assert answer_of(answering, initialize_request())
    assert answering.answer(encode_lines(initialize_request(number=2))) is None
    assert answering.answer(encode_lines(make_request("server/discover", 3, _meta=META))) is None


# ── process ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def start_server(home: Path, *sdk: str) -> subprocess.Popen[str]:
    """Start `cofio mcp`; `sdk` are lines of a module that replaces the SDK."""
    other = home / "elsewhere" / "mcp"
    other.mkdir(parents=True)
    if sdk:
        (other / "__init__.py").write_text("\n".join(sdk))
    env = isolated_env(home, {"PYTHONPATH": str(other.parent)} if sdk else {})
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(COMMAND, env=env, text=True, encoding="utf-8", cwd=home, **pipes)


def communicate(child: subprocess.Popen[str], first: str) -> tuple[list[Any], str]:
    """Send input, close it, and return all answers and the log."""
    told, log = child.communicate(first, timeout=TIMEOUT_S)
    assert child.returncode == 0
    return [json.loads(line) for line in told.splitlines()], log


def exchange(child: subprocess.Popen[str], first: str, answers: int) -> list[Any]:
    """Send input and return this many answers. Check that nothing follows when the input is closed."""
    assert child.stdin
    assert child.stdout
    child.stdin.write(first)
    child.stdin.flush()
    result = [json.loads(child.stdout.readline()) for _ in range(answers)]
    assert communicate(child, "") == ([], "")
    return result


HANGING_SDK = ("import os, time", "os.write(1, b'a word\\n'); print('another', flush=True)", "time.sleep(600)")


def test_client_is_answered_while_the_sdk_hangs(tmp_path: Path) -> None:
    child = start_server(tmp_path, *HANGING_SDK)
    requests = [make_request(method, number) for number, method in enumerate((*LISTS[:3], "ping"))]
    result = exchange(child, encode_lines(initialize_request(number="a"), READY, *requests), 5)
    assert [item["id"] for item in result] == ["a", 0, 1, 2, 3]
    assert len(result[1]["result"]["tools"]) == 6


def test_output_during_sdk_import_is_not_sent_to_the_client(tmp_path: Path) -> None:
    child = start_server(tmp_path, *HANGING_SDK)
    assert child.stdin
    assert child.stdout
    assert child.stderr
    child.stdin.write(encode_lines(initialize_request(), tool_call_request(2)))
    child.stdin.flush()
    assert json.loads(child.stdout.readline())["id"] == 1
    assert {child.stderr.readline(), child.stderr.readline()} == {"a word\n", "another\n"}
    child.terminate()
    assert child.communicate(timeout=TIMEOUT_S) == ("", "")
    assert child.returncode == 0


def test_broken_sdk_is_reported_when_needed(tmp_path: Path) -> None:
    child = start_server(tmp_path, "import some_part_of_it")
    told, log = child.communicate(encode_lines(initialize_request(), tool_call_request(2)), timeout=TIMEOUT_S)
    assert [json.loads(line)["id"] for line in told.splitlines()] == [1]
    assert child.returncode == 2
    assert "some_part_of_it is missing" in log
    assert "pip install" in log
    assert "Traceback" not in log


def test_client_that_disconnects_at_once_ends_the_process(tmp_path: Path) -> None:
    assert communicate(start_server(tmp_path), "") == ([], "")


def test_client_that_sends_everything_at_once_gets_each_answer_once(tmp_path: Path) -> None:
    both = [tool_call_request(number) for number in (2, "2", "x", 9)]
    everything = encode_lines(
        initialize_request(number=0),
        READY,
        make_request("tools/list", 1),
        *both,
        make_request("ping", 10),
        make_request("tools/list", "l"),
    )
    result = exchange(start_server(tmp_path), everything, 8)
    assert [item["id"] for item in result[:2]] == [0, 1]
    assert sorted(map(repr, (item["id"] for item in result[2:]))) == sorted(map(repr, [2, "2", "x", 9, 10, "l"]))
    assert all("result" in item for item in result)


def test_sdk_gets_the_client_info_of_the_handshake(tmp_path: Path) -> None:
    adding = make_request("tools/call", 2, name="memory_add", arguments={"text": "We use pnpm"})
    finding = make_request("tools/call", 3, name="memory_search", arguments={"query": "pnpm"})
    child = start_server(tmp_path)
    assert child.stdin
    assert child.stdout
    child.stdin.write(encode_lines(initialize_request(), READY, adding))
    child.stdin.flush()
    assert [json.loads(child.stdout.readline())["id"] for _ in range(2)] == [1, 2]
    (found,) = exchange(child, encode_lines(finding), 1)
    (memory,) = found["result"]["structuredContent"]["memories"]
    assert memory["source"] == "claude-code"


def test_client_without_initialize_can_call_tools(tmp_path: Path) -> None:
    meta = {"_meta": META}
    result = exchange(
        start_server(tmp_path),
        encode_lines(make_request("server/discover", 1, **meta), tool_call_request(2, **meta)),
        2,
    )
    assert [item["id"] for item in result] == [1, 2]
    assert result[1]["result"]["isError"]


def test_client_may_initialize_after_an_unanswered_probe(tmp_path: Path) -> None:
    first = make_request("server/discover", "probe", _meta=META)
    result = exchange(
        start_server(tmp_path), encode_lines(first, initialize_request(number=0), READY, tool_call_request(1)), 3
    )
    assert [item["id"] for item in result] == ["probe", 0, 1]
    assert result[2]["result"]["isError"]


def test_invalid_and_very_long_lines_lose_no_message(tmp_path: Path) -> None:
    long = make_request("tools/call", 2, name="memory_search", arguments={"query": "é" * 3_000_000})
    result = exchange(
        start_server(tmp_path),
        "nonsense\n\n[]\n" + encode_lines(initialize_request(), READY, long, tool_call_request(3)),
        3,
    )
    assert result[0]["id"] == 1
    assert {item["id"]: item["result"].get("isError") for item in result[1:]} == {2: True, 3: True}


def test_client_that_dies_without_reading_ends_the_process(tmp_path: Path) -> None:
    child = start_server(tmp_path)
    assert child.stdin
    assert child.stdout
    assert child.stderr
    child.stdout.close()
    child.stdin.write(encode_lines(initialize_request()))
    child.stdin.flush()
    assert child.wait(TIMEOUT_S) == 0
    assert child.stderr.read() == ""
    child.stdin.close()
    child.stderr.close()
