"""Facts of a fictional team, for pictures and maps: distinct topics in natural wording.

    topics × subjects × claims × slots ─▶ facts with a project, a kind and a time

The same count gives the same facts, and all of them are distinct.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import count, islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Date of the last fact.
NOW = datetime(2026, 6, 30, 17, 0, tzinfo=UTC)
DAYS = 240  # since the first fact

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
    "web": 5, "api": 5, "infra": 4, "mobile": 3, "data": 3, "billing": 2, "search": 2, "": 2, "docs": 1, "lab": 1,
}  # fmt: skip

#: topic: (kind, projects, subjects, claims)
_TOPICS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "deploys": ("policy", ("infra", "api"), (
        "The canary deploy of {service}", "A rollback of the {service} deploy", "The release train of {service}",
        "Every deploy of {service} to {place}", "The blue-green deploy of {service}",
    ), (
        "starts on {day} and never on a Friday afternoon", "is watched for {number} minutes before traffic moves on",
        "needs the approval of {who}", "is one command in the deploy runbook",
        "moves {number} percent of the traffic first", "stops by itself when the canary fails",
    )),
    "database": ("technology", ("api", "data"), (
        "The Postgres index on {table}", "Vacuum of the Postgres table {table}", "The Postgres migration of {table}",
        "A slow Postgres query on {table}", "The Postgres partition of {table}",
    ), (
        "holds a table lock for {number} seconds at most", "is checked with EXPLAIN before the migration is merged",
        "went {number} times faster once {who} rewrote the query", "grew by {number} gigabytes of bloat in {month}",
        "runs on the replica in {place}, not on the primary database", "is dropped after {number} days",
    )),
    "sign-in": ("learning", ("web", "mobile"), (
        "The login on {browser}", "The session cookie on {browser}", "Sign-in with a passkey on {browser}",
        "The login token of {service}", "A password login on the {screen} page",
    ), (
        "fails without SameSite and Secure on the cookie", "ends the session after {number} minutes",
        "loops when the session cookie is third-party", "is replaced by passkeys in {month}",
        "refreshes the token in an HttpOnly cookie", "asks for a second factor after {number} failed logins",
    )),
    "money": ("decision", ("billing", "api"), (
        "An invoice of {service}", "The VAT on an invoice", "A refund by Stripe", "The Stripe webhook for {service}",
        "A payment over {number} euros",
    ), (
        "is an integer in minor units with a currency, never a float",
        "is rounded per invoice line, as accounting wants",
        "needs a second approval by {who} before it is paid", "is verified, stored and paid out on {day}",
        "is booked against the invoice in {month}", "is tried {number} times before billing gives the payment up",
    )),
    "tests": ("learning", ("web", "api", "mobile"), (
        "The Playwright test of the {screen} page", "The integration test of {service}",
        "A flaky test of the {screen} page",
        "The test suite of {service}", "The snapshot test of the {screen} page",
    ), (
        "is flaky: wait for the response, not for {number} ms", "runs against a real database in a container, no mocks",
        "is split into {number} shards that run in parallel", "asserts on roles and names, not on markup",
        "takes {number} seconds in CI, and {who} wants it faster", "failed in CI on {day} because of the time zone",
    )),
    "cache": ("technology", ("api", "search"), (
        "The Redis cache of {service}", "A cache key of {service} in Redis", "The cache of {table}",
        "A cache stampede on {service}", "The Redis node in {place}",
    ), (
        "expires after {number} seconds with some jitter", "holds the tenant, or customers see each other's cache",
        "is invalidated by events, not by its TTL alone", "has a hit rate of {number} percent",
        "is warmed by {who} before the sale in {month}", "evicts the least recently used keys from {number} GB on",
    )),
    "ranking": ("decision", ("search", "data"), (
        "The ranking of product search", "The search index", "A synonym in the search index", "The reranker of search",
        "A typo in a search query",
    ), (
        "takes BM25 first and embeddings for the first {number} hits", "is rebuilt on {day} night behind an alias",
        "raised search recall by {number} percent, as {who} measured", "is forgiven from {number} letters on",
        "is tuned on the search queries of {month}", "prefers products that are in stock",
    )),
    "phones": ("technology", ("mobile",), (
        "A push notification on iOS", "The {screen} screen of the Android app", "The iOS build of the app",
        "The offline mode of the app", "The App Store review",
    ), (
        "keeps working offline for {number} days", "is native since {month}; the web view is gone",
        "is submitted to the App Store on {day} by {who}", "needs a device token that is at most {number} days old",
        "crashes on phones with less than {number} MB of free memory",
        "is tested on an old iPhone and a cheap Android phone",
    )),
    "looks": ("preference", ("web", "docs"), (
        "The layout of the {screen} page", "Dark mode on the {screen} page", "The button on the {screen} page",
        "The animation of the {screen} page", "The typography of the {screen} page",
    ), (
        "uses CSS grid and logical properties, no utility classes", "takes its colours from CSS custom properties",
        "has a contrast of at least 4.5 in dark mode too", "stays below {number} ms and respects reduced motion",
        "was redrawn by {who} in {month}", "shows a visible focus ring on {browser}",
    )),
    "watching": ("threshold", ("infra", "api"), (
        "The latency alert of {service}", "The dashboard of {service}", "A trace of {service}",
        "The error rate alert in {place}", "The log of {service}",
    ), (
        "pages on-call when p95 latency is over {number} ms", "is sampled at {number} percent and kept two weeks",
        "goes to {who}, who is on call on {day}", "is structured JSON, with e-mail addresses hashed",
        "links to the runbook for on-call", "was noisy in {month}; its threshold is {number} errors a minute now",
    )),
    "queues": ("learning", ("api", "data", "infra"), (
        "A retried job of {service}", "The message queue of {service}", "A consumer of the {table} queue",
        "The dead letter queue of {service}", "A worker of the {table} queue",
    ), (
        "backs off exponentially, {number} retries at most", "is idempotent: the message id is kept {number} days",
        "takes {number} messages at a time, more starve the queue", "was blocked by a poison message on {day}",
        "acknowledges a message only after the commit", "is drained by {who} before the workers restart",
    )),
    "secrets": ("policy", ("infra", ""), (
        "The API token of {service}", "A secret in the vault", "Access to {place}", "The hardware key of {who}",
        "A leaked token in a log",
    ), (
        "is rotated in the vault every {number} days", "is revoked within {number} minutes, whoever leaked it",
        "is mounted from the vault, and nobody reads the secret by hand", "needs a hardware key since {month}",
        "is found by the secret scanner before the push", "is reviewed by {other} on the first {day} of a month",
    )),
    "pipelines": ("technology", ("data", "lab"), (
        "The nightly pipeline for {table}", "The dbt model of {table}", "The warehouse table {table}",
        "A late event about {table}", "The churn notebook on {service}",
    ), (
        "loads into the warehouse in {number} minutes", "is deduplicated by event id in the warehouse",
        "has a freshness test that blocks the dashboard", "is owned by {who} in the data team",
        "arrives up to {number} hours late in the pipeline", "uses warehouse data until {month} only",
    )),
    "reviews": ("preference", ("", "docs", "web"), (
        "A pull request to {service}", "A review by {who}", "The commit message of a change to {service}",
        "A large pull request", "The second approval of a pull request",
    ), (
        "says why in its description", "stays below {number} changed lines, as {other} prefers",
        "is done within {number} hours, else {other} reviews it", "is squashed before the merge",
        "is in the imperative and names the ticket", "comes from the owners of the code, {who} or {other}",
    )),
    "writing": ("policy", ("docs",), (
        "The documentation of {service}", "An example in the docs of {service}", "The release notes for {month}",
        "The changelog of {service}", "The tutorial for {service}",
    ), (
        "is written for users first, and {who} reads it aloud", "names every breaking change with a way out",
        "is executed by the tests of the docs", "has short sentences and no jargon",
        "is edited by {who} before the release notes go out", "links to the reference, which is generated",
    )),
}  # fmt: skip
_TAILS = ("", "", "", ", {who} says", "; decided in {month}", ", since the incident in {month}", " (ask {who})")


def facts(number: int, seed: int = 7) -> list[dict[str, Any]]:
    """Return this many facts in the format of POST /memory/add-batch, the oldest first."""
    rng = random.Random(seed)
    told = list(islice(_endless(rng), number))
    ages = sorted((min(rng.expovariate(1 / 55), DAYS) for _ in told), reverse=True)
    return [{**fact, "created_at": _ago(age)} for fact, age in zip(told, ages, strict=True)]


def _endless(rng: random.Random) -> Iterator[dict[str, Any]]:
    """Yield facts without end; topics have different frequencies."""
    known: set[str] = set()
    topics = list(_TOPICS.values())
    weights = [1 / (1 + place / 6) for place in range(len(topics))]
    for turn in count():
        [(kind, homes, subjects, claims)] = rng.choices(topics, weights)
        told = " and ".join(rng.sample(claims, rng.choice((1, 2, 2))))
        said = f"{rng.choice(subjects)} {told}{rng.choice(_TAILS)}."
        text = said.format_map({name: rng.choice(some) for name, some in _SLOTS.items()})
        if text in known:
            text = f"{text[:-1]} (seen again in week {turn})."
        known.add(text)
        yield {"text": text, "kind": kind, "project": _project(rng, homes), "category": _category(rng, kind)}


def _project(rng: random.Random, homes: tuple[str, ...]) -> str:
    """Return a project, usually one of the topic's own."""
    if rng.random() < 0.85:
        return rng.choice(homes)
    return rng.choices(list(_SPREAD), list(_SPREAD.values()))[0]


def _category(rng: random.Random, kind: str) -> str:
    usual = {"decision": "decision", "policy": "decision", "preference": "decision", "learning": "learning"}
    return usual.get(kind, "detail") if rng.random() < 0.8 else rng.choice(("decision", "learning", "detail"))


def _ago(days: float) -> str:
    return (NOW - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")
