"""Runner of all measurements, which writes their reports into docs/results, its index, the README and docs/index.md.

python scripts/results.py [DATA]                    # every measure; DATA is the folder with the development data
python scripts/results.py DATA --only retrieval turns
python scripts/results.py DATA --skip scale local-model
python scripts/results.py --index                   # no measure: only update the index, the README and docs/index.md

A measure that fails or exceeds its time limit does not stop the others. The index is made from the existing JSON files;
a measure without one is listed as not measured.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cofio_eval.metrics import Figure
from cofio_eval.report import Column

ROOT = Path(__file__).resolve().parents[1]
FOLDER = Path("docs") / "results"
START, END = "<!-- results: made by scripts/results.py (make results) -->", "<!-- end of results -->"
OTHERS = ("mem0", "mcp-memory-service, hybrid", "txtai, hybrid", "chromadb")
PLAIN = "plain FTS5 and NumPy"
TEST_AUTHORS = ("t", "u")  # of evals/data: never used for training or tuning
Unit = Literal["", "%", "±%", "ms", "s", "MB"]


@dataclass(frozen=True, slots=True)
class Headline:
    """Main figure of a measure: its label, its place in the JSON, and the figures to compare it with.

    A place is a path of names: "ways/cofio/recall_at_10"; "name=cofio" selects the list item with this value,
    "name=cofio&size=10" the one with both. The value is a number, or one with its interval ({"value", "low", "high"}),
    unless the interval is at the place `within`.
    """

    says: str
    at: str
    unit: Unit = "%"
    within: str = ""
    beside: tuple[tuple[str, str], ...] = ()  # label and place of each; "" for one without a figure
    digits: int = 1
    first: bool = False  # also in the README


@dataclass(frozen=True, slots=True)
class Measure:
    """Report with its command, its time limit, and its texts in the lists."""

    name: str
    title: str
    says: str
    module: str
    minutes: int
    data: tuple[str, ...] = ()
    headlines: tuple[Headline, ...] = ()
    options: tuple[str, ...] = ()

    def command(self, data: Path, folder: Path) -> list[str]:
        files = [str(data / each) for each in self.data]
        return [sys.executable, "-m", self.module, *self.options, *files, "--write", str(folder)]


MEASURES = (
    Measure(
        "retrieval",
        "Retrieval",
        "share of the evidence for a question that search finds",
        "evals.retrieval",
        30,
        ("retrieval/locomo-dev.jsonl",),
        (
            Headline(
                "recall@10: evidence for a question among ten hits",
                "r@10",
                within="intervals/r@10",
                beside=(
                    ("without re-ranking", "modes/without re-ranking/r@10"),
                    ("keywords only (BM25)", "modes/words alone/r@10"),
                    ("vectors only", "modes/vectors alone/r@10"),
                ),
                first=True,
            ),
            Headline("search latency, embedding included (p50)", "p50_ms", "ms"),
            Headline(
                "prompts without an answer for which recall injects something", "abstention/foreign/given_anything"
            ),
        ),
    ),
    Measure(
        "turns",
        "Turns",
        "decisions about single hand-labelled turns",
        "evals.turns",
        15,
        (),
        (
            Headline(
                "store, update or skip of test turns (macro-F1)",
                "by_split/test/pipeline/macro_f1",
                beside=(("of development turns", "by_split/dev/pipeline/macro_f1"),),
                first=True,
            ),
        ),
    ),
    Measure(
        "spans",
        "Facts in turns",
        "facts kept from single turns, held-out authors",
        "cofio",
        15,
        (),
        (
            Headline("facts kept from turns, held-out authors", "facts_found", first=True),
            Headline("turns without a fact from which something is kept", "noise_kept"),
        ),
        ("eval", "turns", *(f"evals/data/turns/{author}.jsonl" for author in TEST_AUTHORS)),
    ),
    Measure(
        "pairs",
        "Pairs",
        "relation of a statement to a memory (add, same, update, delete), held-out authors",
        "cofio",
        15,
        (),
        (
            Headline(
                "updates and deletions found, held-out authors",
                "changes_found",
                beside=(
                    ("false overwrites", "false_overwrites"),
                    ("overwrites of unrelated memories", "unrelated_overwrites"),
                ),
                first=True,
            ),
        ),
        ("eval", "pairs", *(f"evals/data/pairs/{author}.jsonl" for author in TEST_AUTHORS)),
    ),
    Measure(
        "relevance",
        "Relevance",
        "relevance of memories to a prompt, held-out authors",
        "cofio",
        15,
        (),
        (
            Headline(
                "needed memories above the threshold, held-out authors",
                "needed_injected",
                beside=(("prompts that need no memory and get one", "idle_injected"),),
            ),
        ),
        ("eval", "relevance", *(f"evals/data/relevance/{author}.jsonl" for author in TEST_AUTHORS)),
    ),
    Measure(
        "streams",
        "Streams",
        "whole conversations, learned and then queried, held-out authors",
        "cofio",
        30,
        (),
        (
            Headline("durable facts of a conversation that are stored", "durable facts stored/share", first=True),
            Headline(
                "updates after which the new value is stored and the old one archived",
                "updates right, old value known/share",
                beside=(("new facts that overwrote another", "new facts that overwrote another/share"),),
            ),
        ),
        ("eval", "streams", "evals/data/streams/test"),
    ),
    Measure(
        "devmem",
        "DevMemBench",
        "questions about coding sessions, evidence among ten hits",
        "evals.devmem",
        15,
        ("outside",),
        (
            Headline(
                "evidence in one of ten hits, facts only",
                "facts/one_hit",
                beside=(("facts and episodes", "facts and episodes/one_hit"), ("evidence in a single message", "said")),
            ),
        ),
    ),
    Measure(
        "decisions",
        "Decisions",
        "add, update, delete or noop for a fact, given the known memories",
        "evals.decisions",
        45,
        ("pairs/sick-train.jsonl", "pairs/beam-updates-dev.jsonl"),
        (
            Headline(
                "decision about a message that changes an earlier one (macro-F1)",
                "sets/beam-updates-dev-as-facts/rules/macro_f1",
            ),
            Headline(
                "duplicates found at the threshold where 5 % of contradictions count as duplicates",
                "duplicates/sick-train/recall_at_5_leak/cofio",
                beside=(("cosine only", "duplicates/sick-train/recall_at_5_leak/cosine"),),
            ),
        ),
        ("--sample", "1000"),
    ),
    Measure(
        "peers",
        "Peers",
        "the same tasks with other memory systems",
        "bench.peers",
        90,
        ("retrieval/locomo-dev.jsonl",),
        (
            Headline(
                "recall@10 on the same turns with the same embedder",
                "quality/cofio/recall_at_10",
                beside=tuple((name, f"quality/{name}/recall_at_10") for name in ("cofio, text alone", *OTHERS)),
                first=True,
            ),
            Headline(
                "search latency among 1,000 memories, vectors precomputed (p50)",
                "speed/1000/cofio/search_p50_ms",
                "ms",
                beside=tuple((name, f"speed/1000/{name}/search_p50_ms") for name in OTHERS),
            ),
        ),
    ),
    Measure(
        "scale",
        "Scale",
        "cost by size, up to a million memories",
        "bench.scale",
        180,
        (),
        tuple(
            Headline(
                f"search latency among {size:,} memories, vectors precomputed (p50)",
                f"points/store=cofio, a file&memories={size}/search_new_p50_ms",
                "ms",
                beside=((PLAIN, f"points/store={PLAIN}&memories={size}/search_new_p50_ms"),),
                first=size == 100_000,
            )
            for size in (100_000, 1_000_000)
        ),
        # results are kept: `rm -r build/scale` repeats all of them
        ("--sizes", "1000", "10000", "100000", "1000000", "--keep", "build/scale"),
    ),
    Measure(
        "hooks",
        "Hooks",
        "latency that a hook adds to a prompt",
        "bench.hooks",
        30,
        (),
        (
            Headline(
                "recall latency of a prompt, hook process included (p50)",
                "prompt_ms/idle",
                "ms",
                beside=(("an empty Python process", "bare_ms"), ("service under load", "prompt_ms/busy")),
                first=True,
            ),
        ),
    ),
    Measure(
        "local-model",
        "A local model",
        "learning with a small model on the same machine",
        "evals.local_model",
        120,
        (),
        (
            Headline(
                "turns labelled as by hand, with a small local model",
                "turns/with/label_right",
                beside=(("without a model", "turns/without/label_right"),),
            ),
        ),
    ),
)


# ── the commands ──────────────────────────────────────────────────────────────────────────────────────────────────────


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if every requested measure succeeded; else print the failed ones and return 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    names = [measure.name for measure in MEASURES]
    parser.add_argument("data", type=Path, nargs="?", default=Path("data"), help="the folder with the development data")
    parser.add_argument(
        "--only", nargs="+", choices=names, default=names, metavar="NAME", help=f"some of {', '.join(names)}"
    )
    parser.add_argument("--skip", nargs="+", choices=names, default=[], metavar="NAME", help="all but these")
    parser.add_argument("--index", action="store_true", help="measure nothing; only update the lists")
    options = parser.parse_args(arguments)
    asked = [] if options.index else [it for it in MEASURES if it.name in options.only and it.name not in options.skip]
    failed = [measure.name for measure in asked if not made(measure, options.data)]
    indexed(ROOT)
    if failed:
        say(f"Failed: {', '.join(failed)}.")
    return bool(failed)


def made(measure: Measure, data: Path) -> bool:
    """Run the measure, which writes its files; return whether it succeeded. Its output is not captured."""
    missing = [name for name in measure.data if not (data / name).exists()]
    if missing:
        say(f"{measure.name}: there is no {data / missing[0]}. Name the folder of the data: make results DATA=folder")
        return False
    command = measure.command(data.resolve(), ROOT / FOLDER)
    say(f"{measure.name}: {' '.join(command[1:])} (at most {measure.minutes} minutes)")
    started = time.monotonic()
    code = run(command, 60 * measure.minutes)
    took = f"{time.monotonic() - started:,.0f} s"
    say(f"{measure.name}: {'made' if code == 0 else 'stopped' if code is None else f'failed with {code}'} after {took}")
    return code == 0


def run(command: Sequence[str], seconds: float) -> int | None:
    """Return the exit code of the command; None if it exceeded the time and was killed with all its children."""
    with subprocess.Popen(command, cwd=ROOT, start_new_session=True) as process:
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


# ── the lists ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def indexed(root: Path) -> None:
    """Update the index of the results, and the tables in README and docs/index.md, from the existing JSON files."""
    results = read(root / FOLDER)
    write(root / FOLDER / "index.md", page(results))
    put(root / "README.md", table(results, f"{FOLDER.as_posix()}/", first=True))
    put(root / "docs" / "index.md", listed(results, f"{FOLDER.name}/"))


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the JSON results by the name of the measure."""
    paths = {measure.name: folder / f"{measure.name}.json" for measure in MEASURES}
    return {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items() if path.exists()}


