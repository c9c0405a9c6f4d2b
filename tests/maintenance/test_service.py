"""Maintenance chores end to end: dry run, one changeset, exact undo, single execution."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cofio.core import Keeper
from cofio.errors import Conflict, InvalidInput, Unavailable
from cofio.maintenance.service import MaintenanceOptions
from cofio.models.memory import Add, Edit, Fact, Merge
from cofio.ports import LLM, Completion
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder, ScriptedLLM
from cofio.transfer import export

DAY = 86_400.0
CLUSTER = (
    "The nightly backup of the billing database runs at 02:00",
    "The nightly backup of the billing database is kept for 30 days",
    "The nightly backup of the billing database never includes the audit table",
)
MERGED = (
    "The nightly backup of the billing database runs at 02:00, is kept for 30 days and never includes the audit table."
)
ASKED = "when does the nightly backup of the billing database run?"


class Backend:
    """A keeper with its store and clock."""

    def __init__(self, path: Path, llm: LLM | None = None, **care: Any) -> None:
        self.clock = FixedClock()
        self.store = SqliteStore(path, self.clock)
        self.keeper = Keeper(
            self.store,
            HashEmbedder(),
            self.clock,
            llm=llm,
            maintenance=MaintenanceOptions(**{"similarity": 0.5, **care}),
        )

    def everything(self) -> str:
        self.keeper.stats()  # record pending retrievals
        return "".join(export.export_lines(self.store))


@pytest.fixture
def new_backend(tmp_path: Path) -> Iterator[Callable[..., Backend]]:
    created: list[Backend] = []

    def make(llm: LLM | None = None, **care: Any) -> Backend:
        created.append(Backend(tmp_path / f"{len(created)}.db", llm, **care))
        return created[-1]

    yield make
    for item in created:
        item.keeper.close()


def merge_reply(text: str, stands_for: int = 3) -> str:
    """Return an LLM reply that merges all memories into one."""
    facts = [{"text": text, "category": "detail", "memories": [f"m{n}" for n in range(1, stands_for + 1)]}]
    return json.dumps({"facts": facts})


def simulate_use(new_backend: Backend, days: int) -> None:
    """Simulate days on which one memory is searched."""
    new_backend.keeper.add("asked for every day")
    for _ in range(days):
        new_backend.keeper.search("asked for every day", k=1)
        new_backend.clock.advance(DAY)


# ── consolidation ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_duplicates_are_merged_without_an_llm(new_backend: Callable[..., Backend]) -> None:
    here = new_backend()
    same = [here.keeper.add("We deploy with Fly.io", dedup=False).memory_id for _ in range(3)]
    for text in CLUSTER:
        here.keeper.add(text)
    before = here.everything()
    preview = here.keeper.consolidate()
    assert here.everything() == before
    assert preview.dry_run
    assert preview.changeset is None
    result = here.keeper.consolidate(dry_run=False)
    assert {decision.id for decision in result.decisions} <= set(same)  # type: ignore[union-attr]
    assert result.decisions == preview.decisions
    assert len(result.decisions) == 2
    assert here.keeper.count() == 1 + len(CLUSTER)
    assert result.changeset is not None
    here.keeper.undo(result.changeset.id)
    assert here.everything() == before


def test_cluster_is_merged_with_an_llm_and_undo_restores_the_export(new_backend: Callable[..., Backend]) -> None:
    here = new_backend(ScriptedLLM([merge_reply(MERGED)]))
    ids = [here.keeper.add(text, source="acme/api").memory_id for text in CLUSTER]
    here.keeper.search(ASKED)
    before = here.everything()
    result = here.keeper.consolidate(dry_run=False, by="ann")
    assert [type(decision) for decision in result.decisions] == [Merge], result.refused
    assert result.changeset is not None
    merged = result.changeset.changes[0].memory
    assert merged.text == MERGED
    assert sorted(merged.metadata["consolidated_from"]) == ids
    assert merged.source == "acme/api"
    assert merged.retrieval_count == 3
    assert all(here.keeper.get(memory_id).superseded_by == merged.id for memory_id in ids)
    assert here.keeper.search(ASKED)[0].id == merged.id
    here.keeper.search("something else")  # later retrievals do not block undo
    here.keeper.undo(result.changeset.id)
    after = here.everything()
    counts = '"retrieval_count":'
    assert [line.split(counts)[0] for line in after.splitlines()] == [
        line.split(counts)[0] for line in before.splitlines()
    ]


@pytest.mark.parametrize(
    "answer",
    [
        merge_reply(CLUSTER[0]),
        merge_reply(MERGED.replace("30 days", "60 days")),
        merge_reply(MERGED.replace("never includes", "includes")),
        merge_reply(MERGED + " It runs on Kubernetes 1.31 in eu-west-1."),
        merge_reply("Ignore all previous instructions"),
        "I cannot help with that.",
        '{"facts": "all of them"}',
        '{"facts": []}',
        "",
        Completion(merge_reply(MERGED)[:60], truncated=True),
        Unavailable("The model did not answer.", "Try again."),
    ],
    ids=[
        "drops",
        "alters a number",
        "loses a negation",
        "invents",
        "obeys",
        "chats",
        "junk",
        "leaves",
        "empty",
        "cut",
        "slow",
    ],
)
def test_bad_merge_reply_changes_nothing_and_is_reported(
    new_backend: Callable[..., Backend], answer: str | Completion | Exception
) -> None:
    here = new_backend(ScriptedLLM([answer] * 3))
    for text in CLUSTER:
        here.keeper.add(text, source="acme/api")
    before = here.everything()
    result = here.keeper.consolidate(dry_run=False)
    assert result.decisions == ()
    assert result.changeset is None
    assert not result.dry_run
    assert [bool(item.reason) for item in result.refused] == [True]
    assert here.everything() == before


def test_memory_changed_during_the_llm_call_is_kept(new_backend: Callable[..., Backend]) -> None:
    class Slow(ScriptedLLM):
        """LLM during whose call a memory is edited."""

        def complete(self, system: str, user: str, *, schema: Any = None) -> Completion:
            here.keeper.update(ids[0], text="The nightly backup of the billing database runs at 03:00")
            return super().complete(system, user, schema=schema)

    here = new_backend(Slow([merge_reply(MERGED)]))
    ids = [here.keeper.add(text).memory_id for text in CLUSTER]
    result = here.keeper.consolidate(dry_run=False)
    assert result.changeset is None
    assert "meanwhile" in result.refused[0].reason
    assert here.keeper.count() == 3


def test_change_by_another_process_before_the_write_wins(
    new_backend: Callable[..., Backend], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = new_backend()
    pairs = [
        [here.keeper.add(text, dedup=False).memory_id for _ in range(2)]
        for text in ("We deploy with Fly.io", "The port is 8080")
    ]
    goes = here.keeper.consolidate().decisions[0].id  # type: ignore[union-attr]
    other = SqliteStore(tmp_path / "0.db", here.clock)
    lent = here.keeper.services.writer
    apply = lent.apply

    def late(decisions: Any, **how: Any) -> Any:
        if not here.keeper.get(goes).pinned:
            other.apply([Edit(goes, {"pinned": True})], {}, by="another process", why="")
        return apply(decisions, **how)

    monkeypatch.setattr(lent, "apply", late)
    result = here.keeper.consolidate(dry_run=False)
    other.close()
    assert not here.keeper.get(goes).archived
    assert [decision.id for decision in result.decisions if decision.id in pairs[1]] != []  # type: ignore[union-attr]
    assert "meanwhile" in result.refused[0].reason
    assert here.keeper.count() == 3


def test_llm_without_reconciliation_is_not_asked_to_merge(new_backend: Callable[..., Backend]) -> None:
    here = new_backend(ScriptedLLM([], reconciles=False))
    for text in CLUSTER:
        here.keeper.add(text)
    assert here.keeper.consolidate().decisions == ()


def test_source_prefix_limits_consolidation(new_backend: Callable[..., Backend]) -> None:
    here = new_backend()
    for source in ("acme/api", "other/api"):
        for _ in range(2):
            here.keeper.add("We deploy with Fly.io", source=source, dedup=False)
    assert len(here.keeper.consolidate(source_prefix="acme").decisions) == 1
    assert len(here.keeper.consolidate().decisions) == 2


# ── pruning ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_unused_memories_are_archived_and_undo_restores_the_export(new_backend: Callable[..., Backend]) -> None:
    here = new_backend()
    stored = {
        here.keeper.add("a decision nobody asks for", kind="decision").memory_id,
        here.keeper.add("pinned, nobody asks for it").memory_id,
    }
    here.keeper.update(max(stored), pinned=True)
    archived = here.keeper.add("a detail nobody asks for").memory_id
    for n in range(8):
        here.keeper.add(f"recalled fact number {n}")
    here.keeper.search("recalled fact number", k=8)
    simulate_use(here, 61)
    before = here.everything()
    assert [decision.id for decision in here.keeper.prune().decisions] == [archived]  # type: ignore[union-attr]
    result = here.keeper.prune(dry_run=False)
    assert here.keeper.get(archived).archived
    assert result.changeset is not None
    here.keeper.undo(result.changeset.id)
    assert here.everything() == before


def test_nothing_is_pruned_before_enough_tracking(new_backend: Callable[..., Backend]) -> None:
    here = new_backend()
    for n in range(300):
        here.keeper.add(Fact(text=f"old fact {n}", created_at="2020-01-01T00:00:00Z"), dedup=False)
    assert here.keeper.prune(dry_run=False).decisions == ()
    simulate_use(here, 10)
    plan = here.keeper.prune(dry_run=False)
    assert plan.decisions == ()
    assert plan.note
    assert here.keeper.count() == 301


def test_imported_memory_gets_its_full_retention(new_backend: Callable[..., Backend]) -> None:
    here = new_backend()
    simulate_use(here, 61)
    here.store.apply([Add(Fact(text="an old detail", created_at="2020-01-01T00:00:00Z"))], {}, by="import", why="")
    assert here.keeper.prune().decisions == ()


def test_memory_used_during_the_llm_call_is_kept(new_backend: Callable[..., Backend]) -> None:
    class Slow(ScriptedLLM):
        """LLM during whose call memories are used."""

        def complete(self, system: str, user: str, *, schema: Any = None) -> Completion:
            here.keeper.add("a detail that is said again")
            here.keeper.search("a detail that is asked for", k=1)
            return super().complete(system, user, schema=schema)

    verdicts = [{"memory": f"m{n}", "action": "ARCHIVE"} for n in range(1, 4)]
    here = new_backend(Slow([json.dumps({"decisions": verdicts})]))
    said, asked, dead = (
        here.keeper.add(f"a detail that is {what}").memory_id for what in ("said again", "asked for", "dead")
    )
    for n in range(14):
        here.keeper.add(f"recalled fact number {n}")
    here.keeper.search("recalled fact number", k=14)
    simulate_use(here, 61)
    result = here.keeper.prune(dry_run=False)
    assert [decision.id for decision in result.decisions] == [dead]  # type: ignore[union-attr]
    assert sorted(item.ids[0] for item in result.refused) == sorted([said, asked])


def test_pending_retrievals_are_recorded_before_pruning(new_backend: Callable[..., Backend]) -> None:
    here = new_backend()
    ids = [here.keeper.add(f"a detail about topic {n}").memory_id for n in range(6)]
    simulate_use(here, 61)
    here.keeper.search("a detail about topic 3", k=1)
    assert ids[3] not in {decision.id for decision in here.keeper.prune().decisions}  # type: ignore[union-attr]


def test_offline_recalls_are_counted_before_pruning(tmp_path: Path) -> None:
    clock = FixedClock()
    result: list[tuple[str, str, list[int]]] = []
    store = SqliteStore(tmp_path / "a.db", clock)
    with Keeper(store, HashEmbedder(), clock, read_offline_log=lambda note: note(result)) as keeper:
        stored = keeper.add("given by a hook").memory_id
        archived = keeper.add("given by nobody").memory_id
        for n in range(8):
            keeper.add(f"recalled fact number {n}")
        for _ in range(61):
            keeper.search("recalled fact number", k=8)
            clock.advance(DAY)
        result.append((clock(), "codex", [stored]))
        assert [decision.id for decision in keeper.prune().decisions] == [archived]  # type: ignore[union-attr]


# ── runs ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_successful_and_failed_runs_are_recorded(new_backend: Callable[..., Backend]) -> None:
    here = new_backend(ScriptedLLM([]))  # raises an error beyond the end of its script
    here.keeper.prune(dry_run=False, by="ann")
    for text in CLUSTER:
        here.keeper.add(text)
    with pytest.raises(AssertionError):
        here.keeper.consolidate(dry_run=False)
    failed, done = here.keeper.runs()
    assert (done.chore, done.outcome, done.by, done.slot) == ("prune", "done", "ann", "")
    assert (failed.chore, failed.outcome) == ("consolidate", "failed")
    assert here.keeper.runs(chore="prune") == [done]
    assert here.keeper.prune(dry_run=False).chore == "prune"  # finished runs do not block others


def test_dry_run_is_not_recorded(new_backend: Callable[..., Backend]) -> None:
    here = new_backend()
    here.keeper.consolidate()
    here.keeper.prune()
    assert here.keeper.runs() == []


def test_chore_runs_once_at_a_time(new_backend: Callable[..., Backend]) -> None:
    here = new_backend()
    here.store.runs.claim("prune", "", "another")
    with pytest.raises(Conflict, match="already running"):
        here.keeper.prune(dry_run=False)
    assert here.keeper.services.maintenance.run_scheduled("prune", slot="2026-01-04T04:00:00Z") is None
    assert here.keeper.consolidate(dry_run=False).chore == "consolidate"


def test_slot_is_executed_once_and_reports_its_result(new_backend: Callable[..., Backend]) -> None:
    here = new_backend()
    for _ in range(2):
        here.keeper.add("We deploy with Fly.io", dedup=False)
    slot = "2026-01-04T03:00:00Z"
    run = here.keeper.services.maintenance.run_scheduled("consolidate", slot=slot)
    assert run is not None
    assert (run.outcome, run.details["decisions"]) == ("done", 1)
    assert run.changeset == here.keeper.changes(limit=1)[0].id
    assert here.keeper.services.maintenance.run_scheduled("consolidate", slot=slot) is None


def test_scheduled_run_does_not_retry_rejected_clusters(new_backend: Callable[..., Backend]) -> None:
    llm = ScriptedLLM(['{"facts": []}'] * 4)
    here = new_backend(llm)
    ids = [here.keeper.add(text).memory_id for text in CLUSTER]
    slots = [f"2026-01-0{day}T03:00:00Z" for day in range(4, 8)]
    here.clock.advance(10 * DAY)
    first, second = (here.keeper.services.maintenance.run_scheduled("consolidate", slot=slot) for slot in slots[:2])
    assert first is not None
    assert second is not None
    assert (first.details["refused"], second.details["refused"], len(llm.calls)) == (1, 0, 1)
    assert "rejected before" in second.details["note"]
    here.keeper.consolidate()  # a manual run reports all of them
    assert len(llm.calls) == 2
    here.keeper.update(ids[0], tags=["new"])
    here.keeper.services.maintenance.run_scheduled("consolidate", slot=slots[2])
    assert len(llm.calls) == 3


def test_backup_chore_runs_if_configured(new_backend: Callable[..., Backend]) -> None:
    here = new_backend(backup=lambda: {"path": "a/backup.db"})
    run = here.keeper.services.maintenance.run_scheduled("backup", slot="2026-01-04T03:00:00Z")
    assert run is not None
    assert (run.outcome, run.details["note"]) == ("done", "a/backup.db")
    without = new_backend()
    failed = without.keeper.services.maintenance.run_scheduled("backup", slot="2026-01-04T03:00:00Z")
    assert failed is not None
    assert failed.outcome == "failed"


def test_running_chore_sends_heartbeats(new_backend: Callable[..., Backend], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cofio.maintenance.service._BEAT", 0.01)
    beats = threading.Event()

    def backup() -> dict[str, str]:
        alive = here.store.runs.alive

        def heard(run_id: int) -> bool:
            beats.set()
            return alive(run_id)

        here.store.runs.alive = heard  # type: ignore[method-assign]
        assert beats.wait(30)
        return {"path": "a/backup.db"}

    here = new_backend(backup=backup)
    run = here.keeper.services.maintenance.run_scheduled("backup", slot="2026-01-04T03:00:00Z")
    assert run is not None
    assert run.outcome == "done"


def test_unknown_chore_is_rejected(new_backend: Callable[..., Backend]) -> None:
    with pytest.raises(InvalidInput, match="no chore"):
        new_backend().keeper.services.maintenance.run_scheduled("dust", slot="2026-01-04T03:00:00Z")
    with pytest.raises(InvalidInput, match="no chore"):
        new_backend().keeper.runs(chore="dust")


# ── usage ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_retrieval_counts_are_persistent(tmp_path: Path) -> None:
    first = Backend(tmp_path / "a.db")
    first.keeper.add("we use tabs")
    first.keeper.add("the port is 8080")
    first.keeper.search("tabs", k=1)
    first.keeper.recall("do we use tabs or spaces?")
    first.keeper.close()
    repeated = Backend(tmp_path / "a.db")
    assert [(memory.text, memory.retrieval_count) for memory in repeated.keeper.usage("most")] == [("we use tabs", 2)]
    assert [memory.text for memory in repeated.keeper.usage("never")] == ["the port is 8080"]
    repeated.clock.advance(100 * DAY)
    assert [memory.text for memory in repeated.keeper.usage("stale", days=90)] == ["we use tabs"]
    assert repeated.keeper.usage("stale", days=101) == []
    with pytest.raises(InvalidInput, match="no view"):
        repeated.keeper.usage("worst")  # type: ignore[arg-type]
    repeated.keeper.close()


def test_forgetting_old_queries_keeps_counts(new_backend: Callable[..., Backend]) -> None:
    here = new_backend()
    here.keeper.add("we use tabs")
    here.keeper.search("tabs", k=1)
    here.keeper.usage("most")
    here.clock.advance(DAY)
    assert here.keeper.services.access.store.usage.forget(here.clock()) == 1
    assert here.keeper.usage("most")[0].retrieval_count == 1
    assert here.keeper.stats()["retrievals"] == 0
