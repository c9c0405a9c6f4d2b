"""Extraction by the judgement model: how a span becomes a fact, and which spans are dropped."""

from __future__ import annotations

from typing import Any

import pytest

from cofio.core import Keeper
from cofio.ingest.extract import by_judgement
from cofio.models.exchange import OBSERVATION, Exchange, ExtractedFact, Message, Sentence
from cofio.models.memory import MAY_REPLACE
from cofio.ports import Judge, Span
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder, MemoryStore
from tests.judges import FixedJudge, ValueJudge

AT = "2026-11-17T10:00:00Z"


def read(judge: Judge, *messages: str | tuple[str, str], previous_turn: str = "", **fields: Any) -> list[Sentence]:
    exchange_messages = tuple(
        Message(*(("user", message) if isinstance(message, str) else message)) for message in messages
    )
    return by_judgement.read_exchange(
        Exchange(messages=exchange_messages, **{"at": AT, **fields}), judge, previous_turn
    )


def facts(judge: Judge, *messages: str | tuple[str, str], **options: Any) -> list[ExtractedFact]:
    return [fact for sentence in read(judge, *messages, **options) for fact in sentence.found]


def texts(judge: Judge, *messages: str | tuple[str, str], **options: Any) -> list[str]:
    return [fact.text for fact in facts(judge, *messages, **options)]


def mark_spans(
    marked_text: str, probability: float = 0.95, kind: str = "observation", about: str = "project"
) -> tuple[str, FixedJudge]:
    """Return the text without its [brackets] and a judge that finds the bracketed spans."""
    spans, text = [], ""
    for index, part in enumerate(marked_text.replace("]", "[").split("[")):
        if index % 2:
            spans.append(Span(len(text), len(text) + len(part), probability, kind, about))
        text += part
    return text, FixedJudge(*spans)


# ── From a span to a fact ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("marked_text", "expected"),
    [
        ("[btw, the gateway speaks gRPC.]", "The gateway speaks gRPC"),
        ("[Oh, and also: the gateway speaks gRPC]", "The gateway speaks gRPC"),
        ("[- heads up: the gateway speaks gRPC, ok]", "The gateway speaks gRPC"),
        ("[No, the gateway speaks gRPC]", "The gateway speaks gRPC"),
        ("[Please remember that the gateway speaks gRPC]", "The gateway speaks gRPC"),
        ("note [that the gateway speaks gRPC]", "The gateway speaks gRPC"),
        ("[don't forget: the gateway speaks gRPC]", "The gateway speaks gRPC"),
        ("I think [the gateway   speaks\tgRPC]", "The gateway speaks gRPC"),
        ("[The gateway speaks gRPC (since v2]", "The gateway speaks gRPC (since v2)"),
        ("[Notes go to the wiki]", "Notes go to the wiki"),
    ],
)
def test_introductory_phrases_and_trailing_words_are_removed(marked_text: str, expected: str) -> None:
    text, judge = mark_spans(marked_text)
    assert texts(judge, text) == [expected]


def test_two_spans_of_a_sentence_are_separate_facts() -> None:
    text, judge = mark_spans("[The gateway speaks gRPC], and [the worker polls a queue].")
    assert texts(judge, text) == ["The gateway speaks gRPC", "The worker polls a queue"]


@pytest.mark.parametrize(
    ("marked_text", "expected"),
    [
        ("[The gateway speaks gRPC] because phones need it.", "The gateway speaks gRPC because phones need it"),
        ("[The gateway speaks gRPC], unless a proxy is used.", "The gateway speaks gRPC, unless a proxy is used"),
        ("[The gateway speaks gRPC]. Because of that we wait.", "The gateway speaks gRPC"),
    ],
)
def test_reasons_and_conditions_are_included(marked_text: str, expected: str) -> None:
    text, judge = mark_spans(marked_text)
    assert texts(judge, text) == [expected]


def test_fragment_includes_the_question_it_answers() -> None:
    text, judge = mark_spans("[Port 8443]")
    assert texts(judge, text, previous_turn="Which port does the gateway use?") == [
        "Which port does the gateway use? Port 8443"
    ]


