"""Backfilling: turns on disk are learned from once each, oldest first, and all of it is undone at once."""

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
from tests.server.transcript_files import claude, codex, unique

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


def surveyed(keeper: Keeper, homes: dict[str, Path]) -> backfill.Survey:
    paths, _ = backfill.find(homes)
    return backfill.survey(paths, partial(keeper.turns, any_key=True))


def filled(keeper: Keeper, homes: dict[str, Path]) -> backfill.TurnSender:
    """Backfill all there is."""
    delivery = backfill.TurnSender(keeper, keeper.begin_backfill(), InboxWorker(keeper).drain)
    delivery.deliver(surveyed(keeper, homes).new)
    keeper.end_backfill(delivery.series)
    return delivery


def live(keeper: Keeper) -> list[str]:
    return [memory.text for memory in keeper.list(limit=1000).memories]


# ── what is on disk ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_turns_come_in_the_order_in_which_they_were_said_across_files(keeper: Keeper, homes: dict[str, Path]) -> None:
    claude(homes["claude-code"], "a", [("2026-03-03T00:00:00Z", "three"), ("2026-03-05T00:00:00Z", "five")])
    claude(homes["claude-code"], "b", [("2026-03-01T00:00:00Z", "one"), ("2026-03-04T00:00:00Z", "four")])
    codex(homes["codex"], "c", [("2026-03-02T00:00:00Z", "two")])
    assert [entry.prompt for entry in surveyed(keeper, homes).entries] == ["one", "two", "three", "four", "five"]


def test_a_turn_without_a_time_has_that_of_its_neighbour_or_of_the_file(keeper: Keeper, homes: dict[str, Path]) -> None:
    claude(homes["claude-code"], "a", [("", "before"), ("2026-03-03T00:00:00Z", "dated"), ("", "after")])
    bare = claude(homes["claude-code"], "b", [("", "bare")])
    os.utime(bare, (1_700_000_000, 1_700_000_000))
    dates = {entry.prompt: entry.at[:10] for entry in surveyed(keeper, homes).entries}
    assert dates == {"before": "2026-03-03", "dated": "2026-03-03", "after": "2026-03-03", "bare": "2023-11-14"}


