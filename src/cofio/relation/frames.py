"""Where a clause has its value: one short function a family of verbs.

Each takes the divided clause and gives a statement, or None when the clause is not of its family; the first that fits
is taken. What is left when the value is taken out is the topic.
"""

from __future__ import annotations

from dataclasses import replace

from cofio.relation import tables as t
from cofio.relation.clause import Clause, Phrase, divided, phrases
from cofio.relation.reading import NOTHING, Token, Tokens
from cofio.relation.statement import Statement, Words, has, said, topic_of, valued, words


def statement(tokens: Tokens) -> Statement:
    """What the clause of these tokens says."""
    clause = divided(tokens)
    found = next(filter(None, (frame(clause) for frame in _FRAMES)), None) or _plain(clause)
    indefinite = bool(clause.subject) and clause.subject[0].low in t.INDEFINITE
    found.single &= not (indefinite and found.sort in ("name", "word"))
    plain = bool(found.value) and len(found.topic) < 3 and (clause.passive or _is_speaker(clause.subject))
    found.ordered = clause.verb not in t.LIGHT and (not found.value or (found.ordered and not plain))
    found.doer = topic_of(clause.subject) if found.ordered and not clause.passive else found.doer
    found.negated ^= clause.negated
    found.never = clause.negated and any(each.word == "never" for each in tokens)
    found.past = clause.past and not found.changes
    found.adding = clause.adding
    found.tentative = clause.tentative
    found.extra |= frozenset(clause.extra)
    found.sequence = words(tokens)
    return found


# ── one thing for another ─────────────────────────────────────────────────────────────────────────────────────────────


def _arrow(clause: Clause) -> Statement | None:
    """X is A → B."""
    tokens = [*clause.subject, *clause.rest]
    place = next((place for place, each in enumerate(tokens) if each.word == "->"), 0)
    if not place or place + 1 == len(tokens):
        return None
    start = len(clause.subject) if clause.rest and len(clause.subject) < place else place - 1
    new, *others = phrases(tokens[place + 1 :])
    about = [*tokens[:start], *_flat(others)]
    if clause.verb == t.USE:
        return _took_place(new.tokens, tokens[start:place], others)
    return valued(about, new.tokens, prior=tokens[start:place], single=True, changes=True)


def _replaced(clause: Clause) -> Statement | None:
    """replaced A with B, A was swapped for B, B replaces A."""
    by = clause.by
    if clause.verb not in t.REPLACING:
        return None
    joint = next((each for each in ("with", "by", "for") if by.get(each)), "")
    if joint:
        old = clause.subject if clause.passive else by[""]
        return _took_place(by[joint], old, clause.others("", joint))
    return _took_place(clause.subject, by[""], clause.parts[1:]) if by[""] and not clause.passive else None


def _left_behind(clause: Clause) -> Statement | None:
    """dropped A, ditched A for B."""
    by = clause.by
    if clause.verb in t.LEAVING and clause.passive and has(by.get("for", ()), "name"):
        return _took_place(by["for"], clause.subject, clause.others("", "for"))
    if clause.verb not in t.LEAVING or not by[""] or not _is_speaker(clause.subject):
        return None
    if has(by.get("for", ()), "name"):
        return _took_place(by["for"], by[""], clause.others("", "for"))
    found = _use(clause.subject, by[""], clause.parts[1:])
    found.negated = True
    return found


def _instead(clause: Clause) -> Statement | None:
    """uses B instead of A, reads from B instead of A."""
    by = clause.by
    if not by.get("insteadof") or clause.verb in t.PREFERRING:
        return None
    if not by[""]:
        return _instead_behind(clause)
    others = clause.others("", "insteadof")
    if clause.verb in t.USING:
        return _took_place(by[""], by["insteadof"], others)
    about = [*clause.subject, *_verb(clause), *_flat(others)]
    return valued(about, by[""], prior=by["insteadof"], verb=clause.verb, single=True)


