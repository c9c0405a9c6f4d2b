"""Latency of hooks, from process start to exit: with the service idle, under load, and down.

    python -m bench.hooks [--size 10000] [--runs 100] [--callers 8] [--write FOLDER]

    a home with 10,000 memories ─ the service, the real model ─▶ hooks as they are installed, in turn ─▶ Report

A client runs a command in a shell, as here: the command that `cofio install` configures. That starts a shim, the
launcher, and then `python -I -S`. Each prompt is a new one in a session of its own. The memories belong to no project,
so all of them are searched. The sides, including a Python that does nothing, alternate, so that other load on the
machine affects all of them alike. Under load, this many callers search and capture, and one runs consolidation dry runs
(`bench.pressing`). The answering stage is read from the hooks' own log.
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
PROMPT, ANSWER, START, END = "a prompt: recall", "an answer: capture", "a session starts: recall", "a session ends"
LIMITS = (1.0, 1.5)  # seconds that clients allow a hook at the end of a session: Codex, Claude Code
STATES = {"idle": "The service idle", "busy": "The service under load", "down": "The service down"}
_EVENTS = {START: "SessionStart", PROMPT: "UserPromptSubmit", ANSWER: "Stop", END: "SessionEnd"}
_CLIENTS = {"claude-code": claude_code.hooks_in, "codex": codex.hooks_in}
_WARMING = 20
_NOTHING = "/dev/null"


@dataclass(frozen=True, slots=True)
class Side:
    """Timed command with the input of each run, and its client and event in the hook log."""

    label: str
    command: Sequence[str]
    given: Callable[[int], Mapping[str, Any]]
    client: str = ""
    event: str = ""


@dataclass(slots=True)
class Runs:
    """Runs of a side in one state of the service."""

    label: str
    client: str = ""
    seconds: list[float] = field(default_factory=list)
    codes: Counter[int] = field(default_factory=Counter)
    rungs: Counter[str] = field(default_factory=Counter)

    def over(self, limit: float) -> float:
        return sum(second > limit for second in self.seconds) / len(self.seconds)

    def as_dict(self) -> dict[str, Any]:
        timed = {**measure.spread("took", self.seconds), "max_ms": 1e3 * max(self.seconds), "runs": len(self.seconds)}
        over = {f"over_{limit:g}_s": self.over(limit) for limit in LIMITS}
        codes = {str(code): times for code, times in self.codes.items()}
        return {
            "hook": self.label,
            "client": self.client,
            **timed,
            **over,
            "exit_codes": codes,
            "rungs": dict(self.rungs),
        }


@dataclass(frozen=True, slots=True)
class Bar:
    """Target for the latency of a hook."""

    state: str
    label: str
    share: float
    most_ms: float

    def told(self, found: Measured) -> str:
        value = 1e3 * measure.percentile(_of(found.states[self.state], self.label).seconds, self.share)
        met = "met" if value <= self.most_ms else "not met"
        return f"{met}: {self.label}, {self.state}, p{100 * self.share:.0f} <= {self.most_ms:g} ms ({value:.1f})"


BARS = (Bar("idle", PROMPT, 0.50, 60), Bar("idle", PROMPT, 0.95, 150), Bar("down", END, 0.95, 150))


@dataclass(frozen=True, slots=True)
class Measured:
    """Runs of each state, with the time of the model alone and the operations of the callers."""

    size: int
    callers: int
    states: Mapping[str, Sequence[Runs]]
    embedding: Sequence[float]
    pressed: Mapping[str, int]
    loads: Mapping[str, float]

    @property
    def failed(self) -> int:
        """Return the number of hooks with a non-zero exit code."""
        every = [run for runs in self.states.values() for run in runs]
        return sum(times for each in every for code, times in each.codes.items() if code)


# ── measuring ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def measured(
    folder: Path, embedder: Embedder, size: int, runs: int, *, callers: int = 8, anchors: int = ANCHORS
) -> Measured:
    """Return the runs of every hook in every state."""
    home = folder / ".cofio"
    home.mkdir()
    material = Material.make(folder, embedder, count=size, asked=6 * runs, warming=_WARMING, anchors=anchors)
    _fill(home, material, size)
    launcher.write(home)
    asked, warming, _ = material.prompts()
    prompts = iter(asked)
    states: dict[str, list[Runs]] = {}
    loads: dict[str, float] = {}
    with _serving(home):
        begun = min(_WARMING, 3 * runs)
        _in_turn(_sides(iter([*warming, *warming]), begun)[2:4], begun, home)  # a start and a prompt
        (home / "hook.rest").unlink(missing_ok=True)
        loads["idle"] = os.getloadavg()[0]
        states["idle"] = _in_turn(_sides(prompts, runs), runs, home)
        with _pressed(home, callers) as pressed:
            loads["busy"] = os.getloadavg()[0]
            states["busy"] = _in_turn(_sides(prompts, runs), runs, home)
        embedding = measure.each(partial(embedder.embed, [f"{text} Again."], "query") for text in asked[:runs])
    (home / "hook.rest").unlink(missing_ok=True)
    loads["down"] = os.getloadavg()[0]
    states["down"] = _in_turn(_sides(prompts, runs), runs, home)
    return Measured(size, callers, states, embedding, pressed, loads)


def _sides(prompts: Iterator[str], runs: int) -> list[Side]:
    """Return the timed commands: two that do nothing, then each client's hooks as installed."""
    sides = [Side(TRUE, [TRUE], _ends), Side(BARE, [sys.executable, "-I", "-S", "-c", "pass"], _ends)]
    for client, installed in _CLIENTS.items():
        hooks = installed(launcher.SHIMS)
        given: dict[str, Callable[[int], Mapping[str, Any]]] = {
            PROMPT: partial(_asks, [next(prompts) for _ in range(runs)]), START: _starts, ANSWER: _answers, END: _ends,
        }  # fmt: skip
        for label, event in _EVENTS.items():
            command = ["/bin/sh", "-c", hooks[event]["command"]]
            sides.append(Side(label, command, given[label], client, event))
    return sides


