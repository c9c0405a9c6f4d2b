"""Store addresses: which kinds belong to a server, and how to show one without its password.

Pure functions over str.
"""

from __future__ import annotations

import re

#: URL schemes of stores on a server. Both mean the same.
SERVERS = ("postgresql", "postgres")
_PASSWORDS = re.compile(r"(?<=[?&])(?:ssl)?password=[^&]*&?", re.IGNORECASE)


def is_server(store: str) -> bool:
    """Return whether the store is on a server rather than in a local file."""
    scheme, separator, _ = store.partition("://")
    return bool(separator) and scheme.lower() in SERVERS


def display_url(store: str) -> str:
    """Return the address without its password, in the same form for the same store.

    From a malformed address, everything that may be a password is removed.
    """
    scheme, separator, rest = store.partition("://")
    if not separator or scheme.lower() == "sqlite":
        return store
    credentials, at, where = _PASSWORDS.sub("", rest).rstrip("?&").rpartition("@")
    scheme = SERVERS[0] if is_server(store) else scheme
    return f"{scheme}://{credentials.partition(':')[0]}{at}{where}"
