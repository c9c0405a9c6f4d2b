"""The gate: the route of a sentence without the judgement model, and the reason."""

from __future__ import annotations

import pytest

from cofio.ingest import gate
from cofio.ingest.extract import patterns
from cofio.models.exchange import OBSERVATION, Exchange, ExtractedFact, GateVerdict, Message

GREETING = "Greeting or confirmation"
QUESTION = "Pure question without facts"
MATCHED = "Pattern matched"
FOR_LLM = "Looks like a fact, but no pattern reads it"
NOTHING = "No extractable facts detected"

BY_THE_USER = {
    GREETING: [
        "Hi there!", "Sounds good!", "ok thanks", "yep", "lgtm", "great, thank you!", "Hello", "hey", "Hi Ann!",
        "Thanks a lot!", "Thank you Claude", "perfect, continue", "yes please", "go ahead", "makes sense", "👍",
    ],
    QUESTION: [
        "What is React?", "Hello, how are you?", "Should we always use tabs?", "do we use tabs or spaces",
        "Can you use Postgres instead of SQLite?", "why does it always fail", "I prefer tabs, don't you?",
    ],
    MATCHED: [
        "I prefer TypeScript over JavaScript", "We never use var", "We switched from JWT to Clerk for auth",
        "Remember that the demo is on Friday", "from now on answer in German", "ok so btw we use uv for tooling",
    ],
    FOR_LLM: [
        "Our team decided to use a microservices architecture for scalability", "commit messages should be short",
        "the tests use a real database", "There is a policy for naming things",
        "The root cause was a missing index", "forget what I said about asking first",
    ],
    NOTHING: [
        "add a migration that adds a column to users", "rename getUser to fetchUser everywhere", "all tests pass",
        "TypeError: we should never use this", '{"text": "I prefer dark mode"}', "Lorem ipsum dolor sit amet",
        "The error is in src/app.ts", "I like the new layout",
    ],
}  # fmt: skip

BY_THE_ASSISTANT = {
    QUESTION: ["Would you like me to always add tests?"],
    MATCHED: ["Found a workaround for NativeWind v4 by using className"],
    FOR_LLM: ["This happens because of a race between the two workers.", "I believe the root cause sits in the pool."],
    NOTHING: [
        "I prefer using async/await.", "You should always validate user input.", "We use React Query for fetching.",
        "All 44 tests pass.", "We switched from a for loop to map.",
    ],
}  # fmt: skip

ROUTES = {MATCHED: "pattern", FOR_LLM: "model"}


def rows(table: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(reason, sentence) for reason, sentences in table.items() for sentence in sentences]


@pytest.mark.parametrize(("reason", "sentence"), rows(BY_THE_USER))
def test_route_and_reason_of_a_user_sentence(reason: str, sentence: str) -> None:
    sentence_verdict = gate.weigh(sentence, "user", patterns.find)
    assert (sentence_verdict.reason, sentence_verdict.way) == (reason, ROUTES.get(reason, "skip"))
    assert bool(sentence_verdict.found) is (reason == MATCHED)
    assert (sentence_verdict.text, sentence_verdict.role) == (sentence, "user")


@pytest.mark.parametrize(("reason", "sentence"), rows(BY_THE_ASSISTANT))
def test_single_assistant_sentence_is_judged_more_strictly(reason: str, sentence: str) -> None:
    sentence_verdict = gate.weigh(sentence, "assistant", patterns.find)
    assert (sentence_verdict.reason, sentence_verdict.way) == (reason, ROUTES.get(reason, "skip"))
    assert {fact.role for fact in sentence_verdict.found} <= {"assistant"}


def judge(*messages: tuple[str, str]) -> GateVerdict:
    return gate.judge(Exchange(messages=tuple(Message(role, text) for role, text in messages)), patterns.find)


def test_statements_before_a_question_are_extracted() -> None:
    verdict = judge(("user", "We moved from Heroku to Fly.io. We use uv for tooling. Can you fix the deploy?"))
    assert [fact.text for fact in verdict.found] == ["Team moved from Heroku to Fly.io", "Team uses uv for tooling"]
    assert [sentence.way for sentence in verdict.sentences] == ["pattern", "pattern", "skip"]
    assert verdict.sentences[-1].reason == QUESTION


def test_question_attached_to_a_statement_does_not_hide_it() -> None:
    verdict = judge(("user", "We use pnpm, can you update the Dockerfile?"))
    assert [fact.text for fact in verdict.found] == ["We use pnpm"]


def test_one_fact_among_noise_is_found() -> None:
    text = "Thanks!\n```js\nI.prefer(tabs)\n```\nall tests pass. We never use var\n> we use npm\nlet's go on"
    assert [fact.text for fact in judge(("user", text)).found] == ["Team policy: never use var"]


def test_assistant_sentence_needs_the_llm_if_the_user_stated_something() -> None:
    advice = "You should always validate user input."
    assert judge(("user", "Rename the file."), ("assistant", advice)).way == "skip"
    with_fact = judge(("assistant", advice), ("user", "We use Postgres for storage."))
    assert [(sentence.role, sentence.way) for sentence in with_fact.sentences] == [
        ("assistant", "model"),
        ("user", "pattern"),
    ]


def test_answer_in_an_observation_is_judged_like_a_user_message() -> None:
    answer = "I prefer tabs. There is a policy for naming things."
    messages = (Message("user", "How do we indent?"), Message("assistant", answer))
    verdict = gate.judge(Exchange(messages=messages, context=OBSERVATION), patterns.find)
    assert [(sentence.role, sentence.way) for sentence in verdict.sentences] == [
        ("user", "skip"), ("assistant", "pattern"), ("assistant", "model"),
    ]  # fmt: skip
    assert {sentence.way for sentence in gate.judge(Exchange(messages=messages), patterns.find).sentences} == {"skip"}


def test_sentences_are_returned_in_order() -> None:
    verdict = judge(("user", "One. Two."), ("assistant", "Three."), ("user", "Four. Five."), ("assistant", "Six."))
    assert [sentence.text for sentence in verdict.sentences] == ["One.", "Two.", "Three.", "Four.", "Five.", "Six."]
    assert [sentence.role[0] for sentence in verdict.sentences] == list("uuauua")


def test_empty_exchange_has_no_sentences() -> None:
    assert judge().sentences == ()
    verdict = judge(("user", "```\nwe always use tabs\n```"))
    assert (verdict.way, verdict.reason) == ("skip", "Nothing was said")


def test_gate_uses_the_given_fact_finder() -> None:
    requests: list[tuple[str, str]] = []

    def find(sentence: str, /, *, role: str = "user") -> list[ExtractedFact]:
        requests.append((sentence, role))
        return [ExtractedFact(text="So it is", role=role)]

    verdict = gate.judge(
        Exchange(messages=(Message("user", "Hi! So it seems."), Message("assistant", "It does."))), find
    )
    assert requests == [("So it seems.", "user"), ("It does.", "assistant")]
    assert [fact.role for fact in verdict.found] == ["user", "assistant"]
