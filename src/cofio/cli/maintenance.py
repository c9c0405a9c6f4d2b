"""Maintenance commands: consolidate, prune, usage, runs, audit."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Literal

import click

from cofio.cli import output
from cofio.cli.output import ID, SOURCE, TEXT, WHEN, Field
from cofio.cli.shared_options import (
    BY,
    CliContext,
    Memories,
    command,
    ended_in_order,
    limit_option,
    why_option,
    within,
    yes_option,
)
from cofio.errors import NotFound
from cofio.models.llm_calls import LLMCall, LLMTotal
from cofio.models.maintenance import ARCHIVABLE, CHORES, VIEWS, Finding, MaintenancePlan, View
from cofio.models.memory import Delete, Merge

_WHY = Field("why", "dim", wraps=True)


@command(
    "consolidate",
    "cofio consolidate                # shows planned and refused merges",
    "cofio consolidate --source-prefix acme/web",
    "cofio consolidate --apply",
)
@click.option(
    "--source-prefix", default="", metavar="SOURCE", help="Only memories of this source and of sources below it."
)
@click.option("--apply", is_flag=True, help="Apply the merges; default: only show them.")
@why_option
def consolidate(session: CliContext, source_prefix: str, apply: bool, why: str) -> None:
    """Merge related memories.

    Without a language model only duplicates are merged; with one, clusters of related memories become one or two facts.
    A merge is refused if it would lose a number, a name or a negation, or if searches would no longer find the fact.
    """
    with ended_in_order(), session.memories() as memories:
        plan = memories.consolidate(dry_run=not apply, source_prefix=source_prefix, by=BY, why=why)
        _print_plan(session, memories, plan, "merged", "There is nothing to merge.")


@command("prune", "cofio prune                      # shows what would be archived", "cofio prune --apply")
@click.option("--apply", is_flag=True, help="Archive the memories; default: only show them.")
@why_option
def prune(session: CliContext, apply: bool, why: str) -> None:
    """Archive memories that have not been recalled for a long time.

    By default, memories of the category detail are archived after 60 days, those of decision and learning after 120,
    pinned ones never. Nothing is archived before recalls have been logged for that long.
    """
    with ended_in_order(), session.memories() as memories:
        plan = memories.prune(dry_run=not apply, by=BY, why=why)
        _print_plan(session, memories, plan, "archived", "There is nothing to archive.")


def _print_plan(session: CliContext, memories: Memories, plan: MaintenancePlan, outcome: str, empty: str) -> None:
    if session.print_json(plan):
        return
    decisions = [decision for decision in plan.decisions if isinstance(decision, Merge | Delete)]
    texts = _read_texts(memories, decisions, plan)
    rows = []
    for decision in decisions:
        if isinstance(decision, Merge):
            replacement = decision.fact.text
        else:
            replacement = f"{decision.into}: {texts[decision.into]}" if decision.into else ""
        rows += [(memory_id, texts[memory_id], replacement, decision.reason) for memory_id in _list_ids(decision)]
    output.table((ID, TEXT, Field("becomes", wraps=True), _WHY), rows)
    if plan.refused:
        output.say(f"{output.count(len(plan.refused), 'proposed change')} refused:")
        refusals = (
            (refusal.ids, " / ".join(texts[memory_id] for memory_id in refusal.ids if texts[memory_id]), refusal.reason)
            for refusal in plan.refused
        )
        output.table((ID, TEXT, _WHY), refusals)
    if plan.note:
        output.say(plan.note)
    number = output.count(sum(len(_list_ids(decision)) for decision in decisions), "memory", "memories")
    if not plan.decisions:
        output.say(empty)
    elif plan.changeset:
        output.say(f"{number} {outcome}; `cofio undo {plan.changeset.id}` reverts it.")
    else:
        output.say(f"{number} would be {outcome}; `cofio {plan.chore} --apply` does it.")


def _list_ids(decision: Merge | Delete) -> tuple[int, ...]:
    return decision.ids if isinstance(decision, Merge) else (decision.id,)


def _read_texts(memories: Memories, decisions: Sequence[Merge | Delete], plan: MaintenancePlan) -> dict[int, str]:
    """Return the texts of the memories in the plan; "" for a memory that was purged meanwhile."""
    ids = {memory_id for decision in decisions for memory_id in _list_ids(decision)}
    ids |= {decision.into for decision in decisions if isinstance(decision, Delete) and decision.into}
    ids |= {memory_id for refusal in plan.refused for memory_id in refusal.ids}
    texts = dict.fromkeys(sorted(ids), "")
    for memory_id in texts:
        with suppress(NotFound):
            texts[memory_id] = memories.get(memory_id).text
    return texts


@command(
    "usage",
    "cofio usage                      # most recalled memories",
    "cofio usage never --category detail",
    "cofio usage stale --days 30",
    "cofio usage llm                  # calls of the language model by provider",
    "cofio usage llm --call 12        # request and reply of one call",
)
@click.argument("view", type=click.Choice((*VIEWS, "llm")), default="most")
@click.option(
    "--days", type=click.IntRange(0, 36_500), default=90, show_default=True, help="With stale: days without a recall."
)
@limit_option(50, "results")
@click.option(
    "--call", type=int, metavar="ID", help="With llm: id of a call whose request and reply are shown, without secrets."
)
@within
def usage(
    session: CliContext, view: View | Literal["llm"], days: int, limit: int, call: int | None, within: dict[str, Any]
) -> None:
    """List memories by how often they were recalled, or the calls of the language model.

    VIEW is most (recalled most often), never (not recalled yet), stale (not recalled for --days days) or llm (calls of
    the language model).
    """
    if call is not None and view != "llm":
        raise click.UsageError("--call works only with the view llm: `cofio usage llm --call ID`.")
    if view == "llm":
        _show_llm_usage(session, limit) if call is None else _show_llm_call(session, call)
        return
    with session.memories() as memories:
        memories_used = memories.usage(view, limit=limit, days=days, **within)
    columns = (ID, TEXT, Field("recalled", align="right"), Field("last", "dim"), Field("made", "dim"), SOURCE)
    rows = (
        (m.id, m.text, m.retrieval_count, output.when(m.last_retrieved_at), output.when(m.created_at), m.source)
        for m in memories_used
    )
    document = {"view": view, "memories": memories_used}
    session.print_table(document, columns, rows, "No memories match this view and these filters.")


def _show_llm_call(session: CliContext, call: int) -> None:
    with session.memories() as memories:
        record = memories.llm_call(call).as_dict()
    session.print_facts(record)
    if not session.as_json and not record["request"]:
        output.say(
            "The request and reply of this call are not stored; llm_text_days sets for how many days they are kept."
        )


def _show_llm_usage(session: CliContext, limit: int) -> None:
    with session.memories() as memories:
        usage = memories.llm_usage(limit=limit)
    if session.print_json(usage):
        return
    counts = [Field(name, align="right") for name in ("calls", "failed", "characters", "tokens in", "tokens out")]
    names = [Field(name) for name in ("period", "provider", "model", "client", "session", "project")]
    rows = []
    for days, models, sessions in usage.periods:
        totals = [(total, ("all", "all", "all")) for total in models]
        totals += [(total, (total.client or "-", total.session or "-", total.project or "-")) for total in sessions]
        for total, origin in totals:
            period = "today" if days == 1 else f"{days} days"
            rows.append((period, total.provider, total.model, *origin, *_format_counts(total)))
    output.table((*names, *counts), rows)
    columns = [Field(name) for name in ("model", "purpose", "session", "outcome")]
    calls = (
        (call.id, output.when(call.at), call.model, call.purpose, call.session, call.outcome, *_format_counts(call))
        for call in usage.calls
    )
    output.table((ID, Field("at", "dim"), *columns, *counts[2:]), calls)
    limits = [f"limit: {limit:,}" if limit else "no limit" for limit in usage.limits]
    output.say(f"Today: {usage.today.calls:,} calls ({limits[0]}), {usage.today.tokens:,} tokens ({limits[1]}).")
    if usage.is_spent:
        output.say(f"The daily limit of the language model is reached; captures wait until {usage.resets_at[:16]} UTC.")


def _format_counts(record: LLMTotal | LLMCall) -> tuple[int, ...]:
    calls = (record.calls, record.failed) if isinstance(record, LLMTotal) else ()
    return (*calls, record.characters, record.input_tokens, record.output_tokens)


@command("runs", "cofio runs", "cofio runs --chore prune --json")
@click.option("--chore", type=click.Choice(CHORES), help="Only runs of this maintenance task.")
@limit_option(20, "runs")
def runs(session: CliContext, chore: str | None, limit: int) -> None:
    """List maintenance runs with their outcomes, newest first."""
    with session.memories() as memories:
        past_runs = memories.runs(limit=limit, chore=chore or "")
    columns = (ID, Field("chore"), Field("started", "dim"), Field("outcome", "cyan"), Field("changeset", align="right"),
               Field("by", "dim"), Field("details", wraps=True))  # fmt: skip
    rows = []
    for run in past_runs:
        counts = [f"{run.details[name]:,} {name}" for name in ("decisions", "refused") if run.details.get(name)]
        parts = (", ".join(counts), run.details.get("error"), run.details.get("note"))
        details = "; ".join(str(part) for part in parts if part)
        started_at = output.when(run.started_at)
        rows.append((run.id, run.chore, started_at, run.outcome, run.changeset or "", run.by, details))
    empty = "No maintenance runs were found; MAINTENANCE_ENABLED=true schedules maintenance."
    session.print_table({"runs": past_runs}, columns, rows, empty)


# ── audit ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

#: Advice for each finding.
NEXT = {
    "secrets": "Replace the secret where it is used; then erase it here, history included: `cofio forget ID --purge`.",
    "manipulation": "`cofio audit --archive manipulation` archives them.",
    "untrusted_rules": "`cofio supersede ID TEXT` confirms one in your own words; `cofio forget ID` archives it.",
    "future_dates": "`cofio audit --archive future_dates` archives them.",
    "imitating_sources": "`cofio undo --learned-from SOURCE` undoes all that was learned from a source.",
    "exact_duplicates": "`cofio dedup` shows what would be merged, `cofio dedup --apply` merges it.",
    "near_duplicates": "`cofio dedup` and `cofio consolidate` show what would be merged; with --apply they do it.",
    "contradictions": "`cofio forget ID` archives the wrong memory, `cofio supersede ID TEXT` corrects it.",
    "echoes": "`cofio forget ID` archives a memory that only repeats what cofio had shown to the agent.",
    "stale_anchors": "`cofio mark-fresh ID` if it is still true, else `cofio supersede ID TEXT` or `cofio forget ID`.",
    "never_recalled": "`cofio prune` shows what would be archived; `cofio edit ID --pin` keeps a memory permanently.",
    "unembedded": "`cofio reembed --missing` computes the vectors.",
    "oversized": "`cofio supersede ID TEXT` replaces the long text by a short fact.",
}
#: Findings that --strict treats as failures.
SEVERE = ("secrets", "exact_duplicates", "contradictions")
_FAILED = 1


@command(
    "audit",
    "cofio audit",
    "cofio audit --examples 20 --json",
    "cofio audit --strict             # fails on secrets, exact duplicates or contradictions",
    "cofio audit --archive manipulation --archive future_dates",
)
@click.option("--examples", type=click.IntRange(0, 100), default=5, show_default=True,
              help="Maximum number of examples of each finding.")  # fmt: skip
@click.option("--strict", is_flag=True, help=f"Exit with code {_FAILED} if any of these is found: {', '.join(SEVERE)}.")
@click.option("--archive", multiple=True, type=click.Choice(ARCHIVABLE),
              help="Archive all memories of this finding in one changeset; can be repeated.")  # fmt: skip
@yes_option
def audit(session: CliContext, examples: int, strict: bool, archive: tuple[str, ...], yes: bool) -> None:
    """Audit the store: suspicious memories, secrets, duplicates, contradictions, stale and unused memories.

    Echoes are memories that only repeat text that an agent was shown. Nothing is changed without --archive, and secrets
    are not printed.
    """
    from cofio.client import Client

    if archive:
        _archive_findings(session, archive, yes=yes)
        return
    with session.memories() as memories:
        is_remote = isinstance(memories, Client)  # a service reports no progress
        with output.progress("Auditing", 100, hidden=session.as_json or is_remote) as bar:
            report = memories.audit(examples=examples, progress=lambda done, _: bar.move_to(done))
    if not session.print_json(report):
        columns = (Field("finding", "cyan"), Field("count", align="right"), Field("meaning", "dim", wraps=True))
        output.table(columns, ((_format_title(finding), finding.count, finding.says) for finding in report.findings))
        for finding in report.findings:
            if finding.count and finding.examples:
                _print_examples(finding)
        if report.note:
            output.say(report.note)
        number = output.count(report.memories, "memory", "memories")
        is_clean = not any(finding.count for finding in report.findings)
        outcome = "nothing was found" if is_clean else "the audit changed nothing"
        output.say(f"{number} checked; {outcome}.")
    if strict and any(finding.count for finding in report.findings if finding.name in SEVERE):
        sys.exit(_FAILED)


def _archive_findings(session: CliContext, findings: tuple[str, ...], *, yes: bool) -> None:
    with session.memories() as memories:
        plan = memories.archive_findings(findings, by=BY)
        if not session.as_json:
            rows = ((row["id"], row["text"], row["reason"]) for row in plan.decisions)
            output.table((ID, TEXT, Field("why", "dim", wraps=True)), rows)
        number = output.count(len(plan.decisions), "memory", "memories")
        if plan.decisions and session.is_confirmed(f"Archive {number}?", yes=yes):
            plan = memories.archive_findings(findings, dry_run=False, by=BY)
    if session.print_json(plan):
        return
    if plan.changeset:
        output.say(f"{number} archived; `cofio undo {plan.changeset}` restores them.")
    elif not plan.decisions:
        output.say("Nothing was found.")


def _print_examples(finding: Finding) -> None:
    """Print each example with one line per memory; only the first line has the reason."""
    rows = [
        (memory_id, text, output.when(at), "" if number and output.on_terminal() else example["reason"])
        for example in finding.examples
        for number, (memory_id, text, at) in enumerate(
            zip(example["ids"], example["texts"], example["created_at"], strict=True)
        )
    ]
    if not output.on_terminal():  # no headings in this format: print the name on each line
        output.table((), ((finding.name, *row) for row in rows))
        return
    click.echo()
    heading = f"{_format_title(finding)}: {len(finding.examples):,} of {finding.count:,}"
    output.table((ID, Field(heading, wraps=True), WHEN, Field("why", "dim", wraps=True)), rows)
    output.say(NEXT[finding.name])


def _format_title(finding: Finding) -> str:
    return finding.name.replace("_", " ") if output.on_terminal() else finding.name
