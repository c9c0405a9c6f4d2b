"""Read-only checks of the home, the service, the model, and each client's hooks."""

from __future__ import annotations

import os
import platform
import shlex
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cofio.errors import CofioError, InvalidInput
from cofio.hooks import endpoint_file
from cofio.hooks import launcher as hooks_launcher
from cofio.hooks import run_log as runs
from cofio.install import (
    claude_code,
    clients,
    codex,
    cursor,
    files,
    hook_shims,
    jsonc,
    llm_provider,
    merge,
    openclaw,
    paths,
    toml_edit,
)
from cofio.install.jsonc import MalformedConfig
from cofio.install.manifest import Manifest
from cofio.judgement.model_manifest import read_card
from cofio.models.diagnostics import Check, ServiceProbe, StoreDamage
from cofio.models.exchange import Item
from cofio.models.exchange import State as CaptureState
from cofio.server import service_key
from cofio.settings import Settings
from cofio.version import __version__

_NOT_SET_UP = "The client is installed, but cofio is not set up in it."
_OFF = ("off", "0", "no", "false")  # the values that hooks accept for off


def versions() -> Check:
    return Check("versions", "ok", f"cofio {__version__}, Python {platform.python_version()} at {sys.executable}")


def home(settings: Settings) -> Check:
    """Check that the home is writable."""
    path = settings.home
    folder = path if path.exists() else next(parent for parent in path.parents if parent.exists())
    if os.access(folder, os.W_OK | os.X_OK):
        return Check("home", "ok", str(path))
    return Check("home", "wrong", f"{path} cannot be written to.", "Check its permissions, or set COFIO_HOME.")


def config(settings: Settings) -> Check:
    """Check that config.toml is readable by its owner only. It is parseable: the settings were loaded from it."""
    path = settings.home / "config.toml"
    if not path.exists():
        return Check("config", "ok", "no config.toml; all settings are defaults or set by variables")
    if path.stat().st_mode & 0o077:
        return Check("config", "wrong", f"{path} can be read by others.", f"chmod 600 {shlex.quote(str(path))}")
    return Check("config", "ok", f"{path}, readable by you only")


def home_key(settings: Settings) -> Iterator[Check]:
    """Check that the key of the home is known to its owner only."""
    if problem := service_key.find_problem(settings.home):
        yield Check("key", "wrong", problem, "`cofio down`, then `cofio up`, which makes a new one.")


def endpoint(settings: Settings) -> Iterator[Check]:
    """Check that hooks are not pointed to a service that has died."""
    if endpoint_file.is_stale(settings.home):
        says = f"{settings.home / endpoint_file.NAME} names a service that does not run; hooks do not call it."
        yield Check("hooks", "warning", says, "`cofio up` renews it.")


def launcher(settings: Settings) -> Check:
    """Check that the launcher that hooks start exists and starts this Python."""
    path = paths.launcher(settings)
    content = files.read(path)
    if content is None or not os.access(path, os.X_OK):
        says = f"{path} is missing." if content is None else f"{path} is not executable."
        return Check("launcher", "wrong", says, "`cofio up` or `cofio install` writes it.")
    if content != os.fsencode(hooks_launcher.launcher(sys.executable, hooks_launcher.ENTRY, settings.home)):
        says = f"{path} starts another installation of Python or cofio than this one."
        return Check("launcher", "warning", says, "`cofio install` renews it.")
    return Check("launcher", "ok", str(path))


def switch(hooks: str) -> Iterator[Check]:
    """Check that COFIO_HOOKS does not switch hooks off."""
    if hooks.strip().lower() in _OFF:
        says = f"COFIO_HOOKS is {hooks.strip()}: hooks of clients started from here do nothing."
        yield Check("hooks", "wrong", says, "Run `unset COFIO_HOOKS`, unless this is intended.")