def _asks(asked: Sequence[str], run: int) -> dict[str, Any]:
    return _said("UserPromptSubmit", f"asks {asked[run]}", prompt=asked[run])


def _starts(run: int) -> dict[str, Any]:
    return _said("SessionStart", f"starts {time.time_ns()} {run}", source="startup")


def _answers(run: int) -> dict[str, Any]:
    text = "Clerk for auth, Postgres for the tests. " * 25
    return _said("Stop", f"answers {time.time_ns()} {run}", last_assistant_message=text, stop_hook_active=False)


def _ends(run: int) -> dict[str, Any]:
    return _said("SessionEnd", f"ends {time.time_ns()} {run}", reason="other")


def _said(name: str, session: str, **more: Any) -> dict[str, Any]:
    about = {"session_id": session, "prompt_id": session, "transcript_path": "", "cwd": "/", "hook_event_name": name}
    return {**about, **more}


def _fill(home: Path, material: Material, size: int) -> None:
    with cofio.open(f"sqlite://{home / 'cofio.db'}", embedder=material.embedder(0, size), home=home) as keeper:
        for start in range(0, size, 1_000):
            said = material.said(start, min(size, start + 1_000))
            keeper.add_all([Fact(text=text, source=source) for source, text in said], dedup=False)


@contextmanager
def _serving(home: Path) -> Iterator[None]:
    """Run the service on this home, as `cofio serve` does."""
    command = [sys.executable, "-m", "cofio", "--home", str(home), "serve", "--port", "0", "--json"]
    around = {name: value for name, value in os.environ.items() if not name.startswith("COFIO_")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**around, "COFIO_LOG_LEVEL": "error"}) as service:
        assert service.stdout
        service.stdout.readline()
        try:
            yield
        finally:
            service.terminate()


@contextmanager
def _pressed(home: Path, callers: int) -> Iterator[dict[str, int]]:
    """Keep the service busy with a process of its own; yields its counts, filled at the end."""
    url, key, *_ = (home / "hook.at").read_text(encoding="utf-8").split("\n")
    done: dict[str, int] = {}
    command = [sys.executable, "-m", "bench.pressing", url, key, str(callers)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1]) as process:
        assert process.stdout
        process.stdout.readline()
        try:
            yield done
        finally:
            process.terminate()
            done |= json.loads(process.stdout.read() or "{}")


def _in_turn(sides: Sequence[Side], runs: int, home: Path) -> list[Runs]:
    found = [Runs(side.label, side.client) for side in sides]
    for path in home.glob("hooks.log*"):
        path.unlink()
    for run in range(runs):
        for side, some in zip(sides, found, strict=True):
            took, code = _once(side, run, home)
            some.seconds.append(took)
            some.codes[code] += 1
    noted = Counter((each["client"], each["event"], each["rung"]) for each in run_log.recent(home, 1_000_000))
    for side, some in zip(sides, found, strict=True):
        some.rungs.update({rung: noted[side.client, side.event, rung] for rung in run_log.RUNGS} if side.client else {})
    return found


def _once(side: Side, run: int, home: Path) -> tuple[float, int]:
    """Return the seconds from process start to exit, and the exit code."""
    given = home / "given.json"
    given.write_text(json.dumps(side.given(run)), encoding="utf-8")
    around = {"HOME": str(home.parent), "PATH": os.environ.get("PATH", ""), "COFIO_AUTOSTART": "off"}
    streams = [
        (os.POSIX_SPAWN_OPEN, 0, str(given), os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, _NOTHING, os.O_WRONLY, 0),
    ]
    started = time.perf_counter()
    child = os.posix_spawn(side.command[0], list(side.command), around, file_actions=streams)
    _, status = os.waitpid(child, 0)
    return time.perf_counter() - started, os.waitstatus_to_exitcode(status)


