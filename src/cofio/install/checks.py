"""What can be told by looking: the home, the service, the model, and each client's hooks. Nothing is changed."""

from __future__ import annotations

import os
import platform
import shlex
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cofio.checkup import Asked, Check
from cofio.conversation import Item
from cofio.conversation import State as CaptureState
from cofio.errors import CofioError, InvalidInput
from cofio.hooks import launch
from cofio.hooks import record as runs
from cofio.install import (
    claude_code,
    clients,
    codex,
    cursor,
    files,
    jsonc,
    merge,
    openclaw,
    places,
    provider,
    shims,
    toml,
)
from cofio.install.jsonc import Malformed
from cofio.install.record import Record
from cofio.judgement.card import read_card
from cofio.settings import Settings
from cofio.version import __version__

_SETS_UP = "`cofio install {}` sets it up."
_OFF = ("off", "0", "no", "false")  # what hooks take for it


# ── our own house ─────────────────────────────────────────────────────────────────────────────────────────────────────


def versions() -> Check:
    return Check("versions", "ok", f"cofio {__version__}, Python {platform.python_version()} at {sys.executable}")


def home(settings: Settings) -> Check:
    """Whether our folder can be written to."""
    path = settings.home
    there = path if path.exists() else next(each for each in path.parents if each.exists())
    if os.access(there, os.W_OK | os.X_OK):
        return Check("home", "ok", str(path))
    return Check("home", "wrong", f"{path} cannot be written to.", "Check its permissions, or set COFIO_HOME.")


def config(settings: Settings) -> Check:
    """Whether keys are for their owner alone. That the file can be read is known: the settings came out of it."""
    path = settings.home / "config.toml"
    if not path.exists():
        return Check("config", "ok", "no config.toml; everything is as by default, or set by variables")
    if path.stat().st_mode & 0o077:
        return Check("config", "wrong", f"{path} can be read by others.", f"chmod 600 {shlex.quote(str(path))}")
    return Check("config", "ok", f"{path}, for you alone to read")


def launcher(settings: Settings) -> Check:
    """Whether the program that hooks start is there, and starts this Python."""
    path = places.launcher(settings)
    content = files.read(path)
    if content is None or not os.access(path, os.X_OK):
        says = f"{path} is missing." if content is None else f"{path} may not be executed."
        return Check("launcher", "wrong", says, "`cofio up` or `cofio install` writes it.")
    if content != os.fsencode(launch.launcher(sys.executable, launch.ENTRY, settings.home)):
        return Check("launcher", "warning", f"{path} starts another Python than this.", "`cofio install` renews it.")
    return Check("launcher", "ok", str(path))


def switch(hooks: str) -> Iterator[Check]:
    """Whether hooks are switched off where this is asked, by what COFIO_HOOKS says there."""
    if hooks.strip().lower() in _OFF:
        says = f"COFIO_HOOKS is {hooks.strip()}: no hook of a client that is started from here does anything."
        yield Check("hooks", "wrong", says, "`unset COFIO_HOOKS`, unless you mean it.")


# ── the service ───────────────────────────────────────────────────────────────────────────────────────────────────────


def service(settings: Settings, state: Mapping[str, Any]) -> Check:
    """Whether the service answers, takes our key, and is of our version."""
    if not state["answering"]:
        return _silent(settings, state)
    if state["key"] in ("wrong", "missing"):
        says = f"The service at {state['url']} wants a key, and ours is {state['key']}. {state.get('problem') or ''}"
        remedy = "Set api_key to a key of the service: `cofio config set api_key`."
        again = "" if settings.url else " Then `cofio down` and `cofio up`, so that hooks know it too."
        return Check("service", "wrong", says.strip(), remedy + again)
    if state["role"] == "read":
        says = "Our key has the role read: hooks recall and capture with one that may write."
        return Check("service", "wrong", says, "Ask for another where the service runs: `cofio keys create`.")
    if state["version"] != __version__:
        says = f"The service is cofio {state['version']}, this is {__version__}."
        remedy = "Update the older of the two." if settings.url else "`cofio down`, then `cofio up`."
        return Check("service", "warning", says, remedy)
    known = state["memories"] or 0
    return Check("service", "ok", f"{state['url']}, {known:,} {'memory' if known == 1 else 'memories'}")


def hangs(settings: Settings, state: Mapping[str, Any]) -> bool:
    """Whether a service of this machine runs without answering."""
    return bool(state["running"] and not state["answering"] and not settings.url)


