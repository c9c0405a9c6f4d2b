"""Duplicate detection: which texts count as duplicates and which never do."""

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


@pytest.mark.parametrize(("first", "second"), DIFFERENT)
def test_texts_with_a_relevant_difference_are_not_duplicates(first: str, second: str) -> None:
    assert find_conflict(first, second)
    for cosine in (0.90, 0.96, 1.0):
        assert difference_reason(first, second, cosine)
        assert difference_reason(second, first, cosine)


@pytest.mark.parametrize(("first", "second"), SAME)
def test_texts_that_differ_in_form_only_are_duplicates(first: str, second: str) -> None:
    assert content_words(first) == content_words(second)
    assert difference_reason(first, second, 0.9) == ""


def test_paraphrase_is_a_duplicate_only_at_high_similarity() -> None:
    first, second = "kids play in the yard", "children play in the yard"
    assert difference_reason(first, second, 0.96) == ""
    assert "in other words" in difference_reason(first, second, 0.94)


def test_text_with_more_content_is_not_a_duplicate() -> None:
    old, new = "we deploy with flags", "we deploy with flags behind approval"
    assert "adds: behind, approval" in difference_reason(new, old, 0.99)
    assert difference_reason(old, new, 0.99) == ""


def test_long_texts_are_duplicates_only_when_identical() -> None:
    text = "word " * LONG
    assert difference_reason(text, text + "and the end differs", 1.0)
    assert difference_reason(text, text.upper(), 1.0) == ""


def test_find_numbers_keeps_signs_and_units() -> None:
    assert find_numbers("5,000 items of 1.5 at 10:30, -5 degrees and two replicas") == [
        "5000 item",
        "1.5",
        "10:30",
        "-5 degree",
        "two replica",
    ]


def test_find_names_returns_names_as_written() -> None:
    names = find_names("We moved from MySQL to Postgres in web-2 and src/app.py. Then it rained on auth-api.")
    assert names == ["mysql", "postgres", "web-2", "src/app.py", "auth-api"]


@given(st.text(), st.text(), st.floats(0, 1))
def test_any_two_texts_can_be_compared(first: str, second: str, cosine: float) -> None:
    assert bool(find_conflict(first, second)) == bool(find_conflict(second, first))
    assert find_conflict(first, first) == ""
    assert difference_reason(first, first, cosine) == ""
    difference_reason(first, second, cosine)
