"""OpenAI-compatible chat proxy over HTTP, called with the official openai client."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI

from cofio.core import Keeper
from cofio.models.auth import Grant
from cofio.server.http.streaming import RELAYS
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder
from cofio.text.briefing import NOTICE
from tests.http_api.caller import Caller
from tests.http_api.conftest import Serve, serving
from tests.http_api.upstream_wire import FakeUpstream, ScriptedReply

JSON = {"Content-Type": "application/json"}
PNPM = "We use pnpm as the package manager"
QUESTION_MESSAGES: Any = [{"role": "user", "content": "Which package manager do we use?"}]
STATEMENT_MESSAGES: Any = [{"role": "user", "content": "I prefer tabs over spaces. What do you say?"}]
KEY = "sk-upstream-Zx81QpLr55TnVb20"
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"place": "Ulm"}'}}


@pytest.fixture
def model() -> Iterator[FakeUpstream]:
    with FakeUpstream() as running:
        yield running


def openai_client(service: Caller, key: str = "any", retries: int = 0, **options: Any) -> Any:
    url = f"http://{service.host}:{service.port}/v1"
    return OpenAI(base_url=url, api_key=key, max_retries=retries, timeout=60, **options)


def chat_service(serve: Serve, model: FakeUpstream, **options: Any) -> Caller:
    return serve(chat_upstream_url=model.url, chat_upstream_key=KEY, **options)


def complete(service: Caller, messages: Any = QUESTION_MESSAGES, **options: Any) -> Any:
    with openai_client(service) as new_openai_client:
        return new_openai_client.chat.completions.create(model="gpt-4o", messages=messages, **options)


def stream_completion(service: Caller, messages: Any = QUESTION_MESSAGES, **options: Any) -> list[Any]:
    with openai_client(service) as new_openai_client:
        return list(
            new_openai_client.chat.completions.create(model="gpt-4o", messages=messages, stream=True, **options)
        )


def wait_for_captures(service: Caller, count: int = 1) -> list[dict[str, Any]]:
    """Return the captures, oldest first, once there are `count` of them and all are processed."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        items: list[dict[str, Any]] = service.get("/inbox").json["items"][::-1]
        if len(items) >= count and all(item["state"] != "pending" for item in items):
            return items
        time.sleep(0.02)
    raise AssertionError(items)


def message_texts(item: dict[str, Any]) -> list[tuple[str, str]]:
    return [(message["role"], message["text"]) for message in item["exchange"]["messages"]]


def memory_texts(service: Caller) -> list[str]:
    return [memory["text"] for memory in service.get("/memories").json["memories"]]


# ── requests to the upstream ──────────────────────────────────────────────────────────────────────────────────────────


def test_upstream_receives_memories_and_its_own_key(serve: Serve, model: FakeUpstream) -> None:
    service = chat_service(serve, model, api_key="cofio-key")
    Caller(f"http://{service.host}:{service.port}", {"X-API-Key": "cofio-key"}).post("/memory/add", {"text": PNPM})
    model.add_replies(ScriptedReply("You use pnpm."))
    with openai_client(
        service, "cofio-key", default_headers={"Cookie": "a=b", "X-API-Key": "cofio-key"}
    ) as new_openai_client:
        reply = new_openai_client.chat.completions.create(
            model="gpt-4o",
            messages=[{"role": "system", "content": "Be brief."}, *QUESTION_MESSAGES],
        )
    assert reply.choices[0].message.content == "You use pnpm."
    [seen] = model.requests
    assert seen.path == "/v1/chat/completions"
    assert seen.system == "Be brief."
    assert seen.question.startswith(f"<cofio-memory>\n{NOTICE}\n## Relevant Personal Context:\n- [")
    assert PNPM in seen.question
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert "cofio-key" not in str(seen.headers)
    assert {"cookie", "x-api-key", "x-stainless-lang"}.isdisjoint(seen.headers)