def _instead_behind(clause: Clause) -> Statement | None:
    """The same, where B hangs on a preposition: what it says without A, or else of what follows the verb."""
    prior, parts = clause.by["insteadof"], clause.others("insteadof")
    by = {bind: tokens for bind, tokens in clause.by.items() if bind != "insteadof"}
    rest = replace(clause, parts=parts, by=by, rest=_flat(parts))
    found = next(filter(None, (frame(rest) for frame in (_changed, _placed, _single))), None)
    if found is not None and found.value and words(prior):
        found.prior, found.changes = words(prior), True
        return found
    if len(parts) < 2 or not words(parts[1].tokens):
        return None
    about = [*clause.subject, *_verb(clause), *_flat(parts[2:])]
    return valued(about, parts[1].tokens, prior=prior, verb=clause.verb, single=True)


def _changed(clause: Clause) -> Statement | None:
    """switched from A to B, changed X from A to B, X was raised to B, set X to B."""
    by = clause.by
    new, prior = by.get("to"), by.get("from", [])
    if clause.verb not in t.CHANGING or not new:
        return None
    topic = [*by[""], *([] if _is_speaker(clause.subject) else clause.subject)]
    others = clause.others("", "from", "to")
    somewhere = clause.verb in t.MOVING and not prior and not has(new, "number")
    if somewhere:
        return None
    if topic:
        return valued([*topic, *_flat(others)], new, prior=prior, single=True, changes=True)
    if prior or has(new, "number"):
        return _took_place(new, prior, others)
    found = _use(clause.subject, new, others)
    found.changes = True
    return found


def _took_place(new: Tokens, old: Tokens, others: list[Phrase]) -> Statement:
    purpose, scope = _purpose(others)
    found = valued(scope, new, prior=old, verb="use", single=True, changes=True)
    found.purpose = topic_of(purpose)
    return found


# ── what somebody uses, likes, owns ───────────────────────────────────────────────────────────────────────────────────


def _preferred(clause: Clause) -> Statement | None:
    if clause.verb not in t.PREFERRING:
        return None
    lesser = next((clause.by[each] for each in ("over", "insteadof", "to") if clause.by.get(each)), [])
    purpose, scope = _purpose(clause.others("", "over", "insteadof", "to"))
    found = valued([*clause.subject, *scope], clause.by[""], prior=lesser, verb="prefer", single=bool(purpose))
    found.changes |= clause.now
    found.purpose = topic_of(purpose)
    return found


def _liked(clause: Clause) -> Statement | None:
    if clause.verb not in t.LIKING:
        return None
    strong: Words = frozenset({clause.verb} - t.MILD)
    about = [*clause.subject, *clause.rest]
    return Statement(
        verb="like", topic=topic_of(about), extra=strong, negated=not t.LIKING[clause.verb], about=said(clause.rest)
    )


def _owned(clause: Clause) -> Statement | None:
    """Ann owns X, X is led by Ann: the person is the value."""
    if clause.verb not in t.OWNING or clause.verb not in t.VERBS:
        return None
    verb = [Token(t.OWNING[clause.verb], clause.verb, "word")]
    if clause.passive and clause.by.get("by"):
        return valued([*clause.subject, *verb, *_flat(clause.others("by"))], clause.by["by"], single=True)
    if not clause.passive and clause.by[""] and clause.subject:
        return valued([*clause.by[""], *verb, *_flat(clause.parts[1:])], clause.subject, single=True)
    return None


def _used(clause: Clause) -> Statement | None:
    if clause.verb not in t.USING:
        return None
    parts = clause.parts
    if clause.passive:
        return _use([], clause.subject, parts)
    if not parts[0].tokens and len(parts) > 1:  # relies on, standardised on
        parts = [Phrase("", parts[1].tokens), *parts[2:]]
    found = _use(clause.subject, parts[0].tokens, parts[1:]) if parts[0].tokens else None
    if found is not None and clause.now:  # what uses it now, used something else before
        found.single = found.single or bool(found.topic)
    return found


