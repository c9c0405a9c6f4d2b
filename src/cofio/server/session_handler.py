"""Session events of coding agents: answers prompts with recalled memories and captures the turns.

    start, prompt ─ recall ─▶ context block for the agent, each memory once per session
    prompt ─ amend ─▶ held in the inbox ─ stop ─▶ due
    compact, end ─▶ held captures become due; turns that no hook reported are read from the transcript
    compact ─ review ─▶ a language model reads all turns since the last compaction again, as a whole

A prompt is stored on arrival and held until its answer arrives: both form one turn, learned from together. A prompt
without an answer (interrupted by the user, or the client died) is learned from alone when the session continues or
ends.

Callers with their own key use the keeper as seen by their viewer: their sessions are separate from all others, even
if the names are equal, and nothing of them is written to this machine's disk outside the store.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cofio.core import Keeper
from cofio.errors import CofioError, InvalidInput, StoreError, TooBusy, Unavailable
from cofio.hooks import briefing_cache, offline_recall_log, project, spool, transcripts
from cofio.hooks.client_events import ANEW, Event, event
from cofio.models import sessions
from cofio.models.episodes import base_turn
from cofio.models.exchange import COMPACT_SUMMARY, REVIEW
from cofio.models.memory import MAX_LABEL, Briefing, Viewer

HOLD = 3600.0  # seconds that a prompt waits for its answer before it is learned from alone
_REVIEWED = "review:"  # prefix of the name of the last turn that a review has read
_REVIEW = 24_000  # characters that a language model reads in one review
_SITTINGS = 1_000  # sessions cached; evicted ones are loaded from the store again
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _SessionState:
    """State of a session: injected memories with a digest of their texts, and the unanswered turn."""

    keeper: Keeper  # as the session's caller may use it
    given: dict[int, str]
    exact: dict[str, None] = field(default_factory=dict)  # domain knowledge injected so far
    since: str = ""  # when the agent's context was last cleared or compacted
    open_turn: str = ""
    recalling: threading.Lock = field(default_factory=threading.Lock)
    telling: threading.Lock = field(default_factory=threading.Lock)


class SessionHandler:
    """Thread-safe handler of the session events of all clients."""

    def __init__(
        self,
        keeper: Keeper,
        home: Path,
        *,
        codex_home: Path | None = None,
        patience: float = 0.5,
        is_mine: Callable[[], bool] = lambda: True,
    ) -> None:
        self._keeper = keeper
        self._home = home
        self._is_mine = is_mine  # whether files that hooks leave in the home are for this store
        self._patience = patience  # seconds after which hooks stop waiting
        self._codex_home = codex_home
        self._subagents: set[tuple[Viewer | None, str]] = set()
        self._own_sessions: set[tuple[Viewer | None, str, str]] = set()
        self._sittings: OrderedDict[tuple[Viewer | None, str, str], _SessionState] = OrderedDict()
        self._lock = threading.Lock()
        self._fetching = threading.Lock()
        self._aside = ThreadPoolExecutor(4, "cofio-attend")

    def attend(
        self,
        happened: Event,
        where: str,
        *,
        raw: bytes = b"",
        local: bool = True,
        at: str = "",
        keeper: Keeper | None = None,
    ) -> str:
        """Return the context block for the agent; "" for none. The content is then stored in the inbox or in the spool.

        A transcript is read later, from the spool, and only if it is a file of this machine. `at` is set for a late
        delivery: no hook waits for its answer. `keeper` is the caller's view. If that view is limited, files of this
        machine do not belong to the caller: none is read, and the spool is not used, as it would lose the owner.
        """
        whose = keeper or self._keeper
        local = local and whose.viewer is None
        if self._is_aside(happened, whose) or happened.kind == "other":
            return ""
        began = time.monotonic()
        where = (where or (project.project_of(happened.cwd) if local else ""))[:MAX_LABEL]
        if happened.kind == "start" and not at:
            return self._recall(happened, where, began, whose)
        if happened.kind == "prompt" and not at:
            saving = self._aside.submit(self._keep, happened, where, "", whose)
            try:
                return self._recall(happened, where, began, whose)
            finally:
                saving.result()
        if happened.kind in ("compact", "end") and happened.transcript and local and raw:
            spool.store_delivery(self._home, happened.client, raw, at="", project=where, event=happened.name)
        else:
            self._keep(replace(happened, transcript=""), where, at, whose)
        return ""

    def keep(self, happened: Event, where: str, *, at: str = "") -> None:
        """Store the content of an event."""
        self._keep(happened, where, at, self._keeper)

    def _keep(self, happened: Event, where: str, at: str, keeper: Keeper) -> None:
        if self._is_aside(happened, keeper):
            return
        if happened.kind in ("prompt", "stop"):
            self._amend(happened, where, at, self._get_sitting(happened, keeper))
        elif happened.kind == "summary":
            self._keep_summary(happened, where, at, keeper)
        elif happened.kind in ("failure", "compact", "end"):
            if happened.transcript and happened.kind != "failure":
                self._catch_up(happened, where, keeper)
            self._close_turn(happened, self._get_sitting(happened, keeper))
            if happened.kind == "compact" and happened.transcript and keeper.llm:
                self._review(happened, where, keeper)

    def fetch(self) -> int:
        """Import spooled deliveries, oldest first; return their number. Unreadable ones are quarantined."""
        with self._fetching:
            if not self._is_mine():
                return 0
            self._count()
            return self._drain_spool()

    def _count(self) -> None:
        """Count recalls made without the service. An error here does not stop the import of captures."""
        try:
            offline_recall_log.import_log(os.fsencode(self._home), self._keeper.note_recalled)
        except (OSError, CofioError) as error:
            _log.warning("recalls made without the service are not counted yet: %s", error)

    def _drain_spool(self) -> int:
        count = 0
        for entry in spool.entries(self._home):
            try:
                self.keep(event(entry.client, entry.raw), entry.project, at=entry.at)
            except (TooBusy, StoreError, Unavailable):
                raise  # it stays in the spool, as do all later ones
            except Exception as error:  # noqa: BLE001 - one bad delivery must not block the others
                _log.warning("%s is quarantined: %s", entry.path.name, error)
                spool.set_aside(entry)
            else:
                spool.remove_entry(entry)
                count += 1
        return count

    def _is_aside(self, happened: Event, keeper: Keeper) -> bool:
        """Return whether the event is from a subagent, or from a coding agent that cofio uses as its model.

        Codex reports subagent turns like those of any other thread.
        """
        if self._is_own(happened, keeper):
            return True
        if happened.subagent:
            if len(self._subagents) >= _SITTINGS:
                self._subagents.clear()
            self._subagents.add((keeper.viewer, happened.subagent))
            return True
        if happened.name != "notify" or (keeper.viewer, happened.client, happened.session) in self._sittings:
            return False
        if (keeper.viewer, happened.session) in self._subagents:
            return True
        if self._codex_home is None or keeper.viewer is not None:  # other users' threads are not in this home
            return False
        return transcripts.is_subagents(happened.session, self._codex_home)

    def _is_own(self, happened: Event, keeper: Keeper) -> bool:
        """Return whether the session began with a prompt of cofio's own."""
        session = (keeper.viewer, happened.client, happened.session)
        if not transcripts.is_own_request(happened.prompt):
            return bool(happened.session) and session in self._own_sessions
        if len(self._own_sessions) >= _SITTINGS:
            self._own_sessions.clear()
        self._own_sessions.add(session)
        return True

    def close(self) -> None:
        """Finish started work."""
        self._aside.shutdown(wait=True)

    # ── recall ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _recall(self, happened: Event, where: str, began: float, keeper: Keeper) -> str:
        """Return what is relevant and new to the session. If hooks fire twice, such as with a plugin installed beside
        hooks in the settings, the second gets nothing.
        """
        get_briefing = self._recall_start if happened.kind == "start" else self._recall_prompt
        sitting = self._get_sitting(happened, keeper)
        with sitting.recalling:
            briefing = get_briefing(happened, where, sitting)
            self._note_given(happened, briefing, began, sitting)
        return briefing.text

    def _recall_start(self, happened: Event, where: str, sitting: _SessionState) -> Briefing:
        if happened.began in ANEW:
            sitting.keeper.forget_given(happened.client, happened.session)
            sitting.given.clear()
            sitting.exact.clear()
            sitting.since = sitting.keeper.now()
        briefing = _recall_briefing("", happened, where, sitting)
        if briefing and not sitting.given and sitting.keeper.viewer is None:  # any hook on this machine may read it
            briefing_cache.save_briefing(self._home, where, briefing.text)
        return briefing

    def _recall_prompt(self, happened: Event, where: str, sitting: _SessionState) -> Briefing:
        if not transcripts.is_prompt(happened.prompt):
            return Briefing()  # sent by the client in the user's place, such as when a subagent finishes
        return _recall_briefing(happened.prompt, happened, where, sitting)

    def _note_given(self, happened: Event, briefing: Briefing, began: float, sitting: _SessionState) -> None:
        """Record the briefing as injected, unless the hook has timed out. The reply does not wait for the write."""
        if briefing and happened.session and time.monotonic() - began < self._patience:
            sitting.given.update(briefing.given)
            sitting.exact.update(dict.fromkeys(briefing.exact))
            self._aside.submit(self._note, happened, dict(briefing.given), sitting.keeper)

    def _note(self, happened: Event, injected: dict[int, str], keeper: Keeper) -> None:
        try:
            keeper.give(happened.client, happened.session, injected)
        except CofioError as error:  # at worst a memory is injected twice after a restart
            _log.warning("injected memories not recorded: %s", error.message)

    def _get_sitting(self, happened: Event, keeper: Keeper) -> _SessionState:
        key = (keeper.viewer, happened.client, happened.session)
        with self._lock:
            if state := self._sittings.get(key):
                self._sittings.move_to_end(key)
                return state
        injected = keeper.given(happened.client, happened.session) if happened.session else {}
        with self._lock:
            sitting = self._sittings.setdefault(key, _SessionState(keeper, injected))
            while len(self._sittings) > _SITTINGS:
                self._sittings.popitem(last=False)
        return sitting

    # ── capture ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _amend(self, happened: Event, where: str, at: str, sitting: _SessionState) -> None:
        asks = happened.kind == "prompt"
        turn = _turn(happened, sitting)
        messages = list(_messages(happened))
        if not messages:
            return
        about = _about(happened, where, turn, sitting.keeper.viewer)
        if not asks:  # so that an agent repeating its context is not learned as new
            about["injected"] = (*sitting.keeper.texts(list(sitting.given)), *sitting.exact)
        with sitting.telling:  # hooks that fire twice at once report the same turn
            if asks and sitting.open_turn != turn:
                sitting.keeper.go_on(happened.client, happened.session)  # held prompts were interrupted
            sitting.keeper.amend(messages, hold=HOLD if asks else 0.0, by=happened.client, at=at, **about)
            sitting.open_turn = turn if asks else ""

    def _close_turn(self, happened: Event, sitting: _SessionState) -> None:
        sitting.keeper.release(happened.client, happened.session)
        sitting.open_turn = ""

    def _keep_summary(self, happened: Event, where: str, at: str, keeper: Keeper) -> None:
        """Store the summary of a compacted conversation: written by a model, so searchable but never learned from."""
        if summary := sessions.without_wrappers(happened.summary):
            about = _about(happened, where, f"compact-{name_from_words(summary)}", keeper.viewer)
            keeper.capture([{"role": "assistant", "content": summary}], by=happened.client, at=at, **about)

    def _catch_up(self, happened: Event, where: str, keeper: Keeper) -> None:
        """Import from the client's transcript what no hook reported: whole turns, prompts, answers."""
        known_turns = keeper.turns(happened.client, happened.session)
        try:
            for turn in _turns_of(happened):
                name = turn_name(turn, known_turns)
                messages = _as_hooks_tell(turn) if name in known_turns else turn.messages
                about = _about(happened, where, name, keeper.viewer)
                keeper.amend(messages, by=happened.client, at=turn.at, **about)
        except InvalidInput as error:  # its content cannot be stored
            _log.warning("transcript not imported: %s", error)

    def _review(self, happened: Event, where: str, keeper: Keeper) -> None:
        """Let the language model read everything that compaction removes from the agent's context, its findings
        included.
        """
        known_turns = keeper.turns(happened.client, happened.session)
        purged = {base_turn(turn) for turn in keeper.purged_turns(happened.client, happened.session)}
        for turns in _split_turns(_turns_of(happened), known_turns):
            about = _about(happened, where, f"{_REVIEWED}{turns[-1].turn}", keeper.viewer)
            remaining = [turn for turn in turns if turn_name(turn, known_turns) not in purged]
            messages = [message for turn in remaining for message in turn.messages]
            at = {"at": turns[0].at} if turns[0].at else {}  # what was said elsewhere meanwhile is newer
            if messages:
                keeper.submit(messages, **{**about, **at, "context": REVIEW})


