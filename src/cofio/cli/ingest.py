"""Commands on conversations: ingest and inbox."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from cofio.cli import output
from cofio.cli.output import ID, TEXT, WHEN, Field
from cofio.cli.shared_options import BY, CliContext, command, ended_in_order, fact_fields, limit_option
from cofio.errors import InvalidInput
from cofio.hooks import transcripts
from cofio.models.exchange import ANALYSIS, OBSERVATION, OPEN, STATES, CaptureStatus, InboxStatus, Item, dialogue
from cofio.models.memory import VISIBILITIES

_ACTION = Field("action", "green")


@command(
    "ingest",
    "cofio ingest notes.md --source claude-code/web",
    "cofio ingest ~/.claude/projects/web/SESSION.jsonl --dry-run",
    "pbpaste | cofio ingest - --source chat",
    "cofio ingest report.txt --source fleet --context analysis",
    'pbpaste | cofio ingest - --observed --intent "How do we sign in?" --session activity-7',
)
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
@fact_fields("source", "project", "agent", "user", "team")
@click.option("--context", default="stop", metavar="EVENT",
              help="Kind of input: stop, an ordinary turn; pre_compact, which extracts more facts; analysis, a report "
              "whose thresholds and patterns become domain knowledge. Default: stop.")  # fmt: skip
@click.option(
    "--observed",
    is_flag=True,
    help="FILE contains an answer that a person has checked; learn from it, as the agent's words.",
)
@click.option("--intent", metavar="TEXT", help="With --observed: the user's question or request that FILE answers.")
@click.option("--session", "activity", metavar="NAME", help="With --observed: session to record with the memories.")
@click.option(
    "--dialogue", metavar="NAME", help="With --observed: id of the dialogue; the same id is processed only once."
)
@click.option(
    "--visibility", type=click.Choice(VISIBILITIES), help="With --observed: who may see the memories. Default: team."
)
@click.option("--dry-run", is_flag=True, help="Show the extracted facts without storing them.")
def ingest_file(
    session: CliContext,
    file: Path,
    about: dict[str, Any],
    context: str,
    observed: bool,
    dry_run: bool,
    **observation: str | None,
) -> None:
    """Extract facts from a FILE: a transcript of Claude Code or Codex, messages as JSON, or text; - is standard input.

    Transcripts are processed turn by turn, and each turn once, even if the file is ingested again. EXTRACT_PROVIDER
    chooses a language model; without one, cofio's own small model (the judgement model) extracts facts.

    With --observed, FILE is the answer in a dialogue that a person has checked. Its facts are kept as the agent's words
    and replace no memory. Its memories have team visibility by default.
    """
    values = {name.replace("activity", "session"): value for name, value in observation.items() if value is not None}
    if observed:
        results = [_observe(session, file, {"visibility": "team", **about, **values}, dry_run=dry_run)]
    elif values:
        raise click.UsageError(f"--{next(iter(values))} works only together with --observed.")
    else:
        results = _ingest_turns(session, file, {**about, "context": context}, dry_run=dry_run)
    _print_results(session, results, dry_run=dry_run)


def _ingest_turns(session: CliContext, file: Path, about: dict[str, Any], *, dry_run: bool) -> list[dict[str, Any]]:
    speaker = "assistant" if about["context"] == ANALYSIS else "user"
    if str(file) == "-":
        with tempfile.NamedTemporaryFile("wb", suffix=".txt") as temporary:
            temporary.write(sys.stdin.buffer.read())
            temporary.flush()
            turns = list(transcripts.read_transcript(Path(temporary.name), speaker=speaker))
    else:
        turns = list(transcripts.read_transcript(file, speaker=speaker))
    if not turns:
        raise InvalidInput(f"{file} contains no messages.", "Give a transcript, messages as JSON, or a text.")
    results = []
    with (
        session.memories(new=not dry_run) as memories,
        ended_in_order(),
        output.progress("Learning", len(turns), hidden=session.as_json) as bar,
    ):
        for turn in turns:
            origin = {**about, "client": turn.client, "session": turn.session, "at": turn.at}
            if dry_run:
                preview = memories.learn(turn.messages, dry_run=True, by=BY, **origin)
                results.append({"turn": turn.turn, **preview.as_dict()})
            else:
                # Without a session a turn is named by its text only, which may occur in another project too.
                name = turn.turn if turn.session else f"{about.get('project') or about.get('source', '')}#{turn.turn}"
                status = memories.capture(turn.messages, wait=True, by=BY, turn=name, **origin)
                results.append(_report_capture(status, turn.turn))
            bar.advance(1)
    return results


def _observe(session: CliContext, file: Path, about: dict[str, Any], *, dry_run: bool) -> dict[str, Any]:
    response = (sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()).decode("utf-8", "replace")
    intent, turn = about.pop("intent", ""), about.pop("dialogue", "")
    with ended_in_order(), session.memories(new=not dry_run) as memories:
        if dry_run:
            messages = dialogue(intent, response)
            preview = memories.learn(messages, dry_run=True, by=BY, context=OBSERVATION, **about)
            return {"turn": turn, **preview.as_dict()}
        return _report_capture(memories.observe(intent, response, wait=True, by=BY, turn=turn, **about), turn)


def _report_capture(status: CaptureStatus, turn: str) -> dict[str, Any]:
    return {"turn": turn, "new": status.new, **status.result, "state": status.state, "reason": status.reason}


def _print_results(session: CliContext, results: Sequence[dict[str, Any]], *, dry_run: bool) -> None:
    new_results = [result for result in results if result.get("new", True)]
    actions = [action for result in new_results for action in result.get("actions", ())]
    if session.as_json:
        output.document({"turns": list(results), "actions": actions, "dry_run": dry_run})
        return
    rows = []
    for action in actions:
        ids = (action[name] for name in ("id", "new_id", "existing_id", "old_id") if action.get(name))
        rows.append((action["action"], next(ids, ""), action["text"], action.get("reason", "")))
    output.table((_ACTION, ID, TEXT, Field("why", "dim", wraps=True)), rows)
    knowledge = (
        (row["action"], row["ref"], row["says"]) for result in new_results for row in result.get("knowledge", ())
    )
    output.table((_ACTION, Field("ref", "cyan", wraps=True), Field("statement", wraps=True)), knowledge)
    counts = Counter(action["action"] for action in actions)
    summary = ", ".join(f"{number} {name}" for name, number in counts.items()) or "no facts found"
    unchanged = " Nothing was changed." if dry_run else ""
    output.say(f"{output.count(len(results), 'turn')}: {summary}.{unchanged}")
    if repeated := len(results) - len(new_results):
        output.say(f"{output.count(repeated, 'turn')} skipped: captured before.")
    if pending := [result for result in results if result.get("state") in OPEN]:
        number = output.count(len(pending), "turn")
        output.say(f"{number} not processed yet: {pending[0]['reason']} See `cofio inbox`.")


@command(
    "inbox",
    "cofio inbox",
    "cofio inbox --state parked       # parked captures, with reasons",
    "cofio inbox --retry 12",
    "cofio inbox --approve 14         # store a memory that is held for review",
)
@click.option("--state", type=click.Choice(STATES), help="List captures in this state.")
@limit_option(20, "captures to list")
@click.option("--retry", "retry_id", metavar="ID", type=int, help="Process this parked or rejected capture again.")
@click.option("--approve", "approve_id", metavar="ID", type=int, help="Store this memory that is held for review.")
@click.option("--discard", "discard_id", metavar="ID", type=int, help="Reject this memory that is held for review.")
def inbox(
    session: CliContext,
    state: str | None,
    limit: int,
    retry_id: int | None,
    approve_id: int | None,
    discard_id: int | None,
) -> None:
    """Show the outcomes of all captures: stored, merged, rejected or pending.

    A capture is one conversation turn that was sent to cofio. A parked one failed repeatedly; --retry processes it
    again. A memory that would manipulate an agent is parked as well: --approve stores it, --discard rejects it.
    """
    from cofio.client import Client

    with session.memories() as memories:
        if retry_id is not None:
            item = memories.retry(retry_id)
            if not isinstance(memories, Client):  # a service has a worker for it
                memories.services.captures.process(item, by=BY)
                item = memories.item(retry_id)
            _print_items(session, [item])
        elif approve_id is not None:
            _print_items(session, [memories.approve_held(approve_id, by=BY)])
        elif discard_id is not None:
            _print_items(session, [memories.discard_held(discard_id)])
        elif state is not None:
            _print_items(session, memories.items(state, limit=limit))  # type: ignore[arg-type]
        else:
            _print_status(session, memories.inbox_status())


def _print_status(session: CliContext, summary: InboxStatus) -> None:
    if session.print_json(summary):
        return
    names = ("captured", "stored", "merged", "rejected", "pending", "parked")
    output.facts_about([(name, str(getattr(summary, name))) for name in names])
    reasons = sorted(summary.reasons.items(), key=lambda pair: (-pair[1], pair[0]))
    if reasons and output.on_terminal():
        output.say("\nReasons for rejections:")
    output.table((Field("captures", "cyan", "right"), Field("reason", wraps=True)), ((n, why) for why, n in reasons))
    if not summary.balanced:
        output.say("The counts do not add up, which is a bug in cofio. Please report it.")
    elif summary.parked:
        output.say(f"{output.count(summary.parked, 'capture')} parked: `cofio inbox --state parked` shows why.")


def _print_items(session: CliContext, items: Sequence[Item]) -> None:
    columns = (ID, WHEN, Field("state", "green"), Field("tries", "", "right"), Field("said", wraps=True),
               Field("reason", "dim", wraps=True))  # fmt: skip
    rows = []
    for item in items:
        text = "(forgotten)"
        if item.exchange:
            text = " / ".join(message.text for message in item.exchange.messages)
        text = text if len(text) <= 120 else text[:119] + "…"
        rows.append((item.id, output.when(item.received_at), item.state, item.attempts, text, item.reason))
    session.print_table({"items": items}, columns, rows, "There are no captures in this state.")
