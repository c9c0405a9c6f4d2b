"""Comparison of a statement with a memory: the thresholds of the model, the guards, and the fallback without it."""

from __future__ import annotations

import pytest

from cofio.ingest.reconcile.compare import Comparison, JudgedComparer, WordComparer
from cofio.text.duplicates import LONG
from tests.judges import FixedJudge, ValueJudge

LIMITS = ValueJudge.thresholds


def compare(statement: str, memory: str, *, retracts: bool = False, **probabilities: float) -> Comparison:
    return JudgedComparer(FixedJudge(**probabilities)).compare(statement, memory, 0.8, retracts=retracts)


# ── Model probabilities ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("probabilities", "kind"),
    [
        ({}, "add"),
        ({"same": LIMITS["same"] + 0.01}, "same"),
        ({"same": LIMITS["same"] - 0.01}, "add"),
        ({"update": LIMITS["doubtful change"] - 0.01}, "add"),
        ({"update": LIMITS["doubtful change"] + 0.01}, "doubtful"),
        ({"update": LIMITS["change"] - 0.01}, "doubtful"),
        ({"update": LIMITS["change"] + 0.01}, "update"),
        ({"update": LIMITS["change"] / 2, "delete": LIMITS["change"] / 2 + 0.01}, "delete"),
    ],
)
def test_thresholds_decide(probabilities: dict[str, float], kind: str) -> None:
    assert compare("Our deploys go to Fly", "We deploy with Heroku", **probabilities).kind == kind


@pytest.mark.parametrize(
    ("probabilities", "kind"),
    [
        ({"same": 0.97}, "add"),
        ({"update": LIMITS["doubtful change"] - 0.01}, "add"),
        ({"update": LIMITS["retraction"] - 0.01}, "doubtful"),
        ({"update": LIMITS["retraction"] + 0.01}, "delete"),
        ({"delete": 0.97}, "delete"),
    ],
)
def test_retraction_deletes_and_is_never_the_same(probabilities: dict[str, float], kind: str) -> None:
    assert compare("Scrap the Friday deploys", "We deploy on Fridays", retracts=True, **probabilities).kind == kind


def test_updates_and_deletions_are_changes() -> None:
    kinds = ("same", "update", "delete", "doubtful", "add")
    assert [Comparison(kind, 1.0, "").changes for kind in kinds] == [False, True, True, False, False]


@pytest.mark.parametrize(
    ("statement", "update", "kind"),
    [
        ("The charts of this report are done in Flourish", 0.9, "update"),  # several words in common
        ("Every chart is rebuilt in Flourish", LIMITS["change"] - 0.02, "doubtful"),  # one word
        ("Every chart is rebuilt in Flourish", LIMITS["change"] + 0.02, "update"),
        ("Everything is rebuilt in Flourish", 0.49, "add"),  # none
        ("Everything is rebuilt in Flourish", 0.51, "update"),
    ],
)
def test_change_without_a_shared_word_needs_a_higher_probability(statement: str, update: float, kind: str) -> None:
    assert compare(statement, "The charts of this report are made in Datawrapper", update=update).kind == kind


@pytest.mark.parametrize(
    ("statement", "memory"),
    [
        ("Uploads over the limit are rejected", "Uploads over the limit are truncated"),
        ("Ada reviews the migrations", "Ada writes the migrations"),
    ],
)
def test_sentences_that_differ_in_one_distinctive_word_are_not_the_same(statement: str, memory: str) -> None:
    assert compare(statement, memory, same=0.97).kind == "doubtful"


def test_part_of_a_memory_does_not_replace_it() -> None:
    memory = "We deploy to Fly.io, never on a Friday"
    assert compare("We never deploy on a Friday", memory, update=0.97).kind == "doubtful"
    assert compare("We never deploy on a Monday", memory, update=0.97).kind == "update"


def test_different_identifiers_are_different_subjects() -> None:
    assert compare("Item 3", "Item 5", update=0.97).kind == "add"
    assert compare("The port of shop 2 is 8020", "The port of shop 0 is 8000", update=0.97).kind == "add"
    assert compare("Node 22.1", "Node 20.4", update=0.97).kind == "update"


def test_one_shared_word_is_enough_in_a_short_memory() -> None:
    assert compare("We deploy with Fly", "We deploy with Heroku", update=0.9).kind == "update"


# ── Guards ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_identical_words_are_the_same_without_the_model() -> None:
    judge = FixedJudge(update=0.99)
    verdict = JudgedComparer(judge).compare("The repo uses pnpm", "the repository uses pnpm!", 0.1)
    assert (verdict.kind, judge.relation_calls) == ("same", 0)


@pytest.mark.parametrize(
    ("statement", "memory", "kind"),
    [
        ("The API listens on port 9090", "The API listens on port 8080", "update"),
        ("The client retries 5 times", "The client retries", "add"),
        ("The client retries", "The client retries 5 times", "same"),
        ("The client retries five times", "The client retries three times", "update"),
        # In entirely different words an additional number may be unrelated.
        ("No ?page=2 in my API, a cursor as everywhere", "List endpoints have no numbered pages", "same"),
    ],
)
def test_different_number_is_not_the_same(statement: str, memory: str, kind: str) -> None:
    assert compare(statement, memory, same=0.97).kind == kind


