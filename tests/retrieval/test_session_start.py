"""The session start block: selection, order and token budget."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

import pytest

from cofio.core import Keeper
from cofio.errors import Misconfigured
from cofio.hooks import fallback
from cofio.hooks.client_events import event
from cofio.models.memory import Fact
from cofio.retrieval import recall
from cofio.settings import Settings
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder
from cofio.text import briefing
from cofio.text.briefing import BriefingEntry, BriefingLine, StartRule, estimate_tokens, select_start

WEB, OPS = "/home/ada/web", "/home/ada/ops"
NOW = "2026-11-02T10:00:00Z"
RULE = StartRule(1_200, "2026-11-02", "2026-11-16")


class SessionStart(Protocol):
    """Return the texts of a session start block."""

    def __call__(self, *, tokens: int = 1_200, project: str = WEB, session: str = "") -> list[str]: ...


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    clock = FixedClock(NOW)
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock) as keeper:
        yield keeper


@pytest.fixture(params=["service", "file"])
def session_start(request: pytest.FixtureRequest, keeper: Keeper, tmp_path: Path) -> SessionStart:
    """Build the block through the service and through the hook that reads the file."""

    def by_service(*, tokens: int = 1_200, project: str = WEB, session: str = "") -> list[str]:
        keeper.services.recall.start_tokens = tokens
        return texts(keeper.recall(project=project, client="claude-code", session=session).text)

    def by_file(*, tokens: int = 1_200, project: str = WEB, session: str = "") -> list[str]:
        import sqlite3

        hook_event = event("claude-code", f'{{"hook_event_name": "SessionStart", "session_id": "{session}"}}'.encode())
        rule = fallback._start_rule(str(tokens), 1793613600.0)  # NOW
        with closing(sqlite3.connect(tmp_path / "cofio.db")) as file:
            return texts(
                briefing.build_block(fallback._start_lines(file, hook_event, project, rule), briefing.START)[0]
            )

    return by_service if request.param == "service" else by_file


def texts(block: str) -> list[str]:
    return [line.partition("] ")[2] for line in block.splitlines() if line.startswith("- ")]


def add(keeper: Keeper, text: str, **fields: Any) -> int:
    return keeper.add(Fact(text=text, **{"project": WEB, **fields}), dedup=False).memory_id


def test_order_is_pinned_rules_due_dates_project_and_the_rest(keeper: Keeper, session_start: SessionStart) -> None:
    add(keeper, "A detail of all projects", project="")
    add(keeper, "A decision of all projects", project="", kind="decision")
    add(keeper, "A detail")
    add(keeper, "A lesson", kind="learning")
    add(keeper, "A decision", kind="decision", created_at="2020-01-01")
    add(keeper, "The audit is on 2026-11-10")
    add(keeper, "The freeze lasts two weeks", kind="temporal")
    add(keeper, "The user prefers tabs", kind="preference", project="")
    add(keeper, "Never push on Fridays", kind="policy", project=OPS, visibility="global")
    keeper.update(add(keeper, "Ask Mireille about refunds"), pinned=True)
    add(keeper, "A decision of another project", kind="decision", project=OPS)
    assert session_start() == [
        "Ask Mireille about refunds",
        "Never push on Fridays",
        "The user prefers tabs",
        "The audit is on 2026-11-10",
        "The freeze lasts two weeks",
        "A decision",
        "A lesson",
        "A detail",
        "A decision of all projects",
        "A detail of all projects",
    ]


def test_all_facts_of_a_small_project_are_shown(keeper: Keeper, session_start: SessionStart) -> None:
    for number in range(30):
        add(keeper, f"Fact number {number} of the web shop")
    assert len(session_start()) == 30


@pytest.mark.parametrize("budget", [200, 600, 1_200, 2_000])
def test_block_fills_its_token_budget(keeper: Keeper, budget: int) -> None:
    for number in range(150):
        add(keeper, f"Decision number {number} of the web shop concerns the layout of a page", kind="decision")
    keeper.services.recall.start_tokens = budget
    result = keeper.recall(project=WEB)
    assert budget - 40 <= result.tokens <= budget


def test_rules_and_due_dates_are_limited_to_their_share(keeper: Keeper, session_start: SessionStart) -> None:
    for number in range(80):
        add(keeper, f"Decision number {number} of the web shop concerns the layout", kind="decision")
        add(keeper, f"The user prefers colour number {number} for links", kind="preference", project="")
        add(keeper, f"Milestone number {number} is due on 2026-11-05 at noon")
    shown = session_start()
    rules, due = ([text for text in shown if word in text] for word in ("prefers", "Milestone"))
    assert 0 < sum(estimate_tokens(f"- [2026-11-02] {rule}\n") for rule in rules) <= 1_200 // 4
    assert 0 < sum(estimate_tokens(f"- [2026-11-02] {milestone}\n") for milestone in due) <= 1_200 // 6
    assert len(shown) > 2 * len(rules)


def test_new_decision_is_shown_first(keeper: Keeper, session_start: SessionStart) -> None:
    for number in range(80):
        old = add(keeper, f"Decision number {number} of the web shop", kind="decision", created_at="2026-06-01")
        keeper.services.shared.retrieval_log.import_recalls([("2026-07-01T10:00:00Z", "claude-code", [old] * 30)])
    add(keeper, "We moved to pnpm", kind="decision")
    assert session_start()[0] == "We moved to pnpm"


def test_retrievals_do_not_change_the_order(keeper: Keeper, session_start: SessionStart) -> None:
    ids = [add(keeper, f"Decision number {number}", kind="decision") for number in range(5)]
    first = session_start()
    keeper.services.shared.retrieval_log.import_recalls([("2026-10-31T10:00:00Z", "claude-code", ids[:1] * 20)])
    assert session_start() == first
    assert keeper.get(ids[-1]).retrieval_count == 0


def test_memories_learned_in_the_session_are_omitted(keeper: Keeper, session_start: SessionStart) -> None:
    add(keeper, "We moved to pnpm", source="claude-code/web", session="s1")
    add(keeper, "We moved to npm", source="codex/web", session="s1")
    add(keeper, "We moved to yarn", source="claude-code/web", session="s2")
    assert session_start(session="s1") == ["We moved to yarn", "We moved to npm"]


def test_archived_memories_are_not_shown(keeper: Keeper, session_start: SessionStart) -> None:
    keeper.supersede(add(keeper, "We deploy on Fridays", kind="decision"), "We deploy on Mondays")
    assert session_start() == ["We deploy on Mondays"]


# ── Selection ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def entry(number: int, text: str, **fields: Any) -> BriefingEntry:
    line = BriefingLine(
        number, text, at="2026-10-01", kind=fields.pop("kind", "other"), pinned=fields.pop("pinned", False)
    )
    return BriefingEntry(
        line, **{"category": "detail", "project": WEB, "visibility": "private", "occurrences": 1, **fields}
    )


@pytest.mark.parametrize(
    ("text", "kind", "day"),
    [
        ("due on 2026-11-02", "other", "2026-11-02"),
        ("due on 2026-11-16.", "other", "2026-11-16"),
        ("from 2026-11-20 or 2026-11-09 on", "other", "2026-11-09"),
        ("due on 2026-11-17", "other", ""),
        ("due on 2026-11-01", "other", ""),
        ("order 12026-11-05", "other", ""),
        ("due next week", "temporal", "9999"),
        ("due on 2027-01-01", "temporal", "9999"),
        ("was due on 2026-10-01", "temporal", ""),
    ],
)
def test_dates_within_fourteen_days_are_due(text: str, kind: str, day: str) -> None:
    assert entry(1, text, kind=kind).due("2026-11-02", "2026-11-16") == day


def test_due_dates_come_in_order() -> None:
    entries = [entry(1, "b 2026-11-12"), entry(2, "someday", kind="temporal"), entry(3, "a 2026-11-03")]
    lines = select_start(entries, "elsewhere", RULE, lambda candidate: candidate.line)
    assert [line.id for line in lines] == [3, 1, 2]


def test_omitted_memories_make_room_for_others() -> None:
    entries = [entry(number, f"fact {number}") for number in range(20)]
    rule = RULE._replace(most=4)
    lines = select_start(entries, WEB, rule, lambda candidate: None if candidate.line.id % 2 else candidate.line)
    assert [line.id for line in lines] == [18, 16, 14, 12]


def test_short_lines_fill_the_rest_after_a_long_one() -> None:
    entries = [
        entry(1, "x", occurrences=1),
        *(entry(number, f"{number} long word " * 200, pinned=True) for number in (2, 3)),
    ]
    lines = select_start(entries, WEB, RULE._replace(tokens=400), lambda candidate: candidate.line)
    assert [line.id for line in lines] == [3, 1]


def test_duplicate_texts_are_selected_once() -> None:
    lines = select_start(
        [entry(1, "We use PNPM"), entry(2, "we use  pnpm")], WEB, RULE, lambda candidate: candidate.line
    )
    assert [line.id for line in lines] == [2]


def test_service_and_hook_compute_the_same_date_window() -> None:
    assert recall.start_rule(1_200, NOW) == fallback._start_rule("1200", 1793613600.0) == RULE
    assert fallback._start_rule("", 0.0).tokens == fallback._start_rule("x", 0.0).tokens == briefing.START_TOKENS


@pytest.mark.parametrize("value", ["199", "2001", "many"])
def test_start_tokens_must_be_between_200_and_2000(value: str) -> None:
    with pytest.raises(Misconfigured, match="start_tokens"):
        Settings.load(environ={"COFIO_START_TOKENS": value})
    assert Settings.load(environ={"COFIO_START_TOKENS": "200"}).start_tokens == 200