# ── report ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def report(found: Measured, command: str) -> Report:
    """Return the page: a table for each state, a curve for each, and the targets."""
    states = {name: [run.as_dict() for run in runs] for name, runs in found.states.items()}
    values = {
        "prompt_ms": {name: measure.middle(_prompts(runs)).as_dict() for name, runs in found.states.items()},
        "bare_ms": measure.middle([1e3 * second for second in _of(found.states["idle"], BARE).seconds]).as_dict(),
        "memories": found.size,
        "states": states,
        "load": dict(found.loads),
        "callers": found.callers,
        "done_meanwhile": dict(found.pressed),
        "embedding": measure.spread("took", found.embedding),
        "failed": found.failed,
        "bars": [bar.told(found) for bar in BARS],
    }
    pressed = ", ".join(f"{count:,} {name}" for name, count in sorted(found.pressed.items())) or "nothing"
    says = [
        "From the start of the process to its end, as Claude Code and Codex run the hooks that are installed for them:"
        f" a shell, the shim, the launcher, Python. {found.size:,} memories, the real model, hooks in turn. Brackets"
        " hold the 95 % interval of the median (bootstrap).",
        f"Under load {found.callers} callers searched and handed over turns without a pause, and one looked for what"
        f" can be merged. Meanwhile was done: {pressed}.",
        f"Every hook ended with exit code 0: {'yes' if not found.failed else f'no, {found.failed} did not'}.",
        f"The model alone takes {1e3 * measure.percentile(found.embedding, 0.5):.1f} ms for such a prompt (p50).",
    ]
    return Report(
        name="hooks",
        title="How long a hook keeps an agent waiting",
        command=command,
        says=says,
        values=values,
        tables=[_table(found, name, title) for name, title in STATES.items()],
        plots={"hooks": _plot(found)},
        ends=[f"What we aim at, {bar.told(found)}." for bar in BARS],
    )


def _table(found: Measured, state: str, title: str) -> Table:
    columns = [
        Column("what"), Column("client"), Column("p50", "ms"), Column("p95", "ms"), Column("max", "ms"),
        Column("to bare Python, p50", digits=1), *(Column(f"over {limit:g} s", "%") for limit in LIMITS),
        Column("answered by"),
    ]  # fmt: skip
    runs = found.states[state]
    bare = measure.percentile(_of(runs, BARE).seconds, 0.5)
    rows = [_row(run, bare) for run in runs]
    return Table(title, columns, rows, f"Load average when it began: {found.loads[state]:.1f}.")


def _of(runs: Sequence[Runs], label: str) -> Runs:
    """Return the first runs with this label: of the hooks, those of Claude Code."""
    return next(run for run in runs if run.label == label)


def _prompts(runs: Sequence[Runs]) -> list[float]:
    """Return the milliseconds of all prompt hooks of both clients."""
    return [1e3 * took for run in runs if run.label == PROMPT for took in run.seconds]


def _row(runs: Runs, bare: float) -> list[Cell]:
    milliseconds = [1e3 * second for second in runs.seconds]
    rungs = ", ".join(f"{rung} {times}" for rung, times in runs.rungs.most_common() if times)
    return [
        runs.label,
        runs.client or "–",
        measure.middle(milliseconds),
        measure.percentile(milliseconds, 0.95),
        max(milliseconds),
        measure.percentile(runs.seconds, 0.5) / bare,
        *(runs.over(limit) for limit in LIMITS),
        rungs or "–",
    ]


def _plot(found: Measured) -> str:
    """Return the plot of the share of runs that have ended by a time."""
    chosen = [("idle", BARE), ("idle", PROMPT), ("busy", PROMPT), ("down", PROMPT), ("busy", ANSWER), ("down", END)]
    lines = []
    for (state, label), colour in zip(chosen, plots.COLOURS, strict=False):
        seconds = sorted(_of(found.states[state], label).seconds)
        ended = [(1e3 * took, (place + 1) / len(seconds)) for place, took in enumerate(seconds)]
        lines.append(plots.Curve(f"{label.partition(':')[0]}, {state}", colour, ended))
    return plots.log_linear("Hooks that have ended", "milliseconds", "share", lines)


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
            found = measured(Path(name), embedder, options.size, options.runs, callers=options.callers)
        except CofioError as error:
            print(f"The benchmark needs the local model: {error}", file=sys.stderr)
            return 2
    told = report(found, f"python -m bench.hooks --size {options.size} --runs {options.runs}")
    print(told.text())
    for path in told.write(options.write) if options.write else ():
        print(f"Wrote {path}.", file=sys.stderr)
    return 1 if found.failed else 0


if __name__ == "__main__":
    sys.exit(main())