def service(settings: Settings, state: Mapping[str, Any]) -> Check:
    """Check that the service answers, accepts the key, and has this version."""
    if not state["answering"]:
        return _check_silent(settings, state)
    if state["key"] in ("wrong", "missing"):
        says = f"The service at {state['url']} requires a key; the configured one is {state['key']}."
        says = f"{says} {state.get('problem') or ''}"
        remedy = "Set api_key to a key of the service: `cofio config set api_key`."
        again = "" if settings.url else " Then `cofio down` and `cofio up`, so that hooks know it too."
        return Check("service", "wrong", says.strip(), remedy + again)
    if state["role"] == "read":
        says = "The configured key has the role read; hooks need one that may write."
        return Check("service", "wrong", says, "Create another on the service's machine: `cofio keys create`.")
    if state["version"] != __version__:
        says = f"The service is cofio {state['version']}, this is {__version__}."
        remedy = "Update the older of the two." if settings.url else "`cofio down`, then `cofio up`."
        return Check("service", "warning", says, remedy)
    memories = state["memories"] or 0
    return Check("service", "ok", f"{state['url']}, {memories:,} {'memory' if memories == 1 else 'memories'}")


def check_problems(state: Mapping[str, Any]) -> Iterator[Check]:
    """Yield the problems that the service reports, except of models: these are tried afterwards."""
    for problem in state.get("problems", ()):
        if problem["name"] == "store":
            yield Check(problem["name"], problem["state"], problem["says"], problem["hint"])


def check_hangs(settings: Settings, state: Mapping[str, Any]) -> bool:
    """Return whether a service of this machine runs without answering."""
    return bool(state["running"] and not state["answering"] and not settings.url)


def _check_silent(settings: Settings, state: Mapping[str, Any]) -> Check:
    if settings.url:
        says = f"No service answers at {state['url']}. {state.get('problem') or ''}".strip()
        return Check("service", "wrong", says, "Check `url` (COFIO_URL), and that the service runs there.")
    if not check_hangs(settings, state):
        if _is_port_taken(settings):
            says = f"The service does not run, and another program listens on port {settings.port}."
            return Check("service", "wrong", says, "Stop it, or `cofio config set port`, then `cofio up`.")
        return Check("service", "wrong", "The service does not run.", "`cofio up` starts it.")
    if state.get("problem"):
        says = f"The service runs (pid {state['pid']}) and does not answer. {state['problem']}"
        return Check("service", "wrong", says, "`cofio down --force`, then `cofio up`.")
    says = f"The service is still starting (pid {state['pid']})."
    return Check("service", "wrong", says, "Try again in a moment.")


def _is_port_taken(settings: Settings) -> bool:
    """Return whether any program listens where the service would; nothing is sent to it."""
    host = urlsplit(settings.service_url).hostname or ""
    try:
        socket.create_connection((host, settings.port), timeout=1).close()
    except OSError:
        return False
    return True


def store(settings: Settings, client: ServiceProbe) -> Check:
    """Check that the store can be read, and that every memory has a vector."""
    try:
        stats = client.stats()
    except CofioError as error:
        return Check("store", "wrong", error.message, error.hint)
    memories, count = stats["memories"], stats["memories"] + stats["archived"] - stats["vectors"]
    if count > 0:
        says = f"{count:,} {'memory has' if count == 1 else 'memories have'} no vector and can be found by words only."
        remedy = "The service computes it within an hour; `cofio doctor --deep` tells if vectors are damaged."
        return Check("store", "warning", says, remedy)
    many = f"{memories:,} {'memory' if memories == 1 else 'memories'}"
    return Check("store", "ok", f"{settings.shown('store')}, {many}, {stats['bytes'] / 1e6:,.1f} MB")


def integrity(settings: Settings, verify: Callable[[], StoreDamage]) -> Iterator[Check]:
    """Read the whole store, and name what is damaged."""
    if settings.url:
        says = f"The store of {settings.url} can be verified on the machine of that service only."
        yield Check("integrity", "warning", says, "Run `cofio doctor --deep` there.")
        return
    try:
        damage = verify()
    except CofioError as error:
        yield Check("integrity", "wrong", error.message, error.hint)
        return
    if damage.files:
        says = f"The store's files are damaged: {'; '.join(damage.files)}"
        yield Check("integrity", "wrong", says, "`cofio down`, then `cofio restore` puts a backup back.")
    if damage.memories:
        says = f"The content of {_list_ids(damage.memories)} is damaged."
        remedy = "`cofio restore` puts a backup back; or correct them with `cofio edit ID TEXT` after reading them."
        yield Check("integrity", "wrong", says, remedy)
    for ids, owner in ((damage.vectors, "memories"), (damage.passages, "passages of episodes")):
        if ids:
            remedy = "The service computes them again within an hour; without it, `cofio reembed --missing` does."
            yield Check("integrity", "warning", f"The vectors of {_list_ids(ids, owner)} are damaged.", remedy)
    if not any(damage):
        yield Check("integrity", "ok", "the store's files, rows and vectors are sound")


