"""Deliveries that wait on disk hold no secret, however they got there."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from cofio.hooks import spool, spool_redaction
from tests.hooks.conftest import PROMPT, Hook, make_event
from tests.hooks.test_spool_sender import wait_for

TOKEN = "gh" + "p_" + "aB3dE5gH7jK9mN1pQ3sT5vX7zA9cE1gI3kM5"
SAYS = f'The crane gateway wants {TOKEN} — "always"'


def is_clean(home: Path) -> bool:
    """Return whether no file has the token, and no file is being rewritten."""
    try:
        contents = {path.name: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    except FileNotFoundError:  # rewritten just now
        return False
    return not any(TOKEN.encode() in content or name.endswith(".part") for name, content in contents.items())


@pytest.mark.parametrize(
    "event",
    [{**PROMPT, "prompt": SAYS}, make_event("Stop", last_assistant_message=SAYS, more=[{"deep": SAYS}])],
    ids=["prompt", "stop"],
)
def test_spooled_event_is_redacted_and_complete(hook: Hook, event: dict[str, object]) -> None:
    hook(event)
    wait_for(lambda: is_clean(hook.home))  # on a busy machine another process does it
    clean = SAYS.replace(TOKEN, "[redacted:github-token]")
    assert hook.spooled == [json.loads(json.dumps(event).replace(TOKEN, "[redacted:github-token]"))]
    assert clean in hook.spooled[0].values()


def test_broken_event_in_spool_bad_is_redacted(hook: Hook) -> None:
    hook(json.dumps(make_event("Stop", last_assistant_message=SAYS)).encode()[:-2])
    wait_for(lambda: is_clean(hook.home))
    (kept,) = (hook.home / "spool" / "bad").iterdir()
    assert b"[redacted:github-token]" in kept.read_bytes()


def test_large_event_is_redacted_by_a_process_of_its_own(hook: Hook) -> None:
    hook(make_event("Stop", last_assistant_message=SAYS + " word" * spool_redaction.LARGEST))
    wait_for(lambda: is_clean(hook.home))
    (entry,) = spool.entries(hook.home)
    assert b"[redacted:github-token]" in entry.raw


def test_delivery_taken_by_the_service_meanwhile_does_not_come_back(tmp_path: Path) -> None:
    spool.write(os.fsencode(tmp_path), "codex", b"{}", at="", project="", event="Stop")
    (path,) = spool.waiting_files(tmp_path)
    spool_redaction._redact_file(path)
    assert len(spool.waiting_files(tmp_path)) == 1
    path.unlink()
    spool_redaction.run(str(tmp_path))
    assert spool.waiting_files(tmp_path) == []


def test_bad_deliveries_expire(tmp_path: Path) -> None:
    folder = tmp_path / "spool" / "bad"
    folder.mkdir(parents=True)
    for name, days in (("old", spool.BAD_DAYS + 1), ("new", spool.BAD_DAYS - 1)):
        (folder / name).write_text("x")
        os.utime(folder / name, (time.time() - 86_400 * days,) * 2)
    spool.expire_bad(tmp_path)
    assert [path.name for path in folder.iterdir()] == ["new"]
