"""HTTP requests to model providers, with retries; error messages never contain the key."""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import json
import random
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from cofio.errors import Misconfigured, NoReply, Unavailable

TRANSIENT = (429, 500, 502, 503, 504, 529)  # 529 is Anthropic's status for overload
LONGEST_PAUSE = 10.0  # seconds; a provider may ask for more, but a caller is waiting
LONGEST_QUOTE = 300  # characters quoted from the provider's message
MOST = 128 << 20  # largest answer in bytes; no server may fill our memory

#: Errors of an account without credit: waiting does not help.
UNPAID = re.compile(
    r"insufficient[_ ](?:quota|balance|credits|funds)|credit balance is too low|exceeded your current quota"
    r"|billing_error|billing hard limit|reached your specified .{0,20}usage limit",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Timeout, number of attempts, and first pause between attempts, which doubles."""

    timeout: float = 30.0  # in seconds
    attempts: int = 4
    pause: float = 0.25  # in seconds
    sleep: Callable[[float], None] = time.sleep


USUAL = RetryPolicy()


class Rejection(Exception):
    """Error status that a retry does not fix.

    `text` is the provider's whole message without keys; `message` an excerpt of one line, fit to show.
    """

    def __init__(self, status: int, code: str, text: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.text = text
        self.message = message

    def says(self, pattern: re.Pattern[str]) -> bool:
        """Return whether its code or text matches."""
        return bool(pattern.search(f"{self.code} {self.text}"))


class Provider:
    """HTTP interface of one provider. `patience` covers an answer from the first byte sent to the last received.

    `hints` say what to do about a status that the owner must fix, `hint` about every other failure. The key is sent as
    a bearer token, or as it is in the header `key_header`; `headers` are sent with every request.
    """

    def __init__(
        self,
        name: str,
        url: str,
        key: str,
        patience: RetryPolicy,
        hint: str,
        hints: Mapping[int, str],
        *,
        key_header: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.url = check_url(url, name).rstrip("/")
        self._key = _check_key(key, name)
        self._patience = patience
        self._hint = hint
        self._hints = hints
        self._headers = {"Accept": "application/json", "User-Agent": "cofio", **(headers or {})}
        if self._key:
            self._headers |= {key_header: self._key} if key_header else {"Authorization": f"Bearer {self._key}"}
        self._opener = build_opener(self.url, _NoRedirect())

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return the JSON reply. Unavailable if none arrives, Misconfigured for a status that has a hint."""
        try:
            return self.ask(path, body, repeat_broken=True)
        except Rejection as rejection:
            if rejection.status in self._hints:
                raise Misconfigured(rejection.message, self._hints[rejection.status]) from rejection
            raise Unavailable(rejection.message, self._hint) from rejection

    def ask(self, path: str, body: Mapping[str, Any], *, repeat_broken: bool = False) -> Any:
        """Return the JSON reply. Unavailable if none arrives, Rejection for a permanent error status.

        A request whose reply was cut off may be billed: it is retried only with `repeat_broken`.
        """
        payload = json.dumps(body).encode()
        attempt = 1
        while True:
            try:
                return self._send_once(path, payload, self._patience.timeout)
            except _TryAgain as failure:
                is_broken = failure.kind is NoReply
                if attempt >= self._patience.attempts or (is_broken and not repeat_broken):
                    raise failure.kind(failure.message, self._hint) from failure.__cause__
                self._patience.sleep(self._compute_pause(attempt) if failure.after is None else failure.after)
            attempt += 1

    def get(self, path: str, timeout: float) -> Any:
        """Return the JSON at this path, without retries. Raises as `ask` does."""
        try:
            return self._send_once(path, None, timeout)
        except _TryAgain as failure:
            raise failure.kind(failure.message, self._hint) from failure.__cause__

    def quoted(self, text: str) -> str:
        """Return the provider's message, fit to show: one short line without keys."""
        return " ".join(self._remove_keys(text).split())[:LONGEST_QUOTE]

    def _send_once(self, path: str, payload: bytes | None, timeout: float) -> Any:
        headers = self._headers if payload is None else {"Content-Type": "application/json", **self._headers}
        request = urllib.request.Request(self.url + path, payload, headers)  # noqa: S310 (checked_url)
        end = time.monotonic() + timeout
        try:
            with self._opener.open(request, timeout=timeout) as reply:
                raw = _read_body(reply, end)
        except urllib.error.HTTPError as error:
            with error:
                raise self._map_status(error) from error
        except (OSError, http.client.HTTPException) as error:
            raise self._map_network_error(error, timeout) from error
        try:
            return json.loads(raw)
        except (ValueError, RecursionError) as error:
            if raw.lstrip().startswith(b"<"):
                says = (
                    f"{self.name} answered with a web page: a proxy, a login page or another server is at {self.url}."
                )
                raise Unavailable(says, f"Check that address, and the proxy settings. {self._hint}") from error
            raise Unavailable(f"{self.name} answered with something that is not JSON.", self._hint) from error

    def _map_status(self, error: urllib.error.HTTPError) -> Exception:
        raw = b""
        with contextlib.suppress(OSError, http.client.HTTPException):  # the status alone must do
            raw = error.read(65_536)
        code, text = _parse_error(raw.decode("utf-8", "replace"))
        quote = self.quoted(text)
        message = f"{self.name} answered {error.code} {error.reason}" + (f": {quote}" if quote else ".")
        rejection = Rejection(error.code, code, self._remove_keys(text), message)
        if error.code in TRANSIENT and not rejection.says(UNPAID):
            return _TryAgain(message, _parse_retry_after(error.headers.get("Retry-After")))
        return rejection

    def _map_network_error(self, error: OSError | http.client.HTTPException, timeout: float) -> Exception:
        reason = getattr(error, "reason", error)
        kind = Unavailable if isinstance(error, urllib.error.URLError) else NoReply  # urllib wraps errors of sending
        if isinstance(reason, TimeoutError):  # not retried: the caller has waited long enough
            return kind(f"{self.name} did not answer within {timeout:g} seconds.", self._hint)
        return _TryAgain(f"{self.name} could not be reached at {self.url}: {reason}.", kind=kind)

    def _remove_keys(self, text: str) -> str:
        if self._key:
            text = text.replace(self._key, "…")
        return re.sub(r"\bsk-[\w*.-]+|\bBearer \S+", "…", text)

    def _compute_pause(self, attempt: int) -> float:
        jitter = random.uniform(0.5, 1.0)  # noqa: S311 (spreads clients, guards nothing)
        return min(self._patience.pause * 2.0 ** (attempt - 1), LONGEST_PAUSE) * jitter


class _TryAgain(Exception):
    """Failure that may pass; `after` is the pause requested by the provider, `kind` the error if it persists."""

    def __init__(self, message: str, after: float | None = None, kind: type[Unavailable] = Unavailable) -> None:
        super().__init__(message)
        self.message = message
        self.after = after
        self.kind = kind


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Handler that refuses redirects: urllib would follow with a GET, and send the key to any host."""

    def redirect_request(self, *_: Any) -> None:
        return None


def build_opener(url: str, *handlers: urllib.request.BaseHandler) -> urllib.request.OpenerDirector:
    """Return an opener for this address: it uses the proxies of the environment, except for loopback addresses."""
    if is_loopback(urlsplit(url).hostname or ""):
        handlers = (urllib.request.ProxyHandler({}), *handlers)
    return urllib.request.build_opener(*handlers)


def is_loopback(host: str) -> bool:
    """Return whether the host is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_url(url: str, name: str) -> str:
    """Return the address. Raise if it is not HTTP or contains a password."""
    hint = "Give a URL that begins with https:// or http://."
    if "@" in url:  # checked before the URL is quoted in an error
        raise Misconfigured(
            f"The address of {name} contains a user name or a password.", "Set the API key setting instead."
        )
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and url.isascii()
    except ValueError as error:  # an invalid port or bracket
        raise Misconfigured(f"{url!r} is not a valid address of {name}: {error}.", hint) from error
    if not usable:
        raise Misconfigured(f"{url!r} is not a valid address of {name}.", hint)
    return url


def _check_key(key: str, name: str) -> str:
    if key and not re.fullmatch(r"[!-~]+", key.strip()):
        raise Misconfigured(
            f"The key for {name} contains spaces or non-ASCII characters.", "Set it again, without line breaks."
        )
    return key.strip()


def _read_body(reply: http.client.HTTPResponse, end: float) -> bytes:
    """Return the whole body. A server that trickles bytes hits the same timeout as one that sends none."""
    parts, size = [], 0
    while part := reply.read1(1 << 20):
        parts.append(part)
        size += len(part)
        if size > MOST:
            return b""  # not usable by any caller
        if time.monotonic() > end:
            raise TimeoutError
    body = b"".join(parts)
    if reply.length:  # the connection was cut; `read1` does not report that
        raise http.client.IncompleteRead(body, reply.length)
    return body


def _parse_error(body: str) -> tuple[str, str]:
    """Return code and message of an error body, in the form of OpenAI, Anthropic, vLLM, Ollama, or plain text."""
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        return "", body
    detail = parsed.get("error", parsed) if isinstance(parsed, dict) else body
    if isinstance(detail, dict):
        code = detail.get("code") or detail.get("type") or ""
        return str(code), str(detail.get("message") or detail.get("detail") or body)
    return "", str(detail)


def _parse_retry_after(value: str | None) -> float | None:
    """Return the seconds of a Retry-After header of either form, within bounds; None if it is not valid."""
    if value is None:
        return None
    try:
        seconds = float(value) if value.strip().isdigit() else parsedate_to_datetime(value).timestamp() - time.time()
    except ValueError:
        return None
    return min(max(seconds, 0.0), LONGEST_PAUSE)
