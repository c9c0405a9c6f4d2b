"""Builder of the docs as a static site from docs/, which needs no other host and no server.

python scripts/site.py [FOLDER]      # default: build/site

The menu follows the list in docs/index.md. Any warning, such as a broken link, stops the build.
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
    """Build the site in the folder and return 0; on failure print the output and return 1."""
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
    """Return the page with links that lead outside the docs replaced by their text."""

    def kept(link: re.Match[str]) -> str:
        picture, words, target, _ = link.groups()
        outside = "://" not in target and not (DOCS / folder / target).resolve().is_relative_to(DOCS)
        return words if outside and not picture else link[0]

    return _LINK.sub(kept, text)


def menu(index: str) -> str:
    """Return the setting for the menu, section by section, as the index lists the pages."""
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
