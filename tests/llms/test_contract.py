"""Contract suite of LLM providers, and of the scripted fake where it applies."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cofio.errors import CofioError, Misconfigured, NoReply, RefusedError, TooLarge, Unavailable
from cofio.models.exchange import TokenUsage
from cofio.ports import LLM, Completion, Health
from cofio.providers import http
from cofio.providers.http import MAX_PAUSE, RetryPolicy
from cofio.providers.llms.base import HEALTH_TIMEOUT, RemoteLLM
from cofio.testing import ScriptedLLM

from .agents import AGENTS, Program, ProgramOutput
from .wire import ANTHROPIC, COMPATIBLE, DIALECTS, KEY, OLLAMA, OPENAI, Dialect, Reply, Wire

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["facts"],
    "properties": {"facts": {"type": "array", "items": {"type": "string"}}},
}


def failure(llm: LLM) -> CofioError:
    with pytest.raises(CofioError) as error_info:
        llm.complete("be brief", "what is new?", schema=SCHEMA)
    assert KEY not in str(error_info.value)
    assert error_info.value.hint
    return error_info.value


# ── replies, also of the scripted model ───────────────────────────────────────────────────────────────────────────────

ModelWithReply = Callable[..., LLM]


@pytest.fixture(params=[*DIALECTS, *AGENTS, "scripted"])
def model_with_reply(request: pytest.FixtureRequest, retry: RetryPolicy, tmp_path: Path) -> Iterator[ModelWithReply]:
    """Return a factory of models that reply with the given text."""
    if request.param in AGENTS:
        program = Program(AGENTS[request.param], tmp_path)

        def run(text: str, cut: bool = False) -> LLM:
            if cut and request.param == "codex-cli":
                pytest.skip("Codex reports a reply without room as a failure")
            program.says(ProgramOutput(program.agent.reply(text, cut)))
            return program.make()

        yield run
        return
    if request.param == "scripted":
        yield lambda text, cut=False: ScriptedLLM([Completion(text, cut, TokenUsage(1, 11, 7))])
        return
    with Wire(DIALECTS[request.param]) as wire:

        def say(text: str, cut: bool = False) -> LLM:
            wire.says, wire.ending = text, "cut" if cut else "done"
            return wire.dialect.make(wire.base, retry)

        yield say


def test_reply_has_text_and_usage(model_with_reply: ModelWithReply) -> None:
    reply = model_with_reply('{"facts": ["x"]}').complete("s", "u")
    assert (reply.text, reply.truncated, reply.usage[:3]) == ('{"facts": ["x"]}', False, TokenUsage(1, 11, 7)[:3])


def test_truncated_reply_is_marked(model_with_reply: ModelWithReply) -> None:
    reply = model_with_reply('{"facts": ["x", "y', cut=True).complete("s", "u", schema=SCHEMA)
    assert (reply.text, reply.truncated) == ('{"facts": ["x", "y', True)


@pytest.mark.parametrize("text", ["Sorry, I found nothing.", "```json\n[]\n```", "ünïcödé 🎉", "{<think>}</think>"])
def test_reply_text_is_unchanged(model_with_reply: ModelWithReply, text: str) -> None:
    assert model_with_reply(text).complete("s", "u", schema=SCHEMA).text == text


def test_empty_reply_is_valid(model_with_reply: ModelWithReply) -> None:
    reply = model_with_reply("").complete("s", "u")
    assert (reply.text, reply.truncated, reply.usage[:3]) == ("", False, TokenUsage(1, 11, 7)[:3])


def test_provider_and_model_names_are_set(model_with_reply: ModelWithReply) -> None:
    llm = model_with_reply("x")
    assert llm.provider_name in ("anthropic", "openai", "ollama", *AGENTS, "scripted")
    assert llm.model
    assert llm.supports_audn == llm.profile.reconciles
    assert llm.profile.json_schema
    assert llm.profile.context >= 16_384
    assert llm.health_check() == Health(True)


# ── requests ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_schema_is_sent_where_the_provider_expects_it(wire: Wire, llm: RemoteLLM) -> None:
    llm.complete("be brief", "what is new?", schema=SCHEMA)
    (seen,) = wire.seen
    assert seen.path == wire.dialect.base + wire.dialect.chat
    assert wire.dialect.schema_in(seen.body) == SCHEMA
    assert wire.dialect.system_in(seen.body) == "be brief"
    assert seen.body["messages"][-1] == {"role": "user", "content": "what is new?"}
    assert seen.body["model"] == wire.dialect.model


def test_no_schema_is_sent_without_one(wire: Wire, llm: RemoteLLM) -> None:
    llm.complete("be brief", "what is new?")
    assert not wire.seen[0].body.keys() & {"output_config", "response_format", "format"}


def test_key_is_sent_in_a_header_only(wire: Wire, llm: RemoteLLM) -> None:
    llm.complete("s", "u", schema=SCHEMA)
    llm.health_check()
    for seen in wire.seen:
        assert [name for name, value in seen.headers.items() if KEY in value] in (["X-Api-Key"], ["Authorization"])
        assert KEY not in seen.path + json.dumps(seen.body)


def test_lone_surrogate_is_replaced_in_requests(wire: Wire, llm: RemoteLLM) -> None:
    llm.complete("s", "cut \ud83d here")
    assert wire.seen[0].body["messages"][-1]["content"] == "cut ? here"


def test_model_is_shared_by_threads(wire: Wire, llm: RemoteLLM) -> None:
    with ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda number: llm.complete("s", f"u{number}", schema=SCHEMA), range(24)))
    assert {reply.text for reply in replies} == {"hello"}
    assert {seen.body["messages"][-1]["content"] for seen in wire.seen} == {f"u{number}" for number in range(24)}


# ── temporary failures ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["limited", "busy"])
def test_temporary_failure_is_retried_and_not_billed(
    wire: Wire, llm: RemoteLLM, pauses: list[float], name: str
) -> None:
    wire.say(wire.dialect.failure(name), wire.dialect.failure(name))
    reply = llm.complete("s", "u", schema=SCHEMA)
    assert (reply.text, reply.usage[:3]) == ("hello", TokenUsage(1, 11, 7)[:3])
    assert len(wire.seen) == 3
    assert 0.125 <= pauses[0] <= 0.25 <= pauses[1] * 1.000001 <= 0.500001


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 529])
def test_permanent_server_error_is_unavailable_in_the_providers_words(
    wire: Wire, llm: RemoteLLM, pauses: list[float], status: int
) -> None:
    wire.say(*[wire.dialect.refusal(status, "the oracle is asleep")] * 9)
    error = failure(llm)
    assert isinstance(error, Unavailable)
    assert str(status) in error.message
    assert "the oracle is asleep" in error.message
    assert (len(wire.seen), len(pauses)) == (4, 3)


@pytest.mark.parametrize(("retry_after", "expected_pause"), [("2", 2.0), ("0", 0.0), ("3600", MAX_PAUSE)])
def test_retry_after_is_respected_within_limits(
    wire: Wire, llm: RemoteLLM, pauses: list[float], retry_after: str, expected_pause: float
) -> None:
    wire.say(wire.dialect.failure("limited", Retry_After=retry_after))
    llm.complete("s", "u")
    assert pauses == [expected_pause]


def test_broken_connection_is_not_retried(wire: Wire, llm: RemoteLLM, pauses: list[float]) -> None:
    wire.say(Reply(body=json.dumps(wire.dialect.reply("hello", "done")).encode()[:40], promised=900))
    assert isinstance(failure(llm), NoReply)  # it may be billed: the budget counts it, and the inbox retries
    assert (len(wire.seen), pauses) == (1, [])


def test_unreachable_provider_is_unavailable(dialect: Dialect, retry: RetryPolicy, pauses: list[float]) -> None:
    with Wire(dialect) as deleted:
        base = deleted.base
    error = failure(dialect.make(base, retry))
    assert type(error) is Unavailable  # nothing was sent that could be billed
    assert "could not be reached" in error.message
    assert len(pauses) == 3


def test_timeout_is_unavailable_without_retry(wire: Wire, retry: RetryPolicy, pauses: list[float]) -> None:
    wire.say(Reply(after=1.0))
    error = failure(wire.dialect.make(wire.base, replace(retry, timeout=0.05)))
    assert isinstance(error, NoReply)  # it may be billed
    assert "0.05 seconds" in error.message
    assert (len(wire.seen), pauses) == (1, [])


def test_account_without_credit_is_not_retried(wire: Wire, llm: RemoteLLM) -> None:
    wire.say(*[wire.dialect.failure("unpaid")] * 9)
    error = failure(llm)
    assert isinstance(error, Unavailable)
    assert "credit" in error.hint
    assert len(wire.seen) == 1


# ── permanent failures ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["wrong key", "not allowed"])
def test_rejected_key_is_misconfigured_with_the_setting(wire: Wire, llm: RemoteLLM, name: str) -> None:
    wire.say(wire.dialect.failure(name))
    error = failure(llm)
    assert isinstance(error, Misconfigured)
    assert "key is refused" in error.message
    assert "COFIO_EXTRACT_KEY" in error.hint
    assert len(wire.seen) == 1


def test_unknown_model_is_named_with_the_setting(wire: Wire, llm: RemoteLLM) -> None:
    wire.say(wire.dialect.failure("no model"))
    error = failure(llm)
    assert isinstance(error, Misconfigured)
    assert f"has no model {wire.dialect.model}" in error.message
    assert "EXTRACT_MODEL" in error.hint
    assert len(wire.seen) == 1


def test_unknown_path_suggests_checking_the_url(wire: Wire, llm: RemoteLLM) -> None:
    wire.say(Reply(404, b"404 page not found"))
    error = failure(llm)
    assert isinstance(error, Misconfigured)
    assert wire.base in error.message
    assert "_URL" in error.hint
    assert "EXTRACT_MODEL" in error.hint


def test_too_long_text_raises_too_large(wire: Wire, llm: RemoteLLM) -> None:
    wire.say(wire.dialect.failure("too long"))
    error = failure(llm)
    assert isinstance(error, TooLarge)
    assert f"{llm.profile.context:,}" in error.hint
    assert len(wire.seen) == 1


def test_too_large_request_raises_too_large(wire: Wire, llm: RemoteLLM) -> None:
    wire.say(Reply(413, b"<html><head><title>413 Request Entity Too Large</title></head></html>"))
    assert isinstance(failure(llm), TooLarge)


def test_context_error_is_not_treated_as_schema_error(wire: Wire, llm: RemoteLLM) -> None:
    message = "context length exceeded: prompt, response_format schema, output_config and max_tokens need 9000 tokens"
    wire.say(wire.dialect.refusal(400, message))
    assert isinstance(failure(llm), TooLarge)
    assert len(wire.seen) == 1


@pytest.mark.parametrize("status", [400, 405, 415, 422])
def test_rejected_request_is_misconfigured_in_the_providers_words(wire: Wire, llm: RemoteLLM, status: int) -> None:
    wire.say(wire.dialect.refusal(status, "unheard of"))
    error = failure(llm)
    assert isinstance(error, Misconfigured)
    assert "unheard of" in error.message
    assert len(wire.seen) == 1


def test_recorded_error_is_quoted(wire: Wire, llm: RemoteLLM) -> None:
    wire.say(wire.dialect.failure("odd"))
    text = str(wire.dialect.failures["odd"].body)
    error = failure(llm)
    assert isinstance(error, Misconfigured)
    assert any(word in error.message for word in ("message", "prompt", "num_ctx") if word in text)


@pytest.mark.parametrize("status", [408, 409, 425, 501, 520])
def test_other_server_errors_are_unavailable(wire: Wire, llm: RemoteLLM, status: int) -> None:
    wire.say(wire.dialect.refusal(status, "strange"))
    assert isinstance(failure(llm), Unavailable)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirect_is_not_followed_with_the_key(wire: Wire, llm: RemoteLLM, status: int) -> None:
    with Wire(wire.dialect) as thief:
        wire.say(Reply(status, b"", {"Location": thief.base + wire.dialect.chat}))
        error = failure(llm)
        assert isinstance(error, Misconfigured)
        assert str(status) in error.message
        assert "_URL" in error.hint
        assert thief.seen == []


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"null", b"3", b"{}", b'{"content": 1}', b'{"choices": []}', b'{"message": []}',
             b'{"choices": [{"message": 1}]}', b"[" * 100_000]
)  # fmt: skip
def test_malformed_reply_is_unavailable(wire: Wire, llm: RemoteLLM, body: bytes) -> None:
    wire.say(Reply(body=body))
    assert isinstance(failure(llm), Unavailable)


def test_error_with_status_200_is_quoted(wire: Wire, llm: RemoteLLM) -> None:
    wire.say(Reply(body={"error": {"message": f"Provider returned error {KEY}", "code": 502}}))
    assert "Provider returned error" in failure(llm).message


def test_malformed_usage_counts_as_a_call(wire: Wire, llm: RemoteLLM) -> None:
    reply = wire.dialect.reply("hello", "done")
    reply |= {"usage": ["?"], "prompt_eval_count": "many", "eval_count": -1}
    wire.say(Reply(body=reply))
    assert llm.complete("s", "u") == Completion("hello", False, TokenUsage(1, 0, 0))


@pytest.mark.parametrize("dialect", [ANTHROPIC, OPENAI, COMPATIBLE], ids=["anthropic", "openai", "compatible"])
def test_refusal_is_distinguished_from_failure(wire: Wire, llm: RemoteLLM) -> None:
    wire.ending = "refused"
    error = failure(llm)
    assert isinstance(error, RefusedError)
    assert f"{wire.dialect.model} refused" in error.message
    assert len(wire.seen) == 1


def test_content_filter_is_a_refusal(wire: Wire, llm: RemoteLLM) -> None:
    wire.say(wire.dialect.refusal(400, "content_filter: the prompt triggered a policy"))
    assert isinstance(failure(llm), RefusedError)


# ── unsupported options ───────────────────────────────────────────────────────────────────────────────────────────────


def test_unsupported_schema_is_omitted_and_remembered(wire: Wire, llm: RemoteLLM) -> None:
    assert llm.profile.json_schema
    wire.say(wire.dialect.failure("no schema"))
    assert llm.complete("s", "u", schema=SCHEMA).text == "hello"
    assert not llm.profile.json_schema
    llm.complete("s", "u", schema=SCHEMA)
    sent = [json.dumps(seen.body) for seen in wire.seen]
    assert ["additionalProperties" in item for item in sent] == [True, False, False]


def test_omitted_option_is_logged_once(wire: Wire, llm: RemoteLLM, caplog: pytest.LogCaptureFixture) -> None:
    wire.say(wire.dialect.failure("no schema"))
    for _ in range(3):
        llm.complete("s", "u", schema=SCHEMA)
    (record,) = caplog.records
    assert "json_schema" in record.getMessage()
    assert wire.dialect.model in record.getMessage()


def test_omission_without_effect_is_not_remembered(wire: Wire, llm: RemoteLLM) -> None:
    wire.say(*[wire.dialect.failure("no schema")] * 9)
    assert isinstance(failure(llm), Misconfigured)
    assert len(wire.seen) <= 4
    assert llm.profile.json_schema


# ── health ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_health_check_uses_no_tokens(wire: Wire, llm: RemoteLLM) -> None:
    assert llm.health_check() == Health(True)
    (seen,) = wire.seen
    assert (seen.path, seen.body) == (wire.dialect.base + wire.dialect.look, None)


def test_health_reports_unknown_model(wire: Wire, llm: RemoteLLM) -> None:
    wire.has = []
    health = llm.health_check()
    assert not health
    assert f"has no model {wire.dialect.model}" in health.problem
    assert "EXTRACT_MODEL" in health.problem


@pytest.mark.parametrize("name", ["wrong key", "not allowed"])
def test_health_reports_rejected_key(wire: Wire, llm: RemoteLLM, name: str) -> None:
    wire.say(wire.dialect.failure(name))
    health = llm.health_check()
    assert not health
    assert "key is refused" in health.problem
    assert "COFIO_EXTRACT_KEY" in health.problem
    assert KEY not in health.problem


def test_health_reports_unreachable_provider_without_retry(
    dialect: Dialect, retry: RetryPolicy, pauses: list[float]
) -> None:
    with Wire(dialect) as deleted:
        base = deleted.base
    health = dialect.make(base, retry).health_check()
    assert not health
    assert "could not be reached" in health.problem
    assert pauses == []


@pytest.mark.parametrize("status", [302, 429, 500, 529])
def test_health_reports_other_failures(wire: Wire, llm: RemoteLLM, status: int) -> None:
    wire.say(wire.dialect.refusal(status, "the oracle is asleep"))
    health = llm.health_check()
    assert not health
    assert str(status) in health.problem
    assert len(wire.seen) == 1


@pytest.mark.parametrize("body", [b"", b"<html>", b"[" * 100_000])
def test_health_never_raises(wire: Wire, llm: RemoteLLM, body: bytes) -> None:
    wire.say(Reply(body=body))
    assert not llm.health_check()


@pytest.mark.parametrize("body", [b"[]", b"null", b'{"models": [1], "data": [1]}', b'{"models": 3, "data": 3}'])
def test_health_tolerates_malformed_model_lists(wire: Wire, llm: RemoteLLM, body: bytes) -> None:
    wire.say(Reply(body=body))
    assert isinstance(llm.health_check(), Health)


def test_health_has_a_shorter_timeout(wire: Wire, llm: RemoteLLM, monkeypatch: pytest.MonkeyPatch) -> None:
    assert HEALTH_TIMEOUT == 5.0
    for module in ("anthropic", "openai", "ollama"):
        monkeypatch.setattr(f"cofio.providers.llms.{module}.HEALTH_TIMEOUT", 0.05)
    wire.say(Reply(after=1.0))
    health = llm.health_check()
    assert not health
    assert "0.05 seconds" in health.problem


# ── connection ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def dripping_server() -> Iterator[str]:
    """Yield the URL of a server that sends a blank every few milliseconds."""
    server = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def drip() -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(65_536)
            try:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                while not over.wait(0.02):
                    connection.sendall(b" ")
            except OSError:
                pass  # the client has disconnected

    thread = threading.Thread(target=drip, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.getsockname()[1]}"
    over.set()
    thread.join()
    server.close()


def test_dripping_server_times_out(dripping_server: str, retry: RetryPolicy) -> None:
    start_time = time.monotonic()
    error = failure(OLLAMA.make(dripping_server, replace(retry, timeout=0.2)))
    assert isinstance(error, Unavailable)
    assert "0.2 seconds" in error.message
    assert time.monotonic() - start_time < 10


def test_endless_reply_is_limited(wire: Wire, llm: RemoteLLM, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_BYTES", 1_000)
    wire.says = "x" * 2_000
    assert isinstance(failure(llm), Unavailable)
    assert len(wire.seen) == 1


# ── scripted model ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_scripted_replies_are_returned_in_order_and_calls_recorded() -> None:
    llm = ScriptedLLM(["one", Completion("two", True), RefusedError("no", "never")])
    assert llm.complete("s", "first") == Completion("one", False, TokenUsage(1))
    assert llm.complete("s", "second", schema=SCHEMA) == Completion("two", True)
    with pytest.raises(RefusedError):
        llm.complete("s", "third")
    assert llm.calls == [("s", "first", None), ("s", "second", SCHEMA), ("s", "third", None)]


def test_call_beyond_the_script_raises_error_with_its_number() -> None:
    llm = ScriptedLLM(["one"])
    llm.complete("s", "u")
    with pytest.raises(AssertionError, match=r"Call 2 of a script with 1 replies: 'again'"):
        llm.complete("s", "again")


def test_scripted_model_profile_and_health_are_configurable() -> None:
    llm: Any = ScriptedLLM([], reconciles=False, provider_name="p", model="m", health=Health(False, "gone"))
    assert (llm.supports_audn, llm.profile.reconciles, llm.provider_name, llm.model) == (False, False, "p", "m")
    assert llm.health_check() == Health(False, "gone")
