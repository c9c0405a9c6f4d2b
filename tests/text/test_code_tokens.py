"""What must be written as it is: one sign makes it another thing."""

from __future__ import annotations

import pytest

from cofio.text.code_literals import code_literals, literals, missing_literal


@pytest.mark.parametrize(
    ("one", "other"),
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
def test_a_sign_tells_two_texts_apart(one: str, other: str) -> None:
    assert missing_literal(one, other)
    assert missing_literal(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
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
def test_what_is_only_prose_does_not(one: str, other: str) -> None:
    assert missing_literal(one, other) == ""


def test_code_is_found_in_backticks_and_outside() -> None:
    assert literals("Run `make test` before --force, see ./docs") == {"make", "test", "--force", "./docs"}
    assert code_literals("Run `make test` with the API") == frozenset()
