"""Caller of an MCP tool, and the memories that it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from cofio.errors import InvalidInput
from cofio.hooks import project as projects
from cofio.models.memory import MAX_LABEL, ScopeKwargs, check_text

if TYPE_CHECKING:
    from cofio.client import Client
    from cofio.core import Keeper

    MemoriesLike: TypeAlias = Keeper | Client
else:  # imported only if they are used
    MemoriesLike = Any

BY = "mcp"  # actor name in the journal
EVERYWHERE = "*"  # project value that selects all projects
#: Clients' own names that differ from the names in the hooks.
KNOWN_AS = {"codex-mcp-client": "codex"}


@dataclass(frozen=True, slots=True)
class Caller:
    """Caller, with its current project."""

    project: str | None = ""  # default of calls; None if unknown
    client: str = BY
    named: Callable[[str], str] = str  # maps a name to a project; a folder path is one, too
    by: str = BY
    within: Callable[[str], str] = (
        str  # maps a source into the reach of the caller's key: no tool lets an agent choose one
    )

    def visible_in(self, project: Any) -> ScopeKwargs:
        """Return the search scope: the given or current project; everywhere, if requested or if none is known."""
        where = self._resolve_project(project)
        return {} if where in (None, EVERYWHERE) else {"visible_in": where or ""}

    def kept_in(self, project: Any) -> str:
        """Return the project of a new memory; "" for none."""
        where = self._resolve_project(project)
        if where == EVERYWHERE:
            hint = 'Omit `project`, name one, or give "" for none.'
            raise InvalidInput(f"`project` is {EVERYWHERE!r}, but a new memory belongs to one project.", hint)
        return where or ""

    def source(self, project: str) -> str:
        """Return the source of memories that this caller adds: client/name."""
        return self.within("/".join(part for part in (self.client, projects.name(project)) if part)[:MAX_LABEL])

    def _resolve_project(self, project: Any) -> str | None:
        if project is None:
            return self.project
        return self.named(check_text(project, "project", MAX_LABEL).strip())


def folder_or_name(name: str) -> str:
    """Return the project of a local folder if the name is its path; else the name itself."""
    try:
        is_folder = name.startswith("/") and Path(name).is_dir()
    except OSError:  # such as a name that is too long for a path
        is_folder = False
    return projects.project_of(name) if is_folder else name
