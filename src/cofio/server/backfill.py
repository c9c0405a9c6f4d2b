"""Backfill from transcripts of Claude Code and Codex on disk, and from the notes beside them.

    client homes ─ find ─▶ files ─ survey ─▶ [Entry], oldest first ─ deliver ─▶ captures, named as by hooks
    client homes, projects ─ note_facts ─▶ [Fact], one per section of Markdown

Turns that were captured before, live or by an earlier backfill, are skipped. The progress is in the store: run a killed
backfill again to continue it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice
from math import ceil
from pathlib import Path
from typing import Any, Protocol, Unpack

from cofio.errors import InvalidInput, TooBusy, TooLarge
from cofio.hooks import project, transcripts
from cofio.hooks.transcripts import TranscriptTurn
from cofio.ingest.sanitize import redact
from cofio.markdown_notes import files as notes_files
from cofio.markdown_notes import sections
from cofio.models.exchange import MAX_SAID, CaptureStatus, ExchangeKwargs, InboxStatus, Item
from cofio.models.llm_calls import LETTERS
from cofio.models.memory import MAX_LABEL, Fact, to_utc_iso
from cofio.providers import prompts
from cofio.server.session_handler import name_from_words, source_of, turn_name
from cofio.transfer.importers import READERS
from cofio.transfer.importers.base import SkippedEntry, to_fact

CLIENTS = ("claude-code", "codex")
BATCH = 25  # captures delivered at a time; at most twice as many wait in the inbox
_BY = "backfill"
_LOOK = 0.25  # seconds between two polls of the inbox
_STALLED = 30.0  # seconds without progress after which the reason is reported
_SOON = timedelta(seconds=30)
_SETTLED = 600.0  # seconds after the last write to a transcript during which its last turn may still be running
_LISTED = 1_000  # items of the inbox that are read
_CALL_SECONDS, _LOCAL_SECONDS = 5.0, 0.2  # per call of a language model, and per turn without one
_REPLY_TOKENS = 300  # per call
_AROUND = 3_500  # maximum further characters per turn: earlier turns, related memories and markup
_FACTS, _BESIDE = 5, 5  # upper averages: facts per turn, and related memories per fact where the model decides
_FACT, _MEMORY = 500, 300  # characters of a fact and of a related memory in that prompt
_ASSISTANT = 2_000  # characters of an assistant message that the language model reads
_SHOWN = 100  # characters of a prompt
_NOTES = {"claude-code": ("CLAUDE.md", "CLAUDE.local.md", ".claude/CLAUDE.md"), "codex": ("AGENTS.md",)}
_GLOBAL = {"claude-code": ("CLAUDE.md",), "codex": ("AGENTS.md", "memories/*.md")}
_RAW = "raw_memories.md"  # what Codex has not condensed yet


class BackfillTarget(Protocol):
    """Interface shared by the keeper of a store and the client of a service."""

    def turns(self, client: str, session: str, *, any_key: bool = False) -> set[str]: ...
    def capture(
        self, messages: Any, *, wait: bool = False, by: str = "library", **about: Unpack[ExchangeKwargs]
    ) -> CaptureStatus: ...
    def inbox_status(self) -> InboxStatus: ...
    def items(self, state: Any = None, *, limit: int = 50, after: int | None = None) -> list[Item]: ...


@dataclass(frozen=True, slots=True)
class DiskTurn:
    """A turn on disk, without its text."""

    path: Path
    number: int  # of the turn within its file
    client: str
    session: str
    turn: str
    at: str
    project: str
    prompt: str  # beginning of the prompt, without secrets
    characters: int  # to send to a language model
    is_new: bool


@dataclass(frozen=True, slots=True)
class Survey:
    """All turns on disk, oldest first, and the files that could not be read."""

    entries: tuple[DiskTurn, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()

    @property
    def new(self) -> list[DiskTurn]:
        return [entry for entry in self.entries if entry.is_new]

    def within(self, *, client: str = "", project_: str = "", since: str = "", limit: int | None = None) -> Survey:
        """Return the survey of the matching turns only; `limit` keeps only that many new ones, the oldest first."""
        matches = [
            entry
            for entry in self.entries
            if (not client or entry.client == client)
            and (not project_ or project_ in (entry.project, project.name(entry.project)))
            and entry.at >= since
        ]
        if limit is not None:
            new_turns = set(islice((entry for entry in matches if entry.is_new), limit))
            matches = [entry for entry in matches if not entry.is_new or entry in new_turns]
        return Survey(tuple(matches), self.skipped)


# ── surveying files ───────────────────────────────────────────────────────────────────────────────────────────────────


def find(homes: Mapping[str, Path]) -> tuple[list[Path], list[tuple[str, str]]]:
    """Return the transcripts below the homes of clients, and compressed ones with the reason why they are skipped."""
    paths: list[Path] = []
    skipped: list[tuple[str, str]] = []
    if claude := homes.get("claude-code"):
        paths += _own_files(claude.glob("projects/*/*.jsonl"), claude)
    if codex := homes.get("codex"):
        for name in ("sessions", "archived_sessions"):
            paths += _own_files((codex / name).rglob("rollout-*.jsonl"), codex)
            skipped += [
                (str(path), "The file is compressed. Unpack it first: zstd -d FILE.")
                for path in sorted((codex / name).rglob("rollout-*.jsonl.zst"))
            ]
    return paths, skipped


def _own_files(paths: Iterable[Path], root: Path) -> list[Path]:
    """Return regular files, not links, that lie below the root once all links above them are resolved."""
    real = root.resolve()
    return sorted(
        path for path in paths if not path.is_symlink() and path.is_file() and path.resolve().is_relative_to(real)
    )


def survey(
    paths: Sequence[Path], known_turns: Callable[[str, str], set[str]], advance: Callable[[int], None] = lambda _: None
) -> Survey:
    """Read every file once. Copies of a turn in several files, such as in a forked session, count once.

    A turn is new only if none of its copies was captured. The last turn of a recently written file is left out.
    """
    get_turns = cache(known_turns)
    places: dict[tuple[str, ...], int] = {}  # of a turn's first copy in `entries`
    entries: list[DiskTurn] = []
    skipped: list[tuple[str, str]] = []
    for path in paths:
        try:
            for entry in _read_entries(path, get_turns):
                names = (entry.client, entry.session, entry.turn), (entry.client, entry.turn, entry.at, entry.prompt)
                copies = {places[name] for name in names if name in places}
                if not copies:
                    entries.append(entry)
                elif not entry.is_new:
                    for place in copies:
                        entries[place] = replace(entries[place], is_new=False)
                for name in names:
                    places.setdefault(name, min(copies, default=len(entries) - 1))
        except (InvalidInput, OSError) as error:
            skipped.append((str(path), str(error)))
        advance(1)
    return Survey(tuple(sorted(entries, key=lambda entry: entry.at)), tuple(skipped))


def _read_entries(path: Path, get_turns: Callable[[str, str], set[str]]) -> Iterator[DiskTurn]:
    modified_at = path.stat().st_mtime  # before it is read
    turns = list(_read_turns(path))
    if abs(time.time() - modified_at) < _SETTLED:
        turns = turns[:-1]
    # A missing time is that of the turn before, else of the next, else of the file.
    at = next((turn.at for turn in turns if turn.at), "") or to_utc_iso(datetime.fromtimestamp(modified_at, UTC))
    for number, turn in enumerate(turns):
        at = turn.at or at
        turns_known = get_turns(turn.client, turn.session)
        sizes = (
            min(len(str(message["content"])), _ASSISTANT if message["role"] == "assistant" else MAX_SAID)
            for message in turn.messages
            if message["role"] != "system"
        )
        yield DiskTurn(
            path=path,
            number=number,
            client=turn.client,
            session=turn.session,
            turn=turn.turn,
            at=at,
            project=_project(turn.cwd),
            prompt=" ".join(redact(_prompt(turn)).split())[:_SHOWN],
            characters=min(sum(sizes), MAX_SAID),
            is_new=turn_name(turn, turns_known) not in turns_known,
        )


def _read_turns(path: Path) -> Iterator[TranscriptTurn]:
    """Yield the turns of a transcript, each with the session and the name that it is captured under."""
    for turn in transcripts.read_transcript(path):
        if turn.client in CLIENTS:
            session = turn.session or path.stem[:MAX_LABEL]
            yield turn._replace(session=session, turn=turn.turn or name_from_words(_prompt(turn)))


def _prompt(turn: TranscriptTurn) -> str:
    return next((str(message["content"]) for message in turn.messages if message["role"] == "user"), "")


@cache
def _project(cwd: str) -> str:
    """Return the project of a working folder, named as by hooks; the folder's own name if it is not a path here."""
    if cwd and not cwd.startswith("/"):
        return cwd.replace("\\", "/").rstrip("/").rpartition("/")[2][:MAX_LABEL]
    return project.project_of(cwd)[:MAX_LABEL]


