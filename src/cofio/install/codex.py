"""Codex: our hooks in `hooks.json`, and in `config.toml` the MCP server, `notify`, and whether the hooks are trusted.

Codex runs a hook only once its owner has approved it: `config.toml` then holds, by the hook's place, a hash of what it
does. The recipe of the hash is Codex's own; it is compared with the real program in the tests.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from cofio.errors import InvalidInput
from cofio.install import files, jsonc, merge, places, shims, toml
from cofio.install.jsonc import Malformed
from cofio.install.plan import Copy, Edit, Plan
from cofio.settings import Settings

#: Which shim each event starts, and the seconds that Codex waits for it.
EVENTS: Mapping[str, tuple[str, int]] = {
    "SessionStart": ("memory-recall", 10),
    "UserPromptSubmit": ("memory-query", 5),
    "Stop": ("memory-extract", 10),
    "PreCompact": ("memory-flush", 10),
    "SessionEnd": ("memory-commit", 2),
}
LABELS: Mapping[str, str] = {
    "SessionStart": "session_start",
    "UserPromptSubmit": "user_prompt_submit",
    "Stop": "stop",
    "PreCompact": "pre_compact",
    "SessionEnd": "session_end",
}
_UNMATCHED = ("UserPromptSubmit", "Stop")  # Codex has no matchers for these
SERVER = ("mcp_servers", "cofio")
STATE = ("hooks", "state")
_THEN = "# then: "


def plan(settings: Settings, *, mcp: bool = True, notify: bool = False, trust: bool = False) -> Plan:
    """What is to be written. Where our plugin is on already, it has the hooks and the server."""
    told = read(settings)
    if plugin := plugged(told):
        note = f"Codex has our plugin on already ({plugin}): hooks of our own would run everything twice."
        return Plan(client="codex", notes=(note,))
    folder = shims.folder_in(places.home_of("codex", settings))
    wanted = hooks_in(folder)
    commands = tuple(str(each["command"]) for each in wanted.values())

    def put(text: str, known: Collection[str]) -> str:
        return merge.put_hooks(text, wanted, {*commands, *known}, grouped=True)

    hooks = Edit(path=hooks_path(settings), kind="hooks", put=put, ours=commands)
    config = _Config(settings, wanted, mcp, notify, trust)
    edits = (hooks, config.edit()) if mcp or notify or trust else (hooks,)
    return Plan(
        client="codex",
        copies=(*shims.copies(folder, settings.home), *([config.wrapper(told)] if notify else [])),
        edits=edits,
        notes=_notes(told, approved=trust or config.is_approved(told)),
        folder=folder,
    )


def hooks_in(folder: Path) -> dict[str, dict[str, Any]]:
    """Our hook of each event. Any change of it makes its owner approve it anew: it names a file and nothing else."""
    return {
        event: {"type": "command", "command": f"{shlex.quote(str(folder / name))} codex", "timeout": seconds}
        for event, (name, seconds) in EVENTS.items()
    }


def hooks_path(settings: Settings) -> Path:
    return places.home_of("codex", settings) / "hooks.json"


def config_path(settings: Settings) -> Path:
    return places.home_of("codex", settings) / "config.toml"


def wrapper_path(settings: Settings) -> Path:
    return settings.home / "codex-notify"


def read(settings: Settings) -> dict[str, Any]:
    """Codex's configuration; empty where there is none, or it cannot be read."""
    content = files.read(config_path(settings))
    try:
        return toml.loads(files.text_of(config_path(settings), content or b""))
    except Malformed:
        return {}


def plugged(told: Mapping[str, Any]) -> str:
    """The name of our plugin where it is on; "" where it is not."""
    known = told.get("plugins")
    names = known if isinstance(known, dict) else {}
    on = [name for name, about in names.items() if isinstance(about, dict) and about.get("enabled", True)]
    return next((name for name in on if name.split("@")[0] == "cofio"), "")


