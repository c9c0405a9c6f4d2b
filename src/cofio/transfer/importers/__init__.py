"""Readers of other tools' memories, as facts.

A reader opens the tool's files on disk. It does not need the tool, executes nothing from the files, and does not change
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from cofio.errors import InvalidInput
from cofio.transfer.importers import claude_code, claude_mem, markdown_folder, mcp_memory_service, mem0
from cofio.transfer.importers.base import Found, Importer, SkippedEntry

__all__ = ["READERS", "Found", "Importer", "SkippedEntry", "sniff"]

_SPECIFIC = (mem0.JSON, mem0.QDRANT, mcp_memory_service.READER, claude_mem.READER, claude_code.READER)
#: By name, specific readers before the general one: any folder may hold Markdown.
READERS: Mapping[str, Importer] = MappingProxyType(
    {reader.name: reader for reader in (*_SPECIFIC, markdown_folder.READER)}
)


def sniff(path: Path) -> str:
    """Return the name of the reader for a path."""
    if not path.exists():
        raise InvalidInput(f"{path} does not exist.", "Give the file or folder of another tool's memories.")
    for reader in READERS.values():
        if reader.fits(path):
            return reader.name
    formats = "; ".join(f"{reader.says} ({reader.name})" for reader in READERS.values())
    raise InvalidInput(f"{path} has none of the known formats.", f"Known formats: {formats}.")
