"""Handlers for Markdown notes: flush a summary, index a folder, export memories."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from cofio.errors import InvalidInput, NotFound
from cofio.server.http import requests
from cofio.server.http.context import AppState, RequestContext
from cofio.server.http.handlers.memories import settled
from cofio.server.http.responses import HandlerReply

Plain = dict[str, Any]


def flush_note(desk: AppState, given: requests.FlushRequest, call: RequestContext) -> HandlerReply:
    about = given.about()
    change = desk.keeper.notes.flush(given.summary, about.pop("tags", ()), by=call.by, **about)
    told = {**settled(change), "changeset": change.changeset, "memory": change.memory.as_dict()}
    return HandlerReply(told, 200 if change.action == "noop" else 201)


def list_notes(desk: AppState, given: None, call: RequestContext) -> Plain:  # noqa: ARG001
    return {"folders": [asdict(each) for each in desk.keeper.notes.folders()]}


def index_notes(desk: AppState, given: requests.IndexNotesRequest, call: RequestContext) -> Plain:
    folder = _there(given.folder) if given.folder else None
    return desk.keeper.notes.index(folder, label=given.label, dry_run=given.dry_run, by=call.by).as_dict()


def export_notes(desk: AppState, given: requests.ExportNotesRequest, call: RequestContext) -> Plain:  # noqa: ARG001
    return desk.keeper.notes.export(_there(given.folder), **given.within()).as_dict()


def _there(said: str) -> Path:
    """Return the folder after validation. Only absolute paths: the service's working directory is unspecified."""
    if "\0" in said or not Path(said).is_absolute():
        raise InvalidInput(f"folder is {said!r}.", "Give the absolute path of a folder on the service's machine.")
    folder = Path(said)
    try:
        found = folder.resolve(strict=True)
    except FileNotFoundError as error:
        raise NotFound(f"There is no folder {said}.", "It must be on the service's machine.") from error
    except (OSError, RuntimeError, UnicodeEncodeError) as error:
        raise InvalidInput(f"{said!r} cannot be read.", "Give a folder that the service may read.") from error
    if not found.is_dir():
        raise InvalidInput(f"{said} is not a folder.", "Give the folder that contains the notes.")
    if found == Path(found.anchor):
        raise InvalidInput(f"{said} is the root of the file system.", "Give the folder that contains the notes.")
    return folder
