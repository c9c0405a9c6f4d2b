"""Which way a sentence goes, and why."""

from __future__ import annotations

import pytest

from cofio import gate
from cofio.conversation import OBSERVATION, Exchange, Found, Message, Verdict
from cofio.extract import patterns

GREETING = "Greeting or confirmation"
QUESTION = "Pure question without facts"
PASSING = "Passing status, not a durable fact"
MATCHED = "Pattern matched"
UNREAD = "Looks like a fact, but no pattern reads it"
NOTHING = "No extractable facts detected"
FORGET = "Asks to forget something, which takes a model to find"

BY_THE_USER = {
    GREETING: [
        "Hi there!", "Sounds good!", "ok thanks", "yep", "lgtm", "great, thank you!", "Hello", "hey", "Hi Ann!",
        "Thanks a lot!", "Thank you Claude", "perfect, continue", "yes please", "go ahead", "makes sense",
        "Good morning!", "no problem", "do it", "👍", "ok, sounds good, go ahead then",
    ],
    QUESTION: [
        "What is React?", "Hello, how are you?", "Should we always use tabs?", "do we use tabs or spaces",
        "Can you use Postgres instead of SQLite?", "why does it always fail", "Is there a policy for this?",
        "I prefer tabs, don't you?", "So what should I use", "Remember when we used Jenkins?",
    ],
    PASSING: [
        "all tests pass", "All tests are passing now.", "done", "Deployed.", "deployed to staging", "Fixed!",
        "The build is green", "Tests are failing on CI", "44 tests passed", "Pushed as a1b2c3d", "Merged PR #123",
        "see issue 45", "I'm on branch feature/login", "I'm currently working on the login page",
        "The next step is to use the new API", "now let's add the tests", "I'm going to use Redis for this",
        "I'll use a regex", "Let me use the other tool", "we should fix the failing test", "We must finish this today",
        "I always get this error", "never mind, I found it", "We had the same problem last week",
        "the test on line 42 fails", "We're on line 42", "Don't forget the semicolon on line 5.",
        "We agreed to meet at 3pm", "We decided to go to lunch", "Answer in English please, just this once",
    ],
    MATCHED: [
        "I prefer TypeScript over JavaScript", "We never use var", "We switched from JWT to Clerk for auth",
        "the staging port is 5433", "Remember that the demo is on Friday", "Ann owns billing",
        "The root cause was a missing index", "let's use httpx instead of requests", "from now on answer in German",
        "ok so btw we use uv for tooling", "the staging port is now 9090", "We upgraded Node to 22",
    ],
    UNREAD: [
        "Our team decided to use a microservices architecture for scalability", "commit messages should be short",
        "the tests use a real database", "The customer switched from Stripe to Adyen", "The button must be blue",
        "Please refactor the auth module to use dependency injection.", "There is a policy for naming things",
        "I think the root cause is the cache",
        "Always ask me first",
    ],
    FORGET: ["forget what I said about asking first, you can run apply on staging without asking",
             "never mind, forget what I said about asking first"],
    NOTHING: [
        "add a migration that adds a column to users", "rename getUser to fetchUser everywhere",
        "Maybe we should use Postgres", "If we switched from npm to pnpm, builds would be faster",
        "I wonder if we always need tabs", "we could switch to pnpm", "You could use Redis for caching",
        "I prefer the second option", "let's go with A", "let's use it", "we always do this", "use it",
        "const always = useMemo(() => we.use(x))", "TypeError: we should never use this",
        '{"text": "I prefer dark mode"}', "> I prefer dark mode", "The docs say we should always use strict mode",
        "<ide_opened_file>use src/app.ts</ide_opened_file>", "I'd prefer you do it later",
        "Lorem ipsum dolor sit amet", "Write a commit message like 'We switched from Jest to Vitest'.",
        "My colleague thinks we use Redux for state.", "Before we switched from Go to Rust, things were slow.",
        "I live in fear of this migration", "The error is in src/app.ts", "The button is 16 px too low",
        "we're thinking about switching to Bun but nothing is decided",
        "If we used GraphQL we would have fewer endpoints, but we don't.", "The page is slow and the header jumps",
        "Our biggest customer is on the Acme Gold plan", "The nightly export goes to s3://acme-exports",
    ],
}  # fmt: skip

BY_THE_ASSISTANT = {
    PASSING: ["All 44 tests pass.", "Now I'll update the tests.", "Let me check the file.", "Done!"],
    QUESTION: ["Would you like me to always add tests?"],
    MATCHED: [
        "The root cause was a stale connection in the pool.", "Fixed the flaky login test by awaiting the flush.",
    ],
    UNREAD: [
        "This happens because of a race between the two workers.", "I believe the root cause sits in the pool.",
        "I suspect the actual culprit is the pool.", "I think the fix is a longer timeout.",
    ],
    NOTHING: [
        "I prefer using async/await.", "You should always validate user input.", "We use React Query for fetching.",
        "I've updated the config to use Postgres.", "Always use parameterised queries.",
        "Remember that hooks must be called at the top level.", "We switched from a for loop to map.",
        "We chose to split the function in two.", "We decided to keep the staging port at 8080.",
        "The staging port is 9090 now.", "The worker lives in src/worker.ts.",
    ],
}  # fmt: skip

WAYS = {MATCHED: "pattern", UNREAD: "model", FORGET: "model"}


def told(table: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(reason, sentence) for reason, sentences in table.items() for sentence in sentences]