def page(results: dict[str, dict[str, Any]]) -> str:
    """Return the index page."""
    absent = [measure for measure in MEASURES if measure.name not in results]
    parts = [
        "# Results",
        "Every figure is made by one command, `make results DATA=folder`, offline and with fixed seeds. Brackets"
        ' hold 95 % bootstrap intervals. Where a row does not say "held-out authors", settings were tuned on the same'
        " development data: expect other figures on your own data, and [measure them](../how-to/measure.md).",
        table(results, ""),
        *([f"## Pages\n\n{listed(results, '', index=False)}"] if results else []),
        *(["## Not measured\n\n" + "\n".join(f"- {it.title}: {it.says}" for it in absent)] if absent else []),
        *([f"## Machines\n\n{machines(results)}"] if results else []),
    ]
    return "\n\n".join(parts) + "\n"


def listed(results: dict[str, dict[str, Any]], to: str, *, index: bool = True) -> str:
    """Return a list of the existing pages."""
    first = [f"- [All results]({to}index.md): the figures in one table"] if index else []
    there = [measure for measure in MEASURES if measure.name in results]
    return "\n".join([*first, *(f"- [{it.title}]({to}{it.name}.md): {it.says}" for it in there)])


def table(results: dict[str, dict[str, Any]], to: str, *, first: bool = False) -> str:
    """Return the table of the main figures, with comparisons and machine."""
    rows = [
        f"| [{headline.says}]({to}{measure.name}.md) | {figure(results[measure.name], headline)}"
        f" | {beside(results[measure.name], headline)} | {briefly(results[measure.name])} |"
        for measure in MEASURES
        for headline in measure.headlines
        if measure.name in results and (headline.first or not first)
    ]
    if not rows:
        return "Nothing has been measured here yet."
    return "\n".join(["| measure | cofio | compared with | measured on |", "|---|---:|---:|---|", *rows])


