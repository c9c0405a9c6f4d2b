"""What a made-up team keeps in mind, for pictures and for maps: topics that lie apart, in the words that people use.

    topics × wordings × slots ─▶ facts with a project, a kind and a time

The same count gives the same facts, and no two of them say the same.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import count, islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The last of the facts was said now.
NOW = datetime(2026, 6, 30, 17, 0, tzinfo=UTC)
DAYS = 240  # since the first

_WHO = ("Ann", "Bela", "Chidi", "Dora", "Emre", "Farah", "Goran", "Hanna", "Ines", "Jonas", "Kofi", "Lena")
_SLOTS: dict[str, tuple[str, ...]] = {
    "who": _WHO,
    "other": _WHO[::-1],
    "service": ("checkout", "search", "billing", "orders", "catalogue", "inventory", "shipping", "accounts"),
    "table": ("orders", "customers", "invoices", "line_items", "sessions", "audit_log", "products", "refunds"),
    "number": tuple(str(each) for each in (2, 3, 5, 8, 12, 15, 20, 30, 45, 60, 90, 120, 250, 500)),
    "day": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday"),
    "place": ("staging", "production", "the preview environment", "the EU region", "the US region"),
    "browser": ("Safari", "Firefox", "Chrome", "the iOS web view", "Samsung Internet"),
    "screen": ("cart", "sign-in", "profile", "order history", "address", "payment", "product", "settings"),
    "month": ("January", "February", "March", "April", "May", "June"),
}
_SPREAD = {
    "web": 5,
    "api": 5,
    "infra": 4,
    "mobile": 3,
    "data": 3,
    "": 2,
    "docs": 1,
    "billing": 2,
    "search": 2,
    "lab": 1,
}

#: topic: (kind, where it belongs, wordings)
_TOPICS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "deploys": ("policy", ("infra", "api"), (
        "We deploy {service} on {day}, never on a Friday afternoon, and watch the canary for {number} minutes.",
        "A rollback of {service} in {place} is one command; {who} wrote the runbook for the canary.",
        "The canary of {service} takes {number} percent of the traffic before the deploy goes on.",
        "{who} approves deploys of {service} to {place}; the release train leaves on {day}.",
    )),
    "database": ("technology", ("api", "data"), (
        "The index on {table}.created_at made the Postgres query {number} times faster.",
        "Vacuum of the Postgres table {table} runs on {day}; {who} saw bloat of {number} percent.",
        "Migrations of the {table} table are written by hand and take a lock for {number} seconds at most.",
        "Postgres keeps {table} partitioned by month; partitions older than {number} days are dropped.",
    )),
    "sign-in": ("learning", ("web", "mobile"), (
        "The login loop on {browser} came from a SameSite cookie without Secure, {who} found.",
        "Session tokens of {service} live for {number} minutes; the refresh cookie is HttpOnly.",
        "{who} moved the sign-in of {service} to passkeys; passwords stay until {month}.",
        "Login on {browser} needs the cookie of the parent domain, or the session is lost after {number} minutes.",
    )),
    "money": ("decision", ("billing", "api"), (
        "Invoices of {service} are integers in minor units with a currency, never floats.",
        "A refund over {number} euros needs a second approval by {who}, since {month}.",
        "Stripe webhooks for {service} are verified, stored and retried {number} times.",
        "VAT on invoices is rounded per line item; {who} agreed it with accounting in {month}.",
    )),
    "tests": ("learning", ("web", "api", "mobile"), (
        "The Playwright test of the {screen} page is flaky on {browser}: wait for the response, not for {number} ms.",
        "{who} split the test suite of {service} into {number} shards; it runs in parallel now.",
        "Snapshot tests of the {screen} page are gone; {who} prefers assertions on roles and names.",
        "Integration tests of {service} use a real database in a container, no mocks; they take {number} seconds.",
    )),
    "cache": ("technology", ("api", "search"), (
        "Redis caches the {service} responses for {number} seconds; the key holds the tenant.",
        "A stampede on the Redis cache of {service} took it down on a {day}; there is a lock with jitter now.",
        "The cache of {table} is invalidated by events, never by a TTL of {number} seconds alone.",
        "{who} raised the memory of Redis in {place}, the hit rate of {service} is {number} percent better.",
    )),
    "ranking": ("decision", ("search", "data"), (
        "Search ranks products by BM25 first, embeddings rerank the first {number} hits.",
        "{who} tuned the synonyms of the search index in {month}; recall went up by {number} percent.",
        "The search index is rebuilt on {day} night; an alias swaps it without downtime.",
        "Typos in search are forgiven from {number} letters on, as {who} measured.",
    )),
    "phones": ("technology", ("mobile",), (
        "Push notifications of {service} go through one queue; iOS tokens expire after {number} days.",
        "The {screen} screen of the app is native on Android and iOS; the web view is gone since {month}.",
        "App Store review takes {number} hours; {who} submits builds on {day}.",
        "The app keeps the {screen} screen offline for {number} days in a local database.",
    )),
    "looks": ("preference", ("web", "docs"), (
        "{who} wants the {screen} page in CSS grid with logical properties, no utility classes.",
        "Dark mode of the {screen} page follows the system; colours are custom properties.",
        "Animations on the {screen} page stay below {number} ms and respect reduced motion.",
        "Buttons of the {screen} page have a contrast of at least 4.5 and a visible focus ring.",
    )),
    "watching": ("threshold", ("infra", "api"), (
        "On-call is paged when the p95 latency of {service} is over {number} ms for ten minutes.",
        "Traces of {service} are sampled at {number} percent and kept for two weeks.",
        "Alerts of {service} in {place} go to {who} on {day}; dashboards are in the runbook.",
        "Logs of {service} are structured JSON; e-mail addresses are hashed before they are logged.",
    )),
    "queues": ("learning", ("api", "data", "infra"), (
        "Jobs of {service} are retried {number} times with exponential backoff and jitter.",
        "The queue of {service} grew because a poison message was never acknowledged; {who} added a dead letter queue.",
        "Consumers of the {table} topic are idempotent: the message id is kept for {number} days.",
        "Workers of {service} take {number} messages at a time; more starved the queue on {day}.",
    )),
    "secrets": ("policy", ("infra", ""), (
        "Secrets of {service} live in the vault and rotate every {number} days.",
        "{who} found a token of {place} in a log; it was revoked, and a scanner runs before every push.",
        "Access to {place} needs a hardware key; {who} hands them out on {day}.",
        "Nobody reads secrets of {service} by hand; the vault mounts them into the container.",
    )),
    "pipelines": ("technology", ("data", "lab"), (
        "The nightly pipeline loads {table} into the warehouse and takes {number} minutes.",
        "{who} owns the dbt models for {table}; a failing freshness test blocks the dashboard.",
        "Events about {table} are deduplicated by id in the warehouse, late ones arrive up to {number} hours after.",
        "The notebook of {who} on {service} churn uses data until {month} only.",
    )),
    "reviews": ("preference", ("", "docs", "web"), (
        "{who} prefers small pull requests, below {number} changed lines, with the why in the description.",
        "{who} and {other} review changes of {service}; two approvals are needed.",
        "Commit messages are in the imperative; {who} squashes before the merge on {day}.",
        "Reviews by {who} are done within {number} hours, else {other} takes over.",
    )),
    "writing": ("policy", ("docs",), (
        "The documentation of {service} is written for users first; {who} reads it aloud.",
        "Release notes for {month} are drafted by {who} and name every breaking change.",
        "Examples in the documentation of {service} are executed by the tests.",
        "The changelog has one line for {service} a change; {who} edits it on {day}.",
    )),
}  # fmt: skip


def facts(number: int, seed: int = 7) -> list[dict[str, Any]]:
    """So many facts, as POST /memory/add-batch takes them, the oldest first."""
    rng = random.Random(seed)
    told = list(islice(_endless(rng), number))
    ages = sorted((min(rng.expovariate(1 / 55), DAYS) for _ in told), reverse=True)
    return [{**fact, "created_at": _ago(age)} for fact, age in zip(told, ages, strict=True)]


def _endless(rng: random.Random) -> Iterator[dict[str, Any]]:
    """Some topics come up more often than others."""
    known: set[str] = set()
    topics = list(_TOPICS.values())
    weights = [1 / (1 + place / 6) for place in range(len(topics))]
    for turn in count():
        [(kind, homes, wordings)] = rng.choices(topics, weights)
        text = rng.choice(wordings).format_map({name: rng.choice(some) for name, some in _SLOTS.items()})
        if text in known:
            text = f"{text[:-1]} (seen again in week {turn})."
        known.add(text)
        yield {"text": text, "kind": kind, "project": _project(rng, homes), "category": _category(rng, kind)}


def _project(rng: random.Random, homes: tuple[str, ...]) -> str:
    """Mostly one where such things belong."""
    if rng.random() < 0.85:
        return rng.choice(homes)
    return rng.choices(list(_SPREAD), list(_SPREAD.values()))[0]


def _category(rng: random.Random, kind: str) -> str:
    usual = {"decision": "decision", "policy": "decision", "preference": "decision", "learning": "learning"}
    return usual.get(kind, "detail") if rng.random() < 0.8 else rng.choice(("decision", "learning", "detail"))


def _ago(days: float) -> str:
    return (NOW - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")
