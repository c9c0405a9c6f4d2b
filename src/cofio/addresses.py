"""Addresses of stores: which kinds a server keeps, and how an address may be shown.

Part of the words: pure functions over str.
"""

from __future__ import annotations

import re

#: How the address of a store begins that a server keeps. Both mean the same.
SERVERS = ("postgresql", "postgres")
_PASSWORDS = re.compile(r"(?<=[?&])(?:ssl)?password=[^&]*&?", re.IGNORECASE)


def is_server(store: str) -> bool:
    """Whether a server keeps the store, and no file here."""
    scheme, found, _ = store.partition("://")
    return bool(found) and scheme.lower() in SERVERS


def shown(store: str) -> str:
    """The address without its password, and in the same words for the same store.

    One that is written wrongly is taken for the worst: whatever may be a password is left out.
    """
    scheme, found, rest = store.partition("://")
    if not found or scheme.lower() == "sqlite":
        return store
    named, at, where = _PASSWORDS.sub("", rest).rstrip("?&").rpartition("@")
    scheme = SERVERS[0] if is_server(store) else scheme
    return f"{scheme}://{named.partition(':')[0]}{at}{where}"
