"""The ids are those of the `tokenizers` library; make_golden.py wrote them down."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofio.errors import Misconfigured
from cofio.providers.embedders.wordpiece import CACHED_WORDS, MAX_TOKENS, WordPiece, normalised

GOLDEN = json.loads(Path(__file__).with_name("golden_tokens.json").read_text())
SMALL = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##aff", "##able", "able", ",", "a"])


@pytest.fixture(scope="module")
def words(carried: Path) -> WordPiece:
    return WordPiece.read(carried / "vocab.txt")


@pytest.mark.parametrize("row", GOLDEN, ids=lambda row: ascii(row["text"][:24]))
def test_the_ids_are_those_of_the_reference(words: WordPiece, row: dict[str, object]) -> None:
    assert words.ids(str(row["text"])) == row["ids"]


def test_a_second_reading_gives_the_same_ids_from_the_cache(words: WordPiece) -> None:
    text = "Unaffable, naïve 中文 [SEP] words-words"
    assert words.ids(text) == words.ids(text)


def test_a_word_is_cut_into_the_longest_pieces_that_are_known() -> None:
    assert SMALL.ids("Unaffable, able") == [2, 4, 5, 6, 8, 7, 3]


def test_a_word_with_an_unknown_rest_is_unknown_as_a_whole() -> None:
    assert SMALL.ids("unaffablex a") == [2, 1, 9, 3]


def test_what_does_not_fit_is_left_out_and_the_end_mark_stays() -> None:
    assert SMALL.ids("a a a a a a", most=5) == [2, 9, 9, 9, 3]


def test_a_vocabulary_without_the_special_tokens_is_refused(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("just\nwords\n")
    with pytest.raises(Misconfigured, match=r"no \[UNK\]"):
        WordPiece.read(tmp_path / "vocab.txt")


def test_a_vocabulary_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"vocab\.txt cannot be read"):
        WordPiece.read(tmp_path / "vocab.txt")


def test_the_cache_of_words_stays_bounded() -> None:
    words = WordPiece(["[UNK]", "[CLS]", "[SEP]"])
    for number in range(0, CACHED_WORDS + 2_000, 500):
        words.ids(" ".join(f"w{number + each}" for each in range(500)))
    assert words._cached.cache_info().currsize == CACHED_WORDS


@settings(deadline=None)
@given(st.text())
def test_any_text_gives_ids_between_the_marks(text: str) -> None:
    ids = SMALL.ids(text)
    assert (ids[0], ids[-1]) == (2, 3)
    assert len(ids) <= MAX_TOKENS


@settings(deadline=None)
@given(st.text(st.characters(codec="ascii")))
def test_the_short_way_for_ascii_normalises_like_the_long_way(text: str) -> None:
    assert normalised(text + "\u200b").split() == normalised(text).split()
