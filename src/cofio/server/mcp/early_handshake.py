"""Early handshake: answers simple MCP requests before the SDK is imported, which is slow.

    client ─ a line ─▶ Front.answer ─ initialize, server/discover, lists of what there is, ping ─▶ client
                            └ anything else ─▶ sdk_server, from then on

The front answers only what it can answer exactly as the SDK would (a test compares them). The first other line ends its
part: the SDK is given the client's greeting, which it missed, then that line and all later ones.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol, TextIO

from cofio.errors import CofioError
from cofio.server.mcp.dispatcher import Dispatcher
from cofio.server.mcp.prompts import PROMPTS
from cofio.server.mcp.resources import TEMPLATES
from cofio.server.mcp.tools import TOOLS, Tool, instructions
from cofio.version import __version__

NAME, TITLE = "cofio", "cofio memory"
HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")  # oldest first
MODERN = "2026-07-28"  # has no greeting: every request names its client

_LEAD = 1.0  # seconds before the SDK is loaded, to leave the CPU to the starting client, unless the SDK is needed
_AGAIN = "cofio/greeting"  # id of a greeting already answered: the SDK's reply to it is dropped
_META = "io.modelcontextprotocol/"
_CAPABILITIES = {
    "tools": {"listChanged": False},
    "prompts": {"listChanged": False},
    "resources": {"listChanged": False, "subscribe": False},
    "completions": {},
}
_READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}
_SERVER = {"name": NAME, "title": TITLE, "version": __version__}

Message = dict[str, Any]


class LineSource(Protocol):
    """Source of lines."""

    def readline(self) -> str: ...


class ServeLines(Protocol):
    """Function that serves the client on these lines until they end."""

    def __call__(self, reading: LineSource, writing: Any) -> None: ...


def over_stdio(load: Callable[[], ServeLines], dispatcher: Dispatcher) -> None:
    """Serve the client on standard input and output until it disconnects. `load` imports the SDK."""
    reading, writing = _reserve_stdio()
    needed, front = threading.Event(), EarlyHandshake(dispatcher)
    loading = threading.Thread(target=_load_early, args=(load, needed))
    loading.start()
    unknown = _answer_lines(front, reading, writing)
    if unknown:
        needed.set()
        loading.join()
        load()(ReplayedLines([*front.greeting, unknown], reading), DropDuplicateReply(writing, bool(front.greeting)))


def _load_early(load: Callable[[], ServeLines], needed: threading.Event) -> None:
    needed.wait(_LEAD)
    with suppress(ImportError):  # raised again where it is needed
        load()


def _answer_lines(front: EarlyHandshake, reading: LineSource, writing: TextIO) -> str:
    """Answer until a line needs the SDK; return that line, or "" if the client disconnected."""
    for line in iter(reading.readline, ""):
        answer = front.answer(line)
        if answer is None:
            return line
        try:
            writing.write(answer)
            writing.flush()
        except OSError:  # the client disconnected without reading the reply
            break
    return ""


class EarlyHandshake:
    """Replies without the SDK, and the greeting to replay when the SDK is loaded."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.greeting: list[str] = []
        self._dispatcher = dispatcher

    def answer(self, line: str) -> str | None:
        """Return the reply to this line, "" if none is due; None if only the SDK can answer."""
        message = _read(line)
        if message in (_READY, {**_READY, "params": {}}) and len(self.greeting) == 1:
            self.greeting.append(line)
            return ""
        if not _is_request(message):
            return None
        result = self._find_result(message["method"], message.get("params", {}))
        if result is None:
            return None
        if message["method"] == "initialize":
            self.greeting = [json.dumps({**message, "id": _AGAIN}) + "\n"]
        reply = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        return json.dumps(reply, ensure_ascii=False, separators=(",", ":")) + "\n"

    def _find_result(self, method: str, params: Message) -> Message | None:
        if method == "initialize":
            return None if self.greeting or not _greets(params) else _welcome(params["protocolVersion"])
        if self.greeting:
            return self._answer_method(method, {"ping": dict}) if _is_bare(params) else None
        # These are not recorded, on purpose: a client that gave up on `server/discover` greets after it, which the
        # SDK would refuse.
        result = self._answer_method(method, {"server/discover": _describe_server}) if _is_modern(params) else None
        return _wrap_modern(result) if result else None

    def _answer_method(self, method: str, also: Mapping[str, Callable[[], Message]]) -> Message | None:
        build = {**_LISTS, "resources/list": lambda: self._dispatcher.listed(""), **also}.get(method)
        try:
            return build() if build else None
        except CofioError:  # the SDK formats errors
            return None


# ── what is answered ──────────────────────────────────────────────────────────────────────────────────────────────────


def tools() -> Message:
    """Return the tools as listed to clients."""
    return {"tools": [_describe_tool(tool) for tool in TOOLS]}


def prompts() -> Message:
    """Return the prompts as listed to clients."""
    return {"prompts": [dict(prompt) for prompt in PROMPTS]}


def templates() -> Message:
    """Return the resource templates as listed to clients."""
    return {"resourceTemplates": [dict(template) for template in TEMPLATES]}