def _silent(settings: Settings, state: Mapping[str, Any]) -> Check:
    if settings.url:
        says = f"No service answers at {state['url']}. {state.get('problem') or ''}".strip()
        return Check("service", "wrong", says, "Check `url` (COFIO_URL), and that it runs there.")
    if hangs(settings, state) and state.get("problem"):
        says = f"It runs (pid {state['pid']}) and does not answer. {state['problem']}"
        return Check("service", "wrong", says, "`cofio down --force`, then `cofio up`.")
    if hangs(settings, state):
        return Check("service", "wrong", f"It is still starting (pid {state['pid']}).", "Ask again in a moment.")
    return Check("service", "wrong", "It does not run.", "`cofio up` starts it.")


def serving(url: str) -> Check:
    """That it answers, as it says itself."""
    return Check("service", "ok", f"{url}, cofio {__version__}")


def store(settings: Settings, client: Asked) -> Check:
    """Whether the store can be read, and every memory be found by what it means."""
    try:
        told = client.stats()
    except CofioError as error:
        return Check("store", "wrong", error.message, error.hint)
    known, bare = told["memories"], told["memories"] + told["archived"] - told["vectors"]
    if bare > 0:
        says = f"{bare:,} {'memory has' if bare == 1 else 'memories have'} no vector: words alone find what they say."
        return Check("store", "warning", says, "`cofio down`, `cofio reembed --missing`, then `cofio up`.")
    many = f"{known:,} {'memory' if known == 1 else 'memories'}"
    return Check("store", "ok", f"{settings.shown('store')}, {many}, {told['bytes'] / 1e6:,.1f} MB")


def embedder(client: Asked) -> Check:
    """Whether texts become vectors."""
    began = time.monotonic()
    try:
        client.is_novel("cofio doctor asks whether a text becomes a vector")
    except CofioError as error:
        return Check("embedder", "wrong", error.message, error.hint)
    return Check("embedder", "ok", f"answers in {_ms(began)}")


def judge(settings: Settings) -> Check:
    """Whether the judgement model can be used; without it, patterns and words judge."""
    if not settings.judge:
        return Check("judge", "warning", "switched off: patterns and words judge.", "Unset COFIO_JUDGE to use it.")
    try:
        card = read_card()
    except CofioError as error:
        return Check("judge", "warning", f"{error.message} Patterns and words judge.", error.hint)
    return Check("judge", "ok", f"{card['name']}, {card['sha256'][:12]}")


def model(settings: Settings, client: Asked | None) -> Check:
    """Whether the model that reads conversations is there: by the service's word, or asked from here without one."""
    if client is None:
        return _model_from_here(settings)
    try:
        told = client.extraction()
    except CofioError as error:
        return Check("model", "wrong", error.message, error.hint)
    if not told.get("enabled") and settings.extract_provider and not settings.llm:
        return Check("model", "ok", f"{settings.extract_provider} is switched off by COFIO_LLM")
    if until := told.get("spent_until"):
        says = f"{told['provider']}, {told['model']}: the daily limit is reached; captures wait until {until[:16]} UTC."
        remedy = "`cofio usage llm` shows what used it; llm_calls_per_day and llm_tokens_per_day set it."
        return Check("model", "warning", says, remedy)
    if told.get("enabled") and told.get("status") == "healthy":
        return Check("model", "ok", f"{told['provider']}, {told['model']}{_decides(told)}")
    if problem := told.get("problem"):
        return Check("model", "wrong", str(problem), "`cofio install` sets and tests another.")
    if settings.extract_provider:
        says = f"The service runs without {settings.extract_provider}, which is set."
        return Check("model", "warning", says, "`cofio down`, then `cofio up`.")
    return Check("model", "ok", "none is set: the judgement model finds facts")


def _decides(told: Mapping[str, Any]) -> str:
    """Return what is special about the model's part in decisions about memories; "" for one that decides."""
    if not told.get("audn_known", True):
        return "; whether it can decide about memories is found out at its first use"
    return "" if told.get("audn", True) else "; it finds facts, and cofio's rules decide about memories"


def _model_from_here(settings: Settings) -> Check:
    name = settings.extract_provider.lower()
    if not name:
        return Check("model", "ok", "none is set: the judgement model finds facts")
    if not settings.llm:
        return Check("model", "ok", f"{name} is switched off by COFIO_LLM")
    if problem := provider.tested(settings, provider.known(settings, name)):
        return Check("model", "wrong", problem, "`cofio install` sets and tests another.")
    return Check("model", "ok", f"{name}, {provider.known(settings, name).uses}")


