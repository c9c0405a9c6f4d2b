"""The proof: the installed hook is run as the client runs it, in a project that nobody has, and its traces are erased.

a memory with a word nobody knows ─▶ a prompt that asks for it ─▶ is the word in what the hook prints?
a sentence with another such word ─▶ the end of the turn ─▶ does it arrive, and is it learned?
"""

from __future__ import annotations

import json
import secrets
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from cofio.client import Client
from cofio.conversation import Item
from cofio.errors import CofioError
from cofio.hooks import project, record, spool
from cofio.install.checks import Check
from cofio.model import Fact
from cofio.settings import Settings

_PATIENCE = 20.0  # seconds for a hook, and for what it delivered to be learned
_ARRIVAL = 2.0  # seconds for it to be there at all: a hook ends only once the service has it
_STEP = 0.1
#: What would make the hook believe that it is somewhere else.
_UNSET = ("CLAUDE_PROJECT_DIR", "CURSOR_PROJECT_DIR", "COFIO_PROJECT")
_STOPS = ("Stop", "afterAgentResponse")
_BY = "doctor"


class Trial:
    """One session of a client that never was."""

    def __init__(self, client: str, commands: Mapping[str, str], settings: Settings, folder: Path) -> None:
        self._client, self._commands, self._settings = client, commands, settings
        self._folder = folder
        self.session = f"cofio-doctor-{secrets.token_hex(8)}"
        self.project = project.of(str(folder))
        self.place, self.database, self.tool = (_word() for _ in range(3))
        self.prompt = (
            f"In this project we always deploy the {self.place} service with the {self.tool} tool. "
            f"Which database does the {self.place} service use?"
        )

    def fact(self) -> Fact:
        """The memory that only this project has."""
        text = f"The {self.place} service uses the {self.database} database"
        return Fact(text=text, source=f"{self._client}/doctor", project=self.project)

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

    def _run(self, told: Mapping[str, Any], *names: str) -> tuple[str, float]:
        event = next((name for name in names if name in self._commands), "")
        if not event:
            return "", 0.0
        command = ["env", *(part for name in _UNSET for part in ("-u", name)), "sh", "-c", self._commands[event]]
        began = time.monotonic()
        done = subprocess.run(  # noqa: S603
            command,
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
            yield from _tried(client, trial, settings, service)
        except subprocess.TimeoutExpired:
            yield Check(f"{client}, proof", "wrong", f"The hook does not end within {_PATIENCE:g} s.", "See hooks.log.")
        except (CofioError, OSError) as error:
            yield Check(f"{client}, proof", "wrong", str(error), "`cofio status` may say more.")
        finally:
            trial.forget_spooled()


def _tried(client: str, trial: Trial, settings: Settings, service: Client | None) -> Iterator[Check]:
    if service is None:
        _, ms = trial.ask()
        says = f"Without the service the hook ends after {ms:.0f} ms ({_rung(settings)})."
        yield Check(f"{client}, proof", "warning", says, "`cofio up`, and ask again.")
        return
    added = service.add(trial.fact(), by=_BY).memory_id
    try:
        printed, ms = trial.ask()
        yield _injected(client, trial, settings, printed, ms)
        trial.answer()
        trial.end()  # whatever is held is learned from now
        yield _captured(client, trial, service)
    finally:
        _erase(trial, service, added)


def _injected(client: str, trial: Trial, settings: Settings, printed: str, ms: float) -> Check:
    name, how = f"{client}, recall", f"{_rung(settings)}, {ms:.0f} ms"
    if trial.database in printed:
        return Check(name, "ok", f"a memory reached the prompt ({how})")
    if not printed:
        remedy = "Hooks may be off (COFIO_HOOKS), or the launcher may not start: see hooks.log in the home."
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
        items = [each for each in service.items(limit=50) if each.exchange and each.exchange.session == trial.session]
        found = items[0] if items else found
        if found and found.state != "pending":
            return found
        time.sleep(_STEP)
    return found


def _erase(trial: Trial, service: Client, added: int) -> None:
    with suppress(CofioError):
        learned = service.list(project=trial.project, include_archived=True, limit=50).memories
        for memory_id in {added, *(each.id for each in learned)}:
            service.purge(memory_id, by=_BY, why="the doctor's own")


def _rung(settings: Settings) -> str:
    """Who answered the last hook, by the log."""
    last = record.recent(settings.home, 1)
    return f"{last[0]['rung']} {last[0]['why']}".strip() if last else "nothing in the log"


def _word() -> str:
    """A word that nobody has used."""
    return "".join(secrets.choice("bdfgklmnprstvz") + secrets.choice("aeiou") for _ in range(4))
