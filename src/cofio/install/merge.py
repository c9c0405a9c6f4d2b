"""Our hooks and keys in other programs' JSON: added once, updated in place, and removed completely.

There are two formats of hooks. Claude Code and Codex have groups, {"hooks": {"Stop": [{"hooks": [{"command": …}]}]}};
Cursor lists the hooks directly, {"hooks": {"stop": [{"command": …}]}}.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from cofio.install import jsonc, paths
from cofio.install.jsonc import MalformedConfig, Path

SERVER = ("mcpServers", "cofio")
#: Contents of our hooks by event.
Hooks = Mapping[str, Mapping[str, Any]]


def text_or_empty_object(text: str) -> str:
    """Return the text, or an empty object for blank text."""
    return text if text.strip("\ufeff \t\r\n") else "{}\n"


def put_hooks(text: str, hooks: Hooks, ours: Collection[str], *, grouped: bool) -> str:
    """Return the text with these hooks of ours, once each. `ours`: commands that identify older hooks of ours.

    Changes by the user to a hook of ours are kept: a timeout, a shell that starts it.
    """
    text = text_or_empty_object(text)
    commands = {str(hook["command"]) for hook in hooks.values()} | set(ours)
    for event, hook in hooks.items():
        ours_here = [path for path, own in _list_hooks(text, grouped) if path[1] == event and names(own, commands)]
        for path in reversed(ours_here[1:]):
            text = _drop(text, path, grouped)
        if ours_here:
            text = _renew(text, ours_here[0], hook)
        else:
            text = jsonc.append(text, ("hooks", event), {"hooks": [dict(hook)]} if grouped else dict(hook))
    return _drop_ours(text, commands, grouped, spared=hooks)


def take_hooks(text: str, ours: Collection[str], before: str, *, grouped: bool) -> str:
    """Return the text without our hooks, and without containers that this empties and that were not there before us."""
    after = _drop_ours(text, ours, grouped)
    if after == text:
        return text
    hooks_before = jsonc.loads(text).get("hooks", {})
    hooks_after = jsonc.loads(after).get("hooks", {})
    emptied = [("hooks", event) for event, entries in hooks_after.items() if not entries and hooks_before.get(event)]
    return _prune(after, [*emptied, ("hooks",)], before)


def installed(text: str, ours: Collection[str], *, grouped: bool) -> dict[str, list[str]]:
    """Return our commands in the file, by event."""
    commands: dict[str, list[str]] = {}
    for path, command in _list_hooks(text, grouped):
        if names(command, ours):
            commands.setdefault(str(path[1]), []).append(command)
    return commands


def names(command: str, ours: Collection[str]) -> bool:
    """Return whether a command is one of ours, or runs its program in another way, such as `bash PROGRAM`."""
    if command in ours:
        return True
    home = os.path.expanduser("~")  # noqa: PTH111 (never fails)
    expanded = re.sub(r"^~(?=/)|(?<=[\s\"'])~(?=/)|\$HOME\b|\$\{HOME\}", lambda _: home, command)
    ways = {way for own in ours if (name := program(own)).startswith("/") for way in (name, shlex.quote(name))}
    return any(re.search(rf"{re.escape(way)}(?![\w./-])", text) for way in ways for text in (command, expanded))


def program(command: str) -> str:
    """Return the program that a command starts."""
    try:
        return (shlex.split(command) or [""])[0]
    except ValueError:
        return ""


def is_wrapped(command: str, ours: Collection[str]) -> bool:
    """Return whether a command only runs one of ours, through a shell or with other arguments, and nothing else."""
    if command in ours:
        return True
    try:
        words = list(shlex.shlex(command, posix=True, punctuation_chars=True))
    except ValueError:
        return False
    return names(command, ours) and not any(set(word) <= set("();<>|&") for word in words)


def hook_positions(text: str, ours: Collection[str]) -> list[tuple[str, int, int]]:
    """Return the positions of our hooks in groups: event, index of the group, index of the hook."""
    return [
        (str(path[1]), int(path[2]), int(path[4]))
        for path, command in _list_hooks(text, grouped=True)
        if names(command, ours)
    ]


def put_member(text: str, path: Path, value: Mapping[str, Any]) -> str:
    """Return the text with these fields in the object at the path; its other fields are kept."""
    text = text_or_empty_object(text)
    node = jsonc.parse(text).at(path)
    if node is None:
        return jsonc.put(text, path, dict(value))
    for name, field in value.items():
        deeper = isinstance(field, Mapping) and node.at((name,))
        text = put_member(text, (*path, name), field) if deeper else jsonc.put(text, (*path, name), field)
    return text


def take_member(text: str, path: Path, before: str) -> str:
    """Return the text without the value at the path and parents that we added, or with the value from before us."""
    if jsonc.parse(text).at(path) is None:
        return text
    if previous := jsonc.parse(text_or_empty_object(before)).at(path):
        return jsonc.put(text, path, previous.plain())
    after = jsonc.drop(text, path)
    return _prune(after, [path[:size] for size in range(len(path) - 1, 0, -1)], before)


def take_server(text: str, before: str, _ours: Collection[str]) -> str:
    """Return the text without our MCP server."""
    node = jsonc.parse(text).at(SERVER)
    return take_member(text, SERVER, before) if node and paths.is_server(node.plain()) else text


def _list_hooks(text: str, grouped: bool) -> Iterator[tuple[Path, str]]:
    root = jsonc.loads(text)
    if not isinstance(root, dict):
        raise MalformedConfig("the file is not an object")
    hooks = root.get("hooks")
    if hooks is not None and not isinstance(hooks, dict):
        raise MalformedConfig("hooks is not an object")
    for event, entries in (hooks or {}).items():
        if not isinstance(entries, list):
            raise MalformedConfig(f"hooks.{event} is not an array")
        for place, entry in enumerate(entries):
            inner = entry.get("hooks") if isinstance(entry, dict) else None
            if not grouped:
                yield ("hooks", event, place), _read_command(entry)
            elif isinstance(inner, list):
                for number, hook in enumerate(inner):
                    yield ("hooks", event, place, "hooks", number), _read_command(hook)


def _read_command(hook: Any) -> str:
    command = hook.get("command") if isinstance(hook, dict) else None
    return command if isinstance(command, str) else ""


def _drop_ours(text: str, ours: Collection[str], grouped: bool, spared: Collection[str] = ()) -> str:
    for path, command in reversed(list(_list_hooks(text, grouped))):
        if is_wrapped(command, ours) and path[1] not in spared:
            text = _drop(text, path, grouped)
    return text


def _renew(text: str, path: Path, hook: Mapping[str, Any]) -> str:
    """Return the text with missing fields added to our hook, or with the hook replaced if its command is outdated."""
    node = jsonc.parse(text).at(path)
    current = node.plain() if node else {}
    if not names(_read_command(current), [str(hook["command"])]):
        return jsonc.put(text, path, dict(hook))
    for name, value in hook.items():
        if name not in current:
            text = jsonc.put(text, (*path, name), value)
    return text


def _drop(text: str, path: Path, grouped: bool) -> str:
    """Return the text without a hook, and without its group if that becomes empty."""
    text = jsonc.drop(text, path)
    group = jsonc.parse(text).at(path[:3])
    hooks = group.at(("hooks",)) if grouped and group else None
    return jsonc.drop(text, path[:3]) if hooks and not hooks.children else text


def _prune(text: str, paths: list[Path], before: str) -> str:
    """Return the text without those of these paths that are empty and were not there before."""
    root = jsonc.parse(text_or_empty_object(before))
    for path in paths:
        node = jsonc.parse(text).at(path)
        if node and not node.children and node.kind != "scalar" and root.at(path) is None:
            text = jsonc.drop(text, path)
    return text
