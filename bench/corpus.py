"""Texts of the benchmarks: generated facts about software projects, and prompts about some of them.

    topics × slots (services, environments, technologies, people, values, dates, …) ─▶ facts, prompts

Words are drawn with Zipf-like frequencies, so that a few occur in every tenth fact and most in a handful; paths,
tickets, hosts and numbers form the long tail of real notes. The same seed gives the same texts, and a longer corpus
begins with the shorter one.
"""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import TypeVar

T = TypeVar("T")

SEED = 20_260_220
SHORTEST, LONGEST = 8, 40  # words of a fact
SHORTEST_PROMPT, LONGEST_PROMPT = 6, 25
_ASKED_ABOUT = 300  # prompts ask about one of this many first facts, which every benchmark store holds
_VAGUE, _OFF_TOPIC = 0.2, 0.1  # shares of the prompts


@dataclass(frozen=True, slots=True)
class Topic:
    """Kind of fact, with wordings of statements and of questions."""

    name: str
    statements: tuple[str, ...]
    questions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GeneratedFact:
    """Fact with its source, topic and slot values."""

    text: str
    source: str
    topic: str
    slots: Mapping[str, str]


def facts(count: int, seed: int = SEED) -> list[GeneratedFact]:
    """Return this many distinct facts."""
    return list(islice(_generate_facts(random.Random(seed)), count))


def prompts(count: int, seed: int = SEED) -> list[str]:
    """Return this many distinct prompts: most ask for a fact of the corpus, some are vague, some are off-topic."""
    rng = random.Random(seed + 1)
    askable = facts(_ASKED_ABOUT, seed)
    texts: dict[str, None] = {}
    while len(texts) < count:
        text = _prompt(rng, askable)
        if SHORTEST_PROMPT <= len(text.split()) <= LONGEST_PROMPT:
            texts[text] = None
    return list(texts)


def _generate_facts(rng: random.Random) -> Iterator[GeneratedFact]:
    texts: set[str] = set()
    while True:
        topic = rng.choice(_ALL_TOPICS)
        slots = _Slots(rng)
        text = _sentence(rng.choice(topic.statements).format_map(slots) + _CLAUSES(rng).format_map(slots))
        if SHORTEST <= len(text.split()) <= LONGEST and text not in texts:
            texts.add(text)
            yield GeneratedFact(text, slots["project"], topic.name, slots)


def _prompt(rng: random.Random, facts: Sequence[GeneratedFact]) -> str:
    draw = rng.random()
    if draw < _OFF_TOPIC:
        return rng.choice(_FOREIGN).format(thing=_THINGS(rng), other=_THINGS(rng))
    fact = rng.choice(facts)
    if draw < _OFF_TOPIC + _VAGUE:
        return rng.choice(_UNSURE).format_map(fact.slots)
    questions = next(topic.questions for topic in _ALL_TOPICS if topic.name == fact.topic)
    return rng.choice(_OPENINGS) + rng.choice(questions).format_map(fact.slots) + rng.choice(_CLOSINGS)


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


