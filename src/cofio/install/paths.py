"""Configuration folders of the clients on this machine, and detection of installed clients."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cofio.settings import Settings

#: Display names of the clients.
CALLED: Mapping[str, str] = {"claude-code": "Claude Code", "codex": "Codex", "openclaw": "OpenClaw", "cursor": "Cursor"}
CLIENTS = tuple(CALLED)


def home_of(client: str, settings: Settings) -> Path:
    """Return a client's configuration folder, existing or not."""
    program = client.removesuffix("-code")
    name, usual = f"{program}_home", f"~/.{program}"
    path = Path(getattr(settings, name) or usual).expanduser().absolute()
    return path / ".openclaw" if settings.origins.get(name) == "OPENCLAW_HOME" else path


def claude_state(settings: Settings) -> Path:
    """Return the file with Claude Code's MCP servers: beside its folder, or inside it if the folder is configured."""
    home = home_of("claude-code", settings)
    return home / ".claude.json" if settings.claude_home else home.with_name(".claude.json")


def openclaw_config(settings: Settings) -> Path:
    if settings.openclaw_config:
        return Path(settings.openclaw_config).expanduser().absolute()
    return home_of("openclaw", settings) / "openclaw.json"


def installed_clients(settings: Settings) -> list[str]:
    """Return the installed clients: those whose folder or program exists."""
    return [
        client for client in CLIENTS if home_of(client, settings).is_dir() or shutil.which(client.removesuffix("-code"))
    ]


def launcher(settings: Settings) -> Path:
    """Return the program that every hook starts."""
    return settings.home / "hook"


def can_serve() -> bool:
    """Return whether our MCP server can start: its dependency is an extra."""
    return find_spec("mcp") is not None


def server(settings: Settings) -> dict[str, Any]:
    """Return the configuration that starts our MCP server. -P: import no module from the project folder."""
    env = {"COFIO_HOME": str(settings.home)}
    return {"command": sys.executable, "args": ["-P", "-m", "cofio", "mcp"], "env": env}


def is_server(config: Any) -> bool:
    """Return whether this is the configuration of our MCP server."""
    return isinstance(config, Mapping) and list(config.get("args") or [])[-3:] == ["-m", "cofio", "mcp"]
