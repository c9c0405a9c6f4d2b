"""Pairs of facts of which the relation is known, because they are made.

A fact, what repeats it in other words, what corrects it, and what only looks like it: another service, another
environment, another number in a name, another purpose. Each fact knows its topic and its value; from these follows what
should become of the new one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from evals.vocabulary import Vocabulary

Outcome = Literal["noop", "update", "add"]
OUTCOMES: tuple[Outcome, ...] = ("noop", "update", "add")
SEED = 20261115


class Said(NamedTuple):
    """A fact: its words, what it is about, and what it says of that."""

    text: str
    topic: str
    value: str


class Case(NamedTuple):
    """An old fact, a new one, and what kind of case that is."""

    old: Said
    new: Said
    what: str

    @property
    def expected(self) -> Outcome:
        """What should become of the new fact where the old one is known."""
        if self.old.topic != self.new.topic:
            return "add"
        return "noop" if self.old.value == self.new.value else "update"


def cases(vocabulary: Vocabulary, *, seed: int = SEED) -> list[Case]:
    """Every case of the vocabulary, in a fixed order."""
    rng = random.Random(seed)
    families = (_attributes, _respelt, _numbered, _technologies, _preferences, _likes, _rules, _flags, _people)
    return list(dict.fromkeys(case for family in families for case in family(vocabulary, rng)))


# ── attributes of services ────────────────────────────────────────────────────────────────────────────────────────────


def _attributes(said: Vocabulary, rng: random.Random) -> Iterator[Case]:
    for s in said.services:
        for e in said.environments:
            for a, values in (*said.measured, *said.named):
                v, w = rng.sample(list(values), 2)
                fill = {"s": s, "e": e, "a": a, "v": v, "w": w}
                old = _attribute(rng.choice(said.bases), fill)
                for wording in rng.sample(list(said.updates), 2):
                    yield Case(old, _attribute(wording, fill), "value")
                yield Case(old, _attribute(rng.choice(said.repeats), fill), "word order")
                yield from _strangers(said, rng, old, fill)


def _strangers(said: Vocabulary, rng: random.Random, old: Said, fill: Mapping[str, str]) -> Iterator[Case]:
    """The same value elsewhere, and another value elsewhere: neither says anything about the old fact."""
    pools = {
        "service": ("s", said.services),
        "environment": ("e", said.environments),
        "attribute": ("a", [a for a, _ in (*said.measured, *said.named)]),
    }
    for what in rng.sample(sorted(pools), 2):
        name, pool = pools[what]
        other = {**fill, name: rng.choice([each for each in pool if each != fill[name]])}
        yield Case(old, _attribute(rng.choice((*said.bases, *said.repeats)), other), f"other {what}")
        if what != "attribute":
            yield Case(old, _attribute(rng.choice(said.updates), other), f"changed, other {what}")


def _respelt(said: Vocabulary, rng: random.Random) -> Iterator[Case]:
    for s in said.services:
        for e in said.environments:
            for one, other in said.respelt:
                a = next(name for name, values in said.measured if one in values or other in values)
                wording = rng.choice(said.bases)
                old = _attribute(wording, {"s": s, "e": e, "a": a, "v": one})
                new = _attribute(wording, {"s": s, "e": e, "a": a, "v": other})
                yield Case(old, new._replace(value=old.value), "spelling")


def _numbered(said: Vocabulary, rng: random.Random) -> Iterator[Case]:
    """Numbers that belong to a name: worker 3 is not worker 4."""
    for s in said.services:
        for a, values in said.measured:
            one, other = rng.sample(range(1, 9), 2)
            v, w = rng.sample(list(values), 2)
            fill = {"e": rng.choice(said.environments), "a": a, "v": v}
            wording = rng.choice(said.bases)
            for glue in ("{s}-{i}", "node {i} of {s}"):
                first = {**fill, "s": glue.format(s=s, i=one)}
                second = {**fill, "s": glue.format(s=s, i=other)}
                old = _attribute(wording, first)
                yield Case(old, _attribute(wording, second), "number in the subject")
                yield Case(old, _attribute(wording, {**second, "v": w}), "number in the subject")
                yield Case(old, _attribute(wording, {**first, "v": w}), "value, numbered subject")


def _attribute(wording: str, fill: Mapping[str, str]) -> Said:
    value = fill["w"] if "{w}" in wording else fill["v"]
    return Said(_filled(wording, fill), " / ".join(fill[each] for each in "sea"), value)


# ── what a team uses ──────────────────────────────────────────────────────────────────────────────────────────────────


def _technologies(said: Vocabulary, rng: random.Random) -> Iterator[Case]:
    for x, y, p in said.technologies:
        for base in said.tech_bases:
            old = _technology(base, x, "", p)
            for wording in said.tech_updates:
                yield Case(old, _technology(wording, x, y, p), "technology")
            for wording in said.tech_repeats:
                yield Case(old, _technology(wording, x, "", p), "technology in other words")
            yield from _other_technologies(said, rng, old, (x, y, p))


def _other_technologies(
    said: Vocabulary, rng: random.Random, old: Said, triple: tuple[str, str, str]
) -> Iterator[Case]:
    x, y, p = triple
    for u, w, q in rng.sample([each for each in said.technologies if each != triple], 4):
        base = rng.choice((*said.tech_bases, *said.tech_repeats))
        yield Case(old, _technology(base, u, "", q), "other technology")
        yield Case(old, _technology(base, x, "", q), "other purpose")
        yield Case(old, _technology(rng.choice(said.tech_updates), u, w, q), "another switch")
    for text, what in (
        (f"We also use {y} for {p}", "addition"),
        (f"We use {y} too for {p}", "addition"),
        (f"The {x} dashboard is slow", "mention"),
        (f"{y} is written in Go", "mention"),
    ):
        yield Case(old, Said(text, text, ""), what)


def _technology(wording: str, x: str, y: str, p: str) -> Said:
    given_up = any(each in wording for each in ("stopped", "no longer"))
    changed = "{y}" in wording or "{p}" not in wording or given_up
    value = (y if "{y}" in wording else "") if changed else x
    return Said(_filled(wording, {"x": x, "y": y, "p": p}), f"uses for {p}", value)


# ── what somebody prefers and likes, demands and decides ──────────────────────────────────────────────────────────────


def _preferences(said: Vocabulary, rng: random.Random) -> Iterator[Case]:
    for x, y in said.choices:
        over = Said(f"User prefers {x} over {y}", f"{x} or {y}", x)
        turned = Said(f"User prefers {y} over {x}", over.topic, y)
        yield Case(over, turned, "preference turned")
        yield Case(Said(f"User prefers {y}", over.topic, y), over, "preference over the old one")
        for text in (f"I prefer {x} over {y}", f"The user prefers {x} to {y}"):
            yield Case(over, over._replace(text=text), "preference in other words")
        for u, w in (each for each in said.choices if each != (x, y)):
            yield Case(over, Said(f"User prefers {u} over {w}", f"{u} or {w}", u), "other preference")
            yield Case(over, Said(f"User prefers {u}", f"prefers {u}", u), "other preference")
            yield Case(
                Said(f"User prefers {x}", f"prefers {x}", x),
                Said(f"User prefers {u}", f"prefers {u}", u),
                "other preference",
            )
    for x, y in said.opposites:
        for one, other in ((x, y), (y, x)):
            old = Said(f"User prefers {one}", f"{x} or {y}", one)
            yield Case(old, Said(f"User prefers {other}", old.topic, other), "opposite preference")
            yield Case(old, Said(f"I now prefer {other}", old.topic, other), "opposite preference")
            like = rng.choice([each for each in said.likes if each not in (x, y)])
            yield Case(old, Said(f"User prefers {like}", f"prefers {like}", like), "other preference")


def _likes(said: Vocabulary, _: random.Random) -> Iterator[Case]:
    for x in said.likes:
        old = Said(f"User likes {x}", f"likes {x}", "yes")
        for text in (f"User dislikes {x}", f"User doesn't like {x}", f"I hate {x}"):
            yield Case(old, Said(text, old.topic, "no"), "liking turned")
        yield Case(old, old._replace(text=f"I like {x}"), "liking in other words")
        for y in (each for each in said.likes if each != x):
            yield Case(old, Said(f"User likes {y}", f"likes {y}", "yes"), "other liking")
            yield Case(old, Said(f"User dislikes {y}", f"likes {y}", "no"), "other liking")


def _rules(said: Vocabulary, _: random.Random) -> Iterator[Case]:
    for x in said.policies:
        always, never = Said(f"Team policy: always {x}", x, "yes"), Said(f"We never {x}", x, "no")
        for text in (f"Team policy: never {x}", f"We never {x}", f"We don't {x} anymore", f"We no longer {x}"):
            yield Case(always, Said(text, x, "no"), "policy turned")
        yield Case(never, Said(f"We always {x}", x, "yes"), "policy turned")
        yield Case(always, Said(f"We always {x}", x, "yes"), "policy in other words")
        yield Case(never, Said(f"We don't ever {x}", x, "no"), "policy in other words")
        for y in (each for each in said.policies if each != x):
            yield Case(always, Said(f"Team policy: never {y}", y, "no"), "other policy")
            yield Case(always, Said(f"Team policy: always {y}", y, "yes"), "other policy")
    for x in said.decisions:
        decided = Said(f"Team decided to {x}", x, "yes")
        for text in (f"Team decided not to {x}", f"We've decided not to {x} after all"):
            yield Case(decided, Said(text, x, "no"), "decision turned")
        yield Case(decided, Said(f"We decided to {x}", x, "yes"), "decision in other words")
        for y in (each for each in said.decisions if each != x):
            yield Case(decided, Said(f"Team decided to {y}", y, "yes"), "other decision")
            yield Case(decided, Said(f"Team decided not to {y}", y, "no"), "other decision")


def _flags(said: Vocabulary, rng: random.Random) -> Iterator[Case]:
    def flag(wording: str, f: str, e: str, value: str) -> Said:
        return Said(_filled(wording, {"f": f, "e": e}), f"{f} in {e}", value)

    for f in said.flags:
        for e in said.environments:
            for on, off in said.switched:
                yield Case(flag(on, f, e, "on"), flag(off, f, e, "off"), "switch turned")
                yield Case(flag(off, f, e, "off"), flag(on, f, e, "on"), "switch turned")
                elsewhere = rng.choice([each for each in said.environments if each != e])
                yield Case(flag(on, f, e, "on"), flag(off, f, elsewhere, "off"), "switch elsewhere")
                other = rng.choice([each for each in said.flags if each != f])
                yield Case(flag(on, f, e, "on"), flag(off, other, e, "off"), "other switch")


def _people(said: Vocabulary, rng: random.Random) -> Iterator[Case]:
    for n in said.people:
        other = rng.choice([each for each in said.people if each != n])
        for v in said.places:
            w = rng.choice([each for each in said.places if each != v])
            for number, (first, moved, again) in enumerate(said.moves):
                old = _person(first, n, v, number)
                yield Case(old, _person(moved, n, w, number), "somebody moved")
                yield Case(old, _person(again, n, v, number), "place in other words")
                yield Case(old, _person(moved, other, w, number), "somebody else moved")
        for d in said.duties:
            task = rng.choice([each for each in said.duties if each != d])
            for number, (one, two) in enumerate(said.owns):
                old = _duty(one, n, d, number)
                yield Case(old, _duty(two, other, d, number), "new owner")
                yield Case(old, _duty(one, other, d, number), "new owner")
                yield Case(old, _duty(two, n, d, number), "owner in other words")
                yield Case(old, _duty(one, n, task, number), "other duty")


def _person(wording: str, n: str, place: str, number: int) -> Said:
    return Said(_filled(wording, {"n": n, "v": place, "w": place}), f"where {n} is ({number})", place)


def _duty(wording: str, n: str, d: str, number: int) -> Said:
    return Said(_filled(wording, {"n": n, "d": d}), f"who has {d} ({number})", n)


def _filled(wording: str, fill: Mapping[str, str]) -> str:
    text = wording.format(**fill)
    return text[0].upper() + text[1:]
