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
from evals.llama import HOME, ExternalServer, LlamaServer, ModelCall, RecordingLLM, Server, measure_speeds, running
from evals.turns import labels, measure
from evals.turns.labels import LABELS, LabelledTurn
from evals.turns.measure import TurnOutcome

ROOT = Path(__file__).resolve().parents[1]
TURNS = ROOT / "evals" / "turns" / "turns.jsonl"
PAIRS = ROOT / "evals" / "data" / "pairs" / "v.jsonl"
PATIENCE = 3_600.0  # timeout of a reply in seconds: a slow machine is not a failure here
_MIN_TURNS = 10  # number of turns below which no conclusion is drawn


# ── the path, end to end ──────────────────────────────────────────────────────────────────────────────────────────────

STATEMENTS = (
    "Payments retries are capped at five, because the bank blocks us after that.",
    "The session cache moved from Valkey to DragonflyDB; Valkey is gone.",
    "Payments retries are capped at three by now, because the bank blocks us sooner.",
)
THANKS = "thanks, looks good!"  # nothing to extract: the model is not called
STATEMENT_WHILE_DOWN = "We never deploy on a Friday. The facets index moved from Solr to Typesense, Solr is gone."
_PROJECT = "/srv/shop"
PATH_QUESTIONS = (("how many retries do payments get?", "retries"), ("where does the session cache live?", "cache"))


@dataclass(frozen=True)
class PathResult:
    """Result of each step of the path."""

    inbox_status: Mapping[str, Any]
    memories: tuple[str, ...]
    by_model: int  # memories extracted by the model
    found: int  # of ASKED, by search
    recalled: int  # of ASKED, injected by recall
    while_down: Mapping[str, Any] | None  # None if this process may not stop the server


def run_path(keeper: Keeper, server: Server, wait: Callable[[float], None] = time.sleep) -> PathResult:
    """Learn the statements through the inbox and query them; once more with the server stopped in between."""
    worker = InboxWorker(keeper)
    for turn, text in enumerate(STATEMENTS):
        _capture(keeper, text, turn)
    keeper.capture([{"role": "user", "content": THANKS}], source="shop", project=_PROJECT, client="eval", session="s1")
    _drain(keeper, worker, wait)
    hits = sum(any(word in hit.text for hit in keeper.search(question, k=3)) for question, word in PATH_QUESTIONS)
    recalled = sum(word in keeper.recall(question, project=_PROJECT).text for question, word in PATH_QUESTIONS)
    while_down = _run_outage(keeper, server, worker, wait) if server.is_managed else None
    memories = [memory for memory in keeper if not memory.archived]
    return PathResult(
        keeper.inbox_status().as_dict(),
        tuple(memory.text for memory in memories),
        sum(memory.method == "llm" for memory in memories),
        hits,
        recalled,
        while_down,
    )


def _run_outage(keeper: Keeper, server: Server, worker: InboxWorker, wait: Callable[[float], None]) -> dict[str, Any]:
    """Return the results of a server outage: pattern facts are learned at once, the rest when the server is back."""
    server.stop()
    count_before = keeper.count()
    _capture(keeper, STATEMENT_WHILE_DOWN, len(STATEMENTS))
    worker.drain()
    meanwhile = {"learned": keeper.count() - count_before, "pending": keeper.inbox_status().pending}
    server.start()
    _drain(keeper, worker, wait)
    return {**meanwhile, "pending_after": keeper.inbox_status().pending, "balanced": keeper.inbox_status().balanced}


def _capture(keeper: Keeper, text: str, turn: int) -> None:
    messages = [{"role": "user", "content": text}]
    keeper.capture(
        messages,
        source="shop",
        project=_PROJECT,
        client="eval",
        session="s1",
        turn=str(turn),
        context="pre_compact",  # always passed to the model
    )


def _drain(keeper: Keeper, worker: InboxWorker, wait: Callable[[float], None], max_rounds: int = 30) -> None:
    """Run the worker until nothing is pending; postponed items become due by themselves."""
    for _ in range(max_rounds):
        worker.drain()
        inbox_status = keeper.inbox_status()
        if inbox_status.pending == inbox_status.parked:
            return
        wait(2.0)


# ── turns and decisions ───────────────────────────────────────────────────────────────────────────────────────────────


