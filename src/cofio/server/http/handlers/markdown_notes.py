"""Handlers for Markdown notes: flush a summary, index a folder, export memories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cofio.errors import InvalidInput, NotFound
from cofio.server.http import requests
from cofio.server.http.context import AppState, RequestContext
from cofio.server.http.handlers.memories import format_outcome
from cofio.server.http.responses import HandlerReply

Plain = dict[str, Any]


def flush_note(state: AppState, request: requests.FlushRequest, context: RequestContext) -> HandlerReply:
    fields = request.fact_fields()
    change = state.keeper.notes.flush(request.summary, fields.pop("tags", ()), by=context.by, **fields)
    body = {**format_outcome(change), "changeset": change.changeset, "memory": change.memory.as_dict()}
    return HandlerReply(body, 200 if change.action == "noop" else 201)


def index_notes(state: AppState, request: requests.IndexNotesRequest, context: RequestContext) -> Plain:
    folder = _check_folder(request.folder) if request.folder else None
    return state.keeper.notes.index(folder, label=request.label, dry_run=request.dry_run, by=context.by).as_dict()


def export_notes(state: AppState, request: requests.ExportNotesRequest, context: RequestContext) -> Plain:  # noqa: ARG001
    return state.keeper.notes.export(_check_folder(request.folder), **request.scope_fields()).as_dict()


def _check_folder(text: str) -> Path:
    """Return the folder after validation. Only absolute paths: the service's working directory is unspecified."""
    if "\0" in text or not Path(text).is_absolute():
        raise InvalidInput(
            f"folder is {text!r}, which is not an absolute path.",
            "Give the absolute path of a folder on the service's machine.",
        )
    folder = Path(text)
    try:
        resolved = folder.resolve(strict=True)
    except FileNotFoundError as error:
        raise NotFound(
            f"There is no folder {text}.", "Give the path of an existing folder on the service's machine."
        ) from error
    except (OSError, RuntimeError, UnicodeEncodeError) as error:
        raise InvalidInput(f"{text!r} cannot be read.", "Give a folder that the service may read.") from error
    if not resolved.is_dir():
        raise InvalidInput(f"{text} is not a folder.", "Give the folder that contains the notes.")
    if resolved == Path(resolved.anchor):
        raise InvalidInput(f"{text} is the root of the file system.", "Give the folder that contains the notes.")
    return folder