def test_the_project_is_that_of_the_working_folder_as_hooks_name_it(
    keeper: Keeper, homes: dict[str, Path], tmp_path: Path
) -> None:
    tree = tmp_path.resolve() / "web"
    for inner in ("objects", "refs"):
        (tree / ".git" / inner).mkdir(parents=True)
    (tree / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (tree / "src").mkdir()
    claude(homes["claude-code"], "a", [("", "in a subfolder")], cwd=str(tree / "src"))
    claude(homes["claude-code"], "b", [("", "in a worktree that is gone")], cwd=str(tree / ".worktrees" / "x"))
    codex(homes["codex"], "c", [("2026-03-01T00:00:00Z", "gone")], cwd="/gone/shop")
    codex(homes["codex"], "d", [("2026-03-01T00:00:00Z", "elsewhere")], cwd="C:\\work\\shop")
    found = {entry.prompt: entry.project for entry in surveyed(keeper, homes).entries}
    assert found == {
        "in a subfolder": str(tree),
        "in a worktree that is gone": str(tree),
        "gone": "/gone/shop",
        "elsewhere": "shop",
    }


def test_subagents_sidechains_and_sessions_of_cofio_are_left_out(keeper: Keeper, homes: dict[str, Path]) -> None:
    claude(homes["claude-code"], "a", [("", "We use tabs.")], isSidechain=True)
    claude(homes["claude-code"], "b", [("", "<cofio-request>\nWe use tabs.\n</cofio-request>")])
    codex(homes["codex"], "c", [("2026-03-01T00:00:00Z", "We use tabs.")], parent_thread_id="d")
    assert surveyed(keeper, homes).entries == ()


def test_archived_rollouts_are_found_and_compressed_ones_told(homes: dict[str, Path]) -> None:
    archived = codex(homes["codex"], "c", [("2026-03-01T00:00:00Z", "We use tabs.")])
    target = homes["codex"] / "archived_sessions" / archived.name
    target.parent.mkdir()
    archived.rename(target)
    packed = archived.with_name("rollout-2026-old.jsonl.zst")
    packed.write_bytes(b"\x28\xb5\x2f\xfd")
    paths, skipped = backfill.find(homes)
    assert paths == [target]
    assert [path for path, _ in skipped] == [str(packed)]


def fork(path: Path, session: str) -> Path:
    """Copy a transcript of Claude Code under another session, as a fork does."""
    lines = [{**json.loads(line), "sessionId": session} for line in path.read_text().splitlines()]
    copy = path.with_name(f"{session}.jsonl")
    copy.write_text("".join(json.dumps(line) + "\n" for line in lines))
    os.utime(copy, (1_700_000_000, 1_700_000_000))
    return copy


def test_a_turn_that_a_forked_session_copied_counts_once(keeper: Keeper, homes: dict[str, Path]) -> None:
    fork(claude(homes["claude-code"], "a", [("2026-03-01T00:00:00Z", "We use tabs.")]), "b")
    assert [entry.session for entry in surveyed(keeper, homes).entries] == ["a"]


@pytest.mark.parametrize("captured", ["a", "m", "z"])
def test_a_turn_of_which_any_copy_was_captured_is_not_new(
    captured: str, keeper: Keeper, homes: dict[str, Path]
) -> None:
    path = claude(homes["claude-code"], "m", [("2026-03-01T00:00:00Z", "We use tabs."), ("", "We deploy on Fridays.")])
    fork(path, "a")
    fork(path, "z")
    keeper.capture("We use tabs.", wait=True, client="claude-code", session=captured, turn=unique("m", 0))
    survey = surveyed(keeper, homes)
    assert [(entry.prompt, entry.is_new) for entry in survey.entries] == [
        ("We use tabs.", False), ("We deploy on Fridays.", True),
    ]  # fmt: skip
    filled(keeper, homes)
    assert keeper.inbox_status().captured == 2


def test_what_was_captured_with_a_key_is_not_learned_again(keeper: Keeper, homes: dict[str, Path]) -> None:
    claude(homes["claude-code"], "a", [("2026-03-01T00:00:00Z", "We use tabs.")])
    named = {"client": "claude-code", "session": "a", "turn": unique("a", 0)}
    keeper.as_viewer(Viewer(user="ada")).capture("We use tabs.", wait=True, **named)
    assert surveyed(keeper, homes).new == []


def test_the_last_turn_of_a_transcript_that_was_just_written_waits_for_a_later_run(
    keeper: Keeper, homes: dict[str, Path]
) -> None:
    path = claude(homes["claude-code"], "a", [("2026-03-01T00:00:00Z", "We use tabs."), ("", "We deploy on Fridays.")])
    os.utime(path)
    assert [entry.prompt for entry in surveyed(keeper, homes).entries] == ["We use tabs."]
    assert filled(keeper, homes).new == 1
    os.utime(path, (time.time() - 601,) * 2)
    assert filled(keeper, homes).new == 1
    assert len(live(keeper)) == 2


def test_secrets_are_redacted_before_a_prompt_is_cut(keeper: Keeper, homes: dict[str, Path]) -> None:
    secret = "ghp_" + "aB3dE5fG7h" * 4
    claude(homes["claude-code"], "a", [("2026-03-01T00:00:00Z", "x " * 45 + f"{secret} is the token")])
    [entry] = surveyed(keeper, homes).entries
    assert "ghp_" not in entry.prompt
    assert "[redacted" in entry.prompt


def test_links_to_files_and_folders_elsewhere_are_left_out(
    keeper: Keeper, homes: dict[str, Path], tmp_path: Path
) -> None:
    elsewhere = claude(tmp_path / "elsewhere", "b", [("2026-03-01T00:00:00Z", "Not mine.")])
    rollout = codex(tmp_path / "elsewhere", "c", [("2026-03-01T00:00:00Z", "Not mine either.")])
    own = claude(homes["claude-code"], "a", [("2026-03-01T00:00:00Z", "We use tabs.")])
    own.with_name("link.jsonl").symlink_to(elsewhere)
    own.parent.with_name("linked").symlink_to(elsewhere.parent)
    (homes["codex"] / "sessions").mkdir(parents=True)
    (homes["codex"] / "sessions" / "2026").symlink_to(rollout.parents[2])
    home = tmp_path / "dotfiles"
    homes["claude-code"].rename(home)
    homes["claude-code"].symlink_to(home)  # the home itself may be one
    assert [entry.prompt for entry in surveyed(keeper, homes).entries] == ["We use tabs."]


def test_a_file_that_has_changed_since_it_was_read_is_told(keeper: Keeper, homes: dict[str, Path]) -> None:
    path = claude(homes["claude-code"], "a", [("2026-03-01T00:00:00Z", "We use tabs.")])
    entries = surveyed(keeper, homes).new
    other = claude(homes["claude-code"], "b", [("2026-03-01T00:00:00Z", "We use spaces.")])
    other.rename(path)
    delivery = backfill.TurnSender(keeper, keeper.begin_backfill(), InboxWorker(keeper).drain)
    delivery.deliver(entries)
    assert delivery.skipped == [(f"{path}: turn 1", "The file has changed meanwhile. Run the backfill again.")]
    assert keeper.inbox_status().captured == 0


def test_a_survey_is_narrowed_by_client_project_date_and_number(keeper: Keeper, homes: dict[str, Path]) -> None:
    claude(homes["claude-code"], "a", [("2026-03-01T00:00:00Z", "one"), ("2026-03-02T00:00:00Z", "two")])
    codex(homes["codex"], "b", [("2026-03-03T00:00:00Z", "three")])
    survey = surveyed(keeper, homes)

    def prompts(**how: Any) -> list[str]:
        return [entry.prompt for entry in survey.within(**how).new]

    assert prompts(client="codex") == ["three"]
    assert prompts(project_="/home/ann/web") == prompts(project_="web") == ["one", "two"]
    assert prompts(since="2026-03-02") == ["two", "three"]
    assert prompts(limit=2) == ["one", "two"]


# ── learning ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_later_fact_corrects_an_earlier_one_whatever_its_file_is_called(
    keeper: Keeper, homes: dict[str, Path]
) -> None:
    claude(homes["claude-code"], "a", [("2026-03-09T00:00:00Z", "The API listens on port 5000.")])
    claude(homes["claude-code"], "z", [("2026-03-01T00:00:00Z", "The API listens on port 4000.")])
    filled(keeper, homes)
    [memory] = keeper.list().memories
    assert "5000" in memory.text
    assert memory.created_at.startswith("2026-03-09")
    assert memory.supersedes is not None
    assert keeper.get(memory.supersedes).created_at.startswith("2026-03-01")


