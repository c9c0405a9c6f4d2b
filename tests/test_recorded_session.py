"""Compare the recorded session of the README with what the commands print today."""

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
def new_recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record the session again and return the path of the picture."""
    target = tmp_path_factory.mktemp("recording") / "session.svg"
    subprocess.run([sys.executable, ROOT / "scripts" / "record.py", target], check=True, timeout=240)
    return target


def visible_text(picture: Path) -> list[str]:
    """Return the text of the picture without times and probabilities, which differ between runs."""
    text = [part.text or "" for part in Xml.parse(picture).iter("{http://www.w3.org/2000/svg}text")]
    text = [re.sub(r"just now|\d+ \w+ ago|a moment ago", "WHEN", part) for part in text]
    return [
        re.sub(r"\(0\.\d\d\)", "(PROBABILITY)", part) for part in text
    ]  # probabilities differ by 0.01 between processors


def test_recording_matches_command_output(new_recording: Path) -> None:
    assert visible_text(PICTURE) == visible_text(new_recording), "make pictures records it anew"


def test_recording_contains_no_scripts_or_links() -> None:
    text = PICTURE.read_text("utf-8")
    assert not re.search(r"<script|\son\w+=|href=|url\(|@import", text)
    assert "prefers-reduced-motion" in text
