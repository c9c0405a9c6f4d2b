"""A proxy that all clients must use. It blocks every request and records it."""

from __future__ import annotations

import socketserver
import threading
from types import TracebackType
from typing import Self


class Outside:
    """A blocking proxy on loopback. `asked` lists the requests, such as "CONNECT example.com:443"."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), self._desk())
        self._server.daemon_threads = True

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def _desk(self) -> type[socketserver.StreamRequestHandler]:
        request = self.asked

        class Desk(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                line = self.rfile.readline(2_000).decode("latin-1").strip()
                if not line:
                    return  # the client disconnected before sending a request
                request.append(line.rsplit(" ", 1)[0])
                self.wfile.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

        return Desk
