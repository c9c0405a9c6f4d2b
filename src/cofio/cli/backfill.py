"""The backfill command: learning from transcripts and notes on disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cofio.cli import output
from cofio.cli.output import Field
from cofio.cli.shared_options import BY, PROJECT, CliContext, Memories, command, ended_in_order, yes_option

if TYPE_CHECKING:
    from cofio.core import Keeper
    from cofio.server.backfill import Survey
    from cofio.transfer.importers import Found

CLIENTS = ("claude-code", "codex")
SAMPLES = 5
_SKIPPED_SHOWN = 5
_NOTES = "notes on disk"  # name of the import


@command(
    "backfill",
    "cofio backfill --dry-run                       # counts turns and estimates the work",
    "cofio backfill --yes",
    "cofio backfill --client codex --since 30d",
    "cofio backfill --project . --limit 200 --no-notes",
)
@click.option("--dry-run", is_flag=True, help="Count turns and estimate the work; no model is called.")
@click.option("--client", type=click.Choice(CLIENTS), help="Only transcripts of this client.")
@click.option("--project", metavar="PROJECT", help=f"Only this project: {PROJECT}.")
@click.option(
    "--since",
    type=output.TimeType(-1),
    metavar="DATE",
    help="Only turns since this time: 2026-02-20, or 7d for 7 days ago.",
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Maximum number of new turns, oldest first.")
@click.option("--no-notes", is_flag=True, help="Do not learn from CLAUDE.md, AGENTS.md and the clients' own memories.")
@yes_option
def backfill(
    session: CliContext,
    dry_run: bool,
    client: str | None,
    project: str | None,
    since: str | None,
    limit: int | None,
    no_notes: bool,
    yes: bool,
) -> None:
    """Learn from the transcripts and notes of Claude Code and Codex on this machine.

    Turns are processed oldest first, so that later facts correct earlier ones. Turns captured before are skipped: run a
    stopped backfill again to continue it. A backfill is one series of changesets and can be undone as one.
    """
    from cofio.client import Client
    from cofio.install.paths import home_of
    from cofio.models.memory import Fact

    filters = {"client": client or "", "project_": session.project(project) if project else "", "since": since or ""}
    homes = {name: home_of(name, session.settings) for name in CLIENTS if client in (None, name)}
    file = session.settings.store_file
    has_store = session.settings.url or not file or file.exists()
    with ExitStack() as stack:
        memories: Memories | None = None
        if has_store or not dry_run:  # a dry run creates no store
            memories = session.memories(new=True)
            stack.enter_context(memories)
        survey = _run_survey(session, memories, homes).within(limit=limit, **filters)
        keeper: Keeper | None = None
        facts: list[Found] = []
        if session.settings.url and not no_notes:
            output.say("Notes are skipped: they can be read only on the machine of the store.")
        elif not no_notes:
            if isinstance(memories, Client):  # notes are imported into the store itself
                keeper = stack.enter_context(session.open_keeper(session.settings))
            else:
                keeper = memories
            facts = _find_facts(homes, survey, filters)
        notes = sum(isinstance(fact, Fact) for fact in facts)
        if keeper and facts:
            notes = keeper.import_facts(facts, name=_NOTES, by=BY, dry_run=True).added
        plan = _make_plan(memories, survey, notes)
        _show(session, plan, survey, dry_run=dry_run)
        if dry_run or memories is None:
            return
        if not (plan["new"] or notes or plan["waiting"]):
            _report_nothing(session, "There are no new turns or notes to learn from.")
            return
        waiting = f", and from {output.count(plan['waiting'], 'turn')} pending from before" if plan["waiting"] else ""
        turns = f"{output.count(plan['new'], 'turn')} and {output.count(notes, 'section')} of notes"
        if session.is_confirmed(f"Learn from {turns}{waiting}?", yes=yes):
            _run(session, memories, survey, keeper, facts if notes else [])
        else:
            _report_nothing(session)


def _run_survey(session: CliContext, memories: Memories | None, homes: Mapping[str, Path]) -> Survey:
    from cofio.server import backfill as filling

    paths, skipped = filling.find(homes)
    with output.progress("Reading", len(paths), hidden=session.as_json) as bar:
        known_turns = partial(memories.turns, any_key=True) if memories else None
        survey = filling.survey(paths, known_turns or (lambda *_: set()), bar.advance)
    return filling.Survey(survey.entries, (*skipped, *survey.skipped))


def _report_nothing(session: CliContext, reason: str = "") -> None:
    if reason:
        output.say(reason)
    if session.as_json:
        output.document({"series": None, "turns": 0, "notes": 0, "waiting": 0, "skipped": []})


def _find_facts(homes: Mapping[str, Path], survey: Survey, filters: Mapping[str, str]) -> list[Found]:
    from cofio.models.memory import Fact
    from cofio.server import backfill as filling

    candidates = filling.note_facts(homes, [entry.project for entry in survey.entries])
    project, since = filters["project_"], filters["since"]
    return [
        fact
        for fact in candidates
        if not isinstance(fact, Fact)
        or (fact.created_at >= since and (not project or project in (fact.project, fact.project.rpartition("/")[2])))
    ]


# ── the plan ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _make_plan(memories: Memories | None, survey: Survey, notes: int) -> dict[str, Any]:
    from cofio.server import backfill as filling

    extraction = memories.extraction() if memories else {}
    limits = memories.llm_usage(limit=1).limits if memories and extraction.get("enabled") else (0, 0)
    dates = [entry.at for entry in survey.entries]
    return {
        "dry_run": True,
        "files": len({entry.path for entry in survey.entries}),
        "turns": len(survey.entries),
        "new": len(survey.new),
        "captured": len(survey.entries) - len(survey.new),
        "waiting": len(filling.waiting_items(memories)) if memories else 0,
        "notes": notes,
        "from": dates[0] if dates else "",
        "to": dates[-1] if dates else "",
        "places": filling.count_entries(survey.entries),
        "estimate": asdict(filling.estimate(survey.new, extraction, limits)),
        "samples": [entry.prompt for entry in survey.new[:: max(1, len(survey.new) // SAMPLES)][:SAMPLES]],
        "skipped": _format_skipped(survey.skipped),
    }


def _show(session: CliContext, plan: Mapping[str, Any], survey: Survey, *, dry_run: bool) -> None:
    if session.as_json:
        if dry_run:
            output.document(plan)
        return
    counts = ("files", "turns", "new", "captured")
    columns = (Field("client"), Field("project", wraps=True), *(Field(name, align="right") for name in counts))
    output.table(columns, ((row["client"], row["project"], *(row[name] for name in counts)) for row in plan["places"]))
    output.say_skipped(survey.skipped, _SKIPPED_SHOWN)
    if plan["turns"]:
        span = f" from {plan['from'][:10]} to {plan['to'][:10]}"
        output.say(
            f"{output.count(plan['files'], 'transcript')}, {output.count(plan['turns'], 'turn')}{span}: "
            f"{plan['new']:,} new, {plan['captured']:,} captured before."
        )
    output.say(f"{output.count(plan['notes'], 'new section')} of notes.")
    for prompt in plan["samples"]:
        output.say(f"  > {prompt}")
    cost = plan["estimate"]
    if cost["provider"]:
        days = f", over {output.count(cost['days'], 'day')} with the daily limits" if cost["days"] > 1 else ""
        calls = f"{output.count(cost['calls'], 'call')} to {cost['provider']} with about {cost['tokens']:,} tokens"
        output.say(f"At most {calls}, about {output.span(cost['seconds'])}{days}.")
    elif cost["seconds"]:
        output.say(f"No language model is configured: about {output.span(cost['seconds'])} on this machine.")


# ── execution ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _run(
    session: CliContext, memories: Memories, survey: Survey, keeper: Keeper | None, facts: Sequence[Found]
) -> None:
    from cofio.server.backfill import BATCH, TurnSender
    from cofio.transfer.importer import ImportResult

    series = memories.begin_backfill(by=BY)
    turns, notes = survey.new, 0
    try:
        with ended_in_order(), output.progress("Learning", len(turns), hidden=session.as_json) as bar:
            room = max(1, min(BATCH, session.settings.inbox_limit // 4))  # leaves room for live captures
            sender = TurnSender(memories, series, _make_worker(memories), bar.advance, _report_stall, batch=room)
            sender.deliver(turns)
        if keeper is not None and facts:
            result = ImportResult(first=series)
            notes = keeper.import_facts(facts, name=_NOTES, by=BY, done=result).added
    except (KeyboardInterrupt, SystemExit):
        output.say(
            f"Results so far are kept: run `cofio backfill` again to continue, or `cofio undo {series}` to revert them."
        )
        raise
    memories.end_backfill(series, by=BY)
    summary = {"series": series, "turns": sender.new, "notes": notes, "waiting": sender.waiting}
    if session.print_json({**summary, "skipped": _format_skipped(sender.skipped)}):
        return
    output.say_skipped(sender.skipped, _SKIPPED_SHOWN)
    learned = f"{output.count(sender.new, 'turn')} and {output.count(notes, 'section')} of notes"
    output.say(f"Learned from {learned}; `cofio undo {series}` reverts it.")
    if sender.waiting:
        output.say(f"{output.count(sender.waiting, 'turn')} still pending: `cofio inbox --state pending` shows why.")


def _make_worker(memories: Memories) -> Callable[[], object]:
    """Return the function that processes pending captures, or waits while a service does so."""
    from cofio.client import Client
    from cofio.server.backfill import pause
    from cofio.server.background.inbox_worker import InboxWorker

    if isinstance(memories, Client):
        return pause
    worker = InboxWorker(memories)

    def work() -> None:
        if not worker.drain():
            pause()

    return work


def _report_stall(reason: str) -> None:
    output.say(f"Waiting: {reason or 'other captures are processed first.'} Ctrl-C is safe: a new run continues.")


def _format_skipped(skipped: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"path": path, "why": reason} for path, reason in skipped]
