"""Word-piece ids equal those of the `tokenizers` library, recorded by make_golden.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofio.errors import Misconfigured
from cofio.providers.embedders.wordpiece_tokenizer import CACHED_WORDS, MAX_TOKENS, WordPiece, normalised

GOLDEN = json.loads(Path(__file__).with_name("golden_tokens.json").read_text())
SMALL = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##aff", "##able", "able", ",", "a"])


@pytest.fixture(scope="module")
def tokenizer(model_folder: Path) -> WordPiece:
    return WordPiece.read(model_folder / "vocab.txt")


@pytest.mark.parametrize("row", GOLDEN, ids=lambda row: ascii(row["text"][:24]))
def test_ids_match_the_reference(tokenizer: WordPiece, row: dict[str, object]) -> None:
    assert tokenizer.ids(str(row["text"])) == row["ids"]


def test_repeated_tokenization_gives_the_same_ids(tokenizer: WordPiece) -> None:
    text = "Unaffable, naïve 中文 [SEP] words-words"
    assert tokenizer.ids(text) == tokenizer.ids(text)


def test_word_is_split_into_the_longest_known_pieces() -> None:
    assert SMALL.ids("Unaffable, able") == [2, 4, 5, 6, 8, 7, 3]


def test_word_with_an_unknown_rest_is_unknown() -> None:
    assert SMALL.ids("unaffablex a") == [2, 1, 9, 3]


def test_overlong_text_is_truncated_before_the_separator() -> None:
    assert SMALL.ids("a a a a a a", most=5) == [2, 9, 9, 9, 3]


def test_vocabulary_without_special_tokens_is_misconfigured(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("just\nwords\n")
    with pytest.raises(Misconfigured, match=r"no token \[UNK\]"):
        WordPiece.read(tmp_path / "vocab.txt")


def test_unreadable_vocabulary_is_misconfigured(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"vocab\.txt cannot be read"):
        WordPiece.read(tmp_path / "vocab.txt")


def test_word_cache_is_bounded() -> None:
    tokenizer = WordPiece(["[UNK]", "[CLS]", "[SEP]"])
    for number in range(0, CACHED_WORDS + 2_000, 500):
        tokenizer.ids(" ".join(f"w{number + offset}" for offset in range(500)))
    assert tokenizer._cached.cache_info().currsize == CACHED_WORDS


@settings(deadline=None)
@given(st.text())
def test_any_text_gives_ids_between_the_special_tokens(text: str) -> None:
    ids = SMALL.ids(text)
    assert (ids[0], ids[-1]) == (2, 3)
    assert len(ids) <= MAX_TOKENS


@settings(deadline=None)
@given(st.text(st.characters(codec="ascii")))
def test_fast_path_for_ascii_normalizes_like_the_general_path(text: str) -> None:
    assert normalised(text + "\u200b").split() == normalised(text).split()
