"""Who may ask: the host name, the web page it comes from, the key, the size of the body.

A name that an attacker's DNS points at 127.0.0.1 reaches this service from any browser; so the Host header must be a
name of ours, and a page's Origin must be that same host. There are no CORS headers: no other page may read a reply.
"""

from __future__ import annotations

import hmac
import re
from ipaddress import ip_address
from typing import Literal
from urllib.parse import unquote

from anyio import fail_after
from starlette.datastructures import Headers
from starlette.requests import Request

from cofio import model
from cofio.errors import Forbidden, InvalidInput, MissingKey, TooLarge, WrongKey
from cofio.model import MAX_LABEL
from cofio.settings import Settings

Auth = Literal["open", "ok", "missing"]
_OURS = ("127.0.0.1", "localhost", "::1")
EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - the addresses that mean every interface
_HOST = re.compile(r"(?:\[(?P<six>[0-9a-f:.]+)\]|(?P<name>[^\[\]:@/\\\s]+?)\.?)(?::[0-9]{1,5})?", re.IGNORECASE)
_NAME = re.compile(r"[\x20-\x7e]{1,100}")
_PATIENCE = 8  # times the limit that is read and dropped, so that the sender gets to read the refusal
_BODY_SECONDS = 30


class Guard:
    """Admits a request, or says why not."""

    def __init__(self, settings: Settings) -> None:
        further = (_bare(each) for each in settings.allowed_hosts.split(","))
        self._names = frozenset({*_OURS, settings.host.lower().strip("[]"), *further} - {"", *EVERYWHERE})
        self._any_address = settings.host in EVERYWHERE
        self._keys = _encoded(settings.api_key)

    def admit(self, headers: Headers, *, page: bool) -> None:
        """Refuse a strange host name, and what a page of another site sends. A page may be visited from anywhere."""
        host = ",".join(headers.getlist("host"))
        if not self._is_ours(_bare(host)):
            hint = "Use 127.0.0.1 or localhost, or add the name to COFIO_ALLOWED_HOSTS."
            raise Forbidden(f"The service is not called {host[:100]!r}.", hint)
        visited = page and headers.get("sec-fetch-dest") == "document" and "origin" not in headers
        strange = headers.get("sec-fetch-site", "").lower() == "cross-site" and not visited
        if strange or not _same_origin(headers.getlist("origin"), host):
            raise Forbidden("The request comes from a page of another site.", "Call the service from its own pages.")

    def identify(self, headers: Headers) -> Auth:
        """Whether the caller has the key, has none, or needs none; a wrong one is refused."""
        sent = _keys_in(headers)
        if not self._keys:
            return "open"
        if not sent:
            return "missing"
        matches = [hmac.compare_digest(one, known) for one in sent for known in self._keys]
        if not any(matches):
            raise WrongKey("The API key is not the service's.", "Set COFIO_API_KEY to the key that the service has.")
        return "ok"

    def _is_ours(self, name: str) -> bool:
        return name in self._names or (self._any_address and _is_address(name))


def refuse_without_key(auth: Auth) -> None:
    """What needs a key is not for one who sent none."""
    if auth == "missing":
        raise MissingKey("The service wants an API key.", "Send it as X-API-Key; clients read it from COFIO_API_KEY.")


def caller(headers: Headers) -> str:
    """Who asks, as the journal will name it."""
    name = headers.get("x-cofio-client", "").strip()
    if not name:
        return "http"
    if not _NAME.fullmatch(name):
        raise InvalidInput("X-Cofio-Client is not a name.", "Send up to 100 printable ASCII characters.")
    return name


def project(headers: Headers) -> str:
    """The project that the caller says it is at work on; "" where it does not."""
    return unquote(headers.get("x-cofio-project", ""), errors="ignore").replace("\x00", "").strip()[:MAX_LABEL]


def moment(headers: Headers) -> str:
    """When it happened what the caller tells of, where it says so; "" for now, and for what is no time."""
    try:
        return model.moment(headers["x-cofio-at"])
    except (KeyError, InvalidInput):
        return ""


def is_loopback(address: str) -> bool:
    """Whether it is this machine that calls."""
    try:
        return ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


async def body(request: Request, limit: int) -> bytes:
    """The request's body. One that is too large is never held, whether it says its length or not."""
    said = request.headers.get("content-length", "")
    announced = int(said) if said.isdecimal() else 0
    if announced > limit and "expect" in request.headers:
        raise _too_large(limit)  # the sender waits for our word before it sends
    kept, size = bytearray(), 0
    try:
        with fail_after(_BODY_SECONDS):
            async for part in request.stream():
                size += len(part)
                if max(size, announced) <= limit:
                    kept += part
                elif size > _PATIENCE * limit:
                    break
    except TimeoutError as error:
        hint = "Send it in one go, or in parts."
        raise InvalidInput(f"The body did not come within {_BODY_SECONDS} seconds.", hint) from error
    if max(size, announced) > limit:
        raise _too_large(limit)
    return bytes(kept)


def _too_large(limit: int) -> TooLarge:
    return TooLarge("The body is too large.", f"At most {limit:,} bytes are taken; COFIO_MAX_BODY sets that.")


def _bare(host: str) -> str:
    """A Host header's name or address, without brackets and port; empty when it is neither."""
    found = _HOST.fullmatch(host.strip())
    return (found["six"] or found["name"]).lower() if found else ""


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _same_origin(origins: list[str], host: str) -> bool:
    scheme_and_host = [each.lower().partition("://")[::2] for each in origins]
    return all(scheme in ("http", "https") and where == host.lower() for scheme, where in scheme_and_host)


def _keys_in(headers: Headers) -> list[bytes]:
    bearers = [value.partition(" ")[2] for value in headers.getlist("authorization") if value[:7].lower() == "bearer "]
    keys = (each.strip().encode("latin-1") for each in (*headers.getlist("x-api-key"), *bearers))
    return [key for key in keys if key]


def _encoded(key: str) -> tuple[bytes, ...]:
    """The key as clients may write it in a header: UTF-8, and Latin-1 where that can be."""
    if not key:
        return ()
    try:
        return tuple({key.encode(), key.encode("latin-1")})
    except UnicodeEncodeError:
        return (key.encode(),)
