"""Cost of following a folder of Markdown, compared with reading all its files.

    python -m bench.notes [--files 1000] [--rounds 5] [--strict] [--json PATH]

    folder ─▶ first reading ─▶ nothing changed ─▶ one file changed ─▶ all files touched, but unchanged

Plain is the obvious way to find changes: open and read every file. Vectors are hashed words, to exclude the time of a
model. All sides run in every round, and the median round is reported; the ratios are more reliable than the times.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import measure
from cofio.core import Keeper
from cofio.models.memory import to_utc_iso
from cofio.notes.service import NotesOptions
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import HashEmbedder

_RESULTS = Path(__file__).parent / "results"
_SECTIONS = 4
_LONG_AGO = 3_600  # seconds since the files were written
_SAID = "The service of {topic} listens on port {port}, and whoever changes that tells the others about it first. "
BARS = (
    ("a look at an unchanged folder takes at most three times as long as reading it", "unchanged_ratio", 3.0),
    ("one changed file among them costs less than half a second more", "one_changed_s", 0.5),
)


def written(folder: Path, number: int) -> None:
    """Create a folder of this many files with headings, dated one hour ago."""
    folder.mkdir()
    for each in range(number):
        write(folder, each, "first")
    for path in folder.iterdir():
        _age(path, _LONG_AGO)


def write(folder: Path, each: int, word: str) -> Path:
    """Write one of the files."""
    head = f"---\ntags: [bench, topic{each % 7}]\nstatus: {word}\n---\nWhat is known of topic {each}, in short.\n"
    said = (
        f"\n## Part {part}\n{_SAID.format(topic=f'{word} {each}', port=each * 10 + part) * 6}\n"
        for part in range(_SECTIONS)
    )
    path = folder / f"note {each}.md"
    path.write_text(head + "".join(said), encoding="utf-8")
    return path


def _age(path: Path, seconds: float) -> None:
    at = time.time() - seconds
    os.utime(path, (at, at))


def measured(number: int, rounds: int) -> dict[str, Any]:
    """Return all figures, using a temporary folder and store."""
    with tempfile.TemporaryDirectory(prefix="cofio-bench-") as temporary:
        home = Path(temporary)
        vault = home / "vault"
        written(vault, number)
        clock = lambda: to_utc_iso(datetime.now(UTC))  # noqa: E731
        notebook = NotesOptions(home / "notes")
        with Keeper(SqliteStore(home / "cofio.db", clock), HashEmbedder(64), clock, notes=notebook) as keeper:
            first = measure.once(lambda: keeper.notes.index(vault))
            sides: dict[str, Callable[[int], float]] = {
                "reading": lambda _: measure.once(lambda: [path.read_bytes() for path in vault.glob("*.md")]),
                "unchanged": lambda _: measure.once(lambda: keeper.notes.index(vault)),
                "one_changed": lambda turn: _one_changed(keeper, vault, turn),
                "touched": lambda turn: _touched(keeper, vault, turn),
            }
            took: dict[str, list[float]] = {name: [] for name in sides}
            for turn in range(rounds):
                for name, side in sides.items():
                    took[name].append(side(turn))
            memories = keeper.count()
    median = {name: statistics.median(each) for name, each in took.items()}
    figures = {
        "files": number,
        "memories": memories,
        "first_s": first,
        "reading_ms": 1_000 * median["reading"],
        "unchanged_ms": 1_000 * median["unchanged"],
        "unchanged_ratio": median["unchanged"] / median["reading"],
        "one_changed_ms": 1_000 * median["one_changed"],
        "one_changed_s": median["one_changed"] - median["unchanged"],
        "touched_ms": 1_000 * median["touched"],
        "touched_ratio": median["touched"] / median["reading"],
    }
    return {"machine": measure.machine(), "figures": figures}


def _one_changed(keeper: Keeper, vault: Path, turn: int) -> float:
    path = write(vault, turn, f"turn {turn}")
    _age(path, _LONG_AGO / 2 - turn)
    return measure.once(lambda: keeper.notes.index(vault))


def _touched(keeper: Keeper, vault: Path, turn: int) -> float:
    for path in vault.iterdir():
        _age(path, _LONG_AGO / 4 - turn)
    return measure.once(lambda: keeper.notes.index(vault))


def missed(results: dict[str, Any]) -> list[str]:
    """Return the targets that the figures miss."""
    return [says for says, name, most in BARS if results["figures"][name] > most]


def show(results: dict[str, Any]) -> None:
    figures = results["figures"]
    print(f"{figures['files']:,} files, {figures['memories']:,} memories; first read in {figures['first_s']:.1f} s")
    print(f"  reading them all       {figures['reading_ms']:8.1f} ms")
    print(f"  nothing changed        {figures['unchanged_ms']:8.1f} ms   {figures['unchanged_ratio']:.2f} times that")
    print(f"  one of them changed    {figures['one_changed_ms']:8.1f} ms")
    print(f"  touched, not changed   {figures['touched_ms']:8.1f} ms   {figures['touched_ratio']:.2f} times that")
    for says, name, most in BARS:
        print(f"bar: {says}: {'cleared' if figures[name] <= most else 'MISSED'} ({figures[name]:.2f} of {most})")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures; with --strict, return 1 if a target is missed."""
    parser = argparse.ArgumentParser(
        prog="bench.notes", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=1_000, help="number of files")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--strict", action="store_true", help="fail if a target is missed")
    parser.add_argument("--json", type=Path, default=_RESULTS / "notes.json")
    options = parser.parse_args(arguments)
    results = measured(options.files, options.rounds)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    show(results)
    return 1 if options.strict and missed(results) else 0


if __name__ == "__main__":
    sys.exit(main())
