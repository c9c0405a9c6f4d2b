"""Report of a run: tables with one row per system, two plots, and the reasons of systems that were not measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from bench.peers.systems import SYSTEMS, Measure, System
from bench.peers.updates import SCENARIOS
from cofio_eval.metrics import Figure, difference, interval
from cofio_eval.report import Cell, Column, Report, Table
from evals import plots

#: Figures by the name of the system, or {"reason"}.
Figures: TypeAlias = Mapping[str, Mapping[str, Any]]

COMMAND = "make bench-peers"
_INTRODUCTION = (
    "cofio and other memory and search systems, each through its public Python interface, in a process and a virtual"
    " environment of its own, one after the other in one run. All get the same vectors from the same embedder"
    " (bge-small-en-v1.5, int8, as shipped with cofio) over the same connection, and no language model. Telemetry is"
    " off. Re-ranking is off in cofio, because it is a second model; [retrieval](retrieval.md) measures it.",
    "The systems do different work: cofio also checks for duplicates, keeps a journal for undo, and searches"
    " keywords and vectors; chromadb, txtai, FTS5 and NumPy are building blocks for a memory. The tables show"
    " accuracy and cost with default settings, not which product is better.",
)
_QUALITY_NOTE = (
    "Conversations of the development file, one collection per conversation. R@k is the share of the evidence among"
    " the first k hits, with 95 % bootstrap intervals; differences are by paired bootstrap over the same questions."
    " All systems get “Speaker: text of the turn”; the row “cofio” also has speaker, date and the two preceding"
    " turns as fields of its interface. The defaults of cofio were tuned on this file; those of the other systems"
    " were not."
)
_SPEED_NOTE = (
    "Vectors are precomputed, so this is the time of the system alone. Bulk adds take batches of 500; k = 5. Commits"
    " of cofio and FTS5 are durable; txtai and NumPy write to disk only when they are closed. Memory is the resident"
    " memory of the process after loading and searching (for txtai it includes torch). Start is the time from a new"
    " process to its first answer, imports included."
)
_EMBEDDING_NOTE = (
    "The same calls with texts that have to be embedded, through the server on the loopback interface. The columns"
    " “embedding” hold the share of the time spent on embedding, transport included. mem0 embeds the texts of a bulk"
    " add one by one."
)
_UPDATES_NOTE = (
    "Each system gets the statements through its interface for user statements. Six unrelated facts are stored too."
    " “Kept” is the number of memories stored from the statements. If both versions of a fact are found, the caller"
    " has to decide which one is current. mem0 merges and updates with a language model; without one, and with"
    " `infer=False`, it stores every statement by design. chromadb, txtai, FTS5 and NumPy also store every"
    " statement: the caller replaces entries by id."
)


def build_report(results: Mapping[str, Any]) -> Report:
    """Return the report of the results of `run.run_benchmark`."""
    quality = _add_intervals(results["quality"])
    tables: list[Table] = []
    if quality:
        tables.append(_quality_table(quality))
    tables += [_speed_table(size, figures) for size, figures in results["speed"].items()]
    if results["speed"]:
        tables.append(_embedding_table(*list(results["speed"].items())[-1]))
    if results["updates"]:
        tables.append(_update_table(results["updates"]))
    values = {**results, "quality": {name: _to_json(figures) for name, figures in quality.items()}}
    return Report(
        name="peers",
        title="Comparison with other memory systems",
        command=COMMAND,
        intro=[*_INTRODUCTION, _list_systems(results), *_absent(results)],
        values=values,
        tables=tables,
        plots=_plots(results["speed"], quality),
        closing=[f"The run took {results['seconds']:.0f} s."],
    )


def _absent(results: Mapping[str, Any]) -> list[str]:
    return [] if results["quality"] else ["No conversations were given, so retrieval quality was not measured."]


def _to_json(figures: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.as_dict() if isinstance(value, Figure) else value for name, value in figures.items()}


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _list_systems(results: Mapping[str, Any]) -> str:
    """Return a list of all systems with version and configuration, or the reason why a system was not measured."""
    return "\n".join(f"- {' '.join(_describe_system(system, results))}" for system in _list_participants(results))


def _list_participants(results: Mapping[str, Any]) -> list[System]:
    return [system for system in SYSTEMS if any(system.name in figures for figures in _list_figures(system, results))]


def _list_figures(system: System, results: Mapping[str, Any]) -> list[Figures]:
    """Return the figures of every measure that the system takes part in."""
    by_measure: dict[Measure, list[Figures]] = {
        "quality": [results["quality"]],
        "speed": list(results["speed"].values()),
        "updates": [results["updates"]],
    }
    return [figures for measure in system.measures for figures in by_measure[measure]]


def _describe_system(system: System, results: Mapping[str, Any]) -> tuple[str, str]:
    entries = [figures[system.name] for figures in _list_figures(system, results) if system.name in figures]
    reasons = list(dict.fromkeys(entry["reason"] for entry in entries if "reason" in entry))
    version = next((entry["version"] for entry in entries if "version" in entry), "")
    heading = f"**{system.name}** {version}".rstrip()
    return f"{heading}:", "; ".join([system.description, *(f"not measured: {reason}" for reason in reasons)]) + "."


def _add_intervals(figures: Figures) -> dict[str, dict[str, Any]]:
    """Return means with their intervals, and the differences to cofio; for a failed system, the reason."""
    scores = {name: entry["scores"] for name, entry in figures.items() if "scores" in entry}
    rows: dict[str, dict[str, Any]] = {}
    for name, entry in figures.items():
        if "reason" in entry:
            rows[name] = {"reason": entry["reason"]}
            continue
        own_scores = scores[name]
        rows[name] = {"version": entry["version"]} | {key: interval(values) for key, values in own_scores.items()}
        for key, reference in (("less_cofio", "cofio"), ("less_cofio_text_alone", "cofio, text only")):
            if reference in scores and not name.startswith("cofio"):
                rows[name][key] = difference(own_scores["recall_at_10"], scores[reference]["recall_at_10"])
        rows[name]["questions"] = len(own_scores["recall_at_10"])
    return rows


def _quality_table(figures: Figures) -> Table:
    keys = ("recall_at_5", "recall_at_10", "ndcg_at_10", "less_cofio_text_alone", "less_cofio")
    columns = [
        Column("system"),
        Column("R@5", "%"),
        Column("R@10", "%"),
        Column("nDCG@10", "%"),
        Column("R@10 minus “cofio, text only”", "±%"),
        Column("R@10 minus “cofio”", "±%"),
    ]
    questions = max((figure.get("questions", 0) for figure in figures.values()), default=0)
    title = f"Retrieval quality: {questions:,} questions"
    return Table(
        title, columns, [_row(name, row, keys) for name, row in figures.items()], _add_reasons(_QUALITY_NOTE, figures)
    )


def _speed_table(size: str, figures: Figures) -> Table:
    keys = ("bulk_per_s", "add_p50_ms", "add_p95_ms", "search_p50_ms", "search_p95_ms", "start_s", "resident_mb")
    columns = [
        Column("system"),
        Column("bulk, memories/s", digits=0),
        Column("add p50", "ms", 2),
        Column("add p95", "ms", 2),
        Column("search p50", "ms", 2),
        Column("search p95", "ms", 2),
        Column("start", "s", 2),
        Column("memory", "MB", 0),
        Column("disk", "MB", 1),
    ]
    rows = [_row(name, row, (*keys, "disk_mb")) for name, row in figures.items()]
    return Table(f"Speed with {int(size):,} memories", columns, rows, _add_reasons(_SPEED_NOTE, figures))


def _embedding_table(size: str, figures: Figures) -> Table:
    operations = ("search", "add", "bulk")
    columns = [Column("system")]
    for name in ("search p50", "add p50"):
        columns += [Column(name, "ms"), Column("embedding", "%", 0)]
    columns += [Column("bulk, memories/s"), Column("embedding", "%", 0)]
    keys = [
        key
        for row in operations
        for key in (f"whole_{row}_{'per_s' if row == 'bulk' else 'p50_ms'}", f"whole_{row}_embedding")
    ]
    rows = [_row(name, row, keys) for name, row in figures.items()]
    return Table(
        f"Speed including embedding, {int(size):,} memories", columns, rows, _add_reasons(_EMBEDDING_NOTE, figures)
    )


def _update_table(figures: Figures) -> Table:
    columns = [Column("system"), *(Column(scenario.heading) for scenario in SCENARIOS)]
    rows: list[list[Cell]] = []
    for name, row in figures.items():
        parts = row.get("parts")
        rows.append(
            [
                name,
                *((_DESCRIBE_RESULT[scenario.name](parts[scenario.name]) if parts else None) for scenario in SCENARIOS),
            ]
        )
    script = " ".join(
        f"{scenario.heading}: {' → '.join(f'“{statements.strip()}”' for statements in scenario.statements)}."
        for scenario in SCENARIOS
    )
    note = f"{_UPDATES_NOTE} The statements: {script}"
    return Table("Duplicates and updates", columns, rows, _add_reasons(note, figures))


def _row(name: str, figures: Mapping[str, Any], keys: Sequence[str]) -> list[Cell]:
    return [name, *(figures.get(key) for key in keys)]


def _add_reasons(note: str, figures: Figures) -> str:
    """Return the note, plus the missing systems and their reasons."""
    missing = [f"Not measured: {name}: {row['reason']}." for name, row in figures.items() if "reason" in row]
    return " ".join([note, *missing])


# ── results in words ──────────────────────────────────────────────────────────────────────────────────────────────────


def _describe_repeated(scenario: Mapping[str, Any]) -> str:
    return f"kept {scenario['left']} of {scenario['told']}"


def _describe_changed(scenario: Mapping[str, Any]) -> str:
    if scenario["stale_found"] and scenario["fresh_found"]:
        return f"both found, {'old' if scenario['stale_first'] else 'new'} value first"
    if scenario["stale_found"]:
        return "only the old value"
    return "only the new value" if scenario["fresh_found"] else f"neither found, {scenario['left']} kept"


def _describe_forgotten(scenario: Mapping[str, Any]) -> str:
    if scenario["stale_found"]:
        return "fact and request kept" if scenario["left"] > 1 else "still found"
    return "forgotten" if scenario["left"] <= 0 else f"not found, {scenario['left']} kept"


_DESCRIBE_RESULT: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "repeat": _describe_repeated,
    "spaced": _describe_repeated,
    "paraphrase": _describe_repeated,
    "changed": _describe_changed,
    "denied": _describe_changed,
    "forgotten": _describe_forgotten,
}


# ── plots ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _plots(speed: Mapping[str, Figures], quality: Figures) -> dict[str, str]:
    drawings = {}
    if curves := [line for system in _list_plotted() if (line := _curve(system, speed))]:
        drawings["peers-search"] = plots.log_log(
            "Search latency, k = 5, vectors precomputed, p50", "memories", "milliseconds", curves
        )
    if dots := [line for system in _list_plotted() if (line := _dot(system, speed, quality))]:
        size = int(list(speed)[-1])
        across = f"search latency in milliseconds, p50 at {size:,} memories"
        drawings["peers-found"] = plots.log_linear("Recall by latency", across, "R@10, %", dots)
    return drawings


def _list_plotted() -> list[System]:
    """Return the systems of the plots: each peer once, and again with its hybrid search."""
    return [system for system in SYSTEMS if "speed" in system.measures and "dedup" not in system.name]


def _colour(system: System) -> str:
    peers = list(dict.fromkeys(each.peer for each in _list_plotted()))
    return plots.COLOURS[peers.index(system.peer) % len(plots.COLOURS)]


def _curve(system: System, speed: Mapping[str, Figures]) -> plots.Curve | None:
    rows = [
        (float(size), figures_by_name[system.name])
        for size, figures_by_name in speed.items()
        if system.name in figures_by_name
    ]
    points = [(size, figures["search_p50_ms"]) for size, figures in rows if "search_p50_ms" in figures]
    return plots.Curve(system.name, _colour(system), points, dashed="hybrid" in system.name) if points else None


def _dot(system: System, speed: Mapping[str, Figures], quality: Figures) -> plots.Curve | None:
    line = _curve(system, speed)
    recall = quality.get(system.name, {}).get("recall_at_10")
    if line is None or not isinstance(recall, Figure) or line.points[-1][0] != float(list(speed)[-1]):
        return None
    return plots.Curve(system.name, line.colour, [(line.points[-1][1], 100 * recall.value)])
