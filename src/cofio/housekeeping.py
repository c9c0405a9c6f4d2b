"""Housekeeping: the chores from end to end. The steps decide, this asks them, and writes once what still holds then.

consolidate, prune ─▶ Plan ─ dry run: shown ─ else: what changed meanwhile is left out ─ apply ─▶ one changeset
schedule, person ─▶ claim a run ─▶ chore ─▶ the run's end, in the history
person ─▶ some decisions of a Plan that was shown, or about contradictions ─ none touched since ─ apply ─▶ one changeset
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from cofio.chores import (
    CHORES,
    PROPOSED,
    Audit,
    Chore,
    Contradiction,
    Contradictions,
    Plan,
    Proposed,
    Refusal,
    Run,
)
from cofio.domain import KnowledgeDecision
from cofio.errors import CofioError, Conflict, InvalidInput, NotConfigured, NotFound
from cofio.freshness import Freshness
from cofio.hygiene import redact
from cofio.llm_calls import occasion
from cofio.model import Changeset, Decision, Delete, Edit, Memory, Merge, Query, Scope, same_place, whole
from cofio.ports import LLM, Clock, Matrix, Store, Vector
from cofio.reconcile.compare import Comparer
from cofio.search import hits
from cofio.upkeep import audit, clusters, consolidate, pairs, prune
from cofio.upkeep.echoes import boot_lines
from cofio.upkeep.merging import ModelMerger
from cofio.upkeep.prune import ModelJudge

_FIRST = 10  # hits among which a search must still find what was merged
_BEAT = 60.0  # seconds between two signs of life
_MOST_PRUNED = 1_000
_LATE = 30  # runs whose refusals are remembered
_TRIES = 3  # to write a plan that another process gets in the way of
_MOST_APPROVED = 1_000  # decisions at once
_ALL = Scope()
_log = logging.getLogger(__name__)


class Doing(Protocol):
    """What the keeper lends: the writer, and the embedder for texts and for questions."""

    def apply(
        self, decisions: Sequence[Decision], *, by: str, why: str, knowledge: Sequence[KnowledgeDecision] = ()
    ) -> Changeset: ...
    def read_from(self, decisions: Sequence[Decision]) -> list[KnowledgeDecision]: ...
    def documents(self, texts: Sequence[str]) -> Matrix: ...
    def question(self, text: str) -> Vector: ...
    def floor(self) -> float: ...
    def flush(self) -> None:
        """Write the retrievals that wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Care:
    """How upkeep is done."""

    similarity: float = 0.75  # the cosine from which memories may belong together
    min_cluster: int = 3
    prune_days: Mapping[str, int] = field(default_factory=lambda: dict(prune.DAYS))
    backup: Callable[[], Mapping[str, Any]] | None = None  # what it made


