"""A Scope as an SQL condition on memories, for every SQL store; a Dialect holds the differences.

Visibility is enforced here, inside the query: filtering after a search would return too few results.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from cofio.models.memory import Scope, Viewer

_EQUAL = ("source", "project", "category", "kind", "method", "session", "agent", "user", "team")  # columns
_NONE_IS_A_VALUE = ("source", "project", "user", "team")  # of these, "" selects memories without a value
_BOUNDS = (("since", ">="), ("until", "<="))


class Dialect(NamedTuple):
    """Syntax that differs between databases."""

    value: str  # a named value
    tagged: str  # condition that the memory has the tag of that value
    judged: str  # condition that the claims of a verdict contain that value
    unlimited: int | None  # the value of LIMIT for no limit


SQLITE = Dialect(
    ":{}",
    "EXISTS (SELECT 1 FROM json_each(memories.tags) WHERE value = {})",
    "EXISTS (SELECT 1 FROM json_each(about) WHERE value = {})",
    -1,
)
POSTGRES = Dialect("%({})s", "tags ? {}", "about ? {}", None)


def condition(scope: Scope, dialect: Dialect = SQLITE) -> tuple[str, dict[str, Any]]:
    """Return the scope as an SQL condition, and its named values."""
    parts = list(_list_conditions(scope, dialect))
    if scope.viewer:
        parts.append(visible_to(scope.viewer, dialect))
    values = {name: value for _, params in parts for name, value in params.items()}
    live = () if scope.include_archived else ("archived_at IS NULL",)
    return " AND ".join((*live, *(part for part, _ in parts))) or "true", values


def _list_conditions(scope: Scope, dialect: Dialect) -> Iterator[tuple[str, dict[str, Any]]]:
    value = dialect.value.format
    for name in _EQUAL:
        column = getattr(scope, name)
        if column or (name in _NONE_IS_A_VALUE and column is not None):
            yield f'"{name}" = {value(name)}', {name: column}
    if scope.visible_in is not None:
        visible_in = {"visible_in": scope.visible_in}
        yield f"(project IN ({value('visible_in')}, '') OR visibility = 'global')", visible_in
    if prefix := scope.source_prefix.rstrip("/"):
        yield _match_below(prefix, "prefix", dialect)
    for place, tag in enumerate(scope.tags):
        yield dialect.tagged.format(value(f"tag{place}")), {f"tag{place}": tag}
    if scope.visibility:
        params = {f"see{place}": visibility for place, visibility in enumerate(scope.visibility)}
        yield f"visibility IN ({', '.join(value(name) for name in params)})", params
    for name, bound in _BOUNDS:
        if limit := getattr(scope, name):
            yield f"created_at {bound} {value(name)}", {name: limit}
    if scope.pinned is not None:
        yield f"pinned = {int(scope.pinned)}", {}  # a literal, so that the planner can use the index of pinned memories


def visible_to(viewer: Viewer | None, dialect: Dialect, source: str = "source") -> tuple[str, dict[str, Any]]:
    """Return `Viewer.sees` as an SQL condition, and its named values; `source` is the source column.

    Without a viewer, everything is visible.
    """
    if viewer is None:
        return "true", {}
    value = dialect.value.format
    values = {"viewing_team": viewer.team}
    ways = ["visibility = 'global'", f"(visibility = 'team' AND team = {value('viewing_team')})"]
    if viewer.user:
        values["viewing_user"] = viewer.user
        ways.append(f"""(visibility = 'private' AND "user" = {value("viewing_user")})""")
    if viewer.agent:
        values["viewing_agent"] = viewer.agent
        ways.append(f"""(visibility = 'private' AND "user" = '' AND agent = {value("viewing_agent")})""")
    audience = f"({' OR '.join(ways)})"
    if not viewer.prefixes:
        return audience, values
    below = [_match_below(prefix, f"reach{place}", dialect, source) for place, prefix in enumerate(viewer.prefixes)]
    for _, bounds in below:
        values |= bounds
    return f"{audience} AND ({' OR '.join(part for part, _ in below)})", values


def _match_below(prefix: str, name: str, dialect: Dialect, source: str = "source") -> tuple[str, dict[str, Any]]:
    """Return a condition for sources at or below the prefix, by whole path segments.

    A range, so that an index can be used.
    """
    value = dialect.value.format
    bounds = {name: prefix, f"{name}_from": prefix + "/", f"{name}_to": prefix + "0"}  # "0" is the character after "/"
    at, start, end = (value(bound) for bound in bounds)
    return f"({source} = {at} OR ({source} >= {start} AND {source} < {end}))", bounds
