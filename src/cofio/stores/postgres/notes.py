"""Index of the Markdown files that were read, on the server."""

from __future__ import annotations

from collections.abc import Sequence

from cofio.models.notes import FileState
from cofio.ports import Clock
from cofio.stores.notes import to_filed, to_rows
from cofio.stores.postgres.connection import PostgresServer


class PostgresNotes:
    """Notes of one tenant of a PostgreSQL database."""

    def __init__(self, server: PostgresServer, clock: Clock) -> None:
        self._server = server
        self._clock = clock

    def folders(self) -> list[str]:
        with self._server.reading() as rows:
            return [folder for (folder,) in rows.all("note_folders")]

    def files(self, folder: str) -> dict[str, FileState]:
        with self._server.reading() as rows:
            return {row[0]: to_filed(row) for row in rows.all("noted_files", {"folder": folder})}

    def put(self, folder: str, files: Sequence[FileState]) -> None:
        ordered = sorted(files, key=lambda file: file.path)  # always in this order, to avoid deadlocks
        with self._server.writing() as rows:
            rows.many("put_file", to_rows(folder, ordered, self._clock()))

    def drop(self, folder: str, paths: Sequence[str]) -> None:
        with self._server.writing() as rows:
            rows.many("drop_file", [{"folder": folder, "path": path} for path in sorted(paths)])
