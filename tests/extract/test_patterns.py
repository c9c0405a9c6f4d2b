"""Extraction patterns: which sentences are facts, and their wording."""

from __future__ import annotations

import pytest

from cofio.ingest.extract import patterns
from cofio.models.memory import CATEGORIES, KINDS, category_of
from cofio.text import sentences

#: A sentence, the kind of fact, the extracted texts.
FACTS = [
    ("I prefer dark mode", "preference", ["User prefers dark mode"]),
    ("I prefer dark mode for coding", "preference", ["User prefers dark mode"]),
    ("I prefer VS Code over Vim", "preference", ["User prefers VS Code over Vim"]),
    ("I'd prefer pnpm over npm.", "preference", ["User prefers pnpm over npm"]),
    ("I would prefer snake_case instead of camelCase", "preference", ["User prefers snake_case over camelCase"]),
    ("I prefer tabs and I hate spaces.", "preference", ["User prefers tabs", "User dislikes spaces"]),
    ("I really like functional components.", "preference", ["User likes functional components"]),
    ("I always use ripgrep for searching", "preference", ["User likes ripgrep"]),
    ("I don’t like default exports", "preference", ["User dislikes default exports"]),
    ("I avoid ORMs because they hide queries", "preference", ["User dislikes ORMs"]),
    ("We always add null checks for optional parameters", "policy",
     ["Team policy: always add null checks for optional parameters"]),
    ("We never use var", "policy", ["Team policy: never use var"]),
    ("We should always use UTC timestamps.", "policy", ["Team policy: always use UTC timestamps"]),
    ("We always use pnpm in this repo, never npm.", "policy", ["Team policy: always use pnpm in this repo, never npm"]),
    ("We shouldn't use globals", "policy", ["Team policy: shouldn't use globals"]),
    ("We must use TLS 1.3", "policy", ["Team policy: must use TLS 1.3"]),
    ("We never commit directly to main", "policy", ["Team policy: never commit directly to main"]),
    ("our convention is to name branches after the ticket", "policy", ["Team policy: name branches after the ticket"]),
    ("From now on, answer in German", "policy", ["Answer in German"]),
    ("We switched from JWT to Clerk for auth", "technology", ["Team switched from JWT to Clerk"]),
    ("We switched from C# to C++ because of latency", "technology", ["Team switched from C# to C++"]),
    ("We moved from Next.js to SvelteKit last year", "technology", ["Team moved from Next.js to SvelteKit"]),
    ("We upgraded from Python 3.9 to 3.12", "technology", ["Team upgraded from Python 3.9 to 3.12"]),
    ("migrated from CRA to Next.js", "technology", ["Team migrated from CRA to Next.js"]),
    ("We migrated MySQL to Postgres", "technology", ["Team migrated from MySQL to Postgres"]),
    ("I switched from bash to fish", "technology", ["User switched from bash to fish"]),
    ("Using Prisma for database access", "technology", ["Team uses Prisma for database access"]),
    ("we use scikit-learn for ranking", "technology", ["Team uses scikit-learn for ranking"]),
    ("We use Pulumi for infra, never Terraform.", "technology", ["Team uses Pulumi for infra, never Terraform"]),
    ("We use pnpm", "technology", ["We use pnpm"]),
    ("We decided to drop IE11 support", "decision", ["Team decided to drop IE11 support"]),
    ("We decided to use Postgres because it supports JSONB", "decision",
     ["Team decided to use Postgres because it supports JSONB"]),
    ("We chose to keep the monolith since the team is small", "decision",
     ["Team decided to keep the monolith because the team is small"]),
    ("Found a workaround for NativeWind v4 by using className prop", "decision",
     ["Found workaround for NativeWind v4 by using className prop"]),
    ("Started using React last month", "temporal", ["Started using React last month"]),
    ("I've been using Vim for about 10 years", "temporal", ["Been using Vim for 10 years"]),
    ("I like type hints, but not in tests.", "preference", ["I like type hints, but not in tests"]),
    ("The port of staging is 8080.", "other", ["The port of staging is 8080"]),
    ("Ann owns billing", "other", ["Ann owns billing"]),
    ("Remember that the demo is every Friday", "other", ["The demo is every Friday"]),
]  # fmt: skip

