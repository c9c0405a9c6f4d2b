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

from cofio.install import jsonc
from cofio.install.jsonc import MalformedJson, Path

#: Contents of our hooks by event.
Hooks = Mapping[str, Mapping[str, Any]]


def text_or_empty_object(text: str) -> str:
    """Return the text, or an empty object for blank text."""
    return text if text.strip("\ufeff \t\r\n") else "{}\n"


def put_hooks(text: str, wanted: Hooks, ours: Collection[str], *, grouped: bool) -> str:
    """Return the text with these hooks of ours, once each. `ours`: commands that identify older hooks of ours.

    Changes by the user to a hook of ours are kept: a timeout, a shell that starts it.
    """
    text = text_or_empty_object(text)
    known = {str(hook["command"]) for hook in wanted.values()} | set(ours)
    for event, hook in wanted.items():
        there = [path for path, command in _hooks_of(text, grouped) if path[1] == event and names(command, known)]
        for path in reversed(there[1:]):
            text = _dropped(text, path, grouped)
        if there:
            text = _renewed(text, there[0], hook)
        else:
            text = jsonc.append(text, ("hooks", event), {"hooks": [dict(hook)]} if grouped else dict(hook))
    return _without_ours(text, known, grouped, spared=wanted)


def take_hooks(text: str, ours: Collection[str], before: str, *, grouped: bool) -> str:
    """Return the text without our hooks, and without containers that this empties and that were not there before us."""
    after = _without_ours(text, ours, grouped)
    emptied = [("hooks", event) for event in _emptied(text, after)]
    return _pruned(after, [*emptied, ("hooks",)], before) if after != text else text


def installed(text: str, ours: Collection[str], *, grouped: bool) -> dict[str, list[str]]:
    """Return our commands in the file, by event."""
    found: dict[str, list[str]] = {}
    for path, command in _hooks_of(text, grouped):
        if names(command, ours):
            found.setdefault(str(path[1]), []).append(command)
    return found


def names(command: str, ours: Collection[str]) -> bool:
    """Return whether a command is one of ours, or runs its program in another way, such as `bash PROGRAM`."""
    if command in ours:
        return True
    home = os.path.expanduser("~")  # noqa: PTH111 (never fails)
    told = re.sub(r"^~(?=/)|(?<=[\s\"'])~(?=/)|\$HOME\b|\$\{HOME\}", lambda _: home, command)
    ways = {way for each in ours if (name := program(each)).startswith("/") for way in (name, shlex.quote(name))}
    return any(re.search(rf"{re.escape(way)}(?![\w./-])", text) for way in ways for text in (command, told))


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
    found = [path for path, command in _hooks_of(text, grouped=True) if names(command, ours)]
    return [(str(path[1]), int(path[2]), int(path[4])) for path in found]


def put_member(text: str, path: Path, value: Mapping[str, Any]) -> str:
    """Return the text with these fields in the object at the path; its other fields are kept."""
    text = text_or_empty_object(text)
    there = jsonc.parse(text).at(path)
    if there is None:
        return jsonc.put(text, path, dict(value))
    for name, each in value.items():
        deeper = isinstance(each, Mapping) and there.at((name,))
        text = put_member(text, (*path, name), each) if deeper else jsonc.put(text, (*path, name), each)
    return text


def take_member(text: str, path: Path, before: str) -> str:
    """Return the text without the value at the path, and without parents that become empty and were not there before
    us.

    If there was a value before us, it is restored instead.
    """
    if jsonc.parse(text).at(path) is None:
        return text
    if old := jsonc.parse(text_or_empty_object(before)).at(path):
        return jsonc.put(text, path, old.plain())
    after = jsonc.drop(text, path)
    return _pruned(after, [path[:size] for size in range(len(path) - 1, 0, -1)], before)


def _hooks_of(text: str, grouped: bool) -> Iterator[tuple[Path, str]]:
    """Yield every hook in the file as its path and command."""
    root = jsonc.loads(text)
    if not isinstance(root, dict):
        raise MalformedJson("the file is not an object")
    hooks = root.get("hooks")
    if hooks is not None and not isinstance(hooks, dict):
        raise MalformedJson("hooks is not an object")
    for event, entries in (hooks or {}).items():
        if not isinstance(entries, list):
            raise MalformedJson(f"hooks.{event} is not an array")
        for place, entry in enumerate(entries):
            inner = entry.get("hooks") if isinstance(entry, dict) else None
            if not grouped:
                yield ("hooks", event, place), _command(entry)
            elif isinstance(inner, list):
                for number, hook in enumerate(inner):
                    yield ("hooks", event, place, "hooks", number), _command(hook)


def _command(hook: Any) -> str:
    command = hook.get("command") if isinstance(hook, dict) else None
    return command if isinstance(command, str) else ""


def _without_ours(text: str, ours: Collection[str], grouped: bool, spared: Collection[str] = ()) -> str:
    found = [path for path, command in _hooks_of(text, grouped) if is_wrapped(command, ours) and path[1] not in spared]
    for path in reversed(found):
        text = _dropped(text, path, grouped)
    return text


def _renewed(text: str, path: Path, hook: Mapping[str, Any]) -> str:
    """Return the text with missing fields added to our hook, or with the hook replaced if its command is outdated."""
    there = jsonc.parse(text).at(path)
    held = there.plain() if there else {}
    if not names(_command(held), [str(hook["command"])]):
        return jsonc.put(text, path, dict(hook))
    for name, value in hook.items():
        if name not in held:
            text = jsonc.put(text, (*path, name), value)
    return text


def _dropped(text: str, path: Path, grouped: bool) -> str:
    """Return the text without a hook, and without its group if that becomes empty."""
    text = jsonc.drop(text, path)
    group = jsonc.parse(text).at(path[:3])
    held = group.at(("hooks",)) if grouped and group else None
    return jsonc.drop(text, path[:3]) if held and not held.children else text


def _emptied(text: str, after: str) -> list[str]:
    """Return the events that have lost all hooks."""
    was, now = jsonc.loads(text).get("hooks", {}), jsonc.loads(after).get("hooks", {})
    return [event for event, entries in now.items() if not entries and was.get(event)]


def _pruned(text: str, paths: list[Path], before: str) -> str:
    """Return the text without those of these paths that are empty and were not there before."""
    old = jsonc.parse(text_or_empty_object(before))
    for path in paths:
        node = jsonc.parse(text).at(path)
        if node and not node.children and node.kind != "scalar" and old.at(path) is None:
            text = jsonc.drop(text, path)
    return text
