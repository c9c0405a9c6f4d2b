"""Handlers for keys (create, list, revoke) and for the audit log. Admins only."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from cofio.server.http import requests
from cofio.server.http.context import Call, Desk
from cofio.server.http.responses import Reply

Plain = dict[str, Any]


def create_key(desk: Desk, given: requests.NewKey, call: Call) -> Reply:
    key, secret = desk.keeper.create_key(given.as_grant(), by=call.by, deed=call.deed())
    return Reply({**key.as_dict(), "secret": secret}, 201)


def list_keys(desk: Desk, given: None, call: Call) -> Plain:  # noqa: ARG001
    made = desk.keeper.keys()
    return {"keys": [each.as_dict() for each in made]}


def revoke_key(desk: Desk, given: None, call: Call) -> Plain:  # noqa: ARG001
    return desk.keeper.revoke_key(call.id, by=call.by, deed=call.deed()).as_dict()


def log(desk: Desk, given: requests.Deeds, call: Call) -> Plain:  # noqa: ARG001
    key, after = (None if each is UNSET else each for each in (given.key, given.after))
    found = desk.keeper.deeds(limit=given.limit, after=after, key=key)
    following = found[-1].id if len(found) == given.limit else None
    return {"deeds": [each.as_dict() for each in found], "next": following}
