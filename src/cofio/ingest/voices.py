"""Separation of an exchange into the user's own words and text of other authors, which is not learned from.

    exchange ─ structure, judge ─▶ own words ─▶ facts
                                └▶ text of others ─ adopted by the user ─▶ references, which change no memory

A message of the agent in an observed dialogue is searched for text of others as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter

from cofio.ingest import gate
from cofio.ingest.extract import patterns
from cofio.ingest.extract.by_llm import OTHERS_TEXT
from cofio.ingest.manipulation import find_manipulation
from cofio.ingest.sanitize.third_party import (
    ThirdPartyPassage,
    cut_passages,
    find_marked,
    find_third_party,
    is_adopted,
    merge_passages,
)
from cofio.judgement.model_inputs import sentences_of
from cofio.models.exchange import OBSERVATION, Exchange, ExtractedFact, Message, Sentence
from cofio.ports import Judge, SentenceVoice
from cofio.text import lazy_re
from cofio.text.stemmer import stem
from cofio.text.tokens import search_terms, truncate_middle

OTHERS_WORDS = "Not the user's own words"
PASTED = "pasted"  # provenance of adopted text
SPEAKER = "pasted text"  # speaker of adopted text without a known author; keeps it apart from the user's memories
_MOST_CONFIDENT = 0.5  # of adopted text
_MOST_ADOPTED = 8  # references per passage
_LONGEST_REFERENCE = 600  # characters
_SHOWN = 300  # characters of a passage that the language model sees, as context
_NEWS = (gate.MATCHED, gate.UNREAD)
_QUOTE_MARKS = lazy_re.compile(r"^[ \t]*(?:[>|][>| \t]*|```.*$|~~~.*$)", re.MULTILINE)
_COPIED, _MOSTLY = 0.7, 0.5  # share of a fact's words in text of others, and in the user's own words
_SPEAKERS = frozenset(map(stem, "user team project policy".split()))


@dataclass(frozen=True, slots=True)
class SeparatedExchange:
    """An exchange by author: own words, the same with the beginnings of other texts, and those texts."""

    own: Exchange
    marked: Exchange  # for the language model
    passages: tuple[str, ...] = ()
    adopted: tuple[ExtractedFact, ...] = ()

    @property
    def skipped(self) -> tuple[Sentence, ...]:
        """Return the text of others as skipped sentences of the gate's verdict."""
        return tuple(Sentence(text=text, role="user", way="skip", reason=OTHERS_WORDS) for text in self.passages)

    def find_suspects(self) -> list[tuple[set[str], str]]:
        """Return the terms of each sentence that would manipulate an agent, with the reason."""
        texts = [*(message.text for message in self.own.messages), *(self.passages if self.adopted else ())]
        sentences = (text[start:end] for text in texts for start, end in sentences_of(text))
        return [(_find_terms(sentence), reason) for sentence in sentences if (reason := find_manipulation(sentence))]

    def is_others(self, fact: ExtractedFact) -> bool:
        """Return whether a fact stands in text of others and not in the user's own words.

        The agent often repeats the text that it was given, and a language model reads its beginning.
        """
        if not self.passages or fact.provenance == PASTED:
            return False
        terms = _find_terms(fact.text) - _SPEAKERS
        own = _find_terms(" ".join(message.text for message in self.own.messages if message.role == "user"))
        others = _find_terms(" ".join(self.passages))
        return len(terms & others) >= _COPIED * len(terms) and len(terms & own) < _MOSTLY * len(terms)


def separate(exchange: Exchange, judge: Judge | None) -> SeparatedExchange:
    """Return the exchange by author."""
    own: list[Message] = []
    marked: list[Message] = []
    texts: list[str] = []
    adopted: list[ExtractedFact] = []
    for message in exchange.messages:
        is_users = message.role == "user"
        passages = _find_passages(message.text, judge) if is_users else []
        if not is_users and exchange.context == OBSERVATION:
            passages = find_third_party(message.text)
        own_text = cut_passages(message.text, passages)
        own.append(message._replace(text=own_text))
        marked.append(message._replace(text=_mark(message.text, passages)))
        texts += [message.text[passage.start : passage.end].strip() for passage in passages]
        if is_users and passages and is_adopted(own_text):
            adopted += _read_adopted(message.text, passages, judge)
    if not texts:
        return SeparatedExchange(exchange, exchange)
    spoken = tuple(message for message in own if message.text.strip())
    return SeparatedExchange(
        replace(exchange, messages=spoken),
        replace(exchange, messages=tuple(marked) if spoken else ()),
        tuple(texts),
        tuple(adopted),
    )


