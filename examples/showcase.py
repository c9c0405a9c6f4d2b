"""Fictional team with ninety days of history, to explore in a browser: `make showcase`, or manually:

python examples/showcase.py FOLDER      # then: COFIO_HOME=FOLDER cofio serve, and open /ui

Everything uses the public interface of a keeper with a simulated clock: facts are added, conversations learned from,
prompts answered. Each run has the same days.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import story

from cofio import Fact
from cofio.bootstrap import keeper as assembled
from cofio.core import Keeper
from cofio.models.memory import to_utc_iso
from cofio.settings import Settings

DAYS = 90
FURTHER = 500  # facts in addition to those of the sentences
AGENTS = ("claude-code", "codex", "cursor", "openclaw")
PROJECTS = ("storefront", "payments", "mobile", "warehouse", "platform")

#: Sentences of such teams, by topic and kind, with alternatives of which each project draws its own.
SENTENCES = Path(__file__).with_suffix(".txt")

CONVERSATIONS = (
    "User: The staging port is 8080, and we never deploy {p} on a Friday.\nAssistant: Noted.",
    "User: We switched {p} from Prisma to Drizzle.\nAssistant: Done, the queries are ported.",
    "User: thanks, looks good!\nAssistant: Glad to hear it.",
    "User: I prefer small pull requests in {p}.\nAssistant: I will keep them small.",
    "User: can you run the tests again?\nAssistant: All green.",
)
PROMPTS = (
    "can I deploy {p} today?",
    "which database does {p} use?",
    "why was the checkout test flaky?",
    "how does {p} page its listings?",
    "what does Ada think of pull requests?",
    "ok",
)


class Days:
    """Simulated clock, which advances by one second at every call."""

    def __init__(self, start: datetime) -> None:
        self._now = start

    def __call__(self) -> str:
        self._now += timedelta(seconds=1)
        return to_utc_iso(self._now)

    def dawn(self, day: datetime) -> None:
        self._now = day


def main() -> int:
    home = Path(sys.argv[1] if sys.argv[1:] else "showcase").resolve()
    sys.stdout.write(f"{fill(home)} memories in {home}\n")
    return 0


def fill(home: Path, today: datetime | None = None, days: int = DAYS, further: int = FURTHER) -> int:
    """Simulate this many days up to today in a store in this folder; return the number of memories."""
    last = (today or datetime.now(UTC)).replace(hour=8, minute=0, second=0, microsecond=0)
    clock, chance = Days(last - timedelta(days=days)), random.Random(7)
    with assembled(Settings.load({"home": home}), clock=clock) as keeper:
        facts = _facts(chance, further)
        share = len(facts) / days
        for day in range(days):
            clock.dawn(last - timedelta(days=days - 1 - day))
            _lived(keeper, chance, facts[round(day * share) : round((day + 1) * share)], day)
        _left_to_do(keeper)
        _known_exactly(keeper)
        return keeper.count()


def _left_to_do(keeper: Keeper) -> None:
    """Add data for the upkeep and team pages: duplicates, a contradiction, and repeated statements of agents."""
    about = {"project": "payments", "source": "claude-code/payments"}
    for text in ("The nightly export of payments goes to the archive bucket", "Refunds are paid out by the worker"):
        for _ in range(2):
            keeper.add(text, dedup=False, by="import", **about)
    for port in (8080, 9090):
        keeper.add(f"The staging gateway listens on port {port}", dedup=False, by="import", **about)
    for again in range(4):
        for agent, text in (
            ("codex", "Run the type checker before you push"),
            ("cursor", "Ask before you add a library"),
        ):
            team = {"visibility": "team", "session": f"again-{again}", "kind": "policy"}
            keeper.add(text, agent=agent, by=agent, source=f"{agent}/platform", **team)


def _known_exactly(keeper: Keeper) -> None:
    known = keeper.knowledge
    known.put(
        "thresholds", source="checkout", metric="latency", direction="above", value=800, unit="ms", confidence=0.7
    )
    known.put("thresholds", source="queue", metric="age", direction="above", value=120, unit="s")
    known.put("patterns", source="checkout", pattern="latency rises an hour before the newsletter goes out")
    known.put("correlations", source_a="queue", source_b="checkout", relation="leads", rule="the queue leads checkout")
    known.put("seasonal", pattern="traffic doubles", period="weekly", during="fri 17:00-21:00", source="checkout")
    about = ["thresholds/checkout.latency.above"]
    known.put("feedback", anomaly="checkout slow on release day", verdict="confirmed", about=about)


def _facts(chance: random.Random, further: int) -> list[Fact]:
    """Return the facts of each project in random order, and further facts to fill the store."""
    made = {}
    for topic, kind, sentence in _sentences():
        for project in PROJECTS:
            text, agent = _chosen(sentence, project, chance), chance.choice(AGENTS)
            about = {"source": f"{agent}/{project}", "project": project, "agent": agent}
            made[text] = Fact(text=text, kind=kind, tags=(topic,), **about)
    facts = [*made.values(), *(_told(fact, chance) for fact in story.facts(further))]
    chance.shuffle(facts)
    return facts


def _told(fact: dict[str, Any], chance: random.Random) -> Fact:
    """Return a further fact, stated by a random agent; its own date is not used."""
    agent = chance.choice(AGENTS)
    about = {name: fact[name] for name in ("text", "kind", "project", "category")}
    return Fact(**about, source=f"{agent}/{fact['project'] or 'team'}", agent=agent)


def _sentences() -> Iterator[tuple[str, str, str]]:
    """Yield the sentences with topic and kind."""
    topic = kind = ""
    for line in SENTENCES.read_text("utf-8").splitlines():
        if line.startswith("# "):
            topic, _, kind = line[2:].partition(": ")
        elif line:
            yield topic, kind, line


def _chosen(sentence: str, project: str, chance: random.Random) -> str:
    """Return the sentence with one of each alternative."""
    while "{" in sentence:
        before, _, rest = sentence.partition("{")
        choices, _, after = rest.partition("}")
        chosen = project if choices == "p" else chance.choice(choices.split("|"))
        sentence = before + chosen + after
    return sentence


def _lived(keeper: Keeper, chance: random.Random, facts: list[Fact], day: int) -> None:
    if facts:
        keeper.add_all(facts, by=facts[0].agent)
    for number in range(chance.randint(2, 9)):
        project, agent = chance.choice(PROJECTS), chance.choice(AGENTS)
        keeper.recall(_chosen(chance.choice(PROMPTS), project, chance), project=project, by=agent)
        if number % 4 == 0:
            said = _chosen(chance.choice(CONVERSATIONS), project, chance)
            about = {"client": agent, "session": f"day-{day}", "turn": str(number)}
            keeper.capture(said, wait=True, by=agent, source=f"{agent}/{project}", project=project, **about)


if __name__ == "__main__":
    sys.exit(main())
