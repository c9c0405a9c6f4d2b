"""Conversations of any sort are read; what cannot be measured is refused with its line, and what to do."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from cofio.errors import InvalidInput, NotFound
from cofio.evaluation import datasets
from cofio.evaluation.datasets import Conversation, read, remembered, when
from cofio.models.memory import MAX_LABEL, MAX_TEXT
from cofio.settings import Settings
from cofio.testing import HashEmbedder


def unit(name: Any = "u1", text: Any = "The ferry leaves at six", **more: Any) -> dict[str, Any]:
    return {"id": name, "text": text, **more}


def asked(text: Any = "When does the ferry leave?", **more: Any) -> dict[str, Any]:
    return {"text": text, **more}


def one(tmp_path: Path, *lines: Any, **how: Any) -> list[Conversation]:
    path = tmp_path / "conversations.jsonl"
    written = "\n".join(line if isinstance(line, str) else json.dumps(line, **how) for line in lines)
    path.write_text(written, encoding="utf-8", newline="")
    return read(path)


def of(tmp_path: Path, units: list[Any], questions: list[Any]) -> Conversation:
    return one(tmp_path, {"id": "c", "units": units, "questions": questions})[0]


# ── what is taken ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_unit_becomes_a_fact_with_speaker_date_and_what_was_said_before(tmp_path: Path) -> None:
    units = [
        unit(f"u{place}", f"said {place}", speaker="Ada", date="1:56 pm on 8 May, 2023" if place < 3 else "9 May, 2023")
        for place in range(5)
    ]
    facts = of(tmp_path, units, []).facts
    assert (facts[2].text, facts[2].speaker, facts[2].metadata) == ("said 2", "Ada", {"unit": "u2"})
    assert facts[2].created_at == "2023-05-08T13:56:00.000000+00:00"
    assert [fact.context for fact in facts] == ["", "said 0", "said 0\nsaid 1", "", "said 3"]


def test_speaker_date_id_category_and_evidence_may_be_missing(tmp_path: Path) -> None:
    found = of(tmp_path, [unit(), unit("u2", speaker=None, date=None)], [asked(), asked(evidence=None, category=None)])
    assert [(fact.speaker, fact.created_at) for fact in found.facts] == [("", ""), ("", "")]
    assert [(question.id, question.category, question.evidence) for question in found.questions] == [
        ("0", "none", frozenset()),
        ("1", "none", frozenset()),
    ]
    assert not any(question.has_answer for question in found.questions)


def test_ids_and_categories_may_be_numbers_and_evidence_a_single_id(tmp_path: Path) -> None:
    questions = [
        asked(id=7, category=4, evidence=[1]),
        asked(category=["a"], evidence=1),
        asked(category=" Adversarial ", evidence="1"),
    ]
    found = of(tmp_path, [unit(1)], questions)
    assert [(question.id, question.category) for question in found.questions] == [
        ("7", "4"),
        ("1", "['a']"),
        ("2", "Adversarial"),
    ]
    assert [question.evidence for question in found.questions] == [{"1"}, {"1"}, {"1"}]
    assert [question.has_answer for question in found.questions] == [True, True, False]
    assert found.units == {"1"}


def test_questions_without_words_are_counted_and_not_asked(tmp_path: Path) -> None:
    found = of(tmp_path, [unit()], [asked(" "), asked(None), asked("\x00"), asked()])
    assert ([question.text for question in found.questions], found.without_words) == (["When does the ferry leave?"], 3)


def test_units_without_words_stay_units(tmp_path: Path) -> None:
    assert [fact.text for fact in of(tmp_path, [unit("a", ""), unit("b", None)], []).facts] == ["…", "…"]


def test_what_no_memory_can_hold_is_left_out(tmp_path: Path) -> None:
    long = unit("u" * 50, "x" * (MAX_TEXT + 10), speaker="s" * (MAX_LABEL + 10))
    odd = '{"questions": [], "units": [{"id": "\\u0000u", "text": "half \\ud83d of\\u0000 one", "speaker": "\\ud83d"}]}'
    first, second = one(tmp_path, {"units": [long], "questions": [asked("y" * (MAX_TEXT + 10))]}, odd)
    assert (len(first.facts[0].text), len(first.facts[0].speaker)) == (MAX_TEXT, MAX_LABEL)
    assert len(first.questions[0].text) == MAX_TEXT
    assert (second.facts[0].text, second.facts[0].speaker, second.units) == ("half ? of one", "?", {"u"})


def test_a_line_ends_at_a_line_feed_alone(tmp_path: Path) -> None:
    said = "one\u2028two\x85three\x0cfour"
    found = one(tmp_path, {"units": [unit("a", said)], "questions": []}, "", ensure_ascii=False)
    assert found[0].facts[0].text == said
    crlf = '\ufeff{"units": [], "questions": []}\r\n\r\n{"units": [], "questions": []}\r\n'
    assert [each.id for each in one(tmp_path, crlf)] == ["1", "3"]


def test_names_that_are_not_their_own_are_made_so(tmp_path: Path) -> None:
    same = {"id": "c", "units": [unit()], "questions": [asked(id="q"), asked(id="q"), asked(id="q (2)")]}
    found = one(tmp_path, same, same)
    assert [each.id for each in found] == ["c", "c (2)"]
    assert [question.id for question in found[0].questions] == ["q", "q (2)", "q (2) (2)"]


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        ("1:56 pm on 8 May, 2023", "2023-05-08T13:56"),
        ("2023/05/20 (Sat) 02:21", "2023-05-20T02:21"),
        ("2023-05-20T02:21:00+02:00", "2023-05-20T00:21"),
        ("2023-05-20T02:21:00Z", "2023-05-20T02:21"),
        ("20 May 2023", "2023-05-20T00:00"),
        ("May-20-2023", "2023-05-20T00:00"),
        ("29.12.2023, 20:02:35", "2023-12-29T20:02"),
        ("Sat, 20 May 2023 02:21:00 +0200", "2023-05-20T00:21"),
        (1684549260, "2023-05-20T02:21"),
        ("1684549260000", "2023-05-20T02:21"),
        ("yesterday", ""),
        ("0001-01-01T00:00:00+05:00", ""),
        ("", ""),
        (None, ""),
        (True, ""),
        ({"year": 2023}, ""),
        (1e300, ""),
    ],
)
def test_a_date_is_read_however_it_is_written(written: Any, read_as: str) -> None:
    assert when(written)[:16] == read_as


# ── what is refused ───────────────────────────────────────────────────────────────────────────────────────────────────

GOOD = '{"units": [], "questions": []}'


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"units": [', "Line 2 of {path} is not JSON: Expecting value, at character 12."),
        ("[]", "Line 2 of {path} is not a conversation: it is a list, not an object."),
        ("3", "Line 2 of {path} is not a conversation: it is a number, not an object."),
        ('{"questions": []}', "Line 2 of {path} is not a conversation: it has no units."),
        ('{"units": []}', "Line 2 of {path} is not a conversation: it has no questions."),
        ('{"units": {"a": 1}, "questions": []}', "… units is an object, not a list."),
        ('{"units": ["hello"], "questions": []}', "… number 1 of its units is a text, not an object."),
        ('{"units": [{"id": 1}], "questions": []}', "… number 1 of its units has no text."),
        ('{"units": [{"text": "a"}], "questions": []}', "… number 1 of its units has no id"),
        ('{"units": [{"id": "", "text": "a"}], "questions": []}', "… number 1 of its units has no id"),
        ('{"units": [], "questions": [{"question": "a"}]}', "… number 1 of its questions has no text."),
        (
            '{"units": [], "questions": [{"text": "a", "evidence": [["b"]]}]}',
            "… the evidence of question 1 is not a list",
        ),
        ('{"units": [{"id": "' + "u" * 70_000 + '", "text": "a"}], "questions": []}', "… metadata has 70,"),
        ("[" * 100_000, "Line 2 of {path} is no"),
    ],
)
def test_a_line_that_is_no_conversation_is_refused_with_its_number_and_what_to_do(
    tmp_path: Path, line: str, says: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        one(tmp_path, GOOD, line)
    start = f"Line 2 of {tmp_path / 'conversations.jsonl'} is not a conversation:"
    assert says.format(path=tmp_path / "conversations.jsonl").replace("…", start) in refused.value.message
    assert '"units"' in refused.value.hint


def test_a_file_that_is_none_empty_or_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="No such file"):
        read(tmp_path / "none.jsonl")
    with pytest.raises(NotFound, match="directory"):
        read(tmp_path)
    with pytest.raises(InvalidInput, match="is empty"):
        one(tmp_path, "", "  ")
    (tmp_path / "latin.jsonl").write_bytes(GOOD.encode() + b"\n\xe9")
    with pytest.raises(InvalidInput, match=r"Line 2 of .* is not UTF-8"):
        read(tmp_path / "latin.jsonl")
    (tmp_path / "packed.jsonl.gz").write_bytes(gzip.compress(GOOD.encode()))
    with pytest.raises(InvalidInput, match="is compressed") as refused:
        read(tmp_path / "packed.jsonl.gz")
    assert "gunzip" in refused.value.hint


def test_a_number_is_the_same_id_however_it_is_written(tmp_path: Path) -> None:
    conversation = of(tmp_path, [unit(2.0), unit(3)], [asked(evidence=[2, 3.0])])
    assert conversation.questions[0].evidence == conversation.units == {"2", "3"}


# ── remembering ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_conversation_is_remembered_in_a_store_of_its_own_that_goes_away(tmp_path: Path) -> None:
    settings = Settings.load({"home": str(tmp_path / "home")}, environ={})
    conversation = of(tmp_path, [unit(f"u{place}", "the same words") for place in range(300)], [])
    steps: list[int] = []
    with remembered(conversation, settings, embedder=HashEmbedder(), advance=steps.append) as keeper:
        assert keeper.count() == 300  # what is said twice is two units
        assert {memory.metadata["unit"] for memory in keeper} == conversation.units
    assert steps == [256, 44]
    assert not (tmp_path / "home").exists()


def test_a_model_that_is_configured_is_not_asked(tmp_path: Path) -> None:
    told = {"home": str(tmp_path / "home"), "extract_provider": "ollama"}
    with remembered(of(tmp_path, [unit()], []), Settings.load(told, environ={}), embedder=HashEmbedder()) as keeper:
        assert keeper.llm is None


def test_what_is_left_out_is_known_by_name() -> None:
    assert datasets.LEFT_OUT == ("adversarial", "abstention")
