"""The proof: the installed hook is run as the client runs it, in a project that nobody has, and its words are erased.

a memory with a word nobody knows ─▶ a prompt that asks for it ─▶ is the word in what the hook prints?
a sentence with another such word ─▶ the end of the turn ─▶ does it arrive, and is it learned?

Where no service answers, a session is begun and nothing is said: nothing can be left that is learned from later.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cofio.checkup import Check
from cofio.client import Client
from cofio.conversation import NOTHING_FOUND, Item
from cofio.errors import CofioError, Forbidden
from cofio.hooks import project, record, spool
from cofio.model import Fact, moment
from cofio.settings import Settings

_PATIENCE = 20.0  # seconds for a hook, and for what it delivered to be learned
_ARRIVAL = 2.0  # seconds for it to be there at all: a hook ends only once the service has it
_STEP = 0.1
#: What would make the hook believe that it is somewhere else.
_UNSET = ("CLAUDE_PROJECT_DIR", "CURSOR_PROJECT_DIR", "COFIO_PROJECT")
_STOPS = ("Stop", "afterAgentResponse")
_BY = "doctor"
_SESSION = "cofio-doctor-"  # how the session of a proof is called
_OVER = timedelta(minutes=5)  # after which a proof has ended, or was ended
_LOOKED_AT = 200  # items of the inbox that are looked at for what a proof said
_RUNGS = {
    "file": "from the store's file",
    "briefing": "from the last briefing",
    "nothing": "nothing was found",
    "spooled": "kept for later",
    "skipped": "passed over",
}
_WHY = {
    "timeout": "the service took too long",
    "deadline": "it took too long",
    "refused": "no service is there",
    "down": "no service is there",
    "resting": "the service is left alone for now",
    "garbage": "the service made no sense",
}


class Trial:
    """One session of a client that never was."""

    def __init__(self, client: str, commands: Mapping[str, str], settings: Settings, folder: Path) -> None:
        self._client, self._commands, self._settings = client, commands, settings
        self._folder = folder
        self.session = f"{_SESSION}{secrets.token_hex(8)}"
        self._name = f"{record.PROOF}{secrets.token_hex(4)}"
        self.project = project.of(str(folder))
        self.place, self.database = _word(), _word()
        self.prompt = (
            f"We never deploy the {self.place} service on Fridays, only on Mondays. "
            f"Write the connection to the database of the {self.place} service."
        )

    def fact(self) -> Fact:
        """The memory that only this project has."""
        text = f"The {self.place} service uses the {self.database} database"
        return Fact(text=text, source=f"{self._client}/doctor", project=self.project)

    def begin(self) -> tuple[str, float]:
        """The start of a session, at which nothing is said."""
        return self._run({"source": "startup"}, "SessionStart", "sessionStart")

    def ask(self) -> tuple[str, float]:
        """What the hook puts before the agent when the user asks, and the milliseconds that it took."""
        return self._run({"prompt": self.prompt}, "UserPromptSubmit", "beforeSubmitPrompt")

    def answer(self) -> None:
        """The agent's answer."""
        said = "Noted."
        self._run({"last_assistant_message": said, "text": said}, *_STOPS)

    def end(self) -> None:
        """The end of the session."""
        self._run({"reason": "other"}, "SessionEnd", "sessionEnd")

    @property
    def tells_of_answers(self) -> bool:
        return any(name in self._commands for name in _STOPS)

    def rung(self) -> str:
        """Who answered the last of its hooks, and why no other, by the log."""
        runs = [run for run in record.recent(self._settings.home, 1_000) if self._name in run["why"]]
        if not runs:
            return "it left no line in hooks.log"
        why = next((word for word in runs[-1]["why"].split() if word in _WHY or word.isdigit()), "")
        because = _WHY.get(why) or (f"the service said {why}" if why else "")
        rung = runs[-1]["rung"]
        return "; ".join(filter(None, (_RUNGS.get(rung, rung), because)))

    def _run(self, told: Mapping[str, Any], *names: str) -> tuple[str, float]:
        event = next((name for name in names if name in self._commands), "")
        if not event:
            return "", 0.0
        around = (f"COFIO_HOOKS={self._name}", "COFIO_AUTOSTART=off")
        unset = (part for name in _UNSET for part in ("-u", name))
        began = time.monotonic()
        done = subprocess.run(  # noqa: S603
            ["env", *unset, *around, "sh", "-c", self._commands[event]],  # noqa: S607
            input=json.dumps({**self._about(event), **told}).encode(),
            cwd=self._folder,
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
        )
        return done.stdout.decode("utf-8", "replace"), (time.monotonic() - began) * 1000

    def _about(self, event: str) -> dict[str, Any]:
        """What the client tells at every event."""
        if self._client == "cursor":
            named = {"conversation_id": self.session, "generation_id": "1", "cursor_version": "doctor"}
            return {**named, "hook_event_name": event, "workspace_roots": [str(self._folder)]}
        turn = {"turn_id": "1", "model": "doctor"} if self._client == "codex" else {"prompt_id": "1"}
        return {"session_id": self.session, **turn, "cwd": str(self._folder), "hook_event_name": event}

    def forget_spooled(self) -> None:
        """Take back what this trial left in the spool."""
        with suppress(CofioError, OSError):
            for entry in spool.entries(self._settings.home):
                if self.session.encode() in entry.raw:
                    spool.done(entry)


