"""DevMemBench: coding sessions are captured in order without a language model, then questions are asked.

    sessions ─ keeper.capture ─▶ facts (and episodes) ─ keeper.search ─▶ ten hits ─ compared with the truth ─▶ Report

A hit answers a question if it states the ground truth: at least 60 % of its content words, without their endings, and
every number and name in it (`statements.states_fact`). A ground truth that spans several sessions may need several
hits, so the ten hits are also taken together. Ground truths are worded freely: the share stated by any single message
of the sessions is an upper bound. Questions of the type abstention have no answer and are left out.

    python -m evals.devmem FOLDER [--write FOLDER]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cofio import bootstrap
from cofio.core import Keeper
from cofio.errors import CofioError, InvalidInput, NotFound
from cofio.ports import Embedder
from cofio.settings import Settings
from cofio_eval.jsonl import read_json
from cofio_eval.metrics import mean, rate
from cofio_eval.report import Column, Report, Table
from cofio_eval.statements import MIN_SHARE, states_fact

HITS = 10
FACTS, FACTS_AND_EPISODES = "facts", "facts and episodes"
UNANSWERABLE = "abstention"
_SHAPE = (
    'The folder needs a .json file named "*sessions*" ({"sessionId", "metadata": {"date", "project"}, "messages"})'
    ' and one named "*questions*" ({"questionId", "questionType", "question", "groundTruth"}).'
)


@dataclass(frozen=True, slots=True)
class DevMemQuestion:
    """Question with the expected answer."""

    id: str
    type: str
    text: str
    truth: str


@dataclass(frozen=True, slots=True)
class DevMemOutcome:
    """Result of a question: whether the answer is in one hit, and in ten hits together, by the kind of memories
    searched.
    """

    question: DevMemQuestion
    in_one: Mapping[str, bool]
    together: Mapping[str, bool]
    in_message: bool  # a message of the sessions states the answer


def evaluate(
    folder: Path,
    settings: Settings | None = None,
    *,
    embedder: Embedder | None = None,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> Report:
    """Capture the sessions of a folder, ask its questions, and report how many answers are among the hits."""
    sessions, questions = read_folder(folder)
    messages = [message["content"] for session in sessions for message in session["messages"]]
    settings = settings or Settings.load()
    steps = len(sessions) + len(questions)
    with TemporaryDirectory() as home:
        temporary = replace(settings, home=Path(home), store=f"sqlite://{home}/devmem.db", extract_provider="")
        embedder = embedder or bootstrap.make_embedder(settings)
        with bootstrap.keeper(temporary, embedder=embedder, reader=bootstrap.make_reader(settings)) as keeper:
            for number, session in enumerate(sessions, 1):
                capture(session, keeper)
                progress(number, steps)
            keeper.services.episodes.embed_missing()  # as the service's worker does in the background
            keeper.services.embeddings.build_token_embeddings()
            outcomes = []
            for number, question in enumerate(questions, len(sessions) + 1):
                outcomes.append(ask(question, keeper, messages))
                progress(number, steps)
            stored = keeper.count()
    return _report(folder, len(sessions), stored, outcomes)


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def read_folder(folder: Path) -> tuple[list[dict[str, Any]], list[DevMemQuestion]]:
    """Return the sessions ordered by date, and the questions that have an answer."""
    if not folder.is_dir():
        raise NotFound(f"There is no folder {folder}.", _SHAPE)
    sessions = _load_objects(folder, "sessions", ("sessionId", "messages"))
    questions = _load_objects(folder, "questions", ("questionId", "questionType", "question", "groundTruth"))
    answerable = [
        DevMemQuestion(
            str(question["questionId"]),
            str(question["questionType"]),
            str(question["question"]),
            str(question["groundTruth"]),
        )
        for question in questions
        if question["questionType"] != UNANSWERABLE
    ]
    if not answerable:
        raise InvalidInput(f"No question in {folder} has an answer.", _SHAPE)
    return sorted(sessions, key=_get_date), answerable


def _load_objects(folder: Path, name: str, fields: Sequence[str]) -> list[dict[str, Any]]:
    """Return the objects of all files in the folder with this word in their name."""
    objects: list[dict[str, Any]] = []
    for file in sorted(folder.glob(f"*{name}*.json")):
        rows = read_json(file, _SHAPE)
        for row in rows if isinstance(rows, list) else [rows]:
            if missing := [field for field in fields if not isinstance(row, dict) or field not in row]:
                raise InvalidInput(f"An object in {file} has no {missing[0]}.", _SHAPE)
            objects.append(row)
    if not objects:
        raise NotFound(f"{folder} has no {name}.", _SHAPE)
    return objects


def _get_date(session: Mapping[str, Any]) -> str:
    return str(session.get("metadata", {}).get("date", ""))


# ── running ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def capture(session: Mapping[str, Any], keeper: Keeper) -> None:
    """Capture a session, one exchange at a time: a user message with the assistant's answers."""
    project, name = str(session.get("metadata", {}).get("project", "")), str(session["sessionId"])
    date = _get_date(session)
    for number, messages in enumerate(_split_exchanges(session["messages"]), 1):
        keeper.capture(
            messages,
            wait=True,
            session=name,
            turn=f"{name}-{number}",
            project=project,
            source=f"devmem/{project}" if project else "devmem",
            at=f"{date}T10:{number % 60:02}:00Z" if len(date) == len("2026-01-31") else "",
        )


