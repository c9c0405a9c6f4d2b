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
START_MARK, END_MARK = "<!-- results: made by scripts/results.py (make results) -->", "<!-- end of results -->"
SYSTEMS = ("mem0", "mcp-memory-service, hybrid", "txtai, hybrid", "chromadb")
BASELINE = "plain FTS5 and NumPy"
TEST_AUTHORS = ("t", "u")  # of evals/data: never used for training or tuning
Unit = Literal["", "%", "±%", "ms", "s", "MB"]


@dataclass(frozen=True, slots=True)
class Headline:
    """Main figure of a measure: its label, its path in the JSON, and the figures to compare it with.

    A path names nested values: "ways/cofio/recall_at_10"; "name=cofio" selects the list item with this value,
    "name=cofio&size=10" the one with both. The value is a number, or one with its interval ({"value", "low", "high"}),
    unless the interval is at `interval_path`.
    """

    label: str
    path: str
    unit: Unit = "%"
    interval_path: str = ""
    comparisons: tuple[tuple[str, str], ...] = ()  # labels and paths; "" for one without a figure
    digits: int = 1
    in_readme: bool = False


@dataclass(frozen=True, slots=True)
class Measure:
    """Report with its command, its time limit, and its texts in the lists."""

    name: str
    title: str
    description: str
    module: str
    minutes: int
    data: tuple[str, ...] = ()
    headlines: tuple[Headline, ...] = ()
    options: tuple[str, ...] = ()

    def command(self, data: Path, folder: Path) -> list[str]:
        files = [str(data / name) for name in self.data]
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
                interval_path="intervals/r@10",
                comparisons=(
                    ("without re-ranking", "modes/without re-ranking/r@10"),
                    ("keywords only (BM25)", "modes/keywords only/r@10"),
                    ("vectors only", "modes/vectors only/r@10"),
                ),
                in_readme=True,
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
                comparisons=(("of development turns", "by_split/dev/pipeline/macro_f1"),),
                in_readme=True,
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
            Headline("facts kept from turns, held-out authors", "facts_found", in_readme=True),
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
                comparisons=(
                    ("false overwrites", "false_overwrites"),
                    ("overwrites of unrelated memories", "unrelated_overwrites"),
                ),
                in_readme=True,
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
                comparisons=(("prompts that need no memory and get one", "idle_injected"),),
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
            Headline("durable facts of a conversation that are stored", "durable facts stored/share", in_readme=True),
            Headline(
                "updates after which the new value is stored and the old one archived",
                "updates right, old value known/share",
                comparisons=(("new facts that overwrote another", "new facts that overwrote another/share"),),
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
                comparisons=(
                    ("facts and episodes", "facts and episodes/one_hit"),
                    ("evidence in a single message", "said"),
                ),
            ),
        ),
    ),
    Measure(
        "security",
        "Poisoning and secrets",
        "other people's text and secrets in a conversation, held-out authors",
        "evals.security",
        30,
        ("turns/notinject-dev.jsonl",),
        (
            Headline(
                "facts of foreign text that are stored as the user's word",
                "all/as_own/value",
                comparisons=(
                    ("true memories that they overwrite", "all/overwritten/value"),
                    ("recalled by a later prompt", "all/recalled/value"),
                    ("the user's own facts kept", "all/facts_kept/value"),
                ),
                in_readme=True,
            ),
            Headline(
                "made-up secrets that are redacted",
                "redaction/removed/value",
                comparisons=(("look-alikes that are changed", "redaction/changed/value"),),
            ),
        ),
        (
            *(f"evals/data/voices/{author}.jsonl" for author in ("px", "py")),
            "--secrets",
            "evals/data/secrets/px.jsonl",
            "--prompts",
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
                comparisons=(("cosine only", "duplicates/sick-train/recall_at_5_leak/cosine"),),
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
                comparisons=tuple((name, f"quality/{name}/recall_at_10") for name in ("cofio, text only", *SYSTEMS)),
                in_readme=True,
            ),
            Headline(
                "search latency among 1,000 memories, vectors precomputed (p50)",
                "speed/1000/cofio/search_p50_ms",
                "ms",
                comparisons=tuple((name, f"speed/1000/{name}/search_p50_ms") for name in SYSTEMS),
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
                comparisons=((BASELINE, f"points/store={BASELINE}&memories={size}/search_new_p50_ms"),),
                in_readme=size == 100_000,
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
                comparisons=(("an empty Python process", "bare_ms"), ("service under load", "prompt_ms/busy")),
                in_readme=True,
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
                comparisons=(("without a model", "turns/without/label_right"),),
            ),
        ),
    ),
)


