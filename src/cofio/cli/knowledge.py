"""Commands on domain knowledge: store exact records, query them, and give feedback."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click

from cofio.cli import output
from cofio.cli.knowledge_options import CLAIM, OWNER, QuantityType, Ref, RefType, VerdictType
from cofio.cli.output import WHEN, Field
from cofio.cli.shared_options import (
    BY,
    CliContext,
    Memories,
    command,
    command_group,
    limit_option,
    why_option,
    with_options,
    yes_option,
)
from cofio.errors import NotFound
from cofio.models.domain_knowledge import (
    ANY,
    DIRECTIONS,
    PERIODS,
    RELATIONS,
    TABLES,
    Claim,
    Feedback,
    Knowledge,
    KnowledgeChange,
    Pattern,
    Seasonal,
    Threshold,
    fold,
    make_row,
    plain_number,
)
from cofio.models.memory import Changeset

_REF = Field("ref", "cyan", wraps=True)
_SAYS = Field("statement", wraps=True)
_CONFIDENCE = Field("confidence", "green", "right")
_VERDICTS = Field("verdicts", "dim")
_SOURCE = Field("source", "dim")
_PLACED = Pattern | Seasonal  # rows whose summary does not name the source
_DONE = {"add": "added", "update": "changed", "noop": "known", "delete": "removed", "purge": "erased"}


@command_group(
    "knowledge",
    "cofio knowledge threshold AAPL volume above 5M",
    "cofio knowledge check AAPL volume 6.2M",
    'cofio knowledge feedback "AAPL monday" confirmed --about thresholds/aapl.volume.above',
    "cofio knowledge list thresholds",
)
def knowledge() -> None:
    """Manage structured domain knowledge: thresholds, patterns, correlations, seasonal patterns.

    There are five tables: patterns, correlations, thresholds, seasonal and feedback. Rows of the first four have a
    confidence, which feedback changes. `cofio history` and `cofio undo` work for all five.
    """


@command(
    "threshold",
    "cofio knowledge threshold AAPL volume above 5M",
    "cofio knowledge threshold web latency above 250ms --inclusive --confidence 0.9",
    "cofio knowledge threshold freezer temperature above -18 --unit °C",
    "cofio knowledge threshold '*' cpu above 90%          # for every source",
    group=knowledge,
)
@click.argument("source")
@click.argument("metric")
@click.argument("direction", type=click.Choice(DIRECTIONS), metavar="|".join(DIRECTIONS))
@click.argument("value", type=QuantityType())
@click.option("--unit", metavar="TEXT", help='Unit of the value, if not written after it: %, ms, GB, $; "" for none.')
@click.option(
    "--inclusive/--exclusive",
    default=None,
    help="Inclusive: a value equal to VALUE crosses it too. Default: exclusive.",
)
@with_options(CLAIM)
def threshold(session: CliContext, value: tuple[float, str], unit: str | None, **options: Any) -> None:
    """Store a threshold for a METRIC of a SOURCE.

    A measured value above or below VALUE crosses the threshold. Another threshold for the same source, metric and
    direction replaces this one.
    """
    keeps_unit = unit is None and not value[1]  # keep the unit of the row
    _put(session, "thresholds", value=value[0], unit=None if keeps_unit else _choose_unit(value[1], unit), **options)


def _choose_unit(value_unit: str, option_unit: str | None) -> str:
    if value_unit and option_unit and value_unit != option_unit:
        raise click.UsageError(f"The value has the unit {value_unit!r}, but --unit is {option_unit!r}.")
    return option_unit or value_unit


@command(
    "pattern",
    'cofio knowledge pattern "volume spikes before earnings" --source AAPL --confidence 0.8',
    'cofio knowledge pattern "the queue grows after a deploy" --id deploy-queue',
    group=knowledge,
)
@click.argument("pattern", metavar="TEXT")
@click.option("--source", metavar="NAME", help="Subject of the pattern, such as a market, a host or a sensor.")
@with_options(CLAIM)
def pattern(session: CliContext, **options: Any) -> None:
    """Store a pattern, described in words."""
    _put(session, "patterns", **options)


@command(
    "correlation",
    'cofio knowledge correlation BTC COIN "BTC leads COIN by an hour" --relation leads',
    'cofio knowledge correlation gold dollar "gold falls when the dollar rises" --inverse',
    group=knowledge,
)
@click.argument("source_a", metavar="ONE")
@click.argument("source_b", metavar="OTHER")
@click.argument("rule", metavar="TEXT")
@click.option(
    "--relation",
    type=click.Choice(RELATIONS),
    help="leads: ONE moves before OTHER; with: both move at the same time. Default: with.",
)
@click.option("--inverse/--direct", default=None, help="Inverse: when one rises, the other falls. Default: direct.")
@with_options(CLAIM)
def correlation(session: CliContext, **options: Any) -> None:
    """Store a correlation between two sources."""
    _put(session, "correlations", **options)


@command(
    "seasonal",
    'cofio knowledge seasonal "low volume" weekly --during "fri 12:00-16:00" --timezone America/New_York',
    'cofio knowledge seasonal "nightly batch" cron --during "30 2 * * *" --lasts 90 --source web',
    group=knowledge,
)
@click.argument("pattern", metavar="TEXT")
@click.argument("period", type=click.Choice(PERIODS), metavar="PERIOD")
@click.option(
    "--during",
    metavar="WHEN",
    help='Time within the period: "09:30-16:00", "mon-fri", "last fri", or, for cron, an expression.',
)
@click.option(
    "--lasts",
    type=click.IntRange(1),
    metavar="MINUTES",
    help="With cron: minutes that each occurrence lasts, such as 90.",
)
@click.option("--timezone", metavar="ZONE", help="Time zone, such as Europe/Berlin. Default: UTC.")
@click.option("--source", metavar="NAME", help="Source that the pattern is about.")
@with_options(CLAIM)
def seasonal(session: CliContext, **options: Any) -> None:
    """Store a seasonal pattern and its times.

    PERIOD is daily, weekly, monthly, yearly or cron. Without --during, the pattern is always active.
    """
    _put(session, "seasonal", **options)


def _put(session: CliContext, table: str, **options: Any) -> None:
    fields = {name: value for name, value in options.items() if value is not None}
    with session.memories(new=True) as memories:
        change = memories.knowledge.put(table, by=BY, **fields)
    if session.print_json(change):
        return
    _print_rows([change.after] if change.after else [], _DONE.get(change.action, change.action))
    if change.action == "noop":
        output.say("Nothing was changed: this row exists already.")
    else:
        output.say(f"Changeset {change.changeset}; `cofio undo {change.changeset}` reverts it.")


@command(
    "list",
    "cofio knowledge list                       # rows per table",
    "cofio knowledge list thresholds --source AAPL --min-confidence 0.6",
    "cofio knowledge list feedback --json",
    group=knowledge,
)
@click.argument("table", type=click.Choice(TABLES), metavar="[TABLE]", required=False)
@click.option(
    "--min-confidence", type=click.FloatRange(0, 1), help="Only rows of at least this confidence, from 0 to 1."
)
@click.option("--source", metavar="NAME", help="Only rows of this source.")
@click.option("--metric", metavar="NAME", help="Only rows of this metric.")
@limit_option(50, "rows", 1_000)
@click.option("--after", metavar="ID", help="Id of the last row of the previous page; the list continues after it.")
def list_(session: CliContext, table: str | None, limit: int, after: str | None, **options: Any) -> None:
    """List the rows of a table, highest confidence first; without a TABLE, count the rows of each.

    TABLE is patterns, correlations, thresholds or seasonal; or feedback, which is listed newest first.
    """
    filters = {name: value for name, value in options.items() if value is not None}
    if table == "correlations" and "source" in filters:
        hint = f"Use `cofio knowledge related {filters['source']}`."
        raise click.UsageError(f"Correlations have two sources and cannot be filtered by --source. {hint}")
    if table is None and filters:
        raise click.UsageError(f"Filters need a TABLE: one of {', '.join(TABLES)}.")
    with session.memories() as memories:
        if table is None:
            counts = memories.knowledge.counts()
            session.print_table(counts, (Field("table"), Field("rows", "cyan", "right")), counts.items())
            return
        rows = memories.knowledge.list(table, limit=limit, after=after, **filters)
    next_id = rows[-1].id if len(rows) == limit else None
    if session.print_json({"rows": [row.shown() for row in rows], "next": next_id}):
        return
    _print_rows(rows)
    if not rows:
        output.say("There are no matching rows.")
    elif next_id:
        output.say(f"There may be more: continue with --after {next_id}.")


def _print_rows(rows: Sequence[Knowledge], action: str = "") -> None:
    if verdicts := [row for row in rows if isinstance(row, Feedback)]:
        columns = [_REF, Field("verdict", "green"), Field("about", wraps=True), Field("note", wraps=True)]
        output.table((*columns, Field("", "dim"), WHEN), map(_format_feedback, verdicts))
        return
    claims = [row for row in rows if isinstance(row, Claim)]
    source_column = [_SOURCE] if any(isinstance(claim, _PLACED) for claim in claims) else []
    columns = [_REF, *([Field("", "green")] if action else []), _CONFIDENCE, _VERDICTS, _SAYS, *source_column, WHEN]
    output.table(columns, (_format_claim(claim, action) for claim in claims))


def _format_claim(claim: Claim, action: str) -> list[str]:
    verdicts = f"+{claim.confirmed} -{claim.refuted}" if claim.confirmed or claim.refuted else ""
    cells = [claim.ref, *([action] if action else []), f"{claim.confidence:.2f}", verdicts, claim.says]
    return [*cells, *([claim.source] if isinstance(claim, _PLACED) else []), output.when(claim.updated_at)]


def _format_feedback(row: Feedback) -> tuple[Any, ...]:
    state = "counted" if row.processed else "pending"
    return row.ref, row.verdict.replace("_", " "), row.about, row.note, state, output.when(row.updated_at)


@command(
    "show",
    "cofio knowledge show thresholds/aapl.volume.above",
    "cofio knowledge show patterns/3f2a --json",
    group=knowledge,
)
@click.argument("ref", type=RefType())
def show(session: CliContext, ref: Ref) -> None:
    """Show all fields of one row."""
    with session.memories() as memories:
        row = memories.knowledge.get(*ref)
    if session.print_json({"table": row.TABLE, **row.shown()}):
        return
    fields = {"says": row.says, **row.as_dict()}
    if "value" in fields:
        fields["value"] = plain_number(fields["value"])
    output.facts_about([("ref", row.ref), *((name, value) for name, value in fields.items() if name != "id")])


@command("history", "cofio knowledge history thresholds/aapl.volume.above", group=knowledge)
@click.argument("ref", type=RefType())
def history(session: CliContext, ref: Ref) -> None:
    """Show every change of a row, oldest first."""
    with session.memories() as memories:
        changes = memories.knowledge.history(*ref)
    rows = []
    for change in changes:
        row = change.after or change.before
        confidence = f"{row.confidence:.2f}" if isinstance(row, Claim) else ""
        about = (confidence, row.says if row else "(erased)")
        rows.append((change.changeset, output.when(change.at), change.action, change.by, *about))
    columns = (Field("changeset", "cyan", "right"), WHEN, Field("action", "green"), Field("by"), _CONFIDENCE, _SAYS)
    session.print_table({"table": ref.table, "key": ref.key, "changes": changes}, columns, rows)


@command(
    "check",
    "cofio knowledge check AAPL volume 6.2M",
    "cofio knowledge check web latency 260ms --json",
    "cofio knowledge check freezer temperature -12",
    group=knowledge,
)
@click.argument("source")
@click.argument("metric")
@click.argument("value", type=QuantityType())
@click.option("--unit", metavar="TEXT", help="Unit of the value, if not written after it.")
def check(session: CliContext, source: str, metric: str, value: tuple[float, str], unit: str | None) -> None:
    """List the thresholds that a VALUE crosses."""
    with session.memories() as memories:
        chosen_unit = _choose_unit(value[1], unit)
        crossings = memories.knowledge.evaluate(source, metric, value[0], unit=chosen_unit)
        reason = "" if crossings or session.as_json else _explain_no_match(memories, source, metric, chosen_unit)
    columns = (_REF, Field("threshold", wraps=True), Field("crossed by", "yellow", "right"), _CONFIDENCE)
    rows = ((row.ref, row.says, plain_number(by), f"{row.confidence:.2f}") for row, _, by in crossings)
    empty = f"{source}/{metric} {plain_number(value[0])}{chosen_unit} crosses no threshold.{reason}"
    session.print_table({"firing": crossings}, columns, rows, empty)


def _explain_no_match(memories: Memories, source: str, metric: str, unit: str) -> str:
    lists = [memories.knowledge.list("thresholds", source=name, metric=metric) for name in (source, ANY)]
    thresholds = [row for rows in lists for row in rows if isinstance(row, Threshold)]
    if not thresholds:
        return " No threshold exists for that metric; `cofio knowledge list thresholds` lists all."
    others = [row.says for row in thresholds if unit and row.unit and fold(row.unit) != fold(unit)]
    return f' The threshold "{others[0]}" has another unit, and units are not converted.' if others else ""


@command(
    "active",
    "cofio knowledge active",
    "cofio knowledge active --at 2026-02-20T18:00:00Z --source AAPL",
    group=knowledge,
)
@click.option("--at", type=output.TimeType(), help="Time to evaluate the patterns at. Default: now.")
@click.option("--source", default="", metavar="NAME", help="Only patterns of this source.")
def active(session: CliContext, at: str | None, source: str) -> None:
    """List the active seasonal patterns."""
    with session.memories() as memories:
        seasons = memories.knowledge.active(at or "", source=source)
    rows = []
    for season in seasons:
        row, times = season.seasonal, [season.since, season.until]
        if output.on_terminal():
            times = [datetime.fromisoformat(time).astimezone().strftime("%a %Y-%m-%d %H:%M") for time in times]
        rows.append((row.ref, row.says, row.source, *times, f"{row.confidence:.2f}"))
    columns = (_REF, _SAYS, _SOURCE, Field("since", "dim"), Field("until", "dim"), _CONFIDENCE)
    empty = "No seasonal pattern is active at that time." if at else "No seasonal pattern is active now."
    session.print_table({"active": seasons}, columns, rows, empty)


@command("related", "cofio knowledge related BTC", "cofio knowledge related BTC --depth 2 --json", group=knowledge)
@click.argument("source")
@click.option(
    "--depth",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Maximum number of correlations from SOURCE to a result.",
)
def related(session: CliContext, source: str, depth: int) -> None:
    """List the correlations of a SOURCE.

    Correlations are followed in both directions, nearest first. The confidence is that of the whole path.
    """
    with session.memories() as memories:
        steps = memories.knowledge.related(source, depth=depth)
    rows = []
    for step in steps:
        row, leads = step.correlation, "leads" if step.forward else "follows"
        link = leads if row.relation == "leads" else "goes with"
        path = f"{step.here} {link} {step.there}{' (inverse)' if row.inverse else ''}"
        rows.append((step.depth, path, f"{step.confidence:.2f}", row.rule, row.ref))
    columns = (Field("steps", "cyan", "right"), Field("how", wraps=True), _CONFIDENCE, Field("rule", wraps=True), _REF)
    session.print_table({"related": steps}, columns, rows, f"There are no correlations with {source}.")


@command(
    "read",
    'cofio knowledge read "flag AAPL if volume exceeds 5M"',
    "cat answer.txt | cofio knowledge read -",
    group=knowledge,
)
@click.argument("text")
def read(session: CliContext, text: str) -> None:
    """Show the rows of domain knowledge that would be read from a TEXT.

    Nothing is stored. "keep" marks rows that the text states, "drop" rows that it says no longer hold. With - for TEXT,
    the standard input is read.
    """
    content = sys.stdin.buffer.read().decode("utf-8", "replace") if text == "-" else text
    with session.memories(new=True) as memories:
        readings = memories.knowledge.read(content)
    rows = []
    for reading in readings:
        if reading.denied:  # only some fields are known
            action, says = "drop", " ".join(str(field) for field in reading.fields.values())
        else:
            action, says = "keep", make_row(reading.table, reading.fields).says
        rows.append((action, reading.table, says, f"{reading.confidence:.2f}"))
    columns = (Field("", "green"), Field("table", "cyan"), _SAYS, _CONFIDENCE)
    session.print_table({"readings": readings}, columns, rows, "No rows would be extracted.")


@command(
    "feedback",
    'cofio knowledge feedback "AAPL monday" confirmed --about thresholds/aapl.volume.above',
    'cofio knowledge feedback "AAPL friday" false-alarm --about thresholds/aapl.volume.above --note "rebalancing"',
    'cofio knowledge feedback "AAPL friday" note --note "still looking"',
    group=knowledge,
)
@click.argument("anomaly")
@click.argument("verdict", type=VerdictType(), metavar="VERDICT")
@click.option(
    "--about", metavar="REF", type=RefType(), multiple=True, help="Row that the verdict is about; may be repeated."
)
@click.option("--note", default="", metavar="TEXT", help="Findings about the anomaly, as text.")
@click.option("--later", is_flag=True, help="Store the verdict only; `cofio knowledge process` applies it.")
@with_options(OWNER)
def feedback(session: CliContext, anomaly: str, about: tuple[Ref, ...], later: bool, **options: Any) -> None:
    """Store a verdict on an ANOMALY, which you name or describe.

    VERDICT is confirmed, which raises the confidence of the rows named with --about; false-alarm, which lowers it; or
    note, which changes nothing. A later verdict on the same anomaly replaces this one.
    """
    fields = {name: value for name, value in options.items() if value is not None}
    refs = ["/".join(ref) for ref in about]
    with session.memories(new=True) as memories:
        changeset = memories.knowledge.feedback(anomaly, about=refs, process=not later, by=BY, **fields)
    _print_feedback(session, changeset, is_pending=later)


@command("process", "cofio knowledge process", group=knowledge)
@why_option
def process(session: CliContext, why: str) -> None:
    """Apply the verdicts that were stored with --later. Each is applied once."""
    with session.memories() as memories:
        changeset = memories.knowledge.process_feedback(by=BY, why=why)
    if changeset is None:
        session.print_sentence(None, "There are no pending verdicts.")
    else:
        _print_feedback(session, changeset)


def _print_feedback(session: CliContext, changeset: Changeset, *, is_pending: bool = False) -> None:
    if session.print_json(changeset):
        return
    rows = [
        (change.ref, f"{before.confidence:.2f}", f"{after.confidence:.2f}", after.says)
        for change in changeset.knowledge
        for before, after in ((change.before, change.after),)
        if isinstance(before, Claim) and isinstance(after, Claim)
    ]
    output.table((_REF, Field("was", "dim", "right"), _CONFIDENCE, _SAYS), rows)
    if all(change.action == "noop" for change in changeset.knowledge):
        output.say("Nothing was changed: this verdict is stored already.")
        return
    changed = f"Changed the confidence of {output.count(len(rows), 'row') if rows else 'no row'}"
    outcome = "Stored; `cofio knowledge process` applies it" if is_pending and not rows else changed
    output.say(f"{outcome} (changeset {changeset.id}; `cofio undo {changeset.id}` reverts it).")


@command("forget", "cofio knowledge forget thresholds/aapl.volume.above --why outdated", group=knowledge)
@click.argument("refs", metavar="REF...", type=RefType(), nargs=-1, required=True)
@why_option
def forget(session: CliContext, refs: tuple[Ref, ...], why: str) -> None:
    """Delete rows; `cofio undo` restores them."""
    with session.memories() as memories:
        targets = [(ref, memories.knowledge.get(*ref).says) for ref in dict.fromkeys(refs)]  # all must exist
        results = [(memories.knowledge.delete(*ref, by=BY, why=why), ref, says) for ref, says in targets]
    _print_removed(session, results)


@command("purge", "cofio knowledge purge patterns/3f2a --yes", group=knowledge)
@click.argument("refs", metavar="REF...", type=RefType(), nargs=-1, required=True)
@yes_option
@why_option
def purge(session: CliContext, refs: tuple[Ref, ...], yes: bool, why: str) -> None:
    """Permanently erase rows, including their history.

    This cannot be undone.
    """
    with session.memories() as memories:
        targets = [(ref, _find_statement(memories, ref)) for ref in dict.fromkeys(refs)]
        for ref, says in targets:
            output.say(f"{'/'.join(ref)}: {says}")
        is_confirmed = session.is_confirmed(f"Erase {output.count(len(targets), 'row')} permanently?", yes=yes)
        confirmed = targets if is_confirmed else []
        results = [(memories.knowledge.purge(*ref, by=BY, why=why), ref, says) for ref, says in confirmed]
    _print_removed(session, results)


def _find_statement(memories: Memories, ref: Ref) -> str:
    """Return the summary of a row, from the history if it was removed."""
    try:
        return str(memories.knowledge.get(*ref).says)
    except NotFound:
        last = memories.knowledge.history(*ref)[-1]
        row = last.after or last.before
        return row.says if row else "(erased)"


def _print_removed(session: CliContext, results: Sequence[tuple[KnowledgeChange, Ref, str]]) -> None:
    document, rows = [], []
    for change, ref, says in results:
        document.append({"ref": "/".join(ref), "action": change.action, "changeset": change.changeset})
        rows.append(("/".join(ref), _DONE.get(change.action, change.action), says, change.changeset))
    columns = (_REF, Field("", "green"), _SAYS, Field("changeset", "cyan", "right"))
    session.print_table({"results": document}, columns, rows)


for numeric in (threshold, check):
    numeric.ignore_unknown_options = True  # accept -5 as a number, not as an option
