"""The front: what it answers is what the SDK would have answered, and the SDK takes over without a seam."""

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
from tests.mcp.sdk_client import COMMAND, around

SOON = 30.0  # seconds; usually it takes less than one
CLIENT = {"name": "claude-code", "title": "Claude Code", "version": "2", "websiteUrl": "https://example.com/"}
CAN = {"roots": {"listChanged": True}, "elicitation": {"form": {}, "url": {}}, "experimental": {"codex/auth": {}}}
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN_PROTOCOL_VERSIONS[-1],
    "io.modelcontextprotocol/clientInfo": CLIENT,
    "io.modelcontextprotocol/clientCapabilities": CAN,
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def asks(method: str, number: Any = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, **({"params": params} if params else {})}


def greets(version: str = HANDSHAKE_PROTOCOL_VERSIONS[-1], number: Any = 1) -> dict[str, Any]:
    return asks("initialize", number, protocolVersion=version, capabilities=CAN, clientInfo=CLIENT)


def calls(number: Any, **params: Any) -> dict[str, Any]:
    return asks("tools/call", number, name="memory_history", arguments={"id": "none"}, **params)


def lines(*messages: Any) -> str:
    return "".join(json.dumps(message) + "\n" for message in messages)


class Sdk:
    """The SDK's own server at the counter, a line in and a line out; it is told what the front answered, too."""

    def __init__(self, counter: Dispatcher) -> None:
        self._in: Queue[str] = Queue()
        self._out: Queue[str] = Queue()
        self._thread = threading.Thread(target=serve_streams, args=(counter, self, self), daemon=True)
        self._thread.start()

    def says(self, message: Any) -> Any:
        self._in.put(lines(message))
        return json.loads(self._out.get(timeout=SOON))

    def told(self, message: Any) -> None:
        self._in.put(lines(message))

    def end(self) -> None:
        self._in.put("")
        self._thread.join(SOON)
        assert not self._thread.is_alive()

    def readline(self) -> str:
        return self._in.get()

    def write(self, line: str) -> None:
        self._out.put(line)

    def flush(self) -> None:
        pass


@pytest.fixture
def new_sdk(counter: Dispatcher, keeper: Keeper) -> Iterator[Callable[[], Sdk]]:
    """Makes SDKs at a counter where there is something to list: more than a page of it."""
    keeper.add_all([Fact(text=f"Room {each} is <cold>", project=f"/srv/{each}/é") for each in range(60)])
    made: list[Sdk] = []

    def make() -> Sdk:
        made.append(Sdk(counter))
        return made[-1]

    yield make
    for each in made:
        each.end()


def heard(answering: EarlyHandshake, message: Any) -> Any:
    line = answering.answer(lines(message))
    return None if line is None else json.loads(line or "null")


# ── the same answers ──────────────────────────────────────────────────────────────────────────────────────────────────


LISTS = ("tools/list", "prompts/list", "resources/templates/list", "resources/list")


@pytest.mark.parametrize("version", [*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS, "1999-01-01", ""])
def test_a_client_that_greets_hears_what_the_sdk_would_say(
    version: str, new_sdk: Callable[[], Sdk], counter: Dispatcher
) -> None:
    answering, sdk = EarlyHandshake(counter), new_sdk()
    for message in (greets(version, 0), asks("ping", "ping-1"), *(asks(each, 2) for each in LISTS)):
        told = heard(answering, message)
        assert told["result"] or message["method"] == "ping"
        assert told == sdk.says(message)
    assert heard(answering, READY) is None
    assert answering.answer(lines(READY)) is None  # once is enough
    sdk.told(READY)
    for message in (asks("tools/list", 3, _meta={"progressToken": 0}), asks("ping", 1 << 70)):
        told = heard(answering, message)
        assert told == sdk.says(message)
        assert type(told["id"]) is type(message["id"])


@pytest.mark.parametrize("version", MODERN_PROTOCOL_VERSIONS)
def test_a_client_without_a_greeting_hears_what_the_sdk_would_say(
    version: str, new_sdk: Callable[[], Sdk], counter: Dispatcher
) -> None:
    answering, sdk = EarlyHandshake(counter), new_sdk()
    meta = {**META, "io.modelcontextprotocol/protocolVersion": version}
    for method in ("server/discover", *LISTS):
        told = heard(answering, asks(method, "probe", _meta=meta))
        assert told["result"]["resultType"] == "complete"
        assert told == sdk.says(asks(method, "probe", _meta=meta))


def test_the_versions_are_those_of_the_sdk() -> None:
    assert early_handshake.HANDSHAKES == HANDSHAKE_PROTOCOL_VERSIONS
    assert (early_handshake.MODERN,) == MODERN_PROTOCOL_VERSIONS


