"""Handlers for keys (create, list, revoke) and for the audit log. Admins only."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from cofio.server.http import requests
from cofio.server.http.context import AppState, RequestContext
from cofio.server.http.responses import HandlerReply

Plain = dict[str, Any]


def create_key(desk: AppState, given: requests.NewKeyRequest, call: RequestContext) -> HandlerReply:
    key, secret = desk.keeper.create_key(given.as_grant(), by=call.by, deed=call.deed())
    return HandlerReply({**key.as_dict(), "secret": secret}, 201)


def list_keys(desk: AppState, given: None, call: RequestContext) -> Plain:  # noqa: ARG001
    made = desk.keeper.keys()
    return {"keys": [each.as_dict() for each in made]}


def revoke_key(desk: AppState, given: None, call: RequestContext) -> Plain:  # noqa: ARG001
    return desk.keeper.revoke_key(call.id, by=call.by, deed=call.deed()).as_dict()


def log(desk: AppState, given: requests.AuditLogRequest, call: RequestContext) -> Plain:  # noqa: ARG001
    key, after = (None if each is UNSET else each for each in (given.key, given.after))
    found = desk.keeper.deeds(limit=given.limit, after=after, key=key)
    following = found[-1].id if len(found) == given.limit else None
    return {"deeds": [each.as_dict() for each in found], "next": following}
