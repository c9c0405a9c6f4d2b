"""OpenAPI document, generated from the list of routes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from cofio.models.domain_knowledge import MAX_ID, TABLES
from cofio.models.memory import VISIBILITIES
from cofio.server.http import responses
from cofio.server.http.operations import Route
from cofio.server.http.requests import CONVERSATIONS, TIMES
from cofio.version import __version__

_REF = "#/components/schemas/{name}"
#: Schema of each name in a path.
_PATH = {
    "id": {"type": "integer", "minimum": 1},
    "table": {"type": "string", "enum": list(TABLES)},
    "row": {"type": "string", "maxLength": MAX_ID},
    "file": {"type": "string"},
}
_CLIENT_NAME = {"type": "string", "pattern": "^[\\x20-\\x7e]*$", "maxLength": 100}
_CLIENT = {"name": "X-Cofio-Client", "in": "header", "schema": _CLIENT_NAME}
_NO_NUL = "^[^\\u0000]*$"
_NOT_BLANK = "^[^\\u0000]*[^\\s\\u0000][^\\u0000]*$"
#: Required texts that may be blank; the reply is empty then.
_MAY_BE_BLANK = {
    "RecallContextRequest": ("query",), "EnrichPromptRequest": ("query",), "EvaluateRequest": ("source", "metric"),
    "ReadRequest": ("text",), "TurnsRequest": ("client", "session"), "SessionRequest": ("session",),
}  # fmt: skip
_FIRST_SECOND, _LAST_MILLISECOND = -62_135_596_800, 253_402_300_799_999  # the years 1 to 9999
_RPC_ERROR = {"type": "object", "required": ["jsonrpc", "error"], "description": "Error of the protocol."}
_KEYS = {
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    "bearer": {"type": "http", "scheme": "bearer"},
}


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """Return the document: every route, with its request and reply schemas."""
    bodies = [route.request for route in routes if route.has_body and route.request]
    shapes = [
        shape for route in routes for status in route.statuses if not isinstance(shape := route.schema(status), str)
    ]
    _, schemas = msgspec.json.schema_components([*shapes, responses.ErrorResponse], ref_template=_REF)
    schemas |= request_schemas(bodies)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "cofio", "version": __version__, "description": "Memory for your agents."},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": _KEYS},
    }


def parameters(route: Route) -> list[dict[str, Any]]:
    """Return the parameters of path and query string."""
    path_parameters = [
        {"name": name, "in": "path", "required": True, "schema": schema}
        for name, schema in _PATH.items()
        if f"{{{name}}}" in route.path
    ]
    if route.request is None or route.has_body:
        return path_parameters
    schema = request_schemas([route.request])[route.request.__name__]
    required = schema.get("required", ())
    return path_parameters + [
        {
            "name": name,
            "in": "query",
            "required": name in required,
            "schema": parameter,
            "explode": False,
            "allowEmptyValue": name not in required,
        }
        for name, parameter in schema["properties"].items()
    ]


def request_schemas(requests: Sequence[type[msgspec.Struct]]) -> dict[str, dict[str, Any]]:
    """Return the schemas of requests, with the rules for texts that the service checks after parsing."""
    _, schemas = msgspec.json.schema_components(requests, ref_template=_REF)
    for title, schema in schemas.items():
        for name, field in schema.get("properties", {}).items():
            is_filled = name in schema.get("required", ()) and name not in _MAY_BE_BLANK.get(title, ())
            for kind in (field, *field.get("anyOf", ()), field.get("items", {})):
                _restrict(name, kind, is_filled=is_filled)
    return schemas


def _restrict(name: str, kind: dict[str, Any], *, is_filled: bool) -> None:
    """Add the rules for this field to one of its types."""
    if name in TIMES and kind.get("type") == "string":
        kind["format"] = "date-time"
    elif name in TIMES and kind.get("type") in ("integer", "number"):
        kind |= {"minimum": _FIRST_SECOND, "maximum": _LAST_MILLISECOND}
    elif name == "visibility" and kind.get("type") == "string":
        kind["enum"] = list(VISIBILITIES)
    elif kind.get("type") == "string" and "enum" not in kind and name != "messages":
        pattern = _NOT_BLANK if is_filled else _NO_NUL
        kind.update({"pattern": pattern} if name not in CONVERSATIONS else {"pattern": "\\S"} if is_filled else {})


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": route.summary,
        "description": f"Requires a key with the role {route.role}{'' if route.needs_key else ', if keys are in use'}.",
        "x-role": route.role,
        "operationId": route.path.strip("/").replace("/", "_").replace("-", "_") if route.raw else route.name,
        "parameters": [*parameters(route), *([] if route.public else [_CLIENT])],
        "security": [{}] if route.public else [{"key": []}, {"bearer": []}, {}],
        "responses": {
            **{str(status): _describe_reply(route, status) for status in route.statuses},
            "default": {
                "description": "The error, with a hint.",
                "content": {responses.JSON: {"schema": _error_schema(route)}},
            },
        },
    }
    if route.has_body and route.request:
        content: dict[str, Any] = {"schema": _ref(route.request)}
        if route.example:
            content["example"] = route.example
        needs_body = any(field.required for field in msgspec.structs.fields(route.request))
        operation["requestBody"] = {"required": needs_body, "content": {responses.JSON: content}}
    elif route.raw:
        operation["requestBody"] = {"required": True, "content": {responses.JSON: {"schema": {"type": "object"}}}}
    return operation


def _error_schema(route: Route) -> dict[str, Any]:
    error = _ref(responses.ErrorResponse)
    return {"anyOf": [error, _RPC_ERROR]} if route.path == "/mcp" else error


def _describe_reply(route: Route, status: int) -> dict[str, Any]:
    shape = route.schema(status)
    if status == 204:
        return {"description": "No content."}
    if isinstance(shape, str):
        return {"description": route.summary, "content": {shape.partition(";")[0]: {}}}
    return {"description": route.summary, "content": {responses.JSON: {"schema": _ref(shape)}}}


def _ref(shape: type) -> dict[str, str]:
    return {"$ref": _REF.format(name=shape.__name__)}
