"""Words and wordings that nobody looked at while the rules of `cofio.relation` were written.

They were written down when the rules were done, and share no service, no attribute, no value and no wording with those
of `vocabulary`. Whoever changes the rules because of what they show has to write new ones.
"""

from __future__ import annotations

from evals.vocabulary import Vocabulary

HELD_OUT = Vocabulary(
    services=("invoice-builder", "the chat backend", "sms-sender", "catalog", "the nightly importer", "map-tiles"),
    environments=("the APAC region", "beta", "the customer cluster", "edge"),
    measured=(
        ("thread count", ("8", "24", "40")),
        ("lock timeout", ("5 s", "25 s", "75 s")),
        ("cache size", ("256 MB", "768 MB", "2 GB")),
        ("error threshold", ("2%", "4%", "9%")),
        ("backup retention", ("10 days", "30 days", "60 days")),
        ("queue limit", ("1000", "2500", "9000")),
    ),
    named=(
        ("search engine", ("Lucene", "Sphinx", "Manticore")),
        ("cloud provider", ("Hetzner", "Scaleway", "Vultr")),
        ("release manager", ("Noor", "Pavel", "Greta")),
        ("patch day", ("Thursday", "Monday", "Friday")),
        ("serializer", ("msgpack", "cbor", "json")),
    ),
    bases=(
        "The {a} of {s} on {e} is currently {v}",
        "{s}: {a} in {e} is {v}",
        "We set the {a} for {s} in {e} to {v}",
        "In {e}, {s} uses a {a} of {v}",
    ),
    updates=(
        "The {a} of {s} in {e} has been updated, it is {w} now",
        "{s}'s {a} in {e} is {w} now",
        "The {a} of {s} in {e} has gone from {v} to {w}",
        "We've configured {s} in {e} with a {a} of {w}",
        "Starting today, the {a} of {s} in {e} is {w}",
        "{a} for {s} in {e} was bumped to {w}",
        "We have changed the {a} for {s} in {e} to {w}",
        "In {e}, {s} has switched its {a} to {w}",
    ),
    repeats=(
        "{s} has {v} as its {a} in {e}",
        "On {e}, the {a} of {s} is {v}",
        "{s}'s {a} on {e}: {v}",
        "FYI the {a} for {s} in {e} is {v}",
    ),
    respelt=(("25 s", "25 seconds"), ("4%", "4 percent"), ("2 GB", "2GB"), ("30 days", "thirty days")),
    technologies=(
        ("Mongoose", "Objection", "data modelling"),
        ("Firebase Auth", "Supertokens", "sign-in"),
        ("Lunr", "FlexSearch", "site search"),
        ("Enzyme", "Testing Library", "UI tests"),
        ("Bamboo", "Concourse", "deployments"),
        ("SendGrid", "Resend", "newsletters"),
        ("Puppet", "Pyinfra", "machine images"),
        ("Datadog", "Zabbix", "monitoring"),
    ),
    tech_bases=("We're on {x} for {p}", "Our team chose {x} for {p}", "{x} is being used for {p}"),
    tech_updates=(
        "We have switched to {y} for {p}",
        "We moved from {x} to {y} last month",
        "{y} has replaced {x}",
        "Instead of {x} we use {y} for {p}",
        "We are no longer using {x} for {p}",
        "The team stopped using {x}",
        "{p} now uses {y}",
        "{x} has been dropped in favor of {y}",
    ),
    tech_repeats=("For {p} we rely on {x}", "{p} uses {x}", "The team uses {x} for {p}"),
    choices=(("Lapce", "Notepad"), ("Zig", "Nim"), ("sushi", "pizza"), ("Bazel", "Gradle"), ("MQTT", "AMQP")),
    opposites=(
        ("horizontal scrolling", "vertical scrolling"),
        ("cheap hosting", "expensive hosting"),
        ("simple configs", "complex configs"),
    ),
    likes=("Astro", "retrospectives", "JSON", "overtime", "Prolog", "office plants"),
    policies=(
        "tag releases",
        "edit data by hand",
        "commit generated code",
        "document endpoints",
        "skip code review",
    ),
    decisions=("acquire the startup", "localise the app", "deprecate the old API", "buy new laptops"),
    flags=("bulk-import", "cold-storage", "live-preview"),
    switched=(
        ("{f} is enabled on {e}", "{f} is disabled on {e}"),
        ("{f} is allowed in {e}", "{f} is not allowed in {e}"),
        ("{f} was turned on in {e}", "{f} was turned off in {e}"),
    ),
    people=("Noor", "Pavel", "Greta", "Samir"),
    places=("Malmo", "Utrecht", "Nairobi", "Hobart"),
    duties=("the API gateway", "procurement", "the mobile release", "incident reviews"),
    moves=(
        ("{n} stays in {v}", "{n} has relocated to {w}", "{n} is staying in {v}"),
        ("{n}'s workplace is in {v}", "{n}'s workplace has moved to {w}", "The workplace of {n} is in {v}"),
    ),
    owns=(("{n} runs {d}", "{d} is run by {n}"), ("{n} is the owner of {d}", "{d} belongs to {n}")),
)
