"""Streams: conversations over several sessions, learned turn by turn, then queried.

    stream ─ keeper.capture, exchange by exchange ─▶ stored, replaced, archived ─ questions, prompts ─▶ Report

A memory holds a fact if every group of the fact's keywords has a word in the memory's text. docs/how-to/measure.md
describes the format; `evals/data/streams` has examples.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeAlias

from cofio import bootstrap
from cofio.core import Keeper
from cofio.errors import InvalidInput, NotFound
from cofio.models.memory import Memory
from cofio.ports import Embedder
from cofio.settings import Settings
from cofio_eval.jsonl import read_json
from cofio_eval.report import Column, Report, Table

Groups: TypeAlias = Sequence[Sequence[str]]
Stream: TypeAlias = Mapping[str, Any]
Live: TypeAlias = Mapping[int, str]  # texts by memory id

#: (name of the figure, counter of the successes, counter of the cases)
FIGURES = (
    ("durable facts stored", "facts stored", "facts"),
    ("noise turns that stored something", "noise stored", "noise"),
    ("stored memories that are good", "good", "stored"),
    ("updates right, old value known", "known updates right", "known updates"),
    ("updates right, all", "updates right", "updates"),
    ("new facts that overwrote another", "overwrites", "new facts"),
    ("deletions honoured", "deletions honoured", "deletions"),
    ("question: current value first", "current first", "changed questions"),
    ("question: stale value first", "stale first", "changed questions"),
    ("question about an unchanged fact: answer among the first five", "unchanged found", "unchanged questions"),
    ("needed memory injected with the prompt", "needed injected", "needed"),
    ("needed memory at the session's start or with the prompt", "needed shown", "needed"),
    ("something injected where nothing helps", "idle injected", "idle prompts"),
)
#: Figures of each stream: (heading, counter of the successes, counter of the cases)
_OF_EACH = (
    ("facts stored", "facts stored", "facts"),
    ("noise stored", "noise stored", "noise"),
    ("updates right", "updates right", "updates"),
    ("deletions honoured", "deletions honoured", "deletions"),
    ("current first", "current first", "changed questions"),
    ("needed injected", "needed injected", "needed"),
    ("idle injected", "idle injected", "idle prompts"),
)
_HINT = "docs/how-to/measure.md has the format."
_EXCHANGE = frozenset(("id", "session", "date", "user", "assistant", "type", "facts"))


@dataclass(slots=True)
class StreamOutcome:
    """Counts over streams, and the failed cases."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def count(self, case: str, success: str, right: bool, note: str = "") -> None:
        """Count one case and its success; a note is kept as a failure."""
        self.counts[case] += 1
        self.counts[success] += right
        if note:
            self.failures.append(note)

    def share(self, success: str, case: str) -> float | None:
        """Return the successes as a share of the cases; None without cases."""
        return self.counts[success] / self.counts[case] if self.counts[case] else None


