"""Every pattern of the data files compiles, matches its own example, rejects its near miss, and is used."""

from __future__ import annotations

import re
import string
from pathlib import Path
from random import Random

import pytest

import cofio.text.secrets
from cofio.text.secrets import redact
from cofio.text.secrets.detection import find_tokens
from cofio.text.secrets.patterns import PATTERNS, ROWS, TOKENS, TokenPattern

ALPHABETS = {
    "a": string.ascii_letters + string.digits,
    "l": string.ascii_lowercase + string.digits,
    "U": string.ascii_uppercase + string.digits,
    "x": "0123456789abcdef",
    "u": string.ascii_letters + string.digits + "_-",
    "b": string.ascii_letters + string.digits + "+/",
    "d": string.digits,
    "B": string.ascii_uppercase + "234567",
    "k": "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
    "h": "023456789acdefghjklmnpqrstuvwxyz",
}


def expand(note: str, seed: str = "") -> str:
    """Return an example with its random characters. Every alphabet's part has a letter and a digit, if it is long."""
    random = Random(note + seed)
    note = note.replace("<i>", "<x8>-<x4>-<x4>-<x4>-<x12>")

    def fill(part: re.Match[str]) -> str:
        kind, length = part[1], int(part[2])
        known = "7aQ"[: max(0, length - 4)] if length > 10 and kind in "aub" else ""
        return known + "".join(random.choice(ALPHABETS[kind]) for _ in range(length - len(known)))

    return re.sub(r"<(\w)(\d+)>", fill, note)


@pytest.mark.parametrize("row", TOKENS, ids=lambda row: f"{row.kind} {row.example[:24]}")
def test_token_is_found_in_its_example_and_not_in_its_near_miss(row: TokenPattern) -> None:
    for seed in "abc":
        example, near_miss = expand(row.example, seed), expand(row.near_miss, seed)
        assert any(hint in example for hint in row.hints)
        spans = [span for span in find_tokens(f"before {example} after") if span[0] == row.kind]
        assert spans, example
        if row.near_miss:
            assert not row.pattern.search(f"before {near_miss} after"), near_miss


def test_table_covers_hundreds_of_shapes_without_duplicates() -> None:
    assert len(TOKENS) >= 250
    assert len({row.pattern.pattern for row in TOKENS}) == len(TOKENS)


def test_every_example_is_redacted_in_prose_and_in_a_setting() -> None:
    contexts = ("use {} here", "VALUE={}\n", 'value: "{}",')
    assert [row.kind for row in TOKENS for text in contexts if not has_mark(text, row)] == []


def has_mark(text: str, row: TokenPattern) -> bool:
    return "[redacted:" in redact(text.format(expand(row.example)))


def test_every_pattern_matches_its_example() -> None:
    assert [name for name, row in ROWS.items() if not PATTERNS[name].search("".join(row["example"]))] == []


def test_rows_have_no_other_fields() -> None:
    assert {field for row in ROWS.values() for field in row} == {"pattern", "example"}


def test_every_named_pattern_is_used_and_every_used_name_exists() -> None:
    folder = Path(cofio.text.secrets.__file__).parent
    code = "".join(path.read_text() for path in folder.glob("*.py"))
    used = set(re.findall(r'PATTERNS\["(\w+)"\]', code))
    assert used <= set(PATTERNS)
    assert [name for name in PATTERNS if f'"{name}"' not in code] == []
