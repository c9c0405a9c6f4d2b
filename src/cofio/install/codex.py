"""Codex: our hooks in `hooks.json`, and the MCP server, `notify` and approvals of hooks in `config.toml`.

Codex runs a hook only after the user has approved it: `config.toml` then holds a hash of the hook, keyed by its
position. The hash algorithm is Codex's own; the tests compare it with the real program.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from cofio.errors import InvalidInput
from cofio.install import files, hook_shims, jsonc, merge, paths, toml_edit
from cofio.install.jsonc import MalformedConfig
from cofio.install.plan import FileCopy, FileEdit, InstallPlan
from cofio.settings import Settings

#: Shim and timeout in seconds per event.
EVENTS: Mapping[str, tuple[str, int]] = {
    "SessionStart": ("memory-recall", 10),
    "UserPromptSubmit": ("memory-query", 5),
    "Stop": ("memory-extract", 10),
    "PreCompact": ("memory-flush", 10),
    "SessionEnd": ("memory-commit", 2),
}
#: Codex's own names of the events in keys and hashes: in snake case.
LABELS: Mapping[str, str] = {event: re.sub(r"(?<!^)(?=[A-Z])", "_", event).lower() for event in EVENTS}
_UNMATCHED = ("UserPromptSubmit", "Stop")  # Codex has no matchers for these
SERVER = ("mcp_servers", "cofio")
STATE = ("hooks", "state")
_THEN = "# then: "


def plan(settings: Settings, *, mcp: bool = True, notify: bool = False, trust: bool = False) -> InstallPlan:
    """Return the plan for Codex. If our plugin is enabled, it provides the hooks and the server."""
    values = read(settings)
    if plugin := plugin_name(values):
        note = f"Codex has the cofio plugin enabled ({plugin}): hooks in its settings would run everything twice."
        return InstallPlan(client="codex", notes=(note,))
    folder = hook_shims.folder_in(paths.home_of("codex", settings))
    hooks = hooks_in(folder)
    hashes = _compute_hashes(settings, hooks)

    def put_config(text: str, _older: Collection[str]) -> str:
        if notify:
            text = toml_edit.put(text, (), {"notify": [str(wrapper_path(settings))]})
        if mcp:
            text = toml_edit.put(text, SERVER, paths.server(settings))
        for key, approval in _compute_hashes(settings, hooks).items() if trust else ():
            text = toml_edit.put(text, (*STATE, key), {"trusted_hash": approval})
        return text

    edits = [
        FileEdit(
            path=hooks_path(settings),
            kind="hooks",
            put=lambda text, older: merge.put_hooks(text, hooks, older, grouped=True),
            ours=tuple(hook["command"] for hook in hooks.values()),
        )
    ]
    if mcp or notify or trust:
        known_hashes = {*hashes.values(), *(trusted_hash(event, hook) for event, hook in hooks.items())}
        ours = (str(wrapper_path(settings)), *sorted(known_hashes))
        edits.append(FileEdit(path=config_path(settings), kind="codex-config", put=put_config, ours=ours))

    notes = []
    if is_off(values):
        notes.append("Codex's config.toml has hooks = false under [features]: no hook runs until it is removed.")
    state = _read_state(values)
    if not trust and any(state.get(key, {}).get("trusted_hash") != approval for key, approval in hashes.items()):
        notes.append("Codex asks before it runs a new hook: open it, type /hooks, and approve the five hooks of cofio.")
    return InstallPlan(
        client="codex",
        copies=(*hook_shims.copies(folder, settings.home), *([_make_wrapper(settings, values)] if notify else [])),
        edits=tuple(edits),
        notes=tuple(notes),
        folder=folder,
    )


def hooks_in(folder: Path) -> dict[str, dict[str, Any]]:
    """Return our hook for each event. Any change requires a new approval, so it contains only a path."""
    return {event: {"type": "command", **hook} for event, hook in hook_shims.hooks_in(folder, EVENTS, " codex").items()}


def hooks_path(settings: Settings) -> Path:
    return paths.home_of("codex", settings) / "hooks.json"


def config_path(settings: Settings) -> Path:
    return paths.home_of("codex", settings) / "config.toml"


def wrapper_path(settings: Settings) -> Path:
    return settings.home / "codex-notify"


def read(settings: Settings) -> dict[str, Any]:
    """Return Codex's configuration; empty if there is none or it cannot be read."""
    try:
        return toml_edit.loads(files.read_text(config_path(settings)))
    except MalformedConfig:
        return {}


def plugin_name(values: Mapping[str, Any]) -> str:
    """Return the name of our plugin if it is enabled, else ""."""
    plugins = values.get("plugins")
    names = plugins if isinstance(plugins, dict) else {}
    on = [name for name, about in names.items() if isinstance(about, dict) and about.get("enabled", True)]
    return next((name for name in on if name.split("@")[0] == "cofio"), "")


def is_off(values: Mapping[str, Any]) -> bool:
    """Return whether the configuration turns all hooks off."""
    features = values.get("features")
    return isinstance(features, dict) and features.get("hooks") is False


