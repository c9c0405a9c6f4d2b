"""Learning without an LLM: preferences, decisions and switches are learned, updated and deduplicated."""

from __future__ import annotations

from pathlib import Path

import pytest

from cofio.core import Keeper
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder
from tests.ingest.conftest import KeeperFactory
from tests.judges import ValueJudge

SOURCE = "claude-code/shop"


@pytest.fixture
def keeper(make_keeper: KeeperFactory) -> Keeper:
    return make_keeper()


def texts(keeper: Keeper) -> list[str]:
    return sorted(memory.text for memory in keeper)


def say(keeper: Keeper, *texts: str, **fields: str) -> list[dict[str, object]]:
    """Deliver each text as a user turn and return the actions."""
    performed: list[dict[str, object]] = []
    for text in texts:
        captured = keeper.capture([{"role": "user", "content": text}], wait=True, source=SOURCE, **fields)
        performed += captured.result["actions"]
    return performed


def test_preference_is_learned(keeper: Keeper) -> None:
    [action] = say(keeper, "I prefer dark mode for coding")
    assert action["action"] == "add"
    [memory] = keeper
    assert memory.text == "User prefers dark mode"
    assert (memory.kind, memory.category, memory.method, memory.source) == (
        "preference",
        "decision",
        "pattern",
        SOURCE,
    )


def test_switch_is_learned_with_both_names(keeper: Keeper) -> None:
    say(keeper, "We switched from JWT to Clerk for authentication")
    [memory] = keeper
    assert memory.text == "Team switched from JWT to Clerk"
    assert memory.entities == ("JWT", "Clerk")


def test_repeated_statement_is_one_memory_with_two_occurrences(keeper: Keeper) -> None:
    say(keeper, "I prefer tabs over spaces.", session="monday")
    [repeated] = say(keeper, "I prefer tabs over spaces!", session="tuesday")
    assert repeated["action"] == "noop"
    [memory] = keeper
    assert memory.occurrences == 2
    assert [sighting.session for sighting in keeper.occurrences(memory.id)] == ["monday", "tuesday"]


def test_switch_replaces_memory_and_keeps_its_history(judge_keeper: Keeper) -> None:
    say(judge_keeper, "We use jest.")
    [action] = say(judge_keeper, "We use vitest now instead of jest.")
    assert action["action"] == "update"
    [memory] = judge_keeper
    assert (memory.text, memory.previous_text) == ("We use vitest now instead of jest", "We use jest")
    assert judge_keeper.get(int(str(action["old_id"]))).superseded_by == memory.id
    assert len({change.memory_id for change in judge_keeper.history(memory.id)}) == 2


def test_new_value_replaces_the_old_one(value_keeper: Keeper) -> None:
    say(value_keeper, "The staging port is 8080.", "The production port is 80.")
    [action] = say(value_keeper, "The staging port is 9090.")
    assert action["action"] == "update"
    assert texts(value_keeper) == ["The production port is 80", "The staging port is 9090"]


def test_retraction_archives_the_memory_and_is_not_stored(judge_keeper: Keeper) -> None:
    say(judge_keeper, "We deploy on Fridays.")
    [action] = say(judge_keeper, "We no longer deploy on Fridays.")
    assert action["action"] == "delete"
    assert texts(judge_keeper) == []
    assert judge_keeper.get(int(str(action["old_id"]))).archived


def test_conversation_is_learned(keeper: Keeper) -> None:
    captured = keeper.capture(
        "User: Hi there! I prefer TypeScript over JavaScript. We decided to keep the monolith because splitting it"
        " costs too much. Could you look at the failing test?\nAssistant: Sure, I'll look at it now.",
        wait=True,
        source=SOURCE,
    )
    assert captured.state == "stored"
    assert captured.result["stored_count"] == 2
    assert texts(keeper) == [
        "Team decided to keep the monolith because splitting it costs too much",
        "User prefers TypeScript over JavaScript",
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Hi there!", "Greeting or confirmation"),
        ("Sounds good!", "Greeting or confirmation"),
        ("What is React?", "Pure question without facts"),
        ("The weather looked pleasant over the harbour", "No extractable facts detected"),
        ("<system-reminder>We always use tabs.</system-reminder>", "Nothing was said"),
    ],
)
def test_exchange_without_facts_is_rejected_with_the_reason(keeper: Keeper, text: str, reason: str) -> None:
    captured = keeper.capture(text, wait=True)
    assert (captured.state, captured.reason) == ("rejected", reason)
    assert keeper.inbox_status().reasons == {reason: 1}
    assert texts(keeper) == []


