"""Cursor: our hooks in `hooks.json`, and the MCP server in `mcp.json`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from cofio.install import hook_shims, jsonc, merge, paths
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


def plan(settings: Settings, *, mcp: bool = True) -> InstallPlan:
    """Return the plan for Cursor."""
    home = paths.home_of("cursor", settings)
    folder = hook_shims.folder_in(home)
    hooks = hooks_in(folder)

    def put_hooks(text: str, older: Collection[str]) -> str:
        text = merge.text_or_empty_object(text)
        if "version" not in jsonc.loads(text):
            text = jsonc.put(text, ("version",), 1)
        return merge.put_hooks(text, hooks, older, grouped=False)

    def put_server(text: str, _older: Collection[str]) -> str:
        return merge.put_member(text, merge.SERVER, paths.server(settings))

    ours = tuple(hook["command"] for hook in hooks.values())
    edits = (
        FileEdit(path=home / "hooks.json", kind="cursor-hooks", put=put_hooks, ours=ours),
        FileEdit(path=home / "mcp.json", kind="cursor-mcp", put=put_server),
    )
    return InstallPlan(
        client="cursor",
        copies=hook_shims.copies(folder, settings.home),
        edits=edits if mcp else edits[:1],
        folder=folder,
    )


def hooks_in(folder: Path) -> dict[str, dict[str, Any]]:
    """Return our hook for each event."""
    return hook_shims.hooks_in(folder, EVENTS, " cursor")


def take_hooks(text: str, before: str, ours: Collection[str]) -> str:
    """Return the text without our hooks, and without the version if nothing else is left of a file that we created."""
    text = merge.take_hooks(text, ours, before, grouped=False)
    if list(jsonc.loads(text)) == ["version"] and "version" not in jsonc.loads(merge.text_or_empty_object(before)):
        text = jsonc.drop(text, ("version",))
    return text
