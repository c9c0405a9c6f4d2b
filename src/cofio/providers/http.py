"""HTTP requests to model providers, with retries; error messages never contain the key."""

from __future__ import annotations

import ipaddress
import json
import random
import re
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from cofio.errors import Misconfigured, NoReply, Unavailable
from cofio.text import lazy_re

if TYPE_CHECKING:
    import httpx2  # 0.1 s: imported for the first request

TRANSIENT = (429, 500, 502, 503, 504, 529)  # 529 is Anthropic's status for overload
MAX_PAUSE = 10.0  # seconds; a provider may ask for more, but a caller is waiting
MAX_BYTES = 128 << 20  # of a reply
_MAX_ERROR_BYTES = 65_536
_MAX_QUOTE = 300  # characters quoted from the provider's message

#: Errors of an account without credit: waiting does not help.
UNPAID = lazy_re.compile(
    r"insufficient[_ ](?:quota|balance|credits|funds)|credit balance is too low|exceeded your current quota"
    r"|billing_error|billing hard limit|reached your specified .{0,20}usage limit",
    re.IGNORECASE,
)
_KEYS = lazy_re.compile(r"\bsk-[\w*.-]+|\bBearer \S+")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Timeout, number of attempts, and first pause between attempts, which doubles."""

    timeout: float = 30.0  # in seconds
    attempts: int = 4
    pause: float = 0.25  # in seconds
    sleep: Callable[[float], None] = time.sleep


DEFAULT_RETRY = RetryPolicy()


class Rejection(Exception):
    """Error status that a retry does not fix.

    `text` is the provider's whole message without keys; `message` an excerpt of one line, fit to show.
    """

    def __init__(self, status: int, code: str, text: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.text, self.message = status, code, text, message

    def matches(self, pattern: re.Pattern[str]) -> bool:
        """Return whether its code or text matches."""
        return bool(pattern.search(f"{self.code} {self.text}"))


class TimedOut(NoReply):
    """No reply to a request that was sent, within the timeout."""


class _TransientError(Exception):
    """Failure that may pass; `error` is raised if it persists, `pause` is the one requested by the provider."""

    def __init__(self, error: Unavailable, pause: float | None = None) -> None:
        super().__init__(error.message)
        self.error, self.pause = error, pause


class Provider:
    """HTTP interface of one provider. The timeout of `retry` covers a reply from the first byte sent to the last.

    `hints` say what to do about a status that the owner must fix, `hint` about every other failure. The key is sent as
    a bearer token, or as it is in the header `key_header`; `headers` are sent with every request.
    """

    def __init__(
        self,
        name: str,
        url: str,
        key: str,
        retry: RetryPolicy,
        hint: str,
        hints: Mapping[int, str],
        *,
        key_header: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.url = check_url(url, name).rstrip("/")
        self._key = check_key(key, f"The key for {name}", "Set it again, without line breaks.")
        self._retry, self._hint, self._hints = retry, hint, hints
        self._headers = {"Accept": "application/json", **(headers or {})}
        if self._key:
            self._headers |= {key_header: self._key} if key_header else {"Authorization": f"Bearer {self._key}"}

    @cached_property
    def _client(self) -> httpx2.Client:
        return open_client(self.url)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return the JSON reply. Unavailable if none arrives, Misconfigured for a status that has a hint."""
        try:
            return self.request(path, body, repeat_broken=True)
        except Rejection as rejection:
            if rejection.status in self._hints:
                raise Misconfigured(rejection.message, self._hints[rejection.status]) from rejection
            raise Unavailable(rejection.message, self._hint) from rejection

    def request(self, path: str, body: Mapping[str, Any], *, repeat_broken: bool = False) -> Any:
        """Return the JSON reply. Unavailable if none arrives, Rejection for a permanent error status.

        A request whose reply was cut off may be billed: it is retried only with `repeat_broken`.
        """
        payload, retry = json.dumps(body).encode(), self._retry
        attempt = 1
        while True:
            try:
                return self._send(path, payload, retry.timeout)
            except _TransientError as failure:
                is_broken = isinstance(failure.error, NoReply)
                if attempt >= retry.attempts or (is_broken and not repeat_broken):
                    raise failure.error from failure
                jitter = random.uniform(0.5, 1.0)  # noqa: S311 (spreads clients, guards nothing)
                pause = min(retry.pause * 2.0 ** (attempt - 1), MAX_PAUSE) * jitter
                retry.sleep(pause if failure.pause is None else failure.pause)
                attempt += 1

    def get(self, path: str, timeout: float) -> Any:
        """Return the JSON at this path, without retries. Raises as `request` does."""
        try:
            return self._send(path, None, timeout)
        except _TransientError as failure:
            raise failure.error from failure

    def quote(self, text: str) -> str:
        """Return the provider's message, fit to show: one short line without keys."""
        return " ".join(self._remove_keys(text).split())[:_MAX_QUOTE]

    def _send(self, path: str, payload: bytes | None, timeout: float) -> Any:
        import httpx2

        method, headers = ("GET", {}) if payload is None else ("POST", {"Content-Type": "application/json"})
        headers |= self._headers
        url, end = self.url + path, time.monotonic() + timeout
        try:
            with self._client.stream(method, url, content=payload, headers=headers, timeout=timeout) as response:
                if not response.is_success:
                    raise self._map_status(response)
                body = _read_body(response, end)
        except (httpx2.TimeoutException, TimeoutError) as error:  # not retried: the caller has waited long enough
            kind = TimedOut if isinstance(error, httpx2.ReadTimeout | TimeoutError) else Unavailable
            raise kind(f"{self.name} did not answer within {timeout:g} seconds.", self._hint) from error
        except (httpx2.RequestError, httpx2.InvalidURL) as error:
            was_sent = isinstance(error, httpx2.ReadError | httpx2.RemoteProtocolError | httpx2.DecodingError)
            message = f"{self.name} could not be reached at {self.url}: {error}."
            raise _TransientError((NoReply if was_sent else Unavailable)(message, self._hint)) from error

        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            if not body.lstrip().startswith(b"<"):
                raise Unavailable(f"{self.name} answered with something that is not JSON.", self._hint) from error
            message = f"{self.name} answered with a web page: a proxy, a login page or another server is at {self.url}."
            raise Unavailable(message, f"Check that address, and the proxy settings. {self._hint}") from error

    def _map_status(self, response: httpx2.Response) -> Exception:
        status = response.status_code
        code, text = _parse_error(read_error(response, _MAX_ERROR_BYTES).decode("utf-8", "replace"))
        quote = self.quote(text)
        message = f"{self.name} answered {status} {response.reason_phrase}" + (f": {quote}" if quote else ".")
        rejection = Rejection(status, code, self._remove_keys(text), message)
        if status in TRANSIENT and not rejection.matches(UNPAID):
            pause = _parse_retry_after(response.headers.get("Retry-After"))
            return _TransientError(Unavailable(message, self._hint), pause)
        return rejection

    def _remove_keys(self, text: str) -> str:
        return _KEYS.sub("…", text.replace(self._key, "…") if self._key else text)


