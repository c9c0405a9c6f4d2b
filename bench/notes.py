"""Cost of following a folder of Markdown, compared with reading all its files.

    python -m bench.notes [--files 1000] [--rounds 5] [--strict] [--json PATH]

    folder ─▶ first reading ─▶ nothing changed ─▶ one file changed ─▶ all files touched, but unchanged

Plain is the obvious way to find changes: open and read every file. Vectors are hashed words, to exclude the time of a
model. All variants run in every round, and the median round is reported; the ratios are more reliable than the times.
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
from cofio.markdown_notes.service import NotesOptions
from cofio.models.memory import to_utc_iso
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import HashEmbedder

_RESULTS = Path(__file__).parent / "results"
_SECTIONS = 4
_AGE = 3_600  # seconds since the files were written
_PARAGRAPH = "The service of {topic} listens on port {port}, and whoever changes that tells the others about it first. "
TARGETS = (
    ("a look at an unchanged folder takes at most three times as long as reading it", "unchanged_ratio", 3.0),
    ("one changed file among them costs less than half a second more", "one_changed_s", 0.5),
)


def create_folder(folder: Path, count: int) -> None:
    """Create a folder of this many files with headings, dated one hour ago."""
    folder.mkdir()
    for file_number in range(count):
        write_file(folder, file_number, "first")
    for path in folder.iterdir():
        _age(path, _AGE)


def write_file(folder: Path, number: int, word: str) -> Path:
    """Write one of the files."""
    head = f"---\ntags: [bench, topic{number % 7}]\nstatus: {word}\n---\nWhat is known of topic {number}, in short.\n"
    parts = (
        f"\n## Part {part}\n{_PARAGRAPH.format(topic=f'{word} {number}', port=number * 10 + part) * 6}\n"
        for part in range(_SECTIONS)
    )
    path = folder / f"note {number}.md"
    path.write_text(head + "".join(parts), encoding="utf-8")
    return path


def _age(path: Path, seconds: float) -> None:
    timestamp = time.time() - seconds
    os.utime(path, (timestamp, timestamp))


def run_benchmark(count: int, rounds: int) -> dict[str, Any]:
    """Return all figures, using a temporary folder and store."""
    with tempfile.TemporaryDirectory(prefix="cofio-bench-") as temporary:
        home = Path(temporary)
        vault = home / "vault"
        create_folder(vault, count)
        clock = lambda: to_utc_iso(datetime.now(UTC))  # noqa: E731
        notebook = NotesOptions(home / "notes")
        with Keeper(SqliteStore(home / "cofio.db", clock), HashEmbedder(64), clock, notes=notebook) as keeper:
            first_read = measure.time_call(lambda: keeper.notes.index(vault))
            operations: dict[str, Callable[[int], float]] = {
                "reading": lambda _: measure.time_call(lambda: [path.read_bytes() for path in vault.glob("*.md")]),
                "unchanged": lambda _: measure.time_call(lambda: keeper.notes.index(vault)),
                "one_changed": lambda round_number: _one_changed(keeper, vault, round_number),
                "touched": lambda round_number: _touched(keeper, vault, round_number),
            }
            durations: dict[str, list[float]] = {name: [] for name in operations}
            for round_number in range(rounds):
                for name, operation in operations.items():
                    durations[name].append(operation(round_number))
            memories = keeper.count()
    median = {name: statistics.median(values) for name, values in durations.items()}
    figures = {
        "files": count,
        "memories": memories,
        "first_s": first_read,
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
    path = write_file(vault, turn, f"turn {turn}")
    _age(path, _AGE / 2 - turn)
    return measure.time_call(lambda: keeper.notes.index(vault))


def _touched(keeper: Keeper, vault: Path, turn: int) -> float:
    for path in vault.iterdir():
        _age(path, _AGE / 4 - turn)
    return measure.time_call(lambda: keeper.notes.index(vault))


def missed(results: dict[str, Any]) -> list[str]:
    """Return the targets that the figures miss."""
    return [label for label, name, maximum in TARGETS if results["figures"][name] > maximum]


def show(results: dict[str, Any]) -> None:
    figures = results["figures"]
    print(f"{figures['files']:,} files, {figures['memories']:,} memories; first read in {figures['first_s']:.1f} s")
    print(f"  reading them all       {figures['reading_ms']:8.1f} ms")
    print(f"  nothing changed        {figures['unchanged_ms']:8.1f} ms   {figures['unchanged_ratio']:.2f} times that")
    print(f"  one of them changed    {figures['one_changed_ms']:8.1f} ms")
    print(f"  touched, not changed   {figures['touched_ms']:8.1f} ms   {figures['touched_ratio']:.2f} times that")
    for label, name, maximum in TARGETS:
        print(f"bar: {label}: {'cleared' if figures[name] <= maximum else 'MISSED'} ({figures[name]:.2f} of {maximum})")


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
    results = run_benchmark(options.files, options.rounds)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    show(results)
    return 1 if options.strict and missed(results) else 0


if __name__ == "__main__":
    sys.exit(main())
