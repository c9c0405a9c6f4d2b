"""Maintenance commands: consolidate, prune, usage, runs."""

from __future__ import annotations

from typing import Any, Literal

import click

from cofio.cli import output
from cofio.cli.output import ID, SOURCE, TEXT, Field
from cofio.cli.shared_options import BY, CliContext, Memories, command, ended_in_order, within
from cofio.errors import NotFound
from cofio.models.llm_calls import LLMCall, LLMTotal
from cofio.models.maintenance import CHORES, VIEWS, MaintenancePlan, MaintenanceRun, View
from cofio.models.memory import Decision, Delete, Merge

_WHY = Field("why", "dim", wraps=True)

# ── consolidate, prune ────────────────────────────────────────────────────────────────────────────────────────────────


@command(
    "consolidate",
    "cofio consolidate                # shows planned and refused merges",
    "cofio consolidate --source-prefix acme/web",
    "cofio consolidate --apply",
)
@click.option("--source-prefix", default="", metavar="SOURCE", help="Only this source and those below it.")
@click.option("--apply", is_flag=True, help="Apply the merges; default: only show them.")
@click.option("--why", default="", metavar="TEXT", help="Reason recorded in the history.")
def consolidate(session: CliContext, source_prefix: str, apply: bool, why: str) -> None:
    """Merge related memories.

    Without a language model only duplicates are merged; with one, clusters of related memories become one or two facts.
    A merge is refused if it would lose a number, a name or a negation, or if searches would no longer find the fact.
    """
    with ended_in_order(), session.memories() as memories:
        plan = memories.consolidate(dry_run=not apply, source_prefix=source_prefix, by=BY, why=why)
        _tell(session, memories, plan, ("merged", "There is nothing to merge."))


@command(
    "prune",
    "cofio prune                      # shows what would be archived",
    "cofio prune --apply",
)
@click.option("--apply", is_flag=True, help="Archive them; default: only show them.")
@click.option("--why", default="", metavar="TEXT", help="Reason recorded in the history.")
def prune(session: CliContext, apply: bool, why: str) -> None:
    """Archive memories that have not been recalled for a long time.

    Details are archived after 60 days, decisions and learnings after 120, pinned memories never. Nothing is pruned
    before retrievals have been logged for that long.
    """
    with ended_in_order(), session.memories() as memories:
        plan = memories.prune(dry_run=not apply, by=BY, why=why)
        _tell(session, memories, plan, ("archived", "There is nothing to archive."))


def _tell(session: CliContext, memories: Memories, plan: MaintenancePlan, words: tuple[str, str]) -> None:
    if session.as_json:
        output.document(plan.as_dict())
        return
    outcome, nothing = words
    texts = _read_texts(memories, plan)
    output.table(
        (ID, TEXT, Field("becomes", wraps=True), _WHY),
        (row for d in plan.decisions for row in _format_decision(d, texts)),
    )
    if plan.refused:
        output.say(f"{output.count(len(plan.refused), 'proposal')} refused:")
        output.table(
            (ID, TEXT, _WHY),
            ((_join_ids(r.ids), " / ".join(_pick_texts(r.ids, texts)), r.reason) for r in plan.refused),
        )
    if plan.note:
        output.say(plan.note)
    number = output.count(sum(len(_list_ids(decision)) for decision in plan.decisions), "memory", "memories")
    if not plan.decisions:
        output.say(nothing)
    elif plan.changeset:
        output.say(f"{number} {outcome}; `cofio undo {plan.changeset.id}` reverts it.")
    else:
        output.say(f"{number} would be {outcome}; `cofio {plan.chore} --apply` does it.")


def _format_decision(decision: Decision, texts: dict[int, str]) -> list[tuple[Any, ...]]:
    """Return one row per removed memory: its text, and the text that replaces it."""
    if isinstance(decision, Merge):
        return [
            (memory_id, texts.get(memory_id, ""), decision.fact.text, decision.reason) for memory_id in decision.ids
        ]
    if isinstance(decision, Delete):
        heir = f"{decision.into}: {texts.get(decision.into, '')}" if decision.into else ""
        return [(decision.id, texts.get(decision.id, ""), heir, decision.reason)]
    return []


def _list_ids(decision: Decision) -> tuple[int, ...]:
    return decision.ids if isinstance(decision, Merge) else (decision.id,) if isinstance(decision, Delete) else ()


def _read_texts(memories: Memories, plan: MaintenancePlan) -> dict[int, str]:
    """Return the texts of the memories in the plan."""
    ids = {memory_id for decision in plan.decisions for memory_id in _list_ids(decision)}
    ids |= {decision.into for decision in plan.decisions if isinstance(decision, Delete) and decision.into is not None}
    ids |= {memory_id for refusal in plan.refused for memory_id in refusal.ids}
    return {memory_id: text for memory_id in sorted(ids) if (text := _read_text(memories, memory_id))}


def _read_text(memories: Memories, memory_id: int) -> str:
    try:
        return memories.get(memory_id).text
    except NotFound:  # purged meanwhile
        return ""


def _pick_texts(ids: tuple[int, ...], texts: dict[int, str]) -> list[str]:
    return [texts[memory_id] for memory_id in ids if memory_id in texts]