def trusted_hash(event: str, hook: Mapping[str, Any], matcher: Any = None) -> str:
    """Return the hash that Codex stores when a user approves this hook."""
    timeout = hook.get("timeout")
    seconds = timeout if isinstance(timeout, int) else None
    if event == "SessionEnd":  # the limits that Codex applies
        seconds = max(1, min(3, 1 if seconds is None else seconds))
    else:
        seconds = 600 if seconds is None else max(1, seconds)
    entry = {"type": "command", "command": hook["command"], "async": bool(hook.get("async", False)), "timeout": seconds}
    if hook.get("statusMessage") is not None:
        entry["statusMessage"] = hook["statusMessage"]
    group: dict[str, Any] = {"event_name": LABELS[event], "hooks": [entry]}
    if isinstance(matcher, str) and event not in _UNMATCHED:
        group["matcher"] = matcher
    text = json.dumps(group, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def untrusted_events(settings: Settings) -> list[str]:
    """Return the events of our hooks that Codex does not run because they are not approved in their current form."""
    values = read(settings)
    state, events = _read_state(values), []
    for key, event, expected in _list_hooks(settings, plugin_name(values)):
        about = state.get(key, {})
        approved_hash = str(about.get("trusted_hash", "")).partition("/")[0]  # a plugin adds a hash of its files
        if approved_hash != expected or about.get("enabled") is False:
            events.append(event)
    return events


def _list_hooks(settings: Settings, plugin: str) -> Iterator[tuple[str, str, str]]:
    """Yield Codex's key, the event and the hash of our hooks in hooks.json or in the plugin."""
    if plugin:
        for event, (name, seconds) in EVENTS.items():
            hook = {"command": f'sh "${{PLUGIN_ROOT}}/hooks/{name}" codex', "timeout": seconds}
            yield f"{plugin}:hooks/hooks.json:{LABELS[event]}:0:0", event, trusted_hash(event, hook)
    else:
        text = merge.text_or_empty_object(files.read_text(hooks_path(settings)))
        yield from _list_hooks_in(text, settings, hooks_in(hook_shims.folder_in(paths.home_of("codex", settings))))


def _list_hooks_in(text: str, settings: Settings, hooks: merge.Hooks) -> Iterator[tuple[str, str, str]]:
    """Yield Codex's key, the event and the hash of our hooks in this text of hooks.json."""
    values = jsonc.loads(text)
    home = paths.home_of("codex", settings)
    folder = os.path.realpath(home) if settings.codex_home else str(home)  # as Codex does
    for event, group, number in merge.hook_positions(text, [str(hook["command"]) for hook in hooks.values()]):
        if event in LABELS:
            entry = values["hooks"][event][group]
            key = f"{folder}/hooks.json:{LABELS[event]}:{group}:{number}"
            yield key, event, trusted_hash(event, entry["hooks"][number], entry.get("matcher"))


def _compute_hashes(settings: Settings, hooks: merge.Hooks) -> dict[str, str]:
    """Return key and hash of each of our hooks, as they will be written; nothing if the file cannot be parsed.

    The user may have changed a timeout or added a matcher: the hash covers the hook as written.
    """
    try:
        after = merge.put_hooks(files.read_text(hooks_path(settings)), hooks, (), grouped=True)
    except InvalidInput:  # the plan of that file reports the error
        return {}
    return {key: approval for key, _, approval in _list_hooks_in(after, settings, hooks)}


def _read_state(values: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    hooks = values.get("hooks")
    state = hooks.get("state") if isinstance(hooks, dict) else None
    entries = state if isinstance(state, dict) else {}
    return {name: about for name, about in entries.items() if isinstance(about, dict)}


def _make_wrapper(settings: Settings, values: Mapping[str, Any]) -> FileCopy:
    """Return the program for `notify`: it notifies cofio of the turn, then runs the previous `notify` command."""
    path = wrapper_path(settings)
    previous = values.get("notify")
    if previous == [str(path)]:
        previous = previous_notify(path)
    then = [str(word) for word in previous] if isinstance(previous, list) else []
    lines = [
        "#!/bin/sh",
        "# Written by `cofio install codex`: notifies cofio of each turn, then runs the previous `notify` command.",
        _THEN + json.dumps(then),
        f'{shlex.quote(str(paths.launcher(settings)))} codex notify "$@" </dev/null >/dev/null 2>&1 &',
        f'exec {shlex.join(then)} "$@"' if then else "exit 0",
    ]
    return FileCopy(path=path, content="".join(f"{line}\n" for line in lines).encode(), mode=0o755)


def previous_notify(wrapper: Path) -> list[str]:
    """Return the previous `notify` command from the wrapper; empty if there was none."""
    content = (files.read(wrapper) or b"").decode(errors="replace")
    line = next((candidate for candidate in content.splitlines() if candidate.startswith(_THEN)), _THEN + "[]")
    try:
        return [str(word) for word in json.loads(line.removeprefix(_THEN))]
    except ValueError:
        return []


def take_config(text: str, before: str, ours: Collection[str]) -> str:
    """Return the text without our server and approvals, and with the old `notify`. `ours`: wrapper path and hashes."""
    values = toml_edit.loads(text)
    notify = values.get("notify")
    if isinstance(notify, list) and len(notify) == 1 and notify[0] in ours:
        previous = previous_notify(Path(notify[0]))
        if "notify" in toml_edit.loads(before) or not previous:
            text = toml_edit.restore(text, ("notify",), before)
        else:  # the backup is lost: the wrapper still knows the command
            text = toml_edit.put(text, (), {"notify": previous})
    servers = values.get(SERVER[0])
    if isinstance(servers, dict) and paths.is_server(servers.get(SERVER[1])):
        text = toml_edit.restore(text, SERVER, before)
    for key, about in _read_state(values).items():
        if about.get("trusted_hash") in ours:
            text = toml_edit.drop(text, (*STATE, key))
    if not _read_state(toml_edit.loads(text)) and "state" not in toml_edit.loads(before).get("hooks", {}):
        text = toml_edit.drop(text, STATE)
    return text
