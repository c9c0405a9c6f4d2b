"""One suite for every provider, and for the model with a script where it applies."""

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

from .agents import AGENTS, Program, Says
from .wire import ANTHROPIC, COMPATIBLE, DIALECTS, KEY, OLLAMA, OPENAI, Dialect, Reply, Wire

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["facts"],
    "properties": {"facts": {"type": "array", "items": {"type": "string"}}},
}


def failure(llm: LLM) -> CofioError:
    with pytest.raises(CofioError) as caught:
        llm.complete("be brief", "what is new?", schema=SCHEMA)
    assert KEY not in str(caught.value)
    assert caught.value.hint
    return caught.value


# ── replies: every model, the scripted one too ────────────────────────────────────────────────────────────────────────

Saying = Callable[..., LLM]


@pytest.fixture(params=[*DIALECTS, *AGENTS, "scripted"])
def saying(request: pytest.FixtureRequest, retry: RetryPolicy, tmp_path: Path) -> Iterator[Saying]:
    """Makes a model that replies with this text."""
    if request.param in AGENTS:
        program = Program(AGENTS[request.param], tmp_path)

        def run(text: str, cut: bool = False) -> LLM:
            if cut and request.param == "codex-cli":
                pytest.skip("Codex reports a reply without room as a failure")
            program.says(Says(program.agent.reply(text, cut)))
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


def test_a_reply_comes_with_what_it_cost(saying: Saying) -> None:
    reply = saying('{"facts": ["x"]}').complete("s", "u")
    assert (reply.text, reply.truncated, reply.usage[:3]) == ('{"facts": ["x"]}', False, TokenUsage(1, 11, 7)[:3])


def test_a_reply_that_had_no_more_room_says_so(saying: Saying) -> None:
    reply = saying('{"facts": ["x", "y', cut=True).complete("s", "u", schema=SCHEMA)
    assert (reply.text, reply.truncated) == ('{"facts": ["x", "y', True)


@pytest.mark.parametrize("text", ["Sorry, I found nothing.", "```json\n[]\n```", "ünïcödé 🎉", "{<think>}</think>"])
def test_what_the_model_says_is_handed_on_as_it_is(saying: Saying, text: str) -> None:
    assert saying(text).complete("s", "u", schema=SCHEMA).text == text


def test_a_reply_of_nothing_is_a_reply(saying: Saying) -> None:
    reply = saying("").complete("s", "u")
    assert (reply.text, reply.truncated, reply.usage[:3]) == ("", False, TokenUsage(1, 11, 7)[:3])


def test_a_model_is_told_apart_by_its_names(saying: Saying) -> None:
    llm = saying("x")
    assert llm.provider_name in ("anthropic", "openai", "ollama", *AGENTS, "scripted")
    assert llm.model
    assert llm.supports_audn == llm.profile.reconciles
    assert llm.profile.json_schema
    assert llm.profile.context >= 16_384
    assert llm.health_check() == Health(True)


# ── requests ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_schema_goes_where_the_provider_looks_for_it(wire: Wire, llm: RemoteLLM) -> None:
    llm.complete("be brief", "what is new?", schema=SCHEMA)
    (seen,) = wire.seen
    assert seen.path == wire.dialect.base + wire.dialect.chat
    assert wire.dialect.schema_in(seen.body) == SCHEMA
    assert wire.dialect.system_in(seen.body) == "be brief"
    assert seen.body["messages"][-1] == {"role": "user", "content": "what is new?"}
    assert seen.body["model"] == wire.dialect.model


def test_without_a_schema_none_is_sent(wire: Wire, llm: RemoteLLM) -> None:
    llm.complete("be brief", "what is new?")
    assert not wire.seen[0].body.keys() & {"output_config", "response_format", "format"}


def test_the_key_goes_in_a_header_and_nowhere_else(wire: Wire, llm: RemoteLLM) -> None:
    llm.complete("s", "u", schema=SCHEMA)
    llm.health_check()
    for seen in wire.seen:
        assert [name for name, value in seen.headers.items() if KEY in value] in (["X-Api-Key"], ["Authorization"])
        assert KEY not in seen.path + json.dumps(seen.body)


def test_half_a_surrogate_pair_does_not_spoil_a_request(wire: Wire, llm: RemoteLLM) -> None:
    llm.complete("s", "cut \ud83d here")
    assert wire.seen[0].body["messages"][-1]["content"] == "cut ? here"


def test_threads_can_share_a_model(wire: Wire, llm: RemoteLLM) -> None:
    with ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda number: llm.complete("s", f"u{number}", schema=SCHEMA), range(24)))
    assert {reply.text for reply in replies} == {"hello"}
    assert {seen.body["messages"][-1]["content"] for seen in wire.seen} == {f"u{number}" for number in range(24)}


