"""The chat: an OpenAI client asks, memories are added, an upstream answers, and what was said is learned from.

request ─ enrich ─▶ upstream ─▶ answer, passed on as it comes ─ capture ─▶ inbox
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from cofio.api.desk import Call, Desk
from cofio.api.refusals import openai_error
from cofio.api.replies import JSON, Reply
from cofio.chat import Answer, Request, digest
from cofio.errors import CofioError, NotConfigured, Unavailable
from cofio.model import MAX_LABEL
from cofio.upstream import Answered, Line, Upstream

CLIENT = "chat"  # who hands it over, where the caller does not say
_EVENTS = "text/event-stream"
_TURN_GOES_ON = 30.0  # seconds that a turn is held in which the model has called a tool: its answer is to come
#: Headers of the caller's that go on, and of the upstream's that come back. Keys and cookies are not among them.
_ONWARD = ("idempotency-key", "openai-beta")
_BACK = ("retry-after", "retry-after-ms", "x-should-retry", "x-request-id", "openai-version", "openai-processing-ms")
_LIMITS = "x-ratelimit-"
_log = logging.getLogger(__name__)


def completions(desk: Desk, given: bytes, call: Call) -> Reply:
    upstream = _upstream(desk)
    request = Request(given)
    context = _context(desk, request, call)
    headers = {name: call.headers[name] for name in _ONWARD if name in call.headers}
    line = upstream.line("/chat/completions", request.enriched(context), headers)
    return Reply(Completion(line, upstream.key, Talk(desk, call, request, context)))


def models(desk: Desk, given: None, call: Call) -> Reply:  # noqa: ARG001
    upstream = _upstream(desk)
    return Reply(Passed(upstream.line("/models"), upstream.key))


class Passed:
    """An answer of the upstream's, passed on: whole, or line by line where it streams."""

    def __init__(self, line: Line, key: str) -> None:
        self._line = line
        self._key = key
        self._rest = b""  # of a line that has not come whole
        self._broken = False

    def head(self) -> Reply:
        """How it begins. A refusal is passed on as one; that nobody answers is one of ours."""
        try:
            answered = self._line.open()
            if 300 <= answered.status < 400:
                hint = "Set CHAT_UPSTREAM_URL to where it leads; with the key, none is followed."
                raise Unavailable(f"The upstream answered {answered.status}, a redirect.", hint)
            if answered.status >= 400:
                return Reply(self._refusal(answered.status), answered.status, JSON, _passed_back(answered))
            media = answered.headers.get("content-type", JSON)
            if media.startswith(_EVENTS):
                return Reply(b"", answered.status, media, {**_passed_back(answered), "X-Accel-Buffering": "no"})
            whole = self._line.whole()
        except Unavailable as error:
            return Reply(_fault(str(error), 502, "upstream_unavailable"), 502)
        self.came_whole(whole)
        return Reply(whole or b"{}", answered.status, media, _passed_back(answered))

    def part(self) -> bytes:
        """The lines that have come, byte for byte; when it breaks off, an event that says so, and the end."""
        while not self._broken:
            try:
                more = self._line.read()
            except Unavailable as error:
                self._broken = True
                return b"\n" + b"data: " + _fault(str(error), 502, "upstream_broke_off") + b"\n\n"
            lines, end, rest = (self._rest + more).rpartition(b"\n")
            whole, self._rest = (lines + end, rest) if more else (self._rest, b"")
            self.came(whole)
            if whole or not more:
                return whole
        return b""

    def came(self, lines: bytes) -> None:
        """What has passed by of a stream."""

    def came_whole(self, body: bytes) -> None:
        """What has passed by in one piece."""

    def done(self) -> None:
        self._line.close()

    def stop(self) -> None:
        self._line.hang_up()

    def _refusal(self, status: int) -> bytes:
        """What the upstream refuses with, in OpenAI's shape, without the key."""
        raw = self._line.error()
        if self._key:
            raw = raw.replace(self._key.encode(), "…".encode())
        try:
            if isinstance(json.loads(raw)["error"], dict):
                return raw
        except (ValueError, RecursionError, TypeError, KeyError):
            pass  # a gateway's page, or none: put into the shape that clients read
        said = " ".join(raw.decode("utf-8", "replace").split())[:300]
        return _fault(f"The upstream answered {status}: {said or 'nothing'}", status, "upstream_error")


class Completion(Passed):
    """An answer that is learned from when it has passed by."""

    def __init__(self, line: Line, key: str, talk: Talk) -> None:
        super().__init__(line, key)
        self._talk = talk
        self._answer = Answer()
        self._answered = False

    def head(self) -> Reply:
        head = super().head()
        self._answered = head.status < 300
        return head

    def came(self, lines: bytes) -> None:
        for line in lines.splitlines():
            self._answer.take_line(line)

    def came_whole(self, body: bytes) -> None:
        self._answer.take_whole(body)

    def done(self) -> None:
        """Capture what was said. That this fails is the log's business: the answer is with its reader."""
        super().done()
        if self._answered:
            self._talk.capture(self._answer)


class Talk:
    """What a caller asks, and where it belongs."""

    def __init__(self, desk: Desk, call: Call, request: Request, context: str) -> None:
        self._desk = desk
        self._request = request
        self._by = call.by
        headers = call.headers
        viewer = call.viewer
        whose = (viewer.user, viewer.agent, viewer.team) if viewer else ()
        usual = f"chat/{request.model}".rstrip("/")
        self._about: dict[str, Any] = {
            "client": headers.get("x-cofio-client", "").strip() or CLIENT,
            "session": _label(headers, "x-cofio-session") or request.session or f"chat-{request.conversation}",
            "turn": digest(*whose, request.turn),  # two who say the same have not said it for each other
            "source": _label(headers, "x-cofio-source") or (viewer.below(usual) if viewer else usual),
            "project": call.project,
            "injected": (context,) if context else (),
        }

    def capture(self, answer: Answer) -> None:
        said = [{"role": "user", "content": self._request.question}, {"role": "assistant", "content": answer.said}]
        told = [each for each in said if each["content"].strip()]
        if not told:
            return
        hold = _TURN_GOES_ON if answer.calls else 0.0
        try:
            self._desk.keeper.amend(told, hold=hold, by=self._by, **self._about)
            self._desk.worker.wake()
        except CofioError as error:
            _log.warning("a chat is not captured: %s", error)


def _upstream(desk: Desk) -> Upstream:
    if desk.upstream is None:
        hint = "Set CHAT_UPSTREAM_URL to an OpenAI-compatible server, such as https://api.openai.com/v1."
        raise NotConfigured("There is no upstream to pass a chat on to.", desk.upstream_problem or hint)
    return desk.upstream


def _context(desk: Desk, request: Request, call: Call) -> str:
    """What memories say to what the user said last. A chat goes on without them where they cannot be had."""
    question = request.question
    if not question.strip():
        return ""
    try:
        return desk.keeper.enrich_prompt(question, include_team=True, by=call.by)
    except CofioError as error:
        _log.warning("a chat goes on without memories: %s", error)
        return ""


def _label(headers: Mapping[str, str], name: str) -> str:
    return headers.get(name, "").strip()[:MAX_LABEL]


def _passed_back(answered: Answered) -> dict[str, str]:
    told = answered.headers.items()
    return {name: value for name, value in told if name in _BACK or name.startswith(_LIMITS)}


def _fault(message: str, status: int, code: str) -> bytes:
    return json.dumps({"error": {**openai_error(message, status), "param": None, "code": code}}).encode()