def _join_ids(ids: tuple[int, ...]) -> str:
    return ", ".join(str(memory_id) for memory_id in ids)


# ── usage ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


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
    "--days", type=click.IntRange(0, 36_500), default=90, show_default=True, help="Days without a recall, for stale."
)
@click.option("-n", "--limit", type=int, default=50, show_default=True, help="Maximum number of results.")
@click.option("--call", type=int, metavar="ID", help="With llm: one call, with its redacted texts.")
@within
def usage(
    session: CliContext, view: View | Literal["llm"], days: int, limit: int, call: int | None, within: dict[str, Any]
) -> None:
    """List the most, the never and the no longer recalled memories, or the calls of the language model."""
    if call is not None and view != "llm":
        raise click.UsageError("--call requires `cofio usage llm`.")
    if view == "llm":
        _show_llm_usage(session, limit, call)
        return
    with session.memories() as memories:
        rows = memories.usage(view, limit=limit, days=days, **within)
    if session.as_json:
        output.document({"view": view, "memories": [row.as_dict() for row in rows]})
        return
    columns = (ID, TEXT, Field("recalled", align="right"), Field("last", "dim"), Field("made", "dim"), SOURCE)
    output.table(
        columns,
        (
            (m.id, m.text, m.retrieval_count, output.when(m.last_retrieved_at), output.when(m.created_at), m.source)
            for m in rows
        ),
    )
    if not rows:
        output.say("There are no such memories.")


def _show_llm_usage(session: CliContext, limit: int, call: int | None) -> None:
    if call is not None:
        with session.memories() as memories:
            record = memories.llm_call(call).as_dict()
        if session.as_json:
            output.document(record)
            return
        output.facts_about((name, value) for name, value in record.items() if value not in ("", None))
        if not record["request"]:
            output.say("Its texts are not stored; llm_text_days sets how long texts are kept.")
        return
    with session.memories() as memories:
        usage = memories.llm_usage(limit=limit)
    if session.as_json:
        output.document(usage.as_dict())
        return
    counts = [Field(name, align="right") for name in ("calls", "failed", "characters", "tokens in", "tokens out")]
    names = [Field(name) for name in ("period", "provider", "model", "client", "session", "project")]
    rows = [
        (_format_period(days), total.provider, total.model, *whose, *_format_counts(total))
        for days, models, sessions in usage.periods
        for totals, whose_of in ((models, lambda _: ("all", "all", "all")), (sessions, _format_origin))
        for total in totals
        for whose in [whose_of(total)]
    ]
    output.table((*names, *counts), rows)
    columns = [Field(name) for name in ("model", "purpose", "session", "outcome")]
    output.table(
        (ID, Field("at", "dim"), *columns, counts[2], counts[3], counts[4]),
        (
            (c.id, output.when(c.at), c.model, c.purpose, c.session, c.outcome, *_format_counts(c)[-3:])
            for c in usage.calls
        ),
    )
    limits = [f"{limit:,}" if limit else "no limit" for limit in usage.limits]
    output.say(f"Today: {usage.today.calls:,} calls of {limits[0]}, {usage.today.tokens:,} tokens of {limits[1]}.")
    if usage.is_spent:
        output.say(f"The daily limit is reached; captures wait until {usage.resets_at[:16]} UTC.")


def _format_period(days: int) -> str:
    return "today" if days == 1 else f"{days} days"


def _format_origin(total: LLMTotal) -> tuple[str, str, str]:
    return total.client or "-", total.session or "-", total.project or "-"


def _format_counts(record: LLMTotal | LLMCall) -> tuple[int, ...]:
    before = (record.calls, record.failed) if isinstance(record, LLMTotal) else ()
    return (*before, record.characters, record.input_tokens, record.output_tokens)


# ── runs ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@command("runs", "cofio runs", "cofio runs --chore prune --json")
@click.option("--chore", type=click.Choice(CHORES), help="Only runs of this scheduled task.")
@click.option("-n", "--limit", type=int, default=20, show_default=True, help="Maximum number of runs.")
def runs(session: CliContext, chore: str | None, limit: int) -> None:
    """List runs of maintenance chores with their outcomes, newest first."""
    with session.memories() as memories:
        past_runs = memories.runs(limit=limit, chore=chore or "")
    if session.as_json:
        output.document({"runs": [run.as_dict() for run in past_runs]})
        return
    columns = (
        ID,
        Field("chore"),
        Field("started", "dim"),
        Field("outcome", "cyan"),
        Field("changeset", align="right"),
        Field("by", "dim"),
        Field("details", wraps=True),
    )
    output.table(
        columns,
        (
            (r.id, r.chore, output.when(r.started_at), r.outcome, r.changeset or "", r.by, _describe_run(r))
            for r in past_runs
        ),
    )
    if not past_runs:
        output.say("No chore has run yet; MAINTENANCE_ENABLED=true schedules them.")


def _describe_run(run: MaintenanceRun) -> str:
    details = run.told
    counts = [f"{details[name]:,} {name}" for name in ("decisions", "refused") if details.get(name)]
    return "; ".join(str(part) for part in (", ".join(counts), details.get("error"), details.get("note")) if part)
