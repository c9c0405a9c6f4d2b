"""Every pattern of the data file compiles, matches its own example, and is used."""

from __future__ import annotations

import re
from pathlib import Path

import cofio.text.secrets
from cofio.text.secrets.detection import find_tokens
from cofio.text.secrets.patterns import PATTERNS, TOKENS, read_rows

ROWS = read_rows()


def test_every_token_is_found_in_its_example() -> None:
    for row, token in zip(ROWS["token"], TOKENS, strict=True):
        example = "".join(row["example"])
        assert any(hint in example for hint in token.hints), row["kind"]
        assert row["kind"] in {kind for kind, _, _ in find_tokens(f"before {example} after")}, example


def test_every_pattern_matches_its_example() -> None:
    assert [name for name, row in ROWS["pattern"].items() if not PATTERNS[name].search("".join(row["example"]))] == []


def test_rows_have_no_other_fields() -> None:
    assert {field for row in ROWS["token"] for field in row} == {"kind", "hints", "pattern", "mixed", "example"}
    assert {field for row in ROWS["pattern"].values() for field in row} == {"pattern", "example"}


def test_every_named_pattern_is_used_and_every_used_name_exists() -> None:
    folder = Path(cofio.text.secrets.__file__).parent
    code = "".join(path.read_text() for path in folder.glob("*.py"))
    used = set(re.findall(r'PATTERNS\["(\w+)"\]', code))
    assert used <= set(PATTERNS)
    assert [name for name in PATTERNS if f'"{name}"' not in code] == []
