"""Commands on episodes: show and erase captured turns; `cofio search --episodes` finds them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from cofio.cli import output
from cofio.cli.output import ID, TEXT, WHEN, Field
from cofio.cli.shared_options import CliContext, agreed, command, examples, where
from cofio.models.episodes import shortened

_TAKEN = ("k", "min_score", "source", "source_prefix", "project", "session", "agent", "since", "until")


def print_episodes(session: CliContext, query: str, how: Mapping[str, Any]) -> None:
    """Search episodes and print them."""
    if unknown := sorted(how.keys() - set(_TAKEN)):
        raise click.UsageError(
            f"--episodes cannot be combined with {', '.join(unknown)}. It accepts: {', '.join(_TAKEN)}."
        )
    with session.memories() as memories:
        hits = memories.search_episodes(query, **how)
    if session.as_json:
        output.document({"query": query, "count": len(hits), "episodes": [hit.as_dict() for hit in hits]})
        return
    rows = (
        (hit.episode, f"{hit.score:.3f}", shortened(hit.text), hit.passage.session, output.when(hit.passage.at))
        for hit in hits
    )
    output.table((ID, Field("score", "green", "right"), TEXT, Field("session", "dim"), WHEN), rows)
    if not hits:
        output.say("No matching episodes.")


@click.group("episodes", epilog=examples("cofio episodes show 7", "cofio episodes purge 7"))
@where(hidden=True)
def episodes() -> None:
    """Show and erase episodes: the text of captured turns."""


@command("show", "cofio episodes show 7", "cofio episodes show 7 --json")
@click.argument("episode_id", metavar="ID", type=int)
def show(session: CliContext, episode_id: int) -> None:
    """Show the text of a turn, with time, session and project."""
    with session.memories() as memories:
        episode = memories.episode(episode_id)
    if session.as_json:
        output.document(episode.as_dict())
    else:
        output.facts_about(episode.as_dict().items())


@command("purge", "cofio episodes purge 7", "cofio episodes purge 7 --yes")
@click.argument("episode_id", metavar="ID", type=int)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def purge(session: CliContext, episode_id: int, yes: bool) -> None:
    """Permanently erase an episode and the text of its capture. Memories learned from it are kept."""
    with session.memories() as memories:
        episode = memories.episode(episode_id)
        if not agreed(f"Erase episode {episode_id} of {episode.at[:10]} permanently?", yes=yes):
            output.say("Nothing was erased.")
            return
        memories.purge_episode(episode_id)
    if session.as_json:
        output.document({"id": episode_id, "action": "purge"})
    else:
        output.say(f"Episode {episode_id} is erased.")


for _each in (show, purge):
    episodes.add_command(_each)
