"""With no provider at all: preferences, decisions and switches are learned, updated and deduplicated."""

from __future__ import annotations

from pathlib import Path

import pytest

from cofio.core import Keeper
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder
from tests.ingest.conftest import Learning
from tests.judges import ValueJudge

SOURCE = "claude-code/shop"


@pytest.fixture
def keeper(learning: Learning) -> Keeper:
    return learning()


def texts(keeper: Keeper) -> list[str]:
    return sorted(memory.text for memory in keeper)


def say(keeper: Keeper, *said: str, **about: str) -> list[dict[str, object]]:
    """What was done about each of these turns of the user."""
    done: list[dict[str, object]] = []
    for each in said:
        captured = keeper.capture([{"role": "user", "content": each}], wait=True, source=SOURCE, **about)
        done += captured.result["actions"]
    return done


def test_a_preference_is_learned(keeper: Keeper) -> None:
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


def test_a_switch_is_learned_with_both_names(keeper: Keeper) -> None:
    say(keeper, "We switched from JWT to Clerk for authentication")
    [memory] = keeper
    assert memory.text == "Team switched from JWT to Clerk"
    assert memory.entities == ("JWT", "Clerk")


def test_what_is_said_again_stays_one_memory_that_was_seen_twice(keeper: Keeper) -> None:
    say(keeper, "I prefer tabs over spaces.", session="monday")
    [again] = say(keeper, "I prefer tabs over spaces!", session="tuesday")
    assert again["action"] == "noop"
    [memory] = keeper
    assert memory.occurrences == 2
    assert [sighting.session for sighting in keeper.occurrences(memory.id)] == ["monday", "tuesday"]


def test_switch_replaces_memory_and_keeps_its_history(judged: Keeper) -> None:
    say(judged, "We use jest.")
    [action] = say(judged, "We use vitest now instead of jest.")
    assert action["action"] == "update"
    [memory] = judged
    assert (memory.text, memory.previous_text) == ("We use vitest now instead of jest", "We use jest")
    assert judged.get(int(str(action["old_id"]))).superseded_by == memory.id
    assert len({change.memory_id for change in judged.history(memory.id)}) == 2


def test_a_new_value_takes_the_place_of_the_old_one(by_value: Keeper) -> None:
    say(by_value, "The staging port is 8080.", "The production port is 80.")
    [action] = say(by_value, "The staging port is 9090.")
    assert action["action"] == "update"
    assert texts(by_value) == ["The production port is 80", "The staging port is 9090"]


def test_retraction_archives_the_memory_and_is_not_stored(judged: Keeper) -> None:
    say(judged, "We deploy on Fridays.")
    [action] = say(judged, "We no longer deploy on Fridays.")
    assert action["action"] == "delete"
    assert texts(judged) == []
    assert judged.get(int(str(action["old_id"]))).archived


def test_a_conversation_is_learned_as_a_whole(keeper: Keeper) -> None:
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
    ("said", "reason"),
    [
        ("Hi there!", "Greeting or confirmation"),
        ("Sounds good!", "Greeting or confirmation"),
        ("What is React?", "Pure question without facts"),
        ("The weather looked pleasant over the harbour", "No extractable facts detected"),
        ("<system-reminder>We always use tabs.</system-reminder>", "Nothing was said"),
    ],
)
def test_what_is_not_worth_keeping_is_rejected_with_the_reason(keeper: Keeper, said: str, reason: str) -> None:
    captured = keeper.capture(said, wait=True)
    assert (captured.state, captured.reason) == ("rejected", reason)
    assert keeper.inbox_status().reasons == {reason: 1}
    assert texts(keeper) == []


def test_the_same_fact_of_two_projects_is_two_memories(keeper: Keeper) -> None:
    for source in ("claude-code/shop", "claude-code/blog"):
        keeper.capture("We switched from npm to pnpm.", wait=True, source=source)
    assert len(texts(keeper)) == 2


def test_a_correction_within_one_exchange_leaves_the_last_word(judged: Keeper) -> None:
    say(judged, "Sofia owns the billing service. Wait, no. Raj owns the billing service now, Sofia left.")
    assert texts(judged) == ["Raj owns the billing service now, Sofia left"]


def test_an_older_turn_that_comes_late_does_not_overwrite_a_newer_memory(by_value: Keeper) -> None:
    say(by_value, "The staging port is 9090.", at="2025-03-02T10:00:00Z")
    late = by_value.capture("The staging port is 8080.", wait=True, source=SOURCE, at="2025-03-01T10:00:00Z")
    assert texts(by_value) == ["The staging port is 9090"]
    assert late.state == "rejected"
    assert "newer" in late.reason


@pytest.mark.parametrize(
    ("said", "heard"),
    [("The staging port is 9090.", True), ("The staging port is 8080.", False), ("The linter is Ruff.", False)],
)
def test_copies_elsewhere_go_when_what_is_said_changes_a_memory(tmp_path: Path, said: str, heard: bool) -> None:
    told: list[str] = []
    store = SqliteStore(tmp_path / "cofio.db", FixedClock())
    clock = FixedClock()
    with Keeper(store, HashEmbedder(), clock, judge=ValueJudge(), on_invalidate=lambda: told.append("gone")) as keeper:
        say(keeper, "The staging port is 8080.")
        assert told == []
        say(keeper, said)
        assert ("The staging port is 8080" in texts(keeper)) is not heard
    assert told == ["gone"] * heard