class Housekeeper:
    """Does the chores of one store."""

    def __init__(
        self,
        store: Store,
        doing: Doing,
        clock: Clock,
        deciding: threading.RLock,
        *,
        llm: LLM | None,
        comparer: Comparer,
        freshness: Freshness,
        care: Care,
    ) -> None:
        self._store, self._doing, self._clock, self._deciding = store, doing, clock, deciding
        self._any_llm = llm
        self._freshness = freshness
        self._comparer = comparer
        self._care = care

    @property
    def _llm(self) -> LLM | None:
        """The model, where it may decide; an Ollama model is probed at its first use, which may be later than this."""
        return self._any_llm if self._any_llm is not None and self._any_llm.supports_audn else None

    # ── the chores ────────────────────────────────────────────────────────────────────────────────────────────────────

    def consolidate(
        self, scope: Scope, halted: Callable[[], bool] = lambda: False, settled: Collection[str] = ()
    ) -> Plan:
        """What would be merged, what was refused, and why. Changes nothing; of what is `settled` nobody is asked."""
        as_of = self._newest()
        with occasion("consolidate"):
            plan = consolidate.decide(
                self._store,
                scope,
                merger=ModelMerger(self._llm) if self._llm else None,
                finds=self._finds,
                embed=self._doing.documents,
                comparer=self._comparer,
                similarity=self._care.similarity,
                least=self._care.min_cluster,
                settled=settled,
                halted=halted,
            )
        return replace(plan, as_of=as_of)

    def prune(self, halted: Callable[[], bool] = lambda: False) -> Plan:
        """What would be set aside because nobody asked for it, and why. Changes nothing."""
        self._doing.flush()
        as_of = self._newest()
        with occasion("prune"):
            plan = prune.decide(
                self._store,
                self._clock(),
                days=self._care.prune_days,
                keeps=ModelJudge(self._llm) if self._llm else None,
                most=_MOST_PRUNED,
                halted=halted,
            )
        return replace(plan, as_of=as_of)

    def audit(self, examples: int, progress: Callable[[int, int], None] | None = None) -> Audit:
        """The profile of the store. Changes nothing."""
        self._doing.flush()
        return audit.profile(
            self._store,
            redact=redact,
            stale=self._stale,
            comparer=self._comparer,
            boot=boot_lines if self._freshness.reads else None,
            examples=examples,
            now=self._clock(),
            progress=progress,
        )

    def contradictions(self, limit: int) -> Contradictions:
        """The newest pairs that cannot both hold, for a person to settle. Changes nothing."""
        as_of = self._newest()
        found = pairs.found(self._store, redact, self._comparer)
        shown = found.against[:limit]
        there = {each.id: each for each in self._store.get(sorted({one for pair in shown for one in pair[:2]}))}
        told = tuple(
            Contradiction(newer=there[pair.newer], older=there[pair.older], reason=pair.reason, cosine=pair.cosine)
            for pair in shown
            if pair.newer in there and pair.older in there
        )
        return Contradictions(pairs=told, count=len(found.against), note=found.note, as_of=as_of)

    def _newest(self) -> int:
        newest = self._store.changesets(1)
        return newest[0].id if newest else 0

    # ── what a person approves of ─────────────────────────────────────────────────────────────────────────────────────

    def approve(self, chore: str, decisions: Sequence[Decision], as_of: int, *, by: str, why: str = "") -> Changeset:
        """Do these of a plan, all of them or none; what says one thing for several says it where they did.

        Conflict when anything was done to one of them after the changeset `as_of`; of what is pruned, also when it was
        asked for or pinned.
        """
        asked = _proposed(chore)
        decided = [_checked(each, asked) for each in _few(decisions)]
        if whole(as_of, "as_of", least=0) > self._newest():
            raise InvalidInput(f"There is no changeset {as_of} yet.", "Give the as_of of the plan that was shown.")
        self._doing.flush()
        there = self._untouched(decided, as_of, asked)
        done = [_dated(_placed(each, there), as_of) for each in decided]
        # What turned out to be untrue takes along what was read from it; what repeats or is unused was true.
        gone = [Delete(each.id, each.reason) for each in decided if isinstance(each, Delete)]
        rows = self._doing.read_from(gone) if asked == "contradictions" else ()
        return self._doing.apply(done, by=by, why=why or f"approved: {asked}", knowledge=rows)

    def _untouched(self, decisions: Sequence[Merge | Delete], as_of: int, chore: Proposed) -> dict[int, Memory]:
        """The memories that these are about, as they were when it was decided; Conflict with the first that is not."""
        concerned = sorted({each for decision in decisions for each in _ids(decision)})
        touched = self._store.uses.touched(concerned, as_of)
        there = {memory.id: memory for memory in self._store.get(concerned)}
        for each in concerned:
            if each not in there:
                raise NotFound(f"There is no memory {each}.", "It may have been purged. Look again.")
            if each in touched or not _may_go(there[each], chore):
                raise Conflict(f"Memory {each} was changed or asked for since this was shown.", "Look again.")
        return there

    def agree(self, ids: Sequence[int], *, by: str, why: str = "") -> Changeset:
        """Note that two memories both hold, in the metadata of each: from now on they are no contradiction."""
        if len(set(ids)) != 2 or len(ids) != 2:
            raise InvalidInput("It takes two memories to agree.", "Give the ids of two different ones.")
        with self._deciding:
            there = {each.id: each for each in self._store.get([whole(each, "id") for each in ids])}
            for each in ids:
                if each not in there:
                    raise NotFound(f"There is no memory {each}.", "cofio list shows what there is.")
                if there[each].archived:
                    raise Conflict(f"Memory {each} is archived.", "What is archived contradicts nothing.")
            one, other = (there[each] for each in ids)
            if not same_place(one, other):  # such a pair is never shown; and who sees the one may not see the other
                hint = "They differ in project, source, speaker or in who may see them."
                raise InvalidInput(f"Memories {one.id}, {other.id} are of different places.", hint)
            if pairs.agree(one, other):
                raise Conflict(f"That memories {one.id} and {other.id} both hold is noted already.", "Nothing to do.")
            reason = "both hold"
            edits = [
                Edit(mine.id, {"metadata": pairs.agreeing(mine, its)}, reason)
                for mine, its in ((one, other), (other, one))
            ]
            return self._doing.apply(edits, by=by, why=why or reason)

    # ── doing them ────────────────────────────────────────────────────────────────────────────────────────────────────

    def do(self, chore: str, *, by: str, why: str = "", scope: Scope = _ALL) -> Plan:
        """Do a chore that somebody asked for, as a run of its own; Conflict while the same one runs."""
        run = self._store.runs.claim(_known(chore), "", by)
        if run is None:
            hint = "Wait for it to end; cofio runs shows how it stands."
            raise Conflict(f"{chore} is being done by another already.", hint)
        return self._run(run, by, why, scope, lambda: False)

    def scheduled(self, chore: str, slot: str, *, by: str, halted: Callable[[], bool]) -> Run | None:
        """Do what is due at this slot of the schedule; the run, or None when it is another's. Its failure is in it."""
        run = self._store.runs.claim(_known(chore), slot, by)
        if run is None:
            return None
        with suppress(CofioError):  # it is in the log, and in the run
            self._run(run, by, f"{chore}, as scheduled", _ALL, halted)
        newest = self._store.runs.newest(50, chore)
        return next((each for each in newest if each.id == run.id), run)

    def _run(self, run: Run, by: str, why: str, scope: Scope, halted: Callable[[], bool]) -> Plan:
        """Do it, and end the run however it ends."""
        try:
            with self._beating(run):
                plan = self._done(run, by, why, scope, halted)
        except BaseException as error:
            _log.warning("%s failed: %s", run.chore, error)
            # Of what is not ours the name alone: its words could be a memory's, and the history knows no purge.
            told = error.message if isinstance(error, CofioError) else type(error).__name__
            self._end(run, "failed", {"error": told})
            raise
        self._end(run, "done", _told(plan), plan.changeset.id if plan.changeset else None)
        return plan

    def _end(self, run: Run, outcome: str, told: Mapping[str, Any], changeset: int | None = None) -> None:
        try:
            self._store.runs.finish(run.id, outcome, told, changeset)
        except CofioError as error:  # such as a run that was given up for dead: what it did is done all the same
            _log.warning("the end of %s could not be noted: %s", run.chore, error)

    def _done(self, run: Run, by: str, why: str, scope: Scope, halted: Callable[[], bool]) -> Plan:
        if run.chore == "backup":
            return self._backed_up()
        settled = self._settled() if run.slot else ()  # whoever asks in person gets the whole answer
        plan = self.consolidate(scope, halted, settled) if run.chore == "consolidate" else self.prune(halted)
        self._doing.flush()
        for _ in range(_TRIES):
            plan = replace(self._still_so(plan), dry_run=False)
            if not plan.decisions:
                return plan
            decisions = [_dated(each, plan.as_of) for each in plan.decisions]
            try:
                with self._deciding:
                    done = self._doing.apply(decisions, by=by, why=why or run.chore)
            except Conflict as error:  # another process was faster: without what it changed, then
                _log.info("%s again: %s", run.chore, error)
            else:
                return replace(plan, changeset=done)
        raise Conflict(f"{run.chore} was overtaken again and again.", "Nothing was changed. Try it at a quieter time.")

    def _settled(self) -> set[str]:
        """The clusters that were refused of late; when all those runs are forgotten, they are asked about once more."""
        late = self._store.runs.newest(_LATE, "consolidate")
        return {name for run in late for name in run.told.get("settled", ())}

    def _backed_up(self) -> Plan:
        if self._care.backup is None:
            raise NotConfigured("This store has no backup of its own.", "Back up the database with its own tools.")
        return Plan(chore="backup", dry_run=False, note=str(self._care.backup().get("path", "")))

    def _still_so(self, plan: Plan) -> Plan:
        """The plan without what anything was done to, or what somebody asked for, while it was made."""
        concerned = sorted({each for decision in plan.decisions for each in _ids(decision)})
        touched = self._store.uses.touched(concerned, plan.as_of)
        now = {memory.id: memory for memory in self._store.get(concerned) if memory.id not in touched}
        kept: list[Decision] = []
        moved: list[Refusal] = []
        for decision in plan.decisions:
            ids = _ids(decision)
            if all(each in now and _may_go(now[each], plan.chore) for each in ids):
                kept.append(decision)
            else:
                moved.append(Refusal(ids=ids, reason="it was changed or asked for meanwhile"))
        return replace(plan, decisions=tuple(kept), refused=(*plan.refused, *moved))

    @contextmanager
    def _beating(self, run: Run) -> Iterator[None]:
        """Say now and then that the run is alive, for as long as it is."""
        over = threading.Event()

        def beat() -> None:
            while not over.wait(_BEAT):
                try:
                    self._store.runs.alive(run.id)
                except CofioError as error:
                    _log.warning("a run could not say that it is alive: %s", error)

        thread = threading.Thread(target=beat, name="cofio-run", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    # ── what the steps are lent ───────────────────────────────────────────────────────────────────────────────────────

    def _finds(self, text: str, store: Store, scope: Scope) -> list[int]:
        """The ids that a search in that store finds, best first."""
        found = hits(Query(text=text, k=_FIRST, scope=scope), self._doing.question(text), store, self._doing.floor())
        return [hit.id for hit in found]

    def _stale(self, memories: Sequence[Memory]) -> dict[int, list[str]]:
        """What has changed or vanished of what these rest on, by id."""
        looked = ((memory, self._freshness.check(memory)) for memory in memories if memory.anchors)
        return {memory.id: list(found.notes) for memory, found in looked if found.state in ("changed", "vanished")}


def _known(chore: str) -> Chore:
    for each in CHORES:
        if each == chore:
            return each
    raise InvalidInput(f"There is no chore {chore!r}.", f"There are: {', '.join(CHORES)}.")


def _proposed(chore: str) -> Proposed:
    for each in PROPOSED:
        if each == chore:
            return each
    raise InvalidInput(f"Of {chore!r} nothing is approved.", f"There are: {', '.join(PROPOSED)}.")


def _few(decisions: Sequence[Decision]) -> Sequence[Decision]:
    if not 0 < len(decisions) <= _MOST_APPROVED:
        raise InvalidInput(f"These are {len(decisions):,} decisions.", f"Give 1 to {_MOST_APPROVED:,} at a time.")
    return decisions


def _checked(decision: Decision, chore: Proposed) -> Merge | Delete:
    """The decision, where it is one that this could have proposed."""
    if isinstance(decision, Delete):
        if chore == "contradictions" or (decision.into is None) == (chore == "prune"):
            return decision
    elif isinstance(decision, Merge) and chore == "consolidate" and len(set(decision.ids)) > 1:
        return decision
    says = {
        "consolidate": "Give merges of two memories or more, and deletions that say into which memory.",
        "prune": "Give deletions, into no other memory.",
        "contradictions": "Give deletions.",
    }
    raise InvalidInput(f"That is nothing that {chore} proposes.", says[chore])


def _placed(decision: Merge | Delete, there: Mapping[int, Memory]) -> Merge | Delete:
    """The decision with the place and the labels of the memories that it is about, which must share one."""
    members = [there[each] for each in _ids(decision)]
    if len({clusters.place(each) for each in members}) > 1:
        numbers = ", ".join(str(each.id) for each in members)
        hint = "They differ in project, source, speaker or in who may see them."
        raise InvalidInput(f"Memories {numbers} are of different places.", hint)
    if isinstance(decision, Delete):
        return decision
    return replace(decision, fact=consolidate.fact(decision.fact.text, members))


def _ids(decision: Decision) -> tuple[int, ...]:
    if isinstance(decision, Merge):
        return decision.ids
    if isinstance(decision, Delete):
        return (decision.id,) if decision.into is None else (decision.id, decision.into)
    return ()


def _may_go(memory: Memory, chore: Chore | Proposed) -> bool:
    return not memory.archived and (chore != "prune" or (memory.retrieval_count == 0 and not memory.pinned))


def _dated(decision: Decision, as_of: int) -> Decision:
    return replace(decision, as_of=as_of) if isinstance(decision, Merge | Delete) else decision


def _told(plan: Plan) -> dict[str, Any]:
    # Counts alone: a reason may hold words of a memory, and the history of runs knows no purge.
    counts = {"decisions": len(plan.decisions), "refused": len(plan.refused), "examined": plan.examined}
    return {**counts, "note": plan.note, **({"settled": list(plan.settled)} if plan.settled else {})}
