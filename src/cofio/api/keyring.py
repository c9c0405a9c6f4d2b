"""The keys of the store, as the guard needs them: looked up off the event loop and known for a moment; and who guesses.

    digest ─ known for FRESH seconds ─▶ Key          address ─ wrong keys of the last minute ─▶ wait

A revocation is felt within FRESH seconds, whichever process made it; at once, where this one did.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from math import ceil

from anyio import CapacityLimiter, to_thread

from cofio.access import Key
from cofio.keeper import Keeper

Ticks = Callable[[], float]  # seconds since whenever
FRESH = 2.0  # seconds for which what the store said of a key is taken for so
MOST_TRIES = 10  # wrong keys from one address within a minute
MINUTE = 60.0
_LOOKING = 4  # look-ups at once; kept apart from the answers, so that they wait for none
_KNOWN = 10_000  # keys, and addresses, that are remembered
_NETWORK = 64  # bits of an IPv6 address that tell one household from another


class Keyring:
    """The keys of the store, asked for in a thread and remembered for a moment. Those that are none are not."""

    def __init__(self, keeper: Keeper, ticks: Ticks = time.monotonic) -> None:
        self._keeper = keeper
        self._ticks = ticks
        self._lane = CapacityLimiter(_LOOKING)
        self._changes = keeper.key_changes
        self._known: OrderedDict[str, tuple[Key, float]] = OrderedDict()
        self._wanted: tuple[bool, float] | None = None

    async def find(self, digests: Sequence[str]) -> dict[str, Key]:
        """The keys with these digests, in order; what is none is left out."""
        self._drop_what_changed()
        at_hand = {each: key for each in digests if (key := self._at_hand(each))}
        if len(at_hand) == len(digests):
            return at_hand
        asked = self._ticks()
        found = await to_thread.run_sync(self._look_up, digests, limiter=self._lane)
        self._known.update({digest: (key, asked) for digest, key in found.items()})
        while len(self._known) > _KNOWN:
            self._known.popitem(last=False)
        return found

    async def is_wanted(self) -> bool:
        """Whether there is a key in force, so that whoever asks needs one."""
        self._drop_what_changed()
        if self._wanted is None or self._ticks() - self._wanted[1] >= FRESH:
            asked = self._ticks()
            wanted = await to_thread.run_sync(self._keeper.wants_key, limiter=self._lane)
            self._wanted = wanted, asked
            return wanted
        return self._wanted[0]

    def _at_hand(self, digest: str) -> Key | None:
        key, since = self._known.get(digest, (None, 0.0))
        return key if self._ticks() - since < FRESH else None

    def _look_up(self, digests: Sequence[str]) -> dict[str, Key]:
        found = {each: self._keeper.key_of(each) for each in digests}
        return {digest: key for digest, key in found.items() if key}

    def _drop_what_changed(self) -> None:
        if self._changes != self._keeper.key_changes:
            self._changes = self._keeper.key_changes
            self._known.clear()
            self._wanted = None


@dataclass(slots=True)
class _Place:
    """What came from one address."""

    failed: deque[float] = field(default_factory=lambda: deque(maxlen=MOST_TRIES))  # when
    opened: set[str] = field(default_factory=set)  # digests of keys that were right
    told: float = -MINUTE  # when it was last noted that this place is made to wait


class Tries:
    """Wrong keys, by address: after so many within a minute none is looked at but those that have opened before.

    So whoever guesses gets no further, and locks nobody out who is at work, there or elsewhere.
    """

    def __init__(self, ticks: Ticks = time.monotonic) -> None:
        self._ticks = ticks
        self._places: OrderedDict[str, _Place] = OrderedDict()

    def wait(self, address: str) -> int:
        """For how many seconds no further key is looked at that comes from there."""
        place = self._places.get(_network(address))
        if place is None or len(place.failed) < MOST_TRIES:
            return 0
        return max(0, ceil(place.failed[0] + MINUTE - self._ticks()))

    def has_opened(self, address: str, digest: str) -> bool:
        """Whether this key has opened from there."""
        place = self._places.get(_network(address))
        return place is not None and digest in place.opened

    def failed(self, address: str) -> None:
        """A wrong key came from there."""
        self._place(address).failed.append(self._ticks())

    def opened(self, address: str, digest: str) -> None:
        """A right key came from there."""
        opened = self._place(address).opened
        if len(opened) < _KNOWN:
            opened.add(digest)

    def is_news(self, address: str) -> bool:
        """Whether it was not said within the last minute that this place is made to wait."""
        place = self._place(address)
        news = self._ticks() - place.told >= MINUTE
        place.told = self._ticks() if news else place.told
        return news

    def _place(self, address: str) -> _Place:
        network = _network(address)
        place = self._places.setdefault(network, _Place())
        self._places.move_to_end(network)
        while len(self._places) > _KNOWN:
            self._places.popitem(last=False)
        return place


def _network(address: str) -> str:
    """What stands for an address: the network of an IPv6 one, for whoever has one address of it has them all."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(found, IPv6Address):
        return str(found)
    return str(found.ipv4_mapped or int(found) >> (128 - _NETWORK))
