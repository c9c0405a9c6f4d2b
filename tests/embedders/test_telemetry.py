"""The model's runtime reports to nobody. It does so from C++, unseen by the guard on Python's sockets."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path

_SECONDS = 16  # it reports about ten seconds after it was loaded
_SCRIPT = f"""
import sys, time
from pathlib import Path
from cofio.providers.embedders.local import LocalEmbedder
LocalEmbedder(Path(sys.argv[1]), download=False).embed(["quiet"], "query")
time.sleep({_SECONDS})
"""


def test_nothing_is_reported_to_the_maker_of_the_runtime(tmp_path: Path) -> None:
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        threading.Thread(target=_listen, args=(proxy, heard), daemon=True).start()
        address = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        names = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy")
        environment = {**dict.fromkeys(names, address), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
        done = subprocess.run(
            [sys.executable, "-c", _SCRIPT, str(tmp_path)], env=environment, capture_output=True, check=False
        )
    assert done.returncode == 0, done.stderr.decode()
    assert heard == []


def _listen(proxy: socket.socket, heard: list[bytes]) -> None:
    while True:
        try:
            caller, _ = proxy.accept()
        except OSError:
            return
        with caller:
            heard.append(caller.recv(1_024))