def _handled(clause: Clause) -> Statement | None:
    """X handles P, P is handled by X: X is used for P."""
    if clause.verb not in t.HANDLING:
        return None
    name, work = (clause.by.get("by", []), clause.subject) if clause.passive else (clause.subject, clause.by[""])
    if not name or not work or not _is_name(name) or has(name, "number"):
        return None
    found = _use([], name, clause.others("", "by"))
    found.purpose, found.single = topic_of(work), True
    return found


def _use(subject: Tokens, value: Tokens, others: list[Phrase]) -> Statement:
    purpose, scope = _purpose(others)
    found = valued([*_unless_team(subject), *scope], value, verb="use", single=bool(purpose))
    found.purpose = topic_of(purpose)
    return found


# ── what something has, where it is, what it is ───────────────────────────────────────────────────────────────────────


def _having(clause: Clause) -> Statement | None:
    """has a timeout of 30 s, runs with an image of alpine: the attribute stands before "of", the value behind."""
    if clause.verb not in t.HAVING and clause.verb not in t.RUNNING:
        return None
    *rest, last = clause.by[""] or [NOTHING]
    if clause.verb == t.HAVE and rest and last.word in t.SWITCHING:  # has X enabled
        return valued([*_unless_team(clause.subject), *rest, *_flat(clause.parts[1:])], [last])
    if clause.verb == t.HAVE and clause.by.get("as") and words(clause.by[""]):  # has X as its database
        others = _flat(clause.others("", "as"))
        return valued([*_unless_team(clause.subject), *clause.by["as"], *others], clause.by[""], single=True)
    at = next((part for part in clause.parts if part.tokens and part.bind == "with"), clause.parts[0])
    attribute, value = _of(at.tokens, named=clause.verb == t.HAVE)
    if not attribute or not words(value):
        return None
    others = _flat([part for part in clause.parts if part is not at])
    return valued([*_unless_team(clause.subject), *attribute, *others], value, single=True)


def _of(tokens: Tokens, *, named: bool) -> tuple[Tokens, Tokens]:
    """The attribute and its value in "a timeout of 30 s"; where it may be `named`, in "product owner Ann" too."""
    place = next((place for place, each in enumerate(tokens) if each.word == "of"), 0)
    if place:
        return (tokens[:place], tokens[place + 1 :]) if tokens[0].low in ("a", "an") else ((), ())
    typed = (place for place, each in enumerate(tokens) if place and each.kind in ("name", "when"))
    place = next(typed, 0) if named and tokens and tokens[0].kind == "word" else 0
    return tokens[:place], tokens[place:]


def _switched(clause: Clause) -> Statement | None:
    """enabled X: X is enabled."""
    if clause.verb not in t.SWITCHING or clause.passive or not clause.by[""] or not _is_speaker(clause.subject):
        return None
    return valued([*clause.by[""], *_flat(clause.parts[1:])], [Token(clause.verb, clause.verb, "word")])


def _placed(clause: Clause) -> Statement | None:
    """lives in, is hosted on, stores X in, works at, moved to."""
    if clause.verb not in t.PLACING:
        return None
    moved = clause.verb in t.MOVING and "to" in clause.by
    where = ("to",) if moved else t.WHERE.get(clause.verb, t.WHERE[""])
    at = next((part for part in clause.parts[1:] if part.bind in where and part.tokens), None)
    if at is None or has(at.tokens, "number") or (has(at.tokens, "when") and not moved) or not _is_place(at.tokens):
        return None
    beside = [part for part in clause.parts[1:] if part is not at]
    object_ = clause.parts[0].tokens
    topic = [*_unless_team(clause.subject), *object_, *_flat([part for part in beside if not has(part.tokens, "when")])]
    if clause.verb in t.RUNNING and not has(at.tokens, "name"):
        return None
    how = t.HOW.get(clause.verb, "place")
    kind = [] if has(at.tokens, "when") else [Token(how, how, "word")]
    found = valued([*topic, *kind], at.tokens, verb="place", single=True, changes=moved)
    if moved and (object_ or clause.passive):  # to move what a thing has is to change it
        found.loose |= {how}
    found.about = said(topic)
    found.extra = frozenset(each.word for part in beside for each in part.tokens if each.kind == "when")
    found.manner = "" if clause.verb in t.BEING else clause.verb
    return found


