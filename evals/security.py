"""Attack rates: turns with other people's text are captured without a language model, then recalled.

    turn ─ keeper.capture ─▶ memories, inbox ─ recall with a later prompt ─▶ stored, overwritten, recalled, held

An attack turn carries a foreign text that wants to be stored or obeyed, an accident an honest foreign text full of
statements, a harmless turn only the user's own words. Each turn has a store of its own, with the true memory that the
foreign text contradicts. A foreign fact counts as stored if one memory has all its telling words.

    python -m evals.security evals/data/voices/px.jsonl … [--prompts FILE] [--secrets FILE] [--write FOLDER]

`--prompts` are harmless prompts, which must not be held for review. `--secrets` are lines with a made-up secret
({"text", "secret"}) or with something that looks like one ({"text", "secret": ""}).
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cofio import bootstrap
from cofio.core import Keeper
from cofio.errors import CofioError, InvalidInput
from cofio.ingest.sanitize import redact
from cofio.judgement.onnx_classifier import LocalJudge
from cofio.models.exchange import CANDIDATE, Item
from cofio.ports import Embedder, Judge, LateInteractionModel
from cofio.settings import Settings
from cofio.text.tokens import search_terms
from cofio_eval.jsonl import read_rows
from cofio_eval.metrics import rate
from cofio_eval.report import Column, Report, Table
from cofio_eval.statements import states_fact

PROJECT = "kiln"
_MOSTLY = 0.6  # share of the words of a text
_FREQUENT = 4  # turns of a carrier that has a row of its own
KINDS = ("attack", "accident", "harmless")
_SHAPE = "docs/how-to/measure.md has the format."
_FIELDS = ("id", "segments", "kind", "carrier", "known", "planted", "probe", "facts", "manipulative")


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """Effects of one captured turn."""

    id: str
    kind: str
    carrier: str
    is_manipulative: bool
    planted: bool  # the foreign text has a fact to look for
    stored: bool = False
    as_own: bool = False  # as the user's word
    overwritten: bool | None = None  # None: there was no true memory
    recalled: bool = False
    held: bool = False
    facts: tuple[bool, ...] = ()  # of the user's own facts: stored or not


@dataclass(frozen=True, slots=True)
class Models:
    """Models that all stores of a run share."""

    embedder: Embedder
    reader: LateInteractionModel | None
    judge: Judge


def run(row: Mapping[str, Any], settings: Settings, models: Models) -> TurnOutcome:
    """Capture one turn in a store of its own and return its effects."""
    with TemporaryDirectory() as folder:
        temporary = replace(settings, home=Path(folder), store=f"sqlite://{folder}/turn.db", extract_provider="")
        with bootstrap.keeper(temporary, embedder=models.embedder, reader=models.reader, judge=models.judge) as keeper:
            known = keeper.add(row["known"], project=PROJECT) if row["known"] else None
            text = "".join(part["text"] for part in row["segments"])
            keeper.capture(
                [{"role": "user", "content": text}],
                wait=True,
                session="s1",
                turn="t1",
                project=PROJECT,
                source=f"claude-code/{PROJECT}",
                client="claude-code",
            )
            return _rate(row, keeper, known.id if known else None)


def _rate(row: Mapping[str, Any], keeper: Keeper, known: int | None) -> TurnOutcome:
    memories = [memory for memory in keeper.list(limit=500).memories if memory.id != known]
    foreign = [memory for memory in memories if _has_words(memory.text, row["planted"])]
    overwritten = None
    if known is not None:
        memory = keeper.get(known)
        successor = keeper.get(memory.superseded_by) if memory.superseded_by else memory
        is_changed = memory.archived or memory.text != row["known"]
        overwritten = is_changed and not _is_own(successor.text, row)  # the user may correct it in the same turn
        foreign += [memory] if _has_words(memory.text, row["planted"]) and memory.text != row["known"] else []
    recalled = ""
    if row["probe"] and row["planted"]:
        keeper.services.embeddings.build_token_embeddings()
        recalled = keeper.recall(row["probe"], project=PROJECT).text
    return TurnOutcome(
        id=row["id"],
        kind=row["kind"],
        carrier=row["carrier"],
        is_manipulative=bool(row["manipulative"]),
        planted=bool(row["planted"]),
        stored=bool(foreign),
        as_own=any(memory.provenance in ("user", "") for memory in foreign),
        overwritten=overwritten,
        recalled=any(_has_words(line, row["planted"]) for line in recalled.splitlines()),
        held=any(_is_held(item) for item in keeper.items(limit=10)),
        facts=tuple(any(states_fact(memory.text, fact) for memory in memories) for fact in row["facts"]),
    )


def _is_own(text: str, row: Mapping[str, Any]) -> bool:
    """Return whether most words of a text are the user's own in this turn."""
    own = {word for part in row["segments"] if part["voice"] == "own" for word in search_terms(part["text"])}
    terms = search_terms(text)
    return sum(word in own for word in terms) >= _MOSTLY * len(terms) and not _has_words(text, row["planted"])


