"""Builds the docs as a site of plain files from docs/, which needs no other host and no server.

python scripts/site.py [FOLDER]      # build/site unless given

The menu is the list of docs/index.md. A warning, such as a link that leads nowhere, stops it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SETTINGS = ROOT / "docs" / "site.toml"
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def main() -> int:
    """0 once the site stands in the folder; else 1, and what is wrong."""
    target = Path(sys.argv[1] if sys.argv[1:] else ROOT / "build" / "site").resolve()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        shutil.copytree(DOCS, folder / "docs", ignore=shutil.ignore_patterns(SETTINGS.name))
        for page in (folder / "docs").rglob("*.md"):
            page.write_text(within(page.read_text("utf-8"), page.relative_to(folder / "docs").parent), "utf-8")
        listed = menu((DOCS / "index.md").read_text("utf-8"))
        settings = SETTINGS.read_text("utf-8").replace("[project]\n", f"[project]\n{listed}", 1)
        (folder / "zensical.toml").write_text(settings, "utf-8")
        done = _built(folder)
        if done.returncode == 0:
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(folder / "site", target)
    sys.stdout.write(f"{target / 'index.html'}\n" if done.returncode == 0 else done.stdout + done.stderr)
    return min(done.returncode, 1)


def within(text: str, folder: Path) -> str:
    """The page without links to what lies outside the docs: that is named, for whoever has the source."""

    def kept(link: re.Match[str]) -> str:
        picture, words, target, _ = link.groups()
        outside = "://" not in target and not (DOCS / folder / target).resolve().is_relative_to(DOCS)
        return words if outside and not picture else link[0]

    return _LINK.sub(kept, text)


def menu(index: str) -> str:
    """The setting that puts the pages into the menu, section by section, as the index lists them."""
    lines = ['nav = [\n  { "cofio" = "index.md" },']
    for section in index.split("\n## ")[1:]:
        title, _, listed = section.partition("\n")
        links = re.findall(r"^- \[(.+?)\]\((.+?)\)", listed, re.MULTILINE)
        pages = ", ".join(f'{{ "{words}" = "{page}" }}' for words, page in links)
        lines.append(f'  {{ "{title.strip()}" = [{pages}] }},')
    return "\n".join([*lines, "]\n"])


def _built(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env={"NO_COLOR": "1"})


if __name__ == "__main__":
    sys.exit(main())