# ── notes ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def note_facts(homes: Mapping[str, Path], projects: Iterable[str]) -> Iterator[Fact | SkippedEntry]:
    """Yield the clients' own memories and the instruction files of clients and projects, one fact per section."""
    for client, home in homes.items():
        for pattern in _GLOBAL[client]:
            for page in sorted(home.glob(pattern)):
                if page.name != _RAW:
                    yield from _read_sections(page, home, "")
    if (claude := homes.get("claude-code")) and any(claude.glob("projects/*/memory/*.md")):
        for fact in READERS["claude-code"].read(claude / "projects"):
            yield fact if isinstance(fact, SkippedEntry) else _convert_fact(fact)
    for path in dict.fromkeys(folder for folder in projects if folder.startswith("/")):
        for client in homes:
            for name in _NOTES[client]:
                yield from _read_sections(Path(path) / name, Path(path), path)


def _convert_fact(fact: Fact) -> Fact:
    """Return the fact of a Claude Code memory with the project name that hooks use, and its file as the source."""
    where = _project(fact.project) if fact.project.startswith("/") else fact.project
    source = f"file:{project.name(where) or 'claude-code'}/memory/{fact.metadata.get('file', '')}"
    return replace(fact, source=source[:MAX_LABEL], project=where)


def _read_sections(page: Path, below: Path, of_project: str) -> Iterator[Fact | SkippedEntry]:
    try:
        if not _own_files([page], below) or page.stat().st_size > notes_files.BIGGEST:
            return
        text = notes_files.text_of(notes_files.content_of(page))
        at = to_utc_iso(datetime.fromtimestamp(page.stat().st_mtime, UTC))
    except (OSError, ValueError) as error:
        yield SkippedEntry(str(error), str(page))
        return
    name = page.relative_to(below).as_posix()
    for part in sections.split_sections(text, name):
        yield to_fact(
            "notes",
            f"{page}#{part.text_digest}",
            part.text,
            source=f"file:{project.name(str(below))}/{name}",
            project=of_project,
            kind=part.kind,
            category=part.category,
            entities=part.entities,
            tags=part.tags,
            context=part.context,
            created_at=part.created_at or at,
            notes={**part.to_metadata(name), "file": name},
        )


