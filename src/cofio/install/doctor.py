"""The doctor: all checks in order, from the home and the service to a test run of each client's hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cofio.client import Client
from cofio.errors import CofioError
from cofio.install import checks, paths, smoke_test
from cofio.install.manifest import Manifest
from cofio.models.diagnostics import Check, ServiceProbe, StoreDamage
from cofio.server import daemon
from cofio.settings import Settings
from cofio.version import __version__

_PATIENCE = 30.0


def examine(settings: Settings, hooks: str = "", verify: Callable[[], StoreDamage] | None = None) -> Iterator[Check]:
    """Yield the checks one by one. `hooks`: the value of COFIO_HOOKS. `verify` reads the whole store."""
    yield checks.versions()
    yield checks.home(settings)
    yield checks.config(settings)
    yield from checks.home_key(settings)
    yield checks.launcher(settings)
    yield from checks.endpoint(settings)
    switched_off = list(checks.switch(hooks))
    yield from switched_off
    state = daemon.status(settings)
    yield checks.service(settings, state)
    yield from checks.check_problems(state)
    if verify:
        yield from checks.integrity(settings, verify)
    usable = state["answering"] and state["key"] in ("ok", "not needed")
    service = Client(*daemon.locate(settings), timeout=_PATIENCE) if usable else None
    try:
        if service:
            smoke_test.sweep(service)
            yield checks.embedder(service)
        yield checks.judge(settings)
        yield checks.model(settings, service)
        yield from checks.check_waiting(settings, service)
        yield from _check_clients(
            settings, service, proving=not switched_off and not checks.check_hangs(settings, state)
        )
    finally:
        if service:
            service.close()


def check_in_process(settings: Settings, service: ServiceProbe, *, clients: bool = False) -> Iterator[Check]:
    """Yield the checks from within the service, called without HTTP; `clients`: only the checks of clients.

    No hook is run, and nothing is changed.
    """
    if not clients:
        yield from (checks.versions(), checks.home(settings), checks.config(settings), checks.launcher(settings))
        yield from checks.home_key(settings)
        instance = daemon.find(settings)
        yield Check("service", "ok", f"{instance.url if instance else settings.service_url}, cofio {__version__}")
        yield from (checks.store(settings, service), checks.embedder(service))
        yield from (checks.judge(settings), checks.model(settings, service))
        waiting = list(checks.check_waiting(settings, service))
        yield from waiting
        if not any(check.name == "inbox" for check in waiting):
            yield Check("inbox", "ok", "no capture is parked")
    yield from _check_clients(settings, None, proving=False)


def _check_clients(settings: Settings, service: Client | None, *, proving: bool) -> Iterator[Check]:
    record = Manifest.load(settings.home)
    clients = [name for name in paths.CLIENTS if name in {*paths.installed_clients(settings), *record.clients()}]
    if not clients:
        yield Check("clients", "warning", "No client was found on this machine.", "`cofio install CLIENT` names one.")
    for client in clients:
        yield from checks.check_client(client, settings, record)
        if not proving:
            continue
        try:
            commands = checks.commands(client, settings)
        except CofioError:
            continue  # reported by the check before
        if commands:
            yield from smoke_test.test_client(client, commands, settings, service)