def test_same_fact_in_two_projects_is_two_memories(keeper: Keeper) -> None:
    for source in ("claude-code/shop", "claude-code/blog"):
        keeper.capture("We switched from npm to pnpm.", wait=True, source=source)
    assert len(texts(keeper)) == 2


def test_correction_within_one_exchange_keeps_the_last_statement(judge_keeper: Keeper) -> None:
    say(judge_keeper, "Sofia owns the billing service. Wait, no. Raj owns the billing service now, Sofia left.")
    assert texts(judge_keeper) == ["Raj owns the billing service now, Sofia left"]


def test_late_turn_does_not_replace_a_newer_memory(value_keeper: Keeper) -> None:
    say(value_keeper, "The staging port is 9090.", at="2025-03-02T10:00:00Z")
    captured = value_keeper.capture("The staging port is 8080.", wait=True, source=SOURCE, at="2025-03-01T10:00:00Z")
    assert texts(value_keeper) == ["The staging port is 9090"]
    assert captured.state == "rejected"
    assert "newer" in captured.reason


@pytest.mark.parametrize(
    ("text", "is_called"),
    [("The staging port is 9090.", True), ("The staging port is 8080.", False), ("The linter is Ruff.", False)],
)
def test_callback_runs_if_a_memory_is_changed(tmp_path: Path, text: str, is_called: bool) -> None:
    calls: list[str] = []
    store = SqliteStore(tmp_path / "cofio.db", FixedClock())
    clock = FixedClock()
    with Keeper(store, HashEmbedder(), clock, judge=ValueJudge(), on_invalidate=lambda: calls.append("gone")) as keeper:
        say(keeper, "The staging port is 8080.")
        assert calls == []
        say(keeper, text)
        assert ("The staging port is 8080" in texts(keeper)) is not is_called
    assert calls == ["gone"] * is_called


def test_undo_reverts_everything_learned_from_an_exchange(keeper: Keeper) -> None:
    captured = keeper.capture("I prefer tabs over spaces. We switched from npm to pnpm.", wait=True, source=SOURCE)
    keeper.undo(captured.result["changeset"])
    assert texts(keeper) == []


def test_secret_is_stored_in_neither_memories_nor_inbox(keeper: Keeper) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
    captured = keeper.capture(f"We're using {secret} for the deploy job. I prefer tabs over spaces.", wait=True)
    assert secret not in str(keeper.item(captured.id).as_dict())
    assert secret not in str([memory.as_dict() for memory in keeper])


def test_dry_run_reports_sentences_and_stores_nothing(keeper: Keeper) -> None:
    learned = keeper.learn("Hello! I prefer tabs over spaces. What is React?", dry_run=True)
    assert [sentence.way for sentence in learned.sentences] == ["skip", "pattern", "skip"]
    assert [action["action"] for action in learned.actions] == ["add"]
    assert texts(keeper) == []
    assert keeper.inbox_status().captured == 0


def test_two_changes_in_one_exchange_are_two_updates(judge_keeper: Keeper) -> None:
    say(judge_keeper, "Our default branch is master.", "Sofia owns the billing service.")
    performed = say(
        judge_keeper, "Our default branch is main now, not master. Raj owns the billing service now, Sofia left."
    )
    assert [action["action"] for action in performed] == ["update", "update"]
    assert texts(judge_keeper) == [
        "Our default branch is main now, not master",
        "Raj owns the billing service now, Sofia left",
    ]


def test_future_timestamp_is_limited_to_now(value_keeper: Keeper) -> None:
    captured = value_keeper.capture("The staging port is 8080.", wait=True, source=SOURCE, at="2099-01-01T00:00:00Z")
    assert value_keeper.item(captured.id).exchange.at < "2099"  # type: ignore[union-attr]
    say(value_keeper, "The staging port is 9090.")
    assert texts(value_keeper) == ["The staging port is 9090"]


