"""A Scope as a condition over the rows of memories. Shared by every SQL store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cofio.model import Scope

_EQUAL = ("source", "project", "category", "kind", "method", "session", "agent")  # columns of the same name
_NONE_IS_A_VALUE = ("source", "project")  # of these, "" means those that have none

_BOUNDS = (("since", ">="), ("until", "<="))


def condition(scope: Scope) -> tuple[str, dict[str, Any]]:
    """The scope as SQL, and the values that it names."""
    parts = list(_parts(scope))
    values = {name: value for _, named in parts for name, value in named.items()}
    live = () if scope.include_archived else ("archived_at IS NULL",)
    return " AND ".join((*live, *(part for part, _ in parts))) or "1", values


def _parts(scope: Scope) -> Iterator[tuple[str, dict[str, Any]]]:
    for name in _EQUAL:
        value = getattr(scope, name)
        if value or (name in _NONE_IS_A_VALUE and value is not None):
            yield f"{name} = :{name}", {name: value}
    if scope.seen_from is not None:
        yield "(project IN (:seen_from, '') OR visibility = 'global')", {"seen_from": scope.seen_from}
    if prefix := scope.source_prefix.rstrip("/"):
        below = {"prefix": prefix, "below": prefix + "/", "beyond": prefix + "0"}  # "0" follows "/" in the alphabet
        yield "(source = :prefix OR (source >= :below AND source < :beyond))", below
    for place, tag in enumerate(scope.tags):
        yield f"EXISTS (SELECT 1 FROM json_each(memories.tags) WHERE value = :tag{place})", {f"tag{place}": tag}
    if scope.visibility:
        seen = {f"see{place}": each for place, each in enumerate(scope.visibility)}
        yield f"visibility IN ({', '.join(f':{name}' for name in seen)})", seen
    for name, bound in _BOUNDS:
        if value := getattr(scope, name):
            yield f"created_at {bound} :{name}", {name: value}
    if scope.pinned is not None:
        yield f"pinned = {int(scope.pinned)}", {}  # written out, so that the index of what is pinned is seen
