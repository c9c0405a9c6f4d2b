"""Words and wordings that nobody looked at while the rules of `cofio.relation` were written.

They were written down when the rules were done, and share no service, no attribute, no value and no wording with those
of `vocabulary`. Whoever changes the rules because of what they show has to write new ones.
"""

from __future__ import annotations

from evals.vocabulary import Vocabulary

HELD_OUT = Vocabulary(
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