def test_team_memories_are_added_as_team_context(serve: Serve, model: FakeUpstream) -> None:
    service = chat_service(serve, model)
    service.post("/memory/add", {"text": PNPM, "visibility": "team", "team": "web"})
    complete(service)
    assert re.search(rf"## Relevant Team Context:\n- \[.*\] {PNPM}\n", model.requests[0].question)


def test_request_without_relevant_memories_is_forwarded_unchanged(serve: Serve, model: FakeUpstream) -> None:
    service = chat_service(serve, model)
    service.post("/memory/add", {"text": PNPM})
    body = b'{ "model":"gpt-4o","unheard_of": 1.50, "messages":[{"role":"user","content":"Sing!"}] }'
    assert service.send("POST", "/v1/chat/completions", body).status == 200
    assert model.requests[0].raw == body


def test_tools_images_and_other_options_are_forwarded(serve: Serve, model: FakeUpstream) -> None:
    service = chat_service(serve, model)
    service.post("/memory/add", {"text": PNPM})
    model.add_replies(ScriptedReply(calls=(CALL,), ends="tool_calls"))
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    parts = [{"type": "text", "text": "Which package manager do we use here?"}, picture]
    more = {"tools": [WEATHER], "tool_choice": "auto", "n": 2, "user": "ada", "temperature": 0.25, "seed": 7}
    with openai_client(service) as new_openai_client:
        reply = new_openai_client.chat.completions.create(
            model="gpt-4o",
            messages=[{"role": "user", "content": parts}],
            response_format={"type": "json_object"},
            extra_body={"unheard_of": {"deep": [1, None]}},
            **more,
        )
    assert [choice.message.tool_calls[0].function.arguments for choice in reply.choices] == ['{"place": "Ulm"}'] * 2
    body = model.requests[0].body
    [message] = body["messages"]
    assert PNPM in message["content"][0]["text"]
    assert message["content"][1:] == parts
    assert {name: body[name] for name in more} == more
    assert (body["unheard_of"], body["response_format"]) == ({"deep": [1, None]}, {"type": "json_object"})


def test_models_endpoint_is_forwarded(serve: Serve, model: FakeUpstream) -> None:
    with openai_client(chat_service(serve, model)) as new_openai_client:
        assert [item.id for item in new_openai_client.models.list()] == ["gpt-4o"]
    assert model.requests[0].path == "/v1/models"
    assert model.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_chat_uses_and_stores_memories_of_the_keys_user(tmp_path: Path, model: FakeUpstream) -> None:
    clock = FixedClock()
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock) as keeper:
        keys = {name: keeper.create_key(Grant(name=name, user=name, role="write"))[1] for name in ("ada", "bob")}
        reader = keeper.create_key(Grant(name="eve", user="eve", role="read"))[1]
        keeper.add(PNPM, user="ada")
        with serving(keeper, chat_upstream_url=model.url) as url:
            service = Caller(url)
            for secret in keys.values():
                for messages in (QUESTION_MESSAGES, STATEMENT_MESSAGES):
                    with openai_client(service, secret) as new_openai_client:
                        new_openai_client.chat.completions.create(model="gpt-4o", messages=messages)
            with openai_client(service, reader) as new_openai_client, pytest.raises(openai.PermissionDeniedError):
                new_openai_client.chat.completions.create(model="gpt-4o", messages=QUESTION_MESSAGES)
            assert [PNPM in request.raw.decode() for request in model.requests] == [True, False, False, False]
            deadline = time.monotonic() + 30
            while keeper.inbox_status().captured < 4 or keeper.inbox_status().pending:
                assert time.monotonic() < deadline
                time.sleep(0.02)
        whose = {
            (memory.user, memory.visibility) for memory in keeper if memory.text == "User prefers tabs over spaces"
        }
        assert whose == {("ada", "private"), ("bob", "private")}


