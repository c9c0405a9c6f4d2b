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

THIRD = Vocabulary(
    services=("checkout", "the export job", "pdf-renderer", "loyalty-api", "session-store", "the ingest pipeline"),
    environments=("the demo cluster", "the EU region", "the training environment", "on-prem"),
    measured=(
        ("worker count", ("4", "9", "16")),
        ("idle timeout", ("90 s", "3 minutes", "200 s")),
        ("disk quota", ("40 GB", "75 GB", "120 GB")),
        ("alert threshold", ("70%", "85%", "92%")),
        ("log retention", ("14 days", "45 days", "90 days")),
        ("max upload size", ("8 MB", "32 MB", "64 MB")),
    ),
    named=(
        ("queue backend", ("SQS", "Redis Streams", "Pulsar")),
        ("runtime", ("Node", "Deno", "Bun")),
        ("product owner", ("Salma", "Viktor", "Ines")),
        ("release day", ("Monday", "Wednesday", "Friday")),
        ("auth mode", ("oidc", "saml", "basic")),
    ),
    bases=(
        "For {s} in {e}, the {a} is {v}",
        "The {a} that {s} has in {e} is {v}",
        "{s} in {e} has {a} {v}",
        "The {a} for {s} on {e} is {v}",
    ),
    updates=(
        "{s}'s {a} in {e} has changed to {w}",
        "We've switched the {a} of {s} in {e} to {w}",
        "The {a} of {s} in {e} got changed from {v} to {w}",
        "The {a} for {s} in {e} should now be {w}",
        "From now on the {a} of {s} in {e} is {w} instead of {v}",
        "The {a} of {s} in {e} used to be {v}, now it is {w}",
        "Update: {a} for {s} in {e} is {w}",
        "We decided to set the {a} of {s} in {e} to {w}",
    ),
    repeats=(
        "In {e}, {s} has a {a} of {v}",
        "{a} for {s} in {e}: {v}",
        "{s} ({e}): the {a} is {v}",
        "Just to confirm, the {a} of {s} in {e} is still {v}",
    ),
    respelt=(("90 s", "90 seconds"), ("85%", "85 percent"), ("40 GB", "40GB"), ("8 MB", "8 megabytes")),
    technologies=(
        ("Knex", "TypeORM", "migrations"),
        ("Okta", "Cognito", "login"),
        ("Solr", "Typesense", "product search"),
        ("Cypress", "WebdriverIO", "end-to-end tests"),
        ("Travis", "Drone", "the build pipeline"),
        ("Mailgun", "Postmark", "transactional email"),
        ("Ansible", "Salt", "configuration management"),
        ("Grafana", "Kibana", "dashboards"),
    ),
    tech_bases=("The team is using {x} for {p}", "We went with {x} for {p}", "We've standardised on {x} for {p}"),
    tech_updates=(
        "We're moving from {x} to {y}",
        "{x} has been replaced by {y}",
        "We swapped {x} for {y}",
        "The team now uses {y} instead of {x} for {p}",
        "We don't use {x} anymore",
        "We've abandoned {x}",
        "{p} was migrated from {x} to {y}",
        "We got rid of {x}",
    ),
    tech_repeats=("We use {x} for {p}", "For {p}, the team uses {x}", "{x} is our choice for {p}"),
    choices=(("Helix", "Nano"), ("Elixir", "Erlang"), ("hiking", "running"), ("Cargo", "Make"), ("protobuf", "Avro")),
    opposites=(
        ("verbose logs", "terse logs"),
        ("manual approval", "automatic approval"),
        ("small pull requests", "large pull requests"),
    ),
    likes=("Vue", "mob programming", "YAML", "noise", "Clojure", "remote work"),
    policies=(
        "rebase before merging",
        "ship on weekends",
        "store secrets in the repo",
        "write tests first",
        "review our own changes",
    ),
    decisions=("open-source the SDK", "drop Internet Explorer", "raise prices", "hire a designer"),
    flags=("one-click-buy", "smart-retry", "shadow-mode"),
    switched=(
        ("{f} is live in {e}", "{f} is not live in {e}"),
        ("{f} has been enabled in {e}", "{f} has been disabled in {e}"),
        ("We enabled {f} in {e}", "We disabled {f} in {e}"),
    ),
    people=("Salma", "Viktor", "Ines", "Oluwaseun"),
    places=("Ghent", "Turin", "Accra", "Perth"),
    duties=("the data platform", "support", "the billing rewrite", "docs"),
    moves=(
        ("{n} resides in {v}", "{n} has moved to {w}", "{n} lives in {v}"),
        ("{n}'s desk is located in {v}", "{n}'s desk is now located in {w}", "The desk of {n} is in {v}"),
    ),
    owns=(("{n} is responsible for {d}", "The owner of {d} is {n}"), ("{n} heads {d}", "{d} is headed by {n}")),
)