def _list_ids(ids: Sequence[int], owner: str = "memories") -> str:
    return f"{owner} {', '.join(map(str, ids[:20]))}{f' and {len(ids) - 20:,} more' if len(ids) > 20 else ''}"


def embedder(client: ServiceProbe) -> Check:
    """Check that the embedder works."""
    began = time.monotonic()
    try:
        client.is_novel("cofio doctor asks whether a text becomes a vector")
    except CofioError as error:
        return Check("embedder", "wrong", error.message, error.hint)
    return Check("embedder", "ok", f"answers in {(time.monotonic() - began) * 1000:.0f} ms")


def judge(settings: Settings) -> Check:
    """Check that the judgement model can be used; without it, patterns and rules judge."""
    if not settings.judge:
        says = "switched off by COFIO_JUDGE; patterns and word rules replace it."
        return Check("judge", "warning", says, "Unset COFIO_JUDGE to use it.")
    try:
        card = read_card()
    except CofioError as error:
        return Check("judge", "warning", f"{error.message} Patterns and word rules replace it.", error.hint)
    return Check("judge", "ok", f"{card['name']}, {card['sha256'][:12]}")


def model(settings: Settings, client: ServiceProbe | None) -> Check:
    """Check the language model that reads conversations, as the service reports it, or directly without a service."""
    if client is None:
        return _check_model_here(settings)
    try:
        llm = client.extraction()
    except CofioError as error:
        return Check("model", "wrong", error.message, error.hint)
    if not llm.get("enabled") and settings.extract_provider and not settings.llm:
        return Check("model", "ok", f"{settings.extract_provider} is switched off by COFIO_LLM")
    if until := llm.get("spent_until"):
        says = f"{llm['provider']}, {llm['model']}: the daily limit is reached; captures wait until {until[:16]} UTC."
        remedy = "`cofio usage llm` shows the calls; llm_calls_per_day and llm_tokens_per_day set the limit."
        return Check("model", "warning", says, remedy)
    if llm.get("enabled") and llm.get("status") == "healthy":
        note = "" if llm.get("audn", True) else "; it finds facts, and cofio's rules decide about memories"
        if not llm.get("audn_known", True):
            note = "; its first use shows if it can decide about memories"
        return Check("model", "ok", f"{llm['provider']}, {llm['model']}{note}")
    if problem := llm.get("problem"):
        return Check("model", "wrong", str(problem), "`cofio install` sets and tests another model.")
    if settings.extract_provider:
        says = f"{settings.extract_provider} is set, but the service runs without it."
        return Check("model", "warning", says, "`cofio down`, then `cofio up`.")
    return Check("model", "ok", "no language model is set: the judgement model finds facts")


def _check_model_here(settings: Settings) -> Check:
    name = settings.extract_provider.lower()
    if not name:
        return Check("model", "ok", "no language model is set: the judgement model finds facts")
    if not settings.llm:
        return Check("model", "ok", f"{name} is switched off by COFIO_LLM")
    choice = llm_provider.known_choice(settings, name)
    if problem := llm_provider.test_choice(settings, choice):
        return Check("model", "wrong", problem, "`cofio install` sets and tests another model.")
    return Check("model", "ok", f"{name}, {choice.uses}")


