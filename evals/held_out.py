"""Words and wordings that nobody looked at while the rules of `cofio.relation` were written.

They were written down when the rules were done, and share no service, no attribute, no value and no wording with those
of `vocabulary`. Whoever changes the rules because of what they show has to write new ones.
"""

from __future__ import annotations

from evals.vocabulary import Vocabulary

HELD_OUT = Vocabulary(
    services=("voucher-api", "the scheduler", "doc-converter", "wishlist", "the audit writer", "geo-cache"),
    environments=("the lab", "integration", "the Dublin site", "green"),
    measured=(
        ("listen port", ("6001", "6500", "7443")),
        ("read deadline", ("12 s", "35 s", "80 s")),
        ("body limit", ("5 MB", "15 MB", "50 MB")),
        ("CPU quota", ("30%", "55%", "75%")),
        ("lease time", ("4 hours", "9 hours", "3 days")),
        ("shard count", ("6", "18", "36")),
    ),
    named=(
        ("ingress controller", ("Contour", "Kong", "Skipper")),
        ("object store", ("MinIO", "Ceph", "Garage")),
        ("service owner", ("Amara", "Bjorn", "Chloe")),
        ("rollout day", ("Wednesday", "Tuesday", "Friday")),
        ("wire format", ("thrift", "bson", "xml")),
    ),
    bases=(
        "The {a} of {s} for {e} is {v}",
        "{s} has {a} {v} in {e}",
        "{s}'s {a} for {e} is {v}",
        "In {e} {s} is configured with a {a} of {v}",
    ),
    updates=(
        "{s}'s {a} for {e} is now {w}",
        "{s} changed its {a} from {v} to {w} in {e}",
        "The {a} of {s} for {e} is no longer {v}, it's {w}",
        "We've raised the {a} of {s} in {e} to {w}",
        "{s} was moved to a {a} of {w} in {e}",
        "{a} of {s} in {e} updated from {v} to {w}",
        "We're now running {s} in {e} with a {a} of {w}",
        "The {a} for {s} in {e} had been {v} but is now {w}",
    ),
    repeats=(
        "The {a} for {s} in {e} is {v}",
        "{e}: {s} has a {a} of {v}",
        "For {e}, {s}'s {a} is {v}",
        "I believe the {a} of {s} in {e} is {v}",
    ),
    respelt=(("35 s", "35 seconds"), ("55%", "55 percent"), ("15 MB", "15 megabytes"), ("9 hours", "nine hours")),
    technologies=(
        ("Waterline", "MikroORM", "persistence"),
        ("Passport", "Ory", "access control"),
        ("Xapian", "Quickwit", "ticket search"),
        ("Nightwatch", "TestCafe", "smoke tests"),
        ("GoCD", "Semaphore", "packaging"),
        ("Plivo", "Telnyx", "voice calls"),
        ("Vagrant", "Devbox", "local setups"),
        ("Nagios", "Checkmk", "alerting"),
    ),
    tech_bases=("Our stack uses {x} for {p}", "We picked {x} as our tool for {p}", "We use {x} when it comes to {p}"),
    tech_updates=(
        "We upgraded from {x} to {y}",
        "Team transitioned from {x} to {y} for {p}",
        "{x} is gone, {y} does {p} now",
        "We're done with {x}",
        "We've replaced {x} by {y}",
        "{p} is no longer done with {x}",
        "We traded {x} for {y}",
        "As of today we use {y} for {p}",
    ),
    tech_repeats=("We use {x} for {p}", "{p} is done with {x}", "Team relies on {x} for {p}"),
    choices=(("Geany", "Kate"), ("Crystal", "Raku"), ("mornings", "nights"), ("Meson", "CMake"), ("CSV", "Parquet")),
    opposites=(
        ("uppercase constants", "lowercase constants"),
        ("internal tools", "external tools"),
        ("fast feedback", "slow feedback"),
    ),
    likes=("Qwik", "design docs", "XML", "deadlines", "Forth", "hot desks"),
    policies=(
        "encrypt backups",
        "reuse passwords",
        "email customer data",
        "squash migrations",
        "announce breaking changes",
    ),
    decisions=("merge both teams", "sunset the desktop app", "publish the roadmap", "move to the new office"),
    flags=("fast-lane", "dry-mode", "new-editor"),
    switched=(
        ("{f} is switched on for {e}", "{f} is switched off for {e}"),
        ("{f} is available in {e}", "{f} is unavailable in {e}"),
        ("{f} is enabled for {e}", "{f} isn't enabled for {e}"),
    ),
    people=("Amara", "Bjorn", "Chloe", "Dmitri"),
    places=("Cork", "Graz", "Hanoi", "Tallinn"),
    duties=("the loyalty programme", "recruiting", "the print service", "code health"),
    moves=(
        ("{n} lives in {v} at the moment", "{n} has just moved to {w}", "{n} currently lives in {v}"),
        ("{n}'s hometown is {v}", "{n}'s hometown is {w}", "The hometown of {n} is {v}"),
    ),
    owns=(("{n} is the maintainer of {d}", "{d} is maintained by {n}"), ("{n} leads {d}", "{n} is the lead of {d}")),
)