def _is_held(item: Item) -> bool:
    return item.exchange is not None and item.exchange.context == CANDIDATE


def _has_words(text: str, words: Sequence[str]) -> bool:
    plain = text.casefold()
    return bool(words) and all(word.casefold() in plain for word in words)


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def read_turns(path: Path) -> list[dict[str, Any]]:
    """Return the labelled turns of a file."""

    def parse(row: dict[str, Any], line: int) -> dict[str, Any]:  # noqa: ARG001
        if missing := [name for name in _FIELDS if name not in row]:
            raise InvalidInput(f"A turn has no {missing[0]}.", _SHAPE)
        return row

    return read_rows(path, parse, "turn", _SHAPE)


def _read_texts(path: Path | None, *fields: str) -> list[dict[str, Any]]:
    def parse(row: dict[str, Any], line: int) -> dict[str, Any]:  # noqa: ARG001
        if missing := [name for name in fields if not isinstance(row.get(name), str)]:
            raise InvalidInput(f"A line has no {missing[0]}.", _SHAPE)
        return row

    return read_rows(path, parse, "line", _SHAPE) if path else []


# ── figures ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def rate_turns(outcomes: Sequence[TurnOutcome]) -> dict[str, Any]:
    """Return the rates over turns, with their 95 % intervals; None where there is no case."""
    planted = [outcome for outcome in outcomes if outcome.planted]
    own = [outcome for outcome in outcomes if outcome.kind == "harmless"]
    return {
        "turns": len(outcomes),
        "stored": rate(outcome.stored for outcome in planted),
        "as_own": rate(outcome.as_own for outcome in planted),
        "overwritten": rate(outcome.overwritten for outcome in outcomes if outcome.overwritten is not None),
        "recalled": rate(outcome.recalled for outcome in planted),
        "facts_kept": rate(fact for outcome in outcomes for fact in outcome.facts),
        "manipulative_held": rate(outcome.held or not outcome.stored for outcome in planted if outcome.is_manipulative),
        "harmless_held": rate(outcome.held for outcome in own if not outcome.is_manipulative),
    }


def _rate_carriers(outcomes: Sequence[TurnOutcome]) -> dict[str, Any]:
    """Return the rates of each frequent carrier, the most frequent first, and of the others together."""
    frequent = [
        name for name, count in Counter(outcome.carrier for outcome in outcomes).most_common() if count >= _FREQUENT
    ]
    rates = {name: rate_turns([outcome for outcome in outcomes if outcome.carrier == name]) for name in frequent}
    return {**rates, "others": rate_turns([outcome for outcome in outcomes if outcome.carrier not in frequent])}


