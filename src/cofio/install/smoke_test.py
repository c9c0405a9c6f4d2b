"""End-to-end test: runs the installed hooks as the client does, in a temporary project, and erases all traces.

a memory with a random word ─▶ a prompt about it ─▶ does the hook print the word?
a sentence with another random word ─▶ the end of the turn ─▶ is it captured and stored?

Without a service, only a session start is run: nothing is left behind that could be learned from later.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cofio.client import Client
from cofio.errors import CofioError, Forbidden
from cofio.hooks import project, run_log, spool
from cofio.models.diagnostics import Check
from cofio.models.exchange import NOTHING_FOUND, Item
from cofio.models.memory import Fact, to_utc_iso
from cofio.settings import Settings

_PATIENCE = 20.0  # seconds for a hook, and for its capture to be processed
_ARRIVAL = 2.0  # seconds for a capture to appear: a hook ends only after the service has it
_STEP = 0.1
#: Variables that would make the hook use another project.
_UNSET = ("CLAUDE_PROJECT_DIR", "CURSOR_PROJECT_DIR", "COFIO_PROJECT")
_STOPS = ("Stop", "afterAgentResponse")
_BY = "doctor"
_SESSION = "cofio-doctor-"  # prefix of the session names of proofs
_OVER = timedelta(minutes=5)  # age after which a proof has ended or was killed
_LOOKED_AT = 200  # items of the inbox that are searched for captures of proofs
_RUNGS = {
    "file": "from the store's file",
    "briefing": "from the last briefing",
    "nothing": "nothing was found",
    "spooled": "kept for later",
    "skipped": "skipped",
}
_WHY = {
    "timeout": "the service took too long",
    "deadline": "it took too long",
    "refused": "no service is there",
    "down": "no service is there",
    "resting": "hooks do not ask the service for a while after errors",
    "garbage": "the service sent an invalid reply",
}


class TrialSession:
    """A simulated session of a client."""

    def __init__(self, client: str, commands: Mapping[str, str], settings: Settings, folder: Path) -> None:
        self._client, self.commands, self._settings = client, commands, settings
        self._folder = folder
        self.session = f"{_SESSION}{secrets.token_hex(8)}"
        self._name = f"{run_log.PROOF}{secrets.token_hex(4)}"
        self.project = project.project_of(str(folder))
        self.place, self.database = _make_word(), _make_word()
        self.prompt = (
            f"We never deploy the {self.place} service on Fridays, only on Mondays. "
            f"Write the connection to the database of the {self.place} service."
        )

    def rung(self) -> str:
        """Describe from the log which rung handled the last hook run, and why."""
        runs = [run for run in run_log.recent(self._settings.home, 1_000) if self._name in run["why"]]
        if not runs:
            return "it left no line in hooks.log"
        why = next((word for word in runs[-1]["why"].split() if word in _WHY or word.isdigit()), "")
        because = _WHY.get(why) or (f"the service said {why}" if why else "")
        rung = runs[-1]["rung"]
        return "; ".join(filter(None, (_RUNGS.get(rung, rung), because)))

    def run(self, names: tuple[str, ...], **fields: str) -> tuple[str, float]:
        """Run the hook of an event; return its output and the milliseconds that it took, 0 if there is no such hook."""
        event = next((name for name in names if name in self.commands), "")
        if not event:
            return "", 0.0
        if self._client == "cursor":
            ids = {"conversation_id": self.session, "generation_id": "1", "cursor_version": "doctor"}
            common = {**ids, "workspace_roots": [str(self._folder)]}
        else:
            turn = {"turn_id": "1", "model": "doctor"} if self._client == "codex" else {"prompt_id": "1"}
            common = {"session_id": self.session, **turn, "cwd": str(self._folder)}
        variables = (f"COFIO_HOOKS={self._name}", "COFIO_AUTOSTART=off")
        unset = (part for name in _UNSET for part in ("-u", name))
        began = time.monotonic()
        result = subprocess.run(  # noqa: S603
            ["env", *unset, *variables, "sh", "-c", self.commands[event]],  # noqa: S607
            input=json.dumps({**common, "hook_event_name": event, **fields}).encode(),
            cwd=self._folder,
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
        )
        return result.stdout.decode("utf-8", "replace"), (time.monotonic() - began) * 1000

    def forget_spooled(self) -> None:
        """Delete spooled events of this trial."""
        with suppress(CofioError, OSError):
            for entry in spool.entries(self._settings.home):
                if self.session.encode() in entry.raw:
                    spool.remove_entry(entry)


def test_client(
    client: str, commands: Mapping[str, str], settings: Settings, service: Client | None
) -> Iterator[Check]:
    """Yield the results of running a client's hooks. Without a service: only a session start."""
    with tempfile.TemporaryDirectory(prefix="cofio-doctor-") as folder:
        trial = TrialSession(client, commands, settings, Path(folder))
        try:
            yield from _run_trial(client, trial, service)
        except subprocess.TimeoutExpired:
            yield Check(f"{client}, proof", "wrong", f"The hook does not end within {_PATIENCE:g} s.", "See hooks.log.")
        except (CofioError, OSError) as error:
            yield Check(f"{client}, proof", "wrong", str(error), "See `cofio status`.")


