"""Dispatch by client: its plan, and the removal of our entries from each kind of file."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass

from cofio.errors import CofioError, InvalidInput
from cofio.install import claude_code, codex, cursor, files, hook_shims, merge, openclaw, plan, shell_profile
from cofio.install.manifest import Manifest
from cofio.install.plan import FileEdit, FileResult, InstallPlan, Take
from cofio.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallOptions:
    """Options of an installation."""

    mcp: bool = True
    notify: bool = False  # Codex's older notification after a turn: needs no approval, has no recall
    trust: bool = False  # approve our hooks in Codex's configuration


def plan_install(client: str, settings: Settings, options: InstallOptions) -> InstallPlan:
    """Return the plan for this client."""
    if client == "claude-code":
        return claude_code.plan(settings, mcp=options.mcp)
    if client == "codex":
        return codex.plan(settings, mcp=options.mcp, notify=options.notify, trust=options.trust)
    if client == "cursor":
        return cursor.plan(settings, mcp=options.mcp)
    return openclaw.plan(settings)


def uninstall(client: str, settings: Settings, record: Manifest) -> tuple[list[FileResult], list[CofioError]]:
    """Remove everything of ours from this client, recorded or not; return the changes and the problems."""
    try:
        install_plan = plan_install(client, settings, InstallOptions(notify=True, trust=True))
    except CofioError:  # an unreadable file, or a missing plugin: rely on the record
        install_plan = InstallPlan(client=client)
    results, problems = plan.undo(client, record, TAKES, hook_shims.is_ours)
    if not problems:
        results += [*plan.take_out(install_plan.edits, record, TAKES), *plan.removed(install_plan.copies, record)]
    return [*results, *_list_still_named(install_plan.edits)], problems


def _list_still_named(edits: Collection[FileEdit]) -> Iterator[FileResult]:
    """Yield the files in which a user's own command still starts one of our scripts."""
    for edit in edits:
        if edit.kind not in ("hooks", "cursor-hooks"):
            continue
        with suppress(InvalidInput):  # not our format: nothing was removed from it
            text = merge.text_or_empty_object(files.read_text(edit.path))
            installed = merge.installed(text, edit.ours, grouped=edit.kind == "hooks")
            if own_commands := sorted({command for commands in installed.values() for command in commands}):
                detail = f"one of your own hooks starts a removed script: {'; '.join(own_commands)}"
                yield FileResult(edit.path, "kept", detail)


def plugin_name(client: str, settings: Settings) -> str:
    """Return the name of our plugin if this client has it enabled, else ""."""
    if client == "claude-code":
        return claude_code.plugin_name(claude_code.read(settings))
    return codex.plugin_name(codex.read(settings)) if client == "codex" else ""


TAKES: dict[str, Take] = {
    "hooks": lambda text, before, ours: merge.take_hooks(text, ours, before, grouped=True),
    "claude-mcp": merge.take_server,
    "codex-config": codex.take_config,
    "cursor-hooks": cursor.take_hooks,
    "cursor-mcp": merge.take_server,
    "openclaw": openclaw.take,
    "shell": shell_profile.take,
}
