"""The hooks endpoint: client JSON in, client JSON out, and the turn in the inbox."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from cofio.hooks import spool
from tests.http_api.caller import Caller, Response
from tests.http_api.conftest import Serve

WEB = "/home/ann/web"


def hook(service: Caller, client: str, project: str = WEB, **event: Any) -> Response:
    return service.post(f"/hooks/{client}", event, {"X-Cofio-Project": quote(project), "X-Cofio-Client": "hook"})


def wait_for_ledger(service: Caller, captured: int) -> dict[str, Any]:
    """Return the inbox_status, once `captured` items are processed."""
    for _ in range(600):
        inbox_status: dict[str, Any] = service.get("/inbox/status").json
        if inbox_status["captured"] - inbox_status["pending"] >= captured:
            return inbox_status
        time.sleep(0.05)
    raise AssertionError(inbox_status)


def test_session_start_returns_project_memories(service: Caller) -> None:
    service.post("/memory/add", {"text": "We deploy with Fly.io.", "project": WEB})
    answer = hook(service, "claude-code", hook_event_name="SessionStart", session_id="s1", source="startup")
    result = answer.json["hookSpecificOutput"]
    assert result["hookEventName"] == "SessionStart"
    assert "We deploy with Fly.io." in result["additionalContext"]
    assert result["additionalContext"].startswith("<cofio-memory>")


def test_session_start_without_memories_returns_204(service: Caller) -> None:
    answer = hook(service, "codex", hook_event_name="SessionStart", session_id="s1", source="startup")
    assert (answer.status, answer.body) == (204, b"")


def test_turn_sent_by_hooks_becomes_a_memory_for_other_clients(service: Caller) -> None:
    text = "We switched from Prisma to Drizzle."
    hook(service, "claude-code", hook_event_name="UserPromptSubmit", session_id="s1", prompt_id="p1", prompt=text)
    stop = hook(service, "claude-code", hook_event_name="Stop", session_id="s1", prompt_id="p1",
                last_assistant_message="Good choice.")  # fmt: skip
    assert (stop.status, stop.body) == (204, b"")
    assert wait_for_ledger(service, 1)["stored"] == 1
    start = hook(service, "codex", hook_event_name="SessionStart", session_id="c1", source="startup")
    assert "Drizzle" in start.json["hookSpecificOutput"]["additionalContext"]
    assert "claude-code/web" in start.json["hookSpecificOutput"]["additionalContext"]
    other = hook(service, "codex", "/srv/web", hook_event_name="SessionStart", session_id="c2", source="startup")
    assert other.status == 204


def test_project_defaults_to_the_working_directory(service: Caller, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path / "web")], check=True)
    (tmp_path / "web" / "src").mkdir()
    service.post("/memory/add", {"text": "We deploy with Fly.io.", "project": str((tmp_path / "web").resolve())})
    result = {"hook_event_name": "SessionStart", "session_id": "s1", "cwd": str(tmp_path / "web" / "src")}
    assert "Fly.io" in service.post("/hooks/claude-code", result).body.decode()


def test_project_header_with_non_ascii_characters_is_decoded(service: Caller) -> None:
    project = "/home/zoë/dépôt %41"
    service.post("/memory/add", {"text": "We deploy with Fly.io.", "project": project})
    answer = hook(service, "codex", project, hook_event_name="SessionStart", session_id="s1")
    assert "Fly.io" in answer.body.decode()


def test_hooks_require_the_api_key(serve: Serve) -> None:
    service = serve(api_key="secret")
    result = {"hook_event_name": "SessionStart", "session_id": "s1"}
    assert service.post("/hooks/claude-code", result).status == 401
    assert service.post("/hooks/claude-code", result, {"X-API-Key": "wrong"}).status in (401, 403)
    assert service.post("/hooks/claude-code", result, {"X-API-Key": "secret"}).status == 204


@pytest.mark.parametrize("body", [b"", b"null", b"[1]", b'{"half": '])
def test_invalid_hook_body_is_rejected(service: Caller, body: bytes) -> None:
    response = service.send("POST", "/hooks/codex", body)
    assert response.status == 400
    assert response.error["hint"]


def test_unknown_client_returns_404(service: Caller) -> None:
    assert service.post("/hooks/emacs", {"hook_event_name": "Stop"}).status == 404


def test_long_session_id_is_accepted(service: Caller) -> None:
    answer = hook(service, "codex", hook_event_name="Stop", session_id="s" * 5_000, turn_id="t" * 5_000,
                  last_assistant_message="We use pnpm.")  # fmt: skip
    assert answer.status == 204
    assert service.get("/inbox/status").json["captured"] == 1


def test_session_end_captures_the_transcript_before_responding(serve: Serve, tmp_path: Path) -> None:
    home = tmp_path / "home"
    service = serve(home=home)
    line = {"type": "user", "sessionId": "s1", "uuid": "u1", "promptId": "p1",
            "message": {"role": "user", "content": "We switched from Prisma to Drizzle."}}  # fmt: skip
    path = tmp_path / "s1.jsonl"
    path.write_text(json.dumps(line) + "\n")
    answer = hook(service, "claude-code", hook_event_name="SessionEnd", session_id="s1", transcript_path=str(path))
    assert answer.status == 204
    assert wait_for_ledger(service, 1)["stored"] == 1
    assert [path for path in (home / "spool").iterdir() if path.is_file()] == []


def test_purge_removes_matching_deliveries_from_the_spool(serve: Serve, tmp_path: Path) -> None:
    home = tmp_path / "home"
    service = serve(home=home)
    text = "We switched from Prisma to Drizzle."
    body = service.post("/memory/add", {"text": text, "project": WEB}).json["id"]
    raw = json.dumps({"hook_event_name": "Stop", "session_id": "s1", "prompt_id": "p1", "last_assistant_message": text})
    spool.store_delivery(home, "claude-code", raw.encode(), at="", project=WEB, event="Stop")
    assert service.delete(f"/memory/{body}", purge="true").status == 200
    wait_for_ledger(service, 1)
    assert service.get("/memories").json["memories"] == []
