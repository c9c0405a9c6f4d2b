"""Recording of a short terminal session: real commands in a real terminal, as an animated picture.

python scripts/record.py [FILE]      # default: docs/pictures/session.svg

The picture is SVG with some CSS, so it plays wherever pictures are shown; with reduced motion it is shown complete.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

from rich.color import ColorTriplet
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
WIDTH = 100  # columns
SESSION = (
    "cofio ingest examples/conversation.txt --source shop",
    'cofio search "may we ship on a friday?" -k 2',
    "cofio history 6",
    "cofio undo 3 --yes",
)
_CELL, _LINE, _EDGE = 8.43, 20, 18  # pixels: of a character, of a line, around all
_TYPED, _PAUSE, _READ = 0.035, 0.6, 2.2  # seconds: per character, before the output, to read it
_BACKGROUND, _TEXT, _PROMPT = "#131615", "#e7ebe8", "#5ccaa6"
_FONT = "ui-monospace, 'SF Mono', 'Cascadia Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_PLAIN = Style()


class ScreenLine(NamedTuple):
    """Line of the picture, with its time; a typed one appears gradually."""

    line: Text
    at: float
    typed: bool = False


def main() -> int:
    target = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "docs" / "pictures" / "session.svg"
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        target.write_text(render_svg(list(run_session(home))), "utf-8")
    return 0


def run_session(home: str) -> Iterator[ScreenLine]:
    """Run the commands one after the other, in a temporary home, and yield the lines that they print."""
    seconds = 0.5
    for command in SESSION:
        prompt = Text("$ ", style=Style(color=_PROMPT, bold=True)) + Text(command, style=Style(bold=True))
        yield ScreenLine(prompt, seconds, typed=True)
        seconds += _TYPED * len(command) + _PAUSE
        for line in Text.from_ansi(_strip_control_codes(_run_command(command, home))).split():
            yield ScreenLine(line, seconds)
        yield ScreenLine(Text(""), seconds)
        seconds += _READ


def _run_command(command: str, home: str) -> str:
    """Return the output of the command in a terminal of this width."""
    terminal, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, WIDTH, 0, 0))
    environment = {"PATH": os.environ["PATH"], "HOME": home, "COFIO_HOME": f"{home}/cofio", "TERM": "xterm-256color"}
    words = [sys.executable, "-m", *shlex.split(command)]
    process = subprocess.Popen(words, cwd=ROOT, env=environment, stdin=child, stdout=child, stderr=child)
    os.close(child)
    text = b"".join(iter(lambda: _read(terminal), b"")).decode()
    os.close(terminal)
    if process.wait():
        raise SystemExit(f"{command} failed:\n{text}")
    return text


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # the writer has exited
        return b""


def _strip_control_codes(text: str) -> str:
    """Return the final text, without overwritten parts and cursor movements."""
    lines = re.sub(r"\x1b\[(?:\?\d+[hl]|\d*[A-HJK])", "", text.replace("\r\n", "\n")).split("\n")
    return "\n".join(line.rpartition("\r")[2] for line in lines if "Learning  [" not in line).rstrip()


# ── the picture ───────────────────────────────────────────────────────────────────────────────────────────────────────


def render_svg(lines_shown: list[ScreenLine]) -> str:
    """Return all lines as SVG."""
    while lines_shown and not lines_shown[-1].line:
        lines_shown.pop()
    width, height = round(WIDTH * _CELL + 2 * _EDGE), len(lines_shown) * _LINE + 2 * _EDGE + 22
    lines = "\n".join(_render_line(place, screen_line) for place, screen_line in enumerate(lines_shown))
    buttons = "".join(f'<circle cx="{_EDGE + 6 + 18 * n}" cy="20" r="5" fill="#3a423e"/>' for n in range(3))
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return f"""<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">
<title>A terminal: cofio learns from a conversation, finds it again, shows its history and takes it back</title>
<style>
text {{ font-family: {_FONT}; font-size: 14px; white-space: pre; }}
.line {{ animation: come .01s linear both; }}
.typed {{ animation: type linear both; }}
@keyframes come {{ from {{ opacity: 0; }} }}
@keyframes type {{ from {{ clip-path: inset(0 100% 0 0); }} to {{ clip-path: inset(0 0 0 0); }} }}
@media (prefers-reduced-motion: reduce) {{ .line, .typed {{ animation: none; }} }}
</style>
<rect width="{width}" height="{height}" rx="10" fill="{_BACKGROUND}"/>
{buttons}
<g fill="{_TEXT}">
{lines}
</g>
</svg>
"""


def _render_line(place: int, screen_line: ScreenLine) -> str:
    top = _EDGE + 22 + place * _LINE + 14
    duration = f"animation-duration:{_TYPED * len(screen_line.line):.2f}s;" if screen_line.typed else ""
    css_class = "typed" if screen_line.typed else "line"
    if not screen_line.line.plain.strip():
        return ""
    segments = "".join(_render_segments(screen_line.line, top))
    return f'<g class="{css_class}" style="{duration}animation-delay:{screen_line.at:.2f}s">{segments}</g>'


def _render_segments(line: Text, top: int) -> Iterator[str]:
    """Yield the words of one style each at their column, since fonts differ in width."""
    column = 0
    for segment in line.render(Console(width=10_000, color_system="truecolor")):
        text = segment.text.rstrip("\n")
        if text.strip():
            lead = len(text) - len(text.lstrip())
            words = text.strip()
            x, length = _EDGE + (column + lead) * _CELL, len(words) * _CELL
            attributes = f'x="{x:.1f}" y="{top}" textLength="{length:.1f}" lengthAdjust="spacingAndGlyphs"'
            yield f"<text {attributes}{_style_attributes(segment.style or _PLAIN)}>{escape(words)}</text>"
        column += len(text)


def _style_attributes(style: Style) -> str:
    colour = style.color.get_truecolor(MONOKAI) if style.color else None
    fill = f' fill="{_hex(colour)}"' if colour else ""
    bold = ' font-weight="700"' if style.bold else ""
    return fill + bold + (' opacity=".6"' if style.dim else "")


def _hex(colour: ColorTriplet) -> str:
    return colour.hex


if __name__ == "__main__":
    sys.exit(main())
