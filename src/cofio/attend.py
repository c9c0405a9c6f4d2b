"""Attending a client's session: each event of it is answered with what is worth recalling, and its turns are kept.

    start, prompt ─ recall ─▶ what is put before the agent, each memory once a session
    prompt ─ amend ─▶ held in the inbox ─ stop ─▶ due
    compact, end ─▶ what is held is due, and what no hook told of is taken from the transcript
    compact ─ review ─▶ a language model reads the turns since the last compaction once more, as a whole

A prompt is kept the moment it comes, and held until its answer does: the two are one turn, learned from as one. What
was never answered (the user broke it off, the client died) is learned from by itself once the session goes on or ends.

Whoever has a key of their own is attended by the keeper as they may use it: their sessions are apart from all others',
whatever they are called, and nothing of them is left on this machine's disk outside the store.
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

from cofio import sessions, transcripts
from cofio.conversation import COMPACT_SUMMARY, REVIEW
from cofio.episodes import base_turn
from cofio.errors import CofioError, InvalidInput, StoreError, TooBusy, Unavailable
from cofio.hooks import briefings, project, recalled, spool
from cofio.hooks.clients import ANEW, Event, event
from cofio.keeper import Keeper
from cofio.model import MAX_LABEL, Briefing, Viewer

HOLD = 3600.0  # seconds that a prompt waits for its answer before it is learned from alone
_REVIEWED = "review:"  # before the name of the last turn that a review has read
_REVIEW = 24_000  # characters that a language model reads in one review
_SITTINGS = 1_000  # sessions that are remembered; an older one is looked up again
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Sitting:
    """What is known of a session: the memories that it was given, with a digest of their texts; its unanswered turn."""

    keeper: Keeper  # as whoever sits there may use it
    given: dict[int, str]
    exact: dict[str, None] = field(default_factory=dict)  # what it was told of what is known exactly
    since: str = ""  # when the agent last lost sight of what was said before
    open_turn: str = ""
    recalling: threading.Lock = field(default_factory=threading.Lock)
    telling: threading.Lock = field(default_factory=threading.Lock)


class Attendant:
    """Answers the events of all clients, from many threads."""

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
        self._is_mine = is_mine  # whether what hooks leave in the home is for this store
        self._patience = patience  # seconds after which no hook listens any more
        self._codex_home = codex_home
        self._subagents: set[tuple[Viewer | None, str]] = set()
        self._own_sessions: set[tuple[Viewer | None, str, str]] = set()
        self._sittings: OrderedDict[tuple[Viewer | None, str, str], _Sitting] = OrderedDict()
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
        """What is to be put before the agent; "" for nothing. What was said is in the inbox by then, or in the spool.

        A transcript is read later, from the spool, and only where it is a file of this machine. `at` is when it was
        said, where that was a while ago: nobody waits for an answer to that any more. `keeper` is the keeper as the
        caller may use it. Where that is not all of it, the files of this machine are not the caller's: none is read,
        and what waits in the spool would lose whose it is.
        """
        whose = keeper or self._keeper
        local = local and whose.viewer is None
        if self._is_aside(happened, whose) or happened.kind == "other":
            return ""
        began = time.monotonic()
        where = (where or (project.of(happened.cwd) if local else ""))[:MAX_LABEL]
        if happened.kind == "start" and not at:
            return self._recall(happened, where, began, whose)
        if happened.kind == "prompt" and not at:
            kept = self._aside.submit(self._keep, happened, where, "", whose)
            try:
                return self._recall(happened, where, began, whose)
            finally:
                kept.result()
        if happened.kind in ("compact", "end") and happened.transcript and local and raw:
            spool.put(self._home, happened.client, raw, at="", project=where, event=happened.name)
        else:
            self._keep(replace(happened, transcript=""), where, at, whose)
        return ""

    def keep(self, happened: Event, where: str, *, at: str = "") -> None:
        """Hand over what was said."""
        self._keep(happened, where, at, self._keeper)

    def _keep(self, happened: Event, where: str, at: str, keeper: Keeper) -> None:
        if self._is_aside(happened, keeper):
            return
        if happened.kind in ("prompt", "stop"):
            self._amend(happened, where, at, self._sitting(happened, keeper))
        elif happened.kind == "summary":
            self._keep_summary(happened, where, at, keeper)
        elif happened.kind in ("failure", "compact", "end"):
            if happened.transcript and happened.kind != "failure":
                self._catch_up(happened, where, keeper)
            self._close_turn(happened, self._sitting(happened, keeper))
            if happened.kind == "compact" and happened.transcript and keeper.llm:
                self._review(happened, where, keeper)

    def fetch(self) -> int:
        """Take in what lies in the spool, oldest first; how many deliveries. What cannot be read is put aside."""
        with self._fetching:
            if not self._is_mine():
                return 0
            self._count()
            return self._fetched()

    def _count(self) -> None:
        """Count what was recalled without us. Whatever is wrong with that, what was said is taken in all the same."""
        try:
            recalled.bring(os.fsencode(self._home), self._keeper.note_recalled)
        except (OSError, CofioError) as error:
            _log.warning("what was recalled without the service is not counted yet: %s", error)

    def _fetched(self) -> int:
        taken = 0
        for entry in spool.entries(self._home):
            try:
                self.keep(event(entry.client, entry.raw), entry.project, at=entry.at)
            except (TooBusy, StoreError, Unavailable):
                raise  # it stays where it is, with all that came after it
            except Exception as error:  # noqa: BLE001 - whatever is wrong with one, the others must get by
                _log.warning("%s is put aside: %s", entry.path.name, error)
                spool.set_aside(entry)
            else:
                spool.done(entry)
                taken += 1
        return taken

    def _is_aside(self, happened: Event, keeper: Keeper) -> bool:
        """Whether it happened in a subagent, or in a coding agent that cofio uses as its model.

        Codex notifies of subagents' turns too, as if they were threads like any.
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
        if self._codex_home is None or keeper.viewer is not None:  # another's threads are not in this home
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
        """Finish what was begun."""
        self._aside.shutdown(wait=True)

    # ── recall ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _recall(self, happened: Event, where: str, began: float, keeper: Keeper) -> str:
        """What is worth recalling, and new to the session; of hooks that fire twice, as where a plugin is installed
        beside hooks in the settings, the second gets nothing.
        """
        recalled = self._started if happened.kind == "start" else self._recalled
        sitting = self._sitting(happened, keeper)
        with sitting.recalling:
            briefing = recalled(happened, where, sitting)
            self._note_given(happened, briefing, began, sitting)
        return briefing.text

    def _started(self, happened: Event, where: str, sitting: _Sitting) -> Briefing:
        if happened.began in ANEW:
            sitting.keeper.forget_given(happened.client, happened.session)
            sitting.given.clear()
            sitting.exact.clear()
            sitting.since = sitting.keeper.now()
        briefing = _recalled("", happened, where, sitting)
        if briefing and not sitting.given and sitting.keeper.viewer is None:  # anybody's hook here may read it
            briefings.put(self._home, where, briefing.text)
        return briefing

    def _recalled(self, happened: Event, where: str, sitting: _Sitting) -> Briefing:
        if not transcripts.is_prompt(happened.prompt):
            return Briefing()  # the client speaks in the user's place, such as when a subagent is done
        return _recalled(happened.prompt, happened, where, sitting)

    def _note_given(self, happened: Event, briefing: Briefing, began: float, sitting: _Sitting) -> None:
        """The session was given it, unless the hook has gone by now. No reply waits for the file."""
        if briefing and happened.session and time.monotonic() - began < self._patience:
            sitting.given.update(briefing.given)
            sitting.exact.update(dict.fromkeys(briefing.exact))
            self._aside.submit(self._note, happened, dict(briefing.given), sitting.keeper)

    def _note(self, happened: Event, given: dict[int, str], keeper: Keeper) -> None:
        try:
            keeper.give(happened.client, happened.session, given)
        except CofioError as error:  # a memory may be given twice after a restart; no more is at stake
            _log.warning("what was given is not noted: %s", error.message)

    def _sitting(self, happened: Event, keeper: Keeper) -> _Sitting:
        key = (keeper.viewer, happened.client, happened.session)
        with self._lock:
            if found := self._sittings.get(key):
                self._sittings.move_to_end(key)
                return found
        given = keeper.given(happened.client, happened.session) if happened.session else {}
        with self._lock:
            sitting = self._sittings.setdefault(key, _Sitting(keeper, given))
            while len(self._sittings) > _SITTINGS:
                self._sittings.popitem(last=False)
        return sitting

    # ── capture ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _amend(self, happened: Event, where: str, at: str, sitting: _Sitting) -> None:
        asks = happened.kind == "prompt"
        turn = _turn(happened, sitting)
        messages = list(_messages(happened))
        if not messages:
            return
        about = _about(happened, where, turn, sitting.keeper.viewer)
        if not asks:  # so that the agent's echo of what it was given is not taken for news
            about["injected"] = (*sitting.keeper.texts(list(sitting.given)), *sitting.exact)
        with sitting.telling:  # hooks that fire twice at once tell of the same turn
            if asks and sitting.open_turn != turn:
                sitting.keeper.go_on(happened.client, happened.session)  # whatever is held still was broken off
            sitting.keeper.amend(messages, hold=HOLD if asks else 0.0, by=happened.client, at=at, **about)
            sitting.open_turn = turn if asks else ""

    def _close_turn(self, happened: Event, sitting: _Sitting) -> None:
        sitting.keeper.release(happened.client, happened.session)
        sitting.open_turn = ""

    def _keep_summary(self, happened: Event, where: str, at: str, keeper: Keeper) -> None:
        """Keep the summary of a compacted conversation: the model's text, which is searched and never learned from."""
        if said := sessions.without_wrappers(happened.summary):
            about = _about(happened, where, f"compact-{named_by(said)}", keeper.viewer)
            keeper.capture([{"role": "assistant", "content": said}], by=happened.client, at=at, **about)

    def _catch_up(self, happened: Event, where: str, keeper: Keeper) -> None:
        """Take in from the client's own record what no hook has told of: whole turns, prompts, answers."""
        known = keeper.turns(happened.client, happened.session)
        try:
            for turn in _turns_of(happened):
                name = known_as(turn, known)
                messages = _as_hooks_tell(turn) if name in known else turn.messages
                about = _about(happened, where, name, keeper.viewer)
                keeper.amend(messages, by=happened.client, at=turn.at, **about)
        except InvalidInput as error:  # what stands there cannot be kept
            _log.warning("the transcript is not taken in: %s", error)

    def _review(self, happened: Event, where: str, keeper: Keeper) -> None:
        """Have the language model read all that the agent is about to lose sight of, findings of its own included."""
        known = keeper.turns(happened.client, happened.session)
        purged = {base_turn(turn) for turn in keeper.purged_turns(happened.client, happened.session)}
        for turns in _parts(_turns_of(happened), known):
            about = _about(happened, where, f"{_REVIEWED}{turns[-1].turn}", keeper.viewer)
            left = [turn for turn in turns if known_as(turn, known) not in purged]
            messages = [message for turn in left for message in turn.messages]
            at = {"at": turns[0].at} if turns[0].at else {}  # what was said elsewhere meanwhile is newer
            if messages:
                keeper.submit(messages, **{**about, **at, "context": REVIEW})


