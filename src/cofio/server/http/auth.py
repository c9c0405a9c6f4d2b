"""Admission of requests: checks the host name, the origin, the API key, and the body size.

A DNS name of an attacker that points at 127.0.0.1 reaches this service from any browser; so the Host header must be a
known name, and a page's Origin must be that same host. There are no CORS headers: no other page may read a reply.
"""

from __future__ import annotations

import hmac
import re
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from anyio import CapacityLimiter, fail_after
from starlette.datastructures import Headers
from starlette.requests import Request

from cofio.errors import CofioError, Forbidden, InvalidInput, MissingKey, TooLarge, TooManyTries, WrongKey
from cofio.models.auth import AuditEntry, Key, Role, allows, digest
from cofio.models.memory import Viewer
from cofio.ports import Clock
from cofio.server.http.key_cache import MOST_TRIES, FailedAuthLimiter, KeyCache, parse_address
from cofio.server.http.page_sessions import PageSessions
from cofio.server.http.peer import Peer, is_loopback
from cofio.settings import Settings

if TYPE_CHECKING:
    from cofio.server.http.operations import Route

Auth = Literal["open", "ok", "missing"]
_OURS = ("127.0.0.1", "localhost", "::1")
EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - the addresses that mean every interface
_HOST = re.compile(r"(?:\[(?P<six>[0-9a-f:.]+)\]|(?P<name>[^\[\]:@/\\\s]+?)\.?)(?::[0-9]{1,5})?", re.IGNORECASE)
_NAME = re.compile(r"[\x20-\x7e]{1,100}")
_PATIENCE = 8  # multiple of the limit that is read and discarded, so that the sender receives the refusal
_BODY_SECONDS = 20
_MOST_SENT = 4  # keys checked per request
_CONFIGURED = "COFIO_API_KEY"  # name of the key from the settings in the audit log
HOME_KEY = "service.key"  # and of the key of the home
_BY = 100  # characters of the caller's name, in the journal
_NAMED = 50  # of these, for the key's name
_LOOKING = 2  # look-ups of a peer's user at once, in threads of their own


@dataclass(frozen=True, slots=True)
class AuthResult:
    """Result of checking a request's key: what its holder may see and do."""

    auth: Auth
    role: Role = "admin"
    viewer: Viewer | None = None
    key: Key | None = None  # the store's key
    holder: str = ""  # of the key, for the audit log
    has_key: bool = False  # also on a service that does not require one
    is_stranger: bool = False  # the service is open, but not to this caller: of another OS user, or an unknown one