NO_FACTS = [
    "Hello, how are you?",
    "Should we always use tabs?",
    "do we always use UTC",
    "I prefer tabs, right?",
    "If we switched from Jest to Vitest, builds would be faster",
    "I wonder whether we always use UTC",
    "Imagine we migrated from MySQL to Postgres",
    "I would prefer if you kept it short",
    "The docs say we should always use strict mode",
    'He said "I prefer dark mode"',
    "Bob said we switched from Jest to Vitest",
    "For example, we always use tabs",
    "Forget that we always use tabs",
    "const always = useMemo(() => we.use(x))",
    '{"text": "I prefer dark mode"}',
    "2026-01-01 12:00:00 INFO we always use the cache",
    "I prefer that one",
    "I like it",
    "we always get the same warning",
    "We never had this problem with webpack",
    "I prefer tabs " + "x" * sentences.LONGEST,
]


@pytest.mark.parametrize(("sentence", "kind", "texts"), FACTS)
def test_fact_is_found_and_worded(sentence: str, kind: str, texts: list[str]) -> None:
    extracted = patterns.find(sentence)
    assert [fact.text for fact in extracted] == texts
    assert {fact.kind for fact in extracted} == {kind}
    assert {(fact.method, fact.said, fact.role) for fact in extracted} == {("pattern", sentence, "user")}
    assert all(0.8 <= fact.confidence <= 0.95 for fact in extracted)


@pytest.mark.parametrize("sentence", NO_FACTS)
def test_no_fact_is_found(sentence: str) -> None:
    assert patterns.find(sentence) == []
    assert patterns.find(sentence, role="assistant") == []


def test_assistant_may_only_report_workarounds() -> None:
    extracted = patterns.find("I found a workaround for Safari 17 by using a polyfill.", role="assistant")
    assert [(fact.text, fact.role) for fact in extracted] == [
        ("Found workaround for Safari 17 by using a polyfill", "assistant")
    ]
    assert patterns.find("We switched from Jest to Vitest.", role="assistant") == []


@pytest.mark.parametrize(
    ("sentence", "confidence", "entities"),
    [
        ("I prefer React over Vue", 0.9, ("React", "Vue")),
        ("I love Rust", 0.85, ("Rust",)),
        ("I never use semicolons", 0.85, ("semicolons",)),
        ("We always add null checks for optional parameters", 0.85, ("null checks",)),
        ("Our standard is to write tests first", 0.9, ("write tests first",)),
        ("We switched from JWT to Clerk for authentication", 0.9, ("JWT", "Clerk")),
        ("Using Prisma for database access", 0.85, ("Prisma", "database access")),
        ("We migrated from MySQL to PostgreSQL", 0.9, ("MySQL", "PostgreSQL")),
        ("We decided to drop IE11 support", 0.85, ("drop IE11 support",)),
        ("Found a fix for NativeWind v4 by using className", 0.85, ("NativeWind v4", "using className")),
        ("Started using React last month", 0.8, ("React",)),
        ("I've been using Vim for 10 years", 0.8, ("Vim",)),
        ("we use `uv` for tooling", 0.85, ("uv", "tooling")),
        ("Remember that Ann reviews api/v2", 0.95, ("Ann", "api/v2")),
    ],
)
def test_fact_has_entities_and_confidence(sentence: str, confidence: float, entities: tuple[str, ...]) -> None:
    (fact,) = patterns.find(sentence)
    assert (fact.confidence, fact.entities) == (confidence, entities)


def test_only_facts_of_the_requested_kind_are_returned() -> None:
    sentence = "I prefer tabs and we switched from npm to pnpm"
    assert [fact.kind for fact in patterns.find(sentence)] == ["preference", "technology"]
    assert [fact.text for fact in patterns.find(sentence, "technology")] == ["Team switched from npm to pnpm"]
    assert patterns.find("I prefer React", "temporal") == []


def test_every_sentence_of_a_text_is_read() -> None:
    text = "Hi! I prefer tabs. We use uv for tooling, can you fix the build?\n> we always use npm\n"
    assert [fact.text for fact in patterns.facts(text)] == ["User prefers tabs", "Team uses uv for tooling"]


def test_overlapping_patterns_give_one_fact() -> None:
    extracted = patterns.find("We decided to stop using Jest because we always use Vitest for new tests")
    assert [fact.kind for fact in extracted] == ["decision"]


def test_every_pattern_matches_an_example() -> None:
    for row in patterns.ROWS:
        sentences_of_kind = [sentence.replace("’", "'").rstrip(".") for sentence, kind, _ in FACTS if kind == row.kind]
        assert any(row.pattern.search(sentence) for sentence in sentences_of_kind), row
        assert row.kind in KINDS
        assert category_of(row.kind) in CATEGORIES
