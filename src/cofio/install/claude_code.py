"""Claude Code: our hooks in `settings.json`, the shims that they start, and the MCP server."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cofio.install import files, hook_shims, jsonc, merge, paths
from cofio.install.jsonc import MalformedConfig
from cofio.install.plan import FileEdit, InstallPlan
from cofio.settings import Settings

#: Shim and timeout in seconds per event. None has a matcher: every session start counts.
EVENTS: Mapping[str, tuple[str, int]] = {
    "SessionStart": ("memory-recall", 10),
    "UserPromptSubmit": ("memory-query", 5),
    "Stop": ("memory-extract", 10),
    "StopFailure": ("memory-extract", 5),
    "PreCompact": ("memory-flush", 10),
    "PostCompact": ("memory-flush", 10),
    "SessionEnd": ("memory-commit", 2),
}
#: Minimum version of newer events: before 2.1.101, Claude Code dropped all settings because of an unknown event name.
SINCE: Mapping[str, tuple[int, ...]] = {"PostCompact": (2, 1, 76)}
_PATIENCE = 5.0  # seconds to wait for `claude --version`


def plan(settings: Settings, *, mcp: bool = True) -> InstallPlan:
    """Return the plan for Claude Code. If our plugin is enabled, it does everything, and the plan is empty."""
    values = read(settings)
    if plugin := plugin_name(values):
        note = f"Claude Code has the cofio plugin enabled ({plugin}): hooks in the settings would run everything twice."
        return InstallPlan(client="claude-code", notes=(note,))
    folder = hook_shims.folder_in(paths.home_of("claude-code", settings))
    hooks = hooks_in(folder, installed_version())
    server = {"type": "stdio", **paths.server(settings)}
    edits = [
        FileEdit(
            path=settings_path(settings),
            kind="hooks",
            put=lambda text, older: merge.put_hooks(text, hooks, older, grouped=True),
            ours=tuple(hook["command"] for hook in hooks.values()),
        ),
        FileEdit(
            path=paths.claude_state(settings),
            kind="claude-mcp",
            put=lambda text, _older: merge.put_member(text, merge.SERVER, server),
        ),
    ]
    is_off = values.get("disableAllHooks") is True
    return InstallPlan(
        client="claude-code",
        copies=hook_shims.copies(folder, settings.home),
        edits=tuple(edits if mcp else edits[:1]),
        notes=("Claude Code's settings have disableAllHooks: no hook runs until it is removed.",) if is_off else (),
        folder=folder,
    )


def hooks_in(folder: Path, version: tuple[int, ...] = ()) -> dict[str, dict[str, Any]]:
    """Return our hook for each event that this version knows."""
    events = {event: shim for event, shim in EVENTS.items() if version >= SINCE.get(event, ())}
    return {event: {"type": "command", **hook} for event, hook in hook_shims.hooks_in(folder, events).items()}


def installed_version() -> tuple[int, ...]:
    """Return the version of the `claude` on the path; () if it is missing or does not report one."""
    program = shutil.which("claude")
    if program is None:
        return ()
    try:
        output = subprocess.run(  # noqa: S603 - the client that the person has installed
            [program, "--version"],
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
            stdin=subprocess.DEVNULL,
        ).stdout
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ()
    match = re.match(r"\s*(\d+)\.(\d+)\.(\d+)", output)
    return tuple(map(int, match.groups())) if match else ()


def settings_path(settings: Settings) -> Path:
    return paths.home_of("claude-code", settings) / "settings.json"


def read(settings: Settings) -> dict[str, Any]:
    """Return Claude Code's settings; empty if there are none or they cannot be read."""
    try:
        values = jsonc.loads(merge.text_or_empty_object(files.read_text(settings_path(settings))))
    except MalformedConfig:
        return {}
    return values if isinstance(values, dict) else {}


def plugin_name(values: Mapping[str, Any]) -> str:
    """Return the name of our plugin if it is enabled, else ""."""
    plugins = values.get("enabledPlugins")
    names = plugins if isinstance(plugins, dict) else {}
    return next((name for name, on in names.items() if name.split("@")[0] == "cofio" and on), "")
