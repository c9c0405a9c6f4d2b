"""Latency of hooks, from process start to exit: with the service idle, under load, and down.

    python -m bench.hooks [--size 10000] [--runs 100] [--callers 8] [--write FOLDER]

    a home with 10,000 memories ─ the service, the real model ─▶ hooks as they are installed, in turn ─▶ Report

A client runs a command in a shell, as here: the command that `cofio install` configures. That starts a shim, the
launcher, and then `python -I -S`. Each prompt is a new one in a session of its own. The memories belong to no project,
so all of them are searched. The commands, including a Python that does nothing, alternate, so that other load on the
machine affects all of them alike. Under load, this many callers search and capture, and one runs consolidation dry runs
(`bench.load_generator`). The answering stage is read from the hooks' own log.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import cofio
from bench import measure
from bench.vectors import ANCHORS, Material
from cofio.errors import CofioError
from cofio.hooks import launcher, run_log
from cofio.install import claude_code, codex
from cofio.models.memory import Fact
from cofio.ports import Embedder
from cofio.providers import embedders
from cofio.settings import Settings
from cofio_eval.report import Cell, Column, Report, Table
from evals import plots

BARE, TRUE = "python -I -S -c pass", "/bin/true"
PROMPT, ANSWER, START, END = "prompt: recall", "answer: capture", "session start: recall", "session end"
LIMITS = (1.0, 1.5)  # seconds that clients allow a hook at the end of a session: Codex, Claude Code
STATES = {"idle": "Service idle", "busy": "Service under load", "down": "Service down"}
_EVENTS = {START: "SessionStart", PROMPT: "UserPromptSubmit", ANSWER: "Stop", END: "SessionEnd"}
_CLIENTS = {"claude-code": claude_code.hooks_in, "codex": codex.hooks_in}
_WARMUP = 20
_NOTHING = "/dev/null"


@dataclass(frozen=True, slots=True)
class TimedCommand:
    """Timed command with the input of each run, and its client and event in the hook log."""

    label: str
    command: Sequence[str]
    make_input: Callable[[int], Mapping[str, Any]]
    client: str = ""
    event: str = ""


@dataclass(slots=True)
class Runs:
    """Runs of a command in one state of the service."""

    label: str
    client: str = ""
    seconds: list[float] = field(default_factory=list)
    codes: Counter[int] = field(default_factory=Counter)
    stages: Counter[str] = field(default_factory=Counter)

    def share_over(self, limit: float) -> float:
        return sum(duration > limit for duration in self.seconds) / len(self.seconds)

    def as_dict(self) -> dict[str, Any]:
        durations = {
            **measure.p50_p95_interval("took", self.seconds),
            "max_ms": 1e3 * max(self.seconds),
            "runs": len(self.seconds),
        }
        shares = {f"over_{limit:g}_s": self.share_over(limit) for limit in LIMITS}
        codes = {str(code): times for code, times in self.codes.items()}
        return {
            "hook": self.label,
            "client": self.client,
            **durations,
            **shares,
            "exit_codes": codes,
            "rungs": dict(self.stages),
        }


@dataclass(frozen=True, slots=True)
class Bar:
    """Target for the latency of a hook."""

    state: str
    label: str
    share: float
    max_ms: float

    def judge(self, results: HookResults) -> str:
        value = 1e3 * measure.percentile(_find_runs(results.states[self.state], self.label).seconds, self.share)
        met = "met" if value <= self.max_ms else "not met"
        return f"{met}: {self.label}, {self.state}, p{100 * self.share:.0f} <= {self.max_ms:g} ms ({value:.1f})"


TARGETS = (Bar("idle", PROMPT, 0.50, 60), Bar("idle", PROMPT, 0.95, 150), Bar("down", END, 0.95, 150))


@dataclass(frozen=True, slots=True)
class HookResults:
    """Runs of each state, with the time of the model alone and the operations of the callers."""

    size: int
    callers: int
    states: Mapping[str, Sequence[Runs]]
    embedding: Sequence[float]
    operations: Mapping[str, int]
    loads: Mapping[str, float]

    @property
    def failed(self) -> int:
        """Return the number of hooks with a non-zero exit code."""
        all_runs = [run for runs in self.states.values() for run in runs]
        return sum(times for runs in all_runs for code, times in runs.codes.items() if code)


# ── measuring ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def run_benchmark(
    folder: Path, embedder: Embedder, size: int, runs: int, *, callers: int = 8, anchors: int = ANCHORS
) -> HookResults:
    """Return the runs of every hook in every state."""
    home = folder / ".cofio"
    home.mkdir()
    material = Material.make(folder, embedder, count=size, prompts=6 * runs, warmup=_WARMUP, anchors=anchors)
    _fill_store(home, material, size)
    launcher.write(home)
    prompts, warmup, _ = material.prompts()
    new_prompts = iter(prompts)
    states: dict[str, list[Runs]] = {}
    loads: dict[str, float] = {}
    with _run_service(home):
        warmup_runs = min(_WARMUP, 3 * runs)
        _run_in_turn(
            _list_commands(iter([*warmup, *warmup]), warmup_runs)[2:4], warmup_runs, home
        )  # a start and a prompt
        (home / "hook.rest").unlink(missing_ok=True)
        loads["idle"] = os.getloadavg()[0]
        states["idle"] = _run_in_turn(_list_commands(new_prompts, runs), runs, home)
        with _under_load(home, callers) as operations:
            loads["busy"] = os.getloadavg()[0]
            states["busy"] = _run_in_turn(_list_commands(new_prompts, runs), runs, home)
        embedding = measure.time_calls(partial(embedder.embed, [f"{text} Again."], "query") for text in prompts[:runs])
    (home / "hook.rest").unlink(missing_ok=True)
    loads["down"] = os.getloadavg()[0]
    states["down"] = _run_in_turn(_list_commands(new_prompts, runs), runs, home)
    return HookResults(size, callers, states, embedding, operations, loads)


def _list_commands(prompts: Iterator[str], runs: int) -> list[TimedCommand]:
    """Return the timed commands: two that do nothing, then each client's hooks as installed."""
    commands = [
        TimedCommand(TRUE, [TRUE], _end_input),
        TimedCommand(BARE, [sys.executable, "-I", "-S", "-c", "pass"], _end_input),
    ]
    for client, list_hooks in _CLIENTS.items():
        hooks = list_hooks(launcher.SHIMS)
        inputs: dict[str, Callable[[int], Mapping[str, Any]]] = {
            PROMPT: partial(_prompt_input, [next(prompts) for _ in range(runs)]),
            START: _start_input,
            ANSWER: _answer_input,
            END: _end_input,
        }
        for label, event in _EVENTS.items():
            shell_command = ["/bin/sh", "-c", hooks[event]["command"]]
            commands.append(TimedCommand(label, shell_command, inputs[label], client, event))
    return commands