class Authenticator:
    """Admission control of requests. Refused keys are recorded in the audit log."""

    def __init__(
        self,
        settings: Settings,
        ring: KeyCache,
        tries: FailedAuthLimiter,
        clock: Clock,
        note: Callable[[AuditEntry], None],
        is_store_key: bool,
        home_key: str,
        sessions: PageSessions,
    ) -> None:
        """Initialise; `is_store_key`: the key of the settings is a key of the store, and keeps its holder and role."""
        further = (_strip_port(host) for host in settings.allowed_hosts.split(","))
        self._names = frozenset({*_OURS, settings.host.lower().strip("[]"), *further} - {"", *EVERYWHERE})
        self._any_address = settings.host in EVERYWHERE
        self._keys: set[bytes] = set()  # the key as clients may encode it in a header
        if settings.api_key and not is_store_key:
            self._keys = {settings.api_key.encode()}
            with suppress(UnicodeEncodeError):
                self._keys.add(settings.api_key.encode("latin-1"))
        self._never_open = bool(settings.api_key) or not is_near(settings.host)
        self._ring, self._tries, self._clock, self._note = ring, tries, clock, note
        self._home_key, self._sessions = home_key.encode(), sessions
        self._lane = CapacityLimiter(_LOOKING)

    def admit(self, headers: Headers, *, browser: bool) -> None:
        """Refuse unknown host names and requests from pages of other sites. Top-level visits of pages are allowed."""
        host = ",".join(headers.getlist("host"))
        name = _strip_port(host)
        if name not in self._names and not (self._any_address and parse_address(name)):
            hint = "Use 127.0.0.1 or localhost, or add the name to COFIO_ALLOWED_HOSTS."
            raise Forbidden(f"The host name {host[:100]!r} is not allowed.", hint)
        is_visit = browser and headers.get("sec-fetch-dest") == "document" and "origin" not in headers
        is_cross_site = headers.get("sec-fetch-site", "").lower() == "cross-site" and not is_visit
        allowed_origins = {f"{scheme}://{host.lower()}" for scheme in ("http", "https")}
        origins = {origin.lower() for origin in headers.getlist("origin")}
        if is_cross_site or not origins <= allowed_origins:
            raise Forbidden(
                "The request comes from a page of another site.",
                "Use the web UI at /ui, or call the API from a program that is not a web page.",
            )

    async def identify(self, headers: Headers, peer: Peer, act: str) -> AuthResult:
        """Return the result of checking the caller's keys. Raise for an invalid key, or too many of them."""
        address = peer.address
        sent_keys = {digest(key.decode("latin-1")): key for key in _read_keys(headers)[:_MOST_SENT]}
        # No limit on tries: nobody can guess it, and another user of the machine must not lock the owner out.
        if any(hmac.compare_digest(key, self._home_key) for key in sent_keys.values()):
            return await self._identify_owner()
        if not sent_keys:
            return await self._identify_keyless(headers, peer)
        if seconds := self._tries.wait(address):
            sent_keys = {name: key for name, key in sent_keys.items() if self._tries.has_opened(address, name)}
            if not sent_keys:
                raise self._hold_off(seconds, address, act)

        # The comparison takes constant time.
        owners = [name for name, key in sent_keys.items() for own in self._keys if hmac.compare_digest(key, own)]
        keys = {} if owners else await self._ring.find(list(sent_keys))
        now = self._clock()
        accepted = owners or [name for name, key in keys.items() if key.is_valid(now)]
        if accepted:
            self._tries.opened(address, accepted[0])
            if len(sent_keys) > 1:  # sending other keys along counts as guessing
                self._tries.failed(address)
            if owners:
                return AuthResult("ok", holder=_CONFIGURED, has_key=True)
            key = keys[accepted[0]]
            return AuthResult("ok", key.grant.role, key.grant.viewer, key, key.grant.name, has_key=True)

        if not keys and not await self._wants_key() and await self._is_same_user(peer):
            return AuthResult("open")
        self._tries.failed(address)
        refused_key = next(iter(keys.values()), None)
        raise self._record_refusal(_invalid_key(refused_key), address, act, refused_key)

    async def _identify_owner(self) -> AuthResult:
        is_keyed = await self._wants_key()
        return AuthResult("ok" if is_keyed else "open", holder=HOME_KEY, has_key=True)

    async def _identify_keyless(self, headers: Headers, peer: Peer) -> AuthResult:
        """Return the result for a caller without a key: the owner's page, or a process of the service's own user."""
        if self._sessions.has_session(headers) and await self._is_same_user(peer) is not False:
            return await self._identify_owner()
        if await self._wants_key():
            return AuthResult("missing")
        return AuthResult("open") if await self._is_same_user(peer) else AuthResult("missing", is_stranger=True)

    async def check_access(self, route: Route | None, access: AuthResult, peer: Peer, act: str) -> None:
        """Raise if the caller sent no key but needs one, or if the key's role is not sufficient."""
        is_public = route is not None and route.public and (route.for_strangers or not access.is_stranger)
        is_other_user = route is not None and route.same_user and await self._is_same_user(peer) is False
        if (access.auth == "missing" and not is_public) or is_other_user:
            create = "`cofio keys create` makes one where the service runs."
            hint = f"Send it as X-API-Key; clients read COFIO_API_KEY. {create}"
            if access.is_stranger:
                hint = f"Without one, only processes of the service's own user are answered. {hint}"
            raise MissingKey("The service requires an API key.", hint)
        if route is not None and route.needs_key and not access.has_key:
            hint = "`cofio` sends the one in service.key by itself; `cofio ui` opens pages that may do this."
            raise MissingKey("This request requires a key, from every caller.", hint)
        required: Role = route.role if route else "read"
        if not allows(access.role, required):
            raise self._record_refusal(insufficient_role(required, access.role), peer.address, act, access.key)

    async def _is_same_user(self, peer: Peer) -> bool | None:
        return await peer.is_same_user(self._lane)

    async def _wants_key(self) -> bool:
        """Return whether a key is required. Without any key, only this machine's user is admitted."""
        return self._never_open or await self._ring.is_wanted()

    def _hold_off(self, seconds: int, address: str, act: str) -> TooManyTries:
        message = f"{MOST_TRIES} invalid keys came from {address or 'this address'} within a minute."
        error = TooManyTries(message, f"Set COFIO_API_KEY to the right one, and retry in {seconds} seconds.")
        error.seconds = seconds
        if self._tries.is_news(address):
            self._record_refusal(error, address, act, None)
        return error

    def _record_refusal(self, error: CofioError, address: str, act: str, key: Key | None) -> CofioError:
        """Return the error, after recording it."""
        number, name = (key.id, key.grant.name) if key else (None, "")
        at, message = self._clock(), error.message
        self._note(AuditEntry(at=at, act=act, outcome="refused", key=number, name=name, what=message, address=address))
        return error