def _notes(told: Mapping[str, Any], *, approved: bool) -> tuple[str, ...]:
    features = told.get("features")
    off = isinstance(features, dict) and features.get("hooks") is False
    notes = ["Codex's config.toml has hooks = false under [features]: no hook runs until that is gone."] if off else []
    if not approved:
        notes.append("Codex asks before it runs a new hook: open it, type /hooks, and approve the five of cofio.")
    return tuple(notes)


# ── trust ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def trusted_hash(event: str, hook: Mapping[str, Any], matcher: Any = None) -> str:
    """What Codex notes down when a person approves this hook: a hash of all that it does."""
    named = {"type": "command", "command": hook["command"], "async": bool(hook.get("async", False))}
    named["timeout"] = _seconds(event, hook.get("timeout"))
    if hook.get("statusMessage") is not None:
        named["statusMessage"] = hook["statusMessage"]
    group: dict[str, Any] = {"event_name": LABELS[event], "hooks": [named]}
    if isinstance(matcher, str) and event not in _UNMATCHED:
        group["matcher"] = matcher
    told = json.dumps(group, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(told.encode()).hexdigest()}"


def _seconds(event: str, timeout: Any) -> int:
    """How long Codex waits, by its own rules."""
    told = timeout if isinstance(timeout, int) else None
    if event == "SessionEnd":
        return max(1, min(3, 1 if told is None else told))
    return 600 if told is None else max(1, told)


def trust_key(settings: Settings, event: str, group: int, number: int) -> str:
    """The name under which Codex keeps its word on the hook at this place."""
    home = places.home_of("codex", settings)
    folder = os.path.realpath(home) if settings.codex_home else str(home)  # as Codex does
    return f"{folder}/hooks.json:{LABELS[event]}:{group}:{number}"


def untrusted(settings: Settings) -> list[str]:
    """The events of our hooks that Codex does not run, for nobody has approved them as they are."""
    told = read(settings)
    known, found = _state(told), []
    for key, event, expected in _at_their_places(settings, plugged(told)):
        about = known.get(key, {})
        approved = str(about.get("trusted_hash", "")).partition("/")[0]  # a plugin adds a hash of its files
        if approved != expected or about.get("enabled") is False:
            found.append(event)
    return found


def _at_their_places(settings: Settings, plugin: str) -> Iterator[tuple[str, str, str]]:
    """Our hooks as they stand in hooks.json, or in the plugin: the name of each to Codex, its event, its hash."""
    if plugin:
        for event, (name, seconds) in EVENTS.items():
            hook = {"command": f'sh "${{PLUGIN_ROOT}}/hooks/{name}" codex', "timeout": seconds}
            yield f"{plugin}:hooks/hooks.json:{LABELS[event]}:0:0", event, trusted_hash(event, hook)
        return
    path = hooks_path(settings)
    text = merge.begun(files.text_of(path, files.read(path) or b""))
    wanted = hooks_in(shims.folder_in(places.home_of("codex", settings)))
    told = jsonc.loads(text)
    for event, group, number in merge.places(text, [str(each["command"]) for each in wanted.values()]):
        if event in LABELS:
            held = told["hooks"][event][group]
            key = trust_key(settings, event, group, number)
            yield key, event, trusted_hash(event, held["hooks"][number], held.get("matcher"))


