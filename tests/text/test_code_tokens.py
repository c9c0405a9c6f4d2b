"""Literals: names, paths, options and code that must match exactly."""

from __future__ import annotations

import pytest

from cofio.text.code_literals import code_literals, literals, missing_literal


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("List containers with docker ps", "List containers with docker ps -a"),
        ("Delete branches with git branch -d", "Delete branches with git branch -D"),
        ("Call getUser in the header", "Call getUsers in the header"),
        ("Documents are found by _id", "Documents are found by id"),
        ("The guard is `if (!user.admin)`", "The guard is `if (user.admin)`"),
        ("Skip it when status != done", "Skip it when status = done"),
        ("The default is []", "The default is {}"),
        ("CSV exports use ; as the delimiter", "CSV exports use , as the delimiter"),
        ("Build output goes to ../dist", "Build output goes to ./dist"),
        ("The glob is src/**", "The glob is src/*"),
        ("Names start with `is`", "Names start with `has`"),
        ("Deploy to US first", "Deploy to first"),
        ("The formula is a / b", "The formula is a - b"),
    ],
)
def test_different_literals_distinguish_texts(first: str, second: str) -> None:
    assert missing_literal(first, second)
    assert missing_literal(second, first)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("We use PostgreSQL", "We use Postgres"),
        ("Use `pnpm` here", "Use pnpm here"),
        ("Deploy on Friday!", "Deploy on Friday."),
        ("See (src/app.py).", "see src/app.py"),
        ("Run foo() first", "Run foo first"),
        ("GitHub is used", "github is used"),
        ("We run end-to-end tests – always", "We run end to end tests - always"),
        ("It is *important*, e.g. here", "It is important, e.g. here"),
    ],
)
def test_differences_in_prose_are_no_literal_differences(first: str, second: str) -> None:
    assert missing_literal(first, second) == ""


def test_literals_are_found_in_backticks_and_in_prose() -> None:
    assert literals("Run `make test` before --force, see ./docs") == {"make", "test", "--force", "./docs"}
    assert code_literals("Run `make test` with the API") == frozenset()