def test_pronoun_includes_the_previous_sentence() -> None:
    text, judge = mark_spans("The gateway is new. [It needs a client certificate].")
    assert texts(judge, text) == ["The gateway is new. It needs a client certificate"]


@pytest.mark.parametrize(
    ("marked_text", "expected"),
    [
        (
            "[Ada owns the gateway]. [Nothing is merged without her approval].",
            ["Ada owns the gateway. Nothing is merged without her approval"],
        ),
        ("[The handler needs a deadline]. [8 s].", ["The handler needs a deadline. 8 s"]),
        (
            "[The gateway speaks gRPC]. [It is deployed on Mondays]. [Ada owns the billing service].",
            ["The gateway speaks gRPC. It is deployed on Mondays", "Ada owns the billing service"],
        ),
        (
            "[The gateway speaks gRPC]. [Ada owns the billing service].",
            ["The gateway speaks gRPC", "Ada owns the billing service"],
        ),
    ],
)
def test_statement_that_depends_on_the_previous_one_is_joined_to_it(marked_text: str, expected: list[str]) -> None:
    text, judge = mark_spans(marked_text)
    assert texts(judge, text) == expected


@pytest.mark.parametrize(
    ("marked_text", "expected"),
    [
        (
            "[Frankfurt is the recovery region] and [all the copies go there, for legal reasons]",
            ["Frankfurt is the recovery region. All the copies go there, for legal reasons"],
        ),
        ("[Gisela is off to] [her daughter's for good]", ["Gisela is off to her daughter's for good"]),
        (
            "[Backups are turned on,] [metrics go to Datadog]",
            ["Backups are turned on", "Metrics go to Datadog"],
        ),
        (
            "[Ann owns billing], [in prod there are three replicas]",
            ["Ann owns billing", "In prod there are three replicas"],
        ),
        (
            "[Ports are set in config.toml], [logs are JSON on stdout]",
            ["Ports are set in config.toml", "Logs are JSON on stdout"],
        ),
    ],
)
def test_incomplete_or_anaphoric_spans_are_joined(marked_text: str, expected: list[str]) -> None:
    text, judge = mark_spans(marked_text)
    assert texts(judge, text) == expected


def test_facts_of_different_kinds_are_not_joined() -> None:
    text = "Ann no longer reviews SQL. Her successor is Bob."
    spans = (Span(0, 25, 0.95, "retraction", "project"), Span(27, 47, 0.95, "observation", "project"))
    assert [fact.kind for fact in facts(FixedJudge(*spans), text)] == ["retraction", "observation"]


def test_span_without_content_is_not_a_fact() -> None:
    text, judge = mark_spans("[Hello hello]! Please fix the parser.")
    assert [fact for fact in facts(judge, text) if not fact.tentative] == []


def test_context_of_a_fact_includes_the_previous_sentence() -> None:
    text, judge = mark_spans("The gateway is new. [Requests need a client certificate].")
    [fact] = facts(judge, text)
    assert fact.said == "The gateway is new. Requests need a client certificate."


def test_context_of_a_fact_is_its_message_without_questions() -> None:
    text, judge = mark_spans("The gateway is new. Who made it? [Requests need a client certificate]. Fix the test.")
    [fact] = facts(judge, text)
    assert fact.said == "The gateway is new. Requests need a client certificate. Fix the test."


def test_context_in_a_long_message_is_the_surrounding_sentences() -> None:
    filler = "Nothing of this matters to anybody at all. " * 15
    text, judge = mark_spans(
        f"{filler}The gateway is new. [Requests need a client certificate]. Fix the test. {filler}"
    )
    [fact] = facts(judge, text)
    assert fact.said == "The gateway is new. Requests need a client certificate. Fix the test."


