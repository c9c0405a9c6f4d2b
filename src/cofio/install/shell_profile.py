"""Optional variables in the shell's startup file: one marked block."""

from __future__ import annotations

import os
import pwd
import re
import shlex
from collections.abc import Collection, Mapping
from pathlib import Path

from cofio.install.plan import FileEdit, InstallPlan

_BEGIN, _END = "# >>> cofio >>>", "# <<< cofio <<<"
_BLOCK = re.compile(rf"(?:(?<=\n)\r?\n)?^{_BEGIN}\n.*?^{_END}\n?", re.MULTILINE | re.DOTALL)
_FILES = {"zsh": ".zshrc", "bash": ".bashrc", "fish": ".config/fish/config.fish"}


def startup_file() -> Path:
    """Return the startup file of the user's login shell."""
    name = Path(pwd.getpwuid(os.getuid()).pw_shell).name
    return Path.home() / _FILES.get(name, ".profile")


def plan(variables: Mapping[str, str]) -> InstallPlan:
    """Return the plan for a block with these variables in the startup file; empty without variables."""
    if not variables:
        return InstallPlan(client="shell", notes=("No variables need to be set in your shell's startup file.",))
    path = startup_file()
    fish = path.name.endswith(".fish")
    lines = [f"set -gx {name} {shlex.quote(value)}" if fish else f"export {name}={shlex.quote(value)}"
             for name, value in variables.items()]  # fmt: skip
    block = "\n".join((_BEGIN, *lines, _END, ""))

    def put(text: str, _known: Collection[str]) -> str:
        if _BLOCK.search(text):
            return _BLOCK.sub(lambda match: ("\n" if match.group().startswith("\n") else "") + block, text, count=1)
        return text + ("" if not text or text.endswith("\n") else "\n") + ("\n" if text else "") + block

    return InstallPlan(client="shell", edits=(FileEdit(path=path, kind="shell", put=put),))


def take(text: str, _before: str, _ours: Collection[str]) -> str:
    """Return the text without the block."""
    return _BLOCK.sub("", text)