def insufficient_role(required: Role, role: Role) -> Forbidden:
    """Return the error for a key whose role is not sufficient."""
    return Forbidden(
        f"This request needs a key with the role {required}; yours has the role {role}.",
        f"Ask the operator of the service to create one: `cofio keys create NAME --role {required}`.",
    )


def caller(headers: Mapping[str, str], key: Key | None = None, unnamed: str = "http") -> str:
    """Return the caller's name for the journal: "codex", or with a key of the store "ada's laptop (key 3) · codex".

    A client's own name must be ASCII, which excludes the dot: it cannot imitate the holder of a key.
    """
    name = headers.get("x-cofio-client", "").strip() or unnamed
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            "The header X-Cofio-Client is not a valid name.", "Send up to 100 printable ASCII characters."
        )
    return f"{key.grant.name[:_NAMED]} (key {key.id}) · {name}"[:_BY] if key else name


def is_near(host: str) -> bool:
    """Return whether only this machine can reach a service on that host."""
    try:
        addresses = socket.getaddrinfo(host.strip("[]") or EVERYWHERE[1], None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    return all(is_loopback(str(address[4][0])) for address in addresses)


async def read_body(request: Request, limit: int) -> bytes:
    """Return the request's body. Oversized bodies are never buffered, with or without a Content-Length."""
    length = request.headers.get("content-length", "")
    announced = int(length) if length.isdecimal() else 0
    if announced > limit and "expect" in request.headers:
        raise _too_large(limit)  # the sender waits for "100 Continue" before it sends
    body, size = bytearray(), 0
    try:
        with fail_after(_BODY_SECONDS):
            async for part in request.stream():
                size += len(part)
                if max(size, announced) <= limit:
                    body += part
                elif size > _PATIENCE * limit:
                    break
    except TimeoutError as error:
        hint = "Send it at once, or in chunks without long pauses."
        raise InvalidInput(f"The body did not arrive within {_BODY_SECONDS} seconds.", hint) from error
    if max(size, announced) > limit:
        raise _too_large(limit)
    return bytes(body)


def _too_large(limit: int) -> TooLarge:
    return TooLarge("The body is too large.", f"The limit is {limit:,} bytes; COFIO_MAX_BODY sets it.")


def _strip_port(host: str) -> str:
    """Return the host name or address of a Host header, without brackets and port; "" if invalid."""
    match = _HOST.fullmatch(host.strip())
    return (match["six"] or match["name"]).lower() if match else ""


def _read_keys(headers: Headers) -> list[bytes]:
    bearers = [value.partition(" ")[2] for value in headers.getlist("authorization") if value[:7].lower() == "bearer "]
    keys = (key.strip().encode("latin-1") for key in (*headers.getlist("x-api-key"), *bearers))
    return [key for key in keys if key]


def _invalid_key(key: Key | None) -> WrongKey:
    if key is None:
        hint = "Set COFIO_API_KEY to a valid key; `cofio keys create NAME` makes one where the service runs."
        return WrongKey("The API key is not valid.", hint)
    problem = "was revoked" if key.revoked_at else "expired"
    at = key.revoked_at or key.grant.expires_at or ""
    hint = "Create a new key where the service runs (`cofio keys create`), and set COFIO_API_KEY to it."
    return WrongKey(f"The API key ({key.grant.name}) {problem} on {at[:10]}.", hint)