# ── streaming ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_stream_chunks_arrive_immediately(serve: Serve, model: FakeUpstream) -> None:
    gate = threading.Event()
    model.add_replies(ScriptedReply("You use pnpm.", gate=gate))
    with openai_client(chat_service(serve, model)) as new_openai_client:
        stream = new_openai_client.chat.completions.create(model="gpt-4o", messages=QUESTION_MESSAGES, stream=True)
        first = next(chunk.choices[0].delta.content for chunk in stream if chunk.choices[0].delta.content)
        assert (first, model.sent) == ("You", [])  # the upstream has not finished: it waits for the gate
        gate.set()
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == " use pnpm."


def test_stream_is_forwarded_byte_for_byte(serve: Serve, model: FakeUpstream) -> None:
    service = chat_service(serve, model)
    model.add_replies(ScriptedReply("Pässe, “quoted”\r\nand 🍵"))
    request = {
        "model": "gpt-4o",
        "messages": QUESTION_MESSAGES,
        "stream": True,
        "stream_options": {"include_usage": True},
        "n": 2,
    }
    connection = HTTPConnection(service.host, service.port, timeout=60)
    connection.request("POST", "/v1/chat/completions", json.dumps(request), JSON)
    reply = connection.getresponse()
    assert [reply.read()] == model.sent
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert reply.headers["x-request-id"] == "req_1"
    assert reply.headers["cache-control"] == "no-store"
    assert "set-cookie" not in reply.headers
    connection.close()


def test_tool_calls_and_usage_are_streamed(serve: Serve, model: FakeUpstream) -> None:
    model.add_replies(ScriptedReply(calls=(CALL,), ends="tool_calls"))
    chunks = stream_completion(chat_service(serve, model), tools=[WEATHER], stream_options={"include_usage": True})
    assert [call.id for chunk in chunks if chunk.choices for call in chunk.choices[0].delta.tool_calls or ()] == [
        "call_1"
    ]
    assert chunks[-1].usage.total_tokens == 12
    assert chunks[-2].choices[0].finish_reason == "tool_calls"


def test_async_openai_client_works(serve: Serve, model: FakeUpstream) -> None:
    service = chat_service(serve, model)
    service.post("/memory/add", {"text": PNPM})
    model.add_replies(*[ScriptedReply(f"Answer {number}.") for number in range(8)])

    async def request(using: AsyncOpenAI, number: int) -> str:
        if number % 2:
            stream = await using.chat.completions.create(model="gpt-4o", messages=QUESTION_MESSAGES, stream=True)
            return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
        reply = await using.chat.completions.create(model="gpt-4o", messages=QUESTION_MESSAGES)
        return str(reply.choices[0].message.content)

    async def all_of_them() -> list[str]:
        url = f"http://{service.host}:{service.port}/v1"
        async with AsyncOpenAI(base_url=url, api_key="any", max_retries=0) as using:
            return await asyncio.gather(*(request(using, number) for number in range(8)))

    assert sorted(asyncio.run(all_of_them())) == [f"Answer {number}." for number in range(8)]
    assert all(PNPM in request.question for request in model.requests)


# ── learning ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("ask", [complete, stream_completion])
def test_user_statement_is_learned_and_used_in_next_chat(serve: Serve, model: FakeUpstream, ask: Any) -> None:
    service = chat_service(serve, model)
    model.add_replies(ScriptedReply("Good choice."))
    ask(service, STATEMENT_MESSAGES)
    [item] = wait_for_captures(service)
    assert message_texts(item) == [("user", STATEMENT_MESSAGES[0]["content"]), ("assistant", "Good choice.")]
    exchange = item["exchange"]
    assert (exchange["client"], exchange["source"], exchange["visibility"]) == ("chat", "chat/gpt-4o", "private")
    assert memory_texts(service) == ["User prefers tabs over spaces"]
    ask(service, [{"role": "user", "content": "Should I use tabs or spaces?"}])
    assert "User prefers tabs over spaces" in model.requests[1].question