def test_additional_technology_does_not_replace_another(keeper: Keeper) -> None:
    say(keeper, "We use Stripe for payments.", "We also use PayPal for payments.")
    assert len(texts(keeper)) == 2


NO_CHANGE = [
    ("We use Postgres, Redis and Kafka.", "We don't use Kafka."),
    ("We deploy to Heroku.", "We don't deploy to Heroku on weekends."),
    ("Sofia owns billing.", "Raj owns billing while Sofia is on holiday."),
    ("We use Snowflake.", "We are replacing Snowflake with BigQuery next year."),
    ("We use npm.", "We moved from npm to bun and then back again."),
    ("We use npm.", "We moved from npm to pnpm but rolled it back."),
    ("We use npm.", "We switched from npm to pnpm for a week and reverted."),
    ("We use Python.", "We use Go instead of Python for the agents."),
]
#: The judgement model misjudges these as changes.
MISJUDGED = [
    ("We use ESLint and Prettier.", "We no longer use Prettier."),
    ("We deploy on Mondays and Fridays.", "We don't deploy on Fridays."),
    ("We use npm.", "We moved from npm to pnpm, temporarily."),
]


@pytest.mark.parametrize(
    ("known", "text"),
    [
        *NO_CHANGE,
        *(pytest.param(*pair, marks=pytest.mark.xfail(reason="the model errs", strict=True)) for pair in MISJUDGED),
    ],
)
def test_partial_temporary_or_future_denial_keeps_the_memory(judge_keeper: Keeper, known: str, text: str) -> None:
    say(judge_keeper, known)
    [memory_text] = texts(judge_keeper)
    say(judge_keeper, text)
    assert memory_text in texts(judge_keeper)


@pytest.mark.parametrize(
    ("known", "text"),
    [
        ("We use Redis for caching.", "We no longer use Redis."),
        ("I like tabs.", "I don't like tabs any more."),
        ("We use npm.", "We now use pnpm instead of npm."),
        ("Sofia owns the billing service.", "Raj owns the billing service now, Sofia left."),
        ("We use Docker.", "We don't use Docker any more."),
        ("We use Stripe for payments.", "Stripe is too expensive, so we use Adyen for payments now."),
    ],
)
def test_complete_denial_or_replacement_ends_the_memory(judge_keeper: Keeper, known: str, text: str) -> None:
    say(judge_keeper, known)
    [memory_text] = texts(judge_keeper)
    say(judge_keeper, text)
    assert memory_text not in texts(judge_keeper)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I like type hints, but not in tests.", ["I like type hints, but not in tests"]),
        ("I prefer small PRs, except for generated code.", ["I prefer small PRs, except for generated code"]),
        ("I don't like tmux any more.", ["I don't like tmux any more"]),
        ("We migrated off MongoDB to Postgres in June.", ["Team migrated from MongoDB to Postgres in June"]),
        ("We upgraded to Django 5 but had to revert.", []),
        ("We switched to the other branch", []),
        ("We deploy in ten minutes", []),
        ("The error is called KeyError", []),
    ],
)
def test_fact_keeps_its_exceptions_and_other_statements_are_dropped(
    keeper: Keeper, text: str, expected: list[str]
) -> None:
    say(keeper, text)
    assert texts(keeper) == expected


def test_request_to_forget_is_not_stored(keeper: Keeper) -> None:
    keeper.add("We deploy with Jenkins")
    learned = keeper.learn("Forget that we deploy with Jenkins.")
    assert (learned.actions, learned.missed) == ((), 1)
    assert keeper.count() == 1


def test_switch_with_further_text_replaces_the_old_technology(judge_keeper: Keeper) -> None:
    say(judge_keeper, "We use Prisma as our ORM.")
    say(judge_keeper, "We switched from Prisma to Drizzle because its types got slow. Also, I prefer short answers.")
    assert "We use Prisma as our ORM" not in texts(judge_keeper)
    assert any("Drizzle" in text for text in texts(judge_keeper))