def waiting(settings: Settings, client: Asked | None) -> Iterator[Check]:
    """What lies about: deliveries that no service took, captures that were put aside, a service that is left alone."""
    told = runs.summary(settings.home)
    if told.get("resting_until"):
        says = f"Hooks leave the service alone until {told['resting_until']}: it hung, or talked nonsense."
        remedy = "See the service's log there." if settings.url else "See service.log; `cofio down`, then `cofio up`."
        yield Check("hooks", "warning", says, remedy)
    if failed := told.get("rungs", {}).get("failed"):
        says = f"{failed['count']} of the hooks' runs failed in the last 24 hours{_reasons(told)}."
        yield Check("hooks", "warning", says, f"What was said then may be lost. See {settings.home / 'hooks.log'}.")
    if told.get("spool"):
        says = f"{told['spool']} deliveries wait for the service."
        yield Check("spool", "warning", says, _drained(settings, client))
    if told.get("bad"):
        says = f"{told['bad']} deliveries could not be read."
        yield Check("spool", "warning", says, f"They are in {settings.home / 'spool' / 'bad'}; nobody deletes them.")
    if client and (parked := len(_items(client, "parked"))):
        yield Check("inbox", "warning", f"{parked} captures are put aside.", "`cofio ledger --state parked` says why.")
    if client and (failed := [each for each in _items(client, "pending") if each.attempts]):
        says = f"{len(failed)} captures wait after a failed attempt: {failed[0].reason}"
        yield Check("inbox", "warning", says, "They are tried again; `cofio ledger --state pending` lists them.")


def _reasons(told: Mapping[str, Any]) -> str:
    """Why runs failed, as far as the log says."""
    reasons = [word for word in told.get("failed", {}) if word]
    return f" ({', '.join(reasons)})" if reasons else ""


def _drained(settings: Settings, client: Asked | None) -> str:
    """Who takes in what waits."""
    if settings.url:
        return "The hooks deliver them, a few at a time, once the service answers."
    return "The service takes them in by itself; else see service.log." if client else "`cofio up` takes them in."


def _items(client: Asked, state: CaptureState) -> Sequence[Item]:
    try:
        return client.items(state, limit=100)
    except CofioError:
        return ()


# ── the clients ───────────────────────────────────────────────────────────────────────────────────────────────────────


def of_client(client: str, settings: Settings, record: Record) -> Iterator[Check]:
    """What is to be said about a client's hooks."""
    try:
        yield from _CLIENTS[client](settings, record)
    except CofioError as error:
        yield Check(client, "wrong", error.message, error.hint)


def commands(client: str, settings: Settings) -> dict[str, str]:
    """The commands that this client runs for us, by event, as they stand in its settings or as our plugin has them."""
    if client == "openclaw":
        return {}
    if clients.plugged(client, settings):
        start = f"{shlex.quote(str(places.launcher(settings)))} {client}"
        return dict.fromkeys(_wanted(client, settings), start)
    return {event: told[0] for event, told in _installed(client, settings).items()}


def _installed(client: str, settings: Settings) -> dict[str, list[str]]:
    """Our commands in a client's settings, by event."""
    path = _hooks_path(client, settings)
    with _reading(path):
        text = merge.begun(files.text_of(path, files.read(path) or b""))
        return merge.installed(text, _wanted(client, settings).values(), grouped=client != "cursor")


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Have what cannot be understood be named by its path."""
    try:
        yield
    except Malformed as error:
        raise InvalidInput(f"{path} cannot be understood: {error.message}.", "Mend it, or move it away.") from error


def _hooks_path(client: str, settings: Settings) -> Path:
    if client == "claude-code":
        return claude_code.settings_path(settings)
    return codex.hooks_path(settings) if client == "codex" else places.home_of(client, settings) / "hooks.json"


def _wanted(client: str, settings: Settings) -> dict[str, str]:
    folder = shims.folder_in(places.home_of(client, settings))
    if client == "claude-code":
        made = claude_code.hooks_in(folder, claude_code.installed_version())
    else:
        made = {"codex": codex.hooks_in, "cursor": cursor.hooks_in}[client](folder)
    return {event: str(hook["command"]) for event, hook in made.items()}


def _hooks(client: str, settings: Settings, record: Record, plugin: str = "") -> Iterator[Check]:
    """Whether all of a client's hooks are there, once, and lead to files that are there."""
    path, wanted = _hooks_path(client, settings), _wanted(client, settings)
    found = _installed(client, settings)
    missing = [event for event in wanted if event not in found]
    again = f"`cofio install {client}` puts them there."
    if plugin and found:
        says = f"The plugin {plugin} and the hooks in {path} both run: everything happens twice."
        yield Check(client, "wrong", says, f"`cofio uninstall {client}`, or turn the plugin off.")
    elif plugin:
        yield Check(client, "ok", f"the plugin {plugin}")
    elif not found and not record.of(client):
        yield Check(client, "warning", "It is on this machine, and cofio is not set up in it.", _SETS_UP.format(client))
    elif missing:
        yield Check(client, "wrong", f"Hooks are missing in {path}: {', '.join(missing)}.", again)
    else:
        yield Check(client, "ok", f"{len(found)} hooks in {path}")
    if doubled := [event for event, told in found.items() if len(told) > 1]:
        says = f"Hooks stand twice in {path}: {', '.join(doubled)}."
        yield Check(client, "wrong", says, f"`cofio install {client}` leaves one of each.")
    yield from _astray(client, {wanted[event] for event in found if event in wanted})