def test_only_the_newest_turn_is_captured(serve: Serve, model: FakeUpstream) -> None:
    service = chat_service(serve, model)
    history = [{"role": "user", "content": "I love emacs."}, {"role": "assistant", "content": "So do I."}]
    complete(service, [*history, *STATEMENT_MESSAGES])
    [item] = wait_for_captures(service)
    assert message_texts(item) == [("user", STATEMENT_MESSAGES[0]["content"]), ("assistant", "Noted.")]


def test_injected_memory_is_not_learned_again(serve: Serve, model: FakeUpstream) -> None:
    service = chat_service(serve, model)
    service.post("/memory/add", {"text": PNPM})
    model.add_replies(ScriptedReply("Our team uses pnpm as the package manager."))
    complete(service)
    [item] = wait_for_captures(service)
    assert item["exchange"]["injected"][-1] == PNPM
    assert memory_texts(service) == [PNPM]


def test_secrets_are_redacted_in_captures(serve: Serve, model: FakeUpstream) -> None:
    service = chat_service(serve, model)
    secret = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
    complete(service, [{"role": "user", "content": f"I prefer tabs over spaces. My token is {secret}"}])
    assert secret not in json.dumps(wait_for_captures(service))
    assert secret in model.requests[0].raw.decode()  # the upstream receives what the user sent


def test_repeated_request_is_captured_once(serve: Serve, model: FakeUpstream) -> None:
    service = chat_service(serve, model)
    for _ in range(3):
        complete(service, STATEMENT_MESSAGES)
    complete(service, [{"role": "user", "content": "I prefer vim."}])
    assert len(wait_for_captures(service, 2)) == 2


def test_turn_with_tool_calls_is_one_capture(serve: Serve, model: FakeUpstream) -> None:
    service = chat_service(serve, model)
    model.add_replies(ScriptedReply(calls=(CALL,), ends="tool_calls"), ScriptedReply("It is sunny in Ulm."))
    complete(service, STATEMENT_MESSAGES, tools=[WEATHER])
    called = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    result = {"role": "tool", "tool_call_id": "call_1", "content": "sunny"}
    complete(service, [*STATEMENT_MESSAGES, called, result], tools=[WEATHER])
    [item] = wait_for_captures(service)
    assert message_texts(item) == [("user", STATEMENT_MESSAGES[0]["content"]), ("assistant", "It is sunny in Ulm.")]


def test_session_comes_from_header_metadata_or_first_message(serve: Serve, model: FakeUpstream) -> None:
    service = chat_service(serve, model)
    more = {"X-Cofio-Session": "s1", "X-Cofio-Source": "app/web", "X-Cofio-Client": "app", "X-Cofio-Project": "web"}
    complete(service, [{"role": "user", "content": "I prefer vim."}], extra_headers=more)
    complete(service, [{"role": "user", "content": "I prefer tmux."}], metadata={"session": "s2"})
    complete(service, STATEMENT_MESSAGES)
    complete(
        service,
        [*STATEMENT_MESSAGES, {"role": "assistant", "content": "Tabs!"}, {"role": "user", "content": "I like Go."}],
    )
    sessions = [wait_for_capture["exchange"]["session"] for wait_for_capture in wait_for_captures(service, 4)]
    assert sessions[:2] == ["s1", "s2"]
    assert sessions[2] == sessions[3]
    assert sessions[2].startswith("chat-")
    first = wait_for_captures(service, 4)[0]["exchange"]
    assert (first["source"], first["client"], first["project"]) == ("app/web", "app", "web")


def test_full_inbox_does_not_break_the_response(serve: Serve, model: FakeUpstream) -> None:
    service = chat_service(serve, model, inbox_limit=0)
    assert complete(service, STATEMENT_MESSAGES).choices[0].message.content == "Noted."
    assert len(stream_completion(service, STATEMENT_MESSAGES)) == 3
    assert service.get("/inbox/status").json["captured"] == 0


