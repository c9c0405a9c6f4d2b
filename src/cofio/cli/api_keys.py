"""Commands on API keys: create, list, revoke, and their audit log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import click

from cofio.cli import output
from cofio.cli.output import ID, WHEN, Field, TimeType
from cofio.cli.shared_options import BY, CliContext, command, command_group, limit_option
from cofio.errors import NotFound
from cofio.models.auth import ROLES, Grant, Key
from cofio.models.memory import to_utc_iso

_NAME = Field("name", wraps=True)


@command_group(
    "keys",
    'cofio keys create "ada\'s laptop" --user ada --team web',
    "cofio keys create ci --agent ci --role read --prefix ci/web --expires 90d",
    "cofio keys list",
    "cofio keys revoke ci",
    "cofio keys log --key ci",
)
def keys() -> None:
    """Create, list and revoke keys for the service, and read their audit log."""


@command(
    "create",
    'cofio keys create "ada\'s laptop" --user ada --team web',
    "cofio keys create ci --agent ci --role read --prefix ci/web --expires 90d",
    "cofio keys create root --role admin",
    group=keys,
)
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice(ROLES),
    default="write",
    show_default=True,
    help="Role of the key; admin may do everything.",
)
@click.option("--agent", default="", metavar="NAME", help="Agent that uses the key; its requests act as this agent.")
@click.option("--user", default="", metavar="NAME", help="User that uses the key; its requests act as this user.")
@click.option("--team", default="", metavar="NAME", help="Team of the user or agent.")
@click.option("--prefix", "prefixes", metavar="SOURCE", multiple=True,
              help="Source that the key may read and write, including those below it; default: all.")  # fmt: skip
@click.option(
    "--expires", "expires_at", type=TimeType(1), help="Expiry: 2027-01-31, or a duration: 90d. Default: never."
)
def create(session: CliContext, **about: Any) -> None:
    """Create a key and print it. It cannot be shown again: only a digest is stored.

    A key reads and writes for a user or an agent, as a member of a team. An admin key has full access. As soon as the
    first key exists, the service requires a key from everyone; commands and hooks of its home send that of the home.
    """
    grant = Grant(**about)
    with session.store(new=True) as store:
        is_first = not any(map(_is_active, store.keys()))
        key, secret = store.create_key(grant, by=BY)
    if session.print_json({**key.as_dict(), "secret": secret}):
        return
    grant = key.grant
    fields = [("name", grant.name), ("role", grant.role), ("for", _describe_owner(grant)), ("sources", grant.prefixes)]
    output.facts_about([("id", key.id), *fields, ("expires_at", grant.expires_at), ("key", secret)])
    output.say(
        "The key is shown only this once. Clients read it from COFIO_API_KEY and send it as the header X-API-Key:"
    )
    output.say(f"  export COFIO_API_KEY={secret}")
    if is_first and not session.settings.api_key:
        output.say(
            "This is the first active key: from now on the service requires a key from everyone. Your own commands and "
            "hooks on this machine send the key of their home by themselves."
        )


@command("list", "cofio keys list", "cofio keys list --json", group=keys)
def list_(session: CliContext) -> None:
    """List all keys, newest first, including revoked ones. Only the first characters of a key are shown."""
    with session.store() as store:
        stored_keys = store.keys()
    rows = (
        (key.id, key.grant.name, key.grant.role, _describe_owner(key.grant), key.grant.prefixes, _format_state(key),
         output.when(key.last_used_at) or "never", key.hint)
        for key in stored_keys
    )  # fmt: skip
    columns = (ID, _NAME, Field("role"), Field("for", wraps=True), Field("sources", wraps=True), Field("state"),
               Field("last used", "dim"), Field("begins", "dim"))  # fmt: skip
    session.print_table({"keys": stored_keys}, columns, rows, "There are no keys; `cofio keys create` creates one.")


def _describe_owner(grant: Grant) -> str:
    owners = (("user", grant.user), ("agent", grant.agent), ("team", grant.team))
    return ", ".join(f"{label} {name}" for label, name in owners if name) or "everything"


def _format_state(key: Key) -> str:
    if key.revoked_at:
        return f"revoked {output.when(key.revoked_at)}"
    if not _is_active(key):
        return f"expired {output.when(key.grant.expires_at)}"
    return f"until {(key.grant.expires_at or '')[:10]}" if key.grant.expires_at else "active"


def _is_active(key: Key) -> bool:
    return key.is_valid(to_utc_iso(datetime.now(UTC)))


@command("revoke", "cofio keys revoke 3", 'cofio keys revoke "ada\'s laptop"', group=keys)
@click.argument("key", metavar="ID|NAME")
def revoke(session: CliContext, key: str) -> None:
    """Revoke a key: it stops working within seconds. It stays in the list and in the log."""
    with session.store() as store:
        revoked_key = store.revoke_key(_find_key(key, store.keys()).id, by=BY)
        has_active = any(map(_is_active, store.keys()))
    if session.print_json(revoked_key):
        return
    output.say(f"Key {revoked_key.id} ({revoked_key.grant.name}) is revoked.")
    if not has_active and not session.settings.api_key:
        output.say(
            "No key is active now: a service without COFIO_API_KEY is open to your programs on this machine again."
        )


def _find_key(reference: str, stored_keys: Sequence[Key]) -> Key:
    """Return the key with this id or name; an active one is preferred to revoked ones of the same name."""
    by_name = [key for key in stored_keys if key.grant.name == reference]
    active = [key for key in by_name if not key.revoked_at]
    matches = [key for key in stored_keys if str(key.id) == reference] or active or by_name
    if not matches:
        raise NotFound(f"There is no key {reference!r}.", "`cofio keys list` lists all keys.")
    return matches[0]


@command("log", "cofio keys log", "cofio keys log --key ci --limit 100", "cofio keys log --json", group=keys)
@click.option("--key", metavar="ID|NAME", help="Only operations with this key.")
@limit_option(50, "audit log entries", 1_000, short=False)
def log(session: CliContext, key: str | None, limit: int) -> None:
    """Show the audit log, newest first.

    It contains created and revoked keys, changes made with keys, and denied requests.
    """
    with session.store() as store:
        entries = store.audit_entries(limit=limit, key=_find_key(key, store.keys()).id if key else None)
    columns = (WHEN, Field("outcome"), Field("key", "cyan", "right"), _NAME, Field("operation", wraps=True),
               Field("about", wraps=True), Field("from", "dim"))  # fmt: skip
    rows = (
        (output.when(entry.at), entry.outcome, entry.key or "", entry.name, entry.act, entry.what, entry.address)
        for entry in entries
    )
    session.print_table({"entries": entries}, columns, rows, "The audit log is empty.")
