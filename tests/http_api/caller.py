"""A plain HTTP client for the tests: it holds every reply against its documented shape and its headers."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec

from cofio.server.http import responses
from cofio.server.http.routes import ROUTES


@dataclass(frozen=True)
class Answer:
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
    """Calls the service at a URL; `headers` go with every request. `source` is the address that it calls from."""

    def __init__(self, url: str, headers: Mapping[str, Any] | None = None, source: str = "") -> None:
        parts = urlsplit(url)
        self.url = url
        self.host, self.port = parts.hostname or "", parts.port or 80
        self._headers = dict(headers or {})
        self._source = (source, 0) if source else None

    def having(self, key: str, source: str = "") -> Caller:
        """The same service, called with this key."""
        return Caller(self.url, {**self._headers, "X-API-Key": key} if key else self._headers, source)

    def get(self, path: str, headers: Mapping[str, Any] | None = None, **query: Any) -> Answer:
        return self.send("GET", path + _query(query), headers=headers)

    def post(self, path: str, given: Any = None, headers: Mapping[str, Any] | None = None) -> Answer:
        return self.send("POST", path, None if given is None else json.dumps(given).encode(), headers)

    def patch(self, path: str, given: Any) -> Answer:
        return self.send("PATCH", path, json.dumps(given).encode())

    def delete(self, path: str, **query: Any) -> Answer:
        return self.send("DELETE", path + _query(query))

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, Any] | None = None,
        connection: HTTPConnection | None = None,
    ) -> Answer:
        using = connection or HTTPConnection(self.host, self.port, timeout=60, source_address=self._source)
        chunked = body is not None and not isinstance(body, bytes)
        try:
            using.request(method, path, body, {**self._headers, **(headers or {})}, encode_chunked=chunked)
            response = using.getresponse()
            return checked(method, path, begun(response) if path == "/events" else read(response))
        finally:
            if connection is None:
                using.close()

    def raw(self, sent: bytes) -> Answer:
        """Send bytes as they are, and read one reply."""
        with socket.create_connection((self.host, self.port), timeout=60) as wire:
            wire.sendall(sent)
            response = HTTPResponse(wire)
            response.begin()
            try:
                return read(response)
            finally:
                response.close()


def read(response: HTTPResponse) -> Answer:
    headers = {name.lower(): value for name, value in response.getheaders()}
    return Answer(response.status, headers, response.read())


def begun(response: HTTPResponse) -> Answer:
    """The reply, as far as its first event where it goes on for as long as it is read."""
    headers = {name.lower(): value for name, value in response.getheaders()}
    endless = headers["content-type"].startswith("text/event-stream")
    return Answer(response.status, headers, response.readline() if endless else response.read())


def checked(method: str, path: str, answer: Answer) -> Answer:
    """The answer, once its shape and its headers are known to be what we promise."""
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "server" not in answer.headers
    assert not any(name.startswith("access-control") for name in answer.headers)
    if method == "HEAD":
        return answer
    if answer.status >= 400 and path == "/mcp" and "jsonrpc" in answer.json:
        assert isinstance(answer.json["error"]["code"], int)  # an error of the protocol, as the SDK words it
        return answer
    if answer.status >= 400:
        fault = msgspec.convert(answer.json, responses.ErrorResponse).error
        assert fault.code
        assert fault.message
        assert fault.hint
        return answer
    [route] = [each for each in ROUTES if each.method == method and _matches(each.path, path)][:1]
    assert answer.status in route.statuses
    if isinstance(route.response, str):
        media = answer.headers["content-type"]
        assert route.response == "*/*" or media.startswith(route.response.partition(";")[0])
    else:
        msgspec.convert(answer.json, route.schema(answer.status))
    return answer


def _matches(template: str, path: str) -> bool:
    pattern = re.sub(r"{\w+}", "[^/]+", template.replace("{id}", "[0-9]+"))
    return bool(re.fullmatch(pattern, path.partition("?")[0]))


def _query(query: Mapping[str, Any]) -> str:
    return f"?{urlencode(query)}" if query else ""
