"""Splitting a Markdown page into sections with the page's metadata."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.markdown_notes import sections as reading
from cofio.markdown_notes.sections import PIECE, Section
from cofio.models.memory import MAX_TEXT, Fact

PAGE = """---
title: Runbook
tags: [ops, deploy]
aliases:
  - The book
created: 2025-03-04
status: open
source: wiki
---
Before anything else, read this page twice.

# Deploy

## Staging
Deploys to staging happen on every push to [[Main branch|main]] #ci.

## Production ##
Ask [[people/Ada]] or [[Ben#Phone]] before you deploy on a Friday.

# Empty

# Port
8080
"""


def parts(text: str, path: str = "notes/run book.md") -> list[Section]:
    return reading.split_sections(text, path)


def texts(text: str) -> list[str]:
    return [part.text for part in parts(text)]


def test_each_heading_is_a_section_with_its_path() -> None:
    assert [(part.heading, part.text) for part in parts(PAGE)] == [
        ("", "Before anything else, read this page twice."),
        ("Deploy > Staging", "Deploys to staging happen on every push to main #ci."),
        ("Deploy > Production", "Ask Ada or Ben > Phone before you deploy on a Friday.".replace("Ada", "people/Ada")),
        ("Port", "Port: 8080"),
    ]


def test_page_has_title_tags_aliases_and_date() -> None:
    first, staging, production, port = parts(PAGE)
    assert first.context == "Runbook"
    assert staging.context == "Runbook > Deploy > Staging"
    assert (first.tags, staging.tags) == (("ops", "deploy"), ("ops", "deploy", "ci"))
    assert staging.entities == ("The book", "Main branch")
    assert production.entities == ("The book", "Ada", "Ben")
    assert {part.created_at for part in parts(PAGE)} == {"2025-03-04T00:00:00.000000+00:00"}
    assert port.fields == {"status": "open", "note_source": "wiki"}
    assert port.to_metadata("a.md") == {
        "status": "open",
        "note_source": "wiki",
        "note": {"path": "a.md", "heading": "Port", "fields": ["note_source", "status"]},
    }


def test_title_defaults_to_the_file_name() -> None:
    (part,) = parts("One plain sentence of some words.")
    assert (part.context, part.heading, part.category, part.created_at) == ("run book", "", "learning", "")


def test_known_kind_and_category_are_used() -> None:
    (part,) = parts("---\nkind: policy\n---\nNever force-push to main.")
    assert (part.kind, part.category) == ("policy", "")
    (part,) = parts("---\nkind: nonsense\ncategory: decision\n---\nNever force-push to main.")
    assert (part.kind, part.category) == ("other", "decision")


def test_code_block_is_kept_and_its_hash_lines_are_not_headings() -> None:
    code = "```sh\n# not a heading\n\n[[not a link]] #notag <!-- not a comment -->\nmake\n```"
    (part,) = parts(f"# Build\nThis is how the thing is built:\n{code}\n")
    assert part.text == f"This is how the thing is built:\n{code}"
    assert (part.tags, part.entities, part.heading) == ((), (), "Build")


@pytest.mark.parametrize("fence", ["```", "~~~", "````", "   ```"])
def test_fence_is_closed_by_its_own_kind(fence: str) -> None:
    inner = "~~~" if "`" in fence else "```"
    (part,) = parts(f"# A\nwords before it, five of them\n{fence}\n{inner}\n# no\n{fence}\nafter")
    assert part.heading == "A"
    assert part.text.endswith("after")


def test_unclosed_fence_extends_to_the_end() -> None:
    (part,) = parts("# A\nwords before it, five of them\n```\n# no\n")
    assert part.heading == "A"


def test_inline_code_is_unchanged() -> None:
    (part,) = parts("Type `[[x]]` or ``#y ` z`` and press the return key.")
    assert part.text == "Type `[[x]]` or ``#y ` z`` and press the return key."
    assert (part.tags, part.entities) == ((), ())


def test_hash_words_are_tags() -> None:
    (part,) = parts("A #one and #two/three, #x-1 but not #12 nor a#b nor # c, nor https://x.y/#z at all.")
    assert part.tags == ("one", "two/three", "x-1")


def test_links_are_replaced_by_their_text() -> None:
    (part,) = parts(
        "See [[A]], [[B|bee]], [[C#d]], [[#here]], ![[img.png]] and ![[Embedded note]] for some more of it."
    )
    assert part.text == "See A, bee, C > d, here,  and Embedded note for some more of it."
    assert part.entities == ("A", "B", "C", "Embedded note")


def test_comments_are_removed() -> None:
    page = (
        "Some words <!-- hidden --> that are seen here.\n\n<!--\n\n# Not a heading\n\nhidden -->\n\n"
        "# Real\nmore words to be seen here"
    )
    assert texts(page) == ["Some words  that are seen here.", "more words to be seen here"]


def test_all_heading_styles_are_recognized() -> None:
    page = (
        "Top\n===\nwords of the top, five here\n\nSub\n---\nwords of the sub, five here\n\n"
        "###\nwords below nothing, five here\n####### no\n"
    )
    assert [(part.heading, part.text) for part in parts(page)] == [
        ("Top", "words of the top, five here"),
        ("Top > Sub", "words of the sub, five here"),
        ("Top > Sub", "words below nothing, five here\n####### no"),
    ]


def test_rule_after_a_multiline_paragraph_is_not_a_heading() -> None:
    assert [part.heading for part in parts("one line of some words\nand another line\n---\nmore words for a part")] == [
        ""
    ]


def test_equal_headings_are_distinguished_by_order() -> None:
    page = "# A\nfirst words under this heading\n# A\nsecond words under this heading\n"
    assert [part.heading for part in parts(page)] == ["A", "A"]


def test_long_section_is_split_between_paragraphs() -> None:
    paragraphs = [f"Paragraph {number} " + "says this and that. " * 20 for number in range(10)]
    results = parts("# Long\n" + "\n\n".join(paragraphs))
    assert len(results) > 1
    assert {part.heading for part in results} == {"Long"}
    assert all(len(part.text) <= PIECE for part in results)
    assert [word for part in results for word in part.text.split()] == " ".join(paragraphs).split()


def test_long_paragraph_is_split_between_sentences() -> None:
    results = texts("This sentence has some words in it. " * 200)
    assert all(len(text) <= PIECE and text.endswith(".") for text in results)


def test_long_line_is_split_anywhere() -> None:
    results = texts("x" * 10_000)
    assert "".join(results) == "x" * 10_000


def test_long_code_block_is_kept_up_to_the_memory_limit() -> None:
    code = "```\n" + "line of code\n" * 1_000 + "```"
    assert code in texts(f"# A\nsome words before this code\n\n{code}\n\nand some words after it")
    for text in texts("```\n" + "line of code\n" * 20_000):
        assert len(text) <= MAX_TEXT


def test_empty_sections_are_skipped() -> None:
    assert texts("# A\n\n---\n\n***\n\n# B\n\n> \n\n- \n") == []
    assert texts("") == texts("\n\n") == texts("---\ntags: [x]\n---\n") == []


def test_line_endings_are_equivalent() -> None:
    assert parts(PAGE) == parts(PAGE.replace("\n", "\r\n")) == parts("\ufeff" + PAGE)


# ── flushed summaries ─────────────────────────────────────────────────────────────────────────────────────────────────

SUMMARIES = [
    "AAPL volume spike.",
    "---\ntags: [x]\n---\nTags: y\n\n# Heading\nwords",
    "Tags: a, b\n\nmore",
    "[[Link]] and #tag\r\nand <!-- this -->",
    "x" * MAX_TEXT,
    "# Memory: 2026-01-01-01\n\nTags: z\n\ninner",
    "a\u2028b\x0bc\x85d",
]


@pytest.mark.parametrize("summary", SUMMARIES)
def test_flushed_summary_is_read_back_exactly(summary: str) -> None:
    page = reading.flushed_page(summary, ["one", "two words"], "2026-01-31-23")
    assert page.startswith("# Memory: 2026-01-31-23\n\nTags: one, two words\n\n")
    (part,) = parts(page)
    assert (part.text, part.tags, part.heading) == (summary, ("one", "two words"), "")
    assert part.created_at == "2026-01-31T23:00:00.000000+00:00"


@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), min_size=1))
def test_random_summary_is_read_back_exactly(summary: str) -> None:
    if summary.strip():
        (part,) = parts(reading.flushed_page(summary.strip(), [], "2026-01-31-23"))
        assert part.text == summary.strip()
        assert part.tags == ()


def test_similar_page_is_read_as_an_ordinary_page() -> None:
    assert [part.heading for part in parts("# Memory: of my youth\n\nTags: no, none of them here at all\n")] == [
        "Memory: of my youth"
    ]
    (part,) = parts("# Memory: 2026-99-99-99\n\nTags: a\n\nwords\n")
    assert (part.text, part.created_at) == ("words", "")


# ── random input ──────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.text("#-=`~[]|!<>%: \t\n\rab1_/*\\\u2028", max_size=400))
def test_sections_of_random_pages_are_valid_memories(text: str) -> None:
    for part in parts(text):
        fact = Fact(
            text=part.text,
            tags=part.tags,
            entities=part.entities,
            context=part.context,
            metadata=part.to_metadata("a.md"),
        )
        assert fact.text == part.text
        assert 0 < len(part.text) <= MAX_TEXT


@given(st.lists(st.sampled_from(["\n", "\n\n", "\n# A\n", "\n## B\n", "\n```\n", " ", "\n- ", "\n\n> "]), max_size=200))
def test_every_word_is_in_exactly_one_section(marks: list[str]) -> None:
    page = "".join(f"word{number} of some more{mark}" for number, mark in enumerate(marks))
    text = " ".join(part.text for part in parts(page))
    assert [word for word in text.split() if word.startswith("word")] == [
        f"word{number}" for number in range(len(marks))
    ]


@pytest.mark.parametrize(
    "page",
    ["`" * 200_000, "` `` " * 50_000, "[[" * 100_000, "#" * 200_000, "# " + " " * 200_000 + "#", "<!--" * 50_000,
     "a\n---\n" * 40_000, "---\n" + "a: " * 60_000, "x " * 100_000, "\n" * 200_000, "#a" * 100_000, " #a/" * 50_000,
     "---\n" + "k: [" + "'," * 90_000, "---\nk" + " " * 200_000 + "\n---\n", "```\n" * 50_000],
)  # fmt: skip
def test_pathological_page_is_parsed_quickly(page: str) -> None:
    start_time = time.process_time()
    parts(page)
    assert time.process_time() - start_time < 10
