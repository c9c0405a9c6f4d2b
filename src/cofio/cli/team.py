"""Commands on shared memories: team facts, repeated facts, and prompt enrichment."""

from __future__ import annotations

from typing import Any

import click

from cofio.cli import output
from cofio.cli.output import ID, TEXT, WHEN, Field
from cofio.cli.shared_options import BY, CliContext, command, examples, where
from cofio.models.memory import CATEGORIES, KINDS

_LABELS = (*CATEGORIES, *(kind for kind in KINDS if kind not in CATEGORIES))
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
        team_facts = memories.get_team_facts(limit=limit, category=category or "", team=team)
    if session.as_json:
        output.document({"memories": [memory.as_dict() for memory in team_facts]})
        return
    rows = (
        (memory.id, memory.text, memory.kind, memory.agent, output.when(memory.created_at)) for memory in team_facts
    )
    output.table((ID, TEXT, Field("kind", "dim"), _AGENT, WHEN), rows)
    if not team_facts:
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
    filters: dict[str, Any] = {"limit": limit, "category": category or "", "team": team}
    with session.memories() as memories:
        repeats = memories.detect_cross_agent_patterns(min_occurrences=least, **filters)
    if session.as_json:
        output.document({"patterns": [repeat.as_dict() for repeat in repeats]})
        return
    rows = ((repeat.occurrences, repeat.agent, repeat.memory.id, repeat.memory.text) for repeat in repeats)
    output.table((_TIMES, _AGENT, ID, TEXT), rows)
    if not repeats:
        output.say(f"No agent has repeated a fact {output.count(least, 'time')}.")


for subcommand in (facts, patterns):
    team.add_command(subcommand)


@command(
    "enrich",
    'cofio enrich "which database do we use?"',
    'cofio enrich "when is the release?" --session s1 --team',
)
@click.argument("query")
@click.option("--session", "of", default="", metavar="NAME", help="Take personal memories from this session only.")
@click.option("--team", "include_team", is_flag=True, help="Include memories of the team, besides your own.")
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
