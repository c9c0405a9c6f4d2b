"""Commands on conversations: ingest and inbox."""

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
from cofio.models.exchange import ANALYSIS, OBSERVATION, OPEN, STATES, CaptureStatus, InboxStatus, Item
from cofio.models.exchange import dialogue as dialogue_messages
from cofio.models.memory import VISIBILITIES


@command(
    "ingest",
    "cofio ingest notes.md --source claude-code/web",
    "cofio ingest ~/.claude/projects/web/SESSION.jsonl --dry-run",
    "pbpaste | cofio ingest - --source chat",
    "cofio ingest report.txt --source fleet --context analysis",
    'pbpaste | cofio ingest - --observed --intent "How do we sign in?" --session activity-7',
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
@click.option("--observed", is_flag=True, help="FILE is the response of an observed dialogue.")
@click.option("--intent", metavar="TEXT", help="With --observed: the user's confirmed intent.")
@click.option("--session", "activity", metavar="NAME", help="With --observed: name of the activity, for the history.")
@click.option(
    "--dialogue",
    metavar="NAME",
    help="With --observed: name of the dialogue; a name is processed once.",
)
@click.option(
    "--visibility", type=click.Choice(VISIBILITIES), help="With --observed: who may see the memories. Default: team."
)
@click.option("--dry-run", is_flag=True, help="Show the extracted facts without storing them.")
def ingest_file(
    session: CliContext,
    file: Path,
    observed: bool,
    intent: str | None,
    activity: str | None,
    dialogue: str | None,
    visibility: str | None,
    dry_run: bool,
    **about: str,
) -> None:
    """Extract facts from a FILE: a transcript of Claude Code or Codex, messages as JSON, or text; - is standard input.

    Transcripts are processed turn by turn, and each turn once, even if the file is ingested again. EXTRACT_PROVIDER
    sets a language model; without one, the judgement model extracts facts.

    With --observed, FILE is what was answered in a dialogue that a person has checked. It is treated like the user's
    own words; its memories have team visibility by default, and record the activity.
    """
    about["project"] = session.project(about["project"])
    observation = {"intent": intent, "session": activity, "dialogue": dialogue, "visibility": visibility}
    if observed:
        about.pop("context")
        values = {name: value or "" for name, value in observation.items()}
        results = [_observe(session, file, {**values, "visibility": visibility or "team"}, about, dry_run=dry_run)]
    elif used := next((name for name, value in observation.items() if value is not None), ""):
        raise click.UsageError(f"--{used} requires --observed.")
    else:
        results = _ingest_turns(session, file, about, dry_run=dry_run)
    _tell(session, results, dry_run=dry_run)


def _ingest_turns(session: CliContext, file: Path, about: dict[str, Any], *, dry_run: bool) -> list[dict[str, Any]]:
    with _open_readable(file) as path:
        turns = list(transcripts.read_transcript(path, speaker="assistant" if about["context"] == ANALYSIS else "user"))
    if not turns:
        raise InvalidInput(f"{file} contains no messages.", "Give a transcript, messages as JSON, or a text.")
    results = []
    with (
        session.memories(new=not dry_run) as memories,
        ended_in_order(),
        output.progress("Learning", len(turns), hidden=session.as_json) as advance,
    ):
        for turn in turns:
            results.append(_learn(memories, turn, about, dry_run=dry_run))
            advance(1)
    return results


def _observe(
    session: CliContext, file: Path, observation: dict[str, str], about: dict[str, Any], *, dry_run: bool
) -> dict[str, Any]:
    """Return the result of learning from an observed dialogue, or its preview."""
    response = (sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()).decode("utf-8", "replace")
    intent, turn = observation.pop("intent"), observation.pop("dialogue")
    about = {**about, **observation}
    messages = dialogue_messages(intent, response)
    with ended_in_order(), session.memories(new=not dry_run) as memories:
        if dry_run:
            preview = memories.learn(messages, dry_run=True, by=BY, context=OBSERVATION, **about)
            return {"turn": turn, **preview.as_dict()}
        return _report_capture(memories.observe(intent, response, wait=True, by=BY, turn=turn, **about), turn)


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
        output.say(f"{output.count(waiting, 'turn')} not processed yet: {reason} See `cofio inbox`.")


def _find_id(action: dict[str, Any]) -> int | str:
    return next((action[name] for name in ("id", "new_id", "existing_id", "old_id") if action.get(name)), "")


# ── inbox ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@command(
    "inbox",
    "cofio inbox",
    "cofio inbox --state parked       # parked captures, with reasons",
    "cofio inbox --retry 12",
)
@click.option("--state", type=click.Choice(STATES), help="List captures in this state.")
@click.option("-n", "--limit", type=int, default=20, show_default=True, help="Maximum number of captures to list.")
@click.option("--retry", "retried", metavar="ID", type=int, help="Retry a parked or rejected capture.")
def inbox(session: CliContext, state: str | None, limit: int, retried: int | None) -> None:
    """Show the outcomes of all captures: stored, merged, rejected or pending."""
    with session.memories() as memories:
        if retried is not None:
            _tell_items(session, [_retry(memories, retried)])
        elif state is not None:
            _tell_items(session, memories.items(state, limit=limit))  # type: ignore[arg-type]
        else:
            _tell_status(session, memories.inbox_status())


def _retry(memories: Memories, item_id: int) -> Item:
    """Retry an item: through the service's worker, or directly without a service."""
    item = memories.retry(item_id)
    if hasattr(memories, "attempt"):
        memories.attempt(item, by=BY)
        return memories.item(item_id)
    return item


def _tell_status(session: CliContext, summary: InboxStatus) -> None:
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
        output.say("The counts do not add up, which is a bug in cofio. Please report it.")
    elif summary.parked:
        output.say(f"{output.count(summary.parked, 'capture')} parked: `cofio inbox --state parked` shows why.")


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
