"""Fuzz tests: extraction of any text terminates quickly and returns valid facts."""

from __future__ import annotations

import time

import pytest
from bench.patterns import MESSAGES, measure_messages
from hypothesis import given
from hypothesis import strategies as st

from cofio.ingest import gate
from cofio.ingest.extract import patterns
from cofio.models.exchange import Exchange, GateVerdict, Message
from cofio.models.memory import Fact

WORDS = "I we our prefer use using always never should must decided chose switched migrated moved found been".split()
SIGNS = [
    *".,;:!?()\"'`“”<>={}[]#*-–/\\|&",
    "over",
    "to",
    "from",
    "for",
    "because",
    "https://a.b/c?d=e",
    "Next.js",
    "C++",
]
HOSTILE = [
    "I prefer ",
    "a ",
    "switched from ",
    "we switched from x to ",
    "we always use ",
    "I like a, b, ",
    "using x for ",
    "started using x last ",
    "e.g. ",
    "J. ",
    "(((",
    "`x` = ",
    "and, ",
    "?! ",
    "ok so btw ",
    "let's ",
    "the x port is ",
    "remember ",
    "#1 ",
    "a1b2c3d",
    "it is now still ",
    '"',
    "x.",
    "\n",
    "```\n",
    "is, can you ",
]


def judge_text(text: str, role: str = "user") -> GateVerdict:
    return gate.judge(Exchange(messages=(Message(role, text),)), patterns.find)


@given(st.lists(st.sampled_from([*WORDS, *SIGNS]), max_size=40).map(" ".join), st.sampled_from(["user", "assistant"]))
def test_any_mixture_of_pattern_words_gives_valid_facts(text: str, role: str) -> None:
    verdict = judge_text(text, role)
    for fact in verdict.found:
        assert fact.role == role
        assert fact.said in [sentence.text for sentence in verdict.sentences]
        assert 0 < len(fact.text) <= len(fact.said) + 40
        Fact(text=fact.text, kind=fact.kind, entities=fact.entities, confidence=fact.confidence)


@given(st.text())
def test_any_text_is_judged(text: str) -> None:
    assert len(judge_text(text).sentences) <= len(text)
    patterns.facts(text)
    patterns.find(text)


@given(st.sampled_from([text for _, text in MESSAGES]), st.integers(0, 600), st.integers(0, 600))
def test_any_slice_of_a_message_is_judged(text: str, start: int, end: int) -> None:
    judge_text(text[start:end])


@pytest.mark.parametrize("piece", HOSTILE)
def test_time_is_linear_in_the_length(piece: str) -> None:
    def measure(size: int) -> float:
        text = (piece * (size // len(piece) + 1))[:size]
        started = time.process_time()
        judge_text(text)
        judge_text(text + "over Vim.")
        return time.process_time() - started

    short_time = min(measure(20_000) for _ in range(3))
    assert min(measure(40_000) for _ in range(3)) < 4 * short_time + 0.05
    assert short_time < 5.0


@pytest.mark.parametrize("piece", HOSTILE)
def test_overlong_sentence_is_judged_quickly(piece: str) -> None:
    started = time.process_time()
    patterns.find(piece * 10_000)
    gate.weigh(piece * 2_000, "user", patterns.find)
    assert time.process_time() - started < 5.0


def test_message_takes_less_than_two_milliseconds() -> None:
    assert min(figure.cofio for figure in measure_messages()) < 0.002  # about 0.05 ms at rest