def _split_exchanges(messages: Sequence[Mapping[str, str]]) -> Iterator[list[dict[str, str]]]:
    exchange: list[dict[str, str]] = []
    for message in messages:
        if message["role"] == "user" and exchange:
            yield exchange
            exchange = []
        exchange.append({"role": message["role"], "content": message["content"]})
    if exchange:
        yield exchange


def ask(question: DevMemQuestion, keeper: Keeper, messages: Sequence[str]) -> DevMemOutcome:
    """Search for a question among the facts, and among facts and episodes."""
    facts = [(hit.score, hit.text) for hit in keeper.search(question.text, k=HITS)]
    all_hits = [*facts, *((hit.score, hit.text) for hit in keeper.search_episodes(question.text, k=HITS))]
    texts = {
        FACTS: [text for _, text in facts],
        FACTS_AND_EPISODES: [text for _, text in sorted(all_hits, key=lambda hit: -hit[0])[:HITS]],
    }
    return DevMemOutcome(
        question,
        {source: any(states_fact(text, question.truth) for text in hits) for source, hits in texts.items()},
        {source: states_fact(" ".join(hits), question.truth) for source, hits in texts.items()},
        any(states_fact(text, question.truth) for text in messages),
    )


# ── report ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _compute_figures(outcomes: Sequence[DevMemOutcome]) -> dict[str, Any]:
    figures: dict[str, Any] = {
        source: {
            "one_hit": rate(outcome.in_one[source] for outcome in outcomes),
            "together": rate(outcome.together[source] for outcome in outcomes),
        }
        for source in (FACTS, FACTS_AND_EPISODES)
    }
    return {"questions": len(outcomes), "said": mean([outcome.in_message for outcome in outcomes]), **figures}


def _report(folder: Path, sessions: int, stored: int, outcomes: Sequence[DevMemOutcome]) -> Report:
    types = sorted({outcome.question.type for outcome in outcomes})
    figures = _compute_figures(outcomes)
    by_type = {
        name: _compute_figures([outcome for outcome in outcomes if outcome.question.type == name]) for name in types
    }
    values: dict[str, Any] = {
        "sessions": sessions,
        "memories": stored,
        **figures,
        "by_type": by_type,
        "per_question": {outcome.question.id: outcome.in_one for outcome in outcomes},
    }
    intro = (
        f"{sessions} coding sessions, captured in order without a language model into {stored} memories; then"
        f" {len(outcomes)} questions with an answer. A hit answers a question if it has {MIN_SHARE:.0%} of the"
        f" content words of the ground truth and all its numbers and names. One hit: one of the best {HITS} hits"
        " answers. Together: they answer as one text. In one message: a single message of the sessions answers,"
        " which is the upper bound of this rule.",
    )
    table = Table.of("Answers among the hits", "type", _COLUMNS, {"all": figures, **by_type})
    return Report("devmem", "DevMemBench", f"python -m evals.devmem {folder.name}", intro, values, [table])


_COLUMNS = {
    "questions": Column("questions"),
    "said": Column("in one message (upper bound)", "%"),
    **{
        f"{kind}/{name}": Column(f"{kind}: {label}", "%")
        for kind in (FACTS, FACTS_AND_EPISODES)
        for name, label in (("one_hit", "one hit"), ("together", "together"))
    },
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report; return 2 if the data is missing or malformed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder with the files of DevMemBench")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write page and JSON here")
    options = parser.parse_args(arguments)
    try:
        report = evaluate(options.folder)
    except CofioError as error:
        print(error, file=sys.stderr)
        return 2
    print(report.text())
    for path in report.write(options.write) if options.write else ():
        print(f"Wrote {path}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
