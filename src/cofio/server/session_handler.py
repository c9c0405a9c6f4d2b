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
from typing import Any, TypeVar

from cofio.core import Keeper
from cofio.errors import CofioError, InvalidInput, StoreError, TooBusy, Unavailable
from cofio.hooks import briefing_cache, offline_recall_log, project, spool, transcripts
from cofio.hooks.client_events import ANEW, Event, event
from cofio.models import sessions
from cofio.models.episodes import base_turn
from cofio.models.exchange import COMPACT_SUMMARY, REVIEW
from cofio.models.memory import MAX_LABEL, Viewer

HOLD = 3600.0  # seconds that a prompt waits for its answer before it is learned from alone
_REVIEWED = "review:"  # prefix of the name of the last turn that a review has read
_REVIEW = 24_000  # characters that a language model reads in one review
_MAX_SESSIONS = 1_000  # sessions cached; evicted ones are loaded from the store again
_CONTEXTS = {"compact": "pre_compact", "summary": COMPACT_SUMMARY, "end": "session_end"}
_Name = TypeVar("_Name")
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _SessionState:
    """State of a session: injected memories with a digest of their texts, and the unanswered turn."""

    keeper: Keeper  # as the session's caller may use it
    injected: dict[int, str]
    exact: dict[str, None] = field(default_factory=dict)  # domain knowledge injected so far
    since: str = ""  # when the agent's context was last cleared or compacted
    open_turn: str = ""
    recalling: threading.Lock = field(default_factory=threading.Lock)
    capturing: threading.Lock = field(default_factory=threading.Lock)


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
        self._session_states: OrderedDict[tuple[Viewer | None, str, str], _SessionState] = OrderedDict()
        self._lock = threading.Lock()
        self._importing = threading.Lock()
        self._executor = ThreadPoolExecutor(4, "cofio-sessions")

    def handle(
        self,
        hook_event: Event,
        project_name: str,
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
        caller_keeper = keeper or self._keeper
        local = local and caller_keeper.viewer is None
        if self._is_ignored(hook_event, caller_keeper) or hook_event.kind == "other":
            return ""
        began = time.monotonic()
        project_name = (project_name or (project.project_of(hook_event.cwd) if local else ""))[:MAX_LABEL]
        if hook_event.kind == "start" and not at:
            return self._recall(hook_event, project_name, began, caller_keeper)
        if hook_event.kind == "prompt" and not at:
            saving = self._executor.submit(self.capture, hook_event, project_name, keeper=caller_keeper)
            try:
                return self._recall(hook_event, project_name, began, caller_keeper)
            finally:
                saving.result()
        if hook_event.kind in ("compact", "end") and hook_event.transcript and local and raw:
            spool.store_delivery(self._home, hook_event.client, raw, at="", project=project_name, event=hook_event.name)
        else:
            self.capture(replace(hook_event, transcript=""), project_name, at=at, keeper=caller_keeper)
        return ""

    def capture(self, hook_event: Event, project_name: str, *, at: str = "", keeper: Keeper | None = None) -> None:
        """Store the content of an event."""
        keeper = keeper or self._keeper
        if self._is_ignored(hook_event, keeper):
            return
        if hook_event.kind in ("prompt", "stop"):
            self._amend(hook_event, project_name, at, self._get_session_state(hook_event, keeper))
        elif hook_event.kind == "summary":
            # Written by a model: searchable, but never learned from.
            if summary := sessions.without_wrappers(hook_event.summary):
                about = _build_labels(hook_event, project_name, f"compact-{name_from_words(summary)}", keeper.viewer)
                keeper.capture([{"role": "assistant", "content": summary}], by=hook_event.client, at=at, **about)
        elif hook_event.kind in ("failure", "compact", "end"):
            if hook_event.transcript and hook_event.kind != "failure":
                self._import_transcript(hook_event, project_name, keeper)
            state = self._get_session_state(hook_event, keeper)
            state.keeper.services.captures.release(hook_event.client, hook_event.session)
            state.open_turn = ""
            if hook_event.kind == "compact" and hook_event.transcript and keeper.llm:
                self._review(hook_event, project_name, keeper)

    def import_spool(self) -> int:
        """Import spooled deliveries, oldest first; return their number. Unreadable ones are quarantined."""
        with self._importing:
            if not self._is_mine():
                return 0
            try:
                offline_recall_log.import_log(
                    os.fsencode(self._home), self._keeper.services.shared.retrieval_log.import_recalls
                )
            except (OSError, CofioError) as error:  # captures are imported nevertheless
                _log.warning("recalls that hooks made without the service could not be imported: %s", error)

            spool.expire_bad(self._home)
            count = 0
            for entry in spool.entries(self._home):
                try:
                    self.capture(event(entry.client, entry.raw), entry.project, at=entry.at)
                except (TooBusy, StoreError, Unavailable):
                    raise  # it stays in the spool, as do all later ones
                except Exception as error:  # noqa: BLE001 - one bad delivery must not block the others
                    name = entry.path.name
                    _log.warning("the capture in %s cannot be read and was moved to spool/bad: %s", name, error)
                    spool.set_aside(entry)
                else:
                    spool.remove_entry(entry)
                    count += 1
            return count

    def _is_ignored(self, hook_event: Event, keeper: Keeper) -> bool:
        """Return whether the event is from a subagent, or from a coding agent that cofio uses as its model.

        Codex reports subagent turns like those of any other thread.
        """
        session = (keeper.viewer, hook_event.client, hook_event.session)
        if transcripts.is_own_request(hook_event.prompt):  # the whole session is cofio's own
            _add_limited(self._own_sessions, session)
            return True
        if hook_event.session and session in self._own_sessions:
            return True
        if hook_event.subagent:
            _add_limited(self._subagents, (keeper.viewer, hook_event.subagent))
            return True
        if hook_event.name != "notify" or session in self._session_states:
            return False
        if (keeper.viewer, hook_event.session) in self._subagents:
            return True
        if self._codex_home is None or keeper.viewer is not None:  # other users' threads are not in this home
            return False
        return transcripts.is_subagents(hook_event.session, self._codex_home)

    def close(self) -> None:
        """Finish started work."""
        self._executor.shutdown(wait=True)

    # ── recall ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _recall(self, hook_event: Event, project_name: str, began: float, keeper: Keeper) -> str:
        """Return what is relevant and new to the session. If hooks fire twice, such as with a plugin installed beside
        hooks in the settings, the second gets nothing.
        """
        client, session, is_start = hook_event.client, hook_event.session, hook_event.kind == "start"
        state = self._get_session_state(hook_event, keeper)
        keeper = state.keeper
        if not is_start and not transcripts.is_prompt(hook_event.prompt):
            return ""  # sent by the client in the user's place, such as when a subagent finishes
        with state.recalling:
            if is_start and hook_event.began in ANEW:
                keeper.services.captures.clear_injected(client, session)
                state.injected.clear()
                state.exact.clear()
                state.since = keeper.services.shared.clock()

            briefing = keeper.recall(
                "" if is_start else hook_event.prompt,
                project=project_name,
                injected=state.injected,
                by=client,
                client=client,
                session=session,
                since=state.since,
            )
            if is_start and briefing and not state.injected and keeper.viewer is None:  # any hook here may read it
                briefing_cache.save_briefing(self._home, project_name, briefing.text)

            # Record it as injected, unless the hook has timed out. The reply does not wait for the write.
            if briefing and session and time.monotonic() - began < self._patience:
                state.injected.update(briefing.injected)
                state.exact.update(dict.fromkeys(briefing.exact))
                self._executor.submit(self._mark_injected, hook_event, dict(briefing.injected), keeper)
        return briefing.text

    def _mark_injected(self, hook_event: Event, injected: dict[int, str], keeper: Keeper) -> None:
        try:
            keeper.services.captures.mark_injected(hook_event.client, hook_event.session, injected)
        except CofioError as error:  # at worst a memory is injected twice after a restart
            _log.warning("could not record which memories were injected: %s", error.message)

    def _get_session_state(self, hook_event: Event, keeper: Keeper) -> _SessionState:
        key = (keeper.viewer, hook_event.client, hook_event.session)
        with self._lock:
            if known_state := self._session_states.get(key):
                self._session_states.move_to_end(key)
                return known_state
        injected = (
            keeper.services.captures.injected(hook_event.client, hook_event.session) if hook_event.session else {}
        )
        with self._lock:
            state = self._session_states.setdefault(key, _SessionState(keeper, injected))
            while len(self._session_states) > _MAX_SESSIONS:
                self._session_states.popitem(last=False)
        return state

    # ── capture ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _amend(self, hook_event: Event, project_name: str, at: str, state: _SessionState) -> None:
        is_prompt = hook_event.kind == "prompt"
        turn = hook_event.turn  # by default that of the prompt it answers, else a hash of the words
        if not turn:
            by_words = name_from_words(hook_event.prompt or hook_event.reply)
            turn = by_words if hook_event.prompt else state.open_turn or by_words
        messages = []
        if hook_event.prompt and transcripts.is_prompt(hook_event.prompt):
            messages.append({"role": "user", "content": hook_event.prompt})
        if hook_event.reply:
            messages.append({"role": "assistant", "content": hook_event.reply})
        if not messages:
            return

        about = _build_labels(hook_event, project_name, turn, state.keeper.viewer)
        if not is_prompt:  # so that an agent repeating its context is not learned as new
            about["injected"] = (*state.keeper.services.memories.texts(list(state.injected)), *state.exact)
        with state.capturing:  # hooks that fire twice at once report the same turn
            if is_prompt and state.open_turn != turn:  # held prompts were interrupted
                state.keeper.services.captures.go_on(hook_event.client, hook_event.session)
            state.keeper.amend(messages, hold=HOLD if is_prompt else 0.0, by=hook_event.client, at=at, **about)
            state.open_turn = turn if is_prompt else ""

    def _import_transcript(self, hook_event: Event, project_name: str, keeper: Keeper) -> None:
        """Import from the client's transcript what no hook reported: whole turns, prompts, answers."""
        known_turns = keeper.turns(hook_event.client, hook_event.session)
        try:
            for turn in _read_turns(hook_event):
                name = turn_name(turn, known_turns)
                messages = list(turn.messages)
                if name in known_turns:  # hooks reported everything but the agent's intermediate messages
                    answers = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
                    messages = [message for place, message in enumerate(messages) if place not in answers[:-1]]
                about = _build_labels(hook_event, project_name, name, keeper.viewer)
                keeper.amend(messages, by=hook_event.client, at=turn.at, **about)
        except InvalidInput as error:  # its content cannot be stored
            _log.warning("The transcript of a session could not be imported: %s", error)

    def _review(self, hook_event: Event, project_name: str, keeper: Keeper) -> None:
        """Let the language model read everything that compaction removes from the agent's context, its findings
        included.
        """
        known_turns = keeper.turns(hook_event.client, hook_event.session)
        purged = {
            base_turn(turn) for turn in keeper.services.captures.purged_turns(hook_event.client, hook_event.session)
        }
        for turns in _split_turns(_read_turns(hook_event), known_turns):
            about = _build_labels(hook_event, project_name, f"{_REVIEWED}{turns[-1].turn}", keeper.viewer)
            remaining = [turn for turn in turns if turn_name(turn, known_turns) not in purged]
            messages = [message for turn in remaining for message in turn.messages]
            at = {"at": turns[0].at} if turns[0].at else {}  # what was said elsewhere meanwhile is newer
            if messages:
                keeper.submit(messages, **{**about, **at, "context": REVIEW})


def _add_limited(names: set[_Name], name: _Name) -> None:
    if len(names) >= _MAX_SESSIONS:
        names.clear()
    names.add(name)


def _read_turns(hook_event: Event) -> list[transcripts.TranscriptTurn]:
    """Return the turns of the client's transcript; none if it cannot be read."""
    path = Path(hook_event.transcript)
    try:
        return list(transcripts.read_transcript(path)) if path.suffix == ".jsonl" and path.is_file() else []
    except (InvalidInput, OSError) as error:  # deleted meanwhile, not readable, or not text
        _log.warning("transcript of the session cannot be read: %s", error)
        return []


def _split_turns(
    turns: Sequence[transcripts.TranscriptTurn], known_turns: Set[str]
) -> Iterator[list[transcripts.TranscriptTurn]]:
    """Yield unreviewed turns in batches of one day each, small enough for the language model."""
    reviewed = [place for place, turn in enumerate(turns, 1) if f"{_REVIEWED}{turn.turn}" in known_turns]
    part: list[transcripts.TranscriptTurn] = []
    for turn in turns[max(reviewed, default=0) :]:
        length = sum(len(str(message["content"])) for other in [*part, turn] for message in other.messages)
        if part and (length > _REVIEW or turn.at[:10] != part[0].at[:10]):
            yield part
            part = []
        part.append(turn)
    if part:
        yield part


def _build_labels(hook_event: Event, project_name: str, turn: str, viewer: Viewer | None) -> dict[str, Any]:
    source = source_of(hook_event.client, project_name)
    return {
        "client": hook_event.client,
        "session": hook_event.session,
        "turn": turn,
        "project": project_name,
        "source": viewer.below(source) if viewer else source,
        "context": _CONTEXTS.get(hook_event.kind, "stop"),
    }


def source_of(client: str, project_name: str) -> str:
    """Return the source of what is said to a client in a project."""
    return f"{client}/{project.name(project_name)}" if project_name else client


def turn_name(turn: transcripts.TranscriptTurn, known_turns: set[str]) -> str:
    """Return the name under which a hook reported the turn, if one did; else its own."""
    prompt = next((message["content"] for message in turn.messages if message["role"] == "user"), "")
    by_words = name_from_words(prompt) if isinstance(prompt, str) else ""
    return by_words if by_words in known_turns else turn.turn


def name_from_words(words: str) -> str:
    return "w" + hashlib.blake2b(" ".join(words.split()).encode("utf-8", "replace"), digest_size=10).hexdigest()
