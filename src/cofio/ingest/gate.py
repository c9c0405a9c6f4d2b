"""Rule-based sentence gate, used without the judgement model. Most sentences are not worth remembering.

skip      a greeting, a question, or a sentence without a fact word
pattern   a pattern finds a fact in it
model     it has a fact word but matches no pattern: a language model has to read it
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from cofio.models.exchange import OBSERVATION, Exchange, ExtractedFact, GateVerdict, Sentence
from cofio.text import sentences

GREETING = "Greeting or confirmation"
QUESTION = "Pure question without facts"
MATCHED = "Pattern matched"
UNREAD = "Looks like a fact, but no pattern reads it"
NOTHING = "No extractable facts detected"

#: Words of greetings, thanks and confirmations; a sentence that has only these is skipped.
_PLEASANT = frozenset(
    """
    hi hello hey hiya yo there good morning afternoon evening night day thanks thank you thx ty cheers a lot so much
    very many great awesome nice cool perfect excellent ok okay k sure sounds looks lgtm yes no yep nope yeah yup got it
    understood right correct exactly agreed go ahead please do that this continue proceed on keep going makes sense all
    problem np of course absolutely definitely fine alright well for me claude codex bye see later then and 👍 🎉 🙏
    """.split()
)
_ADDRESSING = frozenset("hi hello hey thanks thank thx bye morning".split())
#: Words that often state facts. Not every sentence that has one does.
_FACT_WORDS = frozenset(
    """
    use uses using prefer prefers preferred decided switched moved started stopped always never policy standard should
    must convention guideline rule adopted chose chosen migrated replaced upgraded require requires agreed maintains
    owns responsible workaround culprit forget remember
    """.split()
)
_LESSONS = ("root cause", "because of", "turns out", "turned out", "workaround", "culprit", "lesson learned", "fix is")


class Find(Protocol):
    """Function that returns all facts that patterns find in a sentence, such as `extract.patterns.find`."""

    def __call__(self, sentence: str, /, *, role: str = "user") -> Sequence[ExtractedFact]: ...


def judge(exchange: Exchange, find: Find) -> GateVerdict:
    """Return the verdict on each sentence of an exchange.

    Assistants say much that sounds like facts. Their sentences go to the language model only if the user stated
    something too, or if they state a lesson learned. In an observed dialogue they are read like the user's, but their
    facts stay the agent's.
    """
    messages = [(message.role, sentences.split(message.text)) for message in exchange.messages]
    if exchange.context == OBSERVATION:
        return GateVerdict(
            tuple(_attribute(weigh(text, "user", find), role) for role, texts in messages for text in texts)
        )
    verdicts = [weigh(text, role, find) for role, texts in messages for text in texts]
    if any(verdict.role == "user" and verdict.way != "skip" for verdict in verdicts):
        for place, verdict in enumerate(verdicts):
            if verdict.role == "assistant" and verdict.reason == NOTHING and _may_state(verdict.text):
                verdicts[place] = replace(verdict, way="model", reason=UNREAD)
    return GateVerdict(tuple(verdicts))


def _attribute(sentence: Sentence, role: str) -> Sentence:
    """Return the verdict on a sentence of this role; an agent's facts are not reworded to the user's or the team's."""
    if role == "user":
        return sentence
    facts = tuple(replace(fact, text=sentences.capitalised(fact.said), role=role) for fact in sentence.found)
    return replace(sentence, role=role, found=facts)


def weigh(text: str, role: str, find: Find) -> Sentence:
    """Return the verdict on one sentence in isolation."""
    words = sentences.tokens(text)
    by_name = words[:-1] if 0 < len(words) <= 3 and words[0] in _ADDRESSING else words  # such as "Hi Ann!"
    if _PLEASANT.issuperset(by_name):
        return Sentence(text=text, role=role, way="skip", reason=GREETING)
    if sentences.is_question(text):
        return Sentence(text=text, role=role, way="skip", reason=QUESTION)
    if facts := tuple(find(text, role=role)):
        return Sentence(text=text, role=role, way="pattern", reason=MATCHED, found=facts)
    if (role == "user" and _may_state(text)) or any(phrase in text.lower() for phrase in _LESSONS):
        return Sentence(text=text, role=role, way="model", reason=UNREAD)
    return Sentence(text=text, role=role, way="skip", reason=NOTHING)


def _may_state(text: str) -> bool:
    return not _FACT_WORDS.isdisjoint(sentences.tokens(text)) and not sentences.is_code(text)