@pytest.mark.parametrize(
    ("marked_text", "expected"),
    [
        (
            "The hall leaks, so the mock exam has slid [to the 25th of May].",
            "The mock exam has slid to the 25th of May",
        ),
        ("For [the gateway please take gRPC], ok?", "For the gateway please take gRPC"),
        ("[The gateway speaks] gRPC only, you know.", "The gateway speaks gRPC only"),
        ("you broke it again my friend, but [the gateway speaks gRPC].", "The gateway speaks gRPC"),
    ],
)
def test_span_is_completed_to_its_clause(marked_text: str, expected: str) -> None:
    text, judge = mark_spans(marked_text)
    assert texts(judge, text) == [expected]


def test_joined_clauses_are_split_where_each_is_a_fact() -> None:
    [text] = ["The gateway speaks gRPC only, and the worker polls a queue"]
    assert texts(ValueJudge(), text) == ["The gateway speaks gRPC only", "The worker polls a queue"]
    assert texts(ValueJudge(), "The gateway speaks gRPC only, and likes it") == [
        "The gateway speaks gRPC only, and likes it"
    ]


def test_quoted_paragraph_is_not_prose() -> None:
    mail = '"Dear customer, our records show that your instances use a certificate that expires soon. Rotate it."'
    assert (
        by_judgement.prose(f"what do they want?\n\n{mail}\n\nWe use gRPC.") == "what do they want?\n\n\n\nWe use gRPC."
    )
    term = 'The term is "control panel", lower case, and "console" is another product that we do not sell any more.'
    assert by_judgement.prose(term) == term


def test_relative_dates_are_resolved() -> None:
    text, judge = mark_spans("[The main branch is frozen until next Friday].")
    assert texts(judge, text) == ["The main branch is frozen until next Friday (2026-11-27)"]


def test_two_spans_matched_by_one_pattern_are_one_fact() -> None:
    text, judge = mark_spans("[We decided to keep the monolith] because [splitting it costs too much].")
    assert texts(judge, text) == ["Team decided to keep the monolith because splitting it costs too much"]


def test_fields_of_a_fact_come_from_its_span() -> None:
    text, judge = mark_spans("[The nightly job writes to Kafka].", 0.97, "technology", "person")
    [fact] = facts(judge, text)
    assert (fact.kind, fact.about, fact.confidence, fact.role) == ("technology", "person", 0.95, "user")
    assert "Kafka" in fact.entities


def test_doubtful_span_is_tentative_and_improbable_span_is_dropped() -> None:
    limits = FixedJudge.thresholds
    text, judge = mark_spans("[Gateways speak gRPC here].", (limits["fact"] + limits["doubtful fact"]) / 2)
    [sentence] = read(judge, text)
    assert (sentence.way, sentence.reason, [fact.tentative for fact in sentence.found]) == (
        "model",
        by_judgement.DOUBTFUL,
        [True],
    )
    text, judge = mark_spans("[Gateways speak gRPC here].", limits["doubtful fact"] - 0.01)
    [sentence] = read(judge, text)
    assert (sentence.way, sentence.reason) == ("skip", by_judgement.NOTHING)
    assert all(fact.tentative for fact in sentence.found)  # it may still change a memory


def test_assistant_facts_have_a_higher_threshold_except_in_observations() -> None:
    limits = FixedJudge.thresholds
    text, judge = mark_spans("[The gateway speaks gRPC].", (limits["fact"] + limits["assistant fact"]) / 2)
    assert texts(judge, text) == ["The gateway speaks gRPC"]
    assert facts(judge, ("assistant", text)) == []
    [fact] = facts(judge, ("assistant", text), context=OBSERVATION)
    assert fact.role == "assistant"


def test_short_assistant_remarks_are_dropped_and_reports_are_kept() -> None:
    text, judge = mark_spans("[The gateway speaks gRPC].")
    assert facts(judge, ("assistant", text)) == []
    text, judge = mark_spans(f"[The gateway speaks gRPC]. {'It was added this way. ' * 7}")
    assert [fact.text for fact in facts(judge, ("assistant", text))] == ["The gateway speaks gRPC"]


