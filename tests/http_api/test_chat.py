"""The chat over HTTP, with the official openai client unchanged, and an upstream that speaks OpenAI's format."""

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
from tests.http_api.caller import Caller
from tests.http_api.conftest import Serve, serving
from tests.http_api.upstream_wire import Model, Says

PNPM = "We use pnpm as the package manager"
ASKS: Any = [{"role": "user", "content": "Which package manager do we use?"}]
TELLS: Any = [{"role": "user", "content": "I prefer tabs over spaces. What do you say?"}]
KEY = "sk-upstream-Zx81QpLr55TnVb20"
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"place": "Ulm"}'}}


@pytest.fixture
def model() -> Iterator[Model]:
    with Model() as running:
        yield running


def client(service: Caller, key: str = "any", retries: int = 0, **more: Any) -> Any:
    url = f"http://{service.host}:{service.port}/v1"
    return OpenAI(base_url=url, api_key=key, max_retries=retries, timeout=60, **more)


def chatting(serve: Serve, model: Model, **more: Any) -> Caller:
    return serve(chat_upstream_url=model.url, chat_upstream_key=KEY, **more)


def completed(service: Caller, messages: Any = ASKS, **more: Any) -> Any:
    with client(service) as using:
        return using.chat.completions.create(model="gpt-4o", messages=messages, **more)


def streamed(service: Caller, messages: Any = ASKS, **more: Any) -> list[Any]:
    with client(service) as using:
        return list(using.chat.completions.create(model="gpt-4o", messages=messages, stream=True, **more))