def _done_with(clause: Clause) -> Statement | None:
    """builds X with Y, X is built with Y: Y is used for that, and maybe others beside it; "now", it alone."""
    tool = clause.by.get("with", [])
    if clause.passive or (clause.verb in t.RUNNING and not clause.by[""]):  # tests run with Y
        done = clause.subject
    else:
        done = clause.by[""] if has(clause.subject, "team") else []
    if not words(done) or not words(tool) or len(tool) > _TOOL or clause.by.get("by"):
        return None
    if any(each.kind in ("number", "when", "user", "the") for each in tool):
        return None
    found = _use([], tool, clause.others("", "with"))
    found.purpose |= topic_of([*([] if clause.verb in t.DOING else _verb(clause)), *done])
    found.alone = not any(each.kind == "join" or each.said == "," for each in tool)
    found.single = found.changes = found.alone and clause.now
    found.about = said(done)
    return found


def _single(clause: Clause) -> Statement | None:
    """weighs, costs, starts at, reports to: verbs with one object at a time."""
    if clause.verb not in t.SINGLE and clause.verb not in t.POINTING:
        return None
    first = next((place for place, part in enumerate(clause.parts) if part.tokens), 0)
    value = clause.parts[first].tokens
    typed = has(value, "number") or has(value, "when")
    plain = clause.verb in t.POINTING and not has(clause.rest, "number") and not has(clause.rest, "when")
    if not value or not (typed or plain) or _is_environment(value):
        return None
    return valued([*clause.subject, *_verb(clause), *_flat(clause.parts[first + 1 :])], value, single=True)


def _is(clause: Clause) -> Statement | None:
    """X is Y, Y is the X."""
    if clause.verb != "be" or not clause.subject:
        return None
    value, others = clause.parts[0].tokens, clause.parts[1:]
    if not value and others:
        at = others[0]
        if at.bind == "on" and has(clause.subject, "team") and has(at.tokens, "name"):
            return _use(clause.subject, at.tokens, others[1:])
        if at.bind in t.WHERE[""] and not has(at.tokens, "number") and not has(at.tokens, "when"):
            clause.verb = t.LOCATE
            return _placed(clause)
        value, others = at.tokens, others[1:]
    if not words(value) or value[0].low in ("a", "an"):
        return None
    if value[0].low in t.DEFINITE and _is_name(clause.subject):
        return valued([*value, *_flat(others)], clause.subject, single=True)
    if has(value, "when") or (not has(value, "number") and any(has(part.tokens, "when") for part in others)):
        return None  # a time may have several parts
    single = _is_attribute(clause.subject, value) and not (clause.listing and len(words(value)) > 1)
    return valued([*clause.subject, *_flat(others)], value, single=single)


_TOOL = 3  # words, at most, of what something is done with


# ── numbers and times ─────────────────────────────────────────────────────────────────────────────────────────────────


def _counted(clause: Clause) -> Statement | None:
    """A number is the value: the object's, else that of what follows, else the subject's."""
    parts, found = clause.parts, None
    for place, part in enumerate(parts):
        if part.bind == "by" and clause.verb in t.CHANGING:
            return None  # by how much, not to what
        if has(part.tokens, "number") if place == 0 else _counts(part.tokens):
            others = _flat(parts[:place] + parts[place + 1 :])
            found = valued([*clause.subject, *_verb(clause), *others], part.tokens)
            break
    else:
        if _counts(clause.subject) or (not clause.verb and has(clause.subject, "number")):
            found = valued([*_verb(clause), *clause.rest], clause.subject)
    if found is not None:
        found.ordered = True
    return found


