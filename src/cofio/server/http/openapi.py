"""OpenAPI document, generated from the list of routes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from cofio.models.domain_knowledge import MAX_ID, TABLES
from cofio.server.http import responses
from cofio.server.http.operations import Route
from cofio.version import __version__

_REF = "#/components/schemas/{name}"
_ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "integer", "minimum": 1}}
_TABLE = {"name": "table", "in": "path", "required": True, "schema": {"type": "string", "enum": list(TABLES)}}
_ROW = {"name": "row", "in": "path", "required": True, "schema": {"type": "string", "maxLength": MAX_ID}}
_FILE = {"name": "file", "in": "path", "required": True, "schema": {"type": "string"}}
_PATH = {"{id}": _ID, "{table}": _TABLE, "{row}": _ROW, "{file}": _FILE}
_CLIENT = {"name": "X-Cofio-Client", "in": "header", "schema": {"type": "string", "maxLength": 100}}
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
    _, schemas = msgspec.json.schema_components([*bodies, *shapes, responses.ErrorResponse], ref_template=_REF)
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
    path_parameters = [parameter for name, parameter in _PATH.items() if name in route.path]
    if route.request is None or route.has_body:
        return path_parameters
    schema = msgspec.json.schema_components([route.request])[1][route.request.__name__]
    required = schema.get("required", ())
    return path_parameters + [
        {"name": name, "in": "query", "required": name in required, "schema": parameter, "explode": False}
        for name, parameter in schema["properties"].items()
    ]


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": route.summary,
        "description": f"Requires a key with the role {route.role}, if keys are in use.",
        "x-role": route.role,
        "operationId": route.path.strip("/").replace("/", "_").replace("-", "_") if route.raw else route.name,
        "parameters": [*parameters(route), *([] if route.public else [_CLIENT])],
        "security": [{}] if route.public else [{"key": []}, {"bearer": []}, {}],
        "responses": {
            **{str(status): _describe_reply(route, status) for status in route.statuses},
            "default": _describe_error(),
        },
    }
    if route.has_body and route.request:
        content: dict[str, Any] = {"schema": _ref(route.request)}
        if route.example:
            content["example"] = route.example
        operation["requestBody"] = {"required": needs_body(route), "content": {responses.JSON: content}}
    elif route.raw:
        operation["requestBody"] = {"required": True, "content": {responses.JSON: {"schema": {"type": "object"}}}}
    return operation


def needs_body(route: Route) -> bool:
    """Return whether an empty body is invalid."""
    return route.request is not None and any(field.required for field in msgspec.structs.fields(route.request))


def _describe_reply(route: Route, status: int) -> dict[str, Any]:
    shape = route.schema(status)
    if status == 204:
        return {"description": "No content."}
    if isinstance(shape, str):
        return {"description": route.summary, "content": {shape.partition(";")[0]: {}}}
    return {"description": route.summary, "content": {responses.JSON: {"schema": _ref(shape)}}}


def _describe_error() -> dict[str, Any]:
    return {
        "description": "The error, with a hint.",
        "content": {responses.JSON: {"schema": _ref(responses.ErrorResponse)}},
    }


def _ref(shape: type) -> dict[str, str]:
    return {"$ref": _REF.format(name=shape.__name__)}
