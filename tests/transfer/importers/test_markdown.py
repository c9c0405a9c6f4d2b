"""Importing Markdown: bullets, paragraphs, headings, front matter, and folders."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from cofio.errors import InvalidInput
from cofio.markdown_notes.frontmatter import tags_of
from cofio.transfer.importers import READERS, sniff
from cofio.transfer.importers.markdown import chunks, split_front_matter
from tests.transfer.importers.stores import facts, skipped


def fact_texts(text: str) -> list[str]:
    return [chunk.statement for chunk in chunks(text)]


def page(folder: Path, text: str, name: str = "notes.md") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


# ── facts of a page ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_bullet_and_paragraph_is_a_fact_with_its_headings() -> None:
    results = list(
        chunks(
            "# Shop\n\nThe shop sells bicycles\nin three countries.\n\n## Stack\n"
            "- Orders are kept in Postgres 16\n  with logical replication.\n"
            "* Sessions are kept in Redis, not in cookies\n\n"
            "Deployment\n----------\n+ Nothing is deployed on a Friday\n"
        )
    )
    assert [(chunk.text, chunk.headings) for chunk in results] == [
        ("The shop sells bicycles in three countries.", ("Shop",)),
        ("Orders are kept in Postgres 16 with logical replication.", ("Shop", "Stack")),
        ("Sessions are kept in Redis, not in cookies", ("Shop", "Stack")),
        ("Nothing is deployed on a Friday", ("Shop", "Deployment")),
    ]
    assert [chunk.line for chunk in results] == [3, 7, 9, 13]


def test_short_text_gets_its_heading() -> None:
    assert fact_texts("## API\n- port 4100\n- The API answers in JSON only\n") == [
        "API: port 4100",
        "The API answers in JSON only",
    ]
    assert fact_texts("**Limits:**\n- Windows: 5 s\n") == ["Limits: Windows: 5 s"]


def test_line_ending_in_a_colon_introduces_bullets() -> None:
    results = list(
        chunks(
            "We use these databases in production:\n\n- Postgres for all of the orders\n- Redis\n\nThat is all of it.\n"
        )
    )
    assert [chunk.text for chunk in results] == ["Postgres for all of the orders", "Redis", "That is all of it."]
    assert [chunk.where for chunk in results] == [("We use these databases in production",), (), ()]
    assert results[1].statement == "We use these databases in production: Redis"


def test_nested_bullets_stay_with_their_parent() -> None:
    assert fact_texts(
        "- Payments go through Stripe in every country\n  - except in Norway\n"
        "- Databases:\n  - orders in Postgres 16 there\n  - cache\n"
    ) == [
        "Payments go through Stripe in every country\n- except in Norway",
        "orders in Postgres 16 there",
        "Databases: cache",
    ]


def test_numbered_steps_are_one_fact() -> None:
    assert fact_texts(
        "To release:\n1. Tag the commit\n2. Wait for the build\n\n   It takes a while.\n3. Announce it\n"
    ) == ["To release:\n1. Tag the commit\n2. Wait for the build It takes a while.\n3. Announce it"]


def test_code_stays_with_its_text_and_long_listings_are_skipped() -> None:
    assert fact_texts("The tests are run by make:\n\n```sh\nmake test\n# all of it\n```\n") == [
        "The tests are run by make:\n```sh\nmake test\n# all of it\n```"
    ]
    assert fact_texts("The tests run in two minutes.\n~~~\nmake test\n~~~\nAnd this is another paragraph.") == [
        "The tests run in two minutes.\n~~~\nmake test\n~~~",
        "And this is another paragraph.",
    ]
    assert fact_texts("## Build\n```\nmake all\n```\n") == ["Build:\n```\nmake all\n```"]
    listing = "\n".join(["x = 1  # a line of the listing"] * 200)
    assert fact_texts(f"This is how it is done.\n```\n{listing}\n```\nThen it is finished for today.\n") == [
        "This is how it is done.",
        "Then it is finished for today.",
    ]


def test_reason_stays_with_its_rule() -> None:
    rule, why, how = "Never mock the database.", "**Why:** a mock hid a broken migration.", "**How to apply:** use one."
    assert fact_texts(f"{rule}\n\n{why}\n\n{how}\n") == [f"{rule}\n{why}\n{how}"]


def test_empty_text_is_not_a_fact() -> None:
    marks = "# Only a title\n\n---\n\n<!-- a comment\nof two lines -->\n\n***\n- …\n"
    links = "![a picture](a.png)\n\n- [Changelog](CHANGELOG.md)\n- [[Index]]\n\n[a]: b.md\n"
    assert fact_texts(marks + links) == []
    assert fact_texts("- [The manual of Stripe](https://stripe.example/docs) has it\n") != []


def test_table_is_one_fact_with_the_line_above() -> None:
    assert fact_texts("Ports in use:\n\n| what | port |\n|---|---|\n| API | 4100 |\n| web | 4200 |\n") == [
        "Ports in use:\n| what | port |\n|---|---|\n| API | 4100 |\n| web | 4200 |"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "# " + " " * 200_000 + "x",
        "- " * 100_000,
        "```\n" * 50_001,
        "> " * 100_000,
        "<!--" * 50_000,
        "**" * 100_000,
        "[" * 200_000,
        "[](" * 50_000,
        "- a:\n" + "  - b\n" * 40_000,
        "\n".join(" " * (n % 200) + "- x" for n in range(20_000)),
        "a\n\n" + "**Why:** b\n\n" * 30_000,
        "a\n\n" + "- b\n\n**Why:** c\n\n" * 20_000,
        "a paragraph\n\n" + "```\ncode\n```\n" * 20_000,
    ],
    ids=range(13),
)
def test_pathological_page_is_parsed_quickly(text: str) -> None:
    start_time = time.process_time()
    list(chunks(split_front_matter(text)[1]))
    assert time.process_time() - start_time < 20


# ── front matter ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_front_matter_fields_are_used() -> None:
    matter, body, line = split_front_matter(
        "\ufeff---\r\ntitle: \"On: deploys\"\r\ntags: [ops, '#deploy']\r\naliases:\r\n  - releases\r\n  - shipping\r\n"
        "metadata:\r\n  type: feedback\r\n# a comment\r\nurl: https://example.org/a:b\r\n---\r\nThe body.\r\n"
    )
    assert matter == {
        "title": "On: deploys",
        "tags": ["ops", "#deploy"],
        "aliases": ["releases", "shipping"],
        "type": "feedback",
        "url": "https://example.org/a:b",
    }
    assert tags_of(matter) == ["ops", "deploy"]
    assert (body, line) == ("The body.\n", 12)
    assert tags_of({"tags": "ops, deploy #later"}) == ["ops", "deploy", "later"]


@pytest.mark.parametrize("text", ["---\nkey: [never\nended", "---\n", "--- \n\n- - -", "----\na: b\n----\n"])
def test_incomplete_front_matter_is_part_of_the_page(text: str) -> None:
    matter, body, line = split_front_matter(text)
    assert (matter, body, line) == ({}, text, 1)


def test_invalid_yaml_is_ignored() -> None:
    matter, body, _ = split_front_matter(
        "---\n{{{ not: [yaml\n!!python/object:os.system x\n- dangling\n\t\x01\n---\nThe body.\n"
    )
    assert body == "The body.\n"
    assert all(isinstance(value, str | list) for value in matter.values())


# ── folders ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_folder_becomes_facts_with_tags_and_sources(tmp_path: Path) -> None:
    page(
        tmp_path,
        "---\ntags: [ops]\ndate: 2025-03-04\nowner: Ada\n---\n# Deploys\n- Nothing is deployed on a Friday\n",
        "ops/deploy.md",
    )
    page(tmp_path, "The office closes at six in the evening.\n", "office.MD")
    assert sniff(tmp_path) == "markdown"
    office, friday = facts("markdown", tmp_path)
    assert (office.text, office.context) == ("The office closes at six in the evening.", "office")
    assert (friday.text, friday.context, friday.tags) == ("Nothing is deployed on a Friday", "Deploys", ("ops",))
    assert friday.created_at == "2025-03-04T00:00:00.000000+00:00"
    assert (friday.metadata["file"], friday.metadata["line"], friday.metadata["owner"]) == ("ops/deploy.md", 7, "Ada")
    assert (friday.source, friday.method) == (f"markdown/{tmp_path.name}", "import")
    assert READERS["markdown"].count(tmp_path) == 2


def test_edit_changes_the_origin_of_the_edited_fact_only(tmp_path: Path) -> None:
    path = page(tmp_path, "# A\n- The API listens on port 4100\n- The web listens on port 4200\n")
    before = {fact.text: fact.origin for fact in facts("markdown", tmp_path)}
    page(
        tmp_path,
        "# Renamed\n\nSomething new stands before it.\n\n- The API listens on\n  port 4100\n"
        "- The web listens on port 4300\n",
    )
    after = {fact.text: fact.origin for fact in facts("markdown", tmp_path)}
    assert after["The API listens on port 4100"] == before["The API listens on port 4100"]
    assert len(set(after.values()) - set(before.values())) == 2
    assert {fact.origin for fact in facts("markdown", path)} == set(
        after.values()
    )  # a single file yields the same origins


def test_repeated_text_gets_distinct_origins(tmp_path: Path) -> None:
    page(tmp_path, "# One\n- It is switched off by default\n# Two\n- It is switched off by default\n")
    assert len({fact.origin for fact in facts("markdown", tmp_path)}) == 2


def test_hidden_folders_packages_and_links_are_skipped(tmp_path: Path) -> None:
    outside = page(tmp_path, "This is outside of the folder entirely.\n", "outside/secret.md")
    folder = tmp_path / "notes"
    page(folder, "This is inside of the folder itself.\n", "inside.md")
    for name in (".obsidian/a.md", "node_modules/b/README.md", ".hidden.md", "c.txt"):
        page(folder, "This must never become a memory.\n", name)
    (folder / "link.md").symlink_to(outside)
    (folder / "linked").symlink_to(outside.parent, target_is_directory=True)
    (folder / "loop").symlink_to(folder, target_is_directory=True)
    results = list(READERS["markdown"].read(folder))
    assert [memory.text for memory in results if hasattr(memory, "text")] == ["This is inside of the folder itself."]
    assert [Path(item.where).name for item in skipped("markdown", folder)] == ["link.md"]


def test_unreadable_files_are_reported_and_others_read(tmp_path: Path) -> None:
    (tmp_path / "big.md").write_bytes(b"too much of it " * 400_000)
    (tmp_path / "binary.md").write_bytes(b"\x7fELF\x00\x01\x02")
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "latin.md").write_bytes("The café opens at nine o'clock.".encode("latin-1"))
    (tmp_path / "wide.md").write_bytes("The bar opens at nine o'clock.\r\n".encode("utf-16"))
    results = [item for item in READERS["markdown"].read(tmp_path) if hasattr(item, "text")]
    assert [fact.text for fact in results] == ["The caf� opens at nine o'clock.", "The bar opens at nine o'clock."]
    assert [Path(item.where).name for item in skipped("markdown", tmp_path)] == ["big.md", "binary.md", "pipe.md"]


def test_folder_without_markdown_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="contains no Markdown"):
        list(READERS["markdown"].read(tmp_path))
    with pytest.raises(InvalidInput, match="does not exist"):
        list(READERS["markdown"].read(tmp_path / "missing"))
