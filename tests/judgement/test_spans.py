"""Decoding of tags into spans."""

from __future__ import annotations

import numpy as np

from cofio.judgement.labels import ABOUT, KINDS, TAGS
from cofio.judgement.model_inputs import words_of
from cofio.judgement.spans import Span, Tagged, decode

_SURE = 6.0


def decode_tags(text: str, tags: str, kind: str = "policy", about: str = "project") -> list[Span]:
    """Decode one tag per word: "." outside, "B" first, "I" inside, "?" a border word of probability 0.2."""
    words = words_of(text)
    assert len(words) == len(tags)
    logits = np.zeros((len(words) + 1, len(TAGS) + len(KINDS) + len(ABOUT)), np.float32)
    for position, tag in enumerate(tags, 1):
        if tag == "?":
            logits[position, : len(TAGS)] = np.log([0.8, 0.1, 0.1])
        else:
            logits[position, ".BI".index(tag)] = _SURE
        logits[position, len(TAGS) + KINDS.index(kind)] = 1.0
        logits[position, len(TAGS) + len(KINDS) + ABOUT.index(about)] = 1.0
    return decode(text, Tagged([(position, (start, end)) for position, (_, start, end) in enumerate(words, 1)], logits))


def span_texts(text: str, tags: str) -> list[str]:
    return [text[span.start : span.end] for span in decode_tags(text, tags)]


def test_run_of_tags_is_a_span_with_labels() -> None:
    [span] = decode_tags("ok we never deploy then", "." + "BII" + ".", "policy", "person")
    assert (span.start, span.end, span.kind, span.about) == (3, 18, "policy", "person")
    assert span.probability > 0.95


def test_text_without_tags_has_no_spans() -> None:
    assert decode("", Tagged([], np.zeros((0, 13), np.float32))) == []
    assert decode_tags("nothing of note here", "....") == []


def test_begin_tag_after_a_comma_starts_a_new_span() -> None:
    assert span_texts("We use Redis, Ada owns it", "BIIBII") == ["We use Redis,", "Ada owns it"]
    assert span_texts("We use Redis Ada owns it", "BIIBII") == ["We use Redis Ada owns it"]


def test_short_gap_is_bridged_and_long_gap_is_not() -> None:
    assert span_texts("We use - um - Redis", "BI...I"[:6]) == ["We use", "Redis"]
    assert span_texts("We use um Redis", "BI.I") == ["We use um Redis"]


def test_span_does_not_cross_a_sentence() -> None:
    assert span_texts("We use Redis. It caches.", "BIIII") == ["We use Redis.", "It caches."]
    assert span_texts("We use Redis\nIt caches", "BIIII") == ["We use Redis", "It caches"]


def test_border_words_are_included_up_to_the_end_of_the_clause() -> None:
    assert span_texts("maybe we use Redis now, right", "?BIII.") == ["maybe we use Redis now,"]
    assert span_texts("well, we use Redis now", "?BIII") == ["we use Redis now"]
    assert span_texts("we use Redis today", "BII?") == ["we use Redis today"]


def test_offsets_count_unicode_characters() -> None:
    text = "🚀 Das Café nutzt “Redis” – naïve"
    assert span_texts(text, ".BIII..") == ["Das Café nutzt “Redis”"]