# ── estimates ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Estimated work for the new turns. Calls, input tokens and days of a language model are upper bounds."""

    provider: str = ""
    calls: int = 0
    tokens: int = 0
    seconds: int = 0
    days: int = 0  # needed because of the daily limits; 0 without limits


def estimate(entries: Sequence[DiskTurn], extraction: Mapping[str, Any], limits: tuple[int, int] = (0, 0)) -> Estimate:
    """Estimate the work, with the real prompts of the language model if one is configured."""
    if not extraction.get("enabled"):
        return Estimate(seconds=ceil(len(entries) * _LOCAL_SECONDS))
    rules = prompts.read("extract", project="this project", rules=prompts.read("extract_rules"))
    characters = len(entries) * (len(rules) + _AROUND) + sum(entry.characters for entry in entries)
    calls = len(entries)
    if extraction.get("audn") or not extraction.get("audn_known", True):  # the model decides, or may do so
        calls *= 2
        characters += len(entries) * (len(prompts.read("reconcile")) + _FACTS * (_FACT + _BESIDE * _MEMORY))
    tokens = ceil(characters / LETTERS)
    spent = tokens + calls * _REPLY_TOKENS
    days = max(ceil(calls / limits[0]) if limits[0] else 0, ceil(spent / limits[1]) if limits[1] else 0)
    seconds = ceil(calls * _CALL_SECONDS)
    return Estimate(provider=str(extraction["provider"]), calls=calls, tokens=tokens, seconds=seconds, days=days)