def test_python_examples_of_docs_page_run(
    serve: Serve, model: FakeUpstream, capsys: pytest.CaptureFixture[str]
) -> None:
    service = chat_service(serve, model)
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "chat.md").read_text(encoding="utf-8")
    script = "\n".join(re.findall(r"^```py\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    assert "127.0.0.1:8900" in script
    model.add_replies(ScriptedReply("I like tabs."), ScriptedReply("Tabs, as you said."))
    env: dict[str, Any] = {}
    exec(script.replace("127.0.0.1:8900", f"{service.host}:{service.port}"), env)
    assert capsys.readouterr().out == "I like tabs.\nTabs, as you said."
    env["client"].close()


# ── errors ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_missing_upstream_returns_501_with_hint(service: Caller) -> None:
    start_time = time.monotonic()
    with (
        openai_client(service, retries=2) as new_openai_client,
        pytest.raises(openai.InternalServerError) as error_info,
    ):
        new_openai_client.chat.completions.create(model="gpt-4o", messages=QUESTION_MESSAGES)
    assert error_info.value.status_code == 501
    assert "CHAT_UPSTREAM_URL" in error_info.value.message
    assert (error_info.value.code, error_info.value.type) == ("not_configured", "api_error")
    assert error_info.value.response.headers["x-should-retry"] == "false"
    assert time.monotonic() - start_time < 30


def test_invalid_upstream_url_fails_chats_only(serve: Serve) -> None:
    service = serve(chat_upstream_url="ftp://example.org")
    with pytest.raises(openai.InternalServerError, match="is not a valid address"):
        complete(service)
    assert service.get("/health").status == 200


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, openai.BadRequestError),
        (401, openai.AuthenticationError),
        (403, openai.PermissionDeniedError),
        (404, openai.NotFoundError),
        (422, openai.UnprocessableEntityError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
    ],
)
@pytest.mark.parametrize("ask", [complete, stream_completion])
def test_upstream_errors_are_forwarded(
    serve: Serve, model: FakeUpstream, status: int, kind: type[openai.APIStatusError], ask: Any
) -> None:
    service = chat_service(serve, model)
    error = {"message": f"No: {KEY}", "type": "some_type", "param": "model", "code": "some_code"}
    headers = {"Retry-After": "20", "x-ratelimit-remaining-tokens": "0", "Set-Cookie": "a=b", "Via": "1.1 x"}
    model.add_replies(ScriptedReply(status=status, body={"error": error}, headers=headers))
    with pytest.raises(kind) as error_info:
        ask(service, STATEMENT_MESSAGES)
    assert (error_info.value.code, error_info.value.type, error_info.value.param) == ("some_code", "some_type", "model")
    assert KEY not in str(error_info.value)
    result = error_info.value.response.headers
    assert (result["retry-after"], result["x-ratelimit-remaining-tokens"]) == ("20", "0")
    assert {"set-cookie", "via"}.isdisjoint(result)
    assert service.get("/inbox/status").json["captured"] == 0


def test_client_retries_after_rate_limit(serve: Serve, model: FakeUpstream) -> None:
    limit = {"error": {"message": "Slow down.", "type": "requests", "code": "rate_limit_exceeded"}}
    model.add_replies(ScriptedReply(status=429, body=limit, headers={"retry-after-ms": "20"}), ScriptedReply("Now."))
    with openai_client(chat_service(serve, model), retries=2) as new_openai_client:
        reply = new_openai_client.chat.completions.create(model="gpt-4o", messages=QUESTION_MESSAGES)
    assert reply.choices[0].message.content == "Now."
    assert len(model.requests) == 2


@pytest.mark.parametrize("body", [b"<html>Bad\ngateway</html>", b"", {"detail": "Bad gateway"}, [1], b"\xff"])
def test_malformed_upstream_error_is_converted_to_openai_format(serve: Serve, model: FakeUpstream, body: Any) -> None:
    model.add_replies(ScriptedReply(status=502, body=body, headers={"Content-Type": "text/html"}))
    with pytest.raises(openai.InternalServerError) as error_info:
        complete(chat_service(serve, model))
    assert (error_info.value.status_code, error_info.value.code) == (502, "upstream_error")
    assert "The chat upstream answered 502" in error_info.value.message


