"""The words and wordings that the grid of facts is made from.

The rules of `cofio.relation` were written with these in view; `held_out` has the words that they were not written for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Words and wordings.

    In a wording, a is the attribute, s the service, e the environment, v and w its old and new value, x and y old and
    new technology, p its purpose, f a flag, n a person, d a duty.
    """

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


FIRST = Vocabulary(
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
        ("{n}'s office is in {v}", "{n}'s office is now in {w}", "The office of {n} is in {v}"),
    ),
    owns=(("{n} owns {d}", "{d} is owned by {n}"), ("{n} manages {d}", "The manager of {d} is {n}")),
)

SECOND = Vocabulary(
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