def _find_passages(text: str, judge: Judge | None) -> list[ThirdPartyPassage]:
    """Return the passages of others: those between marks, and those that the judge finds or confirms by structure."""
    by_structure = find_third_party(text)
    voices = judge.passages(text) if judge else []
    if not judge or not voices:
        return by_structure
    passages = list(find_marked(text))
    runs = groupby(zip(voices, _attribute(voices, by_structure, judge.thresholds), strict=True), key=itemgetter(1))
    for is_foreign, run in runs:
        if is_foreign:
            places = [voice for voice, _ in run]
            start, end = places[0].start, places[-1].end
            authors = (passage.author for passage in by_structure if passage.start < end and passage.end > start)
            passages.append(ThirdPartyPassage(start, end, next(filter(None, authors), "")))
    return merge_passages(passages)


def _attribute(
    voices: Sequence[SentenceVoice], by_structure: Sequence[ThirdPartyPassage], thresholds: Mapping[str, float]
) -> list[bool]:
    """Return whether each sentence is another author's.

    A sentence is if the judge is certain, if it is likely and stands next to such a sentence, or if the structure says
    so and the judge does not exclude it.
    """
    certain, likely, possible = (thresholds[f"{name}third party"] for name in ("", "next to ", "marked "))
    foreign = [voice.third_party >= certain for voice in voices]
    for places, step in ((range(1, len(voices)), -1), (range(len(voices) - 2, -1, -1), 1)):
        for place in places:
            foreign[place] |= foreign[place + step] and voices[place].third_party >= likely
    for place, voice in enumerate(voices):
        inside = any(passage.start <= voice.start and voice.end <= passage.end for passage in by_structure)
        foreign[place] |= inside and voice.third_party >= possible
    return foreign


def _mark(text: str, passages: Sequence[ThirdPartyPassage]) -> str:
    """Return the text with the beginning of each passage, marked, in its place."""
    for passage in reversed(passages):
        quoted = " ".join(truncate_middle(text[passage.start : passage.end], _SHOWN).split())
        quoted = quoted.replace("[", "(").replace("]", ")")
        text = f"{text[: passage.start]}\n[{OTHERS_TEXT}: {quoted}]\n{text[passage.end :]}"
    return text


def _read_adopted(text: str, passages: Sequence[ThirdPartyPassage], judge: Judge | None) -> Iterator[ExtractedFact]:
    """Yield the statements of text that the user asked to keep, in its own words; all of a text without statements."""
    for passage in passages:
        content = _QUOTE_MARKS.sub("", text[passage.start : passage.end])
        statements = list(_find_statements(content, judge))[:_MOST_ADOPTED] or [content]
        for statement in statements:
            plain = " ".join(statement.split()).strip("\"“”'`>|*- ")[:_LONGEST_REFERENCE]
            if len(plain.split()) > 1:
                yield ExtractedFact(
                    text=plain,
                    confidence=_MOST_CONFIDENT,
                    entities=patterns.names_in(plain),
                    provenance=PASTED,
                    author=passage.author,
                )


def _find_statements(text: str, judge: Judge | None) -> Iterator[str]:
    """Yield the sentences that state something."""
    spans = [span for span in judge.spans(text) if span.probability >= judge.thresholds["fact"]] if judge else []
    for start, end in sentences_of(text):
        sentence = text[start:end]
        if judge is None:
            is_statement = gate.weigh(sentence, "user", patterns.find).reason in _NEWS
        else:
            is_statement = any(span.start < end and span.end > start for span in spans)
        if is_statement:
            yield sentence


def _find_terms(text: str) -> set[str]:
    return {stem(word) for word in search_terms(text)}


def find_review_reason(fact: ExtractedFact, suspects: Sequence[tuple[set[str], str]]) -> str:
    """Return the reason to hold a fact for review: its own words, or those of the sentence it was read from."""
    if reason := find_manipulation(fact.text):
        return reason
    terms = _find_terms(fact.text) - _SPEAKERS
    return next((reason for words, reason in suspects if len(terms & words) >= _MOSTLY * len(terms)), "")
