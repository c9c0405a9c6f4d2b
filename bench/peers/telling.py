"""Report of a run: tables with one row per side, two plots, and the reasons of sides that were not measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from bench.peers.sameness import PARTS
from bench.peers.sides import SIDES, Measure, Side
from cofio_eval.metrics import Figure, difference, interval
from cofio_eval.report import Cell, Column, Report, Table
from evals import plots

#: Figures by the name of the side, or {"reason"}.
Figures: TypeAlias = Mapping[str, Mapping[str, Any]]

COMMAND = "make bench-peers"
_SAYS = (
    "cofio and other memories and searches, each through its public Python interface, each in a process and a virtual"
    " environment of its own, one after the other in one run. All of them get the same vectors from the same embedder"
    " (bge-small-en-v1.5, int8, as cofio ships it) over the same connection, and no language model. Telemetry is off."
    " cofio reads nothing word by word here, for that is a second model; [retrieval](retrieval.md) has it.",
    "A memory is not a vector index: cofio also looks for what is known, keeps a journal that undoes, and searches"
    " words and vectors; chromadb, txtai, FTS5 and NumPy are what one would build a memory on. The rows say what each"
    " gives and takes as it comes, not which product is better.",
)
_QUALITY = (
    "Conversations of the development file, a collection for each; the share of the evidence among the first 5 and 10,"
    " with 95 % intervals by bootstrap; differences by paired bootstrap over the same questions. All get “Speaker: what"
    " was said”; the row “cofio” has speaker, date and the two turns before as fields, as its interface offers. cofio's"
    " defaults were chosen on this file; nobody else's were."
)
_SPEED = (
    "Vectors are given, so this is the side's own time. Bulk in batches of 500; k = 5. Commits of cofio and FTS5 are"
    " durable; txtai and NumPy write nothing until the end. Memory is what the process has in RAM after load and"
    " searches (txtai's holds torch). Start is a fresh process from nothing to its first answer, imports included."
)
_EMBEDDED = (
    "The same calls with texts that have to be embedded, through the server on the loopback interface. The columns"
    " “embedding” tell which part of the time is the embedder's and the way to it. mem0 embeds a bulk text by text."
)
_SAMENESS = (
    "Each told by the way in that it has for what somebody says, nobody deciding for it. Six other facts stand beside."
    " “Kept” is how many memories are left of what was said. A store that keeps everything leaves it to the one who"
    " asks to see which of two texts is the later one. mem0 merges and corrects with a language model; without one, and"
    " with `infer=False`, it keeps what it is given by design. chromadb, txtai, FTS5 and NumPy do so too: they are told"
    " by ids what to replace."
)


def report(results: Mapping[str, Any]) -> Report:
    """Return the report of the results of `run.measured`."""
    quality = _scored(results["quality"])
    tables: list[Table] = []
    if quality:
        tables.append(_quality(quality))
    tables += [_speed(size, figures) for size, figures in results["speed"].items()]
    if results["speed"]:
        tables.append(_embedded(*list(results["speed"].items())[-1]))
    if results["sameness"]:
        tables.append(_sameness(results["sameness"]))
    values = {**results, "quality": {name: _plain(figures) for name, figures in quality.items()}}
    return Report(
        name="peers",
        title="Beside other memories",
        command=COMMAND,
        says=[*_SAYS, _who(results), *_absent(results)],
        values=values,
        tables=tables,
        plots=_plots(results["speed"], quality),
        ends=[f"The run took {results['seconds']:.0f} s."],
    )


def _absent(results: Mapping[str, Any]) -> list[str]:
    return [] if results["quality"] else ["No conversations were given: what is found was not measured."]


def _plain(figures: Mapping[str, Any]) -> dict[str, Any]:
    return {name: each.as_dict() if isinstance(each, Figure) else each for name, each in figures.items()}


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _who(results: Mapping[str, Any]) -> str:
    """Return a list of all sides with version and configuration, or the reason why a side was not measured."""
    return "\n".join(f"- {' '.join(_told(side, results))}" for side in _taking_part(results))


def _taking_part(results: Mapping[str, Any]) -> list[Side]:
    return [side for side in SIDES if any(side.name in figures for figures in _measured(side, results))]


def _measured(side: Side, results: Mapping[str, Any]) -> list[Figures]:
    """Return the figures of every measure that the side takes part in."""
    by_measure: dict[Measure, list[Figures]] = {
        "quality": [results["quality"]],
        "speed": list(results["speed"].values()),
        "sameness": [results["sameness"]],
    }
    return [figures for measure in side.measures for figures in by_measure[measure]]


def _told(side: Side, results: Mapping[str, Any]) -> tuple[str, str]:
    found = [figures[side.name] for figures in _measured(side, results) if side.name in figures]
    reasons = list(dict.fromkeys(each["reason"] for each in found if "reason" in each))
    version = next((each["version"] for each in found if "version" in each), "")
    named = f"**{side.name}** {version}".rstrip()
    return f"{named}:", "; ".join([side.how, *(f"not measured: {reason}" for reason in reasons)]) + "."


def _scored(found: Figures) -> dict[str, dict[str, Any]]:
    """Return means with their intervals, and the differences to cofio; for a failed side, the reason."""
    scores = {name: each["scores"] for name, each in found.items() if "scores" in each}
    made: dict[str, dict[str, Any]] = {}
    for name, each in found.items():
        if "reason" in each:
            made[name] = {"reason": each["reason"]}
            continue
        own = scores[name]
        made[name] = {"version": each["version"]} | {key: interval(values) for key, values in own.items()}
        for key, other in (("less_cofio", "cofio"), ("less_cofio_text_alone", "cofio, text alone")):
            if other in scores and not name.startswith("cofio"):
                made[name][key] = difference(own["recall_at_10"], scores[other]["recall_at_10"])
        made[name]["questions"] = len(own["recall_at_10"])
    return made


def _quality(figures: Figures) -> Table:
    shown = ("recall_at_5", "recall_at_10", "ndcg_at_10", "less_cofio_text_alone", "less_cofio")
    columns = [
        Column("side"),
        Column("R@5", "%"),
        Column("R@10", "%"),
        Column("nDCG@10", "%"),
        Column("R@10 less “cofio, text alone”", "±%"),
        Column("R@10 less “cofio”", "±%"),
    ]
    questions = max((figure.get("questions", 0) for figure in figures.values()), default=0)
    title = f"What is found: {questions:,} questions"
    return Table(title, columns, [_row(name, each, shown) for name, each in figures.items()], _with(_QUALITY, figures))


def _speed(size: str, figures: Figures) -> Table:
    shown = ("bulk_per_s", "add_p50_ms", "add_p95_ms", "search_p50_ms", "search_p95_ms", "start_s", "resident_mb")
    columns = [
        Column("side"),
        Column("bulk, memories/s", digits=0),
        Column("add p50", "ms", 2),
        Column("add p95", "ms", 2),
        Column("search p50", "ms", 2),
        Column("search p95", "ms", 2),
        Column("start", "s", 2),
        Column("memory", "MB", 0),
        Column("disk", "MB", 1),
    ]
    rows = [_row(name, each, (*shown, "disk_mb")) for name, each in figures.items()]
    return Table(f"How fast, at {int(size):,} memories", columns, rows, _with(_SPEED, figures))


def _embedded(size: str, figures: Figures) -> Table:
    shown = ("search", "add", "bulk")
    columns = [Column("side")]
    for name in ("search p50", "add p50"):
        columns += [Column(name, "ms"), Column("embedding", "%", 0)]
    columns += [Column("bulk, memories/s"), Column("embedding", "%", 0)]
    keys = [
        key
        for each in shown
        for key in (f"whole_{each}_{'per_s' if each == 'bulk' else 'p50_ms'}", f"whole_{each}_embedding")
    ]
    rows = [_row(name, each, keys) for name, each in figures.items()]
    return Table(f"With embedding, at {int(size):,} memories", columns, rows, _with(_EMBEDDED, figures))


def _sameness(figures: Figures) -> Table:
    columns = [Column("side"), *(Column(part.heading) for part in PARTS)]
    rows: list[list[Cell]] = []
    for name, each in figures.items():
        parts = each.get("parts")
        rows.append([name, *((_COMES_TO[part.name](parts[part.name]) if parts else None) for part in PARTS)])
    script = " ".join(f"{part.heading}: {' → '.join(f'“{told.strip()}”' for told in part.told)}." for part in PARTS)
    note = f"{_SAMENESS} The script: {script}"
    return Table("What becomes of repeats and changes", columns, rows, _with(note, figures))


def _row(name: str, figures: Mapping[str, Any], shown: Sequence[str]) -> list[Cell]:
    return [name, *(figures.get(key) for key in shown)]


def _with(note: str, figures: Figures) -> str:
    """Return the note, plus the missing sides and their reasons."""
    missing = [f"Not measured: {name}: {each['reason']}." for name, each in figures.items() if "reason" in each]
    return " ".join([note, *missing])


# ── results in words ──────────────────────────────────────────────────────────────────────────────────────────────────


def _repeated(part: Mapping[str, Any]) -> str:
    return f"kept {part['left']} of {part['told']}"


def _changed(part: Mapping[str, Any]) -> str:
    if part["stale_found"] and part["fresh_found"]:
        return f"both found, the {'old' if part['stale_first'] else 'new'} one first"
    if part["stale_found"]:
        return "the old one alone"
    return "the new one alone" if part["fresh_found"] else f"neither found, {part['left']} kept"


def _forgotten(part: Mapping[str, Any]) -> str:
    if part["stale_found"]:
        return "fact and request kept" if part["left"] > 1 else "still found"
    return "forgotten" if part["left"] <= 0 else f"not found, {part['left']} kept"


_COMES_TO: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "repeat": _repeated,
    "spaced": _repeated,
    "paraphrase": _repeated,
    "changed": _changed,
    "denied": _changed,
    "forgotten": _forgotten,
}


# ── plots ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _plots(speed: Mapping[str, Figures], quality: Figures) -> dict[str, str]:
    made = {}
    if curves := [line for side in _drawn() if (line := _curve(side, speed))]:
        made["peers-search"] = plots.log_log("Search, k = 5, vectors given: p50", "memories", "milliseconds", curves)
    if dots := [line for side in _drawn() if (line := _dot(side, speed, quality))]:
        size = int(list(speed)[-1])
        across = f"milliseconds of a search, p50 at {size:,} memories"
        made["peers-found"] = plots.log_linear("Found, and how fast", across, "R@10, per cent", dots)
    return made


def _drawn() -> list[Side]:
    """Return the sides of the plots: each peer once, and again with its hybrid search."""
    return [side for side in SIDES if "speed" in side.measures and "dedup" not in side.name]


def _colour(side: Side) -> str:
    peers = list(dict.fromkeys(each.peer for each in _drawn()))
    return plots.COLOURS[peers.index(side.peer) % len(plots.COLOURS)]


def _curve(side: Side, speed: Mapping[str, Figures]) -> plots.Curve | None:
    found = [(float(size), each[side.name]) for size, each in speed.items() if side.name in each]
    points = [(size, figures["search_p50_ms"]) for size, figures in found if "search_p50_ms" in figures]
    return plots.Curve(side.name, _colour(side), points, dashed="hybrid" in side.name) if points else None


def _dot(side: Side, speed: Mapping[str, Figures], quality: Figures) -> plots.Curve | None:
    line = _curve(side, speed)
    found = quality.get(side.name, {}).get("recall_at_10")
    if line is None or not isinstance(found, Figure) or line.points[-1][0] != float(list(speed)[-1]):
        return None
    return plots.Curve(side.name, line.colour, [(line.points[-1][1], 100 * found.value)])
