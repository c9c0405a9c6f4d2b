"""Commands on conversations: extract, observe, ledger."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from cofio.cli import output
from cofio.cli.output import ID, TEXT, WHEN, Field
from cofio.cli.shared_options import BY, PROJECT, CliContext, Memories, command, ended_in_order
from cofio.errors import InvalidInput
from cofio.hooks import transcripts
from cofio.hooks.transcripts import TranscriptTurn
from cofio.models.exchange import ANALYSIS, OBSERVATION, OPEN, STATES, CaptureStatus, Item, Ledger, dialogue
from cofio.models.memory import VISIBILITIES

# ── extract ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@command(
    "ingest",
    "cofio ingest notes.md --source claude-code/web",
    "cofio ingest ~/.claude/projects/web/SESSION.jsonl --dry-run",
    "pbpaste | cofio ingest - --source chat",
    "cofio ingest report.txt --source fleet --context analysis",
)
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
@click.option("--source", default="", metavar="SOURCE", help="Source of the memories: client/project.")
@click.option("--project", default="", metavar="PROJECT", help=f"Project of the memories: {PROJECT}.")
@click.option(
    "--context",
    default="stop",
    metavar="EVENT",
    help="pre_compact reads more thoroughly; analysis reads an agent's report for domain knowledge.",
)
@click.option("--agent", default="", metavar="NAME", help="Agent that the memories are stored for.")
@click.option("--user", default="", metavar="NAME", help="User that the memories are stored for.")
@click.option("--team", default="", metavar="NAME", help="Team that the memories are stored for.")
@click.option("--dry-run", is_flag=True, help="Show the extracted facts without storing them.")
def ingest_file(session: CliContext, file: Path, dry_run: bool, **about: str) -> None:
    """Extract facts from a FILE: a transcript of Claude Code or Codex, messages as JSON, or text; - is standard input.

    Transcripts are processed turn by turn, and each turn once, even if it is given again. EXTRACT_PROVIDER sets a
    language model; without one, the judgement model extracts facts.
    """
    about["project"] = session.project(about["project"])
    with _open_readable(file) as path:
        turns = list(transcripts.read_transcript(path, speaker="assistant" if about["context"] == ANALYSIS else "user"))
    if not turns:
        raise InvalidInput(f"{file} contains no messages.", "Give a transcript, messages as JSON, or a text.")
    with session.memories(new=not dry_run) as memories:
        results = []
        with ended_in_order(), output.progress("Learning", len(turns), hidden=session.as_json) as advance:
            for turn in turns:
                results.append(_learn(memories, turn, about, dry_run=dry_run))
                advance(1)
    _tell(session, results, dry_run=dry_run)


@contextmanager
def _open_readable(file: Path) -> Iterator[Path]:
    """Yield the file, or a temporary file with the standard input."""
    if str(file) != "-":
        yield file
        return
    with tempfile.NamedTemporaryFile("wb", suffix=".txt") as temporary:
        temporary.write(sys.stdin.buffer.read())
        temporary.flush()
        yield Path(temporary.name)


def _learn(memories: Memories, turn: TranscriptTurn, about: dict[str, Any], *, dry_run: bool) -> dict[str, Any]:
    """Return the result of learning a turn, or its preview."""
    origin = {**about, "client": turn.client, "session": turn.session, "at": turn.at}
    if dry_run:
        return {"turn": turn.turn, **memories.learn(turn.messages, dry_run=True, by=BY, **origin).as_dict()}
    # Without a session a turn is named by its text only, which may occur in another project too.
    name = turn.turn if turn.session else f"{about['project'] or about['source']}#{turn.turn}"
    return _report_capture(memories.capture(turn.messages, wait=True, by=BY, turn=name, **origin), turn.turn)


def _report_capture(status: CaptureStatus, turn: str) -> dict[str, Any]:
    return {
        "turn": turn,
        "new": status.new,
        **status.result,
        "state": status.state,
        "reason": status.reason,
    }


def _tell(session: CliContext, results: Sequence[dict[str, Any]], *, dry_run: bool) -> None:
    actions = [action for result in results for action in result.get("actions", ()) if result.get("new", True)]
    if session.as_json:
        output.document({"turns": list(results), "actions": actions, "dry_run": dry_run})
        return
    columns = (Field("action", "green"), ID, TEXT, Field("why", "dim", wraps=True))
    output.table(
        columns, ((action["action"], _find_id(action), action["text"], action.get("reason", "")) for action in actions)
    )
    _tell_rows(results)
    _sum_up(results, actions, dry_run=dry_run)


def _tell_rows(results: Sequence[dict[str, Any]]) -> None:
    """Print the results for rows of domain knowledge."""
    rows = [row for result in results for row in result.get("knowledge", ()) if result.get("new", True)]
    columns = (Field("action", "green"), Field("ref", "cyan", wraps=True), Field("statement", wraps=True))
    output.table(columns, ((row["action"], row["ref"], row["says"]) for row in rows))


def _sum_up(results: Sequence[dict[str, Any]], actions: Sequence[dict[str, Any]], *, dry_run: bool) -> None:
    counts = Counter(action["action"] for action in actions)
    repeated = sum(not result.get("new", True) for result in results)
    waiting = sum(result.get("state") in OPEN for result in results)
    did = ", ".join(f"{number} {name}" for name, number in counts.items()) or "nothing to keep"
    output.say(f"{output.count(len(results), 'turn')}: {did}.{' Nothing was changed.' if dry_run else ''}")
    if repeated:
        output.say(f"{output.count(repeated, 'turn')} captured before.")
    if waiting:
        reason = next(result["reason"] for result in results if result.get("state") in OPEN)
        output.say(f"{output.count(waiting, 'turn')} not processed yet: {reason} See `cofio ledger`.")


def _find_id(action: dict[str, Any]) -> int | str:
    return next((action[name] for name in ("id", "new_id", "existing_id", "old_id") if action.get(name)), "")


# ── observe ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@command(
    "observe",
    'cofio observe "We switched from JWT to Clerk" --intent "How do we sign in?" --session activity-7',
    "pbpaste | cofio observe - --agent agent-1 --dry-run",
)
@click.argument("response")
@click.option("--intent", default="", metavar="TEXT", help="The user's confirmed intent.")
@click.option(
    "--session", "activity", default="", metavar="NAME", help="Name of the activity that was observed, for the history."
)
@click.option(
    "--dialogue",
    "named",
    default="",
    metavar="NAME",
    help="Name of the dialogue in the session, used as idempotency key.",
)
@click.option("--source", default="", metavar="SOURCE", help="Source of the memories: client/project.")
@click.option("--project", default="", metavar="PROJECT", help=f"Project of the memories: {PROJECT}.")
@click.option("--agent", default="", metavar="NAME", help="Agent that the memories are stored for.")
@click.option("--user", default="", metavar="NAME", help="User that the memories are stored for.")
@click.option("--team", default="", metavar="NAME", help="Team that the memories are stored for.")
@click.option(
    "--visibility",
    type=click.Choice(VISIBILITIES),
    default="team",
    show_default=True,
    help="Visibility of the stored memories.",
)
@click.option("--dry-run", is_flag=True, help="Show the extracted facts without storing them.")
def observe(
    session: CliContext, response: str, intent: str, activity: str, named: str, dry_run: bool, **about: Any
) -> None:
    """Learn from an observed dialogue: a response and the user's intent.

    The RESPONSE is treated like the user's own words; - is standard input. Memories have team visibility by default,
    and record the activity.
    """
    response = sys.stdin.buffer.read().decode("utf-8", "replace") if response == "-" else response
    messages = dialogue(intent, response)
    about = {**about, "project": session.project(about["project"]), "session": activity}
    with ended_in_order(), session.memories(new=not dry_run) as memories:
        if dry_run:
            extraction = memories.learn(messages, dry_run=True, by=BY, context=OBSERVATION, **about)
            result = {"turn": named, **extraction.as_dict()}
        else:
            result = _report_capture(memories.observe(intent, response, wait=True, by=BY, turn=named, **about), named)
    _tell(session, [result], dry_run=dry_run)


# ── ledger ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@command(
    "ledger",
    "cofio ledger",
    "cofio ledger --state parked      # parked captures, with reasons",
    "cofio ledger --retry 12",
)
@click.option("--state", type=click.Choice(STATES), help="List captures in this state.")
@click.option("-n", "--limit", type=int, default=20, show_default=True, help="Maximum number of captures to list.")
@click.option("--retry", "retried", metavar="ID", type=int, help="Retry a parked or rejected capture.")
def ledger(session: CliContext, state: str | None, limit: int, retried: int | None) -> None:
    """Show the outcomes of all captures: stored, merged, rejected or pending."""
    with session.memories() as memories:
        if retried is not None:
            _tell_items(session, [_retry(memories, retried)])
        elif state is not None:
            _tell_items(session, memories.items(state, limit=limit))  # type: ignore[arg-type]
        else:
            _tell_ledger(session, memories.ledger())


def _retry(memories: Memories, item_id: int) -> Item:
    """Retry an item: through the service's worker, or directly without a service."""
    item = memories.retry(item_id)
    if hasattr(memories, "attempt"):
        memories.attempt(item, by=BY)
        return memories.item(item_id)
    return item


