"""HTTP transport of the client: JSON requests to the service, and its errors as exceptions."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode, urlsplit

from cofio.errors import InvalidInput, Misconfigured, Unavailable, class_for_code
from cofio.models.json_values import decode

if TYPE_CHECKING:
    import httpx2  # 0.1 s: imported for the first request

_Value = TypeVar("_Value")


class HttpTransport:
    """JSON requests over pooled keep-alive connections. Thread-safe."""

    def __init__(self, url: str, key: str, timeout: float) -> None:
        self._url = url.rstrip("/")
        self._timeout = timeout
        self._origin, self._base = _parse_url(self._url)
        self._headers = {"Accept": "application/json", **({"X-API-Key": _check_header(key, "The key")} if key else {})}

    @cached_property
    def _client(self) -> httpx2.Client:
        import httpx2

        is_secure = self._origin.startswith("https:")
        return httpx2.Client(
            # Loading the certificates of the system takes 60 ms.
            verify=ssl.create_default_context() if is_secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            trust_env=False,
            timeout=self._timeout,
            limits=httpx2.Limits(keepalive_expiry=None),
            headers={"User-Agent": "cofio", "Accept-Encoding": "identity"},
        )

    def get(self, kind: type[_Value], path: str, key: str = "", /, **params: Any) -> _Value:
        """Return the reply to a GET, or its field `key`, as a value of this type."""
        reply = self.ask("GET", path, **params)
        return decode(kind, reply[key] if key else reply)

    def post(self, kind: type[_Value], path: str, key: str = "", /, *, by: str = "", **body: Any) -> _Value:
        """Return the reply to a POST, or its field `key`, as a value of this type."""
        reply = self.ask("POST", path, body or None, by=by)
        return decode(kind, reply[key] if key else reply)

    def ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, /, *, by: str = "", **params: Any
    ) -> Any:
        """Return the JSON value of the reply; raise the service's errors as our exceptions."""
        headers = {"X-Cofio-Client": _check_header(by, "by")} if by else {}
        if body is not None:
            headers["Content-Type"] = "application/json"
        return self._parse_reply(self._send(method, path, params, None if body is None else _encode(body), headers))

    def read(self, path: str, **params: Any) -> bytes:
        """Return the body of a reply that is not JSON."""
        response = self._send("GET", path, params)
        if not response.is_success:
            self._parse_reply(response)
        return response.content

    def close(self) -> None:
        """Close the idle connections. The next request opens a new one."""
        if client := self.__dict__.pop("_client", None):
            client.close()

    def _send(
        self,
        method: str,
        path: str,
        params: Mapping[str, Any],
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        import httpx2

        query = urlencode({name: _format_parameter(value) for name, value in params.items() if value is not None})
        target = self._base + path + (f"?{query}" if query else "")
        request = self._client.build_request(
            method,
            self._origin,
            content=content,
            headers={**self._headers, **(headers or {})},
            extensions={"target": target.encode()},  # as it is: httpx would resolve dots in the path
        )
        try:
            try:
                return self._client.send(request)
            except (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError):
                # The service may have closed an idle connection. Only requests that change nothing are retried.
                if method != "GET":
                    raise
                return self._client.send(request)
        except (httpx2.RequestError, httpx2.InvalidURL) as error:
            raise self._map_error(error) from error

    def _parse_reply(self, response: httpx2.Response) -> ServiceReply:
        invalid = Unavailable(
            f"{self._url} is not a cofio service: it answered {response.status_code}.",
            "Another program may listen there; check the URL (--url, COFIO_URL).",
        )
        try:
            content = ServiceReply(json.loads(response.content), invalid)
            if response.is_success:
                return content
            error = content["error"]
            raise class_for_code(error["code"])(error["message"], error.get("hint", ""))
        except (ValueError, KeyError, TypeError) as error:
            raise invalid from error

    def _map_error(self, error: Exception) -> Unavailable:
        import httpx2

        if isinstance(error, httpx2.TimeoutException):
            hint = "It may be busy: retry, and see `cofio status`."
            return Unavailable(f"{self._url} did not answer within {self._timeout:g} s.", hint)
        hint = "Start the service with `cofio up`, or check the URL (--url, COFIO_URL)."
        cause: BaseException | None = error
        while cause:
            if isinstance(cause, ConnectionRefusedError):
                return Unavailable(f"No service listens at {self._url}.", hint)
            cause = cause.__cause__ or cause.__context__
        return Unavailable(f"{self._url} cannot be reached: {error or type(error).__name__}.", hint)


class ServiceReply(dict[str, Any]):
    """JSON reply; a missing field raises the error for a server that is not cofio."""

    def __init__(self, content: Any, invalid: Unavailable) -> None:
        if not isinstance(content, dict):
            raise TypeError(type(content).__name__)
        super().__init__(content)
        self._invalid = invalid

    def __missing__(self, _name: str) -> Any:
        raise self._invalid


def _parse_url(url: str) -> tuple[str, str]:
    """Return the origin and the path of the service."""
    try:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", parts.path
    except ValueError:
        pass
    raise Misconfigured(f"{url!r} is not a valid service URL.", "Use the form http://HOST:PORT.")


def _check_header(value: str, name: str) -> str:
    if not (value.isascii() and value.isprintable()):
        raise InvalidInput(f"{name} contains characters that cannot be sent in a header.", "Use printable ASCII.")
    return value


def _format_parameter(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _encode(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False, default=_to_plain).encode()
    except UnicodeEncodeError as error:
        raise InvalidInput("The text contains an unpaired surrogate.", "Send valid Unicode.") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(
            "The arguments cannot be written as JSON.", "Use texts, finite numbers, lists and objects."
        ) from error


def _to_plain(value: Any) -> Any:
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(type(value).__name__)
