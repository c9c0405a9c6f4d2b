"""Commands on episodes: show and erase captured turns; `cofio search --episodes` finds them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from cofio.cli import output
from cofio.cli.output import ID, TEXT, WHEN, Field
from cofio.cli.shared_options import CliContext, command, command_group, yes_option
from cofio.models.episodes import shortened

_OPTIONS = ("k", "min_score", "source", "source_prefix", "project", "session", "agent", "since", "until")


def print_episodes(session: CliContext, query: str, how: Mapping[str, Any]) -> None:
    """Search episodes and print them."""
    if unknown := sorted(how.keys() - set(_OPTIONS)):
        flags = {option.name: option.opts[-1] for option in click.get_current_context().command.params}
        refused, accepted = (", ".join(flags[name] for name in names) for names in (unknown, _OPTIONS))
        raise click.UsageError(f"--episodes cannot be combined with {refused}. It can be combined with {accepted}.")
    with session.memories() as memories:
        hits = memories.search_episodes(query, **how)
    rows = (
        (hit.episode, f"{hit.score:.3f}", shortened(hit.text), hit.passage.session, output.when(hit.passage.at))
        for hit in hits
    )
    document = {"query": query, "count": len(hits), "episodes": hits}
    columns = (ID, Field("score", "green", "right"), TEXT, Field("session", "dim"), WHEN)
    session.print_table(document, columns, rows, "No matching episodes.")


@command_group("episodes", "cofio episodes show 7", "cofio episodes purge 7")
def episodes() -> None:
    """Show and erase episodes: the stored text of conversation turns."""


@command("show", "cofio episodes show 7", "cofio episodes show 7 --json", group=episodes)
@click.argument("episode_id", metavar="ID", type=int)
def show(session: CliContext, episode_id: int) -> None:
    """Show the text of a turn, with time, session and project."""
    with session.memories() as memories:
        session.print_facts(memories.episode(episode_id).as_dict())


@command("purge", "cofio episodes purge 7", "cofio episodes purge 7 --yes", group=episodes)
@click.argument("episode_id", metavar="ID", type=int)
@yes_option
def purge(session: CliContext, episode_id: int, yes: bool) -> None:
    """Permanently erase an episode and the text of its capture. Memories learned from it are kept."""
    with session.memories() as memories:
        episode = memories.episode(episode_id)
        if not session.is_confirmed(f"Erase episode {episode_id} of {episode.at[:10]} permanently?", yes=yes):
            return
        memories.purge_episode(episode_id)
    session.print_sentence({"id": episode_id, "action": "purge"}, f"Episode {episode_id} is erased.")
