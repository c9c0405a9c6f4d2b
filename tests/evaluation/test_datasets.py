"""Reading conversations: any common format is accepted; invalid lines are rejected with their number and a hint."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from cofio.errors import InvalidInput, NotFound
from cofio.models.memory import MAX_LABEL, MAX_TEXT
from cofio.settings import Settings
from cofio.testing import HashEmbedder
from cofio_eval import datasets
from cofio_eval.datasets import Conversation, read, remembered, when


def make_unit(name: Any = "u1", text: Any = "The ferry leaves at six", **fields: Any) -> dict[str, Any]:
    return {"id": name, "text": text, **fields}


def make_question(text: Any = "When does the ferry leave?", **fields: Any) -> dict[str, Any]:
    return {"text": text, **fields}


def read_lines(tmp_path: Path, *lines: Any, **options: Any) -> list[Conversation]:
    path = tmp_path / "conversations.jsonl"
    content = "\n".join(line if isinstance(line, str) else json.dumps(line, **options) for line in lines)
    path.write_text(content, encoding="utf-8", newline="")
    return read(path)


def read_conversation(tmp_path: Path, units: list[Any], questions: list[Any]) -> Conversation:
    return read_lines(tmp_path, {"id": "c", "units": units, "questions": questions})[0]


# ── Accepted data ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_unit_becomes_a_fact_with_speaker_date_and_context(tmp_path: Path) -> None:
    units = [
        make_unit(
            f"u{number}",
            f"said {number}",
            speaker="Ada",
            date="1:56 pm on 8 May, 2023" if number < 3 else "9 May, 2023",
        )
        for number in range(5)
    ]
    facts = read_conversation(tmp_path, units, []).facts
    assert (facts[2].text, facts[2].speaker, facts[2].metadata) == ("said 2", "Ada", {"unit": "u2"})
    assert facts[2].created_at == "2023-05-08T13:56:00.000000+00:00"
    assert [fact.context for fact in facts] == ["", "said 0", "said 0\nsaid 1", "", "said 3"]


def test_optional_fields_may_be_missing(tmp_path: Path) -> None:
    conversation = read_conversation(
        tmp_path,
        [make_unit(), make_unit("u2", speaker=None, date=None)],
        [make_question(), make_question(evidence=None, category=None)],
    )
    assert [(fact.speaker, fact.created_at) for fact in conversation.facts] == [("", ""), ("", "")]
    assert [(question.id, question.category, question.evidence) for question in conversation.questions] == [
        ("0", "none", frozenset()),
        ("1", "none", frozenset()),
    ]
    assert not any(question.has_answer for question in conversation.questions)


def test_ids_may_be_numbers_and_evidence_a_single_id(tmp_path: Path) -> None:
    questions = [
        make_question(id=7, category=4, evidence=[1]),
        make_question(category=["a"], evidence=1),
        make_question(category=" Adversarial ", evidence="1"),
    ]
    conversation = read_conversation(tmp_path, [make_unit(1)], questions)
    assert [(question.id, question.category) for question in conversation.questions] == [
        ("7", "4"),
        ("1", "['a']"),
        ("2", "Adversarial"),
    ]
    assert [question.evidence for question in conversation.questions] == [{"1"}, {"1"}, {"1"}]
    assert [question.has_answer for question in conversation.questions] == [True, True, False]
    assert conversation.units == {"1"}


def test_questions_without_text_are_counted_and_skipped(tmp_path: Path) -> None:
    conversation = read_conversation(
        tmp_path, [make_unit()], [make_question(" "), make_question(None), make_question("\x00"), make_question()]
    )
    assert ([question.text for question in conversation.questions], conversation.without_words) == (
        ["When does the ferry leave?"],
        3,
    )


def test_units_without_text_are_kept(tmp_path: Path) -> None:
    assert [
        fact.text for fact in read_conversation(tmp_path, [make_unit("a", ""), make_unit("b", None)], []).facts
    ] == ["…", "…"]


def test_overlong_and_invalid_text_is_shortened_and_cleaned(tmp_path: Path) -> None:
    long_unit = make_unit("u" * 50, "x" * (MAX_TEXT + 10), speaker="s" * (MAX_LABEL + 10))
    invalid_text_line = (
        '{"questions": [], "units": [{"id": "\\u0000u", "text": "half \\ud83d of\\u0000 one", "speaker": "\\ud83d"}]}'
    )
    first, second = read_lines(
        tmp_path, {"units": [long_unit], "questions": [make_question("y" * (MAX_TEXT + 10))]}, invalid_text_line
    )
    assert (len(first.facts[0].text), len(first.facts[0].speaker)) == (MAX_TEXT, MAX_LABEL)
    assert len(first.questions[0].text) == MAX_TEXT
    assert (second.facts[0].text, second.facts[0].speaker, second.units) == ("half ? of one", "?", {"u"})


def test_only_line_feeds_separate_lines(tmp_path: Path) -> None:
    text = "one\u2028two\x85three\x0cfour"
    conversations = read_lines(tmp_path, {"units": [make_unit("a", text)], "questions": []}, "", ensure_ascii=False)
    assert conversations[0].facts[0].text == text
    crlf = '\ufeff{"units": [], "questions": []}\r\n\r\n{"units": [], "questions": []}\r\n'
    assert [conversation.id for conversation in read_lines(tmp_path, crlf)] == ["1", "3"]


def test_duplicate_ids_are_made_unique(tmp_path: Path) -> None:
    duplicate = {
        "id": "c",
        "units": [make_unit()],
        "questions": [make_question(id="q"), make_question(id="q"), make_question(id="q (2)")],
    }
    conversations = read_lines(tmp_path, duplicate, duplicate)
    assert [conversation.id for conversation in conversations] == ["c", "c (2)"]
    assert [question.id for question in conversations[0].questions] == ["q", "q (2)", "q (2) (2)"]


@pytest.mark.parametrize(
    ("value", "expected"),
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
def test_date_formats_are_parsed(value: Any, expected: str) -> None:
    assert when(value)[:16] == expected


# ── Rejected data ─────────────────────────────────────────────────────────────────────────────────────────────────────

GOOD = '{"units": [], "questions": []}'


@pytest.mark.parametrize(
    ("line", "message"),
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
def test_invalid_line_is_rejected_with_its_number_and_a_hint(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_lines(tmp_path, GOOD, line)
    start = f"Line 2 of {tmp_path / 'conversations.jsonl'} is not a conversation:"
    assert message.format(path=tmp_path / "conversations.jsonl").replace("…", start) in caught.value.message
    assert '"units"' in caught.value.hint


def test_missing_empty_or_binary_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="No such file"):
        read(tmp_path / "none.jsonl")
    with pytest.raises(NotFound, match="directory"):
        read(tmp_path)
    with pytest.raises(InvalidInput, match="is empty"):
        read_lines(tmp_path, "", "  ")
    (tmp_path / "latin.jsonl").write_bytes(GOOD.encode() + b"\n\xe9")
    with pytest.raises(InvalidInput, match=r"Line 2 of .* is not UTF-8"):
        read(tmp_path / "latin.jsonl")
    (tmp_path / "packed.jsonl.gz").write_bytes(gzip.compress(GOOD.encode()))
    with pytest.raises(InvalidInput, match="is compressed") as caught:
        read(tmp_path / "packed.jsonl.gz")
    assert "gunzip" in caught.value.hint


def test_number_is_the_same_id_as_integer_and_float(tmp_path: Path) -> None:
    conversation = read_conversation(tmp_path, [make_unit(2.0), make_unit(3)], [make_question(evidence=[2, 3.0])])
    assert conversation.questions[0].evidence == conversation.units == {"2", "3"}


# ── Loading into a store ──────────────────────────────────────────────────────────────────────────────────────────────


def test_conversation_is_loaded_into_a_temporary_store(tmp_path: Path) -> None:
    settings = Settings.load({"home": str(tmp_path / "home")}, environ={})
    conversation = read_conversation(tmp_path, [make_unit(f"u{number}", "the same words") for number in range(300)], [])
    steps: list[int] = []
    with remembered(conversation, settings, embedder=HashEmbedder(), advance=steps.append) as keeper:
        assert keeper.count() == 300  # duplicates are separate units
        assert {memory.metadata["unit"] for memory in keeper} == conversation.units
    assert steps == [256, 44]
    assert not (tmp_path / "home").exists()


def test_configured_llm_is_not_used(tmp_path: Path) -> None:
    values = {"home": str(tmp_path / "home"), "extract_provider": "ollama"}
    with remembered(
        read_conversation(tmp_path, [make_unit()], []), Settings.load(values, environ={}), embedder=HashEmbedder()
    ) as keeper:
        assert keeper.llm is None


def test_left_out_categories() -> None:
    assert datasets.LEFT_OUT == ("adversarial", "abstention")