def _prompt_input(prompts: Sequence[str], run: int) -> dict[str, Any]:
    return _hook_input("UserPromptSubmit", f"asks {prompts[run]}", prompt=prompts[run])


def _start_input(run: int) -> dict[str, Any]:
    return _hook_input("SessionStart", f"starts {time.time_ns()} {run}", source="startup")


def _answer_input(run: int) -> dict[str, Any]:
    text = "Clerk for auth, Postgres for the tests. " * 25
    return _hook_input("Stop", f"answers {time.time_ns()} {run}", last_assistant_message=text, stop_hook_active=False)


def _end_input(run: int) -> dict[str, Any]:
    return _hook_input("SessionEnd", f"ends {time.time_ns()} {run}", reason="other")


def _hook_input(name: str, session: str, **fields: Any) -> dict[str, Any]:
    common = {"session_id": session, "prompt_id": session, "transcript_path": "", "cwd": "/", "hook_event_name": name}
    return {**common, **fields}


def _fill_store(home: Path, material: Material, size: int) -> None:
    with cofio.open(f"sqlite://{home / 'cofio.db'}", embedder=material.embedder(0, size), home=home) as keeper:
        for start in range(0, size, 1_000):
            facts = material.facts(start, min(size, start + 1_000))
            keeper.add_all([Fact(text=text, source=source) for source, text in facts], dedup=False)


