"""A text's worth: pleasantries have little, what tells something has more, and no text breaks it."""

from __future__ import annotations

import time

import pytest

from cofio.worth import BEST, WEIGHTS, parts, signals, worth

#: Written for this test; none of it was looked at while signals or weights were chosen.
PLEASANT = (
    "Good evening, Priya!",
    "Haha, that's so true.",
    "Aww, thank you so much, you made my day!",
    "You've got this, I believe in you!",
    "That sounds absolutely lovely.",
    "What did you end up doing?",
    "How was your weekend?",
    "Congrats, well done!",
    "I'm always here for you.",
    "Life is what you make of it.",
    "It's so important to keep going.",
    "Wow, great job!",
    "See you later, take care!",
    "I totally agree with you.",
    "Have a great time!",
    "No worries at all.",
    "ok",
    "👍👍",
)
TELLING = (
    "I moved to Porto in March 2021 with my sister.",
    "My grandfather was a carpenter in a village near Graz.",
    "We adopted a three-legged cat called Biscuit last autumn.",
    "Our wedding is on 14 June at the old mill in Ghent.",
    "I am allergic to hazelnuts and carry an EpiPen.",
    "Yesterday I sold my motorcycle to a colleague for 2,300 euros.",
    "My daughter starts at Leeds University next September, reading chemistry.",
    "I've been taking tango lessons every Tuesday since January.",
    "Dad had knee surgery two weeks ago and still walks with crutches.",
    "My favourite film is Paris, Texas; I saw it as a teenager in Hamburg.",
    "The invoice service was migrated to PostgreSQL 16 and listens on port 5544 now.",
    "We always tag releases as vYYYY.MM.N, never with a plain number.",
)


@pytest.mark.parametrize("text", PLEASANT)
def test_a_pleasantry_is_worth_little(text: str) -> None:
    assert worth(text) < 0.1


@pytest.mark.parametrize("text", TELLING)
def test_what_tells_something_is_worth_more(text: str) -> None:
    assert worth(text) > 0.2


def test_every_telling_sentence_is_above_every_pleasantry() -> None:
    assert min(map(worth, TELLING)) > max(map(worth, PLEASANT))


def test_a_pleasantry_around_it_takes_nothing_from_what_is_told() -> None:
    for text in TELLING:
        assert worth(f"Wow, that's great! Thanks so much. {text} How are you?") >= worth(text)


def test_a_long_text_is_not_worth_more_for_being_long() -> None:
    talk = "That is a kind thought about the small things around the lake. "
    assert worth(talk * 50) == pytest.approx(worth(talk * BEST))


def test_the_same_words_of_an_assistant_are_worth_less() -> None:
    said = "The invoice service listens on port 5544."
    assert worth(said, "assistant") < worth(said, "user")


def test_a_question_is_worth_less_than_what_it_asks_about() -> None:
    assert worth("You moved to Porto in March 2021 with your sister?") < worth(TELLING[0])


def test_signals_are_named_and_weighed() -> None:
    found = signals("Yesterday I sold my motorcycle to a colleague for 2,300 euros.")
    assert {"when", "number", "relation", "of a life", "own past", "telling words"} <= set(found)
    assert set(signals("That's great, keep it up!")) >= {"praise", "cheer"}
    assert set(found) <= set(WEIGHTS)


def test_a_note_in_brackets_stands_for_itself() -> None:
    assert parts("Look! [shared image: a map of Rome] Nice.") == ["Look!", "Nice.", "[shared image: a map of Rome]"]
    assert signals("[shared image: a map of Rome in 1850]") == {"note": 1.0}


@pytest.mark.parametrize("nothing", ["", " ", "\n\n", "…", "🎉", "[]", "```\ncode = 1\n```", "\x00"])
def test_what_says_nothing_is_worth_nothing(nothing: str) -> None:
    assert worth(nothing) == 0.0


@pytest.mark.parametrize(
    "odd",
    [
        "مرحبا، اسمي ليلى وأعيش في القاهرة منذ ٢٠١٩",
        "私は2019年に東京へ引っ越しました。",
        "👩‍👩‍👧‍👦 family 🎂 2024 🎉",
        "\u202eevil\u202c right to left",
        "a" * 10_000,
        "a " * 5_000,
        "[" * 10_000,
        "[x] " * 3_000,
        "so really " * 1_000 + "that's",
        "'A" * 5_000,
        "\"A\" “B” 'C' " * 800,
        "it's so " * 1_200,
        "you are one two " * 700,
        "\ud800 half of a pair",
    ],
)
def test_any_text_has_a_worth_soon(odd: str) -> None:
    began = time.process_time()
    found = worth(odd)
    assert 0.0 <= found <= 1.0
    assert worth(odd) == found
    assert time.process_time() - began < 3.0  # usually under 0.1 s
