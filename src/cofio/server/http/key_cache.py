"""Cached look-up of the store's keys, off the event loop, and limits on guessing.

    digest ─ cached for FRESH seconds ─▶ Key          address ─ wrong keys of the last minute ─▶ wait

A revocation takes effect within FRESH seconds if another process made it; at once if this one did.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address
from math import ceil

from anyio import CapacityLimiter, to_thread

from cofio.core import Keeper
from cofio.models.auth import Key

Ticks = Callable[[], float]  # monotonic seconds
FRESH = 2.0  # seconds that a key look-up is cached
MOST_TRIES = 10  # wrong keys from one address within a minute
MINUTE = 60.0
_LOOKING = 4  # concurrent look-ups; separate from the handlers' threads, so that they never wait for them
_KNOWN = 10_000  # keys and addresses cached
_NETWORK = 64  # bits of an IPv6 prefix that identify one household


class KeyCache:
    """Cached keys of the store, looked up in a thread. Unknown keys are not cached."""

    def __init__(self, keeper: Keeper, ticks: Ticks = time.monotonic) -> None:
        self._keeper = keeper
        self._ticks = ticks
        self._lane = CapacityLimiter(_LOOKING)
        self._changes = keeper.services.keys.changes
        self._known: OrderedDict[str, tuple[Key, float]] = OrderedDict()
        self._wanted: tuple[bool, float] | None = None

    async def find(self, digests: Sequence[str]) -> dict[str, Key]:
        """Return the keys with these digests, in order; unknown ones are left out."""
        self._drop_what_changed()
        asked_at = self._ticks()
        cached = {digest: self._known[digest] for digest in digests if digest in self._known}
        if len(cached) == len(digests) and all(asked_at - since < FRESH for _, since in cached.values()):
            return {digest: key for digest, (key, _) in cached.items()}
        find = self._keeper.services.keys.find
        keys = await to_thread.run_sync(
            lambda: {digest: key for digest in digests if (key := find(digest))}, limiter=self._lane
        )
        self._known.update({digest: (key, asked_at) for digest, key in keys.items()})
        while len(self._known) > _KNOWN:
            self._known.popitem(last=False)
        return keys

    async def is_wanted(self) -> bool:
        """Return whether a valid key exists, so that callers need one."""
        self._drop_what_changed()
        if self._wanted is None or self._ticks() - self._wanted[1] >= FRESH:
            asked_at = self._ticks()
            has_keys = await to_thread.run_sync(self._keeper.services.keys.is_required, limiter=self._lane)
            self._wanted = has_keys, asked_at
            return has_keys
        return self._wanted[0]

    def _drop_what_changed(self) -> None:
        if self._changes != self._keeper.services.keys.changes:
            self._changes = self._keeper.services.keys.changes
            self._known.clear()
            self._wanted = None


@dataclass(slots=True)
class _Address:
    """History of one address."""

    failed: deque[float] = field(default_factory=lambda: deque(maxlen=MOST_TRIES))  # times
    opened: set[str] = field(default_factory=set)  # digests of accepted keys
    logged_at: float = -MINUTE  # time of the last audit entry on blocking this address


class FailedAuthLimiter:
    """Wrong keys by address: after too many in a minute, only keys that were accepted before are checked.

    This stops guessing, without locking out anyone who already has access, from there or elsewhere.
    """

    def __init__(self, ticks: Ticks = time.monotonic) -> None:
        self._ticks = ticks
        self._places: OrderedDict[str, _Address] = OrderedDict()

    def wait(self, address: str) -> int:
        """Return the seconds for which keys from this address are refused unchecked."""
        place = self._places.get(_network(address))
        if place is None or len(place.failed) < MOST_TRIES:
            return 0
        return max(0, ceil(place.failed[0] + MINUTE - self._ticks()))

    def has_opened(self, address: str, digest: str) -> bool:
        """Return whether this key was accepted from this address before."""
        place = self._places.get(_network(address))
        return place is not None and digest in place.opened

    def failed(self, address: str) -> None:
        """Record a wrong key from this address."""
        self._place(address).failed.append(self._ticks())

    def opened(self, address: str, digest: str) -> None:
        """Record an accepted key from this address."""
        digests = self._place(address).opened
        if len(digests) < _KNOWN:
            digests.add(digest)

    def is_news(self, address: str) -> bool:
        """Return whether blocking this address was not yet recorded within the last minute."""
        place = self._place(address)
        news = self._ticks() - place.logged_at >= MINUTE
        place.logged_at = self._ticks() if news else place.logged_at
        return news

    def _place(self, address: str) -> _Address:
        network = _network(address)
        place = self._places.setdefault(network, _Address())
        self._places.move_to_end(network)
        while len(self._places) > _KNOWN:
            self._places.popitem(last=False)
        return place


def _network(address: str) -> str:
    """Return the IPv4 address, or the network of an IPv6 address: a client usually owns the whole network."""
    ip = parse_address(address.partition("%")[0])
    if ip is None:
        return address
    if not isinstance(ip, IPv6Address):
        return str(ip)
    return str(ip.ipv4_mapped or int(ip) >> (128 - _NETWORK))


def parse_address(address: str) -> IPv4Address | IPv6Address | None:
    """Return the IP address; None if the text is none."""
    try:
        return ip_address(address)
    except ValueError:
        return None
