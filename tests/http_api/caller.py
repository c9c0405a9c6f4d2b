"""HTTP client for the tests. It checks every response against the documented schema and the security headers."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec

from cofio.server import service_key
from cofio.server.http import responses
from cofio.server.http.routes import ROUTES


@dataclass(frozen=True)
class Response:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, str]:
        return self.json["error"]


class Caller:
    """Client of the service at a URL. `headers` go with every request; `source` is the local address to connect from;
    `home` is the home of the service."""

    def __init__(
        self, url: str, headers: Mapping[str, Any] | None = None, source: str = "", home: Path | None = None
    ) -> None:
        parts = urlsplit(url)
        self.url = url
        self.host, self.port = parts.hostname or "", parts.port or 80
        self._headers = dict(headers or {})
        self._source = (source, 0) if source else None
        self._home = home

    def with_key(self, key: str, source: str = "") -> Caller:
        """Return a client of the same service that sends this key."""
        return Caller(self.url, {**self._headers, "X-API-Key": key} if key else self._headers, source, self._home)

    @property
    def owner(self) -> Caller:
        """A client of the same service that sends the key of its home, as the owner's commands do."""
        assert self._home
        return self.with_key(service_key.read(self._home))

    def get(self, path: str, headers: Mapping[str, Any] | None = None, **query: Any) -> Response:
        return self.send("GET", path + _query(query), headers=headers)

    def post(self, path: str, body: Any = None, headers: Mapping[str, Any] | None = None) -> Response:
        return self.send("POST", path, None if body is None else json.dumps(body).encode(), headers)

    def patch(self, path: str, body: Any) -> Response:
        return self.send("PATCH", path, json.dumps(body).encode())

    def delete(self, path: str, **query: Any) -> Response:
        return self.send("DELETE", path + _query(query))

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, Any] | None = None,
        connection: HTTPConnection | None = None,
    ) -> Response:
        http_connection = connection or HTTPConnection(self.host, self.port, timeout=60, source_address=self._source)
        chunked = body is not None and not isinstance(body, bytes)
        json_type = {} if body is None else {"Content-Type": "application/json"}
        sent = {**json_type, **self._headers, **(headers or {})}
        try:
            http_connection.request(method, path, body, sent, encode_chunked=chunked)
            response = http_connection.getresponse()
            return check_response(
                method, path, read_first_event(response) if path == "/events" else read_response(response)
            )
        finally:
            if connection is None:
                http_connection.close()

    def raw(self, content: bytes) -> Response:
        """Send raw bytes and read one response."""
        with socket.create_connection((self.host, self.port), timeout=60) as connection:
            connection.sendall(content)
            response = HTTPResponse(connection)
            response.begin()
            try:
                return read_response(response)
            finally:
                response.close()


def read_response(response: HTTPResponse) -> Response:
    headers = {name.lower(): value for name, value in response.getheaders()}
    return Response(response.status, headers, response.read())


def read_first_event(response: HTTPResponse) -> Response:
    """Read the response, up to the first event if it is an event stream."""
    headers = {name.lower(): value for name, value in response.getheaders()}
    endless = headers["content-type"].startswith("text/event-stream")
    return Response(response.status, headers, response.readline() if endless else response.read())


def check_response(method: str, path: str, response: Response) -> Response:
    """Check headers, status and schema of the response, and return it."""
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["referrer-policy"] == "no-referrer"
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert "server" not in response.headers
    assert not any(name.startswith("access-control") for name in response.headers)
    if method == "HEAD":
        return response
    if response.status >= 400 and path == "/mcp" and "jsonrpc" in response.json:
        assert isinstance(response.json["error"]["code"], int)  # JSON-RPC error of the MCP SDK
        return response
    if response.status >= 400:
        fault = msgspec.convert(response.json, responses.ErrorResponse).error
        assert fault.code
        assert fault.message
        assert fault.hint
        return response
    [route] = [route for route in ROUTES if route.method == method and _matches(route.path, path)][:1]
    assert response.status in route.statuses
    if isinstance(route.response, str):
        media = response.headers["content-type"]
        assert route.response == "*/*" or media.startswith(route.response.partition(";")[0])
    else:
        msgspec.convert(response.json, route.schema(response.status))
    return response


def _matches(template: str, path: str) -> bool:
    pattern = re.sub(r"{\w+}", "[^/]+", template.replace("{id}", "[0-9]+"))
    return bool(re.fullmatch(pattern, path.partition("?")[0]))


def _query(query: Mapping[str, Any]) -> str:
    return f"?{urlencode(query)}" if query else ""