def test_unreachable_upstream_returns_502(serve: Serve) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        service = serve(chat_upstream_url=f"http://127.0.0.1:{free.getsockname()[1]}/v1")
        with pytest.raises(openai.InternalServerError) as error_info:
            complete(service, STATEMENT_MESSAGES)
        assert (error_info.value.status_code, error_info.value.code) == (502, "upstream_unavailable")
        assert "could not be reached" in error_info.value.message


def test_silent_upstream_returns_502_after_timeout(serve: Serve, model: FakeUpstream) -> None:
    model.add_replies(ScriptedReply(stalls=True))
    with pytest.raises(openai.InternalServerError, match=r"silent for 0\.2 seconds"):
        complete(chat_service(serve, model, chat_upstream_timeout=0.2))
    assert model.disconnects.acquire(timeout=30)


def test_upstream_redirect_is_not_followed(serve: Serve, model: FakeUpstream) -> None:
    with FakeUpstream() as other:
        model.add_replies(ScriptedReply(status=307, body=b"", headers={"Location": f"{other.url}/chat/completions"}))
        with pytest.raises(openai.InternalServerError, match="a redirect"):
            complete(chat_service(serve, model))
        assert other.requests == []


@pytest.mark.parametrize("torn", [b"", b'data: {"choices": [{"ind'])
def test_interrupted_stream_raises_error_and_complete_sentences_are_learned(
    serve: Serve, model: FakeUpstream, torn: bytes
) -> None:
    service = chat_service(serve, model)
    model.add_replies(ScriptedReply("Tabs are fine. We never use sp", breaks_off=True, torn=torn))
    chunks: list[str] = []
    with openai_client(service) as new_openai_client:
        stream = new_openai_client.chat.completions.create(model="gpt-4o", messages=STATEMENT_MESSAGES, stream=True)
        with pytest.raises(openai.APIError, match="closed the connection"):
            chunks.extend(chunk.choices[0].delta.content or "" for chunk in stream)
    assert "".join(chunks) == "Tabs are fine. We never use sp"
    [item] = wait_for_captures(service)
    assert message_texts(item) == [("user", STATEMENT_MESSAGES[0]["content"]), ("assistant", "Tabs are fine.")]


def test_truncated_upstream_response_returns_502(serve: Serve, model: FakeUpstream) -> None:
    model.add_replies(ScriptedReply(body=b'{"choices": [', headers={"Content-Length": "999"}))
    with pytest.raises(openai.InternalServerError):
        complete(chat_service(serve, model, chat_upstream_timeout=2.0))


@pytest.mark.parametrize("key", ["", "another"])
def test_invalid_cofio_key_is_rejected_before_the_upstream_is_called(
    serve: Serve, model: FakeUpstream, key: str
) -> None:
    service = chat_service(serve, model, api_key="cofio-key")
    headers = {} if key else {"Authorization": openai.Omit()}
    with (
        openai_client(service, key or "x") as new_openai_client,
        pytest.raises(openai.AuthenticationError) as error_info,
    ):
        new_openai_client.chat.completions.create(model="gpt-4o", messages=QUESTION_MESSAGES, extra_headers=headers)
    assert error_info.value.code == ("wrong_key" if key else "missing_key")
    assert error_info.value.type == "authentication_error"
    assert model.requests == []


def test_cofio_errors_have_openai_format(serve: Serve, model: FakeUpstream) -> None:
    service = chat_service(serve, model, max_body=2_000)
    with pytest.raises(openai.APIStatusError) as error_info:
        complete(service, [{"role": "user", "content": "x" * 3_000}])
    assert (error_info.value.status_code, error_info.value.code, error_info.value.type) == (
        413,
        "too_large",
        "invalid_request_error",
    )
    for body in (b"no", b"[]"):
        response = service.send("POST", "/v1/chat/completions", body)
        assert (response.status, response.json["error"]["type"]) == (400, "invalid_request_error")
    with pytest.raises(openai.NotFoundError), openai_client(service) as new_openai_client:
        new_openai_client.embeddings.create(model="m", input="x")
    assert model.requests == []