def test_an_old_fact_does_not_correct_what_was_said_live_since(keeper: Keeper, homes: dict[str, Path]) -> None:
    keeper.capture("The API listens on port 5000.", wait=True, project=WEB, source="claude-code/web")
    claude(homes["claude-code"], "z", [("2026-03-01T00:00:00Z", "The API listens on port 4000.")])
    filled(keeper, homes)
    assert "5000" in "".join(live(keeper))
    assert not any("4000" in text for text in live(keeper))


@pytest.mark.parametrize("client", ["claude-code", "codex"])
def test_what_hooks_captured_of_a_session_is_not_learned_again(
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
    before, told = keeper.inbox_status().captured, live(keeper)
    assert told
    survey = surveyed(keeper, homes)
    assert len(survey.entries) >= 2
    assert survey.new == []
    filled(keeper, homes)
    assert keeper.inbox_status().captured == before
    assert live(keeper) == told


def test_a_second_backfill_adds_nothing(keeper: Keeper, homes: dict[str, Path]) -> None:
    claude(homes["claude-code"], "a", [("2026-03-01T00:00:00Z", "We use tabs."), ("", "We deploy on Fridays.")])
    assert filled(keeper, homes).new == 2
    assert filled(keeper, homes).new == 0
    assert len(live(keeper)) == 2


def test_a_capture_is_named_and_placed_as_hooks_do(keeper: Keeper, homes: dict[str, Path]) -> None:
    claude(homes["claude-code"], "a", [("2026-03-01T00:00:00Z", "We use tabs.")])
    done = filled(keeper, homes)
    [item] = keeper.items()
    assert item.exchange
    assert (item.exchange.client, item.exchange.session, item.exchange.turn) == ("claude-code", "a", unique("a", 0))
    assert (item.exchange.source, item.exchange.project) == ("claude-code/web", WEB)
    assert item.exchange.series == done.series


def test_what_is_captured_live_is_learned_from_first(keeper: Keeper, homes: dict[str, Path]) -> None:
    series = keeper.begin_backfill()
    for number in range(3):
        keeper.capture(f"Old {number}.", client="c", session="s", turn=str(number), series=series)
    keeper.capture("New.", client="c", session="t", turn="1")
    assert [item.exchange.messages[0].text for item in keeper.services.captures.due() if item.exchange] == [
        "New.", "Old 0.", "Old 1.", "Old 2.",
    ]  # fmt: skip


def test_a_live_capture_interrupts_the_worker_between_backfilled_ones(keeper: Keeper) -> None:
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


# ── undoing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_undo_takes_a_backfill_back_and_nothing_else(keeper: Keeper, homes: dict[str, Path]) -> None:
    keeper.capture("The build needs Bazel.", wait=True, client="c", session="live", turn="1")
    claude(homes["claude-code"], "a", [("2026-03-01T00:00:00Z", "We use tabs."), ("", "We deploy on Fridays.")])
    codex(homes["codex"], "b", [("2026-03-02T00:00:00Z", "The API listens on port 4000.")])
    done = filled(keeper, homes)
    keeper.capture("The docs live in Notion.", wait=True, client="c", session="live", turn="2")
    assert len(live(keeper)) == 5
    undone = keeper.undo(done.series)
    assert sorted(live(keeper)) == ["The build needs Bazel", "The docs live in Notion"]
    keeper.undo(undone.id)
    assert len(live(keeper)) == 5


def test_an_undo_leaves_what_was_said_live_since(keeper: Keeper, homes: dict[str, Path]) -> None:
    claude(homes["claude-code"], "a", [("2026-03-01T00:00:00Z", "We use tabs."), ("", "Tests run on port 4000.")])
    done = filled(keeper, homes)
    keeper.capture("Tests run on port 5000.", wait=True, project=WEB, source="claude-code/web")
    keeper.undo(done.series)
    assert live(keeper) == ["Tests run on port 5000"]
    with pytest.raises(Conflict):
        keeper.undo(done.series)


def test_notes_and_turns_are_one_series(keeper: Keeper, homes: dict[str, Path], tmp_path: Path) -> None:
    from cofio.transfer.importer import ImportResult

    claude(homes["claude-code"], "a", [("2026-03-01T00:00:00Z", "We use tabs.")])
    (homes["claude-code"] / "CLAUDE.md").write_text("# Rules\n\nWe write commit messages in English.\n")
    series = keeper.begin_backfill()
    backfill.TurnSender(keeper, series, InboxWorker(keeper).drain).deliver(surveyed(keeper, homes).new)
    facts = list(backfill.note_facts(homes, []))
    assert keeper.import_facts(facts, name="notes", done=ImportResult(first=series)).added == 1
    assert len(live(keeper)) == 2
    keeper.undo(series)
    assert live(keeper) == []


def test_a_backfill_that_did_not_end_is_resumed_in_its_series(keeper: Keeper) -> None:
    first = keeper.begin_backfill()
    assert keeper.begin_backfill() == first
    keeper.end_backfill(first)
    second = keeper.begin_backfill()
    assert second != first
    keeper.capture("We use tabs.", wait=True, series=second)
    keeper.undo(second)
    assert keeper.begin_backfill() not in (first, second)


def test_a_series_that_is_not_there_is_refused(keeper: Keeper) -> None:
    with pytest.raises(NotFound):
        keeper.capture("We use tabs.", series=99)


def test_a_turn_that_is_told_live_too_is_no_backfills_to_undo(keeper: Keeper) -> None:
    series = keeper.begin_backfill()
    named = {"client": "c", "session": "s", "turn": "1"}
    keeper.capture("We use tabs.", series=series, **named)
    keeper.amend([{"role": "user", "content": "We use tabs."}, {"role": "assistant", "content": "Noted."}], **named)
    [item] = keeper.services.captures.due()
    assert item.exchange == Exchange(
        messages=(Message("user", "We use tabs."), Message("assistant", "Noted.")), at=item.exchange.at, **named
    )  # type: ignore


# ── notes ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_sections_of_notes_are_facts_of_their_project_with_their_file(homes: dict[str, Path], tmp_path: Path) -> None:
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


def test_notes_that_are_read_again_add_nothing(keeper: Keeper, homes: dict[str, Path]) -> None:
    homes["claude-code"].mkdir()
    page = homes["claude-code"] / "CLAUDE.md"
    page.write_text("# Build\n\nThe build needs Bazel 7 here.\n")
    assert keeper.import_facts(backfill.note_facts(homes, []), name="notes").added == 1
    page.write_text(page.read_text() + "\n# Deploy\n\nWe deploy on Fridays.\n")
    assert keeper.import_facts(backfill.note_facts(homes, []), name="notes").added == 1
    assert keeper.import_facts(backfill.note_facts(homes, []), name="notes").added == 0


# ── what it will take ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_daily_limits_spread_the_calls_over_days(keeper: Keeper, homes: dict[str, Path]) -> None:
    claude(homes["claude-code"], "a", [("2026-03-01T00:00:00Z", f"Number {each}.") for each in range(25)])
    entries = surveyed(keeper, homes).new
    model = {"enabled": True, "provider": "anthropic"}
    told = backfill.estimate(entries, model, (10, 0))
    assert (told.provider, told.calls, told.days) == ("anthropic", 25, 3)
    assert told.tokens > 25 * 100  # the instructions are counted
    assert backfill.estimate(entries, model, (0, told.tokens // 2)).days == 3
    assert backfill.estimate(entries, model).days == 0
    deciding = backfill.estimate(entries, {**model, "audn": True}, (10, 0))
    assert (deciding.calls, deciding.days) == (50, 5)
    assert deciding.tokens > told.tokens
    assert backfill.estimate(entries, {**model, "audn": False, "audn_known": False}).calls == 50  # it may decide
    assert backfill.estimate(entries, {"enabled": False}).calls == 0


def test_no_turn_takes_more_than_is_estimated(tmp_path: Path, homes: dict[str, Path]) -> None:
    said = [f"We deploy the API to region {each} of Fly.io." for each in range(5)]
    claude(homes["claude-code"], "a", [("2026-03-01T00:00:00Z", f"{each} {'And so on. ' * 200}") for each in said])
    found = [json.dumps({"facts": [{"text": each}]}) for each in said]
    decided = json.dumps({"decisions": [{"fact": "f1", "action": "ADD", "memory": None, "text": None}]})
    llm = ScriptedLLM([found[0], *(reply for each in found[1:] for reply in (each, decided))])
    clock = FixedClock(NOW)
    store = SqliteStore(tmp_path / "cofio.db", clock)
    with Keeper(store, HashEmbedder(), clock, llm=llm, judge=ValueJudge()) as keeper:
        told = backfill.estimate(surveyed(keeper, homes).new, keeper.extraction())
        filled(keeper, homes)
    assert len(said) < len(llm.calls) <= told.calls
    assert told.tokens / 4 < sum(len(system) + len(user) for system, user, _ in llm.calls) / 4 <= told.tokens
