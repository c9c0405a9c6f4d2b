"""Writing: applies decisions in one transaction, with the vectors, code references and domain knowledge they imply.

decisions ─ anchors of new texts ─ vectors of new texts ─ rows of removed texts ─▶ store.apply ─▶ Changeset
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from cofio.domain_knowledge import cascade
from cofio.errors import Forbidden, InvalidInput, Unavailable
from cofio.ingest.redaction import Redactor
from cofio.models.memory import (
    MAX_LABEL,
    MAX_TEXT,
    Add,
    Changeset,
    Decision,
    Edit,
    Fact,
    Memory,
    Merge,
    PutRow,
    Restore,
    Revert,
    RevertRow,
    RowDecision,
    Update,
    apply_edit,
    check_text,
    fact_of,
)
from cofio.ports import Basis, Settles, Vector
from cofio.retrieval.encoder import StoreEncoder
from cofio.staleness import StalenessChecker
from cofio.stores.access import Access
from cofio.text.tokens import embedding_text

EMBEDDING_BATCH = 256  # texts embedded and written per batch in bulk work
_log = logging.getLogger(__name__)


class Writer:
    """Applies decisions on behalf of one caller. Every write except learning ends here."""

    def __init__(
        self,
        access: Access,
        encoder: StoreEncoder,
        staleness: StalenessChecker,
        lock: threading.RLock,
        on_invalidate: Callable[[], None] = lambda: None,
    ) -> None:
        self.access = access
        self.encoder = encoder
        self.staleness = staleness
        self.lock = lock  # held from decision to write, so that decisions still hold when applied
        self._on_invalidate = on_invalidate  # called when a text was corrected or removed: copies must go

    def apply(
        self,
        decisions: Sequence[Decision],
        *,
        by: str,
        why: str,
        undoes: int | None = None,
        part_of: int | None = None,
        keep_secret: bool = False,
    ) -> Changeset:
        """Apply decisions in one transaction; those about domain knowledge are applied last.

        Secrets are redacted; only the owner may keep one.
        """
        return self.decide_and_apply(
            lambda: decisions, by=by, why=why, undoes=undoes, part_of=part_of, keep_secret=keep_secret
        )

    def decide_and_apply(
        self,
        decide: Callable[[], Sequence[Decision]],
        *,
        by: str,
        why: str,
        undoes: int | None = None,
        part_of: int | None = None,
        keep_secret: bool = False,
    ) -> Changeset:
        """Apply the decisions of a function that only reads the store, as `apply` does.

        It is called again inside the transaction if another process has written since. A text that differs then gets
        its vector later.
        """
        check_author(by, why)
        redactor = self.redactor(keep_secret=keep_secret)
        vectors: dict[str, Vector] = {}

        def prepare() -> tuple[list[Decision], dict[int, str]]:
            decisions = decide()
            check_decisions(decisions)
            clean = [redactor.decision(decision, self._find) for decision in decisions]
            anchored = [self._anchor_decision(decision) for decision in clean]
            return anchored, self._list_texts(anchored)

        def decide_again() -> tuple[list[Decision], dict[int, Vector]]:
            decisions, texts = prepare()
            return decisions, {place: vectors[text] for place, text in texts.items() if text in vectors}

        basis = Basis(self.access.store.newest_changeset(), decide_again)
        decisions, texts = prepare()
        vectors.update(self._embed(texts))
        needed = {place: vectors[text] for place, text in texts.items()}
        changeset = self.commit(decisions, needed, by=by, why=why, undoes=undoes, part_of=part_of, basis=basis)
        return changeset.with_redacted(redactor.kinds)

    def apply_corrections(
        self, decisions: Sequence[Decision], *, by: str, why: str, keep_secret: bool = False
    ) -> Changeset:
        """Apply a person's decisions about memories and drop the rows read from their texts, in one changeset."""
        return self.decide_and_apply(
            lambda: [*decisions, *self.removed_rows(decisions)], by=by, why=why, keep_secret=keep_secret
        )

    def redactor(self, *, keep_secret: bool = False) -> Redactor:
        """Return what redacts the caller's words; one that keeps secrets is for the owner only."""
        if not keep_secret:
            return Redactor()
        self.access.require_owner("Keeping a secret")
        if self.access.provenance == "assistant":
            raise Forbidden("An agent cannot keep a secret.", "Ask a person to run `cofio add --keep-secret`.")
        return Redactor(str)

    def _find(self, memory_id: int) -> Sequence[Memory]:
        return self.access.store.get([memory_id])

    def apply_without_embedder(
        self, decisions: Sequence[Decision], *, by: str, why: str, part_of: int | None
    ) -> tuple[Changeset, int]:
        """Apply decisions even if the embedder fails; also return the number of memories that wait for a vector."""
        check_decisions(decisions)
        check_author(by, why)
        redactor = self.redactor()
        decisions = [self._anchor_decision(redactor.decision(decision, self._find)) for decision in decisions]
        waiting = 0
        try:
            texts = self._list_texts(decisions)
            by_text = self._embed(texts)
            vectors = {place: by_text[text] for place, text in texts.items()}
        except Unavailable as error:
            _log.warning(
                "Memories are stored without vectors, since the embedder failed; search finds them by words only: %s",
                error,
            )
            vectors, waiting = {}, sum(_has_text(decision) for decision in decisions)
        with self.lock:
            decisions += self.removed_rows(decisions)
            changeset = self.commit(decisions, vectors, by=by, why=why, part_of=part_of)
        return changeset.with_redacted(redactor.kinds), waiting

    def revert(self, changeset: Changeset, *, by: str, why: str, part_of: int | None = None) -> Changeset:
        """Undo a changeset, newest change first, by a new one."""
        reason = f"undo of changeset {changeset.id}"
        memories = [Revert(change.id, reason) for change in reversed(changeset.changes)]
        rows = [RevertRow(change.id, reason) for change in reversed(changeset.knowledge)]
        return self.apply([*memories, *rows], by=by, why=why, undoes=changeset.id, part_of=part_of)

    def commit(
        self,
        decisions: Sequence[Decision],
        vectors: Mapping[int, Vector],
        *,
        by: str,
        why: str,
        undoes: int | None = None,
        part_of: int | None = None,
        basis: Basis | None = None,
        settles: Settles | None = None,
    ) -> Changeset:
        """Write decisions whose vectors are known and whose words are redacted."""
        with self.lock:
            changeset = self.access.store.apply(
                decisions,
                vectors,
                by=by,
                why=Redactor().value(why),
                undoes=undoes,
                part_of=part_of,
                basis=basis,
                settles=settles,
            )
        if changeset.takes_back:
            self._on_invalidate()
        return changeset

    def removed_rows(self, decisions: Sequence[Decision]) -> list[RowDecision]:
        """Return decisions that remove rows read from memories that these archive, correct or erase."""
        return cascade.removed_rows(decisions, self.access.store, self.access.viewer)

    def restored_rows(self, decisions: Sequence[Decision]) -> list[RowDecision]:
        """Return decisions that restore the rows dropped with the memories that these restore; each row once."""
        restored_ids = [decision.id for decision in decisions if isinstance(decision, Restore)]
        store, viewer = self.access.store, self.access.viewer
        rows = [row for memory_id in restored_ids for row in cascade.restored_rows(memory_id, store, viewer)]
        return list({row.row.ref: row for row in rows if isinstance(row, PutRow)}.values())

    def add_anchors(self, fact: Fact) -> Fact:
        """Return the fact with the anchors of its text, unless it has anchors."""
        return fact if fact.anchors else self.staleness.anchored(fact)

    def embed_missing(
        self,
        progress: Callable[[int], None] | None = None,
        *,
        most: int | None = None,
    ) -> int:
        """Embed memories without a vector, all or at most `most`; return their number."""
        total, store = 0, self.access.store
        while memories := store.unembedded(EMBEDDING_BATCH if most is None else min(EMBEDDING_BATCH, most - total)):
            self._put_vectors(memories)
            total += len(memories)
            if progress:
                progress(total)
        return total

    def embed_again(self, ids: Sequence[int]) -> None:
        """Embed those of these memories that lost their vector; if there are many, leave them to `embed_missing`."""
        missing = self.access.store.unembedded(EMBEDDING_BATCH, among=ids)
        if missing and len(missing) < EMBEDDING_BATCH:
            self._put_vectors(missing)

    def _put_vectors(self, memories: Sequence[Memory]) -> None:
        vectors = self.encoder.embed([embedding_text(memory.text, memory.speaker) for memory in memories])
        self.access.store.put_vectors({memory.id: vector for memory, vector in zip(memories, vectors, strict=True)})

    def _anchor_decision(self, decision: Decision) -> Decision:
        if isinstance(decision, Add | Update | Merge):
            return replace(decision, fact=self.add_anchors(decision.fact))
        if not isinstance(decision, Edit) or "anchors" in decision.fields:
            return decision
        for memory in self.access.store.get([decision.id]) if decision.fields.keys() & {"text", "project"} else ():
            anchors = self.staleness.anchored(fact_of(apply_edit(memory, decision.fields))).anchors
            if anchors != memory.anchors:
                return replace(decision, fields={**decision.fields, "anchors": anchors})
        return decision

    def _list_texts(self, decisions: Sequence[Decision]) -> dict[int, str]:
        """Return the texts to embed, by the index of their decision."""
        texts: dict[int, str] = {}
        for place, decision in enumerate(decisions):
            if isinstance(decision, Add | Update | Merge):
                texts[place] = embedding_text(decision.fact.text, decision.fact.speaker)
            elif isinstance(decision, Edit) and _has_text(decision):
                memory = apply_edit(self.access.get_memory(decision.id), decision.fields)
                texts[place] = embedding_text(memory.text, memory.speaker)
        return texts

    def _embed(self, texts: Mapping[int, str]) -> dict[str, Vector]:
        """Return the vector of each text."""
        unique = list(dict.fromkeys(texts.values()))
        return dict(zip(unique, self.encoder.embed(unique), strict=True)) if unique else {}


def check_author(by: str, why: str = "") -> None:
    """Raise InvalidInput if the author or the reason of a change is not a short text."""
    check_text(by, "by", MAX_LABEL)
    check_text(why, "why", MAX_TEXT)


def check_decisions(decisions: Sequence[Decision]) -> None:
    """Raise InvalidInput if these are not decisions, or none."""
    if not decisions:
        raise InvalidInput("No decision was given.", "Give at least one.")
    if not all(isinstance(decision, Decision) for decision in decisions):
        raise InvalidInput(
            "decisions contains something other than decisions.",
            "Allowed: Add, Update, Edit, Delete, Restore, Noop, Purge, PutRow, DeleteRow or PurgeRow.",
        )


def _has_text(decision: Decision) -> bool:
    if isinstance(decision, Edit):
        return bool(decision.fields.keys() & {"text", "speaker"})
    return isinstance(decision, Add | Update | Merge)