class _Slots(dict[str, str]):
    """Slot values of one fact: each slot is drawn when it is first used, and then kept."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self._rng = rng

    def __missing__(self, name: str) -> str:
        self[name] = _SLOTS[name](self._rng)
        return self[name]


def _zipf(values: Sequence[T]) -> Callable[[random.Random], T]:
    """Return a function that draws the n-th value with a frequency of about 1/n."""
    sums = list(accumulate(1 / (rank + 2) for rank in range(len(values))))
    return lambda rng: values[bisect(sums, rng.random() * sums[-1])]


def _number(low: int, high: int, step: int = 1) -> Callable[[random.Random], str]:
    return lambda rng: str(rng.randrange(low, high, step))


def _words(text: str) -> Callable[[random.Random], str]:
    return _zipf([word.strip() for word in text.replace("\n", " ").split(",")])


# ── slots ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

_AREAS = """billing checkout search auth orders payments inventory notification profile catalog shipping pricing session
gateway ledger invoice reporting media export import recommendation fraud audit webhook scheduler mail analytics tenant
quota feature-flag geocoding translation ranking subscription refund tax warehouse loyalty coupon review moderation
telemetry ingest archive license onboarding document signature calendar chat presence thumbnail""".split()
_PARTS = "service api worker gateway daemon proxy consumer cron indexer frontend bridge sidecar".split()
_SERVICES = random.Random(SEED).sample([f"{area} {part}" for part in _PARTS for area in _AREAS], 600)
_PROJECTS = """atlas borealis cinder dovetail ember fathom granite harbor iris juniper kestrel lumen meridian nimbus
orchard paloma quartz rowan sable tundra""".split()
_PEOPLE = """Ada, Bruno, Chen, Dilara, Emil, Farah, Goran, Hanna, Ismail, Jana, Kofi, Lena, Marek, Noor, Olga, Pavel,
Quentin, Rosa, Sanjay, Tamar, Ugo, Vera, Wen, Ximena, Yusuf, Zoe, Anders, Beatriz, Carlos, Dunja, Eero, Fatima, Giulia,
Hiro, Ingrid, Joao, Kaya, Liam, Mei, Nadia, Oskar, Priya, Rafael, Sofia, Tomas, Uma, Viktor, Wanda, Yara, Zoltan"""
_TOOLS = """Postgres, Redis, Kafka, Docker, Kubernetes, Terraform, Python, TypeScript, React, FastAPI, Django, nginx,
GitHub Actions, pytest, SQLite, Elasticsearch, RabbitMQ, Go, Rust, Celery, Prometheus, Grafana, Sentry, Helm, Next.js,
SQLAlchemy, Alembic, Vite, Playwright, gRPC, GraphQL, S3, CloudFront, Vault, Consul, Envoy, Istio, Argo CD, Jenkins,
Ansible, ClickHouse, DuckDB, Cassandra, MongoDB, DynamoDB, NATS, Pulsar, Temporal, Airflow, dbt, Spark, Flink, Kotlin,
Swift, Flutter, Tailwind, Svelte, Vue, Angular, ESLint, Prettier, Ruff, mypy, pre-commit, uv, Poetry, pnpm, Yarn, Bazel,
Nix, Podman, Traefik, Caddy, HAProxy, OpenTelemetry, Jaeger, Loki, Datadog, PagerDuty, LaunchDarkly"""
_DUTIES = """session storage, background jobs, full-text search, rate limiting, caching, schema migrations, tracing,
log shipping, feature flags, secrets, image resizing, end-to-end tests, load tests, code formatting, type checking,
blue-green deploys, queueing, metrics, alerts, nightly backups, PDF rendering, geocoding, event sourcing, packaging,
dependency updates, service discovery, static assets, retries, scheduling, data quality checks, access control"""
_SYMPTOMS = """times out after a deploy, drops connections under load, returns stale data, leaks file handles, fails on
the first run, runs out of memory, deadlocks with the migration, loses messages on restart, retries forever, ignores
the locale, rejects valid tokens, double-charges on retry, breaks on empty input, spikes the CPU at midnight, hangs on
shutdown, skips the last page, rounds amounts the wrong way, cannot resolve its own host name, logs the password,
returns a 502 from the proxy, sorts dates as text, fails with a certificate error, blocks the event loop"""
_CAUSES = """connection pool was too small, cache was never invalidated, clock of the host had drifted, index was
missing, retry had no upper bound, base image had changed, health check pointed at the wrong path, default timeout was
too low, lock was taken in the wrong order, token had expired, quota of the provider was used up, file handle was
never closed, time zone was assumed to be local, encoding was not UTF-8, thread pool was starved, header was stripped
by the proxy"""
_THINGS = _words("""a haiku about autumn, a birthday card, the best route to Lisbon, a vegan lasagne, the
rules of curling, the capital of Mongolia, a bedtime story, a marathon plan, the life of otters, a
crossword, jazz chords, houseplants, the Roman calendar, a sourdough starter, mountain huts, chess
openings, watercolour paper, tide tables""")  # fmt: skip

_BOARDS = _zipf(("OPS", "PAY", "WEB", "DATA", "SEC", "APP"))
_UNITS = "URL TIMEOUT TOKEN LIMIT REGION RETRIES BUCKET DSN LEVEL WORKERS".split()

_SLOTS: Mapping[str, Callable[[random.Random], str]] = {
    "service": _zipf(_SERVICES),
    "other": _zipf(_SERVICES[::-1]),
    "project": _zipf(_PROJECTS),
    "env": _words(
        "production, staging, the test environment, development, the EU region, the demo cluster, CI, canary"
    ),
    "tool": _words(_TOOLS),
    "rival": _zipf([tool.strip() for tool in _TOOLS.replace("\n", " ").split(",")][::-1]),
    "duty": _words(_DUTIES),
    "person": _words(_PEOPLE),
    "symptom": _words(_SYMPTOMS),
    "cause": _words(_CAUSES),
    "port": _number(3_000, 9_999),
    "count": _number(2, 400),
    "seconds": _number(1, 900),
    "size": lambda rng: f"{rng.choice((128, 256, 512, 768, 1024, 1536, 2048, 4096, 8192))} MB",
    "percent": lambda rng: f"{rng.randrange(1, 100)}%",
    "version": lambda rng: f"{rng.randrange(0, 20)}.{rng.randrange(0, 40)}.{rng.randrange(0, 12)}",
    "date": lambda rng: f"{rng.randrange(2023, 2027)}-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}",
    "day": _words("Monday, Friday, Tuesday, Thursday, Wednesday, Sunday, Saturday"),
    "hour": lambda rng: f"{rng.randrange(0, 24):02}:{rng.choice((0, 15, 30, 45)):02}",
    "ticket": lambda rng: f"{_BOARDS(rng)}-{rng.randrange(100, 9_999)}",
    "host": lambda rng: f"{rng.choice(('db', 'app', 'cache', 'edge', 'queue'))}-{rng.randrange(1, 200)}.internal",
    "path": lambda rng: f"src/{rng.choice(_AREAS)}/{rng.choice(_AREAS).replace('-', '_')}_{rng.randrange(1, 90)}.py",
    "variable": lambda rng: f"{rng.choice(_AREAS).replace('-', '_')}_{rng.choice(_PARTS)}_{rng.choice(_UNITS)}".upper(),
    "commit": lambda rng: f"{rng.getrandbits(28):07x}",
}

#: Clauses after a statement; most are empty.
_CLAUSES = _zipf(
    (
        "",
        " since {date}",
        ", as {person} decided on {date}",
        " (see {ticket})",
        " because the {cause}",
        "; {person} from the {project} team asked for it after the incident of {date}",
        ", and the {other} has to follow within {count} days",
        " because {rival} could not keep up with {count} requests per second in {env}",
        "; the change is {commit} and it was rolled out on a {day} at {hour}",
        ", which {person} and the {other} team want to revisit when {tool} {version} is out",
        "; before that it was done by hand and {path} still holds the old code for the {other}",
    )
)


# ── topics ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _topic(name: str, statements: str, questions: str) -> Topic:
    return Topic(name, *(tuple(line.strip() for line in text.strip().splitlines()) for text in (statements, questions)))


_ALL_TOPICS = (
    _topic(
        "port",
        """the {service} listens on port {port} in {env}
        in {env} the {service} of {project} is reached at {host} on port {port}
        port {port} belongs to the {service}, so nothing else may bind it on {host} in {env}""",
        """what port does the {service} use in {env}?
        which port should I point the {service} client at for {env}?
        on which host and port do I reach the {service} of {project}?""",
    ),
    _topic(
        "choice",
        """{project} uses {tool} for {duty} instead of {rival}
        we chose {tool} over {rival} for {duty} in the {service}
        the team decided that {duty} in {project} is done with {tool} {version}, not with {rival}
        for {duty} the {service} moved from {rival} to {tool} on {date}""",
        """what do we use for {duty} in {project}?
        did we pick {tool} or {rival} for {duty} in the {service}, and why?
        set up {duty} for the {service} the way that we agreed on""",
    ),
    _topic(
        "owner",
        """{person} owns the {service} and is on call for it on {day}
        questions about {duty} in {project} go to {person}
        {person} reviews every change to {path} before it is merged into the {service}""",
        """who owns the {service} and whom do I ask about it?
        who should review my change to {path} in the {service}?
        whom do I ask about {duty} in {project}?""",
    ),
    _topic(
        "limit",
        """the {service} times out after {seconds} seconds in {env}
        the memory limit of the {service} in {env} is {size} with {count} replicas
        requests to the {service} are limited to {count} per minute and tenant in {env}
        the connection pool of the {service} holds {count} connections to {tool} in {env}""",
        """what is the timeout of the {service} in {env}?
        how much memory does the {service} get in {env} and how many replicas are there?
        what rate limit applies to the {service} in {env}?
        how large is the connection pool of the {service}?""",
    ),
    _topic(
        "bug",
        """the {service} {symptom} because the {cause}
        when the {service} {symptom} in {env}, restart the {other} first
        {ticket}: the {service} {symptom} in {env} with {tool} {version}
        {person} found that the {service} {symptom} and fixed it in {commit}""",
        """the {service} {symptom}, have we seen this before?
        why is it that the {service} {symptom} in {env}?
        debug why our {service} {symptom} since the last release of {project}""",
    ),
    _topic(
        "setting",
        """set {variable} to {count} for the {service} in {env}
        {variable} must not be set in {env}, or else the {service} {symptom}
        the {service} reads {variable} from Vault and falls back to {seconds} in {env}""",
        """what should {variable} be for the {service} in {env}?
        where does the {service} read {variable} from?
        check whether {variable} is right for {env} before we deploy the {service}""",
    ),
    _topic(
        "deploy",
        """{project} is deployed to {env} with {tool} every {day} at {hour}
        deploys of the {service} to {env} need the approval of {person}
        to roll back the {service} in {env}, redeploy {version} with {tool} and clear the cache on {host}""",
        """how do we deploy {project} to {env} and when?
        who has to approve a deploy of the {service} to {env}?
        roll back the {service} in {env} to the last good version please""",
    ),
    _topic(
        "style",
        """{person} prefers {tool} to {rival} for {duty} and wants short commit messages
        in {project} every test of the {service} must run without network and within {seconds} seconds
        code of the {service} keeps functions below {count} lines and is checked by {tool} in CI
        {person} wants {duty} in {project} to be documented before it is merged""",
        """write tests for the {service} in the style that {project} asks for
        how does {person} like {duty} to be done?
        what are the rules for code in the {service} of {project}?""",
    ),
    _topic(
        "data",
        """the {service} keeps its {duty} data for {count} days in {tool} on {host}
        table {variable} of the {service} has about {count} million rows and an index on the tenant in {env}
        backups of the {service} run at {hour} to {host} and take {seconds} minutes""",
        """how long does the {service} keep its data in {tool}?
        where do the backups of the {service} go and when do they run?
        how many rows does {variable} have in {env}?""",
    ),
    _topic(
        "measure",
        """p95 latency of the {service} in {env} was {seconds} ms at {count} requests per second on {date}
        test coverage of {project} was {percent} on {date}, and {path} had none
        the {service} costs {count} dollars a month in {env}, {percent} of it for {tool}""",
        """how fast was the {service} in {env} when we measured it?
        what is the test coverage of {project} and where is it lowest?
        what does the {service} cost us per month?""",
    ),
)

# ── prompts ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_OPENINGS = (
    "", "", "", "", "hey, ", "quick question: ", "before I start, ", "remind me please, ", "can you tell me, ",
    "I am about to change the config and need to know: ", "sorry if I asked this already, but ",
)  # fmt: skip
_CLOSINGS = (
    "", "", "", "", " I could not find it in the docs.", " Then update the README.", " Please be brief.",
    " I think that it has changed recently.", " Thanks!",
)  # fmt: skip
_UNSURE = (
    "can you look at the thing that broke again and fix it please?",
    "what was it that we decided about this the other day?",
    "continue where we left off yesterday with {project} and run the tests",
    "clean up the {service}, it has become a mess, and make it faster if you can",
    "is there anything that I should know before I touch {path}?",
    "the build is red again, find out why and tell me what to do",
    "summarise what {person} has said about {project} so far",
    "refactor this so that it is easier to test, the same way as last time",
    "add a new endpoint to the {service} with validation, tests and docs, like the others that we have",
    "what is still open from {ticket}, and who was going to do it?",
    "make the setup of {env} the same as on my machine, something is different there",
)
_FOREIGN = (
    "write me a few lines about {thing}, nothing to do with work",
    "what do you know about {thing} and about {other}?",
    "explain {thing} to a child of six, in simple words",
    "I would like to learn about {thing}, where should I begin?",
    "which is better on a rainy day, {thing} or {other}?",
)
