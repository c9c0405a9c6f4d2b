"""Where the clients of this machine keep their settings, and which of them there are."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cofio.settings import Settings

CLIENTS = ("claude-code", "codex", "openclaw", "cursor")
#: The clients as people call them.
CALLED: Mapping[str, str] = {
    "claude-code": "Claude Code",
    "codex": "Codex",
    "openclaw": "OpenClaw",
    "cursor": "Cursor",
}
_PROGRAMS = {"claude-code": "claude", "codex": "codex", "openclaw": "openclaw", "cursor": "cursor"}


def home_of(client: str, settings: Settings) -> Path:
    """The folder of a client's settings, be it there or not."""
    name = {"claude-code": "claude_home"}.get(client, f"{client}_home")
    usual = {"claude-code": "~/.claude"}.get(client, f"~/.{client}")
    path = _absolute(getattr(settings, name) or usual)
    return path / ".openclaw" if settings.origins.get(name) == "OPENCLAW_HOME" else path


def claude_state(settings: Settings) -> Path:
    """The file in which Claude Code keeps its MCP servers: beside its folder, or in it where a variable names one."""
    home = home_of("claude-code", settings)
    return home / ".claude.json" if settings.claude_home else home.with_name(".claude.json")


def openclaw_config(settings: Settings) -> Path:
    if settings.openclaw_config:
        return _absolute(settings.openclaw_config)
    return home_of("openclaw", settings) / "openclaw.json"


def found(settings: Settings) -> list[str]:
    """The clients of this machine: their folder is there, or their program is."""
    return [each for each in CLIENTS if home_of(each, settings).is_dir() or shutil.which(_PROGRAMS[each])]


def launcher(settings: Settings) -> Path:
    """The program that every hook starts."""
    return settings.home / "hook"


def can_serve() -> bool:
    """Whether our MCP server would start: what it needs beyond us is an extra."""
    return find_spec("mcp") is not None


def server(settings: Settings) -> dict[str, Any]:
    """How a client starts our MCP server. -P: no module comes from the project at hand."""
    around = {"COFIO_HOME": str(settings.home)}
    return {"command": sys.executable, "args": ["-P", "-m", "cofio", "mcp"], "env": around}


def is_server(told: Any) -> bool:
    """Whether these settings of an MCP server start ours."""
    return isinstance(told, Mapping) and list(told.get("args") or [])[-3:] == ["-m", "cofio", "mcp"]


def _absolute(path: str) -> Path:
    return Path(path).expanduser().absolute()
