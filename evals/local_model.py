"""A small local model behind llama.cpp's server: cofio's complete path with a model, without any account.

    python -m evals.local_model [--gguf FILE | --url URL --name MODEL] [--turns 18] [--cases 9] [--write docs/results]

An experiment that nothing depends on: `make eval-llm` downloads what it needs. Three parts, each on temporary stores:

    path       capture ─ inbox ─ worker ─ gate ─ model ─▶ facts ─ model ─▶ decisions ─▶ store ─ search, recall
    decisions  the cases of `python -m evals.decisions`: decisions of the model, compared with the rules
    turns      labelled turns that the gate passes to a model, compared with the results without one

The figures hold for the model that was used. The duration depends on the machine: two idle cores take about 40 minutes.
`--turns` and `--cases` set the number of questions, and after `--minutes` no further turn is started.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from cofio import bootstrap
from cofio.core import Keeper
from cofio.errors import CofioError, Unavailable
from cofio.ports import LLM, Embedder
from cofio.providers import embedders
from cofio.server.background.inbox_worker import InboxWorker
from cofio.settings import Settings
from cofio_eval.metrics import SEED, Figure, difference, interval
from cofio_eval.report import Cell, Column, Report, Table
from cofio_eval.statements import states_fact
from evals.decisions import measure as decisions
from evals.llama import HOME, Asked, Given, LlamaServer, Server, Watched, running, speeds
from evals.turns import labels, measure
from evals.turns.labels import LABELS, LabelledTurn
from evals.turns.measure import TurnOutcome

ROOT = Path(__file__).resolve().parents[1]
TURNS = ROOT / "evals" / "turns" / "turns.jsonl"
PAIRS = ROOT / "evals" / "data" / "pairs" / "v.jsonl"
PATIENCE = 3_600.0  # timeout of a reply in seconds: a slow machine is not a failure here
_FEW = 10  # number of turns below which no conclusion is drawn


# ── the path, end to end ──────────────────────────────────────────────────────────────────────────────────────────────

SAID = (
    "Payments retries are capped at five, because the bank blocks us after that.",
    "The session cache moved from Valkey to DragonflyDB; Valkey is gone.",
    "Payments retries are capped at three by now, because the bank blocks us sooner.",
)
THANKS = "thanks, looks good!"  # nothing to extract: the model is not called
SAID_WHILE_DOWN = "We never deploy on a Friday. The facets index moved from Solr to Typesense, Solr is gone."
_PROJECT = "/srv/shop"
ASKED = (("how many retries do payments get?", "retries"), ("where does the session cache live?", "cache"))


@dataclass(frozen=True)
class Way:
    """Result of each step of the path."""

    inbox_status: Mapping[str, Any]
    memories: tuple[str, ...]
    by_model: int  # memories extracted by the model
    found: int  # of ASKED, by search
    recalled: int  # of ASKED, injected by recall
    while_down: Mapping[str, Any] | None  # None if this process may not stop the server


def the_way(keeper: Keeper, server: Server, wait: Callable[[float], None] = time.sleep) -> Way:
    """Learn the statements through the inbox and query them; once more with the server stopped in between."""
    worker = InboxWorker(keeper)
    for turn, text in enumerate(SAID):
        _capture(keeper, text, turn)
    keeper.capture([{"role": "user", "content": THANKS}], source="shop", project=_PROJECT, client="eval", session="s1")
    _drain(keeper, worker, wait)
    found = sum(any(word in hit.text for hit in keeper.search(question, k=3)) for question, word in ASKED)
    recalled = sum(word in keeper.recall(question, project=_PROJECT).text for question, word in ASKED)
    while_down = _with_the_server_stopped(keeper, server, worker, wait) if server.ours else None
    memories = [memory for memory in keeper if not memory.archived]
    return Way(
        keeper.inbox_status().as_dict(),
        tuple(memory.text for memory in memories),
        sum(memory.method == "llm" for memory in memories),
        found,
        recalled,
        while_down,
    )


def _with_the_server_stopped(
    keeper: Keeper, server: Server, worker: InboxWorker, wait: Callable[[float], None]
) -> dict[str, Any]:
    """Return the results of a server outage: pattern facts are learned at once, the rest when the server is back."""
    server.stop()
    before = keeper.count()
    _capture(keeper, SAID_WHILE_DOWN, len(SAID))
    worker.drain()
    meanwhile = {"learned": keeper.count() - before, "pending": keeper.inbox_status().pending}
    server.start()
    _drain(keeper, worker, wait)
    return {**meanwhile, "pending_after": keeper.inbox_status().pending, "balanced": keeper.inbox_status().balanced}


def _capture(keeper: Keeper, text: str, turn: int) -> None:
    said = [{"role": "user", "content": text}]
    keeper.capture(
        said,
        source="shop",
        project=_PROJECT,
        client="eval",
        session="s1",
        turn=str(turn),
        context="pre_compact",  # always passed to the model
    )


def _drain(keeper: Keeper, worker: InboxWorker, wait: Callable[[float], None], most: int = 30) -> None:
    """Run the worker until nothing is pending; postponed items become due by themselves."""
    for _ in range(most):
        worker.drain()
        inbox_status = keeper.inbox_status()
        if inbox_status.pending == inbox_status.parked:
            return
        wait(2.0)


# ── turns and decisions ───────────────────────────────────────────────────────────────────────────────────────────────


def handed_over(turns: Sequence[LabelledTurn], settings: Settings, embedder: Embedder) -> list[LabelledTurn]:
    """Return the turns that the gate passes to a model; for the others the model makes no difference."""
    with _keeper(replace(settings, extract_provider=""), embedder) as keeper:
        return [turn for turn in turns if keeper.learn([_message(turn)], dry_run=True).missed]


def drawn(turns: Sequence[LabelledTurn], most: int) -> list[LabelledTurn]:
    """Return a fixed sample with the labels in rotation, so that an aborted run has some of each."""
    rng = random.Random(SEED)
    sorts = {label: [turn for turn in turns if turn.label == label] for label in LABELS}
    for some in sorts.values():
        rng.shuffle(some)
    chosen: list[LabelledTurn] = []
    while any(sorts.values()) and len(chosen) < most:
        chosen += [some.pop() for some in sorts.values() if some]
    return chosen[:most]


def both_ways(
    turns: Sequence[LabelledTurn], settings: Settings, embedder: Embedder, llm: LLM, until: float
) -> tuple[list[TurnOutcome], list[TurnOutcome]]:
    """Return the results of each turn without and with the model, until the time is up; at least one."""
    alone: list[TurnOutcome] = []
    asked: list[TurnOutcome] = []
    for turn in turns:
        if asked and time.monotonic() > until:
            break
        alone += measure.learn([turn], replace(settings, extract_provider=""), embedder)
        asked += measure.learn([turn], settings, embedder, llm)
    return alone, asked


def invented(outcomes: Sequence[TurnOutcome]) -> int:
    """Return the number of stored texts whose words, numbers or names are in neither the turn nor the known facts."""
    return sum(
        not states_fact(" ".join((outcome.turn.text, *outcome.turn.before)), text)
        for outcome in outcomes
        for text in outcome.stored
    )


def decided(settings: Settings, embedder: Embedder, llm: LLM, cases: int) -> dict[str, Any]:
    """Return decisions about labelled pairs without and with the model, as `python -m evals.decisions` reports them."""
    report = decisions.evaluate([PAIRS], settings, llm, sample=cases, embedder=embedder)
    return dict(report.values["sets"][PAIRS.stem])


@contextmanager
def _keeper(settings: Settings, embedder: Embedder, llm: LLM | None = None) -> Iterator[Keeper]:
    """Yield a keeper with an empty temporary store."""
    with TemporaryDirectory() as folder:
        own = replace(settings, home=Path(folder), store=f"sqlite://{folder}/eval.db")
        with bootstrap.keeper(own, embedder=embedder, llm=llm) as keeper:
            yield keeper


def _message(turn: LabelledTurn) -> dict[str, str]:
    return {"role": turn.role, "content": turn.text}


# ── the measure ───────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Wanted:
    """Amount of questions."""

    turns: int = 18
    cases: int = 9
    minutes: float = 45.0
    split: str = "test"


def evaluate(
    server: Server, weights: str, wanted: Wanted, file: Path = TURNS, *, embedder: Embedder | None = None
) -> Report:
    """Run all measurements with a running server, using the settings that a user would choose."""
    began = time.monotonic()
    flags = {
        "extract_provider": "openai",
        "extract_url": server.url,
        "extract_model": server.name,
        "extract_timeout": PATIENCE,
    }
    settings = Settings.load(flags)
    embedder = embedder or _embedder(settings)
    made = bootstrap.make_llm(settings)
    if made is None or not (health := made.health_check()):
        problem = health.problem if made else "there is none"
        raise Unavailable(f"The model cannot be used: {problem}", "Is the server up, and is the name right?")
    llm = Watched(made)
    with _keeper(settings, embedder, llm) as keeper:
        way = the_way(keeper, server)
    say(f"The way is gone: {len(llm.asked)} questions, {time.monotonic() - began:.0f} s. {way}")
    cases = decided(settings, embedder, llm, wanted.cases) if wanted.cases else {}
    say(f"The cases are decided: {len(llm.asked)} questions, {time.monotonic() - began:.0f} s.")
    half = [turn for turn in labels.read(file) if turn.split == wanted.split]
    handed = handed_over(half, settings, embedder)
    alone, asked = both_ways(drawn(handed, wanted.turns), settings, embedder, llm, until=began + 60.0 * wanted.minutes)
    seconds = time.monotonic() - began
    share = {"split": wanted.split, "turns": len(half), "handed_over": len(handed)}
    return report(Measured(weights, way, cases, alone, asked, share, llm.asked, speeds(server.url), seconds))


def _embedder(settings: Settings) -> Embedder:
    return embedders.make(
        settings.embedder,
        home=settings.home,
        url=settings.embedder_url,
        key=settings.embedder_key,
        dimension=settings.embedder_dimension or None,
        download=settings.model_download,
    )


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# ── the report ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Measured:
    weights: str
    way: Way
    cases: Mapping[str, Any]
    alone: Sequence[TurnOutcome]
    asked: Sequence[TurnOutcome]
    share: Mapping[str, Any]  # the split, and how many of its turns the gate passes on
    questions: Sequence[Asked]
    speeds: Mapping[str, float]
    seconds: float


def report(found: Measured) -> Report:
    """Return the figures, even if the model is worse than none."""
    tables = [_way_table(found.way), _memories_table(found.way)]
    tables += [_cases_table(found.cases)] if found.cases else []
    tables += [_turns_table(found), _questions_table(found)]
    return Report(
        "local-model",
        "A small model on your own machine",
        "make eval-llm",
        _SAYS,
        _values(found),
        tables,
        ends=(_verdict(found),),
    )


_SAYS = (
    "Nothing of cofio needs this. It shows that the way with a model works with no account: llama.cpp's server with a"
    " small model, set as `EXTRACT_PROVIDER=openai` and `EXTRACT_URL`. The quality is that of a model of this size, as"
    " it is; a larger one may do better. In brackets 95 % intervals, by bootstrap; with so few cases they are wide.",
)


def _values(found: Measured) -> dict[str, Any]:
    way = found.way
    return {
        "model": found.weights,
        "way": {
            "inbox": dict(way.inbox_status),
            "memories": list(way.memories),
            "by_model": way.by_model,
            "found": way.found,
            "recalled": way.recalled,
            "asked_for": len(ASKED),
            "while_down": dict(way.while_down) if way.while_down else None,
        },
        "decisions": dict(found.cases),
        "turns": {
            **found.share,
            "drawn": len(found.asked),
            "without": _of_turns(found.alone),
            "with": _of_turns(found.asked),
            "difference": {name: each.as_dict() for name, each in differences(found.alone, found.asked).items()},
            "per_turn": {each.turn.id: each.label for each in found.asked},
        },
        "questions": _of_questions(found.questions) | {"tokens_per_second": dict(found.speeds)},
        "seconds": round(found.seconds, 1),
    }


def _of_turns(outcomes: Sequence[TurnOutcome]) -> dict[str, Any]:
    return {
        "label_right": interval(_labels(outcomes)).as_dict(),
        "kept": {name: each.as_dict() for name, each in measure.kept_or_not(outcomes, _is_kept).items()},
        "facts": {name: each.as_dict() for name, each in measure.of_facts(outcomes).items()},
        "facts_stored": sum(len(outcome.stored) for outcome in outcomes),
        "invented": invented(outcomes),
        "overwrote": sum(outcome.overwrote for outcome in outcomes),
        "failed": sum(bool(outcome.failed) for outcome in outcomes),
    }


def differences(alone: Sequence[TurnOutcome], asked: Sequence[TurnOutcome]) -> dict[str, Figure]:
    """Return the differences with and without the model, turn by turn: correct labels, and share of facts found."""
    return {
        "label_right": difference(_labels(asked), _labels(alone)),
        "fact_recall": difference(_told(asked), _told(alone)),
    }


def _labels(outcomes: Sequence[TurnOutcome]) -> list[float]:
    return [float(outcome.label == outcome.turn.label) for outcome in outcomes]


def _told(outcomes: Sequence[TurnOutcome]) -> list[float]:
    """Return, by turn, the share of its facts that are stored; without facts 1 if nothing was stored."""
    return [
        sum(states_fact(" ".join(outcome.stored), fact) for fact in outcome.turn.facts) / len(outcome.turn.facts)
        if outcome.turn.facts
        else float(not outcome.stored)
        for outcome in outcomes
    ]


def _is_kept(outcome: TurnOutcome) -> bool:
    return outcome.label != "skip"


def _of_questions(asked: Sequence[Asked]) -> dict[str, Any]:
    answered = [each for each in asked if not each.failed]
    failures = sorted({each.failed for each in asked if each.failed})
    return {
        "asked": len(asked),
        "seconds_median": round(median([each.seconds for each in answered]), 2) if answered else None,
        "seconds_longest": round(max((each.seconds for each in answered), default=0.0), 2),
        "input_tokens": sum(each.usage.input_tokens for each in answered),
        "output_tokens": sum(each.usage.output_tokens for each in answered),
        "unreadable": sum(each.unreadable for each in answered),
        "cut": sum(each.cut for each in answered),
        "failed": {name: sum(each.failed == name for each in asked) for name in failures},
    }


def _way_table(way: Way) -> Table:
    inbox_status = way.inbox_status
    ends: list[list[Cell]] = [
        [f"of these {name}", inbox_status[name]] for name in ("stored", "merged", "rejected", "pending")
    ]
    rows: list[list[Cell]] = [
        ["captured", inbox_status["captured"]],
        *ends,
        ["the counts of the inbox add up", "yes" if inbox_status["balanced"] else "NO"],
        ["memories in the end", len(way.memories)],
        ["of these told by the model", way.by_model],
        [f"found by search, of {len(ASKED)} questions", way.found],
        ["put before an agent by recall", way.recalled],
    ]
    if way.while_down:
        rows += [
            ["while the server was stopped: learned by patterns", way.while_down["learned"]],
            ["and waiting for the model", way.while_down["pending"]],
            ["waiting when it was back", way.while_down["pending_after"]],
        ]
    return Table("The way, end to end", (Column("step"), Column("number")), rows)


def _memories_table(way: Way) -> Table:
    said = (*SAID, *([SAID_WHILE_DOWN] if way.while_down else []))
    rows = [[text, "said"] for text in said] + [[text, "remembered"] for text in way.memories]
    return Table("What was said, and what is remembered of it", (Column("text"), Column("")), rows)


_RATES = ("macro_f1", "lost_updates", "false_overwrites", "false_merges")


def _cases_table(cases: Mapping[str, Any]) -> Table:
    rows: list[list[Cell]] = [
        [way, cases["cases"], *(Figure(**cases[way][name]) if cases[way][name] else None for name in _RATES)]
        for way in ("rules", "model")
    ]
    less = cases["difference"]
    rows.append(
        ["model less rules", cases["cases"], *(Figure(**less[name]) if less[name] else None for name in _RATES)]
    )
    columns = [Column(name.replace("_", " ").replace("f1", "F1"), "%") for name in _RATES]
    note = f"Pairs of {PAIRS.relative_to(ROOT)}, which the judgement model was trained with: it is at its best here."
    return Table("New, known or a correction", (Column("decided by"), Column("cases"), *columns), rows, note)


def _turns_table(found: Measured) -> Table:
    rows: list[list[Cell]] = []
    for way, outcomes in (("without a model", found.alone), ("with the model", found.asked)):
        facts = measure.of_facts(outcomes)
        kept = measure.kept_or_not(outcomes, _is_kept)
        rows.append(
            [
                way,
                len(outcomes),
                interval(_labels(outcomes)),
                kept["precision"],
                kept["recall"],
                facts["precision"],
                facts["recall"],
                sum(len(outcome.stored) for outcome in outcomes),
                invented(outcomes),
            ]
        )
    columns = [Column(name, "%") for name in ("label right", "kept rightly", "kept of what should be")]
    columns += [Column("fact precision", "%"), Column("fact recall", "%"), Column("stored"), Column("invented")]
    less = differences(found.alone, found.asked)
    told = ", ".join(f"{name.replace('_', ' ')} {_points(each)}" for name, each in less.items())
    note = (
        f"Turns of the {found.share['split']} half, and only such as the gate hands to a model:"
        f" {found.share['handed_over']} of {found.share['turns']}, of which these were drawn, the labels store, skip"
        " and update in turn. Of all others a model changes nothing. Invented: what came in whose words stand in"
        " neither the turn nor what"
        f" was known. With the model less without, paired, in points: {told}."
    )
    return Table("What is learned from turns", (Column("way"), Column("turns"), *columns), rows, note)


def _points(figure: Figure) -> str:
    return f"{100 * figure.value:+.1f} [{100 * figure.low:+.1f}, {100 * figure.high:+.1f}]"


def _questions_table(found: Measured) -> Table:
    told = _of_questions(found.questions)
    speed: list[list[Cell]] = [
        [f"tokens {name} a second, by the server's count", value] for name, value in found.speeds.items()
    ]
    failed: list[list[Cell]] = [[f"failed: {name}", count] for name, count in told["failed"].items()]
    rows: list[list[Cell]] = [
        ["questions", told["asked"]],
        ["seconds, median", told["seconds_median"]],
        ["seconds, longest", told["seconds_longest"]],
        ["tokens read", told["input_tokens"]],
        ["tokens written", told["output_tokens"]],
        *speed,
        ["replies that are no JSON", told["unreadable"]],
        ["replies that were cut off", told["cut"]],
        *failed,
        ["seconds in all", round(found.seconds)],
    ]
    note = "What failed while the server was stopped is counted too, and so is asking whether it is back."
    return Table("The model at work", (Column(found.weights), Column("number")), rows, note)


def _verdict(found: Measured) -> str:
    """Return a conclusion in one sentence; a difference counts if its interval excludes zero."""
    told = differences(found.alone, found.asked)["label_right"]
    if len(found.asked) < _FEW:
        return f"{len(found.asked)} turns are too few to tell whether the model is worth it."
    if told.low > 0:
        return "On these turns the model labels more of them rightly than cofio does without one."
    if told.high < 0:
        return "On these turns the model is worse than none: use a larger one, or none."
    return "On these turns no difference between this model and none can be told: so few cases do not show it."


def fetched() -> Path | None:
    """Return the largest weights downloaded by `scripts/local_model.py`."""
    return max(HOME.glob("*.gguf"), key=lambda file: file.stat().st_size, default=None)


# ── the command ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _command(parser: argparse.ArgumentParser, given: argparse.Namespace) -> str:
    """Return the command of the report, with the options that differ from the defaults."""
    names = ("threads", "turns", "cases", "minutes", "split")
    other = [f"--{name} {getattr(given, name)}" for name in names if getattr(given, name) != parser.get_default(name)]
    return f'make eval-llm EVAL="{" ".join(other)}"' if other else "make eval-llm"


def main(arguments: Sequence[str] | None = None) -> int:
    usual = Wanted()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--gguf", type=Path, default=fetched(), help="weights; default: the downloaded ones")
    parser.add_argument("--url", default="", help="URL of a running server, as in EXTRACT_URL")
    parser.add_argument("--name", default="local", help="the server's name of its model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=usual.turns)
    parser.add_argument("--cases", type=int, default=usual.cases)
    parser.add_argument("--minutes", type=float, default=usual.minutes, help="time limit for starting turns")
    parser.add_argument("--split", choices=("dev", "test"), default=usual.split)
    parser.add_argument("--write", type=Path, metavar="FOLDER")
    given = parser.parse_args(arguments)
    if not given.url and not (given.gguf and given.gguf.exists()):
        say("There are no weights. `make eval-llm` downloads some (1.1 GB); --gguf and --url select your own.")
        return 2
    server: Server = (
        Given(given.url, given.name)
        if given.url
        else LlamaServer(HOME / "venv" / "bin" / "python", given.gguf, given.threads)
    )
    weights = given.name if given.url else given.gguf.stem
    try:
        with running(server):
            wanted = Wanted(given.turns, given.cases, given.minutes, given.split)
            told = replace(evaluate(server, weights, wanted), command=_command(parser, given))
    except CofioError as error:
        say(f"{error.message} {error.hint}")
        return 1
    print(told.text())
    for path in told.write(given.write) if given.write else ():
        print(f"Wrote {path}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