def select_for_model(turns: Sequence[LabelledTurn], settings: Settings, embedder: Embedder) -> list[LabelledTurn]:
    """Return the turns that the gate passes to a model; for the others the model makes no difference."""
    with _keeper(replace(settings, extract_provider=""), embedder) as keeper:
        return [turn for turn in turns if keeper.learn([_message(turn)], dry_run=True).missed]


def draw_sample(turns: Sequence[LabelledTurn], count: int) -> list[LabelledTurn]:
    """Return a fixed sample with the labels in rotation, so that an aborted run has some of each."""
    rng = random.Random(SEED)
    turns_by_label = {label: [turn for turn in turns if turn.label == label] for label in LABELS}
    for turns_of_label in turns_by_label.values():
        rng.shuffle(turns_of_label)
    chosen: list[LabelledTurn] = []
    while any(turns_by_label.values()) and len(chosen) < count:
        chosen += [turns_of_label.pop() for turns_of_label in turns_by_label.values() if turns_of_label]
    return chosen[:count]


def learn_both(
    turns: Sequence[LabelledTurn], settings: Settings, embedder: Embedder, llm: LLM, deadline: float
) -> tuple[list[TurnOutcome], list[TurnOutcome]]:
    """Return the results of each turn without and with the model, until the time is up; at least one."""
    without_llm: list[TurnOutcome] = []
    with_llm: list[TurnOutcome] = []
    for turn in turns:
        if with_llm and time.monotonic() > deadline:
            break
        without_llm += measure.learn([turn], replace(settings, extract_provider=""), embedder)
        with_llm += measure.learn([turn], settings, embedder, llm)
    return without_llm, with_llm


def count_invented(outcomes: Sequence[TurnOutcome]) -> int:
    """Return the number of stored texts whose words, numbers or names are in neither the turn nor the known facts."""
    return sum(
        not states_fact(" ".join((outcome.turn.text, *outcome.turn.before)), text)
        for outcome in outcomes
        for text in outcome.stored
    )


def measure_decisions(settings: Settings, embedder: Embedder, llm: LLM, cases: int) -> dict[str, Any]:
    """Return decisions about labelled pairs without and with the model, as `python -m evals.decisions` reports them."""
    report = decisions.evaluate([PAIRS], settings, llm, sample=cases, embedder=embedder)
    return dict(report.values["sets"][PAIRS.stem])


@contextmanager
def _keeper(settings: Settings, embedder: Embedder, llm: LLM | None = None) -> Iterator[Keeper]:
    """Yield a keeper with an empty temporary store."""
    with TemporaryDirectory() as folder:
        temporary = replace(settings, home=Path(folder), store=f"sqlite://{folder}/eval.db")
        with bootstrap.keeper(temporary, embedder=embedder, llm=llm) as keeper:
            yield keeper


def _message(turn: LabelledTurn) -> dict[str, str]:
    return {"role": turn.role, "content": turn.text}


# ── the measure ───────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Amount:
    """Amount of questions."""

    turns: int = 18
    cases: int = 9
    minutes: float = 45.0
    split: str = "test"


def evaluate(
    server: Server, weights: str, amount: Amount, file: Path = TURNS, *, embedder: Embedder | None = None
) -> Report:
    """Run all measurements with a running server, using the settings that a user would choose."""
    started = time.monotonic()
    flags = {
        "extract_provider": "openai",
        "extract_url": server.url,
        "extract_model": server.name,
        "extract_timeout": PATIENCE,
    }
    settings = Settings.load(flags)
    embedder = embedder or _embedder(settings)
    llm_client = bootstrap.make_llm(settings)
    if llm_client is None or not (health := llm_client.health_check()):
        problem = health.problem if llm_client else "there is none"
        raise Unavailable(f"The model cannot be used: {problem}", "Is the server up, and is the name right?")
    llm = RecordingLLM(llm_client)
    with _keeper(settings, embedder, llm) as keeper:
        path_result = run_path(keeper, server)
    print_status(f"Path measured: {len(llm.calls)} questions, {time.monotonic() - started:.0f} s. {path_result}")
    cases = measure_decisions(settings, embedder, llm, amount.cases) if amount.cases else {}
    print_status(f"Cases decided: {len(llm.calls)} questions, {time.monotonic() - started:.0f} s.")
    split_turns = [turn for turn in labels.read(file) if turn.split == amount.split]
    selected = select_for_model(split_turns, settings, embedder)
    without_llm, with_llm = learn_both(
        draw_sample(selected, amount.turns), settings, embedder, llm, deadline=started + 60.0 * amount.minutes
    )
    seconds = time.monotonic() - started
    split_counts = {"split": amount.split, "turns": len(split_turns), "handed_over": len(selected)}
    return report(
        LocalModelResults(
            weights,
            path_result,
            cases,
            without_llm,
            with_llm,
            split_counts,
            llm.calls,
            measure_speeds(server.url),
            seconds,
        )
    )