def _state(told: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    hooks = told.get("hooks")
    state = hooks.get("state") if isinstance(hooks, dict) else None
    known = state if isinstance(state, dict) else {}
    return {name: about for name, about in known.items() if isinstance(about, dict)}


# ── config.toml ───────────────────────────────────────────────────────────────────────────────────────────────────────


class _Config:
    """What goes into config.toml."""

    def __init__(
        self, settings: Settings, wanted: Mapping[str, Mapping[str, Any]], mcp: bool, notify: bool, trust: bool
    ) -> None:
        self._settings, self._wanted = settings, wanted
        self._mcp, self._notify, self._trust = mcp, notify, trust

    def edit(self) -> Edit:
        hashes = {trusted_hash(event, hook) for event, hook in self._wanted.items()} | set(self._hashes().values())
        ours = (str(wrapper_path(self._settings)), *sorted(hashes))
        return Edit(path=config_path(self._settings), kind="codex-config", put=self._put, ours=ours)

    def is_approved(self, told: Mapping[str, Any]) -> bool:
        """Whether the hooks, as they will stand, have been approved already."""
        known = _state(told)
        return all(known.get(key, {}).get("trusted_hash") == each for key, each in self._hashes().items())

    def wrapper(self, told: Mapping[str, Any]) -> Copy:
        """The program for `notify`: it tells us of the turn, and then does what `notify` did before."""
        old = told.get("notify")
        path = wrapper_path(self._settings)
        if old == [str(path)]:
            old = chained(path)
        then = [str(each) for each in old] if isinstance(old, list) else []
        return Copy(path=path, content=_wrapper(places.launcher(self._settings), then), mode=0o755, kind="own")

    def _put(self, text: str, _known: Collection[str]) -> str:
        if self._notify:
            text = toml.put(text, "notify", [str(wrapper_path(self._settings))])
        if self._mcp:
            text = toml.put_table(text, SERVER, places.server(self._settings))
        return self._trusting(text) if self._trust else text

    def _trusting(self, text: str) -> str:
        for key, approval in self._hashes().items():
            text = toml.put_table(text, (*STATE, key), {"trusted_hash": approval})
        return text

    def _hashes(self) -> dict[str, str]:
        """What Codex calls each of our hooks, as they will stand, and its hash; nothing where the file makes no sense.

        Its owner may have changed a timeout, or written a matcher: the hash is of what stands there.
        """
        path = hooks_path(self._settings)
        commands = [str(each["command"]) for each in self._wanted.values()]
        try:
            now = files.text_of(path, files.read(path) or b"")
            after = merge.put_hooks(now, self._wanted, commands, grouped=True)
        except InvalidInput:  # whoever plans to write it says so
            return {}
        told, found = jsonc.loads(after)["hooks"], {}
        for event, group, number in merge.places(after, commands):
            held = told[event][group]
            key = trust_key(self._settings, event, group, number)
            if event in LABELS:
                found[key] = trusted_hash(event, held["hooks"][number], held.get("matcher"))
        return found


def _wrapper(launcher: Path, then: list[str]) -> bytes:
    lines = [
        "#!/bin/sh",
        "# Written by `cofio install codex`: tells cofio of each turn, then does what `notify` did before.",
        _THEN + json.dumps(then),
        f'{shlex.quote(str(launcher))} codex notify "$@" </dev/null >/dev/null 2>&1 &',
        f'exec {shlex.join(then)} "$@"' if then else "exit 0",
    ]
    return "".join(f"{line}\n" for line in lines).encode()


def chained(wrapper: Path) -> list[str]:
    """What `notify` did before us, as the wrapper has it; empty where it did nothing."""
    content = (files.read(wrapper) or b"").decode(errors="replace")
    line = next((each for each in content.splitlines() if each.startswith(_THEN)), _THEN + "[]")
    try:
        return [str(each) for each in json.loads(line.removeprefix(_THEN))]
    except ValueError:
        return []


def take_config(text: str, before: str, ours: Collection[str]) -> str:
    """The text without our server and our trust, and with `notify` as it was. `ours`: the wrapper, and our hashes."""
    told = toml.loads(text)
    notify = told.get("notify")
    if isinstance(notify, list) and len(notify) == 1 and notify[0] in ours:
        old = toml.raw(before, "notify") or toml.written(chained(Path(notify[0])))
        text = toml.put_raw(text, "notify", old) if old != "[]" else toml.drop(text, "notify")
    servers = told.get(SERVER[0])
    if isinstance(servers, dict) and places.is_server(servers.get(SERVER[1])):
        text = toml.put_table_back(text, SERVER, before)
    for key, about in _state(told).items():
        if about.get("trusted_hash") in ours:
            text = toml.drop_table(text, (*STATE, key))
    if not _state(toml.loads(text)) and "state" not in toml.loads(before).get("hooks", {}):
        text = toml.drop_table(text, STATE)
    return text