@pytest.mark.parametrize(
    ("statement", "memory"),
    [
        ("Edit src/config.ts for the flags", "Edit the config for the flags"),
        ("The flag new_checkout is on", "The flag is on"),
        ("Use Redis in auth-service for session caching", "Use Redis for session caching"),
    ],
)
def test_different_identifier_is_added(statement: str, memory: str) -> None:
    verdict = compare(statement, memory, same=0.97)
    assert verdict.kind == "add"
    assert "names something else" in verdict.reason


@pytest.mark.parametrize(
    ("statement", "memory"),
    [
        ("We never deploy on Fridays", "We deploy on Fridays"),
        ("Nous deployons le service sans Redis", "Nous deployons le service Redis"),
        ("Tests run without a database", "Tests run with a database"),
        ("We do deploy on Fridays", "We don't deploy on Fridays"),
    ],
)
def test_different_negation_is_doubtful(statement: str, memory: str) -> None:
    assert compare(statement, memory, same=0.97).kind == "doubtful"


@pytest.mark.parametrize("probabilities", [{"update": 0.97}, {"delete": 0.97}, {"update": 0.6}])
@pytest.mark.parametrize("memory", ["The staging database is Postgres 15", "Postgres 15 on staging"])
def test_production_never_changes_staging(memory: str, probabilities: dict[str, float]) -> None:
    for statement in ("The production database is Postgres 16", "Prod is on Postgres 16"):
        assert compare(statement, memory, **probabilities).kind == "add"
    for statement in (
        "The staging database is Postgres 16",
        "Staging is on Postgres 16",
        "The database is Postgres 16",
    ):
        assert compare(statement, memory, **probabilities).kind != "add"


def test_long_texts_are_compared_verbatim() -> None:
    text = "The gateway checks tokens. " * (LONG // 20)
    judge = FixedJudge(same=0.99)
    assert JudgedComparer(judge).compare(f"{text} Also today.", text, 0.99).kind == "add"
    assert JudgedComparer(judge).compare(text, text, 0.99).kind == "same"
    assert judge.relation_calls == 0


# ── Without the model ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("statement", "memory", "cosine", "kind"),
    [
        ("The repo uses pnpm", "The repository uses pnpm", 0.1, "same"),
        ("We deploy by hand on Monday", "On Monday we deploy manually", 0.89, "add"),
        ("The web app is deployed manually", "The web app is deployed by hand", 0.97, "same"),
        ("The API listens on port 9090", "The API listens on port 8080", 0.99, "add"),
        ("We never squash commits", "We always squash commits", 0.99, "add"),
        ("We switched from npm to pnpm", "We use npm", 0.99, "add"),
    ],
)
def test_word_comparison_detects_duplicates_but_no_changes(
    statement: str, memory: str, cosine: float, kind: str
) -> None:
    assert WordComparer(0.9).compare(statement, memory, cosine).kind == kind


def test_word_comparison_detects_no_retraction() -> None:
    assert WordComparer(0.9).compare("We no longer use npm", "We use npm", 0.99, retracts=True).kind == "add"


def test_different_number_in_the_same_words_is_not_the_same() -> None:
    for comparer in (WordComparer(0.9), JudgedComparer(FixedJudge(same=0.99))):
        assert comparer.compare("Set retries to 5", "Set retries to 3", 0.99).kind != "same"


# ── The real model ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("statement", "memory", "kind"),
    [
        ("Raj owns the billing service now, Sofia left", "Sofia owns the billing service", "update"),
        ("We don't use Docker any more", "We use Docker", "delete"),
        ("Our deploys run on Fly.io", "We deploy with Fly.io", "same"),
        ("Ada reviews what touches billing", "The database is Postgres 16", "add"),
    ],
)
def test_model_decides_clear_cases(judge: ValueJudge, statement: str, memory: str, kind: str) -> None:
    assert JudgedComparer(judge).compare(statement, memory, 0.8).kind == kind


@pytest.mark.parametrize(
    ("statement", "memory", "kind"),
    [
        ("Crate W4N1 stands on shelf 400001", "Crate W2N1 stands on shelf 200001", "add"),
        ("Crate W4N1 now stands on shelf 400001", "Crate W2N1 stands on shelf 200001", "add"),
        ("Crate W4N1 stands on shelf 400001", "Crate W4N1 stands on shelf 200001", "update"),
        ("Workers run on m7g.large nodes", "Workers run on m6i.large nodes", "update"),
    ],
)
def test_parallel_statements_about_two_identifiers_are_both_kept(statement: str, memory: str, kind: str) -> None:
    assert compare(statement, memory, update=0.98).kind == kind
    if kind == "add":
        assert compare(statement, memory, same=0.98).kind == "add"


def test_number_in_a_differently_worded_sentence_does_not_prevent_the_same() -> None:
    statement = "429s again on page 2 of the export. dhl only lets us through five times a second, look at the client"
    assert compare(statement, "The DHL API allows our key 5 requests per second", same=0.9).kind == "same"


@pytest.mark.parametrize(
    ("statement", "memory"),
    [
        ("the gateway on port 9000", "gateway listens on 8000"),  # short, therefore each word counts
        ("We do not use Redis for caching", "We use Redis for caching"),
    ],
)
def test_different_value_in_the_same_wording_prevents_the_same(statement: str, memory: str) -> None:
    assert compare(statement, memory, same=0.9).kind != "same"