def figure(plain: dict[str, Any], headline: Headline) -> str:
    """Return the figure with its interval and its unit; – if the JSON lacks it."""
    value, within = _at(plain, headline.at), _at(plain, headline.within) if headline.within else None
    if within and not isinstance(value, dict):
        value = {"value": value, "low": within[0], "high": within[1]}
    return _written(value, headline)


def beside(plain: dict[str, Any], headline: Headline) -> str:
    """Return the comparisons with their labels; "" if there are none."""
    told = []
    for name, at in headline.beside:
        value = _at(plain, at)
        written = "not measured" if value is None else _written(value, headline)
        told.append(f"{name} {written}" if at else name)
    return "; ".join(told)


def briefly(plain: dict[str, Any]) -> str:
    """Return a short description of version and machine."""
    about = plain.get("machine", {})
    return f"{plain.get('version', '?')}, {about.get('cpu', '?')}, {about.get('cores', '?')} cores"


def machines(results: dict[str, dict[str, Any]]) -> str:
    """Return the command and the machine of each measure."""
    lines = []
    for measure in MEASURES:
        if measure.name in results:
            plain = results[measure.name]
            about = plain.get("machine", {})
            words = f"{about.get('memory_gb', '?')} GB, {about.get('system', '?')}, Python {about.get('python', '?')}"
            told = f"{briefly(plain)}, {words}, load {about.get('load', '?')}"
            lines.append(f"- {measure.title}: `{plain.get('command', measure.module)}`; cofio {told}")
    return "\n".join(lines)


def _written(value: Any, headline: Headline) -> str:
    column = Column("", headline.unit, headline.digits)
    unit = headline.unit.removeprefix("±")
    if isinstance(value, dict):
        number, _, within = column.written(Figure(value["value"], value["low"], value["high"])).partition(" ")
        return f"{number} {unit} {within}".replace("  ", " ")
    written = column.written(value)
    return f"{written} {unit}".strip() if value is not None else written


def _at(plain: Any, place: str) -> Any:
    """Return the value at this place, or None."""
    for name in place.split("/"):
        if isinstance(plain, list):
            wanted = dict(each.split("=") for each in name.split("&"))
            plain = next(
                (each for each in plain if wanted.items() <= {k: str(v) for k, v in each.items()}.items()), None
            )
        else:
            plain = plain.get(name) if isinstance(plain, dict) else None
    return plain


# ── the files ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def put(path: Path, text: str) -> None:
    """Replace the text between the marks of this file."""
    before, start, rest = path.read_text(encoding="utf-8").partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise SystemExit(f"{path} has no place for the results: a line {START} and a line {END}.")
    write(path, f"{before}{START}\n\n{text}\n\n{END}{after}")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