# ── disconnects and concurrency ───────────────────────────────────────────────────────────────────────────────────────


def test_client_disconnect_closes_upstream_connection(serve: Serve, model: FakeUpstream) -> None:
    service = chat_service(serve, model)
    model.add_replies(ScriptedReply("Fine. And so on for a long time", gate=threading.Event()))
    with openai_client(service) as new_openai_client:
        stream = new_openai_client.chat.completions.create(model="gpt-4o", messages=STATEMENT_MESSAGES, stream=True)
        next(iter(stream))
        assert model.waiting.acquire(timeout=30)
        stream.close()
    assert model.disconnects.acquire(timeout=30)
    [item] = wait_for_captures(service)
    assert message_texts(item) == [("user", STATEMENT_MESSAGES[0]["content"]), ("assistant", "Fine.")]


def test_folded_upstream_header_is_returned_on_one_line(serve: Serve, model: FakeUpstream) -> None:
    service = chat_service(serve, model)
    model.add_replies(ScriptedReply(headers={"X-Request-Id": "req\r\n 1"}))
    body = json.dumps({"model": "m", "messages": QUESTION_MESSAGES}).encode()
    assert service.send("POST", "/v1/chat/completions", body).headers["x-request-id"] == "req 1"


def test_disconnect_before_the_response_cancels_the_upstream_request(serve: Serve, model: FakeUpstream) -> None:
    service = chat_service(serve, model)
    model.add_replies(ScriptedReply(stalls=True))
    with pytest.raises(openai.APITimeoutError), openai_client(service) as new_openai_client:
        new_openai_client.chat.completions.create(model="gpt-4o", messages=STATEMENT_MESSAGES, timeout=0.5)
    assert model.disconnects.acquire(timeout=30)
    assert service.get("/inbox/status").json["captured"] == 0


def test_slow_upstreams_do_not_block_other_requests(serve: Serve, model: FakeUpstream) -> None:
    service = chat_service(serve, model)
    model.add_replies(*[ScriptedReply(stalls=True)] * RELAYS)
    body = json.dumps({"model": "m", "messages": QUESTION_MESSAGES}).encode()
    pending = [HTTPConnection(service.host, service.port, timeout=60) for _ in range(RELAYS)]
    for connection in pending:
        connection.request("POST", "/v1/chat/completions", body, JSON)
    assert all(model.waiting.acquire(timeout=60) for _ in pending)
    assert service.post("/memory/add", {"text": PNPM}).status == 201
    assert service.post("/search", {"query": "package manager"}).status == 200
    with pytest.raises(openai.RateLimitError, match="chats are already running"):
        complete(service)
    for item in pending:
        item.close()
    assert all(model.disconnects.acquire(timeout=60) for _ in pending)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:  # a slot is free once a disconnect is noticed
        if service.send("POST", "/v1/chat/completions", body).status == 200:
            return
    raise AssertionError


def test_service_stops_in_time_while_upstream_is_silent(tmp_path: Path, model: FakeUpstream) -> None:
    model.add_replies(ScriptedReply(stalls=True))
    clock = FixedClock()
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock) as keeper:
        with serving(keeper, chat_upstream_url=model.url) as url:
            thread = threading.Thread(target=_complete_with_error, args=(Caller(url),))
            thread.start()
            assert model.waiting.acquire(timeout=30)
        thread.join(30)  # `serving` has joined the service thread
    assert model.disconnects.acquire(timeout=30)


def _complete_with_error(service: Caller) -> None:
    with pytest.raises(openai.APIError):
        complete(service)
