"""One hook run: read the client's event, ask the service and print its reply; else fall back and spool the event.

    stdin ─ json_peek: event type ─▶ ask ─ complete reply ─▶ stdout
                                    └ none ─▶ spool, and fallback: store file, last briefing, nothing

A capture is undelivered until the service has confirmed it or it is in the spool. Each way to end a run spools it:
the main thread, the watchdog thread and a signal. The service recognises a turn that arrives twice. If a remote service
answers, a process of its own (`spool_sender`) delivers the spool to it too.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _thread
import posix
import time

from cofio.hooks import circuit_breaker, http, json_peek, project, reply_format, run_log, service_lock
from cofio.hooks.environment import HookEnvironment
from cofio.hooks.http import NoAnswer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

RECALLS = ("start", "prompt")
OTHER = "other"  # an event without consequences
CAPTURES = ("prompt", "stop", "failure", "compact", "summary", "end")
#: The five named hooks, and `notify`, by their names on the command line.
NAMED = {"recall": "start", "query": "prompt", "extract": "stop", "flush": "compact", "commit": "end", "notify": "stop"}

_SPARE = {True: 0.25, False: 0.10}  # seconds of a deadline reserved for the fallback, with recall and without
_PROOF = 0.15  # seconds: only a recall that timed out after longer than this trips the circuit breaker
_PAUSE = 0.03  # seconds of silence after a complete object that end the input: some clients keep the pipe open
_MEANWHILE = 0.05  # seconds that one thread waits for the other to spool
_REDACTION = 12  # times as long as the run so far: an upper bound of the time for a redaction, with its imports
_MOST = 33_554_432  # maximum bytes of input
_PARSED = 1_048_576  # maximum bytes parsed here: parsing blocks the watchdog thread
_LONG_PAUSE = 0.15  # seconds of silence for larger input, which is not parsed
#: Options that take a value. Unknown options are ignored.
_OPTIONS = ("--home", "--store", "--url", "--api-key")
_ENDING = (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP)


class Terminated(BaseException):
    """Raised by a signal that ends this process."""


class HookRun:
    """State of one run, shared with the watchdog thread."""

    def __init__(self, around: HookEnvironment, client: str, event_name: str) -> None:
        self.began = time.monotonic() - time.process_time()  # includes Python's own start
        self.at = time.time()
        self.around, self.client = around, client
        self.raw, self.event, self.kind = b"", "", NAMED.get(event_name, "")
        self.project = ""
        self.redacted = b""  # the input without secrets; empty until that is known
        self.undelivered, self.spool_state = False, ""
        self._keeping = _thread.allocate_lock()

    @property
    def recalls(self) -> bool:
        return not self.kind or self.kind in RECALLS  # unknown until stdin is read: it may be a prompt

    @property
    def seconds(self) -> float:
        """Deadline of this run in seconds."""
        return self.around.recall if self.recalls else self.around.capture

    def take(self, raw: bytes) -> None:
        """Take the client's input and detect event and project."""
        self.event = json_peek.event(raw)
        self.kind = json_peek.KINDS.get(self.event, OTHER) if self.event else self.kind or OTHER
        self.raw, self.undelivered = raw, self.kind in CAPTURES
        folder = self.around.folder or json_peek.text(raw, "cwd").encode("utf-8", "replace")
        if not folder:
            try:
                folder = posix.getcwdb()
            except OSError:  # the folder has been removed
                folder = b""
        self.project = self.around.project or project.project_of(_decode(folder), user=_decode(self.around.user))

    def spool(self, *, sync: bool = True, aside: bool = False) -> str:
        """Spool the undelivered capture, or `aside` into spool/bad; return "spooled", "aside" or a reason."""
        from cofio.hooks import spool, spool_redaction

        about = {"at": run_log.format_time(self.at), "project": self.project, "event": self.event}
        has_lock = self._keeping.acquire(timeout=_MEANWHILE)
        try:
            if self.undelivered:
                content, is_redacted = self.redacted or self.raw, bool(self.redacted)
                path = spool.write(self.around.home, self.client, content, **about, redacted=is_redacted, aside=aside)
                self.undelivered, self.spool_state = False, "aside" if aside else "spooled"
                if sync:
                    spool.sync(path)
                if not is_redacted:
                    spool_redaction.start(self.around)
        except spool.SpoolFull:
            self.spool_state = "full"
        except OSError:
            self.spool_state = self.spool_state or "unwritable"  # a renamed file is there, synced or not
        finally:
            if has_lock:
                self._keeping.release()
        return self.spool_state

    def redact(self) -> None:
        """Remove secrets from what is about to be spooled; if time is short, a process of its own does it later."""
        from cofio.hooks import spool_redaction

        elapsed = time.monotonic() - self.began
        is_in_time = len(self.raw) <= spool_redaction.LARGEST and elapsed * _REDACTION < self.seconds
        if self.undelivered and is_in_time:
            self.redacted = spool_redaction.redact_delivery(self.raw)

    @property
    def is_small(self) -> bool:
        """True if the input can be parsed in time. Larger input is spooled unparsed; the service parses it later."""
        return len(self.raw) <= _PARSED

    def parsed(self) -> dict[str, object] | None:
        return json_peek.parse_object(self.raw, lax=True)

    def log(self, rung: str, *why: str) -> None:
        run_log.append_run(self.around.home, self.client, self.event, rung, time.monotonic() - self.began, *why)

    def end_and_log(self, why: str) -> None:
        """Spool the undelivered capture, and log why the run ends here."""
        if self.undelivered and not (self.is_small and _is_from_subagent(self.parsed())):
            self.spool(sync=False)
        self.log("spooled" if self.spool_state == "spooled" else "failed", why, self.spool_state.replace("spooled", ""))


