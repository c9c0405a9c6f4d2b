"""Tokenization of texts into words and search terms."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cofio.text.tokens import embedding_text, fingerprint, search_terms, words


def test_names_with_symbols_are_one_word() -> None:
    assert words("We use Next.js, C# and pre-commit") == ["we", "use", "next.js", "c#", "and", "pre-commit"]


def test_question_words_are_not_search_terms() -> None:
    assert search_terms("What did Caroline's team decide about the deployment of web-2?") == [
        "caroline",
        "team",
        "decide",
        "deployment",
        "web-2",
    ]


def test_query_of_stop_words_keeps_its_words() -> None:
    assert search_terms("who is it?") == ["who", "is", "it"]
    assert search_terms("???") == []


def test_fingerprint_ignores_case_and_white_space() -> None:
    assert fingerprint("We  use\tTabs ") == fingerprint("we use tabs")
    assert fingerprint("we use tabs") != fingerprint("we use tabs.")
    assert -(1 << 63) <= fingerprint("x") < 1 << 63


def test_embedding_text_includes_the_speaker() -> None:
    assert embedding_text("I moved to Leeds", "Ada") == "Ada: I moved to Leeds"
    assert embedding_text("I moved to Leeds", "") == "I moved to Leeds"


@given(st.text())
def test_any_text_can_be_tokenized(text: str) -> None:
    words(text)
    search_terms(text)
    fingerprint(text.encode("utf-8", "replace").decode())
