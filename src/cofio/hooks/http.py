"""HTTP client of the hook: one POST over one connection; only a complete reply counts.

On the fast path: `_socket` (half a millisecond) instead of `socket` (ten) and `http.client` (thirty-five), which only
https needs.
"""

from __future__ import annotations

import _socket
import posix
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cofio.hooks.environment import HookEnvironment

_MOST = 1_048_576  # maximum bytes of a reply; a briefing has about ten thousand
_SAFE = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/"


class NoAnswer(Exception):
    """No usable reply, and one word why. `sick`: the service hung or sent an invalid reply; a retry would too."""

    def __init__(self, why: str, *, sick: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.sick = sick


class HookRequest:
    """A request and its deadline on the monotonic clock."""

    def __init__(
        self, around: HookEnvironment, client: str, project: str, body: bytes, until: float, *, at: str = ""
    ) -> None:
        """Set address, headers and body. `at`: the time of the event if it was not just now."""
        self.scheme, _, rest = around.url.partition("://")
        self.scheme = self.scheme.lower()
        self.host, slash, prefix = rest.partition("/") if self.scheme != "unix" else ("localhost", "/", "")
        self.host = self.host.rpartition("@")[2]
        self.socket = rest if self.scheme == "unix" else ""
        self.path = f"{(slash + prefix).rstrip('/')}/hooks/{client}"
        self.body, self.until = body, until
        self.headers = {"Content-Type": "application/json", "X-Cofio-Client": "hook"}
        self.headers["X-Cofio-Project"] = percent_encode(project)
        for name, value in (("X-API-Key", around.key), ("X-Cofio-At", at)):
            if value:
                self.headers[name] = value.replace("\r", "").replace("\n", "")

    def left(self) -> float:
        """Return the seconds left until the deadline. Raise NoAnswer if it has passed."""
        seconds = self.until - time.monotonic()
        if seconds <= 0:
            raise NoAnswer("timeout", sick=True)
        return seconds


def ask(request: HookRequest) -> tuple[int, bytes]:
    """Return status and body of the reply. Raise NoAnswer if it is late or incomplete."""
    if request.scheme not in ("http", "https", "unix"):
        raise NoAnswer("address")
    try:
        if request.scheme == "https":
            return _ask_over_tls(request)
        connection = _connect(request)
        try:
            return _exchange(connection, request)
        finally:
            connection.close()
    except TimeoutError:
        raise NoAnswer("timeout", sick=True) from None
    except (ConnectionRefusedError, FileNotFoundError):
        raise NoAnswer("refused") from None
    except (OSError, ValueError):  # ValueError: an invalid host name
        raise NoAnswer("broken") from None


def percent_encode(text: str) -> str:
    """Percent-encode text for a header or a URI."""
    return "".join(chr(byte) if byte in _SAFE else f"%{byte:02X}" for byte in text.encode("utf-8", "surrogateescape"))


def _connect(request: HookRequest) -> _socket.socket:
    problem: OSError | None = None
    for family, address in _resolve(request):
        seconds = request.left()
        connection = _socket.socket(family, _socket.SOCK_STREAM)
        try:
            connection.settimeout(seconds)
            connection.connect(address)
        except OSError as error:
            connection.close()
            problem = error
        else:
            return connection
    raise problem or NoAnswer("address")


def _resolve(request: HookRequest) -> list[tuple[int, str | tuple[str, int]]]:
    """Return the addresses to try, in order. Only names other than IP addresses and localhost are resolved."""
    if request.socket:
        return [(_socket.AF_UNIX, request.socket)]
    host, port = _split_host(request.host)
    if host == "localhost":
        return [(_socket.AF_INET, ("127.0.0.1", port)), (_socket.AF_INET6, ("::1", port))]
    if ":" in host:
        return [(_socket.AF_INET6, (host, port))]
    if host.replace(".", "").isdigit():
        return [(_socket.AF_INET, (host, port))]
    try:
        results = _socket.getaddrinfo(host, port, 0, _socket.SOCK_STREAM)
    except OSError:
        raise NoAnswer("unknown") from None
    return [(family, (str(address[0]), port)) for family, _, _, _, address in results]


def _split_host(host: str) -> tuple[str, int]:
    name, _, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
    if not name:  # no colon
        name, port = host, ""
    if port and not (port.isascii() and port.isdigit() and int(port) < 65_536):
        raise NoAnswer("address")
    return name.strip("[]"), int(port or 80)


def _exchange(connection: _socket.socket, request: HookRequest) -> tuple[int, bytes]:
    lines = [f"POST {request.path} HTTP/1.1", f"Host: {request.host}", f"Content-Length: {len(request.body)}"]
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    head = "\r\n".join((*lines, "Connection: close", "", "")).encode("latin-1", "replace")
    try:
        connection.settimeout(request.left())
        connection.sendall(head + request.body)
    except (BrokenPipeError, ConnectionResetError):
        pass  # if the service hangs up early, its reply may explain why

    received = b""
    while b"\r\n\r\n" not in received:
        received += _receive(connection, request, received)
        if len(received) > _MOST or not received.startswith(b"HTTP/1."[: len(received)]):
            raise NoAnswer("garbage", sick=True)
    head, _, body = received.partition(b"\r\n\r\n")
    status, length = _parse_head(head)
    while len(body) < length:
        body += _receive(connection, request, received)
    return status, body[:length]


def _receive(connection: _socket.socket, request: HookRequest, received: bytes) -> bytes:
    connection.settimeout(request.left())
    chunk = connection.recv(65_536)
    if not chunk:
        raise NoAnswer("half" if received else "broken", sick=bool(received))
    return chunk


def _parse_head(head: bytes) -> tuple[int, int]:
    """Return the status and the body's length. A reply without a length cannot be known to be complete."""
    status_line, *lines = head.split(b"\r\n")
    status = status_line.split(b" ")[1:2]
    if not status or not status[0].isdigit() or len(status[0]) != 3:
        raise NoAnswer("garbage", sick=True)
    if status[0] == b"204":
        return 204, 0
    for line in lines:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit() and int(value) <= _MOST:
            return int(status[0]), int(value)
    raise NoAnswer("garbage", sick=status[0] == b"200")


def _ask_over_tls(request: HookRequest) -> tuple[int, bytes]:
    import http.client

    host, port = _split_host(request.host if ":" in request.host.rpartition("]")[2] else f"{request.host}:443")
    connection = http.client.HTTPSConnection(host, port, timeout=request.left())
    try:
        connection.request("POST", request.path, request.body, request.headers)
        reply = connection.getresponse()
        return reply.status, reply.read(_MOST + 1)
    except http.client.HTTPException:
        raise NoAnswer("garbage", sick=True) from None
    finally:
        connection.close()


def write(file: int, content: bytes) -> None:
    """Write all bytes, in one piece if the pipe accepts it."""
    while content:
        content = content[posix.write(file, content) :]