def count_entries(entries: Iterable[DiskTurn]) -> list[dict[str, Any]]:
    """Count files and turns by client and project, most turns first."""
    files: dict[tuple[str, str], set[Path]] = {}
    turns: Counter[tuple[str, str]] = Counter()
    new: Counter[tuple[str, str]] = Counter()
    for entry in entries:
        key = (entry.client, entry.project)
        files.setdefault(key, set()).add(entry.path)
        turns[key] += 1
        new[key] += entry.is_new
    return [
        {
            "client": client,
            "project": where,
            "files": len(files[client, where]),
            "turns": number,
            "new": new[client, where],
            "captured": number - new[client, where],
        }
        for (client, where), number in turns.most_common()
    ]


# ── delivery ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class TurnSender:
    """Delivery of turns in batches, waiting until they are processed."""

    memories: BackfillTarget
    series: int
    work: Callable[[], object]  # processes pending captures, or pauses while a service does so
    learned: Callable[[int], None] = lambda _: None  # called with the number of newly processed turns
    stalled: Callable[[str], None] = lambda _: None  # called with the reason when nothing is processed for a while
    batch: int = BATCH
    skipped: list[tuple[str, str]] = field(default_factory=list)
    new: int = 0
    waiting: int = 0  # turns that stay pending, for example until the budget resets
    _others: int = 0  # pending captures at the start, not from this delivery
    _done: int = 0
    _reason: str | None = None  # reported last

    def deliver(self, entries: Sequence[DiskTurn]) -> None:
        self._others = self._count_pending()
        last_use = {entry.path: place for place, entry in enumerate(entries)}
        turns_by_path: dict[Path, list[TranscriptTurn]] = {}
        for place, entry in enumerate(entries):
            if entry.path not in turns_by_path:
                turns_by_path[entry.path] = []
                with suppress(InvalidInput, OSError):  # removed since the survey
                    turns_by_path[entry.path] = list(_read_turns(entry.path))
            turns = turns_by_path[entry.path]
            if entry.number < len(turns) and turns[entry.number].turn == entry.turn:
                self.new += self._hand_over(entry, turns[entry.number])
            else:
                self.skipped.append((_describe_turn(entry), "The file has changed meanwhile. Run the backfill again."))
            if last_use[entry.path] == place:
                del turns_by_path[entry.path]
            if (place + 1) % self.batch == 0:
                self._wait(place + 1)

        # Wait until every capture is processed except those that are due later.
        while mine := waiting_items(self.memories):
            soon = to_utc_iso(datetime.now(UTC) + _SOON)
            if all(item.reason and item.due_at > soon for item in mine):
                break
            self._report_progress(len(entries), self._others + len(mine))
            self.work()
        self.waiting = len(mine)
        self._report_progress(len(entries), self._others + self.waiting)

    def _hand_over(self, entry: DiskTurn, turn: TranscriptTurn) -> bool:
        about: dict[str, Any] = {
            "client": entry.client,
            "session": entry.session,
            "turn": entry.turn,
            "project": entry.project,
            "source": source_of(entry.client, entry.project),
            "at": entry.at,
            "series": self.series,
        }
        while True:
            try:
                return self.memories.capture(turn.messages, by=_BY, **about).new
            except TooBusy:
                self.work()
            except (InvalidInput, TooLarge) as error:
                self.skipped.append((_describe_turn(entry), error.message))
                return False

    def _count_pending(self) -> int:
        inbox_status = self.memories.inbox_status()
        return inbox_status.pending - inbox_status.parked

    def _report_progress(self, count: int, pending: int) -> None:
        done = count - max(0, pending - self._others)
        if done > self._done:
            self.learned(done - self._done)
            self._done = done

    def _wait(self, count: int) -> None:
        """Wait until there is room for another batch."""
        least, since = 1 << 60, time.monotonic()
        while True:
            pending = self._count_pending()
            self._report_progress(count, pending)
            if pending < self._others + self.batch:
                return
            if pending < least:
                least, since = pending, time.monotonic()
            elif time.monotonic() - since > _STALLED:
                since = time.monotonic()
                reason = next((item.reason for item in waiting_items(self.memories) if item.reason), "")
                if reason != self._reason:
                    self.stalled(reason)
                    self._reason = reason
            self.work()


def _describe_turn(entry: DiskTurn) -> str:
    return f"{entry.path}: turn {entry.number + 1}"


def waiting_items(memories: BackfillTarget) -> list[Item]:
    """Return the pending captures that belong to backfills."""
    pending = memories.items("pending", limit=_LISTED)
    return [item for item in pending if item.exchange and item.exchange.series]


def pause() -> None:
    """Sleep a moment while a service processes captures."""
    time.sleep(_LOOK)
