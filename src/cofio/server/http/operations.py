"""Declaration of routes. Most follow from a method of the keeper: its request, handler and response.

    operation("GET", "/projects", Keeper.projects, "List the projects.", key="projects", role="read")

The parameters of the method are the fields of the request, except for names in the path. The returned value is the
response, or its field `key`. A request of another form is a struct whose `arguments` are those of the method; a
response of another form is formatted by `reply`.
"""

from __future__ import annotations

import inspect
import re
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
from cofio.errors import InvalidInput, NotFound
from cofio.markdown_notes.service import NotesService
from cofio.models.auth import Role
from cofio.models.domain_knowledge import Knowledge, Table, check_table
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
    for_strangers: bool = False  # of these, also those of other users of the machine
    same_user: bool = False  # refuses processes that are known to be of another user
    needs_key: bool = False  # also from this machine's user: reads or writes files as the user, or grants access
    pool: Pool = Pool.DEFAULT
    browser: bool = False  # a page that people visit with a browser
    raw: bool = False  # takes the body as bytes
    query_only: bool = False  # a POST that takes a query string instead of a body
    role: Role = "admin"  # least role required
    audited: bool = False  # the handler writes the audit log itself
    name: str = ""  # of the operation, unique among JSON routes; by default that of the handler
    call: str = ""  # method of the keeper and of the client, if it has another name: "projects", "knowledge.counts"
    is_derived: bool = False  # the request follows from the parameters of the method

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.handler.__name__)
        title = "".join(part.capitalize() for part in self.name.split("_"))
        for field, name in (("response", title), ("accepted", f"{title}Accepted")):
            response = getattr(self, field)
            if isinstance(response, Mapping):
                object.__setattr__(self, field, build_struct(name, response))
            elif isinstance(response, type):
                object.__setattr__(self, field, response_struct(response))

    @property
    def client_method(self) -> str:
        """Name of the method of the client and of the keeper, if they have one."""
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
    request: type[RequestModel] | None = None,
    response: Any = None,
    reply: Callable[[Any], HandlerReply | dict[str, Any]] | None = None,
    types: Mapping[str, Any] = _NONE,
    name: str = "",
    **options: Any,
) -> Route:
    """Return the route of a method of the keeper or of one of its services.

    `types` has the descriptions, limits or types of parameters. With `key`, the response is an object with the returned
    value in that field, the id of the path, and if it `pages`, the cursor of the next page.
    """
    names = re.findall(r"{(\w+)}", path)
    if response is None:
        response = get_type_hints(call)["return"]
        if key:
            ids = {"id": int} if "id" in names else {}
            response = {**ids, key: response, **({"next": int | None} if pages else {})}
    where = next(
        prefix + name for owner, prefix in _OWNERS.items() for name, member in vars(owner).items() if member is call
    )
    find_method = attrgetter(f"keeper.{where}")
    parameters = inspect.signature(call).parameters

    def handler(
        state: AppState, request: RequestModel | None, context: RequestContext
    ) -> HandlerReply | dict[str, Any]:
        arguments = request.arguments() if request else {}
        if "by" in parameters:
            arguments["by"] = context.by
        if "entry" in parameters:
            arguments["entry"] = context.entry()
        result = find_method(state)(
            *(find_table(context) if name == "table" else getattr(context, name) for name in names), **arguments
        )
        if not key:
            content: HandlerReply | dict[str, Any] = (reply or to_json)(result)
            return content
        cursor = {"next": result[-1].id if len(result) == arguments["limit"] else None} if pages else {}
        return {**({"id": context.id} if "id" in names else {}), key: to_json(result), **cursor}

    return Route(
        method,
        path,
        handler,
        request or request_of(call, types, len(names)),
        response,
        summary,
        name=name or where.rpartition(".")[2],
        call=where,
        is_derived=request is None,
        **options,
    )


def find_table(context: RequestContext) -> Table:
    """Return the table of domain knowledge named in the path. NotFound if it does not exist."""
    try:
        return check_table(context.table)
    except InvalidInput as error:
        raise NotFound(error.message, error.hint) from error


def to_json(value: Any) -> Any:
    """Return a value of the model as plain JSON values."""
    if isinstance(value, Knowledge):
        return value.shown()
    if hasattr(value, "as_dict"):
        return value.as_dict()
    if hasattr(value, "_asdict"):
        return value._asdict()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, set):
        return sorted(value)
    return [to_json(item) for item in value] if isinstance(value, Sequence) and not isinstance(value, str) else value
