"""Digests of memories: written with each row, and compared by `cofio doctor --deep` to find silent damage."""

from __future__ import annotations

from cofio.stores.query_runner import Queries, Row
from cofio.stores.row_mapping import LISTED, to_memory, to_row

_AT_ONCE = 1_000  # rows read at a time


def fill_digests(queries: Queries) -> None:
    """Give rows of an earlier version their digest."""
    while rows := queries.all("undigested", {"limit": _AT_ONCE}, columns=LISTED):
        queries.many("set_digest", [{"id": row[0], "digest": to_row(to_memory(row))["digest"]} for row in rows])


def find_damaged_rows(queries: Queries) -> list[int]:
    """Read every memory; return those that do not match their digest."""
    damaged: list[int] = []
    after = 0
    while rows := queries.all("digested", {"after": after, "limit": _AT_ONCE}, columns=LISTED):
        damaged += [row[0] for row in rows if not _is_sound(row)]
        after = rows[-1][0]
    return damaged


def _is_sound(row: Row) -> bool:
    *columns, digest = row
    try:
        return bool(digest == to_row(to_memory(columns))["digest"])
    except (ValueError, TypeError, KeyError):  # not the JSON or the text that was written
        return False
