"""Request enrichment and reply parsing of the chat proxy."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cofio.errors import InvalidInput
from cofio.server.openai_proxy.types import ChatReply, ChatRequest, text_of

CONTEXT = "\n\n## Relevant Personal Context:\n- We use pnpm\n"
SECTION = CONTEXT.strip()


def request_body(*messages: Any, **fields: Any) -> bytes:
    return json.dumps({"model": "gpt-4o", "messages": list(messages), **fields}).encode()


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def enrich(*messages: Any, **fields: Any) -> dict[str, Any]:
    payload: dict[str, Any] = json.loads(ChatRequest(request_body(*messages, **fields)).enriched(CONTEXT))
    return payload


def delta(text: str | None, finish_reason: str | None = None, index: int = 0) -> bytes:
    choice = {"index": index, "delta": {"content": text} if text is not None else {}, "finish_reason": finish_reason}
    return b"data: " + json.dumps({"choices": [choice]}).encode()


# ── enrichment ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_context_precedes_the_last_user_message_and_the_system_message_is_unchanged() -> None:
    before = [{"role": "system", "content": "Be brief."}, user("hi"), {"role": "assistant", "content": "yes?"}]
    result = enrich(*before, {**user("which?"), "name": "ada"}, {"role": "tool", "content": "sunny"})
    question = {"role": "user", "content": f"{SECTION}\n\nwhich?", "name": "ada"}
    assert result["messages"] == [*before, question, {"role": "tool", "content": "sunny"}]


def test_user_message_with_content_parts_gets_another_part() -> None:
    part = {"type": "text", "text": "which?", "cache_control": {"type": "ephemeral"}}
    assert enrich(user([part]))["messages"] == [user([{"type": "text", "text": SECTION}, part])]


@pytest.mark.parametrize("content", [None, 5, {"type": "text"}])
def test_invalid_user_message_is_kept_behind_the_context(content: Any) -> None:
    assert enrich(user(content))["messages"] == [user(SECTION), user(content)]


def test_other_fields_are_unchanged() -> None:
    unusual_fields = (
        b'{"seed":  12345678901234567890123, "temperature": 1.0e-2, "unheard_of": {"\\u00e9": [1.50]}, "messages": '
    )
    body = unusual_fields + b'[{"role":"user","content":"hi \\u2028 there", "x": 1E5}], "model": "m"}'
    created = ChatRequest(body).enriched(CONTEXT)
    for kept in (b"12345678901234567890123", b"1.0e-2", b'{"\\u00e9": [1.50]}', b'"x":1E5'):
        assert kept in created
    assert list(json.loads(created)) == list(json.loads(body))


@pytest.mark.parametrize("context", ["", "\n \n"])
def test_body_without_context_is_returned_unchanged(context: str) -> None:
    body = b'{ "messages" : [ ], "model":"m" }'
    assert ChatRequest(body).enriched(context) is body
    assert ChatRequest(body).enriched(CONTEXT) is body  # there is no message to precede


@pytest.mark.parametrize("messages", ["hi", None, 5, {}, [5], ["hi", None]])
def test_invalid_messages_are_left_to_the_upstream(messages: Any) -> None:
    request = ChatRequest(json.dumps({"model": "m", "messages": messages}).encode())
    assert request.question == ""
    request.enriched(CONTEXT)


@pytest.mark.parametrize("body", [b"", b"no", b"[]", b"5", b'{"a": ', b"\xff", b'{"a":' * 100_000])
def test_body_that_is_not_an_object_is_rejected(body: bytes) -> None:
    with pytest.raises(InvalidInput):
        ChatRequest(body)


# ── question and session ──────────────────────────────────────────────────────────────────────────────────────────────


def test_question_is_the_last_user_text() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
    parts = [{"type": "text", "text": "What is this?"}, picture, {"type": "text", "text": "And why?"}]
    request = ChatRequest(request_body(user("first"), {"role": "assistant", "content": "yes"}, user(parts)))
    assert request.question == "What is this?\n\nAnd why?"


def test_turn_id_is_stable_during_tool_calls() -> None:
    call = {"role": "assistant", "content": None, "tool_calls": []}
    before, after = [user("weather?")], [user("weather?"), call, {"role": "tool", "content": "sunny"}]
    assert ChatRequest(request_body(*before)).turn == ChatRequest(request_body(*after)).turn
    assert ChatRequest(request_body(*after, user("thanks"))).turn != ChatRequest(request_body(*after)).turn


def test_conversation_id_depends_on_the_first_message() -> None:
    rest = [{"role": "assistant", "content": "yes"}, user("more")]
    assert (
        ChatRequest(request_body(user("hi"))).conversation == ChatRequest(request_body(user("hi"), *rest)).conversation
    )
    assert ChatRequest(request_body(user("hi"))).conversation != ChatRequest(request_body(user("ho"))).conversation


@pytest.mark.parametrize(
    ("metadata", "session"),
    [({"session": "s1"}, "s1"), ({"session_id": "s2"}, "s2"), ({"session": 5}, ""), (None, ""), ("s", "")],
)
def test_session_id_is_read_from_metadata(metadata: Any, session: str) -> None:
    assert ChatRequest(request_body(user("hi"), metadata=metadata)).session == session


# ── reply ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def parse_stream(*lines: bytes) -> ChatReply:
    created = ChatReply()
    for line in lines:
        created.add_line(line)
    return created


def test_deltas_are_concatenated() -> None:
    result = parse_stream(
        b": ping", delta(""), delta("We use"), delta(" pnpm"), delta(None, "stop"), b"data: [DONE]", b""
    )
    assert (result.text, result.is_tool_call) == ("We use pnpm", False)


def test_first_choice_is_used() -> None:
    assert parse_stream(delta("one"), delta("two", index=1), delta(None, "stop")).text == "one"


@pytest.mark.parametrize("ends", [None, "length", "content_filter"])
def test_truncated_reply_is_cut_to_complete_sentences(ends: str | None) -> None:
    assert parse_stream(delta("We use pnpm. We never use n"), delta(None, ends)).text == "We use pnpm."
    assert parse_stream(delta("We never use n"), delta(None, ends)).text == ""
    assert parse_stream(delta("- Node 22.4\n- pnp"), delta(None, ends)).text == "- Node 22.4"


@pytest.mark.parametrize("line", [b"data: {", b"data: 5", b'data: {"choices": 5}', b'data: {"choices": [5, null]}',
                                  b'data: {"choices": [{"delta": 5}]}', b"event: x", b"\xff"])  # fmt: skip
def test_invalid_stream_lines_are_ignored(line: bytes) -> None:
    assert parse_stream(line, delta("Yes.", "stop")).text == "Yes."


def test_complete_reply_is_parsed() -> None:
    created = ChatReply()
    message = {"role": "assistant", "content": [{"type": "text", "text": "We use pnpm"}]}
    created.add_body(json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode())
    assert created.text == "We use pnpm"


def test_tool_calls_are_detected() -> None:
    assert parse_stream(delta(None, "tool_calls")).is_tool_call


@pytest.mark.parametrize("content", [None, 5, {}, [5, {"type": "image_url"}]])
def test_content_without_text_is_empty(content: Any) -> None:
    assert text_of(content) == ""
