"""Commands on sessions: list them, show one, and resume work on a project."""

from __future__ import annotations

import click

from cofio.cli import output
from cofio.cli.output import Field
from cofio.cli.shared_options import PROJECT, CliContext, command, command_group, limit_option
from cofio.models.episodes import shortened
from cofio.models.sessions import RESUME_TOKENS, RESUMED, SessionMemory


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