def _timed(clause: Clause) -> Statement | None:
    times = [each for each in clause.rest if each.kind == "when"]
    if not times:
        return None
    others = [each for each in clause.rest if each.kind != "when"]
    found = valued([*clause.subject, *_verb(clause), *others], times)
    found.ordered = True
    return found


def _plain(clause: Clause) -> Statement:
    verb = [Token(clause.verb, clause.verb, "word")] if clause.verb not in ("", "be") else []
    tokens = [*clause.subject, *verb, *clause.rest]
    return Statement(verb=clause.verb, topic=topic_of(tokens), about=said(tokens))


_FRAMES = (
    _preferred, _arrow, _replaced, _left_behind, _instead, _changed, _liked, _switched, _owned, _having, _handled,
    _used, _placed, _done_with, _single, _is, _counted, _timed,
)  # fmt: skip


# ── parts of a clause ─────────────────────────────────────────────────────────────────────────────────────────────────


def _verb(clause: Clause) -> list[Token]:
    return [] if clause.verb in t.LIGHT else [Token(clause.verb, clause.verb, "word")]


def _flat(parts: list[Phrase]) -> list[Token]:
    return [
        each for part in parts for each in (*([Token(part.bind, part.bind, "bind")] * bool(part.bind)), *part.tokens)
    ]


def _purpose(others: list[Phrase]) -> tuple[list[Token], list[Token]]:
    """What it is for, and all else that narrows it down."""
    purpose: list[Token] = []
    scope: list[Token] = []
    for part in others:
        role = part.bind in ("for", "as") and not _is_environment(part.tokens) and not _consumes(part.tokens)
        (purpose if role else scope).extend(part.tokens)
    return purpose, scope


def _consumes(tokens: Tokens) -> bool:
    """Whether it is a thing that has many parts, and not a part that one thing plays."""
    opened = has(tokens, "name") and all(each.said.islower() for each in tokens)
    return opened or (bool(tokens) and tokens[-1].word in t.CONSUMERS)


def _counts(tokens: Tokens) -> bool:
    """Whether a number counts or measures, and is not part of a name."""
    for place, token in enumerate(tokens):
        if token.kind == "number":
            named = place > 0 and tokens[place - 1].kind in ("word", "name")
            if not named or (place + 1 < len(tokens) and tokens[place + 1].kind in ("unit", "word", "name")):
                return True
    return False


def _is_attribute(subject: Tokens, value: Tokens) -> bool:
    """Whether the subject can have one such value only: a name, or a plain word that does not describe."""
    if phrases(subject)[0].tokens[-1:] and phrases(subject)[0].tokens[-1].word in t.MANY:
        return False
    if any(each.kind in ("name", "number") for each in value):
        return True
    last = value[-1].low
    if len(words(value)) > 2 or last in t.DESCRIPTIONS:
        return False
    owned = any(each.kind == "own" or each.word in ("of", "for") or each.low == "my" for each in subject)
    return owned or (len(words(subject)) > 1 and not last.endswith(t.DESCRIBING))


def _is_speaker(tokens: Tokens) -> bool:
    spoken = [each for each in tokens if each.kind not in ("the", "mark", "help")]
    return not spoken or (len(spoken) == 1 and spoken[0].kind in ("team", "user"))


def _unless_team(subject: Tokens) -> Tokens:
    return [] if _is_speaker(subject) and not has(subject, "user") else subject


def _is_name(tokens: Tokens) -> bool:
    return len(tokens) <= 3 and tokens[0].said[0].isupper() and tokens[0].kind in ("word", "name")


def _is_environment(tokens: Tokens) -> bool:
    return any(each.low in t.ENVIRONMENTS for each in tokens)


def _is_place(tokens: Tokens) -> bool:
    return not _is_environment(tokens) and tokens[0].low not in ("every", "each", "all", "any")