def _embedder(settings: Settings) -> Embedder:
    return embedders.make(
        settings.embedder,
        home=settings.home,
        url=settings.embedder_url,
        key=settings.embedder_key,
        dimension=settings.embedder_dimension or None,
        download=settings.model_download,
    )


def print_status(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# ── the report ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class LocalModelResults:
    weights: str
    path_result: PathResult
    cases: Mapping[str, Any]
    without_llm: Sequence[TurnOutcome]
    with_llm: Sequence[TurnOutcome]
    split_counts: Mapping[str, Any]  # the split, and how many of its turns the gate passes on
    questions: Sequence[ModelCall]
    measure_speeds: Mapping[str, float]
    seconds: float


def report(results: LocalModelResults) -> Report:
    """Return the figures, even if the model is worse than none."""
    tables = [_path_table(results.path_result), _memories_table(results.path_result)]
    tables += [_cases_table(results.cases)] if results.cases else []
    tables += [_turns_table(results), _questions_table(results)]
    return Report(
        "local-model",
        "Small local model",
        "make eval-llm",
        _INTRODUCTION,
        _values(results),
        tables,
        closing=(_verdict(results),),
    )


_INTRODUCTION = (
    "cofio does not need a language model. This page shows the path with a small local one and without an account:"
    " llama.cpp's server, set as `EXTRACT_PROVIDER=openai` and `EXTRACT_URL`. The quality is that of a model of this"
    " size; a larger one may do better. Brackets hold 95 % bootstrap intervals, which are wide with so few cases.",
)


def _values(results: LocalModelResults) -> dict[str, Any]:
    path_result = results.path_result
    return {
        "model": results.weights,
        "way": {
            "inbox": dict(path_result.inbox_status),
            "memories": list(path_result.memories),
            "by_model": path_result.by_model,
            "found": path_result.found,
            "recalled": path_result.recalled,
            "asked_for": len(PATH_QUESTIONS),
            "while_down": dict(path_result.while_down) if path_result.while_down else None,
        },
        "decisions": dict(results.cases),
        "turns": {
            **results.split_counts,
            "drawn": len(results.with_llm),
            "without": _turn_figures(results.without_llm),
            "with": _turn_figures(results.with_llm),
            "difference": {
                name: item.as_dict() for name, item in differences(results.without_llm, results.with_llm).items()
            },
            "per_turn": {item.turn.id: item.label for item in results.with_llm},
        },
        "questions": _call_figures(results.questions) | {"tokens_per_second": dict(results.measure_speeds)},
        "seconds": round(results.seconds, 1),
    }


def _turn_figures(outcomes: Sequence[TurnOutcome]) -> dict[str, Any]:
    return {
        "label_right": interval(_labels(outcomes)).as_dict(),
        "kept": {name: figure.as_dict() for name, figure in measure.measure_kept(outcomes, _is_kept).items()},
        "facts": {name: figure.as_dict() for name, figure in measure.measure_facts(outcomes).items()},
        "facts_stored": sum(len(outcome.stored) for outcome in outcomes),
        "invented": count_invented(outcomes),
        "overwrote": sum(outcome.overwrote for outcome in outcomes),
        "failed": sum(bool(outcome.failed) for outcome in outcomes),
    }


def differences(without_llm: Sequence[TurnOutcome], with_llm: Sequence[TurnOutcome]) -> dict[str, Figure]:
    """Return the differences with and without the model, turn by turn: correct labels, and share of facts found."""
    return {
        "label_right": difference(_labels(with_llm), _labels(without_llm)),
        "fact_recall": difference(_fact_recall(with_llm), _fact_recall(without_llm)),
    }


def _labels(outcomes: Sequence[TurnOutcome]) -> list[float]:
    return [float(outcome.label == outcome.turn.label) for outcome in outcomes]


def _fact_recall(outcomes: Sequence[TurnOutcome]) -> list[float]:
    """Return, by turn, the share of its facts that are stored; without facts 1 if nothing was stored."""
    return [
        sum(states_fact(" ".join(outcome.stored), fact) for fact in outcome.turn.facts) / len(outcome.turn.facts)
        if outcome.turn.facts
        else float(not outcome.stored)
        for outcome in outcomes
    ]


def _is_kept(outcome: TurnOutcome) -> bool:
    return outcome.label != "skip"


def _call_figures(calls: Sequence[ModelCall]) -> dict[str, Any]:
    completed = [call for call in calls if not call.failed]
    failures = sorted({call.failed for call in calls if call.failed})
    return {
        "asked": len(calls),
        "seconds_median": round(median([call.seconds for call in completed]), 2) if completed else None,
        "seconds_longest": round(max((call.seconds for call in completed), default=0.0), 2),
        "input_tokens": sum(call.usage.input_tokens for call in completed),
        "output_tokens": sum(call.usage.output_tokens for call in completed),
        "unreadable": sum(call.is_unreadable for call in completed),
        "cut": sum(call.is_truncated for call in completed),
        "failed": {name: sum(call.failed == name for call in calls) for name in failures},
    }


def _path_table(path_result: PathResult) -> Table:
    inbox_status = path_result.inbox_status
    inbox_rows: list[list[Cell]] = [
        [f"of these {name}", inbox_status[name]] for name in ("stored", "merged", "rejected", "pending")
    ]
    rows: list[list[Cell]] = [
        ["captured", inbox_status["captured"]],
        *inbox_rows,
        ["inbox counts add up", "yes" if inbox_status["balanced"] else "NO"],
        ["memories at the end", len(path_result.memories)],
        ["of these extracted by the model", path_result.by_model],
        [f"found by search, of {len(PATH_QUESTIONS)} questions", path_result.found],
        ["injected by recall", path_result.recalled],
    ]
    if path_result.while_down:
        rows += [
            ["during the outage: learned by patterns", path_result.while_down["learned"]],
            ["during the outage: pending", path_result.while_down["pending"]],
            ["pending after the outage", path_result.while_down["pending_after"]],
        ]
    return Table("Path from capture to recall", (Column("step"), Column("number")), rows)


def _memories_table(path_result: PathResult) -> Table:
    statements = (*STATEMENTS, *([STATEMENT_WHILE_DOWN] if path_result.while_down else []))
    rows = [[text, "captured"] for text in statements] + [[text, "stored"] for text in path_result.memories]
    return Table("Statements and stored memories", (Column("text"), Column("status")), rows)


_RATES = ("macro_f1", "lost_updates", "false_overwrites", "false_merges")


def _cases_table(cases: Mapping[str, Any]) -> Table:
    rows: list[list[Cell]] = [
        [
            method,
            cases["cases"],
            *(Figure(**cases[method][name]) if cases[method][name] else None for name in _RATES),
        ]
        for method in ("rules", "model")
    ]
    gains = cases["difference"]
    rows.append(
        [
            "difference of model and rules",
            cases["cases"],
            *(Figure(**gains[name]) if gains[name] else None for name in _RATES),
        ]
    )
    columns = [Column(name.replace("_", " ").replace("f1", "F1"), "%") for name in _RATES]
    note = f"Pairs of {PAIRS.relative_to(ROOT)}, training data of the judgement model, so its figures are optimistic."
    return Table(
        "Decisions: add, update, delete or noop", (Column("decided by"), Column("cases"), *columns), rows, note
    )


def _turns_table(results: LocalModelResults) -> Table:
    rows: list[list[Cell]] = []
    for method, outcomes in (("without a model", results.without_llm), ("with the model", results.with_llm)):
        facts = measure.measure_facts(outcomes)
        kept = measure.measure_kept(outcomes, _is_kept)
        rows.append(
            [
                method,
                len(outcomes),
                interval(_labels(outcomes)),
                kept["precision"],
                kept["recall"],
                facts["precision"],
                facts["recall"],
                sum(len(outcome.stored) for outcome in outcomes),
                count_invented(outcomes),
            ]
        )
    columns = [Column(name, "%") for name in ("label accuracy", "precision of kept turns", "recall of kept turns")]
    columns += [Column("fact precision", "%"), Column("fact recall", "%"), Column("stored"), Column("invented")]
    gains = differences(results.without_llm, results.with_llm)
    gain_text = ", ".join(f"{name.replace('_', ' ')} {_points(figure)}" for name, figure in gains.items())
    note = (
        f"Turns of the {results.split_counts['split']} half that the gate passes to a model:"
        f" {results.split_counts['handed_over']} of {results.split_counts['turns']}, sampled with the labels store,"
        " skip and update in turn. For the other turns the model makes no difference. Invented: stored texts whose"
        " words are neither in the turn nor in the known facts. Paired difference with and without the model, in"
        f" points: {gain_text}."
    )
    return Table("Learning from turns", (Column("method"), Column("turns"), *columns), rows, note)


def _points(figure: Figure) -> str:
    return f"{100 * figure.value:+.1f} [{100 * figure.low:+.1f}, {100 * figure.high:+.1f}]"


def _questions_table(results: LocalModelResults) -> Table:
    figures = _call_figures(results.questions)
    speed: list[list[Cell]] = [
        [f"tokens {name} per second, by the server's count", value] for name, value in results.measure_speeds.items()
    ]
    failed: list[list[Cell]] = [[f"failed: {name}", count] for name, count in figures["failed"].items()]
    rows: list[list[Cell]] = [
        ["calls", figures["asked"]],
        ["seconds, median", figures["seconds_median"]],
        ["seconds, longest", figures["seconds_longest"]],
        ["tokens read", figures["input_tokens"]],
        ["tokens written", figures["output_tokens"]],
        *speed,
        ["replies that are not JSON", figures["unreadable"]],
        ["truncated replies", figures["cut"]],
        *failed,
        ["seconds in total", round(results.seconds)],
    ]
    note = "Calls that failed during the outage are counted, health checks included."
    return Table("Model calls", (Column(results.weights), Column("number")), rows, note)


def _verdict(results: LocalModelResults) -> str:
    """Return a conclusion in one sentence; a difference counts if its interval excludes zero."""
    gain = differences(results.without_llm, results.with_llm)["label_right"]
    if len(results.with_llm) < _MIN_TURNS:
        return f"{len(results.with_llm)} turns are too few for a conclusion."
    if gain.low > 0:
        return "On these turns label accuracy is higher with the model."
    if gain.high < 0:
        return "On these turns label accuracy is lower with the model: use a larger one, or none."
    return "On these turns the difference in label accuracy is not significant."


def find_downloaded() -> Path | None:
    """Return the largest weights downloaded by `scripts/local_model.py`."""
    return max(HOME.glob("*.gguf"), key=lambda file: file.stat().st_size, default=None)


# ── the command ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _command(parser: argparse.ArgumentParser, options: argparse.Namespace) -> str:
    """Return the command of the report, with the options that differ from the defaults."""
    names = ("threads", "turns", "cases", "minutes", "split")
    changed = [
        f"--{name} {getattr(options, name)}" for name in names if getattr(options, name) != parser.get_default(name)
    ]
    return f'make eval-llm EVAL="{" ".join(changed)}"' if changed else "make eval-llm"


def main(arguments: Sequence[str] | None = None) -> int:
    defaults = Amount()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--gguf", type=Path, default=find_downloaded(), help="weights; default: the downloaded ones")
    parser.add_argument("--url", default="", help="URL of a running server, as in EXTRACT_URL")
    parser.add_argument("--name", default="local", help="the server's name of its model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=defaults.turns)
    parser.add_argument("--cases", type=int, default=defaults.cases)
    parser.add_argument("--minutes", type=float, default=defaults.minutes, help="time limit for starting turns")
    parser.add_argument("--split", choices=("dev", "test"), default=defaults.split)
    parser.add_argument("--write", type=Path, metavar="FOLDER")
    options = parser.parse_args(arguments)
    if not options.url and not (options.gguf and options.gguf.exists()):
        print_status("There are no weights. `make eval-llm` downloads some (1.1 GB); --gguf and --url select your own.")
        return 2
    server: Server = (
        ExternalServer(options.url, options.name)
        if options.url
        else LlamaServer(HOME / "venv" / "bin" / "python", options.gguf, options.threads)
    )
    weights = options.name if options.url else options.gguf.stem
    try:
        with running(server):
            amount = Amount(options.turns, options.cases, options.minutes, options.split)
            page = replace(evaluate(server, weights, amount), command=_command(parser, options))
    except CofioError as error:
        print_status(f"{error.message} {error.hint}")
        return 1
    print(page.text())
    for path in page.write(options.write) if options.write else ():
        print(f"Wrote {path}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