def input_schema(name: str) -> Message | None:
    """Return the input schema of a tool."""
    return next((_describe_input(tool) for tool in TOOLS if tool.name == name), None)


_LISTS: Mapping[str, Callable[[], Message]] = {
    "tools/list": tools,
    "prompts/list": prompts,
    "resources/templates/list": templates,
}


def _describe_tool(tool: Tool) -> Message:
    following = {"next": {"type": "integer", "description": "The cursor of what follows."}} if tool.pages else {}
    gives = {"says": {"type": "string"}, "notice": {"type": "string"}, **tool.gives, **tool.may_give, **following}
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.says,
        "inputSchema": _describe_input(tool),
        "outputSchema": {"type": "object", "properties": gives, "required": ["says", *tool.gives]},
        "annotations": {
            "readOnlyHint": tool.reads,
            "destructiveHint": tool.replaces,
            "idempotentHint": tool.reads or tool.repeats,
            "openWorldHint": False,
        },
    }


def _describe_input(tool: Tool) -> Message:
    properties = {"properties": dict(tool.takes), "required": list(tool.needs)}
    return {"type": "object", **properties, "additionalProperties": False}


def _welcome(version: str) -> Message:
    agreed = version if version in HANDSHAKES else HANDSHAKES[-1]
    server_info = {"capabilities": _CAPABILITIES, "serverInfo": _SERVER, "instructions": instructions()}
    return {"protocolVersion": agreed, **server_info}


def _describe_server() -> Message:
    return {"supportedVersions": [MODERN], "capabilities": _CAPABILITIES, "instructions": instructions()}


def _wrap_modern(result: Message) -> Message:
    envelope = {"resultType": "complete", "cacheScope": "private", "ttlMs": 0}
    return {**result, **envelope, "_meta": {f"{_META}serverInfo": _SERVER}}


# ── what is asked ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _read(line: str) -> Any:
    """Parse a line; None if the SDK should handle it."""
    if "\\u" in line:  # may be half of a surrogate pair
        return None
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _is_request(message: Any) -> bool:
    if not isinstance(message, dict) or message.keys() | {"params"} != {"jsonrpc", "id", "method", "params"}:
        return False
    is_valid = message["jsonrpc"] == "2.0" and type(message["id"]) in (int, str) and isinstance(message["method"], str)
    return is_valid and isinstance(message.get("params", {}), dict)


def _greets(params: Message) -> bool:
    if params.keys() != {"protocolVersion", "capabilities", "clientInfo"}:
        return False
    return isinstance(params["protocolVersion"], str) and _is_client(params["clientInfo"], params["capabilities"])


def _is_bare(params: Message) -> bool:
    meta = params.get("_meta", {})
    is_known = isinstance(meta, dict) and meta.keys() <= {"progressToken"}
    return is_known and params.keys() <= {"_meta"} and type(meta.get("progressToken", 0)) in (int, str)


def _is_modern(params: Message) -> bool:
    meta = params.get("_meta")
    names = {f"{_META}{name}" for name in ("protocolVersion", "clientInfo", "clientCapabilities")}
    if params.keys() != {"_meta"} or not isinstance(meta, dict) or meta.keys() != names:
        return False
    who, can = meta[f"{_META}clientInfo"], meta[f"{_META}clientCapabilities"]
    return meta[f"{_META}protocolVersion"] == MODERN and _is_client(who, can)


def _is_client(who: Any, can: Any) -> bool:
    """Return whether this is client information with capabilities, in the simplest form."""
    if not isinstance(who, dict) or not {"name", "version"} <= who.keys() or not isinstance(can, dict):
        return False
    others = {name: value for name, value in can.items() if name != "roots"}
    plain = _is_plain(others) and can.get("roots", {}) in ({}, {"listChanged": True}, {"listChanged": False})
    return plain and all(isinstance(value, str) for value in who.values())


def _is_plain(can: Any, deep: int = 6) -> bool:
    """Return whether this is an object of objects only."""
    return deep > 0 and isinstance(can, dict) and all(_is_plain(value, deep - 1) for value in can.values())


# ── the wire ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class ReplayedLines:
    """Buffered lines, followed by those still to come."""

    def __init__(self, lines: list[str], coming: LineSource) -> None:
        self._lines, self._coming = lines, coming

    def readline(self) -> str:
        return self._lines.pop(0) if self._lines else self._coming.readline()


class DropDuplicateReply:
    """Writer that drops the reply to a greeting already answered."""

    def __init__(self, writing: TextIO, due: bool) -> None:
        self._writing, self._due = writing, due

    def write(self, line: str) -> None:
        if self._due and json.loads(line).get("id") == _AGAIN:
            self._due = False
        else:
            self._writing.write(line)

    def flush(self) -> None:
        self._writing.flush()


def _reserve_stdio() -> tuple[TextIO, TextIO]:
    """Reserve standard input and output for the protocol: other output goes to standard error."""
    reading = os.fdopen(os.dup(0), encoding="utf-8", errors="replace")
    writing = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return reading, writing