@contextmanager
def _run_service(home: Path) -> Iterator[None]:
    """Run the service on this home, as `cofio serve` does."""
    command = [sys.executable, "-m", "cofio", "--home", str(home), "serve", "--port", "0", "--json"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COFIO_")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**environment, "COFIO_LOG_LEVEL": "error"}) as service:
        assert service.stdout
        service.stdout.readline()
        try:
            yield
        finally:
            service.terminate()


@contextmanager
def _under_load(home: Path, callers: int) -> Iterator[dict[str, int]]:
    """Keep the service busy with a process of its own; yields its counts, filled at the end."""
    url, key, *_ = (home / "hook.at").read_text(encoding="utf-8").split("\n")
    counts: dict[str, int] = {}
    command = [sys.executable, "-m", "bench.load_generator", url, key, str(callers)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1]) as process:
        assert process.stdout
        process.stdout.readline()
        try:
            yield counts
        finally:
            process.terminate()
            counts |= json.loads(process.stdout.read() or "{}")


def _run_in_turn(commands: Sequence[TimedCommand], runs: int, home: Path) -> list[Runs]:
    all_runs = [Runs(command.label, command.client) for command in commands]
    for path in home.glob("hooks.log*"):
        path.unlink()
    for run in range(runs):
        for command, runs_of_command in zip(commands, all_runs, strict=True):
            duration, code = _run_once(command, run, home)
            runs_of_command.seconds.append(duration)
            runs_of_command.codes[code] += 1
    log_counts = Counter((entry["client"], entry["event"], entry["rung"]) for entry in run_log.recent(home, 1_000_000))
    for command, runs_of_command in zip(commands, all_runs, strict=True):
        runs_of_command.stages.update(
            {stage: log_counts[command.client, command.event, stage] for stage in run_log.RUNGS}
            if command.client
            else {}
        )
    return all_runs


def _run_once(command: TimedCommand, run: int, home: Path) -> tuple[float, int]:
    """Return the seconds from process start to exit, and the exit code."""
    input_file = home / "given.json"
    input_file.write_text(json.dumps(command.make_input(run)), encoding="utf-8")
    environment = {"HOME": str(home.parent), "PATH": os.environ.get("PATH", ""), "COFIO_AUTOSTART": "off"}
    streams = [
        (os.POSIX_SPAWN_OPEN, 0, str(input_file), os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, _NOTHING, os.O_WRONLY, 0),
    ]
    started = time.perf_counter()
    child = os.posix_spawn(command.command[0], list(command.command), environment, file_actions=streams)
    _, status = os.waitpid(child, 0)
    return time.perf_counter() - started, os.waitstatus_to_exitcode(status)


# ── report ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def report(results: HookResults, command: str) -> Report:
    """Return the page: a table for each state, a curve for each, and the targets."""
    states = {name: [run.as_dict() for run in runs] for name, runs in results.states.items()}
    values = {
        "prompt_ms": {name: measure.median_interval(_prompts(runs)).as_dict() for name, runs in results.states.items()},
        "bare_ms": measure.median_interval(
            [1e3 * duration for duration in _find_runs(results.states["idle"], BARE).seconds]
        ).as_dict(),
        "memories": results.size,
        "states": states,
        "load": dict(results.loads),
        "callers": results.callers,
        "done_meanwhile": dict(results.operations),
        "embedding": measure.p50_p95_interval("took", results.embedding),
        "failed": results.failed,
        "bars": [bar.judge(results) for bar in TARGETS],
    }
    operation_counts = ", ".join(f"{count:,} {name}" for name, count in sorted(results.operations.items())) or "nothing"
    intro = [
        "Times from process start to exit, for the hooks that `cofio install` configures in Claude Code and Codex:"
        f" shell, shim, launcher, Python. {results.size:,} memories, the local model, hooks one after the other."
        " Brackets hold the 95 % bootstrap interval of the median.",
        f"Under load, {results.callers} callers search and capture turns without a pause, and one runs consolidation"
        f" dry runs. Operations during the measurement: {operation_counts}.",
        f"Every hook ended with exit code 0: {'yes' if not results.failed else f'no, {results.failed} did not'}.",
        f"Embedding one prompt takes {1e3 * measure.percentile(results.embedding, 0.5):.1f} ms (p50).",
    ]
    return Report(
        name="hooks",
        title="Hook latency",
        command=command,
        intro=intro,
        values=values,
        tables=[_table(results, name, title) for name, title in STATES.items()],
        plots={"hooks": _plot(results)},
        closing=[f"Target {bar.judge(results)}." for bar in TARGETS],
    )


