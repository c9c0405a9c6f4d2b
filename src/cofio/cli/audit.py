"""The command that profiles a store: what is in it that should not be, how much of it, and what to do about it."""

from __future__ import annotations

import sys

import click

from cofio.chores import Audit, Finding
from cofio.cli import output
from cofio.cli.output import ID, WHEN, Column
from cofio.cli.session import Session, command

#: What to do about a finding.
NEXT = {
    "secrets": "Change the secret where it is valid, then `cofio forget ID --purge` erases it here, history included.",
    "exact_duplicates": "`cofio dedup` shows what would be merged, `cofio dedup --apply` merges it.",
    "near_duplicates": "`cofio dedup` and `cofio consolidate` show what would be merged; with --apply they do it.",
    "contradictions": "`cofio forget ID` sets aside the one that does not hold, `cofio supersede ID TEXT` rewords it.",
    "echoes": "`cofio forget ID` sets one aside.",
    "stale_anchors": "`cofio confirm ID` where it still holds, else `cofio supersede ID TEXT` or `cofio forget ID`.",
    "never_recalled": "`cofio prune` shows what would be set aside; `cofio edit ID --pin` keeps one for good.",
    "unembedded": "`cofio reembed --missing` makes the vectors.",
    "oversized": "`cofio supersede ID TEXT` puts the fact in the document's place.",
}
#: With --strict, any of these is a failure.
GRAVE = ("secrets", "exact_duplicates", "contradictions")
_FAILED = 1


@command(
    "audit",
    "cofio audit",
    "cofio audit --examples 20 --json",
    "cofio audit --strict             # fails where there are secrets, copies or contradictions",
)
@click.option("--examples", type=click.IntRange(0, 100), default=5, show_default=True, help="So many of each finding.")
@click.option("--strict", is_flag=True, help=f"Exit with {_FAILED} when there are {', '.join(GRAVE)}.")
def audit(session: Session, examples: int, strict: bool) -> None:
    """Profile the store: duplicates, echoes, secrets, contradictions, what is stale or never recalled.

    Nothing is changed, and secrets are not shown.
    """
    found = _profiled(session, examples)
    if session.as_json:
        output.document(found.as_dict())
    else:
        _tell(found)
    if strict and any(each.count for each in found.findings if each.name in GRAVE):
        sys.exit(_FAILED)


def _profiled(session: Session, examples: int) -> Audit:
    from cofio.client import Client

    with session.memories() as memories:
        served = isinstance(memories, Client)  # a service does not say how far it is
        with output.progress("Looking", 100, hidden=session.as_json or served) as advance:
            done = 0

            def moved(so_far: int, _total: int) -> None:
                nonlocal done
                advance(so_far - done)
                done = so_far

            return memories.audit(examples=examples, progress=moved)


def _tell(found: Audit) -> None:
    columns = (Column("finding", "cyan"), Column("count", align="right"), Column("what it means", "dim", wraps=True))
    output.table(columns, ((_title(each), each.count, each.says) for each in found.findings))
    for finding in found.findings:
        if finding.count and finding.examples:
            _tell_examples(finding)
    if found.note:
        output.say(found.note)
    number = output.count(found.memories, "memory", "memories")
    clean = not any(each.count for each in found.findings)
    output.say(f"{number} looked at; nothing was found." if clean else f"{number} looked at, nothing changed.")


def _tell_examples(finding: Finding) -> None:
    """Each example with a line for every memory of it; the reason stands with the first."""
    rows = [
        (memory_id, text, output.when(at), "" if place and output.on_terminal() else example["reason"])
        for example in finding.examples
        for place, (memory_id, text, at) in enumerate(
            zip(example["ids"], example["texts"], example["created_at"], strict=True)
        )
    ]
    if not output.on_terminal():  # the heading is not there to tell
        output.table((), ((finding.name, *row) for row in rows))
        return
    click.echo()
    heading = f"{_title(finding)}: {len(finding.examples):,} of {finding.count:,}"
    output.table((ID, Column(heading, wraps=True), WHEN, Column("why", "dim", wraps=True)), rows)
    output.say(NEXT[finding.name])


def _title(finding: Finding) -> str:
    return finding.name.replace("_", " ") if output.on_terminal() else finding.name