def _tell_ledger(session: CliContext, summary: Ledger) -> None:
    if session.as_json:
        output.document(summary.as_dict())
        return
    names = ("captured", "stored", "merged", "rejected", "pending", "parked")
    output.facts_about([(name, str(getattr(summary, name))) for name in names])
    reasons = sorted(summary.reasons.items(), key=lambda pair: (-pair[1], pair[0]))
    if reasons and output.on_terminal():
        output.say("\nReasons of rejections:")
    output.table((Field("captures", "cyan", "right"), Field("reason", wraps=True)), ((n, why) for why, n in reasons))
    if not summary.balanced:
        output.say("The ledger does not balance: please report it.")
    elif summary.parked:
        output.say(f"{output.count(summary.parked, 'capture')} parked: `cofio ledger --state parked` shows why.")


def _tell_items(session: CliContext, items: Sequence[Item]) -> None:
    if session.as_json:
        output.document({"items": [item.as_dict() for item in items]})
        return
    columns = (ID, WHEN, Field("state", "green"), Field("tries", "", "right"), Field("said", wraps=True),
               Field("reason", "dim", wraps=True))  # fmt: skip
    output.table(
        columns,
        (
            (item.id, output.when(item.received_at), item.state, item.attempts, _shorten_item(item), item.reason)
            for item in items
        ),
    )
    if not items:
        output.say("There are no captures in this state.")


def _shorten_item(item: Item) -> str:
    """Return the beginning of the captured text."""
    if item.exchange is None:
        return "(forgotten)"
    text = " / ".join(message.text for message in item.exchange.messages)
    return text if len(text) <= 120 else text[:119] + "…"
