"""The hooks' own route: a client's JSON in, the client's JSON out, and the turn in the inbox."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from cofio.hooks import spool
from tests.http_api.caller import Answer, Caller
from tests.http_api.conftest import Serve

WEB = "/home/ann/web"


def hook(service: Caller, client: str, project: str = WEB, **told: Any) -> Answer:
    return service.post(f"/hooks/{client}", told, {"X-Cofio-Project": quote(project), "X-Cofio-Client": "hook"})


def settled(service: Caller, captured: int) -> dict[str, Any]:
    """The inbox_status, once it has settled so many."""
    for _ in range(600):
        inbox_status: dict[str, Any] = service.get("/inbox/status").json
        if inbox_status["captured"] - inbox_status["pending"] >= captured:
            return inbox_status
        time.sleep(0.05)
    raise AssertionError(inbox_status)


def test_a_session_start_is_answered_with_the_projects_memories(service: Caller) -> None:
    service.post("/memory/add", {"text": "We deploy with Fly.io.", "project": WEB})
    answer = hook(service, "claude-code", hook_event_name="SessionStart", session_id="s1", source="startup")
    told = answer.json["hookSpecificOutput"]
    assert told["hookEventName"] == "SessionStart"
    assert "We deploy with Fly.io." in told["additionalContext"]
    assert told["additionalContext"].startswith("<cofio-memory>")


def test_nothing_to_say_is_no_content(service: Caller) -> None:
    answer = hook(service, "codex", hook_event_name="SessionStart", session_id="s1", source="startup")
    assert (answer.status, answer.body) == (204, b"")


def test_a_turn_goes_in_by_the_hooks_and_comes_out_as_a_memory_elsewhere(service: Caller) -> None:
    said = "We switched from Prisma to Drizzle."
    hook(service, "claude-code", hook_event_name="UserPromptSubmit", session_id="s1", prompt_id="p1", prompt=said)
    stop = hook(service, "claude-code", hook_event_name="Stop", session_id="s1", prompt_id="p1",
                last_assistant_message="Good choice.")  # fmt: skip
    assert (stop.status, stop.body) == (204, b"")
    assert settled(service, 1)["stored"] == 1
    start = hook(service, "codex", hook_event_name="SessionStart", session_id="c1", source="startup")
    assert "Drizzle" in start.json["hookSpecificOutput"]["additionalContext"]
    assert "claude-code/web" in start.json["hookSpecificOutput"]["additionalContext"]
    other = hook(service, "codex", "/srv/web", hook_event_name="SessionStart", session_id="c2", source="startup")
    assert other.status == 204


def test_the_project_may_come_from_the_working_directory(service: Caller, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path / "web")], check=True)
    (tmp_path / "web" / "src").mkdir()
    service.post("/memory/add", {"text": "We deploy with Fly.io.", "project": str((tmp_path / "web").resolve())})
    told = {"hook_event_name": "SessionStart", "session_id": "s1", "cwd": str(tmp_path / "web" / "src")}
    assert "Fly.io" in service.post("/hooks/claude-code", told).body.decode()


def test_a_project_with_letters_of_any_kind_is_the_same_by_header(service: Caller) -> None:
    where = "/home/zoë/dépôt %41"
    service.post("/memory/add", {"text": "We deploy with Fly.io.", "project": where})
    answer = hook(service, "codex", where, hook_event_name="SessionStart", session_id="s1")
    assert "Fly.io" in answer.body.decode()


def test_hooks_need_the_key_like_everything_else(serve: Serve) -> None:
    service = serve(api_key="secret")
    told = {"hook_event_name": "SessionStart", "session_id": "s1"}
    assert service.post("/hooks/claude-code", told).status == 401
    assert service.post("/hooks/claude-code", told, {"X-API-Key": "wrong"}).status in (401, 403)
    assert service.post("/hooks/claude-code", told, {"X-API-Key": "secret"}).status == 204


@pytest.mark.parametrize("body", [b"", b"null", b"[1]", b'{"half": '])
def test_what_is_no_hook_is_refused_with_a_word(service: Caller, body: bytes) -> None:
    answer = service.send("POST", "/hooks/codex", body)
    assert answer.status == 400
    assert answer.error["hint"]


def test_a_client_that_is_not_known_has_no_route(service: Caller) -> None:
    assert service.post("/hooks/emacs", {"hook_event_name": "Stop"}).status == 404


def test_a_long_name_of_a_session_is_no_obstacle(service: Caller) -> None:
    answer = hook(service, "codex", hook_event_name="Stop", session_id="s" * 5_000, turn_id="t" * 5_000,
                  last_assistant_message="We use pnpm.")  # fmt: skip
    assert answer.status == 204
    assert service.get("/inbox/status").json["captured"] == 1


def test_what_a_session_ends_with_is_kept_before_the_answer(serve: Serve, tmp_path: Path) -> None:
    home = tmp_path / "home"
    service = serve(home=home)
    line = {"type": "user", "sessionId": "s1", "uuid": "u1", "promptId": "p1",
            "message": {"role": "user", "content": "We switched from Prisma to Drizzle."}}  # fmt: skip
    path = tmp_path / "s1.jsonl"
    path.write_text(json.dumps(line) + "\n")
    answer = hook(service, "claude-code", hook_event_name="SessionEnd", session_id="s1", transcript_path=str(path))
    assert answer.status == 204
    assert settled(service, 1)["stored"] == 1
    assert [each for each in (home / "spool").iterdir() if each.is_file()] == []


def test_a_purge_reaches_what_waits_in_the_spool(serve: Serve, tmp_path: Path) -> None:
    home = tmp_path / "home"
    service = serve(home=home)
    said = "We switched from Prisma to Drizzle."
    made = service.post("/memory/add", {"text": said, "project": WEB}).json["id"]
    raw = json.dumps({"hook_event_name": "Stop", "session_id": "s1", "prompt_id": "p1", "last_assistant_message": said})
    spool.store_delivery(home, "claude-code", raw.encode(), at="", project=WEB, event="Stop")
    assert service.delete(f"/memory/{made}", purge="true").status == 200
    settled(service, 1)
    assert service.get("/memories").json["memories"] == []