# ── commands ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if every requested measure succeeded; else print the failed ones and return 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    measure_names = [measure.name for measure in MEASURES]
    parser.add_argument("data", type=Path, nargs="?", default=Path("data"), help="folder with the development data")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=measure_names,
        default=measure_names,
        metavar="NAME",
        help=f"run only these measures: {', '.join(measure_names)}",
    )
    parser.add_argument(
        "--skip", nargs="+", choices=measure_names, default=[], metavar="NAME", help="skip these measures"
    )
    parser.add_argument("--index", action="store_true", help="only update the index; run no measure")
    options = parser.parse_args(arguments)
    selected = (
        []
        if options.index
        else [measure for measure in MEASURES if measure.name in options.only and measure.name not in options.skip]
    )
    failed = [measure.name for measure in selected if not run_measure(measure, options.data)]
    update_index(ROOT)
    if failed:
        print_line(f"Failed: {', '.join(failed)}.")
    return bool(failed)


def run_measure(measure: Measure, data: Path) -> bool:
    """Run the measure, which writes its files; return whether it succeeded. Its output is not captured."""
    missing = [name for name in measure.data if not (data / name).exists()]
    if missing:
        print_line(f"{measure.name}: there is no {data / missing[0]}. Set the data folder: make results DATA=folder")
        return False
    command = measure.command(data.resolve(), ROOT / FOLDER)
    print_line(f"{measure.name}: {' '.join(command[1:])} (at most {measure.minutes} minutes)")
    started = time.monotonic()
    exit_code = run(command, 60 * measure.minutes)
    duration = f"{time.monotonic() - started:,.0f} s"
    outcome = "done" if exit_code == 0 else "stopped" if exit_code is None else f"failed with {exit_code}"
    print_line(f"{measure.name}: {outcome} after {duration}")
    return exit_code == 0


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


