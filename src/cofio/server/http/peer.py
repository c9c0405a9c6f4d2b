"""The other end of a connection: its address, and whether its process runs as the user of this service.

Linux lists the owner of every TCP socket in /proc/net/tcp and /proc/net/tcp6. Once its process has closed it, a socket
is listed without an inode and as root's: its owner is unknown. It is read twice, because inode and owner of an entry
are not read at the same instant.
"""

from __future__ import annotations

import os
import re
import struct
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any

from anyio import CapacityLimiter, to_thread

from cofio.server.http.key_cache import parse_address

PEER = "cofio.peer"  # in a request's scope
_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_READS = 3  # a table that changes while it is read may miss an entry


class Peer:
    """The other end of a connection. Its user is looked up once, for the first request that needs it."""

    def __init__(self, client: tuple[str, int] | None, server: tuple[str, int | None] | None) -> None:
        self.address = client[0] if client else ""
        self._client, self._server = client, server
        self._is_same_user: bool | None = None
        self._is_known = False

    @classmethod
    def of_request(cls, scope: Any) -> Peer:
        """Return the peer of the connection on which the request came."""
        return scope.get(PEER) or cls(scope.get("client"), scope.get("server"))

    async def is_same_user(self, lane: CapacityLimiter) -> bool | None:
        """Return whether the peer's process runs as this user; None where the system does not tell."""
        if not self._is_known:
            self._is_same_user = await to_thread.run_sync(self._look_up, limiter=lane)
            self._is_known = True
        return self._is_same_user

    def _look_up(self) -> bool | None:
        if not (self._client and self._server and is_loopback(self.address) and _TABLES[0].exists()):
            return None
        return find_owner(self._client, (self._server[0], self._server[1] or 0)) == os.geteuid()


def is_loopback(address: str) -> bool:
    """Return whether the address is one of this machine's loopback interface."""
    ip = parse_address(address.partition("%")[0])
    return ip is not None and ip.is_loopback


def find_owner(client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """Return the user id of the client's socket, if two reads agree; None if it is unknown or closed."""
    first: int | None = None
    for _ in range(_READS):
        owner = _read_owner(client, server)
        if owner is not None and first is not None:
            return owner if owner == first else None
        first = first if owner is None else owner
    return None


def _read_owner(client: tuple[str, int], server: tuple[str, int]) -> int | None:
    for is_mapped, table in enumerate(_TABLES):
        ends = [_format(*end, is_mapped=bool(is_mapped)) for end in (client, server)]
        if None in ends:
            continue
        # local and remote address, state, queues, timer, retransmits, user, timeout, inode
        entry = rf": {ends[0]} {ends[1]} [0-9A-F]{{2}} \S+ \S+ \S+ +([0-9]+) +[0-9]+ +([0-9]+) "
        try:
            match = re.search(entry.encode(), table.read_bytes())
        except OSError:
            continue
        if match:
            return int(match[1]) if int(match[2]) else None
    return None


def _format(host: str, port: int, *, is_mapped: bool) -> str | None:
    """Return the address as in the tables: words in the byte order of the machine. IPv4 is mapped in that of IPv6."""
    ip = parse_address(host.partition("%")[0])
    if isinstance(ip, IPv4Address) and is_mapped:
        ip = IPv6Address(f"::ffff:{ip}")
    if ip is None or isinstance(ip, IPv6Address) is not is_mapped:
        return None
    words = struct.unpack(f"={len(ip.packed) // 4}I", ip.packed)
    return f"{''.join(f'{word:08X}' for word in words)}:{port:04X}"
