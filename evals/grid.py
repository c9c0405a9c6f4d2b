"""Pairs of facts of which the relation is known, because they are made: the same, an update, or something else.

A fact, what repeats it in other words, what corrects it, and what only looks like it: another service, another
environment, another number in a name, another purpose.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Literal, NamedTuple

from evals.vocabulary import Vocabulary

Expected = Literal["noop", "update", "add"]
SEED = 20261115


class Case(NamedTuple):
    """An old fact, a new one, and what should become of the new one where the old is known."""

    old: str
    new: str
    expected: Expected
    what: str


def cases(said: Vocabulary, *, seed: int = SEED) -> list[Case]:
    """Every case of the vocabulary, in a fixed order."""
    rng = random.Random(seed)
    families = (_attributes, _respelt, _numbered, _technologies, _preferences, _likes, _sayings, _flags, _people)
    return list(dict.fromkeys(case for family in families for case in family(said, rng)))


# ── attributes of services ────────────────────────────────────────────────────────────────────────────────────────────


def _attributes(said: Vocabulary, rng: random.Random) -> Iterator[Case]:
    for s in said.services:
        for e in said.environments:
            for a, values in (*said.measured, *said.named):
                v, w = rng.sample(list(values), 2)
                fill = {"s": s, "e": e, "a": a, "v": v, "w": w}
                old = _said(rng.choice(said.bases), fill)
                for wording in rng.sample(list(said.updates), 2):
                    yield Case(old, _said(wording, fill), "update", "value")
                yield Case(old, _said(rng.choice(said.repeats), fill), "noop", "word order")
                yield from _strangers(said, rng, old, fill)


def _strangers(said: Vocabulary, rng: random.Random, old: str, fill: dict[str, str]) -> Iterator[Case]:
    """The same value elsewhere, and another value elsewhere: neither says anything about the old fact."""
    pools = {
        "service": ("s", said.services),
        "environment": ("e", said.environments),
        "attribute": ("a", [a for a, _ in (*said.measured, *said.named)]),
    }
    for what in rng.sample(sorted(pools), 2):
        name, pool = pools[what]
        other = {**fill, name: rng.choice([each for each in pool if each != fill[name]])}
        yield Case(old, _said(rng.choice((*said.bases, *said.repeats)), other), "add", f"other {what}")
        if what != "attribute":
            yield Case(old, _said(rng.choice(said.updates), other), "add", f"changed, other {what}")


def _respelt(said: Vocabulary, rng: random.Random) -> Iterator[Case]:
    for s in said.services:
        for e in said.environments:
            for one, other in said.respelt:
                a = next(name for name, values in said.measured if one in values or other in values)
                fill = {"s": s, "e": e, "a": a}
                wording = rng.choice(said.bases)
                yield Case(_said(wording, {**fill, "v": one}), _said(wording, {**fill, "v": other}), "noop", "spelling")


def _numbered(said: Vocabulary, rng: random.Random) -> Iterator[Case]:
    """Numbers that belong to a name: worker 3 is not worker 4."""
    for s in said.services:
        for a, values in said.measured:
            one, other = rng.sample(range(1, 9), 2)
            v, w = rng.sample(list(values), 2)
            e = rng.choice(said.environments)
            wording = rng.choice(said.bases)
            for glue in ("{s}-{i}", "node {i} of {s}"):
                first = {"s": glue.format(s=s, i=one), "e": e, "a": a, "v": v}
                second = {**first, "s": glue.format(s=s, i=other)}
                yield Case(_said(wording, first), _said(wording, second), "add", "number in the subject")
                yield Case(_said(wording, first), _said(wording, {**second, "v": w}), "add", "number in the subject")
                yield Case(
                    _said(wording, first), _said(wording, {**first, "v": w}), "update", "value, numbered subject"
                )


# ── what a team uses ──────────────────────────────────────────────────────────────────────────────────────────────────


def _technologies(said: Vocabulary, rng: random.Random) -> Iterator[Case]:
    for x, y, p in said.technologies:
        for base in said.tech_bases:
            old = _said(base, {"x": x, "p": p})
            for wording in said.tech_updates:
                yield Case(old, _said(wording, {"x": x, "y": y, "p": p}), "update", "technology")
            for wording in said.tech_repeats:
                yield Case(old, _said(wording, {"x": x, "p": p}), "noop", "technology in other words")
            yield from _other_technologies(said, rng, old, (x, y, p))


def _other_technologies(said: Vocabulary, rng: random.Random, old: str, triple: tuple[str, str, str]) -> Iterator[Case]:
    x, y, p = triple
    others = [each for each in said.technologies if each != triple]
    for u, w, q in rng.sample(others, 4):
        base = rng.choice((*said.tech_bases, *said.tech_repeats))
        yield Case(old, _said(base, {"x": u, "p": q}), "add", "other technology")
        yield Case(old, _said(base, {"x": x, "p": q}), "add", "other purpose")
        yield Case(old, _said(rng.choice(said.tech_updates), {"x": u, "y": w, "p": q}), "add", "another switch")
    yield Case(old, f"We also use {y} for {p}", "add", "addition")
    yield Case(old, f"We use {y} too for {p}", "add", "addition")
    yield Case(old, f"The {x} dashboard is slow", "add", "mention")
    yield Case(old, f"{y} is written in Go", "add", "mention")


# ── what somebody prefers and likes, says and decides ─────────────────────────────────────────────────────────────────


def _preferences(said: Vocabulary, rng: random.Random) -> Iterator[Case]:
    for x, y in said.choices:
        old = f"User prefers {x} over {y}"
        yield Case(old, f"User prefers {y} over {x}", "update", "preference turned")
        yield Case(f"User prefers {y}", old, "update", "preference over the old one")
        yield Case(old, f"I prefer {x} over {y}", "noop", "preference in other words")
        yield Case(old, f"The user prefers {x} to {y}", "noop", "preference in other words")
        for u, w in (each for each in said.choices if each != (x, y)):
            yield Case(old, f"User prefers {u} over {w}", "add", "other preference")
            yield Case(f"User prefers {x}", f"User prefers {u}", "add", "other preference")
            yield Case(f"User prefers {x} over {y}", f"User prefers {u}", "add", "other preference")
    for x, y in said.opposites:
        for one, other in ((x, y), (y, x)):
            yield Case(f"User prefers {one}", f"User prefers {other}", "update", "opposite preference")
            yield Case(f"User prefers {one}", f"I now prefer {other}", "update", "opposite preference")
            like = rng.choice([each for each in said.likes if each not in (x, y)])
            yield Case(f"User prefers {one}", f"User prefers {like}", "add", "other preference")


def _likes(said: Vocabulary, _: random.Random) -> Iterator[Case]:
    for x in said.likes:
        yield Case(f"User likes {x}", f"User dislikes {x}", "update", "liking turned")
        yield Case(f"User likes {x}", f"User doesn't like {x}", "update", "liking turned")
        yield Case(f"User likes {x}", f"I hate {x}", "update", "liking turned")
        yield Case(f"User likes {x}", f"I like {x}", "noop", "liking in other words")
        for y in (each for each in said.likes if each != x):
            yield Case(f"User likes {x}", f"User likes {y}", "add", "other liking")
            yield Case(f"User likes {x}", f"User dislikes {y}", "add", "other liking")


def _sayings(said: Vocabulary, _: random.Random) -> Iterator[Case]:
    for x in said.policies:
        always = f"Team policy: always {x}"
        for new in (f"Team policy: never {x}", f"We never {x}", f"We don't {x} anymore", f"We no longer {x}"):
            yield Case(always, new, "update", "policy turned")
        yield Case(f"We never {x}", f"We always {x}", "update", "policy turned")
        yield Case(always, f"We always {x}", "noop", "policy in other words")
        yield Case(f"We never {x}", f"We don't ever {x}", "noop", "policy in other words")
        for y in (each for each in said.policies if each != x):
            yield Case(always, f"Team policy: never {y}", "add", "other policy")
            yield Case(always, f"Team policy: always {y}", "add", "other policy")
    for x in said.decisions:
        decided = f"Team decided to {x}"
        yield Case(decided, f"Team decided not to {x}", "update", "decision turned")
        yield Case(decided, f"We've decided not to {x} after all", "update", "decision turned")
        yield Case(decided, f"We decided to {x}", "noop", "decision in other words")
        for y in (each for each in said.decisions if each != x):
            yield Case(decided, f"Team decided to {y}", "add", "other decision")
            yield Case(decided, f"Team decided not to {y}", "add", "other decision")


def _flags(said: Vocabulary, rng: random.Random) -> Iterator[Case]:
    for f in said.flags:
        for e in said.environments:
            for on, off in said.switched:
                fill = {"f": f, "e": e}
                yield Case(_said(on, fill), _said(off, fill), "update", "switch turned")
                yield Case(_said(off, fill), _said(on, fill), "update", "switch turned")
                elsewhere = {**fill, "e": rng.choice([each for each in said.environments if each != e])}
                yield Case(_said(on, fill), _said(off, elsewhere), "add", "switch elsewhere")
                other = {**fill, "f": rng.choice([each for each in said.flags if each != f])}
                yield Case(_said(on, fill), _said(off, other), "add", "other switch")


def _people(said: Vocabulary, rng: random.Random) -> Iterator[Case]:
    for n in said.people:
        other = rng.choice([each for each in said.people if each != n])
        for v in said.places:
            w = rng.choice([each for each in said.places if each != v])
            for first, moved, again in said.moves:
                old = _said(first, {"n": n, "v": v})
                yield Case(old, _said(moved, {"n": n, "w": w}), "update", "somebody moved")
                yield Case(old, _said(again, {"n": n, "v": v}), "noop", "place in other words")
                yield Case(old, _said(moved, {"n": other, "w": w}), "add", "somebody else moved")
        for d in said.duties:
            task = rng.choice([each for each in said.duties if each != d])
            for one, two in said.owns:
                old = _said(one, {"n": n, "d": d})
                yield Case(old, _said(two, {"n": other, "d": d}), "update", "new owner")
                yield Case(old, _said(one, {"n": other, "d": d}), "update", "new owner")
                yield Case(old, _said(two, {"n": n, "d": d}), "noop", "owner in other words")
                yield Case(old, _said(one, {"n": n, "d": task}), "add", "other duty")


def _said(wording: str, fill: dict[str, str]) -> str:
    text = wording.format(**fill)
    return text[0].upper() + text[1:]