# ── failures that pass ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["limited", "busy"])
def test_a_failure_that_passes_is_waited_out_and_costs_nothing(
    wire: Wire, llm: RemoteLLM, pauses: list[float], name: str
) -> None:
    wire.say(wire.dialect.failure(name), wire.dialect.failure(name))
    reply = llm.complete("s", "u", schema=SCHEMA)
    assert (reply.text, reply.usage[:3]) == ("hello", TokenUsage(1, 11, 7)[:3])
    assert len(wire.seen) == 3
    assert 0.125 <= pauses[0] <= 0.25 <= pauses[1] * 1.000001 <= 0.500001


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 529])
def test_a_failure_that_stays_is_unavailable_in_the_providers_words(
    wire: Wire, llm: RemoteLLM, pauses: list[float], status: int
) -> None:
    wire.say(*[wire.dialect.refusal(status, "the oracle is asleep")] * 9)
    error = failure(llm)
    assert isinstance(error, Unavailable)
    assert str(status) in error.message
    assert "the oracle is asleep" in error.message
    assert (len(wire.seen), len(pauses)) == (4, 3)


@pytest.mark.parametrize(("asked", "paused"), [("2", 2.0), ("0", 0.0), ("3600", MAX_PAUSE)])
def test_the_pause_that_the_provider_asks_for_is_kept_within_bounds(
    wire: Wire, llm: RemoteLLM, pauses: list[float], asked: str, paused: float
) -> None:
    wire.say(wire.dialect.failure("limited", Retry_After=asked))
    llm.complete("s", "u")
    assert pauses == [paused]


def test_a_request_is_not_repeated_after_the_connection_breaks(wire: Wire, llm: RemoteLLM, pauses: list[float]) -> None:
    wire.say(Reply(body=json.dumps(wire.dialect.reply("hello", "done")).encode()[:40], promised=900))
    assert isinstance(failure(llm), NoReply)  # it may be billed: the budget counts it, and the inbox tries again
    assert (len(wire.seen), pauses) == (1, [])


def test_a_provider_that_is_not_there_is_unavailable(dialect: Dialect, retry: RetryPolicy, pauses: list[float]) -> None:
    with Wire(dialect) as gone:
        base = gone.base
    error = failure(dialect.make(base, retry))
    assert type(error) is Unavailable  # nothing was sent that could be billed
    assert "could not be reached" in error.message
    assert len(pauses) == 3


def test_a_provider_that_is_too_slow_is_unavailable_at_once(
    wire: Wire, retry: RetryPolicy, pauses: list[float]
) -> None:
    wire.say(Reply(after=1.0))
    error = failure(wire.dialect.make(wire.base, replace(retry, timeout=0.05)))
    assert isinstance(error, NoReply)  # it may be billed
    assert "0.05 seconds" in error.message
    assert (len(wire.seen), pauses) == (1, [])


def test_an_account_without_credit_is_unavailable_and_not_waited_for(wire: Wire, llm: RemoteLLM) -> None:
    wire.say(*[wire.dialect.failure("unpaid")] * 9)
    error = failure(llm)
    assert isinstance(error, Unavailable)
    assert "credit" in error.hint
    assert len(wire.seen) == 1


# ── failures that stay ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["wrong key", "not allowed"])
def test_a_refused_key_is_misconfigured_and_says_what_to_set(wire: Wire, llm: RemoteLLM, name: str) -> None:
    wire.say(wire.dialect.failure(name))
    error = failure(llm)
    assert isinstance(error, Misconfigured)
    assert "key is refused" in error.message
    assert "COFIO_EXTRACT_KEY" in error.hint
    assert len(wire.seen) == 1


def test_a_model_that_is_gone_is_named_with_what_to_set(wire: Wire, llm: RemoteLLM) -> None:
    wire.say(wire.dialect.failure("no model"))
    error = failure(llm)
    assert isinstance(error, Misconfigured)
    assert f"has no model {wire.dialect.model}" in error.message
    assert "EXTRACT_MODEL" in error.hint
    assert len(wire.seen) == 1


def test_a_path_that_is_not_there_points_at_the_address(wire: Wire, llm: RemoteLLM) -> None:
    wire.say(Reply(404, b"404 page not found"))
    error = failure(llm)
    assert isinstance(error, Misconfigured)
    assert wire.base in error.message
    assert "_URL" in error.hint
    assert "EXTRACT_MODEL" in error.hint


def test_too_long_a_text_is_too_large(wire: Wire, llm: RemoteLLM) -> None:
    wire.say(wire.dialect.failure("too long"))
    error = failure(llm)
    assert isinstance(error, TooLarge)
    assert f"{llm.profile.context:,}" in error.hint
    assert len(wire.seen) == 1


