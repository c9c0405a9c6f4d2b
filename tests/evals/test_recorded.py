"""Recorded replies of a large model, replayed through the providers' interfaces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evals import recorded

STREAM = recorded.SET / "b-soilnode.json"


@pytest.mark.parametrize("provider", recorded.PROVIDERS)
def test_stream_is_learned_from_the_recorded_replies(provider: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert recorded.main([str(STREAM), "--provider", provider]) == 0
    output = capsys.readouterr().out
    assert "; 0 prompts without a reply" in output
    assert "updates: 5 of 5" in output


def test_every_reply_is_an_object_named_by_a_digest() -> None:
    replies = recorded.read_replies()
    assert len(replies) > 100
    assert all(len(name) == 24 for name in replies)
    assert {key for reply in replies.values() for key in json.loads(reply)} == {"facts", "decisions"}


def test_changed_prompt_has_no_reply_and_fails_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(recorded, "read_replies", dict)
    assert recorded.main([str(STREAM)]) == 1
    assert "; 0 prompts without a reply" not in capsys.readouterr().out


def test_similarities_do_not_change_the_digest_of_a_prompt() -> None:
    first, second = (f'{{"memory": "m1", "similarity": {similarity}}}' for similarity in (0.812, 0.813))
    assert recorded.digest("system", first) == recorded.digest("system", second) != recorded.digest("system", "else")


def test_prompt_without_a_reply_is_written_to_a_file(tmp_path: Path) -> None:
    name = recorded.digest("the rules", "what was said")
    (tmp_path / f"{name}.json").write_text('{"facts": []}')
    llm = recorded.RecordedReplies({}, tmp_path)
    assert llm.reply("the rules", "what was said") == '{"facts": []}'
    assert (tmp_path / f"{name}.txt").read_text() == "the rules\n\nwhat was said\n"
    assert llm.lines == [json.dumps({"prompt": name, "reply": {"facts": []}})]
