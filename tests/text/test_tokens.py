"""What words alone can tell."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cofio.text.tokens import embedding_text, fingerprint, search_terms, words


def test_names_with_signs_stay_whole() -> None:
    assert words("We use Next.js, C# and pre-commit") == ["we", "use", "next.js", "c#", "and", "pre-commit"]


def test_question_words_are_not_searched_for() -> None:
    assert search_terms("What did Caroline's team decide about the deployment of web-2?") == [
        "caroline",
        "team",
        "decide",
        "deployment",
        "web-2",
    ]


def test_a_query_of_stop_words_alone_is_still_a_query() -> None:
    assert search_terms("who is it?") == ["who", "is", "it"]
    assert search_terms("???") == []


def test_the_fingerprint_forgives_case_and_space_alone() -> None:
    assert fingerprint("We  use\tTabs ") == fingerprint("we use tabs")
    assert fingerprint("we use tabs") != fingerprint("we use tabs.")
    assert -(1 << 63) <= fingerprint("x") < 1 << 63


def test_who_said_it_is_part_of_what_is_embedded() -> None:
    assert embedding_text("I moved to Leeds", "Ada") == "Ada: I moved to Leeds"
    assert embedding_text("I moved to Leeds", "") == "I moved to Leeds"


@given(st.text())
def test_any_text_has_words(text: str) -> None:
    words(text)
    search_terms(text)
    fingerprint(text.encode("utf-8", "replace").decode())
