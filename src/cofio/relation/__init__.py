"""How a new text stands to an old one, told by what they say: the same, an update of it, or both may hold.

    text ─ reading ─▶ clauses of tokens ─ frames ─▶ statements: topic, value, what gave way ─ judging ─▶ Relation
                                        └ shape ──▶ parts in order ─ rewording ─▶ the same, in other words

A correction is as near to what it corrects as a paraphrase is, so nearness decides nothing: a low cosine keeps texts
apart, a high one brings none together. Two statements about the same topic with one value at a time cannot both hold;
the new one is an update. Numbers, names and places in the topic make it another topic. When in doubt, the texts are
different: a line too many costs less than a fact that is lost or overwritten.

Part of the words: pure functions over str.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from cofio.literals import unlike
from cofio.relation import tables
from cofio.relation.frames import statement
from cofio.relation.judging import Relation, judged
from cofio.relation.reading import Token, clauses
from cofio.relation.rewording import reworded
from cofio.relation.statement import Statement
from cofio.sameness import LONG, apart, gist

__all__ = ["Relation", "between", "news"]

#: Texts with a lower cosine speak of different things, whichever model made the vectors.
FLOOR = 0.10
MOST = 12  # clauses; a text that states more is a document
_SPARE = 2  # words by which a scene may be told at greater length
_DIFFERENT = Relation("different", "both may hold")


class _Clause(NamedTuple):
    """A clause as it is compared."""

    tokens: tuple[Token, ...]
    statement: Statement


class _Text(NamedTuple):
    """A text as it is compared: by its words, and by what its clauses say."""

    gist: list[str]
    clauses: tuple[_Clause, ...]
    whole: bool  # whether the clauses are all of it


def between(new: str, old: str, cosine: float) -> Relation:
    """What the new text is to the old one, and why. For an update, the reason tells what changed."""
    if max(len(new), len(old)) > LONG:
        same = gist(new) == gist(old) and not unlike(new, old)
        return Relation("same" if same else "different", "texts of this length are compared word for word")
    one, other = _read(new), _read(old)
    if one.gist == other.gist:
        written = unlike(new, old)
        return Relation("different", written) if written else Relation("same", "it is said in the same words")
    if cosine < FLOOR:
        return Relation("different", "they speak of different things")
    single = len(one.clauses) == len(other.clauses) == 1
    compared = _compared(one.clauses[0], other.clauses[0], cosine) if single else _of_several(one, other, cosine)
    if compared is None or (compared.kind == "same" and not (one.whole and other.whole and not unlike(new, old))):
        return _DIFFERENT
    return compared


def news(new: str, old: str, cosine: float, threshold: float) -> str:
    """Why a new text does not just repeat an old one that is as near as the threshold; "" when it does.

    What says the same by what it states, or in the same words, is the same from the threshold on; what says so in other
    words, and where nothing differs that could be a value, from halfway between the threshold and 1.
    """
    told = between(new, old, cosine)
    if told.kind == "same":
        return ""
    spare = _SPARE if _is_scene(new) and _is_scene(old) else 0
    against = apart(new, old, cosine, sure=(1 + threshold) / 2, spare=spare)
    return against or (told.reason if told.kind == "update" else "")


def _is_scene(text: str) -> bool:
    read = _read(text)
    return read.whole and bool(read.clauses) and not any(map(_matters, read.clauses))


def _of_several(new: _Text, old: _Text, cosine: float) -> Relation | None:
    """The same when every clause is said in both; an update when nothing that the old text says would be lost by it."""
    found = [[_compared(one, other, cosine) or _DIFFERENT for other in old.clauses] for one in new.clauses]
    by_old = list(zip(*found, strict=True))
    if found and by_old and all(any(each.kind == "same" for each in row) for row in (*found, *by_old)):
        return Relation("same", "it says the same")
    updates = [each for row in found for each in row if each.kind == "update"]
    kept = all(any(each.kind != "different" for each in column) for column in by_old)
    return updates[0] if updates and kept else None


def _compared(new: _Clause, old: _Clause, cosine: float) -> Relation | None:
    one, other = new.statement, old.statement
    found = judged(one, other)
    if found is not None:
        return found
    if (one.negated, one.past, one.adding, one.tentative) != (other.negated, other.past, other.adding, other.tentative):
        return None
    matters = _matters(new) or _matters(old)
    if reworded(new.tokens, old.tokens, 0.0 if matters else cosine):
        return Relation("same", "it says the same in other words")
    return None


def _matters(clause: _Clause) -> bool:
    """Whether each word may be all that matters. It does not in a scene: somebody, whoever it is, does something."""
    first, *rest = clause.tokens
    doing = any(one.kind == "be" and two.low.endswith("ing") for one, two in pairwise(rest))
    return first.low not in tables.INDEFINITE or not doing


@lru_cache(maxsize=32_768)
def _read(text: str) -> _Text:
    stated, whole = clauses(text)
    if len(stated) > MOST:
        stated, whole = [], False
    return _Text(gist(text), tuple(_Clause(tuple(each), statement(each)) for each in stated), whole)