def test_too_large_a_request_is_too_large(wire: Wire, llm: RemoteLLM) -> None:
    wire.say(Reply(413, b"<html><head><title>413 Request Entity Too Large</title></head></html>"))
    assert isinstance(failure(llm), TooLarge)


def test_too_long_a_text_is_not_taken_for_a_complaint_about_the_schema(wire: Wire, llm: RemoteLLM) -> None:
    message = "context length exceeded: prompt, response_format schema, output_config and max_tokens need 9000 tokens"
    wire.say(wire.dialect.refusal(400, message))
    assert isinstance(failure(llm), TooLarge)
    assert len(wire.seen) == 1


@pytest.mark.parametrize("status", [400, 405, 415, 422])
def test_a_request_that_is_not_taken_is_misconfigured_in_the_providers_words(
    wire: Wire, llm: RemoteLLM, status: int
) -> None:
    wire.say(wire.dialect.refusal(status, "unheard of"))
    error = failure(llm)
    assert isinstance(error, Misconfigured)
    assert "unheard of" in error.message
    assert len(wire.seen) == 1


def test_a_complaint_as_recorded_is_quoted(wire: Wire, llm: RemoteLLM) -> None:
    wire.say(wire.dialect.failure("odd"))
    said = str(wire.dialect.failures["odd"].body)
    error = failure(llm)
    assert isinstance(error, Misconfigured)
    assert any(word in error.message for word in ("message", "prompt", "num_ctx") if word in said)


@pytest.mark.parametrize("status", [408, 409, 425, 501, 520])
def test_other_failures_of_a_server_are_unavailable(wire: Wire, llm: RemoteLLM, status: int) -> None:
    wire.say(wire.dialect.refusal(status, "strange"))
    assert isinstance(failure(llm), Unavailable)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_with_the_key(wire: Wire, llm: RemoteLLM, status: int) -> None:
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
def test_a_reply_that_makes_no_sense_is_unavailable(wire: Wire, llm: RemoteLLM, body: bytes) -> None:
    wire.say(Reply(body=body))
    assert isinstance(failure(llm), Unavailable)


def test_an_error_that_calls_itself_a_success_is_quoted(wire: Wire, llm: RemoteLLM) -> None:
    wire.say(Reply(body={"error": {"message": f"Provider returned error {KEY}", "code": 502}}))
    assert "Provider returned error" in failure(llm).message


def test_usage_that_makes_no_sense_counts_as_a_call(wire: Wire, llm: RemoteLLM) -> None:
    reply = wire.dialect.reply("hello", "done")
    reply |= {"usage": ["?"], "prompt_eval_count": "many", "eval_count": -1}
    wire.say(Reply(body=reply))
    assert llm.complete("s", "u") == Completion("hello", False, TokenUsage(1, 0, 0))


@pytest.mark.parametrize("dialect", [ANTHROPIC, OPENAI, COMPATIBLE], ids=["anthropic", "openai", "compatible"])
def test_a_model_that_refuses_is_told_from_a_provider_that_fails(wire: Wire, llm: RemoteLLM) -> None:
    wire.ending = "refused"
    error = failure(llm)
    assert isinstance(error, RefusedError)
    assert f"{wire.dialect.model} refused" in error.message
    assert len(wire.seen) == 1


def test_a_filter_before_the_model_refuses_too(wire: Wire, llm: RemoteLLM) -> None:
    wire.say(wire.dialect.refusal(400, "content_filter: the prompt triggered a policy"))
    assert isinstance(failure(llm), RefusedError)


# ── wishes that a server does not know ────────────────────────────────────────────────────────────────────────────────


def test_a_server_that_does_not_know_schemas_is_asked_without_and_that_is_remembered(
    wire: Wire, llm: RemoteLLM
) -> None:
    assert llm.profile.json_schema
    wire.say(wire.dialect.failure("no schema"))
    assert llm.complete("s", "u", schema=SCHEMA).text == "hello"
    assert not llm.profile.json_schema
    llm.complete("s", "u", schema=SCHEMA)
    sent = [json.dumps(seen.body) for seen in wire.seen]
    assert ["additionalProperties" in each for each in sent] == [True, False, False]


def test_what_is_left_out_is_logged_once(wire: Wire, llm: RemoteLLM, caplog: pytest.LogCaptureFixture) -> None:
    wire.say(wire.dialect.failure("no schema"))
    for _ in range(3):
        llm.complete("s", "u", schema=SCHEMA)
    (record,) = caplog.records
    assert "json_schema" in record.getMessage()
    assert wire.dialect.model in record.getMessage()