@pytest.mark.parametrize(("reason", "sentence"), told(BY_THE_USER))
def test_a_users_sentence_goes_its_way_for_a_reason(reason: str, sentence: str) -> None:
    weighed = gate.weigh(sentence, "user", patterns.find)
    assert (weighed.reason, weighed.way) == (reason, WAYS.get(reason, "skip"))
    assert bool(weighed.found) is (reason == MATCHED)
    assert (weighed.text, weighed.role) == (sentence, "user")


@pytest.mark.parametrize(("reason", "sentence"), told(BY_THE_ASSISTANT))
def test_an_assistants_sentence_on_its_own_is_judged_more_strictly(reason: str, sentence: str) -> None:
    weighed = gate.weigh(sentence, "assistant", patterns.find)
    assert (weighed.reason, weighed.way) == (reason, WAYS.get(reason, "skip"))
    assert {each.role for each in weighed.found} <= {"assistant"}


def judged(*said: tuple[str, str]) -> Verdict:
    return gate.judge(Exchange(messages=tuple(Message(role, text) for role, text in said)), patterns.find)


def test_greetings_are_skipped() -> None:
    verdict = judged(("user", "Hi there!"), ("assistant", ""))
    assert (verdict.way, verdict.reason, verdict.found) == ("skip", GREETING, ())


def test_confirmations_are_skipped() -> None:
    assert judged(("user", "Sounds good!")).way == "skip"


def test_pure_questions_are_skipped() -> None:
    verdict = judged(("user", "What is React?"))
    assert (verdict.way, verdict.reason) == ("skip", QUESTION)


def test_a_preference_is_extracted_by_a_pattern() -> None:
    verdict = judged(("user", "I prefer TypeScript over JavaScript"))
    assert verdict.way == "pattern"
    (found,) = verdict.found
    assert (found.kind, found.method) == ("preference", "pattern")


def test_what_no_pattern_reads_and_looks_like_a_fact_asks_for_the_model() -> None:
    verdict = judged(("user", "Our team decided to use a microservices architecture for scalability"))
    assert (verdict.way, verdict.found) == ("model", ())


def test_a_text_that_ends_in_a_question_still_yields_the_statements_before_it() -> None:
    verdict = judged(("user", "We moved from Heroku to Fly.io. The region is eu-central-1. Can you fix the deploy?"))
    assert [each.text for each in verdict.found] == ["Team moved from Heroku to Fly.io", "The region is eu-central-1"]
    assert [each.way for each in verdict.sentences] == ["pattern", "pattern", "skip"]
    assert verdict.sentences[-1].reason == QUESTION


def test_a_question_that_hangs_on_a_statement_does_not_hide_it() -> None:
    verdict = judged(("user", "I've switched to pnpm, can you update the Dockerfile?"))
    assert [each.text for each in verdict.found] == ["User switched to pnpm"]


def test_one_fact_among_noise_is_found() -> None:
    text = "Thanks!\n```js\nI.prefer(tabs)\n```\nall tests pass. never use default exports\n> we use npm\nlet's go on"
    assert [each.text for each in judged(("user", text)).found] == ["Never use default exports"]


def test_what_an_assistant_says_is_worth_a_model_once_the_user_stated_something() -> None:
    advice = "You should always validate user input."
    assert judged(("user", "Rename the file."), ("assistant", advice)).way == "skip"
    with_fact = judged(("assistant", advice), ("user", "We use Postgres for storage."))
    assert [(each.role, each.way) for each in with_fact.sentences] == [("assistant", "model"), ("user", "pattern")]


def test_in_an_observation_the_answer_counts_like_the_users_own_words() -> None:
    answer = "I prefer tabs. There is a policy for naming things."
    said = (Message("user", "How do we indent?"), Message("assistant", answer))
    observed = gate.judge(Exchange(messages=said, context=OBSERVATION), patterns.find)
    assert [(each.role, each.way) for each in observed.sentences] == [
        ("user", "skip"), ("assistant", "pattern"), ("assistant", "model"),
    ]  # fmt: skip
    assert {each.way for each in gate.judge(Exchange(messages=said), patterns.find).sentences} == {"skip"}


def test_sentences_come_back_in_the_order_in_which_they_were_said() -> None:
    verdict = judged(("user", "One. Two."), ("assistant", "Three."), ("user", "Four. Five."), ("assistant", "Six."))
    assert [each.text for each in verdict.sentences] == ["One.", "Two.", "Three.", "Four.", "Five.", "Six."]
    assert [each.role[0] for each in verdict.sentences] == list("uuauua")


def test_nothing_said_is_nothing_judged() -> None:
    assert judged().sentences == ()
    verdict = judged(("user", "```\nwe always use tabs\n```"))
    assert (verdict.way, verdict.reason) == ("skip", "Nothing was said")


def test_the_gate_asks_whoever_it_is_given_for_facts() -> None:
    asked: list[tuple[str, str]] = []

    def find(sentence: str, /, *, role: str = "user") -> list[Found]:
        asked.append((sentence, role))
        return [Found(text="So it is", role=role)]

    verdict = gate.judge(
        Exchange(messages=(Message("user", "Hi! So it seems."), Message("assistant", "It does."))), find
    )
    assert asked == [("So it seems.", "user"), ("It does.", "assistant")]
    assert [each.role for each in verdict.found] == ["user", "assistant"]


@pytest.mark.parametrize(
    ("said", "asks"),
    [
        ("Forget that we deploy with Jenkins.", True),
        ("Please forget about the Jenkins job.", True),
        ("ok, forget that the port is 8080", True),
        ("Don't forget that we deploy with Jenkins.", False),
        ("I always forget that staging runs on port 8080", False),
    ],
)
def test_whoever_asks_to_forget_states_nothing(said: str, asks: bool) -> None:
    assert (gate.weigh(said, "user", patterns.find).reason == gate.FORGET) is asks