FOURTH = Vocabulary(
    services=("basket", "the tax calculator", "image-proxy", "fraud-scorer", "the webhook dispatcher", "ledger-sync"),
    environments=("perf", "the blue cluster", "the Frankfurt datacenter", "pilot"),
    measured=(
        ("connection limit", ("300", "450", "800")),
        ("grace period", ("15 s", "40 s", "2 minutes")),
        ("heap size", ("3 GB", "6 GB", "12 GB")),
        ("sampling rate", ("5%", "20%", "33%")),
        ("token lifetime", ("20 minutes", "6 hours", "7 days")),
        ("page size", ("25", "60", "150")),
    ),
    named=(
        ("load balancer", ("HAProxy", "Envoy", "Traefik")),
        ("secret store", ("Vault", "Doppler", "SOPS")),
        ("on-call engineer", ("Leila", "Marek", "Yuki")),
        ("backup day", ("Tuesday", "Saturday", "Sunday")),
        ("locale", ("en-GB", "de-DE", "fr-FR")),
    ),
    bases=(
        "{s} has its {a} set to {v} in {e}",
        "The {e} instance of {s} has a {a} of {v}",
        "We run {s} in {e} with a {a} of {v}",
        "{a} in {e} for {s} is {v}",
    ),
    updates=(
        "{s} in {e}: {a} changed from {v} to {w}",
        "The {a} for {s} in {e} has been {v} so far and is {w} from now on",
        "We had to change the {a} of {s} in {e} to {w}",
        "Since yesterday the {a} of {s} in {e} is {w}",
        "{s} now runs with a {a} of {w} in {e}",
        "The new {a} of {s} in {e} is {w}",
        "We adjusted {s}'s {a} in {e} from {v} to {w}",
        "{a} of {s} in {e} is {w}, not {v}",
    ),
    repeats=(
        "{s}'s {e} {a} is {v}",
        "The {a} of {s} in {e} is set to {v}",
        "As mentioned, the {a} for {s} in {e} is {v}",
        "In {e} we run {s} with a {a} of {v}",
    ),
    respelt=(("15 s", "15 seconds"), ("20%", "20 percent"), ("6 GB", "6GB"), ("6 hours", "six hours")),
    technologies=(
        ("Hibernate", "jOOQ", "database access"),
        ("Auth.js", "Lucia", "user sessions"),
        ("Algolia", "Vespa", "catalogue search"),
        ("Karma", "Jasmine", "component tests"),
        ("TeamCity", "Woodpecker", "release builds"),
        ("Twilio", "Vonage", "text messages"),
        ("Chef", "Nix", "server setup"),
        ("Splunk", "Loki", "log analysis"),
    ),
    tech_bases=("{p} is handled by {x}", "We have been using {x} for {p}", "The team settled on {x} for {p}"),
    tech_updates=(
        "We are switching from {x} to {y}",
        "{y} took over from {x} for {p}",
        "We've moved on from {x} to {y}",
        "{x} is out, we use {y} for {p} now",
        "We have stopped using {x} for {p}",
        "{x} is no longer used for {p}",
        "We changed {p} from {x} to {y}",
        "The team has dropped {x}",
    ),
    tech_repeats=("Team uses {x} for {p}", "We do {p} with {x}", "{x} is what the team uses for {p}"),
    choices=(("Zed", "Kakoune"), ("Gleam", "Scala"), ("cycling", "driving"), ("uv", "poetry"), ("Thrift", "JSON")),
    opposites=(
        ("local development", "remote development"),
        ("strict linting", "lenient linting"),
        ("morning meetings", "evening meetings"),
    ),
    likes=("Solid", "whiteboards", "TOML", "crunch time", "OCaml", "stand-ups"),
    policies=(
        "sign commits",
        "patch on production directly",
        "share test accounts",
        "keep a changelog",
        "cache personal data",
    ),
    decisions=("sell the analytics add-on", "support Linux on ARM", "freeze the public API", "rent a second office"),
    flags=("guest-checkout", "delta-sync", "auto-heal"),
    switched=(
        ("{f} is currently on in {e}", "{f} is currently off in {e}"),
        ("{f} has been activated in {e}", "{f} has been deactivated in {e}"),
        ("{e} has {f} enabled", "{e} has {f} disabled"),
    ),
    people=("Leila", "Marek", "Yuki", "Tomas"),
    places=("Lyon", "Gdansk", "Kyoto", "Bergen"),
    duties=("the partner portal", "security", "the reporting stack", "translations"),
    moves=(
        ("{n} is living in {v}", "{n} now lives in {w}", "{n} resides in {v}"),
        ("{n}'s office is in {v}", "{n}'s office moved to {w}", "The office of {n} is in {v}"),
    ),
    owns=(("{n} maintains {d}", "{d} is maintained by {n}"), ("{n} is the lead of {d}", "The lead of {d} is {n}")),
)