def _astray(client: str, commands: Collection[str]) -> Iterator[Check]:
    """Which of the scripts that hooks start are not there, or may not be executed."""
    scripts = sorted({merge.program(command) for command in commands})
    if gone := [each for each in scripts if not os.path.lexists(each)]:
        says = f"Hooks lead to files that are missing: {', '.join(gone)}."
        yield Check(client, "wrong", says, f"`cofio install {client}` puts them there.")
    if closed := [each for each in scripts if os.path.lexists(each) and not os.access(each, os.X_OK)]:
        says = f"Hooks lead to files that may not be executed: {', '.join(closed)}."
        yield Check(client, "wrong", says, f"`cofio install {client}` mends that.")


def _claude_code(settings: Settings, record: Record) -> Iterator[Check]:
    told = claude_code.read(settings)
    plugin = claude_code.plugged(told)
    yield from _hooks("claude-code", settings, record, plugin)
    if told.get("disableAllHooks") is True and (plugin or _installed("claude-code", settings)):
        says = f"disableAllHooks is set in {claude_code.settings_path(settings)}: no hook runs."
        yield Check("claude-code", "wrong", says, "Take it out, unless you mean it.")


def _codex(settings: Settings, record: Record) -> Iterator[Check]:
    path = codex.config_path(settings)
    with _reading(path):
        told = toml.loads(files.text_of(path, files.read(path) or b""))
    yield from _hooks("codex", settings, record, codex.plugged(told))
    if isinstance(told.get("features"), dict) and told["features"].get("hooks") is False:
        yield Check("codex", "wrong", f"hooks = false stands in {path}: no hook runs.", "Take it out.")
    if untrusted := codex.untrusted(settings):
        says = f"Codex does not run these hooks, for nobody has approved them: {', '.join(untrusted)}."
        notified = told.get("notify") == [str(codex.wrapper_path(settings))]
        aside = " `notify` captures meanwhile, and nothing is recalled." if notified else ""
        remedy = "Open Codex, type /hooks and approve them; or `cofio install codex --trust-hooks`."
        yield Check("codex", "wrong", says + aside, remedy)


def _cursor(settings: Settings, record: Record) -> Iterator[Check]:
    yield from _hooks("cursor", settings, record)


def _openclaw(settings: Settings, record: Record) -> Iterator[Check]:
    path = places.openclaw_config(settings)
    with _reading(path):
        root = jsonc.parse(merge.begun(files.text_of(path, files.read(path) or b"")))
    slot, loaded = root.at(("plugins", "slots", "memory")), root.at(("plugins", "load", "paths"))
    plugin = openclaw.Plugin(openclaw.plugin_source()).id
    again = _SETS_UP.format("openclaw")
    if not record.of("openclaw") and not (slot and slot.plain() == plugin):
        yield Check("openclaw", "warning", "It is on this machine, and cofio is not set up in it.", again)
    elif not slot or slot.plain() != plugin:
        holder = slot.plain() if slot else "nobody"
        yield Check("openclaw", "wrong", f"The memory slot in {path} belongs to {holder}.", again)
    elif str(openclaw.target(settings)) not in (loaded.plain() if loaded else []):
        yield Check("openclaw", "warning", f"The slot is ours, but {path} loads the plugin from elsewhere.", again)
    elif not (openclaw.target(settings) / "openclaw.plugin.json").exists():
        yield Check("openclaw", "wrong", f"The plugin's files are missing in {openclaw.target(settings)}.", again)
    else:
        yield Check("openclaw", "ok", f"the plugin is in the memory slot of {path}")


_CLIENTS = {"claude-code": _claude_code, "codex": _codex, "cursor": _cursor, "openclaw": _openclaw}


def _ms(began: float) -> str:
    return f"{(time.monotonic() - began) * 1000:.0f} ms"
