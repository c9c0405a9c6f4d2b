"""How long a hook keeps an agent waiting, from process start to exit, beside a bare Python that does nothing.

    python -m bench.hooks [--size 10000] [--runs 100] [--folder FOLDER]

A client runs the launcher, as here: a shell, then `python -I -S`. Each prompt is a new one in a session of its own. The
memories belong to no project, so all of them are searched. Sides take turns, so that whatever else the machine does
hits all of them alike. What the embedder alone takes for such prompts is measured in this process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import cofio
from bench import measure
from bench.vectors import ANCHORS, Material
from cofio import embedders
from cofio.errors import CofioError
from cofio.hooks import launch, record
from cofio.model import Fact
from cofio.ports import Embedder
from cofio.settings import Settings

_BARE = [sys.executable, "-I", "-S", "-c", "pass"]
_WARMING = 20
_NOTHING = "/dev/null"
_EMBEDDING = "embedder alone, such prompts"  # new to it: it remembers the last ones


@dataclass(frozen=True, slots=True)
class Side:
    """Something that is timed: a command, and what each run of it is given."""

    label: str
    command: Sequence[str]
    given: Callable[[int], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Bar:
    """What we ask of a side."""

    label: str
    share: float
    most_ms: float


BARS = (
    Bar("prompt, service up", 0.50, 60),
    Bar("prompt, service up", 0.95, 150),
    Bar("session end, service down", 0.95, 150),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line a side, and how the bars were met; 2 when there is no model to begin with."""
    parser = argparse.ArgumentParser(
        prog="bench.hooks", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--size", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args(arguments)
    settings = Settings.load()
    embedder = embedders.make("local", home=settings.home, download=settings.model_download)
    with tempfile.TemporaryDirectory(prefix="cofio-bench-", dir=options.folder) as name:
        try:
            took = measured(Path(name), embedder, options.size, options.runs)
        except CofioError as error:
            print(f"The bench needs the local model, once: {error}", file=sys.stderr)
            return 2
    show(took, options.size)
    return 0


def measured(
    folder: Path, embedder: Embedder, size: int, runs: int, *, anchors: int = ANCHORS
) -> dict[str, list[float]]:
    """The seconds of every run, by what was run."""
    home = folder / "home"
    home.mkdir()
    material = Material.make(folder, embedder, count=size, asked=2 * runs, warming=_WARMING, anchors=anchors)
    _fill(home, material, size)
    asked, warming, _ = material.prompts()
    calling = [str(launch.write(home)), "claude-code"]
    with _serving(home):
        _in_turn([Side("", calling, partial(_prompt, warming))], _WARMING, home)
        (home / "hook.rest").unlink(missing_ok=True)
        took = _in_turn(
            [
                Side("bare python -I -S -c pass", _BARE, _end),
                Side("prompt, service up", calling, partial(_prompt, asked[:runs])),
                Side("answer, service up", calling, _answer),
            ],
            runs,
            home,
        )
    _check(home, "service", 2 * runs)
    took[_EMBEDDING] = measure.each(partial(embedder.embed, [f"{text} Again."], "query") for text in asked[:runs])
    down = [
        Side("prompt, service down", calling, partial(_prompt, asked[runs:])),
        Side("answer, service down", calling, _answer),
        Side("session end, service down", calling, _end),
    ]
    return took | _in_turn(down, runs, home)


def show(took: Mapping[str, Sequence[float]], size: int) -> None:
    """The table, and the bars."""
    machine = measure.machine()
    print(f"{machine['cpu']}, {machine['cores']} cores, load {machine['load']}, Python {machine['python']}")
    print(f"{size:,} memories")
    if machine["load"] > measure.BUSY:
        print("The machine is busy with other things: trust the ratios.")
    print(f"{'':34}{'p50 ms':>9}{'p95 ms':>9}{'× bare, p50':>13}")
    bare = measure.percentile(took["bare python -I -S -c pass"], 0.5)
    for label, seconds in took.items():
        p50, p95 = (measure.percentile(seconds, share) for share in (0.50, 0.95))
        print(f"{label:34}{1e3 * p50:>9.1f}{1e3 * p95:>9.1f}{p50 / bare:>13.1f}")
    for bar in BARS:
        value = 1e3 * measure.percentile(took[bar.label], bar.share)
        met = "met" if value <= bar.most_ms else "not met"
        print(f"{met}: {bar.label}, p{100 * bar.share:.0f} <= {bar.most_ms:g} ms ({value:.1f})")


def _prompt(asked: Sequence[str], run: int) -> dict[str, Any]:
    return _said("UserPromptSubmit", f"asks {asked[run]}", prompt=asked[run])


def _answer(run: int) -> dict[str, Any]:
    return _said("Stop", f"answers {run}", last_assistant_message="Clerk for auth, Postgres for the tests. " * 25)


def _end(run: int) -> dict[str, Any]:
    return _said("SessionEnd", f"ends {run}", reason="other")


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
    """The service on this home, as `cofio serve` runs it."""
    command = [sys.executable, "-m", "cofio", "--home", str(home), "serve", "--port", "0", "--json"]
    around = {name: value for name, value in os.environ.items() if not name.startswith("COFIO_")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**around, "COFIO_LOG_LEVEL": "error"}) as service:
        assert service.stdout
        service.stdout.readline()
        try:
            yield
        finally:
            service.terminate()


def _in_turn(sides: Sequence[Side], runs: int, home: Path) -> dict[str, list[float]]:
    took: dict[str, list[float]] = {side.label: [] for side in sides}
    for run in range(runs):
        for side in sides:
            took[side.label].append(_once(side, run, home))
    return took


def _once(side: Side, run: int, home: Path) -> float:
    """The seconds from the start of the process to its end."""
    given = home / "given.json"
    given.write_text(json.dumps(side.given(run)), encoding="utf-8")
    around = {"HOME": str(home.parent), "PATH": os.environ.get("PATH", ""), "COFIO_AUTOSTART": "off"}
    streams = [
        (os.POSIX_SPAWN_OPEN, 0, str(given), os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, _NOTHING, os.O_WRONLY, 0),
    ]
    started = time.perf_counter()
    child = os.posix_spawn(side.command[0], list(side.command), around, file_actions=streams)
    os.waitpid(child, 0)
    return time.perf_counter() - started


def _check(home: Path, rung: str, least: int) -> None:
    """See that what was timed is what we think: the hooks' own log says who answered."""
    runs = record.recent(home, least)
    strangers = {run["rung"] for run in runs} - {rung}
    if strangers:
        print(f"Not every hook was answered by the {rung}: {', '.join(sorted(strangers))}.", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