def _turns_of(happened: Event) -> list[transcripts.TranscriptTurn]:
    """Return the turns of the client's transcript; none if it cannot be read."""
    path = Path(happened.transcript)
    try:
        return list(transcripts.read_transcript(path)) if path.suffix == ".jsonl" and path.is_file() else []
    except (InvalidInput, OSError) as error:  # deleted meanwhile, not readable, or not text
        _log.warning("transcript not read: %s", error)
        return []


def _split_turns(
    turns: Sequence[transcripts.TranscriptTurn], known_turns: Set[str]
) -> Iterator[list[transcripts.TranscriptTurn]]:
    """Yield unreviewed turns in batches of one day each, small enough for the language model."""
    reviewed = [place for place, turn in enumerate(turns, 1) if f"{_REVIEWED}{turn.turn}" in known_turns]
    part: list[transcripts.TranscriptTurn] = []
    for turn in turns[max(reviewed, default=0) :]:
        if part and (_length([*part, turn]) > _REVIEW or turn.at[:10] != part[0].at[:10]):
            yield part
            part = []
        part.append(turn)
    if part:
        yield part


def _length(turns: Sequence[transcripts.TranscriptTurn]) -> int:
    return sum(len(str(message["content"])) for turn in turns for message in turn.messages)


def _recall_briefing(prompt: str, happened: Event, where: str, sitting: _SessionState) -> Briefing:
    """Return the briefing for the session, without what it has already received or what was learned from it."""
    return sitting.keeper.recall(
        prompt,
        project=where,
        given=sitting.given,
        by=happened.client,
        client=happened.client,
        session=happened.session,
        since=sitting.since,
    )


