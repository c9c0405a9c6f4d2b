"""Decoding of tags into spans."""

from __future__ import annotations

import numpy as np

from cofio.judgement.encoding import words_of
from cofio.judgement.labels import ABOUT, KINDS, TAGS
from cofio.judgement.spans import Span, Tagged, decode

_SURE = 6.0


def decoded(text: str, tags: str, kind: str = "policy", about: str = "project") -> list[Span]:
    """Decode a tag per word: "." outside, "B" first, "I" inside, "?" a border word of probability 0.2."""
    words = words_of(text)
    assert len(words) == len(tags)
    logits = np.zeros((len(words) + 1, len(TAGS) + len(KINDS) + len(ABOUT)), np.float32)
    for place, tag in enumerate(tags, 1):
        if tag == "?":
            logits[place, : len(TAGS)] = np.log([0.8, 0.1, 0.1])
        else:
            logits[place, ".BI".index(tag)] = _SURE
        logits[place, len(TAGS) + KINDS.index(kind)] = 1.0
        logits[place, len(TAGS) + len(KINDS) + ABOUT.index(about)] = 1.0
    return decode(text, Tagged([(place, (start, end)) for place, (_, start, end) in enumerate(words, 1)], logits))


def parts(text: str, tags: str) -> list[str]:
    return [text[span.start : span.end] for span in decoded(text, tags)]


def test_a_run_is_a_span_with_its_labels() -> None:
    [span] = decoded("ok we never deploy then", "." + "BII" + ".", "policy", "person")
    assert (span.start, span.end, span.kind, span.about) == (3, 18, "policy", "person")
    assert span.probability > 0.95


def test_no_words_have_no_spans() -> None:
    assert decode("", Tagged([], np.zeros((0, 13), np.float32))) == []
    assert decoded("nothing of note here", "....") == []


def test_a_first_word_behind_a_comma_begins_a_new_fact() -> None:
    assert parts("We use Redis, Ada owns it", "BIIBII") == ["We use Redis,", "Ada owns it"]
    assert parts("We use Redis Ada owns it", "BIIBII") == ["We use Redis Ada owns it"]


def test_a_short_gap_is_bridged_and_a_long_one_is_not() -> None:
    assert parts("We use - um - Redis", "BI...I"[:6]) == ["We use", "Redis"]
    assert parts("We use um Redis", "BI.I") == ["We use um Redis"]


def test_a_span_never_crosses_a_sentence() -> None:
    assert parts("We use Redis. It caches.", "BIIII") == ["We use Redis.", "It caches."]
    assert parts("We use Redis\nIt caches", "BIIII") == ["We use Redis", "It caches"]


def test_border_words_are_taken_in_up_to_the_end_of_the_clause() -> None:
    assert parts("maybe we use Redis now, right", "?BIII.") == ["maybe we use Redis now,"]
    assert parts("well, we use Redis now", "?BIII") == ["we use Redis now"]
    assert parts("we use Redis today", "BII?") == ["we use Redis today"]


def test_offsets_are_those_of_the_text_with_unicode() -> None:
    text = "🚀 Das Café nutzt “Redis” – naïve"
    assert parts(text, ".BIII..") == ["Das Café nutzt “Redis”"]
