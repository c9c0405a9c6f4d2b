"""Two statements side by side: whether the new one says the same, takes the other's place, or stands beside it."""

from __future__ import annotations

from typing import Literal, NamedTuple

from cofio.relation import tables as t
from cofio.relation.statement import UNSAID, Statement, in_full
from cofio.relation.stems import stem
from cofio.sameness import OPPOSITES, REVERSING, VALUES


class Relation(NamedTuple):
    """How a new text stands to an old one, and why."""

    kind: Literal["same", "update", "different"]
    reason: str


def judged(new: Statement, old: Statement) -> Relation | None:
    """The relation that the statements themselves tell; None when they say too little."""
    if new.tentative != old.tentative:
        return None
    if new.past != old.past:  # what never was, was not then either
        return _denied(new, old) if new.never else None
    if not _of_one_name(new, old):  # another thing, and not another version of it
        new, old = in_full(new), in_full(old)
    for rule in (_replaced, _preferred, _denied, _turned, _repeated, _corrected):
        found = rule(new, old)
        if found is not None:
            return found
    return None


# ── rules, in the order in which they are asked ───────────────────────────────────────────────────────────────────────


def _replaced(new: Statement, old: Statement) -> Relation | None:
    """The new names what gives way, and the old says just that; or the old had given up what the new says."""
    if "prefer" in (new.verb, old.verb) or new.negated or old.negated or new.adding:
        return None
    if new.prior and new.value != old.value and _concerns(new, old) and (_says(old, new.prior) or _said_of(old, new)):
        return Relation("update", _change(new, old))
    if old.prior and old.prior == new.value and not new.prior and new.verb in ("use", "be") and _concerns(old, new):
        return Relation("update", f"{old.told} → {new.told}")
    return None


def _preferred(new: Statement, old: Statement) -> Relation | None:
    """What was preferred is now the lesser, or what was the lesser is now preferred."""
    if (new.verb, old.verb) != ("prefer", "prefer") or new.negated or old.negated or new.topic != old.topic:
        return None
    if new.purpose and old.purpose and new.purpose != old.purpose:
        return None
    turned = new.value == old.prior and (not new.prior or new.prior == old.value)
    if turned or (new.prior and new.prior == old.value and not old.prior):
        return Relation("update", f"{old.told} → {new.told}")
    return None


def _denied(new: Statement, old: Statement) -> Relation | None:
    """The one denies what the other says."""
    if new.negated == old.negated:
        return None
    denial, claim = (new, old) if new.negated else (old, new)
    allows = claim is new and _allows(claim, denial)
    if allows or _denies(denial, claim) or (denial is new and _denies_more(denial, claim)):
        return Relation("update", f"{claim.about or claim.told or 'it'}: the one says what the other denies")
    return None


def _turned(new: Statement, old: Statement) -> Relation | None:
    """The same, but for a preposition or an "often" that is the opposite of the other's."""
    if new.value or old.value or new.negated != old.negated or len(new.sequence) != len(old.sequence):
        return None
    differing = [pair for pair in zip(new.sequence, old.sequence, strict=True) if pair[0] != pair[1]]
    if len(differing) == 1 and _TURNING.issuperset(differing[0]) and opposed(*map(frozenset, zip(differing[0]))):
        return Relation("update", f"{differing[0][1]} → {differing[0][0]}")
    return None


def _repeated(new: Statement, old: Statement) -> Relation | None:
    """Both say the same of the same; what was there before may be told or not."""
    if new.negated != old.negated or not new.value or new.value != old.value or new.manner != old.manner:
        return None
    if new.ordered or old.ordered or not _same_topic(new, old):
        return None
    history = new.prior == old.prior or (bool(new.topic and old.topic) and new.verb != "prefer")
    if history and new.extra == old.extra and new.adding == old.adding:
        return Relation("same", "it says the same")
    return None


def _corrected(new: Statement, old: Statement) -> Relation | None:
    """Both speak of the same thing, of which only one value can hold."""
    if new.negated or old.negated or not new.value or not old.value or new.value == old.value:
        return None
    if not new.topic | new.purpose or not old.topic | old.purpose or not _same_topic(new, old, changed=True):
        return None
    if (new.doer and old.doer and new.doer != old.doer) or new.past or _says(old, new.value):
        return None  # somebody else does it, it happened twice, or the version goes without saying
    if new.edition and not t.SEVERAL.isdisjoint(new.topic):
        return None
    if new.adding:
        return Relation("different", f"{new.told} comes beside {old.told}")
    return Relation("update", _change(new, old)) if _exclude(new, old) else None


# ── parts of the comparison ───────────────────────────────────────────────────────────────────────────────────────────


def _of_one_name(new: Statement, old: Statement) -> bool:
    """Whether the numbers are versions of one name, be it said with the number ("Node 20") or apart ("Node to 22")."""
    if new.edition == old.edition:
        return True
    named, bare = (new, old) if new.edition else (old, new)
    return not bare.edition and bare.sort == "number" and named.edition in bare.topic and _is_version(bare)


def _is_version(bare: Statement) -> bool:
    """Whether the number can be a version: it counts nothing, and no verb says what else it is ("listens on 6380")."""
    beside = set(bare.sequence) - bare.topic - {*bare.value, *bare.prior} - t.BINDING
    return bare.loose <= _VERSION and beside <= t.CHANGING | t.USING | _VERSION