def test_a_complaint_that_leaving_out_does_not_mend_is_not_remembered(wire: Wire, llm: RemoteLLM) -> None:
    wire.say(*[wire.dialect.failure("no schema")] * 9)
    assert isinstance(failure(llm), Misconfigured)
    assert len(wire.seen) <= 4
    assert llm.profile.json_schema


# ── health ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_look_at_health_asks_for_no_tokens(wire: Wire, llm: RemoteLLM) -> None:
    assert llm.health_check() == Health(True)
    (seen,) = wire.seen
    assert (seen.path, seen.body) == (wire.dialect.base + wire.dialect.look, None)


def test_health_names_a_model_that_is_gone(wire: Wire, llm: RemoteLLM) -> None:
    wire.has = []
    health = llm.health_check()
    assert not health
    assert f"has no model {wire.dialect.model}" in health.problem
    assert "EXTRACT_MODEL" in health.problem


@pytest.mark.parametrize("name", ["wrong key", "not allowed"])
def test_health_says_that_the_key_is_refused(wire: Wire, llm: RemoteLLM, name: str) -> None:
    wire.say(wire.dialect.failure(name))
    health = llm.health_check()
    assert not health
    assert "key is refused" in health.problem
    assert "COFIO_EXTRACT_KEY" in health.problem
    assert KEY not in health.problem


def test_health_says_that_nobody_is_there_and_asks_once(
    dialect: Dialect, retry: RetryPolicy, pauses: list[float]
) -> None:
    with Wire(dialect) as gone:
        base = gone.base
    health = dialect.make(base, retry).health_check()
    assert not health
    assert "could not be reached" in health.problem
    assert pauses == []


@pytest.mark.parametrize("status", [302, 429, 500, 529])
def test_health_tells_any_other_failure(wire: Wire, llm: RemoteLLM, status: int) -> None:
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
def test_health_copes_with_a_list_that_is_none(wire: Wire, llm: RemoteLLM, body: bytes) -> None:
    wire.say(Reply(body=body))
    assert isinstance(llm.health_check(), Health)


def test_health_does_not_wait_as_long_as_a_question(
    wire: Wire, llm: RemoteLLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert HEALTH_TIMEOUT == 5.0
    for module in ("anthropic", "openai", "ollama"):
        monkeypatch.setattr(f"cofio.providers.llms.{module}.HEALTH_TIMEOUT", 0.05)
    wire.say(Reply(after=1.0))
    health = llm.health_check()
    assert not health
    assert "0.05 seconds" in health.problem


# ── the wire itself ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def dripping() -> Iterator[str]:
    """A server that sends a blank every few milliseconds, for ever."""
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
                pass  # the client has hung up: that is what the test is about

    thread = threading.Thread(target=drip, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.getsockname()[1]}"
    over.set()
    thread.join()
    server.close()


def test_a_server_that_answers_in_drops_is_too_slow_as_well(dripping: str, retry: RetryPolicy) -> None:
    began = time.monotonic()
    error = failure(OLLAMA.make(dripping, replace(retry, timeout=0.2)))
    assert isinstance(error, Unavailable)
    assert "0.2 seconds" in error.message
    assert time.monotonic() - began < 10


def test_an_endless_answer_does_not_fill_the_memory(
    wire: Wire, llm: RemoteLLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "MAX_BYTES", 1_000)
    wire.says = "x" * 2_000
    assert isinstance(failure(llm), Unavailable)
    assert len(wire.seen) == 1


# ── the model with a script ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_script_is_played_in_order_and_the_questions_are_kept() -> None:
    llm = ScriptedLLM(["one", Completion("two", True), RefusedError("no", "never")])
    assert llm.complete("s", "first") == Completion("one", False, TokenUsage(1))
    assert llm.complete("s", "second", schema=SCHEMA) == Completion("two", True)
    with pytest.raises(RefusedError):
        llm.complete("s", "third")
    assert llm.calls == [("s", "first", None), ("s", "second", SCHEMA), ("s", "third", None)]


def test_a_call_beyond_the_script_says_which_one_it_was() -> None:
    llm = ScriptedLLM(["one"])
    llm.complete("s", "u")
    with pytest.raises(AssertionError, match=r"Call 2 of a script with 1 replies: 'again'"):
        llm.complete("s", "again")


def test_a_script_can_play_a_weak_or_a_sick_model() -> None:
    llm: Any = ScriptedLLM([], reconciles=False, provider_name="p", model="m", health=Health(False, "gone"))
    assert (llm.supports_audn, llm.profile.reconciles, llm.provider_name, llm.model) == (False, False, "p", "m")
    assert llm.health_check() == Health(False, "gone")
