"""OpenClaw: our plugin in the memory slot of `openclaw.json`, its files in our home, and the skill."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from cofio.errors import NotFound
from cofio.install import jsonc, merge, paths
from cofio.install.plan import FileCopy, FileEdit, InstallPlan
from cofio.settings import Settings

_PACKAGE = Path(__file__).parents[1]
#: Folders that may hold the plugin: in a checkout, and in an installed package.
SOURCES = (_PACKAGE.parents[1] / "integrations" / "openclaw", _PACKAGE / "integrations" / "openclaw")
_MANIFEST = "openclaw.plugin.json"
_SHIPPED = (_MANIFEST, "package.json", "README.md", "js/*.js", "src/*.ts")
_SKILLS = "skills"


def plan(settings: Settings) -> InstallPlan:
    """Return the plan for OpenClaw."""
    source, folder = plugin_source(), target(settings)
    plugin = plugin_id()
    notes = ["OpenClaw loads a plugin when its configuration changes; if not, run `openclaw gateway restart`."]
    if settings.api_key and settings.url:
        notes.append("The service requires a key: set it yourself as `token` in plugins.entries.cofio.config.")
    return InstallPlan(
        client="openclaw",
        copies=(
            *_list_copies(source, _SHIPPED, folder),
            *_list_copies(source / _SKILLS, ("**/*",), paths.home_of("openclaw", settings) / _SKILLS),
        ),
        edits=(
            FileEdit(
                path=paths.openclaw_config(settings),
                kind="openclaw",
                put=lambda text, _older: put_plugin(text, plugin, str(folder), _make_config(settings)),
                ours=(plugin, str(folder)),
            ),
        ),
        notes=tuple(notes),
        folder=folder,
    )


def plugin_source() -> Path:
    """Return the folder of the plugin. Raise NotFound if this installation has none."""
    for folder in SOURCES:
        if (folder / _MANIFEST).is_file():
            return folder
    raise NotFound("This installation has no plugin for OpenClaw.", "Install from a checkout, or a newer package.")


def plugin_id() -> str:
    """Return the id of the plugin in its manifest."""
    return str(json.loads((plugin_source() / _MANIFEST).read_text(encoding="utf-8"))["id"])


def target(settings: Settings) -> Path:
    """Return the folder that the plugin is copied to: a checkout may move, the home does not."""
    return settings.home / "openclaw"


def _make_config(settings: Settings) -> dict[str, Any]:
    """Return the plugin's configuration: the URL of a remote service, or a home other than the default one."""
    if settings.url:
        return {"baseUrl": settings.url}
    return {} if settings.origins.get("home") == "default" else {"home": str(settings.home)}


def _list_copies(source: Path, patterns: Iterable[str], folder: Path) -> Iterator[FileCopy]:
    for pattern in patterns:
        for path in sorted(source.glob(pattern)):
            if path.is_file():
                mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
                yield FileCopy(path=folder / path.relative_to(source), content=path.read_bytes(), mode=mode)


def put_plugin(text: str, plugin: str, folder: str, config: dict[str, Any]) -> str:
    """Return the text with the plugin loadable, allowed, enabled, and in the memory slot."""
    text = merge.text_or_empty_object(text)
    text = _add_item(text, ("plugins", "load", "paths"), folder)
    if jsonc.parse(text).at(("plugins", "allow")):
        text = _add_item(text, ("plugins", "allow"), plugin)
    text = jsonc.put(text, ("plugins", "slots", "memory"), plugin)
    entry = ("plugins", "entries", plugin)
    text = jsonc.put(text, (*entry, "enabled"), True)
    text = jsonc.put(text, (*entry, "hooks", "allowConversationAccess"), True)
    for name, value in config.items():
        text = jsonc.put(text, (*entry, "config", name), value)
    return text


def _add_item(text: str, path: jsonc.Path, value: str) -> str:
    array = jsonc.parse(text).at(path)
    return text if array and value in (array.plain() or []) else jsonc.append(text, path, value)


def take(text: str, before: str, ours: Collection[str]) -> str:
    """Return the text without the plugin, with the previous one in the memory slot. `ours`: its id and folder."""
    for path in (("plugins", "load", "paths"), ("plugins", "allow")):
        text = _remove_items(text, path, ours, before)
    slot = jsonc.parse(text).at(("plugins", "slots", "memory"))
    if slot and slot.plain() in ours:
        text = merge.take_member(text, ("plugins", "slots", "memory"), before)
    for name in ours:
        text = merge.take_member(text, ("plugins", "entries", name), before)
    return text


def _remove_items(text: str, path: jsonc.Path, ours: Collection[str], before: str) -> str:
    array = jsonc.parse(text).at(path)
    items = array.plain() if array and array.kind == "array" else []
    for place in reversed(range(len(items))):
        if items[place] in ours:
            text = jsonc.drop(text, (*path, place))
    remaining = jsonc.parse(text).at(path)
    made_by_us = jsonc.parse(merge.text_or_empty_object(before)).at(path) is None
    return (
        merge.take_member(text, path, before) if remaining and items and not remaining.children and made_by_us else text
    )
