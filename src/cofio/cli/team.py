"""Commands on shared memories: team facts, repeated facts, and prompt enrichment."""

from __future__ import annotations

from typing import Any

import click

from cofio.cli import output
from cofio.cli.output import ID, TEXT, WHEN, Field
from cofio.cli.shared_options import BY, CliContext, command, command_group, limit_option
from cofio.models.memory import CATEGORIES, KINDS

_LABELS = (*CATEGORIES, *(kind for kind in KINDS if kind not in CATEGORIES))
_AGENT = Field("agent", "dim", wraps=True)


@command_group("team", "cofio team facts", "cofio team patterns --min 3")
def team() -> None:
    """Show the memories of the team, and the facts that its agents repeat.

    A memory belongs to the team if it was added with --visibility team.
    """


_category = click.option("--category", type=click.Choice(_LABELS), help="Only memories of this category or kind.")
_team = click.option("--team", metavar="NAME", help="Only memories of this team.")


@command("facts", "cofio team facts", "cofio team facts --category policy --limit 10 --json", group=team)
@_category
@_team
@limit_option(50, "memories", 1_000, short=False)
def facts(session: CliContext, category: str | None, team: str | None, limit: int) -> None:
    """List the memories of the team, newest first."""
    with session.memories() as memories:
        team_facts = memories.get_team_facts(limit=limit, category=category or "", team=team)
    rows = (
        (memory.id, memory.text, memory.kind, memory.agent, output.when(memory.created_at)) for memory in team_facts
    )
    columns = (ID, TEXT, Field("kind", "dim"), _AGENT, WHEN)
    empty = 'The team has no memories yet; add one with `cofio add "…" --visibility team`.'
    session.print_table({"memories": team_facts}, columns, rows, empty)


@command("patterns", "cofio team patterns", "cofio team patterns --min 3 --category policy", group=team)
@click.option("--min", "least", type=click.IntRange(1), default=2, show_default=True,
              help="Minimum number of times that an agent stated the fact.")  # fmt: skip
@_category
@_team
@limit_option(20, "patterns", 1_000, short=False)
def patterns(session: CliContext, least: int, category: str | None, team: str | None, limit: int) -> None:
    """List team facts that an agent has stated repeatedly, most frequent first."""
    filters: dict[str, Any] = {"limit": limit, "category": category or "", "team": team}
    with session.memories() as memories:
        repeats = memories.detect_cross_agent_patterns(min_occurrences=least, **filters)
    rows = ((repeat.occurrences, repeat.agent, repeat.memory.id, repeat.memory.text) for repeat in repeats)
    empty = f"No agent has stated a team fact at least {output.count(least, 'time')}."
    session.print_table({"patterns": repeats}, (Field("times", "cyan", "right"), _AGENT, ID, TEXT), rows, empty)


@command(
    "enrich", 'cofio enrich "which database do we use?"', 'cofio enrich "when is the release?" --session s1 --team'
)
@click.argument("query")
@click.option(
    "--session", "memory_session", default="", metavar="NAME", help="Take personal memories from this session only."
)
@click.option("--team", "include_team", is_flag=True, help="Include memories of the team, besides your own.")
@click.option("--max", "limit", type=click.IntRange(1, 50), default=5, show_default=True,
              help="Maximum number of memories per section.")  # fmt: skip
def enrich(session: CliContext, query: str, memory_session: str, include_team: bool, limit: int) -> None:
    """Print the context from memories to put before QUERY when a model answers it.

    It has sections with personal memories and, with --team, memories of the team. Prints nothing without matches.
    """
    with session.memories() as memories:
        text = memories.enrich_prompt(query, memory_session, include_team, limit, by=BY)
    session.print_text({"context": text}, text.strip("\n"), "No matching memories.")