def check_waiting(settings: Settings, client: ServiceProbe | None) -> Iterator[Check]:
    """Check for undelivered hook events, failed hook runs, parked or failing captures, and an open circuit breaker."""
    summary = runs.summary(settings.home)
    if summary.get("resting_until"):
        says = f"Hooks do not ask the service until {summary['resting_until']}: it hung or sent invalid replies."
        remedy = "See the log of the service." if settings.url else "See service.log; `cofio down`, then `cofio up`."
        yield Check("hooks", "warning", says, remedy)
    if failed := summary.get("rungs", {}).get("failed"):
        reasons = ", ".join(word for word in summary.get("failed", {}) if word)
        says = f"{failed['count']} of the hooks' runs failed in the last 24 hours{f' ({reasons})' if reasons else ''}."
        yield Check("hooks", "warning", says, f"Their turns may be lost. See {settings.home / 'hooks.log'}.")
    if summary.get("spool"):
        remedy = "`cofio up` collects them."
        if settings.url:
            remedy = "Hooks deliver them once the service answers."
        elif client:
            remedy = "The service collects them by itself; if not, see service.log."
        yield Check("spool", "warning", f"{summary['spool']} stored captures wait for the service.", remedy)
    if summary.get("bad"):
        says = f"{summary['bad']} stored captures could not be read."
        yield Check("spool", "warning", says, f"They are kept in {settings.home / 'spool' / 'bad'}.")
    if client and (parked := len(_fetch_items(client, "parked"))):
        says = f"{parked} captures could not be processed and are parked."
        yield Check("inbox", "warning", says, "`cofio inbox --state parked` says why.")
    if client and (failed := [item for item in _fetch_items(client, "pending") if item.attempts]):
        says = f"{len(failed)} captures wait after a failed attempt: {failed[0].reason}"
        yield Check("inbox", "warning", says, "They are tried again; `cofio inbox --state pending` lists them.")


def _fetch_items(client: ServiceProbe, state: CaptureState) -> Sequence[Item]:
    try:
        return client.items(state, limit=100)
    except CofioError:
        return ()


def check_client(client: str, settings: Settings, record: Manifest) -> Iterator[Check]:
    """Yield the checks of a client's hooks."""
    try:
        yield from _CLIENTS[client](settings, record)
    except CofioError as error:
        yield Check(client, "wrong", error.message, error.hint)


def commands(client: str, settings: Settings) -> dict[str, str]:
    """Return our hook commands of this client by event, from its settings or from our plugin."""
    if client == "openclaw":
        return {}
    if clients.plugin_name(client, settings):
        start = f"{shlex.quote(str(paths.launcher(settings)))} {client}"
        return dict.fromkeys(_list_expected(client, settings), start)
    return {event: ours[0] for event, ours in _find_installed(client, settings).items()}


