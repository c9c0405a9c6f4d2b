"""Confidence of a claim, from its prior and the verdicts since.

    confidence = (STRENGTH · prior + confirmed) / (STRENGTH + confirmed + refuted)

This is the mean of a Beta distribution whose prior counts for STRENGTH verdicts, and to which each verdict adds one
(Beta-Bernoulli). It depends on the number of verdicts, not on their order, so each can be taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, TypeVar

from cofio.errors import InvalidInput
from cofio.models.domain_knowledge import Claim, Feedback, Knowledge, KnowledgeChange, is_same_row
from cofio.models.memory import check_fraction, check_int

#: Weight of the prior, in verdicts.
STRENGTH = 4

_Claim = TypeVar("_Claim", bound=Claim)
_COUNTED = {"confirmed": "confirmed", "false_alarm": "refuted"}  # by verdict; a note is not counted


def confidence_of(prior: float, confirmed: int, refuted: int) -> float:
    """Return the confidence, from 0 to 1."""
    check_fraction(prior, "prior")
    for name, count in (("confirmed", confirmed), ("refuted", refuted)):
        check_int(count, name, least=0)
    if not confirmed and not refuted:
        return prior  # exact, without rounding errors
    return (STRENGTH * prior + confirmed) / (STRENGTH + confirmed + refuted)


def apply_verdict(claim: _Claim, verdict: str, times: Literal[1, -1] = 1) -> _Claim:
    """Return the claim after a verdict on it; with `times=-1`, after removing one.

    Raise InvalidInput if there is no such verdict to remove.
    """
    if verdict not in _COUNTED:
        return claim
    name = _COUNTED[verdict]
    count = getattr(claim, name) + times
    if count < 0:
        raise InvalidInput(
            f"{claim.ref} has no verdict {verdict!r} to remove.", "`cofio knowledge list feedback` lists the verdicts."
        )
    counts = {"confirmed": claim.confirmed, "refuted": claim.refuted, name: count}
    prior = claim.confidence if claim.prior is None else claim.prior
    return replace(claim, **counts, confidence=confidence_of(prior, **counts))


def carry_confidence(old: _Claim, new: _Claim, *, stated: bool) -> _Claim:
    """Return the new claim with its confidence after replacing the old one.

    A stated confidence becomes the new prior and resets the verdicts. Otherwise the old confidence is kept: with its
    verdicts if the claim is unchanged, else as the new prior.
    """
    if stated:
        return replace(new, prior=new.confidence, confirmed=0, refuted=0)
    if not is_same_row(_strip_claim(old), _strip_claim(new)):
        return replace(new, confidence=old.confidence, prior=old.confidence, confirmed=0, refuted=0)
    return replace(new, confidence=old.confidence, prior=old.prior, confirmed=old.confirmed, refuted=old.refuted)


def _strip_claim(claim: Claim) -> Claim:
    """Return the claim without confidence, owner and memory."""
    unowned = replace(claim, place="", agent="", user="", team="", visibility="private")
    return replace(unowned, confidence=0.5, prior=0.5, confirmed=0, refuted=0, memory=None)


BROUGHT = 0  # stands for a changeset: verdicts imported with the claim from another store


def counting_changesets(history: Sequence[KnowledgeChange]) -> frozenset[int]:
    """Return the changesets whose verdicts still count in a claim, from its history.

    Verdicts from before the claim was restated, or dropped and stored again, do not count.
    """

    def count(standing: frozenset[int], change: KnowledgeChange) -> frozenset[int]:
        before, after = change.before, change.after
        if not isinstance(after, Claim) or not after.confirmed + after.refuted:
            return frozenset()
        if not isinstance(before, Claim):
            return frozenset({BROUGHT})
        if before.prior != after.prior:
            return frozenset()
        moved = (before.confirmed, before.refuted) != (after.confirmed, after.refuted)
        return standing | {change.changeset} if moved else standing

    return _fold_history(history, count)


def processed_in(history: Sequence[KnowledgeChange], ref: str) -> frozenset[int]:
    """Return the changesets in which a verdict may have been applied to this claim, from the verdict's history.

    There are several if the verdict was stored again for the same claim: the claim changed in the last one only if it
    had lost the verdict before. Empty if the verdict does not count.
    """

    def count(since: frozenset[int], change: KnowledgeChange) -> frozenset[int]:
        before, after = change.before, change.after
        if not isinstance(after, Feedback) or not _judges(after, ref):
            return frozenset()
        as_before = isinstance(before, Feedback) and _judges(before, ref) and before.verdict == after.verdict
        return since | {change.changeset} if as_before else frozenset({change.changeset})

    return _fold_history(history, count)


def verdict_counts(verdict: Sequence[KnowledgeChange], claim: Sequence[KnowledgeChange], ref: str) -> bool:
    """Return whether a verdict currently counts in this claim, from both histories."""
    since, standing = processed_in(verdict, ref), counting_changesets(claim)
    if since & standing:
        return True
    came = BROUGHT in standing and any(change.changeset in since and change.before is None for change in verdict)
    return came and not any(change.changeset in since for change in claim if change.action != "add")


def _judges(verdict: Feedback, ref: str) -> bool:
    return verdict.processed and ref in verdict.about


def _fold_history(
    history: Sequence[KnowledgeChange], count: Callable[[frozenset[int], KnowledgeChange], frozenset[int]]
) -> frozenset[int]:
    """Fold a row's changes into the changesets that count. An undo returns to the earlier ones with that content."""
    counting: frozenset[int] = frozenset()
    earlier: list[tuple[Knowledge | None, frozenset[int]]] = [(None, counting)]
    for change in history:
        if change.action == "revert":
            counting = next((then for row, then in reversed(earlier) if row == change.after), frozenset())
        else:
            counting = count(counting, change)
        earlier.append((change.after, counting))
    return counting
