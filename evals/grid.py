"""Pairs of facts of which the relation is known, because they are made: the same, an update, or something else.

Two halves that share no word and no wording. The rules of `cofio.relation` were written with the first in view; the
second shows what they are worth on what nobody looked at.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Expected = Literal["noop", "update", "add"]
SEED = 20261115


class Case(NamedTuple):
    """An old fact, a new one, and what should become of the new one where the old is known."""

    old: str
    new: str
    expected: Expected
    what: str


@dataclass(frozen=True, slots=True)
class Half:
    """Words and wordings. In a wording, a is the attribute, s the service, e the environment, v and w old and new value,
    x and y old and new technology, p its purpose, n a person."""

    services: Sequence[str]
    environments: Sequence[str]
    measured: Sequence[tuple[str, Sequence[str]]]  # attributes with a number, and its values
    named: Sequence[tuple[str, Sequence[str]]]  # attributes with a name or a word
    bases: Sequence[str]
    updates: Sequence[str]
    repeats: Sequence[str]
    respelt: Sequence[tuple[str, str]]  # the same value, written in two ways
    technologies: Sequence[tuple[str, str, str]]  # one, another, and what either is for
    tech_bases: Sequence[str]
    tech_updates: Sequence[str]
    tech_repeats: Sequence[str]
    choices: Sequence[tuple[str, str]]  # what is preferred, and over what
    opposites: Sequence[tuple[str, str]]  # of which nobody prefers both
    likes: Sequence[str]
    policies: Sequence[str]
    decisions: Sequence[str]
    flags: Sequence[str]
    switched: Sequence[tuple[str, str]]  # of a flag: a wording for on, and one for off
    people: Sequence[str]
    places: Sequence[str]
    duties: Sequence[str]
    moves: Sequence[tuple[str, str, str]]  # where somebody lives: first wording, an update, a repetition
    owns: Sequence[tuple[str, str]]  # who owns something: two wordings of the same


SEEN = Half(
    services=(
        "auth-service",
        "billing-service",
        "payments",
        "the search service",
        "notification-worker",
        "web-gateway",
    ),
    environments=("staging", "production", "the development environment", "QA"),
    measured=(
        ("port", ("8080", "9090", "3000", "7001")),
        ("timeout", ("30 s", "45 s", "60 s", "10 s")),
        ("rate limit", ("100 requests per minute", "250 requests per minute", "500 requests per minute")),
        ("memory limit", ("512 MB", "1024 MB", "2048 MB")),
        ("retry count", ("3", "5", "8")),
        ("replica count", ("two", "four", "six")),
    ),
    named=(
        ("database", ("PostgreSQL", "MySQL", "MariaDB")),
        ("region", ("eu-west-1", "us-east-2", "ap-south-1")),
        ("owner", ("Ann", "Bob", "Carla")),
        ("deploy day", ("Tuesday", "Thursday", "Monday")),
        ("log level", ("debug", "info", "warn")),
    ),
    bases=(
        "The {a} of {s} in {e} is {v}",
        "{s} {a} in {e} is {v}",
        "In {e}, the {a} for {s} is {v}",
        "{a} for {s} in {e} is {v}",
    ),
    updates=(
        "The {a} of {s} in {e} is now {w}",
        "We changed the {a} of {s} in {e} from {v} to {w}",
        "The {a} of {s} in {e} changed from {v} to {w}",
        "We set the {a} of {s} in {e} to {w}",
        "In {e}, the {a} of {s} went from {v} to {w}",
        "The {a} of {s} in {e} is no longer {v} but {w}",
        "The {a} of {s} in {e} was changed to {w}",
        "{s} {a} in {e} is {w}",
    ),
    repeats=(
        "The {e} {a} of {s} is {v}",
        "{s}'s {a} in {e} is {v}",
        "In {e} the {a} of {s} is {v}",
        "the {a} for {s} in {e} is currently {v}",
    ),
    respelt=(
        ("30 s", "30 seconds"),
        ("512 MB", "512MB"),
        ("100 requests per minute", "100 requests/min"),
        ("two", "2"),
    ),
    technologies=(
        ("Prisma", "Drizzle", "the ORM"),
        ("JWT", "Clerk", "authentication"),
        ("Redis", "Memcached", "caching"),
        ("Jest", "Vitest", "unit tests"),
        ("Jenkins", "GitHub Actions", "CI"),
        ("MySQL", "PostgreSQL", "storage"),
        ("Redux", "Zustand", "state management"),
        ("Webpack", "Vite", "bundling"),
    ),
    tech_bases=("Team uses {x} for {p}", "We use {x} for {p}"),
    tech_updates=(
        "Team switched from {x} to {y}",
        "We switched from {x} to {y} for {p}",
        "Team migrated from {x} to {y}",
        "We replaced {x} with {y}",
        "Team no longer uses {x}",
        "We use {y} for {p} now",
        "Team decided to use {y} for {p} instead of {x}",
    ),
    tech_repeats=("We're using {x} for {p}", "For {p} we use {x}", "{x} is used for {p}"),
    choices=(("VS Code", "Vim"), ("TypeScript", "JavaScript"), ("tea", "coffee"), ("pnpm", "npm"), ("REST", "GraphQL")),
    opposites=(("tabs", "spaces"), ("dark mode", "light mode"), ("short answers", "long answers")),
    likes=("tabs", "React", "pair programming", "long meetings", "dark mode", "Rust"),
    policies=(
        "use var",
        "squash commits",
        "deploy on Fridays",
        "commit to main directly",
        "mock the database in tests",
    ),
    decisions=("adopt GraphQL", "rewrite the parser in Rust", "drop support for Windows", "use feature flags"),
    flags=("new-checkout", "dark-launch", "beta-search"),
    switched=(
        ("The feature flag {f} is enabled in {e}", "The feature flag {f} is disabled in {e}"),
        ("Flag {f} is on in {e}", "Flag {f} is off in {e}"),
        ("The feature flag {f} is enabled in {e}", "The feature flag {f} is not enabled in {e}"),
    ),
    people=("Ann", "Bob", "Carla", "Deniz"),
    places=("Berlin", "Munich", "Lisbon", "Oslo"),
    duties=("billing", "search", "the release train", "onboarding"),
    moves=(
        ("{n} lives in {v}", "{n} moved to {w}", "{n} is living in {v}"),
        ("{n} lives in {v}", "{n} lives in {w}", "{n} lives in {v} now"),
    ),
    owns=(("{n} owns {d}", "{d} is owned by {n}"), ("{n} owns {d}", "The owner of {d} is {n}")),
)

UNSEEN = Half(
    services=(
        "ledger-api",
        "invoice-mailer",
        "the recommendation service",
        "thumbnailer",
        "orders",
        "geo-lookup-proxy",
    ),
    environments=("sandbox", "the canary cluster", "preprod", "load-test"),
    measured=(
        ("cache TTL", ("90 seconds", "15 minutes", "2 hours")),
        ("pool size", ("20", "35", "50")),
        ("heartbeat interval", ("5 s", "12 s", "20 s")),
        ("upload quota", ("25 MB", "40 MB", "1 GB")),
        ("batch size", ("64", "128", "256")),
        ("error budget", ("0.1%", "0.5%", "1%")),
    ),
    named=(
        ("message broker", ("RabbitMQ", "Kafka", "NATS")),
        ("base image", ("alpine", "debian", "distroless")),
        ("tech lead", ("Priya", "Jonas", "Mei")),
        ("maintenance window", ("Saturday", "Sunday", "Wednesday")),
        ("compression", ("gzip", "brotli", "zstd")),
    ),
    bases=(
        "{s}'s {a} in {e} is {v}",
        "On {e}, {s} has a {a} of {v}",
        "The {e} {a} for {s} is {v}",
        "{a} of {s} on {e}: {v}",
    ),
    updates=(
        "{s} {a} in {e}: {v} → {w}",
        "As of today the {e} {a} of {s} is {w}",
        "We bumped {s}'s {a} in {e} from {v} to {w}",
        "{s} now has a {a} of {w} in {e}",
        "On {e} the {a} for {s} has been updated to {w}",
        "{s}'s {a} in {e} isn't {v} anymore, it's {w}",
        "Correction: {s} runs with a {a} of {w} in {e}",
        "The team moved the {a} of {s} on {e} to {w}",
    ),
    repeats=(
        "{s} has a {a} of {v} in {e}",
        "On {e} {s} runs with a {a} of {v}",
        "Remember that the {a} for {s} is {v} on {e}",
        "The {a} of the {e} {s} is {v}",
    ),
    respelt=(("90 seconds", "90s"), ("25 MB", "25MB"), ("2 hours", "two hours"), ("0.5%", "0.5 percent")),
    technologies=(
        ("Sequelize", "Kysely", "the query builder"),
        ("Auth0", "Keycloak", "single sign-on"),
        ("Elasticsearch", "Meilisearch", "full-text search"),
        ("Mocha", "Ava", "integration tests"),
        ("CircleCI", "Buildkite", "nightly builds"),
        ("DynamoDB", "ScyllaDB", "session storage"),
        ("Terraform", "Pulumi", "provisioning"),
        ("Sentry", "Honeybadger", "error tracking"),
    ),
    tech_bases=(
        "We rely on {x} for {p}",
        "The team picked {x} for {p}",
        "{x} is what we use for {p}",
        "Our team uses {x} as {p}",
    ),
    tech_updates=(
        "We moved {p} from {x} to {y}",
        "{y} replaces {x} for {p}",
        "We dropped {x} in favour of {y}",
        "We stopped using {x}",
        "{x} was swapped out for {y}",
        "We've ditched {x}",
        "For {p} we now use {y} rather than {x}",
        "We are moving away from {x}",
    ),
    tech_repeats=("{x} handles {p} for us", "We've been using {x} for {p}", "Team uses {x} for {p}"),
    choices=(("Emacs", "Sublime"), ("Kotlin", "Java"), ("trains", "planes"), ("yarn", "bun"), ("gRPC", "SOAP")),
    opposites=(
        ("public channels", "private channels"),
        ("synchronous reviews", "asynchronous reviews"),
        ("early standups", "late standups"),
    ),
    likes=("Svelte", "open offices", "code golf", "rebasing", "Haskell", "standing desks"),
    policies=(
        "pin dependencies",
        "force-push to shared branches",
        "log request bodies",
        "merge without review",
        "use wildcard imports",
    ),
    decisions=("migrate to a monorepo", "support Safari", "outsource translations", "store files in S3"),
    flags=("lazy-images", "quick-reorder", "split-tunnel"),
    switched=(
        ("{f} is turned on in {e}", "{f} is turned off in {e}"),
        ("We allow {f} in {e}", "We don't allow {f} in {e}"),
        ("{f} is active on {e}", "{f} is inactive on {e}"),
    ),
    people=("Priya", "Jonas", "Mei", "Tariq"),
    places=("Porto", "Leeds", "Osaka", "Quito"),
    duties=("the mobile app", "compliance", "the design system", "hiring"),
    moves=(
        ("{n} is based in {v}", "{n} relocated to {w}", "{n} is currently based in {v}"),
        ("{n}'s home town is {v}", "{n}'s home town is now {w}", "The home town of {n} is {v}"),
    ),
    owns=(("{n} is in charge of {d}", "{d} is managed by {n}"), ("{n} leads {d}", "{d} is led by {n}")),
)


def cases(half: Half, *, seed: int = SEED) -> list[Case]:
    """Every case of the half, in a fixed order."""
    rng = random.Random(seed)
    families = (_attributes, _respelt, _numbered, _technologies, _preferences, _likes, _sayings, _flags, _people)
    return list(dict.fromkeys(case for family in families for case in family(half, rng)))


# ── attributes of services ────────────────────────────────────────────────────────────────────────────────────────────


def _attributes(half: Half, rng: random.Random) -> Iterator[Case]:
    for s in half.services:
        for e in half.environments:
            for a, values in (*half.measured, *half.named):
                v, w = rng.sample(list(values), 2)
                fill = {"s": s, "e": e, "a": a, "v": v, "w": w}
                old = _said(rng.choice(half.bases), fill)
                for wording in rng.sample(list(half.updates), 2):
                    yield Case(old, _said(wording, fill), "update", "value")
                yield Case(old, _said(rng.choice(half.repeats), fill), "noop", "word order")
                yield from _strangers(half, rng, old, fill)


def _strangers(half: Half, rng: random.Random, old: str, fill: dict[str, str]) -> Iterator[Case]:
    """The same value elsewhere, and another value elsewhere: neither says anything about the old fact."""
    pools = {
        "service": ("s", half.services),
        "environment": ("e", half.environments),
        "attribute": ("a", [a for a, _ in (*half.measured, *half.named)]),
    }
    for what in rng.sample(sorted(pools), 2):
        name, pool = pools[what]
        other = {**fill, name: rng.choice([each for each in pool if each != fill[name]])}
        yield Case(old, _said(rng.choice((*half.bases, *half.repeats)), other), "add", f"other {what}")
        if what != "attribute":
            yield Case(old, _said(rng.choice(half.updates), other), "add", f"changed, other {what}")


def _respelt(half: Half, rng: random.Random) -> Iterator[Case]:
    for s in half.services:
        for e in half.environments:
            for one, other in half.respelt:
                a = next(name for name, values in half.measured if one in values or other in values)
                fill = {"s": s, "e": e, "a": a}
                wording = rng.choice(half.bases)
                yield Case(_said(wording, {**fill, "v": one}), _said(wording, {**fill, "v": other}), "noop", "spelling")


def _numbered(half: Half, rng: random.Random) -> Iterator[Case]:
    """Numbers that belong to a name: worker 3 is not worker 4."""
    for s in half.services:
        for a, values in half.measured:
            one, other = rng.sample(range(1, 9), 2)
            v, w = rng.sample(list(values), 2)
            e = rng.choice(half.environments)
            wording = rng.choice(half.bases)
            for glue in ("{s}-{i}", "node {i} of {s}"):
                first = {"s": glue.format(s=s, i=one), "e": e, "a": a, "v": v}
                second = {**first, "s": glue.format(s=s, i=other)}
                yield Case(_said(wording, first), _said(wording, second), "add", "number in the subject")
                yield Case(_said(wording, first), _said(wording, {**second, "v": w}), "add", "number in the subject")
                yield Case(
                    _said(wording, first), _said(wording, {**first, "v": w}), "update", "value, numbered subject"
                )


# ── what a team uses ──────────────────────────────────────────────────────────────────────────────────────────────────


def _technologies(half: Half, rng: random.Random) -> Iterator[Case]:
    for x, y, p in half.technologies:
        for base in half.tech_bases:
            old = _said(base, {"x": x, "p": p})
            for wording in half.tech_updates:
                yield Case(old, _said(wording, {"x": x, "y": y, "p": p}), "update", "technology")
            for wording in half.tech_repeats:
                yield Case(old, _said(wording, {"x": x, "p": p}), "noop", "technology in other words")
            yield from _other_technologies(half, rng, old, (x, y, p))


def _other_technologies(half: Half, rng: random.Random, old: str, triple: tuple[str, str, str]) -> Iterator[Case]:
    x, y, p = triple
    others = [each for each in half.technologies if each != triple]
    for u, w, q in rng.sample(others, 4):
        base = rng.choice((*half.tech_bases, *half.tech_repeats))
        yield Case(old, _said(base, {"x": u, "p": q}), "add", "other technology")
        yield Case(old, _said(base, {"x": x, "p": q}), "add", "other purpose")
        yield Case(old, _said(rng.choice(half.tech_updates), {"x": u, "y": w, "p": q}), "add", "another switch")
    yield Case(old, f"We also use {y} for {p}", "add", "addition")
    yield Case(old, f"We use {y} too for {p}", "add", "addition")
    yield Case(old, f"The {x} dashboard is slow", "add", "mention")
    yield Case(old, f"{y} is written in Go", "add", "mention")


# ── what somebody prefers and likes, says and decides ─────────────────────────────────────────────────────────────────


def _preferences(half: Half, rng: random.Random) -> Iterator[Case]:
    for x, y in half.choices:
        old = f"User prefers {x} over {y}"
        yield Case(old, f"User prefers {y} over {x}", "update", "preference turned")
        yield Case(f"User prefers {y}", old, "update", "preference over the old one")
        yield Case(old, f"I prefer {x} over {y}", "noop", "preference in other words")
        yield Case(old, f"The user prefers {x} to {y}", "noop", "preference in other words")
        for u, w in (each for each in half.choices if each != (x, y)):
            yield Case(old, f"User prefers {u} over {w}", "add", "other preference")
            yield Case(f"User prefers {x}", f"User prefers {u}", "add", "other preference")
            yield Case(f"User prefers {x} over {y}", f"User prefers {u}", "add", "other preference")
    for x, y in half.opposites:
        for one, other in ((x, y), (y, x)):
            yield Case(f"User prefers {one}", f"User prefers {other}", "update", "opposite preference")
            yield Case(f"User prefers {one}", f"I now prefer {other}", "update", "opposite preference")
            like = rng.choice([each for each in half.likes if each not in (x, y)])
            yield Case(f"User prefers {one}", f"User prefers {like}", "add", "other preference")


def _likes(half: Half, rng: random.Random) -> Iterator[Case]:
    for x in half.likes:
        yield Case(f"User likes {x}", f"User dislikes {x}", "update", "liking turned")
        yield Case(f"User likes {x}", f"User doesn't like {x}", "update", "liking turned")
        yield Case(f"User likes {x}", f"I hate {x}", "update", "liking turned")
        yield Case(f"User likes {x}", f"I like {x}", "noop", "liking in other words")
        for y in (each for each in half.likes if each != x):
            yield Case(f"User likes {x}", f"User likes {y}", "add", "other liking")
            yield Case(f"User likes {x}", f"User dislikes {y}", "add", "other liking")


def _sayings(half: Half, rng: random.Random) -> Iterator[Case]:
    for x in half.policies:
        always = f"Team policy: always {x}"
        for new in (f"Team policy: never {x}", f"We never {x}", f"We don't {x} anymore", f"We no longer {x}"):
            yield Case(always, new, "update", "policy turned")
        yield Case(f"We never {x}", f"We always {x}", "update", "policy turned")
        yield Case(always, f"We always {x}", "noop", "policy in other words")
        yield Case(f"We never {x}", f"We don't ever {x}", "noop", "policy in other words")
        for y in (each for each in half.policies if each != x):
            yield Case(always, f"Team policy: never {y}", "add", "other policy")
            yield Case(always, f"Team policy: always {y}", "add", "other policy")
    for x in half.decisions:
        decided = f"Team decided to {x}"
        yield Case(decided, f"Team decided not to {x}", "update", "decision turned")
        yield Case(decided, f"We've decided not to {x} after all", "update", "decision turned")
        yield Case(decided, f"We decided to {x}", "noop", "decision in other words")
        for y in (each for each in half.decisions if each != x):
            yield Case(decided, f"Team decided to {y}", "add", "other decision")
            yield Case(decided, f"Team decided not to {y}", "add", "other decision")


def _flags(half: Half, rng: random.Random) -> Iterator[Case]:
    for f in half.flags:
        for e in half.environments:
            for on, off in half.switched:
                fill = {"f": f, "e": e}
                yield Case(_said(on, fill), _said(off, fill), "update", "switch turned")
                yield Case(_said(off, fill), _said(on, fill), "update", "switch turned")
                elsewhere = {**fill, "e": rng.choice([each for each in half.environments if each != e])}
                yield Case(_said(on, fill), _said(off, elsewhere), "add", "switch elsewhere")
                other = {**fill, "f": rng.choice([each for each in half.flags if each != f])}
                yield Case(_said(on, fill), _said(off, other), "add", "other switch")


def _people(half: Half, rng: random.Random) -> Iterator[Case]:
    for n in half.people:
        other = rng.choice([each for each in half.people if each != n])
        for v in half.places:
            w = rng.choice([each for each in half.places if each != v])
            for first, moved, again in half.moves:
                old = _said(first, {"n": n, "v": v})
                yield Case(old, _said(moved, {"n": n, "w": w}), "update", "somebody moved")
                yield Case(old, _said(again, {"n": n, "v": v}), "noop", "place in other words")
                yield Case(old, _said(moved, {"n": other, "w": w}), "add", "somebody else moved")
        for d in half.duties:
            task = rng.choice([each for each in half.duties if each != d])
            for one, two in half.owns:
                old = _said(one, {"n": n, "d": d})
                yield Case(old, _said(two, {"n": other, "d": d}), "update", "new owner")
                yield Case(old, _said(one, {"n": other, "d": d}), "update", "new owner")
                yield Case(old, _said(two, {"n": n, "d": d}), "noop", "owner in other words")
                yield Case(old, _said(one, {"n": n, "d": task}), "add", "other duty")


def _said(wording: str, fill: dict[str, str]) -> str:
    text = wording.format(**fill)
    return text[0].upper() + text[1:]