def evaluate(
    path: Path,
    settings: Settings | None = None,
    *,
    embedder: Embedder | None = None,
    failures: bool = False,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> Report:
    """Learn every stream of a file or folder, query it, and report the figures; list failures on request."""
    streams = read(path)
    settings = settings or Settings.load()
    embedder = embedder or bootstrap.make_embedder(settings)
    outcomes = []
    for number, stream in enumerate(streams, 1):
        outcomes.append(run(stream, settings, embedder))
        progress(number, len(streams))
    return _report(path, streams, outcomes, failures=failures)


def total(outcomes: Iterable[StreamOutcome]) -> StreamOutcome:
    """Return the sum of outcomes."""
    summed = StreamOutcome()
    for outcome in outcomes:
        summed.counts.update(outcome.counts)
        summed.failures += outcome.failures
    return summed


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def read(path: Path) -> list[dict[str, Any]]:
    """Return the streams of a file, or of every .json file of a folder."""
    streams = [_read_stream(file) for file in (sorted(path.glob("*.json")) if path.is_dir() else [path])]
    if not streams:
        raise NotFound(f"{path} contains no .json file.", "Name a .json file, or a folder of them.")
    return streams


def _read_stream(file: Path) -> dict[str, Any]:
    stream = read_json(file, f"Name a .json file, or a folder of them. {_HINT}")
    if problem := _find_problem(stream):
        raise InvalidInput(f"{file} is not a stream: {problem}.", _HINT)
    return {"name": file.stem, "project": file.stem, **stream}


def _find_problem(stream: Any) -> str:
    """Return the problem with the shape of a stream, or ""."""
    if not isinstance(stream, dict) or not all(
        isinstance(stream.get(name), list) for name in ("exchanges", "questions", "prompts")
    ):
        return "it needs lists of exchanges, questions and prompts"
    for place, exchange in enumerate(stream["exchanges"], 1):
        if missing := _EXCHANGE - (exchange.keys() if isinstance(exchange, dict) else set()):
            return f"exchange {place} has no {min(missing)}"
    fact_ids = {fact.get("id") for exchange in stream["exchanges"] for fact in exchange["facts"]}
    for exchange in stream["exchanges"]:
        for name in ("replaces", "deletes"):
            if exchange.get(name, None) is not None and exchange[name] not in fact_ids:
                return f"exchange {exchange['id']} {name} {exchange[name]!r}, which is not a fact"
    unknown = [fact_id for prompt in stream["prompts"] for fact_id in prompt["needed"] if fact_id not in fact_ids]
    return f"a prompt needs {unknown[0]!r}, which is not a fact" if unknown else ""


def holds(text: str, groups: Groups) -> bool:
    """Return whether a text has a keyword of every group."""
    plain = text.lower()
    return bool(groups) and all(any(word in plain for word in group) for group in groups)


# ── running ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def run(stream: Stream, settings: Settings, embedder: Embedder, *, use_llm: bool = False) -> StreamOutcome:
    """Learn a stream in a temporary store and query it; with the configured language model on request.

    The language model reads the exchanges of a session in batches, as configured.
    """
    outcome = StreamOutcome()
    with TemporaryDirectory() as folder:
        temporary = replace(settings, home=Path(folder), store=f"sqlite://{folder}/stream.db")
        temporary = temporary if use_llm else replace(temporary, extract_provider="")
        with bootstrap.keeper(temporary, embedder=embedder, reader=bootstrap.make_reader(settings)) as keeper:
            if not use_llm:
                keeper.learn("User: We use Redis.", dry_run=True)  # loads the models, so that this is not timed
            batch = temporary.llm_batch_turns if use_llm and temporary.llm_batch_seconds else 1
            _StreamRun(stream, keeper, outcome, embedder).run(batch)
            keeper.services.embeddings.build_token_embeddings()  # as the service does in the background
            _ask_questions(stream, keeper, outcome)
            _try_prompts(stream, keeper, outcome)
    return outcome


class _StreamStep(NamedTuple):
    """One exchange, with the live memories before and after it."""

    exchange: Mapping[str, Any]
    name: str
    before: Live
    after: Live

    @property
    def new(self) -> list[str]:
        return [self.after[memory_id] for memory_id in self.after.keys() - self.before.keys()]

    @property
    def removed(self) -> list[str]:
        return [self.before[memory_id] for memory_id in self.before.keys() - self.after.keys()]

    def failed(self, problem: str) -> str:
        """Return a note on a failure, with the user's message."""
        return f"{self.name}: {problem} <- {self.exchange['user']}"


class _StreamRun:
    """Learning of one stream by a keeper."""

    def __init__(self, stream: Stream, keeper: Keeper, outcome: StreamOutcome, embedder: Embedder) -> None:
        self._stream, self._keeper, self._outcome, self._embedder = stream, keeper, outcome, embedder
        self._facts: dict[str, Groups] = {}
        self._valid: set[str] = set()

    def run(self, batch: int) -> None:
        """Learn every exchange and count the results, then rate the remaining memories."""
        for exchanges in _batches(self._stream["exchanges"], batch):
            states = [self._get_live(), *self._learn(exchanges)]
            outdated = {item.get(name) for item in exchanges for name in ("replaces", "deletes")}
            for exchange, before, after in zip(exchanges, states, states[1:], strict=False):
                step = _StreamStep(exchange, f"{self._stream['name']} {exchange['id']}", before, after)
                self._count(step, {fact["id"] for fact in exchange["facts"]} & outdated)
        for text in self._get_live().values():
            good = any(holds(text, self._facts[fact_id]) for fact_id in self._valid)
            stale = not good and any(holds(text, groups) for groups in self._facts.values())
            note = "" if good else f"{self._stream['name']}: {'stale' if stale else 'junk'}: {text}"
            self._outcome.count("stored", "good", good, note)

    def _learn(self, exchanges: Sequence[Mapping[str, Any]]) -> list[Live]:
        """Learn exchanges together; return the live memories after each."""
        if len(exchanges) == 1:
            self._capture(exchanges[0], wait=True)
            return [self._get_live()]
        states: list[Live] = []
        for exchange in exchanges:
            self._capture(exchange, wait=False)
        self._keeper.on_learned(lambda _: states.append(self._get_live()))
        for batch in self._keeper.services.captures.batches(self._keeper.services.captures.claim()):
            self._keeper.services.captures.process(*batch)
        self._keeper.on_learned(lambda _: None)
        assert len(states) == len(exchanges)
        return states

    def _get_live(self) -> Live:
        memories: Sequence[Memory] = self._keeper.list(limit=500).memories
        return {memory.id: memory.text for memory in memories}

    def _capture(self, exchange: Mapping[str, Any], *, wait: bool) -> None:
        messages = [{"role": role, "content": exchange[role]} for role in ("user", "assistant") if exchange[role]]
        project = self._stream["project"]
        started = time.process_time_ns()
        self._keeper.capture(
            messages,
            wait=wait,
            session=exchange["session"],
            turn=exchange["id"],
            at=f"{exchange['date']}T10:00:00Z",
            project=project,
            source=f"claude-code/{project}",
            client="claude-code",
        )
        captured = time.process_time_ns()
        self._embedder.embed([exchange["user"]], "document")
        self._outcome.counts["capture ns"] += captured - started
        self._outcome.counts["embedding ns"] += time.process_time_ns() - captured

    def _count(self, step: _StreamStep, outdated: Set[str]) -> None:
        """Count the results of an exchange; a fact that was outdated before it could be read may be missing."""
        for fact in step.exchange["facts"]:
            self._facts[fact["id"]] = fact["keywords"]
            self._valid.add(fact["id"])
            if fact["id"] in outdated:
                continue
            stored = any(holds(text, fact["keywords"]) for text in step.after.values())
            note = "" if stored else step.failed(f"not stored: {fact['text']}, but {step.new}")
            self._outcome.count("facts", "facts stored", stored, note)
        match step.exchange["type"]:
            case "update":
                self._count_update(step)
            case "delete":
                self._count_deletion(step)
            case "noise":
                note = step.failed(f"noise: {step.new}") if step.new else ""
                self._outcome.count("noise", "noise stored", bool(step.new), note)
            case "fact" | "repeat":
                self._count_overwrites(step)

    def _count_update(self, step: _StreamStep) -> None:
        old = self._facts[step.exchange["replaces"]]
        self._valid.discard(step.exchange["replaces"])
        fresh = [fact["keywords"] for fact in step.exchange["facts"]]
        current = [text for text in step.after.values() if any(holds(text, groups) for groups in fresh)]
        stale = [text for text in step.after.values() if holds(text, old) and text not in current]
        right = bool(current) and not stale
        note = "" if right else step.failed(f"update wrong: new stored {bool(current)}, old left {stale}")
        self._outcome.count("updates", "updates right", right, note)
        if any(holds(text, old) for text in step.before.values()):
            self._outcome.count("known updates", "known updates right", right)

    def _count_deletion(self, step: _StreamStep) -> None:
        old = self._facts[step.exchange["deletes"]]
        self._valid.discard(step.exchange["deletes"])
        if not any(holds(text, old) for text in step.before.values()):
            self._outcome.counts["deletions of unknown"] += 1
            return
        remaining = [text for text in step.after.values() if holds(text, old)]
        note = step.failed(f"not deleted: {remaining}") if remaining else ""
        self._outcome.count("deletions", "deletions honoured", not remaining, note)

    def _count_overwrites(self, step: _StreamStep) -> None:
        self._outcome.counts["new facts"] += max(1, len(step.new))
        if step.removed and not (step.exchange["type"] == "repeat" and step.new):
            self._outcome.counts["overwrites"] += len(step.removed)
            self._outcome.failures.append(step.failed(f"overwrote {step.removed} by {step.new}"))


def _batches(exchanges: Sequence[Mapping[str, Any]], most: int) -> Iterator[list[Mapping[str, Any]]]:
    """Yield consecutive exchanges of one session, at most `most` at a time."""
    for _, of_session in itertools.groupby(exchanges, key=lambda exchange: exchange["session"]):
        together = list(of_session)
        for start in range(0, len(together), most):
            yield together[start : start + most]


def _ask_questions(stream: Stream, keeper: Keeper, outcome: StreamOutcome) -> None:
    for question in stream["questions"]:
        current, stale = question["current"], question["stale"]
        hits = [hit.text for hit in keeper.search(question["ask"], k=5, visible_in=stream["project"])]
        if not stale:
            outcome.count("unchanged questions", "unchanged found", any(holds(text, current) for text in hits))
            continue
        telling = [holds(text, current) for text in hits if holds(text, current) or holds(text, stale)]
        outcome.count("changed questions", "current first", bool(telling) and telling[0])
        outcome.counts["stale first"] += bool(telling) and not telling[0]


def _try_prompts(stream: Stream, keeper: Keeper, outcome: StreamOutcome) -> None:
    facts = {fact["id"]: fact for exchange in stream["exchanges"] for fact in exchange["facts"]}
    start = _list_lines(keeper.recall("", project=stream["project"]).text)
    for case in stream["prompts"]:
        lines = _list_lines(keeper.recall(case["prompt"], project=stream["project"]).text)
        name = f"{stream['name']}: {case['prompt']}"
        if not case["needed"]:
            outcome.count("idle prompts", "idle injected", bool(lines), f"{name}: idle: {lines}" if lines else "")
        for fact_id in case["needed"]:
            groups = facts[fact_id]["keywords"]
            injected = any(holds(line, groups) for line in lines)
            note = "" if injected else f"{name}: not injected: {facts[fact_id]['text']}"
            outcome.count("needed", "needed injected", injected, note)
            outcome.counts["needed shown"] += injected or any(holds(line, groups) for line in start)


def _list_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("- ")]


