"""Index of the Markdown files that were read, in an SQL store."""

from __future__ import annotations

import json
from collections.abc import Sequence

from cofio.models.markdown_notes import FiledPart, FileState
from cofio.stores.query_runner import SqlAdapter
from cofio.stores.row_mapping import as_json


class SqlNotes(SqlAdapter):
    """Notes of an SQL store."""

    def folders(self) -> list[str]:
        return [row[0] for row in self._read("note_folders")]

    def files(self, folder: str) -> dict[str, FileState]:
        files = {}
        for path, digest, size, modified, at, parts in self._read("noted_files", {"folder": folder}):
            filed = tuple(map(FiledPart._make, json.loads(parts)))
            files[path] = FileState(path=path, hash=digest, size=size, modified=modified, at=at, parts=filed)
        return files

    def put(self, folder: str, files: Sequence[FileState]) -> None:
        at = self._clock()
        rows = [
            {
                "folder": folder,
                "path": file.path,
                "hash": file.hash,
                "size": file.size,
                "modified": file.modified,
                "at": file.at or at,
                "parts": as_json([list(part) for part in file.parts]),
            }
            for file in sorted(files, key=lambda file: file.path)  # always in this order, to avoid deadlocks
        ]
        with self._database.writing() as queries:
            queries.many("put_file", rows)

    def drop(self, folder: str, paths: Sequence[str]) -> None:
        with self._database.writing() as queries:
            queries.many("drop_file", [{"folder": folder, "path": path} for path in sorted(paths)])