def _turns_of(happened: Event) -> list[transcripts.Turn]:
    """The turns of the client's own record; none where it cannot be read."""
    path = Path(happened.transcript)
    try:
        return list(transcripts.read(path)) if path.suffix == ".jsonl" and path.is_file() else []
    except (InvalidInput, OSError) as error:  # gone meanwhile, not ours to read, or no text
        _log.warning("the transcript is not read: %s", error)
        return []


def _parts(turns: Sequence[transcripts.Turn], known: Set[str]) -> Iterator[list[transcripts.Turn]]:
    """Yield the turns that no review has read yet, in parts of one day that a language model can read at once."""
    reviewed = [place for place, turn in enumerate(turns, 1) if f"{_REVIEWED}{turn.turn}" in known]
    part: list[transcripts.Turn] = []
    for turn in turns[max(reviewed, default=0) :]:
        if part and (_length([*part, turn]) > _REVIEW or turn.at[:10] != part[0].at[:10]):
            yield part
            part = []
        part.append(turn)
    if part:
        yield part


def _length(turns: Sequence[transcripts.Turn]) -> int:
    return sum(len(str(message["content"])) for turn in turns for message in turn.messages)


def _recalled(prompt: str, happened: Event, where: str, sitting: _Sitting) -> Briefing:
    """Return what the session is to be given, without what it has been given and what was learned from it."""
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


def _turn(happened: Event, sitting: _Sitting) -> str:
    """The turn's name. Where the client gives it none: that of the prompt it answers, else one made of the words."""
    if happened.turn:
        return happened.turn
    if happened.prompt:
        return named_by(happened.prompt)
    return sitting.open_turn or named_by(happened.reply)


def known_as(turn: transcripts.Turn, known: set[str]) -> str:
    """The name under which a hook has told of the turn, if one has; else its own."""
    prompt = next((each["content"] for each in turn.messages if each["role"] == "user"), "")
    by_words = named_by(prompt) if isinstance(prompt, str) else ""
    return by_words if by_words in known else turn.turn


def _as_hooks_tell(turn: transcripts.Turn) -> list[dict[str, Any]]:
    """What hooks would have told of a turn: all but what the agent said on its way to the answer."""
    answers = [place for place, each in enumerate(turn.messages) if each["role"] == "assistant"]
    return [each for place, each in enumerate(turn.messages) if each["role"] != "assistant" or place == answers[-1]]


def named_by(words: str) -> str:
    return "w" + hashlib.blake2b(" ".join(words.split()).encode("utf-8", "replace"), digest_size=10).hexdigest()