def _table(results: HookResults, state: str, title: str) -> Table:
    columns = [
        Column("command"), Column("client"), Column("p50", "ms"), Column("p95", "ms"), Column("max", "ms"),
        Column("relative to bare Python, p50", digits=1), *(Column(f"over {limit:g} s", "%") for limit in LIMITS),
        Column("answered by"),
    ]  # fmt: skip
    runs = results.states[state]
    bare_p50 = measure.percentile(_find_runs(runs, BARE).seconds, 0.5)
    rows = [_row(run, bare_p50) for run in runs]
    return Table(title, columns, rows, f"Load average at the start: {results.loads[state]:.1f}.")


def _find_runs(runs: Sequence[Runs], label: str) -> Runs:
    """Return the first runs with this label: of the hooks, those of Claude Code."""
    return next(run for run in runs if run.label == label)


def _prompts(runs: Sequence[Runs]) -> list[float]:
    """Return the milliseconds of all prompt hooks of both clients."""
    return [1e3 * took for run in runs if run.label == PROMPT for took in run.seconds]


def _row(runs: Runs, bare_p50: float) -> list[Cell]:
    milliseconds = [1e3 * duration for duration in runs.seconds]
    stages = ", ".join(f"{stage} {times}" for stage, times in runs.stages.most_common() if times)
    return [
        runs.label,
        runs.client or "–",
        measure.median_interval(milliseconds),
        measure.percentile(milliseconds, 0.95),
        max(milliseconds),
        measure.percentile(runs.seconds, 0.5) / bare_p50,
        *(runs.share_over(limit) for limit in LIMITS),
        stages or "–",
    ]


def _plot(results: HookResults) -> str:
    """Return the plot of the share of runs that have ended by a time."""
    plotted = [("idle", BARE), ("idle", PROMPT), ("busy", PROMPT), ("down", PROMPT), ("busy", ANSWER), ("down", END)]
    lines = []
    for (state, label), colour in zip(plotted, plots.COLOURS, strict=False):
        seconds = sorted(_find_runs(results.states[state], label).seconds)
        ended = [(1e3 * took, (place + 1) / len(seconds)) for place, took in enumerate(seconds)]
        lines.append(plots.Curve(f"{label.partition(':')[0]}, {state}", colour, ended))
    return plots.log_linear("Hooks that have exited", "milliseconds", "share", lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report; return 2 if the model is missing, 1 if a hook had a non-zero exit code."""
    parser = argparse.ArgumentParser(
        prog="bench.hooks", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--size", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--callers", type=int, default=8)
    parser.add_argument("--folder", type=Path, help="folder for the temporary home")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write page, JSON and plot here")
    options = parser.parse_args(arguments)
    settings = Settings.load()
    embedder = embedders.make("local", home=settings.home, download=settings.model_download)
    with tempfile.TemporaryDirectory(prefix="cofio-bench-", dir=options.folder) as name:
        try:
            results = run_benchmark(Path(name), embedder, options.size, options.runs, callers=options.callers)
        except CofioError as error:
            print(f"The benchmark needs the local model: {error}", file=sys.stderr)
            return 2
    page = report(results, f"python -m bench.hooks --size {options.size} --runs {options.runs}")
    print(page.text())
    for path in page.write(options.write) if options.write else ():
        print(f"Wrote {path}.", file=sys.stderr)
    return 1 if results.failed else 0


if __name__ == "__main__":
    sys.exit(main())
