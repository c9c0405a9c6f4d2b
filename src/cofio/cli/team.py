"""Commands on shared memories: team facts, repeated facts, and prompt enrichment."""

from __future__ import annotations

from typing import Any

import click

from cofio.cli import output
from cofio.cli.context import BY, CliContext, command, examples, where
from cofio.cli.output import ID, TEXT, WHEN, Field
from cofio.models.memory import CATEGORIES, KINDS

_LABELS = (*CATEGORIES, *(each for each in KINDS if each not in CATEGORIES))
_AGENT = Field("agent", "dim", wraps=True)
_TIMES = Field("times", "cyan", "right")


@click.group("team", epilog=examples("cofio team facts", "cofio team patterns --min 3"))
@where(hidden=True)
def team() -> None:
    """Show the memories of the team, and the facts that its agents repeat.

    A memory belongs to the team if it was added with --visibility team.
    """


_category = click.option("--category", type=click.Choice(_LABELS), help="Only this category or kind.")
_team = click.option("--team", metavar="NAME", help="Only this team.")


@command("facts", "cofio team facts", "cofio team facts --category policy --limit 10 --json")
@_category
@_team
@click.option(
    "--limit", type=click.IntRange(1, 1_000), default=50, show_default=True, help="Maximum number of memories."
)
def facts(session: CliContext, category: str | None, team: str | None, limit: int) -> None:
    """List the memories of the team, newest first."""
    with session.memories() as memories:
        found = memories.get_team_facts(limit=limit, category=category or "", team=team)
    if session.as_json:
        output.document({"memories": [each.as_dict() for each in found]})
        return
    rows = ((each.id, each.text, each.kind, each.agent, output.when(each.created_at)) for each in found)
    output.table((ID, TEXT, Field("kind", "dim"), _AGENT, WHEN), rows)
    if not found:
        output.say('The team has no memories yet; add one with `cofio add "…" --visibility team`.')


@command("patterns", "cofio team patterns", "cofio team patterns --min 3 --category policy")
@click.option(
    "--min",
    "least",
    type=click.IntRange(1),
    default=2,
    show_default=True,
    help="Minimum number of times that an agent said it.",
)
@_category
@_team
@click.option(
    "--limit", type=click.IntRange(1, 1_000), default=20, show_default=True, help="Maximum number of patterns."
)
def patterns(session: CliContext, least: int, category: str | None, team: str | None, limit: int) -> None:
    """List facts that agents repeat to the team, most frequent first."""
    asked: dict[str, Any] = {"limit": limit, "category": category or "", "team": team}
    with session.memories() as memories:
        found = memories.detect_cross_agent_patterns(min_occurrences=least, **asked)
    if session.as_json:
        output.document({"patterns": [each.as_dict() for each in found]})
        return
    rows = ((each.occurrences, each.agent, each.memory.id, each.memory.text) for each in found)
    output.table((_TIMES, _AGENT, ID, TEXT), rows)
    if not found:
        output.say(f"No agent has repeated a fact {output.count(least, 'time')}.")


for each in (facts, patterns):
    team.add_command(each)


@command(
    "enrich",
    'cofio enrich "which database do we use?"',
    'cofio enrich "when is the release?" --session s1 --team',
)
@click.argument("query")
@click.option("--session", "of", default="", metavar="NAME", help="Take personal memories from this session only.")
@click.option("--team", "include_team", is_flag=True, help="Include memories of the team.")
@click.option(
    "--max",
    "most",
    type=click.IntRange(1, 50),
    default=5,
    show_default=True,
    help="Maximum number of memories per section.",
)
def enrich(session: CliContext, query: str, of: str, include_team: bool, most: int) -> None:
    """Print the text that memories add to a system message before a model answers QUERY.

    It has sections with personal memories and, with --team, memories of the team. Prints nothing without matches.
    """
    with session.memories() as memories:
        text = memories.enrich_prompt(query, of, include_team, most, by=BY)
    if session.as_json:
        output.document({"context": text})
    elif text:
        click.echo(output.safe(text.strip("\n")))
    else:
        output.say("No matching memories.")