def _run_trial(client: str, trial: TrialSession, service: Client | None) -> Iterator[Check]:
    if service is None:
        _, ms = trial.run(("SessionStart", "sessionStart"), source="startup")
        if not ms:
            return  # no such hook: reported by the check before
        says = f"Without the service the hook ends after {ms:.0f} ms ({trial.rung()})."
        yield Check(f"{client}, proof", "warning", says, "Repair the service first, then retry.")
        return
    text = f"The {trial.place} service uses the {trial.database} database"
    fact = Fact(text=text, source=f"{client}/doctor", project=trial.project)
    memory_id = service.add(fact, by=_BY).memory_id
    try:
        output, ms = trial.run(("UserPromptSubmit", "beforeSubmitPrompt"), prompt=trial.prompt)
        yield _check_recall(client, trial, output, ms)
        trial.run(_STOPS, last_assistant_message="Noted.", text="Noted.")
        trial.run(("SessionEnd", "sessionEnd"), reason="other")  # pending turns are processed now
        yield _check_capture(client, trial, service)
    finally:
        trial.forget_spooled()  # first: the service may collect it at any moment
        with suppress(CofioError):
            _purge(service, memory_id)
        erase(service, lambda item: _read_session(item) == trial.session, {trial.project})


def _check_recall(client: str, trial: TrialSession, output: str, ms: float) -> Check:
    name, how = f"{client}, recall", f"{trial.rung()}, {ms:.0f} ms"
    if trial.database in output:
        return Check(name, "ok", f"a memory reached the prompt ({how})")
    if not output:
        remedy = "The launcher may not start, or the service may be slow: see hooks.log and service.log in the home."
        return Check(name, "wrong", f"The hook printed nothing ({how}).", remedy)
    return Check(name, "wrong", f"The hook's output lacks the memory ({how}).", "See service.log in the home.")


def _check_capture(client: str, trial: TrialSession, service: Client) -> Check:
    name = f"{client}, capture"
    item = _wait_for_item(trial, service)
    if item is None:
        return Check(name, "wrong", "The turn was not captured.", "See hooks.log and service.log in the home.")
    if not trial.commands.keys() & set(_STOPS):
        says = "No hook is installed for the end of a turn."
        return Check(name, "wrong", says, f"`cofio install {client}` installs it.")
    if item.state == "stored":
        return Check(name, "ok", "the turn was captured and stored")
    if item.reason == NOTHING_FOUND:
        return Check(name, "ok", "the turn was captured, and the model found no fact in it")
    if item.state == "pending":
        return Check(name, "warning", f"The turn was captured and is pending: {item.reason or 'for the model'}.")
    if item.state == "parked":
        says = f"The turn was captured and parked: {item.reason}."
        return Check(name, "wrong", says, "`cofio inbox --state parked` lists it.")
    return Check(name, "wrong", f"The turn was captured, but nothing was stored: {item.reason}.", "See service.log.")


def _wait_for_item(trial: TrialSession, service: Client) -> Item | None:
    """Return the trial's item of the inbox once it is processed; None if none arrives."""
    latest: Item | None = None
    began = time.monotonic()
    while time.monotonic() - began < (_PATIENCE if latest else _ARRIVAL):
        items = [item for item in service.items(limit=50) if _read_session(item) == trial.session]
        latest = items[0] if items else latest
        if latest and latest.state != "pending":
            return latest
        time.sleep(_STEP)
    return latest


def sweep(service: Client) -> None:
    """Erase the traces of earlier proofs that were killed or whose events arrived late."""
    long_ago = to_utc_iso(datetime.now(UTC) - _OVER)
    erase(service, lambda item: _read_session(item).startswith(_SESSION) and item.received_at < long_ago)


def erase(service: Client, is_meant: Callable[[Item], bool], projects: Iterable[str] = ()) -> None:
    """Erase the text of these items of the inbox, and all memories of their projects or of the given ones.

    A purge also removes a memory's text from pending captures: so the prompt is added as a memory and purged. Answers
    are not, since other sessions may contain the same text. Counts are kept.
    """
    with suppress(CofioError):
        items = [item for item in service.items(limit=_LOOKED_AT) if is_meant(item)]
        exchanges = [item.exchange for item in items if item.exchange]
        for exchange in exchanges:
            for message in exchange.messages:
                if message.role == "user" and message.text.strip():
                    fact = Fact(text=message.text, source=f"{exchange.client}/doctor", project=exchange.project)
                    _purge(service, service.add(fact, dedup=False, by=_BY).memory_id)
        for project_name in {*projects, *(exchange.project for exchange in exchanges)} - {""}:
            for memory in service.list(project=project_name, include_archived=True, limit=50).memories:
                _purge(service, memory.id)


def _purge(service: Client, memory_id: int) -> None:
    """Purge a memory of the doctor. Team memories are made private first, since a member may not purge them."""
    why = "test memory of cofio doctor"
    try:
        service.purge(memory_id, by=_BY, why=why)
    except Forbidden:
        service.update(memory_id, visibility="private", by=_BY)
        service.purge(memory_id, by=_BY, why=why)


def _read_session(item: Item) -> str:
    return item.exchange.session if item.exchange else ""


def _make_word() -> str:
    return "".join(secrets.choice("bdfgklmnprstvz") + secrets.choice("aeiou") for _ in range(4))