def _find_installed(client: str, settings: Settings) -> dict[str, list[str]]:
    path = _find_hooks_path(client, settings)
    with _reading(path):
        text = merge.text_or_empty_object(files.read_text(path))
        return merge.installed(text, _list_expected(client, settings).values(), grouped=client != "cursor")


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Add the path of the file to parse errors."""
    try:
        yield
    except MalformedConfig as error:
        raise InvalidInput(f"{path} cannot be parsed: {error.message}.", "Repair it, or move it away.") from error


def _find_hooks_path(client: str, settings: Settings) -> Path:
    if client == "claude-code":
        return claude_code.settings_path(settings)
    return codex.hooks_path(settings) if client == "codex" else paths.home_of(client, settings) / "hooks.json"


def _list_expected(client: str, settings: Settings) -> dict[str, str]:
    folder = hook_shims.folder_in(paths.home_of(client, settings))
    if client == "claude-code":
        hooks = claude_code.hooks_in(folder, claude_code.installed_version())
    else:
        hooks = {"codex": codex.hooks_in, "cursor": cursor.hooks_in}[client](folder)
    return {event: str(hook["command"]) for event, hook in hooks.items()}


def _check_hooks(client: str, settings: Settings, record: Manifest, plugin: str = "") -> Iterator[Check]:
    """Check that each hook of a client is installed once, and that its script exists."""
    path, expected = _find_hooks_path(client, settings), _list_expected(client, settings)
    installed = _find_installed(client, settings)
    missing = [event for event in expected if event not in installed]
    again = f"`cofio install {client}` installs them."
    if plugin and installed:
        says = f"The plugin {plugin} and the hooks in {path} both run, so every event is handled twice."
        yield Check(client, "wrong", says, f"`cofio uninstall {client}`, or turn the plugin off.")
    elif plugin:
        yield Check(client, "ok", f"the plugin {plugin}")
    elif not installed and not record.of(client):
        yield Check(client, "warning", _NOT_SET_UP, f"`cofio install {client}` sets it up.")
    elif missing:
        yield Check(client, "wrong", f"Hooks are missing in {path}: {', '.join(missing)}.", again)
    else:
        yield Check(client, "ok", f"{len(installed)} hooks in {path}")
    if duplicates := [event for event, entries in installed.items() if len(entries) > 1]:
        says = f"Hooks are duplicated in {path}: {', '.join(duplicates)}."
        yield Check(client, "wrong", says, f"`cofio install {client}` leaves one of each.")
    scripts = sorted({merge.program(expected[event]) for event in installed if event in expected})
    if not_there := [script for script in scripts if not os.path.lexists(script)]:
        yield Check(client, "wrong", f"Hook scripts are missing: {', '.join(not_there)}.", again)
    if not_executable := [script for script in scripts if os.path.lexists(script) and not os.access(script, os.X_OK)]:
        says = f"Hook scripts are not executable: {', '.join(not_executable)}."
        yield Check(client, "wrong", says, f"`cofio install {client}` repairs that.")


def _check_claude_code(settings: Settings, record: Manifest) -> Iterator[Check]:
    client_settings = claude_code.read(settings)
    plugin = claude_code.plugin_name(client_settings)
    yield from _check_hooks("claude-code", settings, record, plugin)
    if client_settings.get("disableAllHooks") is True and (plugin or _find_installed("claude-code", settings)):
        says = f"disableAllHooks is set in {claude_code.settings_path(settings)}: no hook runs."
        yield Check("claude-code", "wrong", says, "Remove it, unless it is intended.")


def _check_codex(settings: Settings, record: Manifest) -> Iterator[Check]:
    path = codex.config_path(settings)
    with _reading(path):
        values = toml_edit.loads(files.read_text(path))
    yield from _check_hooks("codex", settings, record, codex.plugin_name(values))
    if codex.is_off(values):
        yield Check("codex", "wrong", f"{path} sets hooks = false: no hook runs.", "Remove it.")
    if untrusted := codex.untrusted_events(settings):
        says = f"Codex does not run these hooks, since they are not approved: {', '.join(untrusted)}."
        notifies = values.get("notify") == [str(codex.wrapper_path(settings))]
        aside = " Until then `notify` captures turns, without recall." if notifies else ""
        remedy = "Open Codex, type /hooks and approve them; or `cofio install codex --trust-hooks`."
        yield Check("codex", "wrong", says + aside, remedy)


def _check_openclaw(settings: Settings, record: Manifest) -> Iterator[Check]:
    path = paths.openclaw_config(settings)
    with _reading(path):
        root = jsonc.parse(merge.text_or_empty_object(files.read_text(path)))
    slot, loaded = root.at(("plugins", "slots", "memory")), root.at(("plugins", "load", "paths"))
    plugin = openclaw.plugin_id()
    again = "`cofio install openclaw` sets it up."
    if not record.of("openclaw") and not (slot and slot.plain() == plugin):
        yield Check("openclaw", "warning", _NOT_SET_UP, again)
    elif not slot or slot.plain() != plugin:
        holder = slot.plain() if slot else "no plugin"
        yield Check("openclaw", "wrong", f"OpenClaw's memory slot in {path} is set to {holder}, not to cofio.", again)
    elif str(openclaw.target(settings)) not in (loaded.plain() if loaded else []):
        yield Check("openclaw", "warning", f"OpenClaw uses the plugin, but {path} loads it from another folder.", again)
    elif not (openclaw.target(settings) / "openclaw.plugin.json").exists():
        yield Check("openclaw", "wrong", f"The plugin's files are missing in {openclaw.target(settings)}.", again)
    else:
        yield Check("openclaw", "ok", f"the plugin is in the memory slot of {path}")


_CLIENTS: Mapping[str, Callable[[Settings, Manifest], Iterator[Check]]] = {
    "claude-code": _check_claude_code,
    "codex": _check_codex,
    "cursor": partial(_check_hooks, "cursor"),
    "openclaw": _check_openclaw,
}