def run(argv: list[str]) -> None:
    """Run the hook with these arguments: [--home FOLDER] CLIENT [EVENT] [JSON]. The caller ends the process."""
    options, client, event_name, payload = _parse_arguments(argv)
    around = HookEnvironment(options.get("--home", ""), options)
    if around.off or not around.home:
        return
    if "--drain" in options:
        from cofio.hooks import spool_sender

        spool_sender.run(around)
        return
    if "--redact" in options:
        from cofio.hooks import spool_redaction

        spool_redaction.run(_decode(around.home))
        return
    this = HookRun(around, client, event_name)
    try:
        for number in _ENDING:
            _signal.signal(number, _end)
        _thread.start_new_thread(_watch, (this,))
        _attend(this, payload)
    except BaseException as error:  # noqa: BLE001 (a hook may fail, the agent's work may not)
        this.end_and_log(type(error).__name__)


def _parse_arguments(argv: list[str]) -> tuple[dict[str, str], str, str, bytes]:
    options: dict[str, str] = {}
    words: list[str] = []
    payload = ""
    remaining = iter(argv)
    for word in remaining:
        name, equals, value = word.partition("=")
        if name in _OPTIONS:
            options[name] = value if equals else next(remaining, "")
        elif word.startswith("-"):
            options[word] = ""
        elif word.lstrip().startswith("{"):
            payload = word
        else:
            words.append(word)
    client, event_name = [*words, "", ""][:2]
    return options, client, event_name, payload.encode("utf-8", "surrogateescape")


def _attend(this: HookRun, payload: bytes) -> None:
    if this.client not in json_peek.CLIENTS:
        this.client = ""  # do not log arbitrary text
        return this.log("skipped", "client")
    raw = payload or _read_stdin()
    if not raw.strip():
        return this.log("skipped", "empty")
    this.take(raw)
    if len(raw) > _MOST:
        return this.log("skipped", "large", this.spool(aside=True) if this.undelivered else "")
    try:
        body = _ask_service(this)
    except NoAnswer as failure:
        return _fall_back(this, failure.why)
    this.undelivered = False
    _print(this, body)
    this.log("service")
    if this.around.delivers and this.kind in ("start", "stop"):
        from cofio.hooks import spool_sender

        spool_sender.start(this.around)
    return None