def altered(value: Any) -> Iterator[Any]:
    """The value with one thing in it changed, left out or added, in every way that comes to mind."""
    yield from (None, True, 7, 1.5, "x", "", [], {}, [{}], {"x": 1}, {"listChanged": 1}, {"listChanged": True})
    if isinstance(value, dict):
        for name, each in value.items():
            yield {other: value[other] for other in value if other != name}
            yield from ({**value, name: wrong} for wrong in altered(each))
        yield from ({**value, "more": more} for more in (1, "x", {}, {"listChanged": "no"}))


@pytest.mark.parametrize(
    ("before", "right"),
    [
        ((), greets()),
        ((greets(),), asks("tools/list", _meta={"progressToken": 1})),
        ((greets(),), asks("ping")),
        ((greets(),), asks("resources/list", _meta={"progressToken": 1})),
        ((), asks("server/discover", _meta=META)),
        ((), asks("tools/list", _meta=META)),
    ],
    ids=["initialize", "tools/list", "ping", "resources/list", "server/discover", "tools/list without a greeting"],
)
def test_what_is_said_in_another_way_is_answered_alike_or_left_to_the_sdk(
    before: tuple[Any, ...], right: Any, new_sdk: Callable[[], Sdk], counter: Dispatcher
) -> None:
    answered = 0
    for message in altered(right):
        answering = EarlyHandshake(counter)
        assert all(heard(answering, each) for each in before)
        told = heard(answering, copy.deepcopy(message))
        if told is None:
            continue
        sdk = new_sdk()
        assert all(sdk.says(each) for each in before)
        assert told == sdk.says(message), message
        answered += 1
    assert answered > 0


@pytest.mark.parametrize(
    "line",
    [
        "", "\n", "nonsense\n", "[]\n", "null\n", "1\n", '"\\ud800"\n', "\x00\n", "\ufeff{}\n", "[" * 100_000 + "\n",
        lines(greets()).replace("claude-code", "\\ud800"),
        lines(greets()).replace('"id": 1', '"id": 1' + "0" * 5_000),
        lines(greets()).replace('"form": {}', '"form": ' + '{"a":' * 900 + "{}" + "}" * 900),
        lines(asks("tools/list")), lines(asks("ping")), lines(READY), lines(calls(1)), lines(calls(1, _meta=META)),
        lines(asks("server/discover")), lines([greets()]), lines({"jsonrpc": "2.0", "id": 1, "result": {}}),
    ],
)  # fmt: skip
def test_before_the_greeting_anything_else_is_left_to_the_sdk(line: str, counter: Dispatcher) -> None:
    assert EarlyHandshake(counter).answer(line) is None


def test_a_page_further_on_and_what_cannot_be_listed_are_left_to_the_sdk(
    counter: Dispatcher,
) -> None:
    answering = EarlyHandshake(counter)
    assert heard(answering, greets())
    assert answering.answer(lines(asks("resources/list", 2, cursor="memory:9:1"))) is None
    assert heard(answering, asks("resources/list", 3))["result"] == {"resources": []}

    def gone(*, new: bool) -> Any:
        raise Unavailable("The service does not answer.", "cofio up starts it.")

    answering = EarlyHandshake(Dispatcher(gone, lambda client: Caller("", client)))
    assert heard(answering, greets())
    assert answering.answer(lines(asks("resources/list", 3))) is None


def test_a_second_greeting_and_a_change_of_protocol_are_left_to_the_sdk(counter: Dispatcher) -> None:
    answering = EarlyHandshake(counter)
    assert heard(answering, greets())
    assert answering.answer(lines(greets(number=2))) is None
    assert answering.answer(lines(asks("server/discover", 3, _meta=META))) is None


# ── the process ───────────────────────────────────────────────────────────────────────────────────────────────────────


def start(home: Path, *sdk: str) -> subprocess.Popen[str]:
    """`cofio mcp`; with `sdk` this is what stands in the SDK's place."""
    elsewhere = home / "elsewhere" / "mcp"
    elsewhere.mkdir(parents=True)
    if sdk:
        (elsewhere / "__init__.py").write_text("\n".join(sdk))
    env = around(home, {"PYTHONPATH": str(elsewhere.parent)} if sdk else {})
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(COMMAND, env=env, text=True, encoding="utf-8", cwd=home, **pipes)


def said(child: subprocess.Popen[str], first: str) -> tuple[list[Any], str]:
    """All that it answers to this, and what it logs; its input ends then, and it with it."""
    told, log = child.communicate(first, timeout=SOON)
    assert child.returncode == 0
    return [json.loads(line) for line in told.splitlines()], log


def exchanged(child: subprocess.Popen[str], first: str, answers: int) -> list[Any]:
    """As many answers to this. It has nothing to add when its input ends."""
    assert child.stdin
    assert child.stdout
    child.stdin.write(first)
    child.stdin.flush()
    told = [json.loads(child.stdout.readline()) for _ in range(answers)]
    assert said(child, "") == ([], "")
    return told


