"""Encoding of turns and pairs: windows, offsets, and limits."""

from __future__ import annotations

from itertools import pairwise

import pytest

from cofio.judgement import model_inputs
from cofio.judgement.model_inputs import WINDOW_TOKENS, Encoder, sentences_of, words_of
from cofio.judgement.onnx_classifier import WEIGHTS
from cofio.providers.embedders.wordpiece_tokenizer import WordPiece

UNICODE = "Das Café-Team nutzt 🚀 Rocket.\n日本語の文。 Naïve “quotes” – done! \u00a0İstanbul\tand ẞ; e\u0301clair?"


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder(WordPiece.read(WEIGHTS / "vocab.txt"))


@pytest.mark.parametrize("text", [UNICODE, "", "  \n\n ", "a", "We use e.g. Redis, i.e. a cache vs. a store. Ok."])
def test_sentences_are_ordered_stripped_ranges_of_the_text(text: str) -> None:
    ranges = sentences_of(text)
    assert all(text[start:end] == text[start:end].strip() != "" for start, end in ranges)
    assert all(left[1] <= right[0] for left, right in pairwise(ranges))
    joined = "".join(text[start:end] for start, end in ranges)
    assert "".join(joined.split()) == "".join(text.replace(";", "").split())


def test_title_does_not_end_a_sentence() -> None:
    text = "Mr. Oduya has retired, and Ms. Brandt signs. Dr. Okafor reviews."
    assert [text[start:end] for start, end in sentences_of(text)] == [
        "Mr. Oduya has retired, and Ms. Brandt signs.",
        "Dr. Okafor reviews.",
    ]


def test_abbreviations_and_semicolons() -> None:
    text = "We use e.g. Redis. It caches; it is fast!\nDone"
    assert [text[start:end] for start, end in sentences_of(text)] == [
        "We use e.g. Redis.",
        "It caches",
        "it is fast!",
        "Done",
    ]


def test_code_is_not_split() -> None:
    text = "The index covers `WHERE a = ? AND b; c`. It is new; keep it."
    assert [text[start:end] for start, end in sentences_of(text)] == [
        "The index covers `WHERE a = ? AND b; c`.",
        "It is new",
        "keep it.",
    ]


@pytest.mark.parametrize("text", [UNICODE, "one two", UNICODE * 40, "word " * 1_000])
def test_every_word_is_in_one_window(encoder: Encoder, text: str) -> None:
    offsets = [offset for window in encoder.windows(text, "before?") for _, offset in window.places]
    assert offsets == sorted(set(offsets))
    sentences = sentences_of(text)
    assert [text[start:end] for start, end in offsets] == [
        word for start, end in sentences for word, _, _ in words_of(text[start:end])
    ]


@pytest.mark.parametrize("text", ["word " * 1_000, "Short sentence. " * 200, "a" * 5_000, UNICODE * 40])
def test_windows_are_bounded_and_well_formed(encoder: Encoder, text: str) -> None:
    windows = list(encoder.windows(text, "What did we say before? " * 50))
    for window in windows:
        assert len(window.ids) == len(window.types) <= WINDOW_TOKENS + model_inputs.BEFORE_TOKENS + 4
        assert all(0 < token < len(window.ids) - 1 and window.types[token] == 1 for token, _ in window.places)
        assert window.types == sorted(window.types)
    assert len(windows) > 1 or text.startswith("aaa")


def test_role_and_previous_turn_are_encoded(encoder: Encoder) -> None:
    [user] = encoder.windows("We use Redis", "What caches?")
    [assistant] = encoder.windows("We use Redis", "What caches?", "assistant")
    [without_previous] = encoder.windows("We use Redis")
    assert [left != right for left, right in zip(user.ids, assistant.ids, strict=True)].count(True) == 1
    assert len(without_previous.ids) < len(user.ids)


def test_empty_turn_has_no_window(encoder: Encoder) -> None:
    assert list(encoder.windows(" \n ", "before")) == []


def test_long_memory_is_encoded_by_its_beginning_and_end(encoder: Encoder) -> None:
    long = f"Alpha {'filler ' * 5_000} Omega"
    ids, types = encoder.pair(long, long)
    assert len(ids) == len(types) == model_inputs.MEMORY_TOKENS + model_inputs.STATEMENT_TOKENS + 4
    first, last = encoder.pair("Alpha", "x")[0][2], encoder.pair("Omega", "x")[0][2]
    assert first in ids
    assert last in ids


def test_pairs_are_ordered_and_tasks_differ(encoder: Encoder) -> None:
    assert encoder.pair("a", "b") != encoder.pair("b", "a")
    assert encoder.pair("a", "b")[0] != encoder.relevance("a", "b")[0]
