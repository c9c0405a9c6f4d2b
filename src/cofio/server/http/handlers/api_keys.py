"""Handlers for keys (create, list, revoke) and for the audit log. Admins only."""

from __future__ import annotations

from typing import Any

from cofio.server.http import requests
from cofio.server.http.context import AppState, RequestContext
from cofio.server.http.responses import HandlerReply

Plain = dict[str, Any]


def create_key(state: AppState, request: requests.NewKeyRequest, context: RequestContext) -> HandlerReply:
    key, secret = state.keeper.create_key(request.as_grant(), by=context.by, entry=context.entry())
    return HandlerReply({**key.as_dict(), "secret": secret}, 201)


def revoke_key(state: AppState, request: None, context: RequestContext) -> Plain:  # noqa: ARG001
    return state.keeper.revoke_key(context.id, by=context.by, entry=context.entry()).as_dict()
