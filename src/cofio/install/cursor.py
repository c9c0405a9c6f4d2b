"""Cursor: our hooks in `hooks.json`, and the MCP server in `mcp.json`."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from cofio.install import jsonc, merge, paths, shims
from cofio.install.plan import FileEdit, InstallPlan
from cofio.settings import Settings

#: Shim and timeout in seconds per event.
EVENTS: Mapping[str, tuple[str, int]] = {
    "sessionStart": ("memory-recall", 10),
    "beforeSubmitPrompt": ("memory-query", 5),
    "afterAgentResponse": ("memory-extract", 10),
    "preCompact": ("memory-flush", 10),
    "sessionEnd": ("memory-commit", 5),
}
SERVER = ("mcpServers", "cofio")


def plan(settings: Settings, *, mcp: bool = True) -> InstallPlan:
    """Return the plan for Cursor."""
    home = paths.home_of("cursor", settings)
    folder = shims.folder_in(home)
    hook_by_event = hooks_in(folder)
    ours = tuple(str(hook["command"]) for hook in hook_by_event.values())

    def put(text: str, older: Collection[str]) -> str:
        text = merge.text_or_empty_object(text)
        if "version" not in jsonc.loads(text):
            text = jsonc.put(text, ("version",), 1)
        return merge.put_hooks(text, hook_by_event, {*ours, *older}, grouped=False)

    def serve(text: str, _known: Collection[str]) -> str:
        return merge.put_member(text, SERVER, paths.server(settings))

    hooks = FileEdit(path=home / "hooks.json", kind="cursor-hooks", put=put, ours=ours)
    server = FileEdit(path=home / "mcp.json", kind="cursor-mcp", put=serve)
    return InstallPlan(
        client="cursor",
        copies=shims.copies(folder, settings.home),
        edits=(hooks, server) if mcp else (hooks,),
        folder=folder,
    )


def hooks_in(folder: Path) -> dict[str, dict[str, Any]]:
    """Return our hook for each event."""
    return {
        event: {"command": f"{shlex.quote(str(folder / name))} cursor", "timeout": seconds}
        for event, (name, seconds) in EVENTS.items()
    }


def take_hooks(text: str, before: str, ours: Collection[str]) -> str:
    """Return the text without our hooks, and without the version if nothing else is left of a file that we created."""
    text = merge.take_hooks(text, ours, before, grouped=False)
    if list(jsonc.loads(text)) == ["version"] and "version" not in jsonc.loads(merge.text_or_empty_object(before)):
        text = jsonc.drop(text, ("version",))
    return text


def take_server(text: str, before: str, _ours: Collection[str]) -> str:
    """Return the text without our MCP server."""
    node = jsonc.parse(text).at(SERVER)
    return merge.take_member(text, SERVER, before) if node and paths.is_server(node.plain()) else text