NEVER = ("import os, time", "os.write(1, b'a word\\n'); print('another', flush=True)", "time.sleep(600)")


def test_a_client_is_answered_though_the_sdk_never_comes(tmp_path: Path) -> None:
    child = start(tmp_path, *NEVER)
    asked = [asks(method, number) for number, method in enumerate((*LISTS[:3], "ping"))]
    told = exchanged(child, lines(greets(number="a"), READY, *asked), 5)
    assert [each["id"] for each in told] == ["a", 0, 1, 2, 3]
    assert len(told[1]["result"]["tools"]) == 6


def test_what_is_printed_while_the_sdk_loads_stays_out_of_the_protocol(tmp_path: Path) -> None:
    child = start(tmp_path, *NEVER)
    assert child.stdin
    assert child.stdout
    assert child.stderr
    child.stdin.write(lines(greets(), calls(2)))
    child.stdin.flush()
    assert json.loads(child.stdout.readline())["id"] == 1
    assert {child.stderr.readline(), child.stderr.readline()} == {"a word\n", "another\n"}
    child.terminate()
    assert child.communicate(timeout=SOON) == ("", "")
    assert child.returncode == 0


def test_a_broken_sdk_is_told_when_it_is_needed(tmp_path: Path) -> None:
    child = start(tmp_path, "import some_part_of_it")
    told, log = child.communicate(lines(greets(), calls(2)), timeout=SOON)
    assert [json.loads(line)["id"] for line in told.splitlines()] == [1]
    assert child.returncode == 2
    assert "some_part_of_it is missing" in log
    assert "pip install" in log
    assert "Traceback" not in log


def test_a_client_that_goes_at_once_is_let_go(tmp_path: Path) -> None:
    assert said(start(tmp_path), "") == ([], "")


def test_a_client_that_says_all_it_has_to_say_at_once_hears_everything_once(tmp_path: Path) -> None:
    both = [calls(number) for number in (2, "2", "x", 9)]
    everything = lines(greets(number=0), READY, asks("tools/list", 1), *both, asks("ping", 10), asks("tools/list", "l"))
    told = exchanged(start(tmp_path), everything, 8)
    assert [each["id"] for each in told[:2]] == [0, 1]
    assert sorted(map(repr, (each["id"] for each in told[2:]))) == sorted(map(repr, [2, "2", "x", 9, 10, "l"]))
    assert all("result" in each for each in told)


def test_the_sdk_knows_who_greeted_though_the_front_answered(tmp_path: Path) -> None:
    adding = asks("tools/call", 2, name="memory_add", arguments={"text": "We use pnpm"})
    finding = asks("tools/call", 3, name="memory_search", arguments={"query": "pnpm"})
    child = start(tmp_path)
    assert child.stdin
    assert child.stdout
    child.stdin.write(lines(greets(), READY, adding))
    child.stdin.flush()
    assert [json.loads(child.stdout.readline())["id"] for _ in range(2)] == [1, 2]
    (found,) = exchanged(child, lines(finding), 1)
    (memory,) = found["result"]["structuredContent"]["memories"]
    assert memory["source"] == "claude-code"


def test_a_client_without_a_greeting_may_call_at_once(tmp_path: Path) -> None:
    meta = {"_meta": META}
    told = exchanged(start(tmp_path), lines(asks("server/discover", 1, **meta), calls(2, **meta)), 2)
    assert [each["id"] for each in told] == [1, 2]
    assert told[1]["result"]["isError"]


def test_a_client_that_lost_patience_with_its_first_question_may_greet(tmp_path: Path) -> None:
    first = asks("server/discover", "probe", _meta=META)
    told = exchanged(start(tmp_path), lines(first, greets(number=0), READY, calls(1)), 3)
    assert [each["id"] for each in told] == ["probe", 0, 1]
    assert told[2]["result"]["isError"]


def test_lines_that_are_no_protocol_and_very_long_ones_lose_nothing(tmp_path: Path) -> None:
    long = asks("tools/call", 2, name="memory_search", arguments={"query": "é" * 3_000_000})
    told = exchanged(start(tmp_path), "nonsense\n\n[]\n" + lines(greets(), READY, long, calls(3)), 3)
    assert told[0]["id"] == 1
    assert {each["id"]: each["result"].get("isError") for each in told[1:]} == {2: True, 3: True}


def test_a_client_that_dies_without_reading_leaves_nobody_behind(tmp_path: Path) -> None:
    child = start(tmp_path)
    assert child.stdin
    assert child.stdout
    assert child.stderr
    child.stdout.close()
    child.stdin.write(lines(greets()))
    child.stdin.flush()
    assert child.wait(SOON) == 0
    assert child.stderr.read() == ""
    child.stdin.close()
    child.stderr.close()