def of_client(client: str, commands: Mapping[str, str], settings: Settings, service: Client | None) -> Iterator[Check]:
    """What running a client's hooks shows. Without a service: how far they get."""
    with tempfile.TemporaryDirectory(prefix="cofio-doctor-") as folder:
        trial = Trial(client, commands, settings, Path(folder))
        try:
            yield from _tried(client, trial, service)
        except subprocess.TimeoutExpired:
            yield Check(f"{client}, proof", "wrong", f"The hook does not end within {_PATIENCE:g} s.", "See hooks.log.")
        except (CofioError, OSError) as error:
            yield Check(f"{client}, proof", "wrong", str(error), "`cofio status` may say more.")


def _tried(client: str, trial: Trial, service: Client | None) -> Iterator[Check]:
    if service is None:
        _, ms = trial.begin()
        if not ms:
            return  # no hook for that: the check before has said so
        says = f"Without the service the hook ends after {ms:.0f} ms ({trial.rung()})."
        yield Check(f"{client}, proof", "warning", says, "Mend the service first, and ask again.")
        return
    added = service.add(trial.fact(), by=_BY).memory_id
    try:
        printed, ms = trial.ask()
        yield _injected(client, trial, printed, ms)
        trial.answer()
        trial.end()  # whatever is held is learned from now
        yield _captured(client, trial, service)
    finally:
        trial.forget_spooled()  # first: the service may take it in at any moment
        with suppress(CofioError):
            _purge(service, added)
        erase(service, lambda item: _session_of(item) == trial.session, {trial.project})


def _injected(client: str, trial: Trial, printed: str, ms: float) -> Check:
    name, how = f"{client}, recall", f"{trial.rung()}, {ms:.0f} ms"
    if trial.database in printed:
        return Check(name, "ok", f"a memory reached the prompt ({how})")
    if not printed:
        remedy = "The launcher may not start, or the service may be slow: see hooks.log and service.log in the home."
        return Check(name, "wrong", f"The hook printed nothing ({how}).", remedy)
    return Check(name, "wrong", f"The memory is not in what the hook printed ({how}).", "See service.log in the home.")


def _captured(client: str, trial: Trial, service: Client) -> Check:
    name = f"{client}, capture"
    item = _settled(trial, service)
    if item is None:
        return Check(name, "wrong", "What was said did not arrive.", "See hooks.log and service.log in the home.")
    if not trial.tells_of_answers:
        return Check(name, "wrong", "No hook tells of the end of a turn.", f"`cofio install {client}` puts it there.")
    if item.state == "stored":
        return Check(name, "ok", "what was said arrived, and was learned")
    if item.reason == NOTHING_FOUND:
        return Check(name, "ok", "what was said arrived, and the model read it and kept nothing")
    if item.state == "pending":
        return Check(name, "warning", f"What was said arrived, and waits: {item.reason or 'for the model'}.")
    if item.state == "parked":
        return Check(name, "wrong", f"What was said arrived, and was put aside: {item.reason}.", "`cofio ledger`.")
    return Check(name, "wrong", f"What was said arrived, and nothing was learned: {item.reason}.", "See service.log.")


def _settled(trial: Trial, service: Client) -> Item | None:
    """The trial's item of the inbox, once something has become of it; None when none comes."""
    found: Item | None = None
    began = time.monotonic()
    while time.monotonic() - began < (_PATIENCE if found else _ARRIVAL):
        items = [each for each in service.items(limit=50) if _session_of(each) == trial.session]
        found = items[0] if items else found
        if found and found.state != "pending":
            return found
        time.sleep(_STEP)
    return found


# ── erasing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def sweep(service: Client) -> None:
    """Erase what a proof left that could not end, such as one that was killed, or was heard too late."""
    long_ago = moment(datetime.now(UTC) - _OVER)
    erase(service, lambda item: _session_of(item).startswith(_SESSION) and item.received_at < long_ago)


def erase(service: Client, is_meant: Callable[[Item], bool], projects: set[str] | frozenset[str] = frozenset()) -> None:
    """Erase the words of these items of the inbox, and all that was learned in their projects, or in those given.

    A purge takes a memory's words out of everything, out of what waits to be learned from too: so the prompt becomes a
    memory, and that is purged. Not so the answer, which others may have given too. What is counted stays counted.
    """
    with suppress(CofioError):
        items = [each for each in service.items(limit=_LOOKED_AT) if is_meant(each)]
        said = [each.exchange for each in items if each.exchange]
        for one in said:
            for text in (each.text for each in one.messages if each.role == "user" and each.text.strip()):
                fact = Fact(text=text, source=f"{one.client}/doctor", project=one.project)
                _purge(service, service.add(fact, dedup=False, by=_BY).memory_id)
        for where in projects | {each.project for each in said}:
            for learned in service.list(project=where, include_archived=True, limit=50).memories if where else ():
                _purge(service, learned.id)


def _purge(service: Client, memory_id: int) -> None:
    """Erase what is the doctor's own. What a team sees, one of it may not erase: it is made private first."""
    try:
        service.purge(memory_id, by=_BY, why="the doctor's own")
    except Forbidden:
        service.update(memory_id, visibility="private", by=_BY)
        service.purge(memory_id, by=_BY, why="the doctor's own")


def _session_of(item: Item) -> str:
    return item.exchange.session if item.exchange else ""


def _word() -> str:
    """A word that nobody has used."""
    return "".join(secrets.choice("bdfgklmnprstvz") + secrets.choice("aeiou") for _ in range(4))