def _messages(happened: Event) -> Iterator[dict[str, Any]]:
    if happened.prompt and transcripts.is_prompt(happened.prompt):
        yield {"role": "user", "content": happened.prompt}
    if happened.reply:
        yield {"role": "assistant", "content": happened.reply}


def _about(happened: Event, where: str, turn: str, viewer: Viewer | None) -> dict[str, Any]:
    source = source_of(happened.client, where)
    return {
        "client": happened.client,
        "session": happened.session,
        "turn": turn,
        "project": where,
        "source": viewer.below(source) if viewer else source,
        "context": _CONTEXTS.get(happened.kind, "stop"),
    }


def source_of(client: str, where: str) -> str:
    """Return the source of what is said to a client in a project."""
    return f"{client}/{project.name(where)}" if where else client


_CONTEXTS = {"compact": "pre_compact", "summary": COMPACT_SUMMARY, "end": "session_end"}


def _turn(happened: Event, sitting: _SessionState) -> str:
    """Return the turn's name. If the client sends none: that of the prompt it answers, else a hash of the words."""
    if happened.turn:
        return happened.turn
    if happened.prompt:
        return name_from_words(happened.prompt)
    return sitting.open_turn or name_from_words(happened.reply)


def turn_name(turn: transcripts.TranscriptTurn, known_turns: set[str]) -> str:
    """Return the name under which a hook reported the turn, if one did; else its own."""
    prompt = next((message["content"] for message in turn.messages if message["role"] == "user"), "")
    by_words = name_from_words(prompt) if isinstance(prompt, str) else ""
    return by_words if by_words in known_turns else turn.turn


def _as_hooks_tell(turn: transcripts.TranscriptTurn) -> list[dict[str, Any]]:
    """Return what hooks would have reported of a turn: everything but the agent's intermediate messages."""
    answers = [place for place, message in enumerate(turn.messages) if message["role"] == "assistant"]
    return [
        message for place, message in enumerate(turn.messages) if message["role"] != "assistant" or place == answers[-1]
    ]


def name_from_words(words: str) -> str:
    return "w" + hashlib.blake2b(" ".join(words.split()).encode("utf-8", "replace"), digest_size=10).hexdigest()
