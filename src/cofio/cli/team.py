"""Commands on what a team shares: its facts, what its agents keep saying, and what all that adds to a prompt."""

from __future__ import annotations

from typing import Any

import click

from cofio.cli import output
from cofio.cli.output import ID, TEXT, WHEN, Column
from cofio.cli.session import BY, Session, command, examples, where
from cofio.model import CATEGORIES, KINDS

_LABELS = (*CATEGORIES, *(each for each in KINDS if each not in CATEGORIES))
_AGENT = Column("agent", "dim", wraps=True)
_TIMES = Column("times", "cyan", "right")


@click.group("team", epilog=examples("cofio team facts", "cofio team patterns --min 3"))
@where(hidden=True)
def team() -> None:
    """Show what the team knows, and what its agents keep telling it.

    A fact is the team's when it was added with --visibility team.
    """


_category = click.option("--category", type=click.Choice(_LABELS), help="Of this category, or of this kind.")
_team = click.option("--team", metavar="NAME", help="Of exactly this team, where there are several.")


@command("facts", "cofio team facts", "cofio team facts --category policy --limit 10 --json")
@_category
@_team
@click.option("--limit", type=click.IntRange(1, 1_000), default=50, show_default=True, help="How many at most.")
def facts(session: Session, category: str | None, team: str | None, limit: int) -> None:
    """Show what the team knows, by when it was said, newest first."""
    with session.memories() as memories:
        found = memories.get_team_facts(limit=limit, category=category or "", team=team)
    if session.as_json:
        output.document({"memories": [each.as_dict() for each in found]})
        return
    rows = ((each.id, each.text, each.kind, each.agent, output.when(each.created_at)) for each in found)
    output.table((ID, TEXT, Column("kind", "dim"), _AGENT, WHEN), rows)
    if not found:
        output.say('The team knows nothing yet; `cofio add "…" --visibility team` tells it.')


@command("patterns", "cofio team patterns", "cofio team patterns --min 3 --category policy")
@click.option(
    "--min", "least", type=click.IntRange(1), default=2, show_default=True, help="How often an agent said it at least."
)
@_category
@_team
@click.option("--limit", type=click.IntRange(1, 1_000), default=20, show_default=True, help="How many at most.")
def patterns(session: Session, least: int, category: str | None, team: str | None, limit: int) -> None:
    """Show what agents keep telling the team, most often first."""
    asked: dict[str, Any] = {"limit": limit, "category": category or "", "team": team}
    with session.memories() as memories:
        found = memories.detect_cross_agent_patterns(min_occurrences=least, **asked)
    if session.as_json:
        output.document({"patterns": [each.as_dict() for each in found]})
        return
    rows = ((each.occurrences, each.agent, each.memory.id, each.memory.text) for each in found)
    output.table((_TIMES, _AGENT, ID, TEXT), rows)
    if not found:
        output.say(f"No agent has told the team the same {output.count(least, 'time')}.")


for each in (facts, patterns):
    team.add_command(each)


@command(
    "enrich",
    'cofio enrich "which database do we use?"',
    'cofio enrich "when is the release?" --session s1 --team',
)
@click.argument("query")
@click.option("--session", "of", default="", metavar="NAME", help="Personal is what was said in this session alone.")
@click.option("--team", "include_team", is_flag=True, help="What the team knows, too.")
@click.option("--max", "most", type=click.IntRange(1, 50), default=5, show_default=True, help="How many of either.")
def enrich(session: Session, query: str, of: str, include_team: bool, most: int) -> None:
    """Print what memories add to a system message before a model answers QUERY.

    Sections with what is personal and, if asked for, what the team knows. Nothing is printed where nothing answers.
    """
    with session.memories() as memories:
        text = memories.enrich_prompt(query, of, include_team, most, by=BY)
    if session.as_json:
        output.document({"context": text})
    elif text:
        click.echo(output.safe(text.strip("\n")))
    else:
        output.say("Nothing is known to that.")
