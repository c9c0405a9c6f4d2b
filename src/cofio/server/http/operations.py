"""Declaration of routes. Most follow from a method of the keeper: its request, handler and response.

    operation("GET", "/projects", Keeper.projects, "List the projects.", key="projects", role="read")

The parameters of the method are the fields of the request, except for ids, which are in the path. The returned value is
the response, or its field `key`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from enum import Enum
from operator import attrgetter
from types import MappingProxyType
from typing import Any, get_type_hints

from msgspec import Struct

from cofio.core import Keeper
from cofio.core.domain_knowledge import KnowledgeBase
from cofio.dashboard.service import DashboardService
from cofio.models.auth import Role
from cofio.notes.service import NotesService
from cofio.server.http.context import AppState, RequestContext
from cofio.server.http.requests import RequestModel, request_of
from cofio.server.http.response_types import build_struct, response_struct
from cofio.server.http.responses import HandlerReply

Handler = Callable[[AppState, Any, RequestContext], HandlerReply | dict[str, Any]]
_NONE: Mapping[str, Any] = MappingProxyType({})
#: Classes whose methods are operations, each with its attribute of the keeper.
_OWNERS: Mapping[type, str] = {
    Keeper: "",
    KnowledgeBase: "knowledge.",
    NotesService: "notes.",
    DashboardService: "dashboard.",
}


class Pool(Enum):
    """Thread pool of a handler, by its cost. A search never waits for a write, nor `/health` for either."""

    DEFAULT = "default"
    RESERVED = "reserved"  # cheap, and must answer while every other thread is busy
    CPU = "cpu"  # CPU-bound: as many at once as there are cores
    HALF_CPU = "half_cpu"  # CPU-bound for seconds: half of the cores, to leave some for recall
    AGENT = "agent"  # a tool call of an agent, whose cost cannot be known in advance
    EXPORT = "export"  # a stream that reads the whole store; few run at once
    EVENTS = "events"  # a stream that lasts until the client disconnects


@dataclass(frozen=True, slots=True)
class Route:
    """Route: one method of one path, with its request and response types and its handler.

    The response is a type of the model, the fields of an object, or the media type of a response that is not JSON.
    """

    method: str
    path: str
    handler: Handler
    request: type[RequestModel] | None  # the body of a POST or PATCH, the query string of a GET or DELETE
    response: Any  # becomes a struct, unless it is a media type
    summary: str
    example: Mapping[str, Any] | None = None
    statuses: tuple[int, ...] = (200,)
    accepted: Any = None  # type of a 202 response, if different
    public: bool = False  # answers requests without a key
    pool: Pool = Pool.DEFAULT
    browser: bool = False  # a page that people visit with a browser
    raw: bool = False  # takes the body as bytes
    query_only: bool = False  # a POST that takes a query string instead of a body
    role: Role = "admin"  # least role required
    audited: bool = False  # the handler writes the audit log itself
    call: str = ""  # method of the keeper and of the client, if the handler has another name

    def __post_init__(self) -> None:
        title = "".join(part.capitalize() for part in self.name.split("_"))
        for field, name in (("response", title), ("accepted", f"{title}Accepted")):
            response = getattr(self, field)
            if isinstance(response, Mapping):
                object.__setattr__(self, field, build_struct(name, response))
            elif isinstance(response, type):
                object.__setattr__(self, field, response_struct(response))

    @property
    def name(self) -> str:
        """Name of the operation, unique among JSON routes."""
        return self.handler.__name__

    @property
    def is_derived(self) -> bool:
        """Return whether request and handler follow from a method of the keeper."""
        return self.handler.__module__ == __name__

    @property
    def client_method(self) -> str:
        """Name of the method of the client and of the keeper, if they have one: "projects", "knowledge.counts"."""
        return self.call or self.name

    def schema(self, status: int = 200) -> type[Struct] | str:
        """Return the struct of a response with this status, or its media type."""
        schema: type[Struct] | str = self.accepted if status == 202 and self.accepted else self.response
        return schema

    @property
    def writes_audit(self) -> bool:
        """Return whether the request is recorded in the audit log, as it may have changed something."""
        return self.method != "GET" and self.role != "read" and not self.audited

    @property
    def sample_path(self) -> str:
        """Example path with valid names."""
        return self.path.format(id=1, table="thresholds", row="aapl.volume.above", file="style.css")

    @property
    def has_body(self) -> bool:
        return self.raw or (self.request is not None and self.method in ("POST", "PATCH") and not self.query_only)


def operation(
    method: str,
    path: str,
    call: Callable[..., Any],
    summary: str,
    *,
    key: str = "",
    pages: bool = False,
    response: Any = None,
    types: Mapping[str, Any] = _NONE,
    **options: Any,
) -> Route:
    """Return the route of a method of the keeper or of one of its services.

    `types` has the descriptions, limits or types of parameters. With `key`, the response is an object with the returned
    value in that field, the id of the path, and if it `pages`, the cursor of the next page.
    """
    has_id = "{id}" in path
    if response is None:
        response = get_type_hints(call)["return"]
        if key:
            response = {**({"id": int} if has_id else {}), key: response, **({"next": int | None} if pages else {})}
    handler = _make_handler(call, key, has_id=has_id, pages=pages)
    request = request_of(call, types, int(has_id))
    return Route(method, path, handler, request, response, summary, call=_find_name(call), **options)


def _make_handler(call: Callable[..., Any], key: str, *, has_id: bool, pages: bool) -> Handler:
    name = _find_name(call)
    find_method = attrgetter(f"keeper.{name}")
    takes_by = "by" in inspect.signature(call).parameters

    def handler(state: AppState, request: RequestModel | None, context: RequestContext) -> dict[str, Any]:
        arguments = request.sent_fields() if request else {}
        if request and "why" in arguments:
            arguments["why"] = request.reason()
        if takes_by:
            arguments["by"] = context.by
        ids = (context.id,) if has_id else ()
        result = find_method(state)(*ids, **arguments)
        if not key:
            content: dict[str, Any] = to_json(result)
            return content
        cursor = {"next": result[-1].id if len(result) == arguments["limit"] else None} if pages else {}
        return {**({"id": context.id} if has_id else {}), key: to_json(result), **cursor}

    handler.__name__ = name.rpartition(".")[2]
    return handler


def _find_name(call: Callable[..., Any]) -> str:
    """Return the name by which the keeper has a method: "projects", "knowledge.counts"."""
    return next(
        prefix + name for owner, prefix in _OWNERS.items() for name, member in vars(owner).items() if member is call
    )


def to_json(value: Any) -> Any:
    """Return a value of the model as plain JSON values."""
    if hasattr(value, "as_dict"):
        return value.as_dict()
    if hasattr(value, "_asdict"):
        return value._asdict()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, set):
        return sorted(value)
    return [to_json(item) for item in value] if isinstance(value, Sequence) and not isinstance(value, str) else value
