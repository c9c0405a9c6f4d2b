"""The pure parts of a chat: a request is enriched and nothing else of it changed, an answer is put together."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cofio.errors import InvalidInput
from cofio.server.openai_proxy.types import ChatReply, ChatRequest, text_of

CONTEXT = "\n\n## Relevant Personal Context:\n- We use pnpm\n"
SECTION = CONTEXT.strip()


def asking(*messages: Any, **more: Any) -> bytes:
    return json.dumps({"model": "gpt-4o", "messages": list(messages), **more}).encode()


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def enriched(*messages: Any, **more: Any) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(ChatRequest(asking(*messages, **more)).enriched(CONTEXT))
    return told


def delta(text: str | None, ends: str | None = None, index: int = 0) -> bytes:
    choice = {"index": index, "delta": {"content": text} if text is not None else {}, "finish_reason": ends}
    return b"data: " + json.dumps({"choices": [choice]}).encode()


# ── enriching ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("role", ["system", "developer"])
def test_the_context_stands_behind_the_system_message(role: str) -> None:
    told = enriched({"role": role, "content": "Be brief.", "name": "house"}, user("hi"))
    assert told["messages"] == [{"role": role, "content": f"Be brief.{CONTEXT}", "name": "house"}, user("hi")]


def test_a_system_message_of_parts_gets_one_more() -> None:
    part = {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
    told = enriched({"role": "system", "content": [part]}, user("hi"))
    assert told["messages"][0]["content"] == [part, {"type": "text", "text": SECTION}]


def test_without_a_system_message_the_context_is_one() -> None:
    assert enriched(user("hi"))["messages"] == [{"role": "system", "content": SECTION}, user("hi")]


@pytest.mark.parametrize("content", ["", "  ", None, 5, {"type": "text"}])
def test_an_empty_or_odd_system_message_does_no_harm(content: Any) -> None:
    told = enriched({"role": "system", "content": content}, user("hi"))
    assert told["messages"][0] == {"role": "system", "content": SECTION}
    assert told["messages"][-1] == user("hi")


def test_everything_else_stays_as_it_was_sent() -> None:
    odd = b'{"seed":  12345678901234567890123, "temperature": 1.0e-2, "unheard_of": {"\\u00e9": [1.50]}, "messages": '
    body = odd + b'[{"role":"user","content":"hi \\u2028 there", "x": 1E5}], "model": "m"}'
    made = ChatRequest(body).enriched(CONTEXT)
    for kept in (b"12345678901234567890123", b"1.0e-2", b'{"\\u00e9": [1.50]}', b'"hi \\u2028 there", "x": 1E5'):
        assert kept in made
    assert list(json.loads(made)) == list(json.loads(body))


@pytest.mark.parametrize("context", ["", "\n \n"])
def test_without_a_context_not_a_byte_is_changed(context: str) -> None:
    body = b'{ "messages" : [ ], "model":"m" }'
    assert ChatRequest(body).enriched(context) is body
    assert ChatRequest(body).enriched(CONTEXT) is body  # there is nothing to stand before


@pytest.mark.parametrize("messages", ["hi", None, 5, {}, [5], ["hi", None]])
def test_messages_that_are_none_are_for_the_upstream_to_refuse(messages: Any) -> None:
    request = ChatRequest(json.dumps({"model": "m", "messages": messages}).encode())
    assert request.question == ""
    request.enriched(CONTEXT)


@pytest.mark.parametrize("body", [b"", b"no", b"[]", b"5", b'{"a": ', b"\xff", b'{"a":' * 100_000])
def test_what_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidInput):
        ChatRequest(body)


# ── what is asked, and what it is called ──────────────────────────────────────────────────────────────────────────────


def test_the_question_is_what_the_user_said_last() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
    parts = [{"type": "text", "text": "What is this?"}, picture, {"type": "text", "text": "And why?"}]
    request = ChatRequest(asking(user("first"), {"role": "assistant", "content": "yes"}, user(parts)))
    assert request.question == "What is this?\n\nAnd why?"


def test_a_turn_stays_the_same_while_tools_are_called() -> None:
    call = {"role": "assistant", "content": None, "tool_calls": []}
    before, after = [user("weather?")], [user("weather?"), call, {"role": "tool", "content": "sunny"}]
    assert ChatRequest(asking(*before)).turn == ChatRequest(asking(*after)).turn
    assert ChatRequest(asking(*after, user("thanks"))).turn != ChatRequest(asking(*after)).turn


def test_a_conversation_is_known_by_how_it_begins() -> None:
    rest = [{"role": "assistant", "content": "yes"}, user("more")]
    assert ChatRequest(asking(user("hi"))).conversation == ChatRequest(asking(user("hi"), *rest)).conversation
    assert ChatRequest(asking(user("hi"))).conversation != ChatRequest(asking(user("ho"))).conversation


@pytest.mark.parametrize(
    ("metadata", "session"),
    [({"session": "s1"}, "s1"), ({"session_id": "s2"}, "s2"), ({"session": 5}, ""), (None, ""), ("s", "")],
)
def test_a_session_may_be_named_in_the_metadata(metadata: Any, session: str) -> None:
    assert ChatRequest(asking(user("hi"), metadata=metadata)).session == session


# ── the answer ────────────────────────────────────────────────────────────────────────────────────────────────────────


def answer(*lines: bytes) -> ChatReply:
    made = ChatReply()
    for line in lines:
        made.add_line(line)
    return made


def test_deltas_are_put_together() -> None:
    told = answer(b": ping", delta(""), delta("We use"), delta(" pnpm"), delta(None, "stop"), b"data: [DONE]", b"")
    assert (told.text, told.is_tool_call) == ("We use pnpm", False)


def test_of_several_answers_the_first_counts() -> None:
    assert answer(delta("one"), delta("two", index=1), delta(None, "stop")).text == "one"


@pytest.mark.parametrize("ends", [None, "length", "content_filter"])
def test_of_an_answer_that_breaks_off_only_whole_sentences_count(ends: str | None) -> None:
    assert answer(delta("We use pnpm. We never use n"), delta(None, ends)).text == "We use pnpm."
    assert answer(delta("We never use n"), delta(None, ends)).text == ""
    assert answer(delta("- Node 22.4\n- pnp"), delta(None, ends)).text == "- Node 22.4"


@pytest.mark.parametrize("line", [b"data: {", b"data: 5", b'data: {"choices": 5}', b'data: {"choices": [5, null]}',
                                  b'data: {"choices": [{"delta": 5}]}', b"event: x", b"\xff"])  # fmt: skip
def test_what_is_no_part_of_an_answer_is_passed_over(line: bytes) -> None:
    assert answer(line, delta("Yes.", "stop")).text == "Yes."


def test_an_answer_in_one_piece_is_read_too() -> None:
    made = ChatReply()
    message = {"role": "assistant", "content": [{"type": "text", "text": "We use pnpm"}]}
    made.add_body(json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode())
    assert made.text == "We use pnpm"


def test_a_call_of_tools_says_that_the_turn_goes_on() -> None:
    assert answer(delta(None, "tool_calls")).is_tool_call


@pytest.mark.parametrize("content", [None, 5, {}, [5, {"type": "image_url"}]])
def test_content_without_text_is_none(content: Any) -> None:
    assert text_of(content) == ""
