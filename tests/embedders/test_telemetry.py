"""The model's runtime sends no telemetry. It would do so from C++, unnoticed by the guard on Python's sockets."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path

_SECONDS = 16  # it would report about ten seconds after loading
_SCRIPT = f"""
import sys, time
from pathlib import Path
from cofio.providers.embedders.local import LocalEmbedder
LocalEmbedder(Path(sys.argv[1]), download=False).embed(["quiet"], "query")
time.sleep({_SECONDS})
"""


def test_runtime_sends_no_telemetry(tmp_path: Path) -> None:
    requests: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        threading.Thread(target=_listen, args=(proxy, requests), daemon=True).start()
        address = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        names = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy")
        environment = {**dict.fromkeys(names, address), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
        process = subprocess.run(
            [sys.executable, "-c", _SCRIPT, str(tmp_path)], env=environment, capture_output=True, check=False
        )
    assert process.returncode == 0, process.stderr.decode()
    assert requests == []


def _listen(proxy: socket.socket, requests: list[bytes]) -> None:
    while True:
        try:
            caller, _ = proxy.accept()
        except OSError:
            return
        with caller:
            requests.append(caller.recv(1_024))
