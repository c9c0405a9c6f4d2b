"""Backfill of transcripts: every turn is learned once, oldest first, and one undo reverts all of it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cofio.core import Keeper
from cofio.errors import Conflict, NotFound
from cofio.hooks.client_events import event
from cofio.models.exchange import Exchange, Message
from cofio.models.memory import Fact, Viewer
from cofio.server import backfill
from cofio.server.background.inbox_worker import InboxWorker
from cofio.server.session_handler import SessionHandler
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder, ScriptedLLM
from tests.judges import ValueJudge
from tests.server.transcript_files import unique, write_claude_transcript, write_codex_transcript

WEB = "/home/ann/web"
SAMPLES = Path(__file__).parents[1] / "acceptance" / "samples"
NOW = "2026-12-01T00:00:00Z"


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    clock = FixedClock(NOW)
    store = SqliteStore(tmp_path / "cofio.db", clock)
    with Keeper(store, HashEmbedder(), clock, judge=ValueJudge()) as opened:
        yield opened


@pytest.fixture
def homes(tmp_path: Path) -> dict[str, Path]:
    return {"claude-code": tmp_path / "claude", "codex": tmp_path / "codex"}


def take_survey(keeper: Keeper, homes: dict[str, Path]) -> backfill.Survey:
    paths, _ = backfill.find(homes)
    return backfill.survey(paths, partial(keeper.turns, any_key=True))


def run_backfill(keeper: Keeper, homes: dict[str, Path]) -> backfill.TurnSender:
    """Backfill all transcripts."""
    delivery = backfill.TurnSender(keeper, keeper.begin_backfill(), InboxWorker(keeper).drain)
    delivery.deliver(take_survey(keeper, homes).new)
    keeper.end_backfill(delivery.series)
    return delivery


def live_texts(keeper: Keeper) -> list[str]:
    return [memory.text for memory in keeper.list(limit=1000).memories]


# ── finding turns ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_turns_are_sorted_by_time_across_files(keeper: Keeper, homes: dict[str, Path]) -> None:
    write_claude_transcript(
        homes["claude-code"], "a", [("2026-03-03T00:00:00Z", "three"), ("2026-03-05T00:00:00Z", "five")]
    )
    write_claude_transcript(
        homes["claude-code"], "b", [("2026-03-01T00:00:00Z", "one"), ("2026-03-04T00:00:00Z", "four")]
    )
    write_codex_transcript(homes["codex"], "c", [("2026-03-02T00:00:00Z", "two")])
    assert [entry.prompt for entry in take_survey(keeper, homes).entries] == ["one", "two", "three", "four", "five"]


def test_missing_time_is_taken_from_neighbours_or_the_file(keeper: Keeper, homes: dict[str, Path]) -> None:
    write_claude_transcript(
        homes["claude-code"], "a", [("", "before"), ("2026-03-03T00:00:00Z", "dated"), ("", "after")]
    )
    bare = write_claude_transcript(homes["claude-code"], "b", [("", "bare")])
    os.utime(bare, (1_700_000_000, 1_700_000_000))
    dates = {entry.prompt: entry.at[:10] for entry in take_survey(keeper, homes).entries}
    assert dates == {"before": "2026-03-03", "dated": "2026-03-03", "after": "2026-03-03", "bare": "2023-11-14"}


def test_project_is_the_repository_of_the_working_folder(
    keeper: Keeper, homes: dict[str, Path], tmp_path: Path
) -> None:
    tree = tmp_path.resolve() / "web"
    for inner in ("objects", "refs"):
        (tree / ".git" / inner).mkdir(parents=True)
    (tree / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (tree / "src").mkdir()
    write_claude_transcript(homes["claude-code"], "a", [("", "in a subfolder")], cwd=str(tree / "src"))
    write_claude_transcript(
        homes["claude-code"], "b", [("", "in a worktree that is gone")], cwd=str(tree / ".worktrees" / "x")
    )
    write_codex_transcript(homes["codex"], "c", [("2026-03-01T00:00:00Z", "gone")], cwd="/gone/shop")
    write_codex_transcript(homes["codex"], "d", [("2026-03-01T00:00:00Z", "elsewhere")], cwd="C:\\work\\shop")
    results = {entry.prompt: entry.project for entry in take_survey(keeper, homes).entries}
    assert results == {
        "in a subfolder": str(tree),
        "in a worktree that is gone": str(tree),
        "gone": "/gone/shop",
        "elsewhere": "shop",
    }


def test_subagents_sidechains_and_cofio_sessions_are_skipped(keeper: Keeper, homes: dict[str, Path]) -> None:
    write_claude_transcript(homes["claude-code"], "a", [("", "We use tabs.")], isSidechain=True)
    write_claude_transcript(homes["claude-code"], "b", [("", "<cofio-request>\nWe use tabs.\n</cofio-request>")])
    write_codex_transcript(homes["codex"], "c", [("2026-03-01T00:00:00Z", "We use tabs.")], parent_thread_id="d")
    assert take_survey(keeper, homes).entries == ()


def test_archived_rollouts_are_read_and_compressed_ones_reported(homes: dict[str, Path]) -> None:
    archived = write_codex_transcript(homes["codex"], "c", [("2026-03-01T00:00:00Z", "We use tabs.")])
    target = homes["codex"] / "archived_sessions" / archived.name
    target.parent.mkdir()
    archived.rename(target)
    packed = archived.with_name("rollout-2026-old.jsonl.zst")
    packed.write_bytes(b"\x28\xb5\x2f\xfd")
    paths, skipped = backfill.find(homes)
    assert paths == [target]
    assert [path for path, _ in skipped] == [str(packed)]


def fork_transcript(path: Path, session: str) -> Path:
    """Copy a Claude Code transcript under another session id, as a fork does."""
    lines = [{**json.loads(line), "sessionId": session} for line in path.read_text().splitlines()]
    copy = path.with_name(f"{session}.jsonl")
    copy.write_text("".join(json.dumps(line) + "\n" for line in lines))
    os.utime(copy, (1_700_000_000, 1_700_000_000))
    return copy


def test_turn_copied_by_a_forked_session_counts_once(keeper: Keeper, homes: dict[str, Path]) -> None:
    fork_transcript(write_claude_transcript(homes["claude-code"], "a", [("2026-03-01T00:00:00Z", "We use tabs.")]), "b")
    assert [entry.session for entry in take_survey(keeper, homes).entries] == ["a"]


@pytest.mark.parametrize("captured", ["a", "m", "z"])
def test_turn_with_any_captured_copy_is_not_new(captured: str, keeper: Keeper, homes: dict[str, Path]) -> None:
    path = write_claude_transcript(
        homes["claude-code"], "m", [("2026-03-01T00:00:00Z", "We use tabs."), ("", "We deploy on Fridays.")]
    )
    fork_transcript(path, "a")
    fork_transcript(path, "z")
    keeper.capture("We use tabs.", wait=True, client="claude-code", session=captured, turn=unique("m", 0))
    survey = take_survey(keeper, homes)
    assert [(entry.prompt, entry.is_new) for entry in survey.entries] == [
        ("We use tabs.", False), ("We deploy on Fridays.", True),
    ]  # fmt: skip
    run_backfill(keeper, homes)
    assert keeper.inbox_status().captured == 2


def test_turn_captured_with_a_key_is_not_new(keeper: Keeper, homes: dict[str, Path]) -> None:
    write_claude_transcript(homes["claude-code"], "a", [("2026-03-01T00:00:00Z", "We use tabs.")])
    named = {"client": "claude-code", "session": "a", "turn": unique("a", 0)}
    keeper.as_viewer(Viewer(user="ada")).capture("We use tabs.", wait=True, **named)
    assert take_survey(keeper, homes).new == []


def test_last_turn_of_a_recently_written_transcript_is_left_for_a_later_run(
    keeper: Keeper, homes: dict[str, Path]
) -> None:
    path = write_claude_transcript(
        homes["claude-code"], "a", [("2026-03-01T00:00:00Z", "We use tabs."), ("", "We deploy on Fridays.")]
    )
    os.utime(path)
    assert [entry.prompt for entry in take_survey(keeper, homes).entries] == ["We use tabs."]
    assert run_backfill(keeper, homes).new == 1
    os.utime(path, (time.time() - 601,) * 2)
    assert run_backfill(keeper, homes).new == 1
    assert len(live_texts(keeper)) == 2


def test_secrets_are_redacted_before_prompts_are_truncated(keeper: Keeper, homes: dict[str, Path]) -> None:
    secret = "ghp_" + "aB3dE5fG7h" * 4
    write_claude_transcript(homes["claude-code"], "a", [("2026-03-01T00:00:00Z", "x " * 45 + f"{secret} is the token")])
    [entry] = take_survey(keeper, homes).entries
    assert "ghp_" not in entry.prompt
    assert "[redacted" in entry.prompt


def test_symbolic_links_inside_the_homes_are_not_followed(
    keeper: Keeper, homes: dict[str, Path], tmp_path: Path
) -> None:
    other = write_claude_transcript(tmp_path / "elsewhere", "b", [("2026-03-01T00:00:00Z", "Not mine.")])
    rollout = write_codex_transcript(tmp_path / "elsewhere", "c", [("2026-03-01T00:00:00Z", "Not mine either.")])
    own = write_claude_transcript(homes["claude-code"], "a", [("2026-03-01T00:00:00Z", "We use tabs.")])
    own.with_name("link.jsonl").symlink_to(other)
    own.parent.with_name("linked").symlink_to(other.parent)
    (homes["codex"] / "sessions").mkdir(parents=True)
    (homes["codex"] / "sessions" / "2026").symlink_to(rollout.parents[2])
    home = tmp_path / "dotfiles"
    homes["claude-code"].rename(home)
    homes["claude-code"].symlink_to(home)  # the home itself may be a link
    assert [entry.prompt for entry in take_survey(keeper, homes).entries] == ["We use tabs."]


def test_file_changed_after_the_survey_is_reported(keeper: Keeper, homes: dict[str, Path]) -> None:
    path = write_claude_transcript(homes["claude-code"], "a", [("2026-03-01T00:00:00Z", "We use tabs.")])
    entries = take_survey(keeper, homes).new
    other = write_claude_transcript(homes["claude-code"], "b", [("2026-03-01T00:00:00Z", "We use spaces.")])
    other.rename(path)
    delivery = backfill.TurnSender(keeper, keeper.begin_backfill(), InboxWorker(keeper).drain)
    delivery.deliver(entries)
    assert delivery.skipped == [(f"{path}: turn 1", "The file has changed meanwhile. Run the backfill again.")]
    assert keeper.inbox_status().captured == 0


def test_survey_is_filtered_by_client_project_date_and_limit(keeper: Keeper, homes: dict[str, Path]) -> None:
    write_claude_transcript(
        homes["claude-code"], "a", [("2026-03-01T00:00:00Z", "one"), ("2026-03-02T00:00:00Z", "two")]
    )
    write_codex_transcript(homes["codex"], "b", [("2026-03-03T00:00:00Z", "three")])
    survey = take_survey(keeper, homes)

    def prompts(**filters: Any) -> list[str]:
        return [entry.prompt for entry in survey.within(**filters).new]

    assert prompts(client="codex") == ["three"]
    assert prompts(project_="/home/ann/web") == prompts(project_="web") == ["one", "two"]
    assert prompts(since="2026-03-02") == ["two", "three"]
    assert prompts(limit=2) == ["one", "two"]


# ── learning ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_later_fact_replaces_earlier_one_independent_of_file_names(keeper: Keeper, homes: dict[str, Path]) -> None:
    write_claude_transcript(homes["claude-code"], "a", [("2026-03-09T00:00:00Z", "The API listens on port 5000.")])
    write_claude_transcript(homes["claude-code"], "z", [("2026-03-01T00:00:00Z", "The API listens on port 4000.")])
    run_backfill(keeper, homes)
    [memory] = keeper.list().memories
    assert "5000" in memory.text
    assert memory.created_at.startswith("2026-03-09")
    assert memory.supersedes is not None
    assert keeper.get(memory.supersedes).created_at.startswith("2026-03-01")


def test_old_fact_does_not_replace_newer_live_fact(keeper: Keeper, homes: dict[str, Path]) -> None:
    keeper.capture("The API listens on port 5000.", wait=True, project=WEB, source="claude-code/web")
    write_claude_transcript(homes["claude-code"], "z", [("2026-03-01T00:00:00Z", "The API listens on port 4000.")])
    run_backfill(keeper, homes)
    assert "5000" in "".join(live_texts(keeper))
    assert not any("4000" in text for text in live_texts(keeper))


@pytest.mark.parametrize("client", ["claude-code", "codex"])
def test_turns_captured_by_hooks_are_not_learned_again(
    client: str, keeper: Keeper, homes: dict[str, Path], tmp_path: Path
) -> None:
    target = homes[client] / ("projects/web/s.jsonl" if client == "claude-code" else "sessions/rollout-s.jsonl")
    target.parent.mkdir(parents=True)
    target.write_bytes((SAMPLES / client / "session.jsonl").read_bytes())
    os.utime(target, (1_700_000_000, 1_700_000_000))
    sessions = SessionHandler(keeper, tmp_path)
    for line in (SAMPLES / client / "hooks.jsonl").read_text().splitlines():
        sessions.handle(event(client, line.encode()), WEB, local=False)
    sessions.close()
    InboxWorker(keeper).drain()
    before, told = keeper.inbox_status().captured, live_texts(keeper)
    assert told
    survey = take_survey(keeper, homes)
    assert len(survey.entries) >= 2
    assert survey.new == []
    run_backfill(keeper, homes)
    assert keeper.inbox_status().captured == before
    assert live_texts(keeper) == told


def test_second_backfill_adds_nothing(keeper: Keeper, homes: dict[str, Path]) -> None:
    write_claude_transcript(
        homes["claude-code"], "a", [("2026-03-01T00:00:00Z", "We use tabs."), ("", "We deploy on Fridays.")]
    )
    assert run_backfill(keeper, homes).new == 2
    assert run_backfill(keeper, homes).new == 0
    assert len(live_texts(keeper)) == 2


def test_backfilled_capture_has_the_fields_of_a_hook_capture(keeper: Keeper, homes: dict[str, Path]) -> None:
    write_claude_transcript(homes["claude-code"], "a", [("2026-03-01T00:00:00Z", "We use tabs.")])
    result = run_backfill(keeper, homes)
    [item] = keeper.items()
    assert item.exchange
    assert (item.exchange.client, item.exchange.session, item.exchange.turn) == ("claude-code", "a", unique("a", 0))
    assert (item.exchange.source, item.exchange.project) == ("claude-code/web", WEB)
    assert item.exchange.series == result.series


def test_live_captures_are_due_before_backfilled_ones(keeper: Keeper, homes: dict[str, Path]) -> None:
    series = keeper.begin_backfill()
    for number in range(3):
        keeper.capture(f"Old {number}.", client="c", session="s", turn=str(number), series=series)
    keeper.capture("New.", client="c", session="t", turn="1")
    assert [item.exchange.messages[0].text for item in keeper.services.captures.due() if item.exchange] == [
        "New.", "Old 0.", "Old 1.", "Old 2.",
    ]  # fmt: skip


def test_live_capture_is_processed_between_backfilled_ones(keeper: Keeper) -> None:
    series = keeper.begin_backfill()
    for number in range(3):
        keeper.capture(f"Number {number} is old.", client="c", session="s", turn=str(number), series=series)
    worker = InboxWorker(keeper)
    order: list[str] = []

    def told(_: Any) -> None:
        newest = [item for item in keeper.items() if item.state != "pending"]
        order.append(max(newest, key=lambda item: item.finished_at or "").exchange.messages[0].text)  # type: ignore
        if len(order) == 1:
            keeper.capture("The new one is here.", client="c", session="t", turn="1")
            worker.wake()

    keeper.on_learned(told)
    assert worker.drain() == 4
    assert order[0].startswith("Number 0")
    assert order[1].startswith("The new one")


# ── undo ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_undo_reverts_the_whole_backfill_and_nothing_else(keeper: Keeper, homes: dict[str, Path]) -> None:
    keeper.capture("The build needs Bazel.", wait=True, client="c", session="live", turn="1")
    write_claude_transcript(
        homes["claude-code"], "a", [("2026-03-01T00:00:00Z", "We use tabs."), ("", "We deploy on Fridays.")]
    )
    write_codex_transcript(homes["codex"], "b", [("2026-03-02T00:00:00Z", "The API listens on port 4000.")])
    result = run_backfill(keeper, homes)
    keeper.capture("The docs live in Notion.", wait=True, client="c", session="live", turn="2")
    assert len(live_texts(keeper)) == 5
    undo = keeper.undo(result.series)
    assert sorted(live_texts(keeper)) == ["The build needs Bazel", "The docs live in Notion"]
    keeper.undo(undo.id)
    assert len(live_texts(keeper)) == 5


def test_undo_keeps_later_live_facts(keeper: Keeper, homes: dict[str, Path]) -> None:
    write_claude_transcript(
        homes["claude-code"], "a", [("2026-03-01T00:00:00Z", "We use tabs."), ("", "Tests run on port 4000.")]
    )
    result = run_backfill(keeper, homes)
    keeper.capture("Tests run on port 5000.", wait=True, project=WEB, source="claude-code/web")
    keeper.undo(result.series)
    assert live_texts(keeper) == ["Tests run on port 5000"]
    with pytest.raises(Conflict):
        keeper.undo(result.series)


def test_notes_and_turns_share_one_series(keeper: Keeper, homes: dict[str, Path], tmp_path: Path) -> None:
    from cofio.transfer.importer import ImportResult

    write_claude_transcript(homes["claude-code"], "a", [("2026-03-01T00:00:00Z", "We use tabs.")])
    (homes["claude-code"] / "CLAUDE.md").write_text("# Rules\n\nWe write commit messages in English.\n")
    series = keeper.begin_backfill()
    backfill.TurnSender(keeper, series, InboxWorker(keeper).drain).deliver(take_survey(keeper, homes).new)
    facts = list(backfill.note_facts(homes, []))
    assert keeper.import_facts(facts, name="notes", done=ImportResult(first=series)).added == 1
    assert len(live_texts(keeper)) == 2
    keeper.undo(series)
    assert live_texts(keeper) == []


def test_unfinished_backfill_is_resumed_in_its_series(keeper: Keeper) -> None:
    first = keeper.begin_backfill()
    assert keeper.begin_backfill() == first
    keeper.end_backfill(first)
    second = keeper.begin_backfill()
    assert second != first
    keeper.capture("We use tabs.", wait=True, series=second)
    keeper.undo(second)
    assert keeper.begin_backfill() not in (first, second)


def test_unknown_series_is_rejected(keeper: Keeper) -> None:
    with pytest.raises(NotFound):
        keeper.capture("We use tabs.", series=99)


def test_turn_also_captured_live_is_not_part_of_the_series(keeper: Keeper) -> None:
    series = keeper.begin_backfill()
    named = {"client": "c", "session": "s", "turn": "1"}
    keeper.capture("We use tabs.", series=series, **named)
    keeper.amend([{"role": "user", "content": "We use tabs."}, {"role": "assistant", "content": "Noted."}], **named)
    [item] = keeper.services.captures.due()
    assert item.exchange == Exchange(
        messages=(Message("user", "We use tabs."), Message("assistant", "Noted.")), at=item.exchange.at, **named
    )  # type: ignore


# ── notes ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_note_sections_become_facts_of_their_project(homes: dict[str, Path], tmp_path: Path) -> None:
    tree = tmp_path / "web"
    tree.mkdir()
    (tree / "CLAUDE.md").write_text("# Build\n\nThe build needs Bazel 7 here.\n\n# Deploy\n\nWe deploy on Fridays.\n")
    (tree / "AGENTS.md").symlink_to(tree / "CLAUDE.md")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "CLAUDE.md").write_text("# Shared\n\nThis stands in a folder elsewhere.\n")
    (tree / ".claude").symlink_to(tmp_path / "shared")
    memory = homes["claude-code"] / "projects" / "-gone-shop" / "memory"
    memory.mkdir(parents=True)
    (memory / "MEMORY.md").write_text("- The shop sells tea and coffee.\n")
    (homes["codex"] / "memories").mkdir(parents=True)
    (homes["codex"] / "memories" / "MEMORY.md").write_text("# Style\n\nAnn wants short answers everywhere.\n")
    (homes["codex"] / "memories" / "raw_memories.md").write_text("# Raw\n\nNot condensed yet, so left out.\n")
    facts = [fact for fact in backfill.note_facts(homes, [str(tree), str(tree)]) if isinstance(fact, Fact)]
    assert {(fact.text, fact.source, fact.project) for fact in facts} == {
        ("The build needs Bazel 7 here.", "file:web/CLAUDE.md", str(tree)),
        ("Deploy: We deploy on Fridays.", "file:web/CLAUDE.md", str(tree)),
        ("The shop sells tea and coffee.", "file:-gone-shop/memory/MEMORY.md", "-gone-shop"),
        ("Ann wants short answers everywhere.", "file:codex/memories/MEMORY.md", ""),
    }
    assert len(facts) == 4


def test_notes_read_again_add_nothing(keeper: Keeper, homes: dict[str, Path]) -> None:
    homes["claude-code"].mkdir()
    page = homes["claude-code"] / "CLAUDE.md"
    page.write_text("# Build\n\nThe build needs Bazel 7 here.\n")
    assert keeper.import_facts(backfill.note_facts(homes, []), name="notes").added == 1
    page.write_text(page.read_text() + "\n# Deploy\n\nWe deploy on Fridays.\n")
    assert keeper.import_facts(backfill.note_facts(homes, []), name="notes").added == 1
    assert keeper.import_facts(backfill.note_facts(homes, []), name="notes").added == 0


# ── estimates ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_estimate_spreads_calls_over_days_by_the_daily_limit(keeper: Keeper, homes: dict[str, Path]) -> None:
    write_claude_transcript(
        homes["claude-code"], "a", [("2026-03-01T00:00:00Z", f"Number {index}.") for index in range(25)]
    )
    entries = take_survey(keeper, homes).new
    model = {"enabled": True, "provider": "anthropic"}
    result = backfill.estimate(entries, model, (10, 0))
    assert (result.provider, result.calls, result.days) == ("anthropic", 25, 3)
    assert result.tokens > 25 * 100  # includes the instructions
    assert backfill.estimate(entries, model, (0, result.tokens // 2)).days == 3
    assert backfill.estimate(entries, model).days == 0
    deciding = backfill.estimate(entries, {**model, "audn": True}, (10, 0))
    assert (deciding.calls, deciding.days) == (50, 5)
    assert deciding.tokens > result.tokens
    assert (
        backfill.estimate(entries, {**model, "audn": False, "audn_known": False}).calls == 50
    )  # includes the decision call
    assert backfill.estimate(entries, {"enabled": False}).calls == 0


def test_estimate_is_an_upper_bound_per_turn(tmp_path: Path, homes: dict[str, Path]) -> None:
    texts = [f"We deploy the API to region {index} of Fly.io." for index in range(5)]
    write_claude_transcript(
        homes["claude-code"], "a", [("2026-03-01T00:00:00Z", f"{item} {'And so on. ' * 200}") for item in texts]
    )
    results = [json.dumps({"facts": [{"text": item}]}) for item in texts]
    decided = json.dumps({"decisions": [{"fact": "f1", "action": "ADD", "memory": None, "text": None}]})
    llm = ScriptedLLM([results[0], *(reply for item in results[1:] for reply in (item, decided))])
    clock = FixedClock(NOW)
    store = SqliteStore(tmp_path / "cofio.db", clock)
    with Keeper(store, HashEmbedder(), clock, llm=llm, judge=ValueJudge()) as keeper:
        result = backfill.estimate(take_survey(keeper, homes).new, keeper.extraction())
        run_backfill(keeper, homes)
    assert len(texts) < len(llm.calls) <= result.calls
    assert result.tokens / 4 < sum(len(system) + len(user) for system, user, _ in llm.calls) / 4 <= result.tokens
