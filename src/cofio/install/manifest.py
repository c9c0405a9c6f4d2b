"""Record of installed files and their originals: `install.json` and `backups/` in the home."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from cofio.errors import Misconfigured
from cofio.install import files

NAME = "install.json"
BACKUPS = "backups"


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntry:
    """A file: its client, the kind of entry to remove, and its state before and after installation."""

    path: str
    client: str
    kind: str
    existed: bool
    after: str  # digest of the file as we wrote it
    before: str = ""  # digest of the original
    backup: str = ""  # name of the original among the backups
    ours: tuple[str, ...] = ()  # commands that identify our hooks


@dataclass(slots=True)
class Manifest:
    """All entries by path, and the folders we created. Every change is on disk when a method returns."""

    home: Path
    entries: dict[str, ManifestEntry] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)

    @classmethod
    def load(cls, home: Path) -> Manifest:
        """Load the record of this home; an empty one if nothing was installed."""
        content = files.read(home / NAME)
        if content is None:
            return cls(home)
        try:
            data = json.loads(content)
            entries = [_make_entry(item) for item in data["files"]]
            return cls(home, {entry.path: entry for entry in entries}, [str(item) for item in data["folders"]])
        except (ValueError, KeyError, TypeError) as error:
            hint = "Move it away; `cofio uninstall` then removes the entries that it recognises as its own."
            raise Misconfigured(f"{home / NAME} is not a valid record of `cofio install`.", hint) from error

    def clients(self) -> list[str]:
        """Return the sorted clients with entries."""
        return sorted({entry.client for entry in self.entries.values() if entry.client})

    def of(self, client: str) -> list[ManifestEntry]:
        """Return the entries of a client, in order."""
        return [entry for entry in self.entries.values() if entry.client == client]

    def original(self, entry: ManifestEntry) -> bytes | None:
        """Return the original content; None if there was no file or its backup is missing."""
        return files.read(self.home / BACKUPS / entry.backup) if entry.backup else None

    def keep(self, path: Path, content: bytes) -> str:
        """Save a backup, readable by its owner only; return its name."""
        name = f"{path.name.lstrip('.')}-{files.digest(os.fsencode(path))[:8]}-{files.digest(content)[:8]}"
        files.write(self.home / BACKUPS / name, content, mode=0o600)
        return name

    def add(self, entry: ManifestEntry, folders: list[Path]) -> None:
        """Record an entry before the file itself is written."""
        previous = self.entries.get(entry.path)
        self.entries[entry.path] = entry
        self.folders += [str(folder) for folder in folders if str(folder) not in self.folders]
        self._save()
        if previous:
            self._leave_copy(previous)

    def drop(self, entry: ManifestEntry) -> None:
        """Remove an entry and its backup."""
        del self.entries[entry.path]
        self._leave_copy(entry)
        self._save()

    def _leave_copy(self, entry: ManifestEntry) -> None:
        """Delete an entry's backup, unless another entry shares it."""
        if entry.backup and entry.backup not in {other.backup for other in self.entries.values()}:
            (self.home / BACKUPS / entry.backup).unlink(missing_ok=True)

    def leave_folders(self) -> None:
        """Delete the folders that we created and that are empty; others are kept."""
        for name in sorted(self.folders, key=len, reverse=True):
            with suppress(OSError):  # the folder is not empty
                if Path(name).exists():
                    Path(name).rmdir()
                self.folders.remove(name)
        self._save()

    def _save(self) -> None:
        if not self.entries:
            (self.home / NAME).unlink(missing_ok=True)
            if (self.home / BACKUPS).is_dir() and not any((self.home / BACKUPS).iterdir()):
                (self.home / BACKUPS).rmdir()
            return
        data = {"version": 1, "files": [asdict(entry) for entry in self.entries.values()], "folders": self.folders}
        files.write(self.home / NAME, json.dumps(data, indent=2).encode(), mode=0o600)


def _make_entry(data: dict[str, Any]) -> ManifestEntry:
    values = {attribute.name: data[attribute.name] for attribute in fields(ManifestEntry) if attribute.name in data}
    return ManifestEntry(**{**values, "ours": tuple(values.get("ours", ()))})
