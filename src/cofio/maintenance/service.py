"""Maintenance chores, end to end: compute a plan, then write the part of it that is still valid.

consolidate, prune ─▶ Plan ─ dry run: shown ─ else: memories changed meanwhile are left out ─ apply ─▶ one changeset
schedule, person ─▶ claim a run ─▶ chore ─▶ the run's end, in the history
person ─▶ some decisions of a shown Plan, or about contradictions ─ none changed since ─ apply ─▶ one changeset
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, Unpack

from cofio.errors import CofioError, Conflict, InvalidInput, NotConfigured, NotFound
from cofio.ingest.reconcile.compare import Comparer
from cofio.ingest.sanitize import redact
from cofio.ingest.writer import Writer, check_author
from cofio.maintenance import audit, clusters, consolidate, merge_check, pair_finder, prune_unused, suspicions
from cofio.maintenance.cleanup import clean_up
from cofio.maintenance.echo_detection import boot_lines
from cofio.maintenance.llm_merge import ModelMerger
from cofio.maintenance.llm_prune_judge import PruneJudge
from cofio.models.llm_calls import occasion
from cofio.models.maintenance import (
    CHORES,
    PROPOSED,
    VIEWS,
    Audit,
    Chore,
    CleanupPlan,
    Contradiction,
    Contradictions,
    MaintenancePlan,
    MaintenanceRun,
    Proposed,
    Refusal,
    View,
)
from cofio.models.memory import (
    MAX_PAGE,
    Changeset,
    Decision,
    Delete,
    Edit,
    Memory,
    Merge,
    Query,
    Scope,
    ScopeKwargs,
    as_scope,
    check_bool,
    check_int,
    days_before,
    same_place,
    to_utc_iso,
)
from cofio.models.merge import merge_fact
from cofio.ports import LLM, Clock, Store
from cofio.retrieval.hybrid import hits
from cofio.retrieval.log import RetrievalLog

_BEAT = 60.0  # seconds between two heartbeats of a run
_MOST_PRUNED = 1_000
_LATE = 30  # latest runs whose refused clusters are not submitted to the model again
_TRIES = 3  # attempts to write a plan while other processes write
_MOST_APPROVED = 1_000  # decisions per call
_ALL = Scope()
_Name = TypeVar("_Name", bound=str)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceOptions:
    """Settings of the chores."""

    similarity: float = 0.75  # cosine from which memories may belong together
    min_cluster: int = 3
    prune_days: Mapping[str, int] = field(default_factory=lambda: dict(prune_unused.DAYS))
    backup: Callable[[], Mapping[str, Any]] | None = None  # returns a description of the backup


class MaintenanceService:
    """Runner of the maintenance chores of one store."""

    def __init__(
        self,
        writer: Writer,
        log: RetrievalLog,
        clock: Clock,
        *,
        llm: LLM | None,
        comparer: Comparer,
        options: MaintenanceOptions,
    ) -> None:
        self._writer = writer
        self._access = writer.access
        self._store = writer.access.store
        self._log = log
        self._clock = clock
        self._any_llm = llm
        self._comparer = comparer
        self._options = options

    @property
    def _llm(self) -> LLM | None:
        """Return the model if it may decide. An Ollama model is probed at its first use, which may come later."""
        return self._any_llm if self._any_llm is not None and self._any_llm.supports_audn else None

    # ── the chores ────────────────────────────────────────────────────────────────────────────────────────────────────

    def consolidate(
        self, *, dry_run: bool = True, source_prefix: str = "", by: str = "library", why: str = ""
    ) -> MaintenancePlan:
        """Merge duplicates in one changeset, and report refused merges with reasons. A dry run only previews."""
        return self._plan_or_run("consolidate", Scope(source_prefix=source_prefix), dry_run, by, why)

    def prune(self, *, dry_run: bool = True, by: str = "library", why: str = "") -> MaintenancePlan:
        """Archive memories that were not recalled for long, in one changeset. A dry run only previews."""
        return self._plan_or_run("prune", _ALL, dry_run, by, why)

    def _plan_or_run(self, chore: Chore, scope: Scope, dry_run: bool, by: str, why: str) -> MaintenancePlan:
        self._check_request(by, why)
        check_bool(dry_run, "dry_run")
        if dry_run:
            return self._plan(chore, scope)
        run = self._store.runs.claim(chore, "", by)
        if run is None:
            hint = "Wait until it ends; `cofio runs` shows its state."
            raise Conflict(f"The maintenance run {chore} is already running.", hint)
        return self._run(run, by, why, scope, lambda: False)

    def _check_request(self, by: str, why: str) -> None:
        self._access.require_owner("Maintenance")
        check_author(by, why)

    def _plan(
        self, chore: str, scope: Scope, halted: Callable[[], bool] = lambda: False, settled: Collection[str] = ()
    ) -> MaintenancePlan:
        """Return the decisions and refusals with their reasons, without changing anything.

        Clusters in `settled` are not consolidated.
        """
        if chore == "prune":
            self._log.flush_all()
        as_of = self._store.newest_changeset()
        with occasion(chore):
            if chore == "prune":
                plan = prune_unused.decide(
                    self._store,
                    self._clock(),
                    days=self._options.prune_days,
                    keeps=PruneJudge(self._llm) if self._llm else None,
                    most=_MOST_PRUNED,
                    halted=halted,
                )
            else:
                plan = consolidate.decide(
                    self._store,
                    scope,
                    merger=ModelMerger(self._llm) if self._llm else None,
                    finds=self._finds,
                    embed=self._writer.encoder.embed,
                    comparer=self._comparer,
                    similarity=self._options.similarity,
                    least=self._options.min_cluster,
                    settled=settled,
                    halted=halted,
                )
        return replace(plan, as_of=as_of)

    def audit(self, *, examples: int = 5, progress: Callable[[int, int], None] | None = None) -> Audit:
        """Return the profile of the store: duplicates, echoes, secrets, unused, stale or contradicted memories."""
        self._access.require_owner("Maintenance")
        check_int(examples, "examples", least=0, most=100)
        self._log.flush_all()
        return audit.profile(
            self._store,
            redact=redact,
            stale=self._find_stale,
            comparer=self._comparer,
            boot=boot_lines if self._writer.staleness.reads else None,
            examples=examples,
            now=self._clock(),
            progress=progress,
        )

    def archive_findings(
        self, findings: Sequence[str], *, dry_run: bool = True, by: str = "library", why: str = ""
    ) -> CleanupPlan:
        """Archive the memories that `audit` found suspicious, in one changeset; a dry run only previews.

        `findings` are names: secrets, manipulation, untrusted_rules, future_dates, imitating_sources.
        """
        self._access.require_owner("Maintenance")
        suspicions.check_findings(findings)
        at = self._clock()
        return clean_up(
            self._writer,
            lambda: suspicions.decide_archive(self._store, findings, at),
            dry_run=dry_run,
            by=by,
            why=why or f"audit: {', '.join(findings)}",
        )

    def usage(
        self, view: View = "most", *, limit: int = 50, days: int = 90, **scope: Unpack[ScopeKwargs]
    ) -> list[Memory]:
        """Return memories "never" recalled (oldest first), recalled "most", or "stale" (not for `days` days)."""
        _check_name(view, VIEWS, f"There is no view {view!r}.")
        check_int(limit, "limit", least=1, most=MAX_PAGE)
        before = days_before(self._clock(), check_int(days, "days", least=0, most=36_500))
        self._log.flush_all()
        return self._store.usage.view(view, as_scope(scope), limit, before)

    def contradictions(self, *, limit: int = 50) -> Contradictions:
        """Return pairs of memories that contradict each other, newest first, and the total number of pairs."""
        self._access.require_owner("Maintenance")
        check_int(limit, "limit", least=1, most=MAX_PAGE)
        as_of = self._store.newest_changeset()
        result = pair_finder.find_pairs(self._store, redact, self._comparer)
        pairs = result.against[:limit]
        ids = sorted({memory_id for pair in pairs for memory_id in (pair.newer, pair.older)})
        memories = {memory.id: memory for memory in self._store.get(ids)}
        contradictions = tuple(
            Contradiction(
                newer=memories[pair.newer], older=memories[pair.older], reason=pair.reason, cosine=pair.cosine
            )
            for pair in pairs
            if pair.newer in memories and pair.older in memories
        )
        return Contradictions(pairs=contradictions, count=len(result.against), note=result.note, as_of=as_of)

    # ── approval by a person ──────────────────────────────────────────────────────────────────────────────────────────

    def approve(
        self, chore: str, decisions: Sequence[Decision], *, as_of: int, by: str = "library", why: str = ""
    ) -> Changeset:
        """Apply some of the decisions that `consolidate`, `prune` or `contradictions` showed, in one changeset.

        `as_of` comes from the plan: Conflict if one of its memories was changed since; for prune, also if it was
        retrieved or pinned since. A merged fact keeps the place of its members.
        """
        self._check_request(by, why)
        approved_chore = _check_name(chore, PROPOSED, f"{chore!r} has no decisions to approve.")
        if not 0 < len(decisions) <= _MOST_APPROVED:
            raise InvalidInput(
                f"{len(decisions):,} decisions were given for approval.", f"Give 1 to {_MOST_APPROVED:,} at a time."
            )
        approved = [_check_decision(decision, approved_chore) for decision in decisions]
        if check_int(as_of, "as_of", least=0) > self._store.newest_changeset():
            raise InvalidInput(f"There is no changeset {as_of} yet.", "Give the `as_of` value that the plan returned.")
        self._log.flush_all()
        memories = self._get_untouched(approved, as_of, approved_chore)
        dated = [replace(_set_place(decision, memories), as_of=as_of) for decision in approved]
        # Rows read from an untrue memory are removed with it; duplicate and unused memories were true.
        gone = [Delete(decision.id, decision.reason) for decision in approved if isinstance(decision, Delete)]
        rows = self._writer.removed_rows(gone) if approved_chore == "contradictions" else ()
        return self._writer.apply([*dated, *rows], by=by, why=why or f"approved: {approved_chore}")

    def _get_untouched(self, decisions: Sequence[Merge | Delete], as_of: int, chore: Proposed) -> dict[int, Memory]:
        """Return the memories of these decisions. Raise Conflict if one has changed since `as_of`."""
        ids = sorted({memory_id for decision in decisions for memory_id in _list_ids(decision)})
        touched = self._store.usage.touched(ids, as_of)
        memories = {memory.id: memory for memory in self._store.get(ids)}
        for memory_id in ids:
            if memory_id not in memories:
                raise NotFound(f"There is no memory {memory_id}.", "It may have been purged. Request the plan again.")
            if memory_id in touched or not _may_go(memories[memory_id], chore):
                raise Conflict(
                    f"Memory {memory_id} was changed or retrieved since the plan was made.", "Request the plan again."
                )
        return memories

    def dismiss_contradiction(self, ids: Sequence[int], *, by: str = "library", why: str = "") -> Changeset:
        """Mark two memories as compatible: they no longer count as a contradiction until one of them changes."""
        self._check_request(by, why)
        if len(set(ids)) != 2 or len(ids) != 2:
            raise InvalidInput("A contradiction has exactly two memories.", "Give the ids of two different memories.")
        checked_ids = [check_int(memory_id, "id") for memory_id in ids]

        def decide_edits() -> list[Edit]:
            memories = {memory.id: memory for memory in self._store.get(checked_ids)}
            for memory_id in ids:
                if memory_id not in memories:
                    raise NotFound(f"There is no memory {memory_id}.", "`cofio list` lists the memories.")
                if memories[memory_id].archived:
                    raise Conflict(
                        f"Memory {memory_id} is archived, so it is part of no contradiction.",
                        "`cofio restore` makes it live again.",
                    )
            first, second = (memories[memory_id] for memory_id in ids)
            if not same_place(first, second):  # such pairs are never shown, and their viewers may differ
                hint = "Two memories contradict each other only within one project, source, speaker and visibility."
                raise InvalidInput(f"Memories {first.id} and {second.id} are not a contradiction.", hint)
            if pair_finder.is_dismissed(first, second):
                raise Conflict(
                    f"Memories {first.id} and {second.id} are already marked as both valid.", "No change is needed."
                )
            return [
                Edit(memory.id, {"metadata": pair_finder.mark_dismissed(memory, other)}, "both hold")
                for memory, other in ((first, second), (second, first))
            ]

        return self._writer.decide_and_apply(decide_edits, by=by, why=why or "both hold")

    # ── running ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def run_scheduled(
        self, chore: str, *, slot: str, by: str = "schedule", halted: Callable[[], bool] = lambda: False
    ) -> MaintenanceRun | None:
        """Run a chore that is due at this cron slot. Return the run, or None if another process claimed it.

        A failure is recorded in the run and not raised.
        """
        self._access.require_owner("Maintenance")
        name = _check_name(chore, CHORES, f"There is no chore {chore!r}.")
        run = self._store.runs.claim(name, to_utc_iso(slot), by)
        if run is None:
            return None
        with suppress(CofioError):  # recorded in the log and in the run
            self._run(run, by, f"{chore}, as scheduled", _ALL, halted)
        newest = self._store.runs.newest(50, chore)
        return next((entry for entry in newest if entry.id == run.id), run)

    def begin_schedule(self, chore: str, slot: str) -> None:
        """Record that the schedule of a chore starts after this slot, if it has never run."""
        run = self._store.runs.claim(chore, to_utc_iso(slot), "schedule")
        if run is not None:
            self._store.runs.finish(run.id, "began", {"note": "the schedule begins"})

    def last_run(self, chore: str) -> MaintenanceRun | None:
        """Return the newest run of a cron slot."""
        return self._store.runs.last(chore)

    def runs(self, *, limit: int = 20, chore: str = "") -> list[MaintenanceRun]:
        """Return the newest chore runs, optionally of one chore."""
        check_int(limit, "limit", least=1, most=MAX_PAGE)
        if chore:
            _check_name(chore, CHORES, f"There is no chore {chore!r}.")
        return self._store.runs.newest(limit, chore)

    def _run(self, run: MaintenanceRun, by: str, why: str, scope: Scope, halted: Callable[[], bool]) -> MaintenancePlan:
        """Run the chore, and record the end of the run even if it fails."""
        try:
            with self._heartbeat(run):
                plan = self._execute(run, by, why, scope, halted)
        except BaseException as error:
            _log.warning("The maintenance run %s failed: %s", run.chore, error)
            # Only the name of a foreign error: its message could quote a memory, and the run history is never purged.
            message = error.message if isinstance(error, CofioError) else type(error).__name__
            self._end(run, "failed", {"error": message})
            raise
        # Counts only: a reason may quote a memory, and the run history is never purged.
        counts = {"decisions": len(plan.decisions), "refused": len(plan.refused), "examined": plan.examined}
        details = {**counts, "note": plan.note, **({"settled": list(plan.settled)} if plan.settled else {})}
        self._end(run, "done", details, plan.changeset.id if plan.changeset else None)
        return plan

    def _end(self, run: MaintenanceRun, outcome: str, details: Mapping[str, Any], changeset: int | None = None) -> None:
        try:
            self._store.runs.finish(run.id, outcome, details, changeset)
        except CofioError as error:  # such as a run considered dead: its work is done all the same
            _log.warning("The end of the maintenance run %s could not be recorded: %s", run.chore, error)

    def _execute(
        self, run: MaintenanceRun, by: str, why: str, scope: Scope, halted: Callable[[], bool]
    ) -> MaintenancePlan:
        if run.chore == "backup":
            return self._back_up()
        settled: set[str] = set()  # recently refused clusters; a manual request gets the complete answer
        if run.slot:
            latest = self._store.runs.newest(_LATE, "consolidate")
            settled = {name for entry in latest for name in entry.details.get("settled", ())}
        plan = self._plan(run.chore, scope, halted, settled)
        self._log.flush_all()
        for _ in range(_TRIES):
            plan = replace(self._drop_touched(plan), dry_run=False)
            if not plan.decisions:
                return plan
            decisions = [
                replace(decision, as_of=plan.as_of) if isinstance(decision, Merge | Delete) else decision
                for decision in plan.decisions
            ]
            try:
                with self._writer.lock:
                    changeset = self._writer.apply(decisions, by=by, why=why or run.chore)
            except Conflict as error:  # another process was faster: retry without what it changed
                _log.info(
                    "The maintenance run %s starts again, since another process changed its memories: %s",
                    run.chore,
                    error,
                )
            else:
                return replace(plan, changeset=changeset)
        raise Conflict(
            f"The maintenance run {run.chore} was given up after {_TRIES} attempts, since its memories kept changing.",
            "Nothing was written. Try again when fewer programs use the store.",
        )

    def _back_up(self) -> MaintenancePlan:
        if self._options.backup is None:
            raise NotConfigured(
                "cofio can only back up SQLite stores.",
                "Back up PostgreSQL with the tools of the server, such as pg_dump.",
            )
        return MaintenancePlan(chore="backup", dry_run=False, note=str(self._options.backup().get("path", "")))

    def _drop_touched(self, plan: MaintenancePlan) -> MaintenancePlan:
        """Return the plan without memories that were changed or retrieved while it was made."""
        memory_ids = sorted({memory_id for decision in plan.decisions for memory_id in _list_ids(decision)})
        touched = self._store.usage.touched(memory_ids, plan.as_of)
        current = {memory.id: memory for memory in self._store.get(memory_ids) if memory.id not in touched}
        decisions: list[Decision] = []
        refusals: list[Refusal] = []
        for decision in plan.decisions:
            ids = _list_ids(decision)
            if all(memory_id in current and _may_go(current[memory_id], plan.chore) for memory_id in ids):
                decisions.append(decision)
            else:
                refusals.append(Refusal(ids=ids, reason="it was changed or retrieved meanwhile"))
        return replace(plan, decisions=tuple(decisions), refused=(*plan.refused, *refusals))

    @contextmanager
    def _heartbeat(self, run: MaintenanceRun) -> Iterator[None]:
        """Send a heartbeat for the run every `_BEAT` seconds."""
        over = threading.Event()

        def beat() -> None:
            while not over.wait(_BEAT):
                try:
                    self._store.runs.alive(run.id)
                except CofioError as error:
                    _log.warning("The heartbeat of the maintenance run %s could not be recorded: %s", run.chore, error)

        thread = threading.Thread(target=beat, name="cofio-run", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _finds(self, text: str, store: Store, scope: Scope) -> list[int]:
        """Return the ids that a search in that store finds, best first."""
        encoder = self._writer.encoder
        query = Query(text=text, k=merge_check.FIRST, scope=scope)
        return [hit.id for hit in hits(query, encoder.embed_query(text), store, encoder.floor)]

    def _find_stale(self, memories: Sequence[Memory]) -> dict[int, list[str]]:
        """Return the changed or missing anchors of these memories, by id."""
        checks = ((memory, self._writer.staleness.check(memory)) for memory in memories if memory.anchors)
        return {memory.id: list(result.notes) for memory, result in checks if result.state in ("changed", "vanished")}


def _check_name(name: str, names: Sequence[_Name], problem: str) -> _Name:
    for known_name in names:
        if known_name == name:
            return known_name
    raise InvalidInput(problem, f"Give one of: {', '.join(names)}.")


def _check_decision(decision: Decision, chore: Proposed) -> Merge | Delete:
    """Return the decision if the chore could have proposed it; raise InvalidInput otherwise."""
    if isinstance(decision, Delete):
        if chore == "contradictions" or (decision.into is None) == (chore == "prune"):
            return decision
    elif isinstance(decision, Merge) and chore == "consolidate" and len(set(decision.ids)) > 1:
        return decision
    says = {
        "consolidate": "Approve only merges of two or more memories, and deletions with `into`.",
        "prune": "Approve only deletions without `into`.",
        "contradictions": "Approve only deletions.",
    }
    raise InvalidInput(f"A plan of {chore} never contains a decision like this one.", says[chore])


def _set_place(decision: Merge | Delete, memories: Mapping[int, Memory]) -> Merge | Delete:
    """Return the decision with the place and labels of its memories, which must share one place."""
    members = [memories[memory_id] for memory_id in _list_ids(decision)]
    if len({clusters.place_of(member) for member in members}) > 1:
        numbers = ", ".join(str(member.id) for member in members)
        hint = "Only memories of one project, source, speaker and visibility can be merged."
        raise InvalidInput(f"Memories {numbers} cannot be merged.", hint)
    if isinstance(decision, Delete):
        return decision
    return replace(decision, fact=merge_fact(decision.fact.text, members))


def _list_ids(decision: Decision) -> tuple[int, ...]:
    if isinstance(decision, Merge):
        return decision.ids
    if isinstance(decision, Delete):
        return (decision.id,) if decision.into is None else (decision.id, decision.into)
    return ()


def _may_go(memory: Memory, chore: Chore | Proposed) -> bool:
    return not memory.archived and (chore != "prune" or (memory.retrieval_count == 0 and not memory.pinned))