def captured(service: Caller, count: int = 1) -> list[dict[str, Any]]:
    """The captures, oldest first, once there are so many and the worker has been at them."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        items: list[dict[str, Any]] = service.get("/inbox").json["items"][::-1]
        if len(items) >= count and all(item["state"] != "pending" for item in items):
            return items
        time.sleep(0.02)
    raise AssertionError(items)


def said(item: dict[str, Any]) -> list[tuple[str, str]]:
    return [(each["role"], each["text"]) for each in item["exchange"]["messages"]]


def texts(service: Caller) -> list[str]:
    return [each["text"] for each in service.get("/memories").json["memories"]]


# ── what goes on to the upstream ──────────────────────────────────────────────────────────────────────────────────────


def test_the_upstream_sees_the_memories_and_its_own_key(serve: Serve, model: Model) -> None:
    service = chatting(serve, model, api_key="cofio-key")
    Caller(f"http://{service.host}:{service.port}", {"X-API-Key": "cofio-key"}).post("/memory/add", {"text": PNPM})
    model.says(Says("You use pnpm."))
    with client(service, "cofio-key", default_headers={"Cookie": "a=b", "X-API-Key": "cofio-key"}) as using:
        told = using.chat.completions.create(
            model="gpt-4o",
            messages=[{"role": "system", "content": "Be brief."}, *ASKS],
        )
    assert told.choices[0].message.content == "You use pnpm."
    [seen] = model.seen
    assert seen.path == "/v1/chat/completions"
    assert seen.system.startswith("Be brief.\n\n## Relevant Personal Context:\n")
    assert PNPM in seen.system
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert "cofio-key" not in str(seen.headers)
    assert {"cookie", "x-api-key", "x-stainless-lang"}.isdisjoint(seen.headers)


@pytest.mark.parametrize("role", ["system", "developer"])
def test_a_system_message_of_parts_is_enriched_too(serve: Serve, model: Model, role: str) -> None:
    service = chatting(serve, model)
    service.post("/memory/add", {"text": PNPM})
    completed(service, [{"role": role, "content": [{"type": "text", "text": "Be brief."}]}, *ASKS])
    first, second = model.seen[0].system
    assert first == {"type": "text", "text": "Be brief."}
    assert PNPM in second["text"]


def test_what_the_team_knows_is_told_as_such(serve: Serve, model: Model) -> None:
    service = chatting(serve, model)
    service.post("/memory/add", {"text": PNPM, "visibility": "team", "team": "web"})
    completed(service)
    assert model.seen[0].system == f"## Relevant Team Context:\n- {PNPM}"


def test_where_memories_say_nothing_the_request_goes_on_as_it_came(serve: Serve, model: Model) -> None:
    service = chatting(serve, model)
    service.post("/memory/add", {"text": PNPM})
    body = b'{ "model":"gpt-4o","unheard_of": 1.50, "messages":[{"role":"user","content":"Sing!"}] }'
    assert service.send("POST", "/v1/chat/completions", body).status == 200
    assert model.seen[0].raw == body


def test_tools_pictures_and_whatever_else_pass_through(serve: Serve, model: Model) -> None:
    service = chatting(serve, model)
    service.post("/memory/add", {"text": PNPM})
    model.says(Says(calls=(CALL,), ends="tool_calls"))
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    parts = [{"type": "text", "text": "Which package manager do we use here?"}, picture]
    more = {"tools": [WEATHER], "tool_choice": "auto", "n": 2, "user": "ada", "temperature": 0.25, "seed": 7}
    with client(service) as using:
        told = using.chat.completions.create(
            model="gpt-4o",
            messages=[{"role": "user", "content": parts}],
            response_format={"type": "json_object"},
            extra_body={"unheard_of": {"deep": [1, None]}},
            **more,
        )
    assert [choice.message.tool_calls[0].function.arguments for choice in told.choices] == ['{"place": "Ulm"}'] * 2
    body = model.seen[0].body
    assert body["messages"][1:] == [{"role": "user", "content": parts}]
    assert {name: body[name] for name in more} == more
    assert (body["unheard_of"], body["response_format"]) == ({"deep": [1, None]}, {"type": "json_object"})


def test_the_models_are_the_upstreams(serve: Serve, model: Model) -> None:
    with client(chatting(serve, model)) as using:
        assert [each.id for each in using.models.list()] == ["gpt-4o"]
    assert model.seen[0].path == "/v1/models"
    assert model.seen[0].headers["authorization"] == f"Bearer {KEY}"


def test_a_chat_sees_and_keeps_what_its_key_allows(tmp_path: Path, model: Model) -> None:
    clock = FixedClock()
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock) as keeper:
        keys = {name: keeper.create_key(Grant(name=name, user=name, role="write"))[1] for name in ("ada", "bob")}
        reader = keeper.create_key(Grant(name="eve", user="eve", role="read"))[1]
        keeper.add(PNPM, user="ada")
        with serving(keeper, chat_upstream_url=model.url) as url:
            service = Caller(url)
            for secret in keys.values():
                for messages in (ASKS, TELLS):
                    with client(service, secret) as using:
                        using.chat.completions.create(model="gpt-4o", messages=messages)
            with client(service, reader) as using, pytest.raises(openai.PermissionDeniedError):
                using.chat.completions.create(model="gpt-4o", messages=ASKS)
            assert [PNPM in each.raw.decode() for each in model.seen] == [True, False, False, False]
            deadline = time.monotonic() + 30
            while keeper.inbox_status().captured < 4 or keeper.inbox_status().pending:
                assert time.monotonic() < deadline
                time.sleep(0.02)
        whose = {(each.user, each.visibility) for each in keeper if each.text == "User prefers tabs over spaces"}
        assert whose == {("ada", "private"), ("bob", "private")}


# ── streaming ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_stream_arrives_as_it_comes(serve: Serve, model: Model) -> None:
    gate = threading.Event()
    model.says(Says("You use pnpm.", gate=gate))
    with client(chatting(serve, model)) as using:
        stream = using.chat.completions.create(model="gpt-4o", messages=ASKS, stream=True)
        first = next(chunk.choices[0].delta.content for chunk in stream if chunk.choices[0].delta.content)
        assert (first, model.sent) == ("You", [])  # the upstream has not finished: it waits for us
        gate.set()
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == " use pnpm."


def test_a_stream_is_passed_on_byte_for_byte(serve: Serve, model: Model) -> None:
    service = chatting(serve, model)
    model.says(Says("Pässe, “quoted”\r\nand 🍵"))
    asked = {"model": "gpt-4o", "messages": ASKS, "stream": True, "stream_options": {"include_usage": True}, "n": 2}
    connection = HTTPConnection(service.host, service.port, timeout=60)
    connection.request("POST", "/v1/chat/completions", json.dumps(asked))
    reply = connection.getresponse()
    assert [reply.read()] == model.sent
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert reply.headers["x-request-id"] == "req_1"
    assert reply.headers["cache-control"] == "no-store"
    assert "set-cookie" not in reply.headers
    connection.close()


def test_tools_and_usage_stream_through(serve: Serve, model: Model) -> None:
    model.says(Says(calls=(CALL,), ends="tool_calls"))
    chunks = streamed(chatting(serve, model), tools=[WEATHER], stream_options={"include_usage": True})
    assert [call.id for chunk in chunks if chunk.choices for call in chunk.choices[0].delta.tool_calls or ()] == [
        "call_1"
    ]
    assert chunks[-1].usage.total_tokens == 12
    assert chunks[-2].choices[0].finish_reason == "tool_calls"


def test_the_async_client_works_the_same(serve: Serve, model: Model) -> None:
    service = chatting(serve, model)
    service.post("/memory/add", {"text": PNPM})
    model.says(*[Says(f"Answer {number}.") for number in range(8)])

    async def one(using: AsyncOpenAI, number: int) -> str:
        if number % 2:
            stream = await using.chat.completions.create(model="gpt-4o", messages=ASKS, stream=True)
            return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
        told = await using.chat.completions.create(model="gpt-4o", messages=ASKS)
        return str(told.choices[0].message.content)

    async def all_of_them() -> list[str]:
        url = f"http://{service.host}:{service.port}/v1"
        async with AsyncOpenAI(base_url=url, api_key="any", max_retries=0) as using:
            return await asyncio.gather(*(one(using, number) for number in range(8)))

    assert sorted(asyncio.run(all_of_them())) == [f"Answer {number}." for number in range(8)]
    assert all(PNPM in each.system for each in model.seen)


# ── what is learned ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("ask", [completed, streamed])
def test_what_was_said_is_learned_and_found_in_the_next_chat(serve: Serve, model: Model, ask: Any) -> None:
    service = chatting(serve, model)
    model.says(Says("Good choice."))
    ask(service, TELLS)
    [item] = captured(service)
    assert said(item) == [("user", TELLS[0]["content"]), ("assistant", "Good choice.")]
    exchange = item["exchange"]
    assert (exchange["client"], exchange["source"], exchange["visibility"]) == ("chat", "chat/gpt-4o", "private")
    assert texts(service) == ["User prefers tabs over spaces"]
    ask(service, [{"role": "user", "content": "Should I use tabs or spaces?"}])
    assert "User prefers tabs over spaces" in model.seen[1].system


def test_only_the_newest_turn_is_captured_and_not_the_history(serve: Serve, model: Model) -> None:
    service = chatting(serve, model)
    history = [{"role": "user", "content": "I love emacs."}, {"role": "assistant", "content": "So do I."}]
    completed(service, [*history, *TELLS])
    [item] = captured(service)
    assert said(item) == [("user", TELLS[0]["content"]), ("assistant", "Noted.")]


def test_what_was_injected_is_not_learned_again(serve: Serve, model: Model) -> None:
    service = chatting(serve, model)
    service.post("/memory/add", {"text": PNPM})
    model.says(Says("Our team uses pnpm as the package manager."))
    completed(service)
    [item] = captured(service)
    assert item["exchange"]["injected"] == [PNPM]
    assert texts(service) == [PNPM]


def test_secrets_are_not_kept(serve: Serve, model: Model) -> None:
    service = chatting(serve, model)
    secret = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
    completed(service, [{"role": "user", "content": f"I prefer tabs over spaces. My token is {secret}"}])
    assert secret not in json.dumps(captured(service))
    assert secret in model.seen[0].raw.decode()  # what the user sends is for the upstream


def test_a_request_that_is_sent_again_is_captured_once(serve: Serve, model: Model) -> None:
    service = chatting(serve, model)
    for _ in range(3):
        completed(service, TELLS)
    completed(service, [{"role": "user", "content": "I prefer vim."}])
    assert len(captured(service, 2)) == 2


def test_a_turn_with_tools_in_it_is_one_capture(serve: Serve, model: Model) -> None:
    service = chatting(serve, model)
    model.says(Says(calls=(CALL,), ends="tool_calls"), Says("It is sunny in Ulm."))
    completed(service, TELLS, tools=[WEATHER])
    called = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    result = {"role": "tool", "tool_call_id": "call_1", "content": "sunny"}
    completed(service, [*TELLS, called, result], tools=[WEATHER])
    [item] = captured(service)
    assert said(item) == [("user", TELLS[0]["content"]), ("assistant", "It is sunny in Ulm.")]


def test_a_session_is_named_by_a_header_or_the_metadata_or_how_the_conversation_begins(
    serve: Serve, model: Model
) -> None:
    service = chatting(serve, model)
    more = {"X-Cofio-Session": "s1", "X-Cofio-Source": "app/web", "X-Cofio-Client": "app", "X-Cofio-Project": "web"}
    completed(service, [{"role": "user", "content": "I prefer vim."}], extra_headers=more)
    completed(service, [{"role": "user", "content": "I prefer tmux."}], metadata={"session": "s2"})
    completed(service, TELLS)
    completed(service, [*TELLS, {"role": "assistant", "content": "Tabs!"}, {"role": "user", "content": "I like Go."}])
    sessions = [each["exchange"]["session"] for each in captured(service, 4)]
    assert sessions[:2] == ["s1", "s2"]
    assert sessions[2] == sessions[3]
    assert sessions[2].startswith("chat-")
    first = captured(service, 4)[0]["exchange"]
    assert (first["source"], first["client"], first["project"]) == ("app/web", "app", "web")


def test_that_nothing_can_be_captured_does_not_break_the_answer(serve: Serve, model: Model) -> None:
    service = chatting(serve, model, inbox_limit=0)
    assert completed(service, TELLS).choices[0].message.content == "Noted."
    assert len(streamed(service, TELLS)) == 3
    assert service.get("/inbox/status").json["captured"] == 0


def test_the_examples_of_the_page_run(serve: Serve, model: Model, capsys: pytest.CaptureFixture[str]) -> None:
    service = chatting(serve, model)
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "chat.md").read_text(encoding="utf-8")
    script = "\n".join(re.findall(r"^```py\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    assert "127.0.0.1:8900" in script
    model.says(Says("I like tabs."), Says("Tabs, as you said."))
    around: dict[str, Any] = {}
    exec(script.replace("127.0.0.1:8900", f"{service.host}:{service.port}"), around)
    assert capsys.readouterr().out == "I like tabs.\nTabs, as you said."
    around["client"].close()


# ── what goes wrong ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_an_upstream_it_says_what_to_set(service: Caller) -> None:
    began = time.monotonic()
    with client(service, retries=2) as using, pytest.raises(openai.InternalServerError) as caught:
        using.chat.completions.create(model="gpt-4o", messages=ASKS)
    assert caught.value.status_code == 501
    assert "CHAT_UPSTREAM_URL" in caught.value.message
    assert (caught.value.code, caught.value.type) == ("not_configured", "api_error")
    assert caught.value.response.headers["x-should-retry"] == "false"
    assert time.monotonic() - began < 30


def test_a_wrong_address_is_told_to_whoever_chats_and_the_rest_works(serve: Serve) -> None:
    service = serve(chat_upstream_url="ftp://example.org")
    with pytest.raises(openai.InternalServerError, match="is not a valid address"):
        completed(service)
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
@pytest.mark.parametrize("ask", [completed, streamed])
def test_the_upstreams_errors_are_passed_on(
    serve: Serve, model: Model, status: int, kind: type[openai.APIStatusError], ask: Any
) -> None:
    service = chatting(serve, model)
    error = {"message": f"No: {KEY}", "type": "some_type", "param": "model", "code": "some_code"}
    headers = {"Retry-After": "20", "x-ratelimit-remaining-tokens": "0", "Set-Cookie": "a=b", "Via": "1.1 x"}
    model.says(Says(status=status, body={"error": error}, headers=headers))
    with pytest.raises(kind) as caught:
        ask(service, TELLS)
    assert (caught.value.code, caught.value.type, caught.value.param) == ("some_code", "some_type", "model")
    assert KEY not in str(caught.value)
    told = caught.value.response.headers
    assert (told["retry-after"], told["x-ratelimit-remaining-tokens"]) == ("20", "0")
    assert {"set-cookie", "via"}.isdisjoint(told)
    assert service.get("/inbox/status").json["captured"] == 0


def test_a_rate_limit_is_waited_out_by_the_client(serve: Serve, model: Model) -> None:
    limit = {"error": {"message": "Slow down.", "type": "requests", "code": "rate_limit_exceeded"}}
    model.says(Says(status=429, body=limit, headers={"retry-after-ms": "20"}), Says("Now."))
    with client(chatting(serve, model), retries=2) as using:
        told = using.chat.completions.create(model="gpt-4o", messages=ASKS)
    assert told.choices[0].message.content == "Now."
    assert len(model.seen) == 2


@pytest.mark.parametrize("body", [b"<html>Bad\ngateway</html>", b"", {"detail": "Bad gateway"}, [1], b"\xff"])
def test_an_error_of_another_shape_is_put_into_openais(serve: Serve, model: Model, body: Any) -> None:
    model.says(Says(status=502, body=body, headers={"Content-Type": "text/html"}))
    with pytest.raises(openai.InternalServerError) as caught:
        completed(chatting(serve, model))
    assert (caught.value.status_code, caught.value.code) == (502, "upstream_error")
    assert "The upstream answered 502" in caught.value.message


def test_an_upstream_that_is_not_there_is_a_502(serve: Serve) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        service = serve(chat_upstream_url=f"http://127.0.0.1:{free.getsockname()[1]}/v1")
        with pytest.raises(openai.InternalServerError) as caught:
            completed(service, TELLS)
        assert (caught.value.status_code, caught.value.code) == (502, "upstream_unavailable")
        assert "could not be reached" in caught.value.message


def test_an_upstream_that_stays_silent_is_a_502(serve: Serve, model: Model) -> None:
    model.says(Says(stalls=True))
    with pytest.raises(openai.InternalServerError, match=r"silent for 0\.2 seconds"):
        completed(chatting(serve, model, chat_upstream_timeout=0.2))
    assert model.left.acquire(timeout=30)


def test_a_redirect_is_not_followed(serve: Serve, model: Model) -> None:
    with Model() as other:
        model.says(Says(status=307, body=b"", headers={"Location": f"{other.url}/chat/completions"}))
        with pytest.raises(openai.InternalServerError, match="a redirect"):
            completed(chatting(serve, model))
        assert other.seen == []


@pytest.mark.parametrize("torn", [b"", b'data: {"choices": [{"ind'])
def test_a_stream_that_breaks_off_is_told_and_its_whole_sentences_are_learned_from(
    serve: Serve, model: Model, torn: bytes
) -> None:
    service = chatting(serve, model)
    model.says(Says("Tabs are fine. We never use sp", breaks_off=True, torn=torn))
    heard: list[str] = []
    with client(service) as using:
        stream = using.chat.completions.create(model="gpt-4o", messages=TELLS, stream=True)
        with pytest.raises(openai.APIError, match="closed the connection"):
            heard.extend(chunk.choices[0].delta.content or "" for chunk in stream)
    assert "".join(heard) == "Tabs are fine. We never use sp"
    [item] = captured(service)
    assert said(item) == [("user", TELLS[0]["content"]), ("assistant", "Tabs are fine.")]


def test_an_answer_in_one_piece_that_breaks_off_is_a_502(serve: Serve, model: Model) -> None:
    model.says(Says(body=b'{"choices": [', headers={"Content-Length": "999"}))
    with pytest.raises(openai.InternalServerError):
        completed(chatting(serve, model, chat_upstream_timeout=2.0))


@pytest.mark.parametrize("key", ["", "another"])
def test_a_key_that_is_not_cofios_opens_nothing(serve: Serve, model: Model, key: str) -> None:
    service = chatting(serve, model, api_key="cofio-key")
    headers = {} if key else {"Authorization": openai.Omit()}
    with client(service, key or "x") as using, pytest.raises(openai.AuthenticationError) as caught:
        using.chat.completions.create(model="gpt-4o", messages=ASKS, extra_headers=headers)
    assert caught.value.code == ("wrong_key" if key else "missing_key")
    assert caught.value.type == "authentication_error"
    assert model.seen == []


def test_our_own_refusals_read_like_openais(serve: Serve, model: Model) -> None:
    service = chatting(serve, model, max_body=2_000)
    with pytest.raises(openai.APIStatusError) as caught:
        completed(service, [{"role": "user", "content": "x" * 3_000}])
    assert (caught.value.status_code, caught.value.code, caught.value.type) == (
        413,
        "too_large",
        "invalid_request_error",
    )
    for body in (b"no", b"[]"):
        answer = service.send("POST", "/v1/chat/completions", body)
        assert (answer.status, answer.json["error"]["type"]) == (400, "invalid_request_error")
    with pytest.raises(openai.NotFoundError), client(service) as using:
        using.embeddings.create(model="m", input="x")
    assert model.seen == []


# ── hanging up, and many at once ──────────────────────────────────────────────────────────────────────────────────────


def test_when_the_client_hangs_up_so_do_we(serve: Serve, model: Model) -> None:
    service = chatting(serve, model)
    model.says(Says("Fine. And so on for a long time", gate=threading.Event()))
    with client(service) as using:
        stream = using.chat.completions.create(model="gpt-4o", messages=TELLS, stream=True)
        next(iter(stream))
        assert model.waiting.acquire(timeout=30)
        stream.close()
    assert model.left.acquire(timeout=30)
    [item] = captured(service)
    assert said(item) == [("user", TELLS[0]["content"]), ("assistant", "Fine.")]


def test_a_header_over_two_lines_comes_back_on_one(serve: Serve, model: Model) -> None:
    service = chatting(serve, model)
    model.says(Says(headers={"X-Request-Id": "req\r\n 1"}))
    body = json.dumps({"model": "m", "messages": ASKS}).encode()
    assert service.send("POST", "/v1/chat/completions", body).headers["x-request-id"] == "req 1"


def test_who_hangs_up_before_the_answer_keeps_no_model_busy(serve: Serve, model: Model) -> None:
    service = chatting(serve, model)
    model.says(Says(stalls=True))
    with pytest.raises(openai.APITimeoutError), client(service) as using:
        using.chat.completions.create(model="gpt-4o", messages=TELLS, timeout=0.5)
    assert model.left.acquire(timeout=30)
    assert service.get("/inbox/status").json["captured"] == 0


def test_slow_models_keep_nobody_else_waiting(serve: Serve, model: Model) -> None:
    service = chatting(serve, model)
    model.says(*[Says(stalls=True)] * RELAYS)
    body = json.dumps({"model": "m", "messages": ASKS}).encode()
    waiting = [HTTPConnection(service.host, service.port, timeout=60) for _ in range(RELAYS)]
    for each in waiting:
        each.request("POST", "/v1/chat/completions", body)
    assert all(model.waiting.acquire(timeout=60) for _ in waiting)
    assert service.post("/memory/add", {"text": PNPM}).status == 201
    assert service.post("/search", {"query": "package manager"}).status == 200
    with pytest.raises(openai.RateLimitError, match="chats are already running"):
        completed(service)
    for each in waiting:
        each.close()
    assert all(model.left.acquire(timeout=60) for _ in waiting)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:  # a place is free as soon as somebody is known to have gone
        if service.send("POST", "/v1/chat/completions", body).status == 200:
            return
    raise AssertionError


def test_the_service_ends_in_time_while_a_model_is_silent(tmp_path: Path, model: Model) -> None:
    model.says(Says(stalls=True))
    clock = FixedClock()
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock) as keeper:
        with serving(keeper, chat_upstream_url=model.url) as url:
            waiting = threading.Thread(target=_asked, args=(Caller(url),))
            waiting.start()
            assert model.waiting.acquire(timeout=30)
        waiting.join(30)  # `serving` has joined the service by now
    assert model.left.acquire(timeout=30)


def _asked(service: Caller) -> None:
    with pytest.raises(openai.APIError):
        completed(service)
