"""Handlers for bulk changes of memories, and for the capture that a memory was learned from."""

from __future__ import annotations

from typing import Any

from cofio.server.http import requests
from cofio.server.http.context import Call, Desk

Plain = dict[str, Any]


def change_all(desk: Desk, given: requests.Bulk, call: Call) -> Plain:
    done = desk.keeper.bulk(
        given.ids, given.action, changes=given.fields(), tags=given.tags, by=call.by, why=given.reason()
    )
    return done.as_dict()


def exchange(desk: Desk, given: None, call: Call) -> Plain:  # noqa: ARG001
    item = desk.keeper.learned_from(call.id)
    return {"id": call.id, "item": item.as_dict() if item else None}