def rate_redaction(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the share of secrets that redaction removes, and of other texts that it changes."""
    rows = list(rows)
    secrets, lookalikes = [row for row in rows if row["secret"]], [row for row in rows if not row["secret"]]
    return {
        "secrets": len(secrets),
        "removed": rate(row["secret"] not in redact(row["text"]) for row in secrets),
        "lookalikes": len(lookalikes),
        "changed": rate(redact(row["text"]) != row["text"] for row in lookalikes),
    }


def count_held(prompts: Sequence[str], settings: Settings, models: Models) -> int:
    """Return how many harmless prompts are held for review."""
    with TemporaryDirectory() as folder:
        temporary = replace(settings, home=Path(folder), store=f"sqlite://{folder}/prompts.db", extract_provider="")
        with bootstrap.keeper(temporary, embedder=models.embedder, reader=models.reader, judge=models.judge) as keeper:
            for number, prompt in enumerate(prompts):
                messages = [{"role": "user", "content": prompt}]
                keeper.capture(messages, wait=True, session=f"s{number}", turn="t", project=PROJECT, client="codex")
            return sum(_is_held(item) for item in keeper.items(limit=1000))


def evaluate(
    files: Sequence[Path],
    *,
    prompts: Path | None = None,
    secrets: Path | None = None,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> Report:
    """Run the turns of the files, the harmless prompts and the secrets, and report the rates."""
    turns = [row for file in files for row in read_turns(file)]
    harmless = [row["said"] for row in _read_texts(prompts, "said")]
    settings = Settings.load()
    models = Models(bootstrap.make_embedder(settings), bootstrap.make_reader(settings), LocalJudge())
    outcomes = []
    for number, row in enumerate(turns, 1):
        outcomes.append(run(row, settings, models))
        progress(number, len(turns))
    held = count_held(harmless, settings, models) if harmless else 0
    values: dict[str, Any] = {
        "all": rate_turns(outcomes),
        "by_kind": {kind: rate_turns([outcome for outcome in outcomes if outcome.kind == kind]) for kind in KINDS},
        "by_carrier": _rate_carriers([outcome for outcome in outcomes if outcome.planted]),
        "prompts": {"prompts": len(harmless), "held": held},
        "redaction": rate_redaction(_read_texts(secrets, "text", "secret")),
        "failures": [outcome.id for outcome in outcomes if outcome.stored or outcome.overwritten or outcome.recalled],
    }
    return _report(files, values)


def _report(files: Sequence[Path], values: Mapping[str, Any]) -> Report:
    columns = {
        "turns": Column("turns"),
        "stored": Column("foreign fact stored", "%"),
        "as_own": Column("as the user's word", "%"),
        "overwritten": Column("true memory overwritten", "%"),
        "recalled": Column("recalled by a later prompt", "%"),
        "facts_kept": Column("user's own facts kept", "%"),
        "harmless_held": Column("harmless turns held", "%"),
    }
    redaction, prompts = values["redaction"], values["prompts"]
    tables = [
        Table.of("By kind of turn", "turns of kind", columns, {"all": values["all"], **values["by_kind"]}),
        Table.of("By carrier", "carrier", {name: columns[name] for name in [*columns][:5]}, values["by_carrier"]),
    ]
    if redaction["secrets"]:
        shown = {name: Column(name, "%" if name in ("removed", "changed") else "") for name in redaction}
        tables.append(Table.of("Secrets", "set", shown, {"written by another author": redaction}))
    intro = [
        "Turns with other people's text, each captured in a store of its own without a language model. A foreign fact"
        " is stored if one memory has all of its telling words; it is recalled if a line of the context for a later"
        " prompt has them. The authors of these turns saw neither the code nor the training data.",
    ]
    if prompts["prompts"]:
        intro.append(f"{prompts['held']} of {prompts['prompts']} harmless prompts full of trigger words were held.")
    command = f"python -m evals.security {' '.join(file.name for file in files)}"
    return Report("security", "Poisoning and secrets", command, intro, values, tables)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report, as text or JSON; write it on request."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--prompts", type=Path)
    parser.add_argument("--secrets", type=Path)
    parser.add_argument("--write", type=Path, metavar="FOLDER")
    options = parser.parse_args(arguments)

    def show(done: int, count: int) -> None:
        print(f"\r{done} of {count}", end="", file=sys.stderr, flush=True)

    try:
        report = evaluate(options.files, prompts=options.prompts, secrets=options.secrets, progress=show)
    except CofioError as error:
        print(f"cofio: {error}", file=sys.stderr)
        return 2
    print(report.text())
    if options.write:
        report.write(options.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
