"""A request to a provider: tried again where that helps, its failures told in our words, its key never among them."""

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

from cofio.errors import Misconfigured, Unavailable

TRANSIENT = (429, 500, 502, 503, 504)
LONGEST_PAUSE = 10.0  # seconds; a provider may ask for more, but somebody is waiting
LONGEST_QUOTE = 300  # characters of what the provider said


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait for an answer, how often to ask, and the first of the pauses between, which double."""

    timeout: float = 30.0  # seconds
    attempts: int = 4
    pause: float = 0.25  # seconds
    sleep: Callable[[float], None] = time.sleep


USUAL = Patience()


class Provider:
    """One provider's HTTP interface.

    `hints` says what to do about a status that is the owner's to mend, `hint` about every other failure.
    """

    def __init__(self, name: str, url: str, key: str, patience: Patience, hint: str, hints: Mapping[int, str]) -> None:
        self.name = name
        self.url = checked_url(url, name).rstrip("/")
        self._key = _checked_key(key, name)
        self._patience = patience
        self._hint = hint
        self._hints = hints
        self._opener = opener(self.url, _NoRedirect())

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The JSON that comes back. Unavailable when none does, Misconfigured for a status that has a hint."""
        payload = json.dumps(body).encode()
        attempt = 1
        while True:
            try:
                return self._once(path, payload)
            except _TryAgain as failure:
                if attempt >= self._patience.attempts:
                    raise Unavailable(failure.message, self._hint) from failure.__cause__
                self._patience.sleep(self._backoff(attempt) if failure.after is None else failure.after)
            attempt += 1

    def _once(self, path: str, payload: bytes) -> Any:
        headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "cofio"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        request = urllib.request.Request(self.url + path, payload, headers)  # noqa: S310 (checked_url)
        try:
            with self._opener.open(request, timeout=self._patience.timeout) as reply:
                raw = reply.read()
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(error) from error
        except (OSError, http.client.HTTPException) as error:
            raise self._silence(error) from error
        try:
            return json.loads(raw)
        except ValueError as error:
            raise Unavailable(f"{self.name} answered with something that is not JSON.", self._hint) from error

    def _refusal(self, error: urllib.error.HTTPError) -> Exception:
        code, said = self._said(error)
        message = f"{self.name} answered {error.code} {error.reason}" + (f": {said}" if said else ".")
        if error.code in TRANSIENT and code != "insufficient_quota":  # waiting does not fill an account
            return _TryAgain(message, _asked_pause(error.headers.get("Retry-After")))
        if error.code in self._hints:
            return Misconfigured(message, self._hints[error.code])
        return Unavailable(message, self._hint)

    def _silence(self, error: OSError | http.client.HTTPException) -> Exception:
        reason = getattr(error, "reason", error)
        if isinstance(reason, TimeoutError):  # not tried again: the caller has waited long enough
            return Unavailable(f"{self.name} did not answer within {self._patience.timeout:g} seconds.", self._hint)
        return _TryAgain(f"{self.name} could not be reached at {self.url}: {reason}.")

    def _said(self, error: urllib.error.HTTPError) -> tuple[str, str]:
        """The provider's error code and its message, without anything that looks like a key."""
        raw = b""
        with contextlib.suppress(OSError, http.client.HTTPException):  # the status alone has to do, then
            raw = error.read(65_536)
        code, text = _error_in(raw.decode("utf-8", "replace"))
        if self._key:
            text = text.replace(self._key, "…")
        text = re.sub(r"\bsk-[\w*.-]+|\bBearer \S+", "…", text)
        return code, " ".join(text.split())[:LONGEST_QUOTE]

    def _backoff(self, attempt: int) -> float:
        jitter = random.uniform(0.5, 1.0)  # noqa: S311 (spreads clients, guards nothing)
        return min(self._patience.pause * 2.0 ** (attempt - 1), LONGEST_PAUSE) * jitter


class _TryAgain(Exception):
    """A failure that may pass; `after` is the pause that the provider asks for."""

    def __init__(self, message: str, after: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.after = after


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """urllib would follow with a GET, and hand the key to whatever host it is sent to."""

    def redirect_request(self, *_: Any) -> None:
        return None


def opener(url: str, *handlers: urllib.request.BaseHandler) -> urllib.request.OpenerDirector:
    """What opens this address: through the proxies of the environment, but for this machine's own services."""
    if is_loopback(urlsplit(url).hostname or ""):
        handlers = (urllib.request.ProxyHandler({}), *handlers)
    return urllib.request.build_opener(*handlers)


def is_loopback(host: str) -> bool:
    """Whether the host is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def checked_url(url: str, name: str) -> str:
    """The address, once it is known to be one of HTTP and to carry no password."""
    hint = "Give one that begins with https:// or http://."
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and url.isascii()
    except ValueError as error:  # a port or a bracket that makes no sense
        raise Misconfigured(f"{url!r} is not an address of {name}: {error}.", hint) from error
    if not usable:
        raise Misconfigured(f"{url!r} is not an address of {name}.", hint)
    if parts.username or parts.password:
        raise Misconfigured(f"The address of {name} holds a name or a password.", "Give the key as the key.")
    return url


def _checked_key(key: str, name: str) -> str:
    if key and not re.fullmatch(r"[!-~]+", key.strip()):
        raise Misconfigured(f"The key for {name} holds blanks or odd characters.", "Set it again, without line breaks.")
    return key.strip()


def _error_in(body: str) -> tuple[str, str]:
    """The code and the message of an error's body, in OpenAI's form, Ollama's, or none."""
    try:
        found = json.loads(body)["error"]
    except (ValueError, TypeError, KeyError):
        return "", body
    if isinstance(found, dict):
        return str(found.get("code", "")), str(found.get("message", ""))
    return "", str(found)


def _asked_pause(value: str | None) -> float | None:
    """Seconds from a Retry-After of either form, within bounds; None when it says nothing sensible."""
    if value is None:
        return None
    try:
        seconds = float(value) if value.strip().isdigit() else parsedate_to_datetime(value).timestamp() - time.time()
    except ValueError:
        return None
    return min(max(seconds, 0.0), LONGEST_PAUSE)
