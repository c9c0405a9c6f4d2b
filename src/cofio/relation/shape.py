"""The shape of a clause: its parts in order, each a set of words, and what joins them. For telling paraphrases.

Where "is" divides the clause, the order of words within a part is free, and a passive is turned round: "a bowl is being
held by a man" has the shape of "a man is holding a bowl". Elsewhere words stand as they stand: nothing tells who calls
whom in "the api calls the worker" but the order.
"""

from __future__ import annotations

from typing import NamedTuple

from cofio.relation import tables as t
from cofio.relation.reading import Token, Tokens

_SILENT = frozenset("the team not help mark own".split())


class Part(NamedTuple):
    """A preposition, a conjunction or a verb, and the words that follow it."""

    joint: str
    words: tuple[str, ...]


def shape(tokens: Tokens) -> tuple[Part, ...]:
    """The parts of a clause, whether it is negated or not."""
    parts: list[tuple[str, list[str]]] = [("", [])]
    rest = [each for each in tokens if each.kind not in _SILENT and each.word != "of"]
    for place, token in enumerate(rest):
        joint, words = parts[-1]
        if token.low in t.RELATIVE:
            continue
        if token.kind == "be":
            if (place == 0 or rest[place - 1].low not in t.RELATIVE) and (joint, words) != ("be", []):
                parts.append(("be", []))
        elif joint == "be" and _acts(token, rest[place + 1 :]) and all(each.endswith("li") for each in words):
            parts[-1] = (("do " if token.low.endswith("ing") else "by ") + token.word, words)
        elif token.kind in ("bind", "join"):
            parts.append((token.word, []))
        elif token.kind == "number" and words:
            words[-1] += " " + token.word  # worker 3
        elif token.word not in t.SILENT and token.low != "one":
            words.append(token.word)
    free = any(each.kind == "be" for each in tokens)
    return _turned([Part(joint, tuple(sorted(set(words)) if free else words)) for joint, words in parts])


def _acts(token: Token, after: Tokens) -> bool:
    return token.kind == "word" and (token.low.endswith("ing") or any(each.word == "by" for each in after))


def _turned(parts: list[Part]) -> tuple[Part, ...]:
    """Who does it comes first."""
    for place, part in enumerate(parts):
        if part.joint.startswith("by "):
            agent = next((at for at in range(place + 1, len(parts)) if parts[at].joint == "by"), None)
            if agent is not None and place > 0:
                doer, done = parts[agent].words, parts[place - 1].words
                verb = Part("do " + part.joint.removeprefix("by "), tuple(sorted({*done, *part.words})))
                head = [*parts[: place - 1], Part(parts[place - 1].joint, doer), verb]
                return (*head, *parts[place + 1 : agent], *parts[agent + 1 :])
    return tuple(parts)
