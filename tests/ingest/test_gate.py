"""The gate: which way a sentence goes without the judgement model, and why."""

from __future__ import annotations

import pytest

from cofio.ingest import gate
from cofio.ingest.extract import patterns
from cofio.models.exchange import OBSERVATION, Exchange, ExtractedFact, GateVerdict, Message

GREETING = "Greeting or confirmation"
QUESTION = "Pure question without facts"
MATCHED = "Pattern matched"
UNREAD = "Looks like a fact, but no pattern reads it"
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
    UNREAD: [
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
    UNREAD: ["This happens because of a race between the two workers.", "I believe the root cause sits in the pool."],
    NOTHING: [
        "I prefer using async/await.", "You should always validate user input.", "We use React Query for fetching.",
        "All 44 tests pass.", "We switched from a for loop to map.",
    ],
}  # fmt: skip

WAYS = {MATCHED: "pattern", UNREAD: "model"}


def rows(table: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(reason, sentence) for reason, sentences in table.items() for sentence in sentences]


@pytest.mark.parametrize(("reason", "sentence"), rows(BY_THE_USER))
def test_a_users_sentence_goes_its_way_for_a_reason(reason: str, sentence: str) -> None:
    weighed = gate.weigh(sentence, "user", patterns.find)
    assert (weighed.reason, weighed.way) == (reason, WAYS.get(reason, "skip"))
    assert bool(weighed.found) is (reason == MATCHED)
    assert (weighed.text, weighed.role) == (sentence, "user")


@pytest.mark.parametrize(("reason", "sentence"), rows(BY_THE_ASSISTANT))
def test_an_assistants_sentence_on_its_own_is_judged_more_strictly(reason: str, sentence: str) -> None:
    weighed = gate.weigh(sentence, "assistant", patterns.find)
    assert (weighed.reason, weighed.way) == (reason, WAYS.get(reason, "skip"))
    assert {each.role for each in weighed.found} <= {"assistant"}


def judged(*said: tuple[str, str]) -> GateVerdict:
    return gate.judge(Exchange(messages=tuple(Message(role, text) for role, text in said)), patterns.find)


def test_a_text_that_ends_in_a_question_still_yields_the_statements_before_it() -> None:
    verdict = judged(("user", "We moved from Heroku to Fly.io. We use uv for tooling. Can you fix the deploy?"))
    assert [each.text for each in verdict.found] == ["Team moved from Heroku to Fly.io", "Team uses uv for tooling"]
    assert [sentence.way for sentence in verdict.sentences] == ["pattern", "pattern", "skip"]
    assert verdict.sentences[-1].reason == QUESTION


def test_a_question_that_hangs_on_a_statement_does_not_hide_it() -> None:
    verdict = judged(("user", "We use pnpm, can you update the Dockerfile?"))
    assert [each.text for each in verdict.found] == ["We use pnpm"]


def test_one_fact_among_noise_is_found() -> None:
    text = "Thanks!\n```js\nI.prefer(tabs)\n```\nall tests pass. We never use var\n> we use npm\nlet's go on"
    assert [each.text for each in judged(("user", text)).found] == ["Team policy: never use var"]


def test_what_an_assistant_says_is_worth_a_model_once_the_user_stated_something() -> None:
    advice = "You should always validate user input."
    assert judged(("user", "Rename the file."), ("assistant", advice)).way == "skip"
    with_fact = judged(("assistant", advice), ("user", "We use Postgres for storage."))
    assert [(sentence.role, sentence.way) for sentence in with_fact.sentences] == [
        ("assistant", "model"),
        ("user", "pattern"),
    ]


def test_in_an_observation_the_answer_counts_like_the_users_own_words() -> None:
    answer = "I prefer tabs. There is a policy for naming things."
    said = (Message("user", "How do we indent?"), Message("assistant", answer))
    observed = gate.judge(Exchange(messages=said, context=OBSERVATION), patterns.find)
    assert [(sentence.role, sentence.way) for sentence in observed.sentences] == [
        ("user", "skip"), ("assistant", "pattern"), ("assistant", "model"),
    ]  # fmt: skip
    assert {sentence.way for sentence in gate.judge(Exchange(messages=said), patterns.find).sentences} == {"skip"}


def test_sentences_come_back_in_the_order_in_which_they_were_said() -> None:
    verdict = judged(("user", "One. Two."), ("assistant", "Three."), ("user", "Four. Five."), ("assistant", "Six."))
    assert [sentence.text for sentence in verdict.sentences] == ["One.", "Two.", "Three.", "Four.", "Five.", "Six."]
    assert [sentence.role[0] for sentence in verdict.sentences] == list("uuauua")


def test_nothing_said_is_nothing_judged() -> None:
    assert judged().sentences == ()
    verdict = judged(("user", "```\nwe always use tabs\n```"))
    assert (verdict.way, verdict.reason) == ("skip", "Nothing was said")


def test_the_gate_asks_whoever_it_is_given_for_facts() -> None:
    asked: list[tuple[str, str]] = []

    def find(sentence: str, /, *, role: str = "user") -> list[ExtractedFact]:
        asked.append((sentence, role))
        return [ExtractedFact(text="So it is", role=role)]

    verdict = gate.judge(
        Exchange(messages=(Message("user", "Hi! So it seems."), Message("assistant", "It does."))), find
    )
    assert asked == [("So it seems.", "user"), ("It does.", "assistant")]
    assert [each.role for each in verdict.found] == ["user", "assistant"]
