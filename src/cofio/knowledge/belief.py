"""How far a claim is believed: what it was given at first, and the verdicts since.

    confidence = (STRENGTH · prior + confirmed) / (STRENGTH + confirmed + refuted)

This is the mean of a Beta distribution whose prior counts for STRENGTH verdicts, and to which each verdict adds one
(Beta-Bernoulli). It depends on how many verdicts there were, never on their order, and so each can be taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, TypeVar

from cofio.domain import Claim, Feedback, Knowledge, KnowledgeChange, same
from cofio.errors import InvalidInput
from cofio.model import share, whole

#: What the prior counts for, in verdicts.
STRENGTH = 4

_Claim = TypeVar("_Claim", bound=Claim)
_COUNTED = {"confirmed": "confirmed", "false_alarm": "refuted"}  # by verdict; a note counts for nothing


def believed(prior: float, confirmed: int, refuted: int) -> float:
    """The confidence, from 0 to 1."""
    share(prior, "prior")
    for name, count in (("confirmed", confirmed), ("refuted", refuted)):
        whole(count, name, least=0)
    if not confirmed and not refuted:
        return prior  # itself, not what rounding makes of it
    return (STRENGTH * prior + confirmed) / (STRENGTH + confirmed + refuted)


def judged(claim: _Claim, verdict: str, times: Literal[1, -1] = 1) -> _Claim:
    """The claim after a verdict on it; with -1, as if that had never been. InvalidInput when it had not been."""
    if verdict not in _COUNTED:
        return claim
    name = _COUNTED[verdict]
    count = getattr(claim, name) + times
    if count < 0:
        raise InvalidInput(f"{claim.ref} has no such verdict.", "Take back only what was given.")
    counts = {"confirmed": claim.confirmed, "refuted": claim.refuted, name: count}
    return replace(claim, **counts, confidence=believed(_prior(claim), **counts))


def restated(old: _Claim, new: _Claim, *, stated: bool) -> _Claim:
    """The new claim with the confidence that it is to have in the place of the old.

    One that is stated counts from now on. Else the old one stays: with its verdicts where the claim says the same, as
    what it starts from where it says something else.
    """
    if stated:
        return replace(new, prior=new.confidence, confirmed=0, refuted=0)
    if same(_said(old), _said(new)):
        return _with_belief(new, old)
    return replace(new, confidence=old.confidence, prior=old.confidence, confirmed=0, refuted=0)


def _prior(claim: Claim) -> float:
    return claim.confidence if claim.prior is None else claim.prior


def _with_belief(claim: _Claim, believed_as: Claim) -> _Claim:
    kept = {name: getattr(believed_as, name) for name in ("confidence", "prior", "confirmed", "refuted")}
    return replace(claim, **kept)


def _said(claim: Claim) -> Claim:
    """The claim without how far it is believed, whose it is, and which memory says it in words."""
    nobodys = replace(claim, place="", agent="", user="", team="", visibility="private")
    return replace(nobodys, confidence=0.5, prior=0.5, confirmed=0, refuted=0, memory=None)


# ── which verdicts count ──────────────────────────────────────────────────────────────────────────────────────────────

BROUGHT = 0  # in the place of a changeset: what came with the claim, from another store


def counting(history: Sequence[KnowledgeChange]) -> frozenset[int]:
    """The changesets in which verdicts came to count that still count, by the history of a claim.

    None of those from before it was restated, or dropped and put anew.
    """
    return _traced(history, frozenset(), _counting)


def processed_in(history: Sequence[KnowledgeChange], ref: str) -> frozenset[int]:
    """The changesets in one of which a verdict came to count in the claim of this name, by the verdict's history.

    Several, where it was kept anew since and judges the claim as before: the claim moved in the last only if it had
    forgotten the verdict by then. None where it does not count.
    """
    return _traced(history, frozenset(), lambda since, change: _processed_in(since, change, ref))


def counts(verdict: Sequence[KnowledgeChange], claim: Sequence[KnowledgeChange], ref: str) -> bool:
    """Whether a verdict counts now in the claim of this name, by the history of both."""
    since, standing = processed_in(verdict, ref), counting(claim)
    if since & standing:
        return True
    came = BROUGHT in standing and any(each.changeset in since and each.before is None for each in verdict)
    return came and not any(each.changeset in since for each in claim if each.action != "add")


def _counting(standing: frozenset[int], change: KnowledgeChange) -> frozenset[int]:
    before, after = change.before, change.after
    if not isinstance(after, Claim) or not after.confirmed + after.refuted:
        return frozenset()
    if not isinstance(before, Claim):
        return frozenset({BROUGHT})
    if before.prior != after.prior:
        return frozenset()
    moved = (before.confirmed, before.refuted) != (after.confirmed, after.refuted)
    return standing | {change.changeset} if moved else standing


def _processed_in(since: frozenset[int], change: KnowledgeChange, ref: str) -> frozenset[int]:
    before, after = change.before, change.after
    if not isinstance(after, Feedback) or not _judges(after, ref):
        return frozenset()
    as_before = isinstance(before, Feedback) and _judges(before, ref) and before.verdict == after.verdict
    return since | {change.changeset} if as_before else frozenset({change.changeset})


def _judges(verdict: Feedback, ref: str) -> bool:
    return verdict.processed and ref in verdict.about


_State = TypeVar("_State")


def _traced(
    history: Sequence[KnowledgeChange], start: _State, after: Callable[[_State, KnowledgeChange], _State]
) -> _State:
    """What a row's changes lead to. An undo leads back to what held when the row was last as it then is."""
    state = start
    been: list[tuple[Knowledge | None, _State]] = [(None, start)]
    for change in history:
        if change.action == "revert":
            state = next((then for row, then in reversed(been) if row == change.after), start)
        else:
            state = after(state, change)
        been.append((change.after, state))
    return state
