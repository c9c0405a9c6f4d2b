"""Commands on the whole store: stats, dedup, reembed; config and completion."""

from __future__ import annotations

from functools import cache
from typing import Any

import click

from cofio import settings as setting
from cofio.cli import output
from cofio.cli.output import ID, TEXT, Field
from cofio.cli.shared_options import BY, CliContext, command, command_group
from cofio.models.memory import Delete, to_plain
from cofio.settings import Settings


@command("stats", "cofio stats", "cofio stats --json")
def stats(session: CliContext) -> None:
    """Count memories, changes and retrievals."""
    with session.memories() as memories:
        counts = memories.stats()
    if session.print_json(counts):
        return
    if output.on_terminal() and counts.get("bytes"):
        counts["bytes"] = f"{counts['bytes'] / 1_048_576:,.1f} MiB"
    for name, groups in counts.items():
        if isinstance(groups, dict):
            ordered = sorted(groups.items(), key=lambda pair: (-pair[1], pair[0]))
            counts[name] = ", ".join(f"{group or '(none)'} {number:,}" for group, number in ordered)
    output.facts_about(counts.items())


@command(
    "dedup",
    "cofio dedup                      # shows what would be merged",
    "cofio dedup --source-prefix acme --threshold 0.95",
    "cofio dedup --apply",
)
@click.option(
    "--threshold",
    type=click.FloatRange(0, 1),
    help="Minimum cosine similarity of duplicates. Default: the setting dedup_threshold.",
)
@click.option(
    "--source-prefix", default="", metavar="SOURCE", help="Only memories of this source and of sources below it."
)
@click.option("--apply", is_flag=True, help="Apply the merges; default: only show them.")
def dedup(session: CliContext, threshold: float | None, source_prefix: str, apply: bool) -> None:
    """Find duplicate memories, and with --apply merge them."""
    with session.memories() as memories:
        changeset = None
        if apply:
            result = memories.merge_duplicates(threshold=threshold, source_prefix=source_prefix, by=BY)
            deletions = [change for change in result.changes if change.action == "delete"] if result else []
            duplicates = [Delete(change.memory_id, change.reason, change.memory.superseded_by) for change in deletions]
            changeset = result.id if result else None
        else:
            duplicates = memories.find_duplicates(threshold=threshold, source_prefix=source_prefix)
        decisions = [to_plain(decision) for decision in duplicates]
        summary = {"dry_run": not apply, "count": len(duplicates), "decisions": decisions}
        if session.print_json({**summary, "changeset": changeset}):
            return

        @cache
        def text(memory_id: int | None) -> str:
            return memories.get(memory_id).text if memory_id else ""

        columns = (ID, TEXT, Field("into", "cyan", "right"), Field("which says", wraps=True),
                   Field("why", "dim", wraps=True))  # fmt: skip
        rows = ((entry.id, text(entry.id), entry.into, text(entry.into), entry.reason) for entry in duplicates)
        output.table(columns, rows)
    number = output.count(len(duplicates), "memory", "memories")
    if not duplicates:
        output.say("There are no duplicates.")
    elif apply:
        output.say(f"{number} merged; `cofio undo {changeset}` reverts it.")
    else:
        output.say(f"{number} would be merged; `cofio dedup --apply` does it.")


@command(
    "reembed",
    "cofio config set embedder ollama:nomic-embed-text && cofio reembed",
    "cofio reembed --missing          # continues a stopped run",
)
@click.option("--missing", is_flag=True, help="Only memories that have no vector yet.")
def reembed(session: CliContext, missing: bool) -> None:
    """Recompute the vectors of all memories with the current embedder.

    Missing token embeddings for re-ranking are computed too, about forty memories a second; episodes are indexed and
    embedded too. A stopped run can be continued with --missing.
    """
    session.refuse_running_service("reembed", "it would continue with the old embedder")
    with session.open_keeper(session.settings) as keeper:
        embeddings = keeper.services.embeddings
        if missing:
            embeddings.drop_damaged()
        counts = keeper.stats()
        total = counts["memories"] + counts["archived"]
        remaining = total - counts["vectors"] if missing else total
        with output.progress("Embedding", remaining, hidden=session.as_json) as bar:
            number = keeper.embed_missing(bar.move_to) if missing else keeper.reembed(bar.move_to)
        with output.progress("Re-ranking", embeddings.pending_token_embeddings(), hidden=session.as_json) as bar:
            embeddings.build_token_embeddings(bar.move_to)
        keeper.services.episodes.index_missing()
        keeper.services.episodes.embed_missing()
    embedder = session.settings.embedder
    sentence = f"{output.count(number, 'memory', 'memories')} embedded with {embedder}."
    session.print_sentence({"embedded": number, "embedder": embedder}, sentence)


@command_group("config", "cofio config", "cofio config set port 9000", "cofio config path", invoke_without_command=True)
@click.pass_context
def config(context: click.Context) -> None:
    """Show the settings and their origins, or write one to config.toml."""
    if context.invoked_subcommand is None:
        context.invoke(show)


@command("show", "cofio config show", "cofio config show --json", group=config)
def show(session: CliContext) -> None:
    """Show every setting, its value and its origin. Keys are masked."""
    settings = session.settings
    rows = [(field.name, settings.shown(field.name), settings.origins[field.name]) for field in setting.settable()]
    document = {name: {"value": _read_value(settings, name), "origin": origin} for name, _, origin in rows}
    columns = (Field("setting", "cyan"), Field("value", wraps=True), Field("from", "dim", wraps=True))
    session.print_table(document, columns, rows)


def _read_value(settings: Settings, name: str) -> Any:
    value = getattr(settings, name)
    return value if isinstance(value, bool | int | float) else settings.shown(name)


@command(
    "set",
    "cofio config set embedder ollama:nomic-embed-text",
    "cofio config set api_key    # prompts for it, hidden",
    group=config,
)
@click.argument("name")
@click.argument("value", required=False)
def set_(session: CliContext, name: str, value: str | None) -> None:
    """Write a setting to config.toml. Without a VALUE, prompt for it."""
    field = {candidate.name: candidate for candidate in setting.settable()}.get(name)
    secret = bool(field and field.metadata["secret"])
    if value is None:
        value = str(click.prompt(name, hide_input=secret, err=True))
    home = session.settings.home
    if field:
        Settings.load({**session.flags, name: value})  # a value that cannot be loaded is not written
    path = setting.write(home, name, value)
    settings = Settings.load(session.flags)
    if session.print_json({"name": name, "value": _read_value(settings, name), "path": str(path)}):
        return
    output.say(f"{name} is written to {path}.")
    if settings.origins[name] != str(path):
        output.say(f"The new value has no effect yet: {settings.origins[name]} sets {name} too, and takes precedence.")


@command("path", "cofio config path", "$EDITOR $(cofio config path)", group=config)
def path(session: CliContext) -> None:
    """Print the path of config.toml, even if there is no such file."""
    file = str(session.settings.home / "config.toml")
    session.print_text({"path": file}, file)


@command(
    "completion",
    'eval "$(cofio completion bash)"          # in ~/.bashrc',
    'eval "$(cofio completion zsh)"           # in ~/.zshrc',
    "cofio completion fish > ~/.config/fish/completions/cofio.fish",
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, session: CliContext, shell: str) -> None:
    """Print the script that completes cofio's commands and options in your shell."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(context.find_root().command, {}, "cofio", "_COFIO_COMPLETE").source()
    if not session.print_json({"shell": shell, "script": script}):
        click.echo(script)
