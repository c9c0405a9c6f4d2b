"""Delivery from the spool to a remote service, end to end."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from cofio.hooks import launcher, spool
from tests.http_api.conftest import Serve


def test_spooled_event_is_delivered_to_remote_service_with_its_time(serve: Serve, tmp_path: Path) -> None:
    service = serve(home=tmp_path / "there")
    home = tmp_path / "here"
    home.mkdir()
    event = {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "prompt_id": "p1",
            "prompt": "We switched from Prisma to Drizzle."}  # fmt: skip
    said_at = "2025-12-31T10:00:00.000000+00:00"
    spool.store_delivery(
        home,
        "claude-code",
        json.dumps(event).encode(),
        at=said_at,
        project="/home/ann/web",
        event=event["hook_event_name"],
    )
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "COFIO_URL": f"http://127.0.0.1:{service.port}"}
    command = [sys.executable, "-I", "-S", str(launcher.ENTRY), "--home", str(home), "--drain"]
    result = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=60)
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")
    assert list(spool.entries(home)) == []
    for _ in range(100):
        items = service.get("/inbox").json["items"]
        if items:
            break
        time.sleep(0.05)
    [item] = items
    assert item["exchange"]["at"].startswith("2025-12-31T10:00:00")
    assert item["exchange"]["project"] == "/home/ann/web"