def print_line(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


# ── index ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def update_index(root: Path) -> None:
    """Update the index of the results, and the tables in README and docs/index.md, from the existing JSON files."""
    results = read(root / FOLDER)
    write(root / FOLDER / "index.md", build_page(results))
    replace_section(root / "README.md", build_table(results, f"{FOLDER.as_posix()}/", in_readme=True))
    replace_section(root / "docs" / "index.md", list_pages(results, f"{FOLDER.name}/"))


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the JSON results by the name of the measure."""
    paths = {measure.name: folder / f"{measure.name}.json" for measure in MEASURES}
    return {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items() if path.exists()}


def build_page(results: dict[str, dict[str, Any]]) -> str:
    """Return the index page."""
    absent = [measure for measure in MEASURES if measure.name not in results]
    parts = [
        "# Results",
        "Every figure is made by one command, `make results DATA=folder`, offline and with fixed seeds. Brackets"
        ' hold 95 % bootstrap intervals. Where a row does not say "held-out authors", settings were tuned on the same'
        " development data: expect other figures on your own data, and [measure them](../how-to/measure.md).",
        build_table(results, ""),
        *([f"## Pages\n\n{list_pages(results, '', index=False)}"] if results else []),
        *(
            ["## Not measured\n\n" + "\n".join(f"- {measure.title}: {measure.description}" for measure in absent)]
            if absent
            else []
        ),
        *([f"## Machines\n\n{list_machines(results)}"] if results else []),
    ]
    return "\n\n".join(parts) + "\n"


def list_pages(results: dict[str, dict[str, Any]], path_prefix: str, *, index: bool = True) -> str:
    """Return a list of the existing pages."""
    entries = [f"- [All results]({path_prefix}index.md): the figures in one table"] if index else []
    available = [measure for measure in MEASURES if measure.name in results]
    return "\n".join(
        [
            *entries,
            *(f"- [{measure.title}]({path_prefix}{measure.name}.md): {measure.description}" for measure in available),
        ]
    )


def build_table(results: dict[str, dict[str, Any]], path_prefix: str, *, in_readme: bool = False) -> str:
    """Return the table of the main figures, with comparisons and machine."""
    rows = [
        f"| [{headline.label}]({path_prefix}{measure.name}.md) | {format_figure(results[measure.name], headline)}"
        f" | {format_comparisons(results[measure.name], headline)} | {describe_machine(results[measure.name])} |"
        for measure in MEASURES
        for headline in measure.headlines
        if measure.name in results and (headline.in_readme or not in_readme)
    ]
    if not rows:
        return "No results yet."
    return "\n".join(["| measure | cofio | compared with | measured on |", "|---|---:|---:|---|", *rows])


def format_figure(values: dict[str, Any], headline: Headline) -> str:
    """Return the figure with its interval and its unit; – if the JSON lacks it."""
    value = _get_value(values, headline.path)
    if headline.interval_path and not isinstance(value, dict):
        low, high = _get_value(values, headline.interval_path) or (None, None)
        value = value if low is None else {"value": value, "low": low, "high": high}
    return _format_value(value, headline)


def format_comparisons(values: dict[str, Any], headline: Headline) -> str:
    """Return the comparisons with their labels; "" if there are none."""
    comparisons = []
    for name, path in headline.comparisons:
        value = _get_value(values, path)
        text = "not measured" if value is None else _format_value(value, headline)
        comparisons.append(f"{name} {text}" if path else name)
    return "; ".join(comparisons)


def describe_machine(values: dict[str, Any]) -> str:
    """Return a short description of version and machine."""
    machine = values.get("machine", {})
    return f"{values.get('version', '?')}, {machine.get('cpu', '?')}, {machine.get('cores', '?')} cores"


def list_machines(results: dict[str, dict[str, Any]]) -> str:
    """Return the command and the machine of each measure."""
    lines = []
    for measure in MEASURES:
        if measure.name in results:
            values = results[measure.name]
            machine = values.get("machine", {})
            system = (
                f"{machine.get('memory_gb', '?')} GB, {machine.get('system', '?')}, Python {machine.get('python', '?')}"
            )
            details = f"{describe_machine(values)}, {system}, load {machine.get('load', '?')}"
            lines.append(f"- {measure.title}: `{values.get('command', measure.module)}`; cofio {details}")
    return "\n".join(lines)


def _format_value(value: Any, headline: Headline) -> str:
    column = Column("", headline.unit, headline.digits)
    unit = headline.unit.removeprefix("±")
    if isinstance(value, dict):
        number, _, interval = column.format_cell(Figure(value["value"], value["low"], value["high"])).partition(" ")
        return f"{number} {unit} {interval}".replace("  ", " ")
    text = column.format_cell(value)
    return f"{text} {unit}".strip() if value is not None else text


def _get_value(value: Any, path: str) -> Any:
    """Return the value at this path, or None."""
    for name in path.split("/"):
        if isinstance(value, list):
            fields = dict(item.split("=") for item in name.split("&"))
            value = next(
                (item for item in value if fields.items() <= {k: str(v) for k, v in item.items()}.items()), None
            )
        else:
            value = value.get(name) if isinstance(value, dict) else None
    return value


# ── files ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def replace_section(path: Path, text: str) -> None:
    """Replace the text between the two marker comments of this file."""
    before, start, remainder = path.read_text(encoding="utf-8").partition(START_MARK)
    _, end, after = remainder.partition(END_MARK)
    if not start or not end:
        raise SystemExit(f"{path} has no place for the results: a line {START_MARK} and a line {END_MARK}.")
    write(path, f"{before}{START_MARK}\n\n{text}\n\n{END_MARK}{after}")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
