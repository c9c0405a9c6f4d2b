"""The recorded session of the README: what it shows is what the commands print today."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "pictures" / "session.svg"


@pytest.fixture(scope="module")
def anew(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The picture, recorded anew."""
    target = tmp_path_factory.mktemp("recording") / "session.svg"
    subprocess.run([sys.executable, ROOT / "scripts" / "record.py", target], check=True, timeout=240)
    return target


def words(picture: Path) -> list[str]:
    """What is read off it, without what no two runs have in common."""
    text = [each.text or "" for each in Xml.parse(picture).iter("{http://www.w3.org/2000/svg}text")]
    text = [re.sub(r"just now|\d+ \w+ ago|a moment ago", "WHEN", each) for each in text]
    return [re.sub(r"\(0\.\d\d\)", "(PROBABILITY)", each) for each in text]  # processors differ by a hundredth


def test_it_shows_what_the_commands_print(anew: Path) -> None:
    assert words(PICTURE) == words(anew), "make pictures records it anew"


def test_it_is_a_picture_and_no_more() -> None:
    text = PICTURE.read_text("utf-8")
    assert not re.search(r"<script|\son\w+=|href=|url\(|@import", text)
    assert "prefers-reduced-motion" in text
