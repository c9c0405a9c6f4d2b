"""Commands on domain knowledge: store exact records, query them, and give feedback."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import click

from cofio.cli import output
from cofio.cli.context import BY, CliContext, Memories, agreed, command, examples, where
from cofio.cli.knowledge_params import CLAIM, WHOSE, QuantityType, Ref, RefType, TimeType, VerdictType, taking
from cofio.cli.output import WHEN, Field
from cofio.errors import NotFound
from cofio.models.knowledge import (
    ANY,
    DIRECTIONS,
    PERIODS,
    RELATIONS,
    TABLES,
    ActivePattern,
    Claim,
    CorrelationStep,
    Feedback,
    Knowledge,
    KnowledgeChange,
    KnowledgeReading,
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
_SURE = Field("confidence", "green", "right")
_VERDICTS = Field("verdicts", "dim")
_SOURCE = Field("source", "dim")
_PLACED = Pattern | Seasonal  # rows whose summary does not name the source
_DONE = {"add": "added", "update": "changed", "noop": "known", "delete": "removed", "purge": "erased"}


def _numeric(made: click.Command) -> click.Command:
    """Make a command accept -5 as a number, not as an option."""
    made.ignore_unknown_options = True
    return made


@click.group(
    "knowledge",
    epilog=examples(
        "cofio knowledge threshold AAPL volume above 5M",
        "cofio knowledge check AAPL volume 6.2M",
        'cofio knowledge feedback "AAPL monday" confirmed --about thresholds/aapl.volume.above',
        "cofio knowledge list thresholds",
    ),
)
@where(hidden=True)
def knowledge() -> None:
    """Manage structured domain knowledge: thresholds, patterns, correlations, seasons.

    There are five tables: patterns, correlations, thresholds, seasonal and feedback. Rows of the first four have a
    confidence, which feedback changes. `cofio history` and `cofio undo` cover all of them.
    """


# ── store ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@_numeric
@command(
    "threshold",
    "cofio knowledge threshold AAPL volume above 5M",
    "cofio knowledge threshold web latency above 250ms --inclusive --confidence 0.9",
    "cofio knowledge threshold freezer temperature above -18 --unit °C",
    "cofio knowledge threshold '*' cpu above 90%          # for every source",
)
@click.argument("source")
@click.argument("metric")
@click.argument("direction", type=click.Choice(DIRECTIONS), metavar="|".join(DIRECTIONS))
@click.argument("value", type=QuantityType())
@click.option("--unit", metavar="TEXT", help='Unit of the value, if not written after it: %, ms, GB, $; "" for none.')
@click.option("--inclusive/--exclusive", default=None, help="Include or exclude the value itself.")
@taking(CLAIM)
def threshold(session: CliContext, value: tuple[float, str], unit: str | None, **known: Any) -> None:
    """Store a threshold for a METRIC of a SOURCE.

    A VALUE beyond it needs attention. The same source, metric and direction again updates the row in place.
    """
    none_named = unit is None and not value[1]  # keep the unit of the row
    _put(session, "thresholds", value=value[0], unit=None if none_named else _unit(value[1], unit), **known)


def _unit(written: str, given: str | None) -> str:
    if written and given and written != given:
        raise click.UsageError(f"The value has the unit {written!r}, but --unit is {given!r}.")
    return given or written


@command(
    "pattern",
    'cofio knowledge pattern "volume spikes before earnings" --source AAPL --confidence 0.8',
    'cofio knowledge pattern "the queue grows after a deploy" --id deploy-queue',
)
@click.argument("pattern", metavar="TEXT")
@click.option("--source", metavar="NAME", help="Source of the pattern: a market, a host, a sensor.")
@taking(CLAIM)
def pattern(session: CliContext, **known: Any) -> None:
    """Store a pattern in words: what tends to happen."""
    _put(session, "patterns", **known)


@command(
    "correlation",
    'cofio knowledge correlation BTC COIN "BTC leads COIN by an hour" --relation leads',
    'cofio knowledge correlation gold dollar "gold falls when the dollar rises" --inverse',
)
@click.argument("source_a", metavar="ONE")
@click.argument("source_b", metavar="OTHER")
@click.argument("rule", metavar="TEXT")
@click.option("--relation", type=click.Choice(RELATIONS), help="ONE leads OTHER, or moves with it. Default: with.")
@click.option("--inverse/--direct", default=None, help="Inverse: when one rises, the other falls.")
@taking(CLAIM)
def correlation(session: CliContext, **known: Any) -> None:
    """Store a correlation between two sources."""
    _put(session, "correlations", **known)


@command(
    "seasonal",
    'cofio knowledge seasonal "low volume" weekly --during "fri 12:00-16:00" --timezone America/New_York',
    'cofio knowledge seasonal "nightly batch" cron --during "30 2 * * *" --lasts 90 --source web',
)
@click.argument("pattern", metavar="TEXT")
@click.argument("period", type=click.Choice(PERIODS), metavar="PERIOD")
@click.option(
    "--during", metavar="WHEN", help='Time within the period: "09:30-16:00", "mon-fri", "last fri", a cron expression.'
)
@click.option(
    "--lasts", type=click.IntRange(1), metavar="MINUTES", help="Duration after each time of a cron expression."
)
@click.option("--timezone", metavar="ZONE", help="Time zone, such as Europe/Berlin. Default: UTC.")
@click.option("--source", metavar="NAME", help="Source of the pattern.")
@taking(CLAIM)
def seasonal(session: CliContext, **known: Any) -> None:
    """Store a seasonal pattern and its times.

    PERIOD is daily, weekly, monthly, yearly or cron. Without --during it is always active.
    """
    _put(session, "seasonal", **known)


def _put(session: CliContext, table: str, **known: Any) -> None:
    given = {name: value for name, value in known.items() if value is not None}
    with session.memories(new=True) as memories:
        change = memories.knowledge.put(table, by=BY, **given)
    if session.as_json:
        output.document(change.as_dict())
        return
    _tell_rows([change.after] if change.after else [], _DONE.get(change.action, change.action))
    if change.action == "noop":
        output.say("This row exists already, unchanged.")
    else:
        output.say(f"Changeset {change.changeset}; `cofio undo {change.changeset}` reverts it.")


# ── query ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@command(
    "list",
    "cofio knowledge list                       # rows per table",
    "cofio knowledge list thresholds --source AAPL --min-confidence 0.6",
    "cofio knowledge list feedback --json",
)
@click.argument("table", type=click.Choice(TABLES), metavar="[TABLE]", required=False)
@click.option("--min-confidence", type=click.FloatRange(0, 1), help="Minimum confidence.")
@click.option("--source", metavar="NAME", help="Only rows of this source.")
@click.option("--metric", metavar="NAME", help="Only rows of this metric.")
@click.option(
    "-n", "--limit", type=click.IntRange(1, 1_000), default=50, show_default=True, help="Maximum number of rows."
)
@click.option("--after", metavar="ID", help="Continue after this row.")
def list_(session: CliContext, table: str | None, limit: int, after: str | None, **where: Any) -> None:
    """List a table, highest confidence first.

    TABLE is patterns, correlations, thresholds or seasonal; or feedback, which is listed newest first.
    """
    given = {name: value for name, value in where.items() if value is not None}
    if table == "correlations" and "source" in given:
        raise click.UsageError(f"Correlations have two sides: see `cofio knowledge related {given['source']}`.")
    if table is None:
        _tell_counts(session, given)
        return
    with session.memories() as memories:
        found = memories.knowledge.list(table, limit=limit, after=after, **given)
    following = found[-1].id if len(found) == limit else None
    if session.as_json:
        output.document({"rows": [each.shown() for each in found], "next": following})
        return
    _tell_rows(found)
    if not found:
        output.say("There are no matching rows.")
    elif following:
        output.say(f"There may be more: continue with --after {following}.")


def _tell_counts(session: CliContext, given: dict[str, Any]) -> None:
    if given:
        raise click.UsageError(f"Name the table: one of {', '.join(TABLES)}.")
    with session.memories() as memories:
        counts = memories.knowledge.counts()
    if session.as_json:
        output.document(counts)
    else:
        output.table((Field("table"), Field("rows", "cyan", "right")), counts.items())


def _tell_rows(rows: Sequence[Knowledge], done: str = "") -> None:
    """Print rows of one table, with the action taken on them."""
    if any(isinstance(row, Feedback) for row in rows):
        judged = (_REF, Field("verdict", "green"), Field("about", wraps=True), Field("note", wraps=True),
                  Field("", "dim"), WHEN)  # fmt: skip
        output.table(judged, (_judged(row) for row in rows if isinstance(row, Feedback)))
        return
    claims = [row for row in rows if isinstance(row, Claim)]
    where = [_SOURCE] if any(isinstance(claim, _PLACED) for claim in claims) else []
    columns = (_REF, *([Field("", "green")] if done else []), _SURE, _VERDICTS, _SAYS, *where, WHEN)
    output.table(columns, (_claimed(claim, done) for claim in claims))


def _claimed(claim: Claim, done: str) -> list[str]:
    sure = [claim.ref, *([done] if done else []), f"{claim.confidence:.2f}", _counted(claim), claim.says]
    return [*sure, *([claim.source] if isinstance(claim, _PLACED) else []), output.when(claim.updated_at)]


def _judged(row: Feedback) -> tuple[Any, ...]:
    state = "counted" if row.processed else "waits"
    return row.ref, row.verdict.replace("_", " "), row.about, row.note, state, output.when(row.updated_at)


def _counted(claim: Claim) -> str:
    """Return the numbers of confirming and refuting verdicts."""
    return f"+{claim.confirmed} -{claim.refuted}" if claim.confirmed or claim.refuted else ""


@command("show", "cofio knowledge show thresholds/aapl.volume.above", "cofio knowledge show patterns/3f2a --json")
@click.argument("ref", type=RefType())
def show(session: CliContext, ref: Ref) -> None:
    """Show all fields of one row."""
    with session.memories() as memories:
        row = memories.knowledge.get(*ref)
    if session.as_json:
        output.document({"table": row.TABLE, **row.shown()})
        return
    told = {"says": row.says, **row.as_dict()}
    if "value" in told:
        told["value"] = plain_number(told["value"])
    output.facts_about([("ref", row.ref), *((name, value) for name, value in told.items() if name != "id")])


@command("history", "cofio knowledge history thresholds/aapl.volume.above")
@click.argument("ref", type=RefType())
def history(session: CliContext, ref: Ref) -> None:
    """Show every change of a row, oldest first."""
    with session.memories() as memories:
        changes = memories.knowledge.history(*ref)
    if session.as_json:
        output.document({"table": ref.table, "key": ref.key, "changes": [change.as_dict() for change in changes]})
        return
    columns = (Field("changeset", "cyan", "right"), WHEN, Field("action", "green"), Field("by"), _SURE, _SAYS)
    output.table(columns, (_stepped(change) for change in changes))


def _stepped(change: KnowledgeChange) -> tuple[Any, ...]:
    left = change.after or change.before
    sure = f"{left.confidence:.2f}" if isinstance(left, Claim) else ""
    says = left.says if left else "(erased)"
    return change.changeset, output.when(change.at), change.action, change.by, sure, says


# ── exact queries ─────────────────────────────────────────────────────────────────────────────────────────────────────


@_numeric
@command(
    "check",
    "cofio knowledge check AAPL volume 6.2M",
    "cofio knowledge check web latency 260ms --json",
    "cofio knowledge check freezer temperature -12",
)
@click.argument("source")
@click.argument("metric")
@click.argument("value", type=QuantityType())
@click.option("--unit", metavar="TEXT", help="Unit of the value, if not written after it.")
def check(session: CliContext, source: str, metric: str, value: tuple[float, str], unit: str | None) -> None:
    """List the thresholds that a VALUE crosses."""
    with session.memories() as memories:
        told = _unit(value[1], unit)
        found = memories.knowledge.evaluate(source, metric, value[0], unit=told)
        why = "" if found or session.as_json else _why_none(memories, source, metric, told)
    if session.as_json:
        output.document({"firing": [each.as_dict() for each in found]})
        return
    columns = (_REF, Field("threshold", wraps=True), Field("crossed by", "yellow", "right"), _SURE)
    output.table(
        columns,
        (
            (each.threshold.ref, each.threshold.says, plain_number(each.by), f"{each.threshold.confidence:.2f}")
            for each in found
        ),
    )
    if not found:
        output.say(f"No threshold fires: {source}/{metric} {plain_number(value[0])}{told}.{why}")


def _why_none(memories: Memories, source: str, metric: str, unit: str) -> str:
    """Explain why no threshold fired: there is none, or only one in another unit."""
    asked = [memories.knowledge.list("thresholds", source=each, metric=metric) for each in (source, ANY)]
    known = [row for rows in asked for row in rows if isinstance(row, Threshold)]
    if not known:
        return " No threshold exists for that metric; `cofio knowledge list thresholds` lists all."
    others = [row.says for row in known if unit and row.unit and fold(row.unit) != fold(unit)]
    return f" {others[0]} has another unit, and units are not converted." if others else ""


@command(
    "active",
    "cofio knowledge active",
    "cofio knowledge active --at 2026-02-20T18:00:00Z --source AAPL",
)
@click.option("--at", type=TimeType(), help="Time of the query. Default: now.")
@click.option("--source", default="", metavar="NAME", help="Only patterns of this source.")
def active(session: CliContext, at: str | None, source: str) -> None:
    """List the active seasonal patterns."""
    with session.memories() as memories:
        found = memories.knowledge.active(at or "", source=source)
    if session.as_json:
        output.document({"active": [each.as_dict() for each in found]})
        return
    columns = (_REF, _SAYS, _SOURCE, Field("since", "dim"), Field("until", "dim"), _SURE)
    output.table(columns, (_on(each) for each in found))
    if not found:
        output.say("No seasonal pattern is active at that time." if at else "No seasonal pattern is active now.")


def _on(season: ActivePattern) -> tuple[str, ...]:
    row, times = season.seasonal, (season.since, season.until)
    shown = (datetime.fromisoformat(time).astimezone().strftime("%a %Y-%m-%d %H:%M") for time in times)
    return row.ref, row.says, row.source, *(shown if output.on_terminal() else times), f"{row.confidence:.2f}"


@command("related", "cofio knowledge related BTC", "cofio knowledge related BTC --depth 2 --json")
@click.argument("source")
@click.option("--depth", type=click.IntRange(1), default=1, show_default=True, help="Maximum number of steps.")
def related(session: CliContext, source: str, depth: int) -> None:
    """List the correlations of a SOURCE.

    Both directions are followed, nearest first. The confidence is that of the whole path.
    """
    with session.memories() as memories:
        found = memories.knowledge.related(source, depth=depth)
    if session.as_json:
        output.document({"related": [each.as_dict() for each in found]})
        return
    columns = (Field("steps", "cyan", "right"), Field("how", wraps=True), _SURE, Field("rule", wraps=True), _REF)
    output.table(
        columns,
        (
            (each.depth, _way(each), f"{each.confidence:.2f}", each.correlation.rule, each.correlation.ref)
            for each in found
        ),
    )
    if not found:
        output.say(f"There are no correlations with {source}.")


def _way(step: CorrelationStep) -> str:
    """Describe a step: its two sources and the direction."""
    leads = "leads" if step.forward else "follows"
    link = leads if step.correlation.relation == "leads" else "goes with"
    return f"{step.here} {link} {step.there}{' (inverse)' if step.correlation.inverse else ''}"


@command(
    "read",
    'cofio knowledge read "flag AAPL if volume exceeds 5M"',
    "cat answer.txt | cofio knowledge read -",
)
@click.argument("text")
def read(session: CliContext, text: str) -> None:
    """Show the rows that a TEXT would change.

    Nothing is stored. The output lists rows to keep and rows to drop. With - for TEXT, the standard input is read.
    """
    said = sys.stdin.buffer.read().decode("utf-8", "replace") if text == "-" else text
    with session.memories(new=True) as memories:
        found = memories.knowledge.read(said)
    if session.as_json:
        output.document({"readings": [each.as_dict() for each in found]})
        return
    columns = (Field("", "green"), Field("table", "cyan"), _SAYS, _SURE)
    output.table(
        columns,
        (("drop" if each.denied else "keep", each.table, _meant(each), f"{each.confidence:.2f}") for each in found),
    )
    if not found:
        output.say("No rows would be extracted.")


def _meant(reading: KnowledgeReading) -> str:
    """Return the summary of a row to keep, or the known fields of a row to drop."""
    if reading.denied:
        return " ".join(str(field) for field in reading.fields.values())
    return make_row(reading.table, reading.fields).says


# ── feedback ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@command(
    "feedback",
    'cofio knowledge feedback "AAPL monday" confirmed --about thresholds/aapl.volume.above',
    'cofio knowledge feedback "AAPL friday" false-alarm --about thresholds/aapl.volume.above --note "rebalancing"',
    'cofio knowledge feedback "AAPL friday" note --note "still looking"',
)
@click.argument("anomaly")
@click.argument("verdict", type=VerdictType(), metavar="VERDICT")
@click.option("--about", metavar="REF", type=RefType(), multiple=True, help="Row that raised the anomaly; repeatable.")
@click.option("--note", default="", metavar="TEXT", help="Findings.")
@click.option("--later", is_flag=True, help="Store the verdict only; `cofio knowledge process` applies it.")
@taking(WHOSE)
def feedback(session: CliContext, anomaly: str, about: tuple[Ref, ...], later: bool, **said: Any) -> None:
    """Give a verdict on an ANOMALY.

    VERDICT is confirmed, false-alarm or note. The first raises the confidence of the rows that raised it, the second
    lowers it, a note changes nothing. A later verdict on the same anomaly replaces this one.
    """
    given = {name: value for name, value in said.items() if value is not None}
    verdict = given.pop("verdict")
    with session.memories(new=True) as memories:
        done = memories.knowledge.feedback(
            anomaly, verdict, about=["/".join(each) for each in about], process=not later, by=BY, **given
        )
    _tell_moved(session, done, waits=later)


@command("process", "cofio knowledge process")
@click.option("--why", default="", metavar="TEXT", help="Reason recorded in the history.")
def process(session: CliContext, why: str) -> None:
    """Apply the verdicts that were stored with --later. Each is applied once."""
    with session.memories() as memories:
        done = memories.knowledge.process_feedback(by=BY, why=why)
    if done is None and not session.as_json:
        output.say("There are no pending verdicts.")
        return
    _tell_moved(session, done)


def _tell_moved(session: CliContext, done: Changeset | None, *, waits: bool = False) -> None:
    """Print the changes of confidence."""
    if session.as_json or done is None:
        output.document(done.as_dict() if done else None)
        return
    moved = list(_moves(done.knowledge))
    output.table((_REF, Field("was", "dim", "right"), _SURE, _SAYS), moved)
    if all(each.action == "noop" for each in done.knowledge):
        output.say("This verdict exists already.")
        return
    what = output.count(len(moved), "claim") if moved else "no claim"
    said = "Stored; `cofio knowledge process` applies it" if waits and not moved else f"Changed {what}"
    output.say(f"{said} (changeset {done.id}; `cofio undo {done.id}` reverts it).")


def _moves(changes: Iterable[KnowledgeChange]) -> Iterable[tuple[str, str, str, str]]:
    for change in changes:
        before, after = change.before, change.after
        if isinstance(before, Claim) and isinstance(after, Claim):
            yield change.ref, f"{before.confidence:.2f}", f"{after.confidence:.2f}", after.says


# ── remove ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@command("forget", "cofio knowledge forget thresholds/aapl.volume.above --why outdated")
@click.argument("refs", metavar="REF...", type=RefType(), nargs=-1, required=True)
@click.option("--why", default="", metavar="TEXT", help="Reason recorded in the history.")
def forget(session: CliContext, refs: tuple[Ref, ...], why: str) -> None:
    """Delete rows; `cofio undo` restores them."""
    with session.memories() as memories:
        found = [
            memories.knowledge.get(*fromkey) for fromkey in dict.fromkeys(refs)
        ]  # all must exist before any is deleted
        done = [
            (memories.knowledge.delete(*ref, by=BY, why=why), ref, row.says)
            for ref, row in zip(dict.fromkeys(refs), found, strict=True)
        ]
    _tell_gone(session, done)


@command("purge", "cofio knowledge purge patterns/3f2a --yes")
@click.argument("refs", metavar="REF...", type=RefType(), nargs=-1, required=True)
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@click.option("--why", default="", metavar="TEXT", help="Reason recorded in the history.")
def purge(session: CliContext, refs: tuple[Ref, ...], yes: bool, why: str) -> None:
    """Permanently erase rows, including their history.

    This cannot be undone.
    """
    with session.memories() as memories:
        found = [(fromkey, _said(memories, fromkey)) for fromkey in dict.fromkeys(refs)]
        for ref, says in found:
            output.say(f"{'/'.join(ref)}: {says}")
        if not agreed(f"Erase {output.count(len(found), 'row')} permanently?", yes=yes):
            output.say("Nothing was changed.")
            found = []
        done = [(memories.knowledge.purge(*ref, by=BY, why=why), ref, says) for ref, says in found]
    _tell_gone(session, done)


def _said(memories: Memories, ref: Ref) -> str:
    """Return the summary of a row, from the history if it was removed."""
    try:
        return str(memories.knowledge.get(*ref).says)
    except NotFound:
        last = memories.knowledge.history(*ref)[-1]
        left = last.after or last.before
        return left.says if left else "(erased)"


def _tell_gone(session: CliContext, done: Sequence[tuple[KnowledgeChange, Ref, str]]) -> None:
    if session.as_json:
        told = [{"ref": "/".join(ref), "action": each.action, "changeset": each.changeset} for each, ref, _ in done]
        output.document({"results": told})
        return
    rows = (("/".join(ref), _DONE.get(each.action, each.action), says, each.changeset) for each, ref, says in done)
    output.table((_REF, Field("", "green"), _SAYS, Field("changeset", "cyan", "right")), rows)


for each in (
    *(threshold, pattern, correlation, seasonal, check, active, related, feedback, process, read),
    *(list_, show, history, forget, purge),
):
    knowledge.add_command(each)