def test_list_item_includes_the_line_above_the_list() -> None:
    text, judge = mark_spans(
        "Done. **Key settings:**\n- [`pool_size=50` for the gateway]\n- [`timeout=5` for the gateway]\n"
    )
    assert texts(judge, text) == [
        "Key settings: `pool_size=50` for the gateway",
        "Key settings: `timeout=5` for the gateway",
    ]
    text, judge = mark_spans("[Key settings]:\n- [`timeout=5`]: [a hanging gateway fails fast]")
    assert texts(judge, text) == ["Key settings: `timeout=5`: a hanging gateway fails fast"]
    text, judge = mark_spans("I went through it.\n- [the gateway speaks gRPC to all clients]")
    assert texts(judge, text) == ["I went through it. The gateway speaks gRPC to all clients"]


def test_short_statement_includes_the_previous_sentence() -> None:
    text, judge = mark_spans("CI bounced your branch. [name has to start with the ticket]")
    assert texts(judge, text) == ["CI bounced your branch. Name has to start with the ticket"]
    text, judge = mark_spans("Oh well, actually, anyway. [name has to start with the ticket]")
    assert texts(judge, text) == ["Name has to start with the ticket"]
    text, judge = mark_spans("[we never take **kwargs] in the handlers of this service here")
    assert "never take **kwargs" in texts(judge, text)[0]
    text, judge = mark_spans("Can you fix the login? [name has to start with the ticket]")
    assert texts(judge, text) == ["Name has to start with the ticket"]
    text, judge = mark_spans("[We are on Postgres these days]. [The gateway speaks gRPC to clients]")
    assert texts(judge, text) == ["We are on Postgres these days", "The gateway speaks gRPC to clients"]


def test_document_yields_few_facts_and_a_paste_none() -> None:
    text, judge = mark_spans(" ".join(f"[Service {letter} speaks gRPC]." for letter in "abcdefghijklmnop"))
    assert len(texts(judge, text)) == 8
    text, judge = mark_spans(f"[{'words ' * 200}]")
    assert texts(judge, text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\n```sh\nWe use tabs\n```\nb", ["a", "b"]),
        ("a\n~~~\nWe use tabs", ["a"]),
        ("> We use tabs\nb", ["b"]),
        ("| We use | tabs |\nb", ["b"]),
        ("a > b", ["a > b"]),
    ],
)
def test_prose_excludes_code_quotes_and_tables(text: str, expected: list[str]) -> None:
    assert (
        by_judgement.prose(text).split("\n") == expected
        or by_judgement.prose(text).split() == " ".join(expected).split()
    )


def test_kind_of_a_typed_fact_is_that_of_its_most_probable_span() -> None:
    kind = by_judgement.kind_of(
        "x y", FixedJudge(Span(0, 1, 0.3, "policy", "project"), Span(2, 3, 0.9, "decision", "person"))
    )
    assert kind == ("decision", True)
    assert by_judgement.kind_of("x", FixedJudge(Span(0, 1, 0.9, "retraction", "project"))) == ("other", False)
    assert by_judgement.kind_of("x", FixedJudge()) == ("other", False)


# ── The real model ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "text",
    [
        "Which database do we use?",
        "Can you fix the failing login test?",
        "Please rename the function parse_row to read_row and run the tests.",
        "Look at this:\n```\nWe always deploy on Fridays.\nI prefer tabs over spaces.\n```\nWhat is wrong?",
        "> We always deploy on Fridays.\nIs this still in the docs?",
        "| team | rule |\n| red | we always use tabs |",
        "thanks!",
        "",
    ],
)
def test_questions_tasks_quotes_and_code_yield_no_facts(judge: Judge, text: str) -> None:
    assert [fact for fact in facts(judge, text) if not fact.tentative] == []


_REPORT_REST = "I ran the whole suite twice, on both machines, and nothing else came up along the way so far."


def test_sentences_of_a_report_paragraph_are_one_fact() -> None:
    text, judge = mark_spans(
        "[The pool ran dry because every request opened a client of its own.] [It holds 50 connections now.]\n\n"
        f"[Timeouts are five seconds.] {_REPORT_REST}"
    )
    assert texts(judge, ("assistant", text)) == [
        "The pool ran dry because every request opened a client of its own. It holds 50 connections now",
        "Timeouts are five seconds",
    ]


