"""Sorts sentences by rules, for use without the judgement model. Most of what is said is not worth remembering.

Three ways:

    skip      a greeting, a question, a passing status, or no word that facts are told with
    pattern   a pattern finds a fact in it
    model     it has a word that facts are told with, or asks to forget a fact: a language model has to read it
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from cofio import late, sentences
from cofio.conversation import OBSERVATION, Exchange, Found, Sentence, Verdict

GREETING = "Greeting or confirmation"
QUESTION = "Pure question without facts"
PASSING = "Passing status, not a durable fact"
MATCHED = "Pattern matched"
UNREAD = "Looks like a fact, but no pattern reads it"
FORGET = "Asks to forget something, which takes a model to find"
NOTHING = "No extractable facts detected"


class Find(Protocol):
    """Every fact that patterns read in a sentence of this side's; `extract.patterns.find` is one."""

    def __call__(self, sentence: str, /, *, role: str = "user") -> Sequence[Found]: ...


def judge(exchange: Exchange, find: Find) -> Verdict:
    """What becomes of each sentence of the exchange.

    An assistant says much that sounds like facts. It is worth a model's while only where the user stated something
    too, or where it tells what was learned. In a dialogue that was observed and checked, its word counts as the user's.
    """
    said = [(each.role, sentences.split(each.text)) for each in exchange.messages]
    if exchange.context == OBSERVATION:
        return Verdict(tuple(replace(weigh(text, "user", find), role=role) for role, texts in said for text in texts))
    by_user = [weigh(text, role, find) for role, texts in said if role == "user" for text in texts]
    heard = any(each.way != "skip" for each in by_user)
    in_order = iter(by_user)
    return Verdict(
        tuple(
            next(in_order) if role == "user" else _weighed(text, role, find, heard)
            for role, texts in said
            for text in texts
        )
    )


def weigh(text: str, role: str, find: Find) -> Sentence:
    """Which way one sentence goes when nothing else was said."""
    return _weighed(text, role, find, role == "user")


def _weighed(text: str, role: str, find: Find, heard: bool) -> Sentence:
    """The same, knowing whether a fact-like sentence of this side's is worth a model's while."""
    held = sentences.tokens(text)
    if _PLEASANT.issuperset(held) or (held[0] in _ADDRESSING and _is_address(held)):
        return Sentence(text=text, role=role, way="skip", reason=GREETING)
    if sentences.asks(text):
        return Sentence(text=text, role=role, way="skip", reason=QUESTION)
    if role == "user" and "forget" in held and _FORGET.search(text):
        return Sentence(text=text, role=role, way="model", reason=FORGET)
    if sentences.is_passing(text):
        return Sentence(text=text, role=role, way="skip", reason=PASSING)
    found = tuple(find(text, role=role))
    if found:
        return Sentence(text=text, role=role, way="pattern", reason=MATCHED, found=found)
    if _may_hold_a_fact(text, held, heard):
        return Sentence(text=text, role=role, way="model", reason=UNREAD)
    return Sentence(text=text, role=role, way="skip", reason=NOTHING)


def _may_hold_a_fact(text: str, held: Sequence[str], heard: bool) -> bool:
    """Whether it is worded like a fact and names what it is about."""
    fact = None
    if heard and not _FACT_WORDS.isdisjoint(held):
        fact = _FACT[next(word for word in held if word in _FACT)].search(text)
    if fact is None and not _LESSON_WORDS.isdisjoint(held):
        fact = _LESSON.search(text)
    if fact is None or sentences.supposes(text[: fact.start()]):
        return False
    about = text[fact.end() :].strip(" .!,:;").removeprefix("not ") or text[: fact.start()]
    return not sentences.is_hollow(about) and text[0] != ">" and not sentences.is_code(text)


def _is_address(held: Sequence[str]) -> bool:
    """Whether it greets or thanks somebody by name: "Hi Ann!"."""
    return len(held) <= 3 and _PLEASANT.issuperset(held[:-1])


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_ADDRESSING = frozenset("hi hello hey thanks thank thx bye morning".split())
#: Whoever uses no other words than these greets, thanks or confirms.
_PLEASANT = frozenset(
    """
    hi hello hey hiya yo there good morning afternoon evening night day thanks thank you thx ty cheers a lot so much
    very many great awesome nice cool perfect excellent amazing wonderful brilliant fantastic super sweet ok okay k kk
    sure sounds looks lgtm yes no yep nope yeah yup ya got it understood right correct exactly agreed go ahead please do
    that this continue proceed on keep going ship makes sense all problem np of course absolutely definitely fine
    alright well job work works for me again everyone team folks claude codex bye see later too will welcome hm hmm oh
    ah aha wow haha lol just now then and but next one step indeed fair enough my bad sorry worries 👍 🎉 🙏
    """.split()
)

#: Words that facts are told with; not every sentence that has one tells one.
_FACT = {
    word: late.compile(rf"\b{word}\b", re.IGNORECASE)
    for word in (
        "use uses using prefer prefers preferred decided switched started stopped always never policy standard should"
        " must convention guideline rule adopted chose chosen migrated replaced upgraded require requires agreed"
        " maintains owns responsible workaround culprit"
    ).split()
}
_FACT_WORDS = frozenset(_FACT)
_LESSON_WORDS = frozenset("cause because turned turns fix culprit workaround lesson lessons".split())
#: What an assistant tells of its own accord and is worth keeping.
_LESSON = late.compile(
    r"\broot cause\b|\bbecause of\b|\bturn(?:s|ed) out\b|\bthe (?:actual |real )?(?:fix|culprit|workaround)\b"
    r"|\blesson(?:s)? learned\b",
    re.IGNORECASE,
)

_FORGET = late.compile(
    r"(?<!don't )(?<!not )(?<!never )\bforget (?:(?:what|everything|all(?: that)?) (?:i|we) (?:said|told)"
    r"|(?:the|that|my|our) (?:rule|preference|policy|fact|memory)\b)"
    r"|^(?:(?:please|ok|okay|now|also|and|so|just|you can),? )*forget (?:that|about)\b",
    re.IGNORECASE,
)
