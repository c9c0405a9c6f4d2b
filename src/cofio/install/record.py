"""What the installer wrote, where, and what stood there before: `install.json` and `backups/` in the home."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from cofio.errors import Misconfigured
from cofio.install import files

NAME = "install.json"
BACKUPS = "backups"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One file: whose client it serves, how ours is taken out of it, and its state before and after us."""

    path: str
    client: str
    kind: str
    existed: bool
    after: str  # the digest of what we left
    before: str = ""  # the digest of what was there
    backup: str = ""  # the name of its copy among the backups
    ours: tuple[str, ...] = ()  # the commands by which our hooks are told


@dataclass(slots=True)
class Record:
    """All entries, by path, and the folders that were made. Every change is on disk when a method returns."""

    home: Path
    entries: dict[str, Entry] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)

    @classmethod
    def load(cls, home: Path) -> Record:
        """The record of this home; an empty one where nothing was installed."""
        content = files.read(home / NAME)
        if content is None:
            return cls(home)
        try:
            told = json.loads(content)
            entries = [_entry(each) for each in told["files"]]
            return cls(home, {each.path: each for each in entries}, [str(each) for each in told["folders"]])
        except (ValueError, KeyError, TypeError) as error:
            hint = "Move it away; uninstalling then takes out what it recognises."
            raise Misconfigured(f"{home / NAME} is not the installer's record.", hint) from error

    def clients(self) -> list[str]:
        """The clients that something is installed for, in order."""
        return sorted({each.client for each in self.entries.values() if each.client})

    def of(self, client: str) -> list[Entry]:
        """What was written for a client, in order."""
        return [each for each in self.entries.values() if each.client == client]

    def original(self, entry: Entry) -> bytes | None:
        """What stood there before us; None where it was not there, or its copy is gone."""
        return files.read(self.home / BACKUPS / entry.backup) if entry.backup else None

    def keep(self, path: Path, content: bytes) -> str:
        """Put a copy aside, for its owner alone; its name."""
        name = f"{path.name.lstrip('.')}-{files.digest(os.fsencode(path))[:8]}-{files.digest(content)[:8]}"
        files.write(self.home / BACKUPS / name, content, mode=0o600)
        return name

    def add(self, entry: Entry, folders: list[Path]) -> None:
        """Write an entry down, before the file itself is touched."""
        replaced = self.entries.get(entry.path)
        self.entries[entry.path] = entry
        self.folders += [str(each) for each in folders if str(each) not in self.folders]
        self._save()
        if replaced:
            self._leave_copy(replaced)

    def drop(self, entry: Entry) -> None:
        """Forget an entry and its copy."""
        del self.entries[entry.path]
        self._leave_copy(entry)
        self._save()

    def _leave_copy(self, entry: Entry) -> None:
        """Remove an entry's copy, unless another entry has the same."""
        if entry.backup and entry.backup not in {each.backup for each in self.entries.values()}:
            (self.home / BACKUPS / entry.backup).unlink(missing_ok=True)

    def leave_folders(self) -> list[str]:
        """Remove the folders that we made and that are empty now; the others are kept, and forgotten with the last."""
        gone = []
        for name in sorted(self.folders, key=len, reverse=True):
            try:
                Path(name).rmdir()
            except FileNotFoundError:
                self.folders.remove(name)
            except OSError:  # somebody keeps something in it
                continue
            else:
                gone.append(name)
                self.folders.remove(name)
        self._save()
        return gone

    def _save(self) -> None:
        if not self.entries:
            (self.home / NAME).unlink(missing_ok=True)
            if (self.home / BACKUPS).is_dir() and not any((self.home / BACKUPS).iterdir()):
                (self.home / BACKUPS).rmdir()
            return
        told = {"version": 1, "files": [asdict(each) for each in self.entries.values()], "folders": self.folders}
        files.write(self.home / NAME, json.dumps(told, indent=2).encode(), mode=0o600)


def _entry(told: dict[str, Any]) -> Entry:
    known = {each.name: told[each.name] for each in fields(Entry) if each.name in told}
    return Entry(**{**known, "ours": tuple(known.get("ours", ()))})
