"""Whatever is said, reading it comes to an end, soon, and what is found can be kept."""

from __future__ import annotations

import time

import pytest
from bench.patterns import MESSAGES, of_messages
from hypothesis import given
from hypothesis import strategies as st

from cofio.ingest import gate
from cofio.ingest.extract import patterns
from cofio.models.exchange import Exchange, Message
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


def judged(text: str, role: str = "user") -> gate.GateVerdict:
    return gate.judge(Exchange(messages=(Message(role, text),)), patterns.find)


@given(st.lists(st.sampled_from([*WORDS, *SIGNS]), max_size=40).map(" ".join), st.sampled_from(["user", "assistant"]))
def test_any_mixture_of_telling_words_is_read_and_what_is_found_can_be_kept(text: str, role: str) -> None:
    verdict = judged(text, role)
    for found in verdict.found:
        assert found.role == role
        assert found.said in [sentence.text for sentence in verdict.sentences]
        assert 0 < len(found.text) <= len(found.said) + 40
        Fact(text=found.text, kind=found.kind, entities=found.entities, confidence=found.confidence)


@given(st.text())
def test_any_text_at_all_is_judged(text: str) -> None:
    assert len(judged(text).sentences) <= len(text)
    patterns.facts(text)
    patterns.find(text)


@given(st.sampled_from([text for _, text in MESSAGES]), st.integers(0, 600), st.integers(0, 600))
def test_a_piece_of_a_message_is_judged_as_well(text: str, start: int, end: int) -> None:
    judged(text[start:end])


@pytest.mark.parametrize("piece", HOSTILE)
def test_time_grows_with_the_text_and_no_faster(piece: str) -> None:
    def took(size: int) -> float:
        text = (piece * (size // len(piece) + 1))[:size]
        began = time.process_time()
        judged(text)
        judged(text + "over Vim.")
        return time.process_time() - began

    small = min(took(20_000) for _ in range(3))
    assert min(took(40_000) for _ in range(3)) < 4 * small + 0.05
    assert small < 5.0


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_single_sentence_of_any_length_is_read_in_no_time(piece: str) -> None:
    began = time.process_time()
    patterns.find(piece * 10_000)
    gate.weigh(piece * 2_000, "user", patterns.find)
    assert time.process_time() - began < 5.0


def test_a_message_takes_a_fraction_of_a_millisecond() -> None:
    assert min(of_message.ours for of_message in of_messages()) < 0.002  # about 0.05 ms at rest
