"""Commands on memories: add, search, recall, show, list, edit, forget, supersede, restore."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from cofio.cli import output
from cofio.cli.output import ID, PROVENANCE, SOURCE, TEXT, WHEN, Field
from cofio.cli.sessions import print_episodes
from cofio.cli.shared_options import (
    BY,
    PROJECT,
    CliContext,
    Memories,
    command,
    fact_fields,
    limit_option,
    why_option,
    within,
    yes_option,
)
from cofio.errors import CofioError, InvalidInput
from cofio.models.memory import Change, Fact, FreshnessResult, Hit, Memory, is_poor_match, known_fields

_keep_secret_option = click.option(
    "--keep-secret", is_flag=True, help="Store secrets as they are. Agents are never shown them."
)
_BATCH = 256  # facts in one changeset
_BATCH_CHARACTERS = 500_000  # well below the service's max_body
_LINES_SHOWN = 20


@command(
    "add",
    'cofio add "We deploy with Fly.io"',
    'cofio add "Ada prefers tabs" --source acme/web --kind preference --tag style',
    "cat facts.txt | cofio add - --source acme/web",
    "cofio add --jsonl facts.jsonl",
)
@click.argument("texts", metavar="[TEXT]...", nargs=-1)
@click.option(
    "--jsonl",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    metavar="FILE",
    help='One JSON object per line, with "text" and optionally other fields of a fact; - is standard input.',
)
@fact_fields()
@click.option("--no-dedup", is_flag=True, help="Add facts even if they duplicate a memory.")
@_keep_secret_option
@why_option
def add(
    session: CliContext,
    texts: tuple[str, ...],
    jsonl: str | None,
    about: dict[str, Any],
    no_dedup: bool,
    keep_secret: bool,
    why: str,
) -> None:
    """Add facts.

    Each TEXT is one fact. With - for TEXT, or without arguments in a pipe, each line of standard input is one. The
    options apply to every fact; fields in a line of a --jsonl file take precedence. If a line is invalid, its number is
    reported and nothing is added.
    """
    read_facts = _parse_facts(texts, jsonl, about)
    total = sum(1 for _ in read_facts())  # validates every fact before the first is added
    changes: list[Change] = []
    with session.memories(new=True) as memories, output.progress("Adding", total, hidden=session.as_json) as bar:
        try:
            for batch in _split_batches(read_facts()):
                changes += memories.add_all(batch, dedup=not no_dedup, keep_secret=keep_secret, by=BY, why=why)
                bar.advance(len(batch))
        except CofioError:
            if changes:
                output.say(f"The first {len(changes)} of {total} facts were added before the error.")
            raise
    _print_added(session, changes)


def _parse_facts(texts: Sequence[str], jsonl: str | None, about: dict[str, Any]) -> Callable[[], Iterable[Fact]]:
    """Return a function that reads the facts from the start on each call."""
    if jsonl and texts:
        raise click.UsageError("Give either texts or --jsonl, not both.")
    if jsonl and jsonl != "-":
        path = Path(jsonl)
        return lambda: _from_file(path, about)
    if jsonl:
        facts = list(_from_lines(sys.stdin.buffer, _from_json, about))
    elif list(texts) == ["-"] or (not texts and not sys.stdin.isatty()):
        facts = list(_from_lines(sys.stdin.buffer, lambda line, about: Fact(text=line, **about), about))
    elif texts:
        facts = [Fact(text=text, **about) for text in texts]
    else:
        raise click.UsageError("No text was given. Give a text, or - to read one fact per line from standard input.")
    return lambda: facts


def _from_file(path: Path, about: dict[str, Any]) -> Iterator[Fact]:
    try:
        with path.open("rb") as lines:
            yield from _from_lines(lines, _from_json, about)
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be read: {error.strerror}.", "Check the path and its permissions."
        ) from error


def _from_lines(
    lines: Iterable[bytes], parse: Callable[[str, dict[str, Any]], Fact], about: dict[str, Any]
) -> Iterator[Fact]:
    for number, line in enumerate(lines, 1):
        try:
            text = line.decode("utf-8-sig")
            if text.strip():
                yield parse(text, about)
        except UnicodeDecodeError as error:
            raise InvalidInput(
                f"Line {number} is not UTF-8.", "Nothing was added. Convert the input to UTF-8."
            ) from error
        except InvalidInput as error:
            raise type(error)(f"Line {number}: {error.message}", error.hint) from error


def _from_json(line: str, about: dict[str, Any]) -> Fact:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            "The line is not JSON.", 'Give one JSON object per line, such as {"text": "..."}.'
        ) from error
    if not isinstance(fields, dict):
        raise InvalidInput("The line is not a JSON object.", 'Give one object per line, such as {"text": "..."}.')
    if "timestamp" in fields:
        fields.setdefault("created_at", fields.pop("timestamp"))
    known_fields(fields, Fact, "fact")
    return Fact(**{"text": "", **about, **fields})


def _split_batches(facts: Iterable[Fact]) -> Iterator[list[Fact]]:
    batch: list[Fact] = []
    characters = 0
    for fact in facts:
        size = len(fact.text) + len(fact.context)
        if batch and (len(batch) == _BATCH or characters + size > _BATCH_CHARACTERS):
            yield batch
            batch, characters = [], 0
        batch.append(fact)
        characters += size
    if batch:
        yield batch


def _print_added(session: CliContext, changes: Sequence[Change]) -> None:
    counts = Counter(change.action for change in changes)
    if session.as_json:
        changesets = list(dict.fromkeys(change.changeset for change in changes))
        results = [
            {
                "id": change.memory_id,
                "action": change.action,
                "reason": change.reason,
                "text": change.memory.text,
                "replaced": change.memory.supersedes if change.action == "update" else None,
                "near": [{"id": memory.id, "text": memory.text} for memory in change.near],
                **({"redacted": list(change.redacted)} if change.redacted else {}),
            }
            for change in changes
        ]
        numbers = {"added": counts["add"], "updated": counts["update"], "duplicates": counts["noop"]}
        output.document({**numbers, "changesets": changesets, "results": results})
        return
    if not output.on_terminal() or len(changes) <= _LINES_SHOWN:
        rows = ((change.memory_id, _DONE.get(change.action, change.action), change.memory.text) for change in changes)
        output.table((ID, Field("", "green"), TEXT), rows)
    number = output.count(counts["add"] + counts["update"], "memory", "memories")
    replacing = f", {counts['update']} replacing an older one" if counts["update"] else ""
    known = f", {output.count(counts['noop'], 'was', 'were')} known already" if counts["noop"] else ""
    output.say(f"{number} added{replacing}{known}.")
    _say_redacted(changes)
    for change in changes[:_LINES_SHOWN]:
        if change.action == "update":
            previous = f"{change.memory.supersedes} ({change.memory.previous_text})"
            output.say(f"Memory {change.memory_id} replaced {previous}. Undo: cofio undo {change.changeset}")
        for memory in change.near:
            replaced = f"{memory.id} ({memory.text})"
            output.say(f"Memory {change.memory_id} may replace {replaced}. If so: cofio forget {memory.id}")


def _say_redacted(changes: Iterable[Change]) -> None:
    """Report the secrets that were removed from what was typed in."""
    for change in changes:
        if change.redacted:
            kinds = ", ".join(change.redacted)
            output.say(
                f"Secrets were removed from memory {change.memory_id}: {kinds}. `add --keep-secret` stores them."
            )


_DONE = {
    "add": "added",
    "update": "replaced",
    "noop": "known",
    "delete": "archived",
    "purge": "erased",
    "restore": "restored",
}


@command(
    "search",
    'cofio search "where do we deploy?"',
    "cofio search editor settings -k 3 --source-prefix acme",
    'cofio search "release day" --since 7d --explain',
    'cofio search "who owns billing" --json',
    'cofio search "what did we say about the harbour?" --episodes',
)
@click.argument("words", metavar="QUERY...", nargs=-1, required=True)
@click.option("-k", "k", type=int, default=5, show_default=True, help="Maximum number of results.")
@click.option("--threshold", type=click.FloatRange(0, 1), help="Minimum cosine similarity of a result to the query.")
@click.option("--min-score", type=click.FloatRange(0, 1), help="Minimum score of a result.")
@click.option("--no-keywords", is_flag=True, help="Search by meaning (embeddings) only, not by words.")
@click.option("--explain", is_flag=True, help="Show how each score was computed, and the matching words.")
@click.option(
    "--episodes", "in_episodes", is_flag=True, help="Search episodes, the text of conversations, instead of memories."
)
@within
def search(
    session: CliContext,
    words: tuple[str, ...],
    within: dict[str, Any],
    no_keywords: bool,
    explain: bool,
    in_episodes: bool,
    **how: Any,
) -> None:
    """Search memories by meaning and by words, best first."""
    query = " ".join(words)
    options = {name: value for name, value in how.items() if value is not None}
    if in_episodes:
        flags = {name: True for name, is_set in (("explain", explain), ("no_keywords", no_keywords)) if is_set}
        print_episodes(session, query, {**options, **within, **flags})
        return
    with session.memories() as memories:
        hits = memories.search(query, by=BY, hybrid=not no_keywords, explain=explain, **options, **within)
        reader = memories.user
    is_poor = is_poor_match(hits)
    if hits and is_poor and not session.as_json:
        output.say("No memory matches well. The nearest are:")
    columns = (ID, Field("score", "green", "right"), Field("strength"), TEXT, SOURCE, WHEN, PROVENANCE)
    document = {"query": query, "count": len(hits), "poor_match": is_poor, "results": hits}
    session.print_table(document, columns, _format_hits(hits, reader), "No matching memories.")


def _format_hits(hits: Sequence[Hit], reader: str) -> Iterator[tuple[Any, ...]]:
    for hit in hits:
        text = f"{hit.text} ({'; '.join(hit.stale)})" if hit.stale else hit.text
        explanation = [hit.why.formula, ", ".join(hit.why.words)] if hit.why else []
        if output.on_terminal():
            text, explanation = "\n".join([text, *(f"  {line}" for line in explanation if line)]), []
        origin = (hit.memory.source, output.when(hit.memory.created_at), hit.memory.provenance_label(reader))
        yield hit.id, f"{hit.score:.3f}", hit.strength, text, *origin, *explanation


@command(
    "recall",
    "cofio recall                     # as at a session start in this folder",
    'cofio recall "can I ship on friday?"',
    'cofio recall "fix the auth bug" --project /home/ada/web --json',
    'cofio recall --context "AAPL volume is 6.2M"',
)
@click.argument("words", metavar="[PROMPT]...", nargs=-1)
@click.option(
    "--project", metavar="PROJECT", help=f"Project: {PROJECT}. Default: COFIO_PROJECT, else that of the current folder."
)
@click.option(
    "-k",
    "k",
    type=click.IntRange(1, 50),
    help="Maximum number of memories. Default: 5; without a PROMPT, as many as fit the context.",
)
@click.option("--context", "as_context", is_flag=True, help="Print context for your own agent loop: memories, "
              "the most certain patterns and thresholds, and those that a value in the PROMPT crosses.")  # fmt: skip
def recall(session: CliContext, words: tuple[str, ...], project: str | None, k: int | None, as_context: bool) -> None:
    """Show the memories that an agent would be given: at the start of a session, or with a PROMPT."""
    if as_context and project is not None:
        raise click.UsageError(
            "--context searches all projects and cannot be combined with --project. Omit one of them."
        )
    query = " ".join(words)
    with session.memories() as memories:
        if as_context:
            limits: dict[str, Any] = {} if k is None else {"max_memories": k}
            text = memories.recall_context(query, by=BY, **limits)
            session.print_text({"context": text}, text)
            return
        result = memories.recall(query, project=session.project("." if project is None else project), k=k, by=BY)
    document = {"text": result.text, "ids": list(result.ids), "tokens": result.tokens}
    session.print_text(document, result.text, "An agent would be given no memories.")


@command("show", "cofio show 12", "cofio show 12 --json")
@click.argument("memory_id", metavar="ID", type=int)
def show(session: CliContext, memory_id: int) -> None:
    """Show all fields of one memory."""
    with session.memories() as memories:
        memory = memories.get(memory_id)
        occurrences = memories.occurrences(memory_id)
        freshness = memories.freshness(memory_id) if memory.anchors else FreshnessResult()
        episode = memories.episode_of(memory_id)
        reader = memories.user
    if session.as_json:
        state = {"freshness": freshness.state, "stale": list(freshness.notes), "episode": episode}
        output.document({**memory.as_dict(), **state, "occurrences": occurrences})
        return
    fields: dict[str, Any] = {name: value for name, value in memory.as_dict().items() if name != "timestamp"}
    if output.on_terminal():
        times = [name for name in ("created_at", "updated_at", "archived_at", "last_retrieved_at") if fields[name]]
        fields |= {name: f"{fields[name]} ({output.ago(fields[name])})" for name in times}
    fields["anchors"] = [f"{anchor.name} ({anchor.kind} in {anchor.path})" for anchor in memory.anchors]
    fields["provenance"] = memory.provenance_label(reader)
    fields["episode"] = episode
    fields["freshness"] = ": ".join(part for part in (freshness.state, "; ".join(freshness.notes)) if part)
    fields["stated again"] = [
        " ".join(filter(None, (occurrence.at, occurrence.agent, occurrence.session))) for occurrence in occurrences[1:]
    ]
    output.facts_about(fields.items())


@command(
    "list",
    "cofio list",
    "cofio list --source-prefix acme --kind preference -n 20",
    "cofio list --after 120          # the page after memory 120",
    "cofio list --archived --json",
)
@limit_option(50, "memories")
@click.option(
    "--after", metavar="ID", type=int, help="Id of the last memory of the previous page; the list continues after it."
)
@within
def list_(session: CliContext, limit: int, after: int | None, within: dict[str, Any]) -> None:
    """List memories, newest first."""
    with session.memories() as memories:
        page, reader = memories.list(limit=limit, after=after, **within), memories.user
    rows = []
    for memory in page.memories:
        states = filter(None, (memory.kind, "pinned" if memory.pinned else "", "archived" if memory.archived else ""))
        origin = (memory.source, output.when(memory.created_at), memory.provenance_label(reader))
        rows.append((memory.id, memory.text, ", ".join(states), *origin))
    document = {"memories": page.memories, "next": page.next, "total": page.total}
    columns = (ID, TEXT, Field("kind", "dim"), SOURCE, WHEN, PROVENANCE)
    session.print_table(document, columns, rows, "There are no matching memories.")
    if rows and page.next and not session.as_json:
        output.say(f"{len(rows)} of {page.total:,} memories; continue with --after {page.next}.")


@command(
    "edit",
    "cofio edit 12                    # opens the text in your editor",
    'cofio edit 12 --text "We deploy with Render"',
    "cofio edit 12 --pin --tag infra",
    'cofio edit 12 --tag ""           # removes the tags',
)
@click.argument("memory_id", metavar="ID", type=int)
@click.option("--text", metavar="TEXT", help="New text of the memory.")
@click.option(
    "--pin/--unpin", "pinned", default=None, help="Pin the memory, so that pruning never archives it, or unpin it."
)
@fact_fields()
@_keep_secret_option
@why_option
def edit(
    session: CliContext,
    memory_id: int,
    text: str | None,
    pinned: bool | None,
    about: dict[str, Any],
    keep_secret: bool,
    why: str,
) -> None:
    """Change a memory in place. Without options, its text opens in your editor."""
    fields = {"text": text, "pinned": pinned}
    changes = {**about, **{name: value for name, value in fields.items() if value is not None}}
    with session.memories() as memories:
        if not changes:
            old_text = memories.get(memory_id).text
            if not (sys.stdin.isatty() and sys.stdout.isatty()):
                raise click.UsageError("There is no terminal for an editor. Give --text or another option.")
            new_text = click.edit(old_text, extension=".txt") or ""
            if new_text.strip() not in ("", old_text.strip()):
                changes = {"text": new_text}
        change = memories.update(memory_id, keep_secret=keep_secret, by=BY, why=why, **changes) if changes else None
        memory = change.memory if change else memories.get(memory_id)
    if session.as_json:
        action, changeset = ("edit", change.changeset) if change else ("noop", None)
        output.document({"id": memory_id, "action": action, "changeset": changeset, "memory": memory})
    elif change:
        output.table((ID, TEXT), [(memory.id, memory.text)])
        output.say(f"Memory {memory_id} is changed: {', '.join(changes)} (changeset {change.changeset}).")
        _say_redacted([change])
    else:
        output.say("Nothing was changed.")


@command(
    "forget",
    "cofio forget 12",
    "cofio forget 12 13 14 --why outdated",
    "cofio forget 12 --purge          # permanently, including the history",
)
@click.argument("memory_ids", metavar="ID...", type=int, nargs=-1, required=True)
@click.option("--purge", is_flag=True, help="Erase permanently; this cannot be undone.")
@yes_option
@why_option
def forget(session: CliContext, memory_ids: tuple[int, ...], purge: bool, yes: bool, why: str) -> None:
    """Archive memories; `cofio restore` and `cofio undo` restore them."""
    with session.memories() as memories:
        targets = _get_all(memories, memory_ids)
        if purge:
            for memory in targets:
                output.say(f"{memory.id}: {memory.text}")
            number = output.count(len(targets), "memory", "memories")
            if not session.is_confirmed(f"Erase {number} permanently?", yes=yes):
                targets = []
        act = memories.purge if purge else memories.delete
        changes = [(act(memory.id, by=BY, why=why), memory.text) for memory in targets]
    _print_done(session, changes)
    for memory in targets if purge else ():
        # The memory that it was merged into, and those merged into it, may hold the same text.
        merged_ids = (memory.superseded_by, *memory.metadata.get("consolidated_from", ()))
        if others := [str(memory_id) for memory_id in merged_ids if memory_id and memory_id not in memory_ids]:
            merged = f"Memory {memory.id} was merged with {' '.join(others)}"
            output.say(f"{merged}, which may contain the same text; check and purge them too.")


def _get_all(memories: Memories, memory_ids: Iterable[int]) -> list[Memory]:
    """Return the memories: all must exist before any is changed."""
    return [memories.get(memory_id) for memory_id in dict.fromkeys(memory_ids)]


@command("supersede", 'cofio supersede 12 "We moved to Render"', "cofio history 12                # shows both")
@click.argument("memory_id", metavar="ID", type=int)
@click.argument("text")
@why_option
def supersede(session: CliContext, memory_id: int, text: str, why: str) -> None:
    """Replace a memory by a new one; the old one is archived and stays in the history."""
    with session.memories() as memories:
        addition, archival = memories.supersede(memory_id, text, by=BY, why=why)
    memory, changeset = addition.memory, addition.changeset
    ids = {"old_id": archival.memory_id, "new_id": memory.id, "changeset": changeset}
    redacted = {"redacted": list(addition.redacted)} if addition.redacted else {}
    if session.print_json({**ids, "previous_text": memory.previous_text, "memory": memory, **redacted}):
        return
    output.table((ID, TEXT), [(memory.id, memory.text)])
    output.say(f"Memory {memory.id} replaces {memory_id} (changeset {changeset}).")
    _say_redacted([addition])


@command(
    "restore",
    "cofio restore 12",
    "cofio list --archived           # shows what can be restored",
    "cofio restore latest            # a whole backup, after confirmation",
    "cofio restore /mnt/backups/cofio-20260220T064428Z.db",
)
@click.argument("what", metavar="ID...|BACKUP", nargs=-1, required=True)
@click.option("--yes", "-y", is_flag=True, help="Do not ask before a backup replaces the store.")
@why_option
def restore(session: CliContext, what: tuple[str, ...], yes: bool, why: str) -> None:
    """Restore archived memories, or a whole backup.

    BACKUP is a file that `cofio backup` made, a folder of them (its newest is used), or "latest". It replaces the
    store, which is backed up first.
    """
    if not all(word.isdecimal() for word in what):
        if len(what) > 1:
            raise click.UsageError("Give either ids of memories, or one backup and nothing else.")
        from cofio.cli.transfer import restore_backup

        restore_backup(session, what[0], yes=yes)
        return
    with session.memories() as memories:
        targets = _get_all(memories, map(int, what))
        changes = [(memories.restore(memory.id, by=BY, why=why), memory.text) for memory in targets]
    _print_done(session, changes)


def _print_done(session: CliContext, changes: Sequence[tuple[Change, str]]) -> None:
    rows = ((change.memory_id, _DONE.get(change.action, change.action), text) for change, text in changes)
    document = {"results": [_format_done(change) for change, _ in changes]}
    session.print_table(document, (ID, Field("", "green"), TEXT), rows)


def _format_done(change: Change) -> dict[str, Any]:
    return {"id": change.memory_id, "action": change.action, "changeset": change.changeset}


@command("mark-fresh", "cofio mark-fresh 12", 'cofio mark-fresh 12 --why "looked it up in the code"')
@click.argument("memory_ids", metavar="ID...", type=int, nargs=-1, required=True)
@why_option
def mark_fresh(session: CliContext, memory_ids: tuple[int, ...], why: str) -> None:
    """Mark memories as still valid after the code they reference has changed.

    The files, definitions and commands that each memory references are checked again. Only later changes are reported
    from now on.
    """
    with session.memories() as memories:
        targets = _get_all(memories, memory_ids)
        changes = [memories.mark_fresh(memory.id, by=BY, why=why) for memory in targets]
    if session.print_json({"results": [_format_done(change) for change in changes]}):
        return
    output.table((ID, TEXT), ((change.memory_id, change.memory.text) for change in changes))
    for change in changes:
        names = ", ".join(anchor.name for anchor in change.memory.anchors)
        output.say(f"Memory {change.memory_id} is marked as fresh: {names} (changeset {change.changeset}).")


#: In the order of the help.
COMMANDS: tuple[click.Command, ...] = (
    add, search, recall, show, list_, edit, supersede, forget, restore, mark_fresh,
)  # fmt: skip