def _same_topic(new: Statement, old: Statement, *, changed: bool = False) -> bool:
    """Whether they speak of the same. With `changed`, what is counted need not be said again, nor what it is for."""
    if new.verb != old.verb and not {new.verb, old.verb} <= _ATTRIBUTES:
        return False
    one, other = (new.topic | new.purpose) - t.GENERIC, (old.topic | old.purpose) - t.GENERIC
    one, other = one - (new.loose & t.NEWNESS), other - (old.loose & t.NEWNESS)
    left, right = one - other, other - one
    if not changed or (left and right):
        return not left and not right
    apart = (left - new.loose) | (right - old.loose)
    return not apart or (new.changes and not new.purpose and apart == old.purpose)


#: Verbs that all tell a value of a topic: the ORM is A, we use A for the ORM.
_ATTRIBUTES = frozenset(("be", "use", "place"))


def _exclude(new: Statement, old: Statement) -> bool:
    """Whether only one of the two values can hold."""
    if "number" in (new.sort, old.sort) or "when" in (new.sort, old.sort):
        return new.sort == old.sort
    if new.single and (old.single or (new.changes and old.alone)):
        return True
    if new.verb == "prefer" and new.changes and new.value[-1] == old.value[-1]:  # double quotes now, and no more single
        return True
    return opposed(frozenset(new.value), frozenset(old.value))


def opposed(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether a word that only the one has is the opposite of a word that only the other has."""
    ones, others = one - other, other - one
    if any(_OPPOSITES.get(each, _NONE) & others for each in ones):
        return True
    return any(
        long.endswith(short) and long.removesuffix(short) in REVERSING
        for each in ones
        for against in others
        for short, long in (sorted((each, against), key=len),)
    )


def _says(old: Statement, given_up: tuple[str, ...]) -> bool:
    """Whether what was given up is what the old statement says, but for a version."""
    rest = set(old.value) - set(given_up)
    return bool(old.value) and set(given_up) <= set(old.value) and all(map(_goes_unsaid, rest))


def _goes_unsaid(word: str) -> bool:
    return word[0].isdigit() or word in _UNITS


def _said_of(old: Statement, new: Statement) -> bool:
    """Whether the old statement is the new one with what was given up in its place."""
    return not old.value and {*old.sequence} == ({*new.sequence} - {*new.value}) | {*new.prior}


def _concerns(change: Statement, other: Statement) -> bool:
    """Whether a change may be one of what the other says: not for another purpose, not in a narrower place."""
    if change.purpose and other.purpose and change.purpose != other.purpose:
        return False
    if change.verb == "use" and not _OWNED.isdisjoint(other.topic):
        return False  # "Ann is out, we use Zoom" says nothing of what Ann owns
    if _counted(change) - other.topic and _counted(other) - change.topic:
        return False  # 5 pods, and 3 replicas
    return change.topic - change.loose <= other.topic | other.purpose


def _counted(told: Statement) -> frozenset[str]:
    return (told.topic & told.loose) - UNSAID - t.NEWNESS


def _denies(denial: Statement, claim: Statement) -> bool:
    if denial.value and claim.value:
        if denial.value != claim.value or (denial.verb != claim.verb and "be" not in (denial.verb, claim.verb)):
            return False
        covered = denial.topic - denial.loose <= claim.topic | claim.loose and denial.purpose <= claim.purpose
        return covered and (denial.verb == "use" or claim.topic - claim.loose <= denial.topic | denial.loose)
    if claim.value and claim.sort != "number":
        return False
    return bool(denial.topic) and not denial.value and denial.topic == claim.topic


def _denies_more(denial: Statement, claim: Statement) -> bool:
    """Whether all of something is denied of which the claim tells a part: "never attended a course"."""
    said = set(denial.sequence) - {"user", "person"}
    found = said & set(claim.sequence)
    if denial.never and denial.ordered:  # what never was, was not in any way
        return denial.verb in found and len(found) > 1 and len(found) >= 0.6 * len(said)
    return bool(found) and found == said and denial.verb == claim.verb


def _allows(claim: Statement, denial: Statement) -> bool:
    """Whether just what was denied is all right now: "Friday deploys are ok again"."""
    return _ALLOW in claim.sequence and {*claim.sequence} - {_ALLOW} == {*denial.sequence}


def _change(new: Statement, old: Statement) -> str:
    about = old.about if len(old.about) < len(new.about) or not new.about else new.about
    return f"{about}: {old.told} → {new.told}" if about else f"{old.told} → {new.told}"


def kindred(one: str, other: str) -> bool:
    """Whether the two are values of one kind, of which the one is not the other: two colours, two weekdays."""
    return any(one in group and other in group for group in _KINDS)


_OWNED = frozenset(t.OWNING.values())
_VERSION = frozenset(("version",))
_UNITS = frozenset(t.UNITS.values())
_ALLOW = stem("allow")
_KINDS = tuple(frozenset(map(stem, group)) for group in VALUES)
_TURNING = t.BINDING | frozenset(map(stem, t.OFTENNESS))
_NONE: frozenset[str] = frozenset()
_OPPOSITES: dict[str, set[str]] = {}
for _one, _other in (pair for left, right in OPPOSITES for pair in ((left, right), (right, left))):
    for _form in (_one, stem(_one)):  # prepositions are no stems
        _OPPOSITES.setdefault(_form, set()).update((_other, stem(_other)))