def test_overlong_paragraph_is_several_facts() -> None:
    text, judge = mark_spans(f"[{'The gateway speaks gRPC ' * 10}now.] [{'The worker reads from the queue ' * 10}now.]")
    assert len(texts(judge, ("assistant", text))) == 2


def test_list_of_a_report_is_one_fact_if_one_item_is() -> None:
    text, judge = mark_spans(
        f"{_REPORT_REST} Done, and checked with everything that was asked for.\n\nKey settings:\n"
        "- [`max_connections=50`: more at once]\n- `socket_timeout=5`: fail fast\n- `retry_on_timeout=True`"
    )
    assert texts(judge, ("assistant", text)) == [
        "Key settings: `max_connections=50`: more at once; `socket_timeout=5`: fail fast; `retry_on_timeout=True`"
    ]


def test_doubtful_sentence_of_a_report_is_kept_only_next_to_a_certain_one() -> None:
    limits = FixedJudge.thresholds
    doubtful = (limits["doubtful fact"] + limits["assistant fact"]) / 2
    text = f"The gateway speaks gRPC.\n\n{_REPORT_REST} {_REPORT_REST}\n\nThe worker reads from Kafka."
    unsure = Span(0, 24, doubtful, "observation", "project")
    sure = Span(text.index("The worker"), len(text), 0.95, "observation", "project")
    assert texts(FixedJudge(unsure), ("assistant", text)) == []
    assert texts(FixedJudge(unsure, sure), ("assistant", text)) == [
        "The gateway speaks gRPC",
        "The worker reads from Kafka",
    ]


def test_plans_of_an_assistant_yield_no_facts(judge: Judge) -> None:
    assert facts(judge, "hi", ("assistant", "I'll have a look at the tests now and run them.")) == []


@pytest.mark.parametrize(
    ("text", "expected", "kind", "about"),
    [
        ("btw, we use pnpm instead of npm.", "We use pnpm instead of npm", "technology", "project"),
        ("Sofia owns the billing service.", "Sofia owns the billing service", "other", "project"),
        ("We never deploy on Fridays.", "Team policy: never deploy on Fridays", "policy", "project"),
        (
            "We decided to keep the monolith because splitting it costs too much.",
            "Team decided to keep the monolith because splitting it costs too much",
            "decision",
            "project",
        ),
        ("We no longer deploy on Fridays.", "We no longer deploy on Fridays", "retraction", "project"),
        ("I'm allergic to peanuts.", "I'm allergic to peanuts", "observation", "person"),
    ],
)
def test_plain_statements_are_facts(judge: Judge, text: str, expected: str, kind: str, about: str) -> None:
    [fact] = facts(judge, text)
    assert (fact.text, fact.kind, fact.about, fact.tentative) == (expected, kind, about, False)


# ── With a keeper ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def keeper(judge: Judge) -> Keeper:
    return Keeper(MemoryStore(FixedClock()), HashEmbedder(), FixedClock(), judge=judge)


def test_facts_about_the_person_have_no_project_and_record_their_origin(keeper: Keeper) -> None:
    keeper.learn("User: I'm allergic to peanuts.", project="/srv/web", source="claude-code/web")
    keeper.learn("User: I'm allergic to peanuts.", project="/srv/api", source="codex/api")
    [memory] = keeper
    assert (memory.project, memory.metadata["about"], memory.metadata["said_in"]) == ("", "person", "/srv/web")
    assert memory.occurrences == 2


def test_retraction_is_not_stored(keeper: Keeper) -> None:
    learned = keeper.learn("User: We no longer deploy on Fridays.")
    assert [action["action"] for action in learned.actions] == ["rejected"]
    assert list(keeper) == []


