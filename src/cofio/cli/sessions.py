"""Commands on sessions and episodes: list, show, erase, and resume work on a project."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from cofio.cli import output
from cofio.cli.output import ID, TEXT, WHEN, Field
from cofio.cli.shared_options import PROJECT, CliContext, command, command_group, limit_option, yes_option
from cofio.models.episodes import shortened
from cofio.models.sessions import RESUME_TOKENS, RESUMED, SessionMemory

#: Options that a search of episodes takes.
_OPTIONS = ("k", "min_score", "source", "source_prefix", "project", "session", "agent", "since", "until")


@command_group(
    "sessions",
    "cofio sessions",
    "cofio sessions --project . --limit 5",
    "cofio sessions show c71d497f",
    invoke_without_command=True,
)
@click.option(
    "--project", metavar="PROJECT", help=f'Only sessions with a turn in this project: {PROJECT}; "" for no project.'
)
@click.option("--client", default="", metavar="NAME", help="Only sessions of this client, such as claude-code.")
@limit_option(20, "sessions", 1_000, short=False)
@click.pass_context
def sessions(context: click.Context, project: str | None, client: str, limit: int) -> None:
    """List the sessions of agents, newest first; `sessions show` shows one."""
    if context.invoked_subcommand:
        return
    session = context.ensure_object(CliContext)
    project_name = None if project is None else session.project(project)
    with session.memories() as memories:
        summaries = memories.sessions(limit=limit, client=client, project=project_name)
    rows = (
        (summary.session, summary.client, summary.project, summary.turns, output.when(summary.last_at))
        for summary in summaries
    )
    columns = (Field("session", "cyan"), Field("client"), Field("project", "dim", wraps=True),
               Field("turns", align="right"), Field("last turn", "dim"))  # fmt: skip
    empty = "No sessions were found. Hooks record sessions; `cofio install` sets hooks up."
    session.print_table({"sessions": summaries}, columns, rows, empty)


@command("show", "cofio sessions show c71d497f", "cofio sessions show c71d497f --json", group=sessions)
@click.argument("name", metavar="SESSION")
@click.option(
    "--client", default="", metavar="NAME", help="Client of the session, if several clients have one with this id."
)
@click.option(
    "--owner", metavar="NAME", help='User or agent of the session, if several have one with this id; "" for no owner.'
)
def show(session: CliContext, name: str, client: str, owner: str | None) -> None:
    """Show a session: its turns, and the memories recalled, learned and changed in it.

    SESSION is the id, or a unique prefix of it.
    """
    with session.memories() as memories:
        detail = memories.session(name, client=client, owner=owner)
    if session.print_json(detail):
        return
    about = detail.session
    names = ("session", "client", "project", "user", "agent", "first_at", "last_at", "turns")
    output.facts_about((name, getattr(about, name)) for name in names)
    _print_section("Turns", [f"{turn.at[:16]}  {shortened(turn.prompt or turn.answer)}" for turn in detail.turns])
    summaries = [f"{summary.at[:16]}  {shortened(summary.text, 2_000)}" for summary in detail.summaries]
    _print_section("Compaction summaries", summaries)
    for title, members in (("Recalled", detail.recalled), ("Learned", detail.learned), ("Changed", detail.changed)):
        _print_section(title, [_format_memory(memory) for memory in members])


def _print_section(title: str, lines: list[str]) -> None:
    if lines:
        click.echo(f"\n{title}")
        for line in lines:
            click.echo(f"  {output.one_line(line)}")


def _format_memory(memory: SessionMemory) -> str:
    by = f", changeset {memory.changeset}" if memory.changeset else ""
    undone = ", undone" if memory.undone else ""
    action = f"  ({memory.action}{by}{undone})" if memory.action else ""
    return f"[{memory.id}] {shortened(memory.text)}{action}"


@command(
    "resume",
    "cofio resume                     # the project of the current folder",
    "cofio resume --project ~/src/web",
    "cofio resume --json",
)
@click.option("--project", default=".", metavar="PROJECT", show_default=True, help=f"Project: {PROJECT}.")
@click.option("--all", "everywhere", is_flag=True, help="Sessions of every project.")
@limit_option(RESUMED, "sessions", 20, short=False)
@click.option("--max-tokens", default=RESUME_TOKENS, type=click.IntRange(100, 20_000), show_default=True,
              help="Maximum number of tokens.")  # fmt: skip
def resume(session: CliContext, project: str, everywhere: bool, limit: int, max_tokens: int) -> None:
    """Summarise where work on a project stopped: its last sessions, with learned facts and open points.

    No language model is called.
    """
    project_name = None if everywhere else session.project(project)
    with session.memories() as memories:
        result = memories.resume(project_name, limit=limit, max_tokens=max_tokens)
    session.print_text(result.as_dict(), result.text)


# ── episodes ──────────────────────────────────────────────────────────────────────────────────────────────────────────


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
def show_episode(session: CliContext, episode_id: int) -> None:
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
