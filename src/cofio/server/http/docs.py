"""Docs page: the OpenAPI document as one HTML file that loads nothing else, not even a script."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from cofio.server.http.openapi import parameters
from cofio.server.http.operations import Route
from cofio.server.http.responses import HandlerReply
from cofio.version import __version__

_STYLE = files("cofio.server.http").joinpath("docs.css").read_text(encoding="utf-8")
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY = f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>cofio {version}: HTTP API</title>
<style>{style}</style>
</head>
<body>
<h1>cofio <span class="dim">{version}</span></h1>
<p>Requests and responses are JSON. If an API key is required, send it as <code>X-API-Key</code> or as a bearer token.
Changes are recorded under the name in <code>X-Cofio-Client</code>. The same document for programs:
<a href="openapi.json">openapi.json</a>.</p>
<p>Every error has a message and a hint: <code>{{"error": {{"code", "message", "hint"}}}}</code>.</p>
<h2>Routes</h2>
{routes}
<h2>Schemas</h2>
{shapes}
</body>
</html>
"""


def page(routes: Sequence[Route], document: Mapping[str, Any]) -> HandlerReply:
    """Return the page, with a policy that allows only its own style."""
    schemas = document["components"]["schemas"]
    html = _PAGE.format(
        version=escape(__version__),
        style=_STYLE,
        routes="\n".join(_route(route, schemas) for route in routes),
        shapes="\n".join(
            f'<details id="{escape(name)}"><summary><code>{escape(name)}</code></summary>'
            f"<div>{_table(_rows(schemas[name], '', 'optional'))}</div></details>"
            for name in sorted(schemas)
        ),
    )
    return HandlerReply(html.encode(), media="text/html; charset=utf-8", headers={"Content-Security-Policy": _POLICY})


def _route(route: Route, schemas: Mapping[str, Any]) -> str:
    rows = [
        _row(parameter["name"], parameter["schema"], "required" * parameter["required"])
        for parameter in parameters(route)
    ]
    if route.has_body and route.request:
        rows += _rows(schemas[route.request.__name__], "required", "")
    schema = route.schema()
    response = schema if isinstance(schema, str) else _link(schema.__name__)
    role = "" if route.public else f" Requires a key with the role <b>{route.role}</b>, if keys are in use."
    example = ""
    if route.example:
        sent = escape(json.dumps(route.example, ensure_ascii=False))
        method = "" if route.method == "POST" else f"-X {route.method} "
        example = f"<pre>curl {method}--json '{sent}' $COFIO_URL{route.sample_path}</pre>"
    parts = [_table(rows), example, f"<p>Returns {response}.{role}</p>"]
    head = f"<b>{route.method}</b><code>{escape(route.path)}</code><span>{escape(route.summary)}</span>"
    return f"<details><summary>{head}</summary><div>{''.join(parts)}</div></details>"


def _rows(schema: Mapping[str, Any], required: str, optional: str) -> list[str]:
    needed = schema.get("required", ())
    names = sorted(schema["properties"], key=lambda name: name not in needed)
    return [_row(name, schema["properties"][name], required if name in needed else optional) for name in names]


def _row(name: str, schema: Mapping[str, Any], word: str) -> str:
    default = "" if schema.get("default") in (None, "") else f"default {json.dumps(schema['default'])}"
    says = ". ".join(part for part in (word, default, str(schema.get("description", ""))) if part)
    return f"<tr><td><code>{escape(name)}</code></td><td>{_kind(schema)}</td><td>{escape(says)}</td></tr>"


def _table(rows: Sequence[str]) -> str:
    return f"<table><tr><th>field</th><th>type</th><th></th></tr>{''.join(rows)}</table>" if rows else ""


def _kind(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return _link(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " or ".join(_kind(option) for option in schema["anyOf"])
    if "enum" in schema:
        return escape(" | ".join(str(option) for option in schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    least, most = schema.get("minimum"), schema.get("maximum")
    between = f" {least} to {most}" if least is not None and most is not None and most < 2**53 else ""
    return escape(f"{schema.get('type', 'any')}{between}")


def _link(name: str) -> str:
    return f'<a href="#{escape(name)}">{escape(name)}</a>'
