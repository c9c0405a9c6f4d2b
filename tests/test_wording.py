"""What words alone can tell."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.wording import conflict, fingerprint, names, numbers, passage, telling, words


def test_names_with_signs_stay_whole() -> None:
    assert words("We use Next.js, C# and pre-commit") == ["we", "use", "next.js", "c#", "and", "pre-commit"]


def test_question_words_are_not_searched_for() -> None:
    assert telling("What did Caroline's team decide about the deployment of web-2?") == [
        "caroline",
        "team",
        "decide",
        "deployment",
        "web-2",
    ]


def test_a_query_of_stop_words_alone_is_still_a_query() -> None:
    assert telling("who is it?") == ["who", "is", "it"]
    assert telling("???") == []


def test_the_fingerprint_forgives_case_and_space_alone() -> None:
    assert fingerprint("We  use\tTabs ") == fingerprint("we use tabs")
    assert fingerprint("we use tabs") != fingerprint("we use tabs.")
    assert -(1 << 63) <= fingerprint("x") < 1 << 63


def test_who_said_it_is_part_of_what_is_embedded() -> None:
    assert passage("I moved to Leeds", "Ada") == "Ada: I moved to Leeds"
    assert passage("I moved to Leeds", "") == "I moved to Leeds"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("the port is 8080", "the port is 9090"),
        ("I weigh 79 kg", "I weigh 78 kg"),
        ("timeout is 1.5 s", "timeout is 15 s"),
        ("we always use var", "we never use var"),
        ("tests are run in CI", "tests are not run in CI"),
        ("we use tabs", "we don't use tabs"),
        ("we use tabs", "we no longer use tabs"),
        ("the user prefers Prisma", "the user prefers Drizzle"),
        ("see src/app.py", "see src/api.py"),
        ("call get_user", "call get_users"),
        ("the team uses Vue", "the team uses React"),
        ("feature flags are enabled", "feature flags are disabled"),
        ("deploy to staging first", "deploy to production first"),
        ("api v1 is the default", "api v2 is the default"),
        ("worker 1 wrote number 2", "worker 2 wrote number 1"),
        ("we moved from MySQL to Postgres", "we moved from Postgres to MySQL"),
        ("the user's favourite editor is Vim", "the user's favourite editor is Emacs"),
    ],
)
def test_texts_that_differ_in_what_matters_are_not_one(one: str, other: str) -> None:
    assert conflict(one, other)
    assert conflict(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("we use tabs", "We use tabs."),
        ("We never use var", "we do not use var"),
        ("the cache holds 5,000 items", "The cache holds 5000 items"),
        ("the team prefers Postgres", "postgres is what the team prefers"),
        ("The team likes short functions", "short functions are liked by the team"),
    ],
)
def test_texts_that_differ_in_form_alone_may_be_one(one: str, other: str) -> None:
    assert conflict(one, other) == ""


def test_numbers_and_names_are_read_as_written() -> None:
    assert numbers("5,000 of 1.5 at 10:30") == ["5000", "1.5", "10:30"]
    assert names("We moved from MySQL to Postgres in web-2 and src/app.py. Then it rained.") == [
        "mysql",
        "postgres",
        "web-2",
        "src/app.py",
    ]


@given(st.text(), st.text())
def test_any_two_texts_can_be_compared(one: str, other: str) -> None:
    assert bool(conflict(one, other)) == bool(conflict(other, one))
    assert conflict(one, one) == ""
    words(one)
    telling(other)