def _read_stdin() -> bytes:
    """Return the client's input up to its end, or up to a complete object followed by silence."""
    import select

    parts: list[bytes] = []
    size = 0
    while size <= _MOST:
        pause = _PAUSE if size <= _PARSED else _LONG_PAUSE
        silent = parts and parts[-1].rstrip().endswith(b"}") and not select.select([0], [], [], pause)[0]
        if silent and (size > _PARSED or json_peek.parse_object(b"".join(parts), lax=True) is not None):
            break
        chunk = posix.read(0, 1_048_576)
        if not chunk:
            break
        parts.append(chunk)
        size += len(chunk)
    return b"".join(parts)


def _print(this: HookRun, body: bytes) -> None:
    """Print the reply. At events other than RECALLS any output would keep the agent running."""
    if not body or this.kind not in RECALLS:
        return
    try:
        http.write(1, body)
    except OSError:  # the client has closed its pipe
        return


def _ask_service(this: HookRun) -> bytes:
    """Return the service's reply: one JSON object or nothing. Raise NoAnswer if it did not accept the event."""
    around = this.around
    if not around.url:
        raise NoAnswer("down")
    if circuit_breaker.until(around.home):
        raise NoAnswer("resting")
    if not around.elsewhere and not service_lock.is_served(around.lock, around.url):
        raise NoAnswer("down")
    until = this.began + max(this.seconds / 2, this.seconds - _SPARE[this.recalls])
    asked_at = time.monotonic()
    try:
        status, body = http.ask(http.HookRequest(around, this.client, this.project, this.raw, until))
        if status == 200 and body and not _is_own(this, body):
            raise NoAnswer("garbage", sick=True)
    except NoAnswer as failure:
        if failure.sick and (failure.why != "timeout" or (this.recalls and time.monotonic() - asked_at >= _PROOF)):
            circuit_breaker.begin(around.home)
        raise
    circuit_breaker.end(around.home)
    if not 200 <= status < 300:
        raise NoAnswer(str(status))
    return body if status == 200 else b""


def _is_own(this: HookRun, body: bytes) -> bool:
    """Return whether the reply is a JSON object, and if it is printed, one context block of cofio."""
    fields = json_peek.parse_object(body)
    if fields is None or this.kind not in RECALLS:
        return fields is not None
    return reply_format.is_own_reply(fields, this.client, this.kind, this.event)


def _fall_back(this: HookRun, why: str) -> None:
    fields = this.parsed() if this.is_small else {}
    if fields is None:
        this.redact()
        return this.log("skipped", why, "broken", this.spool(aside=True) if this.undelivered else "")
    if this.kind == OTHER or _is_from_subagent(fields):
        this.undelivered = False
        return this.log("skipped", why, "event" if this.kind == OTHER else "subagent")
    this.redact()
    fate = this.spool() if this.undelivered else ""
    rung = "spooled" if fate == "spooled" else "failed"
    started = ""
    if this.kind in RECALLS:
        from cofio.hooks import fallback  # imports sqlite3 and json, which are slow

        if this.kind == "start" and why in ("down", "refused"):
            started = "started" if fallback.start(this.around) else ""
        body, source = fallback.recall(this) if this.is_small else (b"", "nothing")
        _print(this, body)
        rung = source if fate in ("", "spooled") else rung
    return this.log(rung, why, fate if fate != rung else "", started)


def _is_from_subagent(fields: dict[str, object] | None) -> bool:
    return fields is not None and ("agent_id" in fields or bool(fields.get("is_background_agent")))


def _end(_number: int, _frame: object) -> NoReturn:
    for number in _ENDING:
        _signal.signal(number, _signal.SIG_IGN)  # a second signal must not interrupt the clean-up
    raise Terminated


def _watch(this: HookRun) -> None:
    """End the process with 0 at its deadline, even if the main thread hangs."""
    for seconds in sorted((this.around.capture, this.around.recall)):
        time.sleep(max(0.0, this.began + seconds - time.monotonic()))
        if this.seconds <= seconds:
            break
    try:
        this.end_and_log("deadline")
    finally:
        posix._exit(0)


def _decode(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")
