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
#: Schema of each name in a path.
_PATH = {
    "id": {"type": "integer", "minimum": 1},
    "table": {"type": "string", "enum": list(TABLES)},
    "row": {"type": "string", "maxLength": MAX_ID},
    "file": {"type": "string"},
}
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
    path_parameters = [
        {"name": name, "in": "path", "required": True, "schema": schema}
        for name, schema in _PATH.items()
        if f"{{{name}}}" in route.path
    ]
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
        "description": f"Requires a key with the role {route.role}{'' if route.needs_key else ', if keys are in use'}.",
        "x-role": route.role,
        "operationId": route.path.strip("/").replace("/", "_").replace("-", "_") if route.raw else route.name,
        "parameters": [*parameters(route), *([] if route.public else [_CLIENT])],
        "security": [{}] if route.public else [{"key": []}, {"bearer": []}, {}],
        "responses": {
            **{str(status): _describe_reply(route, status) for status in route.statuses},
            "default": {
                "description": "The error, with a hint.",
                "content": {responses.JSON: {"schema": _ref(responses.ErrorResponse)}},
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


def _describe_reply(route: Route, status: int) -> dict[str, Any]:
    shape = route.schema(status)
    if status == 204:
        return {"description": "No content."}
    if isinstance(shape, str):
        return {"description": route.summary, "content": {shape.partition(";")[0]: {}}}
    return {"description": route.summary, "content": {responses.JSON: {"schema": _ref(shape)}}}


def _ref(shape: type) -> dict[str, str]:
    return {"$ref": _REF.format(name=shape.__name__)}
