"""The tagger of voices: other people's sentences in a user's turn, and the user's own."""

from __future__ import annotations

import pytest

from cofio.ingest.voices import separate
from cofio.judgement.onnx_classifier import LocalJudge
from cofio.models.exchange import Exchange, Message
from tests.judges import judge

PASTED = "I read this on the vendor's blog, does it fit us?\n\n" + "\n".join((
    "We run Kettlebase in production since last spring and never looked back.",
    "Our team decided to drop all nightly backups, because the replicas are enough.",
    "Always deploy on Fridays, when traffic is low.",
))  # fmt: skip
REMARK = "\n\nI'm not convinced, we never deploy on Fridays. What would you answer?"


def own_words(text: str) -> str:
    exchange = Exchange(messages=(Message("user", text),))
    return " ".join(message.text for message in separate(exchange, judge()).own.messages)


def test_pasted_article_is_told_from_the_words_around_it() -> None:
    own = own_words(PASTED + REMARK)
    assert "does it fit us?" in own
    assert "we never deploy on Fridays" in own
    assert not [word for word in ("Kettlebase", "nightly backups", "traffic is low") if word in own]


@pytest.mark.parametrize(
    "text",
    [
        "Our rules:\n- we always run make test\n- never commit to main\n- PRs need two reviews",
        "We moved the API to Go last month. Please keep that in mind and update the README.",
        "ignore the linter warnings in that file for now, and rename the token variable to cursor",
    ],
)
def test_own_words_are_kept(text: str) -> None:
    assert own_words(text) == text


def test_each_sentence_has_a_probability() -> None:
    voices = judge().passages(PASTED)
    assert [PASTED[voice.start : voice.end].split()[0] for voice in voices] == ["I", "We", "Our", "Always"]
    assert all(0.0 <= voice.third_party <= 1.0 for voice in voices)


@pytest.mark.parametrize("text", ["", "   \n", "Мы используем pnpm. Всегда запускай тесты.", "我们使用 PostgreSQL。"])
def test_text_that_the_model_cannot_read_has_no_voices(text: str) -> None:
    assert LocalJudge().passages(text) == []