def test_what_was_learned_from_one_exchange_is_undone_as_one(keeper: Keeper) -> None:
    captured = keeper.capture("I prefer tabs over spaces. We switched from npm to pnpm.", wait=True, source=SOURCE)
    keeper.undo(captured.result["changeset"])
    assert texts(keeper) == []


def test_a_secret_reaches_neither_the_memories_nor_the_inbox(keeper: Keeper) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
    captured = keeper.capture(f"We're using {secret} for the deploy job. I prefer tabs over spaces.", wait=True)
    assert secret not in str(keeper.item(captured.id).as_dict())
    assert secret not in str([memory.as_dict() for memory in keeper])


def test_a_dry_run_tells_sentence_by_sentence_and_keeps_nothing(keeper: Keeper) -> None:
    learned = keeper.learn("Hello! I prefer tabs over spaces. What is React?", dry_run=True)
    assert [sentence.way for sentence in learned.sentences] == ["skip", "pattern", "skip"]
    assert [action["action"] for action in learned.actions] == ["add"]
    assert texts(keeper) == []
    assert keeper.inbox_status().captured == 0


def test_sentences_that_change_two_memories_are_two_updates(judged: Keeper) -> None:
    say(judged, "Our default branch is master.", "Sofia owns the billing service.")
    done = say(judged, "Our default branch is main now, not master. Raj owns the billing service now, Sofia left.")
    assert [each["action"] for each in done] == ["update", "update"]
    assert texts(judged) == [
        "Our default branch is main now, not master",
        "Raj owns the billing service now, Sofia left",
    ]


def test_nothing_was_said_in_the_future(by_value: Keeper) -> None:
    captured = by_value.capture("The staging port is 8080.", wait=True, source=SOURCE, at="2099-01-01T00:00:00Z")
    assert by_value.item(captured.id).exchange.at < "2099"  # type: ignore[union-attr]
    say(by_value, "The staging port is 9090.")
    assert texts(by_value) == ["The staging port is 9090"]


def test_what_is_used_besides_does_not_replace_what_is_used(keeper: Keeper) -> None:
    say(keeper, "We use Stripe for payments.", "We also use PayPal for payments.")
    assert len(texts(keeper)) == 2


STAYS = [
    ("We use Postgres, Redis and Kafka.", "We don't use Kafka."),
    ("We deploy to Heroku.", "We don't deploy to Heroku on weekends."),
    ("Sofia owns billing.", "Raj owns billing while Sofia is on holiday."),
    ("We use Snowflake.", "We are replacing Snowflake with BigQuery next year."),
    ("We use npm.", "We moved from npm to bun and then back again."),
    ("We use npm.", "We moved from npm to pnpm but rolled it back."),
    ("We use npm.", "We switched from npm to pnpm for a week and reverted."),
    ("We use Python.", "We use Go instead of Python for the agents."),
]
#: The judgement model takes these for changes.
MISTAKEN = [
    ("We use ESLint and Prettier.", "We no longer use Prettier."),
    ("We deploy on Mondays and Fridays.", "We don't deploy on Fridays."),
    ("We use npm.", "We moved from npm to pnpm, temporarily."),
]


@pytest.mark.parametrize(
    ("known", "said"),
    [
        *STAYS,
        *(pytest.param(*each, marks=pytest.mark.xfail(reason="the model errs", strict=True)) for each in MISTAKEN),
    ],
)
def test_what_is_denied_in_part_for_a_while_or_not_yet_stays(judged: Keeper, known: str, said: str) -> None:
    say(judged, known)
    [before] = texts(judged)
    say(judged, said)
    assert before in texts(judged)


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ("We use Redis for caching.", "We no longer use Redis."),
        ("I like tabs.", "I don't like tabs any more."),
        ("We use npm.", "We now use pnpm instead of npm."),
        ("Sofia owns the billing service.", "Raj owns the billing service now, Sofia left."),
        ("We use Docker.", "We don't use Docker any more."),
        ("We use Stripe for payments.", "Stripe is too expensive, so we use Adyen for payments now."),
    ],
)
def test_what_is_denied_or_replaced_as_a_whole_goes(judged: Keeper, known: str, said: str) -> None:
    say(judged, known)
    [before] = texts(judged)
    say(judged, said)
    assert before not in texts(judged)


@pytest.mark.parametrize(
    ("said", "kept"),
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
def test_a_fact_keeps_its_limits_and_what_is_none_is_left(keeper: Keeper, said: str, kept: list[str]) -> None:
    say(keeper, said)
    assert texts(keeper) == kept


def test_a_wish_to_forget_is_not_kept_as_a_memory(keeper: Keeper) -> None:
    keeper.add("We deploy with Jenkins")
    told = keeper.learn("Forget that we deploy with Jenkins.")
    assert (told.actions, told.missed) == ((), 1)
    assert keeper.count() == 1


def test_a_switch_replaces_what_was_left_though_more_is_said_beside_it(judged: Keeper) -> None:
    say(judged, "We use Prisma as our ORM.")
    say(judged, "We switched from Prisma to Drizzle because its types got slow. Also, I prefer short answers.")
    assert "We use Prisma as our ORM" not in texts(judged)
    assert any("Drizzle" in text for text in texts(judged))
