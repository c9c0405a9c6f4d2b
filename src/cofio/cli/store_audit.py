"""The audit command: problems in a store, their number, and what to do about them."""

from __future__ import annotations

import sys

import click

from cofio.cli import output
from cofio.cli.output import ID, WHEN, Field
from cofio.cli.shared_options import CliContext, command
from cofio.models.maintenance import Audit, Finding

#: Advice for each finding.
NEXT = {
    "secrets": "Replace the secret where it is used; then erase it here, history included: `cofio forget ID --purge`.",
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
)
@click.option("--examples", type=click.IntRange(0, 100), default=5, show_default=True,
              help="Maximum number of examples of each finding.")  # fmt: skip
@click.option("--strict", is_flag=True, help=f"Exit with code {_FAILED} if any of these is found: {', '.join(SEVERE)}.")
def audit(session: CliContext, examples: int, strict: bool) -> None:
    """Audit the store: duplicates, echoes, secrets, contradictions, stale and unused memories.

    Echoes are memories that only repeat text that an agent was shown. Nothing is changed, and secrets are not printed.
    """
    from cofio.client import Client

    with session.memories() as memories:
        is_remote = isinstance(memories, Client)  # a service reports no progress
        with output.progress("Auditing", 100, hidden=session.as_json or is_remote) as bar:
            report = memories.audit(examples=examples, progress=lambda done, _: bar.move_to(done))
    if not session.print_json(report):
        _print_report(report)
    if strict and any(finding.count for finding in report.findings if finding.name in SEVERE):
        sys.exit(_FAILED)


def _print_report(report: Audit) -> None:
    columns = (Field("finding", "cyan"), Field("count", align="right"), Field("meaning", "dim", wraps=True))
    output.table(columns, ((_format_title(finding), finding.count, finding.says) for finding in report.findings))
    for finding in report.findings:
        if finding.count and finding.examples:
            _print_examples(finding)
    if report.note:
        output.say(report.note)
    number = output.count(report.memories, "memory", "memories")
    clean = not any(finding.count for finding in report.findings)
    output.say(f"{number} checked; nothing was found." if clean else f"{number} checked; the audit changed nothing.")


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
