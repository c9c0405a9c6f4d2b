"""The variables in a shell's startup file, for those who ask for it: one marked block, nothing else."""

from __future__ import annotations

import os
import pwd
import re
import shlex
from collections.abc import Collection, Mapping
from pathlib import Path

from cofio.install.plan import Edit, Plan

_BEGIN, _END = "# >>> cofio >>>", "# <<< cofio <<<"
_BLOCK = re.compile(rf"(?:(?<=\n)\r?\n)?^{_BEGIN}\n.*?^{_END}\n?", re.MULTILINE | re.DOTALL)
_FILES = {"zsh": ".zshrc", "bash": ".bashrc", "fish": ".config/fish/config.fish"}


def startup_file() -> Path:
    """The file that the login shell of this user reads."""
    name = Path(pwd.getpwuid(os.getuid()).pw_shell).name
    return Path.home() / _FILES.get(name, ".profile")


def plan(variables: Mapping[str, str]) -> Plan:
    """A block with these variables in the startup file; nothing where none is set."""
    if not variables:
        return Plan(client="shell", notes=("There is nothing to put into your shell's startup file.",))
    path = startup_file()
    fish = path.name.endswith(".fish")
    lines = [f"set -gx {name} {shlex.quote(value)}" if fish else f"export {name}={shlex.quote(value)}"
             for name, value in variables.items()]  # fmt: skip
    block = "\n".join((_BEGIN, *lines, _END, ""))

    def put(text: str, _known: Collection[str]) -> str:
        if _BLOCK.search(text):
            return _BLOCK.sub(lambda found: ("\n" if found.group().startswith("\n") else "") + block, text, count=1)
        return text + ("" if not text or text.endswith("\n") else "\n") + ("\n" if text else "") + block

    return Plan(client="shell", edits=(Edit(path=path, kind="shell", put=put),))


def take(text: str, _before: str, _ours: Collection[str]) -> str:
    """The text without the block."""
    return _BLOCK.sub("", text)