# ── report ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _report(path: Path, streams: Sequence[Stream], outcomes: Sequence[StreamOutcome], *, failures: bool) -> Report:
    summed = total(outcomes)
    exchanges = sum(len(stream["exchanges"]) for stream in streams)
    figures = {
        name: {"right": summed.counts[success], "cases": summed.counts[case], "share": summed.share(success, case)}
        for name, success, case in FIGURES
    }
    by_stream = {
        stream["name"]: {name: outcome.share(success, case) for name, success, case in _OF_EACH}
        for stream, outcome in zip(streams, outcomes, strict=True)
    }
    cost = {name: summed.counts[f"{name} ns"] / max(1, exchanges) / 1e6 for name in ("capture", "embedding")}
    values = {
        **figures,
        "streams": len(streams),
        "exchanges": exchanges,
        "milliseconds": cost,
        "by_stream": by_stream,
        "failures": summed.failures,
    }
    says = (
        f"{len(streams)} streams with {exchanges} exchanges, captured in order without a language model, then"
        " queried. A memory states a fact if it has a keyword of every keyword group of the fact.",
        f"A captured exchange takes {cost['capture']:.0f} ms of CPU time; embedding its first message alone takes"
        f" {cost['embedding']:.0f} ms.",
    )
    columns = {"right": Column("successes"), "cases": Column("cases"), "share": Column("share", "%")}
    tables = [
        Table.of("All streams", "figure", columns, figures),
        Table.of("By stream", "stream", {name: Column(name, "%") for name, _, _ in _OF_EACH}, by_stream),
    ]
    ends = ["Failures:\n" + "\n".join(f"- {failure}" for failure in summed.failures)] if failures else []
    command = f"cofio eval streams {path.name}"
    return Report("streams", "Whole conversations", command, says, values, tables, closing=ends)
