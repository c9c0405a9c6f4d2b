"""The shape of a clause: its parts in order, each a set of words, and what joins them. For telling paraphrases.

Within a part the order of words is free, and a passive is turned round: "a bowl is being held by a man" has the shape
of "a man is holding a bowl".
"""

from __future__ import annotations

from typing import NamedTuple

from cofio.relation import tables as t
from cofio.relation.reading import Token, Tokens


class Part(NamedTuple):
    """A preposition, a conjunction or a verb, and the words that follow it."""

    joint: str
    words: frozenset[str]


def shape(tokens: Tokens) -> tuple[Part, ...]:
    """The parts of a clause."""
    parts: list[tuple[str, list[str]]] = [("", [])]
    rest = [each for each in tokens if each.kind not in ("the", "team", "not")]
    for place, token in enumerate(rest):
        before = rest[place - 1] if place else None
        if token.said.lower() in t.RELATIVE or token.kind in ("help", "mark", "own") or token.word == "of":
            continue
        if token.kind == "be":
            if not (before and before.said.lower() in t.RELATIVE) and parts[-1] != ("be", []):
                parts.append(("be", []))
        elif (
            parts[-1][0] == "be"
            and all(each.endswith("li") for each in parts[-1][1])
            and _acts(token, rest[place + 1 :])
        ):
            passive = not token.said.lower().endswith("ing")
            parts[-1] = (("by " if passive else "do ") + token.word, parts[-1][1])
        elif token.kind in ("bind", "join"):
            parts.append((token.word, []))
        elif token.word not in t.SILENT and not (token.word == "1" and token.kind == "number"):
            parts[-1][1].append(token.word)
    return _turned([Part(joint, frozenset(words)) for joint, words in parts])


def _acts(token: Token, after: Tokens) -> bool:
    low = token.said.lower()
    return token.kind == "word" and (low.endswith("ing") or any(each.word == "by" for each in after))


def _turned(parts: list[Part]) -> tuple[Part, ...]:
    """Who does it comes first."""
    for place, part in enumerate(parts):
        if part.joint.startswith("by "):
            agent = next((at for at in range(place + 1, len(parts)) if parts[at].joint == "by"), None)
            if agent is not None and place > 0:
                doer, done = parts[agent].words, parts[place - 1].words
                verb = Part("do " + part.joint.removeprefix("by "), done | part.words)
                head = [*parts[: place - 1], Part(parts[place - 1].joint, doer), verb]
                return tuple([*head, *parts[place + 1 : agent], *parts[agent + 1 :]])
    return tuple(parts)
