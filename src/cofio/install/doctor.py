"""The doctor: every check in order, from our own house over the service to a proof with each client's hooks."""

from __future__ import annotations

from collections.abc import Iterator

from cofio import daemon
from cofio.client import Client
from cofio.errors import CofioError
from cofio.install import checks, places, proof
from cofio.install.checks import Check
from cofio.install.jsonc import Malformed
from cofio.install.record import Record
from cofio.settings import Settings

_PATIENCE = 30.0


def examine(settings: Settings) -> Iterator[Check]:
    """One check after the other, as they are made."""
    yield checks.versions()
    yield checks.home(settings)
    yield checks.config(settings)
    yield checks.launcher(settings)
    state = daemon.status(settings)
    yield checks.service(settings, state)
    usable = state["answering"] and state["key"] in ("ok", "not needed")
    service = Client(state["url"], settings.api_key, timeout=_PATIENCE) if usable else None
    try:
        if service:
            yield checks.embedder(service)
        yield checks.model(settings, service)
        yield from checks.waiting(settings, service)
        yield from _clients(settings, service)
    finally:
        if service:
            service.close()


def _clients(settings: Settings, service: Client | None) -> Iterator[Check]:
    record = Record.load(settings.home)
    found = [each for each in places.CLIENTS if each in {*places.found(settings), *record.clients()}]
    if not found:
        yield Check("clients", "warning", "No client was found on this machine.", "`cofio install CLIENT` names one.")
    for client in found:
        yield from checks.of_client(client, settings, record)
        try:
            commands = checks.commands(client, settings)
        except (Malformed, CofioError):
            continue  # the check before has said so
        if commands:
            yield from proof.of_client(client, commands, settings, service)