def open_client(url: str, *, follow_redirects: bool = False) -> httpx2.Client:
    """Return an HTTP client for this address, which keeps no connections and no cookies between requests.

    It uses the proxies of the environment, except for loopback addresses. Redirects are refused unless requested, as
    most requests carry a key.
    """
    from http.cookiejar import CookieJar, DefaultCookiePolicy

    import httpx2

    parts = urlsplit(url)
    proxy = getproxies().get(parts.scheme) or None
    if proxy and (is_loopback(parts.hostname or "") or proxy_bypass(parts.netloc)):
        proxy = None
    elif proxy and "://" not in proxy:
        proxy = f"http://{proxy}"
    is_secure = follow_redirects or url.startswith("https:")
    try:
        return httpx2.Client(
            # Loading the certificates of the system takes 60 ms.
            verify=ssl.create_default_context() if is_secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            trust_env=False,
            proxy=proxy,
            limits=httpx2.Limits(max_keepalive_connections=0),
            headers={"User-Agent": "cofio", "Accept-Encoding": "identity", "Connection": "close"},
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            follow_redirects=follow_redirects,
        )
    except (ImportError, ValueError, httpx2.InvalidURL) as error:
        hint = "Set http_proxy and https_proxy to an http:// address, or add the host to no_proxy."
        raise Misconfigured("The proxy in the environment variables is not an HTTP proxy.", hint) from error


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
        message = f"The address of {name} contains a user name or a password."
        raise Misconfigured(message, "Remove it, and give the API key in its own setting.")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and url.isascii()
    except ValueError as error:  # an invalid port or bracket
        raise Misconfigured(f"{url!r} is not a valid address of {name}: {error}.", hint) from error
    if not usable:
        raise Misconfigured(f"{url!r} is not a valid address of {name}.", hint)
    return url


def check_key(key: str, name: str, hint: str) -> str:
    """Return the key without surrounding blanks. Raise if it cannot be sent in a header."""
    if key and not re.fullmatch(r"[!-~]+", key.strip()):
        raise Misconfigured(f"{name} contains spaces or non-ASCII characters.", hint)
    return key.strip()


def read_error(response: httpx2.Response, limit: int) -> bytes:
    """Return the beginning of the body of an error response; b"" if it cannot be read."""
    import httpx2

    body = b""
    try:
        for part in response.iter_bytes():
            body += part
            if len(body) >= limit:
                break
    except (httpx2.RequestError, httpx2.StreamError):  # the status alone must do
        return b""
    return body[:limit]


def _read_body(response: httpx2.Response, end: float) -> bytes:
    """Return the whole body. A server that trickles bytes hits the same timeout as one that sends none."""
    parts, size = [], 0
    for part in response.iter_bytes():
        parts.append(part)
        size += len(part)
        if size > MAX_BYTES:
            return b""  # not usable by any caller
        if time.monotonic() > end:
            raise TimeoutError
    return b"".join(parts)


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
    return min(max(seconds, 0.0), MAX_PAUSE)
