"""What may be taken for a repetition, and what never."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.text.duplicates import LONG, content_words, difference_reason, find_conflict, find_names, find_numbers

DIFFERENT = [
    ("the port is 8080", "the port is 9090"),
    ("I weigh 79 kg", "I weigh 78 kg"),
    ("timeout is 1.5 s", "timeout is 15 s"),
    ("the offset is -5 degrees", "the offset is 5 degrees"),
    ("the timeout is 10 seconds", "the timeout is 10 minutes"),
    ("the limit is 5 mb", "the limit is 5 gb"),
    ("we run two replicas", "we run three replicas"),
    ("the plan costs $5", "the plan costs €5"),
    ("worker 1 wrote number 2", "worker 2 wrote number 1"),
    ("we always use var", "we never use var"),
    ("tests are run in CI", "tests are not run in CI"),
    ("we use tabs", "we don't use tabs"),
    ("we use tabs", "we no longer use tabs"),
    ("Wir benutzen Tabs", "Wir benutzen keine Tabs"),
    ("Мы используем табуляцию", "Мы не используем табуляцию"),
    ("我们使用制表符", "我们不使用制表符"),
    ("the mascot is 🦊", "the mascot is 🐻"),
    ("the user prefers Prisma", "the user prefers Drizzle"),
    ("we moved from MySQL to Postgres", "we moved from Postgres to MySQL"),
    ("see src/app.py", "see src/api.py"),
    ("call get_user", "call get_users"),
    ("login goes through auth-api", "login goes through auth-web"),
    ("api v1 is the default", "api v2 is the default"),
    ("feature flags are enabled", "feature flags are disabled"),
    ("it is safe to run it twice", "it is unsafe to run it twice"),
    ("Windows is supported here", "Windows is unsupported here"),
    ("the user often works late", "the user rarely works late"),
    ("deploy to staging first", "deploy to production first"),
    ("review is due on monday", "review is due on tuesday"),
    ("Ada prefers tea over coffee", "Ada prefers coffee over tea"),
    ("the api calls the worker", "the worker calls the api"),
    ("merge before the release", "merge after the release"),
]
SAME = [
    ("we use tabs", "We use tabs."),
    ("We never use var", "we do not use var"),
    ("the cache holds 5,000 items", "The cache holds 5000 items"),
    ("We use Prisma as the ORM", "we use Prisma as ORM"),
    ("the config is in the repo", "The configuration is in the repository"),
    ("the service deploys", "services deploy"),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_texts_that_differ_in_what_matters_are_never_one(one: str, other: str) -> None:
    assert find_conflict(one, other)
    for cosine in (0.90, 0.96, 1.0):
        assert difference_reason(one, other, cosine)
        assert difference_reason(other, one, cosine)


@pytest.mark.parametrize(("one", "other"), SAME)
def test_texts_that_differ_in_form_alone_are_one(one: str, other: str) -> None:
    assert content_words(one) == content_words(other)
    assert difference_reason(one, other, 0.9) == ""


def test_other_words_may_say_the_same_only_when_almost_identical_in_meaning() -> None:
    one, other = "kids play in the yard", "children play in the yard"
    assert difference_reason(one, other, 0.96) == ""
    assert "in other words" in difference_reason(one, other, 0.94)


def test_what_says_more_is_not_a_repetition() -> None:
    old, new = "we deploy with flags", "we deploy with flags behind approval"
    assert "adds: behind, approval" in difference_reason(new, old, 0.99)
    assert difference_reason(old, new, 0.99) == ""


def test_long_texts_are_one_only_word_for_word() -> None:
    text = "word " * LONG
    assert difference_reason(text, text + "and the end differs", 1.0)
    assert difference_reason(text, text.upper(), 1.0) == ""


def test_numbers_keep_their_sign_and_what_they_count() -> None:
    assert find_numbers("5,000 items of 1.5 at 10:30, -5 degrees and two replicas") == [
        "5000 item",
        "1.5",
        "10:30",
        "-5 degree",
        "two replica",
    ]


def test_names_are_read_as_written() -> None:
    found = find_names("We moved from MySQL to Postgres in web-2 and src/app.py. Then it rained on auth-api.")
    assert found == ["mysql", "postgres", "web-2", "src/app.py", "auth-api"]


@given(st.text(), st.text(), st.floats(0, 1))
def test_any_two_texts_can_be_compared(one: str, other: str, cosine: float) -> None:
    assert bool(find_conflict(one, other)) == bool(find_conflict(other, one))
    assert find_conflict(one, one) == ""
    assert difference_reason(one, one, cosine) == ""
    difference_reason(one, other, cosine)