def test_tentative_fact_only_changes_memories() -> None:
    limits = FixedJudge.thresholds
    text = "Gateways speak gRPC here."
    doubtful = Span(0, len(text) - 1, (limits["fact"] + limits["doubtful fact"]) / 2, "observation", "project")
    with Keeper(
        MemoryStore(FixedClock()), HashEmbedder(), FixedClock(), judge=FixedJudge(doubtful, update=0.97)
    ) as keeper:
        assert keeper.learn(f"User: {text}").actions == ()
        keeper.add("Gateways speak REST here", dedup=False)
        assert [action["action"] for action in keeper.learn(f"User: {text}").actions] == ["update"]
        assert [memory.text for memory in keeper] == ["Gateways speak gRPC here"]


def test_tentative_fact_that_may_replace_a_memory_is_added() -> None:
    limits = FixedJudge.thresholds
    text = "Gateways speak gRPC here."
    doubtful = Span(0, len(text) - 1, (limits["fact"] + limits["doubtful fact"]) / 2, "observation", "project")
    judge = FixedJudge(doubtful, update=0.75)
    judge.thresholds = {**limits, "change": 0.8}
    with Keeper(MemoryStore(FixedClock()), HashEmbedder(), FixedClock(), judge=judge) as keeper:
        old = keeper.add("Gateways speak REST here", dedup=False).memory_id
        assert [action["action"] for action in keeper.learn(f"User: {text}").actions] == ["add"]
        [new] = [memory for memory in keeper if memory.id != old]
        assert new.metadata == {MAY_REPLACE: [old]}


def test_message_that_only_retracts_a_memory_is_not_stored() -> None:
    text = "Forget the gateways that speak gRPC here, we never built them."
    judge = FixedJudge(Span(0, 6, 0.12, "retraction", "project"), delete=0.97)  # hardly a fact, but a hint
    with Keeper(MemoryStore(FixedClock()), HashEmbedder(), FixedClock(), judge=judge) as keeper:
        keeper.add("The gateways speak gRPC here", dedup=False)
        assert [action["action"] for action in keeper.learn(f"User: {text}").actions] == ["delete"]


def test_message_without_a_possible_fact_is_not_compared() -> None:
    text = "Forget the gateways that speak gRPC here, we never built them."
    with Keeper(MemoryStore(FixedClock()), HashEmbedder(), FixedClock(), judge=FixedJudge(delete=0.97)) as keeper:
        keeper.add("The gateways speak gRPC here", dedup=False)
        assert keeper.learn(f"User: {text}").actions == ()


def test_without_the_model_patterns_are_used_and_nothing_is_updated(tmp_path: Any) -> None:
    with Keeper(SqliteStore(tmp_path / "x.db", FixedClock()), HashEmbedder(), FixedClock()) as keeper:
        keeper.learn("User: We use npm.")
        keeper.learn("User: We switched from npm to pnpm.")
        assert sorted(memory.text for memory in keeper) == ["Team switched from npm to pnpm", "We use npm"]


def test_overlapping_spans_yield_each_fact_once(judge: Judge) -> None:
    text = "We switched from Prisma to Drizzle, and the staging port is 9090 now."
    assert texts(judge, text) == ["Team switched from Prisma to Drizzle", "The staging port is 9090 now"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "btw the staging db lives on neon, and ana owns billing. could you fix the flaky checkout test?",
            ["The staging db lives on neon", "Ana owns billing"],
        ),
        ("We use pnpm here, and deploys go through fly.", ["We use pnpm here", "Deploys go through fly"]),
    ],
)
def test_joined_facts_are_stored_separately_and_once(judge: Judge, text: str, expected: list[str]) -> None:
    assert texts(judge, text) == expected


def test_words_after_the_end_of_a_clause_do_not_complete_it() -> None:
    text, judge = mark_spans("[we lint with biome,] please fix the ci")
    assert texts(judge, text) == ["We lint with biome"]


def test_short_statement_does_not_include_another_paragraph() -> None:
    text, judge = mark_spans("The branch name was bounced.\n\n[Names start with the ticket]")
    assert texts(judge, text) == ["Names start with the ticket"]
