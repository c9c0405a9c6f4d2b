"""What each client gets, in one place: its plan, and how ours is taken out of each kind of file."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from cofio.errors import CofioError
from cofio.install import claude_code, codex, cursor, merge, openclaw, plan, shell
from cofio.install.plan import Done, Edit, Plan, Take
from cofio.install.record import Record
from cofio.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What may be chosen about an installation."""

    mcp: bool = True
    notify: bool = False  # Codex's older way to tell of a turn: needs no trust, recalls nothing
    trust: bool = False  # approve our hooks in Codex's place


def planned(client: str, settings: Settings, wishes: Wishes) -> Plan:
    """What is to be written for this client."""
    if client == "claude-code":
        return claude_code.plan(settings, mcp=wishes.mcp)
    if client == "codex":
        return codex.plan(settings, mcp=wishes.mcp, notify=wishes.notify, trust=wishes.trust)
    if client == "cursor":
        return cursor.plan(settings, mcp=wishes.mcp)
    return openclaw.plan(settings)


def uninstall(client: str, settings: Settings, record: Record) -> tuple[list[Done], list[CofioError]]:
    """Take out all of ours for this client, whether or not the record knows of it."""
    known = _edits(client, settings)
    done, problems = plan.undo(client, record, TAKES)
    more = plan.taken_out(known, record, TAKES) if not problems else []
    return [*done, *more], problems


def _edits(client: str, settings: Settings) -> tuple[Edit, ...]:
    try:
        return planned(client, settings, Wishes(notify=True, trust=True)).edits
    except CofioError:  # a file that nobody can read, or a plugin that did not come along: the record has to do
        return ()


def _take_groups(text: str, before: str, ours: Collection[str]) -> str:
    return merge.take_hooks(text, ours, before, grouped=True)


TAKES: dict[str, Take] = {
    "hooks": _take_groups,
    "claude-mcp": claude_code.take_server,
    "codex-config": codex.take_config,
    "cursor-hooks": cursor.take_hooks,
    "cursor-mcp": cursor.take_server,
    "openclaw": openclaw.take,
    "shell": shell.take,
}
